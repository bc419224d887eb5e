//! Nova.

use std::time::Duration;

use serde_json::{Value, json};
use weir_openstack_sim::{Config, Failure, Fault};

use crate::client::{Caller, Cloud, Tenant, id, port, server, server_body, wire};

/// A cloud whose clock stands still, so that every state can be looked at.
async fn frozen() -> (Cloud, Tenant) {
    let build = Duration::from_secs(10);
    let cloud = Cloud::with(Config { build, delete: build, ..Config::default() }).await;
    let tenant = cloud.tenant("one").await;
    cloud.sim.freeze();
    (cloud, tenant)
}

async fn show(caller: &Caller, id: &str) -> Value {
    caller.nova("GET", &format!("/servers/{id}"), None).await.expect(200)["server"].clone()
}

async fn state(caller: &Caller, id: &str) -> (String, Option<String>) {
    let server = show(caller, id).await;
    (server["status"].as_str().unwrap().to_owned(), server["OS-EXT-STS:task_state"].as_str().map(str::to_owned))
}

fn at(status: &str, task: Option<&str>) -> (String, Option<String>) {
    (status.to_owned(), task.map(str::to_owned))
}

#[tokio::test]
async fn a_server_builds_in_stages_takes_its_port_and_gives_it_back() {
    let (cloud, tenant) = frozen().await;
    let wired = wire(&cloud, &tenant, "lan").await;
    let caller = &tenant.member;
    let port = port(caller, &wired.network, "p").await;
    let port_id = port["id"].as_str().unwrap();
    let id = server(&cloud, caller, "web", &json!([{"port": port_id}])).await;
    for (seconds, status, task) in [
        (0, "BUILD", Some("scheduling")),
        (2, "BUILD", None),
        (2, "BUILD", Some("networking")),
        (2, "BUILD", Some("spawning")),
    ] {
        cloud.sim.advance(Duration::from_secs(seconds));
        assert_eq!(state(caller, &id).await, at(status, task));
        assert_eq!(show(caller, &id).await["OS-SRV-USG:launched_at"], Value::Null);
    }
    cloud.sim.advance(Duration::from_secs(5));
    let up = show(caller, &id).await;
    assert_eq!((&up["status"], &up["OS-EXT-STS:power_state"]), (&json!("ACTIVE"), &json!(1)));
    assert!(up["OS-SRV-USG:launched_at"].is_string());
    assert_eq!(up["addresses"]["lan"][0]["addr"], port["fixed_ips"][0]["ip_address"]);
    assert_eq!(up["addresses"]["lan"][0]["OS-EXT-IPS-MAC:mac_addr"], port["mac_address"]);
    assert!(up.get("OS-EXT-SRV-ATTR:host").is_none(), "where it runs is for administrators");
    let plugged = caller.get(&format!("/network/v2.0/ports/{port_id}")).await.expect(200)["port"].clone();
    assert_eq!((&plugged["device_id"], &plugged["status"]), (&json!(id), &json!("ACTIVE")));
    assert_eq!(plugged["device_owner"], "compute:nova");

    caller.nova("DELETE", &format!("/servers/{id}"), None).await.expect(204);
    assert_eq!(state(caller, &id).await, at("ACTIVE", Some("deleting")));
    caller.nova("DELETE", &format!("/servers/{id}"), None).await.expect(204);
    cloud.sim.advance(Duration::from_secs(9));
    assert_eq!(state(caller, &id).await, at("DELETED", None));
    assert_eq!(caller.nova("GET", "/servers/detail", None).await.expect(200)["servers"], json!([]));
    cloud.sim.advance(Duration::from_secs(1));
    let gone = caller.nova("GET", &format!("/servers/{id}"), None).await.expect(404);
    assert_eq!(gone, json!({"itemNotFound": {"code": 404, "message": format!("Instance {id} could not be found.")}}));
    let left = caller.get(&format!("/network/v2.0/ports/{port_id}")).await.expect(200)["port"].clone();
    assert_eq!((&left["device_id"], &left["status"]), (&json!(""), &json!("DOWN")), "the user's port stays, unplugged");
}

