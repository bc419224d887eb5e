//! One call of a function: read the object, run the function, write status, say when to come again.
//!
//! Invariants
//! - The object is read at the start of the call; nothing is taken from the message but its name.
//! - An object is only worked on once its finalizer is stored, and only released when `finalize` has said `Ok` (OWN-8).
//! - Status is one patch at most, none when nothing changed (OWN-4), at the resource version that was read. A conflict
//!   reads everything again (OWN-1).
//! - Where an object's things are in the cloud is kept in annotations before anything is made ([`labels::ANCHORS`]), so
//!   that editing a label neither moves nor loses them.
//! - A call that runs out of time ends where it is, and its status tells how far it got (L-4).
//! - A paused object is neither read from nor done to the cloud (OWN-6).
//!
//! Caveat: several conflicts in a row end the call; it comes back after a second, so that a writer gone wild costs a
//! delay and no spinning.

use crate::function::{Function, Object, Scope};
use crate::kubernetes;
use crate::record::Recorder;
use crate::record::boundary::Boundary;
use crate::worker::{Call, Handler, Verdict};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Resource, ResourceExt};
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_api::conditions::{self, News, Reason};
use weir_api::crd::Reconciled;
use weir_api::{Consequence, Kind, Problem, labels};
use weir_provider::Provider;

/// How often a call reads again after a conflict before it gives the object back to the queue.
const REREADS: usize = 5;

/// Runs a [`Function`] for the messages of its kind.
pub struct Reconciler<F> {
    function: F,
    boundary: Boundary,
}

impl<F: Function> Reconciler<F> {
    /// A reconciler that reads and writes objects through `client`.
    pub fn new(function: F, client: kube::Client, provider: Arc<Provider>) -> Self {
        Self::at(function, Boundary::new(client, provider))
    }

    /// A reconciler whose calls meet the world at `boundary`.
    pub(crate) const fn at(function: F, boundary: Boundary) -> Self {
        Self { function, boundary }
    }

    /// The same, with its calls recorded by `recorder`.
    #[must_use]
    pub fn recorded(self, recorder: Recorder) -> Self {
        Self { boundary: self.boundary.recorded(recorder), ..self }
    }

    async fn call(&self, call: &Call) -> Verdict {
        let (scope, taking) = self.boundary.begin(call);
        // See `Taking::run`.
        taking.run(Box::pin(self.passes(call, &scope))).await
    }

    async fn passes(&self, call: &Call, scope: &Scope) -> Verdict {
        for _ in 0..REREADS {
            let passed = self.pass(call, scope).await;
            scope.troubled_by(passed.as_ref().map_or_else(Some, |(_, problem)| problem.as_ref()));
            match passed {
                Ok((verdict, _)) => return verdict,
                Err(problem) if problem.consequence == Consequence::Reread => {
                    tracing::debug!(%problem, "reading again");
                }
                Err(problem) => {
                    tracing::warn!(%problem, "the object could not be read or written");
                    return verdict_of(&problem);
                }
            }
        }
        Verdict::After { delay: Duration::from_secs(1) }
    }

    /// One pass: the verdict, and what stood in the way, if anything did.
    async fn pass(&self, call: &Call, scope: &Scope) -> Result<(Verdict, Option<Problem>), Problem> {
        let api: Api<F::Object> = scope.api();
        let Some(mut object) = scope.get::<F::Object>(&call.work.object.name).await? else {
            return Ok((Verdict::Gone, None));
        };
        let deleting = object.meta().deletion_timestamp.is_some();
        let held = labels::is_held(&object);
        if deleting && !held {
            return Ok((Verdict::Gone, None));
        }
        if object.paused() {
            let mut status = object.status().cloned().unwrap_or_default();
            pause(&mut status, &object, deleting, now(scope));
            write(&api, &object, &status).await?;
            return Ok((Verdict::Parked, None));
        }
        if !deleting && let Some(stored) = kubernetes::take_hold(&api, &object, F::FINALIZER).await? {
            object = kubernetes::lean(stored);
        }
        let mut status = object.status().cloned().unwrap_or_default();
        let hindrance = if deleting { awaited_references(&object) } else { must_stay(&object) };
        // Boxed as the call is.
        let work = Box::pin(async {
            match hindrance {
                Some(problem) => Err(problem),
                None if deleting => self.function.finalize(scope, &object, &mut status).await,
                None => self.function.reconcile(scope, &object, &mut status).await,
            }
        });
        // A panic is this object's business alone, and its owner is told like of any other failure. What the function
        // had put into the status by then is what it had found out.
        let work =
            AssertUnwindSafe(work).catch_unwind().map(|outcome| outcome.unwrap_or_else(|_| Err(fault_of_ours())));
        let outcome = tokio::select! {
            biased;
            outcome = work => outcome.map_err(|problem| {
                if out_of_time(call, scope, &problem) { to_be_continued() } else { problem }
            }),
            () = scope.out_of_patience(call.cut()) => {
                Err(Problem::retry("there was no answer in the time that one call may take; trying again"))
            }
        };
        match outcome {
            Ok(()) if deleting => {
                kubernetes::set_finalizer(&api, &object, labels::FINALIZER, false).await?;
                tracing::info!("released");
                Ok((Verdict::Gone, None))
            }
            Ok(()) => {
                tell(&mut status, &object, true, Reason::Provisioned, "provisioned".to_owned(), now(scope));
                let wrote = write(&api, &object, &status).await?;
                tracing::info!(wrote, "settled");
                Ok((Verdict::Settled, None))
            }
            Err(problem) if problem.consequence == Consequence::Reread => Err(problem),
            Err(problem) => {
                match problem.consequence {
                    Consequence::Yield(_) | Consequence::Await => tracing::info!(%problem, "not yet"),
                    _ => tracing::warn!(%problem, "failed"),
                }
                let reason = problem.shown_reason(deleting);
                tell(&mut status, &object, false, reason, problem.message.clone(), now(scope));
                write(&api, &object, &status).await?;
                Ok((verdict_of(&problem), Some(problem)))
            }
        }
    }
}

