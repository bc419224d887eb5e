//! Neutron.

use serde_json::{Value, json};
use weir_openstack_sim::Config;

use crate::client::{Caller, Cloud, id, port, wire};

const V2: &str = "/network/v2.0";

#[tokio::test]
async fn a_project_sees_its_own_and_the_external_network_and_nothing_else_exists_for_it() {
    let cloud = Cloud::start().await;
    let (one, two) = (cloud.tenant("one").await, cloud.tenant("two").await);
    let wired = wire(&cloud, &one, "mine").await;
    let port = port(&one.member, &wired.network, "p").await;
    let group = json!({"security_group": {"name": "g"}});
    let group = id(&one.member.post(&format!("{V2}/security-groups"), group).await.expect(201), "security_group");
    for (kind, id) in [
        ("networks", wired.network.as_str()),
        ("subnets", &wired.subnet),
        ("routers", &wired.router),
        ("ports", port["id"].as_str().unwrap()),
        ("security-groups", &group),
    ] {
        one.member.get(&format!("{V2}/{kind}/{id}")).await.expect(200);
        for method in ["GET", "DELETE"] {
            let answer = two.member.send(method, &format!("{V2}/{kind}/{id}"), None, &[]).await;
            assert_eq!(answer.status, 404, "{method} {kind}: {}", answer.text);
            assert!(answer.json["NeutronError"]["type"].as_str().unwrap().ends_with("NotFound"));
        }
        let listed = two.member.get(&format!("{V2}/{kind}")).await.expect(200);
        assert!(!listed.to_string().contains(id), "{kind}");
    }
    two.member.post(&format!("{V2}/ports"), json!({"port": {"network_id": wired.network}})).await.expect(404);
    let outside = cloud.sim.bootstrap().external_network;
    two.member.get(&format!("{V2}/networks/{outside}")).await.expect(200);
    let visible = two.member.delete(&format!("{V2}/networks/{outside}")).await;
    assert_eq!((visible.status, &visible.json["NeutronError"]["type"]), (403, &json!("PolicyNotAuthorized")));
    assert_eq!(two.member.names(&format!("{V2}/networks?router:external=true")).await, ["public"]);
}

#[tokio::test]
async fn filters_are_exact_repeat_as_or_and_refuse_what_they_do_not_know() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    for name in ["web", "web2", "we.b", "WEB"] {
        tenant.member.post(&format!("{V2}/networks"), json!({"network": {"name": name}})).await.expect(201);
    }
    for (query, wanted) in [
        ("name=web", vec!["WEB", "web"]),
        ("name=^web$", vec![]),
        ("name=we", vec![]),
        ("name=web2&name=we.b", vec!["we.b", "web2"]),
        ("name=web2&admin_state_up=False", vec![]),
        ("name=", vec![]),
    ] {
        let mut names = tenant.member.names(&format!("{V2}/networks?{query}")).await;
        names.sort();
        assert_eq!(names, wanted, "{query}");
    }
    let unknown = tenant.member.get(&format!("{V2}/networks?nosuch=1")).await.expect(400);
    assert_eq!(
        unknown,
        json!({"NeutronError": {
            "type": "HTTPBadRequest",
            "message": "['nosuch'] is invalid attribute for filtering",
            "detail": "",
        }})
    );
    let only = tenant.member.get(&format!("{V2}/networks?name=web2&fields=name")).await.expect(200);
    assert_eq!(only, json!({"networks": [{"name": "web2"}]}));

    let fuzzy = Cloud::with(Config { fuzzy_filters: true, ..Config::default() }).await;
    let tenant = fuzzy.tenant("one").await;
    for name in ["web", "WEB2", "other"] {
        tenant.member.post(&format!("{V2}/networks"), json!({"network": {"name": name}})).await.expect(201);
    }
    let mut names = tenant.member.names(&format!("{V2}/networks?name=web")).await;
    names.sort();
    assert_eq!(names, ["WEB2", "web"]);
}

