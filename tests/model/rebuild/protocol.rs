//! The function and the monitor: the real decisions, carried out on the modelled world; and what becomes of each when a
//! guard is taken out.

use super::world::*;
use stateright::Model;
use weir_api::crd::{Rebuild, RebuildState, ServerStatus};
use weir_openstack::compute::{ImageRef, PowerState, ServerStatus as NovaStatus};
use weir_provider::server::{Activity, Booted, View};
use weir_server::rebuild::{self, Step, Wait};
use weir_server_monitor::rebuild::advance;

/// A guard of the protocol that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The protocol as it is.
    None,
    /// Arms and submits in one call (RBD-4).
    SubmitWhileArming,
    /// Does not ask whether the server has booted (RBD-1).
    NeverMindBoot,
    /// Submits also when Nova reports the target already (RBD-6).
    NeverMindImage,
    /// Takes a stable status for the end of a rebuild, on both sides (RBD-7).
    NeverMindTask,
    /// The monitor concludes something for an armed marker off its target (RBD-9).
    AdvanceUnattributed,
    /// The monitor reads the cloud before the object.
    CloudBeforeObject,
    /// The marker stays where it is when Nova accepts (RBD-14).
    ForgetAcceptance,
    /// A refusal because Nova is busy counts as an acceptance (RBD-14).
    ConflictIsAcceptance,
    /// Status is written without a resource version (RBD-19).
    ForceWrites,
    /// A parked change is not replaced by another one (RBD-10).
    NoWayOut,
    /// A failure does not overwrite a success (RBD-11).
    SuccessStands,
    /// A marker at its end over a busy server waits for the monitor, which wakes when it writes (RBD-13). The real one wakes as
    /// long as an object calls, which would make up for it.
    EndWaitsForMonitor,
    /// An object that calls for its function is not heard (RBD-20).
    Deaf,
    /// A marker outlives the server it was for (RBD-11).
    OutliveServer,
    /// Submits without reading the object once more after the look at the cloud (RBD-5).
    NoSecondRead,
}

pub struct Protocol {
    pub mutant: Mutant,
    pub changes: u8,
    pub mishaps: u8,
}

impl Protocol {
    pub fn view(&self, look: &Look, server: &Server) -> View {
        let rebuilding = matches!(server.operation, Some(Operation::Rebuild(_)));
        let status = match (server.operation, server.base) {
            (Some(Operation::Build), _) => NovaStatus::Build,
            // A stopped server may look stopped all through its rebuild: then only the task tells.
            (_, Base::Shutoff) => NovaStatus::Shutoff,
            (Some(Operation::Rebuild(_)), _) => NovaStatus::Rebuild,
            (_, Base::Active) => NovaStatus::Active,
            (_, Base::Error) => NovaStatus::Error,
        };
        let ignored = self.mutant == Mutant::NeverMindTask && rebuilding && status != NovaStatus::Rebuild;
        let booted = server.booted || self.mutant == Mutant::NeverMindBoot;
        View {
            status,
            image: if look.readable { ImageRef::Image(id(server.image).as_str().into()) } else { ImageRef::Unreadable },
            activity: if server.operation.is_some() && !ignored { Activity::Busy } else { Activity::Quiet },
            booted: if booted { Booted::Yes } else { Booted::Never },
            power: PowerState::Unknown,
        }
    }

    /// The real decision, unless a guard is taken out of it.
    pub fn decide(&self, object: &Object, view: &View) -> Step {
        let desired = id(object.desired);
        let marker = object.marker.map(|(target, state)| Rebuild { target_image_id: id(target), state });
        match (self.mutant, &marker) {
            (Mutant::NeverMindImage, Some(marker))
                if marker.state == RebuildState::Initiated
                    && marker.target_image_id == desired
                    && view.activity == Activity::Quiet =>
            {
                return Step::Submit(marker.clone());
            }
            (Mutant::NoWayOut, Some(marker)) if marker.state == RebuildState::Failed => return Step::Park,
            (Mutant::OutliveServer, Some(_)) if view.booted == Booted::Never => {
                let as_if = View { booted: Booted::Yes, ..view.clone() };
                return rebuild::decide(&desired, marker.as_ref(), &as_if);
            }
            _ => {}
        }
        let step = rebuild::decide(&desired, marker.as_ref(), view);
        match (self.mutant, &step, &marker) {
            (Mutant::SuccessStands, Step::Fail(_), Some(marker)) if marker.state == RebuildState::Succeeded => {
                Step::Wait(Wait::Rest)
            }
            (Mutant::EndWaitsForMonitor, Step::Wait(Wait::Rest), _) => Step::Done,
            _ => step,
        }
    }

