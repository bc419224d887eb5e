//! A stack from nothing to ready: state folder, queue, APIs, custom resource definitions, functions.

use crate::checkout::{Checkout, create_private_dir, short, write_private};
use crate::cluster;
use crate::complain;
use crate::nats;
use crate::parts;
use crate::ports::Ports;
use crate::probe;
use crate::process::Identity;
use crate::record::{Places, Record};
use crate::sample::Cloud;
use crate::supervisor::{Notice, Supervisor, Tier, clean_up};
use anyhow::{Context, bail};
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// The error for a checkout that has a stack already.
#[derive(Debug, thiserror::Error)]
#[error(
    "a stack of this checkout runs already{0}. `./weir status` shows it, `./weir down` ends it; for a second one beside it, \
     give --home DIR"
)]
pub struct Running(String);

impl Running {
    /// Names the stack that runs, as far as it is known.
    pub fn of(checkout: &Checkout) -> Self {
        let record = Record::read(&checkout.record()).ok().flatten();
        let which = record.and_then(|record| Some((record.supervisor.filter(Identity::runs)?.pid, record.started)));
        Self(which.map_or_else(String::new, |(pid, started)| format!(" (process {pid}, since {started:.0})")))
    }
}

/// Marks a folder as one that holds a stack's data, so that no other folder is filled by mistake.
const MARK: &str = "weir-data";

/// What a stack is made of.
#[derive(Clone, Debug, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "The stack")]
pub struct Options {
    /// Keep all data in this folder, and go on from what is in it; otherwise every start is a fresh one
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Use the cluster that this kubeconfig's current context names, instead of kube-sim
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Use the NATS at this address, instead of one of our own. The functions take the WEIR_NATS_… variables from here
    #[arg(long, value_name = "URL", value_parser = NatsUrl)]
    pub nats: Option<String>,
    /// Start no openstack-sim: regions lead elsewhere. There is no sample then, unless --cloud is given
    #[arg(long)]
    pub no_openstack_sim: bool,
    /// Build the sample in this cloud instead of openstack-sim (JSON; the README has the form)
    #[arg(long, value_name = "FILE", conflicts_with = "no_sample")]
    pub cloud: Option<PathBuf>,
    /// Apply no sample
    #[arg(long)]
    pub no_sample: bool,
    /// Port of our NATS; a free one if not given
    #[arg(long, value_name = "PORT", conflicts_with = "nats", value_parser = clap::value_parser!(u16).range(1..))]
    pub nats_port: Option<u16>,
    /// Port of kube-sim; a free one if not given
    #[arg(long, value_name = "PORT", conflicts_with = "kubeconfig", value_parser = clap::value_parser!(u16).range(1..))]
    pub kube_port: Option<u16>,
    /// Port of openstack-sim; a free one if not given
    #[arg(long, value_name = "PORT", conflicts_with_all = ["no_openstack_sim", "cloud"], value_parser = clap::value_parser!(u16).range(1..))]
    pub openstack_port: Option<u16>,
    /// Port of the first function's metrics, the others' following; free ones if not given
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub metrics_port: Option<u16>,
}

impl Options {
    /// The same with paths that mean the same from any folder.
    pub fn absolute(mut self) -> anyhow::Result<Self> {
        for path in [&mut self.data, &mut self.kubeconfig, &mut self.cloud].into_iter().flatten() {
            *path = std::path::absolute(&*path)?;
        }
        Ok(self)
    }

    /// Whether openstack-sim is part of it.
    pub fn has_openstack_sim(&self) -> bool {
        !self.no_openstack_sim && self.cloud.is_none()
    }

    /// Whether nothing outside this machine is used.
    pub fn is_local(&self) -> bool {
        self.kubeconfig.is_none() && self.nats.is_none() && self.has_openstack_sim()
    }
}

/// A stack whose supervisor is this process.
pub struct Stack {
    /// Watches over its parts.
    pub supervisor: Supervisor,
    checkout: Checkout,
    options: Options,
    state: PathBuf,
    // Held, not read: while it is, no other stack starts in this checkout.
    _lock: File,
}