#[tokio::test]
async fn pages_lead_on_by_links_in_a_stable_order() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    for n in 0..5 {
        tenant.member.post(&format!("{V2}/networks"), json!({"network": {"name": format!("n{n}")}})).await.expect(201);
    }
    let project = &tenant.project;
    let mut path = format!("{V2}/networks?project_id={project}&limit=2&sort_key=name&sort_dir=desc");
    let mut seen = Vec::new();
    let mut pages = 0;
    loop {
        let page = tenant.member.get(&path).await.expect(200);
        seen.extend(page["networks"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()));
        pages += 1;
        let links = page["networks_links"].as_array().cloned().unwrap_or_default();
        match links.iter().find(|link| link["rel"] == "next") {
            Some(next) => path = next["href"].as_str().unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!((seen, pages), (["n4", "n3", "n2", "n1", "n0"].map(str::to_owned).to_vec(), 3));
    tenant.member.get(&format!("{V2}/networks?limit=2&marker=nosuch")).await.expect(404);
}

#[tokio::test]
async fn provider_attributes_are_the_managers_and_a_vlan_is_used_once() {
    let cloud = Cloud::start().await;
    let (one, two) = (cloud.tenant("one").await, cloud.tenant("two").await);
    let body = |vlan: u64, network: &str| {
        json!({"network": {"name": "n", "provider:network_type": "vlan", "provider:physical_network": network,
            "provider:segmentation_id": vlan}})
    };
    let path = format!("{V2}/networks");
    let refused = one.member.post(&path, body(7, "physnet1")).await.expect(403);
    assert_eq!(refused["NeutronError"]["type"], "PolicyNotAuthorized");
    let segments = json!({"network": {"name": "n", "segments": [
        {"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 7},
    ]}});
    let made = one.manager.post(&path, segments).await.expect(201);
    assert_eq!(made["network"]["provider:segmentation_id"], 7);
    let network = id(&made, "network");
    let seen = one.member.get(&format!("{path}/{network}")).await.expect(200);
    assert!(seen["network"].get("provider:segmentation_id").is_none());
    let taken = two.manager.post(&path, body(7, "physnet1")).await.expect(409);
    assert_eq!(taken["NeutronError"]["type"], "VlanIdInUse");
    two.manager.post(&path, body(0, "physnet1")).await.expect(400);
    two.manager.post(&path, body(4095, "physnet1")).await.expect(400);
    two.manager.post(&path, body(8, "nosuch")).await.expect(400);
    one.manager.delete(&format!("{path}/{network}")).await.expect(204);
    two.manager.post(&path, body(7, "physnet1")).await.expect(201);
}

#[tokio::test]
async fn a_subnet_is_checked_before_it_is_made() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let network = tenant.member.post(&format!("{V2}/networks"), json!({"network": {"name": "n"}})).await.expect(201);
    let network = id(&network, "network");
    let make = |extra: Value| {
        let mut subnet = json!({"network_id": network, "ip_version": 4, "cidr": "10.1.0.0/24"});
        subnet.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let caller = tenant.member.clone();
        async move { caller.post(&format!("{V2}/subnets"), json!({"subnet": subnet})).await }
    };
    let pool = |start: &str, end: &str| json!({"allocation_pools": [{"start": start, "end": end}]});
    for (extra, status, kind) in [
        (json!({"cidr": "10.1.0.0/33"}), 400, "InvalidInput"),
        (json!({"cidr": "10.1.0.4/32"}), 400, "InvalidInput"),
        (json!({"project_id": "feed"}), 400, "HTTPBadRequest"),
        (json!({"network_id": "feed"}), 404, "NetworkNotFound"),
        (json!({"nosuch": 1}), 400, "HTTPBadRequest"),
        (pool("10.1.0.1", "10.1.0.9"), 409, "GatewayConflictWithAllocationPools"),
        (pool("10.1.0.9", "10.1.0.8"), 400, "InvalidAllocationPool"),
        (pool("10.1.0.9", "10.1.1.9"), 400, "OutOfBoundsAllocationPool"),
        (json!({"dns_nameservers": ["nosuch"]}), 400, "HTTPBadRequest"),
        (json!({"host_routes": [{"destination": "x", "nexthop": "10.1.0.2"}]}), 400, "HTTPBadRequest"),
    ] {
        let answer = make(extra.clone()).await;
        assert_eq!((answer.status, &answer.json["NeutronError"]["type"]), (status, &json!(kind)), "{extra}");
    }
    let made = make(
        json!({"dns_nameservers": ["1.1.1.1"], "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.1.0.2"}]}),
    )
    .await
    .expect(201);
    assert_eq!(made["subnet"]["gateway_ip"], "10.1.0.1");
    assert_eq!(made["subnet"]["allocation_pools"], json!([{"start": "10.1.0.2", "end": "10.1.0.254"}]));
    let overlap = make(json!({"cidr": "10.1.0.128/25"})).await.expect(400);
    assert_eq!(overlap["NeutronError"]["type"], "InvalidInput");
    let path = format!("{V2}/subnets/{}", id(&made, "subnet"));
    let changed =
        tenant.member.put(&path, json!({"subnet": {"host_routes": [], "dns_nameservers": ["9.9.9.9"]}})).await;
    let changed = changed.expect(200);
    assert_eq!(changed["subnet"]["host_routes"], json!([]));
    assert_eq!(changed["subnet"]["dns_nameservers"], json!(["9.9.9.9"]));
}

