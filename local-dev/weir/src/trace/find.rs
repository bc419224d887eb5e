//! From what people call an object to its recorded calls.

use crate::checkout::Checkout;
use crate::cluster;
use crate::record::Record;
use crate::screen::clean;
use jiff::Timestamp;
use kube::ResourceExt;
use weir_api::{ObjectRef, labels};
use weir_function_runtime::queue::Queue;
use weir_function_runtime::record::past::{Past, recorded};
use weir_messages::{Recording, recording, subject};

/// So many names are offered.
const OFFERED: usize = 8;

/// The calls of an object, or why there are none to be shown.
pub enum Found {
    /// These, of this object.
    Calls(ObjectRef, Vec<Recording>),
    /// None.
    None(String),
}

/// The calls of the object that is told, by its name or by what people call it. `ours`: the queue is that of the stack which runs.
pub async fn calls(
    checkout: &Checkout,
    queue: &Queue,
    told: &ObjectRef,
    ours: bool,
    since: Option<Timestamp>,
) -> anyhow::Result<Found> {
    let calls = of(queue, told, since).await?;
    if !calls.is_empty() {
        return Ok(Found::Calls(told.clone(), calls));
    }
    // A cluster that does not answer is no reason to fail: the calls are in the queue.
    let called = if ours { objects(checkout, told).await.unwrap_or_default() } else { vec![] };
    if let [object] = called.as_slice() {
        let calls = of(queue, object, since).await?;
        if !calls.is_empty() {
            return Ok(Found::Calls(object.clone(), calls));
        }
    }
    let hint = "functions record those that fail unless started with --record all; `weir up` records all";
    if called.len() > 1 {
        return Ok(Found::None(format!("several objects are called so: {}", list(&called))));
    }
    let others = recorded(queue, told.kind, &told.namespace).await.unwrap_or_default();
    let what = called.first().unwrap_or(told);
    Ok(Found::None(if others.is_empty() || others.contains(what) {
        let when = if since.is_some() { " since then" } else { "" };
        format!("no call for {what} is recorded{when} ({hint})")
    } else {
        format!("no call for {what} is recorded ({hint}). There are some for: {}", list(&others))
    }))
}

async fn of(queue: &Queue, object: &ObjectRef, since: Option<Timestamp>) -> anyhow::Result<Vec<Recording>> {
    let mut past = Past::calls(queue, [recording::filter(object)?], since).await?;
    let mut calls = Vec::new();
    while let Some(call) = past.call().await? {
        calls.push(call);
    }
    Ok(calls)
}

/// The objects of the kind that people call so, in the cluster of the stack which runs.
async fn objects(checkout: &Checkout, told: &ObjectRef) -> anyhow::Result<Vec<ObjectRef>> {
    let Some(record) = Record::read(&checkout.record())?.filter(Record::is_watched) else { return Ok(vec![]) };
    let client = cluster::connect(&record.places.kubeconfig).await?;
    let fits = |object: &kube::api::DynamicObject| labels::display_name(object) == told.name;
    let fitting = cluster::fitting(&client, told.kind, &told.namespace, fits).await?;
    Ok(fitting.into_iter().map(|object| ObjectRef::new(told.kind, &told.namespace, object.name_any())).collect())
}

/// The filter that matches the monitor's looks in the namespace of a server.
pub fn monitor(server: &ObjectRef) -> Result<String, subject::Error> {
    let region = ObjectRef::new(weir_api::Kind::ServerMonitor, &server.namespace, "x");
    Ok(recording::filter(&region)?.replace(".x.*", ".*.*"))
}

fn list(objects: &[ObjectRef]) -> String {
    let shown: Vec<String> = objects.iter().take(OFFERED).map(|object| clean(&object.to_string())).collect();
    let more = objects.len().saturating_sub(OFFERED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
