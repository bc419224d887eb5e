//! (b) What it costs to look at every one of many settled servers again, and (d) how soon a change is acted on, at rest and
//! while thousands wait.
//!
//! The servers are not put there: Weir makes them, once, in a cloud that answers at once. Then one side after the other looks
//! after them, each with one process.
//!
//! (b) Weir's way is the product's: a tick in the stream has the publisher set a timer for each object, spread over a
//! fifth of the interval, which brings it to the routine lane. The tick is given by hand, by the message that the stream's
//! schedule makes, and the interval is short, so that the work is what takes the time. The classic controller's way is
//! `reconcile_all_on`.
//!
//! (d) The latency is that of the first request to the cloud which names the changed server, by the cloud's own log, from the
//! moment in which the change is sent to Kubernetes. Under load, changes come at a fixed rate whatever becomes of the earlier
//! ones, to servers that are not among those that wait; what waits is filled up again when half of it is done.

use super::calls::publish;
use super::{CONCURRENCY, Scale, progress};
use crate::consumer;
use crate::population::Population;
use crate::report::{Figure, Sample, share_of};
use crate::rig::{PATIENCE, Rig, Served, Worker, stop_all};
use crate::watch::Watch;
use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use weir_api::Kind;
use weir_api::crd::Server;
use weir_function_runtime::queue::WORK;
use weir_harness::World;
use weir_messages::{Lane, subject};

/// The interval of resyncs, in seconds; a fifth of it is over which Weir spreads one.
const RESYNC: u64 = 25;
/// Between two changes in (d).
const PACE: Duration = Duration::from_millis(100);
/// The longest that latencies are collected for.
const LONGEST: Duration = Duration::from_secs(600);
/// Processes that make the servers.
const MAKERS: usize = 2;

/// Which of the two scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// (b)
    pub resync: bool,
    /// (d)
    pub latency: bool,
}

/// Who looks after the servers.
enum Keeper {
    /// A process of the server function, and a publisher.
    Weir { server: Worker, publisher: Worker },
    /// The classic controller.
    Classic(Worker),
}

/// What one side came to.
#[derive(Default)]
struct Found {
    /// Seconds of a resync.
    wall: Vec<f64>,
    /// Processor time of an object in it, in µs: all that is the side's own.
    cost: Vec<f64>,
    /// The same of the working process alone.
    alone: Vec<f64>,
    /// The same of the simulators.
    simulators: Vec<f64>,
    /// Requests of an object.
    kubernetes: Vec<f64>,
    cloud: Vec<f64>,
    /// Memory of the working process at most, in MiB; without what files take of it; and after all.
    peak: f64,
    own: f64,
    resident: f64,
    /// Latencies in ms.
    idle: Vec<f64>,
    loaded: Vec<f64>,
}

/// Measures (b) and (d).
pub async fn run(scale: &Scale, asked: Asked) -> anyhow::Result<Vec<Figure>> {
    let population = Population { servers: scale.settled };
    let rig = settle(population).await?;
    let names = population.names();
    let mut figures = vec![];
    let weir = Keeper::weir(&rig, population).await?;
    let publisher = |keeper: &Keeper| match keeper {
        Keeper::Weir { publisher, .. } => Ok(Some(mib(publisher.usage()?.peak))),
        Keeper::Classic(_) => Ok::<_, anyhow::Error>(None),
    };
    let ours = measure("Weir", &rig, &weir, &names, scale, asked).await?;
    let of_publisher = publisher(&weir)?;
    let of_nats = mib(rig.nats_usage()?.peak);
    weir.stop().await?;
    let classic = Keeper::classic(&rig, population).await?;
    let theirs = measure("classic", &rig, &classic, &names, scale, asked).await?;
    classic.stop().await?;
    let many = scale.settled;
    if asked.resync {
        figures.extend(resync_figures(many, &ours, &theirs, of_publisher, of_nats));
    }
    if asked.latency {
        figures.extend(latency_figures(many, &ours, &theirs));
    }
    Ok(figures)
}