    pub fn advance(&self, marker: &Rebuild, view: &View) -> Option<RebuildState> {
        if self.mutant == Mutant::AdvanceUnattributed && marker.state == RebuildState::Initiated {
            let as_if = Rebuild { state: RebuildState::Rebuilding, ..marker.clone() };
            return advance(&as_if, view).or_else(|| advance(marker, view));
        }
        advance(marker, view)
    }

    /// Whether a call that has read and seen this is going to ask for a rebuild.
    pub fn submits(&self, read: Read, look: &Look) -> bool {
        let submits = |server| matches!(self.decide(&read.object, &self.view(look, server)), Step::Submit(_));
        !read.object.deleting && look.server.as_ref().is_some_and(submits)
    }

    /// The server function's `act`, up to the write. `sent` and `answered` say what becomes of a request to Nova.
    pub fn act(&self, state: &mut State, read: Read, look: &Look, sent: bool, answered: bool) -> Outcome {
        let object = read.object;
        let keep =
            Outcome { marker: object.marker, parked: false, again: true, gone: false, knows: false, premature: false };
        if object.deleting {
            if sent {
                state.server = None;
            }
            return Outcome { again: !(sent && answered), gone: sent && answered, ..keep };
        }
        let Some(server) = &look.server else {
            if object.marker.is_some() && self.mutant != Mutant::OutliveServer {
                // What is to be made has nothing to do with it; and that has to be stored before.
                return Outcome { marker: None, ..keep };
            }
            if sent && state.server.is_none() {
                let base = Base::Active;
                state.server =
                    Some(Server { image: object.desired, base, operation: Some(Operation::Build), booted: false });
                state.ghost.outlived = state.object.is_some_and(|object| object.marker.is_some());
                state.ghost.drifted = false;
            }
            return Outcome { again: !(sent && answered), ..keep };
        };
        let view = self.view(look, server);
        let mut step = self.decide(&object, &view);
        if let (Mutant::SubmitWhileArming, Step::Mark(Some(armed))) = (self.mutant, &step)
            && view.activity == Activity::Quiet
        {
            step = Step::Submit(armed.clone());
        }
        let told = |marker: &Rebuild| Some((image(&marker.target_image_id), marker.state));
        match step {
            Step::Done => Outcome { again: false, ..keep },
            Step::Wait(_) => keep,
            Step::Mark(marker) => {
                let premature = marker.is_none() && matches!(server.operation, Some(Operation::Rebuild(_)));
                Outcome { marker: marker.as_ref().and_then(told), premature, ..keep }
            }
            Step::Accepted(marker) => Outcome { marker: told(&marker), again: false, ..keep },
            Step::Fail(marker) => Outcome { marker: told(&marker), ..keep },
            Step::Park => Outcome { parked: true, again: false, ..keep },
            Step::Submit(marker) => {
                let target = image(&marker.target_image_id);
                let stored = state.object.and_then(|object| object.marker).is_some_and(|(stored, _)| stored == target);
                let read_back = object.marker == Some((target, RebuildState::Initiated));
                state.ghost.unintended |= sent && !(stored && read_back);
                state.ghost.needless |= look.readable && server.image == target;
                let accepted = sent && accept(state, target);
                let taken = accepted || (sent && self.mutant == Mutant::ConflictIsAcceptance);
                if !(answered && taken) {
                    return keep;
                }
                let after = match self.mutant {
                    Mutant::ForgetAcceptance => marker.clone(),
                    _ => rebuild::accepted(&marker),
                };
                Outcome {
                    marker: told(&after),
                    again: self.mutant == Mutant::ForgetAcceptance,
                    knows: accepted,
                    ..keep
                }
            }
        }
    }

    /// Stores an object, and lets everybody know who should.
    pub fn store(&self, state: &mut State, object: Object) {
        let before = state.object;
        if before == Some(object) {
            return;
        }
        state.object = Some(object);
        outdate(state);
        if let Some(before) = before {
            let (old, new) = (before.marker, object.marker);
            let same = old.map(|(target, _)| target) == new.map(|(target, _)| target);
            if !same || (new.map(|(_, s)| s) == Some(RebuildState::Initiated) && old != new) {
                let ghost = &mut state.ghost;
                (ghost.accepted, ghost.recorded, ghost.arrived, ghost.outlived) = (0, false, false, false);
            }
            note_arrival(state);
            state.ghost.drifted &= new.is_none();
            let failed = |marker: Option<(Image, RebuildState)>| marker.is_some_and(|(_, s)| s == RebuildState::Failed);
            if failed(new) && !failed(old) {
                state.ghost.unfounded |= !state.ghost.arrived;
            }
        }
        state.work |= self.calls(&object);
    }

