//! What a Lambda function runs in: both simulators, a real NATS server, and the runtime API.

use crate::emulator::{Answer, Emulator};
use crate::sqs::{self, Message};
use futures::StreamExt;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::{self, Queue};
use weir_function_runtime::settings::Settings;
use weir_harness::nats::NatsServer;
use weir_harness::process::{Process, built};
use weir_harness::{World, world};

/// Longer than anything takes here that does not hang.
pub const SOON: Duration = Duration::from_secs(60);
/// The time-out of an invocation that is not about time-outs: AWS's own would be 3 s, on a machine of one's own.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(20);

pub struct Room {
    pub world: World,
    pub nats: NatsServer,
    pub queue: Queue,
    folder: TempDir,
}

/// A function as Lambda runs it.
pub struct Lambda {
    pub api: Emulator,
    pub process: Process,
}

impl Room {
    pub async fn new() -> Self {
        let world = World::new().await;
        let nats = NatsServer::start().expect("nats-server starts");
        let folder = TempDir::with_prefix("weir-lambda-").expect("a folder");
        std::fs::write(folder.path().join("kubeconfig"), world.kubernetes.kubeconfig()).expect("a kubeconfig");
        let settings = Settings::from_arguments(["--nats", &nats.url(), "--name", "test", "--lease-ttl", "2s"]);
        let queue = queue::connect(&settings.expect("settings")).await.expect("a connection");
        queue.connected().await;
        queue.ensure().await.expect("streams");
        Self { world, nats, queue, folder }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A function that has not been started.
    pub async fn lambda(&self, kind: Kind) -> Lambda {
        let api = Emulator::start().await;
        let process = Process::new(kind.token(), built(kind.token()), self.folder.path())
            .env("KUBECONFIG", self.kubeconfig())
            .env("WEIR_NATS_URL", self.nats.url())
            .env("WEIR_SAFETY_NET", "1s")
            .env("WEIR_LOG", "info,weir_function_runtime=debug");
        let environment = api.environment().into_iter();
        let process = environment.fold(process, |process, (name, value)| process.env(name, value));
        Lambda { api, process }
    }

    /// A function that runs.
    pub async fn started(&self, kind: Kind) -> Lambda {
        let mut lambda = self.lambda(kind).await;
        lambda.process.start().expect("it starts");
        lambda
    }

    /// Applies an identity of this name.
    pub async fn identity(&self, name: &str) -> ObjectRef {
        self.world.apply(&world::identity(name)).await;
        ObjectRef::new(Kind::Identity, World::NAMESPACE, name)
    }

    /// The `Available` reason of an object, if it has been looked at.
    pub async fn reason(&self, object: &ObjectRef) -> Option<String> {
        self.world.condition(object.kind, &object.name).await.map(|(reason, _)| reason)
    }

    /// The subjects that have a message in the stream of work: the work that waits, and the timers.
    pub async fn subjects(&self) -> Vec<String> {
        let stream = self.queue.jetstream().get_stream("WORK").await.expect("WORK");
        let subjects = stream.info_with_subjects(">").await.expect("the subjects of WORK");
        subjects.map(|subject| subject.expect("a subject").0).collect().await
    }

    /// Whether anybody holds a lease.
    pub async fn leased(&self) -> bool {
        let mut leases = self.queue.jetstream().get_stream("KV_LEASES").await.expect("leases");
        leases.info().await.expect("info").state.messages > 0
    }

    /// The dead letters: each one's headers and payload.
    pub async fn dead(&self) -> Vec<async_nats::jetstream::message::StreamMessage> {
        let mut stream = self.queue.jetstream().get_stream("DEAD").await.expect("DEAD");
        let state = stream.info().await.expect("info").state.clone();
        let mut letters = vec![];
        for sequence in state.first_sequence.max(1)..=state.last_sequence {
            // What was sent again or dropped is no longer there.
            letters.extend(stream.get_raw_message(sequence).await.ok());
        }
        letters
    }
}

impl Lambda {
    /// Hands a batch over and returns the ids that are reported as failed.
    pub async fn batch(&self, messages: &[Message]) -> Vec<String> {
        match self.api.invoke(sqs::event(messages), TIMEOUT).await.0 {
            Answer::Response(answer) => sqs::failed(&answer),
            other => panic!("{other:?}\n{}", self.process.last_words()),
        }
    }

    /// Invokes it with anything, without a hurry.
    pub async fn invoke(&self, payload: Value) -> Answer {
        self.api.invoke(payload, TIMEOUT).await.0
    }
}

/// Polls until `holds`.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !holds().await {
        assert!(Instant::now() < until, "not so in {SOON:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}
