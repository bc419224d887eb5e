//! The classic controller: one process that watches, keeps a copy of everything, and reconciles from a queue in its memory.
//!
//! Intention: what Weir is compared with, made as a careful engineer makes it with `kube::runtime`: status writes do not wake it
//! (a predicate over what the function acts on), those it depends on wake it only when what they offer has changed, managed
//! fields are dropped from the copies, failures back off for each object, and every object is looked at again in half an hour.
//!
//! The reconcile body is [`Reconciler`], the very same as in a function's process: reads, decision, steps, status.

use anyhow::Context as _;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::{Stream, StreamExt};
use kube::core::NamespaceResourceScope;
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use weir_api::crd::{self, Server};
use weir_api::{Kind, conditions, labels};
use weir_function_runtime::reconcile::Reconciler;
use weir_function_runtime::worker::{Call, Handler, Verdict};
use weir_function_runtime::{Function, run};
use weir_messages::{Cause, Work};
use weir_provider::Provider;

/// When a settled object is looked at again, as by Weir.
const RESYNC: Duration = Duration::from_secs(30 * 60);
/// When an object that waits for an event is looked at again, as by Weir.
const SAFETY_NET: Duration = Duration::from_secs(5 * 60);
/// The back-off after failures, as Weir's.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest.
const LAST_RETRY: Duration = Duration::from_secs(5 * 60);

/// What it tells of itself.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Calls that have ended.
    pub ended: u64,
    /// Calls that have begun.
    pub begun: u64,
    /// Objects of which it has a copy.
    pub copies: usize,
}

/// What a failure asks for.
#[derive(Debug, thiserror::Error)]
#[error("the call failed")]
struct Failed {
    after: Option<Duration>,
}

/// What calls share.
struct Context {
    handler: Arc<dyn Handler>,
    begun: AtomicU64,
    ended: AtomicU64,
    failures: Mutex<HashMap<ObjectRef<Server>, u32>>,
}

impl Context {
    async fn reconcile(server: Arc<Server>, context: Arc<Self>) -> Result<Action, Failed> {
        context.begun.fetch_add(1, Ordering::Relaxed);
        let namespace = server.namespace().unwrap_or_default();
        let object = weir_api::ObjectRef::new(Kind::Server, namespace, server.name_any());
        let verdict = context.handler.handle(&Call::direct(Work::new(object, Cause::Changed))).await;
        context.ended.fetch_add(1, Ordering::Relaxed);
        let action = match verdict {
            Verdict::Settled => Action::requeue(RESYNC),
            Verdict::Gone | Verdict::Parked => Action::await_change(),
            Verdict::Waiting => Action::requeue(SAFETY_NET),
            Verdict::After { delay } => Action::requeue(delay),
            Verdict::Abandoned => Action::requeue(FIRST_RETRY),
            Verdict::Retry { after } => return Err(Failed { after }),
        };
        context.failures().remove(&ObjectRef::from_obj(&*server));
        Ok(action)
    }

