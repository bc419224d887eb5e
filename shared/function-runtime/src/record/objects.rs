//! The objects that recorded calls have read, as somebody would write them to make them again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use weir_api::{Kind, ObjectRef};
use weir_messages::recording::{Answer, Body, Exchange, Peer};
use weir_messages::{Recording, subject};

/// What of an object's metadata is its owner's to write.
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];
/// Kinds besides [`Kind::ALL`] that people write, and their groups. What functions write for each other is made anew by them.
const OTHERS: [(&str, &str); 2] = [("Secret", ""), ("SSHCertificateAuthority", Kind::Region.group())];
/// So much of a word from outside is told.
const LONGEST_WORD: usize = 64;

/// Where an object comes among others, and which it is.
type Place = (usize, String, String);

/// The objects that calls have read, each as it was last read. Without their secrets, as the recordings are.
#[derive(Default)]
pub(super) struct Objects {
    /// When the call began that read it last; what it read, unless the object was being deleted.
    last: BTreeMap<Place, (Timestamp, Option<Value>)>,
}

impl Objects {
    /// Takes note of what a call has read.
    pub(super) fn see(&mut self, call: &Recording) {
        let began = call.began.parse().unwrap_or_default();
        for object in call.exchanges().flat_map(read) {
            let Some(rank) = rank(&object) else { continue };
            let name = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            let place = (rank, name("namespace"), name("name"));
            if self.last.get(&place).is_some_and(|(at, _)| *at > began) {
                continue;
            }
            if object["metadata"].get("deletionTimestamp").is_some() {
                self.last.insert(place, (began, None));
            } else if let Some(object) = written(&object) {
                self.last.insert(place, (began, Some(object)));
            }
        }
    }

    /// The objects as somebody would write them to make them again, those first that others refer to; and the names of those that
    /// nobody would, since they were being deleted.
    pub(super) fn written(self) -> (Vec<Value>, Vec<String>) {
        let (mut objects, mut going) = (vec![], vec![]);
        for ((rank, namespace, name), (_, object)) in self.last {
            match object {
                Some(object) => objects.push(object),
                None => going.push(format!("{} {namespace}/{name}", token(rank))),
            }
        }
        (objects, going)
    }
}

/// The objects in an answer of the Kubernetes API.
fn read(exchange: &Exchange) -> Vec<Value> {
    let Answer::Response { status: 200..300, body: Some(Body::Json(body)), .. } = &exchange.answer else {
        return vec![];
    };
    if exchange.peer != Peer::Kubernetes {
        return vec![];
    }
    let Some(items) = body.get("items").and_then(Value::as_array) else { return vec![body.clone()] };
    // Those of a list do not say what they are.
    let kind = body["kind"].as_str().and_then(|kind| kind.strip_suffix("List"));
    let typed = |item: &Value| {
        let mut item = item.clone();
        if let (Some(kind), Some(map)) = (kind, item.as_object_mut()) {
            map.entry("kind").or_insert_with(|| kind.into());
            map.entry("apiVersion").or_insert_with(|| body["apiVersion"].clone());
        }
        item
    };
    items.iter().map(typed).collect()
}

/// Where an object comes in the order in which they depend on each other; `None` if nobody writes such.
fn rank(object: &Value) -> Option<usize> {
    let (kind, version) = (object["kind"].as_str()?, object["apiVersion"].as_str()?);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let other = OTHERS.iter().position(|other| *other == (kind, group));
    let known = || Kind::ALL.iter().position(|known| known.kubernetes() == kind && known.group() == group);
    other.or_else(|| Some(known()? + OTHERS.len()))
}

/// What a kind of that rank is called.
fn token(rank: usize) -> &'static str {
    let known = || Kind::ALL.get(rank.checked_sub(OTHERS.len())?).map(|kind| kind.token());
    OTHERS.get(rank).map(|(kind, _)| *kind).or_else(known).unwrap_or("object")
}

/// An object of a file as [`Objects::written`] would have it: whatever else somebody has put into it is left out.
///
/// # Errors
/// It is none of those that would be written, in words that are harmless on a terminal.
pub(super) fn rewritten(object: &Value) -> Result<Value, String> {
    let Some(rank) = rank(object) else {
        return Err(match (object["kind"].as_str(), object["apiVersion"].as_str()) {
            (Some(kind), Some(version)) => format!("{} of {}", word(kind), word(version)),
            _ => "what is no object".to_owned(),
        });
    };
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    // For the rules of names alone, which are those of any kind.
    let named = ObjectRef::new(Kind::Server, text("namespace"), text("name"));
    subject::check(&named).map_err(|error| format!("{} whose {error}", token(rank)))?;
    written(object).ok_or_else(|| "what is no object".to_owned())
}

/// A word from outside, such as it can be in a message.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-./".contains(c);
    text.chars().take(LONGEST_WORD).map(|c| if is_plain(c) { c } else { '?' }).collect()
}

/// The object as its owner would write it.
fn written(object: &Value) -> Option<Value> {
    let kept = |name: &&str| Some(((*name).to_owned(), object["metadata"].get(*name)?.clone()));
    let mut metadata: Map<String, Value> = METADATA.iter().filter_map(kept).collect();
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    let mut written =
        json!({ "apiVersion": object.get("apiVersion")?, "kind": object.get("kind")?, "metadata": metadata });
    for part in ["type", "data", "spec"] {
        if let Some(value) = object.get(part) {
            written[part] = value.clone();
        }
    }
    Some(written)
}