fn resync_figures(many: usize, ours: &Found, theirs: &Found, publisher: Option<f64>, nats: f64) -> Vec<Figure> {
    let both = |what: String, unit, value: fn(&Found) -> &Vec<f64>| {
        Figure::new('b', what, unit, Sample::of(value(ours)), Sample::of(value(theirs)))
    };
    let one = |value: f64| Sample::of(&[value]);
    vec![
        both(format!("resync of {many} settled servers"), "s", |found| &found.wall),
        both("processor time of an object, everything (function, publisher, nats)".into(), "µs", |found| &found.cost)
            .at_most_times(2.0),
        both("processor time of an object, the working process".into(), "µs", |found| &found.alone),
        both("processor time of an object, simulators".into(), "µs", |found| &found.simulators),
        both("requests to Kubernetes for an object".into(), "", |found| &found.kubernetes),
        both("requests to OpenStack for an object".into(), "", |found| &found.cloud).at_most_times(1.005),
        Figure::new(
            'b',
            format!("memory of the working process with {many} objects, at most"),
            "MiB",
            one(ours.peak),
            one(theirs.peak),
        )
        .at_most_times(0.25),
        Figure::new(
            'b',
            "the same without the pages of its executable and libraries",
            "MiB",
            one(ours.own),
            one(theirs.own),
        )
        .at_most_times(0.25),
        Figure::new('b', "memory of the working process, in the end", "MiB", one(ours.resident), one(theirs.resident)),
        Figure::new('b', "memory of the publisher, at most", "MiB", publisher.and_then(one), None),
        Figure::new('b', "memory of nats-server, at most", "MiB", one(nats), None),
    ]
}

fn latency_figures(many: usize, ours: &Found, theirs: &Found) -> Vec<Figure> {
    let both = |what: String, value: fn(&Found) -> &Vec<f64>, share| {
        Figure::new('d', what, "ms", share_of(value(ours), share), share_of(value(theirs), share))
    };
    vec![
        both("change to first request to the cloud, at rest, p50".into(), |found| &found.idle, 0.5),
        both("the same, p99".into(), |found| &found.idle, 0.99),
        both(format!("the same with {many} waiting, p50"), |found| &found.loaded, 0.5),
        both("the same, p99".into(), |found| &found.loaded, 0.99).middle_at_most(1000.0),
    ]
}

/// A rig with all servers made and settled, and nobody working.
pub(super) async fn settle(population: Population) -> anyhow::Result<Rig> {
    let rig = Rig::with_surroundings(population).await?;
    progress(&format!("making {} servers", population.servers));
    let mut workers = vec![rig.function("watch-publisher", 0, &[]).start()?];
    for number in 0..MAKERS {
        workers.push(rig.function("server", number, &[]).start()?);
    }
    for worker in &workers {
        worker.ready().await?;
    }
    let watch = Watch::begin(&rig.cluster.client());
    let began = Instant::now();
    rig.apply(&population.manifests(&rig.bootstrap)).await;
    watch.until(population.servers, PATIENCE * 20).await?;
    rig.at_rest().await?;
    progress(&format!("{} servers were made in {:.1} s", population.servers, began.elapsed().as_secs_f64()));
    stop_all(workers).await?;
    Ok(rig)
}

impl Keeper {
    async fn weir(rig: &Rig, population: Population) -> anyhow::Result<Self> {
        let every = RESYNC.to_string();
        let server = rig.function("server", 9, &[]).start()?;
        let publisher = rig.function("watch-publisher", 9, &[("WEIR_RESYNC_SECONDS", &every)]).start()?;
        server.ready().await?;
        publisher.ready().await?;
        // From here on ticks come by hand: with so short an interval there would be no rest otherwise.
        let work = rig.queue.jetstream().get_stream_no_info(WORK).await?;
        let schedule = subject::tick_schedule(Kind::Server);
        rig.eventually(PATIENCE, "the stream ticks", async || {
            Ok(work.get_last_raw_message_by_subject(&schedule).await.is_ok())
        })
        .await?;
        work.purge().filter("timer.resync.*").await?;
        // What the publisher lists at its start is looked at once, as it is by the other side.
        let all = population.servers as u64;
        rig.eventually(PATIENCE * 10, "all has been looked at once", async || Ok(server.calls().await? >= all)).await?;
        rig.at_rest().await?;
        Ok(Self::Weir { server, publisher })
    }