    /// Backs off, doubling, for each object by itself.
    #[allow(clippy::needless_pass_by_value)] // the signature is kube's
    fn failed(server: Arc<Server>, error: &Failed, context: Arc<Self>) -> Action {
        let mut failures = context.failures();
        let count = failures.entry(ObjectRef::from_obj(&*server)).or_default();
        let backoff = FIRST_RETRY.saturating_mul(1 << (*count).min(16)).min(LAST_RETRY);
        *count += 1;
        Action::requeue(error.after.unwrap_or(backoff))
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectRef<Server>, u32>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the controller with `function` until `stop`, answering on `listen` to who measures.
pub async fn serve<F>(function: F, concurrency: u16, listen: SocketAddr, stop: CancellationToken) -> anyhow::Result<()>
where
    F: Function<Object = Server>,
{
    let client = run::kubernetes_client().await?;
    let reconciler = Reconciler::new(function, client.clone(), Arc::new(Provider::default()));
    let context = Arc::new(Context {
        handler: Arc::new(reconciler),
        begun: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        failures: Mutex::default(),
    });
    let (store, writer) = reflector::store::<Server>();
    let servers = watcher(Api::<Server>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|server| server.managed_fields_mut().clear())
        .reflect(writer)
        .applied_objects()
        .predicate_filter(intent, kube::runtime::PredicateConfig::default());
    let (everything, all) = mpsc::unbounded_channel();
    let (some, named) = mpsc::unbounded_channel();
    let control = Control { context: context.clone(), store: store.clone(), everything, some };
    let listener = tokio::net::TcpListener::bind(listen).await.context("cannot listen")?;
    // As a function says it.
    println!("metrics http://{}", listener.local_addr()?);
    let router = Router::new()
        .route("/stats", get(stats))
        .route("/resync", post(resync))
        .route("/enqueue", post(enqueue))
        .with_state(Arc::new(control));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let controller = Controller::for_stream(servers, store.clone())
        .with_config(controller::Config::default().concurrency(concurrency))
        .watches_stream(
            offers::<crd::Region>(&client),
            users(&store, |server, name| linked(server, labels::REGION, name)),
        )
        .watches_stream(
            offers::<crd::Identity>(&client),
            users(&store, |server, name| linked(server, labels::IDENTITY, name)),
        )
        .watches_stream(
            offers::<crd::Network>(&client),
            users(&store, |server, name| server.spec.networks.iter().any(|network| network.id.as_str() == name)),
        )
        .watches_stream(
            offers::<crd::SecurityGroup>(&client),
            users(&store, |server, name| server.spec.security_groups.iter().any(|group| group.id.as_str() == name)),
        )
        .reconcile_all_on(UnboundedReceiverStream::new(all))
        .reconcile_on(UnboundedReceiverStream::new(named))
        .graceful_shutdown_on(async move { stop.cancelled().await });
    controller
        .run(Context::reconcile, Context::failed, context)
        .for_each(|result| {
            if let Err(error) = result {
                tracing::warn!(%error, "a reconciliation failed");
            }
            std::future::ready(())
        })
        .await;
    Ok(())
}

/// A hash of what the function acts on, so that its own status writes do not wake it; the same as the publisher's (W-1).
#[allow(clippy::unnecessary_wraps)] // the signature is kube's
fn intent(server: &Server) -> Option<u64> {
    let meta = &server.metadata;
    let called = server.status.as_ref().is_some_and(weir_api::server::calls).then_some(&meta.resource_version);
    let deleting = meta.deletion_timestamp.is_some();
    Some(hash((meta.generation, deleting, &meta.finalizers, &meta.labels, &meta.annotations, called)))
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Objects that servers depend on, whenever what they offer has changed: ready, failed, going.
fn offers<K>(client: &kube::Client) -> impl Stream<Item = Result<K, watcher::Error>> + Send + 'static
where
    K: weir_function_runtime::Object + Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
{
    let offer = |object: &K| {
        let status = object.status().cloned().map(|mut status| K::conditions_mut(&mut status).clone());
        let available = status.as_deref().and_then(|all| conditions::get(all, conditions::AVAILABLE));
        let reason = available.map(|condition| condition.reason.clone());
        Some(hash((object.meta().deletion_timestamp.is_some(), reason)))
    };
    watcher(Api::<K>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .touched_objects()
        .predicate_filter(offer, kube::runtime::PredicateConfig::default())
}

/// The servers that use an object, out of the copies.
fn users<K: Resource<DynamicType = ()>>(
    store: &Store<Server>,
    uses: impl Fn(&Server, &str) -> bool + Send + Sync + 'static,
) -> impl Fn(K) -> Vec<ObjectRef<Server>> + Send + Sync + 'static {
    let store = store.clone();
    move |object: K| {
        let name = object.name_any();
        let servers = store.state();
        servers.iter().filter(|server| uses(server, &name)).map(|server| ObjectRef::from_obj(&**server)).collect()
    }
}

fn linked(server: &Server, label: &str, name: &str) -> bool {
    labels::anchor(server, label) == Some(name)
}

struct Control {
    context: Arc<Context>,
    store: Store<Server>,
    everything: mpsc::UnboundedSender<()>,
    some: mpsc::UnboundedSender<ObjectRef<Server>>,
}

async fn stats(State(control): State<Arc<Control>>) -> Json<Stats> {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (ended, begun) = (read(&control.context.ended), read(&control.context.begun));
    Json(Stats { ended, begun, copies: control.store.len() })
}

async fn resync(State(control): State<Arc<Control>>) -> StatusCode {
    if control.everything.send(()).is_ok() { StatusCode::ACCEPTED } else { StatusCode::GONE }
}

/// Objects by namespace and name.
async fn enqueue(State(control): State<Arc<Control>>, Json(names): Json<Vec<(String, String)>>) -> StatusCode {
    for (namespace, name) in names {
        if control.some.send(ObjectRef::new(&name).within(&namespace)).is_err() {
            return StatusCode::GONE;
        }
    }
    StatusCode::ACCEPTED
}
