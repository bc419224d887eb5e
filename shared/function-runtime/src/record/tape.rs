//! The tape of one call: all that crosses the boundary between a function and the world, in order.
//!
//! Intention: the clients that a [`crate::Scope`] hands out write here, and so do the clock and the steps that are logged.
//! The function knows nothing of it.
//!
//! Caveat: a tape holds what was said as it was said, secrets included. It never leaves the process; [`super::Recorder`]
//! makes a recording of it when the call is over.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use tokio::sync::Notify;
use weir_messages::recording::{Answer, Entry, Exchange, Outcome, Peer};
use weir_openstack::{Purpose, Transport, TransportError, purpose};

use super::redact::Secrets;
use super::tokens::Tokens;

/// A call that says more than this is not taken down to its end.
const MOST_ENTRIES: usize = 10_000;

tokio::task_local! {
    static CURRENT: Arc<Tape>;
}

/// Something that was said.
pub(super) enum Raw {
    Exchange(Box<RawExchange>),
    Step { at: u64, step: String },
    Clock(Timestamp),
}

/// A request and its answer, as they were.
#[derive(Clone)]
pub(super) struct RawExchange {
    at: u64,
    took: u64,
    pub(super) peer: Peer,
    method: String,
    url: String,
    headers: HeaderMap,
    body: Bytes,
    pub(super) answer: RawAnswer,
}

#[derive(Clone)]
pub(super) enum RawAnswer {
    Response { status: u16, headers: HeaderMap, body: Bytes },
    Failed { failure: &'static str, detail: String },
    Abandoned,
}

/// What one call says and hears.
pub struct Tape {
    begun: Instant,
    entries: Mutex<Vec<Raw>>,
    problem: Mutex<Option<weir_api::Problem>>,
    held: Mutex<Vec<RawExchange>>,
    tokens: Arc<Tokens>,
    size: AtomicUsize,
    until: Option<Until>,
}

/// Where a replay is to stop.
struct Until {
    step: String,
    reached: Notify,
}

/// Marks an exchange as abandoned unless it is answered.
struct Open<'a> {
    tape: &'a Tape,
    exchange: Option<RawExchange>,
    index: usize,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            self.tape.put(self.index, exchange);
        }
    }
}

