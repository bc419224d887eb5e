//! What the tests share: a server, workers on it, and a handler that remembers.

use std::future::Future;
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::{self, Queue};
use weir_function_runtime::settings::Settings;
use weir_function_runtime::worker::{self, Call, Handler, Verdict};
use weir_messages::{Cause, Lane, Work};

use crate::nats::NatsServer;

/// How long anything may take that a test waits for; far more than it does on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(40);

pub fn server(name: &str) -> ObjectRef {
    ObjectRef::new(Kind::Server, "ns", name)
}

pub fn changed(name: &str) -> Work {
    Work::new(server(name), Cause::Changed)
}

/// A server, and the settings of workers on it.
pub struct Rig {
    pub nats: NatsServer,
    lease_ttl: &'static str,
}

impl Rig {
    /// Leases live as long as in production: no hiccup of a busy machine costs one.
    pub fn start() -> Self {
        Self::with_lease_ttl("10s")
    }

    /// Leases live briefly: for tests in which they end, and which count no calls.
    pub fn hurried() -> Self {
        Self::with_lease_ttl("2s")
    }

    pub fn with_lease_ttl(lease_ttl: &'static str) -> Self {
        Self { nats: NatsServer::start().unwrap(), lease_ttl }
    }

    pub fn settings(&self, arguments: &[&str]) -> Settings {
        let url = self.nats.url();
        let own = ["--nats", &url, "--lease-ttl", self.lease_ttl, "--grace", "5s"];
        // Flags given twice would be refused, so those of the test replace these.
        let mut all: Vec<&str> = Vec::new();
        for pair in own.chunks(2) {
            if !arguments.contains(&pair[0]) {
                all.extend(pair);
            }
        }
        all.extend(arguments);
        Settings::from_arguments(all).unwrap()
    }

    /// A connection of its own, with everything set up.
    pub async fn queue(&self) -> Queue {
        let queue = self.bare_queue().await;
        queue.ensure().await.unwrap();
        queue
    }

    /// A connection of its own, with nothing set up.
    pub async fn bare_queue(&self) -> Queue {
        let queue = queue::connect(&self.settings(&[])).await.unwrap();
        within("a connection", queue.connected()).await;
        queue
    }

    /// Starts a worker on a connection of its own.
    pub async fn worker(&self, handler: &Arc<Recorder>, arguments: &[&str]) -> Running {
        let settings = self.settings(arguments);
        let queue = queue::connect(&settings).await.unwrap();
        let stop = CancellationToken::new();
        let (handler, stopped) = (handler.clone(), stop.clone());
        let task = tokio::spawn(async move { worker::run(handler, queue, &settings, stopped).await });
        Running { stop, task }
    }
}

/// A worker that runs.
pub struct Running {
    pub stop: CancellationToken,
    pub task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        within("the worker to stop", self.task).await.unwrap().unwrap();
    }
}

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Seen {
    pub object: ObjectRef,
    pub lane: Lane,
    pub cause: Cause,
    pub attempt: u32,
    pub traceparent: String,
    pub at: Instant,
}

type Behaviour = Box<dyn Fn(Arc<Recorder>, Seen, usize) -> BoxFuture<'static, Verdict> + Send + Sync>;

/// A handler that does as the test says and remembers its calls.
pub struct Recorder {
    kind: Kind,
    calls: watch::Sender<Vec<Seen>>,
    running: Mutex<(usize, usize)>,
    behaviour: Behaviour,
    me: std::sync::Weak<Self>,
}

impl Recorder {
    /// `behaviour` gets what was called and how many calls there have been for the same object before.
    pub fn new<F, R>(behaviour: F) -> Arc<Self>
    where
        F: Fn(Arc<Self>, Seen, usize) -> R + Send + Sync + 'static,
        R: Future<Output = Verdict> + Send + 'static,
    {
        Self::of(Kind::Server, behaviour)
    }

    /// The same for another kind: one that no other test uses has its metrics to itself, where tests share a process.
    pub fn of<F, R>(kind: Kind, behaviour: F) -> Arc<Self>
    where
        F: Fn(Arc<Self>, Seen, usize) -> R + Send + Sync + 'static,
        R: Future<Output = Verdict> + Send + 'static,
    {
        let behaviour: Behaviour = Box::new(move |me, seen, nth| Box::pin(behaviour(me, seen, nth)));
        Arc::new_cyclic(|me| Self {
            kind,
            calls: watch::Sender::new(Vec::new()),
            running: Mutex::new((0, 0)),
            behaviour,
            me: me.clone(),
        })
    }

    /// Settles everything at once.
    pub fn settling() -> Arc<Self> {
        Self::new(|_, _, _| async { Verdict::Settled })
    }

    pub fn calls(&self) -> Vec<Seen> {
        self.calls.borrow().clone()
    }

    pub fn calls_for(&self, name: &str) -> Vec<Seen> {
        self.calls().into_iter().filter(|seen| seen.object.name == name).collect()
    }

    /// Waits until the calls are as `wanted`, and returns them.
    pub async fn until(&self, what: &str, wanted: impl FnMut(&Vec<Seen>) -> bool) -> Vec<Seen> {
        let mut calls = self.calls.subscribe();
        within(what, calls.wait_for(wanted)).await.unwrap().clone()
    }

    /// The most calls that ever ran at once.
    pub fn most_at_once(&self) -> usize {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

struct Count<'a>(&'a Recorder);

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner).0 -= 1;
    }
}

impl Handler for Recorder {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn handle<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            {
                let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                running.0 += 1;
                running.1 = running.1.max(running.0);
            }
            let _count = Count(self);
            let seen = Seen {
                object: call.work.object.clone(),
                lane: call.lane,
                cause: call.work.cause,
                attempt: call.work.attempt,
                traceparent: call.traceparent.to_string(),
                at: Instant::now(),
            };
            let before = self.calls_for(&seen.object.name).len();
            self.calls.send_modify(|calls| calls.push(seen.clone()));
            (self.behaviour)(self.me.upgrade().unwrap(), seen, before).await
        })
    }
}

/// Waits for `future`, and panics with `what` when it takes too long.
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Asks again and again until `check` returns something.
pub async fn eventually<T, F, R>(what: &str, mut check: F) -> T
where
    F: FnMut() -> R,
    R: Future<Output = Option<T>>,
{
    within(what, async {
        loop {
            if let Some(found) = check().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

/// One request to the JetStream API.
pub async fn api(queue: &Queue, what: &str, body: Value) -> Value {
    queue.jetstream().request(what.to_owned(), &body).await.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// How many messages a stream holds on subjects that match.
pub async fn count(queue: &Queue, stream: &str, filter: &str) -> u64 {
    let info = api(queue, &format!("STREAM.INFO.{stream}"), json!({ "subjects_filter": filter })).await;
    let subjects = info.pointer("/state/subjects").and_then(Value::as_object).cloned().unwrap_or_default();
    subjects.values().filter_map(Value::as_u64).sum()
}

/// Waits until nothing is left of any work: no message, no timer, no lease.
pub async fn until_all_is_quiet(queue: &Queue) {
    eventually("all to be quiet", || async {
        let left = (count(queue, "WORK", ">").await, count(queue, "KV_LEASES", ">").await);
        (left == (0, 0)).then_some(())
    })
    .await;
}
