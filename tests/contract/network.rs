//! Neutron.

use weir_openstack::network::{
    AddressPair, FloatingIpFilter, Gateway, HostRoute, NewFloatingIp, NewNetwork, NewPort, NewSecurityGroup,
    NewSecurityGroupRule, NewSubnet, Port, PortFilter, PortUpdate, Quota, RouterUpdate, Segment, SubnetUpdate,
};
use weir_openstack::{Class, OrAbsent};

use crate::cloud::on_each_cloud;
use crate::tenant::{Tenant, refused, with_tenant};

const NOWHERE: &str = "00000000-0000-4000-8000-00000000dead";

/// Proves: NET-1, NET-10
#[tokio::test]
async fn a_network_is_built_and_taken_down_in_order_only() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            let net = tenant.network("network-a").await;
            let subnet = tenant.subnet(&net, "10.31.0.0/24").await;
            let router = tenant.router("network-a", true).await;
            assert_eq!(router.gateway.as_ref().unwrap().network_id, cloud.external_network());
            network.add_router_interface(&router.id, &subnet.id).await.unwrap();
            refused(network.add_router_interface(&router.id, &subnet.id).await, Class::BadRequest);

            let filter = PortFilter {
                network: Some(&net.id),
                device_owner: Some(Port::ROUTER_INTERFACE),
                ..PortFilter::default()
            };
            let ports = network.ports(&filter).await.unwrap();
            assert_eq!(ports.len(), 1);
            assert_eq!(ports[0].device_id, router.id.as_str());
            assert_eq!(ports[0].fixed_ips[0].ip_address, "10.31.0.1");

            let kind = |error: weir_openstack::Error| error.kind().unwrap_or_default().to_owned();
            let in_use = refused(network.delete_router(&router.id).await, Class::Conflict);
            assert_eq!(kind(in_use), "RouterInUse");
            let in_use = refused(network.delete_network(&net.id).await, Class::Conflict);
            assert_eq!(kind(in_use), "NetworkInUse");
            let in_use = refused(network.delete_subnet(&subnet.id).await, Class::Conflict);
            assert_eq!(kind(in_use), "SubnetInUse");

            network.remove_router_interface(&router.id, &subnet.id).await.unwrap();
            refused(network.remove_router_interface(&router.id, &subnet.id).await, Class::NotFound);
            network.delete_router(&router.id).await.unwrap();
            network.delete_subnet(&subnet.id).await.unwrap();
            network.delete_network(&net.id).await.unwrap();
            assert!(network.delete_router(&router.id).await.or_absent().unwrap().is_none());
            assert!(network.delete_subnet(&subnet.id).await.or_absent().unwrap().is_none());
            assert!(network.delete_network(&net.id).await.or_absent().unwrap().is_none());
            refused(network.network(&net.id).await, Class::NotFound);
            refused(network.subnet(&subnet.id).await, Class::NotFound);
            refused(network.router(&router.id).await, Class::NotFound);
            refused(network.remove_router_interface(&router.id, &subnet.id).await, Class::NotFound);
        })
        .await;
    })
    .await;
}

