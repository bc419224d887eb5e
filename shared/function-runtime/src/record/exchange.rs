//! A request and its answer as they were, and what is recorded of them.
//!
//! Taking them down costs a call next to nothing: large bodies are shared; small bodies and headers, which lie in the buffer that
//! their connection has read into and would keep all of it, are copied. All else is done when the call is over, behind its back.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use weir_messages::recording::{Answer, Exchange, Peer};
use weir_openstack::redact::is_secret_header;

use super::redact::{Json, Learnt, Secrets};

/// A body up to this length, in bytes, is copied.
const SMALL: usize = 16 << 10;

/// Headers, those aside that nobody asks for later.
type Headers = Vec<(HeaderName, HeaderValue)>;

fn headers(all: &HeaderMap) -> Headers {
    let wanted = |name: &HeaderName| is_secret_header(name) || Secrets::keeps_header(name.as_str());
    let kept = |value: &HeaderValue| HeaderValue::from_bytes(value.as_bytes()).ok();
    all.iter().filter(|(name, _)| wanted(name)).filter_map(|(name, value)| Some((name.clone(), kept(value)?))).collect()
}

/// A request.
pub(super) struct Asked {
    /// In microseconds since the call began.
    pub(super) at: u64,
    pub(super) peer: Peer,
    method: Method,
    uri: Uri,
    headers: Headers,
    pub(super) body: Bytes,
}

impl Asked {
    pub(super) fn new<B>(at: u64, peer: Peer, request: &Request<B>, body: &Bytes) -> Self {
        Self {
            at,
            peer,
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: headers(request.headers()),
            body: body.clone(),
        }
    }

    pub(super) fn is_for_a_token(&self) -> bool {
        self.peer == Peer::Openstack && self.method == Method::POST && self.uri.path().ends_with("/auth/tokens")
    }
}

/// What came back.
pub(super) enum Answered {
    Response { status: u16, headers: Headers, body: Bytes },
    Failed { failure: &'static str, detail: String },
    Abandoned,
}

impl Answered {
    pub(super) fn response(status: http::StatusCode, all: &HeaderMap, body: &Bytes) -> Self {
        Self::Response { status: status.as_u16(), headers: headers(all), body: kept(body) }
    }
}

/// A small body is copied: until the call is over, its connection would need another buffer for each answer.
fn kept(body: &Bytes) -> Bytes {
    if body.len() <= SMALL { Bytes::copy_from_slice(body) } else { body.clone() }
}

/// A request and its answer.
pub(super) struct RawExchange {
    pub(super) asked: Arc<Asked>,
    /// In microseconds.
    pub(super) took: u64,
    pub(super) answered: Answered,
}

impl RawExchange {
    /// The token that was got.
    pub(super) fn token(&self) -> Option<&[u8]> {
        match &self.answered {
            Answered::Response { headers, .. } => {
                headers.iter().find(|(name, _)| name == "x-subject-token").map(|(_, value)| value.as_bytes())
            }
            _ => None,
        }
    }

    /// How much memory it takes, about, in bytes.
    pub(super) fn size(&self) -> usize {
        let answer = match &self.answered {
            Answered::Response { body, .. } => body.len(),
            _ => 0,
        };
        self.asked.body.len() + answer + 512
    }

    /// Lets `secrets` know of those that are in it, and takes it apart for [`Heard::without`].
    pub(super) fn learn(&self, secrets: &mut Secrets) -> Heard<'_> {
        let url = self.asked.uri.to_string();
        let mut learn = |headers: &Headers| {
            for (name, value) in headers {
                if is_secret_header(name)
                    && let Ok(value) = value.to_str()
                {
                    secrets.learn_header(name.as_str(), value);
                }
            }
        };
        learn(&self.asked.headers);
        let mut answer = None;
        if let Answered::Response { headers, body, .. } = &self.answered {
            learn(headers);
            answer = Some(secrets.learn(&url, body));
        }
        let body = secrets.learn(&url, &self.asked.body);
        Heard { exchange: self, url, body, answer }
    }
}

/// An exchange whose secrets are learnt.
pub(super) struct Heard<'a> {
    exchange: &'a RawExchange,
    url: String,
    body: Learnt<'a>,
    answer: Option<Learnt<'a>>,
}

impl Heard<'_> {
    /// Lets `secrets` know of the names that stand in it; after all exchanges of the call have been learnt from.
    pub(super) fn publish(&self, secrets: &mut Secrets) {
        for learnt in self.answer.iter().chain([&self.body]) {
            secrets.publish(&self.url, learnt);
        }
    }

    /// What is recorded of it; after all exchanges of the call have been learnt from.
    pub(super) fn without(self, secrets: &mut Secrets) -> Exchange<Json> {
        let asked = &*self.exchange.asked;
        let headers = |secrets: &Secrets, headers: &Headers| {
            let kept = headers.iter().filter_map(|(name, value)| {
                Some((name.as_str().to_owned(), secrets.header(name.as_str(), value.to_str().ok()?)?))
            });
            kept.collect()
        };
        Exchange {
            at: asked.at,
            took: self.exchange.took,
            peer: asked.peer,
            method: asked.method.to_string(),
            url: secrets.url(&self.url),
            headers: headers(secrets, &asked.headers),
            body: secrets.body(self.body),
            answer: match &self.exchange.answered {
                Answered::Response { status, headers: all, .. } => Answer::Response {
                    status: *status,
                    headers: headers(secrets, all),
                    body: self.answer.and_then(|answer| secrets.body(answer)),
                },
                Answered::Failed { failure, detail } => {
                    Answer::Failed { failure: (*failure).to_owned(), detail: secrets.text(detail).into_owned() }
                }
                Answered::Abandoned => Answer::Abandoned,
            },
        }
    }
}
