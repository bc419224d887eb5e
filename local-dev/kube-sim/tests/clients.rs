//! The clients that matter: `kube` and `kubectl`, over TLS.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Config as ClientConfig};
use serde_json::json;
use weir_kube_sim::{Config, KubeSim};

async fn client(sim: &KubeSim) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::from_yaml(&sim.kubeconfig()).unwrap();
    let config = ClientConfig::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn with_widgets() -> (KubeSim, Client, Api<DynamicObject>) {
    let sim = KubeSim::start(Config::default()).await.unwrap();
    let client = client(&sim).await;
    let definition: CustomResourceDefinition = serde_json::from_value(common::definition()).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &definition).await.unwrap();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "demo"}})).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let kind =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("demo.weir.dev", "v1alpha1", "Widget"), "widgets");
    let widgets = Api::namespaced_with(client.clone(), "demo", &kind);
    (sim, client, widgets)
}

fn widget(name: &str) -> DynamicObject {
    serde_json::from_value(common::widget(name)).unwrap()
}

#[tokio::test]
async fn kube_creates_patches_lists_watches_and_deletes() {
    let (_sim, client, widgets) = with_widgets().await;
    let made = widgets.create(&PostParams::default(), &widget("a")).await.unwrap();
    let params = WatchParams::default();
    let mut watch = widgets.watch(&params, made.metadata.resource_version.as_deref().unwrap()).await.unwrap().boxed();
    widgets
        .patch_status("a", &PatchParams::default(), &Patch::Merge(json!({"status": {"phase": "Ready"}})))
        .await
        .unwrap();
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Modified(o))) if o.data["status"]["phase"] == "Ready"));
    let mut stale = made.clone();
    stale.data["spec"]["size"] = json!("large");
    let conflict = widgets.replace("a", &PostParams::default(), &stale).await.unwrap_err();
    assert!(matches!(conflict, kube::Error::Api(ref s) if s.code == 409 && s.reason == "Conflict"), "{conflict}");
    let apply = PatchParams::apply("tester").force();
    let applied = widgets.patch("a", &apply, &Patch::Apply(json!({"apiVersion": "demo.weir.dev/v1alpha1", "kind": "Widget", "spec": {"owner": "ann", "size": "large"}}))).await.unwrap();
    assert_eq!(applied.data["spec"]["size"], "large");
    assert_eq!(widgets.list(&ListParams::default().fields("spec.size=large")).await.unwrap().items.len(), 1);
    assert_eq!(widgets.list_metadata(&ListParams::default()).await.unwrap().items.len(), 1);
    assert!(widgets.delete("a", &DeleteParams::default()).await.unwrap().is_right());
    assert!(widgets.get_opt("a").await.unwrap().is_none());

    let secrets: Api<Secret> = Api::namespaced(client.clone(), "demo");
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"p": "x"}})).unwrap();
    assert_eq!(secrets.create(&PostParams::default(), &secret).await.unwrap().data.unwrap()["p"].0, b"x");
    let leases: Api<Lease> = Api::namespaced(client, "demo");
    let lease: Lease =
        serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
}

#[tokio::test]
async fn the_watcher_of_kube_sees_everything_also_by_streaming_list() {
    let (_sim, _client, widgets) = with_widgets().await;
    widgets.create(&PostParams::default(), &widget("a")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut events = watcher(widgets.clone(), config).applied_objects().boxed();
        let next = tokio::time::timeout(common::WAIT, events.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(next.metadata.name.as_deref(), Some("a"));
        let label = format!("l{}", uuid::Uuid::new_v4().simple());
        widgets
            .patch("a", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"labels": {"x": label}}})))
            .await
            .unwrap();
        let next = tokio::time::timeout(common::WAIT, events.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(next.metadata.labels.unwrap()["x"], label);
    }
}

#[tokio::test]
async fn ten_thousand_objects_are_written_listed_and_watched_in_reasonable_time() {
    const OBJECTS: usize = 10_000;
    let sim = KubeSim::start(Config::plain()).await.unwrap();
    let client = client(&sim).await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let start = Instant::now();
    let params = PostParams::default();
    futures::stream::iter(0..OBJECTS)
        .for_each_concurrent(64, |i| {
            let (maps, params) = (&maps, &params);
            async move {
                let map: ConfigMap = serde_json::from_value(
                    json!({"metadata": {"name": format!("c-{i}")}, "data": {"i": i.to_string()}}),
                )
                .unwrap();
                maps.create(params, &map).await.unwrap();
            }
        })
        .await;
    let written = start.elapsed();
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), OBJECTS + 1);
    let listed = start.elapsed();
    let mut seen = 0;
    let mut events = watcher(maps.clone(), watcher::Config::default().streaming_lists()).applied_objects().boxed();
    while seen < OBJECTS + 1 {
        tokio::time::timeout(Duration::from_secs(60), events.next()).await.unwrap().unwrap().unwrap();
        seen += 1;
    }
    println!(
        "{OBJECTS} objects: written after {written:?}, listed after {listed:?}, watched after {:?}",
        start.elapsed()
    );
    // Generous: it is to catch quadratic behaviour, not to measure a busy machine.
    assert!(start.elapsed() < Duration::from_secs(120));
}

