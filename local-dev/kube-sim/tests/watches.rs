//! Watches: the order of events, selectors, bookmarks, resumption, expiry.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{DEFINITIONS, WIDGETS, definition, demo, demo_with, widget};
use serde_json::json;
use weir_kube_sim::{Config, KubeSim};

#[tokio::test]
async fn a_watch_tells_of_every_change_from_its_resource_version_on() {
    let (_sim, raw) = demo().await;
    let start = raw.get(WIDGETS).await.revision();
    let made = raw.post(WIDGETS, &widget("a")).await.revision();
    raw.merge(&format!("{WIDGETS}/a"), &json!({"spec": {"size": "large"}})).await;
    raw.merge(&format!("{WIDGETS}/a"), &json!({"spec": {"size": "large"}})).await;
    raw.merge(&format!("{WIDGETS}/a/status"), &json!({"status": {"phase": "Ready"}})).await;
    let last = raw.get(&format!("{WIDGETS}/a")).await.json();
    raw.delete(&format!("{WIDGETS}/a"), &json!({})).await;
    let mut watch = raw.watch(&format!("{WIDGETS}?watch=true&resourceVersion={start}")).await;
    assert_eq!(watch.brief(3).await, ["ADDED a", "MODIFIED a", "MODIFIED a"], "a patch without effect is no event");
    let deleted = watch.next().await.unwrap();
    assert_eq!(deleted["type"], "DELETED");
    assert_eq!(deleted["object"]["status"], last["status"], "the last state");
    assert_ne!(
        deleted["object"]["metadata"]["resourceVersion"], last["metadata"]["resourceVersion"],
        "under a new version"
    );
    let mut later = raw.watch(&format!("{WIDGETS}?watch=1&resourceVersion={made}")).await;
    assert_eq!(later.brief(3).await, ["MODIFIED a", "MODIFIED a", "DELETED a"], "resumed after the creation");
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_is_there() {
    let (_sim, raw) = demo().await;
    raw.post(WIDGETS, &widget("a")).await;
    raw.post(WIDGETS, &widget("b")).await;
    let mut watch = raw.watch(&format!("{WIDGETS}?watch=true")).await;
    assert_eq!(watch.brief(2).await, ["ADDED a", "ADDED b"]);
    raw.post(WIDGETS, &widget("c")).await;
    assert_eq!(watch.brief(1).await, ["ADDED c"]);
    let mut one = raw.watch(&format!("{WIDGETS}?watch=true&fieldSelector=metadata.name%3Db&resourceVersion=0")).await;
    assert_eq!(one.brief(1).await, ["ADDED b"]);
    let mut endless = raw.watch(&format!("{WIDGETS}?watch=true&timeoutSeconds={}", i64::MAX)).await;
    assert_eq!(endless.brief(1).await, ["ADDED a"]);
    let mut old_style = raw.watch(&WIDGETS.replace("/namespaces", "/watch/namespaces")).await;
    assert_eq!(old_style.brief(3).await, ["ADDED a", "ADDED b", "ADDED c"]);
}

#[tokio::test]
async fn an_object_that_leaves_a_selection_is_deleted_for_the_watcher() {
    let (_sim, raw) = demo().await;
    raw.post(WIDGETS, &widget("b")).await;
    let mut labelled = widget("c");
    labelled["metadata"]["labels"] = json!({"x": "1"});
    raw.post(WIDGETS, &labelled).await;
    let start = raw.get(WIDGETS).await.revision();
    let mut labels = raw.watch(&format!("{WIDGETS}?watch=true&labelSelector=x%3D1&resourceVersion={start}")).await;
    let mut fields =
        raw.watch(&format!("{WIDGETS}?watch=true&fieldSelector=spec.size%3Dsmall&resourceVersion={start}")).await;
    let moved = raw.merge(&format!("{WIDGETS}/c"), &json!({"metadata": {"labels": {"x": "2"}}})).await.revision();
    raw.merge(&format!("{WIDGETS}/b"), &json!({"metadata": {"labels": {"x": "1"}}})).await;
    raw.merge(&format!("{WIDGETS}/b"), &json!({"spec": {"size": "large"}})).await;
    raw.delete(&format!("{WIDGETS}/c"), &json!({})).await;
    raw.delete(&format!("{WIDGETS}/b"), &json!({})).await;
    let gone = labels.next().await.unwrap();
    assert_eq!(
        (&gone["type"], &gone["object"]["metadata"]["labels"]["x"], &gone["object"]["metadata"]["resourceVersion"]),
        (&json!("DELETED"), &json!("1"), &json!(moved)),
        "the state that still matched, under the version of the change"
    );
    assert_eq!(labels.brief(3).await, ["ADDED b", "MODIFIED b", "DELETED b"]);
    assert_eq!(fields.brief(4).await, ["MODIFIED c", "MODIFIED b", "DELETED b", "DELETED c"]);
}

#[tokio::test]
async fn a_streaming_list_ends_with_a_marked_bookmark() {
    let (_sim, raw) = demo().await;
    raw.post(WIDGETS, &widget("d")).await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = raw.watch(&format!("{WIDGETS}?{query}&resourceVersion=1")).await;
    assert_eq!(watch.brief(1).await, ["ADDED d"]);
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    raw.post(WIDGETS, &widget("e")).await;
    assert_eq!(watch.brief(1).await, ["ADDED e"]);
    let mut empty = raw.watch(&format!("{WIDGETS}?{query}&labelSelector=none")).await;
    assert_eq!(empty.next().await.unwrap()["type"], "BOOKMARK");
    for (bad, message) in [
        (
            "watch=true&sendInitialEvents=true",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "watch=true&resourceVersionMatch=NotOlderThan&resourceVersion=1",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ] {
        assert!(raw.get(&format!("{WIDGETS}?{bad}")).await.message().contains(message));
    }
    assert_eq!(raw.get(&format!("{WIDGETS}?watch=true&resourceVersion=abc")).await.code, 500);
}

#[tokio::test]
async fn a_timeout_ends_a_watch_cleanly_after_a_last_bookmark() {
    let (_sim, raw) = demo().await;
    let start = raw.get(WIDGETS).await.revision();
    let path = format!("{WIDGETS}?watch=true&timeoutSeconds=3&resourceVersion={start}");
    let mut plain = raw.watch(&path).await;
    let mut marked = raw.watch(&format!("{path}&allowWatchBookmarks=true")).await;
    raw.post("/api/v1/namespaces", &json!({"metadata": {"name": "elsewhere"}})).await;
    let now = raw.get(WIDGETS).await.revision();
    let bookmark = marked.next().await.unwrap();
    assert_eq!(
        (&bookmark["type"], &bookmark["object"]["metadata"]["resourceVersion"]),
        (&json!("BOOKMARK"), &json!(now))
    );
    assert!(marked.next().await.is_none());
    assert!(plain.next().await.is_none(), "no bookmark for those who did not ask");
}

#[tokio::test]
async fn a_watch_from_a_forgotten_version_is_told_so_in_the_stream() {
    let (_sim, raw) = demo_with(Config { history: 3, ..Config::plain() }).await;
    let start = raw.post(WIDGETS, &widget("a")).await.revision();
    for i in 0..5 {
        raw.merge(&format!("{WIDGETS}/a"), &json!({"metadata": {"labels": {"i": i.to_string()}}})).await;
    }
    for version in ["1", &start] {
        let mut watch = raw.watch(&format!("{WIDGETS}?watch=true&resourceVersion={version}")).await;
        let event = watch.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["code"], &event["object"]["reason"]),
            (&json!("ERROR"), &json!(410), &json!("Expired"))
        );
        assert!(
            event["object"]["message"].as_str().unwrap().starts_with(&format!("too old resource version: {version} ("))
        );
        assert!(watch.next().await.is_none(), "and then it ends");
    }
}

