//! Whether the queue still knows what it was told, and still has the schedules of resyncs.
//!
//! A server that comes back with nothing, a stream that somebody has removed, or purged, has lost all messages and timers. Streams
//! are made again by whoever needs them next; what they held is not, and nothing else would tell: an object that nobody changes
//! would be forgotten until the next resync, and without the schedules there is none. So the publisher keeps an eye on which
//! stream it is that it publishes to, and on the schedules in it. When that is another stream, or a schedule has gone, it publishes
//! everything that exists, on the `routine` lane, as it does when it starts.
//!
//! Invariants
//! - A schedule that has gone is set again, and so is one in whose place something else lies. One that is there is left alone, at whatever
//!   interval: publishers that differ in that do not fight. Only when a publisher starts does it set its own.
//! - Of several publishers, the one that sets the schedule again publishes, under ids of its own: a stream that has lost messages may
//!   know the ids of them still, and would take the same news for duplicates.
//! - Streams that nobody would miss are made again here: `EVENTS` is filled by the server alone, which says nothing of one that is gone.
//!
//! Caveats: seen at a new connection, or within [`LOOK`] if the connection outlives the loss. A stream that was brought back from
//! an old copy counts as the same, and so does one of which only a part was purged that holds no schedule, the timers of one
//! object, say, or all work: it is behind, which the resync makes up for.

use crate::publish::Publisher;
use crate::resync::kinds;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use weir_function_runtime::queue::WORK;
use weir_function_runtime::timer::{self, Kept, Repeating};

/// How often it is looked while the connection lasts, and how long a look may take.
const LOOK: Duration = Duration::from_secs(10);
/// The pause after a look that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// When the stream of work was made, in nanoseconds since 1970: what tells one stream from another of the same name.
type Birth = i128;

/// What is remembered from one look to the next.
#[derive(Default)]
struct Memory {
    known: Option<Birth>,
    /// The schedules have been set as this publisher wants them.
    begun: bool,
    /// A schedule has gone, and not everything has been published since.
    lost: bool,
    /// Streams that are missing although they were asked for: the account may not have them, or there is no room.
    refused: Vec<&'static str>,
}

/// Looks until `stop`. A schedule is set for a look at everything at each interval of `every`.
pub async fn run(publisher: Arc<Publisher>, every: Duration, stop: CancellationToken) {
    let mut connection = publisher.queue().connection();
    let mut memory = Memory::default();
    loop {
        let is_connected = connection.borrow_and_update().connected;
        let look = async {
            if !is_connected {
                return true;
            }
            match timeout(LOOK, memory.look(&publisher, every)).await {
                Ok(Ok(())) => true,
                Ok(Err(error)) => {
                    tracing::warn!(error = format!("{error:#}"), "the queue could not be looked at; trying again");
                    false
                }
                Err(_) => false,
            }
        };
        let is_well = tokio::select! {
            is_well = look => is_well,
            () = stop.cancelled() => return,
        };
        tokio::select! {
            () = sleep(if is_well { LOOK } else { PAUSE }) => {}
            Ok(()) = connection.changed() => {}
            () = stop.cancelled() => return,
        }
    }
}

impl Memory {
    async fn look(&mut self, publisher: &Publisher, every: Duration) -> anyhow::Result<()> {
        let queue = publisher.queue();
        if queue.absent().await?.iter().any(|stream| !self.refused.contains(stream)) {
            queue.ensure().await?;
            self.refused = queue.absent().await?;
        }
        let (birth, last) = {
            let stream = queue.jetstream().get_stream(WORK).await?;
            let info = stream.cached_info();
            (info.created.unix_timestamp_nanos(), info.state.last_sequence)
        };
        // In another stream there cannot be what was in the one before.
        let is_another = self.known.replace(birth).is_some_and(|known| known != birth);
        if is_another {
            publisher.again(None);
        }
        for (_, kind) in kinds() {
            let tick = Repeating::Tick(kind);
            if !self.begun {
                timer::repeat(queue, &tick, every).await?;
                continue;
            }
            match timer::keep(queue, &tick, every).await? {
                Kept::There => {}
                Kept::Gone => self.lost |= !is_another,
                Kept::Replaced => tracing::warn!(%kind, "what lay in the place of its schedule was none"),
            }
        }
        self.begun = true;
        if std::mem::take(&mut self.lost) {
            publisher.again(Some(&format!("purged/{last}")));
        }
        Ok(())
    }
}
