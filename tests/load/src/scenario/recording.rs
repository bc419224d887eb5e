//! (g) What recording costs: of the rate of calls where the cloud takes its time, as clouds do, and of processor time where
//! nothing but processors is short.
//!
//! Settled servers are looked at again by one process of the server function: each look is some ten requests, and no write, so
//! that there is as much to record as there ever is for as little work. In turn in each mode, so that whatever else the machine
//! does falls on all alike.

use super::calls::{pace, publish};
use super::settled::settle;
use super::{CLOUD_LATENCY, CONCURRENCY, Scale, progress};
use crate::population::Population;
use crate::report::{Figure, Sample};
use crate::rig::Rig;
use anyhow::ensure;
use weir_function_runtime::queue::TRACES;
use weir_messages::Lane;

/// Not recorded, as functions do unless they are told otherwise, and everything.
const MODES: [&str; 3] = ["off", "errors", "all"];
/// Objects at once, where the cloud takes its time: few enough for a machine with two cores to keep up.
const FEW: usize = 8;

/// What a run came to.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Calls in a second.
    rate: f64,
    /// Processor time of one call in µs, of the process and of the queue's server.
    processor: f64,
}

/// Measures (g).
pub async fn run(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let population = Population { servers: scale.made };
    let rig = settle(population).await?;
    let short = measure(&rig, population, scale.repeats * 2, CONCURRENCY).await?;
    rig.slow_cloud(CLOUD_LATENCY).await?;
    let slow = measure(&rig, population, scale.repeats * 2, FEW).await?;
    let stored = rig.queue.jetstream().get_stream(TRACES).await?.cached_info().state.messages;
    let made = (population.servers * scale.repeats * 4) as u64;
    ensure!(stored >= made, "{stored} of {made} calls are recorded");
    let of = |turns: &[[Cost; 3]], mode: usize, value: fn(&Cost) -> f64| {
        Sample::of(&turns.iter().map(|costs| value(&costs[mode])).collect::<Vec<_>>())
    };
    let lost = |turns: &[[Cost; 3]], mode: usize| {
        Sample::of(&turns.iter().map(|costs| (1.0 - costs[mode].rate / costs[0].rate) * 100.0).collect::<Vec<_>>())
    };
    let mut figures = vec![];
    for (turns, at) in [(&slow, "20 ms for a cloud call"), (&short, "no processor time left")] {
        for (mode, name) in MODES.iter().enumerate() {
            figures.push(Figure::new('g', format!("calls, {at}, {name}"), "/s", of(turns, mode, |c| c.rate), None));
        }
    }
    for (mode, name) in MODES.iter().enumerate().skip(1) {
        let what = format!("what {name} takes of the rate, 20 ms for a cloud call");
        figures.push(Figure::new('g', what, "%", lost(&slow, mode), None).middle_at_most(5.0));
        let what = format!("what {name} takes of the rate, no processor time left");
        figures.push(Figure::new('g', what, "%", lost(&short, mode), None));
    }
    for (mode, name) in MODES.iter().enumerate() {
        let what = format!("processor time of a call (with nats-server), {name}");
        figures.push(Figure::new('g', what, "µs", of(&short, mode, |c| c.processor), None));
    }
    Ok(figures)
}

async fn measure(
    rig: &Rig,
    population: Population,
    turns: usize,
    concurrency: usize,
) -> anyhow::Result<Vec<[Cost; 3]>> {
    let mut all = vec![];
    for turn in 1..=turns {
        progress(&format!("(g) {turn} of {turns}, {concurrency} at once"));
        let mut costs = [Cost::default(); 3];
        // Whoever is first has the coldest machine: not always the same.
        for place in 0..MODES.len() {
            let mode = (turn + place) % MODES.len();
            costs[mode] = look(rig, population, MODES[mode], concurrency).await?;
        }
        all.push(costs);
    }
    Ok(all)
}

async fn look(rig: &Rig, population: Population, mode: &str, concurrency: usize) -> anyhow::Result<Cost> {
    publish(&rig.queue, &population.names(), Lane::Urgent).await?;
    let nats = rig.nats_usage()?.cpu;
    let server =
        rig.function("server", 7, &[("WEIR_RECORD", mode), ("WEIR_CONCURRENCY", &concurrency.to_string())]).start()?;
    server.ready().await?;
    let rate = pace(population.servers, async || server.calls().await).await?;
    rig.at_rest().await?;
    let used = server.usage()?.cpu + rig.nats_usage()?.cpu.saturating_sub(nats);
    server.stop().await?;
    Ok(Cost { rate, processor: used.as_secs_f64() * 1e6 / population.servers as f64 })
}