    async fn classic(rig: &Rig, population: Population) -> anyhow::Result<Self> {
        let classic = rig.classic("server", CONCURRENCY).start()?;
        classic.answering().await?;
        classic.quiet(population.servers as u64).await?;
        Ok(Self::Classic(classic))
    }

    async fn stop(self) -> anyhow::Result<()> {
        match self {
            Self::Weir { server, publisher } => stop_all(vec![server, publisher]).await,
            Self::Classic(classic) => classic.stop().await,
        }
    }

    fn worker(&self) -> &Worker {
        match self {
            Self::Weir { server, .. } => server,
            Self::Classic(classic) => classic,
        }
    }

    /// Processor time of all that is the side's own.
    fn used(&self, rig: &Rig) -> anyhow::Result<Duration> {
        let worker = self.worker().usage()?.cpu;
        Ok(match self {
            Self::Weir { publisher, .. } => worker + publisher.usage()?.cpu + rig.nats_usage()?.cpu,
            Self::Classic(_) => worker,
        })
    }

    /// Calls that have ended.
    async fn ended(&self) -> anyhow::Result<u64> {
        match self {
            Self::Weir { server, .. } => server.calls().await,
            Self::Classic(classic) => Ok(classic.stats().await?.ended),
        }
    }

    /// Has everything looked at again, the side's own way.
    async fn resync(&self, rig: &Rig) -> anyhow::Result<()> {
        match self {
            Self::Weir { .. } => {
                let tick = rig.queue.jetstream().publish(subject::tick(Kind::Server), "".into());
                tick.await?.await?;
                Ok(())
            }
            Self::Classic(classic) => classic.resync().await,
        }
    }

    /// Puts these to where they wait behind all changes.
    async fn enqueue(&self, rig: &Rig, names: &[String]) -> anyhow::Result<()> {
        match self {
            Self::Weir { .. } => publish(&rig.queue, names, Lane::Routine).await,
            Self::Classic(classic) => classic.enqueue(names).await,
        }
    }

    /// Waits until so many calls have ended in all, and nothing is left to do.
    async fn rest(&self, rig: &Rig, ended: u64) -> anyhow::Result<()> {
        match self {
            Self::Weir { server, .. } => {
                rig.eventually(PATIENCE * 10, "all calls are made", async || Ok(server.calls().await? >= ended))
                    .await?;
                rig.at_rest().await
            }
            Self::Classic(classic) => classic.quiet(ended).await,
        }
    }
}

async fn measure(
    side: &str,
    rig: &Rig,
    keeper: &Keeper,
    names: &[String],
    scale: &Scale,
    asked: Asked,
) -> anyhow::Result<Found> {
    let mut found = Found::default();
    if asked.resync {
        for turn in 1..=scale.repeats {
            progress(&format!("(b) {side}, {turn} of {}", scale.repeats));
            resync(rig, keeper, names.len(), &mut found).await.with_context(|| format!("(b) {side}"))?;
        }
    }
    if asked.latency {
        // Changes go to the last of them, which are not among those that wait.
        let (waiting, changing) = names.split_at(names.len() - scale.changes.min(names.len() / 2));
        progress(&format!("(d) {side}, at rest"));
        found.idle = latencies(rig, keeper, changing, None).await.with_context(|| format!("(d) {side}"))?;
        progress(&format!("(d) {side}, under load"));
        found.loaded = latencies(rig, keeper, changing, Some(waiting)).await.with_context(|| format!("(d) {side}"))?;
    }
    let usage = keeper.worker().usage()?;
    (found.peak, found.own, found.resident) = (mib(usage.peak), mib(usage.own_peak()), mib(usage.resident));
    Ok(found)
}

