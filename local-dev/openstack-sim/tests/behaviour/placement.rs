//! Placement: what it tells, to whom, in which version.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_openstack_sim::{Config, Equipment};

use crate::client::{Caller, Cloud, server_body, wire};

const PROVIDERS: &str = "/placement/resource_providers";

/// A cloud in which the first host has two GPUs and is ready, and the smallest flavor takes one.
async fn equipped() -> Cloud {
    let specs = [("resources:CUSTOM_GPU", "1"), ("trait:CUSTOM_READY", "required")];
    let specs: BTreeMap<_, _> = specs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let equipment =
        Equipment { resources: [("CUSTOM_GPU".to_owned(), 2)].into(), traits: ["CUSTOM_READY".to_owned()].into() };
    Cloud::with(Config {
        equipment: [("sim-compute-1".to_owned(), equipment)].into(),
        extra_specs: [("sim.nano".to_owned(), specs)].into(),
        ..Config::default()
    })
    .await
}

async fn ask(caller: &Caller, query: &str, version: &str) -> (u16, Value) {
    let path = format!("{PROVIDERS}{query}");
    let answer = caller.send("GET", &path, None, &[("openstack-api-version", version)]).await;
    (answer.status, answer.json)
}

async fn names(caller: &Caller, query: &str) -> Vec<String> {
    let (status, body) = ask(caller, query, "placement 1.22").await;
    assert_eq!(status, 200, "{query}: {body}");
    let rows = body["resource_providers"].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn providers_are_found_by_what_they_have_left_and_by_their_traits() {
    let cloud = equipped().await;
    let caller = cloud.tenant("one").await.manager;
    for (query, found) in [
        ("", vec!["sim-compute-1", "sim-compute-2"]),
        ("?resources=CUSTOM_GPU:1", vec!["sim-compute-1"]),
        ("?resources=CUSTOM_GPU:3", vec![]),
        ("?resources=VCPU:1,CUSTOM_GPU:2", vec!["sim-compute-1"]),
        ("?resources=PCI_DEVICE:1", vec![]),
        ("?required=CUSTOM_READY", vec!["sim-compute-1"]),
        ("?required=!CUSTOM_READY", vec!["sim-compute-2"]),
        ("?required=CUSTOM_READY,!CUSTOM_READY", vec![]),
        ("?name=sim-compute-2", vec!["sim-compute-2"]),
        ("?name=sim-compute", vec![]),
    ] {
        assert_eq!(names(&caller, query).await, found, "{query}");
    }
}

#[tokio::test]
async fn a_query_out_of_form_or_before_its_version_is_refused_as_by_the_real_service() {
    let cloud = equipped().await;
    let caller = cloud.tenant("one").await.manager;
    let v22 = "placement 1.22";
    for (query, version, status, words) in [
        ("?resources=CUSTOM_NOPE:1", v22, 400, "No such resource class CUSTOM_NOPE."),
        ("?resources=VCPU:1&required=CUSTOM_NOPE", v22, 400, "No such trait(s): CUSTOM_NOPE."),
        ("?required=", v22, 400, "Got an empty trait in: "),
        ("?required=!", v22, 400, "Got an empty trait in: !"),
        ("?resources=VCPU:0", v22, 400, "requires amount >= 1. Got: 0."),
        ("?resources=VCPU:x", v22, 400, "expected positive integer amount. Got: x."),
        ("?resources=VCPU", v22, 400, "Badly formed resources parameter."),
        ("?resources=", v22, 400, "Got: empty string."),
        ("?uuid=x", v22, 400, "'x' is not a 'uuid'"),
        ("?nope=1", v22, 400, "('nope' was unexpected)"),
        ("?required=CUSTOM_READY", "", 400, "('required' was unexpected)"),
        ("?required=!CUSTOM_READY", "placement 1.21", 400, "Got: !CUSTOM_READY"),
        ("", "placement 1.99", 406, "Unacceptable version header: 1.99"),
        ("", "placement x", 400, "invalid version string: x"),
    ] {
        let (got, body) = ask(&caller, query, version).await;
        let error = &body["errors"][0];
        assert_eq!(got, status, "{query}: {body}");
        assert_eq!(error["status"], status, "{query}");
        assert!(error["detail"].as_str().unwrap().contains(words), "{query}: {error}");
    }
    let admin = cloud.admin().await;
    assert_eq!(ask(&admin, "/no-such", v22).await.0, 404);
    assert_eq!(admin.post(PROVIDERS, json!({"name": "x"})).await.status, 405, "there is nothing to be written");
}

#[tokio::test]
async fn only_the_region_s_user_in_a_project_and_the_administrator_are_told() {
    let cloud = equipped().await;
    let tenant = cloud.tenant("one").await;
    assert_eq!(ask(&tenant.member, "", "placement 1.22").await.0, 403);
    assert_eq!(ask(&cloud.region().await, "", "placement 1.22").await.0, 403);
    assert_eq!(names(&cloud.admin().await, "").await.len(), 2);
    tenant.manager.post(PROVIDERS, json!({"name": "x"})).await.expect(403);
    let bare = Cloud::with(Config { product_policy: false, ..Config::default() }).await;
    let own = bare.sim.bootstrap().credential;
    let manager = bare.caller(&own.user_id, &own.password, json!({"project": {"id": own.project_id}})).await;
    assert_eq!(ask(&manager, "", "placement 1.22").await.0, 403);
}

#[tokio::test]
async fn what_servers_take_is_used_until_they_are_gone_and_nova_looks_at_it_too() {
    let cloud = equipped().await;
    let tenant = cloud.tenant("one").await;
    let wired = wire(&cloud, &tenant, "lan").await;
    let admin = cloud.admin().await;
    cloud.sim.freeze();
    let mut made = Vec::new();
    for n in 0..3 {
        let body = server_body(&cloud, &format!("web-{n}"), &json!([{"uuid": wired.network}]));
        let server = tenant.member.post("/compute/v2.1/servers", body).await.expect(202);
        made.push(server["server"]["id"].as_str().unwrap().to_owned());
        cloud.sim.advance(std::time::Duration::from_secs(5));
    }
    let status = async |id: &str| {
        let shown = tenant.member.get(&format!("/compute/v2.1/servers/{id}")).await.expect(200);
        shown["server"]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!([status(&made[0]).await, status(&made[1]).await, status(&made[2]).await], ["ACTIVE", "ACTIVE", "ERROR"]);
    assert!(names(&tenant.manager, "?resources=CUSTOM_GPU:1").await.is_empty());
    let rows = ask(&admin, "?name=sim-compute-1", "placement 1.22").await.1;
    let id = rows["resource_providers"][0]["uuid"].as_str().unwrap().to_owned();
    let usages = admin.get(&format!("{PROVIDERS}/{id}/usages")).await.expect(200);
    assert_eq!((&usages["usages"]["CUSTOM_GPU"], &usages["usages"]["VCPU"]), (&json!(2), &json!(2)));
    tenant.member.send("DELETE", &format!("/compute/v2.1/servers/{}", made[0]), None, &[]).await.expect(204);
    assert!(names(&tenant.manager, "?resources=CUSTOM_GPU:1").await.is_empty(), "it is not gone yet");
    cloud.sim.advance(std::time::Duration::from_secs(5));
    assert_eq!(names(&tenant.manager, "?resources=CUSTOM_GPU:1").await, ["sim-compute-1"]);
}
