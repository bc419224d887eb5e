//! Past events, published again.

use crate::checkout::Checkout;
use crate::screen::{self, align, clean, span};
use crate::trace::{find, moment};
use crate::{Exit, complain, say};
use anyhow::{Context, bail};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::time::Duration;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::Queue;
use weir_function_runtime::record::past::{Event, Past};
use weir_messages::Cause;

/// Which events to publish again, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Only those after this: a time, or how long ago, as in 90m
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only those before this
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// Only for objects of this kind, as `weir trace` or kubectl takes it
    #[arg(long, value_name = "KIND", value_parser = find::kind)]
    kind: Option<Kind>,
    /// Only for objects in this namespace
    #[arg(long, value_name = "NAMESPACE", value_parser = find::namespace)]
    namespace: Option<String>,
    /// Only for objects of this name, or that people call so
    #[arg(long, value_name = "NAME", value_parser = find::name)]
    name: Option<String>,
    /// How many to publish a second. What still waits is replaced by the next for the same object
    #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pace: u32,
    /// Only list them
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Publishes past events again, or lists them.
pub async fn run(checkout: &Checkout, queue: &Queue, wanted: &Args, ours: bool) -> anyhow::Result<Exit> {
    let until = wanted.until.unwrap_or_else(Timestamp::now);
    if wanted.since.is_some_and(|since| since > until) {
        bail!("--since is after --until");
    }
    let named = match &wanted.name {
        Some(name) => Some((name, called(checkout, queue, wanted, name, ours).await?)),
        None => None,
    };
    let of_kind = |object: &ObjectRef| {
        wanted.kind.is_none_or(|kind| kind == object.kind)
            && wanted.namespace.as_ref().is_none_or(|namespace| *namespace == object.namespace)
    };
    let mut past = Past::events(queue, wanted.since).await?;
    let mut events = Vec::new();
    while let Some(event) = next(&mut past).await? {
        let object = &event.work.object;
        let fits = event.time <= until
            && wanted.since.is_none_or(|since| event.time >= since)
            && of_kind(object)
            && named.as_ref().is_none_or(|(name, called)| **name == object.name || called.contains(object));
        if fits {
            events.push(event);
        }
    }
    if events.is_empty() {
        let (mut past, mut others) = (Past::events(queue, None).await?, Others::default());
        while let Some(event) = next(&mut past).await? {
            others.see(&event, named.is_some() && of_kind(&event.work.object));
        }
        complain!("weir: no event fits. {}", others.told());
        return Ok(Exit::Failed);
    }
    let many = count(events.len());
    if wanted.dry_run {
        for line in align(&events.iter().map(row).collect::<Vec<_>>()) {
            say!("{line}");
        }
        say!("{many}; nothing was published");
        return Ok(Exit::Done);
    }
    let takes = span(Duration::from_secs(events.len() as u64) / wanted.pace);
    if !wanted.yes && !confirmed(&format!("Publish {many} again, {} a second ({takes})?", wanted.pace))? {
        say!("Nothing was published.");
        return Ok(Exit::Failed);
    }
    publish(queue, &events, wanted.pace).await?;
    say!("Published {many}.");
    Ok(Exit::Done)
}

/// The next event. What was published again is none of its own.
async fn next(past: &mut Past) -> anyhow::Result<Option<Event>> {
    while let Some(event) = past.event().await? {
        if event.work.cause != Cause::Replayed {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

fn count(many: usize) -> String {
    if many == 1 { "1 event".to_owned() } else { format!("{many} events") }
}

fn row(event: &Event) -> Vec<String> {
    let work = &event.work;
    let cells =
        [format!("{:.3}", event.time), work.object.to_string(), work.cause.token().to_owned(), event.lane.to_string()];
    cells.iter().map(|cell| clean(cell)).collect()
}

/// The objects that people call so, or called so once.
async fn called(
    checkout: &Checkout,
    queue: &Queue,
    wanted: &Args,
    name: &str,
    ours: bool,
) -> anyhow::Result<BTreeSet<ObjectRef>> {
    let namespace = wanted.namespace.as_deref();
    let mut called = find::recorded_as(queue, wanted.kind, namespace, name).await?;
    if ours {
        let all: Vec<Kind> = Kind::ALL.into_iter().chain([Kind::ServerMonitor]).collect();
        let kinds = wanted.kind.map_or(all, |kind| vec![kind]);
        called.extend(find::living(checkout, &kinds, namespace, name).await);
    }
    Ok(called)
}

/// Publishes events again, so many a second.
pub async fn publish(queue: &Queue, events: &[Event], pace: u32) -> anyhow::Result<()> {
    let mut pace = tokio::time::interval(Duration::from_secs(1) / pace);
    for (done, event) in events.iter().enumerate() {
        pace.tick().await;
        // As it was, but for its identity: the server would take it for a duplicate.
        let published = queue.publish(event.work.again(Cause::Replayed, 0), event.lane, None, None).await;
        published.with_context(|| format!("{done} of {} were published", count(events.len())))?;
    }
    Ok(())
}

/// The events that do not fit, for whoever finds none that do.
#[derive(Default)]
struct Others {
    range: Option<(Timestamp, Timestamp)>,
    kinds: BTreeMap<Kind, usize>,
    /// Those that fit but for their name.
    names: BTreeSet<ObjectRef>,
}

impl Others {
    fn see(&mut self, event: &Event, fits_but_for_its_name: bool) {
        let object = &event.work.object;
        let range = self.range.get_or_insert((event.time, event.time));
        *range = (range.0.min(event.time), range.1.max(event.time));
        *self.kinds.entry(object.kind).or_default() += 1;
        if fits_but_for_its_name {
            self.names.insert(object.clone());
        }
    }

    fn told(&self) -> String {
        let Some((first, last)) = self.range else { return "None is known at all".to_owned() };
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, many)| format!("{kind} {many}")).collect();
        let names: Vec<ObjectRef> = self.names.iter().cloned().collect();
        let names = if names.is_empty() { String::new() } else { format!("; for {}", find::list(&names)) };
        format!("There are some from {first:.3} to {last:.3}: {}{names}", kinds.join(", "))
    }
}

fn confirmed(question: &str) -> anyhow::Result<bool> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        complain!("weir: {question} There is nobody to ask; say --yes");
        return Ok(false);
    }
    screen::asked(question)
}
