//! Why a value is refused: one cause per field, as `details.causes` of a 422 lists them.

use serde_json::Value;
use std::fmt::Write as _;

/// One reason why an object is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueRequired`, `FieldValueInvalid`, …
    pub reason: String,
    /// `Required value`, `Unsupported value: "x": supported values: "a"`, …
    pub message: String,
    /// The field's path, `spec.ports[0].port`; `<nil>` for the object as a whole.
    pub field: String,
}

/// The path of the object itself.
pub(crate) const ROOT: &str = "<nil>";

/// Reasons after which the CEL rules are not evaluated: the value's structure cannot be relied on.
const BLOCKING: [&str; 5] =
    ["FieldValueRequired", "FieldValueTypeInvalid", "FieldValueNotSupported", "FieldValueTooLong", "FieldValueTooMany"];

impl Cause {
    fn new(reason: &str, field: &str, message: String) -> Self {
        let field = if field.is_empty() { ROOT } else { field };
        Cause { reason: reason.to_owned(), message, field: field.to_owned() }
    }

    pub(crate) fn required(field: &str, detail: &str) -> Self {
        let separator = if detail.is_empty() { "" } else { ": " };
        Self::new("FieldValueRequired", field, format!("Required value{separator}{detail}"))
    }

    /// `value` is shown as it is: JSON, or a word in quotes.
    pub(crate) fn invalid(field: &str, value: &str, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {value}: {detail}"))
    }

    /// An invalid value that is too large to be shown.
    pub(crate) fn invalid_unshown(field: &str, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {detail}"))
    }

    pub(crate) fn type_invalid(field: &str, value: &str, detail: &str) -> Self {
        Self::new("FieldValueTypeInvalid", field, format!("Invalid value: {value}: {detail}"))
    }

    pub(crate) fn not_supported(field: &str, value: &str, supported: &[String]) -> Self {
        let mut list = String::new();
        for (i, one) in supported.iter().enumerate() {
            let _ = write!(list, "{}{one:?}", if i == 0 { "" } else { ", " });
        }
        Self::new("FieldValueNotSupported", field, format!("Unsupported value: {value}: supported values: {list}"))
    }

    pub(crate) fn forbidden(field: &str, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    pub(crate) fn duplicate(field: &str, value: &str) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {value}"))
    }

    pub(crate) fn too_long(field: &str, max: u64) -> Self {
        Self::new("FieldValueTooLong", field, format!("Too long: may not be more than {max} bytes"))
    }

    pub(crate) fn too_many(field: &str, actual: usize, max: u64) -> Self {
        Self::new("FieldValueTooMany", field, format!("Too many: {actual}: must have at most {max} items"))
    }

    /// A problem of the whole object, which names its field in the text only.
    pub(crate) fn whole(detail: &str) -> Self {
        Self::new("FieldValueInvalid", ROOT, format!("Invalid value: \"\": {detail}"))
    }

    /// What stands in for the rules that were skipped.
    pub(crate) fn rules_not_checked() -> Self {
        Self::invalid(
            ROOT,
            "null",
            "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        )
    }

    pub(crate) fn is_blocking(&self) -> bool {
        BLOCKING.contains(&self.reason.as_str())
    }
}

/// A JSON value as messages show it: whole floats without their fraction.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => float.to_string(),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
