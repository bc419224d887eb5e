//! The process, what it shows of itself, and what it keeps.

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use weir_openstack_sim::{Config, Sim};

use crate::client::{Cloud, Http, server, wire};

#[tokio::test]
async fn no_secret_is_in_the_state_the_log_or_the_data_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud.json");
    let cloud =
        Cloud::with(Config { data: Some(file.clone()), password: "the region's secret".into(), ..Config::default() })
            .await;
    let tenant = cloud.tenant("one").await;
    let path = format!("/identity/v3/users/{}/application_credentials", tenant.user);
    let made = tenant.member.post(&path, json!({"application_credential": {"name": "ac"}})).await.expect(201);
    let secret = made["application_credential"]["secret"].as_str().unwrap().to_owned();
    let mut body = crate::client::server_body(&cloud, "web", &json!("none"));
    body["server"]["user_data"] = json!("I2Nsb3VkLWNvbmZpZw==");
    tenant.member.nova("POST", "/servers", Some(body)).await.expect(202);
    let log = serde_json::to_string(&cloud.sim.requests()).unwrap();
    let state = cloud.sim.state().to_string();
    let token = tenant.member.token.clone();
    cloud.sim.stop().await;
    let kept = std::fs::read_to_string(&file).unwrap();
    for (place, text) in [("the log", log), ("the state", state), ("the data file", kept)] {
        for hidden in ["the region's secret", "pass word", &secret, &token, "I2Nsb3VkLWNvbmZpZw=="] {
            assert!(!text.contains(hidden), "{place} holds {hidden:?}");
        }
    }
}

#[tokio::test]
async fn the_log_says_who_asked_for_what_and_the_state_what_there_is() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    cloud.sim.clear_requests();
    let mutations = cloud.sim.mutations();
    let body = json!({"network": {"name": "n"}});
    tenant
        .member
        .send("POST", "/network/v2.0/networks", Some(&body), &[("x-openstack-request-id", "req-mine")])
        .await
        .expect(201);
    tenant.member.get("/network/v2.0/networks?name=n").await.expect(200);
    tenant.member.delete("/network/v2.0/networks/feed").await.expect(404);
    let log = tenant.member.get("/_sim/requests").await.expect(200)["requests"].clone();
    let row = |n: usize| (log[n]["method"].clone(), log[n]["status"].clone(), log[n]["effect"].clone());
    assert_eq!(row(0), (json!("POST"), json!(201), json!(true)));
    assert_eq!(row(1), (json!("GET"), json!(200), json!(false)));
    assert_eq!(row(2), (json!("DELETE"), json!(404), json!(false)));
    assert_eq!((&log[0]["body"], &log[0]["request_id"]), (&body, &json!("req-mine")));
    assert_eq!((&log[1]["query"], &log[1]["user"]), (&json!("name=n"), &json!(tenant.user)));
    assert_eq!(cloud.sim.mutations() - mutations, 1);
    let state = tenant.member.get("/_sim/state").await.expect(200);
    assert!(state["networks"].as_array().unwrap().iter().any(|row| row["name"] == "n"));
    let counts = tenant.member.get("/_sim/counts").await.expect(200);
    assert_eq!(counts["counts"]["networks"], 2);
    tenant.member.delete("/_sim/requests").await.expect(204);
    assert!(cloud.sim.requests().is_empty());
}

#[tokio::test]
async fn a_restart_with_a_data_file_goes_on_where_it_stood() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        data: Some(folder.path().join("deep/cloud.json")),
        build: Duration::from_millis(300),
        ..Config::default()
    };
    let cloud = Cloud::with(config.clone()).await;
    let tenant = cloud.tenant("one").await;
    wire(&cloud, &tenant, "lan").await;
    let id = server(&cloud, &tenant.member, "web", &json!("none")).await;
    let before = cloud.sim.counts();
    cloud.sim.stop().await;

    let sim = Sim::start(config).await.unwrap();
    assert_eq!(sim.counts(), before);
    sim.advance(Duration::from_secs(1));
    let mut caller = tenant.member.clone();
    caller.http = Http::new(sim.url());
    let up = caller.nova("GET", &format!("/servers/{id}"), None).await.expect(200);
    assert_eq!(up["server"]["status"], "ACTIVE", "tokens hold and servers go on building");
    let again = Sim::start(Config { data: Some(folder.path().to_owned()), ..Config::default() }).await;
    assert!(again.is_err(), "a data file that cannot be read is not overwritten");
}

#[tokio::test]
async fn the_binary_says_where_it_is_and_goes_in_peace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud.json");
    let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_openstack-sim"))
        .args(["--build-seconds", "0.1", "--public-url", "http://cloud.example/", "--data"])
        .arg(&file)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let url = line.strip_prefix("openstack-sim listening on ").expect(&line);
    let http = Http::new(url);
    let bootstrap: Value = http.raw("GET", "/_sim/bootstrap", &[], Vec::new()).await.unwrap().json;
    assert_eq!(bootstrap["endpoint"], "http://cloud.example/identity/v3");
    assert!(
        ["domain-id", "project-id", "user-id", "password"].iter().all(|key| bootstrap["credential"][key].is_string())
    );
    assert!(bootstrap["flavors"].as_array().unwrap().len() >= 3);
    let pid = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let status = tokio::time::timeout(Duration::from_secs(10), child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(file.exists());
}
