//! A changed image, carried out by a Nova rebuild: the one destructive thing done to data (RBD). Pure.
//!
//! The marker `status.rebuild` records the one fact that no look at the cloud can bring back: whether Weir has lately asked for
//! a destructive rebuild, and towards which image. This side creates it, replaces it, clears it and parks; the monitor only
//! advances its state from what it sees (`weir_server_monitor::rebuild::advance`).
//!
//! Invariants
//! - Intent is written before anything is destroyed: the call that arms ([`Step::Mark`]) ends, and a later one that has read
//!   the marker back submits ([`Step::Submit`]), at a server that has booted and is at rest (RBD-1, RBD-4, RBD-14). Whoever
//!   submits reads the object once more after the look at the cloud, and starts anew if it has changed.
//! - What was accepted is told by the image that Nova reports, never by what is wished for (RBD-6): Nova flips it together
//!   with the task when it accepts, and nothing is submitted while it is on the target.
//! - A state of the marker only goes forward, but for the park, which may put `Failed` over a `Succeeded` that was stamped just
//!   before the `ERROR` came: left standing it would wake the function for ever (RBD-3, RBD-11).
//! - Until something was accepted, waiting is silent (RBD-15).
//!
//! Caveats
//! - An acceptance is known by its traces: the image on the target, or a marker beyond `Initiated`. If Nova's answer is lost, or
//!   the process dies before it has written status, and before anybody looks the image is moved off the target again (by
//!   somebody else's rebuild, or by Nova when no host takes this one), nothing is left that tells it from a request that was
//!   never sent, and it is sent again. In the second case nothing had been destroyed.
//! - Between the look and the request there is a moment in which somebody else may have the server rebuilt, and finish.
//! - A cloud that hides `task_state` from the credential never lets a change of image settle: it is waited for, in silence but
//!   for a log line.

use weir_api::crd::{ImageId, Rebuild, RebuildState};
use weir_provider::server::{Activity, Booted, Place, View};

/// What to do next about a server's image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The image is the one that is asked for, and no marker stands.
    Done,
    /// Wait, writing nothing: look again soon.
    Wait(Wait),
    /// Write this marker, or clear it; then look again soon. Nothing else is written.
    Mark(Option<Rebuild>),
    /// Nova is at work on it: record that, with what is fixed to show. The monitor's next advance wakes us.
    Accepted(Rebuild),
    /// Ask Nova to rebuild. If it accepts, as [`Step::Accepted`] with [`accepted`]; if it is busy, wait.
    Submit(Rebuild),
    /// It has failed: record that, with what a fresh look shows; then look again soon.
    Fail(Rebuild),
    /// It has failed, and that was read back: parked until its owner chooses another image.
    Park,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The first boot. Until then an image is what a server is made from, not what it changes to (RBD-2).
    FirstBoot,
    /// Nova to tell whether the server has booted.
    BootUntold,
    /// Nova to tell the image.
    ImageUntold,
    /// Nova to tell whether it is at work.
    TaskUntold,
    /// Something else that is being done to the server.
    OtherWork,
    /// A server that was rebuilt to come to rest.
    Rest,
    /// A release that knows the marker's state.
    Newer,
}

impl Wait {
    /// For logs, and for whoever reads the condition.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::FirstBoot => "the image is changed once the server has booted for the first time",
            Self::BootUntold => "the cloud does not tell whether the server has booted; its image is left alone",
            Self::ImageUntold => "the cloud does not tell which image the server has; looking again",
            Self::TaskUntold => "the cloud does not tell whether it is at work on the server; its image is left alone",
            Self::OtherWork => "the image is changed once the cloud has finished what it is doing to the server",
            Self::Rest => "waiting for the server to come to rest after its image was changed",
            Self::Newer => "another release of Weir is changing the server's image",
        }
    }
}

