//! As much of the Lambda runtime API as it takes to have one invocation answered: the next invocation, and its answer.
//!
//! What a function makes of the API is tested elsewhere, with an emulator that knows all of it.

use anyhow::{Context, bail};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use weir_api::ObjectRef;
use weir_messages::{Cause, Envelope, Work};

/// The time-out of the invocation.
const TIMEOUT: Duration = Duration::from_secs(30);

/// When the invocation was answered, and how.
type Answer = (Instant, Result<String, String>);

/// An execution environment with one invocation waiting.
pub struct Emulator {
    address: String,
    answered: oneshot::Receiver<Answer>,
    _task: AbortOnDropHandle<std::io::Result<()>>,
}

struct Shared {
    payload: Mutex<Option<String>>,
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
}

impl Emulator {
    /// Waits with an invocation about `object`.
    pub async fn about(object: ObjectRef) -> anyhow::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (answer, answered) = oneshot::channel();
        let payload = Mutex::new(Some(structured(object)?.to_string()));
        let shared = Arc::new(Shared { payload, answer: Mutex::new(Some(answer)) });
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(failure))
            .route("/2018-06-01/runtime/init/error", post(failure))
            .with_state(shared);
        let task = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, answered, _task: AbortOnDropHandle::new(task) })
    }

    /// What Lambda puts into the environment of a function.
    pub fn environment(&self) -> [(&'static str, &str); 8] {
        [
            ("AWS_LAMBDA_RUNTIME_API", &self.address),
            ("AWS_LAMBDA_FUNCTION_NAME", "weir-function"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/weir-function"),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "2026/01/01/[$LATEST]0"),
            ("_HANDLER", "bootstrap"),
            ("LAMBDA_TASK_ROOT", "/var/task"),
        ]
    }

    /// When the invocation was answered. One that failed is none.
    pub async fn answered(self) -> anyhow::Result<Instant> {
        match tokio::time::timeout(TIMEOUT, self.answered).await.context("the invocation is not answered")?? {
            (at, Ok(_)) => Ok(at),
            (_, Err(error)) => bail!("the invocation failed: {error}"),
        }
    }
}

/// An envelope as one JSON object.
fn structured(object: ObjectRef) -> anyhow::Result<Value> {
    let encoded = Envelope::new("/weir/bench", Work::new(object, Cause::Requested), None).encode()?;
    let named = |(name, value): (&'static str, String)| {
        let name = if name == "content-type" { "datacontenttype" } else { name.strip_prefix("ce-").unwrap_or(name) };
        (name.to_owned(), Value::String(value))
    };
    let mut event: Map<String, Value> = encoded.headers.into_iter().map(named).collect();
    event.insert("data".to_owned(), serde_json::from_slice(&encoded.payload)?);
    Ok(Value::Object(event))
}

async fn next(State(shared): State<Arc<Shared>>) -> Response {
    let payload = shared.payload.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(payload) = payload else {
        // There is no second one.
        return std::future::pending().await;
    };
    let deadline = (SystemTime::now() + TIMEOUT).duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().to_string();
    let headers = [
        ("lambda-runtime-aws-request-id", "8476a536-e9f4-11e8-9739-000000000001"),
        ("lambda-runtime-deadline-ms", &deadline),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:eu-central-1:123456789012:function:weir"),
        ("content-type", "application/json"),
    ];
    (headers, payload).into_response()
}

async fn response(State(shared): State<Arc<Shared>>, body: String) -> StatusCode {
    shared.answered(Ok(body))
}

async fn failure(State(shared): State<Arc<Shared>>, body: String) -> StatusCode {
    shared.answered(Err(body))
}

impl Shared {
    fn answered(&self, answer: Result<String, String>) -> StatusCode {
        let waiting = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiting) = waiting {
            let _ = waiting.send((Instant::now(), answer));
        }
        StatusCode::ACCEPTED
    }
}
