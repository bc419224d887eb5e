//! The whole product as real processes: nats-server, both simulators and every function, as `weir up` runs them.
//!
//! Intention: what is proved here is proved of the processes that people run, killed and restarted as machines do it. The
//! test talks to them as anybody would: over the Kubernetes API, NATS, OpenStack's APIs and the metrics' ports.
//!
//! When it ends, what its functions have recorded is searched for the secrets that they have worked with ([`crate::leaks`]).
//!
//! Invariant: when a test fails, it shows how far every object is, what the cloud holds, and each process's last words.

use crate::cluster::Cluster;
use crate::nats::NatsServer;
use crate::process::{Process, built, free_port};
use futures::TryStreamExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::Queue;
use weir_function_runtime::settings::Settings;
use weir_messages::{Cause, Lane, Work};

/// The processes that do the work, called like their executables.
pub const FUNCTIONS: [&str; 7] =
    ["region", "identity", "network", "security-group", "server", "server-monitor", "watch-publisher"];

/// How long parts may take to start, on a machine that is busy with other tests.
const START: Duration = Duration::from_secs(60);
/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(50);
/// How often another port is tried.
const TRIES: usize = 5;

/// A running product.
pub struct Stack {
    /// The queue's server.
    pub nats: NatsServer,
    /// The Kubernetes API.
    pub kube_sim: Process,
    /// The cloud.
    pub openstack_sim: Process,
    /// One process for each of [`FUNCTIONS`], in that order, and then those of [`Stack::add`].
    pub functions: Vec<Process>,
    /// The Kubernetes API as the test sees it.
    pub cluster: Cluster,
    /// The queue as the test sees it.
    pub queue: Queue,
    cloud_url: String,
    http: reqwest::Client,
    bootstrap: Value,
    fresh: BTreeMap<String, u64>,
    folder: TempDir,
}