impl Stack {
    /// Takes the checkout for a new stack, ending what an earlier one has left. Nothing is started yet.
    pub fn take(
        checkout: &Checkout,
        options: Options,
        instance: String,
        notices: mpsc::UnboundedSender<Notice>,
    ) -> anyhow::Result<Self> {
        let lock = checkout.lock()?.ok_or_else(|| Running::of(checkout))?;
        if let Some(earlier) = Record::read(&checkout.record())? {
            let left = clean_up(&earlier);
            if left > 0 {
                complain!("weir: ended {left} processes that a stack which was killed had left");
            }
        }
        let state = prepare_state(checkout, options.data.as_deref())?;
        let logs = state.join("logs");
        create_private_dir(&logs)?;
        let kube_sim = options.kubeconfig.is_none();
        let kubeconfig = options.kubeconfig.clone().unwrap_or_else(|| state.join("kubeconfig"));
        let places = Places { state: state.clone(), logs, kubeconfig, kube_sim, ..Places::default() };
        let supervisor = Supervisor::new(Record::new(instance, places), checkout.record(), notices)?;
        Ok(Self { supervisor, checkout: checkout.clone(), options, state, _lock: lock })
    }

    /// Starts everything, in order, and returns when custom resources can be applied.
    pub async fn bring_up(&mut self, say: impl Fn(&str) + Send + Sync + 'static) -> anyhow::Result<()> {
        let memory = self.state.join("ports.json");
        let mut ports = Ports::remembered(&memory);
        let kubeconfig = self.supervisor.record().places.kubeconfig;
        let mut specs = vec![];
        let mut credentials = None;
        let nats_url = if let Some(url) = &self.options.nats {
            check_nats(url).await.with_context(|| format!("--nats {url}"))?;
            url.clone()
        } else {
            let checkout = self.checkout.clone();
            let server = tokio::task::spawn_blocking(move || {
                let server = nats::get(&checkout, &say)?;
                say(&format!("nats-server {} is {}", server.version, short(&server.program)));
                anyhow::Ok(server)
            });
            let server = server.await??;
            let port = ports.take("nats-server", self.options.nats_port, "--nats-port")?;
            let made = nats::credentials(&self.state, port)?;
            specs.push(parts::nats(&server, &nats::configure(&self.state, port, &made)?, port));
            credentials = Some(made);
            format!("nats://127.0.0.1:{port}")
        };
        if self.options.kubeconfig.is_none() {
            let port = ports.take("kube-sim", self.options.kube_port, "--kube-port")?;
            specs.push(parts::kube_sim(&self.state, &kubeconfig, port)?);
        }
        let mut openstack = None;
        if self.options.has_openstack_sim() {
            let port = ports.take("openstack-sim", self.options.openstack_port, "--openstack-port")?;
            let spec = parts::openstack_sim(&self.state, port)?;
            openstack = Some(spec.address.clone());
            specs.push(spec);
        }
        specs.extend(parts::functions(&self.options, &kubeconfig, &nats_url, credentials.as_ref(), &mut ports)?);
        ports.remember(&memory)?;
        self.supervisor.update(|record| {
            record.places.nats.clone_from(&nats_url);
            record.places.nats_credentials = credentials.as_ref().map(|made| made.file.clone());
            record.places.openstack.clone_from(&openstack);
        });

        for spec in specs.iter().filter(|spec| spec.tier < Tier::Functions) {
            self.supervisor.start(spec);
        }
        self.supervisor.answered(Tier::Queue, &specs).await?;
        self.supervisor.answered(Tier::Apis, &specs).await?;
        self.write_for_the_cloud(openstack.as_deref()).await?;
        let client = cluster::connect(&kubeconfig).await?;
        // The functions watch these kinds from the first moment.
        cluster::apply_definitions(&client).await?;
        for spec in specs.iter().filter(|spec| spec.tier == Tier::Functions) {
            self.supervisor.start(spec);
        }
        self.supervisor.answered(Tier::Functions, &specs).await?;
        self.supervisor.update(|record| record.ready = true);
        Ok(())
    }

    /// Writes the sample and `clouds.yaml` for the cloud that the sample shall be built in.
    async fn write_for_the_cloud(&self, openstack: Option<&str>) -> anyhow::Result<()> {
        let cloud = match (&self.options.cloud, openstack) {
            (Some(file), _) => Cloud::read(file)?,
            (None, Some(url)) => {
                let told = probe::http(&format!("{url}/_sim/bootstrap")).await.map_err(anyhow::Error::msg);
                told.and_then(|told| Cloud::parse(&told)).context("openstack-sim does not say what is in it")?
            }
            (None, None) => return Ok(()),
        };
        let (sample, clouds) = (cloud.write_sample(&self.state)?, cloud.write_clouds(&self.state)?);
        self.supervisor.update(|record| {
            record.places.cloud = Some(cloud.endpoint().to_owned());
            record.places.sample = Some(sample);
            record.places.clouds = Some(clouds);
        });
        Ok(())
    }
}

