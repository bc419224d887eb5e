//! The Lambda runtime API, as far as a function sees it: the next invocation with its deadline, the answer, the error, and
//! the failed start.
//!
//! Invariants: one invocation at a time, as Lambda has it, and an answer that comes after the deadline is none.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot, watch};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a function made of an invocation.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It returned this.
    Response(Value),
    /// It failed: type and message.
    Error(String, String),
    /// It said nothing before its deadline. Lambda kills the process then.
    TimedOut,
}

struct Invocation {
    id: String,
    payload: Value,
    deadline: SystemTime,
}

struct Shared {
    waiting: tokio::sync::Mutex<mpsc::UnboundedReceiver<Invocation>>,
    answers: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
    failed_start: watch::Sender<Option<(String, Value)>>,
}

/// The runtime API of one execution environment.
pub struct Emulator {
    address: String,
    invocations: mpsc::UnboundedSender<Invocation>,
    shared: Arc<Shared>,
    one_at_a_time: tokio::sync::Mutex<()>,
    count: AtomicU64,
}

impl Emulator {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (invocations, waiting) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            waiting: tokio::sync::Mutex::new(waiting),
            answers: Mutex::default(),
            failed_start: watch::Sender::new(None),
        });
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .route("/2018-06-01/runtime/init/error", post(failed_start))
            .with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, invocations, shared, one_at_a_time: tokio::sync::Mutex::default(), count: AtomicU64::new(1) }
    }

    /// What Lambda puts into the environment of a function.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_LAMBDA_RUNTIME_API", self.address.clone()),
            ("AWS_LAMBDA_FUNCTION_NAME", "weir-function".to_owned()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128".to_owned()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
            ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/weir-function".to_owned()),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "2026/01/01/[$LATEST]0".to_owned()),
            ("_HANDLER", "bootstrap".to_owned()),
            ("LAMBDA_TASK_ROOT", "/var/task".to_owned()),
        ]
    }

    /// Invokes the function and returns its answer and how long it took. Waits for its turn, as Lambda would use another
    /// execution environment.
    pub async fn invoke(&self, payload: Value, timeout: Duration) -> (Answer, Duration) {
        let _turn = self.one_at_a_time.lock().await;
        let id = format!("8476a536-e9f4-11e8-9739-{:012x}", self.count.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        self.shared.answers.lock().unwrap().insert(id.clone(), answer);
        let begun = Instant::now();
        self.invocations
            .send(Invocation { id: id.clone(), payload, deadline: SystemTime::now() + timeout })
            .expect("sent");
        let answer = tokio::time::timeout(timeout, answered).await;
        self.shared.answers.lock().unwrap().remove(&id);
        (answer.map_or(Answer::TimedOut, |answer| answer.expect("an answer")), begun.elapsed())
    }

    /// Waits until the function says that it cannot start, and why: the type and the body.
    pub async fn failed_start(&self) -> (String, Value) {
        let mut failed = self.shared.failed_start.subscribe();
        let told = tokio::time::timeout(PATIENCE, failed.wait_for(Option::is_some)).await;
        told.expect("the failed start is told").expect("a value").clone().expect("some")
    }
}

async fn next(State(shared): State<Arc<Shared>>) -> Response {
    let Some(invocation) = shared.waiting.lock().await.recv().await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let deadline = invocation.deadline.duration_since(UNIX_EPOCH).expect("after 1970").as_millis().to_string();
    let headers = [
        ("lambda-runtime-aws-request-id", invocation.id),
        ("lambda-runtime-deadline-ms", deadline),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:eu-central-1:123456789012:function:weir".to_owned()),
        ("lambda-runtime-trace-id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0".to_owned()),
        ("content-type", "application/json".to_owned()),
    ];
    (headers, invocation.payload.to_string()).into_response()
}

impl Shared {
    fn answered(&self, id: &str, answer: Answer) -> StatusCode {
        match self.answers.lock().unwrap().remove(id) {
            Some(waiting) => {
                let _ = waiting.send(answer);
                StatusCode::ACCEPTED
            }
            // Too late, or never asked.
            None => StatusCode::BAD_REQUEST,
        }
    }
}

async fn response(State(shared): State<Arc<Shared>>, Path(id): Path<String>, body: String) -> StatusCode {
    shared.answered(&id, Answer::Response(serde_json::from_str(&body).expect("an answer in JSON")))
}

async fn error(State(shared): State<Arc<Shared>>, Path(id): Path<String>, body: String) -> StatusCode {
    let body: Value = serde_json::from_str(&body).expect("an error in JSON");
    let text = |key: &str| body[key].as_str().expect("errorType and errorMessage").to_owned();
    shared.answered(&id, Answer::Error(text("errorType"), text("errorMessage")))
}

async fn failed_start(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> StatusCode {
    let kind = headers.get("lambda-runtime-function-error-type").expect("a type").to_str().expect("text").to_owned();
    shared.failed_start.send_replace(Some((kind, serde_json::from_str(&body).expect("JSON"))));
    StatusCode::ACCEPTED
}
