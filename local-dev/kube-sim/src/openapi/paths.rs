//! Paths of the documents.