impl Stack {
    /// Starts everything, with the custom resources and the test's namespace applied, and waits until every function
    /// takes work.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with more in the functions' environment.
    pub async fn start_with(environment: &[(&str, &str)]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = TempDir::with_prefix("weir-stack-").expect("a folder");
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().expect("a client");
        let nats = start_nats();
        let kubeconfig = folder.path().join("kubeconfig");
        let kube_sim = start_on_a_port(|port| {
            let _ = std::fs::remove_file(&kubeconfig);
            Process::new("kube-sim", built("kube-sim"), folder.path())
                .arg("--listen")
                .arg(format!("127.0.0.1:{port}"))
                .arg("--data")
                .arg(folder.path().join("kube"))
                .arg("--kubeconfig-out")
                .arg(&kubeconfig)
        })
        .await
        .0;
        let (openstack_sim, port) = start_on_a_port(|port| {
            Process::new("openstack-sim", built("openstack-sim"), folder.path())
                .env("RUST_LOG", "warn")
                .arg("--listen")
                .arg(format!("127.0.0.1:{port}"))
        })
        .await;
        let cloud_url = format!("http://127.0.0.1:{port}");
        let config = Kubeconfig::read_from(&kubeconfig).expect("kube-sim has written a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let settings = Settings::from_arguments(["--nats", &nats.url(), "--name", "test"]).expect("settings");
        let mut stack = Self {
            cluster: Cluster::new(config.expect("a kubeconfig that can be used")),
            queue: weir_function_runtime::queue::connect(&settings).await.expect("a connection"),
            bootstrap: Value::Null,
            fresh: BTreeMap::new(),
            folder,
            nats,
            kube_sim,
            openstack_sim,
            functions: vec![],
            cloud_url,
            http,
        };
        stack.bootstrap = stack.cloud("GET", "bootstrap", None).await;
        stack.fresh = stack.cloud_counts().await;
        stack.cluster.prepare().await;
        for name in FUNCTIONS {
            stack.add(name, environment);
        }
        for function in &mut stack.functions {
            function.start().expect("a function starts");
        }
        stack.ready().await;
        stack
    }

    /// Puts a further process of a function behind the others, with more in its environment. It is not started.
    pub fn add(&mut self, function: &str, environment: &[(&str, &str)]) {
        let folder = self.folder.path();
        let first = self.functions.iter().all(|process| process.name() != function);
        let name = if first { function.to_owned() } else { format!("{function}-{}", self.functions.len()) };
        let process = Process::new(&name, built(function), folder)
            .env("KUBECONFIG", folder.join("kubeconfig"))
            .env("WEIR_NATS_URL", self.nats.url())
            // For the search through it at the end.
            .env("WEIR_RECORD", "all")
            // Whatever port is free at each start: one that was chosen before could be another test's by then.
            .env("WEIR_METRICS", "127.0.0.1:0");
        let process = environment.iter().fold(process, |process, (name, value)| process.env(name, value));
        self.functions.push(process);
    }

    /// Waits until every process of a function takes work.
    pub async fn ready(&self) {
        for process in &self.functions {
            self.eventually(START, &format!("{} is ready", process.name()), async || {
                let Some(metrics) = metrics_of(process) else { return false };
                let answer = self.http.get(format!("{metrics}/readyz")).send().await;
                answer.is_ok_and(|answer| answer.status().is_success())
            })
            .await;
        }
    }

    /// A request to the cloud's own `/_sim`. Asks again while nothing answers.
    pub async fn cloud(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let url = format!("{}/_sim/{path}", self.cloud_url);
        self.http(method, &url, body).await
    }

    async fn http(&self, method: &str, url: &str, body: Option<&Value>) -> Value {
        let until = Instant::now() + START;
        loop {
            let request = self.http.request(method.parse().expect("a method"), url);
            let request = if let Some(body) = body { request.json(body) } else { request };
            match request.send().await {
                Ok(answer) => {
                    let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
                    assert!(status.is_success(), "{method} {url}: {status} {text}");
                    return serde_json::from_str(&text).unwrap_or_default();
                }
                Err(error) => assert!(Instant::now() < until, "{method} {url}: {error}"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A request to Keystone with the rights of the cloud's administrator. `path` begins after the version.
    pub async fn keystone(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let admin = &self.bootstrap["admin"];
        let endpoint = self.bootstrap["endpoint"].as_str().expect("an endpoint");
        let user = json!({"id": admin["user-id"], "password": admin["password"]});
        let auth = json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"id": admin["project-id"]}}}});
        let answer = self.http.post(format!("{endpoint}/auth/tokens")).json(&auth).send().await.expect("a token");
        let token = answer.headers().get("x-subject-token").expect("a token").clone();
        let request = self.http.request(method.parse().expect("a method"), format!("{endpoint}{path}"));
        let request = if let Some(body) = body { request.json(body) } else { request };
        let answer = request.header("x-auth-token", token).send().await.expect("an answer");
        let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// What the cloud tells of itself: endpoint, credentials, flavors, images.
    pub fn bootstrap(&self) -> &Value {
        &self.bootstrap
    }

    async fn cloud_counts(&self) -> BTreeMap<String, u64> {
        let counts = self.cloud("GET", "counts", None).await;
        serde_json::from_value(counts["counts"].clone()).expect("counts")
    }

    /// How many resources of each kind the cloud holds beyond those of a new cloud. Without the `default` security groups,
    /// which Neutron makes by itself and keeps.
    pub async fn made(&self) -> BTreeMap<String, u64> {
        let more = |(kind, count): (String, u64)| {
            let more = count.saturating_sub(self.fresh.get(&kind).copied().unwrap_or_default());
            (more > 0 && kind != "default_security_groups").then_some((kind, more))
        };
        self.cloud_counts().await.into_iter().filter_map(more).collect()
    }

    /// The requests that the cloud has answered since [`Stack::forget`], those for tokens aside.
    pub async fn cloud_requests(&self) -> Vec<Value> {
        let requests = self.cloud("GET", "requests", None).await;
        let all = requests["requests"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|r| !r["path"].as_str().is_some_and(|path| path.ends_with("/auth/tokens"))).collect()
    }

    /// Those of them that changed something.
    pub async fn cloud_writes(&self) -> Vec<Value> {
        self.cloud_requests().await.into_iter().filter(|request| request["effect"] == true).collect()
    }

    /// Empties both simulators' logs of requests.
    pub async fn forget(&self) {
        self.cloud("DELETE", "requests", None).await;
        self.cluster.sim("DELETE", "requests", None).await;
    }

    /// Writes to Kubernetes that changed something since [`Stack::forget`], by resource and verb.
    pub async fn kubernetes_writes(&self) -> Value {
        self.cluster.sim("GET", "counts", None).await
    }

    /// The value of a metric of one function, summed over all series whose labels contain every one of `labels`.
    pub async fn metric(&self, function: &str, name: &str, labels: &[&str]) -> u64 {
        let at = FUNCTIONS.iter().position(|known| *known == function).expect("a function");
        let metrics = metrics_of(&self.functions[at]).expect("it serves its metrics");
        let text = match self.http.get(format!("{metrics}/metrics")).send().await {
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(error) => panic!("the metrics of {function}: {error}"),
        };
        let series =
            text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        let fitting = series.filter(|line| labels.iter().all(|label| line.contains(label)));
        fitting.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// How many calls of a function ended in each way.
    pub async fn calls(&self, kind: Kind, outcome: &str) -> u64 {
        self.metric(kind.token(), "weir_calls_total", &[&format!("outcome=\"{outcome}\"")]).await
    }

    /// The subjects of messages that wait in the lanes or are in hand. Timers are not counted.
    pub async fn waiting_work(&self) -> anyhow::Result<Vec<String>> {
        self.subjects("work.>").await
    }

    async fn subjects(&self, filter: &str) -> anyhow::Result<Vec<String>> {
        let stream = self.queue.jetstream().get_stream_no_info("WORK").await?;
        let subjects = stream.info_with_subjects(filter).await?;
        Ok(subjects.map_ok(|(subject, _)| subject).try_collect().await?)
    }

    /// What the queue's server says of the stream of work, its consumers, and the messages in the lanes.
    async fn queue_report(&self) -> anyhow::Result<String> {
        let client = self.queue.client().clone();
        let ask = async |what: String, body: Value| -> anyhow::Result<Value> {
            let answer = client.request(format!("$JS.API.{what}"), body.to_string().into()).await?;
            Ok(serde_json::from_slice(&answer.payload)?)
        };
        let mut text = format!("stream {}\n", ask("STREAM.INFO.WORK".into(), json!({})).await?["state"]);
        let consumers = ask("CONSUMER.LIST.WORK".into(), json!({})).await?;
        for consumer in consumers["consumers"].as_array().into_iter().flatten() {
            let of = |key: &str| consumer[key].to_string();
            let _ = writeln!(
                text,
                "consumer {}: delivered {} ack floor {} ack pending {} redelivered {} pending {} requests {}",
                consumer["name"],
                of("delivered"),
                of("ack_floor"),
                of("num_ack_pending"),
                of("num_redelivered"),
                of("num_pending"),
                of("num_waiting")
            );
        }
        for subject in self.waiting_work().await?.into_iter().take(5) {
            let message = ask("STREAM.MSG.GET.WORK".into(), json!({"last_by_subj": subject})).await?;
            let _ =
                writeln!(text, "message {} {} of {}", message["message"]["seq"], subject, message["message"]["time"]);
        }
        Ok(text)
    }

    /// Has every object looked at once more, as anybody may, and returns when all have been.
    pub async fn look_again(&self, objects: &[ObjectRef]) {
        for object in objects {
            let work = Work::new(object.clone(), Cause::Requested);
            self.queue.publish(work, Lane::Urgent, None, None).await.expect("published");
        }
        self.at_rest().await;
    }

    /// Waits until no work is waiting or in hand.
    pub async fn at_rest(&self) {
        self.eventually(Duration::from_secs(60), "all work is done", async || {
            self.waiting_work().await.is_ok_and(|waiting| waiting.is_empty())
        })
        .await;
    }

    /// Polls until `holds`.
    ///
    /// # Panics
    /// It never does. The message tells everything that is known.
    pub async fn eventually(&self, patience: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let until = Instant::now() + patience;
        while !holds().await {
            let in_time = Instant::now() < until;
            assert!(in_time, "not so after {} s: {what}\n{}", patience.as_secs(), self.report().await);
            tokio::time::sleep(LOOK).await;
        }
    }

    /// How far everything is, for people.
    pub async fn report(&self) -> String {
        let mut text = String::from("\n== objects\n");
        for line in self.cluster.standing().await {
            let _ = writeln!(text, "{line}");
        }
        let made = tokio::time::timeout(Duration::from_secs(5), self.made()).await;
        let _ = writeln!(text, "== in the cloud: {made:?}\n== queue");
        match self.queue_report().await {
            Ok(queue) => text.push_str(&queue),
            Err(error) => text.push_str(&error.to_string()),
        }
        let _ = writeln!(
            text,
            "== work waiting: {:?}\n== timers: {:?}",
            self.waiting_work().await,
            self.subjects("timer.>").await
        );
        for process in self.functions.iter().chain([&self.kube_sim, &self.openstack_sim]) {
            let _ = writeln!(text, "== {}\n{}", process.name(), process.last_words());
        }
        text
    }

    /// The region's Secret, as `change` leaves it.
    pub fn secret(&self, change: impl FnOnce(&mut Value)) -> Value {
        let mut data = self.bootstrap["credential"].clone();
        change(&mut data);
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": data,
            "metadata": {"name": crate::World::SECRET, "namespace": crate::World::NAMESPACE}})
    }

