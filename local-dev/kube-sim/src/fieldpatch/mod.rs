//! Changes to objects: the four patch formats, and the record of who owns which field.
//!
//! Everything here is a pure function from JSON to JSON. The server reads and writes the store, checks resource versions, and runs
//! defaulting and validation around these functions:
//!
//! * create, replace, and the three plain patches: compute the new object, prune, default, validate it, then call [`track_update`].
//! * server-side apply: call [`apply`], then prune, default and validate what it returns; [`track_update`] is *not* called.
//!
//! Invariants: a patch never changes its input; the same patch applied again changes nothing; hostile patches cost no more than a small
//! multiple of the size of the document (see [`json_patch`] for the bound on copies).

mod apply;
mod error;
mod json_patch;
mod managed;
mod merge;
mod set;
mod strategic;
mod typed;

pub use apply::{apply, track_update};
pub use error::Error;
pub use json_patch::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge;

/// Who writes, for `metadata.managedFields`.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// The field manager: `?fieldManager=`, else the User-Agent up to its first `/`.
    pub manager: &'a str,
    /// `group/version`, or `version` for the core group.
    pub api_version: &'a str,
    /// `Some("status")` for a write to the status subresource.
    pub subresource: Option<&'a str>,
    /// Whether the kind has a status subresource: `status` is then dropped from an apply to the main resource.
    pub has_status: bool,
    /// Now, as RFC 3339 with seconds, in UTC.
    pub time: &'a str,
}

#[cfg(test)]
mod tests;
