#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;
use serde_json::{Value, json};
use weir_openstack::network::{Network, Router, Subnet};

fn desired(physical: Option<&str>) -> Desired {
    let spec = json!({"prefix": "10.0.0.0/24", "dnsNameservers": ["1.1.1.1", "9.9.9.9"],
        "routes": [{"prefix": "10.9.0.0/16", "nextHop": "10.0.0.9"}]});
    Desired::of(&serde_json::from_value(spec).unwrap(), physical).unwrap()
}

fn network(vlan: Option<u16>) -> Network {
    let mut network = json!({"id": "net", "name": "network-a"});
    if let Some(vlan) = vlan {
        network["provider:network_type"] = json!("vlan");
        network["provider:segmentation_id"] = json!(vlan);
    }
    serde_json::from_value(network).unwrap()
}

fn subnet(change: fn(&mut Value)) -> Subnet {
    let mut subnet = json!({"id": "sub", "network_id": "net", "cidr": "10.0.0.0/24", "dns_nameservers": ["1.1.1.1", "9.9.9.9"],
        "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]});
    change(&mut subnet);
    serde_json::from_value(subnet).unwrap()
}

fn router(gateway: bool) -> Router {
    let gateway = gateway.then(|| json!({"network_id": "ext"}));
    serde_json::from_value(json!({"id": "rtr", "external_gateway_info": gateway})).unwrap()
}

fn settled() -> Observed {
    Observed {
        network: Some(network(None)),
        subnet: Some(subnet(|_| {})),
        router: Some(router(true)),
        interfaces: vec!["sub".into()],
        external: Some("ext".into()),
        ..Observed::default()
    }
}

/// Proves: NET-1, NET-4
#[test]
fn each_missing_or_differing_part_leads_to_the_one_step_that_mends_it() {
    type Change = fn(&mut Observed);
    let rows: [(Change, Step); 9] = [
        (|_| {}, Step::Done),
        (|o| *o = Observed::default(), Step::CreateNetwork { vlan: None }),
        (|o| o.subnet = None, Step::CreateSubnet("net".into())),
        (
            |o| o.subnet = Some(subnet(|s| s["dns_nameservers"] = json!(["9.9.9.9", "1.1.1.1"]))),
            Step::UpdateSubnet { subnet: "sub".into(), dns: true, routes: false },
        ),
        (
            |o| o.subnet = Some(subnet(|s| s["host_routes"] = json!([]))),
            Step::UpdateSubnet { subnet: "sub".into(), dns: false, routes: true },
        ),
        (|o| o.router = None, Step::CreateRouter("ext".into())),
        (|o| o.router = Some(router(false)), Step::SetGateway("rtr".into(), "ext".into())),
        (|o| o.interfaces.clear(), Step::Attach("rtr".into(), "sub".into())),
        (|o| o.interfaces = vec!["other".into()], Step::Attach("rtr".into(), "sub".into())),
    ];
    for (change, step) in rows {
        let mut observed = settled();
        change(&mut observed);
        assert_eq!(decide(&desired(None), &observed).unwrap(), step);
    }
}

/// Proves: NET-4
#[test]
fn routes_and_dns_servers_can_be_cleared() {
    let spec = serde_json::from_value(json!({"prefix": "10.0.0.0/24"})).unwrap();
    let step = decide(&Desired::of(&spec, None).unwrap(), &settled()).unwrap();
    assert_eq!(step, Step::UpdateSubnet { subnet: "sub".into(), dns: true, routes: true });
}

/// Proves: NET-7, NET-8
#[test]
fn a_provider_network_gets_its_vlan_before_it_is_made() {
    let mut observed = Observed::default();
    assert_eq!(decide(&desired(Some("physnet1")), &observed).unwrap(), Step::AllocateVlan);
    observed.vlan = Some(7);
    assert_eq!(decide(&desired(Some("physnet1")), &observed).unwrap(), Step::CreateNetwork { vlan: Some(7) });
}

/// Proves: NET-8
#[test]
fn a_vlan_that_the_cloud_has_and_the_table_lacks_is_recorded_first() {
    let mut observed = Observed { network: Some(network(Some(7))), ..settled() };
    assert_eq!(decide(&desired(Some("physnet1")), &observed).unwrap(), Step::RecordVlan(7));
    observed.vlan = Some(7);
    assert_eq!(decide(&desired(Some("physnet1")), &observed).unwrap(), Step::Done);
}

/// Proves: NET-4
#[test]
fn a_changed_prefix_and_a_subnet_elsewhere_lead_to_no_step_at_all() {
    for change in [
        (|s| s["cidr"] = json!("10.1.0.0/24")) as fn(&mut Value),
        |s| s["cidr"] = json!("on host cn-17"),
        |s| s["network_id"] = json!("other"),
    ] {
        let observed = Observed { subnet: Some(subnet(change)), ..settled() };
        let problem = decide(&desired(None), &observed).expect_err("refused");
        assert!(!problem.message.contains("cn-17"), "{problem}");
    }
}

fn pools(of: &Value) -> Observed {
    let mut live = json!({"id": "sub", "network_id": "net", "cidr": "10.0.0.0/24"});
    let pools: Vec<Value> = of.as_array().unwrap().iter().map(|p| json!({"start": p[0], "end": p[1]})).collect();
    live["allocation_pools"] = json!(pools);
    Observed { subnet: Some(serde_json::from_value(live).unwrap()), ..settled() }
}

/// Proves: NET-2, NET-3
#[test]
fn a_storage_range_is_never_told_of_addresses_that_servers_are_given() {
    let of = |reservations: Value| {
        let spec = json!({"prefix": "10.0.0.0/24", "reservations": reservations});
        Desired::of(&serde_json::from_value(spec).unwrap(), None).unwrap()
    };
    let (default, asked) = (of(Value::Null), of(json!({"prefixLength": 26})));
    let rows = [
        // What each subnet gives out; whether it suits 26, and whether the default's storage range may be told.
        (json!([]), true, true),
        (json!([["10.0.0.64", "10.0.0.254"]]), true, false),
        (json!([["10.0.0.100", "10.0.0.254"], ["10.0.0.64", "10.0.0.99"]]), true, false),
        (json!([["10.0.0.128", "10.0.0.254"]]), false, true),
        (json!([["10.0.0.2", "10.0.0.254"]]), false, false),
        (json!([["10.0.0.64", "10.0.0.90"], ["10.0.0.100", "10.0.0.254"]]), false, false),
    ];
    let told = default.ranges.storage;
    for (pool, suits, default_told) in rows {
        let observed = pools(&pool);
        assert!(decide(&default, &observed).is_ok(), "what was made by others goes on: {pool}");
        match decide(&asked, &observed) {
            Ok(_) => assert!(suits, "{pool}"),
            Err(problem) => {
                assert!(!suits, "{pool}: {problem}");
                assert_eq!(problem.consequence, weir_api::Consequence::UserAction);
                let from = pool[0][0].as_str().unwrap();
                assert!(problem.message.contains(from) && problem.message.contains("cannot be changed"), "{problem}");
            }
        }
        assert_eq!(storage(&default, &observed, None).is_some(), default_told, "{pool}");
        let expected = if suits { asked.ranges.storage } else { told };
        assert_eq!(storage(&asked, &observed, told), expected, "what was told stands where nothing changes: {pool}");
    }
    let elsewhere = of(json!({"prefixLength": 26}));
    let elsewhere = Desired { prefix: "10.1.0.0/24".parse().unwrap(), ..elsewhere };
    assert_eq!(storage(&elsewhere, &pools(&json!([])), told), told);
}

/// Proves: NET-4
#[test]
fn a_name_server_named_twice_is_asked_for_once_where_it_comes_first() {
    let spec = json!({"prefix": "10.0.0.0/24", "dnsNameservers": ["9.9.9.9", "1.1.1.1", "009.9.9.9"]});
    assert_eq!(Desired::of(&serde_json::from_value(spec).unwrap(), None).unwrap().dns, ["9.9.9.9", "1.1.1.1"]);
}

/// Proves: NET-9, NET-10
#[test]
fn removal_goes_inwards_and_the_vlan_is_freed_only_when_the_network_was_seen_gone() {
    let mut observed = Observed { vlan: Some(7), external: None, ..settled() };
    let mut steps = Vec::new();
    loop {
        let step = decide_removal(&observed).unwrap();
        steps.push(step.clone());
        match step {
            Removal::Detach(..) => observed.interfaces.clear(),
            Removal::DeleteRouter(_) => observed.router = None,
            Removal::DeleteSubnet(_) => observed.subnet = None,
            Removal::DeleteNetwork(_) => observed.network = None,
            Removal::FreeVlan => observed.vlan = None,
            Removal::Done => break,
        }
    }
    let expected = [
        Removal::Detach("rtr".into(), "sub".into()),
        Removal::DeleteRouter("rtr".into()),
        Removal::DeleteSubnet("sub".into()),
        Removal::DeleteNetwork("net".into()),
        Removal::FreeVlan,
        Removal::Done,
    ];
    assert_eq!(steps, expected);
}

/// Proves: NET-10
#[test]
fn any_part_may_be_missing_when_a_removal_goes_on() {
    for bits in 0..16_u8 {
        let all = settled();
        let observed = Observed {
            network: all.network.filter(|_| bits & 1 == 0),
            subnet: all.subnet.filter(|_| bits & 2 == 0),
            router: all.router.filter(|_| bits & 4 == 0),
            interfaces: if bits & 0b1100 == 0 { all.interfaces } else { Vec::new() },
            vlan: Some(7),
            ..Observed::default()
        };
        let step = decide_removal(&observed).unwrap();
        assert_eq!(step == Removal::FreeVlan, bits & 0b111 == 0b111, "{bits:04b}: {step:?}");
    }
}

/// Proves: NET-10
#[test]
fn somebody_else_s_port_blocks_the_removal_before_anything_is_touched_and_is_named() {
    let port = json!({"id": "p", "network_id": "net", "device_owner": "compute:nova",
        "fixed_ips": [{"subnet_id": "sub", "ip_address": "10.0.0.200"}]});
    let observed = Observed { foreign: vec![serde_json::from_value(port).unwrap()], ..settled() };
    let problem = decide_removal(&observed).expect_err("blocked");
    assert!(problem.message.contains("servers (10.0.0.200)"), "{}", problem.message);
}
