//! Lists, pages, selectors, tables, discovery and identities.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Raw, WIDGETS, demo, demo_with, widget};
use serde_json::{Value, json};
use weir_kube_sim::Config;

const TABLE: [(&str, &str); 1] = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|i| i["metadata"]["name"].as_str().unwrap()).collect()
}

async fn five(raw: &Raw) {
    for (name, size) in [("l0", "small"), ("l1", "medium"), ("l2", "large"), ("l3", "small"), ("l4", "small")] {
        let mut value = widget(name);
        value["spec"]["size"] = json!(size);
        value["metadata"]["labels"] = json!({"n": name});
        assert_eq!(raw.post(WIDGETS, &value).await.code, 201);
    }
}

#[tokio::test]
async fn pages_are_of_one_snapshot_whatever_happens_meanwhile() {
    let (_sim, raw) = demo().await;
    five(&raw).await;
    let first = raw.get(&format!("{WIDGETS}?limit=2")).await.json();
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["l0", "l1"], &json!(3)));
    raw.post(WIDGETS, &widget("l9")).await;
    raw.merge(&format!("{WIDGETS}/l3"), &json!({"spec": {"size": "large"}})).await;
    raw.delete(&format!("{WIDGETS}/l4"), &json!({})).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = raw.get(&format!("{WIDGETS}?limit=2&continue={token}")).await.json();
    assert_eq!(names(&second), ["l2", "l3"]);
    assert_eq!(second["items"][1]["spec"]["size"], "small", "as it was");
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = raw.get(&format!("{WIDGETS}?limit=2&continue={token}")).await.json();
    assert_eq!((names(&third), &third["metadata"]["continue"]), (vec!["l4"], &json!("")));
    let all = raw.get("/apis/demo.weir.dev/v1alpha1/widgets?limit=1").await.json();
    let token = all["metadata"]["continue"].as_str().unwrap();
    assert_eq!(
        names(&raw.get(&format!("/apis/demo.weir.dev/v1alpha1/widgets?continue={token}")).await.json()),
        ["l1", "l2", "l3", "l9"]
    );
    assert_eq!(
        names(&raw.get(&format!("{WIDGETS}?limit=2&resourceVersion=0")).await.json()).len(),
        5,
        "from the cache comes everything"
    );
}

#[tokio::test]
async fn a_page_of_a_forgotten_snapshot_is_expired_and_says_how_to_go_on() {
    let (_sim, raw) = demo_with(Config { history: 3, ..Config::plain() }).await;
    five(&raw).await;
    let first = raw.get(&format!("{WIDGETS}?limit=2")).await.json();
    for i in 0..5 {
        raw.merge(&format!("{WIDGETS}/l0"), &json!({"metadata": {"labels": {"i": i.to_string()}}})).await;
    }
    let token = first["metadata"]["continue"].as_str().unwrap();
    let gone = raw.get(&format!("{WIDGETS}?limit=2&continue={token}")).await;
    assert_eq!((gone.code, &gone.json()["reason"]), (410, &json!("Expired")));
    let fresh = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(names(&raw.get(&format!("{WIDGETS}?continue={fresh}")).await.json()), ["l2", "l3", "l4"]);
    assert_eq!(raw.get(&format!("{WIDGETS}?resourceVersion=1&resourceVersionMatch=Exact")).await.code, 410);
}

