//! WATCH: a stream of lines read from a table's log by a cursor.
//!
//! Nothing is buffered per watcher but the chunk that is being written: a slow client holds back only itself, until the log has moved
//! past its cursor; then it is told 410 and has to list again, as with a real server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::options::Query;
use super::read::{Selectors, parse_revision};
use super::{Target, encoded, served};
use crate::cluster::Cluster;
use crate::faults::{Call, Disruption};
use crate::object::{self, Object};
use crate::resource::Resource;
use crate::status::{Status, field};
use crate::store::{Change, Event};
use crate::table::{self, Include};
use crate::wire::{self, Form};

/// Between bookmarks, if anything has happened.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark before the watch ends.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// A year: longer watches than that are cut to it.
const LONGEST_SECONDS: u64 = 365 * 86_400;
/// Events or objects put into one chunk.
const BATCH: usize = 128;

/// What a watch begins with, and how long it lasts.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// `None`: with the objects that are there.
    from: Option<u64>,
    /// A revision the initial objects must have reached.
    pub at_least: Option<u64>,
    bookmarks: bool,
    /// The initial objects are followed by a marked bookmark.
    closing_bookmark: bool,
    timeout: Duration,
}

impl WatchOptions {
    pub fn parse(query: &Query, newest: u64) -> Result<WatchOptions, Status> {
        const MATCH: &str = "resourceVersionMatch";
        let timeout = query
            .integer("timeoutSeconds")?
            .and_then(|s| u64::try_from(s).ok())
            .filter(|s| *s > 0)
            .map(|s| s.min(LONGEST_SECONDS));
        let initial = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
        let wanted = query.text(MATCH);
        let mut causes = Vec::new();
        match (initial, wanted) {
            (Some(_), Some("NotOlderThan")) | (None, None) => {}
            (Some(_), other) => {
                causes.push(field::forbidden(
                    MATCH,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ));
                if let Some(other) = other {
                    causes.push(field::not_supported(MATCH, &format!("{other:?}"), &["NotOlderThan"]));
                }
            }
            (None, Some(_)) => {
                causes.push(field::forbidden(
                    MATCH,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
        }
        if query.text("continue").is_some() {
            causes.push(field::forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !causes.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "ListOptions", "", causes));
        }
        let revision = parse_revision(query.text("resourceVersion")).map_err(Status::internal)?;
        let from = match initial {
            Some(true) => None,
            Some(false) if revision == 0 => Some(newest),
            _ => (revision > 0).then_some(revision),
        };
        let bookmarks = query.flag("allowWatchBookmarks");
        Ok(WatchOptions {
            from,
            at_least: (initial == Some(true) && revision > 0).then_some(revision),
            bookmarks,
            closing_bookmark: initial == Some(true) && bookmarks,
            // As the real server: half an hour to an hour, so that not all watches end at once.
            timeout: timeout.map_or_else(|| Duration::from_secs(rand::random_range(1800..3600)), Duration::from_secs),
        })
    }
}

/// The representation of events.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub form: Form,
    pub include: Include,
}

// Independent facts about one stream, not states of one machine.
#[allow(clippy::struct_excessive_bools)]
struct Watcher {
    cluster: Arc<Cluster>,
    target: Target,
    selectors: Selectors,
    shape: Shape,
    options: WatchOptions,
    call: Call,
    cursor: u64,
    /// The newest revision the client has been told.
    told: u64,
    initial: std::vec::IntoIter<Arc<Object>>,
    closing_bookmark: bool,
    columns_sent: bool,
    news: watch::Receiver<u64>,
    disruptions: watch::Receiver<u64>,
    deadline: Instant,
    next_bookmark: Instant,
    last_bookmark_done: bool,
    disruption: Option<Disruption>,
    over: bool,
}

/// Opens a watch. The first disruption, if any, has been chosen by the faults.
pub fn stream(
    cluster: Arc<Cluster>,
    target: Target,
    selectors: Selectors,
    shape: Shape,
    options: WatchOptions,
    call: Call,
    disruption: Option<Disruption>,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let news = cluster.store.subscribe(&target.resource.table, target.resource.order);
    let disruptions = cluster.faults.subscribe();
    let (cursor, initial) = if let Some(revision) = options.from {
        (revision, Vec::new())
    } else {
        let namespace = (!target.namespace.is_empty()).then_some(target.namespace.as_str());
        let snapshot = cluster.store.list(&target.resource.table, namespace);
        (snapshot.revision, snapshot.items)
    };
    let now = Instant::now();
    let watcher = Watcher {
        cursor,
        told: cursor,
        initial: initial.into_iter(),
        closing_bookmark: options.closing_bookmark,
        columns_sent: false,
        news,
        disruptions,
        deadline: now + options.timeout,
        next_bookmark: now + BOOKMARK_EVERY,
        last_bookmark_done: false,
        disruption,
        over: false,
        cluster,
        target,
        selectors,
        shape,
        options,
        call,
    };
    futures::stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next().await?;
        Some((Bytes::from(chunk), watcher))
    })
}

