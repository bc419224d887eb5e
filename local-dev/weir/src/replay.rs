//! `weir replay`: runs a recorded call again, offline, beside what was recorded; and publishes past events again.

use crate::checkout::Checkout;
use crate::screen::{align, clean};
use crate::trace::{moment, one};
use crate::{Exit, complain, queue, say};
use anyhow::{Context, bail};
use clap::Subcommand;
use jiff::Timestamp;
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;
use weir_api::Kind;
use weir_function_runtime::queue::Queue;
use weir_function_runtime::record::past::{Bundle, Event, Past};
use weir_function_runtime::record::replay::{Replay, replay, replay_handler};
use weir_function_runtime::record::{Line, tap};
use weir_messages::{Cause, Recording};

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
        /// The call, as `weir trace` names it
        id: String,
        /// Stop when a step is decided that begins with this
        #[arg(long, value_name = "STEP")]
        until: Option<String>,
    },
    /// Run the calls of a file again that `weir export` wrote
    File {
        /// The file
        file: PathBuf,
        /// Stop each when a step is decided that begins with this
        #[arg(long, value_name = "STEP")]
        until: Option<String>,
    },
    /// Publish past events again
    Events(Events),
}

#[derive(Clone, Debug, clap::Args)]
struct Events {
    /// Only those after this: a time, or how long ago, as in 90m
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only those before this
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// Only for objects of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
    /// Only for objects in this namespace
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only for objects of this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How many to publish a second
    #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pace: u32,
    /// Only list them
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Runs calls again, or publishes events again.
pub async fn run(checkout: &Checkout, args: Args) -> anyhow::Result<Exit> {
    if let What::File { file, until } = &args.what {
        let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let recordings = Bundle::open(&bytes).with_context(|| file.display().to_string())?;
        return all(&recordings, until.as_deref()).await;
    }
    let Some(queue) = queue::open(checkout, args.nats.as_deref()).await? else { return Ok(Exit::NotThere) };
    let ended = match &args.what {
        What::Call { id, until } => match one(&queue, id).await {
            Ok(recording) => all(&[recording], until.as_deref()).await,
            Err(error) => Err(error),
        },
        What::Events(events) => again(&queue, events).await,
        What::File { .. } => Ok(Exit::Done),
    };
    queue.close().await;
    ended
}

/// Runs calls again. The exit code tells whether every decision was the recorded one.
async fn all(recordings: &[Recording], until: Option<&str>) -> anyhow::Result<Exit> {
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    // What functions log as steps is heard by way of the log. Nothing of it is shown.
    let _ = tracing_subscriber::registry().with(tap()).try_init();
    let mut exit = Exit::Done;
    let mut parted = 0;
    for recording in recordings {
        let replay = dispatch(recording, until.map(str::to_owned)).await?;
        show(recording, &replay);
        if !replay.stopped && !replay.is_faithful() {
            exit = Exit::Failed;
            parted += 1;
        }
    }
    if recordings.len() > 1 && until.is_none() {
        say!("{} calls were run again; {parted} of them are decided otherwise now.", recordings.len());
    }
    Ok(exit)
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

fn show(recording: &Recording, replay: &Replay) {
    say!("{}, call {}", recording.object(), clean(&recording.id));
    let (old, new) = (&replay.recorded, &replay.replayed);
    let parts = old.parts_from(new);
    let lines = if replay.stopped { new.lines.len() } else { old.lines.len().max(new.lines.len()) };
    let mut rows = vec![vec![String::new(), "RECORDED".to_owned(), "REPLAYED".to_owned()]];
    for at in 0..lines {
        let (old, new) = (old.lines.get(at), new.lines.get(at));
        let text = |line: Option<&Line>| line.map_or_else(|| "-".to_owned(), |line| clean(&line.brief()));
        rows.push(beside(text(old), text(new), old == new));
    }
    if replay.stopped {
        rows.push(vec![String::new(), String::new(), "stopped here, as asked".to_owned()]);
    } else {
        rows.push(beside(clean(&old.verdict), clean(&new.verdict), old.verdict == new.verdict));
        let text = |problem: &Option<String>| problem.as_deref().map_or_else(|| "no problem".to_owned(), clean);
        rows.push(beside(text(&old.problem), text(&new.problem), old.problem == new.problem));
    }
    for line in align(&rows) {
        say!("{line}");
    }
    for missing in &replay.missing {
        say!("the recording holds no answer to: {}", clean(missing));
    }
    if !replay.missing.is_empty() {
        say!("What comes after the first of them follows from that, not from what happened.");
    }
    match parts {
        _ if replay.stopped => {}
        None if replay.missing.is_empty() => say!("The same decision, to the byte."),
        None => say!("The same decision, by other reads."),
        Some(at) if at < lines => {
            say!("They part at line {}:", at + 1);
            for (whose, decision) in [("recorded", old), ("replayed", new)] {
                let line = decision.lines.get(at).and_then(|line| serde_json::to_string(line).ok());
                say!("  {whose}: {}", clean(&line.unwrap_or_else(|| "nothing more".to_owned())));
            }
        }
        Some(_) => say!("They part in how they end."),
    }
    if !recording.complete {
        say!("Something was too large to be recorded; that may be why they part.");
    }
}

fn beside(old: String, new: String, same: bool) -> Vec<String> {
    let (sign, new) = if same { ("=", "the same".to_owned()) } else { ("!", new) };
    vec![sign.to_owned(), old, new]
}

async fn again(queue: &Queue, wanted: &Events) -> anyhow::Result<Exit> {
    let mut past = Past::events(queue, wanted.since).await?;
    let now = Timestamp::now();
    let mut events: Vec<Event> = Vec::new();
    while let Some(event) = past.event().await? {
        let object = &event.work.object;
        let fits = event.time <= wanted.until.unwrap_or(now)
            && wanted.kind.is_none_or(|kind| kind == object.kind)
            && wanted.namespace.as_ref().is_none_or(|namespace| *namespace == object.namespace)
            && wanted.name.as_ref().is_none_or(|name| *name == object.name)
            // Those are no events of their own.
            && event.work.cause != Cause::Replayed;
        if fits {
            events.push(event);
        }
    }
    if wanted.dry_run {
        let row = |event: &Event| {
            let work = &event.work;
            vec![
                format!("{:.3}", event.time),
                work.object.to_string(),
                work.cause.token().to_owned(),
                event.lane.to_string(),
            ]
        };
        for line in align(&events.iter().map(row).collect::<Vec<_>>()) {
            say!("{line}");
        }
        say!("{} events; nothing was published", events.len());
        return Ok(Exit::Done);
    }
    if events.is_empty() {
        say!("No such event is known.");
        return Ok(Exit::Done);
    }
    if !wanted.yes && !confirmed(&format!("Publish {} events again, {} a second?", events.len(), wanted.pace))? {
        say!("Nothing was published.");
        return Ok(Exit::Failed);
    }
    let mut pace = tokio::time::interval(Duration::from_secs(1) / wanted.pace);
    for event in &events {
        pace.tick().await;
        // As it was, but for its identity: the server would take it for a duplicate.
        let work = event.work.again(Cause::Replayed, 0);
        queue.publish(work, event.lane, None, None).await?;
    }
    say!("Published {} events.", events.len());
    Ok(Exit::Done)
}

fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        complain!("weir: {question} There is nobody to ask; say --yes");
        return Ok(false);
    }
    let mut out = std::io::stderr();
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
