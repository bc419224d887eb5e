//! Calls that are cut short are run again to where they were cut, and no further; one that panicked, for as long as it runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use weir_api::crd::{SecurityGroup, SecurityGroupStatus};
use weir_api::{Kind, ObjectRef, Problem};
use weir_function_runtime::lease::{self, Acquired, Lease};
use weir_function_runtime::queue;
use weir_function_runtime::reconcile::Reconciler;
use weir_function_runtime::record::boundary::Boundary;
use weir_function_runtime::record::replay::{replay, replay_handler};
use weir_function_runtime::settings::Settings;
use weir_function_runtime::worker::{Call, Handler, Verdict};
use weir_function_runtime::{Function, Scope};
use weir_harness::nats::NatsServer;
use weir_harness::{World, world};
use weir_messages::recording::Entry;
use weir_messages::{Cause, Recording, Work};
use weir_openstack_sim::{Action, Fault, Mangle};
use weir_security_group::SecurityGroups;

use crate::must_replay;
use crate::studio::{GROUP, IDENTITY, Studio};

/// Longer than anybody waits here.
const FOR_EVER: u64 = 600_000;

async fn studio() -> Studio {
    let mut studio = Studio::open().await;
    studio.world.apply(&world::identity(IDENTITY)).await;
    studio.settle(Kind::Identity, IDENTITY).await;
    studio.world.apply(&world::security_group(GROUP, IDENTITY)).await;
    studio.recorded();
    studio
}

fn call() -> Call {
    Call::direct(Work::new(ObjectRef::new(Kind::SecurityGroup, World::NAMESPACE, GROUP), Cause::Changed))
}

