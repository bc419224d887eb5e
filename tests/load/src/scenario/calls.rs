//! (a) How many calls a process makes in a second when a call does next to nothing: the object is read, and that is all.
//!
//! Weir's backlog waits in JetStream before the process starts; the classic controller's is put into its memory at once. The
//! rate is that of the middle: from the first time that calls are seen to have been made until all have been.

use super::{CONCURRENCY, Scale, progress};
use crate::population::{self, Population};
use crate::report::{Figure, Sample};
use crate::rig::{LOOK, PATIENCE, Rig};
use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use weir_function_runtime::queue::Queue;
use weir_messages::{Cause, Lane, Work};

/// How many publications wait for their acknowledgement at once.
const PUBLISHERS: usize = 64;

/// Publishes one message for each of these servers.
pub async fn publish(queue: &Queue, names: &[String], lane: Lane) -> anyhow::Result<()> {
    stream::iter(names)
        .map(|name| queue.publish(Work::new(population::reference(name), Cause::Resync), lane, None, None))
        .buffer_unordered(PUBLISHERS)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    Ok(())
}

/// What a run of calls came to.
struct Pace {
    /// Calls in a second.
    rate: f64,
    /// Processor time of one call in µs: the process's, and for Weir the queue's server's too.
    cost: f64,
}

/// Measures (a).
pub async fn run(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let population = Population { servers: scale.reads };
    let rig = Rig::start().await?;
    progress(&format!("(a) {} objects", scale.reads));
    let orphans: Vec<Value> = (0..scale.reads).map(|number| population::orphan(number, &rig.bootstrap)).collect();
    rig.apply(&orphans).await;
    // Once, so that their status is written and a further call only reads.
    weir(&rig, population).await?;
    let (mut ours, mut theirs) = (vec![], vec![]);
    for turn in 1..=scale.repeats {
        progress(&format!("(a) {turn} of {}", scale.repeats));
        ours.push(weir(&rig, population).await?);
        theirs.push(classic(&rig, population).await?);
    }
    let of = |paces: &[Pace], value: fn(&Pace) -> f64| Sample::of(&paces.iter().map(value).collect::<Vec<_>>());
    Ok(vec![
        Figure::new('a', "calls of a function that only reads", "/s", of(&ours, |p| p.rate), of(&theirs, |p| p.rate)),
        Figure::new(
            'a',
            "processor time of such a call (Weir: nats-server's too)",
            "µs",
            of(&ours, |p| p.cost),
            of(&theirs, |p| p.cost),
        ),
    ])
}

async fn weir(rig: &Rig, population: Population) -> anyhow::Result<Pace> {
    publish(&rig.queue, &population.names(), Lane::Urgent).await?;
    let nats = rig.nats_usage()?.cpu;
    let reader = rig.function("reader", 0, &[]).start()?;
    reader.ready().await?;
    let rate = pace(population.servers, async || reader.calls().await).await?;
    rig.at_rest().await?;
    let used = reader.usage()?.cpu + rig.nats_usage()?.cpu.saturating_sub(nats);
    reader.stop().await?;
    Ok(Pace { rate, cost: used.as_secs_f64() * 1e6 / population.servers as f64 })
}

async fn classic(rig: &Rig, population: Population) -> anyhow::Result<Pace> {
    let classic = rig.classic("reader", CONCURRENCY).start()?;
    classic.answering().await?;
    classic.quiet(population.servers as u64).await?;
    let (before, used) = (classic.stats().await?.ended, classic.usage()?.cpu);
    classic.resync().await?;
    let rate = pace(population.servers, async || Ok(classic.stats().await?.ended - before)).await?;
    let used = classic.usage()?.cpu.saturating_sub(used);
    classic.stop().await?;
    Ok(Pace { rate, cost: used.as_secs_f64() * 1e6 / population.servers as f64 })
}

/// The rate at which `count` gets to `all`.
pub(super) async fn pace(all: usize, mut count: impl AsyncFnMut() -> anyhow::Result<u64>) -> anyhow::Result<f64> {
    let until = Instant::now() + PATIENCE * 5;
    let mut first = None;
    loop {
        let (now, counted) = (Instant::now(), count().await?);
        let (began, from) = *first.get_or_insert((now, counted));
        if counted == from && counted < all as u64 {
            // Nothing has happened yet.
            first = Some((now, counted));
        } else if counted >= all as u64 {
            ensure!(counted > from, "all calls were made before anybody looked: too few of them");
            return Ok((counted - from) as f64 / now.duration_since(began).as_secs_f64());
        }
        ensure!(now < until, "{counted} of {all} calls");
        sleep(LOOK).await;
    }
}
