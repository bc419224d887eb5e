//! What a function is, and what it is given.

use crate::gate::{Gate, GatedTransport};
use crate::kubernetes;
use crate::record::replay::Player;
use crate::record::tape::{NO_ANSWER, TIME_UP, Tape};
use crate::worker::Call;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use uuid::Uuid;
use weir_api::conditions::Reason;
use weir_api::crd;
use weir_api::crd::Reconciled;
use weir_api::{Kind, Problem};
use weir_openstack::{CallTag, Session, Transport};
use weir_provider::{Provider, Purpose, Record, Region};

/// A custom resource that a function reconciles, with the status that is written for it.
pub trait Object: Reconciled + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its status.
    type Status: Clone + Debug + Default + Serialize + Send + Sync;

    /// The status that was read.
    fn status(&self) -> Option<&Self::Status>;

    /// The conditions in a status.
    fn conditions_mut(status: &mut Self::Status) -> &mut Vec<Condition>;

    /// Records the generation that a status was decided from.
    fn observe_generation(status: &mut Self::Status, generation: Option<i64>);
}

/// Implements [`Object`] for kinds whose status is laid out as all are.
macro_rules! objects {
    ($($object:ident, $status:ident;)*) => {$(
        impl Object for crd::$object {
            type Status = crd::$status;

            fn status(&self) -> Option<&Self::Status> {
                self.status.as_ref()
            }

            fn conditions_mut(status: &mut Self::Status) -> &mut Vec<Condition> {
                &mut status.conditions
            }

            fn observe_generation(status: &mut Self::Status, generation: Option<i64>) {
                status.observed_generation = generation;
            }
        }
    )*};
}

objects! {
    Region, RegionStatus;
    Identity, IdentityStatus;
    Network, NetworkStatus;
    SecurityGroup, SecurityGroupStatus;
    Server, ServerStatus;
}

/// A function: brings the cloud to what one object asks for, or removes what it asked for.
///
/// Both directions may be called at any time, any number of times, after a crash at any point. They read the cloud
/// afresh, take the safe steps that can be taken now, and return. They never sleep, and they never write the object:
/// what they put into `status` is written by the caller.
pub trait Function: Send + Sync + 'static {
    /// What it reconciles.
    type Object: Object;

    /// Whether the object keeps a finalizer while it lives. Only a kind that leaves nothing in a cloud says no.
    const FINALIZER: bool = true;

    /// Brings the cloud to what the object asks for.
    fn reconcile(
        &self,
        scope: &Scope,
        object: &Self::Object,
        status: &mut <Self::Object as Object>::Status,
    ) -> impl Future<Output = Result<(), Problem>> + Send;

    /// Removes what the object asked for. `Ok` says that a fresh look has shown that nothing is left (OWN-8).
    fn finalize(
        &self,
        scope: &Scope,
        object: &Self::Object,
        status: &mut <Self::Object as Object>::Status,
    ) -> impl Future<Output = Result<(), Problem>> + Send;
}

/// What one call may use: clients whose writes stop with its lease, and its identity for logs and clouds.
pub struct Scope {
    id: Uuid,
    traceparent: String,
    namespace: String,
    kubernetes: kube::Client,
    provider: Arc<Provider>,
    gate: Arc<dyn Gate>,
    layers: Layers,
}

/// What stands between a call and the world, besides the gate.
#[derive(Clone, Default)]
pub(crate) struct Layers {
    /// Takes down what is said.
    pub(crate) tape: Option<Arc<Tape>>,
    /// Answers in place of the world.
    pub(crate) player: Option<Arc<Player>>,
}

impl Scope {
    /// The scope of a call that nobody takes down.
    pub fn new(call: &Call, client: &kube::Client, provider: Arc<Provider>) -> Self {
        Self::layered(call, client, provider, Layers::default())
    }

    /// The scope of a call, with layers around its clients. The tape is outside the gate: what the gate withholds is
    /// part of what happened.
    pub(crate) fn layered(call: &Call, client: &kube::Client, provider: Arc<Provider>, layers: Layers) -> Self {
        let gate = |until| Arc::new(crate::gate::CallGate::new(call.lease.clone(), until)) as Arc<dyn Gate>;
        // Open for longer than the cloud's: what has been done by the deadline is yet to be written down.
        let end = gate(call.end);
        Self {
            id: call.id,
            traceparent: call.traceparent.to_string(),
            namespace: call.work.object.namespace.clone(),
            // In one layer, since each costs a task for every call.
            kubernetes: match &layers.tape {
                Some(tape) => tape.kubernetes(client, end),
                None => crate::gate::kubernetes(client, end),
            },
            provider,
            gate: gate(call.deadline),
            layers,
        }
    }

