//! A scripted cloud for unit tests.