    /// Whether the object calls for its function: who writes it wakes the function then, and so does the monitor each time.
    pub fn calls(&self, object: &Object) -> bool {
        let status = ServerStatus {
            rebuild: object.marker.map(|(target, state)| Rebuild { target_image_id: id(target), state }),
            conditions: available(object.parked),
            ..ServerStatus::default()
        };
        self.mutant != Mutant::Deaf && weir_api::server::calls(&status)
    }

    /// What follows if nothing more goes wrong: whether the server's image comes to be settled, or parked, by itself.
    pub fn settles(&self, state: &State) -> bool {
        let mut now = *state;
        for _ in 0..200 {
            let quiet = now.server.is_none_or(|server| server.operation.is_none());
            let action = match (now.worker, now.monitor) {
                (Worker::Has(_), _) => Action::WorkerLooks,
                (Worker::Saw(..) | Worker::Sure(..), _) => Action::WorkerActs,
                (Worker::Did(..), _) => Action::WorkerWrites,
                (_, Monitor::Has(_)) => Action::MonitorLooks,
                (_, Monitor::Looked(_)) => Action::MonitorReads,
                (_, Monitor::Saw(..)) => Action::MonitorWrites,
                _ if now.object.is_none() => return true,
                // Such a server is made anew, by another protocol.
                _ if now.server.is_some_and(|server| server.operation.is_none() && !server.booted) => return true,
                _ if now.work => Action::WorkerReads,
                _ if !quiet => Action::NovaFinishes,
                _ => {
                    // All at rest. A round of the monitor must change nothing, or there is more to come.
                    let mut after = now;
                    let round = match self.mutant {
                        Mutant::CloudBeforeObject => {
                            [Action::MonitorLooks, Action::MonitorReads, Action::MonitorWrites]
                        }
                        _ => [Action::MonitorReads, Action::MonitorLooks, Action::MonitorWrites],
                    };
                    for action in round {
                        after = self.next_state(&after, action).unwrap();
                    }
                    if after == now {
                        return is_settled(&now);
                    }
                    now = after;
                    continue;
                }
            };
            // Nova finishes between two calls also while the function keeps coming back.
            if action == Action::WorkerReads && !quiet {
                now = self.next_state(&now, Action::NovaFinishes).unwrap();
            }
            now = self.next_state(&now, action).unwrap();
        }
        false
    }
}

impl Protocol {
    /// The end of a call: one patch at the resource version that was read.
    pub fn write(&self, state: &mut State, action: Action, read: Read, outcome: Outcome) {
        let conflict = read.stale && self.mutant != Mutant::ForceWrites;
        if action == Action::WorkerWriteIsLost {
            (state.worker, state.work) = (Worker::Idle, true);
            return;
        }
        if conflict {
            // Read again, never force.
            let read = state.object.map(|object| Read { object, stale: false });
            state.worker = read.map_or(Worker::Idle, Worker::Has);
            return;
        }
        state.worker = Worker::Idle;
        state.work |= outcome.again || action == Action::WorkerWriteIsUnanswered;
        if outcome.gone {
            state.object = None;
            outdate(state);
            return;
        }
        let Some(object) = state.object else { return };
        state.ghost.premature |= outcome.premature;
        state.ghost.recorded |= outcome.knows;
        self.store(state, Object { marker: outcome.marker, parked: outcome.parked, ..object });
    }

    /// The monitor's patch.
    pub fn report(&self, state: &mut State, action: Action, read: Read, look: &Look) {
        let conflict = read.stale && self.mutant != Mutant::ForceWrites;
        if action == Action::MonitorWriteIsLost || conflict || read.object.deleting {
            return;
        }
        let Some(server) = &look.server else {
            // Gone from the cloud (MON-12).
            let is_news = state.object.is_some() && state.server.is_none();
            state.work |= is_news;
            return;
        };
        let tells = self.mutant != Mutant::EndWaitsForMonitor && self.calls(&read.object);
        state.work |= state.object.is_some() && tells;
        let Some((target, before)) = read.object.marker else { return };
        let marker = Rebuild { target_image_id: id(target), state: before };
        let Some(after) = self.advance(&marker, &self.view(look, server)) else { return };
        state.ghost.premature |=
            after == RebuildState::Succeeded && matches!(server.operation, Some(Operation::Rebuild(_)));
        // Only the state is written; the target is whatever stands there.
        if let Some(object) = state.object
            && let Some((target, _)) = object.marker
        {
            self.store(state, Object { marker: Some((target, after)), ..object });
        }
    }
}
