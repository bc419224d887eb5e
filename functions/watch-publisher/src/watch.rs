//! One watch: list, then events, then again from where it broke off.
//!
//! Invariants
//! - The position, the resource version from which a broken watch is resumed, moves only over what the publisher has
//!   taken in. When the server no longer knows it (410), everything is listed again (W-3).
//! - Nothing is waited for without an end. A watch is asked to end after a while; one that neither ends nor delivers, a
//!   list that does not answer, a request that hangs, is given up a little later (W-3).
//! - A watch that has failed counts as well again when it has delivered, or has stayed open for a while: so one that is
//!   quiet is well, and one that opens only to fail at once is not (W-7). One that has gone silent counts as failed since it was
//!   last heard of, so that a Kubernetes that hangs shows within the same minute as one that refuses. This is why `kube`'s own watcher is not used: it does not tell when
//!   a broken watch works again.

use crate::index::How;
use crate::publish::Publisher;
use crate::seen::Seen;
use crate::settings::Settings;
use crate::watched::Watched;
use futures::{StreamExt, TryFutureExt};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// How many objects are asked for at a time.
const PAGE: u32 = 500;
/// The pause after a first failure; doubles up to [`LONGEST_PAUSE`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How long a watch may take to open. Much shorter than a watch is quiet: it may have been asked for on a connection that
/// hangs, and the next one may be as well.
const OPENING: Duration = Duration::from_secs(15);
/// A watch that has been open for so long is well, though nothing has happened.
const SETTLED: Duration = Duration::from_secs(3);

/// Why a watch broke off.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// The server ended the watch with an error.
    #[error("the watch was ended: {0}")]
    Ended(String),
    /// The server no longer knows the position; everything is listed again.
    #[error("the position of the watch is too old; listing again")]
    Gone,
    /// No answer, or a list that is no list.
    #[error("{0}")]
    Unusable(&'static str),
    /// The watch was to have ended by now, and nothing has come of it since then.
    #[error("the watch has neither delivered nor ended for {} s", .0.elapsed().as_secs())]
    Silent(Instant),
}

impl Error {
    fn of(code: u16, message: &str) -> Self {
        if code == 410 { Self::Gone } else { Self::Ended(format!("{code} {message}")) }
    }

    /// Since when the watch may have been of no use.
    pub(crate) fn since(&self) -> Instant {
        match self {
            Self::Silent(since) => *since,
            _ => Instant::now(),
        }
    }
}

impl From<tokio::time::error::Elapsed> for Error {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self::Unusable("no answer in time")
    }
}

/// Runs one watch until `stop`, feeding the publisher.
pub async fn run(
    watched: Watched,
    client: kube::Client,
    settings: Settings,
    publisher: Arc<Publisher>,
    stop: CancellationToken,
) {
    let resource = watched.resource();
    if watched.metadata_only() {
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, &resource);
        Watch { watched, api, bare, settings, publisher, position: None, failed: false, pause: SHORTEST_PAUSE }
            .follow(stop)
            .await;
    } else {
        let api: Api<DynamicObject> = Api::all_with(client, &resource);
        Watch {
            watched,
            api,
            bare: |object| object,
            settings,
            publisher,
            position: None,
            failed: false,
            pause: SHORTEST_PAUSE,
        }
        .follow(stop)
        .await;
    }
}

/// Metadata as an object that has nothing else.
fn bare(partial: PartialObjectMeta<DynamicObject>) -> DynamicObject {
    DynamicObject { types: partial.types, metadata: partial.metadata, data: serde_json::Value::Null }
}

struct Watch<K> {
    watched: Watched,
    api: Api<K>,
    bare: fn(K) -> DynamicObject,
    settings: Settings,
    publisher: Arc<Publisher>,
    /// Where to go on; `None` before the first list and when the server has forgotten.
    position: Option<String>,
    /// Whether it has failed since it was well.
    failed: bool,
    pause: Duration,
}

