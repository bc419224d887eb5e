//! `weir up`: a stack from nothing, its sample applied and followed, and where everything is.
//!
//! Two ways of running: in the foreground, where this process is the supervisor and Ctrl-C ends all; and detached, where
//! the supervisor is a process of its own in its own session, and this one only looks on until the sample is available.

use crate::checkout::{Checkout, short};
use crate::follow::Follow;
use crate::process::Identity;
use crate::record::{Places, Record};
use crate::screen::{Screen, Tone, quoted, span};
use crate::signals::Signals;
use crate::stack::{Options, Running, Stack};
use crate::supervisor::Notice;
use crate::{Exit, cluster, complain, logs};
use anyhow::{Context, bail};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often the record of a detached stack is looked at while it starts.
const LOOK: Duration = Duration::from_millis(50);

/// How to bring a stack up.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Leave the stack running in the background and return; `weir down` ends it
    #[arg(short, long)]
    pub detach: bool,
    /// How long to wait for the sample
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    #[command(flatten)]
    pub options: Options,
}

/// What a detached supervisor is told, on its standard input: no secret may be in its arguments.
#[derive(Serialize, Deserialize)]
struct Orders {
    instance: String,
    options: Options,
}

/// How waiting for the sample ended.
enum Outcome {
    Available,
    TimedOut,
    Stopped,
}

/// `weir up`.
pub async fn run(checkout: &Checkout, args: Args) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let options = args.options.clone().absolute()?;
    if let Some(kubeconfig) = &options.kubeconfig {
        let client = cluster::connect(kubeconfig).await?;
        let version = client.apiserver_version().await.map_err(|error| cluster::explain(&error));
        version.with_context(|| format!("the cluster of --kubeconfig {} does not answer", kubeconfig.display()))?;
    }
    if let Some(cloud) = &options.cloud {
        crate::sample::Cloud::read(cloud)?;
    }
    let up = Up {
        checkout,
        timeout: Duration::from_secs(args.timeout),
        options,
        began,
        screen: RefCell::new(Screen::new()),
    };
    if args.detach { up.detached().await } else { up.foreground().await }
}

/// The supervisor of a detached stack, as [`Up::detached`] starts it.
pub async fn supervise(checkout: &Checkout) -> anyhow::Result<Exit> {
    // In a session of its own it is no business of the terminal's.
    nix::unistd::setsid().context("cannot begin a session")?;
    let orders: Orders = serde_json::from_reader(std::io::stdin().lock()).context("this command is for weir itself")?;
    let signals = Signals::listen()?;
    let (tell, mut notices) = mpsc::unbounded_channel();
    let mut stack = Stack::take(checkout, orders.options, orders.instance, tell)?;
    signals.hurry(stack.supervisor.hurry());
    let brought = tokio::select! {
        brought = stack.bring_up(|what| complain!("{what}")) => brought,
        () = signals.stopped() => Ok(()),
    };
    if brought.is_ok() {
        tokio::select! {
            () = async { while let Some(notice) = notices.recv().await { log(&notice); } } => {}
            () = signals.stopped() => {}
        }
    }
    stack.supervisor.stop().await;
    brought.map(|()| Exit::Done)
}

fn log(notice: &Notice) {
    let now = jiff::Timestamp::now();
    match notice {
        Notice::Answers { part, address } => complain!("{now:.3} {part} answers at {address}"),
        Notice::Ended { part, how, wait } => {
            complain!("{now:.3} {part} ended ({how}); starting it again in {}", span(*wait));
        }
    }
}

struct Up<'a> {
    checkout: &'a Checkout,
    options: Options,
    timeout: Duration,
    began: Instant,
    screen: RefCell<Screen>,
}

