//! Each rule of the definitions, executed: what it accepts, what it refuses, and that it says what to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use support::{admit, manifest, with};

/// Changes to a manifest, by JSON pointer; `null` removes.
type Changes<'a> = &'a [(&'a str, Value)];

#[track_caller]
fn accepted(kind: &str, changes: Changes) {
    if let Err(causes) = admit(&with(kind, changes), None) {
        panic!("{kind} {changes:?} is refused: {causes:?}");
    }
}

/// Refused, with exactly one reason, which contains `message`.
#[track_caller]
fn refused(kind: &str, changes: Changes, message: &str) {
    because(&admit(&with(kind, changes), None), message, kind, changes);
}

#[track_caller]
fn update_accepted(kind: &str, from: Changes, to: Changes) {
    if let Err(causes) = admit(&with(kind, to), Some(&with(kind, from))) {
        panic!("{kind} from {from:?} to {to:?} is refused: {causes:?}");
    }
}

#[track_caller]
fn update_refused(kind: &str, from: Changes, to: Changes, message: &str) {
    because(&admit(&with(kind, to), Some(&with(kind, from))), message, kind, to);
}

#[track_caller]
fn because(outcome: &Result<Value, Vec<String>>, message: &str, kind: &str, changes: Changes) {
    match outcome {
        Ok(_) => panic!("{kind} {changes:?} is accepted"),
        Err(causes) => {
            assert!(causes.iter().any(|cause| cause.contains(message)), "{message:?} is not in {causes:?}");
        }
    }
}

#[test]
fn a_region_needs_the_part_of_its_provider() {
    accepted("Region", &[("/spec/kubernetes", Value::Null)]);
    accepted("Region", &[("/spec/provider", json!("kubernetes")), ("/spec/openstack", Value::Null)]);
    let simulated =
        [("/spec/provider", json!("simulated")), ("/spec/openstack", Value::Null), ("/spec/kubernetes", Value::Null)];
    accepted("Region", &simulated);
    refused(
        "Region",
        &[("/spec/openstack", Value::Null)],
        "needs spec.openstack: set its endpoint and serviceAccountSecret",
    );
    let changes = [("/spec/provider", json!("kubernetes")), ("/spec/kubernetes", Value::Null)];
    refused("Region", &changes, "needs spec.kubernetes: set its kubeConfigSecret");
    refused("Region", &[("/spec/provider", json!("aws"))], "\"openstack\", \"kubernetes\", \"simulated\"");
}

#[test]
fn vlan_segments_are_within_what_vlans_there_are() {
    let segments = "/spec/openstack/network/providerNetworks/vlan/segments";
    accepted("Region", &[(segments, json!([{ "startId": 1, "endId": 4094 }]))]);
    refused("Region", &[(segments, json!([]))], "at least 1 item");
    refused("Region", &[(segments, json!([{ "startId": 0, "endId": 10 }]))], "greater than or equal to 1");
    refused("Region", &[(segments, json!([{ "startId": 1, "endId": 4095 }]))], "less than or equal to 4094");
}

fn table(text: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(text).unwrap()["cases"].as_array().unwrap().clone()
}

#[test]
fn the_default_architecture_of_a_region_is_checked_and_defaulted() {
    for case in table(include_str!("tables/crd_default_architecture.json")) {
        let value = case["input"]["defaultArchitecture"].clone();
        let outcome = admit(&with("Region", &[("/spec/openstack/defaultArchitecture", value.clone())]), None);
        assert_eq!(outcome.is_ok(), case["expect"]["valid"] == true, "{case}: {outcome:?}");
        if let Ok(admitted) = outcome {
            let wanted = case["expect"].get("defaulted").unwrap_or(&value);
            assert_eq!(&admitted["spec"]["openstack"]["defaultArchitecture"], wanted, "{case}");
        }
    }
}

/// Proves: VCL-2
#[test]
fn bounds_and_flavors_of_a_volume_class_are_checked() {
    let metadata = "/spec/openstack/blockStorage/volumeClasses/metadata/0";
    for case in table(include_str!("tables/crd_volume_class.json")) {
        let mut class = json!({ "id": "c1" });
        for (name, value) in case["input"].as_object().unwrap() {
            if !value.is_null() {
                class[name] = value.clone();
            }
        }
        let outcome = admit(&with("Region", &[(metadata, class.clone())]), None);
        assert_eq!(outcome.is_ok(), case["expect"]["valid"] == true, "{case}: {outcome:?}");

        // The flavors may stand under a selector as well.
        if let Some(flavors) = class.get("supportedFlavors").cloned() {
            class["supportedFlavors"] = json!({ "selector": flavors });
            let outcome = admit(&with("Region", &[(metadata, class)]), None);
            assert_eq!(outcome.is_ok(), case["expect"]["valid"] == true, "{case}, selector: {outcome:?}");
        }
    }
    let inverted = json!({ "id": "c1", "minimumSizeGiB": 2, "maximumSizeGiB": 1 });
    refused("Region", &[(metadata, inverted)], "maximumSizeGiB must be at least minimumSizeGiB");
}

/// Proves: NET-2
#[test]
fn a_reservation_is_a_part_of_its_network_and_the_providers_part_is_in_it() {
    let reserve =
        |length: i64, provider: Value| json!({ "prefixLength": length, "providerReservedPrefixLength": provider });
    accepted("Network", &[("/spec/reservations", Value::Null)]);
    accepted("Network", &[("/spec/reservations", json!({ "prefixLength": 25 }))]);
    accepted("Network", &[("/spec/reservations", reserve(25, json!(25)))]);
    accepted("Network", &[("/spec/reservations", reserve(30, json!(30)))]);
    refused("Network", &[("/spec/reservations", reserve(24, json!(28)))], "reservations.prefixLength must be longer");
    refused("Network", &[("/spec/reservations", reserve(26, json!(25)))], "must be at least prefixLength");
    refused("Network", &[("/spec/reservations", reserve(31, json!(31)))], "less than or equal to 30");
    refused("Network", &[("/spec/reservations", reserve(-1, json!(28)))], "greater than or equal to 0");
}

#[test]
fn addresses_that_are_none_are_refused() {
    for prefix in ["192.168.0.0", "192.168.0.0/33", "192.168.0.256/24", "fd00::/8", ""] {
        refused("Network", &[("/spec/prefix", json!(prefix))], "spec.prefix");
    }
    refused("Network", &[("/spec/dnsNameservers/0", json!("dns.example.com"))], "spec.dnsNameservers[0]");
    refused("Network", &[("/spec/routes/0/nextHop", json!("10.0.0.0/8"))], "spec.routes[0].nextHop");
    refused("LoadBalancer", &[("/spec/requestedVIPAddress", json!("1.2.3"))], "spec.requestedVIPAddress");
}

/// Proves: SEC-3
#[test]
fn a_rules_port_has_a_number_or_a_range() {
    let port = "/spec/rules/0/port";
    accepted("SecurityGroup", &[(port, json!({ "number": 443 }))]);
    accepted("SecurityGroup", &[(port, json!({ "range": { "start": 1, "end": 65535 } }))]);
    refused("SecurityGroup", &[(port, json!({}))], "set one of them, or leave port out");
    refused("SecurityGroup", &[(port, json!({ "range": { "start": 0, "end": 1 } }))], "greater than or equal to 1");
    refused(
        "SecurityGroup",
        &[(port, json!({ "range": { "start": 1, "end": 65536 } }))],
        "less than or equal to 65535",
    );
    refused("SecurityGroup", &[("/spec/rules/0/protocol", json!("sctp"))], "supported values: \"any\", \"icmp\"");
}

/// Proves: PIN-1
#[test]
fn the_host_of_a_server_can_neither_appear_nor_vanish_nor_change() {
    let host = |value: Value| [("/spec/infrastructureRef", value)];
    let says = "infrastructureRef is decided when a server is created";
    update_accepted("Server", &host(json!("a")), &host(json!("a")));
    update_accepted("Server", &host(Value::Null), &host(Value::Null));
    update_refused("Server", &host(json!("a")), &host(json!("b")), says);
    update_refused("Server", &host(json!("a")), &host(Value::Null), says);
    update_refused("Server", &host(Value::Null), &host(json!("b")), says);
}

/// Proves: SSH-1
#[test]
fn how_ssh_access_is_set_up_is_decided_at_create_and_spelling_the_default_out_is_no_change() {
    let ssh = |injection: Value, authority: Value| {
        [("/spec/sshInjection", injection), ("/spec/sshCertificateAuthorityID", authority)]
    };
    let none = || Value::Null;
    update_accepted("Server", &ssh(none(), none()), &ssh(json!("identityKeypair"), none()));
    update_accepted("Server", &ssh(json!("ca"), json!("a")), &ssh(none(), json!("a")));
    update_accepted("Server", &ssh(json!("none"), none()), &ssh(json!("none"), none()));
    let says = "how SSH access is set up (sshInjection) is decided";
    update_refused("Server", &ssh(none(), none()), &ssh(json!("none"), none()), says);
    update_refused("Server", &ssh(none(), json!("a")), &ssh(json!("identityKeypair"), json!("a")), says);
    update_refused("Server", &ssh(json!("ca"), json!("a")), &ssh(json!("none"), json!("a")), says);
    let says = "sshCertificateAuthorityID is decided when a server is created";
    update_refused("Server", &ssh(json!("ca"), json!("a")), &ssh(json!("ca"), json!("b")), says);
    update_refused("Server", &ssh(json!("none"), json!("a")), &ssh(json!("none"), none()), says);
    update_refused("Server", &ssh(json!("none"), none()), &ssh(json!("none"), json!("a")), says);
}

#[test]
fn what_may_change_on_a_server_can_be_changed() {
    let image = json!({ "id": "33333333-3333-4333-a333-333333333333" });
    let changes = [
        ("/spec/image", image),
        ("/spec/tags", Value::Null),
        ("/spec/networks", Value::Null),
        ("/spec/securityGroups", json!([])),
        ("/spec/publicIPAllocation/enabled", json!(false)),
        ("/spec/volumes", json!([{ "id": "v2" }])),
        ("/spec/userData", Value::Null),
    ];
    update_accepted("Server", &[], &changes);
}

/// Proves: VOL-6
#[test]
fn network_size_and_class_of_a_volume_cannot_be_changed() {
    let size = |value: Value| [("/spec/size", value)];
    update_refused("Volume", &[], &[("/spec/networkID", json!("another"))], "networkID cannot be changed");
    update_refused("Volume", &[], &[("/spec/volumeClassID", json!("another"))], "volumeClassID cannot be changed");
    update_refused("Volume", &[], &size(json!("200Gi")), "size cannot be changed");
    update_refused("Volume", &[], &size(json!("50Gi")), "size cannot be changed");
    update_accepted("Volume", &size(json!("1Gi")), &size(json!("1024Mi")));
    update_accepted("Volume", &size(json!(1024)), &size(json!(1024)));
    update_refused("Volume", &size(json!(1024)), &size(json!(2048)), "size cannot be changed");
    update_accepted("Volume", &[], &[("/spec/claimRef", Value::Null), ("/spec/pause", json!(false))]);
}

/// Proves: LBR-7
#[test]
fn what_only_tcp_can_is_refused_for_udp() {
    let (protocol, idle, proxy) = (
        "/spec/listeners/0/protocol",
        "/spec/listeners/0/idleTimeoutSeconds",
        "/spec/listeners/0/pool/proxyProtocolV2",
    );
    accepted("LoadBalancer", &[(protocol, json!("udp")), (idle, Value::Null), (proxy, json!(false))]);
    accepted("LoadBalancer", &[(protocol, json!("udp")), (idle, Value::Null), (proxy, Value::Null)]);
    let changes = [(protocol, json!("udp")), (proxy, json!(false))];
    refused("LoadBalancer", &changes, "idleTimeoutSeconds is for tcp only");
    let changes = [(protocol, json!("udp")), (idle, Value::Null)];
    refused("LoadBalancer", &changes, "pool.proxyProtocolV2 is for tcp only");
}

/// Proves: LBR-12
#[test]
fn a_health_check_ends_before_the_next_begins() {
    let timeout = "/spec/listeners/0/pool/healthCheck/timeoutSeconds";
    accepted("LoadBalancer", &[(timeout, json!(9))]);
    refused("LoadBalancer", &[(timeout, json!(10))], "timeoutSeconds must be less than intervalSeconds");
    refused("LoadBalancer", &[(timeout, json!(0))], "greater than or equal to 1");
}

#[test]
fn listeners_are_told_apart_by_name_and_members_by_address_and_port() {
    let listener = manifest("LoadBalancer")["spec"]["listeners"][0].clone();
    let mut other = listener.clone();
    other["name"] = json!("other");
    accepted("LoadBalancer", &[("/spec/listeners", json!([listener, other]))]);
    refused("LoadBalancer", &[("/spec/listeners", json!([listener, listener]))], "Duplicate value");
    refused("LoadBalancer", &[("/spec/listeners", json!([]))], "at least 1 item");
    for name in ["Upper", "1digit", "ends-", "", &"a".repeat(64)] {
        refused("LoadBalancer", &[("/spec/listeners/0/name", json!(name))], "spec.listeners[0].name");
    }
    let members = "/spec/listeners/0/pool/members";
    let member = |port: i64| json!({ "address": "10.0.0.1", "port": port });
    accepted("LoadBalancer", &[(members, json!([]))]);
    accepted("LoadBalancer", &[(members, json!([member(1), member(2)]))]);
    refused("LoadBalancer", &[(members, json!([member(1), member(1)]))], "Duplicate value");
    refused("LoadBalancer", &[(members, Value::Null)], "Required value");
    refused("LoadBalancer", &[("/spec/listeners/0/port", json!(65536))], "less than or equal to 65535");
}

/// Proves: INS-4
#[test]
fn the_certificate_authority_of_an_instance_cannot_be_changed() {
    let authority = |value: Value| [("/spec/sshCertificateAuthorityId", value)];
    let says = "sshCertificateAuthorityId is decided when an instance is created";
    update_accepted("ComputeInstance", &authority(json!("a")), &authority(json!("a")));
    update_accepted("ComputeInstance", &[], &[("/spec/imageId", json!("i2")), ("/spec/flavorId", json!("f2"))]);
    update_refused("ComputeInstance", &authority(json!("a")), &authority(json!("b")), says);
    update_refused("ComputeInstance", &authority(json!("a")), &authority(Value::Null), says);
    update_refused("ComputeInstance", &authority(Value::Null), &authority(json!("a")), says);
}

/// Proves: SSH-5
#[test]
fn an_ssh_certificate_authority_is_one_openssh_public_key_that_is_strong_enough() {
    const NOT_ONE_KEY: &str = "publicKey must be one OpenSSH public key on one line";
    for line in include_str!("tables/ssh_public_keys.tsv").lines() {
        let [verdict, what, key] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        // Line ends, tabs and quotes are escaped in the table.
        let key: String = serde_json::from_str(&format!("\"{}\"", key.replace('"', "\\\""))).unwrap();
        let changes = [("/spec/publicKey", json!(key))];
        match verdict {
            "ok" => accepted("SSHCertificateAuthority", &changes),
            "key" => refused("SSHCertificateAuthority", &changes, NOT_ONE_KEY),
            "rsa" => refused("SSHCertificateAuthority", &changes, "an RSA key must have at least 3072 bits"),
            "long" => refused("SSHCertificateAuthority", &changes, "Too long"),
            other => panic!("{what}: {other}"),
        }
    }
}

#[test]
fn the_format_of_quota_metadata_is_defaulted() {
    let admitted = admit(&with("QuotaMetadata", &[("/spec/format", Value::Null)]), None).unwrap();
    assert_eq!(admitted["spec"]["format"], "decimal");
    refused("QuotaMetadata", &[("/spec/format", json!("octal"))], "supported values: \"decimal\", \"binary\"");
}
