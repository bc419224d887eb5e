//! From what people call an object to the object whose calls are recorded.
//!
//! Intention: an object goes by its name in Kubernetes or by its display name, in every command that takes one. Who is called so is
//! asked of the cluster first; then of the recordings, which have read its labels: it may be gone, or be in another cluster.

use crate::checkout::Checkout;
use crate::cluster;
use crate::record::Record;
use crate::screen::clean;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use weir_api::kind::UnknownKind;
use weir_api::{Kind, ObjectRef, labels};
use weir_function_runtime::queue::{Queue, inspect};
use weir_function_runtime::record::past::{Past, recorded};
use weir_messages::recording::{self, Answer, Body, Peer};
use weir_messages::{Recording, subject};

/// So many names are offered.
const OFFERED: usize = 8;
/// What a label holds at most, in bytes.
const LONGEST_LABEL: usize = 63;

/// An object as a person tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub kind: Kind,
    pub namespace: String,
    /// Its name, or what people call it.
    pub name: String,
}

impl fmt::Display for Told {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

impl Told {
    /// The object, if that is its name.
    fn id(&self) -> Option<ObjectRef> {
        let object = ObjectRef::new(self.kind, &self.namespace, &self.name);
        subject::check(&object).is_ok().then_some(object)
    }
}

/// Reads KIND/NAMESPACE/NAME; the kind as subjects have it, or as kubectl takes it.
pub fn told(text: &str) -> Result<Told, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let [said, space, called] = parts.as_slice() else {
        return Err("must be KIND/NAMESPACE/NAME, as in server/weir/web; a call's ID goes with --id".to_owned());
    };
    Ok(Told { kind: kind(said)?, namespace: namespace(space)?, name: name(called)? })
}

/// Reads a kind, as subjects have it or as kubectl takes it.
pub fn kind(text: &str) -> Result<Kind, String> {
    inspect::kind(text).ok_or_else(|| UnknownKind(text.to_owned()).to_string())
}

/// Reads a namespace.
pub fn namespace(text: &str) -> Result<String, String> {
    let object = ObjectRef::new(Kind::Server, text, "x");
    subject::check(&object).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// Reads a name or a display name.
pub fn name(text: &str) -> Result<String, String> {
    let is_name = subject::check(&ObjectRef::new(Kind::Server, "x", text)).is_ok();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let is_label = bytes.len() <= LONGEST_LABEL
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    if is_name || is_label {
        Ok(text.to_owned())
    } else {
        Err("a name is made of letters, digits, '-', '_' and '.', with a letter or digit at either end".to_owned())
    }
}

/// The object that is told, or why there is none with recorded calls.
pub enum Found {
    /// This one has some.
    Is(ObjectRef),
    /// None has.
    None(String),
}

/// Whether the queue is that of the stack which runs, so that its cluster can be asked.
pub fn is_ours(nats: Option<&str>) -> bool {
    nats.is_none() && std::env::var_os("WEIR_NATS_URL").is_none_or(|url| url.is_empty())
}

/// Finds the object that is told. `ours`: the queue is that of the stack which runs.
pub async fn object(checkout: &Checkout, queue: &Queue, told: &Told, ours: bool) -> anyhow::Result<Found> {
    if let Some(object) = told.id()
        && count(queue, &object, None).await? > 0
    {
        return Ok(Found::Is(object));
    }
    let living = if ours { living(checkout, &[told.kind], Some(&told.namespace), &told.name).await } else { vec![] };
    match living.as_slice() {
        [object] if count(queue, object, None).await? > 0 => return Ok(Found::Is(object.clone())),
        [] | [_] => {}
        several => return Ok(Found::None(format!("several objects are called so: {}", list(several)))),
    }
    let past = recorded_as(queue, Some(told.kind), Some(&told.namespace), &told.name).await?;
    let past: Vec<ObjectRef> = past.into_iter().collect();
    match (living.first(), past.as_slice()) {
        (None, [object]) => return Ok(Found::Is(object.clone())),
        (None, [_, ..]) => {
            return Ok(Found::None(format!("several objects were called so: {}", list(&past))));
        }
        _ => {}
    }
    let what = living.first().map_or_else(|| told.to_string(), ToString::to_string);
    let mut why = format!("no call for {what} is recorded ({})", hint(told.kind));
    if past.is_empty() {
        let others = recorded(queue, told.kind, &told.namespace).await.unwrap_or_default();
        if !others.is_empty() {
            why = format!("{why}. There are some for: {}", list(&others));
        }
    } else {
        why = format!("{why}. Others were called so: {}", list(&past));
    }
    Ok(Found::None(why))
}

/// How many calls of an object are recorded, from some moment on.
pub async fn count(queue: &Queue, object: &ObjectRef, since: Option<Timestamp>) -> anyhow::Result<u64> {
    Ok(Past::calls(queue, [recording::filter(object)?], since).await?.left())
}

/// Which calls are recorded, for whoever misses one.
const fn hint(kind: Kind) -> &'static str {
    match kind {
        Kind::ServerMonitor => "of the monitor's rounds those are, that changed, woke or failed something",
        _ => "functions record those that fail, unless WEIR_RECORD says otherwise; `weir up` records all",
    }
}

