//! Faults, the request log, the counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{CONFIG_MAPS, WIDGETS, config_map, demo, widget};
use serde_json::json;
use weir_kube_sim::{Action, Disruption, Fault};

#[tokio::test]
async fn a_status_fault_strikes_before_the_effect() {
    let (sim, raw) = demo().await;
    let faults = sim.faults();
    faults.add(Fault::status(503).verb("create").resource(r"widgets\..*").times(1)).unwrap();
    assert_eq!(raw.post(WIDGETS, &widget("a")).await.code, 503);
    assert_eq!(raw.get(&format!("{WIDGETS}/a")).await.code, 404);
    assert_eq!(raw.post(WIDGETS, &widget("a")).await.code, 201);
    faults.add(Fault::new(Action::Status { code: 429, retry_after: Some(7) }).verb("get").name("a").times(1)).unwrap();
    let limited = raw.get(&format!("{WIDGETS}/a")).await;
    assert_eq!((limited.code, limited.headers["retry-after"].to_str().unwrap()), (429, "7"));
    faults.add(Fault::status(409).verb("patch").subresource("status").times(1)).unwrap();
    assert_eq!(raw.merge(&format!("{WIDGETS}/a"), &json!({"spec": {"size": "large"}})).await.code, 200);
    let conflict = raw.merge(&format!("{WIDGETS}/a/status"), &json!({"status": {"phase": "Ready"}})).await;
    assert_eq!((conflict.code, &conflict.json()["reason"]), (409, &json!("Conflict")));
}

#[tokio::test]
async fn a_lost_write_has_happened_all_the_same() {
    let (sim, raw) = demo().await;
    sim.faults().add(Fault::lost_write().verb("create").times(1)).unwrap();
    assert_eq!(raw.post(WIDGETS, &widget("a")).await.code, 500);
    assert_eq!(raw.get(&format!("{WIDGETS}/a")).await.code, 200);
    sim.faults().add(Fault::new(Action::LostAnswer).verb("create").times(1)).unwrap();
    let headers = [("content-type", "application/json")];
    assert!(
        raw.try_send("POST", WIDGETS, &headers, Some(widget("b").to_string())).await.is_err(),
        "the connection was closed"
    );
    assert_eq!(raw.get(&format!("{WIDGETS}/b")).await.code, 200);
    sim.faults().add(Fault::new(Action::Drop).verb("create").times(1)).unwrap();
    assert!(raw.try_send("POST", WIDGETS, &headers, Some(widget("c").to_string())).await.is_err());
    assert_eq!(raw.get(&format!("{WIDGETS}/c")).await.code, 404);
    let creates: Vec<(u16, bool, bool)> = sim
        .requests()
        .all()
        .into_iter()
        .filter(|r| r.verb == "create" && r.resource == "widgets.demo.weir.dev")
        .map(|r| (r.status, r.changed, r.fault))
        .collect();
    assert_eq!(creates, [(500, true, true), (0, true, true), (0, false, true)]);
}

#[tokio::test]
async fn watches_end_hang_and_expire_on_demand() {
    let (sim, raw) = demo().await;
    raw.post(WIDGETS, &widget("a")).await;
    let path = format!("{WIDGETS}?watch=true");
    let fault = |disruption| Fault::new(Action::Watch { disruption }).verb("watch").resource(r"widgets\..*");

    let mut open = raw.watch(&path).await;
    open.brief(1).await;
    sim.faults().add(fault(Disruption::End { after_ms: 0 }).times(1)).unwrap();
    assert!(open.next().await.is_none(), "an open watch ends");

    sim.faults().add(fault(Disruption::Gone).times(1)).unwrap();
    let mut gone = raw.watch(&path).await;
    assert_eq!(gone.next().await.unwrap()["object"]["code"], 410);
    assert!(gone.next().await.is_none());

    let hang = sim.faults().add(fault(Disruption::Hang).times(1)).unwrap();
    let mut hung = raw.watch(&path).await;
    raw.post(WIDGETS, &widget("b")).await;
    assert!(hung.is_silent(Duration::from_millis(150)).await);
    assert_eq!(sim.faults().list().iter().find(|f| f.id == hang).unwrap().strikes, 1);

    let mut fine = raw.watch(&path).await;
    assert_eq!(fine.brief(2).await, ["ADDED a", "ADDED b"]);
    assert_eq!(raw.get(WIDGETS).await.code, 200, "lists are not struck by faults of watches");
}

#[tokio::test]
async fn latency_delays_the_call() {
    let (sim, raw) = demo().await;
    sim.faults().add(Fault::new(Action::Latency { ms: 120 }).verb("list").times(1)).unwrap();
    let start = std::time::Instant::now();
    assert_eq!(raw.get(WIDGETS).await.code, 200);
    assert!(start.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn faults_can_be_set_listed_and_taken_back_over_http() {
    let (_sim, raw) = demo().await;
    let fault = json!({"verbs": ["list"], "resource": "widgets\\..*", "userAgent": "raw-client", "action": {"type": "status", "code": 500}});
    let id = raw.post("/_sim/faults", &fault).await.json()["id"].clone();
    assert_eq!(raw.get(WIDGETS).await.code, 500);
    assert_eq!(raw.get(CONFIG_MAPS).await.code, 200);
    assert_eq!(raw.get("/_sim/faults").await.json()["items"][0]["strikes"], 1);
    assert_eq!(raw.delete(&format!("/_sim/faults/{id}"), &json!({})).await.code, 200);
    assert_eq!(raw.get(WIDGETS).await.code, 200);
    assert_eq!(raw.post("/_sim/faults", &json!({"action": {"type": "nonsense"}})).await.code, 400);
}

#[tokio::test]
async fn only_writes_that_change_something_are_counted() {
    let (sim, raw) = demo().await;
    raw.delete("/_sim/counts", &json!({})).await;
    raw.post(CONFIG_MAPS, &config_map("c")).await;
    raw.merge(&format!("{CONFIG_MAPS}/c"), &json!({"data": {"a": "2"}})).await;
    raw.merge(&format!("{CONFIG_MAPS}/c"), &json!({"data": {"a": "2"}})).await;
    raw.post(CONFIG_MAPS, &config_map("c")).await;
    raw.get(CONFIG_MAPS).await;
    raw.delete(&format!("{CONFIG_MAPS}/c"), &json!({})).await;
    assert_eq!(raw.get("/_sim/counts").await.json(), json!({"configmaps": {"create": 1, "patch": 1, "delete": 1}}));
    assert_eq!(sim.requests().changes(|r| r == "configmaps"), 3);
    let log = raw.get("/_sim/requests").await.json();
    assert_eq!(log["items"][0]["verb"], "create");
    assert_eq!((&log["items"][2]["changed"], &log["items"][2]["userAgent"]), (&json!(false), &json!("raw-client/1.0")));
    sim.requests().reset();
    assert!(sim.counts().is_empty());
}
