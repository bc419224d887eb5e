//! Runs a recorded call again, offline.
//!
//! Intention: the function that is run is the real one, in this process, under a debugger if one likes. What it asks is
//! answered from the recording; what it decides is recorded in turn, and compared.
//!
//! Invariants
//! - Nothing is sent anywhere. A request that the recording has no answer to fails, and is named.
//! - An answer is given once, in the recorded order among requests that are alike. Of requests that are made at the same
//!   time, those are answered first that were answered first: which of two failures comes first may decide.
//! - Who asks counts: of requests that are otherwise alike, each is answered as the one was that was made with its token.
//!   Tokens are placeholders here, and travel through the run as they did then. If none was made with it, any will do.
//! - A call that was ended, by its deadline or the loss of its lease, is run to where it was ended, and no further. One that
//!   panicked is run for as long as it runs: whoever has mended it wants to see that it goes on.
//! - A write that differs from the recorded one only in its body gets the recorded answer, so that the run goes on; the
//!   difference shows in the decision.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::Notify;
use uuid::Uuid;
use weir_api::ObjectRef;
use weir_messages::recording::{self, Answer, Entry, Exchange, Peer};
use weir_messages::{Recording, Traceparent};
use weir_openstack::{Transport, TransportError};

use super::boundary::Boundary;
use super::decision::{Decision, normal, normal_json, normal_text, omitted};
use super::redact::{Json, Key, Secrets};
use super::tape::NO_ANSWER;
use super::{Mode, PANIC, Recorder};
use crate::Function;
use crate::reconcile::Reconciler;
use crate::worker::{Call, Handler};

/// A recorded call, beside the same call run again.
#[derive(Clone, Debug)]
pub struct Replay {
    /// What was recorded.
    pub recorded: Decision,
    /// What was decided now.
    pub replayed: Decision,
    /// The recording of the run; its clock and its durations are of today.
    pub run: Recording,
    /// Requests that the recording has no answer to, in the order in which they were made.
    pub missing: Vec<String>,
    /// Whether it was stopped at a step, as asked, so that what came after it is not there.
    pub stopped: bool,
}

impl Replay {
    /// Whether the decision is the recorded one, to the byte.
    pub fn is_faithful(&self) -> bool {
        self.missing.is_empty() && self.recorded.to_bytes() == self.replayed.to_bytes()
    }
}

/// Why a call cannot be run again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The function is for another kind.
    #[error("the call was for a {0}, and the function is not for that kind")]
    Kind(weir_api::Kind),
    /// The run has left no recording, since it panicked before it began.
    #[error("the function has not come to an end")]
    NoEnd,
    /// There is nothing to run it on.
    #[error("the call cannot be run here: {0}")]
    Runtime(String),
}

/// Runs a recorded call of `function` again. `until`: stop when a step is decided that begins with this.
///
/// # Errors
/// The recording is of another kind's function.
pub async fn replay<F: Function>(function: F, recording: &Recording, until: Option<String>) -> Result<Replay, Error> {
    replay_handler(|boundary| Reconciler::at(function, boundary), recording, until).await
}

/// The same for any handler, which is made for the world as it was then.
///
/// # Errors
/// The recording is of another kind's handler.
pub async fn replay_handler<H: Handler>(
    make: impl FnOnce(Boundary) -> H + Send + 'static,
    recording: &Recording,
    until: Option<String>,
) -> Result<Replay, Error> {
    let recording = recording.clone();
    // On one thread, so that who comes first does not depend on who runs where.
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| Error::Runtime(error.to_string()))?.block_on(run(make, &recording, until))
    };
    tokio::task::spawn_blocking(run).await.map_err(|error| Error::Runtime(error.to_string()))?
}

