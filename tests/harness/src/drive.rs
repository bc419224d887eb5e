//! Functions called by hand, over and over as the queue would, but with no time between two calls.

use crate::World;
use std::sync::Arc;
use std::time::Duration;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::Function;
use weir_function_runtime::reconcile::Reconciler;
use weir_function_runtime::worker::{Call, Handler, Verdict};
use weir_messages::{Cause, Work};

/// More calls than any object needs, however many of them fail.
const CALLS: usize = 40;

/// A function in a world.
#[derive(Clone)]
pub struct Caller(Arc<dyn Handler>);

impl Caller {
    /// A caller of `function`.
    pub fn new(world: &World, function: impl Function) -> Self {
        Self(Arc::new(Reconciler::new(function, world.function_client.clone(), world.provider.clone())))
    }

    /// The kind of object that it is called for.
    pub fn kind(&self) -> Kind {
        self.0.kind()
    }

    /// One call.
    pub async fn call(&self, name: &str) -> Verdict {
        let object = ObjectRef::new(self.0.kind(), World::NAMESPACE, name);
        self.0.handle(&Call::direct(Work::new(object, Cause::Changed))).await
    }
}

/// Calls until the function has nothing more to do by itself, moving the cloud's clock on as far as each call asked to
/// wait. Returns the last verdict.
///
/// # Panics
/// The function never comes to an end.
pub async fn drive(world: &World, caller: &Caller, name: &str) -> Verdict {
    for _ in 0..CALLS {
        match caller.call(name).await {
            Verdict::After { delay } => world.cloud.advance(delay),
            Verdict::Retry { after } => world.cloud.advance(after.unwrap_or(Duration::from_secs(1))),
            last => return last,
        }
    }
    panic!(
        "{} {name} is not done after {CALLS} calls: {:?}",
        caller.kind(),
        world.condition(caller.kind(), name).await
    );
}