#[tokio::test]
async fn selectors_and_resource_versions_are_checked() {
    let (_sim, raw) = demo().await;
    five(&raw).await;
    for (query, wanted) in [
        ("fieldSelector=metadata.name%3Dl1", vec!["l1"]),
        ("fieldSelector=spec.size%3Dsmall", vec!["l0", "l3", "l4"]),
        ("fieldSelector=spec.size%21%3Dsmall", vec!["l1", "l2"]),
        ("labelSelector=n%20in%20%28l1%2Cl2%29", vec!["l1", "l2"]),
        ("labelSelector=n%3Dl1&fieldSelector=metadata.name%3Dl2", vec![]),
    ] {
        assert_eq!(names(&raw.get(&format!("{WIDGETS}?{query}")).await.json()), wanted, "{query}");
    }
    for (query, code, message) in [
        ("fieldSelector=spec.owner%3Dann", 400, "field label not supported: spec.owner"),
        ("labelSelector=a%3D%3D%3Db", 400, "unable to parse requirement: found '=', expected: identifier"),
        ("limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("resourceVersion=abc", 400, "invalid resource version: resourceVersion: Invalid value: \"abc\""),
        ("resourceVersionMatch=Exact", 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("limit=2&continue=zzz", 400, "invalid continue token: continue key is not valid"),
    ] {
        let answer = raw.get(&format!("{WIDGETS}?{query}")).await;
        assert_eq!(answer.code, code, "{query}: {}", answer.text);
        assert!(answer.message().contains(message), "{query}: {}", answer.message());
    }
    let future = raw.get(&format!("{WIDGETS}?resourceVersion=999999")).await;
    assert_eq!((future.code, &future.json()["details"]["retryAfterSeconds"]), (504, &json!(1)));
    let empty = raw.get("/apis/demo.weir.dev/v1alpha1/namespaces/nons/widgets").await;
    assert_eq!((empty.code, names(&empty.json()).len()), (200, 0));
}

#[tokio::test]
async fn tables_have_the_printer_columns_and_partial_objects_only_metadata() {
    let (_sim, raw) = demo().await;
    five(&raw).await;
    let status = json!({"status": {"conditions": [{"type": "Available", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    assert_eq!(raw.merge(&format!("{WIDGETS}/l1/status"), &status).await.code, 200);
    let table = raw.send("GET", &format!("{WIDGETS}?limit=2"), &TABLE, "").await.json();
    let titles: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Name", "Size", "Replicas", "Available", "Owner", "Age"]);
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..5],
        [json!("l0"), json!("small"), json!(1), Value::Null, json!("ann")]
    );
    assert_eq!(table["rows"][1]["cells"][3], "True");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let missing = raw.send("GET", &format!("{WIDGETS}/none"), &TABLE, "").await;
    assert!(missing.code == 404 && missing.text.starts_with("{\n  \"kind\": \"Status\""), "errors are pretty here");
    let partial = [("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")];
    let one = raw.send("GET", &format!("{WIDGETS}/l0"), &partial, "").await.json();
    assert_eq!((one.get("spec"), &one["metadata"]["name"]), (None, &json!("l0")));
    assert_eq!(raw.send("GET", WIDGETS, &partial, "").await.code, 406);
    assert_eq!(raw.send("GET", WIDGETS, &[("accept", "text/html")], "").await.code, 406);
    let yaml = raw.send("GET", &format!("{WIDGETS}/l0"), &[("accept", "application/yaml")], "").await;
    assert!(yaml.text.starts_with("apiVersion: demo.weir.dev/v1alpha1\nkind: Widget\n"), "{}", yaml.text);
}

#[tokio::test]
async fn discovery_comes_in_both_forms_with_an_entity_tag() {
    let (_sim, raw) = demo().await;
    let list = raw.get("/apis/demo.weir.dev/v1alpha1").await.json();
    assert_eq!(list["resources"][0]["shortNames"], json!(["wd"]));
    assert_eq!(list["resources"][1]["name"], "widgets/status");
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    let aggregated = raw.send("GET", "/apis", &[("accept", accept)], "").await;
    assert_eq!(aggregated.json()["kind"], "APIGroupDiscoveryList");
    assert_eq!(
        aggregated.headers["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let tag = aggregated.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(raw.send("GET", "/apis", &[("accept", accept), ("if-none-match", &tag)], "").await.code, 304);
    for (path, code, text) in [
        ("/apis/demo.weir.dev/v9", 404, "404 page not found\n"),
        ("/apis/demo.weir.dev/v1alpha1/nopes", 404, "404 page not found\n"),
        ("/nope", 404, "404 page not found\n"),
        ("/readyz", 200, "ok"),
        ("/readyz/", 200, "ok"),
    ] {
        let answer = raw.get(path).await;
        assert_eq!((answer.code, answer.text.as_str()), (code, text), "{path}");
    }
    assert_eq!(raw.get("/api/v1/nopes").await.message(), "the server could not find the requested resource");
    for root in ["/", "//", "/?x"] {
        assert_eq!(raw.get(root).await.code, 200, "{root}");
    }
    let index = raw.get("/openapi/v3").await.json();
    let url = index["paths"]["apis/demo.weir.dev/v1alpha1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let document = raw.get(&url).await;
    assert_eq!(document.headers["cache-control"], "public, immutable");
    assert!(document.json()["components"]["schemas"].get("dev.weir.demo.v1alpha1.Widget").is_some());
}

#[tokio::test]
async fn tokens_decide_who_is_let_in() {
    let (sim, raw) = demo_with(Config { users: vec![("alice".into(), "wonder".into())], ..Config::plain() }).await;
    let anonymous = Raw::with_token(&sim, None);
    assert_eq!(anonymous.get("/version").await.code, 200);
    assert_eq!(anonymous.get("/readyz").await.code, 200);
    let denied = anonymous.get(WIDGETS).await;
    assert_eq!(
        (denied.code, denied.message().as_str()),
        (
            403,
            "widgets.demo.weir.dev is forbidden: User \"system:anonymous\" cannot list resource \"widgets\" in API group \"demo.weir.dev\" in the namespace \"demo\""
        )
    );
    assert_eq!(Raw::with_token(&sim, Some("wrong")).get(WIDGETS).await.code, 401);
    let alice = Raw::with_token(&sim, Some("wonder"));
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    assert_eq!(
        alice.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await.json()["status"]["userInfo"]["username"],
        "alice"
    );
    assert_eq!(alice.get("/_sim/requests").await.code, 403, "the log is the administrator's");
    let token = raw.post("/api/v1/namespaces/demo/serviceaccounts/default/token", &json!({"spec": {}})).await.json();
    for (seconds, message) in [(60, "less than 10 minutes"), (i64::MAX, "larger than 2^32 seconds")] {
        let refused = raw
            .post(
                "/api/v1/namespaces/demo/serviceaccounts/default/token",
                &json!({"spec": {"expirationSeconds": seconds}}),
            )
            .await;
        assert!(refused.code == 422 && refused.message().contains(message), "{}", refused.text);
    }
    let account = Raw::with_token(&sim, token["status"]["token"].as_str());
    let who = account.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await.json();
    assert_eq!(who["status"]["userInfo"]["username"], "system:serviceaccount:demo:default");
}
