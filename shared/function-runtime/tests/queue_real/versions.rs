//! Messages that are older than the object, or of another release: what they say is never believed, and always understood.

use std::sync::Arc;

use async_nats::HeaderMap;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_api::crd::{SecurityGroup, SecurityGroupStatus};
use weir_api::{Kind, ObjectRef, Problem};
use weir_function_runtime::reconcile::Reconciler;
use weir_function_runtime::{Function, Scope, queue, worker};
use weir_messages::{Cause, Lane, Work};
use weir_provider::Provider;

use crate::cluster::{cluster, group, rules};
use crate::support::{Recorder, Rig, changed, count, eventually, until_all_is_quiet, within};

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
    let old = groups.create(&PostParams::default(), &group("a")).await.unwrap();
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

/// A message as it stands in the stream when a release has written it that is not this one.
async fn of_another_release(queue: &queue::Queue, subject: &str, headers: &[(&str, &str)], payload: serde_json::Value) {
    let mut all = HeaderMap::new();
    for (name, value) in [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/elsewhere")].iter().chain(headers)
    {
        all.insert(*name, *value);
    }
    let sending = queue.jetstream().publish_with_headers(subject.to_owned(), all, payload.to_string().into());
    sending.await.unwrap().await.unwrap();
}

/// Proves: Q-10, Q-16
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_takes_what_earlier_and_later_releases_have_written_and_sets_aside_what_it_cannot_know() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let of = |name: &str| json!({ "kind": "server", "namespace": "ns", "name": name });
    let v1 = ("ce-type", "weir.work.v1");
    // The first release knew fewer headers and fields.
    of_another_release(&queue, "work.urgent.server.ns.old", &[v1], json!({ "object": of("old"), "cause": "changed" }))
        .await;
    // A later one knows more: fields, headers, causes, kinds that it speaks of, and a minor version of CloudEvents.
    let mut more = of("new");
    more["cluster"] = "east".into();
    let origin = json!({ "kind": "rack", "namespace": "ns", "name": "r" });
    let later = json!({ "object": more, "cause": "a-cause-to-come", "attempt": 3, "origin": origin, "deadline": 7 });
    let headers = [v1, ("ce-specversion", "1.1"), ("ce-partitionkey", "x"), ("content-type", "application/json; v=2")];
    of_another_release(&queue, "work.routine.server.ns.new", &headers, later).await;
    // And it may write in a form that cannot be read here, or of what is not known here.
    let v2 = [("ce-type", "weir.work.v2")];
    of_another_release(&queue, "work.urgent.server.ns.future", &v2, json!({ "of": ["server", "ns", "future"] })).await;
    of_another_release(&queue, "work.urgent.rack.ns.r", &[v1], json!({ "object": origin, "cause": "changed" })).await;

    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &["--stray-after", "1s"]).await;
    let calls = handler.until("both", |calls| calls.len() == 2).await;
    let call = |name: &str| calls.iter().find(|seen| seen.object.name == name).unwrap().clone();
    assert_eq!((call("old").cause, call("old").attempt, call("old").lane), (Cause::Changed, 0, Lane::Urgent));
    assert_eq!((call("new").cause, call("new").attempt, call("new").lane), (Cause::Other, 3, Lane::Routine));
    eventually("two dead letters", || async { (count(&queue, "DEAD", "dead.>").await == 2).then_some(()) }).await;
    until_all_is_quiet(&queue).await;
    worker.stop().await;
    assert_eq!(handler.calls().len(), 2);
}

/// As an earlier release reads it: that knew these fields, and no others.
///
/// Proves: Q-15, Q-16
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_release_understands_what_this_one_writes() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let traced = changed("a").seen("uid-1", "7").caused_by(ObjectRef::new(Kind::Network, "ns", "n"));
    queue.publish(traced, Lane::Urgent, None, None).await.unwrap();
    let again = changed("b").again(Cause::Retry, 2);
    weir_function_runtime::timer::set(&queue, again, Lane::Routine, std::time::Duration::from_secs(60), None)
        .await
        .unwrap();
    let stream = queue.jetstream().get_stream("WORK").await.unwrap();
    for (subject, cause, attempt) in [("work.urgent.server.ns.a", "changed", 0), ("timer.server.ns.b", "retry", 2)] {
        let message = stream.get_last_raw_message_by_subject(subject).await.unwrap();
        let header = |name: &str| message.headers.get(name).map(|value| value.as_str().to_owned()).unwrap_or_default();
        assert_eq!(
            (header("ce-specversion").as_str(), header("ce-type").as_str()),
            ("1.0", "weir.work.v1"),
            "{subject}"
        );
        assert_eq!(header("content-type"), "application/json");
        let body: serde_json::Value = serde_json::from_slice(&message.payload).unwrap();
        let name = &subject[subject.len() - 1..];
        assert_eq!(body["object"], json!({ "kind": "server", "namespace": "ns", "name": name }));
        assert_eq!((&body["cause"], &body["attempt"]), (&json!(cause), &json!(attempt)), "{subject}");
    }
}
