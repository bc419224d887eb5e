//! One watch: list, then events, then again from where it broke off.
//!
//! `kube`'s watcher resumes a broken watch at the last resource version it saw and lists again after a 410. What it
//! cannot see is a connection that stays open and delivers nothing. So the server is asked to end each watch after a
//! while, and the client's read time-out, a little longer, ends what the server does not (W-3).

use crate::index::How;
use crate::publish::Publisher;
use crate::seen::Seen;
use crate::watched::{Node, Watched};
use futures::{Stream, StreamExt};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::WatchStreamExt;
use kube::{Api, ResourceExt};
use std::collections::HashSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Runs one watch until `stop`, feeding the publisher.
pub async fn run(
    watched: Watched,
    client: kube::Client,
    config: watcher::Config,
    publisher: Arc<Publisher>,
    stop: CancellationToken,
) {
    let resource = watched.resource();
    if watched.metadata_only() {
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, &resource);
        follow(watched, watcher(api, config).map(|event| event.map(bare)), &publisher, stop).await;
    } else {
        let api: Api<DynamicObject> = Api::all_with(client, &resource);
        follow(watched, watcher(api, config), &publisher, stop).await;
    }
}

async fn follow(
    watched: Watched,
    events: impl Stream<Item = Result<Event<DynamicObject>, watcher::Error>> + Send,
    publisher: &Publisher,
    stop: CancellationToken,
) {
    let mut events = std::pin::pin!(events.default_backoff().take_until(stop.cancelled_owned()));
    let mut shown = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                publisher.watch_is_well(watched);
                take(watched, event, &mut shown, publisher);
            }
            Err(error) => publisher.watch_failed(watched, &error),
        }
    }
    publisher.watch_ended(watched);
}

fn take(watched: Watched, event: Event<DynamicObject>, shown: &mut HashSet<Node>, publisher: &Publisher) {
    match event {
        Event::Init => shown.clear(),
        Event::InitApply(object) => {
            if let Some(seen) = reduce(watched, &object) {
                shown.insert(seen.node.clone());
                publisher.applied(seen, How::List);
            }
        }
        Event::InitDone => {
            publisher.listed(watched, shown);
            shown.clear();
            shown.shrink_to_fit();
        }
        Event::Apply(object) => {
            if let Some(seen) = reduce(watched, &object) {
                publisher.applied(seen, How::Watch);
            }
        }
        Event::Delete(object) => {
            if let Some(seen) = reduce(watched, &object) {
                publisher.deleted(&seen.node, &seen.version);
            }
        }
    }
}

fn reduce(watched: Watched, object: &DynamicObject) -> Option<Seen> {
    let seen = Seen::of(watched, object);
    if seen.is_none() {
        tracing::error!(?watched, name = object.name_any(), "an object without name, UID or resource version; ignored");
    }
    seen
}

/// An event of metadata as an event of objects that have nothing else.
fn bare(event: Event<PartialObjectMeta<DynamicObject>>) -> Event<DynamicObject> {
    let object = |partial: PartialObjectMeta<DynamicObject>| DynamicObject {
        types: partial.types,
        metadata: partial.metadata,
        data: serde_json::Value::Null,
    };
    match event {
        Event::Apply(o) => Event::Apply(object(o)),
        Event::Delete(o) => Event::Delete(object(o)),
        Event::Init => Event::Init,
        Event::InitApply(o) => Event::InitApply(object(o)),
        Event::InitDone => Event::InitDone,
    }
}
