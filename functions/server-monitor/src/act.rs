//! Writes what has changed: one status patch for a server at most, and a wake before it where one is needed.
//!
//! Invariants: a patch carries the resource version that was read, so that a conflict skips the server for this round, and
//! nothing is forced (MON-3). A wake goes out before the patch that makes it look as if it had (MON-12): when either fails, the
//! next round does both again.

use futures::future::BoxFuture;
use kube::ResourceExt;
use serde_json::Value;
use weir_api::{Consequence, Kind, ObjectRef, Problem, crd};
use weir_function_runtime::queue::Queue;
use weir_function_runtime::{Scope, kubernetes};
use weir_messages::{Cause, Lane, Work};

use crate::decide::News;
use crate::metrics;

/// How an object's function is told to look at it.
pub trait Wake: Send + Sync + 'static {
    /// Returns when the wake cannot be lost any more.
    fn wake(&self, object: ObjectRef) -> BoxFuture<'_, Result<(), Problem>>;
}

impl Wake for Queue {
    fn wake(&self, object: ObjectRef) -> BoxFuture<'_, Result<(), Problem>> {
        Box::pin(async move {
            let sent = self.publish(Work::new(object, Cause::Observed), Lane::Routine, None, None).await;
            let lost =
                |error| Problem::retry("the server's function could not be told").with_detail(format!("{error}"));
            sent.map(drop).map_err(lost)
        })
    }
}

/// Wakes nobody: for rounds that are run again.
pub struct Nobody;

impl Wake for Nobody {
    fn wake(&self, _: ObjectRef) -> BoxFuture<'_, Result<(), Problem>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What has become of a server's news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was written.
    Written,
    /// There was nothing to write.
    Unchanged,
    /// Somebody else wrote meanwhile: the next round looks again.
    Skipped,
}

/// Wakes and writes as far as there is anything to.
pub async fn carry_out(scope: &Scope, wake: &dyn Wake, object: &crd::Server, news: &News) -> Result<Done, Problem> {
    if news.wake {
        let object = ObjectRef::new(Kind::Server, scope.namespace(), object.name_any());
        scope.wake(object.clone(), wake.wake(object)).await?;
    }
    let json = |status: Option<&crd::ServerStatus>| {
        serde_json::to_value(status)
            .map_err(|error| Problem::retry("a status could not be written").with_detail(error.to_string()))
    };
    // An object without a status is patched from nothing, not from `null`.
    let before = object.status.clone().unwrap_or_default();
    let (before, after): (Value, Value) = (json(Some(&before))?, json(Some(&news.status))?);
    if before != after {
        // No line of the log, since there may be thousands; a recording has it.
        tracing::debug!(
            step = format!("show {}: {}", object.name_any(), difference(&before, &after)),
            "news of a server"
        );
    }
    match kubernetes::patch_status(&scope.api(), object, &before, &after).await {
        Ok(true) => {
            metrics::observe(object, news);
            Ok(Done::Written)
        }
        Ok(false) => Ok(Done::Unchanged),
        Err(problem) if problem.consequence == Consequence::Reread => Ok(Done::Skipped),
        Err(problem) => Err(problem),
    }
}

/// What is new in a status, in few words: conditions with their reasons, other fields by their names.
fn difference(before: &Value, after: &Value) -> String {
    let list = |status: &Value| status["conditions"].as_array().cloned().unwrap_or_default();
    let old = list(before);
    let condition = |new: &Value| Some(format!("{} {}", new["type"].as_str()?, new["reason"].as_str()?));
    let conditions = list(after).into_iter().filter(|new| !old.contains(new)).filter_map(|new| condition(&new));
    let members = after.as_object().into_iter().flatten();
    let fields = members.filter(|(name, value)| *name != "conditions" && before.get(name) != Some(value));
    conditions.chain(fields.map(|(name, _)| name.clone())).collect::<Vec<_>>().join(", ")
}