#[tokio::test]
async fn a_definition_is_seen_to_be_accepted_and_then_established() {
    let sim = KubeSim::start(Config::plain()).await.unwrap();
    let raw = common::Raw::new(&sim);
    let start = raw.get(DEFINITIONS).await.revision();
    assert_eq!(raw.get(WIDGETS).await.text, "404 page not found\n");
    let made = raw.post(DEFINITIONS, &definition()).await;
    assert_eq!(made.json()["status"]["conditions"], json!(null));
    let mut watch = raw.watch(&format!("{DEFINITIONS}?watch=true&resourceVersion={start}")).await;
    let mut states = Vec::new();
    for _ in 0..3 {
        let event = watch.next().await.unwrap();
        let state = |kind: &str| {
            let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().find(|c| c["type"] == kind).map(|c| c["status"].as_str().unwrap().to_owned())
        };
        states.push((event["type"].as_str().unwrap().to_owned(), state("NamesAccepted"), state("Established")));
    }
    let word = |t: &str| Some(t.to_owned());
    assert_eq!(
        states,
        [
            ("ADDED".to_owned(), None, None),
            ("MODIFIED".to_owned(), word("True"), word("False")),
            ("MODIFIED".to_owned(), word("True"), word("True")),
        ]
    );
    assert_eq!(raw.get(WIDGETS).await.code, 200, "served at once");
    let mut rival = definition();
    rival["metadata"]["name"] = json!("widgetz.demo.weir.dev");
    rival["spec"]["names"]["plural"] = json!("widgetz");
    assert_eq!(raw.post(DEFINITIONS, &rival).await.code, 201);
    let rejected = raw.get(&format!("{DEFINITIONS}/widgetz.demo.weir.dev")).await.json();
    assert_eq!(rejected["status"]["conditions"][0]["reason"], "ListKindConflict");
    assert_eq!(rejected["status"]["conditions"][1]["reason"], "NotAccepted");
}

#[tokio::test]
async fn a_new_resource_can_be_made_to_answer_429_for_a_while() {
    let config = Config { readiness_delay: Duration::from_millis(300), ..Config::plain() };
    let sim = KubeSim::start(config).await.unwrap();
    let raw = common::Raw::new(&sim);
    raw.post(DEFINITIONS, &definition()).await;
    let early = raw.get(WIDGETS).await;
    assert_eq!((early.code, early.message().as_str()), (429, "storage is (re)initializing"));
    assert_eq!(early.headers["retry-after"], "1");
    raw.until(WIDGETS, |a| a.code == 200).await;
}

#[tokio::test]
async fn tables_are_watched_with_their_columns_in_the_first_event_only() {
    let (_sim, raw) = demo().await;
    raw.post(WIDGETS, &widget("d")).await;
    raw.post(WIDGETS, &widget("e")).await;
    let request = raw
        .request("GET", &format!("{WIDGETS}?watch=true&timeoutSeconds=1"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let text = request.send().await.unwrap().text().await.unwrap();
    let events: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(events[0]["object"]["columnDefinitions"][1]["name"], "Size");
    assert_eq!(events[1]["object"]["columnDefinitions"], json!(null));
    assert_eq!(events[1]["object"]["rows"][0]["cells"][0], "e");
}
