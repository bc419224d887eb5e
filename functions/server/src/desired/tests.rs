#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use serde_json::{Value, json};
use weir_api::Consequence;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

/// A server whose spec is changed by a merge patch.
fn server(change: &Value) -> crd::Server {
    let mut object = json!({
        "apiVersion": "region.unikorn-cloud.org/v1alpha1",
        "kind": "Server",
        "metadata": {
            "name": "a1",
            "labels": {
                "unikorn-cloud.org/name": "web",
                "unikorn-cloud.org/organization": "org",
                "unikorn-cloud.org/project": "project",
                "regions.unikorn-cloud.org/region-id": "r1",
            },
        },
        "spec": {
            "flavorID": "f1",
            "image": {"id": "i1"},
            "networks": [{"id": "n1"}],
            "securityGroups": [{"id": "g1"}, {"id": "g2"}, {"id": "g1"}],
        },
    });
    for (key, value) in change.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn region(compute: &Value) -> crd::OpenstackRegion {
    serde_json::from_value(json!({
        "endpoint": "https://keystone.example",
        "serviceAccountSecret": {"namespace": "default", "name": "secret"},
        "compute": compute,
    }))
    .unwrap()
}

fn desired_in(region: &crd::OpenstackRegion, key: Option<&str>, change: &Value) -> Result<Desired, Problem> {
    Desired::of(&server(change), &Surroundings { region, key_pair: Some("pair"), authority: Ok(key) })
}

fn desired(change: &Value) -> Result<Desired, Problem> {
    desired_in(&region(&json!({})), Some(KEY), change)
}

fn refusal(outcome: Result<Desired, Problem>) -> Problem {
    outcome.and_then(|desired| desired.creation.map(drop)).expect_err("not refused")
}

/// Proves: SRV-1, SRV-2
#[test]
fn names_come_from_the_object() {
    let desired = desired(&json!({})).unwrap();
    assert_eq!(
        (desired.port.as_str(), desired.server.as_str(), desired.network.as_str()),
        ("server-a1", "web", "network-n1")
    );
    let groups: Vec<_> = desired.groups.iter().map(String::as_str).collect();
    assert_eq!(groups, ["securitygroup-g1", "securitygroup-g2"]);
    assert_eq!(desired.creation.unwrap().metadata["region:server_id"], "a1");
}

/// Proves: SSH-1
#[test]
fn the_key_pair_is_sent_when_the_table_says_so() {
    let table: Value = serde_json::from_str(include_str!("../../tests/tables/ssh_key_name.json")).unwrap();
    let mut cases = table["cases"].as_array().unwrap().clone();
    // What the table leaves out.
    for (injection, ca, identity, expected) in [
        (json!("ca"), json!("id"), json!("skeleton"), ""),
        (json!("none"), json!("id"), json!("skeleton"), ""),
        (json!("identityKeypair"), json!("id"), json!("skeleton"), "skeleton"),
        (json!(null), json!(null), json!(""), ""),
    ] {
        let input = json!({"sshInjection": injection, "ca": ca, "identityKey": identity});
        cases.push(json!({"case": input.to_string(), "input": input, "expect": {"key_name": expected}}));
    }
    for case in cases {
        let input = &case["input"];
        let mut change = json!({});
        if let Some(injection) = input["sshInjection"].as_str() {
            change["sshInjection"] = json!(injection);
        }
        if let Some(authority) = input["ca"].as_str() {
            change["sshCertificateAuthorityID"] = json!(authority);
        }
        let region = region(&json!({}));
        let authority = Ok(input["ca"].as_str().map(|_| KEY));
        let around = Surroundings { region: &region, key_pair: input["identityKey"].as_str(), authority };
        let creation = Desired::of(&server(&change), &around).unwrap().creation.unwrap();
        let expected = Some(case["expect"]["key_name"].as_str().unwrap()).filter(|name| !name.is_empty());
        assert_eq!(creation.key_name.as_deref(), expected, "{}", case["case"]);
    }
}

/// Proves: SSH-1, SSH-2
#[test]
fn the_authority_is_put_into_user_data_only_with_ca() {
    let user_data = |change: Value| desired(&change).unwrap().creation.unwrap().user_data;
    let with = user_data(json!({"sshCertificateAuthorityID": "c1"})).unwrap();
    assert!(String::from_utf8(with).unwrap().contains(KEY));
    assert_eq!(user_data(json!({"sshCertificateAuthorityID": "c1", "sshInjection": "none"})), None);
    assert_eq!(user_data(json!({"sshCertificateAuthorityID": "c1", "sshInjection": "identityKeypair"})), None);
    assert_eq!(user_data(json!({})), None);
    let refused = refusal(desired_in(&region(&json!({})), None, &json!({"sshInjection": "ca"})));
    assert_eq!(refused.consequence, Consequence::UserAction);
}

#[test]
fn an_authority_s_key_that_would_write_into_the_cloud_config_is_refused() {
    let hostile = format!("{KEY}\nruncmd: [reboot]");
    let refused = refusal(desired_in(&region(&json!({})), Some(&hostile), &json!({"sshCertificateAuthorityID": "c1"})));
    assert_eq!(refused.consequence, Consequence::UserAction);
    assert!(!refused.message.contains("reboot"), "{}", refused.message);
}

/// Proves: SSH-4
#[test]
fn user_data_that_is_too_long_is_refused_whatever_there_is_in_the_cloud() {
    use base64::Engine;
    let data = |length| base64::engine::general_purpose::STANDARD.encode(format!("#!{}", "x".repeat(length)));
    let refused = desired(&json!({"userData": data(49_148)})).unwrap_err();
    assert_eq!(refused.consequence, Consequence::UserAction);
    assert!(refused.message.contains("65535"), "{}", refused.message);
    // Room for the user's part, none for the managed one.
    assert!(desired(&json!({"userData": data(49_000)})).is_ok());
    assert!(desired(&json!({"userData": data(49_000), "sshCertificateAuthorityID": "c1"})).is_err());
}

#[test]
fn other_bad_user_data_stands_only_in_the_way_of_a_new_server() {
    let desired = desired(&json!({"userData": "ZWNobyBoZWxsbw=="})).unwrap();
    assert_eq!(desired.creation.unwrap_err().consequence, Consequence::UserAction);
}

/// Proves: SRV-5
#[test]
fn address_pairs_that_mean_the_same_are_the_same() {
    let own = "fa:16:3e:00:00:01";
    let observed = |address: &str, mac: Option<&str>| {
        Pair::observed(&AddressPair { ip_address: address.into(), mac_address: mac.map(str::to_owned) }, own)
    };
    let wanted = |cidr: &str, mac: Option<&str>| {
        let mut pair = json!({ "cidr": cidr });
        if let Some(mac) = mac {
            pair["macAddress"] = json!(mac);
        }
        desired(&json!({"networks": [{"id": "n1", "allowedAddressPairs": [pair]}]})).unwrap().pairs.pop_first().unwrap()
    };
    for (wanted, observed, same) in [
        (wanted("10.0.0.0/24", None), observed("10.0.0.0/24", Some(own)), true),
        (wanted("10.0.0.0/24", Some("")), observed("10.0.0.0/24", Some(own)), true),
        (wanted("10.0.0.0/24", None), observed("10.0.0.0/24", None), true),
        (wanted("10.0.0.0/24", None), observed("10.0.0.7/24", Some("")), true),
        (wanted("10.0.0.7/32", None), observed("10.0.0.7", Some("FA:16:3E:00:00:01")), true),
        (wanted("10.0.0.7/32", Some("FA-16-3E-00-00-02")), observed("10.0.0.7", Some("fa:16:3e:00:00:02")), true),
        (wanted("10.0.0.7/32", Some("fa:16:3e:00:00:02")), observed("10.0.0.7", Some(own)), false),
        (wanted("10.0.0.7/32", None), observed("10.0.0.7", Some("fa:16:3e:00:00:02")), false),
        (wanted("10.0.0.0/24", None), observed("10.0.0.0/25", None), false),
        (wanted("10.0.0.0/24", None), observed("fd00::/64", None), false),
    ] {
        assert_eq!(wanted == observed, same, "{wanted:?} {observed:?}");
    }
    let refused = desired(
        &json!({"networks": [{"id": "n1", "allowedAddressPairs": [{"cidr": "10.0.0.0/24", "macAddress": "x"}]}]}),
    );
    assert_eq!(refused.unwrap_err().consequence, Consequence::UserAction);
}

/// Proves: PIN-1
#[test]
fn a_pinned_server_names_its_host_and_has_no_key_pair_of_the_identity() {
    let pinned = |injection: &str| json!({"infrastructureRef": "node-7", "sshInjection": injection});
    let creation = desired(&pinned("none")).unwrap().creation.unwrap();
    let host = |checked_for| Some(Host { name: "node-7".into(), checked_for });
    assert_eq!((creation.host, creation.key_name), (host(None), None));
    assert_eq!(refusal(desired(&pinned("identityKeypair"))).consequence, Consequence::UserAction);
    assert_eq!(refusal(desired(&json!({"infrastructureRef": "node-7"}))).consequence, Consequence::UserAction);
    let flavors = json!({"flavors": {"metadata": [{"id": "f1", "pinnedOnly": true}]}});
    assert_eq!(refusal(desired_in(&region(&flavors), None, &json!({}))).consequence, Consequence::UserAction);
    assert!(desired_in(&region(&flavors), None, &pinned("none")).unwrap().creation.is_ok());
}

/// Proves: PIN-2
#[test]
fn only_a_pinned_server_in_a_region_that_asks_for_it_is_checked() {
    let host = |check: Value, pinned: bool| {
        let region = region(&json!({"placementPreflight": check}));
        let change = if pinned { json!({"infrastructureRef": "node-7", "sshInjection": "none"}) } else { json!({}) };
        desired_in(&region, None, &change).unwrap().creation.map(|creation| creation.host.and_then(|h| h.checked_for))
    };
    let traits = json!(["custom_ready", " ", "!CUSTOM_RETIRED"]);
    assert_eq!(host(json!({"enabled": true}), true), Ok(Some(vec![])));
    let expected = [Trait::required("CUSTOM_READY").unwrap(), Trait::forbidden("CUSTOM_RETIRED").unwrap()];
    assert_eq!(host(json!({"enabled": true, "requiredTraits": traits}), true), Ok(Some(expected.to_vec())));
    assert_eq!(host(json!({"enabled": true, "requiredTraits": traits}), false), Ok(None));
    assert_eq!(host(json!({"enabled": false, "requiredTraits": traits}), true), Ok(None));
    let wrong = json!({"enabled": true, "requiredTraits": ["A,B"]});
    let refused = host(wrong.clone(), true).unwrap_err();
    assert_eq!(refused.consequence, Consequence::Operator);
    assert!(refused.message.contains("\"A,B\""), "{}", refused.message);
    assert_eq!(host(wrong, false), Ok(None), "an unpinned server has nothing to do with it");
}

#[test]
fn without_a_network_nothing_can_be_done() {
    assert_eq!(desired(&json!({"networks": []})).unwrap_err().consequence, Consequence::UserAction);
    let desired = desired(&json!({"networks": [{"id": "n1"}, {"id": "n2"}]})).unwrap();
    assert_eq!(desired.network, "network-n1", "only the first counts");
}

#[test]
fn user_data_is_not_shown() {
    let desired = desired(&json!({"userData": "IyEvYmluL3NoCnBhc3N3b3Jk"})).unwrap();
    let creation = desired.creation.as_ref().unwrap();
    let bytes = format!("{:?}", creation.user_data.as_ref().unwrap());
    let shown = format!("{desired:?}");
    assert!(!shown.contains("password") && !shown.contains(&bytes), "{shown}");
}
