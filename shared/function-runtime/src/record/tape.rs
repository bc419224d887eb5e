//! The tape of one call: all that crosses the boundary between a function and the world, in order (R-1).
//!
//! Intention: the clients that a [`crate::Scope`] hands out write here, and so do the clock and the steps that are logged.
//! The function knows nothing of it.
//!
//! Caveat: a tape holds what was said as it was said, secrets included. It never leaves the process; [`super::Recorder`]
//! makes a recording of it when the call is over.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use tokio::sync::Notify;
use weir_api::ObjectRef;
use weir_messages::recording::{Entry, Exchange, Outcome, Peer};
use weir_openstack::{Purpose, Transport, TransportError, purpose};

use super::exchange::{Answered, Asked, Heard, RawExchange};
use super::redact::{Json, Secrets};
use super::tokens::Tokens;
use crate::gate::{Gate, changes_something};

/// A call that says more than this is not taken down to its end.
const MOST_ENTRIES: usize = 10_000;

/// The call's deadline kept it from writing more.
pub(crate) const TIME_UP: &str = "time-up";
/// An answer was not waited for any longer.
pub(crate) const NO_ANSWER: &str = "no-answer";

tokio::task_local! {
    static CURRENT: Arc<Tape>;
}

/// Something that was said.
enum Raw {
    /// A request that is not answered yet.
    Asked(Arc<Asked>),
    Exchange(Arc<RawExchange>),
    Step {
        at: u64,
        step: String,
    },
    Clock(Timestamp),
    Wake {
        at: u64,
        object: ObjectRef,
        failure: Option<String>,
    },
    Stopped {
        at: u64,
        by: &'static str,
    },
}

/// What one call says and hears.
pub struct Tape {
    begun: Instant,
    entries: Mutex<Vec<Raw>>,
    problem: Mutex<Option<weir_api::Problem>>,
    held: Mutex<Vec<Arc<RawExchange>>>,
    tokens: Arc<Tokens>,
    size: AtomicUsize,
    dull: AtomicBool,
    until: Option<Until>,
}

/// Where a replay is to stop.
struct Until {
    step: String,
    reached: Notify,
    /// Nothing is taken down from then on: the function goes on until it has to wait for something.
    is_reached: AtomicBool,
}

/// A request that waits for its answer. Dropped without one, it is abandoned.
struct Open<'a> {
    tape: &'a Tape,
    asked: Option<Arc<Asked>>,
    index: Option<usize>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.tape.put(self.index, asked, Answered::Abandoned);
        }
    }
}

impl Open<'_> {
    fn answered(mut self, answered: Answered) {
        if let Some(asked) = self.asked.take() {
            self.tape.put(self.index, asked, answered);
        }
    }
}

impl Tape {
    pub(super) fn new(tokens: Arc<Tokens>, until: Option<String>) -> Self {
        Self {
            begun: Instant::now(),
            entries: Mutex::default(),
            problem: Mutex::default(),
            held: Mutex::default(),
            tokens,
            size: AtomicUsize::new(0),
            dull: AtomicBool::new(false),
            until: until.map(|step| Until { step, reached: Notify::new(), is_reached: AtomicBool::new(false) }),
        }
    }

    /// Runs a call, whose steps are taken down on this tape.
    pub(crate) async fn during<T>(self: Arc<Self>, call: impl Future<Output = T>) -> T {
        CURRENT.scope(self, call).await
    }

