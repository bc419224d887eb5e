//! Brings recordings to the stream of traces, behind the calls' backs.
//!
//! Intention: a call hands over what it has taken down, which costs it nothing, and goes. Several are made into recordings
//! together, on a thread that is there for what takes long, and many wait for the server's acknowledgement at a time.
//!
//! Invariants: bounded in number and memory, until the server has them; a recording that finds no room, or that the server does
//! not take in time, is dropped, counted (`weir_recordings_total`), and told of by those that follow
//! ([`Recording::lost`]). No call waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use weir_messages::Recording;
use weir_messages::envelope::SCHEMA_URN;
use weir_messages::recording::{self, Answer, Body, Entry, Exchange};

use super::Finished;
use super::redact::{self, Json, Key, Secrets};
use crate::queue::{Error, Queue};
use crate::telemetry::metrics::{self, Counter};

/// Recordings, by what became of them.
static RECORDINGS: Counter = Counter::new("weir_recordings_total", "Recorded calls.", &["outcome"]);

/// Not more recordings wait to be made.
const MOST_WAITING: usize = 1024;
/// Nor wait for their acknowledgement.
const MOST_UNDERWAY: usize = 128;
/// So many at most are made together.
const TOGETHER: usize = 16;
/// They do not take more memory than this, in bytes.
const MOST_MEMORY: usize = 64 << 20;
/// How long a process that stops waits for them.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// A stream that is missing, and that the account may not have or the server has no room for, is asked for this often.
const BREATH: Duration = Duration::from_secs(30);
/// What a message takes besides its payload, generously.
const OVERHEAD: usize = 4096;

enum Message {
    Keep(Box<Finished>, Taken),
    Flush(oneshot::Sender<()>),
}

/// Brings recordings to the stream.
pub(super) struct Publisher {
    waiting: mpsc::Sender<Message>,
    room: Arc<Room>,
}

/// What there is room for.
#[derive(Default)]
struct Room {
    memory: AtomicUsize,
    lost: AtomicU64,
}

impl Room {
    fn lose(&self, outcome: &str) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        RECORDINGS.inc(&[outcome]);
    }
}

/// The room that a recording takes up until it is dropped.
struct Taken {
    room: Arc<Room>,
    size: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.memory.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// A recording that is ready to go.
struct Ready {
    subject: String,
    payload: Vec<u8>,
    taken: Taken,
}

impl Publisher {
    /// Begins to bring recordings to the stream of `queue`, in a task that ends with the last publisher.
    pub(super) fn start(queue: Queue, key: Key) -> Self {
        metrics::register(&RECORDINGS);
        let (waiting, messages) = mpsc::channel(MOST_WAITING);
        let room = Arc::new(Room::default());
        tokio::spawn(bring(queue, messages, room.clone(), key));
        Self { waiting, room }
    }

    pub(super) fn keep(&self, finished: Finished) {
        let size = finished.size();
        self.room.memory.fetch_add(size, Ordering::Relaxed);
        let taken = Taken { room: self.room.clone(), size };
        if self.room.memory.load(Ordering::Relaxed) > MOST_MEMORY
            || self.waiting.try_send(Message::Keep(Box::new(finished), taken)).is_err()
        {
            self.room.lose("dropped");
        }
    }

    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let wait = async {
            if self.waiting.send(Message::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, wait).await;
    }
}

/// Makes recordings and stores them, until there is nobody left who hands any over.
async fn bring(queue: Queue, mut messages: mpsc::Receiver<Message>, room: Arc<Room>, key: Key) {
    let mut secrets = None;
    let mut underway: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
    let mut batch = Vec::with_capacity(TOGETHER);
    loop {
        tokio::select! {
            // First, so that what is underway goes on.
            biased;
            Some(()) = underway.next(), if !underway.is_empty() => continue,
            many = messages.recv_many(&mut batch, TOGETHER), if underway.len() < MOST_UNDERWAY => {
                if many == 0 {
                    break;
                }
            }
        }
        let (mut finished, mut flushes) = (Vec::with_capacity(batch.len()), Vec::new());
        for message in batch.drain(..) {
            match message {
                Message::Keep(call, taken) => finished.push((call, taken)),
                Message::Flush(done) => flushes.push(done),
            }
        }
        if !finished.is_empty() {
            let many = finished.len();
            let (mut its_secrets, limit) = (secrets.take().unwrap_or_else(|| Secrets::new(key.clone())), limit(&queue));
            let lost = room.lost.load(Ordering::Relaxed);
            let make = move || {
                let ready: Vec<_> = finished
                    .into_iter()
                    .map(|(call, taken)| make(*call, taken, &mut its_secrets, limit, lost))
                    .collect();
                (ready, its_secrets)
            };
            match tokio::task::spawn_blocking(make).await {
                Ok((ready, its_secrets)) => {
                    secrets = Some(its_secrets);
                    for ready in ready {
                        underway.push(Box::pin(store(queue.clone(), room.clone(), ready)));
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "recordings could not be made");
                    (0..many).for_each(|_| room.lose("failed"));
                }
            }
        }
        if !flushes.is_empty() {
            while underway.next().await.is_some() {}
            for done in flushes {
                let _ = done.send(());
            }
        }
    }
    while underway.next().await.is_some() {}
}

/// How long a payload may be.
fn limit(queue: &Queue) -> usize {
    // Zero before the first connection.
    let most = queue.client().server_info().max_payload;
    if most == 0 { 1 << 20 } else { most }.saturating_sub(OVERHEAD)
}

fn make(call: Finished, taken: Taken, secrets: &mut Secrets, limit: usize, lost: u64) -> Result<Ready, Error> {
    let mut recording = call.recording(secrets, lost);
    let subject = recording::subject(recording.object(), &recording.id)?;
    let mut payload = encode(&recording)?;
    if payload.len() > limit {
        lighten(&mut recording, payload.len() - limit);
        payload = encode(&recording)?;
    }
    Ok(Ready { subject, payload, taken })
}

pub(super) fn encode(recording: &Recording<Json>) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(recording).map_err(|error| Error::Encode(error.into()))
}

async fn store(queue: Queue, room: Arc<Room>, ready: Result<Ready, Error>) {
    let stored = async {
        let Ready { subject, payload, taken: _taken } = ready?;
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json");
        headers.insert("ce-dataschema", format!("{SCHEMA_URN}{}", recording::SCHEMA).as_str());
        queue.store(subject, headers, payload.into(), BREATH).await
    };
    match stored.await {
        Ok(_) => RECORDINGS.inc(&["stored"]),
        Err(error) => {
            tracing::debug!(%error, "a recording could not be stored");
            room.lose("failed");
        }
    }
}

/// Leaves out the largest bodies until `excess` bytes are saved. Such a call can be read, and may not replay.
fn lighten(recording: &mut Recording<Json>, excess: usize) {
    fn bodies(exchange: &mut Exchange<Json>) -> impl Iterator<Item = &mut Body<Json>> {
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
    let size = |body: &Body<Json>| match body {
        Body::Json(json) => json.get().len(),
        Body::Omitted { .. } => 0,
    };
    let mut all: Vec<(usize, &mut Body<Json>)> =
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
