//! (f) Cold start: from the start of a process until its first call is done, with queue, Kubernetes and cloud warm.
//!
//! The call is about a settled server, so that it does everything that a call does but change something. As a worker it is done
//! when the message is acknowledged; as a Lambda function (L-5), when the invocation is answered.

use super::emulator::Emulator;
use super::{Scale, progress};
use crate::consumer;
use crate::population::{self, Population};
use crate::report::{Figure, Sample};
use crate::rig::{PATIENCE, Rig, Worker};
use crate::watch::Watch;
use anyhow::ensure;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use weir_messages::{Cause, Lane, Work};

/// Between two looks at the queue: it is milliseconds that are measured.
const CLOSE_LOOK: Duration = Duration::from_millis(1);

/// Measures (f).
pub async fn run(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let rig = Rig::with_surroundings(Population { servers: 1 }).await?;
    let publisher = rig.function("watch-publisher", 0, &[]).start()?;
    let server = rig.function("server", 0, &[]).start()?;
    publisher.ready().await?;
    server.ready().await?;
    let watch = Watch::begin(&rig.cluster.client());
    rig.cluster.apply(&population::manifest(0, &rig.bootstrap)).await;
    watch.until(1, PATIENCE).await?;
    rig.at_rest().await?;
    server.stop().await?;
    publisher.stop().await?;
    progress(&format!("(f) {} starts of each kind", scale.starts));
    let (mut worker, mut lambda) = (vec![], vec![]);
    for _ in 0..scale.starts {
        worker.push(as_worker(&rig).await?.as_secs_f64() * 1e3);
        lambda.push(as_lambda(&rig).await?.as_secs_f64() * 1e3);
    }
    Ok(vec![
        Figure::new('f', "cold start of a worker, to its first call done", "ms", Sample::of(&worker), None),
        Figure::new('f', "cold start of a Lambda function, to its first call done", "ms", Sample::of(&lambda), None)
            .middle_at_most(150.0),
    ])
}

async fn as_worker(rig: &Rig) -> anyhow::Result<Duration> {
    let work = Work::new(population::reference(&population::server(0)), Cause::Requested);
    rig.queue.publish(work, Lane::Urgent, None, None).await?;
    // The consumer may hear of it a moment later.
    rig.eventually(PATIENCE, "a message waits", async || Ok(!consumer::backlog(&rig.queue).await?.is_empty())).await?;
    let began = Instant::now();
    let server = rig.function("server", 0, &[]).start()?;
    while !consumer::backlog(&rig.queue).await?.is_empty() {
        ensure!(began.elapsed() < PATIENCE, "no call:\n{}", server.process.last_words());
        sleep(CLOSE_LOOK).await;
    }
    let took = began.elapsed();
    server.ready().await?;
    server.stop().await?;
    Ok(took)
}

async fn as_lambda(rig: &Rig) -> anyhow::Result<Duration> {
    let api = Emulator::about(population::reference(&population::server(0))).await?;
    let began = Instant::now();
    let function: Worker = rig.function("server", 1, &api.environment()).start()?;
    let answered = api.answered().await?;
    function.stop().await?;
    Ok(answered.duration_since(began))
}
