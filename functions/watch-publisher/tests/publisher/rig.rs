//! What the tests share: a world, a NATS server, publishers between them, and ears for what they publish.

use async_nats::jetstream::consumer::{AckPolicy, pull};
use futures::StreamExt;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::{self, Queue, WORK};
use weir_harness::World;
use weir_harness::nats::NatsServer;
use weir_harness::world::{links, object};
use weir_messages::{Cause, Envelope, Lane};
use weir_watch_publisher::watched::Watched;
use weir_watch_publisher::{Publisher, Settings};

/// How long anything may take that a test waits for; far more than it does on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The name of the identity that tests put their objects into.
pub const IDENTITY: &str = "identity-a";

pub struct Rig {
    pub nats: NatsServer,
    pub world: World,
}

impl Rig {
    pub async fn start() -> Self {
        Self { nats: NatsServer::start().unwrap(), world: World::new().await }
    }

    /// A connection of its own, with the streams set up.
    pub async fn queue(&self) -> Queue {
        let queue = self.connect().await;
        tokio::time::timeout(PATIENCE, queue.connected()).await.unwrap();
        queue.ensure().await.unwrap();
        queue
    }

    async fn connect(&self) -> Queue {
        let settings = weir_function_runtime::settings::Settings::from_arguments(["--nats", &self.nats.url()]).unwrap();
        queue::connect(&settings).await.unwrap()
    }

    /// A publisher that has listed everything.
    pub async fn publisher(&self) -> Running {
        let running = self.publisher_with(self.world.client.clone(), &Settings::default()).await;
        running.ready().await;
        running
    }

    pub async fn publisher_with(&self, client: Client, settings: &Settings) -> Running {
        let publisher = Arc::new(Publisher::new(self.connect().await));
        let stop = CancellationToken::new();
        let (inner, settings, stopped) = (publisher.clone(), settings.clone(), stop.clone());
        let task = tokio::spawn(async move { weir_watch_publisher::serve(inner, client, &settings, stopped).await });
        Running { publisher, stop, task }
    }

    /// Writes an object's status, as its function does.
    pub async fn available(&self, kind: Kind, name: &str, reason: &str) -> DynamicObject {
        let condition = json!({
            "type": "Available", "status": if reason == "Provisioned" { "True" } else { "False" }, "reason": reason,
            "message": "as the test has it", "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let patch = json!({"status": {"conditions": [condition]}});
        self.world.api(kind).patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    /// Merges `patch` into an object.
    pub async fn change(&self, kind: Kind, name: &str, patch: Value) -> DynamicObject {
        self.world.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    /// Publishes a change of an object that nothing refers to, and waits until it is heard. All that was published before
    /// it, of objects of the same kind, has been heard then.
    pub async fn fence(&self, ear: &Ear, kind: Kind) {
        let name = format!("fence-{}", ear.heard().len());
        self.world.apply(&of_kind(kind, &name)).await;
        ear.hear("the fence", |heard| heard.object.name == name).await;
    }
}

/// An object of a kind, complete enough for its schema, that refers to no other one of the tests.
pub fn of_kind(kind: Kind, name: &str) -> Value {
    match kind {
        Kind::Network => weir_harness::world::network(name, "nobody"),
        Kind::SecurityGroup => weir_harness::world::security_group(name, "nobody"),
        Kind::Identity => object(Kind::Identity, name, &[], json!({"provider": "openstack"})),
        Kind::Server => object(Kind::Server, name, &links("nobody"), server_spec("none", &[], None)),
        other => panic!("no manifest of a {other}"),
    }
}

/// The name of what servers refer to by UUID, from a word of up to six letters.
pub fn uuid(word: &str) -> String {
    let number = word.bytes().fold(0_u64, |number, byte| number << 8 | u64::from(byte));
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// A Server of the tests' identity, with network and groups by their words.
pub fn server(name: &str, network: &str, groups: &[&str], authority: Option<&str>) -> Value {
    object(Kind::Server, name, &links(IDENTITY), server_spec(network, groups, authority))
}

fn server_spec(network: &str, groups: &[&str], authority: Option<&str>) -> Value {
    let groups: Vec<Value> = groups.iter().map(|word| json!({"id": uuid(word)})).collect();
    let mut spec = json!({
        "flavorID": "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "image": {"id": "3f2504e0-4f89-41d3-9a0c-0305e82c3302"},
        "networks": [{"id": uuid(network)}], "securityGroups": groups,
    });
    if let Some(authority) = authority {
        spec["sshCertificateAuthorityID"] = json!(authority);
    }
    spec
}

/// An SSHCertificateAuthority.
pub fn authority(name: &str, comment: &str) -> Value {
    let key = format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti {comment}");
    json!({
        "apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "SSHCertificateAuthority",
        "metadata": {"name": name, "namespace": World::NAMESPACE}, "spec": {"publicKey": key},
    })
}

/// The same object with its function's finalizer on it, so that it does not go when it is deleted.
pub fn held(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["unikorn"]);
    object
}

/// A publisher that runs.
pub struct Running {
    pub publisher: Arc<Publisher>,
    pub stop: CancellationToken,
    pub task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    /// Waits until everything has been listed.
    pub async fn ready(&self) {
        until("everything to be listed", || self.publisher.readiness().is_ok()).await;
    }

    /// Waits until the publisher knows an object, or knows that it has gone.
    pub async fn knows(&self, watched: Watched, name: &str, there: bool) {
        let known = || self.publisher.objects(watched).iter().any(|object| object.name == name);
        until("the watch", || known() == there).await;
    }

    pub async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap().unwrap();
    }
}

/// Polls until `condition` holds.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.lane, self.cause.token(), self.object)?;
        self.origin.iter().try_for_each(|origin| write!(f, " by {origin}"))
    }
}

/// A message that was heard.
#[derive(Clone)]
pub struct Heard {
    pub lane: Lane,
    pub object: ObjectRef,
    pub cause: Cause,
    pub origin: Option<ObjectRef>,
    pub id: Option<String>,
}

/// All that a consumer has been given: what functions would have been called for.
pub struct Ear {
    heard: watch::Receiver<Vec<Heard>>,
    from: AtomicUsize,
    task: JoinHandle<()>,
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ear {
    /// Takes all work off the queue as soon as it is stored.
    pub async fn consumer(queue: &Queue) -> Self {
        let stream = queue.jetstream().get_stream(WORK).await.unwrap();
        let filters =
            Lane::ALL.iter().flat_map(|lane| Kind::ALL.iter().map(move |kind| format!("work.{lane}.{kind}.>")));
        let config = pull::Config {
            durable_name: Some("ear".to_owned()),
            ack_policy: AckPolicy::Explicit,
            filter_subjects: filters.collect(),
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer("ear", config).await.unwrap();
        let messages = consumer.messages().await.unwrap();
        let messages = messages.filter_map(|message| async {
            let message = message.ok()?;
            message.ack().await.ok()?;
            Some(message.message)
        });
        Self::listen(messages.boxed())
    }

    /// Hears every publication, also those that the stream knows already and does not store.
    pub async fn wire(queue: &Queue) -> Self {
        let messages = queue.client().subscribe("work.>").await.unwrap();
        queue.client().flush().await.unwrap();
        Self::listen(messages.boxed())
    }

    fn listen(mut messages: futures::stream::BoxStream<'static, async_nats::Message>) -> Self {
        let (tell, heard) = watch::channel(Vec::new());
        let task = tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                if let Some(message) = understand(&message) {
                    tell.send_modify(|heard| heard.push(message));
                }
            }
        });
        Self { heard, from: AtomicUsize::new(0), task }
    }

