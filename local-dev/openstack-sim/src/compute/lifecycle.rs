//! What servers do over time.
//!
//! An [`Operation`] has stages: moments, counted from its start, at which something happens. [`settle`] lets happen
//! whatever is due; between moments the task shown is a function of the time alone. So nothing runs in the background,
//! and a moved clock moves everything.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Mishap, Nic, Server, VmState};
use crate::{
    clock::{later, signed},
    network, placement,
    world::World,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Build,
    /// The image before, and whether the server was stopped.
    Rebuild {
        previous: String,
        stopped: bool,
    },
    Stop,
    Start,
    Reboot {
        hard: bool,
    },
    Delete,
}

/// How an operation that may fail will end. It is decided when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Well,
    /// No host takes it.
    NoHost,
    /// It fails on the host.
    Spawn,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub kind: Kind,
    pub outcome: Outcome,
    pub start: Timestamp,
    pub length: SignedDuration,
    /// How many stages have happened.
    pub done: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Schedule,
    Plug,
    Unplug,
    Finish,
}

impl Operation {
    /// When, in thousandths of the length, what happens.
    fn stages(&self) -> &'static [(i32, Stage)] {
        match (&self.kind, self.outcome) {
            (Kind::Build, Outcome::NoHost) => &[(150, Stage::Finish)],
            (Kind::Build, _) => &[(150, Stage::Schedule), (300, Stage::Plug), (1000, Stage::Finish)],
            (Kind::Rebuild { .. }, Outcome::NoHost) => &[(100, Stage::Finish)],
            (Kind::Delete, _) => &[(850, Stage::Unplug), (1000, Stage::Finish)],
            _ => &[(1000, Stage::Finish)],
        }
    }

    fn next(&self) -> Option<(Timestamp, Stage)> {
        let (at, stage) = self.stages().get(self.done)?;
        let offset = self.length.checked_mul(*at).and_then(|offset| offset.checked_div(1000)).unwrap_or(self.length);
        Some((later(self.start, offset), *stage))
    }

    /// `OS-EXT-STS:task_state` at this time.
    pub fn task(&self, now: Timestamp) -> Option<&'static str> {
        let elapsed = now.duration_since(self.start).as_millis().max(0);
        let at = elapsed.saturating_mul(1000) / self.length.as_millis().max(1);
        match &self.kind {
            Kind::Build => match at {
                ..150 => Some("scheduling"),
                150..300 => None,
                300..450 => Some("networking"),
                _ => Some("spawning"),
            },
            Kind::Rebuild { .. } => match at {
                ..380 => Some("rebuilding"),
                380..410 => Some("rebuild_block_device_mapping"),
                _ => Some("rebuild_spawning"),
            },
            Kind::Stop => Some("powering-off"),
            Kind::Start => Some("powering-on"),
            Kind::Reboot { hard: false } if at < 250 => Some("rebooting"),
            Kind::Reboot { hard: false } => Some("reboot_started"),
            Kind::Reboot { hard: true } if at < 250 => Some("rebooting_hard"),
            Kind::Reboot { hard: true } => Some("reboot_started_hard"),
            Kind::Delete if at < 850 => Some("deleting"),
            Kind::Delete => None,
        }
    }
}

impl Server {
    pub fn task(&self, now: Timestamp) -> Option<&'static str> {
        self.operation.as_ref().and_then(|operation| operation.task(now))
    }

    /// The status as Nova derives it from state and task.
    pub fn status(&self) -> &'static str {
        let kind = self.operation.as_ref().map(|operation| &operation.kind);
        match (self.vm_state, kind) {
            (VmState::Deleted, _) => "DELETED",
            (_, Some(Kind::Rebuild { .. })) => "REBUILD",
            (VmState::Active, Some(Kind::Reboot { hard: false })) => "REBOOT",
            (_, Some(Kind::Reboot { .. })) => "HARD_REBOOT",
            (VmState::Building, _) => "BUILD",
            (VmState::Active, _) => "ACTIVE",
            (VmState::Stopped, _) => "SHUTOFF",
            (VmState::Error, _) => "ERROR",
        }
    }

    /// Whether the scheduler still has it, so that Nova looks for it among build requests.
    pub fn is_build_request(&self) -> bool {
        matches!(&self.operation, Some(operation) if operation.kind == Kind::Build && operation.done == 0)
    }

    /// Whether its ports are plugged in.
    pub fn is_plugged(&self) -> bool {
        match &self.operation {
            Some(operation) if operation.kind == Kind::Build => operation.done >= 2,
            Some(operation) if operation.kind == Kind::Delete => operation.done == 0 && self.host.is_some(),
            _ => self.host.is_some(),
        }
    }
}

/// Starts an operation; one that was running is forgotten.
pub(super) fn begin(world: &mut World, id: &str, kind: Kind, outcome: Outcome) {
    let now = world.clock.now();
    let length = match &kind {
        Kind::Build | Kind::Rebuild { .. } => signed(world.config.build),
        Kind::Stop | Kind::Start | Kind::Reboot { .. } => signed(world.config.build / 2),
        Kind::Delete => signed(world.config.delete),
    };
    world.data.compute.servers.update(id, |server| {
        server.updated = now;
        server.operation = Some(Operation { kind, outcome, start: now, length, done: 0 });
    });
    schedule(world, id);
}

/// Notes when something happens to a server next.
pub(super) fn schedule(world: &mut World, id: &str) {
    let compute = &mut world.data.compute;
    let next = compute.servers.get(id).and_then(|server| server.operation.as_ref()?.next());
    if let Some((at, _)) = next {
        compute.agenda.insert((at, id.to_owned()));
    }
}