#[tokio::test]
async fn addresses_come_from_the_pool_once_and_run_out() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let caller = &tenant.member;
    let network = id(&caller.post(&format!("{V2}/networks"), json!({"network": {}})).await.expect(201), "network");
    let subnet = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.2.0.0/29"}});
    let subnet = id(&caller.post(&format!("{V2}/subnets"), subnet).await.expect(201), "subnet");
    let fixed =
        |ip: &str| json!({"port": {"network_id": network, "fixed_ips": [{"subnet_id": subnet, "ip_address": ip}]}});
    let path = format!("{V2}/ports");
    caller.post(&path, fixed("10.2.0.4")).await.expect(201);
    let taken = caller.post(&path, fixed("10.2.0.4")).await.expect(409);
    assert_eq!(taken["NeutronError"]["type"], "IpAddressAlreadyAllocated");
    caller.post(&path, fixed("10.2.0.7")).await.expect(400);
    caller.post(&path, fixed("10.3.0.1")).await.expect(400);
    let mut given = Vec::new();
    for _ in 0..4 {
        let made = port(caller, &network, "p").await;
        given.push((made["fixed_ips"][0]["ip_address"].as_str().unwrap().to_owned(), made["id"].clone()));
    }
    let ips: Vec<&str> = given.iter().map(|(ip, _)| ip.as_str()).collect();
    assert_eq!(ips, ["10.2.0.2", "10.2.0.3", "10.2.0.5", "10.2.0.6"]);
    let full = caller.post(&path, json!({"port": {"network_id": network}})).await.expect(409);
    assert_eq!(full["NeutronError"]["type"], "IpAddressGenerationFailure");
    caller.delete(&format!("{path}/{}", given[1].1.as_str().unwrap())).await.expect(204);
    assert_eq!(port(caller, &network, "p").await["fixed_ips"][0]["ip_address"], "10.2.0.3");
}