/// One resync.
async fn resync(rig: &Rig, keeper: &Keeper, objects: usize, found: &mut Found) -> anyhow::Result<()> {
    let objects_made = objects as f64;
    let before = (keeper.used(rig)?, keeper.worker().usage()?.cpu, rig.simulators_usage()?);
    let (served, ended) = (rig.served().await?, keeper.ended().await?);
    let began = Instant::now();
    keeper.resync(rig).await?;
    let all = ended + objects as u64;
    rig.eventually(PATIENCE * 10, "all calls are made", async || Ok(keeper.ended().await? >= all)).await?;
    found.wall.push(began.elapsed().as_secs_f64());
    keeper.rest(rig, all).await?;
    let each = |used: Duration, before: Duration| used.saturating_sub(before).as_secs_f64() * 1e6 / objects_made;
    found.cost.push(each(keeper.used(rig)?, before.0));
    found.alone.push(each(keeper.worker().usage()?.cpu, before.1));
    found.simulators.push(each(rig.simulators_usage()?, before.2));
    let Served { kubernetes, cloud } = rig.served().await?;
    found.kubernetes.push((kubernetes - served.kubernetes) as f64 / objects_made);
    found.cloud.push((cloud - served.cloud) as f64 / objects_made);
    Ok(())
}

/// Changes servers one after the other, while those that are given wait, and returns how soon each change was acted on, in ms.
async fn latencies(
    rig: &Rig,
    keeper: &Keeper,
    changing: &[String],
    waiting: Option<&[String]>,
) -> anyhow::Result<Vec<f64>> {
    rig.cloud("DELETE", "requests", None).await?;
    let mut load = Load { rig, keeper, waiting, full_at: None };
    let (mut pace, mut changes) = (interval(PACE), vec![]);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for name in changing {
        load.fill_up().await?;
        pace.tick().await;
        // Not waited for, so that a slow answer does not delay the next change.
        changes.push(tokio::spawn(change(rig.cluster.client(), name.clone())));
    }
    let changes: Vec<Change> = stream::iter(changes).then(async |change| change.await?).try_collect().await?;
    let until = Instant::now() + LONGEST;
    loop {
        // At rest first: to ask for the log takes time from those who work.
        keeper.rest(rig, load.full_at.unwrap_or_default()).await?;
        let requests = rig.requests().await?;
        let found: Vec<f64> = changes.iter().filter_map(|change| change.heard(&requests)).collect();
        if found.len() == changes.len() {
            return Ok(found);
        }
        ensure!(Instant::now() < until, "only {} of {} changes were acted on", found.len(), changes.len());
        sleep(Duration::from_secs(1)).await;
    }
}

/// A change that was made.
struct Change {
    name: String,
    sent: Timestamp,
}

/// Changes an annotation, as `kubectl annotate` does.
async fn change(client: kube::Client, name: String) -> anyhow::Result<Change> {
    let api: Api<Server> = Api::namespaced(client, World::NAMESPACE);
    let sent = Timestamp::now();
    let patch = json!({"metadata": {"annotations": {"example.com/changed": sent.to_string()}}});
    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(Change { name, sent })
}

impl Change {
    /// How long after it the cloud was first asked about its server, in ms.
    fn heard(&self, requests: &[Value]) -> Option<f64> {
        let names_it = |request: &&Value| request["query"].as_str().is_some_and(|query| query.contains(&self.name));
        let times = requests.iter().filter(names_it).filter_map(|request| request["at"].as_str()?.parse().ok());
        let at = times.filter(|at: &Timestamp| *at >= self.sent).min()?;
        Some(at.duration_since(self.sent).as_secs_f64() * 1e3)
    }
}

/// What waits while changes are made.
struct Load<'a> {
    rig: &'a Rig,
    keeper: &'a Keeper,
    waiting: Option<&'a [String]>,
    /// How many calls had ended when all of it waited last.
    full_at: Option<u64>,
}

impl Load<'_> {
    /// Makes sure that at least half of what is to wait does.
    async fn fill_up(&mut self) -> anyhow::Result<()> {
        let Some(names) = self.waiting else { return Ok(()) };
        let ended = self.keeper.ended().await?;
        let all = names.len() as u64;
        let left = match (self.keeper, self.full_at) {
            (Keeper::Weir { .. }, _) => consumer::backlog(&self.rig.queue).await?.waiting,
            (Keeper::Classic(_), full_at) => full_at.map_or(0, |full_at| (full_at + all).saturating_sub(ended)),
        };
        if left < all / 2 {
            // What waits already is not made twice by either side.
            self.keeper.enqueue(self.rig, names).await?;
            self.full_at = Some(self.keeper.ended().await?);
        }
        Ok(())
    }
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
