//! Asking a part of the stack whether it is well.

use crate::cluster;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

/// How long a part may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// A NATS server's greeting is well below this.
const GREETING: usize = 64 * 1024;

/// How to ask.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// A NATS server, by host and port.
    Nats(String),
    /// Anything that answers 200 at an address when it is well, and says why when it is not.
    Http(String),
    /// A Kubernetes API, by its kubeconfig.
    Kubernetes(PathBuf),
}

impl Probe {
    /// Nothing if the part is well, otherwise why it is not.
    pub async fn ask(&self) -> Result<(), String> {
        let answer = async {
            match self {
                Self::Nats(address) => greeting(address).await.map(|_| ()),
                Self::Http(url) => http(url).await.map(|_| ()),
                Self::Kubernetes(kubeconfig) => kubernetes(kubeconfig).await,
            }
        };
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err("no answer".into()))
    }
}

/// What a NATS server says of itself to whoever connects.
#[derive(Clone, Debug, Deserialize)]
pub struct Greeting {
    /// Its version.
    pub version: String,
    /// Whether JetStream is on.
    #[serde(default)]
    pub jetstream: bool,
}

/// Connects to a NATS server and reads its greeting, which comes before TLS and before any credentials.
pub async fn greeting(address: &str) -> Result<Greeting, String> {
    let stream = tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let mut line = String::new();
    let mut reader = BufReader::new(tokio::io::AsyncReadExt::take(stream, GREETING as u64));
    reader.read_line(&mut line).await.map_err(|error| error.to_string())?;
    let info = line.strip_prefix("INFO ").ok_or("what answers there is no NATS server")?;
    serde_json::from_str(info).map_err(|error| format!("its greeting cannot be read: {error}"))
}

/// The body of an HTTP answer that says 200.
pub async fn http(url: &str) -> Result<Vec<u8>, String> {
    // Nothing that runs on this machine is reached through a proxy.
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().map_err(|error| error.to_string())?;
    let answer = client.get(url).send().await.map_err(|_| "no answer".to_owned())?;
    let status = answer.status();
    let body = answer.bytes().await.map_err(|error| error.to_string())?;
    if status.is_success() {
        return Ok(body.to_vec());
    }
    let why = String::from_utf8_lossy(&body);
    Err(if why.trim().is_empty() { status.to_string() } else { why.trim().to_owned() })
}

async fn kubernetes(kubeconfig: &std::path::Path) -> Result<(), String> {
    let client = cluster::connect(kubeconfig).await.map_err(|error| format!("{error:#}"))?;
    client.apiserver_version().await.map(|_| ()).map_err(|error| error.to_string())
}
