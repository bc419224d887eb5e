//! The protobuf encoding of an OpenAPI v2 document, as far as it has information, definitions and no paths.
//!
//! Field numbers are those of the `openapi.v2` package. Values of extensions, defaults and enumerations travel as YAML text, for which
//! JSON does.

use bytes::Bytes;
use serde_json::{Map, Value};

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        loop {
            let low = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                return self.0.push(low);
            }
            self.0.push(low | 0x80);
        }
    }

    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn integer(&mut self, field: u64, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }
}

/// Encodes a whole document.
pub(super) fn document(document: &Value) -> Bytes {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let mut info = Message::default();
    info.text(1, text("/info/title"));
    info.text(2, text("/info/version"));
    let mut root = Message::default();
    root.text(1, text("/swagger"));
    root.message(2, &info);
    root.message(8, &Message::default());
    if let Some(Value::Object(definitions)) = document.get("definitions") {
        root.message(9, &named_schemas(definitions));
    }
    root.0.into()
}

fn named_schemas(schemas: &Map<String, Value>) -> Message {
    let mut all = Message::default();
    for (name, one) in schemas {
        let mut named = Message::default();
        named.text(1, name);
        named.message(2, &schema(one));
        all.message(1, &named);
    }
    all
}

/// A value as YAML, which any JSON text is.
fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.text(2, &format!("{value}\n"));
    message
}

fn schema(schema_value: &Value) -> Message {
    let mut message = Message::default();
    let Value::Object(members) = schema_value else { return message };
    for (field, key) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        message.text(field, members.get(key).and_then(Value::as_str).unwrap_or(""));
    }
    if let Some(default) = members.get("default") {
        message.message(5, &any(default));
    }
    for (field, key) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        if let Some(number) = members.get(key).and_then(Value::as_f64) {
            message.double(field, number);
        }
    }
    for (field, key) in [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems"), (27, "readOnly")] {
        if members.get(key) == Some(&Value::Bool(true)) {
            message.integer(field, 1);
        }
    }
    for (field, key) in [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ] {
        if let Some(number) = members.get(key).and_then(Value::as_u64) {
            message.integer(field, number);
        }
    }
    for name in members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        message.text(19, name);
    }
    for choice in members.get("enum").and_then(Value::as_array).into_iter().flatten() {
        message.message(20, &any(choice));
    }
    match members.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut item = Message::default();
            item.integer(2, u64::from(*allowed));
            message.message(21, &item);
        }
        Some(inner @ Value::Object(_)) => {
            let mut item = Message::default();
            item.message(1, &schema(inner));
            message.message(21, &item);
        }
        _ => {}
    }
    if let Some(kind) = members.get("type") {
        let mut item = Message::default();
        let names = kind.as_array().map_or_else(|| vec![kind], |list| list.iter().collect());
        names.into_iter().filter_map(Value::as_str).for_each(|name| item.text(1, name));
        message.message(22, &item);
    }
    if let Some(inner @ Value::Object(_)) = members.get("items") {
        let mut item = Message::default();
        item.message(1, &schema(inner));
        message.message(23, &item);
    }
    if let Some(Value::Object(properties)) = members.get("properties") {
        message.message(25, &named_schemas(properties));
    }
    for (name, value) in members.iter().filter(|(name, _)| name.starts_with("x-")) {
        let mut named = Message::default();
        named.text(1, name);
        named.message(2, &any(value));
        message.message(31, &named);
    }
    message
}
