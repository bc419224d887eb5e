//! `openstack-sim`: the simulator as a process.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use weir_openstack_sim::{Config, Sim};

/// A simulated OpenStack: Keystone, Nova, Neutron and Glance on one port.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, env = "WEIR_OPENSTACK_SIM_LISTEN", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// File that keeps the state over a restart
    #[arg(long, env = "WEIR_OPENSTACK_SIM_DATA")]
    data: Option<PathBuf>,
    /// How long a server takes to build
    #[arg(long, env = "WEIR_OPENSTACK_SIM_BUILD_SECONDS", default_value = "1.5", value_parser = seconds)]
    build_seconds: Duration,
    /// How long a server takes to go
    #[arg(long, env = "WEIR_OPENSTACK_SIM_DELETE_SECONDS", default_value = "0.5", value_parser = seconds)]
    delete_seconds: Duration,
    /// How long a token lives
    #[arg(long, env = "WEIR_OPENSTACK_SIM_TOKEN_SECONDS", default_value = "3600", value_parser = seconds)]
    token_seconds: Duration,
    /// Base URL for the catalog, if it is not the address listened on
    #[arg(long, env = "WEIR_OPENSTACK_SIM_PUBLIC_URL")]
    public_url: Option<String>,
    /// Leave out the product's policy, as in a cloud that was not prepared
    #[arg(long, env = "WEIR_OPENSTACK_SIM_STOCK_POLICY")]
    stock_policy: bool,
    /// Let `name=` filters match prefixes of any case in Neutron, Glance and Keystone, as some clouds do
    #[arg(long, env = "WEIR_OPENSTACK_SIM_FUZZY_FILTERS")]
    fuzzy_filters: bool,
    /// Answer /_sim to callers from other machines too
    #[arg(long, env = "WEIR_OPENSTACK_SIM_EXPOSE_ADMIN")]
    expose_admin: bool,
    /// Password of the region's service user and of the administrator
    #[arg(long, env = "WEIR_OPENSTACK_SIM_PASSWORD", default_value = "openstack-sim", hide_env_values = true)]
    password: String,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(value).map_err(|error| error.to_string())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .init();
    let options = Options::parse();
    let sim = Sim::start(Config {
        listen: options.listen,
        data: options.data,
        build: options.build_seconds,
        delete: options.delete_seconds,
        token_life: options.token_seconds,
        public_url: options.public_url,
        product_policy: !options.stock_policy,
        fuzzy_filters: options.fuzzy_filters,
        expose_admin: options.expose_admin,
        password: options.password,
        ..Config::default()
    })
    .await?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    println!("openstack-sim listening on http://{}", sim.address());
    tokio::select! {
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot wait for an interrupt")?,
    }
    sim.stop().await;
    Ok(())
}
