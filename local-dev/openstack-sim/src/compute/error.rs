//! Nova's errors: `{"itemNotFound": {code, message}}`. Cinder's look the same.

use serde_json::{Value, json};

use crate::wire::Reply;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    pub status: u16,
    pub message: String,
}

pub(crate) type Result<T = Reply> = std::result::Result<T, Error>;

impl Error {
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    /// A value in a body that the schema does not allow.
    pub fn invalid(attribute: &str, value: &Value, problem: &str) -> Self {
        let mut value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if value.len() > 256 {
            value = format!("{}…", value.chars().take(256).collect::<String>());
        }
        Self::bad(format!("Invalid input for field/attribute {attribute}. Value: {value}. {problem}"))
    }

    /// A value in a query that the schema does not allow.
    pub fn query(parameter: &str, value: &str, kind: &str) -> Self {
        Self::bad(format!(
            "Invalid input for query parameters {parameter}. Value: {value}. '{value}' is not a '{kind}'"
        ))
    }

    pub fn not_found(kind: &str, id: &str) -> Self {
        Self::new(404, format!("{kind} {id} could not be found."))
    }

    pub fn policy(rule: &str) -> Self {
        Self::new(403, format!("Policy doesn't allow {rule} to be performed."))
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, message)
    }

    pub fn reply(&self) -> Reply {
        let kind = match self.status {
            400 => "badRequest",
            401 => "unauthorized",
            403 => "forbidden",
            404 => "itemNotFound",
            405 => "badMethod",
            409 => "conflictingRequest",
            413 | 429 => "overLimit",
            415 => "badMediaType",
            501 => "notImplemented",
            503 => "serviceUnavailable",
            _ => "computeFault",
        };
        Reply::json(self.status, json!({kind: {"code": self.status, "message": self.message}}))
    }
}