    /// The tape of the call that runs in this task, if it is taken down.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Resolves once the step is decided at which a replay is to stop; never otherwise.
    pub(crate) async fn reached(&self) {
        match &self.until {
            Some(until) => until.reached.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Now; taken down, so that a replay sees the same.
    pub(crate) fn clock(&self, now: Timestamp) {
        self.push(Raw::Clock(now));
    }

    /// A step was decided.
    pub(super) fn step(&self, step: String) {
        let until = self.until.as_ref().filter(|until| step.starts_with(&until.step));
        self.push(Raw::Step { at: self.at(), step });
        if let Some(until) = until {
            until.is_reached.store(true, Ordering::Relaxed);
            until.reached.notify_one();
        }
    }

    /// Another object's function was told to look at it, or could not be.
    pub(crate) fn wake(&self, object: ObjectRef, failure: Option<String>) {
        self.push(Raw::Wake { at: self.at(), object, failure });
    }

    /// The call was stopped in what it did; by what, [`Entry::Stopped`] says.
    pub(crate) fn stopped(&self, by: &'static str) {
        self.push(Raw::Stopped { at: self.at(), by });
    }

    /// The call has come to nothing that anybody will ask about.
    pub(crate) fn is_not_worth_it(&self) {
        self.dull.store(true, Ordering::Relaxed);
    }

    /// Whether it has.
    pub(super) fn is_dull(&self) -> bool {
        self.dull.load(Ordering::Relaxed)
    }

    /// What stood in the way, if anything did; the last pass counts.
    pub(crate) fn problem(&self, problem: Option<&weir_api::Problem>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem.cloned();
    }

    /// Whether something stands in the way that does not pass by itself.
    pub(super) fn is_in_trouble(&self) -> bool {
        use weir_api::Consequence::{Operator, Retry, UserAction};
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        problem.as_ref().is_some_and(|p| matches!(p.consequence, Operator | Retry(_) | UserAction))
    }

    /// How much memory the tape takes, about, in bytes.
    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// How long the call has run, in microseconds.
    pub(super) fn at(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Raw>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it is, if there was room for it.
    fn push(&self, raw: Raw) -> Option<usize> {
        if self.until.as_ref().is_some_and(|until| until.is_reached.load(Ordering::Relaxed)) {
            return None;
        }
        let mut entries = self.entries();
        if entries.len() >= MOST_ENTRIES {
            return None;
        }
        entries.push(raw);
        Some(entries.len() - 1)
    }

    fn put(&self, index: Option<usize>, asked: Arc<Asked>, answered: Answered) {
        let exchange = Arc::new(RawExchange { took: self.at().saturating_sub(asked.at), asked, answered });
        if exchange.asked.is_for_a_token() {
            self.tokens.remember(&exchange);
        }
        // Of what there was no room for, nothing is kept.
        if let Some(index) = index
            && let Some(slot) = self.entries().get_mut(index)
        {
            self.size.fetch_add(exchange.size(), Ordering::Relaxed);
            *slot = Raw::Exchange(exchange);
        }
    }

    fn open<B>(&self, peer: Peer, request: &Request<B>, body: &Bytes) -> Open<'_> {
        let asked = Arc::new(Asked::new(self.at(), peer, request, body));
        let index = self.push(Raw::Asked(asked.clone()));
        Open { tape: self, asked: Some(asked), index }
    }

    /// A Kubernetes client that writes on this tape, and whose writes ask the gate first.
    pub(crate) fn kubernetes(self: &Arc<Self>, client: &kube::Client, gate: Arc<dyn Gate>) -> kube::Client {
        let (inner, tape) = (client.clone(), self.clone());
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, tape, gate) = (inner.clone(), tape.clone(), gate.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let request = Request::from_parts(parts, Body::from(body.clone()));
                let open = tape.open(Peer::Kubernetes, &request, &body);
                let answered = async {
                    if changes_something(request.method()) {
                        gate.check().map_err(|refused| kube::Error::Service(refused.into()))?;
                    }
                    let (parts, body) = inner.send(request).await?.into_parts();
                    Ok::<_, kube::Error>((parts, body.collect_bytes().await?))
                };
                match answered.await {
                    Ok((parts, body)) => {
                        open.answered(Answered::response(parts.status, &parts.headers, &body));
                        Ok::<_, tower::BoxError>(Response::from_parts(parts, Body::from(body)))
                    }
                    Err(error) => {
                        open.answered(Answered::Failed { failure: "kubernetes", detail: error.to_string() });
                        Err(error.into())
                    }
                }
            }
        });
        kube::Client::new(service, namespace)
    }

    /// An OpenStack transport that writes on this tape.
    pub(crate) fn openstack(self: &Arc<Self>, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Taped { tape: self.clone(), inner })
    }

    /// Takes what is on the tape, without its secrets.
    pub(super) fn read(&self, secrets: &mut Secrets, outcome: Outcome) -> Read {
        let raw = std::mem::take(&mut *self.entries());
        let mut held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        held.extend(self.tokens.failures(self.begun));
        let complete = raw.len() < MOST_ENTRIES;
        let raw: Vec<Raw> = raw.into_iter().map(Raw::or_abandoned).collect();
        secrets.begin();
        let all = held.iter().chain(raw.iter().filter_map(Raw::exchange));
        let mut learnt: Vec<Heard<'_>> = all.map(|exchange| exchange.learn(secrets)).collect();
        for heard in &learnt {
            heard.publish(secrets);
        }
        let complete = complete && !secrets.is_full();
        let exchanges = learnt.split_off(held.len());
        let mut exchanges = exchanges.into_iter();
        let entries = raw.iter().map(|raw| match raw {
            Raw::Exchange(_) => exchanges.next().map_or(Entry::Other, |heard| Entry::Exchange(heard.without(secrets))),
            other => other.without(secrets),
        });
        let entries = entries.collect();
        let held = learnt.into_iter().map(|heard| heard.without(secrets)).collect();
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).take();
        let problem = problem.map(|problem| weir_messages::recording::Problem {
            consequence: super::consequence(problem.consequence).to_owned(),
            message: secrets.text(&problem.message).into_owned(),
            detail: problem.detail.as_deref().map(|detail| secrets.text(detail).into_owned()),
        });
        Read { held, entries, outcome: Outcome { problem, ..outcome }, complete }
    }
}

