//! Faults of every kind, and the log that tells what became of each request.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_openstack_sim::{Action, Answer, Fault, Mangle, Service};

use crate::client::{Cloud, Tenant};

const NETWORKS: &str = "/network/v2.0/networks";

async fn cloud() -> (Cloud, Tenant) {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    (cloud, tenant)
}

fn networks(cloud: &Cloud) -> usize {
    cloud.sim.counts()["networks"]
}

/// Creates a network; `None` when the connection broke.
async fn create(cloud: &Cloud, tenant: &Tenant) -> Option<u16> {
    let headers = [("x-auth-token", tenant.member.token.as_str()), ("content-type", "application/json")];
    let body = json!({"network": {"name": "n"}}).to_string().into_bytes();
    cloud.http.raw("POST", NETWORKS, &headers, body).await.ok().map(|answer| answer.status)
}

#[tokio::test]
async fn a_fault_before_leaves_nothing_and_a_fault_after_leaves_the_effect() {
    for (fault, status, made) in [
        (Fault::status(500), Some(500), 0),
        (Fault::status_after(500), Some(500), 1),
        (Fault::new(Action::ResetBefore), None, 0),
        (Fault::new(Action::ResetAfter), None, 1),
        (Fault::new(Action::TokenExpired), Some(401), 0),
    ] {
        let (cloud, tenant) = cloud().await;
        let (before, mutations) = (networks(&cloud), cloud.sim.mutations());
        cloud.sim.clear_requests();
        let what = format!("{:?}", fault.action);
        let id = cloud.sim.faults().add(fault.on("POST", "/networks$").times(1)).unwrap();
        assert_eq!(create(&cloud, &tenant).await, status, "{what}");
        assert_eq!(networks(&cloud) - before, made, "{what}");
        assert_eq!(cloud.sim.mutations() - mutations, made as u64, "{what}");
        let log = cloud.sim.requests();
        assert_eq!(log.len(), 1, "{what}: a reset is an answer too");
        assert_eq!((log[0].status, log[0].effect, &log[0].faults), (status, made == 1, &vec![id]), "{what}");
        assert_eq!(log[0].project.as_deref(), Some(tenant.project.as_str()));
        let again = create(&cloud, &tenant).await;
        assert_eq!(again, Some(if status == Some(401) { 401 } else { 201 }), "{what}: once, and then no more");
        assert_eq!(cloud.sim.faults().fired(id), 1);
    }
}

#[tokio::test]
async fn a_reset_is_a_broken_connection_and_not_an_answer() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (cloud, tenant) = cloud().await;
    for action in [Action::ResetBefore, Action::ResetAfter] {
        cloud.sim.faults().clear();
        cloud.sim.faults().add(Fault::new(action).of(Service::Network)).unwrap();
        let address = cloud.sim.url().trim_start_matches("http://").to_owned();
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {NETWORKS} HTTP/1.1\r\nhost: sim\r\nx-auth-token: {}\r\n\r\n", tenant.member.token);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        let end = stream.read_to_end(&mut read).await;
        assert!(read.is_empty(), "{}", String::from_utf8_lossy(&read));
        assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn faults_can_skip_count_and_choose() {
    let (cloud, tenant) = cloud().await;
    let get = async || tenant.member.get(NETWORKS).await.status;
    cloud.sim.faults().add(Fault::status(503).on("GET", "/networks").after(2).times(2)).unwrap();
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(get().await);
    }
    assert_eq!(statuses, [200, 200, 503, 503, 200, 200]);
    tenant.member.get("/network/v2.0/ports").await.expect(200);

    let mut runs = Vec::new();
    for _ in 0..2 {
        cloud.sim.faults().clear();
        cloud.sim.faults().add(Fault::status(503).on("GET", "/networks").with_probability(0.5, 7)).unwrap();
        let mut run = Vec::new();
        for _ in 0..20 {
            run.push(get().await);
        }
        runs.push(run);
    }
    assert_eq!(runs[0], runs[1], "one seed, one course");
    assert!(runs[0].contains(&200) && runs[0].contains(&503));
}

#[tokio::test]
async fn an_answer_can_be_given_or_left_to_the_services_own_words() {
    let (cloud, tenant) = cloud().await;
    let caller = &tenant.member;
    for (service, path, pointer) in [
        (Service::Network, NETWORKS, "/NeutronError/type"),
        (Service::Compute, "/compute/v2.1/servers", "/serviceUnavailable/code"),
        (Service::Identity, "/identity/v3/auth/projects", "/error/code"),
        (Service::Image, "/image/v2/images", "/code"),
    ] {
        cloud.sim.faults().clear();
        cloud.sim.faults().add(Fault::status(503).of(service)).unwrap();
        let answer = caller.get(path).await.expect(503);
        assert!(answer.pointer(pointer).is_some(), "{service:?}: {answer}");
    }
    cloud.sim.faults().clear();
    let answer = Answer {
        code: 429,
        body: Some(json!("<html>slow down</html>")),
        headers: [("Retry-After".to_owned(), "7".to_owned())].into(),
    };
    cloud.sim.faults().add(Fault::new(Action::Status(answer))).unwrap();
    let answer = caller.get(NETWORKS).await;
    assert_eq!((answer.status, answer.text.as_str()), (429, "<html>slow down</html>"));
    assert_eq!(answer.headers["retry-after"], "7");
}