/// Decides about a server whose owner wants it to have `desired`. `marker` was read from its status at the start of the call,
/// `view` from Nova after that.
pub fn decide(desired: &ImageId, marker: Option<&Rebuild>, view: &View) -> Step {
    if view.booted == Booted::Never {
        return before_first_boot(desired, marker, view);
    }
    let Some(marker) = marker else { return unmarked(desired, view) };
    if marker.target_image_id != *desired {
        // Also over a parked one: another image is the way out that its owner was told of.
        return Step::Mark(Some(armed(desired)));
    }
    if marker.state == RebuildState::Unknown {
        return Step::Wait(Wait::Newer);
    }
    let place = view.place(desired);
    if let Some(step) = parked(marker, place, view) {
        return step;
    }
    match place {
        Place::Unreadable => Step::Wait(Wait::ImageUntold),
        Place::On => arrived(marker, view),
        Place::Off => under_way(marker, view),
    }
}

/// A marker over a server that has never booted belongs to one that is gone.
fn before_first_boot(desired: &ImageId, marker: Option<&Rebuild>, view: &View) -> Step {
    match marker {
        Some(_) => Step::Mark(None),
        None if view.place(desired) == Place::On => Step::Done,
        None => Step::Wait(Wait::FirstBoot),
    }
}

fn unmarked(desired: &ImageId, view: &View) -> Step {
    match (view.place(desired), view.booted) {
        (Place::Unreadable, _) => Step::Wait(Wait::ImageUntold),
        // Whatever else is the matter with it, an error among that, is no change of image.
        (Place::On, _) => Step::Done,
        (Place::Off, Booted::Yes) => Step::Mark(Some(armed(desired))),
        (Place::Off, _) => Step::Wait(Wait::BootUntold),
    }
}

/// Whether the change has failed.
fn parked(marker: &Rebuild, place: Place, view: &View) -> Option<Step> {
    if marker.state == RebuildState::Failed {
        return Some(Step::Park);
    }
    let accepted = matches!(marker.state, RebuildState::Rebuilding | RebuildState::Succeeded);
    // An error of a server whose rebuild was not accepted is another matter.
    let failed = view.is_error() && (accepted || place == Place::On);
    // Somebody else's rebuild has taken its place: it cannot arrive any more.
    let superseded = accepted && place == Place::Off && view.activity == Activity::Quiet;
    (failed || superseded).then(|| Step::Fail(with_state(marker, RebuildState::Failed)))
}

fn arrived(marker: &Rebuild, view: &View) -> Step {
    if view.is_converged(&marker.target_image_id) {
        return Step::Mark(None);
    }
    let over = marker.state == RebuildState::Succeeded;
    match view.activity {
        Activity::Busy if !over => Step::Accepted(with_state(marker, RebuildState::Rebuilding)),
        // A state that has come to its end wakes nobody any more, so this has to look again by itself (RBD-13).
        Activity::Busy | Activity::Quiet => Step::Wait(Wait::Rest),
        Activity::Untold => Step::Wait(Wait::TaskUntold),
    }
}

fn under_way(marker: &Rebuild, view: &View) -> Step {
    match (marker.state, view.activity, view.booted) {
        (_, Activity::Untold, _) => Step::Wait(Wait::TaskUntold),
        (RebuildState::Rebuilding, ..) => Step::Accepted(marker.clone()),
        (RebuildState::Initiated, Activity::Quiet, Booted::Yes) => Step::Submit(marker.clone()),
        (RebuildState::Initiated, Activity::Quiet, _) => Step::Wait(Wait::BootUntold),
        (RebuildState::Initiated, Activity::Busy, _) => Step::Wait(Wait::OtherWork),
        _ => Step::Wait(Wait::Rest),
    }
}

fn armed(target: &ImageId) -> Rebuild {
    Rebuild { target_image_id: target.clone(), state: RebuildState::Initiated }
}

/// The marker once Nova has accepted.
pub fn accepted(marker: &Rebuild) -> Rebuild {
    with_state(marker, RebuildState::Rebuilding)
}

fn with_state(marker: &Rebuild, state: RebuildState) -> Rebuild {
    Rebuild { state, ..marker.clone() }
}

#[cfg(test)]
mod tests;
