//! Messages that are older than the object: what they say of it is never believed.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_api::crd::{self, SecurityGroup, SecurityGroupStatus};
use weir_api::{Kind, ObjectRef, Problem};
use weir_function_runtime::reconcile::Reconciler;
use weir_function_runtime::{Function, Scope, queue, worker};
use weir_kube_sim::KubeSim;
use weir_messages::{Cause, Lane, Work};
use weir_provider::Provider;

use crate::support::{Rig, eventually, until_all_is_quiet, within};

/// Has nothing in any cloud. It remembers the generations that it was given, and waits with the first one it sees.
#[derive(Clone)]
struct Remembers {
    seen: watch::Sender<Vec<i64>>,
    go: watch::Receiver<bool>,
}

impl Function for Remembers {
    type Object = SecurityGroup;

    const FINALIZER: bool = false;

    async fn reconcile(&self, _: &Scope, object: &SecurityGroup, _: &mut SecurityGroupStatus) -> Result<(), Problem> {
        self.seen.send_modify(|seen| seen.push(object.metadata.generation.unwrap_or_default()));
        let _ = self.go.clone().wait_for(|go| *go).await;
        Ok(())
    }

    async fn finalize(&self, _: &Scope, _: &SecurityGroup, _: &mut SecurityGroupStatus) -> Result<(), Problem> {
        Ok(())
    }
}

async fn cluster() -> (KubeSim, Api<SecurityGroup>, Client) {
    let kubernetes = KubeSim::start(weir_kube_sim::Config::plain()).await.unwrap();
    let mut config = Config::new(kubernetes.url().parse().unwrap());
    config.auth_info.token = Some(kubernetes.token().to_owned().into());
    let client = Client::try_from(config).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crd::all() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    (kubernetes, Api::namespaced(client.clone(), "default"), client)
}

fn rules(ports: &[u16]) -> serde_json::Value {
    let rules: Vec<_> = ports
        .iter()
        .map(|port| json!({ "direction": "ingress", "protocol": "tcp", "port": { "number": port } }))
        .collect();
    json!({ "spec": { "rules": rules } })
}

/// A worker acted on the copy of the object that an event had brought, and wrote a status that was older than what there
/// was by then.
///
/// Proves: OWN-1
#[tokio::test(flavor = "multi_thread")]
async fn an_old_message_or_an_old_read_never_overwrites_a_newer_status() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let rig = Rig::start();
    let queue = rig.queue().await;
    let (_kubernetes, groups, client) = cluster().await;
    let mut object = rules(&[22]);
    object["apiVersion"] = "region.unikorn-cloud.org/v1alpha1".into();
    object["kind"] = "SecurityGroup".into();
    object["metadata"] = json!({ "name": "a", "namespace": "default" });
    let old: SecurityGroup = serde_json::from_value(object).unwrap();
    let old = groups.create(&PostParams::default(), &old).await.unwrap();
    let edit =
        async |ports: &[u16]| groups.patch("a", &PatchParams::default(), &Patch::Merge(rules(ports))).await.unwrap();
    let newer = edit(&[22, 80]).await;
    assert_eq!(newer.metadata.generation, Some(2));

    let go = watch::Sender::new(false);
    let function = Remembers { seen: watch::Sender::new(vec![]), go: go.subscribe() };
    let handler = Arc::new(Reconciler::new(function.clone(), client, Arc::new(Provider::default())));
    let settings = rig.settings(&[]);
    let (connection, stop) = (queue::connect(&settings).await.unwrap(), CancellationToken::new());
    let stopped = stop.clone();
    let task = tokio::spawn(async move { worker::run(handler, connection, &settings, stopped).await });

    // The message tells of the object as it first was.
    let uid = old.metadata.uid.clone().unwrap();
    let message = Work::new(ObjectRef::new(Kind::SecurityGroup, "default", "a"), Cause::Changed)
        .seen(uid, old.metadata.resource_version.clone().unwrap());
    queue.publish(message.clone(), Lane::Urgent, message.message_id(), None).await.unwrap();
    let mut seen = function.seen.subscribe();
    within("the call", seen.wait_for(|seen| !seen.is_empty())).await.unwrap();
    assert_eq!(*function.seen.borrow(), [2], "it looks at what there is, not at what the message tells of");

    // While it works on what it has read, that becomes old too, and somebody writes the status of the newest.
    edit(&[22, 80, 443]).await;
    let status = json!({ "status": { "observedGeneration": 3 } });
    groups.patch_status("a", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    go.send_replace(true);
    let settled = eventually("the status that comes of reading again", || async {
        let status = groups.get("a").await.unwrap().status.unwrap();
        assert_eq!(status.observed_generation, Some(3), "at no time is it older than it has been");
        (!status.conditions.is_empty()).then_some(status)
    })
    .await;
    assert_eq!(settled.conditions[0].observed_generation, Some(3));
    assert_eq!(*function.seen.borrow(), [2, 3], "the conflict was answered by reading again");
    until_all_is_quiet(&queue).await;
    stop.cancel();
    within("the worker to stop", task).await.unwrap().unwrap();
}
