//! One running server, and how to start, stop and restart it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::auth::{self, Auth};
use crate::cluster::{Cluster, Parts};
use crate::faults::Faults;
use crate::requests::Requests;
use crate::store::{JournalError, Store};
use crate::{controllers, http, tls};

/// How a server is to be.
#[derive(Clone)]
pub struct Config {
    /// Port 0: any free one; with a data folder the same one as last time, if it is still free.
    pub listen: SocketAddr,
    /// Without TLS `kubectl` sends no token; clients in tests do.
    pub tls: bool,
    /// Where state, certificate and token are kept; `None`: in memory only.
    pub data: Option<PathBuf>,
    /// The administrator's token; `None`: the one kept in the data folder, or a new one.
    pub token: Option<String>,
    /// Further users: name and token.
    pub users: Vec<(String, String)>,
    /// How long a new custom resource answers 429 first. A real server does so for 10 to 100 ms.
    pub readiness_delay: Duration,
    /// Events kept for each resource; watches from before are told 410. Each holds one version of an object: some 10 kB of memory.
    pub history: usize,
}

impl Default for Config {
    /// TLS on a free port of the loopback, in memory.
    fn default() -> Self {
        Config {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            tls: true,
            data: None,
            token: None,
            users: Vec::new(),
            readiness_delay: Duration::ZERO,
            history: 30_000,
        }
    }
}

impl Config {
    /// As the default, without TLS.
    pub fn plain() -> Config {
        Config { tls: false, ..Config::default() }
    }
}

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("listening on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("{path}: {source}")]
    Data { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Tls(#[from] tls::Error),
    #[error(transparent)]
    Fault(#[from] crate::faults::Error),
}

/// A running server. Dropping it stops it; [`KubeSim::stop`] also waits until it has stopped.
pub struct KubeSim {
    config: Config,
    cluster: Arc<Cluster>,
    tasks: Vec<JoinHandle<()>>,
    token: String,
    address: SocketAddr,
}

fn kept(dir: Option<&Path>, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(dir?.join(name)).ok()?;
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

impl KubeSim {
    /// Starts a server; when this returns, it accepts connections.
    pub async fn start(config: Config) -> Result<KubeSim, Error> {
        Self::start_with(config, Faults::default(), Requests::default()).await
    }

    async fn start_with(config: Config, faults: Faults, requests: Requests) -> Result<KubeSim, Error> {
        let data = config.data.as_deref();
        if let Some(dir) = data {
            std::fs::create_dir_all(dir).map_err(|source| Error::Data { path: dir.into(), source })?;
        }
        let token = config.token.clone().or_else(|| kept(data, "token")).unwrap_or_else(auth::random_token);
        let listener = listen(config.listen, kept(data, "port").and_then(|p| p.parse().ok())).await?;
        let address = listener.local_addr().map_err(|source| Error::Listen { address: config.listen, source })?;
        if let Some(dir) = data {
            let keep = || -> std::io::Result<()> {
                crate::files::write_secret(&dir.join("token"), token.as_bytes())?;
                std::fs::write(dir.join("port"), address.port().to_string())
            };
            keep().map_err(|source| Error::Data { path: dir.into(), source })?;
        }
        let identity = if config.tls {
            let hosts = hosts(address.ip());
            Some(match data {
                Some(dir) => tls::Identity::keep(dir, &hosts)?,
                None => tls::Identity::generate(&hosts)?,
            })
        } else {
            None
        };
        let server_config = identity.as_ref().map(tls::Identity::server_config).transpose()?;
        let host = if address.ip().is_unspecified() {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
        } else {
            address
        };
        let cluster = Arc::new(Cluster::new(Parts {
            store: Store::open(data, config.history)?,
            auth: Auth::new(&token, &config.users),
            url: format!("{}://{host}", if config.tls { "https" } else { "http" }),
            ca_pem: identity.map(|i| i.authority).unwrap_or_default(),
            readiness_delay: config.readiness_delay,
            faults,
            requests,
        }));
        let tasks = vec![
            tokio::spawn(http::serve(cluster.clone(), listener, server_config)),
            tokio::spawn(controllers::run(cluster.clone())),
        ];
        Ok(KubeSim { config, cluster, tasks, token, address })
    }

    /// `https://127.0.0.1:12345`.
    pub fn url(&self) -> &str {
        &self.cluster.url
    }

    /// The administrator's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The authority that vouches for the server's certificate, in PEM; empty without TLS.
    pub fn ca_pem(&self) -> &str {
        &self.cluster.ca_pem
    }

    /// A kubeconfig for the administrator, as JSON (which is YAML, too).
    pub fn kubeconfig(&self) -> String {
        let mut cluster = json!({"server": self.url()});
        if self.config.tls {
            cluster["certificate-authority-data"] = json!(STANDARD.encode(self.ca_pem()));
        }
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "kube-sim", "preferences": {},
            "clusters": [{"name": "kube-sim", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "kube-sim", "context": {"cluster": "kube-sim", "user": "admin", "namespace": "default"}}],
        });
        format!("{config:#}\n")
    }

    /// What goes wrong.
    pub fn faults(&self) -> Faults {
        self.cluster.faults.clone()
    }

    /// What was asked, and what it changed.
    pub fn requests(&self) -> Requests {
        self.cluster.requests.clone()
    }

    /// Writes of clients that changed something, by resource and verb.
    pub fn counts(&self) -> crate::Counts {
        self.cluster.requests.counts()
    }

    /// Stops: open watches end, running requests finish.
    pub async fn stop(mut self) {
        self.halt().await;
    }

    async fn halt(&mut self) {
        self.cluster.shutdown.cancel();
        for task in self.tasks.drain(..) {
            if let Err(error) = task.await
                && error.is_panic()
            {
                tracing::error!(%error, "a task of the server panicked");
            }
        }
        self.cluster.store.close();
    }

    /// Stops and starts again on the same port with the same token. Without a data folder everything stored is gone. Faults and request
    /// log stay.
    pub async fn restart(mut self) -> Result<KubeSim, Error> {
        self.halt().await;
        let mut config = self.config.clone();
        config.listen = self.address;
        config.token = Some(self.token.clone());
        let (faults, requests) = (self.faults(), self.requests());
        drop(self);
        Self::start_with(config, faults, requests).await
    }
}

impl Drop for KubeSim {
    fn drop(&mut self) {
        self.cluster.shutdown.cancel();
    }
}

async fn listen(wanted: SocketAddr, last_port: Option<u16>) -> Result<TcpListener, Error> {
    if let (0, Some(port)) = (wanted.port(), last_port)
        && let Ok(listener) = TcpListener::bind(SocketAddr::new(wanted.ip(), port)).await
    {
        return Ok(listener);
    }
    TcpListener::bind(wanted).await.map_err(|source| Error::Listen { address: wanted, source })
}

/// Names and addresses under which the server can be reached.
fn hosts(ip: IpAddr) -> Vec<String> {
    let mut out: Vec<String> = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "host.docker.internal",
        "kube-sim",
    ]
    .map(str::to_owned)
    .to_vec();
    if !ip.is_loopback() && !ip.is_unspecified() {
        out.push(ip.to_string());
    }
    out
}
