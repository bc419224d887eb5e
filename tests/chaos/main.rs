//! Chaos: to come.