/// Proves: NET-2, NET-4
#[tokio::test]
async fn a_subnet_s_name_servers_and_routes_are_set_and_cleared_in_place() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            let net = tenant.network("network-a").await;
            let subnet = tenant.subnet(&net, "10.31.0.0/24").await;
            assert_eq!(subnet.gateway_ip, Some("10.31.0.1".parse().unwrap()));
            assert_eq!(subnet.cidr, "10.31.0.0/24");
            assert_eq!(subnet.allocation_pools[0].start, "10.31.0.128".parse::<std::net::IpAddr>().unwrap());
            let dns = ["9.9.9.9".to_owned(), "1.1.1.1".to_owned()];
            let routes = [HostRoute { destination: "10.99.0.0/16".into(), nexthop: "10.31.0.9".into() }];
            let both = SubnetUpdate { dns_nameservers: Some(&dns), host_routes: Some(&routes), ..Default::default() };
            network.update_subnet(&subnet.id, &both).await.unwrap();
            let read = network.subnet(&subnet.id).await.unwrap();
            assert_eq!((read.dns_nameservers.as_slice(), read.host_routes.as_slice()), (&dns[..], &routes[..]));
            let only = SubnetUpdate { host_routes: Some(&[]), ..Default::default() };
            let read = network.update_subnet(&subnet.id, &only).await.unwrap();
            assert_eq!((read.dns_nameservers.as_slice(), read.host_routes.len()), (&dns[..], 0));
            assert_eq!(network.subnets(&net.id).await.unwrap().len(), 1);
            assert_eq!(network.find_subnet_by_name("network-a").await.unwrap().unwrap().id, subnet.id);

            let bad = NewSubnet {
                name: "bad",
                description: "",
                network_id: &net.id,
                ip_version: 4,
                cidr: "10.31.0.0/24",
                gateway_ip: "10.31.0.1".parse().unwrap(),
                allocation_pools: &[],
                dns_nameservers: &[],
                host_routes: &[],
            };
            refused(network.create_subnet(&bad).await, Class::BadRequest);
            let lost = NewSubnet {
                network_id: &NOWHERE.into(),
                cidr: "10.32.0.0/24",
                gateway_ip: "10.32.0.1".parse().unwrap(),
                ..bad
            };
            refused(network.create_subnet(&lost).await, Class::NotFound);
        })
        .await;
    })
    .await;
}

/// Proves: NET-5
#[tokio::test]
async fn a_router_s_way_out_is_opened_and_closed() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            let router = tenant.router("network-a", false).await;
            assert!(router.gateway.is_none());
            let gateway = Gateway { network_id: cloud.external_network() };
            let open = RouterUpdate { gateway: Some(Some(&gateway)) };
            assert_eq!(network.update_router(&router.id, &open).await.unwrap().gateway.as_ref(), Some(&gateway));
            assert_eq!(network.router(&router.id).await.unwrap().gateway, Some(gateway));
            let close = RouterUpdate { gateway: Some(None) };
            assert!(network.update_router(&router.id, &close).await.unwrap().gateway.is_none());
            let missing = Gateway { network_id: NOWHERE.into() };
            let missing = RouterUpdate { gateway: Some(Some(&missing)) };
            assert!(network.update_router(&router.id, &missing).await.is_err());
        })
        .await;
    })
    .await;
}

/// Proves: OSC-5, OSC-6
#[tokio::test]
async fn names_find_exactly_themselves_and_lists_are_read_to_the_end() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            let names = ["abc", "a.c", "A.C", "a.cd", "twice", "twice", "a*c"];
            for name in names {
                tenant.network(name).await;
            }
            for name in ["abc", "a.c", "A.C", "a.cd", "a*c"] {
                assert_eq!(network.find_network_by_name(name).await.unwrap().unwrap().name, name);
            }
            for name in ["a", "ab", "a.", "^a.c$", ".*", "abcd", "ABC"] {
                assert!(network.find_network_by_name(name).await.unwrap().is_none(), "{name}");
            }
            refused(network.find_network_by_name("twice").await, Class::Inconsistent);
            for size in [1, 2, 3, 7, 8] {
                let small = tenant.member.clone().with_page_size(size);
                let mut listed: Vec<String> =
                    small.network().networks().await.unwrap().into_iter().map(|net| net.name).collect();
                listed.sort();
                let mut expected = names;
                expected.sort_unstable();
                assert_eq!(listed, expected, "in pages of {size}");
            }
            assert_eq!(network.networks().await.unwrap().len(), names.len());
        })
        .await;
    })
    .await;
}