fn stopped_by(recording: &Recording) -> Vec<&str> {
    let stops = recording.entries.iter().filter_map(|entry| match entry {
        Entry::Stopped { by, .. } => Some(by.as_str()),
        _ => None,
    });
    stops.collect()
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_ended_while_it_waits_for_an_answer_is_run_again_to_there() {
    let mut studio = studio().await;
    studio
        .world
        .cloud
        .faults()
        .add(Fault::new(Action::Latency(FOR_EVER)).on("POST", "/security-group-rules$"))
        .unwrap();
    let (function, call) = (studio.function(Kind::SecurityGroup, studio.recorder.clone()), call());
    tokio::select! {
        verdict = function.handle(&call) => panic!("it has not waited: {verdict:?}"),
        // Until it waits for the first rule; then it is dropped, as when its lease is lost or its time is up. What it waits for does
        // not show before it is answered, so this may be a little before: that is cut short too.
        () = async {
            let requests = || studio.world.cloud.requests();
            while !requests().iter().any(|r| r.method == "POST" && r.path.ends_with("/security-groups")) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        } => {}
    }
    let recording = studio.recorded().remove(0);
    assert_eq!(recording.outcome.verdict, "ended");
    must_replay(&recording).await;
}

/// Proves: L-4, R-3
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_out_of_time_or_patience_is_decided_as_it_was() {
    let mut studio = studio().await;
    let function = studio.function(Kind::SecurityGroup, studio.recorder.clone());
    // No write is let through any more.
    let late = Call { deadline: Instant::now(), ..call() };
    function.handle(&late).await;
    let recording = studio.recorded().remove(0);
    assert_eq!(stopped_by(&recording), ["time-up"], "{:?}", recording.outcome);
    must_replay(&recording).await;
    // An answer does not come, and is given up.
    studio.world.cloud.faults().add(Fault::new(Action::Latency(FOR_EVER)).on("POST", "/security-groups$")).unwrap();
    let soon = Instant::now() + Duration::from_secs(2);
    let short = Call { deadline: soon, end: soon + Duration::from_secs(2), ..call() };
    function.handle(&short).await;
    let recording = studio.recorded().remove(0);
    assert_eq!(stopped_by(&recording), ["no-answer"], "{:?}", recording.outcome);
    must_replay(&recording).await;
}

/// The function of security groups, to which something happens between its last step and its status.
enum Interrupted {
    /// Its lease is lost; in a replay there is none to lose.
    ByLoss(Option<Arc<Lease>>),
    ByPanic,
}

impl Function for Interrupted {
    type Object = SecurityGroup;

    async fn reconcile(
        &self,
        scope: &Scope,
        object: &SecurityGroup,
        status: &mut SecurityGroupStatus,
    ) -> Result<(), Problem> {
        SecurityGroups.reconcile(scope, object, status).await?;
        match self {
            Self::ByLoss(Some(lease)) => lease.ended().await,
            Self::ByLoss(None) => {}
            Self::ByPanic => panic!("as planned"),
        }
        Ok(())
    }

    async fn finalize(
        &self,
        scope: &Scope,
        object: &SecurityGroup,
        status: &mut SecurityGroupStatus,
    ) -> Result<(), Problem> {
        SecurityGroups.finalize(scope, object, status).await
    }
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_loses_its_lease_midway_is_decided_again_as_one_that_was_abandoned() {
    let nats = NatsServer::start().unwrap();
    let settings = Settings::from_arguments(["--nats", &nats.url(), "--lease-ttl", "6s"]).unwrap();
    let queue = queue::connect(&settings).await.unwrap();
    queue.connected().await;
    queue.ensure().await.unwrap();
    let mut studio = studio().await;
    let call = call();
    let Acquired::Lease(lease) = lease::acquire(&queue, &call.work.object).await.unwrap() else {
        panic!("the lease is held")
    };
    let lease = Arc::new(lease);
    let (client, provider) = (studio.world.function_client.clone(), studio.world.provider.clone());
    let function = Interrupted::ByLoss(Some(lease.clone()));
    let function = Reconciler::new(function, client, provider).recorded(studio.recorder.clone());
    // Somebody else has it from when the group is there; that shows at the next renewal.
    let taken = async {
        let made = |world: &World| {
            world.cloud.requests().iter().any(|r| r.method == "POST" && r.path.ends_with("/security-groups"))
        };
        while !made(&studio.world) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let leases = queue.jetstream().get_stream("KV_LEASES").await.unwrap();
        leases.purge().await.unwrap();
    };
    let call = Call { lease, ..call };
    let (verdict, ()) = tokio::join!(function.handle(&call), taken);
    assert_eq!(verdict, Verdict::Abandoned);
    let recording = studio.recorded().remove(0);
    assert_eq!(recording.outcome.verdict, "abandoned");
    assert!(recording.steps().count() > 0, "it was under way");
    let replay = replay(Interrupted::ByLoss(None), &recording, None).await.unwrap();
    assert!(replay.is_faithful(), "{:#?}\n{:#?}", replay.recorded, replay.replayed);
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_panicked_does_so_again_and_where_a_mended_one_goes_another_way_is_shown() {
    let mut studio = studio().await;
    let (client, provider) = (studio.world.function_client.clone(), studio.world.provider.clone());
    let function = Reconciler::new(Interrupted::ByPanic, client, provider).recorded(studio.recorder.clone());
    assert!(matches!(function.handle(&call()).await, Verdict::Retry { .. }));
    let recording = studio.recorded().remove(0);
    let panicked = replay(Interrupted::ByPanic, &recording, None).await.unwrap();
    assert!(panicked.is_faithful(), "{:#?}\n{:#?}", panicked.recorded, panicked.replayed);
    let mended = replay(SecurityGroups, &recording, None).await.unwrap();
    assert_eq!((mended.recorded.verdict.as_str(), mended.replayed.verdict.as_str()), ("failed", "settled"));
}

/// A handler whose panics nobody catches for it.
struct Look {
    boundary: Boundary,
    panics: bool,
}

impl Handler for Look {
    fn kind(&self) -> Kind {
        Kind::SecurityGroup
    }

    fn handle<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Verdict> {
        let (scope, taking) = self.boundary.begin(call);
        Box::pin(taking.run(Box::pin(async move {
            for name in [GROUP, "another"] {
                let read = scope.get::<SecurityGroup>(name).await;
                assert!(!self.panics, "as planned: {read:?}");
            }
            Verdict::Settled
        })))
    }
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_ended_by_a_panic_is_run_on_once_it_is_mended() {
    let mut studio = studio().await;
    let boundary = Boundary::new(studio.world.function_client.clone(), studio.world.provider.clone());
    let handler = Look { boundary: boundary.recorded(studio.recorder.clone()), panics: true };
    tokio::spawn(async move { handler.handle(&call()).await }).await.unwrap_err();
    let recording = studio.recorded().remove(0);
    assert_eq!((recording.outcome.verdict.as_str(), stopped_by(&recording)), ("ended", vec!["panic"]));
    let look = |panics: bool| move |boundary: Boundary| Look { boundary, panics };
    let panicked = replay_handler(look(true), &recording, None).await.unwrap();
    assert!(panicked.is_faithful(), "{:#?}\n{:#?}", panicked.recorded, panicked.replayed);
    let mended = replay_handler(look(false), &recording, None).await.unwrap();
    assert_eq!(mended.replayed.verdict, "settled");
    assert!(mended.missing.iter().any(|missing| missing.ends_with("/another")), "{:?}", mended.missing);
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_got_an_answer_too_large_to_keep_says_so_and_is_not_taken_for_the_same() {
    let mut studio = studio().await;
    studio.settle(Kind::SecurityGroup, GROUP).await;
    studio.recorded();
    let pointer = "/security_groups/*/description".to_owned();
    let large = Mangle { pointer, replace: Some("x".repeat(600 << 10).into()) };
    studio.world.cloud.faults().add(Fault::new(Action::Mangle(large)).on("GET", "/security-groups$")).unwrap();
    assert_eq!(studio.call(Kind::SecurityGroup, GROUP).await, Verdict::Settled);
    let recording = studio.recorded().remove(0);
    assert!(!recording.complete, "{:?}", recording.outcome);
    assert!(serde_json::to_vec(&recording).unwrap().len() < 512 << 10);
    let replay = crate::again(&recording, None).await.unwrap();
    assert!(!replay.is_faithful(), "{:#?}", replay.replayed);
}