    /// Now. A function that looks at the clock does so here, so that a replay of its call sees the same.
    pub fn now(&self) -> jiff::Timestamp {
        let now = self.layers.player.as_ref().map_or_else(jiff::Timestamp::now, |player| player.now());
        if let Some(tape) = &self.layers.tape {
            tape.clock(now);
        }
        now
    }

    /// Tells another object's function to look at it, by `sending`; taken down, so that a replay sees the same come of it and sends
    /// nothing.
    ///
    /// # Errors
    /// It could not be told.
    pub async fn wake(
        &self,
        object: weir_api::ObjectRef,
        sending: impl Future<Output = Result<(), Problem>> + Send,
    ) -> Result<(), Problem> {
        let sent = match &self.layers.player {
            Some(player) => player.wake(&object).map_or(Ok(()), |failure| Err(lost(failure))),
            None => sending.await.map_err(|problem| lost(problem.detail.unwrap_or(problem.message))),
        };
        if let Some(tape) = &self.layers.tape {
            tape.wake(object, sent.as_ref().err().and_then(|problem| problem.detail.clone()));
        }
        sent
    }

    /// Says that the call has come to nothing that anybody will ask about: it is not kept, unless it fails.
    pub fn is_not_worth_recording(&self) {
        if let Some(tape) = &self.layers.tape {
            tape.is_not_worth_it();
        }
    }

    /// What stands in the call's way, if anything does; the last word counts.
    pub fn troubled_by(&self, problem: Option<&Problem>) {
        if let Some(tape) = &self.layers.tape {
            tape.problem(problem);
        }
    }

    /// Whether the call's time `is` up, where that decides; taken down if it is.
    pub(crate) fn is_out_of_time(&self, is: impl FnOnce() -> bool) -> bool {
        let up = self.layers.player.as_ref().map_or_else(is, |player| player.is_stopped_by(TIME_UP));
        if up && let Some(tape) = &self.layers.tape {
            tape.stopped(TIME_UP);
        }
        up
    }

    /// Resolves when no answer is waited for any longer: at `end`. Taken down, so that a replay gives up at the same point.
    pub async fn out_of_patience(&self, end: std::time::Instant) {
        match &self.layers.player {
            Some(player) => player.out_of_patience().await,
            None => tokio::time::sleep_until(end.into()).await,
        }
        if let Some(tape) = &self.layers.tape {
            tape.stopped(NO_ANSWER);
        }
    }

