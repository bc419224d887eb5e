//! What is measured, as processes: the queue's server, both simulators, and whoever works on servers.
//!
//! Unlike the harness' stack, which is the whole product, a rig runs what a scenario asks for and nothing else, with any
//! number of processes of one function, and knows what each has used.

use crate::classic::Stats;
use crate::consumer;
use crate::population::Population;
use crate::usage::{self, Usage};
use anyhow::{Context, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use weir_function_runtime::queue::{self, Queue};
use weir_function_runtime::settings::Settings;
use weir_harness::Cluster;
use weir_harness::nats::NatsServer;
use weir_harness::process::{Process, built};

/// Between two looks at something that is waited for.
pub const LOOK: Duration = Duration::from_millis(20);
/// How long parts may take to start or to stop.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How many objects are applied at once.
const APPLIERS: usize = 32;
/// The functions that make what servers need.
const SURROUNDINGS: [&str; 4] = ["region", "identity", "network", "security-group"];

/// Everything but who works.
pub struct Rig {
    /// The Kubernetes API, as a person uses it.
    pub cluster: Cluster,
    /// The queue.
    pub queue: Queue,
    /// What the cloud tells of itself.
    pub bootstrap: Value,
    nats: NatsServer,
    kube_sim: Process,
    openstack_sim: Process,
    cloud_url: String,
    http: reqwest::Client,
    folder: TempDir,
}

/// A process that works, and where it tells how far it is.
pub struct Worker {
    /// The process.
    pub process: Process,
    /// Where it says that it answers, once it has.
    address: OnceLock<String>,
    http: reqwest::Client,
}

/// Requests that have been served since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// By the Kubernetes API.
    pub kubernetes: u64,
    /// By the cloud.
    pub cloud: u64,
}

