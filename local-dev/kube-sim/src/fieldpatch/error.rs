//! Why a patch could not be carried out, in the words of the API server.

use crate::schema::Cause;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One field which another manager owns with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager as messages show it: `"m1"`, or `"m1" using v1` for one that did not apply.
    pub manager: String,
    /// The field's path: `.spec.ports[name="h"].port`.
    pub field: String,
}

/// A patch that could not be carried out. [`Error::code`] is the HTTP status to answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// 400: the body is not a patch.
    #[error("{0}")]
    Malformed(String),
    /// 422 without any detail: a JSON patch whose test failed, whose path is missing, or whose operation is unknown.
    #[error("the server rejected our request due to an error in our request")]
    Rejected,
    /// 413: more operations than the server takes.
    #[error("Request entity too large: The allowed maximum operations in a JSON patch is {limit}, got {got}")]
    TooManyOperations {
        /// The most operations a patch may have.
        limit: usize,
        /// How many it had.
        got: usize,
    },
    /// 500: an applied object that does not fit the schema's structure.
    #[error("failed to create typed patch object ({object}): {problem}")]
    Untyped {
        /// `namespace/name; apiVersion, Kind=Kind`.
        object: String,
        /// What does not fit, and where.
        problem: String,
    },
    /// 409: other managers own fields of this apply.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
}

impl Error {
    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Error::Malformed(_) => 400,
            Error::Conflicts(_) => 409,
            Error::TooManyOperations { .. } => 413,
            Error::Rejected => 422,
            Error::Untyped { .. } => 500,
        }
    }

    /// The causes of a 409 of server-side apply; else none.
    pub fn causes(&self) -> Vec<Cause> {
        let Error::Conflicts(conflicts) = self else { return Vec::new() };
        let cause = |c: &Conflict| Cause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with {}", c.manager),
            field: c.field.clone(),
        };
        conflicts.iter().map(cause).collect()
    }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.field);
    }
    let mut by_manager: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for conflict in conflicts {
        by_manager.entry(&conflict.manager).or_default().push(&conflict.field);
    }
    let mut message = format!("Apply failed with {} conflicts: ", conflicts.len());
    for (i, (manager, fields)) in by_manager.iter().enumerate() {
        let separator = if i == 0 { "" } else { "\n" };
        let _ = write!(message, "{separator}conflicts with {manager}:");
        for field in fields {
            let _ = write!(message, "\n- {field}");
        }
    }
    message
}
