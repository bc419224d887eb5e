//! A function that panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::api::PostParams;
use tokio_util::sync::CancellationToken;
use weir_api::crd::{SecurityGroup, SecurityGroupStatus};
use weir_api::{Kind, ObjectRef, Problem};
use weir_function_runtime::reconcile::Reconciler;
use weir_function_runtime::{Function, Scope, queue, worker};
use weir_messages::{Cause, Lane, Work};
use weir_provider::Provider;

use crate::cluster::{cluster, group};
use crate::support::{Rig, eventually, until_all_is_quiet, within};

/// Panics for objects called `bad`, until it is mended.
struct Panics {
    mended: Arc<AtomicBool>,
}

impl Function for Panics {
    type Object = SecurityGroup;

    const FINALIZER: bool = false;

    async fn reconcile(&self, _: &Scope, object: &SecurityGroup, _: &mut SecurityGroupStatus) -> Result<(), Problem> {
        let bad = object.metadata.name.as_deref() == Some("bad");
        assert!(!bad || self.mended.load(Ordering::SeqCst), "the test has it panic, with hunter2 in its words");
        Ok(())
    }

    async fn finalize(&self, _: &Scope, _: &SecurityGroup, _: &mut SecurityGroupStatus) -> Result<(), Problem> {
        Ok(())
    }
}

/// Proves: Q-9
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_makes_its_function_panic_is_told_so_in_its_condition_and_tried_again_and_others_go_on() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let rig = Rig::start();
    let queue = rig.queue().await;
    let (_kubernetes, groups, client) = cluster().await;
    let mended = Arc::new(AtomicBool::new(false));
    let reconciler = Reconciler::new(Panics { mended: mended.clone() }, client, Arc::new(Provider::default()));
    let settings = rig.settings(&["--concurrency", "1"]);
    let (connection, stop) = (queue::connect(&settings).await.unwrap(), CancellationToken::new());
    let stopped = stop.clone();
    let task = tokio::spawn(async move { worker::run(Arc::new(reconciler), connection, &settings, stopped).await });
    for name in ["bad", "good"] {
        groups.create(&PostParams::default(), &group(name)).await.unwrap();
        let work = Work::new(ObjectRef::new(Kind::SecurityGroup, "default", name), Cause::Changed);
        queue.publish(work, Lane::Urgent, None, None).await.unwrap();
    }
    let told = |name: &'static str, status: &'static str| {
        let groups = groups.clone();
        async move {
            let conditions = groups.get(name).await.unwrap().status.unwrap_or_default().conditions;
            conditions.into_iter().find(|condition| condition.type_ == "Available" && condition.status == status)
        }
    };
    let condition = eventually("the condition to say so", || told("bad", "False")).await;
    assert_eq!(condition.reason, "Errored");
    assert!(condition.message.contains("fault") && !condition.message.contains("hunter2"), "{}", condition.message);
    eventually("the other one to be done", || told("good", "True")).await;
    mended.store(true, Ordering::SeqCst);
    eventually("it to be tried again", || told("bad", "True")).await;
    until_all_is_quiet(&queue).await;
    stop.cancel();
    within("the worker to stop", task).await.unwrap().unwrap();
}
