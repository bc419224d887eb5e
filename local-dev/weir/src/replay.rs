//! `weir replay`: runs a recorded call again, offline, beside what was recorded; and publishes past events again.

mod diff;
mod events;
mod show;

use crate::checkout::Checkout;
use crate::screen::{self, clean};
use crate::trace::{explain, find, id, one};
use crate::{Exit, complain, queue, say};
use anyhow::{Context, bail};
use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use std::fs::File;
use std::path::{Path, PathBuf};
use tokio::runtime::Handle;
use weir_api::Kind;
use weir_function_runtime::record::past;
use weir_function_runtime::record::replay::{Replay, replay, replay_handler};
use weir_function_runtime::record::{Line, tap};
use weir_messages::Recording;

pub use events::publish;

/// So many steps are named to whoever waits for one that does not come.
const NAMED: usize = 20;

/// What to run again.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// Another NATS than that of the running stack; credentials come from the WEIR_NATS_… variables
    #[arg(long, global = true, value_name = "URL")]
    nats: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Run one recorded call again, offline, and put its decision beside the recorded one
    Call {
        /// The call: its ID, as `weir trace` names it, or as much of it as no other has
        #[arg(value_name = "CALL", value_parser = id)]
        id: String,
        /// Stop when a step is decided that begins with this
        #[arg(long, value_name = "STEP", value_parser = NonEmptyStringValueParser::new())]
        until: Option<String>,
    },
    /// Run the calls of a file again that `weir export` wrote
    File {
        /// The file
        file: PathBuf,
        /// Stop each call when a step is decided that begins with this
        #[arg(long, value_name = "STEP", value_parser = NonEmptyStringValueParser::new())]
        until: Option<String>,
        /// Show also the calls that are decided as they were
        #[arg(long)]
        all: bool,
    },
    /// Publish past events again
    Events(events::Args),
}

impl Args {
    /// Whether nothing comes of it but what is shown.
    pub const fn only_shows(&self) -> bool {
        !matches!(self.what, What::Events(_))
    }
}

/// Runs calls again, or publishes events again.
pub async fn run(checkout: &Checkout, args: Args) -> anyhow::Result<Exit> {
    if let What::File { file, until, all } = args.what {
        let rerun = Rerun { until, all, ..Rerun::new() };
        // A call is run by a thread of its own, and waited for by the one that reads the file.
        return tokio::task::spawn_blocking(move || rerun.file(&file, &Handle::current())).await?;
    }
    let Some(queue) = queue::open(checkout, args.nats.as_deref()).await? else { return Ok(Exit::NotThere) };
    let ended = match &args.what {
        What::Call { id, until } => match one(&queue, id).await {
            Ok(recording) => Rerun { until: until.clone(), ..Rerun::new() }.call(&recording).await,
            Err(error) => Err(error),
        },
        What::Events(wanted) => events::run(checkout, &queue, wanted, find::is_ours(args.nats.as_deref())).await,
        What::File { .. } => Ok(Exit::Done),
    };
    queue.close().await;
    ended.map_err(explain)
}

/// Calls that are run again, and what came of those that were.
#[derive(Default)]
struct Rerun {
    until: Option<String>,
    all: bool,
    same: usize,
    otherwise: usize,
    failed: usize,
    stopped: usize,
    not_whole: usize,
    /// Steps that were decided, and are not the one to stop at.
    steps: Vec<String>,
}

impl Rerun {
    fn new() -> Self {
        use tracing_subscriber::layer::SubscriberExt as _;
        use tracing_subscriber::util::SubscriberInitExt as _;
        // What functions log as steps is heard by way of the log. Nothing of it is shown.
        let _ = tracing_subscriber::registry().with(tap()).try_init();
        Self::default()
    }

    /// Runs one call again.
    async fn call(mut self, recording: &Recording) -> anyhow::Result<Exit> {
        let replay = dispatch(recording, self.until.clone()).await?;
        show::show(recording, &replay);
        self.count(recording, &replay);
        Ok(self.exit())
    }