#[tokio::test]
async fn the_name_filter_is_a_regular_expression_without_anchors_or_case() {
    let (cloud, tenant) = frozen().await;
    let caller = &tenant.member;
    for name in ["web", "web2", "we.b", "WEB"] {
        server(&cloud, caller, name, &json!("none")).await;
    }
    let list = async |query: &str| {
        let body = caller.nova("GET", &format!("/servers?{query}"), None).await.expect(200);
        let mut names: Vec<String> =
            body["servers"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(list("name=web").await, ["web", "web2"], "what the scheduler still has is compared with case");
    cloud.sim.advance(Duration::from_secs(10));
    for (query, wanted) in [
        ("name=web", vec!["WEB", "web", "web2"]),
        ("name=^web$", vec!["WEB", "web"]),
        ("name=we.b", vec!["we.b"]),
        ("name=eb2", vec!["web2"]),
        ("name=web2%7Cwe.b", vec![]),
        ("status=ACTIVE&name=^we\\.b$", vec!["we.b"]),
    ] {
        assert_eq!(list(query).await, wanted, "{query}");
    }
    for (query, message) in [
        ("name=[bad", "Invalid input for query parameters name. Value: [bad. '[bad' is not a 'regex'"),
        ("name=", "Invalid input for query parameters name. Value: . '' is not a 'regex'"),
        ("status=NOSUCH", "Invalid status value"),
        ("nosuch=1", "'nosuch' does not match any of the regexes: '^_'"),
        ("marker=nosuch", "marker [nosuch] not found"),
    ] {
        let answer = caller.nova("GET", &format!("/servers?{query}"), None).await.expect(400);
        assert_eq!(answer, json!({"badRequest": {"code": 400, "message": message}}), "{query}");
    }
    caller.get("/compute/v2.1/servers?nosuch=1").await.expect(200);
    caller.nova("GET", "/servers?all_tenants=1", None).await.expect(403);
}

#[tokio::test]
async fn servers_page_newest_first_and_every_full_page_says_there_is_more() {
    let cloud = Cloud::with(Config { page: 3, build: Duration::ZERO, ..Config::default() }).await;
    let tenant = cloud.tenant("one").await;
    let caller = &tenant.member;
    for n in 0..4 {
        server(&cloud, caller, &format!("s{n}"), &json!("none")).await;
    }
    for (query, wanted) in [("limit=2", vec![2, 2, 0]), ("x=1", vec![3, 1])] {
        let mut path = format!("/compute/v2.1/servers?{query}");
        let (mut sizes, mut names) = (Vec::new(), Vec::new());
        loop {
            let page = caller.get(&path).await.expect(200);
            let rows = page["servers"].as_array().unwrap();
            sizes.push(rows.len());
            names.extend(rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()));
            match page["servers_links"][0]["href"].as_str() {
                Some(next) => next.clone_into(&mut path),
                None => break,
            }
        }
        assert_eq!((sizes, names), (wanted, ["s3", "s2", "s1", "s0"].map(str::to_owned).to_vec()), "{query}");
    }
}

#[tokio::test]
async fn a_server_is_its_projects_own() {
    let (cloud, tenant) = frozen().await;
    let other = cloud.tenant("two").await;
    let id = server(&cloud, &tenant.member, "web", &json!("none")).await;
    for (method, path, body) in [
        ("GET", format!("/servers/{id}"), None),
        ("DELETE", format!("/servers/{id}"), None),
        ("POST", format!("/servers/{id}/action"), Some(json!({"os-stop": null}))),
    ] {
        other.member.nova(method, &path, body).await.expect(404);
    }
    assert_eq!(other.member.nova("GET", "/servers", None).await.expect(200)["servers"], json!([]));
    cloud.region().await.nova("GET", "/servers", None).await.expect(403);
    let wired = wire(&cloud, &tenant, "lan").await;
    let foreign = port(&tenant.member, &wired.network, "p").await;
    for networks in [json!([{"port": foreign["id"]}]), json!([{"uuid": wired.network}])] {
        let answer = other.member.nova("POST", "/servers", Some(server_body(&cloud, "x", &networks))).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
}

#[tokio::test]
async fn a_create_is_checked_before_anything_is_made() {
    let (cloud, tenant) = frozen().await;
    let wired = wire(&cloud, &tenant, "lan").await;
    let caller = &tenant.member;
    let images = cloud.sim.bootstrap().images;
    let feed = "feedfeed-feed-4eed-8eed-feedfeedfeed";
    let with = |key: &str, value: Value| {
        let mut body = server_body(&cloud, "web", &json!([{"uuid": wired.network}]));
        body["server"][key] = value;
        body
    };
    let mut nameless = with("name", json!("x"));
    nameless["server"].as_object_mut().unwrap().remove("name");
    for (what, body, status, part) in [
        ("no name", nameless, 400, "'name' is a required property"),
        ("an empty name", with("name", json!("")), 400, "name"),
        ("an unknown flavor", with("flavorRef", json!(feed)), 400, "Flavor"),
        ("an unknown image", with("imageRef", json!(feed)), 400, "Can not find requested image"),
        ("an image too big", with("imageRef", json!(images[3].0)), 400, "Flavor's memory is too small"),
        ("an unknown key", with("key_name", json!("nosuch")), 400, "Invalid key_name provided."),
        ("an unknown field", with("nosuch", json!(1)), 400, "Additional properties are not allowed"),
        ("an unknown network", with("networks", json!([{"uuid": feed}])), 400, "Network"),
        ("an unknown port", with("networks", json!([{"port": feed}])), 400, "Port"),
        ("metadata that is no text", with("metadata", json!({"a": 1})), 400, "is not of type 'string'"),
        ("long user data", with("user_data", json!("A".repeat(65_536))), 400, "user_data"),
        (
            "an unknown zone",
            with("availability_zone", json!("x")),
            400,
            "The requested availability zone is not available",
        ),
        ("a bad tag", with("tags", json!(["a/b"])), 400, "does not match"),
        ("a pinned host", with("hypervisor_hostname", json!("sim-compute-1")), 403, "requested_destination"),
    ] {
        let answer = caller.nova("POST", "/servers", Some(body)).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text);
        let kind = if status == 400 { "badRequest" } else { "forbidden" };
        assert!(answer.json[kind]["message"].as_str().unwrap().contains(part), "{what}: {}", answer.text);
    }
    let counts = cloud.sim.counts();
    assert_eq!((counts["servers"], counts["ports"]), (0, 0));
    caller.nova("POST", "/servers", Some(with("user_data", json!("A".repeat(65_532))))).await.expect(202);

    let pinned = |host: &str| with("hypervisor_hostname", json!(host));
    tenant.manager.nova("POST", "/servers", Some(pinned("nosuch"))).await.expect(400);
    let id = id(&tenant.manager.nova("POST", "/servers", Some(pinned("sim-compute-2"))).await.expect(202), "server");
    cloud.sim.advance(Duration::from_secs(10));
    let seen = cloud.admin().await.nova("GET", &format!("/servers/{id}"), None).await.expect(200);
    assert_eq!(seen["server"]["OS-EXT-SRV-ATTR:hypervisor_hostname"], "sim-compute-2");
}

#[tokio::test]
async fn a_rebuild_flips_image_and_task_together_and_one_runs_at_a_time() {
    let (cloud, tenant) = frozen().await;
    let caller = &tenant.member;
    let images = cloud.sim.bootstrap().images;
    let id = server(&cloud, caller, "web", &json!("none")).await;
    let rebuild = |image: &str| {
        let body = json!({"rebuild": {"imageRef": image}});
        let path = format!("/servers/{id}/action");
        async move { caller.nova("POST", &path, Some(body)).await }
    };
    let busy = rebuild(&images[1].0).await.expect(409);
    assert!(busy["conflictingRequest"]["message"].as_str().unwrap().starts_with("Cannot 'rebuild' instance"));
    cloud.sim.advance(Duration::from_secs(10));
    let launched = show(caller, &id).await["OS-SRV-USG:launched_at"].clone();
    let answer = rebuild(&images[1].0).await.expect(202);
    assert_eq!(
        (&answer["server"]["status"], &answer["server"]["image"]["id"]),
        (&json!("REBUILD"), &json!(images[1].0))
    );
    let during = show(caller, &id).await;
    assert_eq!(during["image"]["id"], images[1].0);
    assert_eq!(during["OS-EXT-STS:task_state"], "rebuilding");
    assert_eq!(during["OS-SRV-USG:launched_at"], launched);
    let second = rebuild(&images[0].0).await.expect(409);
    assert!(
        second["conflictingRequest"]["message"].as_str().unwrap().ends_with("while it is in task_state rebuilding")
    );
    cloud.sim.advance(Duration::from_secs(5));
    assert_eq!(state(caller, &id).await, at("REBUILD", Some("rebuild_spawning")));
    cloud.sim.advance(Duration::from_secs(5));
    assert_eq!(state(caller, &id).await, at("ACTIVE", None));
    assert_ne!(show(caller, &id).await["OS-SRV-USG:launched_at"], launched);
    rebuild("feedfeed-feed-4eed-8eed-feedfeedfeed").await.expect(400);
    rebuild(&images[3].0).await.expect(400);

    // No host: the image flips back. A failure on the host: it stays.
    for (failure, after) in [(Failure::NoHost, &images[1].0), (Failure::Spawn, &images[2].0)] {
        cloud
            .sim
            .faults()
            .add(Fault::new(weir_openstack_sim::Action::Server(failure)).on("POST", "/action$").times(1))
            .unwrap();
        rebuild(&images[2].0).await.expect(202);
        assert_eq!(show(caller, &id).await["image"]["id"], images[2].0);
        cloud.sim.advance(Duration::from_secs(10));
        let failed = show(caller, &id).await;
        assert_eq!((&failed["status"], &failed["image"]["id"]), (&json!("ERROR"), &json!(after)), "{failure:?}");
        assert_eq!(failed["fault"]["code"], 500);
    }
    rebuild(&images[0].0).await.expect(202);
    cloud.sim.advance(Duration::from_secs(10));
    assert_eq!(state(caller, &id).await, at("ACTIVE", None));
}

#[tokio::test]
async fn power_goes_off_and_on_and_a_stopped_server_stays_stopped_through_a_rebuild() {
    let (cloud, tenant) = frozen().await;
    let caller = &tenant.member;
    let id = server(&cloud, caller, "web", &json!("none")).await;
    cloud.sim.advance(Duration::from_secs(10));
    let act = |body: Value| {
        let path = format!("/servers/{id}/action");
        async move { caller.nova("POST", &path, Some(body)).await }
    };
    let early = server(&cloud, caller, "early", &json!("none")).await;
    let stop = Some(json!({"os-stop": null}));
    caller.nova("POST", &format!("/servers/{early}/action"), stop).await.expect(404);
    let wrong = act(json!({"os-start": null})).await.expect(409);
    assert_eq!(
        wrong["conflictingRequest"]["message"],
        format!("Cannot 'start' instance {id} while it is in vm_state active")
    );
    for (body, during, after) in [
        (json!({"reboot": {"type": "SOFT"}}), at("REBOOT", Some("rebooting")), at("ACTIVE", None)),
        (json!({"reboot": {"type": "HARD"}}), at("HARD_REBOOT", Some("rebooting_hard")), at("ACTIVE", None)),
        (json!({"os-stop": null}), at("ACTIVE", Some("powering-off")), at("SHUTOFF", None)),
    ] {
        act(body.clone()).await.expect(202);
        assert_eq!(state(caller, &id).await, during, "{body}");
        cloud.sim.advance(Duration::from_secs(5));
        assert_eq!(state(caller, &id).await, after, "{body}");
    }
    act(json!({"rebuild": {"imageRef": cloud.sim.bootstrap().images[1].0}})).await.expect(202);
    cloud.sim.advance(Duration::from_secs(10));
    assert_eq!(state(caller, &id).await, at("ACTIVE", Some("powering-off")));
    cloud.sim.advance(Duration::from_secs(5));
    assert_eq!(state(caller, &id).await, at("SHUTOFF", None));
    act(json!({"os-start": null})).await.expect(202);
    cloud.sim.advance(Duration::from_secs(5));
    assert_eq!(state(caller, &id).await, at("ACTIVE", None));
    act(json!({"nosuch": null})).await.expect(400);
}

#[tokio::test]
async fn a_build_that_fails_says_why_and_leaves_the_port_free() {
    let (cloud, tenant) = frozen().await;
    let wired = wire(&cloud, &tenant, "lan").await;
    let caller = &tenant.member;
    let port = port(caller, &wired.network, "p").await["id"].clone();
    for (fail, part) in [("spawn", "aborted"), ("no-valid-host", "No valid host was found.")] {
        let mut body = server_body(&cloud, "web", &json!([{"port": port}]));
        body["server"]["metadata"] = json!({"sim-fail": fail});
        let id = id(&caller.nova("POST", "/servers", Some(body)).await.expect(202), "server");
        cloud.sim.advance(Duration::from_secs(10));
        let failed = show(caller, &id).await;
        assert_eq!((&failed["status"], &failed["OS-SRV-USG:launched_at"]), (&json!("ERROR"), &Value::Null));
        assert!(failed["fault"]["message"].as_str().unwrap().contains(part), "{failed}");
        let free = caller.get(&format!("/network/v2.0/ports/{}", port.as_str().unwrap())).await.expect(200);
        assert_eq!(free["port"]["device_id"], "");
        caller.nova("DELETE", &format!("/servers/{id}"), None).await.expect(204);
        cloud.sim.advance(Duration::from_secs(10));
    }
    // Nobody stops two creates with one port; the second comes to grief.
    let one = server(&cloud, caller, "one", &json!([{"port": port}])).await;
    let two = server(&cloud, caller, "two", &json!([{"port": port}])).await;
    cloud.sim.advance(Duration::from_secs(10));
    let mut states = vec![state(caller, &one).await.0, state(caller, &two).await.0];
    states.sort();
    assert_eq!(states, ["ACTIVE", "ERROR"]);
    let late = caller.nova("POST", "/servers", Some(server_body(&cloud, "three", &json!([{"port": port}])))).await;
    assert_eq!(late.status, 409);
}

#[tokio::test]
async fn microversions_decide_what_is_asked_and_shown() {
    let (cloud, tenant) = frozen().await;
    let caller = &tenant.member;
    let id = server(&cloud, caller, "web", &json!("none")).await;
    let path = format!("/compute/v2.1/servers/{id}");
    for (version, has, lacks) in [
        ("2.1", "key_name", "tags"),
        ("2.26", "tags", "locked_reason"),
        ("2.90", "OS-EXT-SRV-ATTR:hostname", "pinned_availability_zone"),
    ] {
        let answer = caller.send("GET", &path, None, &[("openstack-api-version", &format!("compute {version}"))]).await;
        assert_eq!(answer.headers["openstack-api-version"], format!("compute {version}"));
        let server = &answer.json["server"];
        assert!(server.get(has).is_some() && server.get(lacks).is_none(), "{version}: {server}");
        let embedded = server["flavor"].get("vcpus").is_some();
        assert_eq!(embedded, version == "2.90", "the flavor is embedded from 2.47 on");
    }
    let future = caller.send("GET", &path, None, &[("openstack-api-version", "compute 9.99")]).await;
    assert_eq!(future.status, 406);
    assert_eq!(
        future.json["computeFault"]["message"],
        "Version 9.99 is not supported by the API. Minimum is 2.1 and maximum is 2.103."
    );
    let odd = caller.send("GET", &path, None, &[("openstack-api-version", "compute x")]).await;
    assert_eq!(odd.status, 400);
    let document = caller.get("/compute/v2.1").await.expect(200);
    assert_eq!(
        (&document["version"]["min_version"], &document["version"]["version"]),
        (&json!("2.1"), &json!("2.103"))
    );
}

#[tokio::test]
async fn key_pairs_are_the_users_and_server_groups_the_projects() {
    let (cloud, tenant) = frozen().await;
    let other = cloud.tenant("two").await;
    let caller = &tenant.member;
    let public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me@here";
    let body = json!({"keypair": {"name": "k", "public_key": public}});
    let made = caller.nova("POST", "/os-keypairs", Some(body.clone())).await.expect(201);
    assert_eq!(made["keypair"]["public_key"], public);
    let again = caller.nova("POST", "/os-keypairs", Some(body)).await.expect(409);
    assert_eq!(again["conflictingRequest"]["message"], "Key pair 'k' already exists.");
    let bad = json!({"keypair": {"name": "b", "public_key": "ssh-ed25519 bm90IGEga2V5"}});
    caller.nova("POST", "/os-keypairs", Some(bad)).await.expect(400);
    other.member.nova("GET", "/os-keypairs/k", None).await.expect(404);
    let newest = [("openstack-api-version", "compute 2.92")];
    let bare = json!({"keypair": {"name": "n"}});
    caller.send("POST", "/compute/v2.1/os-keypairs", Some(&bare), &newest).await.expect(400);
    caller.nova("DELETE", "/os-keypairs/k", None).await.expect(204);
    caller.nova("DELETE", "/os-keypairs/k", None).await.expect(404);

    let group = json!({"server_group": {"name": "g", "policy": "anti-affinity"}});
    let group = id(&caller.nova("POST", "/os-server-groups", Some(group)).await.expect(200), "server_group");
    other.member.nova("GET", &format!("/os-server-groups/{group}"), None).await.expect(404);
    let old = json!({"server_group": {"name": "g", "policies": ["affinity"]}});
    caller.post("/compute/v2.1/os-server-groups", old.clone()).await.expect(200);
    caller.nova("POST", "/os-server-groups", Some(old)).await.expect(400);
    let mut states = Vec::new();
    for n in 0..3 {
        let mut body = server_body(&cloud, &format!("s{n}"), &json!("none"));
        body["os:scheduler_hints"] = json!({"group": group});
        let server = id(&caller.nova("POST", "/servers", Some(body)).await.expect(202), "server");
        cloud.sim.advance(Duration::from_secs(10));
        states.push(state(caller, &server).await.0);
    }
    assert_eq!(states, ["ACTIVE", "ACTIVE", "ERROR"], "there are two hosts");
    caller.nova("DELETE", &format!("/os-server-groups/{group}"), None).await.expect(204);
    caller.nova("DELETE", &format!("/os-server-groups/{group}"), None).await.expect(404);
}

#[tokio::test]
async fn ten_thousand_servers_list_in_pages_without_delay() {
    let cloud = Cloud::with(Config { build: Duration::ZERO, ..Config::default() }).await;
    let tenant = cloud.tenant("one").await;
    let quota = json!({"quota_set": {"instances": -1, "cores": -1, "ram": -1}});
    tenant.manager.nova("PUT", &format!("/os-quota-sets/{}", tenant.project), Some(quota)).await.expect(200);
    for n in 0..10_000 {
        server(&cloud, &tenant.member, &format!("s{n}"), &json!("none")).await;
    }
    let start = std::time::Instant::now();
    let found = tenant.member.nova("GET", "/servers/detail?name=^s4711$", None).await.expect(200);
    assert_eq!(found["servers"].as_array().unwrap().len(), 1);
    let mut path = "/compute/v2.1/servers/detail".to_owned();
    let mut seen = 0;
    loop {
        let page = tenant.member.get(&path).await.expect(200);
        seen += page["servers"].as_array().unwrap().len();
        match page["servers_links"][0]["href"].as_str() {
            Some(next) => next.clone_into(&mut path),
            None => break,
        }
    }
    assert_eq!(seen, 10_000);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}