impl Watcher {
    /// The next chunk; `None` ends the stream.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if self.over {
                return None;
            }
            match self.disruption {
                Some(Disruption::Gone) => return Some(self.gone(self.cursor + 1)),
                Some(Disruption::Hang) => {
                    self.hang().await;
                    return None;
                }
                Some(Disruption::End { after_ms: 0 }) => return None,
                Some(Disruption::End { after_ms }) => {
                    self.deadline =
                        self.deadline.min(Instant::now() + Duration::from_millis(after_ms).min(self.options.timeout));
                    self.disruption = None;
                }
                None => {}
            }
            if let Some(chunk) = self.read() {
                return Some(chunk);
            }
            self.wait().await;
            if self.over || self.disruption.is_some() {
                continue;
            }
            // Read first: a bookmark must not promise what has not been sent.
            if let Some(chunk) = self.read().or_else(|| self.bookmark_if_due()) {
                return Some(chunk);
            }
        }
    }

    async fn hang(&mut self) {
        tokio::select! {
            () = self.cluster.shutdown.cancelled() => {}
            () = tokio::time::sleep_until(self.deadline) => {}
        }
    }

    async fn wait(&mut self) {
        let bookmark_at =
            if self.options.bookmarks { self.next_bookmark.min(self.before_end()) } else { self.deadline };
        tokio::select! {
            changed = self.news.changed() => self.over = changed.is_err(),
            changed = self.disruptions.changed() => {
                if changed.is_ok() {
                    self.disruption = self.cluster.faults.disruption_of_open_watch(&self.call);
                }
            }
            () = tokio::time::sleep_until(bookmark_at) => {}
            () = tokio::time::sleep_until(self.deadline) => self.over = true,
            () = self.cluster.shutdown.cancelled() => self.over = true,
        }
        self.over |= Instant::now() >= self.deadline;
    }

    fn before_end(&self) -> Instant {
        if self.last_bookmark_done {
            self.deadline
        } else {
            self.deadline.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(self.deadline)
        }
    }

    fn bookmark_if_due(&mut self) -> Option<Vec<u8>> {
        let now = Instant::now();
        if !self.options.bookmarks || self.over || now < self.next_bookmark.min(self.before_end()) {
            return None;
        }
        if now >= self.before_end() {
            self.last_bookmark_done = true;
        }
        self.next_bookmark = now + BOOKMARK_EVERY;
        if self.cursor <= self.told {
            return None;
        }
        let mut out = Vec::new();
        self.push_bookmark(&mut out, false);
        Some(out)
    }

    /// What there is to send now.
    fn read(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for object in self.initial.by_ref().take(BATCH).collect::<Vec<_>>() {
            if self.selectors.matches(&self.target.resource, object.value()) {
                self.push(&mut out, "ADDED", &object);
            }
        }
        if !out.is_empty() || self.initial.len() > 0 {
            return Some(out);
        }
        if std::mem::take(&mut self.closing_bookmark) {
            self.push_bookmark(&mut out, true);
            return Some(out);
        }
        loop {
            // Before the look, so that news of what comes just after it are not missed.
            self.news.mark_unchanged();
            let (events, reached) =
                match self.cluster.store.events_after(&self.target.resource.table, self.cursor, BATCH) {
                    Ok(found) => found,
                    Err(gone) => return Some(self.gone(gone.floor)),
                };
            let full = events.len() == BATCH;
            self.cursor = reached;
            for event in events {
                self.push_event(&mut out, &event);
            }
            if !out.is_empty() || !full {
                return (!out.is_empty()).then_some(out);
            }
        }
    }

    fn gone(&mut self, floor: u64) -> Vec<u8> {
        self.over = true;
        let status = Status::expired(format!("too old resource version: {} ({floor})", self.cursor));
        format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status.to_json()).into_bytes()
    }

    fn push_event(&mut self, out: &mut Vec<u8>, event: &Event) {
        let resource = self.target.resource.clone();
        if !self.target.namespace.is_empty() && event.object.namespace() != self.target.namespace {
            return;
        }
        let matches = |object: &Object| self.selectors.is_empty() || self.selectors.matches(&resource, object.value());
        let was = event.previous.as_deref().is_some_and(matches);
        match (event.change, was, matches(&event.object)) {
            (Change::Deleted, true, _) => self.push(out, "DELETED", &event.object),
            (Change::Deleted, false, _) | (_, false, false) => {}
            (_, false, true) => self.push(out, "ADDED", &event.object),
            (_, true, true) => self.push(out, "MODIFIED", &event.object),
            (_, true, false) => {
                // The client sees the last state it could see, under the revision of the change.
                if let Some(previous) = &event.previous {
                    self.push(out, "DELETED", &previous.at_revision(event.revision));
                }
            }
        }
    }

    fn push(&mut self, out: &mut Vec<u8>, kind: &str, object: &Object) {
        self.told = self.told.max(object.revision());
        let bytes = match self.shape.form {
            Form::Table { beta } => {
                let value = served(&self.target.resource, object.value());
                let row = table::row(&self.target.resource, &value, self.shape.include);
                wire::encode_bytes(&self.table(beta, object.revision(), row), wire::Order::Struct)
            }
            Form::PartialObject | Form::PartialList => {
                wire::encode_bytes(&table::partial(&served(&self.target.resource, object.value())), wire::Order::Struct)
            }
            Form::Plain | Form::Discovery { .. } => encoded(&self.target.resource, object),
        };
        push_line(out, kind, &bytes);
    }

    fn table(&mut self, beta: bool, revision: u64, row: Value) -> Value {
        let columns = if std::mem::replace(&mut self.columns_sent, true) {
            Value::Null
        } else {
            table::columns(&self.target.resource)
        };
        let metadata = Map::from_iter([("resourceVersion".to_owned(), json!(revision.to_string()))]);
        table::table(beta, metadata, columns, vec![row])
    }

    fn push_bookmark(&mut self, out: &mut Vec<u8>, closing: bool) {
        let resource: &Resource = &self.target.resource;
        let mut value = json!({"kind": resource.kind, "apiVersion": resource.api_version(),
            "metadata": {"resourceVersion": self.cursor.to_string()}});
        if closing {
            object::set_meta(&mut value, "annotations", json!({"k8s.io/initial-events-end": "true"}));
        }
        self.told = self.cursor;
        let (order, value) = match self.shape.form {
            Form::Table { beta } => {
                let row = table::bookmark_row(resource, &value, self.shape.include);
                (wire::Order::Struct, self.table(beta, self.cursor, row))
            }
            Form::PartialObject | Form::PartialList => (wire::Order::Struct, table::partial(&value)),
            Form::Plain | Form::Discovery { .. } => (resource.order, value),
        };
        push_line(out, "BOOKMARK", &wire::encode(&value, order));
    }
}

fn push_line(out: &mut Vec<u8>, kind: &str, object: &[u8]) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
}