    /// A Region with this endpoint, or the cloud's own.
    pub fn region(&self, endpoint: Option<&str>) -> Value {
        let endpoint = endpoint.or(self.bootstrap["endpoint"].as_str()).expect("an endpoint");
        let secret = json!({"namespace": crate::World::NAMESPACE, "name": crate::World::SECRET});
        let openstack = json!({"endpoint": endpoint, "serviceAccountSecret": secret});
        let spec = json!({"provider": "openstack", "openstack": openstack});
        crate::world::object(Kind::Region, crate::World::REGION, &[], spec)
    }

    /// A Server on a network, in a security group, of an identity.
    pub fn server(&self, name: &str, identity: &str, network: &str, group: &str) -> Value {
        let spec = json!({"flavorID": self.bootstrap["flavors"][0]["id"], "image": {"id": self.bootstrap["images"][0]["id"]},
            "networks": [{"id": network}], "securityGroups": [{"id": group}]});
        crate::world::object(Kind::Server, name, &crate::world::links(identity), spec)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            println!("the logs of all processes are kept in {}", self.folder.path().display());
            return;
        }
        match crate::leaks::search(&self.nats.url(), &self.folder.path().join("kube")) {
            Ok(many) => println!("none of the last {many} recordings holds a secret"),
            Err(error) => println!("what was recorded cannot be looked through: {error:#}"),
        }
    }
}

/// Where a function that runs says that it serves its metrics.
fn metrics_of(process: &Process) -> Option<String> {
    let said = process.said();
    said.lines().rev().find_map(|line| line.strip_prefix("metrics ")).map(str::to_owned)
}

/// Starts a queue's server on a port that nobody else can come to have while it is down.
fn start_nats() -> NatsServer {
    for _ in 1..TRIES {
        // The later of two --port counts.
        if let Ok(server) = NatsServer::start_with(&["--port", &free_port().to_string()]) {
            return server;
        }
    }
    NatsServer::start().expect("nats-server starts")
}

/// Starts a simulator on a free port and waits until it says that it listens.
async fn start_on_a_port(describe: impl Fn(u16) -> Process) -> (Process, u16) {
    let mut last = String::new();
    for _ in 0..TRIES {
        let port = free_port();
        let mut process = describe(port);
        process.start().expect("a simulator starts");
        let until = Instant::now() + START;
        while process.ended().is_none() && Instant::now() < until {
            if process.log().contains("listening on") {
                return (process, port);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        last = process.last_words();
    }
    panic!("a simulator does not start: {last}");
}