impl Open<'_> {
    fn answered(mut self, answer: RawAnswer) {
        if let Some(mut exchange) = self.exchange.take() {
            exchange.answer = answer;
            self.tape.put(self.index, exchange);
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
            until: until.map(|step| Until { step, reached: Notify::new() }),
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
        if let Some(until) = self.until.as_ref().filter(|until| step.starts_with(&until.step)) {
            until.reached.notify_one();
        }
        self.push(Raw::Step { at: self.at(), step });
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

    fn push(&self, raw: Raw) -> usize {
        let mut entries = self.entries();
        if entries.len() < MOST_ENTRIES {
            entries.push(raw);
        }
        entries.len() - 1
    }

    fn put(&self, index: usize, mut exchange: RawExchange) {
        exchange.took = self.at().saturating_sub(exchange.at);
        if exchange.is_for_a_token() {
            self.tokens.remember(&exchange);
        }
        let answer = match &exchange.answer {
            RawAnswer::Response { body, .. } => body.len(),
            _ => 0,
        };
        self.size.fetch_add(exchange.body.len() + answer + 512, Ordering::Relaxed);
        if let Some(slot) = self.entries().get_mut(index) {
            *slot = Raw::Exchange(Box::new(exchange));
        }
    }

    fn open<B>(&self, peer: Peer, request: &Request<B>, body: &Bytes) -> Open<'_> {
        let exchange = RawExchange {
            at: self.at(),
            took: 0,
            peer,
            method: request.method().to_string(),
            url: request.uri().to_string(),
            headers: request.headers().clone(),
            body: body.clone(),
            answer: RawAnswer::Abandoned,
        };
        let index = self.push(Raw::Exchange(Box::new(exchange.clone())));
        Open { tape: self, exchange: Some(exchange), index }
    }

    /// A Kubernetes client that writes on this tape.
    pub(crate) fn kubernetes(self: &Arc<Self>, client: &kube::Client) -> kube::Client {
        let (inner, tape) = (client.clone(), self.clone());
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, tape) = (inner.clone(), tape.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let request = Request::from_parts(parts, Body::from(body.clone()));
                let open = tape.open(Peer::Kubernetes, &request, &body);
                let answered = async {
                    let (parts, body) = inner.send(request).await?.into_parts();
                    Ok::<_, kube::Error>((parts, body.collect_bytes().await?))
                };
                match answered.await {
                    Ok((parts, body)) => {
                        let (status, headers) = (parts.status.as_u16(), parts.headers.clone());
                        open.answered(RawAnswer::Response { status, headers, body: body.clone() });
                        Ok::<_, tower::BoxError>(Response::from_parts(parts, Body::from(body)))
                    }
                    Err(error) => {
                        open.answered(RawAnswer::Failed { failure: "kubernetes", detail: error.to_string() });
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
    pub(super) fn read(&self, secrets: &mut Secrets, outcome: Outcome) -> (Vec<Exchange>, Vec<Entry>, Outcome) {
        let raw = std::mem::take(&mut *self.entries());
        let mut held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        held.extend(self.tokens.failures(self.begun));
        let exchanges = held.iter().chain(raw.iter().filter_map(|raw| match raw {
            Raw::Exchange(exchange) => Some(&**exchange),
            _ => None,
        }));
        exchanges.for_each(|exchange| exchange.learn(secrets));
        let entries = raw.iter().map(|raw| match raw {
            Raw::Exchange(exchange) => Entry::Exchange(exchange.without(secrets)),
            Raw::Step { at, step } => Entry::Step { at: *at, step: secrets.text(step).into_owned() },
            Raw::Clock(time) => Entry::Clock { time: time.to_string() },
        });
        let entries = entries.collect();
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).take();
        let problem = problem.map(|problem| weir_messages::recording::Problem {
            consequence: super::consequence(problem.consequence).to_owned(),
            message: secrets.text(&problem.message).into_owned(),
            detail: problem.detail.as_deref().map(|detail| secrets.text(detail).into_owned()),
        });
        (held.iter().map(|exchange| exchange.without(secrets)).collect(), entries, Outcome { problem, ..outcome })
    }
}

impl RawExchange {
    fn is_for_a_token(&self) -> bool {
        self.peer == Peer::Openstack && self.method == "POST" && self.url.ends_with("/auth/tokens")
    }

    /// The token that was got.
    pub(super) fn token(&self) -> Option<&[u8]> {
        match &self.answer {
            RawAnswer::Response { headers, .. } => headers.get("x-subject-token").map(http::HeaderValue::as_bytes),
            _ => None,
        }
    }

    fn learn(&self, secrets: &mut Secrets) {
        let mut learn = |headers: &HeaderMap, body: &Bytes| {
            secrets.learn(&self.url, body);
            for name in ["x-auth-token", "x-subject-token", "authorization"] {
                for value in headers.get_all(name).iter().filter_map(|value| value.to_str().ok()) {
                    secrets.add(value.trim_start_matches("Bearer "));
                }
            }
        };
        learn(&self.headers, &self.body);
        if let RawAnswer::Response { headers, body, .. } = &self.answer {
            learn(headers, body);
        }
    }

    fn without(&self, secrets: &Secrets) -> Exchange {
        let headers = |headers: &HeaderMap| -> Vec<(String, String)> {
            let text = |value: &http::HeaderValue| value.to_str().ok().map(str::to_owned);
            let kept = headers.iter().filter_map(|(name, value)| {
                Some((name.as_str().to_owned(), secrets.header(name.as_str(), &text(value)?)?))
            });
            kept.collect()
        };
        Exchange {
            at: self.at,
            took: self.took,
            peer: self.peer,
            method: self.method.clone(),
            url: secrets.url(&self.url),
            headers: headers(&self.headers),
            body: secrets.body(&self.url, &self.body),
            answer: match &self.answer {
                RawAnswer::Response { status, headers: h, body } => {
                    Answer::Response { status: *status, headers: headers(h), body: secrets.body(&self.url, body) }
                }
                RawAnswer::Failed { failure, detail } => {
                    Answer::Failed { failure: (*failure).to_owned(), detail: secrets.text(detail).into_owned() }
                }
                RawAnswer::Abandoned => Answer::Abandoned,
            },
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
                Ok(response) => RawAnswer::Response {
                    status: response.status().as_u16(),
                    headers: response.headers().clone(),
                    body: response.body().clone(),
                },
                Err(error) => RawAnswer::Failed { failure: failure(error), detail: error.to_string() },
            });
            answer
        })
    }
}

impl Tape {
    /// A token is used that was got by `exchange`. Unless this call got it itself, it is part of what the call was given.
    fn hold(&self, exchange: RawExchange) {
        let same = |other: &RawExchange| other.token() == exchange.token();
        let own = self.entries().iter().any(|raw| matches!(raw, Raw::Exchange(other) if same(other)));
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !own && !held.iter().any(same) {
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
