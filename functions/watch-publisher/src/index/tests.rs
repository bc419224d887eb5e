#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use kube::core::DynamicObject;
use serde_json::{Value, json};

fn seen(watched: Watched, object: &Value) -> Seen {
    let mut object = object.clone();
    object["metadata"]["namespace"] = json!("ns");
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    Seen::of(watched, &object).expect("a stored object")
}

/// A Network, as far as it matters here.
fn network(version: u32, reason: Option<&str>) -> Value {
    json!({
        "metadata": {"name": "n1", "uid": "u-n1", "resourceVersion": version.to_string(), "generation": 1,
            "finalizers": ["unikorn"],
            "labels": {"regions.unikorn-cloud.org/identity-id": "i1", "regions.unikorn-cloud.org/region-id": "r1"}},
        "spec": {"prefix": "10.0.0.0/24"},
        "status": {"conditions": reason.map(|r| json!([{"type": "Available", "reason": r}])).unwrap_or(json!([]))},
    })
}

fn server(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("u-{name}"), "resourceVersion": "5", "generation": 1,
            "labels": {"regions.unikorn-cloud.org/identity-id": "i1"}},
        "spec": {"networks": [{"id": "n1"}], "securityGroups": [{"id": "g1"}], "sshCertificateAuthorityID": "ca1"},
    })
}

