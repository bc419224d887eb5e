//! Request bodies: JSON (with the duplicate keys named), YAML, and the protobuf of a few built-in kinds.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::protobuf;

/// A decoded body.
#[derive(Debug, Default)]
pub struct Decoded {
    pub value: Value,
    /// Paths of keys that came twice; the last one won.
    pub duplicates: Vec<String>,
}

/// Why a body could not be decoded.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// 415.
    MediaType,
    /// The text after `couldn't get version/kind; json parse error: `, or a whole message for other formats.
    Syntax(String),
    /// A protobuf body whose kind is not known here.
    UnknownProtobuf(String),
}

/// The media type without its parameters; JSON when there is none.
pub fn media_type(content_type: Option<&str>) -> &str {
    match content_type.map(|c| c.split(';').next().unwrap_or_default().trim()) {
        None | Some("") => "application/json",
        Some(found) => found,
    }
}

/// Decodes an object of whatever content type.
pub fn object(content_type: Option<&str>, body: &[u8]) -> Result<Decoded, Error> {
    match media_type(content_type) {
        "application/json" => json(body).map_err(Error::Syntax),
        "application/yaml" => yaml(body).map(|value| Decoded { value, duplicates: Vec::new() }).map_err(Error::Syntax),
        "application/vnd.kubernetes.protobuf" => match protobuf::decode(body) {
            Ok(value) => Ok(Decoded { value, duplicates: Vec::new() }),
            Err(protobuf::Error::UnknownKind(kind)) => Err(Error::UnknownProtobuf(kind)),
            Err(protobuf::Error::Malformed) => Err(Error::Syntax("the protobuf body is malformed".into())),
        },
        _ => Err(Error::MediaType),
    }
}

/// Decodes YAML (of which JSON is a part).
pub fn yaml(body: &[u8]) -> Result<Value, String> {
    serde_yaml_ng::from_slice::<Value>(body).map_err(|e| e.to_string())
}

/// Decodes JSON; the error is worded as Go's.
pub fn json(body: &[u8]) -> Result<Decoded, String> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Seed { path: String::new(), duplicates: &mut duplicates }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| syntax(&error, body))?;
    Ok(Decoded { value, duplicates })
}

fn syntax(error: &serde_json::Error, body: &[u8]) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    let line_start: usize =
        body.split_inclusive(|b| *b == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let at = line_start + error.column().saturating_sub(1);
    match body.get(at).map(|b| char::from(*b)) {
        Some(c) => format!("invalid character '{c}' looking for beginning of value"),
        None => error.to_string(),
    }
}

struct Seed<'a> {
    path: String,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        // Go has no room for it in an int64 and takes a float.
        #[allow(clippy::cast_precision_loss)]
        Ok(i64::try_from(n).map_or_else(
            |_| Number::from_f64(n as f64).map_or(Value::Null, Value::Number),
            |n| Value::Number(n.into()),
        ))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Value, E> {
        Ok(Number::from_f64(n).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq
            .next_element_seed(Seed { path: format!("{}[{}]", self.path, items.len()), duplicates: self.duplicates })?
        {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            let value = map.next_value_seed(Seed { path: path.clone(), duplicates: self.duplicates })?;
            if out.insert(key, value).is_some() && !self.duplicates.contains(&path) {
                self.duplicates.push(path);
            }
        }
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn duplicate_keys_are_named_and_the_last_one_wins() {
        let found = json(br#"{"spec":{"a":1,"a":2,"l":[{"b":1,"b":2}]}}"#).unwrap();
        assert_eq!(found.value, json!({"spec": {"a": 2, "l": [{"b": 2}]}}));
        assert_eq!(found.duplicates, ["spec.a", "spec.l[0].b"]);
    }

    #[test]
    fn syntax_errors_are_worded_as_gos() {
        assert_eq!(json(br#"{"apiVersion":"v1","#).unwrap_err(), "unexpected end of JSON input");
        assert_eq!(json(b"").unwrap_err(), "unexpected end of JSON input");
        assert_eq!(json(br#"{"a":}"#).unwrap_err(), "invalid character '}' looking for beginning of value");
    }

    #[test]
    fn numbers_beyond_an_int64_become_floats_as_in_go() {
        assert!(json(b"9223372036854775808").unwrap().value.is_f64());
        assert_eq!(json(b"9223372036854775807").unwrap().value, json!(i64::MAX));
    }

    #[test]
    fn absurdly_deep_bodies_are_refused() {
        assert!(json("[".repeat(100_000).as_bytes()).is_err());
    }
}
