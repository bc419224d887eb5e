//! Keystone's errors: `{"error": {code, message, title}}`.

use serde_json::json;

use crate::wire::{Reply, reason};

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

    pub fn unauthorized() -> Self {
        Self::new(401, "The request you have made requires authentication.")
    }

    pub fn forbidden(action: &str) -> Self {
        Self::new(403, format!("You are not authorized to perform the requested action: {action}."))
    }

    pub fn not_found(kind: &str, id: &str) -> Self {
        Self::new(404, format!("Could not find {kind}: {id}."))
    }

    pub fn no_token() -> Self {
        Self::new(404, "Could not recognize Fernet token")
    }

    pub fn expecting(attribute: &str, place: &str) -> Self {
        Self::new(
            400,
            format!(
                "Expecting to find {attribute} in {place}. The server could not comply with the request since it is either \
                 malformed or otherwise incorrect. The client is assumed to be in error."
            ),
        )
    }

    pub fn invalid(attribute: &str, value: &serde_json::Value, problem: &str) -> Self {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self::new(400, format!("Invalid input for field/attribute {attribute}. Value: {value}. {problem}"))
    }

    pub fn malformed() -> Self {
        Self::new(
            400,
            "Expecting to find valid JSON in request body. The server could not comply with the request since it is \
             either malformed or otherwise incorrect. The client is assumed to be in error.",
        )
    }

    pub fn duplicate(kind: &str, name: &str, domain: &str) -> Self {
        let message = format!(
            "Conflict occurred attempting to store {kind} - Duplicate entry found with name {name} at domain ID {domain}."
        );
        Self::new(409, message)
    }

    pub fn reply(&self, url: &str) -> Reply {
        let body = json!({"error": {"code": self.status, "message": self.message, "title": reason(self.status)}});
        let reply = Reply::json(self.status, body);
        match self.status {
            401 => reply.with("WWW-Authenticate", format!("Keystone uri=\"{url}/identity/v3\"")),
            _ => reply,
        }
    }
}