#[tokio::test]
async fn fields_can_be_removed_nulled_and_replaced() {
    let (cloud, tenant) = cloud().await;
    create(&cloud, &tenant).await.unwrap();
    let get = async |pointer: &str, replace: Option<Value>| {
        cloud.sim.faults().clear();
        let mangle = Mangle { pointer: pointer.to_owned(), replace };
        cloud.sim.faults().add(Fault::new(Action::Mangle(mangle)).on("GET", "/networks")).unwrap();
        tenant.member.get(NETWORKS).await.expect(200)
    };
    let removed = get("/networks/*/status", None).await;
    assert!(
        removed["networks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row.get("status").is_none() && row.get("id").is_some())
    );
    assert_eq!(get("/networks/0/name", Some(Value::Null)).await["networks"][0]["name"], Value::Null);
    assert_eq!(get("/networks", Some(json!("odd"))).await["networks"], "odd");
    assert!(get("/nosuch/field", None).await["networks"].is_array());
}

#[tokio::test]
async fn latency_delays_and_adds_up() {
    let (cloud, tenant) = cloud().await;
    for _ in 0..2 {
        cloud.sim.faults().add(Fault::new(Action::Latency(60)).on("GET", "/networks")).unwrap();
    }
    let start = Instant::now();
    tenant.member.get(NETWORKS).await.expect(200);
    assert!(start.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn a_list_can_give_a_page_twice_in_every_services_way_of_paging() {
    let (cloud, tenant) = cloud().await;
    for _ in 0..3 {
        create(&cloud, &tenant).await.unwrap();
    }
    let next = |path: &str, body: &Value| {
        let link =
            |key: &str| body[key].as_array()?.iter().find(|l| l["rel"] == "next")?["href"].as_str().map(str::to_owned);
        let glance = body["next"].as_str().map(|next| format!("/image{next}"));
        let keystone = body["links"]["next"].as_str().map(str::to_owned);
        if path.contains("/image/") {
            glance
        } else {
            keystone.or_else(|| link("networks_links")).or_else(|| link("flavors_links"))
        }
    };
    let region = cloud.region().await;
    for (path, key, paged) in [
        (format!("{NETWORKS}?limit=2"), "networks", true),
        (NETWORKS.to_owned(), "networks", false),
        ("/compute/v2.1/flavors".to_owned(), "flavors", false),
        ("/image/v2/images?limit=3".to_owned(), "images", true),
        ("/image/v2/images".to_owned(), "images", false),
        ("/identity/v3/projects".to_owned(), "projects", false),
    ] {
        let caller = if path.contains("identity") { &region } else { &tenant.member };
        let all = async |path: &str| {
            let (mut path, mut rows, mut pages) = (path.to_owned(), Vec::new(), 0);
            loop {
                let body = caller.get(&path).await.expect(200);
                rows.extend(body[key].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()));
                pages += 1;
                assert!(pages < 20, "{path}: the list has no end");
                match next(&path, &body) {
                    Some(link) => path = link,
                    None => return (rows, pages),
                }
            }
        };
        cloud.sim.faults().clear();
        let (right, pages) = all(&path).await;
        let fault = cloud.sim.faults().add(Fault::new(Action::RepeatPage).times(1)).unwrap();
        let (wrong, more) = all(&path).await;
        assert_eq!(cloud.sim.faults().fired(fault), 1, "{path}");
        assert_eq!(more, pages + 1, "{path} (paged by itself: {paged})");
        assert!(wrong.len() > right.len(), "{path}");
        let mut seen = wrong;
        seen.sort();
        seen.dedup();
        let mut right = right;
        right.sort();
        assert_eq!(seen, right, "{path}: it repeats, and leaves nothing out");
        assert_eq!(all(&path).await.1, pages, "{path}: once");
    }
}

#[tokio::test]
async fn faults_are_set_listed_and_ended_over_http() {
    let (_cloud, tenant) = cloud().await;
    let caller = &tenant.member;
    let fault = json!({"service": "network", "method": "GET", "path": "/networks$", "count": 1,
        "action": {"status": {"code": 503, "headers": {"Retry-After": "3"}}}});
    let ids = caller.post("/_sim/faults", fault).await.expect(201)["ids"].clone();
    let answer = caller.get(NETWORKS).await;
    assert_eq!((answer.status, answer.headers["retry-after"].to_str().unwrap()), (503, "3"));
    caller.get(NETWORKS).await.expect(200);
    assert_eq!(caller.get("/_sim/faults").await.expect(200)["faults"][0]["fired"], 1);
    caller.delete(&format!("/_sim/faults/{}", ids[0])).await.expect(204);
    caller.delete(&format!("/_sim/faults/{}", ids[0])).await.expect(404);
    let several = json!([
        {"action": "reset_before"}, {"action": {"latency": 1}}, {"action": "repeat_page"}, {"action": {"server": "no_host"}},
        {"action": {"mangle": {"pointer": "/a", "replace": null}}}, {"action": {"mangle": {"pointer": "/a"}}},
    ]);
    caller.post("/_sim/faults", several).await.expect(201);
    let listed = caller.get("/_sim/faults").await.expect(200);
    assert_eq!(listed["faults"][4]["fault"]["action"]["mangle"], json!({"pointer": "/a", "replace": null}));
    caller.delete("/_sim/faults").await.expect(204);
    for bad in [
        json!({"action": "nosuch"}),
        json!({"action": "reset_before", "path": "["}),
        json!({"action": "reset_before", "probability": 2}),
        json!({"action": {"status": {"code": 99}}}),
        json!({"action": "reset_before", "metod": "GET"}),
    ] {
        caller.post("/_sim/faults", bad.clone()).await.expect(400);
    }
    assert_eq!(caller.get("/_sim/faults").await.expect(200), json!({"faults": []}));
}