impl Up<'_> {
    async fn foreground(&self) -> anyhow::Result<Exit> {
        let signals = Signals::listen()?;
        let (tell, mut notices) = mpsc::unbounded_channel();
        let mut stack = Stack::take(self.checkout, self.options.clone(), new_instance(), tell)?;
        signals.hurry(stack.supervisor.hurry());
        self.heading();
        let brought = tokio::select! {
            brought = stack.bring_up(|what| crate::say!("  {what}")) => brought.map(|()| true),
            () = self.show(&mut notices) => Ok(false),
            () = signals.stopped() => Ok(false),
        };
        let lived = match brought {
            Ok(true) => {
                // What was said while the last part came up.
                while let Ok(notice) = notices.try_recv() {
                    self.notice(&notice);
                }
                let places = stack.supervisor.record().places;
                self.sample_and_report(&places, &signals, Some(&mut notices)).await
            }
            Ok(false) => Ok(Exit::Interrupted),
            Err(error) => Err(error),
        };
        let lived = match lived {
            Ok(exit @ (Exit::Done | Exit::NotAvailable)) => {
                self.line("Ctrl-C ends it all.");
                tokio::select! {
                    () = self.show(&mut notices) => {}
                    () = signals.stopped() => {}
                }
                Ok(exit)
            }
            other => other,
        };
        self.line("");
        self.line("Stopping …");
        let stopping = Instant::now();
        stack.supervisor.stop().await;
        self.line(&format!("Stopped in {}. Nothing is left running.", span(stopping.elapsed())));
        lived
    }

    async fn detached(&self) -> anyhow::Result<Exit> {
        drop(self.checkout.lock()?.ok_or_else(|| Running::of(self.checkout))?);
        let signals = Signals::listen()?;
        let orders = Orders { instance: new_instance(), options: self.options.clone() };
        let mut supervisor = self.spawn_supervisor(&orders)?;
        self.heading();
        let places = tokio::select! {
            places = self.look_on(&mut supervisor, &orders.instance) => places?,
            () = signals.stopped() => {
                self.line("Stopping …");
                if let Some(process) = supervisor.id().and_then(Identity::of) {
                    process.signal_alone(Signal::SIGTERM);
                }
                let _ = supervisor.wait().await;
                return Ok(Exit::Interrupted);
            }
        };
        let exit = self.sample_and_report(&places, &signals, None).await?;
        self.line("It runs on in the background. `./weir status` shows it, `./weir logs` what it says, `./weir down` ends it.");
        Ok(exit)
    }

    fn spawn_supervisor(&self, orders: &Orders) -> anyhow::Result<tokio::process::Child> {
        use std::io::Write;
        let log = self.checkout.supervisor_log();
        let _ = std::fs::remove_file(&log);
        let log = logs::open(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = std::process::Command::new(std::env::current_exe().context("cannot find this executable")?);
        command.arg("supervise").env("WEIR_ROOT", &self.checkout.root).env("WEIR_HOME", &self.checkout.home);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let mut child = tokio::process::Command::from(command).spawn().context("cannot start the supervisor")?;
        let stdin = child.stdin.take().context("the supervisor takes no orders")?;
        let mut stdin = std::fs::File::from(stdin.into_owned_fd()?);
        stdin.write_all(&serde_json::to_vec(orders)?)?;
        Ok(child)
    }

    /// Tells what the record of a stack that another process starts says, until the stack is ready.
    async fn look_on(&self, supervisor: &mut tokio::process::Child, instance: &str) -> anyhow::Result<Places> {
        let mut told = vec![];
        loop {
            let record = Record::read(&self.checkout.record())?.filter(|record| record.instance == instance);
            if let Some(record) = record {
                for part in record.parts.iter().filter(|part| part.answered) {
                    if !told.contains(&part.name) {
                        told.push(part.name.clone());
                        self.notice(&Notice::Answers { part: part.name.clone(), address: part.address.clone() });
                    }
                }
                if record.ready {
                    return Ok(record.places);
                }
            }
            if let Some(status) = supervisor.try_wait()? {
                let said = logs::tail(&self.checkout.supervisor_log(), 30).map(|(lines, _)| lines).unwrap_or_default();
                bail!("the stack did not start ({status}):\n{}", said.join("\n"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Applies the sample, follows it, and says where everything is.
    async fn sample_and_report(
        &self,
        places: &Places,
        signals: &Signals,
        notices: Option<&mut mpsc::UnboundedReceiver<Notice>>,
    ) -> anyhow::Result<Exit> {
        self.line(&format!("Everything answers after {}.", span(self.began.elapsed())));
        let sample = places.sample.as_ref().filter(|_| !self.options.no_sample);
        let Some(sample) = sample else {
            if !self.options.no_sample {
                self.line("No sample is applied, because no cloud is known for it: name one with --cloud FILE.");
            }
            self.report(places, false);
            return Ok(Exit::Done);
        };
        let client = cluster::connect(&places.kubeconfig).await?;
        let manifest = std::fs::read_to_string(sample).with_context(|| format!("cannot read {}", sample.display()))?;
        let applied = tokio::select! {
            applied = cluster::apply(&client, &manifest) => applied.context("the sample could not be applied")?,
            () = signals.stopped() => return Ok(Exit::Interrupted),
        };
        self.line("");
        self.line(&format!("Applied {} objects of {}:", applied.len(), short(sample)));
        let mut follow = Follow::new(client, &applied, Instant::now());
        let outcome = tokio::select! {
            () = follow.run(&self.screen) => Outcome::Available,
            () = self.show_or_wait(notices) => Outcome::Stopped,
            () = tokio::time::sleep(self.timeout) => Outcome::TimedOut,
            () = signals.stopped() => Outcome::Stopped,
        };
        self.screen.borrow_mut().leave();
        match outcome {
            Outcome::Available => {
                let took = self.paint(Tone::Good, &format!("All available after {}", span(follow.took())));
                self.line(&format!("{took}, {} from the start.", span(self.began.elapsed())));
                self.report(places, true);
                Ok(Exit::Done)
            }
            Outcome::TimedOut => {
                self.line(&self.paint(Tone::Bad, &format!("Not all available after {}:", span(self.timeout))));
                for missing in follow.missing() {
                    self.line(&format!("  {missing}"));
                }
                self.line("`./weir logs` shows what the functions say. They go on trying.");
                self.report(places, true);
                Ok(Exit::NotAvailable)
            }
            Outcome::Stopped => Ok(Exit::Interrupted),
        }
    }

    fn heading(&self) {
        let what = if self.options.data.is_some() { "with the data in" } else { "afresh in" };
        let state = self.options.data.clone().unwrap_or_else(|| self.checkout.fresh_state());
        self.line(&format!("Starting Weir, {what} {}", short(&state)));
    }

    /// Where everything is, and what to try.
    fn report(&self, places: &Places, sample: bool) {
        let mut rows = vec![("Kubernetes", format!("export KUBECONFIG={}", quoted(&places.kubeconfig)))];
        if !places.kube_sim {
            rows.push(("", "objects stay in that cluster when the stack ends: delete them before".into()));
        }
        rows.push(("NATS", places.nats.clone()));
        if let Some(file) = &places.nats_credentials {
            rows.push(("", format!(". {}   (user, password; for the program `nats` too)", quoted(file))));
        }
        if let Some(cloud) = &places.cloud {
            rows.push(("OpenStack", cloud.clone()));
        }
        if let Some(clouds) = &places.clouds {
            rows.push(("", format!("export OS_CLIENT_CONFIG_FILE={} OS_CLOUD=weir", quoted(clouds))));
        }
        rows.push(("Metrics", "one address for each function: ./weir status".into()));
        rows.push(("Logs", format!("{}  (./weir logs server -f)", short(&places.logs))));
        self.line("");
        for (name, value) in rows {
            self.line(&format!("  {name:<11} {value}"));
        }
        if !sample {
            self.line("");
            return;
        }
        self.line("");
        self.line("Try, with KUBECONFIG as above (without kubectl, ./weir status shows the objects):");
        self.line("  kubectl get regions,identities,networks,securitygroups,servers");
        self.line("  kubectl explain server.spec");
        if let Some(url) = &places.openstack {
            self.line(&format!("  curl -s {url}/_sim/counts    # what the cloud holds"));
        }
        self.line("  kubectl delete regions,identities,networks,securitygroups,servers --all    # it is empty again");
        if let Some(url) = &places.openstack {
            let fault = r#"{"method": "POST", "path": "/servers$", "count": 1, "action": "reset_after"}"#;
            let sample = places.sample.as_deref().map(quoted).unwrap_or_default();
            self.line(&format!("  curl -s {url}/_sim/faults -d '{fault}'"));
            self.line(&format!("  kubectl apply --server-side -f {sample}    # one server all the same"));
        }
        self.line("Or kill any process (./weir status has the numbers): it comes back, and nothing is lost.");
        self.line("");
    }

    async fn show_or_wait(&self, notices: Option<&mut mpsc::UnboundedReceiver<Notice>>) {
        match notices {
            Some(notices) => self.show(notices).await,
            None => std::future::pending().await,
        }
    }

    /// Shows what happens in the stack, for as long as it runs.
    async fn show(&self, notices: &mut mpsc::UnboundedReceiver<Notice>) {
        while let Some(notice) = notices.recv().await {
            self.notice(&notice);
        }
    }

    fn notice(&self, notice: &Notice) {
        match notice {
            Notice::Answers { part, address } => {
                let mark = self.paint(Tone::Good, "✓");
                self.line(&format!("  {mark} {part:<16} {:>7}  {address}", span(self.began.elapsed())));
            }
            Notice::Ended { part, how, wait } => {
                let mark = self.paint(Tone::Bad, "✗");
                self.line(&format!("  {mark} {part} ended ({how}); starting it again in {}", span(*wait)));
            }
        }
    }

    fn line(&self, text: &str) {
        self.screen.borrow_mut().line(text);
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        self.screen.borrow().paint(tone, text)
    }
}

fn new_instance() -> String {
    uuid::Uuid::new_v4().to_string()
}
