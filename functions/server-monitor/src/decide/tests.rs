#![allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, clippy::unwrap_used)]
use super::*;
use serde_json::{Value, json};

const NETWORK: &str = "b0000000-0000-4000-8000-000000000001";
const FLAVOR: &str = "f0000000-0000-4000-8000-000000000001";

fn cases(table: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(table).unwrap()["cases"].as_array().unwrap().clone()
}

fn object(status: Value) -> crd::Server {
    serde_json::from_value(json!({
        "apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "Server",
        "metadata": {"name": "a1", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"flavorID": FLAVOR, "image": {"id": "i"}, "networks": [{"id": NETWORK}, {"id": "second"}]},
        "status": status,
    }))
    .unwrap()
}

fn server(change: Value) -> compute::Server {
    let mut server = json!({"id": "s", "status": "ACTIVE", "OS-EXT-STS:power_state": 1, "OS-EXT-STS:task_state": null,
        "created": "2026-01-01T00:00:05Z", "OS-SRV-USG:launched_at": "2026-01-01T00:01:00.500000"});
    server.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(server).unwrap()
}

fn now() -> Time {
    Time("2026-02-02T00:00:00Z".parse().unwrap())
}

fn at(text: &str) -> Option<Time> {
    Some(Time(text.parse().unwrap()))
}

fn look(object: &crd::Server, server: &compute::Server) -> News {
    decide(object, Some(server), Active::Building, &now())
}

/// Proves: MON-8
#[test]
fn what_a_machine_does_tells_what_its_server_does_as_in_the_table() {
    for case in cases(include_str!("../../tests/tables/ironic_mapping.json")) {
        let state = &case["input"]["provision_state"];
        let node: Option<Node> =
            (!state.is_null()).then(|| serde_json::from_value(json!({ "provision_state": state })).unwrap());
        assert_eq!(building(node.as_ref()).as_str(), case["expect"]["active"], "{}", case["case"]);
    }
    let silent: Node = serde_json::from_value(json!({})).unwrap();
    assert_eq!(building(Some(&silent)), Active::Queued);
}

/// Proves: MON-8
#[test]
fn ironic_is_asked_when_the_table_says() {
    let region = |baremetal: bool| -> crd::OpenstackRegion {
        serde_json::from_value(json!({
            "endpoint": "http://x", "serviceAccountSecret": {"namespace": "n", "name": "s"},
            "compute": {"flavors": {"metadata": [{"id": FLAVOR, "baremetal": baremetal}]}},
        }))
        .unwrap()
    };
    let flavor = crd::FlavorId::from(FLAVOR);
    for case in cases(include_str!("../../tests/tables/ironic_gate.json")) {
        let (input, expect) = (&case["input"], &case["expect"]);
        if let Some(status) = input["novaStatus"].as_str() {
            let asks = asks_ironic(&status.into(), &region(input["baremetal"] == true), &flavor);
            assert_eq!(json!(asks), expect["lookup"], "{}", case["case"]);
        } else {
            // A flavor or a region that nothing is known of is not bare metal.
            let plain: crd::OpenstackRegion = serde_json::from_value(
                json!({"endpoint": "http://x", "serviceAccountSecret": {"namespace": "n", "name": "s"}}),
            )
            .unwrap();
            assert!(!asks_ironic(&NovaStatus::Build, &plain, &flavor), "{}", case["case"]);
            assert!(!asks_ironic(&NovaStatus::Build, &region(true), &"other".into()), "{}", case["case"]);
        }
    }
    for status in ["ACTIVE", "ERROR", "REBUILD", "SHUTOFF", "UNKNOWN"] {
        assert!(!asks_ironic(&status.into(), &region(true), &flavor), "{status}");
    }
}

/// Proves: MON-7
#[test]
fn the_mac_is_what_the_table_says() {
    for case in cases(include_str!("../../tests/tables/mac_address.json")) {
        let input = &case["input"];
        let named = |key: &str| key.replace("<primary network id>", NETWORK).replace("<secondary>", "second");
        let addresses: serde_json::Map<String, Value> = input["addresses"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(network, macs)| {
                let macs = macs.as_array().unwrap().iter();
                let macs = macs.map(|mac| json!({"addr": "10.0.0.4", "version": 4, "OS-EXT-IPS-MAC:mac_addr": mac}));
                (named(network), macs.collect())
            })
            .collect();
        let object = object(json!({"macAddress": input["existing"]}));
        let news = look(&object, &server(json!({"status": input["novaStatus"], "addresses": addresses})));
        assert_eq!(json!(news.status.mac_address), case["expect"]["mac"], "{}", case["case"]);
    }
    let address = json!([{"addr": "10.0.0.4", "version": 4, "OS-EXT-IPS-MAC:mac_addr": "<script>alert(1)"}]);
    let news = look(&object(json!({})), &server(json!({"addresses": {format!("network-{NETWORK}"): address}})));
    assert_eq!(news.status.mac_address, None, "what is no MAC is not shown");
}

