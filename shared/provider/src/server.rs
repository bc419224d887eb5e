//! A server as Nova shows it, in the few facts that decide about it, and what these mean in its status. Pure.
//!
//! Intention: the monitor and the server function look at one server from two processes, and one of them may destroy its disk
//! by what it sees. Both read Nova's answer into a [`View`] here, so that they cannot differ about what *booted*, *at work* or
//! *converged* mean.
//!
//! Invariant: what the cloud does not tell is never taken for *no*. A task that policy hides is neither busy nor quiet; a
//! `launched_at` that is not told is neither booted nor never booted; an image that cannot be read is on no target.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::borrow::Cow;
use std::collections::BTreeMap;
use weir_api::conditions::{self, ACTIVE, HEALTHY, Told, Truth};
use weir_api::crd::ImageId;
use weir_api::server::{Active, Health};
use weir_openstack::compute::{ImageRef, Observed, PowerState, Server, ServerStatus};

/// The key of a server's metadata that names its Server object, and the one that earlier releases wrote (SRV-3).
pub const SERVER_ID: [&str; 2] = ["region:server_id", "serverID"];

/// The Server object that a server in the cloud says it belongs to. `None`: it does not say; `Some(None)`: it says two
/// things at once, and so belongs to none.
pub fn claimed(metadata: &BTreeMap<String, String>) -> Option<Option<&str>> {
    let mut told = SERVER_ID.iter().filter_map(|key| metadata.get(*key));
    let first = told.next()?;
    Some(told.all(|other| other == first).then_some(first))
}

/// Whether something is being done to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Nova has a task for it, or shows it as being rebuilt.
    Busy,
    /// Nova says that there is no task.
    Quiet,
    /// Nova does not say: its policy hides tasks, or the answer is mangled.
    Untold,
}

/// Whether a server has ever booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Booted {
    /// Nova has a time for it. A rebuild keeps it.
    Yes,
    /// Nova says that there is none.
    Never,
    /// Nova does not say.
    Untold,
}

/// Where a server's image is, seen from a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Nova reports the target: a rebuild towards it was accepted, or was never needed.
    On,
    /// Nova reports another image.
    Off,
    /// Nova does not report an image.
    Unreadable,
}

/// What decides about a server, all of it from one answer of Nova.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Nova's status.
    pub status: ServerStatus,
    /// The image that Nova reports.
    pub image: ImageRef,
    /// Whether something is being done to it.
    pub activity: Activity,
    /// Whether it has ever booted.
    pub booted: Booted,
    /// What the hypervisor says.
    pub power: PowerState,
}

impl View {
    /// What Nova's answer tells.
    pub fn of(server: &Server) -> Self {
        let activity = match (&server.task_state, &server.status) {
            (Observed::Value(_), _) | (_, ServerStatus::Rebuild) => Activity::Busy,
            (Observed::Nothing, _) => Activity::Quiet,
            (Observed::Untold, _) => Activity::Untold,
        };
        let booted = match &server.launched_at {
            Observed::Value(_) => Booted::Yes,
            Observed::Nothing => Booted::Never,
            Observed::Untold => Booted::Untold,
        };
        Self { status: server.status.clone(), image: server.image.clone(), activity, booted, power: server.power_state }
    }

    /// Where the server's image is, seen from `target` (RBD-6). Servers are made from images only, so that one that says
    /// it boots from a volume is not understood.
    pub fn place(&self, target: &ImageId) -> Place {
        match &self.image {
            // Glance writes its IDs in lower case; a manifest may not.
            ImageRef::Image(image) if image.as_str().eq_ignore_ascii_case(target.as_str()) => Place::On,
            ImageRef::Image(_) => Place::Off,
            ImageRef::Volume | ImageRef::Unreadable => Place::Unreadable,
        }
    }

    /// Whether Nova has given up on it.
    pub fn is_error(&self) -> bool {
        self.status == ServerStatus::Error
    }

    /// Whether it has come to rest on `target` (RBD-7): the image alone flips when a rebuild is *accepted*, and a status may
    /// look stable all through one, so that only all three together tell of its end.
    pub fn is_converged(&self, target: &ImageId) -> bool {
        self.place(target) == Place::On && self.activity == Activity::Quiet && is_stable(&self.status)
    }
}

/// Statuses in which a server may stay, other than `ERROR`.
fn is_stable(status: &ServerStatus) -> bool {
    matches!(
        status,
        ServerStatus::Active
            | ServerStatus::Paused
            | ServerStatus::Rescue
            | ServerStatus::Shelved
            | ServerStatus::ShelvedOffloaded
            | ServerStatus::Shutoff
            | ServerStatus::Suspended
            | ServerStatus::VerifyResize
    )
}