impl Rig {
    /// Starts the queue and both simulators, and applies the custom resources.
    pub async fn start() -> anyhow::Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = TempDir::with_prefix("weir-load-")?;
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build()?;
        let nats = tokio::task::spawn_blocking(NatsServer::start).await??;
        let kubeconfig = folder.path().join("kubeconfig");
        let kube_sim =
            Process::new("kube-sim", built("kube-sim"), folder.path()).arg("--kubeconfig-out").arg(&kubeconfig);
        let (kube_sim, _) = listening(kube_sim).await?;
        let openstack_sim =
            Process::new("openstack-sim", built("openstack-sim"), folder.path()).env("RUST_LOG", "warn");
        let (openstack_sim, cloud_url) = listening(openstack_sim).await?;
        let config = Kubeconfig::read_from(&kubeconfig).context("kube-sim has written no kubeconfig")?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let settings = Settings::from_arguments(["--nats", &nats.url(), "--name", "bench"])?;
        let queue = queue::connect(&settings).await?;
        queue.connected().await;
        queue.ensure().await?;
        let cluster = Cluster::new(config);
        cluster.prepare().await;
        let mut rig =
            Self { cluster, queue, bootstrap: Value::Null, nats, kube_sim, openstack_sim, cloud_url, http, folder };
        rig.bootstrap = rig.cloud("GET", "bootstrap", None).await?;
        Ok(rig)
    }

    /// The same with everything that `population` needs made, and none of the functions running.
    pub async fn with_surroundings(population: Population) -> anyhow::Result<Self> {
        let rig = Self::start().await?;
        let mut functions = vec![rig.function("watch-publisher", 0, &[])];
        functions.extend(SURROUNDINGS.map(|name| rig.function(name, 0, &[])));
        for function in &mut functions {
            function.process.start()?;
        }
        for function in &functions {
            function.ready().await?;
        }
        let objects = population.surroundings(&rig.bootstrap);
        rig.apply(&objects).await;
        // All but the Secret have a condition.
        let wanted = objects.len() - 1;
        rig.eventually(PATIENCE * 5, "all surroundings are available", async || {
            Ok(rig.cluster.available().await == (wanted, wanted))
        })
        .await?;
        for function in functions {
            function.stop().await?;
        }
        Ok(rig)
    }

    /// A process of a function that does not run yet.
    pub fn function(&self, name: &str, number: usize, environment: &[(&str, &str)]) -> Worker {
        let program = built(if name == "reader" { "weir-reader" } else { name });
        let process = Process::new(&format!("{name}-{number}"), program, self.folder.path())
            .env("KUBECONFIG", self.kubeconfig().display().to_string())
            .env("WEIR_NATS_URL", self.nats.url())
            .env("WEIR_METRICS", "127.0.0.1:0");
        let process = environment.iter().fold(process, |process, (name, value)| process.env(name, value));
        Worker { process, address: OnceLock::new(), http: self.http.clone() }
    }

    /// The classic controller, calling `function` for so many objects at once. Does not run yet.
    pub fn classic(&self, function: &str, concurrency: usize) -> Worker {
        let process = Process::new("classic", built("weir-classic"), self.folder.path())
            .env("KUBECONFIG", self.kubeconfig().display().to_string())
            .arg("--function")
            .arg(function)
            .arg("--concurrency")
            .arg(concurrency.to_string())
            .arg("--listen")
            .arg("127.0.0.1:0");
        Worker { process, address: OnceLock::new(), http: self.http.clone() }
    }

    /// Where the Kubernetes API is described.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Where the queue is.
    pub fn nats_url(&self) -> String {
        self.nats.url()
    }

    /// Where logs go.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Applies objects as `kubectl` does, many at once.
    pub async fn apply(&self, objects: &[Value]) {
        futures::stream::iter(objects)
            .for_each_concurrent(APPLIERS, async |object| drop(self.cluster.apply(object).await))
            .await;
    }

    /// A request to the cloud's own `/_sim`.
    pub async fn cloud(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let request = self.http.request(method.parse()?, format!("{}/_sim/{path}", self.cloud_url));
        let request = if let Some(body) = body { request.json(body) } else { request };
        let text = request.send().await?.error_for_status()?.text().await?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Lets every request to the cloud take this long.
    pub async fn slow_cloud(&self, latency: Duration) -> anyhow::Result<()> {
        let fault = json!({"action": {"latency": u64::try_from(latency.as_millis())?}});
        self.cloud("POST", "faults", Some(&fault)).await.map(drop)
    }

    /// How many requests have been served.
    pub async fn served(&self) -> anyhow::Result<Served> {
        let count = |answer: &Value| answer["served"].as_u64().context("no count of requests");
        let cloud = count(&self.cloud("GET", "served", None).await?)?;
        Ok(Served { kubernetes: count(&self.cluster.sim("GET", "served", None).await)?, cloud })
    }

    /// What the queue's server has used.
    pub fn nats_usage(&self) -> anyhow::Result<Usage> {
        usage::of(self.nats.pid().context("nats-server does not run")?)
    }

    /// What both simulators have used.
    pub fn simulators_usage(&self) -> anyhow::Result<Duration> {
        let of = |process: &Process| usage::of(process.pid().context("a simulator does not run")?);
        Ok(of(&self.kube_sim)?.cpu + of(&self.openstack_sim)?.cpu)
    }

    /// Waits until no work for servers waits or is in hand.
    pub async fn at_rest(&self) -> anyhow::Result<()> {
        self.eventually(PATIENCE * 10, "all work is done", async || {
            Ok(consumer::backlog(&self.queue).await?.is_empty())
        })
        .await
    }

    /// Looks until `holds`.
    pub async fn eventually(
        &self,
        patience: Duration,
        what: &str,
        mut holds: impl AsyncFnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + patience;
        while !holds().await? {
            ensure!(Instant::now() < until, "not so after {patience:?}: {what}");
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// How many ports and servers the cloud holds: none may be there twice.
    pub async fn cloud_has(&self) -> anyhow::Result<(u64, u64)> {
        let counts = self.cloud("GET", "counts", None).await?["counts"].clone();
        let of = |kind: &str| counts[kind].as_u64().with_context(|| format!("no count of {kind}"));
        Ok((of("ports")?, of("servers")?))
    }

    /// The names of so many servers in the cloud, listed with the rights of the cloud itself.
    pub async fn requests(&self) -> anyhow::Result<Vec<Value>> {
        let mut answer = self.cloud("GET", "requests", None).await?;
        match answer["requests"].take() {
            Value::Array(requests) => Ok(requests),
            _ => bail!("the cloud shows no requests"),
        }
    }
}

impl Worker {
    /// Starts it.
    pub fn start(mut self) -> anyhow::Result<Self> {
        self.process.start()?;
        Ok(self)
    }

    /// Waits until it takes work.
    pub async fn ready(&self) -> anyhow::Result<()> {
        self.answers("readyz").await
    }

    /// Waits until the classic controller answers.
    pub async fn answering(&self) -> anyhow::Result<()> {
        self.answers("stats").await
    }

    async fn answers(&self, path: &str) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(url) = self.url(path)
                && self.http.get(url).send().await.is_ok_and(|answer| answer.status().is_success())
            {
                return Ok(());
            }
            ensure!(Instant::now() < until, "{} does not start:\n{}", self.process.name(), self.process.last_words());
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn url(&self, path: &str) -> anyhow::Result<String> {
        let address = if let Some(address) = self.address.get() {
            address
        } else {
            let said = self.process.said();
            let said = said.lines().find_map(|line| line.strip_prefix("metrics "));
            let said = said.with_context(|| format!("{} does not say where it answers", self.process.name()))?;
            self.address.get_or_init(|| said.to_owned())
        };
        Ok(format!("{address}/{path}"))
    }

    /// What it has used.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        usage::of(self.process.pid().with_context(|| format!("{} does not run", self.process.name()))?)
    }

    /// Calls of a function's process that have ended, in any way.
    pub async fn calls(&self) -> anyhow::Result<u64> {
        self.metric("weir_calls_total", "").await
    }

    /// A metric of a function's process, summed over all series whose labels contain `label`.
    pub async fn metric(&self, name: &str, label: &str) -> anyhow::Result<u64> {
        let text = self.http.get(self.url("metrics")?).send().await?.text().await?;
        let series =
            text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        Ok(series
            .filter(|line| line.contains(label))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum())
    }

    /// What the classic controller tells.
    pub async fn stats(&self) -> anyhow::Result<Stats> {
        Ok(self.http.get(self.url("stats")?).send().await?.json().await?)
    }

    /// Has the classic controller look at everything again.
    pub async fn resync(&self) -> anyhow::Result<()> {
        self.http.post(self.url("resync")?).send().await?.error_for_status()?;
        Ok(())
    }

    /// Has the classic controller look at these again.
    pub async fn enqueue(&self, names: &[String]) -> anyhow::Result<()> {
        let named: Vec<_> = names.iter().map(|name| (weir_harness::World::NAMESPACE, name)).collect();
        self.http.post(self.url("enqueue")?).json(&named).send().await?.error_for_status()?;
        Ok(())
    }

    /// Waits until the classic controller has made so many calls in all, and makes none.
    pub async fn quiet(&self, calls: u64) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE * 10;
        let mut last = None;
        loop {
            let stats = self.stats().await?;
            let still = (stats.ended >= calls && stats.begun == stats.ended).then_some(stats.ended);
            // Between two calls it makes none either; twice the same is quiet.
            if still.is_some() && still == last {
                return Ok(());
            }
            last = still;
            ensure!(Instant::now() < until, "the classic controller has made {} of {calls} calls", stats.ended);
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Asks it to stop and waits until it has.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.process.signal(nix::sys::signal::Signal::SIGTERM)?;
        let until = Instant::now() + PATIENCE;
        while self.process.ended().is_none() {
            ensure!(Instant::now() < until, "{} does not stop", self.process.name());
            sleep(LOOK).await;
        }
        Ok(())
    }
}

/// Stops several at once.
pub async fn stop_all(workers: Vec<Worker>) -> anyhow::Result<()> {
    futures::stream::iter(workers).map(|worker| Ok(worker.stop())).try_buffer_unordered(8).try_collect().await
}

/// Starts a simulator on a port that the system chooses, and waits until it says where it listens.
async fn listening(mut process: Process) -> anyhow::Result<(Process, String)> {
    process.start()?;
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(line) = process.log().lines().find(|line| line.contains("listening on")) {
            let url = line.split_whitespace().last().unwrap_or_default().to_owned();
            return Ok((process, url));
        }
        ensure!(process.ended().is_none() && Instant::now() < until, "no simulator:\n{}", process.last_words());
        sleep(LOOK).await;
    }
}
