//! `metadata.managedFields`: who set which fields.

use super::Writer;
use super::set::FieldSet;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// One manager's fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    /// As written; entries come in the order of their times.
    pub time: String,
    pub fields: FieldSet,
}

/// Managers by Update beyond this many are folded into one, oldest first.
const MAX_UPDATE_MANAGERS: usize = 10;
const FOLDED: &str = "ancient-changes";

impl Entry {
    pub(super) fn new(writer: &Writer<'_>, operation: Operation, fields: FieldSet) -> Entry {
        Entry {
            manager: writer.manager.to_owned(),
            operation,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.unwrap_or("").to_owned(),
            time: writer.time.to_owned(),
            fields,
        }
    }

    /// Whether this is the entry of a writer.
    pub(super) fn is_of(&self, writer: &Writer<'_>, operation: Operation) -> bool {
        self.manager == writer.manager
            && self.operation == operation
            && self.subresource == writer.subresource.unwrap_or("")
            && (operation == Operation::Apply || self.api_version == writer.api_version)
    }

    /// The manager as conflict messages show it.
    pub(super) fn shown(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            let _ = write!(text, " with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            let _ = write!(text, " using {}", self.api_version);
        }
        text
    }

    fn read(value: &Value) -> Option<Entry> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let operation = match value.get("operation")?.as_str()? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let fields = value.get("fieldsV1").map_or_else(|| Some(FieldSet::default()), FieldSet::from_json)?;
        Some(Entry {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields,
        })
    }

    fn write(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.name()),
            ("apiVersion", &self.api_version),
            ("time", &self.time),
            ("fieldsType", "FieldsV1"),
            ("subresource", &self.subresource),
        ] {
            if !text.is_empty() {
                map.insert(key.to_owned(), text.into());
            }
        }
        map.insert("fieldsV1".to_owned(), self.fields.to_json());
        Value::Object(map)
    }
}

/// The entries of an object; none when it has none, or has what cannot be read.
pub(super) fn read(object: &Value) -> Vec<Entry> {
    let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let entries: Option<Vec<Entry>> =
        list.map_or_else(|| Some(Vec::new()), |list| list.iter().map(Entry::read).collect());
    entries.unwrap_or_default()
}

/// `[{}]`: the writer wants all records of ownership gone.
pub(super) fn is_reset(object: &Value) -> bool {
    let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    list.is_some_and(|list| matches!(list.as_slice(), [Value::Object(only)] if only.is_empty()))
}

/// Sets the entries of an object, in their order; without entries the field goes.
pub(super) fn write(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    fold(&mut entries);
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".into(), entries.iter().map(Entry::write).collect());
    }
}

fn order(entry: &Entry) -> (Operation, &str, &str, &str, &str) {
    (entry.operation, &entry.time, &entry.manager, &entry.api_version, &entry.subresource)
}

/// Bounds the number of managers: programs that put a process id into their name would make objects grow without end.
fn fold(entries: &mut Vec<Entry>) {
    loop {
        let updates = entries.iter().filter(|e| e.operation == Operation::Update).count();
        if updates <= MAX_UPDATE_MANAGERS {
            return;
        }
        let oldest =
            entries.iter().enumerate().filter(|(_, e)| e.operation == Operation::Update && e.manager != FOLDED);
        let Some(at) = oldest.min_by(|(_, a), (_, b)| order(a).cmp(&order(b))).map(|(at, _)| at) else { return };
        let mut oldest = entries.remove(at);
        let same = |e: &&mut Entry| {
            e.manager == FOLDED && e.api_version == oldest.api_version && e.subresource == oldest.subresource
        };
        if let Some(folded) = entries.iter_mut().find(same) {
            folded.fields = folded.fields.union(&oldest.fields);
            folded.time = oldest.time;
        } else {
            FOLDED.clone_into(&mut oldest.manager);
            entries.push(oldest);
        }
    }
}
