//! Signals that ask `weir` to stop.
//!
//! The first one stops it in order; the second one at once.

use anyhow::Context;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// SIGINT, SIGTERM and SIGHUP, from the moment of listening on.
pub struct Signals {
    stop: CancellationToken,
    hurry: Arc<Mutex<CancellationToken>>,
}

impl Signals {
    /// Begins to listen.
    pub fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        let mut hangup = listen(SignalKind::hangup())?;
        let signals = Self { stop: CancellationToken::new(), hurry: Arc::default() };
        let (stop, hurry) = (signals.stop.clone(), signals.hurry.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                if stop.is_cancelled() {
                    hurry.lock().unwrap_or_else(PoisonError::into_inner).cancel();
                }
                stop.cancel();
            }
        });
        Ok(signals)
    }

    /// The token to cancel at the second signal.
    pub fn hurry(&self, token: CancellationToken) {
        *self.hurry.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// Returns once there was a signal.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }
}