/// What was on a tape.
pub(super) struct Read {
    pub(super) held: Vec<Exchange<Json>>,
    pub(super) entries: Vec<Entry<Json>>,
    pub(super) outcome: Outcome,
    pub(super) complete: bool,
}

impl Raw {
    /// A request that somebody waits for still, when the call is over, is not waited for by the call.
    fn or_abandoned(self) -> Self {
        match self {
            Self::Asked(asked) => {
                Self::Exchange(Arc::new(RawExchange { asked, took: 0, answered: Answered::Abandoned }))
            }
            other => other,
        }
    }

    const fn exchange(&self) -> Option<&Arc<RawExchange>> {
        match self {
            Self::Exchange(exchange) => Some(exchange),
            _ => None,
        }
    }

    /// What is recorded of anything but an exchange.
    fn without(&self, secrets: &Secrets) -> Entry<Json> {
        let text = |text: &String| secrets.text(text).into_owned();
        match self {
            Self::Asked(_) | Self::Exchange(_) => Entry::Other,
            Self::Step { at, step } => Entry::Step { at: *at, step: text(step) },
            Self::Clock(time) => Entry::Clock { time: time.to_string() },
            Self::Wake { at, object, failure } => {
                Entry::Wake { at: *at, object: object.clone(), failure: failure.as_ref().map(text) }
            }
            Self::Stopped { at, by } => Entry::Stopped { at: *at, by: (*by).to_owned() },
        }
    }
}

struct Taped {
    tape: Arc<Tape>,
    inner: Arc<dyn Transport>,
}

impl Transport for Taped {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, TransportError>> {
        Box::pin(async move {
            if purpose(&request) != Purpose::Authenticate
                && let Some(token) = request.headers().get("x-auth-token")
                && let Some(got) = self.tape.tokens.held(token.as_bytes())
            {
                self.tape.hold(got);
            }
            let open = self.tape.open(Peer::Openstack, &request, request.body());
            let answer = self.inner.send(request).await;
            open.answered(match &answer {
                Ok(response) => Answered::response(response.status(), response.headers(), response.body()),
                Err(error) => Answered::Failed { failure: failure(error), detail: error.to_string() },
            });
            answer
        })
    }
}

impl Tape {
    /// A token is used that was got by `exchange`. Unless this call got it itself, it is part of what the call was given.
    fn hold(&self, exchange: Arc<RawExchange>) {
        let same = |other: &RawExchange| other.token() == exchange.token();
        let own = self.entries().iter().filter_map(Raw::exchange).any(|other| same(other));
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !own && !held.iter().any(|other| same(other)) {
            self.size.fetch_add(512, Ordering::Relaxed);
            held.push(exchange);
        }
    }
}

const fn failure(error: &TransportError) -> &'static str {
    match error {
        TransportError::Connect(_) => "connect",
        TransportError::Broken(_) => "broken",
        TransportError::Timeout => "timeout",
        TransportError::TooLarge { .. } => "too-large",
        TransportError::Withheld(_) => "withheld",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::super::redact::Key;
    use super::*;

    /// Proves: R-2
    #[test]
    fn of_a_call_with_more_secrets_than_can_be_known_only_what_it_did_is_left() {
        let secret = |number: usize| format!("{number:03}{}", "horse!".repeat(1 << 18));
        let tags: Vec<_> = (0..20).map(|number| json!({"name": "password", "value": secret(number)})).collect();
        let said = Bytes::from(json!({ "tags": tags }).to_string());
        let answer = Bytes::from_static(br#"{"message": "no: 019horse!horse!"}"#);
        let tape = Tape::new(Arc::default(), None);
        let request = Request::post("/a/path?x=019horse!").body(()).unwrap();
        let answered = Answered::response(http::StatusCode::CONFLICT, &http::HeaderMap::new(), &answer);
        tape.open(Peer::Kubernetes, &request, &said).answered(answered);
        tape.step("Make 019horse!".to_owned());
        let read = tape.read(
            &mut Secrets::new(Key::random()),
            Outcome { verdict: "failed".to_owned(), delay: None, problem: None },
        );
        assert!(!read.complete);
        let text = serde_json::to_string(&read.entries).unwrap();
        assert!(!text.contains("horse!") && text.len() < 2048, "{text}");
        for left in ["POST", "/a/path", "409", "more secrets"] {
            assert!(text.contains(left), "{left}: {text}");
        }
    }
}
