//! Quotas: who sets them, and what they stop.

use serde_json::{Value, json};

use crate::client::{Cloud, id, server_body, wire};

#[tokio::test]
async fn the_regions_user_sets_a_projects_quotas_in_that_project_and_no_other_manager_does() {
    let cloud = Cloud::start().await;
    let (one, two) = (cloud.tenant("one").await, cloud.tenant("two").await);
    cloud.grant(&cloud.region().await, &one.project, &one.user, "manager").await.expect(204);
    let ordinary = cloud.caller(&one.user, "pass word", json!({"project": {"id": one.project}})).await;
    let paths = |project: &str| {
        [
            (format!("/compute/v2.1/os-quota-sets/{project}"), json!({"quota_set": {"instances": -1}}), "quota_set"),
            (format!("/network/v2.0/quotas/{project}"), json!({"quota": {"port": -1}}), "quota"),
            (format!("/volume/v3/os-quota-sets/{project}"), json!({"quota_set": {"volumes": -1}}), "quota_set"),
        ]
    };
    for (path, body, key) in paths(&one.project) {
        two.member.put(&path, body.clone()).await.expect(403);
        ordinary.put(&path, body.clone()).await.expect(403);
        two.manager.put(&path, body.clone()).await.expect(403);
        two.member.get(&path).await.expect(403);
        let set = one.manager.put(&path, body.clone()).await.expect(200);
        let name = body[key].as_object().unwrap().keys().next().unwrap();
        assert_eq!(set[key][name], -1, "{path}");
        assert_eq!(one.member.get(&path).await.expect(200)[key][name], -1, "{path}");
        one.manager.put(&path, json!({key: {"nosuch": 1}})).await.expect(400);
        one.manager.put(&path, json!({key: {name: -2}})).await.expect(400);
    }
}

#[tokio::test]
async fn too_much_is_refused_in_each_services_own_way() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let wired = wire(&cloud, &tenant, "lan").await;
    let outside = cloud.sim.bootstrap().external_network;
    let network = "/network/v2.0";
    let quotas = format!("{network}/quotas/{}", tenant.project);
    let ports = cloud.sim.state()["ports"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| p["project_id"] == tenant.project.as_str())
        .count();
    let limits = json!({"quota": {
        "network": 1, "subnet": 1, "router": 1, "port": ports, "floatingip": 0, "security_group": 1, "security_group_rule": 4,
    }});
    tenant.manager.put(&quotas, limits).await.expect(200);
    let default = tenant.member.get(&format!("{network}/security-groups")).await.expect(200);
    let group = default["security_groups"][0]["id"].clone();
    for (path, body, resource) in [
        ("networks", json!({"network": {}}), "network"),
        ("subnets", json!({"subnet": {"network_id": wired.network, "ip_version": 4, "cidr": "10.9.0.0/24"}}), "subnet"),
        ("routers", json!({"router": {}}), "router"),
        ("ports", json!({"port": {"network_id": wired.network}}), "port"),
        ("floatingips", json!({"floatingip": {"floating_network_id": outside}}), "floatingip"),
        ("security-groups", json!({"security_group": {"name": "g"}}), "security_group"),
        (
            "security-group-rules",
            json!({"security_group_rule": {"security_group_id": group, "direction": "ingress", "protocol": "vrrp"}}),
            "security_group_rule",
        ),
    ] {
        let answer = tenant.member.post(&format!("{network}/{path}"), body).await.expect(409);
        let message = format!("Quota exceeded for resources: ['{resource}'].");
        assert_eq!(answer, json!({"NeutronError": {"type": "OverQuota", "message": message, "detail": ""}}));
    }

    let caller = &tenant.member;
    let nova = format!("/os-quota-sets/{}", tenant.project);
    let set = async |body: Value| {
        tenant.manager.nova("PUT", &nova, Some(json!({"quota_set": body}))).await.expect(200);
    };
    let create = async || caller.nova("POST", "/servers", Some(server_body(&cloud, "s", &json!("none")))).await;
    id(&create().await.expect(202), "server");
    for (limits, message) in [
        (json!({"cores": 1}), "Quota exceeded for cores: Requested 1, but already used 1 of 1 cores"),
        (
            json!({"cores": -1, "instances": 1}),
            "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances",
        ),
        (
            json!({"instances": -1, "ram": 300}),
            "Quota exceeded for ram: Requested 256, but already used 256 of 300 ram",
        ),
    ] {
        set(limits).await;
        assert_eq!(create().await.expect(403), json!({"forbidden": {"code": 403, "message": message}}));
    }
    set(json!({"ram": -1, "server_groups": 0, "key_pairs": 0})).await;
    create().await.expect(202);
    let group = json!({"server_group": {"name": "g", "policy": "affinity"}});
    caller.nova("POST", "/os-server-groups", Some(group)).await.expect(403);
    let below = json!({"quota_set": {"instances": 1}});
    tenant.manager.nova("PUT", &nova, Some(below)).await.expect(400);
}