/// The objects that people call so, in the cluster of the stack which runs. One that does not answer is no reason to fail: what
/// was is in the queue.
pub async fn living(checkout: &Checkout, kinds: &[Kind], namespace: Option<&str>, name: &str) -> Vec<ObjectRef> {
    let look = async {
        let Some(record) = Record::read(&checkout.record())?.filter(Record::is_watched) else { return Ok(vec![]) };
        let client = cluster::connect(&record.places.kubeconfig).await?;
        let mut all = vec![];
        for kind in kinds {
            let fits = |object: &kube::api::DynamicObject| labels::display_name(object) == name;
            let fitting = cluster::fitting(&client, *kind, namespace, fits).await?;
            all.extend(
                fitting
                    .into_iter()
                    .map(|object| ObjectRef::new(*kind, object.namespace().unwrap_or_default(), object.name_any())),
            );
        }
        anyhow::Ok(all)
    };
    look.await.unwrap_or_default()
}

/// The objects that were called so when a recorded call read them.
pub async fn recorded_as(
    queue: &Queue,
    kind: Option<Kind>,
    namespace: Option<&str>,
    name: &str,
) -> anyhow::Result<BTreeSet<ObjectRef>> {
    let mut past = Past::calls(queue, [scope(kind, namespace)], None).await?;
    let (mut found, quoted) = (BTreeSet::new(), quoted(name));
    while let Some(kept) = past.kept().await? {
        let is_known = kept.object().is_some_and(|object| found.contains(&object));
        if !is_known
            && kept.mentions(&quoted)
            && let Some(call) = kept.open::<Value>()
            && is_called(&call, name)
        {
            found.insert(call.object().clone());
        }
    }
    Ok(found)
}

/// A text as it stands in JSON. There is nothing in a name that would be escaped.
pub fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// Whether a call was for an object of this name, or has read that people call it so.
pub fn is_called(call: &Recording, name: &str) -> bool {
    let object = call.object();
    let says = |body: &Value| {
        let metadata = &body["metadata"];
        metadata["name"] == *object.name
            && metadata["namespace"] == *object.namespace
            && metadata["labels"][labels::NAME] == *name
    };
    object.name == name
        || call.exchanges().any(|exchange| match &exchange.answer {
            Answer::Response { status: 200..300, body: Some(Body::Json(body)), .. } => {
                exchange.peer == Peer::Kubernetes && says(body)
            }
            _ => false,
        })
}

/// The filter that matches the recordings of a kind, or of all, in a namespace, or in all.
pub fn scope(kind: Option<Kind>, namespace: Option<&str>) -> String {
    let namespace = namespace.map_or_else(|| "*".to_owned(), |namespace| namespace.replace('.', "~"));
    format!("trace.{}.{namespace}.*.*", kind.map_or("*", Kind::token))
}

/// Some objects, for a message.
pub fn list(objects: &[ObjectRef]) -> String {
    some(&objects.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// Some names, for a message.
pub fn some(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(OFFERED).map(|name| clean(name)).collect();
    let more = names.len().saturating_sub(OFFERED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_read_by_any_name_that_they_may_have_and_nonsense_is_explained() {
        for (text, kind) in [
            ("server/weir/web", Kind::Server),
            ("Server/weir/web", Kind::Server),
            ("servers/weir/web", Kind::Server),
            ("security-groups/weir/web", Kind::SecurityGroup),
            ("securitygroups/weir/web", Kind::SecurityGroup),
            ("regions/weir/web", Kind::Region),
            ("srv/weir/web", Kind::Server),
            ("server-monitor/weir/web", Kind::ServerMonitor),
        ] {
            assert_eq!(told(text).map(|told| told.kind), Ok(kind));
        }
        for name in ["Web_Two.x", "a--b", "A", "x..y", &"a".repeat(63), &format!("{}.b", "a".repeat(63))] {
            assert!(told(&format!("server/ns/{name}")).is_ok(), "{name}");
        }
        let long = format!("server/a/{}", "A".repeat(64));
        for text in
            ["server/web", "moon/a/b", "server/a/*", "server/a/>", "server//a", "server/a/", "server/a/_b", &long]
        {
            assert!(told(text).is_err(), "{text}");
        }
        assert!(told("0c1d").unwrap_err().contains("--id"));
    }

    #[test]
    fn a_call_knows_what_its_object_was_called_and_not_what_others_are() {
        let read = |name: &str, label: &str| {
            json!({"entry": "exchange", "at": 1, "took": 1, "peer": "kubernetes", "method": "GET", "url": "/x",
                "answer": {"response": {"status": 200, "body": {"json": {"metadata":
                    {"namespace": "ns", "name": name, "labels": {labels::NAME: label}}}}}}})
        };
        let call: Recording = serde_json::from_value(json!({
            "form": 1, "id": "1", "versions": {"weir": "1"}, "began": "2026-01-01T00:00:00Z", "took": 1,
            "trigger": {"lane": "urgent", "traceparent": "",
                "work": {"cause": "changed", "object": {"kind": "server", "namespace": "ns", "name": "a1"}}},
            "entries": [read("n1", "Net_One"), read("a1", "Web_Two.x")], "outcome": {"verdict": "settled"},
        }))
        .unwrap();
        assert!(is_called(&call, "Web_Two.x") && is_called(&call, "a1"));
        assert!(!is_called(&call, "Net_One") && !is_called(&call, "n1"));
    }

    #[test]
    fn a_scope_is_a_filter_of_recordings() {
        assert_eq!(scope(Some(Kind::Server), Some("a.b")), "trace.server.a~b.*.*");
        assert_eq!(scope(None, None), "trace.*.*.*.*");
    }
}
