//! What survives: the data folder, and the process's sudden death.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use common::{CONFIG_MAPS, WIDGETS, config_map, demo_with, widget};
use serde_json::json;
use weir_kube_sim::{Config, KubeSim};

fn kept(dir: &std::path::Path) -> Config {
    Config { data: Some(dir.to_owned()), ..Config::plain() }
}

#[tokio::test]
async fn a_restarted_server_has_everything_and_watches_resume() {
    let dir = tempfile::tempdir().unwrap();
    let (sim, raw) = demo_with(kept(dir.path())).await;
    raw.post(WIDGETS, &widget("a")).await;
    let start = raw.get(WIDGETS).await.revision();
    raw.post(WIDGETS, &widget("b")).await;
    raw.delete(&format!("{WIDGETS}/a"), &json!({})).await;
    let last = raw.get(WIDGETS).await;
    let (url, token) = (sim.url().to_owned(), sim.token().to_owned());
    let sim = sim.restart().await.unwrap();
    assert_eq!((sim.url(), sim.token()), (url.as_str(), token.as_str()), "kubeconfigs stay valid");
    assert_eq!(raw.get(WIDGETS).await.text, last.text);
    let mut watch = raw.watch(&format!("{WIDGETS}?watch=true&resourceVersion={start}")).await;
    assert_eq!(watch.brief(2).await, ["ADDED b", "DELETED a"], "from a version before the restart");
    let next: u64 = raw.post(WIDGETS, &widget("c")).await.revision().parse().unwrap();
    assert!(next > last.revision().parse().unwrap(), "versions go on rising");
    sim.stop().await;
}

#[tokio::test]
async fn a_torn_last_line_is_ignored_and_does_not_spoil_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (sim, raw) = demo_with(kept(dir.path())).await;
    raw.post(WIDGETS, &widget("a")).await;
    sim.stop().await;
    let journal = dir.path().join("journal.jsonl");
    std::fs::OpenOptions::new()
        .append(true)
        .open(&journal)
        .unwrap()
        .write_all(br#"{"r":99999,"t":"widgets.demo"#)
        .unwrap();
    for round in 0..2 {
        let sim = KubeSim::start(kept(dir.path())).await.unwrap();
        let raw = common::Raw::new(&sim);
        assert_eq!(raw.get(&format!("{WIDGETS}/a")).await.code, 200, "round {round}");
        assert_eq!(raw.post(CONFIG_MAPS, &config_map(&format!("c{round}"))).await.code, 201);
        sim.stop().await;
    }
    std::fs::write(&journal, "nonsense\n").unwrap();
    assert!(KubeSim::start(kept(dir.path())).await.is_err(), "a damaged journal is not passed over in silence");
}

#[tokio::test]
async fn a_deletion_that_was_under_way_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (sim, raw) = demo_with(kept(dir.path())).await;
    let mut value = widget("n");
    value["metadata"]["finalizers"] = json!(["demo.weir.dev/a"]);
    raw.post(WIDGETS, &value).await;
    raw.delete("/api/v1/namespaces/demo", &json!({})).await;
    let sim = sim.restart().await.unwrap();
    raw.merge(&format!("{WIDGETS}/n"), &json!({"metadata": {"finalizers": null}})).await;
    raw.until("/api/v1/namespaces/demo", |a| a.code == 404).await;
    sim.stop().await;
}

#[tokio::test]
async fn two_servers_cannot_share_a_data_folder() {
    let dir = tempfile::tempdir().unwrap();
    let sim = KubeSim::start(kept(dir.path())).await.unwrap();
    assert!(KubeSim::start(kept(dir.path())).await.is_err());
    sim.stop().await;
    KubeSim::start(kept(dir.path())).await.unwrap().stop().await;
}

/// Kills what it holds.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(dir: &std::path::Path) -> (Killed, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kube-sim"))
        .args(["--no-tls", "--token", "secret", "--data"])
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Killed(child), line.trim().rsplit(' ').next().unwrap().to_owned())
}

#[tokio::test]
async fn a_sigterm_ends_the_process_well_also_with_a_watch_open_and_leaves_no_readable_secrets() {
    use std::os::unix::fs::PermissionsExt as _;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let (mut child, url) = spawn(dir.path());
    let http = reqwest::Client::new();
    let watch = http.get(format!("{url}/api/v1/namespaces?watch=1")).bearer_auth("secret").send().await.unwrap();
    assert_eq!(watch.status(), 200);
    assert!(Command::new("kill").arg(child.0.id().to_string()).status().unwrap().success());
    let status = tokio::task::spawn_blocking(move || child.0.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(0));
    for file in ["journal.jsonl", "token"] {
        assert_eq!(std::fs::metadata(dir.path().join(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_sigkill() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let path = "/api/v1/namespaces/default/configmaps";
    let mut acknowledged = 0;
    let mut urls = Vec::new();
    for round in 0..3 {
        let (mut child, url) = spawn(dir.path());
        // A client of its own: connections to the dead server are of no use.
        let http = reqwest::Client::new();
        for i in 0..20 {
            let body = json!({"metadata": {"name": format!("c-{round}-{i}")}});
            let answer =
                http.post(format!("{url}{path}")).bearer_auth("secret").body(body.to_string()).send().await.unwrap();
            assert_eq!(answer.status(), 201);
            acknowledged += 1;
        }
        // SIGKILL.
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        urls.push(url);
    }
    assert!(urls.windows(2).all(|w| w[0] == w[1]), "the same port again: {urls:?}");
    let (_child, url) = spawn(dir.path());
    let http = reqwest::Client::new();
    let list: serde_json::Value = serde_json::from_str(
        &http.get(format!("{url}{path}")).bearer_auth("secret").send().await.unwrap().text().await.unwrap(),
    )
    .unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), acknowledged + 1, "and kube-root-ca.crt");
}
