//! (g) What recording every call costs.
//!
//! Settled servers are looked at again by one process of the server function: each look is some ten requests, and no write, so
//! that there is as much to record as there ever is for as little work. In turn with and without, so that whatever else the machine
//! does falls on both alike.

use super::calls::{pace, publish};
use super::settled::settle;
use super::{Scale, progress};
use crate::population::Population;
use crate::report::{Figure, Sample};
use crate::rig::Rig;
use anyhow::ensure;
use weir_function_runtime::queue::TRACES;
use weir_messages::Lane;

/// What a run came to.
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
    let (mut off, mut all) = (vec![], vec![]);
    for turn in 1..=scale.repeats * 2 {
        progress(&format!("(g) {turn} of {}", scale.repeats * 2));
        off.push(look(&rig, population, "off").await?);
        all.push(look(&rig, population, "all").await?);
    }
    let stored = rig.queue.jetstream().get_stream(TRACES).await?.cached_info().state.messages;
    let made = (population.servers * all.len()) as u64;
    ensure!(stored >= made, "{stored} of {made} calls are recorded");
    let of = |costs: &[Cost], value: fn(&Cost) -> f64| Sample::of(&costs.iter().map(value).collect::<Vec<_>>());
    let ratio: Vec<f64> = all.iter().zip(&off).map(|(all, off)| (1.0 - all.rate / off.rate) * 100.0).collect();
    Ok(vec![
        Figure::new('g', "calls of settled servers, not recorded", "/s", of(&off, |c| c.rate), None),
        Figure::new('g', "the same, all recorded", "/s", of(&all, |c| c.rate), None),
        Figure::new('g', "what recording takes of the rate", "%", Sample::of(&ratio), None).middle_at_most(5.0),
        Figure::new(
            'g',
            "processor time of a call (with nats-server), not recorded",
            "µs",
            of(&off, |c| c.processor),
            None,
        ),
        Figure::new('g', "the same, all recorded", "µs", of(&all, |c| c.processor), None),
    ])
}

async fn look(rig: &Rig, population: Population, mode: &str) -> anyhow::Result<Cost> {
    publish(&rig.queue, &population.names(), Lane::Urgent).await?;
    let nats = rig.nats_usage()?.cpu;
    let server = rig.function("server", 7, &[("WEIR_RECORD", mode)]).start()?;
    server.ready().await?;
    let rate = pace(population.servers, async || server.calls().await).await?;
    rig.at_rest().await?;
    let used = server.usage()?.cpu + rig.nats_usage()?.cpu.saturating_sub(nats);
    server.stop().await?;
    Ok(Cost { rate, processor: used.as_secs_f64() * 1e6 / population.servers as f64 })
}
