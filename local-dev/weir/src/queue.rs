//! `weir queue`: what waits and for whom, what is due when, who holds what, what could not be understood.
//!
//! Intention: whoever asks *why does nothing happen to my server?* sees the answer in one command, without knowing NATS.
//! A table for people, `--json` for programs.
//!
//! Invariants
//! - Only `redrive` changes anything, and it asks first.
//! - What stands in messages came from others: it is made harmless before it reaches a terminal.
//! - Without `--nats` and WEIR_NATS_URL it is the running stack's queue that is looked into, with the stack's credentials.

mod redrive;
mod views;

use crate::checkout::Checkout;
use crate::record::Record;
use crate::{Exit, complain, nats};
use anyhow::{Context, bail};
use clap::Subcommand;
use std::ffi::OsString;
use weir_function_runtime::queue::inspect::Selector;
use weir_function_runtime::queue::{self, Error, Queue};
use weir_function_runtime::settings::Settings;
use weir_messages::Lane;

/// What to look at.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    view: View,
    /// Another NATS than that of the running stack; credentials come from the WEIR_NATS_… variables
    #[arg(long, global = true, value_name = "URL")]
    nats: Option<String>,
    /// For programs
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum View {
    /// What waits and what is in hand, by kind and lane, and who takes it
    Ls,
    /// The messages that wait or are in hand, oldest first; or one message, as it is
    Peek(Peek),
    /// What will be looked at again, and when
    Timers(Which),
    /// Which objects are being worked on, and by whom
    Leases(Which),
    /// Messages that could not be understood, and why
    Dead(Which),
    /// Send dead letters again: those that are numbered, those of a kind, or all
    Redrive(redrive::Args),
}

#[derive(Clone, Debug, clap::Args)]
struct Which {
    /// Only these: KIND, KIND/NAMESPACE or KIND/NAMESPACE/NAME
    #[arg(value_name = "OBJECTS")]
    selector: Option<Selector>,
    /// How many to show
    #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

#[derive(Clone, Debug, clap::Args)]
struct Peek {
    #[command(flatten)]
    which: Which,
    /// Only this lane
    #[arg(long, value_name = "LANE")]
    lane: Option<Lane>,
    /// Show one message, a timer perhaps, with its headers and its payload
    #[arg(short, long, value_name = "NUMBER", conflicts_with_all = ["selector", "lane"])]
    message: Option<u64>,
    /// The number is that of a dead letter
    #[arg(long, requires = "message")]
    dead: bool,
}

impl Which {
    fn selector(&self) -> Selector {
        self.selector.clone().unwrap_or_default()
    }

    fn limit(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }
}

/// Shows a view, or sends dead letters again.
pub async fn run(checkout: &Checkout, args: Args) -> anyhow::Result<Exit> {
    let Some(queue) = open(checkout, args.nats.as_deref()).await? else { return Ok(Exit::NotThere) };
    let shown = show(&queue, &args).await;
    queue.close().await;
    shown.map_err(|error| match error.downcast_ref::<Error>() {
        Some(Error::NoStream(stream)) => {
            anyhow::anyhow!("there is no stream {stream} on this NATS: no function of Weir has been there yet")
        }
        _ => error,
    })
}

async fn show(queue: &Queue, args: &Args) -> anyhow::Result<Exit> {
    let json = args.json;
    match &args.view {
        View::Ls => views::ls(&queue.overview().await?, json),
        View::Peek(Peek { message: Some(number), dead, .. }) => {
            let found = if *dead { queue.raw_dead(*number).await? } else { queue.raw_work(*number).await? };
            let place = if *dead { "among the dead letters" } else { "on the queue" };
            let found = found.with_context(|| format!("there is no message {number} {place}, or no longer"))?;
            views::raw(&found, json);
        }
        View::Peek(Peek { which, lane, .. }) => {
            let selector = Selector { lane: *lane, ..which.selector() };
            views::work(&queue.work(&selector, which.limit()).await?, json);
        }
        View::Timers(which) => views::timers(&queue.timers(&which.selector(), which.limit()).await?, json),
        View::Leases(which) => views::leases(&queue.leases(&which.selector(), which.limit()).await?, json),
        View::Dead(which) => views::dead(&queue.dead(&which.selector(), which.limit()).await?, json),
        View::Redrive(args) => return redrive::run(queue, args, json).await,
    }
    Ok(Exit::Done)
}

/// Connects to the queue: as told, else that of the stack which runs. `None`, and a word about it, when none does.
pub async fn open(checkout: &Checkout, told: Option<&str>) -> anyhow::Result<Option<Queue>> {
    let Some(settings) = settings(checkout, told)? else {
        complain!("weir: nothing is running. `./weir up` starts a stack; --nats URL looks into another queue");
        return Ok(None);
    };
    let server = settings.nats.servers.join(", ");
    queue::connect_now(&settings).await.map(Some).context(server)
}

/// How to reach the queue: as told, else that of the stack which runs; `None` when none does.
fn settings(checkout: &Checkout, told: Option<&str>) -> anyhow::Result<Option<Settings>> {
    let mut arguments: Vec<OsString> = vec![];
    let elsewhere = std::env::var_os("WEIR_NATS_URL").is_some_and(|url| !url.is_empty());
    match told {
        Some(url) => arguments.extend(["--nats".into(), url.into()]),
        None if elsewhere => {}
        None => {
            let Some(record) = Record::read(&checkout.record())?.filter(Record::is_watched) else { return Ok(None) };
            if record.places.nats.is_empty() {
                bail!("the stack is only being started: its queue is not known yet");
            }
            arguments.extend(["--nats".into(), record.places.nats.into()]);
            // A NATS that the stack was pointed at is reached as its functions reach it, by the variables.
            if record.places.nats_credentials.is_some() {
                let password = nats::password_file(&record.places.state);
                arguments.extend(["--nats-user".into(), nats::USER.into()]);
                arguments.extend(["--nats-password-file".into(), password.into()]);
            }
        }
    }
    let settings = Settings::from_arguments(arguments).map_err(|error| match std::error::Error::source(&error) {
        // Only why: clap would repeat the value, which may hold a password, and show the usage of a function.
        Some(why) => anyhow::anyhow!("the setting of NATS {why}"),
        None => anyhow::anyhow!("the settings of NATS, WEIR_NATS_…, cannot be used: {}", error.kind()),
    })?;
    Ok(Some(settings))
}
