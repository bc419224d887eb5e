//! The same function, or any other [`Handler`], called by AWS Lambda instead of taking work off NATS (L-1).
//!
//! Intention: only who asks for a call differs. SQS delivers the messages, in batches, and is told which of them to
//! deliver again; leases, timers and status are those of a [`crate::worker`], on the same NATS, so that Lambdas and
//! workers may work on the same objects at the same time.
//!
//! Invariants
//! - A record fails only if its object could not be looked at: somebody else has the lease, NATS is away, the time is up.
//!   A failure *of* the call is a retry, a retry is a timer on NATS, and the record is done with (L-2, L-3).
//! - A failed record holds up what comes after it in its message group, which has not been begun, and nothing else.
//! - A record that cannot be understood becomes a dead letter, like a message of NATS, and is done with.
//! - An answer is given before the invocation's deadline: first the cloud is left alone, then what was done is written
//!   into status, then what is still not done is reported as failed (L-4, [`time::Limits`]).
//! - Nothing runs between two invocations: every lease that was taken is released, and every recording stored, before the
//!   answer.
//!
//! Caveats: SQS knows no acknowledgement of one record, so a lease is released before the message is gone; killed between
//! the two, the call is made once more, which writes nothing. A timer fires into `WORK`: somebody has to take it from there,
//! a worker on NATS or a bridge to SQS (`infra/lambda/README.md`). There is nobody to scrape metrics.

mod batch;
mod event;
mod time;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use uuid::Uuid;
use weir_api::{Kind, ObjectRef};
use weir_messages::{DecodeError, Envelope};

use self::event::Invocation;
use self::time::Limits;
use crate::lease::{self, Acquired, Lease};
use crate::queue::{Error, Queue};
use crate::settings::{self, Settings};
use crate::telemetry::{self, metrics};
use crate::worker::caller::{Caller, Fate, combine};
use crate::worker::{Call, Handler};
use crate::{queue, run};