/// Lets happen whatever is due.
pub(crate) fn settle(world: &mut World) {
    let now = world.clock.now();
    while let Some((at, id)) = world.data.compute.agenda.pop_first() {
        if at > now {
            world.data.compute.agenda.insert((at, id));
            return;
        }
        let due = world.data.compute.servers.get(&id).and_then(|server| server.operation.clone());
        let Some(operation) = due else { continue };
        // An entry of an operation that was replaced is of no account.
        let Some((_, stage)) = operation.next().filter(|(when, _)| *when <= now) else { continue };
        world.data.compute.servers.update(&id, |server| {
            server.updated = at;
            if let Some(operation) = &mut server.operation {
                operation.done += 1;
            }
        });
        happen(world, &id, &operation, stage, at);
        schedule(world, &id);
    }
}

fn happen(world: &mut World, id: &str, operation: &Operation, stage: Stage, at: Timestamp) {
    match stage {
        Stage::Schedule => {
            let host = world.data.compute.servers.get(id).and_then(|server| choose_host(world, server));
            if host.is_none() {
                fail(world, id, "No valid host was found. There are not enough hosts available.", at);
                return;
            }
            world.data.compute.servers.update(id, |server| server.host = host);
        }
        Stage::Plug => {
            let Some(server) = world.data.compute.servers.get(id).cloned() else { return };
            // Two creates with one port are both accepted; the second comes to grief here.
            for Nic { port, .. } in &server.nics {
                let problem = match world.data.network.ports.get(port) {
                    None => Some(format!("Port {port} could not be found.")),
                    Some(row) if !row.device_id.is_empty() && row.device_id != id => {
                        Some(format!("Port {port} is still in use."))
                    }
                    Some(_) => None,
                };
                if let Some(problem) = problem {
                    fail(world, id, &format!("Build of instance {id} aborted: {problem}"), at);
                    return;
                }
                network::bind(world, port, id, server.host.as_deref());
            }
        }
        Stage::Unplug => {
            unplug(world, id);
            world.data.compute.servers.update(id, |server| server.vm_state = VmState::Deleted);
        }
        Stage::Finish => finish(world, id, operation, at),
    }
}

fn unplug(world: &mut World, id: &str) {
    let nics = world.data.compute.servers.get(id).map(|server| server.nics.clone()).unwrap_or_default();
    for nic in nics {
        network::unbind(world, &nic.port, id, nic.made_by_nova);
    }
}

fn finish(world: &mut World, id: &str, operation: &Operation, at: Timestamp) {
    let aborted = format!("Build of instance {id} aborted: the simulator was told to let it fail");
    match (&operation.kind, operation.outcome) {
        (Kind::Build, Outcome::NoHost) => {
            fail(world, id, "No valid host was found. There are not enough hosts available.", at);
        }
        (Kind::Build | Kind::Rebuild { .. }, Outcome::Spawn) => fail(world, id, &aborted, at),
        (Kind::Rebuild { previous, .. }, Outcome::NoHost) => {
            world.data.compute.servers.update(id, |server| server.image.clone_from(previous));
            fail(world, id, "No valid host was found. There are not enough hosts available.", at);
        }
        (Kind::Build, Outcome::Well) => become_active(world, id, at),
        (Kind::Rebuild { stopped, .. }, Outcome::Well) => {
            become_active(world, id, at);
            if *stopped {
                begin(world, id, Kind::Stop, Outcome::Well);
            }
        }
        (Kind::Stop, _) => become_state(world, id, VmState::Stopped),
        (Kind::Start | Kind::Reboot { .. }, _) => become_state(world, id, VmState::Active),
        (Kind::Delete, _) => {
            world.data.compute.servers.remove(id);
        }
    }
}

fn become_active(world: &mut World, id: &str, at: Timestamp) {
    world.data.compute.servers.update(id, |server| {
        server.vm_state = VmState::Active;
        server.launched = Some(at);
        server.fault = None;
        server.operation = None;
    });
}

fn become_state(world: &mut World, id: &str, state: VmState) {
    world.data.compute.servers.update(id, |server| {
        server.vm_state = state;
        server.fault = None;
        server.operation = None;
    });
}

fn fail(world: &mut World, id: &str, message: &str, at: Timestamp) {
    let never_up = world.data.compute.servers.get(id).is_some_and(|server| server.vm_state == VmState::Building);
    if never_up {
        unplug(world, id);
    }
    world.data.compute.servers.update(id, |server| {
        server.vm_state = VmState::Error;
        if never_up {
            server.host = None;
        }
        server.fault = Some(Mishap { message: message.to_owned(), at });
        server.operation = None;
    });
}

/// The least used host that the server may go to.
fn choose_host(world: &World, server: &Server) -> Option<String> {
    let store = &world.data.compute;
    let policy = server.group.as_deref().and_then(|id| store.groups.get(id)).map(|group| group.policy.as_str());
    let companions: Vec<&str> = server
        .group
        .iter()
        .flat_map(|group| store.servers.linked(&format!("group:{group}")))
        .filter(|other| other.id != server.id)
        .filter_map(|other| other.host.as_deref())
        .collect();
    let with = |host: &str| companions.iter().filter(|other| **other == host).count();
    world
        .config
        .hosts
        .iter()
        .filter(|host| server.pinned.as_ref().is_none_or(|pinned| pinned == *host))
        .filter(|host| placement::fits(world, host, &server.flavor))
        .filter(|host| policy != Some("anti-affinity") || with(host) == 0)
        .filter(|host| policy != Some("affinity") || companions.is_empty() || with(host) > 0)
        .min_by_key(|host| {
            let preference = match policy {
                Some("soft-anti-affinity") => with(host),
                Some("soft-affinity") => companions.len() - with(host),
                _ => 0,
            };
            (preference, store.servers.count(&format!("host:{host}")))
        })
        .cloned()
}
