//! (e) The only worker is killed in the middle of a call, and started again at once: how long until what the call was about
//! is done.
//!
//! The call is held in its request for a port, by a cloud that does not answer it. What is to be waited for then is the dead
//! worker's lease, and the message that comes back.

use super::{Scale, progress};
use crate::population::{self, Population};
use crate::report::{Figure, Sample};
use crate::rig::{PATIENCE, Rig};
use crate::watch::Watch;
use anyhow::ensure;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// For how long the cloud does not answer: longer than anything else here takes.
const HELD_MS: u64 = 120_000;

/// Measures (e).
pub async fn run(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let rig = Rig::with_surroundings(Population { servers: scale.kills }).await?;
    let ttl = rig.queue.lease_ttl();
    let (before, mut times) = (rig.cloud_has().await?, vec![]);
    for turn in 0..scale.kills {
        progress(&format!("(e) {} of {}", turn + 1, scale.kills));
        // At another moment between two renewals each time.
        let moment = ttl.mul_f64(turn as f64 / scale.kills as f64 / 3.0);
        times.push(once(&rig, turn, moment).await?.as_secs_f64());
    }
    let (after, wanted) = (rig.cloud_has().await?, scale.kills as u64);
    let made = (after.0 - before.0, after.1 - before.1);
    ensure!(made == (wanted, wanted), "for {wanted} servers there are so many ports and servers: {made:?}");
    let bound = ttl.as_secs_f64() + 1.0;
    let what = format!("SIGKILL in mid-call to the effect, lease {} s", ttl.as_secs());
    Ok(vec![Figure::new('e', what, "s", Sample::of(&times), None).at_most(bound)])
}

async fn once(rig: &Rig, number: usize, moment: Duration) -> anyhow::Result<Duration> {
    let publisher = rig.function("watch-publisher", 0, &[]).start()?;
    let mut server = rig.function("server", 0, &[]).start()?;
    publisher.ready().await?;
    server.ready().await?;
    rig.at_rest().await?;
    let watch = Watch::begin(&rig.cluster.client());
    let fault = json!({"method": "POST", "path": "/ports$", "count": 1, "action": {"latency": HELD_MS}});
    rig.cloud("POST", "faults", Some(&fault)).await?;
    rig.cluster.apply(&population::manifest(number, &rig.bootstrap)).await;
    rig.eventually(PATIENCE, "the call is held by the cloud", async || {
        Ok(rig.cloud("GET", "faults", None).await?["faults"][0]["fired"] == 1)
    })
    .await?;
    sleep(moment).await;
    let killed = Instant::now();
    server.process.restart()?;
    let done = watch.until(number + 1, PATIENCE).await?;
    rig.cloud("DELETE", "faults", None).await?;
    server.stop().await?;
    publisher.stop().await?;
    Ok(done.duration_since(killed))
}
