//! A scripted cloud for unit tests: answers in order, remembers what it was asked.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::{
    Auth, CallTag, Credential, Interface, Purpose, Scope, Secret, Session, TokenCache, Transport, TransportError,
    purpose,
};

pub(crate) const PASSWORD: &str = "PASSWORD-hunter2";

/// What the cloud does with one request.
pub(crate) enum Reply {
    Json(u16, Value),
    Raw(u16, &'static str, Vec<(&'static str, String)>),
    Fail(TransportError),
    /// Never answers.
    Hang,
}

/// What it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
    pub(crate) purpose: Purpose,
}

#[derive(Default)]
struct State {
    replies: VecDeque<Reply>,
    asked: Vec<Asked>,
    tokens: u32,
    token_reply: Option<Box<dyn Fn(u32) -> Reply + Send>>,
}

/// Hands out tokens `TOKEN-secret-<n>` on its own; everything else is scripted.
#[derive(Clone, Default)]
pub(crate) struct Cloud(Arc<Mutex<State>>);

impl Cloud {
    pub(crate) fn scripted(replies: impl IntoIterator<Item = Reply>) -> Self {
        let cloud = Self::default();
        cloud.0.lock().unwrap().replies.extend(replies);
        cloud
    }

    /// Answers token request number `n` with `reply(n)`.
    pub(crate) fn with_tokens(self, reply: impl Fn(u32) -> Reply + Send + 'static) -> Self {
        self.0.lock().unwrap().token_reply = Some(Box::new(reply));
        self
    }

    pub(crate) fn tokens(&self) -> u32 {
        self.0.lock().unwrap().tokens
    }

    /// The requests other than those for tokens.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.0.lock().unwrap().asked.iter().filter(|asked| asked.purpose != Purpose::Authenticate).cloned().collect()
    }

    pub(crate) fn all_asked(&self) -> Vec<Asked> {
        self.0.lock().unwrap().asked.clone()
    }

    pub(crate) fn session(&self) -> Session {
        self.session_with(&TokenCache::default())
    }

    pub(crate) fn session_with(&self, tokens: &TokenCache) -> Session {
        let auth = Auth {
            endpoint: "https://cloud.example/identity".into(),
            credential: Credential::Password { user_id: "u1".into(), password: Secret::new(PASSWORD) },
            scope: Scope::Project("p1".into()),
        };
        let call = CallTag::new(uuid::Uuid::nil());
        Session::new(Arc::new(self.clone()), tokens.clone(), auth, Interface::Public, call)
    }

    fn reply(&self, asked: Asked) -> Reply {
        let mut state = self.0.lock().unwrap();
        let for_token = asked.purpose == Purpose::Authenticate;
        state.asked.push(asked);
        if for_token {
            state.tokens += 1;
            let n = state.tokens;
            return state.token_reply.as_ref().map_or_else(|| token(n, 3600), |reply| reply(n));
        }
        state.replies.pop_front().expect("a request beyond the script")
    }
}

/// The answer that holds token number `n`, good for `seconds`.
pub(crate) fn token(n: u32, seconds: i64) -> Reply {
    let issued = jiff::Timestamp::now();
    let service = |kind: &str| json!({"type": kind, "endpoints": [{"interface": "public", "url": format!("https://cloud.example/{kind}")}]});
    let body = json!({"token": {
        "issued_at": issued.to_string(),
        "expires_at": (issued + jiff::SignedDuration::from_secs(seconds)).to_string(),
        "user": {"id": "u1", "name": "weir"},
        "project": {"id": "p1", "name": "p"},
        "roles": [{"id": "r1", "name": "manager"}],
        "catalog": [service("identity"), service("compute"), service("network"), service("image"), service("volumev3"), service("baremetal"), service("placement")],
    }});
    Reply::Raw(
        201,
        Box::leak(body.to_string().into_boxed_str()),
        vec![("x-subject-token", format!("TOKEN-secret-{n}"))],
    )
}

impl Transport for Cloud {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>> {
        let asked = Asked {
            method: request.method().to_string(),
            url: request.uri().to_string(),
            headers: request.headers().clone(),
            body: serde_json::from_slice(request.body()).unwrap_or(Value::Null),
            purpose: purpose(&request),
        };
        let reply = self.reply(asked);
        async move {
            // Others run meanwhile, as they do with a real network.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let (status, body, headers) = match reply {
                Reply::Json(status, body) => (status, Bytes::from(body.to_string()), Vec::new()),
                Reply::Raw(status, body, headers) => (status, Bytes::from_static(body.as_bytes()), headers),
                Reply::Fail(error) => return Err(error),
                Reply::Hang => std::future::pending().await,
            };
            let mut response = http::Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            Ok(response.body(body).unwrap())
        }
        .boxed()
    }
}