#[tokio::test]
async fn many_servers_start_quickly_in_one_process() {
    let mut sims = Vec::new();
    for _ in 0..20 {
        sims.push(KubeSim::start(Config::plain()).await.unwrap());
    }
    let urls: std::collections::BTreeSet<String> = sims.iter().map(|s| s.url().to_owned()).collect();
    assert_eq!(urls.len(), 20);
    for sim in sims {
        sim.stop().await;
    }
}

fn kubectl(config: &std::path::Path, arguments: &[&str], input: &str) -> (bool, String) {
    use std::io::Write as _;
    let mut child = Command::new("kubectl")
        .args(arguments)
        .env("KUBECONFIG", config)
        .env("HOME", config.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (
        output.status.success(),
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_as_against_a_real_cluster() {
    if Command::new("kubectl").arg("version").arg("--client").output().is_err() {
        eprintln!("SKIPPED: there is no kubectl on the PATH");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sim = KubeSim::start(Config::default()).await.unwrap();
    let config = dir.path().join("kubeconfig");
    weir_kube_sim::write_secret(&config, sim.kubeconfig().as_bytes()).unwrap();
    let manifest = common::widget("k1").to_string();
    let changed = manifest.replace(r#""owner":"ann""#, r#""owner":"ann","size":"medium""#);
    let definition = common::definition().to_string();
    let steps: Vec<(Vec<&str>, &str, bool, &str)> = vec![
        (
            vec!["apply", "-f", "-"],
            &definition,
            true,
            "customresourcedefinition.apiextensions.k8s.io/widgets.demo.weir.dev created",
        ),
        (
            vec!["wait", "--for=condition=Established", "crd/widgets.demo.weir.dev", "--timeout=5s"],
            "",
            true,
            "condition met",
        ),
        (vec!["apply", "-f", "-"], &definition, true, "unchanged"),
        (vec!["create", "ns", "demo"], "", true, "namespace/demo created"),
        (vec!["create", "configmap", "c", "-n", "demo", "--from-literal=a=1"], "", true, "configmap/c created"),
        (vec!["apply", "-n", "demo", "-f", "-"], &manifest, true, "widget.demo.weir.dev/k1 created"),
        (vec!["apply", "-n", "demo", "-f", "-"], &changed, true, "widget.demo.weir.dev/k1 configured"),
        (vec!["apply", "-n", "demo", "-f", "-"], &changed, true, "widget.demo.weir.dev/k1 unchanged"),
        (vec!["get", "wd", "-n", "demo"], "", true, "k1     medium   1"),
        (vec!["get", "wd", "-n", "demo", "-o", "wide"], "", true, "OWNER"),
        (
            vec!["get", "wd", "none", "-n", "demo"],
            "",
            false,
            "Error from server (NotFound): widgets.demo.weir.dev \"none\" not found",
        ),
        (
            vec!["apply", "--server-side", "--force-conflicts", "-n", "demo", "-f", "-"],
            &manifest,
            true,
            "serverside-applied",
        ),
        (
            vec![
                "patch",
                "wd",
                "k1",
                "-n",
                "demo",
                "--type=merge",
                "--subresource=status",
                "-p",
                r#"{"status":{"phase":"Ready"}}"#,
            ],
            "",
            true,
            "patched",
        ),
        (
            vec!["wait", "--for=jsonpath={.status.phase}=Ready", "wd/k1", "-n", "demo", "--timeout=5s"],
            "",
            true,
            "condition met",
        ),
        (vec!["explain", "wd.spec.size"], "", true, "FIELD: size <string>"),
        (vec!["describe", "wd", "k1", "-n", "demo"], "", true, "Phase:  Ready"),
        (vec!["label", "wd", "k1", "-n", "demo", "a=b"], "", true, "labeled"),
        (vec!["auth", "can-i", "list", "widgets.demo.weir.dev"], "", true, "yes"),
        (vec!["delete", "wd", "k1", "-n", "demo", "--timeout=5s"], "", true, "deleted"),
        (vec!["delete", "ns", "demo", "--timeout=5s"], "", true, "deleted"),
        (vec!["delete", "crd", "widgets.demo.weir.dev", "--timeout=5s"], "", true, "deleted"),
        (vec!["api-resources"], "", true, "customresourcedefinitions"),
    ];
    for (arguments, input, succeeds, expected) in steps {
        let (success, output) = kubectl(&config, &arguments, input);
        assert_eq!(success, succeeds, "{arguments:?}: {output}");
        assert!(output.contains(expected), "{arguments:?}: {output}");
    }
    let invalid = manifest.replace(r#""owner":"ann""#, r#""owner":"ann","bogus":1"#);
    kubectl(&config, &["create", "ns", "demo"], "");
    kubectl(&config, &["apply", "-f", "-"], &definition);
    let (success, output) = kubectl(&config, &["apply", "-n", "demo", "-f", "-"], &invalid);
    assert!(!success && output.contains("strict decoding error: unknown field \"spec.bogus\""), "{output}");
}
