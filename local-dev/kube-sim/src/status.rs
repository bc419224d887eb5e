//! `metav1.Status`: every failure a Kubernetes API server answers, with the codes, reasons and texts clients match on.
//!
//! Texts are part of the contract: client-go, `kubectl` and kube-rs show them to people, and some callers match them. They follow what a
//! real server was observed to say.

use std::fmt::Write as _;

pub use crate::schema::Cause;

/// One failure (or, for deletes, the success) as a `Status` object.
#[derive(Debug, Clone, Default)]
pub struct Status {
    pub code: u16,
    /// Machine readable reason; empty for plain internal errors, as the real server does.
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// `metadata.continue`: a token with which an expired list may go on.
    pub continue_token: Option<String>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// Warnings that go out beside the failure.
    pub warnings: Vec<String>,
}

/// `Status.details`.
#[derive(Debug, Clone, Default)]
pub struct Details {
    pub name: String,
    pub group: String,
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
}

/// Names a resource in messages: `widgets.demo.weir.dev`, or `configmaps` for the core group.
pub fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Status { code, reason, message: message.into(), ..Status::default() }
    }

    fn with(mut self, group: &str, kind: &str, name: &str) -> Self {
        self.details =
            Some(Box::new(Details { name: name.into(), group: group.into(), kind: kind.into(), ..Details::default() }));
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(resource, group)))
            .with(group, resource, name)
    }

    /// What built-in groups answer for a resource they do not have.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with("", "", "")
    }

    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with("", "", "")
    }

    pub fn not_supported(verb: &str, group: &str, resource: &str) -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            format!("{verb} is not supported on resources of kind \"{}\"", qualified(resource, group)),
        )
        .with(group, resource, "")
    }

    pub fn not_acceptable() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )
    }

    pub fn not_acceptable_because(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    pub fn already_exists(group: &str, resource: &str, name: &str, being_deleted: bool) -> Self {
        let prefix = if being_deleted { "object is being deleted: " } else { "" };
        Self::new(409, "AlreadyExists", format!("{prefix}{} \"{name}\" already exists", qualified(resource, group)))
            .with(group, resource, name)
    }

    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(resource, group)),
        )
        .with(group, resource, name)
    }

    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Server-side apply conflicts: the message and the causes come from the field managers.
    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        let mut status = Self::new(409, "Conflict", message);
        status.details = Some(Box::new(Details { causes, ..Details::default() }));
        status
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}"),
        )
    }

    /// 422 with causes. `kind` is the Kind (not the resource), as the real server has it here.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for cause in &causes {
            // Said twice in the causes, it is said once in the message.
            let text = format!("{}: {}", cause.field, cause.message);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let joined = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
        let message = format!("{} \"{name}\" is invalid: {joined}", qualified(kind, group));
        let mut status = Self::new(422, "Invalid", message).with(group, kind, name);
        if let Some(details) = &mut status.details {
            details.causes = causes;
        }
        status
    }

    /// 422 for a patch that cannot be carried out: no further word is given.
    pub fn unprocessable_patch() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request").with("", "", "")
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after: u64) -> Self {
        let mut status = Self::new(429, "TooManyRequests", message).with("", "", "");
        status.retry_after = Some(retry_after);
        status
    }

    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let subject = if name.is_empty() {
            qualified(resource, group)
        } else {
            format!("{} \"{name}\"", qualified(resource, group))
        };
        Self::new(403, "Forbidden", format!("{subject} is forbidden: {why}")).with(group, resource, name)
    }

    pub fn forbidden_path(user: &str, verb: &str, path: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\""))
            .with("", "", "")
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub fn resource_version_too_large(wanted: u64, current: u64) -> Self {
        let mut status =
            Self::new(504, "Timeout", format!("Timeout: Too large resource version: {wanted}, current: {current}"));
        status.retry_after = Some(1);
        status.details = Some(Box::new(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".into(),
                field: String::new(),
            }],
            ..Details::default()
        }));
        status
    }

    /// A status of an arbitrary code, for injected faults.
    pub fn of_code(code: u16, message: impl Into<String>) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        Self::new(code, reason, message).with("", "", "")
    }

    /// The success a finished delete answers.
    pub fn deleted(group: &str, resource: &str, name: &str, uid: &str) -> Self {
        let mut status = Self::new(200, "", "").with(group, resource, name);
        if let Some(details) = &mut status.details {
            details.uid = uid.into();
        }
        status
    }

    /// The JSON text, in the real server's key order, without a final newline.
    pub fn to_json(&self) -> String {
        let mut out = String::from(r#"{"kind":"Status","apiVersion":"v1","metadata":{"#);
        if let Some(token) = &self.continue_token {
            let _ = write!(out, r#""continue":{}"#, quote(token));
        }
        let word = if self.code < 400 { "Success" } else { "Failure" };
        let _ = write!(out, r#"}},"status":"{word}""#);
        if !self.message.is_empty() {
            let _ = write!(out, r#","message":{}"#, quote(&self.message));
        }
        if !self.reason.is_empty() {
            let _ = write!(out, r#","reason":"{}""#, self.reason);
        }
        if let Some(details) = &self.details {
            out.push_str(r#","details":"#);
            details.push_json(&mut out, self.retry_after);
        }
        if self.code >= 400 {
            let _ = write!(out, r#","code":{}"#, self.code);
        }
        out.push('}');
        out
    }
}

impl Details {
    fn push_json(&self, out: &mut String, retry_after: Option<u64>) {
        let mut parts = Vec::new();
        for (key, value) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !value.is_empty() {
                parts.push(format!(r#""{key}":{}"#, quote(value)));
            }
        }
        if !self.causes.is_empty() {
            let causes: Vec<String> = self.causes.iter().map(cause_json).collect();
            parts.push(format!(r#""causes":[{}]"#, causes.join(",")));
        }
        if let Some(seconds) = retry_after {
            parts.push(format!(r#""retryAfterSeconds":{seconds}"#));
        }
        let _ = write!(out, "{{{}}}", parts.join(","));
    }
}

fn cause_json(cause: &Cause) -> String {
    let mut parts =
        vec![format!(r#""reason":{}"#, quote(&cause.reason)), format!(r#""message":{}"#, quote(&cause.message))];
    if !cause.field.is_empty() {
        parts.push(format!(r#""field":{}"#, quote(&cause.field)));
    }
    format!("{{{}}}", parts.join(","))
}

fn quote(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    crate::wire::write_string(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// A validation cause as the field-error helpers of the API machinery word it.
pub mod field {
    use super::Cause;
    use serde_json::Value;

    fn cause(reason: &str, field: &str, message: String) -> Cause {
        Cause { reason: reason.into(), message, field: field.into() }
    }

    pub fn required(field: &str, detail: &str) -> Cause {
        let tail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        cause("FieldValueRequired", field, format!("Required value{tail}"))
    }

    pub fn invalid(field: &str, value: &Value, detail: &str) -> Cause {
        cause("FieldValueInvalid", field, format!("Invalid value: {value}: {detail}"))
    }

    pub fn forbidden(field: &str, detail: &str) -> Cause {
        cause("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    pub fn too_long(field: &str, max: usize) -> Cause {
        cause("FieldValueTooLong", field, format!("Too long: may not be more than {max} bytes"))
    }

    pub fn duplicate(field: &str, value: &Value) -> Cause {
        cause("FieldValueDuplicate", field, format!("Duplicate value: {value}"))
    }

    /// `value` is already formatted as Go would print it.
    pub fn not_supported(field: &str, value: &str, supported: &[&str]) -> Cause {
        let list: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
        cause(
            "FieldValueNotSupported",
            field,
            format!("Unsupported value: {value}: supported values: {}", list.join(", ")),
        )
    }
}
