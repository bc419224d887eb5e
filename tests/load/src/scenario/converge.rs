//! (c) Servers made at once: how long until all are available, when each request to the cloud takes 20 ms.
//!
//! Each turn has a fresh queue, Kubernetes and cloud, with all that servers need made before. The clock runs from the first
//! object applied to the last one seen available. After that, there has to be one port and one server in the cloud for each.
//!
//! Twice: with as many objects at once as functions take as they ship, where one process keeps a small machine busy; and with
//! few, where it is the cloud that is waited for, so that more processes are faster.

use super::{CLOUD_LATENCY, CONCURRENCY, Scale, progress};
use crate::population::Population;
use crate::report::{Figure, Sample};
use crate::rig::{PATIENCE, Rig, Worker, stop_all};
use crate::watch::Watch;
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Who works on servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// So many processes of the server function, and a publisher.
    Weir(usize),
    /// One classic controller.
    Classic,
}

/// Objects at once, in each process, when the cloud is what is waited for: few enough for a machine with two cores, which
/// runs both simulators too, to keep four processes supplied.
const FEW: usize = 2;

/// Measures (c).
pub async fn run(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let population = Population { servers: scale.made };
    let many: &[Side] = &[Side::Weir(1), Side::Classic];
    let few: &[Side] = &[Side::Weir(1), Side::Classic, Side::Weir(2), Side::Weir(4)];
    let mut times: BTreeMap<(usize, Side), Vec<f64>> = BTreeMap::new();
    for turn in 1..=scale.repeats {
        for (concurrency, sides) in [(CONCURRENCY, many), (FEW, few)] {
            for side in sides {
                progress(&format!("(c) {turn} of {}: {side:?}, {concurrency} at once in each", scale.repeats));
                let took = once(population, *side, concurrency).await.with_context(|| format!("(c) {side:?}"))?;
                times.entry((concurrency, *side)).or_default().push(took);
            }
        }
    }
    let of = |concurrency, side| times.get(&(concurrency, side)).and_then(|times| Sample::of(times));
    let faster = |workers| {
        let (one, more) = (times.get(&(FEW, Side::Weir(1)))?, times.get(&(FEW, Side::Weir(workers)))?);
        Sample::of(&one.iter().zip(more).map(|(one, more)| one / more).collect::<Vec<_>>())
    };
    let made = |workers, concurrency| format!("{} servers made, {workers}, {concurrency} at once in each", scale.made);
    let classic = |concurrency| of(concurrency, Side::Classic);
    Ok(vec![
        Figure::new('c', made("1 process", CONCURRENCY), "s", of(CONCURRENCY, Side::Weir(1)), classic(CONCURRENCY))
            .at_most_times(1.1),
        Figure::new('c', made("1 process", FEW), "s", of(FEW, Side::Weir(1)), classic(FEW)).at_most_times(1.1),
        Figure::new('c', made("2 processes", FEW), "s", of(FEW, Side::Weir(2)), None),
        Figure::new('c', made("4 processes", FEW), "s", of(FEW, Side::Weir(4)), None),
        Figure::new('c', "2 processes faster than 1", "×", faster(2), None),
        Figure::new('c', "4 processes faster than 1", "×", faster(4), None).at_least(3.0),
    ])
}

/// One turn, in seconds.
pub async fn once(population: Population, side: Side, concurrency: usize) -> anyhow::Result<f64> {
    let rig = Rig::with_surroundings(population).await?;
    let before = rig.cloud_has().await?;
    rig.slow_cloud(CLOUD_LATENCY).await?;
    let workers = start(&rig, side, concurrency).await?;
    let watch = Watch::begin(&rig.cluster.client());
    let servers = population.manifests(&rig.bootstrap);
    let began = Instant::now();
    rig.apply(&servers).await;
    let ended = watch.until(population.servers, PATIENCE * 10).await?;
    stop_all(workers).await?;
    let after = rig.cloud_has().await?;
    let wanted = population.servers as u64;
    let made = (after.0 - before.0, after.1 - before.1);
    ensure!(made == (wanted, wanted), "for {wanted} servers there are so many ports and servers: {made:?}");
    Ok(ended.duration_since(began).as_secs_f64())
}

/// Starts who works, and waits until work is taken.
async fn start(rig: &Rig, side: Side, concurrency: usize) -> anyhow::Result<Vec<Worker>> {
    let Side::Weir(processes) = side else {
        let classic = rig.classic("server", concurrency).start()?;
        classic.answering().await?;
        return Ok(vec![classic]);
    };
    let concurrency = concurrency.to_string();
    let mut workers = vec![rig.function("watch-publisher", 0, &[]).start()?];
    for number in 0..processes {
        workers.push(rig.function("server", number, &[("WEIR_CONCURRENCY", &concurrency)]).start()?);
    }
    for worker in &workers {
        worker.ready().await?;
    }
    Ok(workers)
}
