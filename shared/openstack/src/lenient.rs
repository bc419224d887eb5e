//! Decoding that survives answers which lie about optional fields (OSC-10).
//!
//! A field of the wrong type counts as absent. That is right for what is only shown, and wrong for what a destructive
//! decision rests on: such fields have types of their own (see [`crate::compute::Observed`]) which tell *absent* from *empty*.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The value, or the default for `null` and for anything of another type.
pub(crate) fn field<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// The elements that decode; nothing for anything but an array. One strange element does not hide the others.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(match Value::deserialize(deserializer)? {
        Value::Array(items) => items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect(),
        _ => Vec::new(),
    })
}

/// An integer however it is written: `4`, `4.0`, `"4"`; `""` and `null` are 0 (Nova writes a flavor's missing swap as `""`).
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(n) => n.as_u64().or_else(|| n.as_f64().filter(|f| *f >= 0.0).map(whole)).unwrap_or(0),
        Value::String(s) => s.trim().parse().unwrap_or(0),
        _ => 0,
    })
}

/// A map of texts; values of other types are kept in their JSON form.
pub(crate) fn texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<std::collections::BTreeMap<String, String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, text(value))).collect(),
        _ => std::collections::BTreeMap::new(),
    })
}

/// A JSON value as text: a string is itself.
pub(crate) fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates, and the sign was checked
fn whole(f: f64) -> u64 {
    f as u64
}