    /// All that was heard since the last [`forget`](Self::forget).
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.borrow()[self.from.load(Relaxed)..].to_vec()
    }

    /// Takes no more notice of what was heard so far.
    pub fn forget(&self) {
        self.from.store(self.heard.borrow().len(), Relaxed);
    }

    /// Waits until a message is heard that is as wanted.
    pub async fn hear(&self, what: &str, wanted: impl Fn(&Heard) -> bool) -> Heard {
        self.until(what, |heard| heard.iter().any(&wanted)).await.into_iter().find(&wanted).unwrap()
    }

    /// Waits until what was heard is as wanted, and returns it.
    pub async fn until(&self, what: &str, wanted: impl Fn(&[Heard]) -> bool) -> Vec<Heard> {
        let from = self.from.load(Relaxed);
        let mut all = self.heard.clone();
        let waited = tokio::time::timeout(PATIENCE, all.wait_for(|heard| wanted(&heard[from..]))).await;
        if let Ok(heard) = waited {
            return heard.unwrap()[from..].to_vec();
        }
        panic!("waited in vain for {what}; heard: {:?}", self.heard())
    }

    /// How often each object was heard of.
    pub fn tally(&self) -> HashMap<String, usize> {
        let mut tally = HashMap::new();
        for heard in self.heard() {
            *tally.entry(heard.object.to_string()).or_default() += 1;
        }
        tally
    }
}

fn understand(message: &async_nats::Message) -> Option<Heard> {
    let headers = message.headers.as_ref()?;
    let header = |name: &str| headers.get(name).map(async_nats::HeaderValue::as_str);
    // Ticks of a resync are no work.
    let (lane, envelope) = Envelope::decode_on(&message.subject, header, &message.payload).ok()?;
    let id = header("Nats-Msg-Id").map(str::to_owned);
    let work = envelope.work;
    Some(Heard { lane, object: work.object, cause: work.cause, origin: work.origin, id })
}

/// The message id of an object's own news.
pub fn id(object: &DynamicObject) -> String {
    let meta = &object.metadata;
    format!("{}/{}", meta.uid.as_deref().unwrap(), meta.resource_version.as_deref().unwrap())
}