impl<K: Clone + Debug + DeserializeOwned + Send + 'static> Watch<K> {
    async fn follow(mut self, stop: CancellationToken) {
        loop {
            let began = Instant::now();
            let ended = tokio::select! {
                ended = self.round() => ended,
                () = stop.cancelled() => break,
            };
            match ended {
                Ok(()) => self.well(),
                Err(error) => {
                    if matches!(error, Error::Gone) {
                        self.position = None;
                    }
                    self.failed = true;
                    self.publisher.watch_failed(self.watched, &error);
                }
            }
            // A server that ends watches as soon as they begin must not be asked without end either.
            if began.elapsed() < Duration::from_secs(1) || self.pause > SHORTEST_PAUSE {
                tokio::select! {
                    () = sleep(self.pause.mul_f64(rand::random_range(0.5..1.0))) => {}
                    () = stop.cancelled() => break,
                }
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
        }
        self.publisher.watch_ended(self.watched);
    }

    /// One watch to its end, after a list if there is no position to go on from.
    async fn round(&mut self) -> Result<(), Error> {
        self.publisher.watch_is_down(self.watched);
        let position = match &self.position {
            Some(position) => position.clone(),
            None => self.list().await?,
        };
        self.position = Some(position.clone());
        let patience = self.settings.patience();
        let params = WatchParams::default().timeout(self.settings.watch_seconds);
        let opening = self.api.watch(&params, &position).map_err(gone);
        let stream = timeout(patience.min(OPENING), opening).await??;
        let mut stream = std::pin::pin!(stream);
        let mut settled = std::pin::pin!(sleep_until(Instant::now() + SETTLED));
        let mut is_settled = !self.failed;
        if is_settled {
            self.well();
        }
        let mut heard = Instant::now();
        loop {
            let next = tokio::select! {
                next = timeout_at(heard + patience, stream.next()) => next,
                () = &mut settled, if !is_settled => {
                    is_settled = true;
                    self.well();
                    continue;
                }
            };
            let event = match next {
                // Nothing for longer than the watch was to last: resumed at the position, as if it had ended. But it may have
                // been dead for all of that time, and then so is the next one, perhaps.
                Err(_) => return Err(Error::Silent(heard)),
                Ok(None) => return Ok(()),
                Ok(Some(event)) => event.map_err(gone)?,
            };
            heard = Instant::now();
            let version = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.take(object, |publisher, seen| publisher.applied(seen, How::Watch))
                }
                WatchEvent::Deleted(object) => {
                    self.take(object, |publisher, seen| publisher.deleted(&seen.node, &seen.version))
                }
                WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version),
                WatchEvent::Error(status) => return Err(Error::of(status.code, &status.message)),
            };
            if let Some(version) = version.filter(|version| !version.is_empty()) {
                self.position = Some(version);
            }
            if !is_settled {
                is_settled = true;
                self.well();
            }
        }
    }

    /// Lists everything, page by page, and returns the position to watch from.
    async fn list(&self) -> Result<String, Error> {
        let mut shown = HashSet::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = timeout(self.settings.patience(), self.api.list(&params).map_err(gone)).await??;
            for object in page.items {
                self.take(object, |publisher, seen| {
                    shown.insert(seen.node.clone());
                    publisher.applied(seen, How::List);
                });
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page.metadata.resource_version.filter(|version| !version.is_empty());
                let version = version.ok_or(Error::Unusable("the list has no resource version"))?;
                self.publisher.listed(self.watched, &shown);
                return Ok(version);
            }
        }
    }

    /// Hands an object to the publisher; returns its resource version.
    fn take(&self, object: K, hand: impl FnOnce(&Publisher, Seen)) -> Option<String> {
        let object = (self.bare)(object);
        let Some(seen) = Seen::of(self.watched, &object) else {
            let name = object.name_any();
            tracing::error!(watched = ?self.watched, name, "an object without name, UID or resource version; ignored");
            return None;
        };
        let version = seen.version.clone();
        hand(&self.publisher, seen);
        Some(version)
    }

    fn well(&mut self) {
        self.failed = false;
        self.pause = SHORTEST_PAUSE;
        self.publisher.watch_is_well(self.watched);
    }
}

/// A position that is too old may also be refused at once; so may the next page of a list that took too long.
fn gone(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if status.code == 410 => Error::Gone,
        other => other.into(),
    }
}
