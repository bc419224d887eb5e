//! JSON merge patch (RFC 7386).

use super::Error;
use super::json_patch::decode;
use serde_json::Value;

/// The document after a merge patch: members set to null go, objects merge, everything else is replaced.
///
/// `patch` is the request body. Errors: [`Error::Malformed`] when it is not a JSON object.
pub fn merge_patch(document: &Value, patch: &[u8]) -> Result<Value, Error> {
    let patch: Value = decode(patch)?;
    if !patch.is_object() {
        return Err(Error::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            super::json_patch::go_kind(&patch)
        )));
    }
    let mut result = document.clone();
    merge(&mut result, patch);
    Ok(result)
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(members) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(object) = target else { return };
    for (key, value) in members {
        if value.is_null() {
            object.remove(&key);
        } else {
            merge(object.entry(key).or_insert(Value::Null), value);
        }
    }
}
