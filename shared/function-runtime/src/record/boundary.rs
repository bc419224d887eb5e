//! Where a handler meets the world: each of its calls gets clients that are taken down, or answered from a recording.

use std::sync::Arc;

use futures::future::BoxFuture;
use weir_provider::Provider;

use super::replay::Player;
use super::{InProgress, Recorder};
use crate::function::{Layers, Scope};
use crate::worker::{Call, Verdict};

/// The world, as a handler's calls see it.
pub struct Boundary {
    client: kube::Client,
    provider: Arc<Provider>,
    recorder: Recorder,
    /// Answers in place of the world, and the step at which it stops.
    played: Option<(Arc<Player>, Option<String>)>,
}

impl Boundary {
    /// The world behind these clients. Nothing is taken down.
    pub fn new(client: kube::Client, provider: Arc<Provider>) -> Self {
        Self { client, provider, recorder: Recorder::off(), played: None }
    }

    /// The same, with calls recorded by `recorder`.
    #[must_use]
    pub fn recorded(mut self, recorder: Recorder) -> Self {
        self.recorder = recorder;
        self
    }

    /// A player in place of the world.
    pub(super) fn played(player: Arc<Player>, recorder: Recorder, until: Option<String>) -> Self {
        let client = player.kubernetes();
        Self { client, provider: Arc::default(), recorder, played: Some((player, until)) }
    }

    /// Begins a call: what it may use, and what takes it down.
    pub fn begin(&self, call: &Call) -> (Scope, Taking) {
        let (player, until) = self.played.clone().unzip();
        let recording = self.recorder.begin(call, until.flatten());
        let tape = recording.as_ref().map(|recording| recording.tape.clone());
        let layers = Layers { player: player.clone(), tape };
        let scope = Scope::layered(call, &self.client, self.provider.clone(), layers);
        let lease = call.lease.clone();
        (scope, Taking { recording, player, lease })
    }

    /// Waits until what was recorded is stored, for a few seconds at most.
    pub async fn flush(&self) {
        self.recorder.flush().await;
    }
}

/// Takes a call down.
pub struct Taking {
    recording: Option<InProgress>,
    player: Option<Arc<Player>>,
    lease: Arc<crate::lease::Lease>,
}

impl Taking {
    /// Runs the call. Whatever it came to: one that has lost its lease has nothing more to say, its successor has.
    ///
    /// Boxed, because a call is large, and there would be room for it in each of the layers that it passes through.
    pub async fn run(self, work: BoxFuture<'_, Verdict>) -> Verdict {
        let lost = || self.lease.check().is_err() || self.player.as_ref().is_some_and(|player| player.lost_its_lease());
        let work = async {
            let verdict = work.await;
            if lost() { Verdict::Abandoned } else { verdict }
        };
        let Some(recording) = self.recording else { return work.await };
        let tape = recording.tape.clone();
        // Dropped without a verdict, it is the recording of a call that was ended.
        tokio::select! {
            // First, so that nothing is done that lies after the step.
            biased;
            () = tape.reached() => {
                self.player.iter().for_each(|player| player.stop());
                Verdict::Abandoned
            }
            () = ended(self.player.as_deref()) => Verdict::Abandoned,
            verdict = tape.clone().during(work) => {
                recording.finish(verdict);
                verdict
            }
        }
    }
}

/// Resolves where the recording ends that a call is answered from, if the recorded call was ended there.
async fn ended(player: Option<&Player>) {
    match player {
        Some(player) => player.ended().await,
        None => std::future::pending().await,
    }
}
