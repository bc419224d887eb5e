//! The parts of a stack: which processes, with which arguments and environment.

use crate::nats::{Credentials, Server};
use crate::ports::Ports;
use crate::probe::Probe;
use crate::stack::Options;
use crate::supervisor::{Spec, Tier};
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// One process for each, called like its executable.
pub const FUNCTIONS: [&str; 7] =
    ["region", "identity", "network", "security-group", "server", "server-monitor", "watch-publisher"];

/// How long a function may finish its calls when it is told to stop: Ctrl-C should not feel long.
const GRACE: &str = "5s";

/// Other ways of logging in to NATS.
const OTHER_CREDENTIALS: [&str; 6] =
    ["WEIR_NATS_CREDS", "WEIR_NATS_NKEY_FILE", "WEIR_NATS_TOKEN", "WEIR_NATS_CA", "WEIR_NATS_CERT", "WEIR_NATS_KEY"];

/// Variables that would send local connections through a proxy.
const PROXIES: [&str; 6] = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// Our own NATS server.
pub fn nats(server: &Server, config: &Path, port: u16) -> Spec {
    Spec {
        name: "nats-server",
        tier: Tier::Queue,
        program: server.program.clone(),
        args: vec!["--config".into(), config.into()],
        env: vec![],
        address: format!("nats://127.0.0.1:{port}"),
        metrics: None,
        probe: Probe::Nats(format!("127.0.0.1:{port}")),
    }
}

/// The simulated Kubernetes.
pub fn kube_sim(state: &Path, kubeconfig: &Path, port: u16) -> anyhow::Result<Spec> {
    Ok(Spec {
        name: "kube-sim",
        tier: Tier::Apis,
        program: beside("kube-sim")?,
        args: vec![
            "--listen".into(),
            format!("127.0.0.1:{port}").into(),
            "--data".into(),
            state.join("kube").into(),
            "--kubeconfig-out".into(),
            kubeconfig.into(),
        ],
        env: vec![],
        address: format!("https://127.0.0.1:{port}"),
        metrics: None,
        probe: Probe::Kubernetes(kubeconfig.to_owned()),
    })
}

/// The simulated OpenStack.
pub fn openstack_sim(state: &Path, port: u16) -> anyhow::Result<Spec> {
    let url = format!("http://127.0.0.1:{port}");
    Ok(Spec {
        name: "openstack-sim",
        tier: Tier::Apis,
        program: beside("openstack-sim")?,
        args: vec![
            "--listen".into(),
            format!("127.0.0.1:{port}").into(),
            "--data".into(),
            state.join("openstack.json").into(),
        ],
        env: vec![],
        metrics: None,
        probe: Probe::Http(format!("{url}/_sim/bootstrap")),
        address: url,
    })
}

/// The functions and the watch-publisher, each with a port for its metrics.
pub fn functions(
    options: &Options,
    kubeconfig: &Path,
    nats_url: &str,
    credentials: Option<&Credentials>,
    ports: &mut Ports,
) -> anyhow::Result<Vec<Spec>> {
    let mut env: Vec<(&'static str, Option<OsString>)> = vec![
        ("KUBECONFIG", Some(kubeconfig.into())),
        ("WEIR_NATS_URL", Some(nats_url.into())),
        ("WEIR_GRACE", Some(GRACE.into())),
    ];
    // On a laptop, everything is worth looking at afterwards.
    if std::env::var_os("WEIR_RECORD").is_none() {
        env.push(("WEIR_RECORD", Some("all".into())));
    }
    // Nor does anybody want to wait a minute there to see how a server is.
    if std::env::var_os("WEIR_MONITOR_SECONDS").is_none() {
        env.push(("WEIR_MONITOR_SECONDS", Some("10".into())));
    }
    if let Some(credentials) = credentials {
        // Whatever else is set for reaching another NATS must not be tried on ours.
        env.extend(OTHER_CREDENTIALS.map(|name| (name, None)));
        env.push(("WEIR_NATS_USER", Some(credentials.user.clone().into())));
        env.push(("WEIR_NATS_PASSWORD_FILE", Some(credentials.password_file.clone().into())));
    }
    if options.is_local() {
        env.extend(PROXIES.map(|name| (name, None)));
    }
    let mut next = options.metrics_port;
    let spec = |name: &'static str| {
        let port = ports.take(name, next, "--metrics-port")?;
        next = next.and_then(|port| port.checked_add(1));
        let url = format!("http://127.0.0.1:{port}");
        let mut env = env.clone();
        env.push(("WEIR_METRICS", Some(format!("127.0.0.1:{port}").into())));
        Ok(Spec {
            name,
            tier: Tier::Functions,
            program: beside(name)?,
            args: vec![],
            env,
            probe: Probe::Http(format!("{url}/readyz")),
            metrics: Some(format!("{url}/metrics")),
            address: url,
        })
    };
    FUNCTIONS.into_iter().map(spec).collect()
}

/// The executable of a part, which was built into the same folder as this one.
fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let weir = std::env::current_exe().context("cannot find this executable")?;
    let program = weir.with_file_name(name);
    if !program.is_file() {
        bail!("{} is missing; the script ./weir in the checkout's root builds it", program.display());
    }
    Ok(program)
}
