//! Deletion: finalizers, preconditions, owner references, collections, namespaces, definitions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{CONFIG_MAPS, DEFINITIONS, Raw, WIDGETS, config_map, demo, widget};
use serde_json::{Value, json};

async fn held(raw: &Raw, name: &str) -> Value {
    let mut value = widget(name);
    value["metadata"]["finalizers"] = json!(["demo.weir.dev/a"]);
    raw.post(WIDGETS, &value).await.json()
}

#[tokio::test]
async fn a_deletion_without_finalizers_is_done_at_once() {
    let (_sim, raw) = demo().await;
    let uid = raw.post(WIDGETS, &widget("d")).await.json()["metadata"]["uid"].clone();
    let done = raw.delete(&format!("{WIDGETS}/d"), &json!({})).await;
    assert_eq!(
        done.json(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "d", "group": "demo.weir.dev", "kind": "widgets", "uid": uid}})
    );
    assert_eq!(raw.delete(&format!("{WIDGETS}/d"), &json!({})).await.code, 404);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_one_goes() {
    let (_sim, raw) = demo().await;
    let made = held(&raw, "f").await;
    let path = format!("{WIDGETS}/f");
    let start = made["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = raw.watch(&format!("{WIDGETS}?watch=1&resourceVersion={start}")).await;
    let marked = raw.delete(&path, &json!({})).await;
    let value = marked.json();
    assert_eq!((&value["kind"], &value["metadata"]["generation"]), (&json!("Widget"), &json!(2)));
    assert_eq!(value["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(value["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(raw.delete(&path, &json!({})).await.revision(), marked.revision(), "a second deletion changes nothing");
    let added = raw.merge(&path, &json!({"metadata": {"finalizers": ["demo.weir.dev/a", "demo.weir.dev/c"]}})).await;
    assert_eq!(added.code, 422);
    assert!(added.message().contains("no new finalizers can be added if the object is being deleted, found new finalizers []string{\"demo.weir.dev/c\"}"));
    let again = raw.post(WIDGETS, &widget("f")).await;
    assert_eq!(again.message(), "object is being deleted: widgets.demo.weir.dev \"f\" already exists");
    assert_eq!(raw.merge(&path, &json!({"metadata": {"deletionTimestamp": null}})).await.revision(), marked.revision());
    let freed = raw.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!((freed.code, freed.revision()), (200, marked.revision()), "under the version it had");
    assert_eq!(freed.json()["metadata"].get("finalizers"), None);
    assert_eq!(raw.get(&path).await.code, 404);
    assert_eq!(watch.brief(1).await, ["MODIFIED f"]);
    let gone = watch.next().await.unwrap();
    assert_eq!(
        (&gone["type"], &gone["object"]["metadata"]["finalizers"]),
        (&json!("DELETED"), &json!(["demo.weir.dev/a"])),
        "the event shows the state before"
    );
}

#[tokio::test]
async fn preconditions_guard_a_deletion() {
    let (_sim, raw) = demo().await;
    let made = raw.post(WIDGETS, &widget("d")).await;
    let path = format!("{WIDGETS}/d");
    let wrong = raw.delete(&path, &json!({"preconditions": {"uid": "x"}})).await;
    assert_eq!(wrong.code, 409);
    assert!(wrong.message().starts_with(
        "Operation cannot be fulfilled on Widget.demo.weir.dev \"d\": the UID in the precondition (x) does not match"
    ));
    assert_eq!(raw.delete(&path, &json!({"preconditions": {"resourceVersion": "1"}})).await.code, 409);
    let both = json!({"preconditions": {"uid": made.json()["metadata"]["uid"], "resourceVersion": made.revision()}});
    assert_eq!(raw.delete(&path, &both).await.code, 200);
    assert_eq!(raw.delete(&path, &json!({"propagationPolicy": "Bogus"})).await.code, 422);
    assert_eq!(raw.delete(&path, &json!({"kind": "ConfigMap", "apiVersion": "v1"})).await.code, 400);
}

async fn family(raw: &Raw) -> Value {
    let owner = raw.post(WIDGETS, &widget("own")).await.json();
    let reference = |block: bool| json!([{"apiVersion": "demo.weir.dev/v1alpha1", "kind": "Widget", "name": "own", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block}]);
    let mut plain = config_map("dep");
    plain["metadata"]["ownerReferences"] = reference(false);
    assert_eq!(raw.post(CONFIG_MAPS, &plain).await.code, 201);
    let mut holding = widget("depw");
    holding["metadata"]["ownerReferences"] = reference(true);
    holding["metadata"]["finalizers"] = json!(["demo.weir.dev/hold"]);
    assert_eq!(raw.post(WIDGETS, &holding).await.code, 201);
    owner
}

#[tokio::test]
async fn dependents_follow_their_owner_in_the_background() {
    let (_sim, raw) = demo().await;
    family(&raw).await;
    assert_eq!(
        raw.delete(&format!("{WIDGETS}/own"), &json!({"propagationPolicy": "Background"})).await.json()["status"],
        "Success"
    );
    assert_eq!(raw.get(&format!("{WIDGETS}/own")).await.code, 404);
    raw.until(&format!("{CONFIG_MAPS}/dep"), |a| a.code == 404).await;
    raw.until(&format!("{WIDGETS}/depw"), |a| a.json()["metadata"]["deletionTimestamp"].is_string()).await;
    raw.merge(&format!("{WIDGETS}/depw"), &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(raw.get(&format!("{WIDGETS}/depw")).await.code, 404);
}

#[tokio::test]
async fn an_owner_deleted_in_the_foreground_waits_for_the_dependents_that_block_it() {
    let (_sim, raw) = demo().await;
    family(&raw).await;
    let marked = raw.delete(&format!("{WIDGETS}/own"), &json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(marked.json()["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    raw.until(&format!("{CONFIG_MAPS}/dep"), |a| a.code == 404).await;
    raw.until(&format!("{WIDGETS}/depw"), |a| a.json()["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(raw.get(&format!("{WIDGETS}/own")).await.code, 200, "it waits");
    raw.merge(&format!("{WIDGETS}/depw"), &json!({"metadata": {"finalizers": null}})).await;
    raw.until(&format!("{WIDGETS}/own"), |a| a.code == 404).await;
}

#[tokio::test]
async fn orphans_lose_their_owner_and_stay() {
    let (_sim, raw) = demo().await;
    family(&raw).await;
    let marked = raw.delete(&format!("{WIDGETS}/own"), &json!({"propagationPolicy": "Orphan"})).await;
    assert_eq!(marked.json()["metadata"]["finalizers"], json!(["orphan"]));
    raw.until(&format!("{WIDGETS}/own"), |a| a.code == 404).await;
    for path in [format!("{CONFIG_MAPS}/dep"), format!("{WIDGETS}/depw")] {
        let left = raw.get(&path).await.json();
        assert_eq!(
            (left["metadata"].get("ownerReferences"), left["metadata"].get("deletionTimestamp")),
            (None, None),
            "{path}"
        );
    }
}

#[tokio::test]
async fn dangling_owners_are_collected_or_dropped() {
    let (_sim, raw) = demo().await;
    let owner = raw.post(WIDGETS, &widget("own")).await.json();
    let dangling = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "no-such-uid"});
    let live = json!({"apiVersion": "demo.weir.dev/v1alpha1", "kind": "Widget", "name": "own", "uid": owner["metadata"]["uid"]});
    let mut lost = config_map("lost");
    lost["metadata"]["ownerReferences"] = json!([dangling]);
    assert_eq!(raw.post(CONFIG_MAPS, &lost).await.code, 201);
    raw.until(&format!("{CONFIG_MAPS}/lost"), |a| a.code == 404).await;
    let mut mixed = config_map("mixed");
    mixed["metadata"]["ownerReferences"] = json!([dangling, live]);
    raw.post(CONFIG_MAPS, &mixed).await;
    raw.until(&format!("{CONFIG_MAPS}/mixed"), |a| {
        a.json()["metadata"]["ownerReferences"].as_array().is_some_and(|o| o.len() == 1)
    })
    .await;
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector_and_answered_as_it_was() {
    let (_sim, raw) = demo().await;
    for (name, group) in [("k0", "a"), ("k1", "a"), ("k2", "b")] {
        let mut value = widget(name);
        value["metadata"]["labels"] = json!({"g": group});
        raw.post(WIDGETS, &value).await;
    }
    held(&raw, "k3").await;
    let some = raw.delete(&format!("{WIDGETS}?labelSelector=g%3Da"), &json!({})).await.json();
    assert_eq!((&some["kind"], some["items"].as_array().unwrap().len()), (&json!("WidgetList"), 2));
    raw.delete(WIDGETS, &json!({})).await;
    let left = raw.get(WIDGETS).await.json();
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(raw.delete("/api/v1/namespaces", &json!({})).await.code, 405);
}

#[tokio::test]
async fn a_namespace_goes_when_its_content_has_gone() {
    let (_sim, raw) = demo().await;
    held(&raw, "n").await;
    raw.post(CONFIG_MAPS, &config_map("c")).await;
    let marked = raw.delete("/api/v1/namespaces/demo", &json!({})).await.json();
    assert_eq!((&marked["kind"], &marked["status"]["phase"]), (&json!("Namespace"), &json!("Terminating")));
    let late = raw.post(CONFIG_MAPS, &config_map("late")).await;
    assert_eq!((late.code, &late.json()["details"]["causes"][0]["reason"]), (403, &json!("NamespaceTerminating")));
    let waiting = raw
        .until("/api/v1/namespaces/demo", |a| a.json()["status"]["conditions"].as_array().is_some_and(|c| c.len() == 5))
        .await
        .json();
    assert_eq!(
        waiting["status"]["conditions"][3]["message"],
        "Some resources are remaining: widgets.demo.weir.dev has 1 resource instances"
    );
    assert_eq!(raw.get(&format!("{CONFIG_MAPS}/c")).await.code, 404);
    raw.merge(&format!("{WIDGETS}/n"), &json!({"metadata": {"finalizers": null}})).await;
    raw.until("/api/v1/namespaces/demo", |a| a.code == 404).await;
    let fixed = raw.delete("/api/v1/namespaces/default", &json!({})).await;
    assert_eq!(
        (fixed.code, fixed.message().as_str()),
        (403, "namespaces \"default\" is forbidden: this namespace may not be deleted")
    );
}

#[tokio::test]
async fn a_definition_takes_its_instances_with_it() {
    let (_sim, raw) = demo().await;
    held(&raw, "i").await;
    raw.post(WIDGETS, &widget("j")).await;
    let path = format!("{DEFINITIONS}/widgets.demo.weir.dev");
    let mut watch = raw.watch(&format!("{WIDGETS}?watch=1")).await;
    watch.brief(2).await;
    let marked = raw.delete(&path, &json!({})).await.json();
    assert_eq!(marked["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let late = raw.post(WIDGETS, &widget("late")).await;
    assert_eq!(
        late.message(),
        "widgets.demo.weir.dev \"late\" is forbidden: create not allowed while custom resource definition is terminating"
    );
    let mut events = watch.brief(2).await;
    events.sort();
    assert_eq!(events, ["DELETED j", "MODIFIED i"]);
    raw.merge(&format!("{WIDGETS}/i"), &json!({"metadata": {"finalizers": null}})).await;
    raw.until(&path, |a| a.code == 404).await;
    raw.until(WIDGETS, |a| a.text == "404 page not found\n").await;
    assert_eq!(watch.brief(1).await, ["DELETED i"]);
    assert!(watch.next().await.is_none(), "the watch ends");
}