async fn run<H: Handler>(
    make: impl FnOnce(Boundary) -> H,
    recording: &Recording,
    until: Option<String>,
) -> Result<Replay, Error> {
    let player = Arc::new(Player::new(recording));
    let (recorder, mut runs) = Recorder::collecting(Mode::All);
    let handler = make(Boundary::played(player.clone(), recorder, until));
    if handler.kind() != recording.object().kind {
        return Err(Error::Kind(recording.object().kind));
    }
    let mut call = Call::direct(recording.trigger.work.clone());
    call.id = Uuid::parse_str(&recording.id).unwrap_or(call.id);
    call.lane = recording.trigger.lane;
    call.traceparent = Traceparent::from_str(&recording.trigger.traceparent).unwrap_or(call.traceparent);
    let call = Arc::new(call);
    let its_call = call.clone();
    // In a task of its own: a panic of the function is its own, and shows as a call that was ended.
    let ended = tokio::spawn(async move { handler.handle(&its_call).await }).await;
    if let Err(error) = ended {
        tracing::warn!(%error, "the function panicked");
    }
    let run = runs.recv().await.ok_or(Error::NoEnd)?;
    Ok(Replay {
        recorded: Decision::of(recording),
        replayed: Decision::of(&run),
        missing: player.missing(),
        stopped: player.is_stopped(),
        run,
    })
}

/// Answers from a recording.
pub(crate) struct Player {
    state: Mutex<State>,
    /// Makes what is asked alike to what is recorded.
    key: Key,
    /// The verdict of the recorded call.
    verdict: String,
    /// What stopped it, and when.
    stops: Vec<(String, u64)>,
    /// When its requests were made.
    begins: Vec<u64>,
    /// It was ended here.
    end: Notify,
    /// Here its patience was at an end.
    silence: Notify,
}

struct State {
    /// Those not yet given, in order: tokens that were held, then the call's own, then others' vain attempts for a token.
    exchanges: Vec<Exchange>,
    /// How many of them, from the first on, are tokens that were held.
    held: usize,
    clock: std::collections::VecDeque<Timestamp>,
    wakes: Vec<(ObjectRef, Option<String>)>,
    missing: Vec<String>,
    stopped: bool,
    /// Whether patience has been at an end.
    silenced: bool,
    /// When those were answered that wait for an answer now, in microseconds since the recorded call began.
    waiting: Vec<u64>,
}

/// Who asks, in a request to OpenStack.
const AUTH_TOKEN: &str = "x-auth-token";

/// How often others get a word in before it is taken for granted that all who run now have asked what they want to ask. An
/// answer passes a handful of tasks on its way.
const PATIENCE: usize = 32;

/// Waits for its turn; gives it up when dropped.
struct Turn<'a> {
    player: &'a Player,
    done: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.player.state();
        if let Some(at) = state.waiting.iter().position(|done| *done == self.done) {
            state.waiting.remove(at);
        }
    }
}