    /// The call's correlation ID: also the request ID that clouds log.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The namespace of the object at hand. All that it refers to by name alone is in the same.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Objects of a kind, in the namespace of the object at hand.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.kubernetes.clone(), &self.namespace)
    }

    /// Objects of a kind in another namespace: a region's Secret may be anywhere.
    pub fn api_in<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.kubernetes.clone(), namespace)
    }

    /// Objects of a kind that is not known before it runs, in the namespace of the object at hand.
    pub(crate) fn api_of(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.kubernetes.clone(), &self.namespace, &kind.resource())
    }

    /// Reads one object afresh; `None` if there is none.
    pub async fn get<K>(&self, name: &str) -> Result<Option<K>, Problem>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let doing = || format!("reading {} {name}", K::kind(&()));
        let read = self.api::<K>().get_opt(name).await;
        Ok(read.map_err(|error| kubernetes::problem(&error, &doing()))?.map(kubernetes::lean))
    }

    /// Reads all objects afresh that carry this value of a label.
    pub async fn labelled<K>(&self, label: &str, value: &str) -> Result<Vec<K>, Problem>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let doing = || format!("listing {}", K::plural(&()));
        let read = self.api::<K>().list(&ListParams::default().labels(&format!("{label}={value}"))).await;
        let list = read.map_err(|error| kubernetes::problem(&error, &doing()))?;
        Ok(list.items.into_iter().map(kubernetes::lean).collect())
    }

    /// The region that an object's label names, with its credential, read afresh (OSC-4), if the object may use it for what is
    /// being done about it ([`Purpose`]).
    pub async fn region(&self, object: &impl ResourceExt) -> Result<Region, Problem> {
        let Some(name) = weir_api::labels::anchor(object, weir_api::labels::REGION) else {
            return Err(Problem::user_action(format!(
                "the label {} is missing: it names the region",
                weir_api::labels::REGION
            )));
        };
        let wrap = |inner| self.gated(inner);
        let at = (self.namespace.as_str(), name);
        self.provider.region(&self.kubernetes, at, Purpose::of(object), self.tag(), &wrap).await
    }

    /// A region that has just been read, with its credential, read afresh: to look at its cloud, and make nothing there.
    pub async fn open(&self, region: &crd::Region) -> Result<Region, Problem> {
        let wrap = |inner| self.gated(inner);
        self.provider.open(&self.kubernetes, region, self.tag(), &wrap).await
    }

    /// What ties the requests to a cloud to this call, and to the trace that it is a step of.
    fn tag(&self) -> CallTag {
        CallTag::new(self.id).with_traceparent(&self.traceparent)
    }

    fn gated(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        let inner = self.layers.player.as_ref().map_or(inner, Player::openstack);
        let gated: Arc<dyn Transport> = Arc::new(GatedTransport::new(inner, self.gate.clone()));
        self.layers.tape.as_ref().map_or_else(|| gated.clone(), |tape| tape.openstack(gated.clone()))
    }

    /// The identity that an object's label names, ready to be worked in: realised, and not going away (SRV-4).
    pub async fn identity(&self, object: &impl ResourceExt) -> Result<Foothold, Problem> {
        let Some(name) = weir_api::labels::anchor(object, weir_api::labels::IDENTITY) else {
            let label = weir_api::labels::IDENTITY;
            return Err(Problem::user_action(format!("the label {label} is missing: it names the identity")));
        };
        let identity = self.get::<crd::Identity>(name).await?;
        weir_provider::dependency("Identity", name, identity.as_ref(), |i| Some(&i.status.as_ref()?.conditions))?;
        let record = self.get::<crd::OpenstackIdentity>(name).await?;
        // Without the record, what is made could not be found again. One of the predecessor's is held as soon as the identity's
        // function has been there, which no event tells.
        if record.as_ref().is_some_and(|record| !weir_api::labels::is_held(record)) {
            return Err(Problem::yielding(format!("the record of Identity {name} is not held yet; looking again"))
                .with_reason(Reason::DependencyNotReady));
        }
        self.stand(object, record.as_ref()).await?.ok_or_else(|| {
            Problem::waiting(Reason::DependencyNotReady, format!("Identity {name} has no project in the cloud yet"))
        })
    }

    /// What the identity that an object's label names has in the cloud, whatever state it is in; `None` if it has no
    /// project, so that nothing of the object can be there either (NET-12). For deletion.
    pub async fn foothold(&self, object: &impl ResourceExt) -> Result<Option<Foothold>, Problem> {
        let Some(name) = weir_api::labels::anchor(object, weir_api::labels::IDENTITY) else {
            return Ok(None);
        };
        let record = self.get::<crd::OpenstackIdentity>(name).await?;
        self.stand(object, record.as_ref()).await
    }

    async fn stand(
        &self,
        object: &impl ResourceExt,
        record: Option<&crd::OpenstackIdentity>,
    ) -> Result<Option<Foothold>, Problem> {
        let Some(record) = record.and_then(Record::of) else {
            return Ok(None);
        };
        Ok(Some(Foothold { region: self.region(object).await?, record }))
    }
}

fn lost(detail: String) -> Problem {
    Problem::retry("another object's function could not be told; trying again").with_detail(detail)
}

/// An identity's place in a region's cloud.
pub struct Foothold {
    /// The region.
    pub region: Region,
    /// What the identity has there.
    pub record: Record,
}

impl Foothold {
    /// A session with the identity's own credential: for almost everything.
    pub fn session(&self) -> Result<Session, Problem> {
        self.region.identity(&self.record)
    }

    /// A session to remove things with: the identity's or, where its application credential is gone or has never come to be,
    /// the region's, which reaches as far. Nothing would tell when an identity that is being deleted itself has come to have
    /// one, and its user may never be let in.
    pub fn any_session(&self) -> Session {
        let own = self.record.has_application_credential().then(|| self.session().ok()).flatten();
        own.unwrap_or_else(|| self.manager())
    }

    /// A session with the region's credential in the identity's project: for what needs a manager there.
    pub fn manager(&self) -> Session {
        self.region.manager_in_project(&self.record.project)
    }
}