fn identity(version: u32, reason: Option<&str>, deleting: bool) -> Value {
    let mut object = json!({
        "metadata": {"name": "i1", "uid": "u-i1", "resourceVersion": version.to_string(), "generation": 1,
            "labels": {"regions.unikorn-cloud.org/region-id": "r1"}},
        "status": {"conditions": reason.map(|r| json!([{"type": "Available", "reason": r}])).unwrap_or(json!([]))},
    });
    if deleting {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    object
}

fn plain(name: &str, version: u32) -> Value {
    json!({"metadata": {"name": name, "uid": format!("u-{name}"), "resourceVersion": version.to_string(), "generation": version}})
}

fn told(wakes: &[Wake]) -> Vec<String> {
    wakes.iter().map(|w| format!("{} {} {}", w.lane, w.cause.token(), w.object)).collect()
}

/// Proves: W-1
#[test]
fn a_status_write_does_not_wake_the_object_s_own_function() {
    let mut index = Index::default();
    index.applied(seen(Watched::Network, &network(1, None)), How::Watch);
    let wakes = index.applied(seen(Watched::Network, &network(2, Some("Provisioned"))), How::Watch);
    assert_eq!(told(&wakes), [""; 0]);
}

/// Proves: RBD-20, RTY-4
#[test]
fn a_server_that_calls_for_its_function_is_heard_at_each_of_its_changes_and_no_other_is() {
    let with = |version: u32, status: Value| {
        let mut object = server("s1");
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        object["status"] = status;
        seen(Watched::Server, &object)
    };
    let errored = json!({"conditions": [{"type": "Healthy", "reason": "Errored"}]});
    let parked =
        json!({"conditions": [{"type": "Healthy", "reason": "Errored"}, {"type": "Available", "reason": "Errored"}]});
    let rebuild = |state: &str| json!({"rebuild": {"targetImageID": "i", "state": state}});
    let heard = ["urgent observed server/ns/s1"];
    let mut index = Index::default();
    index.applied(with(1, json!({})), How::Watch);
    for (version, status, expected) in [
        (2, rebuild("Rebuilding"), &[][..]),
        (3, rebuild("Succeeded"), &heard),
        (4, rebuild("Succeeded"), &heard),
        (5, rebuild("Failed"), &heard),
        (6, json!({}), &[]),
        (7, errored, &heard),
        (8, parked, &[]),
    ] {
        let wakes = index.applied(with(version, status.clone()), How::Watch);
        assert_eq!(told(&wakes), expected, "{status}");
    }
    let seen_before = with(9, rebuild("Succeeded"));
    index.applied(seen_before.clone(), How::Watch);
    assert_eq!(told(&index.applied(seen_before, How::List)), [""; 0], "shown again, it has not changed");
}

/// Proves: W-1
#[test]
fn generation_deletion_finalizers_labels_and_annotations_each_wake_the_object() {
    let changes: [fn(&mut Value); 5] = [
        |o| o["metadata"]["generation"] = json!(2),
        |o| o["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        |o| o["metadata"]["finalizers"] = json!(["unikorn", "servers.region.unikorn-cloud.org/s1"]),
        |o| o["metadata"]["labels"]["unikorn-cloud.org/name"] = json!("renamed"),
        |o| o["metadata"]["annotations"] = json!({"a": "b"}),
    ];
    for change in changes {
        let mut index = Index::default();
        let mut object = network(1, Some("Provisioned"));
        index.applied(seen(Watched::Network, &object), How::Watch);
        object["metadata"]["resourceVersion"] = json!("2");
        change(&mut object);
        let wakes = index.applied(seen(Watched::Network, &object), How::Watch);
        assert_eq!(told(&wakes), ["urgent changed network/ns/n1"], "{object}");
        assert_eq!(wakes[0].id.as_deref(), Some("u-n1/2"));
    }
}

/// Proves: W-2, W-3
#[test]
fn what_a_list_shows_is_routine_and_goes_by_the_state_it_shows() {
    let mut index = Index::default();
    let mut wakes = index.applied(seen(Watched::Server, &server("s1")), How::List);
    wakes.extend(index.applied(seen(Watched::Network, &network(1, Some("Provisioned"))), How::List));
    let all = ["routine listed server/ns/s1", "routine listed network/ns/n1", "routine dependency server/ns/s1"];
    assert_eq!(told(&wakes), all);
    assert!(wakes.iter().all(|wake| wake.id.is_none()));
}

/// An index in which everything has been listed: a server, what it refers to, and the identity's region.
fn complete(network_version: u32) -> Index {
    let mut index = Index::default();
    index.applied(seen(Watched::Region, &plain("r1", 1)), How::List);
    index.applied(seen(Watched::Identity, &identity(2, None, false)), How::List);
    index.applied(seen(Watched::SecurityGroup, &plain("g1", 3)), How::List);
    index.applied(seen(Watched::SshCertificateAuthority, &plain("ca1", 3)), How::List);
    index.applied(seen(Watched::Network, &network(network_version, None)), How::List);
    index.applied(seen(Watched::Server, &server("s1")), How::List);
    for watched in Watched::ALL {
        let shown = index.objects.keys().cloned().collect();
        index.listed(watched, &shown);
    }
    index
}

/// Proves: W-3, W-4, Q-18
#[test]
fn a_list_is_taken_for_an_event_only_if_nothing_that_counts_has_changed_since() {
    let s1 = seen(Watched::Server, &server("s1")).node.object().unwrap();
    assert_eq!(complete(4).state_id(&s1).as_deref(), Some("u-s1/5"), "the server is newer than its network");
    let newer = complete(6).state_id(&s1).unwrap();
    assert_ne!(newer, "u-s1/5", "the network has changed since the server did");
    assert_eq!(complete(6).state_id(&s1).unwrap(), newer, "another publisher sees the same");
    assert_ne!(complete(7).state_id(&s1).unwrap(), newer);

    let mut without = complete(4);
    without.deleted(&seen(Watched::Network, &network(4, None)).node, "9", How::Watch);
    assert_ne!(without.state_id(&s1).as_deref(), Some("u-s1/5"), "nothing tells when the network went");
    let mut ignorant = complete(4);
    ignorant.listed.remove(&Watched::SecurityGroup);
    assert_eq!(ignorant.state_id(&s1), None, "what is not known cannot be taken for unchanged");
}

/// Proves: W-3
#[test]
fn a_list_of_what_is_being_deleted_is_news_as_long_as_others_go() {
    let deleted = seen(Watched::Identity, &identity(8, None, true));
    let i1 = deleted.node.object().unwrap();
    let mut index = complete(4);
    index.applied(deleted, How::List);
    let before = index.state_id(&i1).unwrap();
    assert_ne!(before, "u-i1/8");
    index.deleted(&seen(Watched::Network, &network(4, None)).node, "9", How::List);
    assert_ne!(index.state_id(&i1).unwrap(), before);
}

/// Proves: W-3, W-5
#[test]
fn what_became_of_use_during_a_gap_wakes_those_who_wait() {
    let mut index = complete(4);
    let ready = index.applied(seen(Watched::Network, &network(9, Some("Provisioned"))), How::List);
    assert_eq!(told(&ready), ["routine dependency server/ns/s1"]);
    let mut index = Index::default();
    index.applied(seen(Watched::Server, &server("s1")), How::Watch);
    let made = index.applied(seen(Watched::SshCertificateAuthority, &plain("ca1", 1)), How::List);
    assert_eq!(told(&made), ["routine dependency server/ns/s1"]);
}

/// Proves: W-5
#[test]
fn whoever_is_being_deleted_is_woken_by_one_that_no_longer_refers_to_it() {
    let mut index = Index::default();
    index.applied(seen(Watched::Identity, &identity(2, None, true)), How::Watch);
    index.applied(seen(Watched::Network, &network(1, None)), How::Watch);
    let mut moved = network(3, None);
    moved["metadata"]["labels"]["regions.unikorn-cloud.org/identity-id"] = json!("i2");
    let wakes = index.applied(seen(Watched::Network, &moved), How::Watch);
    assert_eq!(told(&wakes), ["urgent changed network/ns/n1", "urgent dependency identity/ns/i1"]);
}

/// Proves: W-5
#[test]
fn a_network_that_becomes_ready_wakes_the_servers_that_refer_to_it() {
    let mut index = Index::default();
    index.applied(seen(Watched::Network, &network(1, None)), How::Watch);
    index.applied(seen(Watched::Server, &server("s1")), How::Watch);
    index.applied(seen(Watched::Server, &server("s2")), How::Watch);
    let wakes = index.applied(seen(Watched::Network, &network(2, Some("Provisioned"))), How::Watch);
    assert_eq!(told(&wakes), ["urgent dependency server/ns/s1", "urgent dependency server/ns/s2"]);
    let again = index.applied(seen(Watched::Network, &network(3, Some("Provisioned"))), How::Watch);
    assert_eq!(told(&again), [""; 0], "nothing changed for those who wait");
    let failed = index.applied(seen(Watched::Network, &network(4, Some("Errored"))), How::Watch);
    assert_eq!(failed.len(), 2);
}

/// Proves: W-5
#[test]
fn secrets_authorities_and_groups_wake_who_refers_to_them() {
    let mut index = Index::default();
    index.applied(seen(Watched::Server, &server("s1")), How::Watch);
    let mut region = plain("r1", 1);
    region["spec"] = json!({"openstack": {"serviceAccountSecret": {"namespace": "ns", "name": "cloud"}}});
    index.applied(seen(Watched::Region, &region), How::Watch);
    index.applied(seen(Watched::Identity, &identity(1, None, false)), How::Watch);

    let created = index.applied(seen(Watched::Secret, &plain("cloud", 1)), How::Watch);
    assert_eq!(told(&created), ["urgent dependency region/ns/r1"]);
    let rotated = index.applied(seen(Watched::Secret, &plain("cloud", 2)), How::Watch);
    assert_eq!(told(&rotated), ["urgent dependency region/ns/r1"]);
    let authority = index.applied(seen(Watched::SshCertificateAuthority, &plain("ca1", 1)), How::Watch);
    assert_eq!(told(&authority), ["urgent dependency server/ns/s1"]);
    region["metadata"]["generation"] = json!(2);
    let reconfigured = index.applied(seen(Watched::Region, &region), How::Watch);
    assert_eq!(told(&reconfigured), ["urgent changed region/ns/r1", "urgent dependency identity/ns/i1"]);
    let ready = index.applied(seen(Watched::Identity, &identity(2, Some("Provisioned"), false)), How::Watch);
    assert_eq!(told(&ready), ["urgent dependency server/ns/s1"]);
}

/// Proves: W-5
#[test]
fn what_is_of_use_only_when_it_is_held_wakes_those_who_wait_for_that() {
    let mut index = Index::default();
    index.applied(seen(Watched::Network, &network(1, None)), How::Watch);
    let mut object = identity(1, Some("Provisioned"), false);
    index.applied(seen(Watched::Identity, &object), How::Watch);
    object["metadata"]["finalizers"] = json!(["unikorn"]);
    object["metadata"]["resourceVersion"] = json!("2");
    let held = index.applied(seen(Watched::Identity, &object), How::Watch);
    assert_eq!(told(&held), ["urgent changed identity/ns/i1", "urgent dependency network/ns/n1"]);
    object["metadata"]["finalizers"] = json!(["unikorn", "backup.example.com/nightly"]);
    object["metadata"]["resourceVersion"] = json!("3");
    let by_others_too = index.applied(seen(Watched::Identity, &object), How::Watch);
    assert_eq!(told(&by_others_too), ["urgent changed identity/ns/i1"]);

    let mut fresh = identity(4, None, false);
    index.applied(seen(Watched::Identity, &fresh), How::Watch);
    fresh["metadata"]["finalizers"] = json!(["unikorn"]);
    fresh["metadata"]["resourceVersion"] = json!("5");
    let not_ready = index.applied(seen(Watched::Identity, &fresh), How::Watch);
    assert_eq!(told(&not_ready), ["urgent changed identity/ns/i1"], "held, and of no use yet");
}

/// Another Secret that a settled region names is held by the time that the region's function has told of the change; nothing
/// else tells those who wait for it.
///
/// Proves: W-5
#[test]
fn a_region_whose_function_has_been_through_with_a_change_wakes_those_who_wait_for_that() {
    let mut index = Index::default();
    index.applied(seen(Watched::Identity, &identity(1, None, false)), How::Watch);
    let region = |version: u32, generation: u32, observed: u32| {
        let mut region = plain("r1", version);
        region["metadata"]["generation"] = json!(generation);
        region["metadata"]["finalizers"] = json!(["unikorn"]);
        region["status"] = json!({"observedGeneration": observed,
            "conditions": [{"type": "Available", "reason": "Provisioned"}]});
        seen(Watched::Region, &region)
    };
    index.applied(region(1, 1, 1), How::Watch);
    let changed = index.applied(region(2, 2, 1), How::Watch);
    assert_eq!(told(&changed), ["urgent changed region/ns/r1", "urgent dependency identity/ns/i1"]);
    let seen_to = index.applied(region(3, 2, 2), How::Watch);
    assert_eq!(told(&seen_to), ["urgent dependency identity/ns/i1"]);
}

/// Proves: W-5
#[test]
fn the_last_dependant_to_go_wakes_an_identity_that_is_being_deleted() {
    let mut index = Index::default();
    index.applied(seen(Watched::Identity, &identity(1, Some("Provisioned"), false)), How::Watch);
    index.applied(seen(Watched::Network, &network(1, Some("Provisioned"))), How::Watch);
    let node = seen(Watched::Network, &network(1, None)).node;

    let mut standing = Index::default();
    standing.applied(seen(Watched::Identity, &identity(1, Some("Provisioned"), false)), How::Watch);
    standing.applied(seen(Watched::Network, &network(1, None)), How::Watch);
    assert_eq!(told(&standing.deleted(&node, "9", How::Watch)), ["urgent changed network/ns/n1"], "nobody waits");

    index.applied(seen(Watched::Identity, &identity(2, Some("Deprovisioning"), true)), How::Watch);
    let mut going = network(3, None);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    index.applied(seen(Watched::Network, &going), How::Watch);
    assert_eq!(told(&index.deleted(&node, "9", How::Watch)), ["urgent dependency identity/ns/i1"]);
}

/// Proves: W-3
#[test]
fn an_object_that_a_list_no_longer_shows_has_gone() {
    let mut index = Index::default();
    index.applied(seen(Watched::Identity, &identity(1, None, true)), How::Watch);
    index.applied(seen(Watched::Network, &network(1, None)), How::Watch);
    let wakes = index.listed(Watched::Network, &HashSet::new());
    assert_eq!(told(&wakes), ["routine dependency identity/ns/i1", "routine changed network/ns/n1"]);
    assert_eq!(index.len(), 1);
}

/// Proves: W-3
#[test]
fn an_object_made_again_under_its_old_name_is_news() {
    let mut index = Index::default();
    index.applied(seen(Watched::Server, &server("s1")), How::Watch);
    let mut again = server("s1");
    again["metadata"]["uid"] = json!("another");
    let wakes = index.applied(seen(Watched::Server, &again), How::List);
    assert_eq!(told(&wakes), ["routine changed server/ns/s1", "routine listed server/ns/s1"]);
}

/// Proves: W-4, Q-18
#[test]
fn two_publishers_give_the_same_news_the_same_message_id() {
    let tell = || {
        let mut index = Index::default();
        let mut wakes = index.applied(seen(Watched::Network, &network(1, None)), How::Watch);
        wakes.extend(index.applied(seen(Watched::Server, &server("s1")), How::Watch));
        wakes.extend(index.applied(seen(Watched::Network, &network(2, Some("Provisioned"))), How::Watch));
        wakes.into_iter().map(|wake| wake.id.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(tell(), tell());
    assert_eq!(tell(), ["u-n1/1", "u-s1/5", "u-s1/Network/u-n1/2"]);
}

/// Proves: W-2
#[test]
fn a_change_that_very_many_wait_for_wakes_them_through_the_routine_lane() {
    let mut index = Index::default();
    index.applied(seen(Watched::Network, &network(1, None)), How::Watch);
    for n in 0..=URGENT_FANOUT {
        index.applied(seen(Watched::Server, &server(&format!("s{n}"))), How::Watch);
    }
    let wakes = index.applied(seen(Watched::Network, &network(2, Some("Provisioned"))), How::Watch);
    assert_eq!(wakes.len(), URGENT_FANOUT + 1);
    assert!(wakes.iter().all(|w| w.lane == Lane::Routine));
}

/// Proves: W-6
#[test]
fn objects_that_come_and_go_leave_nothing_behind() {
    let mut index = Index::default();
    for n in 0..10_000 {
        let object = server(&format!("s{n}"));
        let seen = seen(Watched::Server, &object);
        let node = seen.node.clone();
        index.applied(seen, How::Watch);
        index.deleted(&node, "9", How::Watch);
    }
    assert!(index.is_empty());
    assert!(index.dependants.is_empty());
}
