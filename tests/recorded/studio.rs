//! A world whose calls are all recorded.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::reconcile::Reconciler;
use weir_function_runtime::record::replay::{Error, Replay, replay, replay_handler};
use weir_function_runtime::record::{Mode, Recorder, tap};
use weir_function_runtime::worker::{Call, Handler, Verdict};
use weir_harness::{World, world};
use weir_identity::Identities;
use weir_messages::{Cause, Recording, Work};
use weir_network::Networks;
use weir_region::Regions;
use weir_security_group::SecurityGroups;
use weir_server::Servers;
use weir_server_monitor::Monitor;
use weir_server_monitor::act::Nobody;

pub const IDENTITY: &str = "identity-a";
pub const NETWORK: &str = "b0000000-0000-4000-8000-00000000000a";
pub const GROUP: &str = "b0000000-0000-4000-8000-00000000000b";
pub const SERVER: &str = "b0000000-0000-4000-8000-00000000000c";
pub const AUTHORITY: &str = "b0000000-0000-4000-8000-00000000000d";

/// What no recording may hold.
pub const USER_SECRET: &str = "staple-battery-4711";
/// Nor this.
pub const TAG_SECRET: &str = "correct-horse-0815";

/// More calls than any object needs, however many of them fail.
const CALLS: usize = 60;

/// A world, a recorder, and what it has recorded.
pub struct Studio {
    pub world: World,
    pub recorder: Recorder,
    recordings: UnboundedReceiver<Recording>,
}

/// Lets steps be heard.
pub fn listen() {
    let _ = tracing_subscriber::registry().with(tap()).try_init();
}

impl Studio {
    pub async fn open() -> Self {
        listen();
        let (recorder, recordings) = Recorder::collecting(Mode::All);
        Self { world: World::new().await, recorder, recordings }
    }

    /// The function of a kind, recorded.
    pub fn function(&self, kind: Kind, recorder: Recorder) -> Box<dyn Handler> {
        let (client, provider) = (self.world.function_client.clone(), self.world.provider.clone());
        match kind {
            Kind::Region => Box::new(Reconciler::new(Regions, client, provider).recorded(recorder)),
            Kind::Identity => Box::new(Reconciler::new(Identities, client, provider).recorded(recorder)),
            Kind::Network => Box::new(Reconciler::new(Networks, client, provider).recorded(recorder)),
            Kind::SecurityGroup => Box::new(Reconciler::new(SecurityGroups, client, provider).recorded(recorder)),
            Kind::ServerMonitor => Box::new(Monitor::new(client, provider, Arc::new(Nobody)).recorded(recorder)),
            _ => Box::new(Reconciler::new(Servers, client, provider).recorded(recorder)),
        }
    }

    pub async fn call(&self, kind: Kind, name: &str) -> Verdict {
        let object = ObjectRef::new(kind, World::NAMESPACE, name);
        self.function(kind, self.recorder.clone()).handle(&Call::direct(Work::new(object, Cause::Changed))).await
    }

    /// Calls until there is nothing more to do.
    pub async fn drive(&self, kind: Kind, name: &str) -> Verdict {
        for _ in 0..CALLS {
            match self.call(kind, name).await {
                Verdict::After { delay } => self.world.cloud.advance(delay),
                Verdict::Retry { after } => self.world.cloud.advance(after.unwrap_or(Duration::from_secs(1))),
                last => return last,
            }
        }
        panic!("{kind} {name} is not done: {:?}", self.world.condition(kind, name).await);
    }

    pub async fn settle(&self, kind: Kind, name: &str) {
        let verdict = self.drive(kind, name).await;
        assert_eq!(verdict, Verdict::Settled, "{kind} {name}: {:?}", self.world.condition(kind, name).await);
    }

    pub async fn remove(&self, kind: Kind, name: &str) {
        self.world.delete(kind, name).await;
        let verdict = self.drive(kind, name).await;
        assert_eq!(verdict, Verdict::Gone, "{kind} {name}: {:?}", self.world.condition(kind, name).await);
    }

    /// The server of the script, with a secret in its user data.
    pub fn server(&self, more: &Value) -> Value {
        use base64::Engine as _;
        let cloud = self.world.cloud.bootstrap();
        let user_data = format!("#cloud-config\nchpasswd:\n  list: 'root:{USER_SECRET}'\n");
        let mut spec = json!({"flavorID": cloud.flavors[1].0, "image": {"id": cloud.images[0].0},
            "networks": [{"id": NETWORK}], "securityGroups": [{"id": GROUP}], "publicIPAllocation": {"enabled": true},
            // What user data says may stand elsewhere by itself.
            "tags": [{"name": "note", "value": USER_SECRET}, {"name": "db-password", "value": TAG_SECRET}],
            "userData": base64::engine::general_purpose::STANDARD.encode(user_data)});
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        world::object(Kind::Server, SERVER, &world::links(IDENTITY), spec)
    }

    /// What has been recorded since the last time.
    pub fn recorded(&mut self) -> Vec<Recording> {
        std::iter::from_fn(|| self.recordings.try_recv().ok()).collect()
    }
}

/// Runs a recording again in the function of its kind.
pub async fn again(recording: &Recording, until: Option<String>) -> Result<Replay, Error> {
    match recording.object().kind {
        Kind::Region => replay(Regions, recording, until).await,
        Kind::Identity => replay(Identities, recording, until).await,
        Kind::Network => replay(Networks, recording, until).await,
        Kind::SecurityGroup => replay(SecurityGroups, recording, until).await,
        Kind::ServerMonitor => replay_handler(Monitor::replayed, recording, until).await,
        _ => replay(Servers, recording, until).await,
    }
}