/// Proves: SRV-5
#[tokio::test]
async fn a_port_s_groups_and_address_pairs_are_set_and_cleared_in_place() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            let net = tenant.network("network-a").await;
            tenant.subnet(&net, "10.31.0.0/24").await;
            let group = |name| NewSecurityGroup { name, description: "" };
            let a = network.create_security_group(&group("securitygroup-a")).await.unwrap().id;
            let b = network.create_security_group(&group("securitygroup-b")).await.unwrap().id;
            let pair = AddressPair { ip_address: "10.31.0.200".into(), mac_address: None };
            let port = NewPort {
                name: "server-a",
                description: "d",
                network_id: &net.id,
                security_groups: Some(std::slice::from_ref(&a)),
                allowed_address_pairs: std::slice::from_ref(&pair),
            };
            let port = network.create_port(&port).await.unwrap();
            assert_eq!(port.security_groups, std::slice::from_ref(&a));
            assert_eq!(port.allowed_address_pairs[0].ip_address, pair.ip_address);
            assert_eq!(port.allowed_address_pairs[0].mac_address.as_deref(), Some(port.mac_address.as_str()));
            assert!(port.fixed_ips[0].ip_address.starts_with("10.31.0."));
            let to_b = PortUpdate { security_groups: Some(std::slice::from_ref(&b)), ..Default::default() };
            let read = network.update_port(&port.id, &to_b).await.unwrap();
            assert_eq!((read.security_groups, read.allowed_address_pairs.len()), (vec![b.clone()], 1));
            let clear = PortUpdate { security_groups: Some(&[]), allowed_address_pairs: Some(&[]) };
            let read = network.update_port(&port.id, &clear).await.unwrap();
            assert!(read.security_groups.is_empty() && read.allowed_address_pairs.is_empty());
            assert_eq!(network.find_port_by_name("server-a").await.unwrap().unwrap().id, port.id);
            assert_eq!(network.port(&port.id).await.unwrap().network_id, net.id);
            let on_net = PortFilter { network: Some(&net.id), ..Default::default() };
            assert_eq!(
                network.visible_ports(&on_net).await.unwrap().len(),
                network.ports(&on_net).await.unwrap().len()
            );
            network.delete_port(&port.id).await.unwrap();
            refused(network.delete_port(&port.id).await, Class::NotFound);
            let lost = NewPort {
                name: "lost",
                description: "",
                network_id: &NOWHERE.into(),
                security_groups: None,
                allowed_address_pairs: &[],
            };
            refused(network.create_port(&lost).await, Class::NotFound);
        })
        .await;
    })
    .await;
}

