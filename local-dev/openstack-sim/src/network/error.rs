//! Neutron's errors: `{"NeutronError": {type, message, detail}}`.

use serde_json::json;

use crate::wire::Reply;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    pub status: u16,
    pub kind: String,
    pub message: String,
}

pub(crate) type Result<T = Reply> = std::result::Result<T, Error>;

impl Error {
    pub fn new(status: u16, kind: &str, message: impl Into<String>) -> Self {
        Self { status, kind: kind.to_owned(), message: message.into() }
    }

    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "HTTPBadRequest", message)
    }

    /// A value that an attribute cannot have.
    pub fn invalid(attribute: &str, reason: impl std::fmt::Display) -> Self {
        Self::bad(format!("Invalid input for {attribute}. Reason: {reason}."))
    }

    /// A value that makes no sense in this place.
    pub fn input(reason: impl std::fmt::Display) -> Self {
        Self::new(400, "InvalidInput", format!("Invalid input for operation: {reason}."))
    }

    pub fn not_found(kind: &str, id: &str) -> Self {
        match kind {
            "SecurityGroup" => Self::new(404, "SecurityGroupNotFound", format!("Security group {id} does not exist")),
            "SecurityGroupRule" => {
                Self::new(404, "SecurityGroupRuleNotFound", format!("Security group rule {id} does not exist"))
            }
            "FloatingIP" => Self::new(404, "FloatingIPNotFound", format!("Floating IP {id} could not be found")),
            _ => Self::new(404, &format!("{kind}NotFound"), format!("{kind} {id} could not be found.")),
        }
    }

    pub fn no_route() -> Self {
        Self::new(404, "HTTPNotFound", "The resource could not be found.")
    }

    pub fn policy(rule: &str) -> Self {
        Self::new(403, "PolicyNotAuthorized", format!("rule:{rule} is disallowed by policy"))
    }

    pub fn over_quota(resource: &str) -> Self {
        Self::new(409, "OverQuota", format!("Quota exceeded for resources: ['{resource}']."))
    }

    pub fn router(reason: impl std::fmt::Display) -> Self {
        Self::new(400, "BadRequest", format!("Bad router request: {reason}."))
    }

    pub fn floating_ip(reason: impl std::fmt::Display) -> Self {
        Self::new(400, "BadRequest", format!("Bad floatingip request: {reason}."))
    }

    pub fn reply(&self) -> Reply {
        let body = json!({"NeutronError": {"type": self.kind, "message": self.message, "detail": ""}});
        Reply::json(self.status, body)
    }
}
