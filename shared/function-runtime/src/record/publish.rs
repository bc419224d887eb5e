//! Brings recordings to the stream of traces, behind the calls' backs.
//!
//! Invariants: bounded in memory; a recording that finds no room, or that the server does not take in time, is dropped and
//! counted (`weir_recordings_total`). No call waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use tokio::sync::mpsc;
use weir_messages::Recording;
use weir_messages::envelope::SCHEMA_URN;
use weir_messages::recording::{self, Answer, Body, Entry, Exchange};

use super::{Finished, redact};
use crate::queue::{Error, Queue};
use crate::telemetry::metrics::{self, Counter};

/// Recordings, by what became of them.
static RECORDINGS: Counter = Counter::new("weir_recordings_total", "Recorded calls.", &["outcome"]);

/// Not more recordings wait to be stored.
const MOST_WAITING: usize = 1024;
/// They do not take more memory than this, in bytes.
const MOST_MEMORY: usize = 64 << 20;
/// How long a process that stops waits for them.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What a message takes besides its payload, generously.
const OVERHEAD: usize = 4096;

enum Message {
    Keep(Box<Finished>),
    Flush(tokio::sync::oneshot::Sender<()>),
}

/// Brings recordings to the stream.
pub(super) struct Publisher {
    waiting: mpsc::Sender<Message>,
    memory: Arc<AtomicUsize>,
}

impl Publisher {
    /// Begins to bring recordings to the stream of `queue`, in a task that ends with the last publisher.
    pub(super) fn start(queue: Queue) -> Self {
        metrics::register(&RECORDINGS);
        let (waiting, mut messages) = mpsc::channel(MOST_WAITING);
        let memory = Arc::new(AtomicUsize::new(0));
        let held = memory.clone();
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                match message {
                    Message::Keep(finished) => {
                        let size = finished.size();
                        store(&queue, *finished).await;
                        held.fetch_sub(size, Ordering::Relaxed);
                    }
                    Message::Flush(done) => {
                        let _ = done.send(());
                    }
                }
            }
        });
        Self { waiting, memory }
    }

    pub(super) fn keep(&self, finished: Finished) {
        let size = finished.size();
        if self.memory.fetch_add(size, Ordering::Relaxed) + size > MOST_MEMORY
            || self.waiting.try_send(Message::Keep(Box::new(finished))).is_err()
        {
            self.memory.fetch_sub(size, Ordering::Relaxed);
            RECORDINGS.inc(&["dropped"]);
        }
    }

    pub(super) async fn flush(&self) {
        let (done, flushed) = tokio::sync::oneshot::channel();
        let wait = async {
            if self.waiting.send(Message::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, wait).await;
    }
}

async fn store(queue: &Queue, finished: Finished) {
    let recording = finished.recording();
    let outcome = match publish(queue, recording).await {
        Ok(()) => "stored",
        Err(error) => {
            tracing::debug!(%error, "a recording could not be stored");
            "failed"
        }
    };
    RECORDINGS.inc(&[outcome]);
}

async fn publish(queue: &Queue, mut recording: Recording) -> Result<(), Error> {
    let subject = recording::subject(recording.object(), &recording.id)?;
    let limit = queue.client().server_info().max_payload.saturating_sub(OVERHEAD);
    let mut payload = encode(&recording)?;
    if payload.len() > limit {
        lighten(&mut recording, payload.len() - limit);
        payload = encode(&recording)?;
    }
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json");
    headers.insert("ce-dataschema", format!("{SCHEMA_URN}{}", recording::SCHEMA).as_str());
    queue.store(subject, headers, payload).await.map(|_| ())
}

fn encode(recording: &Recording) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(recording).map_err(|error| Error::Encode(error.into()))
}

/// Leaves out the largest bodies until `excess` bytes are saved. Such a call can be read, and may not replay.
fn lighten(recording: &mut Recording, excess: usize) {
    fn bodies(exchange: &mut Exchange) -> impl Iterator<Item = &mut Body> {
        let answer = match &mut exchange.answer {
            Answer::Response { body, .. } => body.as_mut(),
            _ => None,
        };
        exchange.body.as_mut().into_iter().chain(answer)
    }
    recording.complete = false;
    let entries = recording.entries.iter_mut().filter_map(|entry| match entry {
        Entry::Exchange(exchange) => Some(exchange),
        _ => None,
    });
    let size = |body: &Body| match body {
        Body::Json(value) => value.to_string().len(),
        Body::Omitted { .. } => 0,
    };
    let mut all: Vec<(usize, &mut Body)> =
        recording.held.iter_mut().chain(entries).flat_map(bodies).map(|body| (size(body), body)).collect();
    all.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let mut saved = 0;
    for (size, body) in all {
        if saved >= excess + OVERHEAD {
            break;
        }
        saved += size;
        *body = Body::Omitted { bytes: size as u64, why: redact::TOO_LARGE.to_owned() };
    }
}