#[tokio::test]
async fn what_others_hang_on_cannot_go_first() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let wired = wire(&cloud, &tenant, "n").await;
    let port = port(&tenant.member, &wired.network, "p").await;
    let port = port["id"].as_str().unwrap();
    let outside = cloud.sim.bootstrap().external_network;
    let floating = json!({"floatingip": {"floating_network_id": outside, "port_id": port}});
    let floating = tenant.member.post(&format!("{V2}/floatingips"), floating).await.expect(201)["floatingip"].clone();
    assert_eq!(floating["status"], "ACTIVE");
    let interface = format!("{V2}/routers/{}/remove_router_interface", wired.router);
    let own = tenant.manager.get(&format!("{V2}/ports?device_owner=network:router_interface")).await.expect(200);
    let own_port = own["ports"][0]["id"].as_str().unwrap();
    for (method, path, kind) in [
        ("DELETE", format!("{V2}/networks/{}", wired.network), "NetworkInUse"),
        ("DELETE", format!("{V2}/subnets/{}", wired.subnet), "SubnetInUse"),
        ("DELETE", format!("{V2}/routers/{}", wired.router), "RouterInUse"),
        ("PUT", interface.clone(), "RouterInterfaceInUseByFloatingIP"),
        ("DELETE", format!("{V2}/ports/{own_port}"), "ServicePortInUse"),
    ] {
        let answer = tenant.manager.send(method, &path, Some(&json!({"subnet_id": wired.subnet})), &[]).await;
        assert_eq!((answer.status, &answer.json["NeutronError"]["type"]), (409, &json!(kind)), "{method} {path}");
    }
    // The port goes, and its floating IP stays, pointing nowhere.
    tenant.member.delete(&format!("{V2}/ports/{port}")).await.expect(204);
    let path = format!("{V2}/floatingips/{}", floating["id"].as_str().unwrap());
    let left = tenant.member.get(&path).await.expect(200)["floatingip"].clone();
    assert_eq!((&left["status"], &left["port_id"], &left["router_id"]), (&json!("DOWN"), &Value::Null, &Value::Null));
    let in_use = tenant.manager.delete(&format!("{V2}/routers/{}", wired.router)).await.expect(409);
    assert_eq!(in_use["NeutronError"]["type"], "RouterInUse");
    tenant.member.delete(&path).await.expect(204);
    tenant.manager.put(&interface, json!({"subnet_id": wired.subnet})).await.expect(200);
    let again = tenant.manager.put(&interface, json!({"subnet_id": wired.subnet})).await.expect(404);
    assert_eq!(again["NeutronError"]["type"], "RouterInterfaceNotFoundForSubnet");
    for path in [format!("routers/{}", wired.router), format!("networks/{}", wired.network)] {
        tenant.manager.delete(&format!("{V2}/{path}")).await.expect(204);
    }
    let counts = cloud.sim.counts();
    let left: Vec<usize> =
        ["networks", "subnets", "routers", "ports", "network_ports", "floatingips"].map(|kind| counts[kind]).to_vec();
    assert_eq!(left, [1, 1, 0, 0, 0, 0], "only the external network is left");
}

#[tokio::test]
async fn a_floating_ip_needs_a_way_and_a_port_takes_one() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let wired = wire(&cloud, &tenant, "n").await;
    let caller = &tenant.member;
    let outside = cloud.sim.bootstrap().external_network;
    let path = format!("{V2}/floatingips");
    let body = |network: &str, port: Value| json!({"floatingip": {"floating_network_id": network, "port_id": port}});
    let bad = caller.post(&path, body(&wired.network, Value::Null)).await.expect(400);
    assert_eq!(bad["NeutronError"]["type"], "BadRequest");
    let port = port(caller, &wired.network, "p").await["id"].clone();
    caller.post(&path, body(&outside, port.clone())).await.expect(201);
    let second = caller.post(&path, body(&outside, port)).await.expect(409);
    assert_eq!(second["NeutronError"]["type"], "FloatingIPPortAlreadyAssociated");
    caller.post(&path, body(&outside, json!("feed"))).await.expect(404);

    let island = id(&caller.post(&format!("{V2}/networks"), json!({"network": {}})).await.expect(201), "network");
    let subnet = json!({"subnet": {"network_id": island, "ip_version": 4, "cidr": "10.7.0.0/24"}});
    caller.post(&format!("{V2}/subnets"), subnet).await.expect(201);
    let stranded = crate::client::port(caller, &island, "p").await["id"].clone();
    let unreachable = caller.post(&path, body(&outside, stranded)).await.expect(404);
    assert_eq!(unreachable["NeutronError"]["type"], "ExternalGatewayForFloatingIPNotFound");
    let held = cloud.sim.state()["ports"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| p["device_owner"] == "network:floatingip")
        .count();
    assert_eq!(held, 1, "a refused floating IP holds no address");
}