impl<F: Function> Handler for Reconciler<F> {
    fn kind(&self) -> Kind {
        F::Object::KIND
    }

    fn handle<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Verdict> {
        Box::pin(self.call(call))
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.boundary.flush())
    }
}

/// Whether it was the call's time that kept a write from being made, and not its lease.
fn out_of_time(call: &Call, scope: &Scope, problem: &Problem) -> bool {
    problem.consequence == Consequence::Reread
        && scope.is_out_of_time(|| Instant::now() >= call.deadline && call.lease.check().is_ok())
}

/// The panic itself is on standard error, where the panic hook has put it.
fn fault_of_ours() -> Problem {
    Problem::retry("the function has a fault and could not go on; trying again")
}

fn to_be_continued() -> Problem {
    let mut problem = Problem::yielding("more is to be done than fits into one call; going on");
    problem.consequence = Consequence::Yield(Duration::from_secs(1));
    problem
}

/// When to come again after a problem.
fn verdict_of(problem: &Problem) -> Verdict {
    match problem.consequence {
        Consequence::Yield(delay) => Verdict::After { delay },
        Consequence::Reread => Verdict::After { delay: Duration::from_secs(1) },
        Consequence::Await | Consequence::Operator => Verdict::Waiting,
        Consequence::UserAction => Verdict::Parked,
        Consequence::Retry(after) => Verdict::Retry { after },
    }
}

/// Nothing can be moved to another region or identity: what the object has in the cloud stays where it was made.
fn must_stay<K: ResourceExt>(object: &K) -> Option<Problem> {
    let (label, kept) = labels::moved(object)?;
    let message =
        format!("the label {label} must stay {kept}: nothing can be moved; set it back, or make another object");
    Some(Problem::user_action(message))
}

/// Others that still refer to an object under deletion; they go first (NET-11).
fn awaited_references<K: ResourceExt>(object: &K) -> Option<Problem> {
    let references = labels::foreign_references(object.meta());
    if !references.is_empty() {
        let named = list(&references);
        return Some(Problem::waiting(
            Reason::Deprovisioning,
            format!("still in use; waiting for these to let go: {named}"),
        ));
    }
    let foreground = object.finalizers().iter().any(|f| f == "foregroundDeletion");
    foreground
        .then(|| Problem::waiting(Reason::Deprovisioning, "waiting for Kubernetes to delete what belongs to it first"))
}

/// The first few of a list, and how many more there are: a condition's message is no place for thousands.
fn list(items: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = items.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn now(scope: &Scope) -> Time {
    Time(scope.now())
}

fn tell<K: Object>(status: &mut K::Status, object: &K, available: bool, reason: Reason, message: String, now: Time) {
    let observed_generation = object.meta().generation;
    let news = News { kind: conditions::AVAILABLE, status: available, reason, message, observed_generation };
    conditions::set(K::conditions_mut(status), &news, now);
    K::observe_generation(status, observed_generation);
}

/// Says that an object is paused, leaving `status` and `reason` as they are: what waits for a paused network that works
/// may go on using it.
fn pause<K: Object>(status: &mut K::Status, object: &K, deleting: bool, now: Time) {
    let conditions = K::conditions_mut(status);
    let (available, reason) = match conditions::get(conditions, conditions::AVAILABLE) {
        _ if deleting => (false, Reason::Deprovisioning),
        Some(old) if old.status == "True" => (true, Reason::Provisioned),
        _ => (false, Reason::Unknown),
    };
    tell(status, object, available, reason, "paused: nothing is done until spec.pause is removed".to_owned(), now);
}

async fn write<K: Object>(api: &Api<K>, object: &K, status: &K::Status) -> Result<bool, Problem> {
    let json = |value: Option<&K::Status>| -> Result<Value, Problem> {
        serde_json::to_value(value)
            .map_err(|error| Problem::retry("status could not be written; trying again").with_detail(error.to_string()))
    };
    kubernetes::patch_status(api, object, &json(object.status())?, &json(Some(status))?).await
}