impl Player {
    fn new(recording: &Recording) -> Self {
        let got = |exchange: &&Exchange| matches!(exchange.answer, Answer::Response { status: 200..300, .. });
        let (held, vain): (Vec<&Exchange>, Vec<&Exchange>) = recording.held.iter().partition(got);
        let (many, exchanges) =
            (held.len(), held.into_iter().chain(recording.exchanges()).chain(vain).cloned().collect());
        let clock = recording.entries.iter().filter_map(|entry| match entry {
            Entry::Clock { time } => time.parse().ok(),
            _ => None,
        });
        let wakes = recording.entries.iter().filter_map(|entry| match entry {
            Entry::Wake { object, failure, .. } => Some((object.clone(), failure.clone())),
            _ => None,
        });
        let stops = recording.entries.iter().filter_map(|entry| match entry {
            Entry::Stopped { at, by } => Some((by.clone(), *at)),
            _ => None,
        });
        let state = State {
            exchanges,
            held: many,
            clock: clock.collect(),
            wakes: wakes.collect(),
            missing: Vec::new(),
            stopped: false,
            silenced: false,
            waiting: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            key: Key::random(),
            verdict: recording.outcome.verdict.clone(),
            stops: stops.collect(),
            begins: recording.exchanges().map(|exchange| exchange.at).collect(),
            end: Notify::new(),
            silence: Notify::new(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn missing(&self) -> Vec<String> {
        self.state().missing.clone()
    }

    fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// The run stops here, as was asked.
    pub(crate) fn stop(&self) {
        self.state().stopped = true;
    }

    /// What the clock said; now, once the recording has no more of it.
    pub(crate) fn now(&self) -> Timestamp {
        self.state().clock.pop_front().unwrap_or_else(Timestamp::now)
    }

    /// Whether the recorded call had lost its lease when it came to its end.
    pub(crate) fn lost_its_lease(&self) -> bool {
        self.verdict == "abandoned"
    }

    /// Whether the recorded call was ended from without.
    fn was_ended(&self) -> bool {
        self.verdict == "ended" && !self.is_stopped_by(PANIC)
    }

    /// Whether the recorded call was stopped by this.
    pub(crate) fn is_stopped_by(&self, what: &str) -> bool {
        self.stops.iter().any(|(by, _)| by == what)
    }

    /// Resolves where the recorded call gave up waiting for an answer; never, if it did not.
    pub(crate) async fn out_of_patience(&self) {
        self.silence.notified().await;
    }

    /// Resolves where the recorded call was ended; never, if it was not.
    pub(crate) async fn ended(&self) {
        self.end.notified().await;
    }

    /// What kept another object's function from being told, if anything did.
    pub(crate) fn wake(&self, object: &ObjectRef) -> Option<String> {
        let mut state = self.state();
        let at = state.wakes.iter().position(|(woken, _)| woken == object)?;
        state.wakes.remove(at).1
    }

    /// What comes of a request that the recorded call did not wait for, until then.
    async fn silence(&self, done: u64) {
        if self.was_ended() && self.begins.iter().all(|at| *at <= done) {
            self.end.notify_one();
            return std::future::pending().await;
        }
        // Still waited for when patience was at an end; which is so once.
        let gave_up = self.stops.iter().any(|(by, at)| by == NO_ANSWER && done >= *at);
        if gave_up && !std::mem::replace(&mut self.state().silenced, true) {
            self.silence.notify_one();
            std::future::pending::<()>().await;
        }
    }

    async fn answer<B>(&self, peer: Peer, request: &Request<B>, body: &Bytes) -> Option<Answer> {
        let (done, answer) = match self.find(peer, request, body) {
            Ok((done, answer)) => (done, Ok(answer)),
            // Last, once all others are answered: the call may have gone another way before it came to this request.
            Err(missing) => (u64::MAX, Err(missing)),
        };
        let turn = Turn { player: self, done };
        self.state().waiting.push(done);
        loop {
            // Also, so that whoever waits for a step at which to stop gets a word in.
            for _ in 0..PATIENCE {
                tokio::task::yield_now().await;
            }
            if self.state().waiting.iter().min() == Some(&turn.done) {
                break;
            }
        }
        match answer {
            Ok(answer) => {
                if matches!(answer, Answer::Abandoned) {
                    self.silence(done).await;
                }
                Some(answer)
            }
            // It was ended before it came to this request, or while others fetched a token for it.
            Err(_) if self.was_ended() => {
                self.end.notify_one();
                std::future::pending().await
            }
            Err(missing) => {
                self.state().missing.push(missing);
                None
            }
        }
    }

    /// The answer to a request, and when it came; or what is missing.
    fn find<B>(&self, peer: Peer, request: &Request<B>, body: &Bytes) -> Result<(u64, Answer), String> {
        let (method, url) = (request.method().as_str(), &request.uri().to_string());
        let asks = request.headers().get(AUTH_TOKEN).and_then(|token| token.to_str().ok());
        let mut secrets = Secrets::new(self.key.clone());
        let learnt = secrets.learn(url, body);
        let asked_url = normal_text(&secrets.url(url));
        let asked = secrets.body(learnt).map(|body| normal_body(&body));
        let mut state = self.state();
        let alike = |e: &Exchange| e.peer == peer && e.method == method && normal_text(&e.url) == asked_url;
        let same = |e: &Exchange| alike(e) && e.body.as_ref().map(normal) == asked;
        let exchanges = &state.exchanges;
        let token = peer == Peer::Openstack && url.ends_with("/auth/tokens");
        // A token for somebody else is no answer at all.
        let found = first(exchanges, asks, same).or_else(|| if token { None } else { first(exchanges, asks, alike) });
        if let Some(found) = found {
            let exchange = state.exchanges.remove(found);
            // What was held was there before the call began.
            let done = if found < state.held { 0 } else { exchange.at.saturating_add(exchange.took) };
            state.held -= usize::from(found < state.held);
            return Ok((done, exchange.answer));
        }
        let shown = asked.filter(|_| method != "GET").map(|body| format!(" {}", short(&body))).unwrap_or_default();
        Err(format!("{method} {asked_url}{shown}"))
    }

    /// A Kubernetes client that answers from the recording.
    pub(crate) fn kubernetes(self: &Arc<Self>) -> kube::Client {
        let player = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let player = player.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                match player.answer(Peer::Kubernetes, &Request::from_parts(parts, ()), &body).await {
                    Some(Answer::Response { status, headers, body }) => {
                        Ok::<_, tower::BoxError>(response(status, &headers, body.as_ref())?.map(Body::from))
                    }
                    Some(Answer::Failed { detail, .. }) => Err(detail.into()),
                    Some(Answer::Abandoned) => Err("no answer was waited for".into()),
                    None => Err("the recording holds no answer".into()),
                }
            }
        });
        kube::Client::new(service, "default")
    }