    /// Runs the calls of a file again. Shows those that are decided otherwise now.
    fn file(mut self, path: &Path, runtime: &Handle) -> anyhow::Result<Exit> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        let read = past::read(file, |recording| {
            match runtime.block_on(dispatch(&recording, self.until.clone())) {
                Ok(replay) => {
                    let is_news = if self.until.is_some() { replay.stopped } else { !replay.is_faithful() };
                    if self.all || is_news {
                        show::show(&recording, &replay);
                    }
                    self.count(&recording, &replay);
                }
                Err(error) => {
                    let call = format!("{}, call {}", recording.object(), recording.id);
                    say!("{} cannot be run again: {error:#}", clean(&call));
                    self.failed += 1;
                }
            }
            // Nobody would see the others.
            !screen::is_lost()
        });
        let calls = read.with_context(|| format!("cannot use {name}"))?.calls;
        if screen::is_lost() {
            return Ok(Exit::Done);
        }
        if calls == 0 {
            bail!("{name} holds no recorded calls; `weir export KIND/NAMESPACE/NAME --output FILE` writes some");
        }
        if let Some(until) = &self.until {
            say!("{calls} calls were run again; {} were stopped where {} was decided.", self.stopped, clean(until));
        } else {
            let failed = if self.failed > 0 { format!(", {} could not be run", self.failed) } else { String::new() };
            say!(
                "{calls} calls were run again: {} are decided as they were, {} otherwise{failed}.",
                self.same,
                self.otherwise
            );
        }
        if self.not_whole > 0 {
            say!("{} of them hold less than they should, since something was too large to be kept.", self.not_whole);
        }
        Ok(self.exit())
    }

    fn count(&mut self, recording: &Recording, replay: &Replay) {
        self.not_whole += usize::from(!recording.complete);
        if replay.stopped {
            self.stopped += 1;
        } else if replay.is_faithful() {
            self.same += 1;
        } else {
            self.otherwise += 1;
        }
        if self.until.is_some() && !replay.stopped {
            let steps = replay.replayed.lines.iter().filter_map(|line| match line {
                Line::Step(step) => Some(clean(step)),
                _ => None,
            });
            for step in steps {
                if self.steps.len() < NAMED && !self.steps.contains(&step) {
                    self.steps.push(step);
                }
            }
        }
    }

    /// Tells whether every decision was the recorded one, or the step came that was waited for.
    fn exit(&self) -> Exit {
        match &self.until {
            Some(until) if self.stopped == 0 => {
                complain!("weir: no step was decided that begins with {}", clean(until));
                if self.steps.is_empty() {
                    complain!("weir: no step was decided at all");
                } else {
                    complain!("weir: these were:");
                }
                for step in &self.steps {
                    complain!("  {step}");
                }
                Exit::Failed
            }
            Some(_) if self.failed == 0 => Exit::Done,
            None if self.otherwise + self.failed == 0 => Exit::Done,
            _ => Exit::Failed,
        }
    }
}

/// Runs a call again in the function of its kind.
async fn dispatch(recording: &Recording, until: Option<String>) -> anyhow::Result<Replay> {
    Ok(match recording.object().kind {
        Kind::Region => replay(weir_region::Regions, recording, until).await?,
        Kind::Identity => replay(weir_identity::Identities, recording, until).await?,
        Kind::Network => replay(weir_network::Networks, recording, until).await?,
        Kind::SecurityGroup => replay(weir_security_group::SecurityGroups, recording, until).await?,
        Kind::Server => replay(weir_server::BoundedServers { attempts: attempts()? }, recording, until).await?,
        Kind::ServerMonitor => replay_handler(weir_server_monitor::Monitor::replayed, recording, until).await?,
        other => bail!("there is no function for a {other} in this weir"),
    })
}

/// How often a server is made again: a setting of its function's, which a recording does not hold. Set as it was then.
fn attempts() -> anyhow::Result<i32> {
    match std::env::var("WEIR_PROVIDER_CREATE_ATTEMPTS") {
        Ok(text) => text.parse().context("WEIR_PROVIDER_CREATE_ATTEMPTS is no number"),
        Err(_) => Ok(weir_server::retry::ATTEMPTS),
    }
}