async fn rule(caller: &Caller, group: &str, rule: Value) -> (u16, String) {
    let mut body = json!({"security_group_id": group, "direction": "ingress"});
    body.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
    let answer = caller.post(&format!("{V2}/security-group-rules"), json!({"security_group_rule": body})).await;
    (answer.status, answer.json["NeutronError"]["type"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn security_group_rules_are_compared_by_what_they_let_pass_and_prefixes_by_how_they_are_written() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let caller = &tenant.member;
    let path = format!("{V2}/security-groups");
    let group =
        caller.post(&path, json!({"security_group": {"name": "g"}})).await.expect(201)["security_group"].clone();
    let defaults: Vec<(&Value, &Value)> = group["security_group_rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| (&rule["direction"], &rule["ethertype"]))
        .collect();
    assert_eq!(defaults, [(&json!("egress"), &json!("IPv4")), (&json!("egress"), &json!("IPv6"))]);
    let group = group["id"].as_str().unwrap();
    let tcp = |min: i64, max: i64| json!({"protocol": "tcp", "port_range_min": min, "port_range_max": max});
    let ok = (201, String::new());
    let exists = (409, "SecurityGroupRuleExists".to_owned());
    let bad = |kind: &str| (400, kind.to_owned());
    for (sent, wanted) in [
        (tcp(22, 22), &ok),
        (tcp(22, 22), &exists),
        (
            json!({"protocol": "6", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "0.0.0.0/0"}),
            &exists,
        ),
        (json!({"protocol": 6, "port_range_min": 22, "port_range_max": 22, "description": "x"}), &exists),
        (json!({"protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "10.0.0.9/8"}), &ok),
        (
            json!({"protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "10.0.0.9/8"}),
            &exists,
        ),
        (json!({"protocol": "vrrp"}), &ok),
        (json!({"protocol": "112"}), &exists),
        (json!({}), &ok),
        (json!({"direction": "egress"}), &exists),
        (tcp(23, 22), &bad("SecurityGroupInvalidPortRange")),
        (tcp(0, 22), &bad("SecurityGroupInvalidPortValue")),
        (json!({"port_range_min": 22, "port_range_max": 22}), &bad("SecurityGroupProtocolRequiredWithPorts")),
        (
            json!({"protocol": "vrrp", "port_range_min": 1, "port_range_max": 1}),
            &bad("SecurityGroupInvalidProtocolForPort"),
        ),
        (json!({"protocol": "nosuch"}), &bad("SecurityGroupRuleInvalidProtocol")),
        (json!({"remote_ip_prefix": "::/0"}), &bad("SecurityGroupRuleParameterConflict")),
        (json!({"remote_ip_prefix": "10.0.0.0/40"}), &bad("InvalidCIDR")),
        (json!({"security_group_id": "feed"}), &(404, "SecurityGroupNotFound".to_owned())),
    ] {
        assert_eq!(&rule(caller, group, sent.clone()).await, wanted, "{sent}");
    }

    let wired = wire(&cloud, &tenant, "n").await;
    let body = json!({"port": {"network_id": wired.network, "security_groups": [group]}});
    let port = id(&caller.post(&format!("{V2}/ports"), body).await.expect(201), "port");
    let used = caller.delete(&format!("{path}/{group}")).await.expect(409);
    assert_eq!(used["NeutronError"]["type"], "SecurityGroupInUse");
    caller.put(&format!("{V2}/ports/{port}"), json!({"port": {"security_groups": ["feed"]}})).await.expect(400);
    caller.put(&format!("{V2}/ports/{port}"), json!({"port": {"security_groups": []}})).await.expect(200);
    caller.delete(&format!("{path}/{group}")).await.expect(204);
    let default = caller.get(&format!("{path}?name=default")).await.expect(200);
    let default = default["security_groups"][0]["id"].as_str().unwrap().to_owned();
    caller.delete(&format!("{path}/{default}")).await.expect(409);
    caller.post(&path, json!({"security_group": {"name": "default"}})).await.expect(409);
    let counts = cloud.sim.counts();
    assert_eq!((counts["security_groups"], counts["security_group_rules"]), (0, 0));
}

#[tokio::test]
async fn an_address_pair_without_a_mac_takes_the_ports_own() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let wired = wire(&cloud, &tenant, "n").await;
    let port = port(&tenant.member, &wired.network, "p").await;
    let path = format!("{V2}/ports/{}", port["id"].as_str().unwrap());
    let pairs = json!({"port": {"allowed_address_pairs": [{"ip_address": "10.0.0.0/16"}]}});
    let changed = tenant.member.put(&path, pairs).await.expect(200);
    let wanted = json!([{"ip_address": "10.0.0.0/16", "mac_address": port["mac_address"]}]);
    assert_eq!(changed["port"]["allowed_address_pairs"], wanted);
    let bad = json!({"port": {"allowed_address_pairs": [{"mac_address": "fa:16:3e:00:00:01"}]}});
    let refused = tenant.member.put(&path, bad).await.expect(400);
    assert_eq!(refused["NeutronError"]["type"], "AllowedAddressPairsMissingIP");
}
