//! The server function and the monitor together, as they wake each other, with no time between.

use crate::world::{SERVER, World};
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_api::conditions;
use weir_api::crd::{self, RebuildState, ServerStatus};
use weir_api::{Kind, ObjectRef, Problem};
use weir_function_runtime::worker::{Call, Handler, Verdict};
use weir_messages::{Cause, Work};
use weir_server_monitor::Monitor;
use weir_server_monitor::act::Wake;

/// Wakes that nobody has answered yet.
#[derive(Clone, Default)]
struct Wakes(Arc<Mutex<Vec<ObjectRef>>>);

impl Wake for Wakes {
    fn wake(&self, object: ObjectRef) -> BoxFuture<'_, Result<(), Problem>> {
        self.0.lock().unwrap().push(object);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A monitor of a world.
pub struct Watch {
    monitor: Monitor,
    wakes: Wakes,
}

impl Watch {
    pub fn new(world: &World) -> Self {
        let wakes = Wakes::default();
        let monitor = Monitor::new(world.function_client.clone(), world.provider.clone(), Arc::new(wakes.clone()));
        Self { monitor, wakes }
    }

    /// One look at all servers. True if it woke the function.
    pub async fn tick(&self) -> bool {
        let region = ObjectRef::new(Kind::ServerMonitor, weir_harness::World::NAMESPACE, weir_harness::World::REGION);
        let verdict = self.monitor.handle(&Call::direct(Work::new(region, Cause::Resync))).await;
        assert_eq!(verdict, Verdict::Settled);
        !std::mem::take(&mut *self.wakes.0.lock().unwrap()).is_empty()
    }
}

/// Calls, and looks, until neither has anything more to do.
pub async fn live(world: &World, watch: &Watch) -> Verdict {
    for _ in 0..80 {
        match world.call(SERVER).await {
            Verdict::After { delay } => world.cloud.advance(delay),
            Verdict::Retry { after } => world.cloud.advance(after.unwrap_or(Duration::from_secs(1))),
            last => {
                // Two looks: at the first one the cloud may still be at something.
                let mut woken = false;
                for _ in 0..2 {
                    world.cloud.advance(Duration::from_secs(60));
                    woken = woken || watch.tick().await;
                }
                if !woken {
                    return last;
                }
            }
        }
    }
    panic!("it never ends: {:?}", world.server().await.status);
}

/// The status, as it is.
pub async fn status(world: &World) -> ServerStatus {
    world.server().await.status.unwrap_or_default()
}

/// The reason of a condition.
pub async fn reason(world: &World, kind: &str) -> String {
    conditions::get(&status(world).await.conditions, kind).map(|c| c.reason.clone()).unwrap_or_default()
}

/// How far the change of image is.
pub async fn state(world: &World) -> Option<RebuildState> {
    status(world).await.rebuild.map(|rebuild| rebuild.state)
}

/// The image of this number.
pub fn image(world: &World, at: usize) -> String {
    world.cloud.bootstrap().images[at].0.clone()
}

/// Wants another image.
pub async fn change(world: &World, at: usize) {
    let change = serde_json::json!({"spec": {"image": {"id": image(world, at)}}});
    world.patch::<crd::Server>(SERVER, change).await;
}

/// How many requests of this method to a path that ends so changed something.
pub fn effects(world: &World, method: &str, path: &str) -> usize {
    let requests = world.cloud.requests();
    requests.iter().filter(|entry| entry.effect && entry.method == method && entry.path.ends_with(path)).count()
}

/// The server in the cloud.
pub async fn nova(world: &World) -> weir_openstack::compute::Server {
    world.session.compute().find_server_by_name("web").await.unwrap().expect("there is a server")
}
