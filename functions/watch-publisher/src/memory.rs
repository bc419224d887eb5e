//! Whether the queue still knows what it was told.
//!
//! A server that comes back with nothing, or a stream that somebody has removed, has lost all messages and timers. Streams are made
//! again by whoever needs them next; what they held is not, and nothing else would tell: an object that nobody changes would be
//! forgotten until the next resync. So the publisher keeps an eye on which stream it is that it publishes to, and when that is
//! another one it publishes everything that exists, on the `routine` lane, as it does when it starts.
//!
//! Caveat: seen at a new connection, or within [`LOOK`] if the connection outlives the stream. A stream that was brought back from
//! an old copy counts as the same: it is behind, which the resync makes up for.

use crate::publish::Publisher;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use weir_function_runtime::queue::{Queue, WORK};

/// How often the stream is looked at while the connection lasts.
const LOOK: Duration = Duration::from_secs(10);
/// The pause after a look that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// When the stream of work was made, in nanoseconds since 1970: what tells one stream from another of the same name.
type Birth = i128;

/// Looks until `stop`.
pub async fn run(publisher: Arc<Publisher>, stop: CancellationToken) {
    let queue = publisher.queue().clone();
    let mut connection = queue.connection();
    let mut known: Option<Birth> = None;
    loop {
        let is_connected = connection.borrow_and_update().connected;
        let seen = if is_connected { birth(&queue).await } else { None };
        if let Some(birth) = seen {
            if known.is_some_and(|known| known != birth) {
                publisher.again();
            }
            known = Some(birth);
        }
        let pause = if is_connected && seen.is_none() { PAUSE } else { LOOK };
        tokio::select! {
            () = sleep(pause) => {}
            Ok(()) = connection.changed() => {}
            () = stop.cancelled() => return,
        }
    }
}

/// When the stream was made that is there now, or is made by this; `None` if that cannot be told.
async fn birth(queue: &Queue) -> Option<Birth> {
    let look = async {
        let jetstream = queue.jetstream();
        let stream = if let Ok(stream) = jetstream.get_stream(WORK).await {
            stream
        } else {
            // Gone, it is made again; out of reach, so is all else.
            queue.ensure().await.ok()?;
            jetstream.get_stream(WORK).await.ok()?
        };
        Some(stream.cached_info().created.unix_timestamp_nanos())
    };
    timeout(LOOK, look).await.ok().flatten()
}
