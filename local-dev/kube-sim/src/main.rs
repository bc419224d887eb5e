//! `kube-sim`: see the library's documentation.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use weir_kube_sim::{Config, KubeSim, write_secret};

/// A Kubernetes API server for local development and tests.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Folder to keep everything in; without it, nothing outlives the process
    #[arg(long)]
    data: Option<PathBuf>,
    /// Write a kubeconfig for the administrator to this file (readable by its owner only)
    #[arg(long)]
    kubeconfig_out: Option<PathBuf>,
    /// The administrator's token (`TOKEN`), or a further user (`NAME=TOKEN`); may be given several times
    #[arg(long = "token", env = "KUBE_SIM_TOKEN", hide_env_values = true, value_delimiter = ',')]
    tokens: Vec<String>,
    /// Plain HTTP (kubectl then sends no token)
    #[arg(long)]
    no_tls: bool,
    /// Milliseconds for which a new custom resource answers 429, as a real server does
    #[arg(long, default_value_t = 0)]
    readiness_delay_ms: u64,
    /// Events kept for each resource
    #[arg(long, default_value_t = 30_000)]
    history: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into()))
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let mut config = Config {
        listen: arguments.listen,
        tls: !arguments.no_tls,
        data: arguments.data,
        readiness_delay: Duration::from_millis(arguments.readiness_delay_ms),
        history: arguments.history,
        ..Config::default()
    };
    for token in arguments.tokens {
        match token.split_once('=') {
            Some((name, token)) => config.users.push((name.to_owned(), token.to_owned())),
            None => config.token = Some(token),
        }
    }
    // Before the server is up, so that an early signal is not lost.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let sim = KubeSim::start(config).await?;
    if let Some(path) = &arguments.kubeconfig_out {
        write_secret(path, sim.kubeconfig().as_bytes()).with_context(|| format!("writing {}", path.display()))?;
    }
    println!("kube-sim listening on {}", sim.url());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    sim.stop().await;
    Ok(())
}
