//! Kubernetes watches, published to the queue: the one way by which news of an object reaches its function.
//!
//! Intention: a change of an object becomes one message on the object's own subject, and a change that other objects
//! wait for becomes one message for each of them, so that nothing has to poll for what an event can tell (W-5).
//!
//! The rooms: [`watched`] is the table of what is watched, [`seen`] what is kept of an object, [`index`] decides who is
//! woken (pure), [`pending`] holds what has not been published yet (pure), [`watch`] and [`publish`] do the I/O,
//! [`memory`] notices a queue that has lost what it held and keeps the schedules of resyncs, and [`resync`] has everything looked at again from time to time.
//!
//! Invariants
//! - Nothing is lost (W-3): a message is taken off [`pending`] only when the stream has acknowledged it, and a publisher
//!   that starts lists everything first. While the queue is away, an object's messages coalesce: what is kept is bounded
//!   by the number of objects and of references between them, however long it takes and however much they change.
//! - Memory holds a few words for each object that exists now (W-6), no specs, and no contents of Secrets: of those only
//!   the metadata is watched.
//! - A status write alone wakes nobody but those who wait for what it says (W-1), and a Server that calls by it (RBD-20).
//! - Any number of publishers may run (W-4): the same news has the same message id.
//!
//! Caveat: what a publisher did not see, because no publisher ran, shows in its first list, on the `routine` lane. That
//! an object was deleted meanwhile does not show; it had nothing left to do, and what waits for its going is listed too,
//! under a message id that the stream does not know from before (see [`index::Index::state_id`]).

pub mod index;
pub mod memory;
pub mod metrics;
pub mod pending;
pub mod publish;
pub mod resync;
pub mod seen;
pub mod watch;
pub mod watched;

mod settings;

pub use publish::Publisher;
pub use settings::Settings;

use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use weir_function_runtime::queue::Queue;

/// Watches and publishes until `stop`.
///
/// # Errors
/// Only when it cannot begin, for a reason that no waiting mends: afterwards whatever is away is waited for.
pub async fn run(
    client: kube::Client,
    queue: Queue,
    settings: &Settings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    metrics::register();
    serve(Arc::new(Publisher::new(queue)), client, settings, stop).await
}

/// The same with a publisher that the caller can look into.
///
/// # Errors
/// As [`run`].
pub async fn serve(
    publisher: Arc<Publisher>,
    client: kube::Client,
    settings: &Settings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    publisher.ensure(&stop).await?;
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(publisher.clone().report(stop.clone()));
    for watched in watched::Watched::ALL {
        tasks.spawn(watch::run(watched, client.clone(), settings.clone(), publisher.clone(), stop.clone()));
    }
    tasks.spawn(publisher.clone().run(stop.clone()));
    tasks.spawn(memory::run(publisher.clone(), settings.resync(), stop.clone()));
    tasks.spawn(resync::run(publisher, settings.resync(), stop.clone()));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            // A task that panicked is a fault of ours. Going on without it would lose events in silence.
            stop.cancel();
            anyhow::bail!("a task of the publisher failed: {error}");
        }
    }
    Ok(())
}