/// Proves: SEC-2, SEC-4, SEC-5
#[tokio::test]
async fn a_security_group_starts_with_two_rules_and_refuses_doubles() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            let group = NewSecurityGroup { name: "securitygroup-a", description: "d" };
            let group = network.create_security_group(&group).await.unwrap();
            let mut defaults: Vec<_> =
                group.rules.iter().map(|rule| (rule.direction.as_str(), rule.ethertype.as_str())).collect();
            defaults.sort_unstable();
            assert_eq!(defaults, [("egress", "IPv4"), ("egress", "IPv6")]);
            assert!(group.rules.iter().all(|rule| rule.protocol.is_none() && rule.remote_ip_prefix.is_none()));

            let ssh = NewSecurityGroupRule {
                security_group_id: &group.id,
                direction: "ingress",
                ethertype: "IPv4",
                protocol: Some("tcp"),
                port_range_min: Some(22),
                port_range_max: Some(22),
                remote_ip_prefix: Some("10.0.0.0/8"),
                description: "unikorn managed security group rule",
            };
            let rule = network.create_security_group_rule(&ssh).await.unwrap();
            assert_eq!((rule.protocol.as_deref(), rule.port_range_min), (Some("tcp"), Some(22)));
            let exists = refused(network.create_security_group_rule(&ssh).await, Class::Conflict);
            assert_eq!(exists.kind(), Some("SecurityGroupRuleExists"));
            for protocol in [None, Some("icmp"), Some("udp"), Some("vrrp"), Some("112")] {
                let other = NewSecurityGroupRule {
                    protocol,
                    port_range_min: None,
                    port_range_max: None,
                    remote_ip_prefix: None,
                    ..ssh.clone()
                };
                match network.create_security_group_rule(&other).await {
                    Ok(made) => assert_eq!(made.direction, "ingress"),
                    // The number of a protocol is its name.
                    Err(error) => assert_eq!((protocol, error.kind()), (Some("112"), Some("SecurityGroupRuleExists"))),
                }
            }
            let upside_down =
                NewSecurityGroupRule { port_range_min: Some(90), port_range_max: Some(80), ..ssh.clone() };
            refused(network.create_security_group_rule(&upside_down).await, Class::BadRequest);

            network.delete_security_group_rule(&rule.id).await.unwrap();
            refused(network.delete_security_group_rule(&rule.id).await, Class::NotFound);
            let found = network.find_security_group_by_name("securitygroup-a").await.unwrap().unwrap();
            assert!(found.rules.iter().all(|other| other.id != rule.id));
            assert_eq!(network.security_group(&group.id).await.unwrap().rules.len(), found.rules.len());

            let net = tenant.network("network-a").await;
            tenant.subnet(&net, "10.31.0.0/24").await;
            let port = tenant.port("server-a", &net).await;
            let join = PortUpdate { security_groups: Some(std::slice::from_ref(&group.id)), ..Default::default() };
            network.update_port(&port.id, &join).await.unwrap();
            let in_use = refused(network.delete_security_group(&group.id).await, Class::Conflict);
            assert_eq!(in_use.kind(), Some("SecurityGroupInUse"));
            network.delete_port(&port.id).await.unwrap();
            network.delete_security_group(&group.id).await.unwrap();
            refused(network.security_group(&group.id).await, Class::NotFound);
        })
        .await;
    })
    .await;
}

async fn port_behind_a_router(tenant: &Tenant<'_>) -> Port {
    let network = tenant.member.network();
    let net = tenant.network("network-a").await;
    let subnet = tenant.subnet(&net, "10.31.0.0/24").await;
    let router = tenant.router("network-a", true).await;
    network.add_router_interface(&router.id, &subnet.id).await.unwrap();
    tenant.port("server-a", &net).await
}

/// Proves: SRV-6
#[tokio::test]
async fn a_floating_ip_is_found_by_its_port_and_a_port_has_one_at_most() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            let port = port_behind_a_router(tenant).await;
            let external = cloud.external_network();
            let new =
                NewFloatingIp { floating_network_id: &external, port_id: Some(&port.id), description: "server-a" };
            let ip = network.create_floating_ip(&new).await.unwrap();
            assert_eq!((ip.port_id.as_ref(), ip.description.as_str()), (Some(&port.id), "server-a"));
            assert_eq!(ip.fixed_ip_address.as_deref(), Some(port.fixed_ips[0].ip_address.as_str()));
            refused(network.create_floating_ip(&new).await, Class::Conflict);
            let on_port = FloatingIpFilter { port: Some(&port.id) };
            assert_eq!(network.floating_ips(&on_port).await.unwrap().len(), 1);

            assert!(network.associate_floating_ip(&ip.id, None).await.unwrap().port_id.is_none());
            assert!(network.floating_ips(&on_port).await.unwrap().is_empty());
            network.associate_floating_ip(&ip.id, Some(&port.id)).await.unwrap();
            network.delete_port(&port.id).await.unwrap();
            assert!(
                network.floating_ip(&ip.id).await.unwrap().port_id.is_none(),
                "a port's end leaves its floating IP"
            );
            network.delete_floating_ip(&ip.id).await.unwrap();
            refused(network.delete_floating_ip(&ip.id).await, Class::NotFound);
            let lost = NewFloatingIp { floating_network_id: &NOWHERE.into(), port_id: None, description: "" };
            assert!(network.create_floating_ip(&lost).await.is_err());
        })
        .await;
    })
    .await;
}