/// Proves: MON-5, MON-6
#[test]
fn times_are_latched_as_the_table_says() {
    for case in cases(include_str!("../../tests/tables/active_mapping.json")) {
        let (input, expect) = (&case["input"], &case["expect"]);
        if input["nova"]["launched_at"].is_null() {
            continue;
        }
        let time = |text: &Value| match text.as_str()? {
            "T1" => at("2026-01-01T00:00:01Z"),
            "T2" => at("2026-01-01T00:00:02Z"),
            _ => at("2026-01-01T00:00:03Z"),
        };
        let prior = time(&input["priorProvisionedAt"]);
        let launched = time(&input["nova"]["launched_at"]).unwrap();
        let server = server(json!({"status": input["nova"]["status"], "OS-SRV-USG:launched_at": launched,
            "OS-EXT-STS:power_state": if input["nova"]["power"] == "RUNNING" { 1 } else { 4 }}));
        let news = look(&object(json!({ "provisionedAt": prior })), &server);
        assert_eq!(news.status.provisioned_at, time(&expect["provisionedAt"]), "{}", case["case"]);
        assert_eq!(Active::of(&news.status).unwrap().as_str(), expect["active"], "{}", case["case"]);
        if !expect["launchedAt"].is_null() {
            assert_eq!(news.status.launched_at, time(&expect["launchedAt"]), "{}", case["case"]);
        }
    }
}

/// Proves: MON-6
#[test]
fn times_are_read_with_and_without_a_zone_in_whole_seconds() {
    let news = look(&object(json!({})), &server(json!({})));
    assert_eq!(news.status.scheduled_at, at("2026-01-01T00:00:05Z"));
    assert_eq!(news.status.launched_at, at("2026-01-01T00:01:00Z"));
    assert_eq!(news.status.provisioned_at, at("2026-01-01T00:01:00Z"));
    for nonsense in [json!(null), json!("yesterday"), json!(""), json!(7)] {
        let news = look(&object(json!({})), &server(json!({"created": nonsense, "OS-SRV-USG:launched_at": nonsense})));
        assert_eq!((news.status.scheduled_at, news.status.provisioned_at), (None, None), "{nonsense}");
    }
}

/// Proves: MON-3
#[test]
fn what_was_said_is_not_said_again() {
    let marker = json!({"targetImageID": "i", "state": "Rebuilding"});
    for (server, marker) in [
        (Some(server(json!({}))), Value::Null),
        (Some(server(json!({"status": "REBUILD", "image": {"id": "i"}}))), marker.clone()),
        (Some(server(json!({"status": "ERROR", "image": {"id": "i"}}))), marker),
        (None, Value::Null),
    ] {
        let mut object = object(json!({ "rebuild": marker }));
        object.status = Some(decide(&object, server.as_ref(), Active::Building, &now()).status);
        let later = Time("2026-03-03T00:00:00Z".parse().unwrap());
        let again = decide(&object, server.as_ref(), Active::Building, &later);
        assert_eq!(Some(&again.status), object.status.as_ref());
        assert_eq!(again.wake, weir_api::server::calls(&again.status), "what calls is woken again");
        assert_eq!((again.created, again.launched), (None, None));
    }
}

/// Proves: MON-10, RBD-9
#[test]
fn a_rebuild_advances_in_the_same_look_as_health() {
    let object = object(json!({"rebuild": {"targetImageID": "i", "state": "Initiated"}}));
    let news = look(
        &object,
        &server(json!({"status": "REBUILD", "image": {"id": "i"}, "OS-EXT-STS:task_state": "rebuilding"})),
    );
    assert_eq!(news.status.rebuild.as_ref().unwrap().state, crd::RebuildState::Rebuilding);
    assert_eq!(Active::of(&news.status), Some(Active::Rebuilding));
    let news = look(&object, &server(json!({"status": "ACTIVE", "image": {"id": "other"}})));
    assert_eq!(news.status.rebuild, object.status.unwrap().rebuild);
}

/// Proves: MON-12
#[test]
fn a_server_that_is_gone_wakes_its_function_if_it_was_ever_seen() {
    let mut seen = object(json!({}));
    let never = decide(&seen, None, Active::Building, &now());
    assert!(!never.wake, "one that was never there is being made");
    assert_eq!(Active::of(&never.status), Some(Active::Pending));
    seen.status = Some(look(&seen, &server(json!({}))).status);
    let gone = decide(&seen, None, Active::Building, &now());
    assert!(gone.wake);
    let healthy = conditions::get(&gone.status.conditions, HEALTHY).unwrap();
    assert_eq!((healthy.status.as_str(), healthy.reason.as_str()), ("Unknown", "Unknown"));
    assert_eq!(gone.status.provisioned_at, seen.status.unwrap().provisioned_at);
}

/// Proves: MON-11
#[test]
fn durations_are_told_once_and_never_negative() {
    let mut object = object(json!({}));
    let first = look(&object, &server(json!({})));
    assert_eq!(first.created, Some(Duration::from_secs(5)));
    assert_eq!(first.launched, Some(Duration::from_secs(60)));
    let early = json!({"created": "2025-12-31T23:59:59Z", "OS-SRV-USG:launched_at": "2025-12-31T23:59:59.000000"});
    let early = look(&object, &server(early));
    assert_eq!((early.created, early.launched), (None, None));
    object.status = Some(first.status);
    let rebooted = look(&object, &server(json!({"OS-SRV-USG:launched_at": "2026-01-05T00:00:00.000000"})));
    assert_eq!((rebooted.created, rebooted.launched), (None, None));
    object.status = serde_json::from_value(json!({"providerCreateFailures": 1})).unwrap();
    assert_eq!(look(&object, &server(json!({}))).created, None, "another attempt is the same server");
}
