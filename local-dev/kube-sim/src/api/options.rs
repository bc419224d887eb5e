//! Query parameters of writes, with the real server's checks.

use crate::status::{Cause, Status, field};

/// What to do about fields that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// A parsed query string. The first of equal parameters counts.
#[derive(Debug, Clone, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub fn parse(text: &str) -> Query {
        let pairs = url::form_urlencoded::parse(text.as_bytes())
            .map(|(k, v)| (k.into_owned(), v.into_owned()))
            .take(64)
            .collect();
        Query { pairs }
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// A parameter that is there and not empty.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|v| !v.is_empty())
    }

    /// Go's reading of a boolean parameter: `0` and `false` are false, anything else (also nothing) is true.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| !matches!(v.to_lowercase().as_str(), "0" | "false"))
    }

    pub fn integer(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.text(key) {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
        }
    }
}

/// Options of create, update and patch.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub dry_run: bool,
    /// The field manager: given, or the first part of the User-Agent.
    pub manager: String,
    pub validation: FieldValidation,
    pub force: bool,
}

impl WriteOptions {
    /// `kind`: `CreateOptions`, `UpdateOptions` or `PatchOptions`, as errors name it. `apply`: the patch is a server-side apply.
    pub fn parse(query: &Query, kind: &str, apply: bool, user_agent: &str) -> Result<WriteOptions, Status> {
        let mut causes = Vec::new();
        let dry_run = dry_run(query.get("dryRun"), &mut causes);
        let given = query.text("fieldManager");
        if let Some(manager) = given {
            if manager.len() > 128 {
                causes.push(field::too_long("fieldManager", 128));
            }
            if let Some(at) = manager.chars().position(char::is_control) {
                let detail = format!("should only contain printable characters, found one at {at}");
                causes.push(field::invalid("fieldManager", &serde_json::json!(manager), &detail));
            }
        } else if apply {
            causes.push(field::required("fieldManager", "is required for apply patch"));
        }
        let validation = match query.get("fieldValidation") {
            None | Some("" | "Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                causes.push(field::not_supported(
                    "fieldValidation",
                    &format!("{other:?}"),
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        let force = query.get("force");
        if force.is_some() && kind == "PatchOptions" && !apply {
            causes.push(field::forbidden("force", "may not be specified for non-apply patch"));
        }
        if !causes.is_empty() {
            return Err(Status::invalid("meta.k8s.io", kind, "", causes));
        }
        let agent = user_agent.split('/').next().unwrap_or_default();
        let manager: String =
            given.unwrap_or(if agent.is_empty() { "unknown" } else { agent }).chars().take(128).collect();
        Ok(WriteOptions { dry_run, manager, validation, force: force.is_some_and(|f| f == "true" || f == "1") })
    }
}

/// Reads `dryRun`; anything but `All` is a cause.
pub fn dry_run(value: Option<&str>, causes: &mut Vec<Cause>) -> bool {
    match value {
        None | Some("") => false,
        Some("All") => true,
        Some(other) => {
            causes.push(field::not_supported("dryRun", &format!("[{other:?}]"), &["All"]));
            false
        }
    }
}