/// Proves: SRV-6
#[tokio::test]
async fn a_floating_ip_needs_a_router_between_port_and_external_network() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let net = tenant.network("network-a").await;
            tenant.subnet(&net, "10.31.0.0/24").await;
            let port = tenant.port("server-a", &net).await;
            let external = cloud.external_network();
            let new = NewFloatingIp { floating_network_id: &external, port_id: Some(&port.id), description: "" };
            refused(tenant.member.network().create_floating_ip(&new).await, Class::NotFound);
        })
        .await;
    })
    .await;
}

/// Proves: NET-7, NET-8, OPS-14
#[tokio::test]
async fn a_provider_network_takes_the_manager_s_privilege_and_its_vlan_reads_back() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let physical = cloud.facts.physical_networks[0].as_str();
            let manager = tenant.manager();
            // Any free one will do; tests run side by side.
            let mut made = None;
            for id in (3000..3900).step_by(7) {
                let vlan = [Segment::vlan(physical, id)];
                let new =
                    NewNetwork { name: "network-a", description: "unikorn managed provider network", segments: &vlan };
                refused(tenant.member.network().create_network(&new).await, Class::Forbidden);
                match manager.network().create_network(&new).await {
                    Ok(network) => {
                        let again = NewNetwork { name: "network-b", ..new };
                        refused(manager.network().create_network(&again).await, Class::Conflict);
                        made = Some((network, id));
                        break;
                    }
                    Err(error) => assert_eq!(error.class(), Class::Conflict, "{}", error.detail()),
                }
            }
            let (network, id) = made.expect("a free VLAN");
            let read = manager.network().find_network_by_name("network-a").await.unwrap().unwrap();
            assert_eq!(read.segment().unwrap(), &Segment::vlan(physical, id));
            assert_eq!(read.project_id.as_ref(), Some(&tenant.project));
            let seen = tenant.member.network().network(&network.id).await.unwrap();
            assert!(seen.segment().is_none(), "a member does not see how a network is carried");
        })
        .await;
    })
    .await;
}

/// Proves: EXT-1
#[tokio::test]
async fn external_networks_are_listed_in_a_stable_order() {
    on_each_cloud(async |cloud| {
        let inventory = cloud.inventory();
        let listed = inventory.network().external_networks().await.unwrap();
        assert!(listed.iter().any(|network| network.id == cloud.external_network()));
        assert!(listed.iter().all(|network| network.external));
        assert!(listed.is_sorted_by_key(|network| &network.id));
        let extensions = inventory.network().extensions().await.unwrap();
        for alias in ["router", "security-group", "quotas", "provider"] {
            assert!(extensions.iter().any(|extension| extension == alias), "{alias}");
        }
    })
    .await;
}

/// Proves: IDN-5, OSC-7
#[tokio::test]
async fn the_manager_sets_a_project_s_limits_and_they_hold() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let manager = tenant.manager();
            let none = Some(-1);
            let unlimited = Quota {
                network: none,
                subnet: none,
                subnetpool: none,
                port: none,
                router: none,
                floatingip: none,
                security_group: none,
                security_group_rule: none,
                rbac_policy: none,
            };
            manager.network().set_quotas(&tenant.project, &unlimited).await.unwrap();
            assert_eq!(manager.network().quotas(&tenant.project).await.unwrap(), unlimited);
            let one = Quota { network: Some(0), ..Default::default() };
            manager.network().set_quotas(&tenant.project, &one).await.unwrap();
            let new = NewNetwork { name: "network-a", description: "", segments: &[] };
            refused(tenant.member.network().create_network(&new).await, Class::QuotaExceeded);
            let read = manager.network().quotas(&tenant.project).await.unwrap();
            assert_eq!((read.network, read.port), (Some(0), none), "what was not sent is as it was");
        })
        .await;
    })
    .await;
}