    /// A transport that answers from the recording.
    pub(crate) fn openstack(self: &Arc<Self>) -> Arc<dyn Transport> {
        Arc::new(Played(self.clone()))
    }
}

struct Played(Arc<Player>);

impl Transport for Played {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, TransportError>> {
        Box::pin(async move {
            match self.0.answer(Peer::Openstack, &request, request.body()).await {
                Some(Answer::Response { status, headers, body }) => response(status, &headers, body.as_ref())
                    .map_err(|error| TransportError::Broken(format!("the recording is damaged: {error}"))),
                Some(Answer::Failed { failure, detail }) => Err(match failure.as_str() {
                    "connect" => TransportError::Connect(detail),
                    "timeout" => TransportError::Timeout,
                    "too-large" => TransportError::TooLarge { limit: 0 },
                    "withheld" => TransportError::Withheld(detail),
                    _ => TransportError::Broken(detail),
                }),
                // Its caller's patience was at an end.
                Some(Answer::Abandoned) => Err(TransportError::Timeout),
                None => Err(TransportError::Withheld("the recording holds no answer".to_owned())),
            }
        })
    }
}

fn response(
    status: u16,
    headers: &[(String, String)],
    body: Option<&recording::Body>,
) -> Result<Response<Bytes>, http::Error> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(match body {
        None => Bytes::new(),
        Some(recording::Body::Json(value)) => Bytes::from(value.to_string()),
        // As little JSON as it was when it could not be understood.
        Some(recording::Body::Omitted { why, .. }) => Bytes::from(format!("({why})")),
    })
}

/// The first of those that will do which was asked for with this token; if there is none, the first that will do.
fn first(exchanges: &[Exchange], token: Option<&str>, will_do: impl Fn(&Exchange) -> bool) -> Option<usize> {
    let with =
        |e: &Exchange| e.headers.iter().find(|(name, _)| name == AUTH_TOKEN).map(|(_, with)| with.as_str()) == token;
    let mut found = exchanges.iter().enumerate().filter(|(_, exchange)| will_do(exchange)).peekable();
    let any = found.peek().map(|(at, _)| *at);
    found.find(|(_, exchange)| with(exchange)).map(|(at, _)| at).or(any)
}

/// A body that is asked with, as one that is recorded would be compared.
fn normal_body(body: &recording::Body<Json>) -> Value {
    match body {
        recording::Body::Json(json) => normal_json(&serde_json::from_str(json.get()).unwrap_or_default()),
        recording::Body::Omitted { bytes, why } => omitted(*bytes, why),
    }
}

fn short(body: &Value) -> String {
    const LONG: usize = 200;
    let text = body.to_string();
    if text.chars().nth(LONG).is_some() { text.chars().take(LONG).chain(['…']).collect() } else { text }
}
