//! JSON patch (RFC 6902) with the liberties the API server takes.
//!
//! Caveats, all observed: `replace` of a missing member adds it; every other failure (a `test` that does not hold, a missing path, an
//! index out of range, an unknown operation) is the same 422 that does not say why. Operations are limited in number, and so is the
//! volume that `copy` may duplicate: ten thousand copies of a document into itself would otherwise grow without end.

use super::Error;
use serde_json::Value;

/// The most operations in one patch.
const MAX_OPERATIONS: usize = 10_000;
/// How deep a document may become: operations that nest values would otherwise make one too deep to be looked through.
const MAX_DEPTH: usize = 128;
/// The most bytes that all `copy` operations of one patch may duplicate.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// The document after the operations of a JSON patch.
///
/// `patch` is the request body. Errors: [`Error::Malformed`], [`Error::TooManyOperations`], [`Error::Rejected`].
pub fn json_patch(document: &Value, patch: &[u8]) -> Result<Value, Error> {
    let operations = match decode(patch)? {
        Value::Array(operations) => operations,
        other => {
            return Err(Error::Malformed(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                go_kind(&other)
            )));
        }
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(Error::TooManyOperations { limit: MAX_OPERATIONS, got: operations.len() });
    }
    let mut result = document.clone();
    let mut copied = 0;
    for operation in &operations {
        step(&mut result, operation, &mut copied).ok_or(Error::Rejected)?;
    }
    Ok(result)
}

/// Parses a patch; the error reads like that of the server's own decoder.
pub(super) fn decode(patch: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(patch).map_err(|error| {
        let problem = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
        Error::Malformed(format!("error decoding patch: {problem}"))
    })
}

/// What Go's decoder calls a JSON value.
pub(super) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Carries out one operation; `None` when it cannot be.
fn step(document: &mut Value, operation: &Value, copied: &mut usize) -> Option<()> {
    let path = operation.get("path")?.as_str()?;
    match operation.get("op")?.as_str()? {
        "test" => {
            let expected = operation.get("value").unwrap_or(&Value::Null);
            let actual = lookup(document, path).unwrap_or(&Value::Null);
            (actual == expected).then_some(())
        }
        "remove" => remove(document, path).map(drop),
        "add" => add(document, path, operation.get("value")?.clone()),
        "replace" => replace(document, path, operation.get("value")?.clone()),
        "move" => {
            let from = operation.get("from")?.as_str()?;
            // A value cannot become its own child.
            if path.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
                return None;
            }
            let value = remove(document, from)?;
            add(document, path, value)
        }
        "copy" => {
            let value = lookup(document, operation.get("from")?.as_str()?)?.clone();
            *copied += weight(&value);
            if *copied > MAX_COPIED {
                return None;
            }
            add(document, path, value)
        }
        _ => None,
    }
}

/// About the bytes a value takes as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => 2 + members.iter().map(|(k, v)| k.len() + 4 + weight(v)).sum::<usize>(),
        _ => 4,
    }
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// The parent's pointer and the last token of a pointer that is not the root.
fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, unescape(last)))
}

fn index(token: &str, len: usize) -> Option<usize> {
    if token.is_empty() || (token.len() > 1 && token.starts_with('0')) || !token.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    token.parse().ok().filter(|i| *i < len)
}

fn lookup<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    document.pointer(path)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn fits(path: &str, value: &Value) -> bool {
    path.bytes().filter(|b| *b == b'/').count() + depth(value) <= MAX_DEPTH
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if !fits(path, &value) {
        return None;
    }
    if path.is_empty() {
        *document = value;
        return Some(());
    }
    let (parent, last) = split(path)?;
    match document.pointer_mut(parent)? {
        Value::Object(members) => {
            members.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&last, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if !fits(path, &value) {
        return None;
    }
    if path.is_empty() {
        *document = value;
        return Some(());
    }
    let (parent, last) = split(path)?;
    match document.pointer_mut(parent)? {
        Value::Object(members) => {
            members.insert(last, value);
        }
        Value::Array(items) => {
            let at = index(&last, items.len())?;
            items[at] = value;
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = split(path)?;
    match document.pointer_mut(parent)? {
        Value::Object(members) => members.remove(&last),
        Value::Array(items) => {
            let at = index(&last, items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}