/// Set by Lambda, and by nobody else: where the runtime API is, as `host:port`.
pub const RUNTIME_API: &str = "AWS_LAMBDA_RUNTIME_API";
/// What else Lambda sets and its client library cannot do without.
const NEEDED: [&str; 3] =
    ["AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "AWS_LAMBDA_FUNCTION_VERSION"];

/// How long the start waits for NATS. Lambda gives a start ten seconds.
const START: Duration = Duration::from_secs(5);
/// How long NATS may take to answer before the connection counts as dead: it may be from before a freeze.
const SILENCE: Duration = Duration::from_secs(1);
/// How long an object whose lease is taken is waited for. SQS would deliver again only after its visibility time-out.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at a lease that is taken, on average.
const LOOK: Duration = Duration::from_millis(150);

/// Whether Lambda has started this process.
pub fn is_here() -> bool {
    std::env::var_os(RUNTIME_API).is_some_and(|address| !address.is_empty())
}

/// Calls a handler of work of `kind` for whatever Lambda invokes it with, until `stop` or until Lambda ends the process. The handler
/// is made from what it reaches Kubernetes and the queue by.
///
/// # Errors
/// The process cannot start, which is also told to Lambda, or Lambda's own API cannot be used.
pub async fn serve(
    kind: Kind,
    handler: impl FnOnce(kube::Client, &Queue, &Settings) -> Arc<dyn Handler>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    check_environment()?;
    let lambda = match Lambda::start(kind, handler, &stop).await {
        Ok(lambda) => lambda,
        Err(error) => {
            tell_of_failed_start(&error).await;
            return Err(error);
        }
    };
    let runtime = lambda_runtime::Runtime::new(service_fn(|event| lambda.invoked(event)));
    tokio::select! {
        ended = runtime.run() => ended.map_err(|error| anyhow::anyhow!("the Lambda runtime API cannot be used: {error}")),
        () = stop.cancelled() => Ok(()),
    }
}

/// Refuses to run on Lambda, for a process that is driven by what no invocation brings. Anywhere else, does nothing.
///
/// # Errors
/// This is Lambda; it has been told so, with the reason.
pub async fn refuse(because: &str) -> anyhow::Result<()> {
    if !is_here() {
        return Ok(());
    }
    check_environment()?;
    let error =
        anyhow::anyhow!("this does not run on Lambda, but as a process that reaches NATS and Kubernetes: {because}");
    tell_of_failed_start(&error).await;
    Err(error)
}

fn check_environment() -> anyhow::Result<()> {
    match NEEDED.iter().find(|name| std::env::var_os(name).is_none()) {
        Some(missing) => anyhow::bail!("{RUNTIME_API} is set, but {missing} is not: this is no Lambda environment"),
        None => Ok(()),
    }
}

/// Why a record, or an invocation, is to be delivered again.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the event is neither a batch of SQS nor an envelope: {0}")]
    Event(&'static str),
    #[error(transparent)]
    Envelope(#[from] DecodeError),
    #[error("this function looks at {mine}, not at {theirs}")]
    WrongFunction { mine: Kind, theirs: Kind },
    #[error("another call has the object")]
    Contended,
    #[error("the invocation's time is up")]
    TimeUp,
    #[error("the call was cut short: {0}")]
    CutShort(&'static str),
    #[error(transparent)]
    Queue(#[from] Error),
}

impl Failure {
    const fn token(&self) -> &'static str {
        match self {
            Self::Event(_) => "event",
            Self::Envelope(error) => error.token(),
            Self::WrongFunction { .. } => "wrong-function",
            Self::Contended => "contended",
            Self::TimeUp => "time-up",
            Self::CutShort(_) => "cut-short",
            Self::Queue(_) => "queue",
        }
    }
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        Self { error_type: format!("Weir.{}", failure.token()), error_message: failure.to_string() }
    }
}

struct Lambda {
    caller: Caller,
    queue: Queue,
    settings: settings::Worker,
    /// The streams have been seen to be there.
    prepared: AtomicBool,
}

impl Lambda {
    async fn start(
        kind: Kind,
        handler: impl FnOnce(kube::Client, &Queue, &Settings) -> Arc<dyn Handler>,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let mut settings = Settings::of_process().context("the settings in the environment cannot be used")?;
        // By default this is the executable's name, and in Lambda that is the same for all of them.
        settings.nats.name.get_or_insert_with(|| format!("lambda:{kind}/{:.8}", Uuid::new_v4().simple()));
        telemetry::init(&settings)?;
        let client = run::kubernetes_client().await?;
        let queue = queue::connect(&settings).await?;
        let lambda = Self {
            caller: Caller {
                handler: handler(client, &queue, &settings),
                queue: queue.clone(),
                safety_net: settings.worker.safety_net,
                stopping: stop.clone(),
                ending: CancellationToken::new(),
                probe: None,
            },
            queue,
            settings: settings.worker,
            prepared: AtomicBool::new(false),
        };
        match lambda.awake(Instant::now() + START).await {
            Ok(()) => {}
            Err(Failure::Queue(error @ (Error::ServerTooOld { .. } | Error::Incompatible { .. }))) => {
                return Err(error.into());
            }
            // It may be back by the time of the first invocation; until then, records fail, and SQS keeps them.
            Err(failure) => tracing::warn!(%failure, "NATS is not there yet"),
        }
        tracing::info!(kind = %lambda.caller.handler.kind(), "taking invocations");
        Ok(lambda)
    }

    async fn invoked(&self, event: LambdaEvent<Value>) -> Result<Value, Failure> {
        let limits = Limits::until(event.context.deadline());
        let span = tracing::info_span!("invocation", request = %event.context.request_id);
        let answer = async {
            let invocation = Invocation::read(event.payload)?;
            // Nothing can be done without NATS, and an error makes all of a batch come back.
            self.awake(limits.deadline).await?;
            match invocation {
                Invocation::Batch(records) => Ok(self.batch(records, limits).await),
                Invocation::Envelope(raw) => {
                    let envelope = raw.decode()?;
                    self.check_kind(&envelope)?;
                    let envelopes = [&envelope];
                    let call = tokio::time::timeout_at(limits.answer.into(), self.call(&envelopes, limits));
                    let outcome = call.await.unwrap_or(Err(Failure::TimeUp))?;
                    Ok(json!({ "object": envelope.work.object.to_string(), "outcome": outcome }))
                }
            }
        }
        .instrument(span.clone())
        .await;
        // What is still being written when the process is frozen may never be.
        let _ = tokio::time::timeout_at(limits.answer.into(), self.caller.handler.flush()).await;
        answer.inspect_err(|failure| span.in_scope(|| tracing::warn!(%failure, "the invocation failed")))
    }

    fn check_kind(&self, envelope: &Envelope) -> Result<(), Failure> {
        let (mine, theirs) = (self.caller.handler.kind(), envelope.work.object.kind);
        if mine == theirs { Ok(()) } else { Err(Failure::WrongFunction { mine, theirs }) }
    }

    /// Sees to it that NATS answers and has what is needed.
    ///
    /// Between two invocations the process is frozen, for as long as Lambda likes. The server has given the connection up by
    /// then, and nobody has told the client.
    async fn awake(&self, until: Instant) -> Result<(), Failure> {
        let epoch = self.queue.connection().borrow().epoch;
        if self.prepared.load(Ordering::Relaxed) {
            match tokio::time::timeout(SILENCE, self.queue.sync_clock()).await {
                Ok(Ok(())) => return Ok(()),
                // A stream may be gone; the server at least answers.
                Ok(Err(error)) => tracing::debug!(%error, "looking after the streams"),
                Err(_) => {
                    tracing::info!("NATS is silent; connecting anew");
                    if self.queue.connection().borrow().epoch == epoch {
                        // An error says that the client is gone; then the wait below fails.
                        let _ = self.queue.client().force_reconnect().await;
                        let mut connection = self.queue.connection();
                        let anew = connection.wait_for(|now| now.connected && now.epoch > epoch);
                        let _ = tokio::time::timeout_at(until.into(), anew).await;
                    }
                }
            }
            self.prepared.store(false, Ordering::Relaxed);
        }
        let ready = async {
            self.queue.connected().await;
            self.queue.ensure().await
        };
        tokio::time::timeout_at(until.into(), ready).await.map_err(|_| Error::Disconnected)??;
        self.prepared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// One call for envelopes that are all about the same object. Returns the call's outcome.
    async fn call(&self, envelopes: &[&Envelope], limits: Limits) -> Result<&'static str, Failure> {
        let messages = (0..).zip(envelopes).map(|(place, envelope)| (event::lane(envelope), place, *envelope));
        let (work, lane, traceparent) = combine(messages).ok_or(Failure::Event("it is empty"))?;
        let kind = work.object.kind.token();
        for _ in envelopes {
            metrics::DELIVERED.inc(&[kind, lane.token()]);
        }
        for _ in envelopes.iter().skip(1) {
            metrics::COALESCED.inc(&[kind]);
        }
        let lease = self.lease(&work.object, limits).await?;
        let (deadline, end) = limits.of_call(self.settings.call_timeout);
        let stopping = self.caller.stopping.clone();
        let id = Uuid::new_v4();
        let call = Arc::new(Call { id, work, lane, lease: Arc::new(lease), traceparent, deadline, end, stopping });
        let span = tracing::info_span!(
            "call",
            object = %call.work.object, id = %call.id, lane = %lane, cause = call.work.cause.token(),
            attempt = call.work.attempt, trace = %traceparent.trace_id()
        );
        let ended = self.caller.make(&call).instrument(span).await;
        call.lease.release().await;
        match ended.fate? {
            Fate::Acknowledge => Ok(ended.outcome),
            Fate::GiveBack | Fate::Leave => Err(Failure::CutShort(ended.outcome)),
        }
    }

    /// The lease on an object. Waits a little for a holder who may be about to be done.
    async fn lease(&self, object: &ObjectRef, limits: Limits) -> Result<Lease, Failure> {
        let give_up = (Instant::now() + PATIENCE).min(limits.deadline);
        let mut contended = false;
        while Instant::now() < give_up {
            match lease::acquire(&self.queue, object).await? {
                Acquired::Lease(lease) => return Ok(lease),
                Acquired::Held if !contended => {
                    contended = true;
                    metrics::CONTENDED.inc(&[object.kind.token()]);
                }
                Acquired::Held => {}
            }
            tokio::time::sleep(LOOK.mul_f64(rand::random_range(0.5..1.5))).await;
        }
        Err(if contended { Failure::Contended } else { Failure::TimeUp })
    }
}

/// Tells Lambda why the process cannot start; otherwise all it shows is an exit status.
async fn tell_of_failed_start(error: &anyhow::Error) {
    let body = json!({ "errorType": "Weir.start", "errorMessage": format!("{error:#}"), "stackTrace": [] });
    let told = async {
        let request = http::Request::post("/2018-06-01/runtime/init/error")
            .header("lambda-runtime-function-error-type", "Weir.start")
            .body(lambda_runtime_api_client::body::Body::from(body.to_string()))?;
        let client = lambda_runtime_api_client::Client::builder().build()?;
        client.call(request).await
    };
    match tokio::time::timeout(Duration::from_secs(2), told).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "Lambda could not be told of the failed start"),
        Err(_) => tracing::warn!("Lambda could not be told of the failed start in time"),
    }
}