/// Nova's word for a status. One that is not known here comes from the cloud, and is cut to what may be shown.
fn word(status: &ServerStatus) -> Cow<'_, str> {
    Cow::Borrowed(match status {
        ServerStatus::Active => "ACTIVE",
        ServerStatus::Build => "BUILD",
        ServerStatus::Deleted => "DELETED",
        ServerStatus::Error => "ERROR",
        ServerStatus::HardReboot => "HARD_REBOOT",
        ServerStatus::Migrating => "MIGRATING",
        ServerStatus::Password => "PASSWORD",
        ServerStatus::Paused => "PAUSED",
        ServerStatus::Reboot => "REBOOT",
        ServerStatus::Rebuild => "REBUILD",
        ServerStatus::Rescue => "RESCUE",
        ServerStatus::Resize => "RESIZE",
        ServerStatus::RevertResize => "REVERT_RESIZE",
        ServerStatus::Shelved => "SHELVED",
        ServerStatus::ShelvedOffloaded => "SHELVED_OFFLOADED",
        ServerStatus::Shutoff => "SHUTOFF",
        ServerStatus::SoftDeleted => "SOFT_DELETED",
        ServerStatus::Suspended => "SUSPENDED",
        ServerStatus::VerifyResize => "VERIFY_RESIZE",
        ServerStatus::Unknown(text) => {
            let plain = text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_');
            return Cow::Owned(plain.take(32).collect::<String>().to_ascii_uppercase());
        }
    })
}

/// Whether a server is well (MON-4): reason and message of `Healthy`. `None`: there is no server.
pub fn health(status: Option<&ServerStatus>) -> (Health, Cow<'static, str>) {
    let unknown = (Health::Unknown, Cow::Borrowed("unable to determine server status"));
    match status {
        None => unknown,
        Some(ServerStatus::Active) => (Health::Healthy, "server is healthy".into()),
        Some(ServerStatus::Error) => (Health::Errored, "server is in an error state".into()),
        Some(ServerStatus::Rebuild) => (Health::Provisioning, "server is rebuilding".into()),
        Some(other) => match word(other).as_ref() {
            "" | "UNKNOWN" => unknown,
            word => (Health::Degraded, format!("server is in state {word}").into()),
        },
    }
}

/// What a server is doing (MON-5). `building` is what `BUILD` means for it (MON-8), `prior` what was said last. A server
/// whose hypervisor says nothing that fits keeps what was said.
pub fn activity(view: Option<&View>, building: Active, prior: Option<Active>) -> Active {
    let kept = prior.unwrap_or(Active::Pending);
    let Some(view) = view else { return kept };
    match (&view.status, view.power) {
        (ServerStatus::Error, _) => Active::Error,
        (ServerStatus::Build, _) => building,
        (ServerStatus::Rebuild, _) => Active::Rebuilding,
        (_, PowerState::Running) => Active::Running,
        (_, PowerState::Shutdown) => Active::Stopped,
        (status, power) => {
            tracing::debug!(?status, ?power, "the hypervisor says nothing that tells whether the server runs");
            kept
        }
    }
}

/// Writes `Healthy` and `Active` into a status's conditions. True if anything changed.
pub fn show(
    conditions: &mut Vec<Condition>,
    health: (Health, &str),
    active: Active,
    generation: Option<i64>,
    now: &Time,
) -> bool {
    let (reason, message) = health;
    let put = |conditions: &mut Vec<Condition>, kind, truth: Truth, reason, message| {
        let told = Told { kind, truth, reason, message, observed_generation: generation };
        conditions::put(conditions, &told, now.clone())
    };
    let well = put(conditions, HEALTHY, reason.truth(), reason.as_str(), message);
    put(conditions, ACTIVE, active.truth(), active.as_str(), active.message()) || well
}

/// Writes what is fixed once a rebuild is accepted (RBD-8). Never made from the answer to the request, which may still show
/// the server as it was.
pub fn show_accepted(conditions: &mut Vec<Condition>, generation: Option<i64>, now: &Time) -> bool {
    let (reason, message) = health(Some(&ServerStatus::Rebuild));
    show(conditions, (reason, &message), Active::Rebuilding, generation, now)
}

/// Writes what a fresh look has shown, for a server that is parked (RBD-11).
pub fn show_observed(conditions: &mut Vec<Condition>, view: &View, generation: Option<i64>, now: &Time) -> bool {
    let prior = conditions::get(conditions, ACTIVE).and_then(|active| Active::parse(&active.reason));
    let (reason, message) = health(Some(&view.status));
    show(conditions, (reason, &message), activity(Some(view), Active::Building, prior), generation, now)
}

#[cfg(test)]
mod tests;
