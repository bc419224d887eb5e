//! Placement's errors: `{"errors": [{status, title, detail, request_id}]}`.

use serde_json::json;

use crate::wire::{Reply, reason};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    status: u16,
    detail: String,
    /// Whether to name the versions on offer.
    versions: bool,
}

pub(super) type Result<T = Reply> = std::result::Result<T, Error>;

impl Error {
    /// What the service says of a status, with something more.
    pub fn new(status: u16, message: &str) -> Self {
        let intro = match status {
            400 => "The server could not comply with the request since it is either malformed or otherwise incorrect.",
            403 => "Access was denied to this resource.",
            404 => "The resource could not be found.",
            500 => "The server has either erred or is incapable of performing the requested operation.",
            503 => "The server is currently unavailable. Please try again at a later time.",
            other => reason(other),
        };
        Self { status, detail: format!("{intro}\n\n {message}  "), versions: false }
    }

    pub(super) fn bad(message: &str) -> Self {
        Self::new(400, message)
    }

    pub(super) fn query(problem: &str) -> Self {
        Self::bad(&format!("Invalid query string parameters: {problem}"))
    }

    pub(super) fn not_found(message: &str) -> Self {
        Self::new(404, message)
    }

    pub(super) fn policy(rule: &str) -> Self {
        Self::new(403, &format!("Policy does not allow {rule} to be performed."))
    }

    pub(super) fn method(method: &str) -> Self {
        let detail = format!(
            "The method {method} is not allowed for this resource. \n\n The method specified is not allowed for this resource."
        );
        Self { status: 405, detail, versions: false }
    }

    pub(super) fn version(asked: &str) -> Self {
        let detail = format!(
            "The resource could not be generated that was acceptable to your browser (content of type application/json. \n\n \
             Invalid microversion: Unacceptable version header: {asked}"
        );
        Self { status: 406, detail, versions: true }
    }

    pub fn reply(&self, request: &str) -> Reply {
        let mut error = json!({
            "status": self.status,
            "title": reason(self.status),
            "detail": self.detail,
            "request_id": request,
        });
        if self.versions {
            error["min_version"] = json!("1.0");
            error["max_version"] = json!("1.39");
        }
        Reply::json(self.status, json!({"errors": [error]}))
    }
}