/// The folder for a stack's data: `data` as it is, or an empty one.
fn prepare_state(checkout: &Checkout, data: Option<&Path>) -> anyhow::Result<PathBuf> {
    let Some(data) = data else {
        let fresh = checkout.fresh_state();
        if let Err(error) = fs::remove_dir_all(&fresh)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error).with_context(|| format!("cannot empty {}", fresh.display()));
        }
        create_private_dir(&fresh)?;
        return Ok(fresh);
    };
    create_private_dir(data)?;
    let mark = data.join(MARK);
    if !mark.is_file() {
        let mut entries = fs::read_dir(data).with_context(|| format!("cannot read {}", data.display()))?;
        if entries.next().is_some() {
            bail!(
                "--data {} holds other things; name a new or empty folder, or one that an earlier stack used",
                data.display()
            );
        }
        write_private(&mark, b"Data of a stack of Weir: see `weir up --help`, --data.\n")?;
    }
    Ok(data.to_owned())
}

/// Reads an address of a NATS without a password in it: a process's arguments are everybody's to read. What has one is
/// refused without being shown again, which is why this is no plain function: the error of one quotes the value.
#[derive(Clone)]
struct NatsUrl;

impl TypedValueParser for NatsUrl {
    type Value = String;

    fn parse_ref(&self, command: &clap::Command, _: Option<&clap::Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let refuse = |why: &str| clap::Error::raw(ErrorKind::ValueValidation, format!("{why}\n")).with_cmd(command);
        let text = value.to_str().ok_or_else(|| refuse("the address of --nats is no text"))?;
        if text.contains('@') {
            return Err(refuse(
                "the address of --nats holds a user or password, which everybody can read on a command line; give the \
                 address alone, and set WEIR_NATS_USER and WEIR_NATS_PASSWORD",
            ));
        }
        Ok(text.to_owned())
    }
}

/// Refuses a NATS that cannot do what Weir needs, as far as its greeting tells.
async fn check_nats(url: &str) -> anyhow::Result<()> {
    let first = url.split(',').next().unwrap_or(url).trim();
    let (scheme, rest) = first.split_once("://").unwrap_or(("nats", first));
    if !matches!(scheme, "nats" | "tls") {
        bail!("addresses of NATS begin with nats:// or tls://");
    }
    let address = rest.trim_end_matches('/');
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port { address.to_owned() } else { format!("{address}:4222") };
    let greeting = tokio::time::timeout(std::time::Duration::from_secs(5), probe::greeting(&address)).await;
    let greeting = greeting.unwrap_or_else(|_| Err("no answer".into())).map_err(anyhow::Error::msg)?;
    nats::check(&greeting.version)?;
    if !greeting.jetstream {
        bail!("JetStream is off there; Weir's queue is JetStream: turn it on in the server's configuration");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn checkout(dir: &Path) -> Checkout {
        Checkout { root: dir.to_owned(), home: dir.join("home") }
    }

    #[test]
    fn a_folder_with_other_things_in_it_is_not_taken_for_data_and_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("mine");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("letter.txt"), "dear").unwrap();
        assert!(prepare_state(&checkout(dir.path()), Some(&data)).is_err());
        assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
    }

    #[test]
    fn data_is_kept_when_asked_for_and_gone_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let checkout = checkout(dir.path());
        let data = dir.path().join("data");
        for (named, kept) in [(Some(data.as_path()), true), (None, false)] {
            let state = prepare_state(&checkout, named).unwrap();
            fs::write(state.join("file"), "x").unwrap();
            assert_eq!(prepare_state(&checkout, named).unwrap().join("file").exists(), kept);
        }
    }

    /// A server that greets as `version`.
    async fn greeter(version: &str, jetstream: bool) -> String {
        use tokio::io::AsyncWriteExt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let info = format!("INFO {{\"version\":\"{version}\",\"jetstream\":{jetstream}}}\r\n");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(info.as_bytes()).await.unwrap();
        });
        url
    }

    #[tokio::test]
    async fn a_nats_elsewhere_must_be_new_enough_and_have_jetstream() {
        assert!(check_nats(&greeter("2.14.0", true).await).await.is_ok());
        let old = check_nats(&greeter("2.12.4", true).await).await.unwrap_err().to_string();
        assert!(old.contains("2.12.4") && old.contains("2.14"), "{old}");
        let off = check_nats(&greeter("2.15.0", false).await).await.unwrap_err().to_string();
        assert!(off.contains("JetStream"), "{off}");
        assert!(check_nats("http://127.0.0.1:1").await.is_err());
    }
}
