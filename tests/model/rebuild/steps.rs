//! Who can do what when, and what must hold.

use super::protocol::{Mutant, Protocol};
use super::world::*;
use stateright::{Model, Property};

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let object = Object { desired: 0, marker: None, parked: false, deleting: false };
        let at_rest = |base| Server { image: 0, base, operation: None, booted: true };
        let building = Server { image: 0, base: Base::Active, operation: Some(Operation::Build), booted: false };
        [at_rest(Base::Active), at_rest(Base::Shutoff), building]
            .into_iter()
            .map(|server| State {
                object: Some(object),
                server: Some(server),
                work: false,
                worker: Worker::Idle,
                monitor: Monitor::Idle,
                changes: self.changes,
                mishaps: self.mishaps,
                ghost: Ghost::default(),
            })
            .collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        use Action::*;
        let mishap = state.mishaps > 0;
        if let Some(object) = state.object {
            if state.changes > 0 && !object.deleting {
                actions.extend((0..3).filter(|image| *image != object.desired).map(Change));
            }
            if mishap && !object.deleting {
                actions.push(Delete);
            }
            if !state.work {
                actions.push(Repeat);
            }
        }
        match state.worker {
            Worker::Idle if state.work => actions.push(WorkerReads),
            Worker::Idle => {}
            Worker::Has(_) => actions.push(WorkerLooks),
            Worker::Saw(..) | Worker::Sure(..) => actions.push(WorkerActs),
            Worker::Did(..) => actions.push(WorkerWrites),
        }
        match (state.monitor, self.mutant) {
            (Monitor::Idle, Mutant::CloudBeforeObject) | (Monitor::Has(_), _) => actions.push(MonitorLooks),
            (Monitor::Idle | Monitor::Looked(_), _) => actions.push(MonitorReads),
            (Monitor::Saw(..), _) => actions.push(MonitorWrites),
        }
        let operation = state.server.and_then(|server| server.operation);
        if operation.is_some() {
            actions.push(NovaFinishes);
        }
        if !mishap {
            return;
        }
        match state.worker {
            Worker::Idle => {}
            Worker::Has(_) => actions.extend([WorkerLooksAndCannotReadTheImage, WorkerDies]),
            Worker::Saw(..) | Worker::Sure(..) => actions.extend([WorkerActsUnanswered, WorkerActsInVain, WorkerDies]),
            Worker::Did(..) => actions.extend([WorkerWriteIsLost, WorkerWriteIsUnanswered, WorkerDies]),
        }
        match state.monitor {
            Monitor::Has(_) => actions.push(MonitorLooksAndCannotReadTheImage),
            Monitor::Saw(..) => actions.push(MonitorWriteIsLost),
            Monitor::Idle | Monitor::Looked(_) => {}
        }
        if let Some(server) = state.server {
            match operation {
                Some(Operation::Rebuild(_)) => actions.extend([NovaFails, NovaFindsNoHost]),
                Some(Operation::Build) => actions.push(NovaFails),
                Some(Operation::Other) | None => {}
            }
            if operation.is_none() && server.booted {
                actions.push(SomebodyWorks);
                actions.extend((0..3).map(SomebodyRebuilds));
                if server.base != Base::Error {
                    actions.push(ServerBreaks);
                }
            }
            actions.push(SomebodyDeletes);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        use Action::*;
        let mut next = *last;
        let state = &mut next;
        let counts = !matches!(
            action,
            Change(_)
                | Repeat
                | WorkerReads
                | WorkerLooks
                | WorkerActs
                | WorkerWrites
                | MonitorReads
                | MonitorLooks
                | MonitorWrites
                | NovaFinishes
        );
        if counts {
            state.mishaps -= 1;
        }
        let read = state.object.map(|object| Read { object, stale: false });
        let look = |readable| Look { server: last.server, readable };
        match (action, last.worker, last.monitor) {
            (Change(desired), ..) => {
                state.changes -= 1;
                self.store(state, Object { desired, ..last.object? });
                state.work = true;
            }
            (Delete, ..) => {
                self.store(state, Object { deleting: true, ..last.object? });
                state.work = true;
            }
            (Repeat, ..) => state.work = true,
            (WorkerReads, ..) => {
                state.work = false;
                state.worker = read.map_or(Worker::Idle, Worker::Has);
            }
            (WorkerLooks, Worker::Has(read), _) => state.worker = Worker::Saw(read, look(true)),
            (WorkerLooksAndCannotReadTheImage, Worker::Has(read), _) => state.worker = Worker::Saw(read, look(false)),
            (WorkerActs | WorkerActsUnanswered | WorkerActsInVain, Worker::Saw(read, look), _)
                if self.mutant != Mutant::NoSecondRead && self.submits(read, &look) =>
            {
                let again = state.object.map(|object| Read { object, stale: false });
                state.worker = match again {
                    Some(again) if read.stale => Worker::Has(again),
                    Some(_) => Worker::Sure(read, look),
                    None => Worker::Idle,
                };
            }
            (
                WorkerActs | WorkerActsUnanswered | WorkerActsInVain,
                Worker::Saw(read, look) | Worker::Sure(read, look),
                _,
            ) => {
                let outcome = self.act(state, read, &look, action != WorkerActsInVain, action == WorkerActs);
                // Its own request may have made what it has read out of date; it is the same worker.
                state.worker = Worker::Did(read, outcome);
            }
            (WorkerWrites | WorkerWriteIsLost | WorkerWriteIsUnanswered, Worker::Did(read, outcome), _) => {
                self.write(state, action, read, outcome);
            }
            (WorkerDies, ..) => {
                state.worker = Worker::Idle;
                state.work = true;
            }
            (MonitorReads, _, Monitor::Looked(look)) => {
                state.monitor = read.map_or(Monitor::Idle, |read| Monitor::Saw(read, look));
            }
            (MonitorReads, ..) => state.monitor = read.map_or(Monitor::Idle, Monitor::Has),
            (MonitorLooks, _, Monitor::Has(read)) => state.monitor = Monitor::Saw(read, look(true)),
            (MonitorLooks, ..) => state.monitor = Monitor::Looked(look(true)),
            (MonitorLooksAndCannotReadTheImage, _, Monitor::Has(read)) => {
                state.monitor = Monitor::Saw(read, look(false));
            }
            (MonitorWrites | MonitorWriteIsLost, _, Monitor::Saw(read, look)) => {
                state.monitor = Monitor::Idle;
                self.report(state, action, read, &look);
            }
            (NovaFinishes | NovaFails | NovaFindsNoHost, ..) => {
                let server = state.server.as_mut()?;
                match (server.operation.take()?, action) {
                    (Operation::Build, NovaFinishes) => server.booted = true,
                    (Operation::Rebuild(_), NovaFinishes) if server.base == Base::Error => server.base = Base::Active,
                    (Operation::Rebuild(_) | Operation::Other, NovaFinishes) => {}
                    (Operation::Rebuild(from), NovaFindsNoHost) => {
                        (server.base, server.image) = (Base::Error, from);
                        note_move(state);
                    }
                    _ => server.base = Base::Error,
                }
            }
            (ServerBreaks, ..) => state.server.as_mut()?.base = Base::Error,
            (SomebodyRebuilds(image), ..) => {
                let server = state.server.as_mut()?;
                server.operation = Some(Operation::Rebuild(server.image));
                server.image = image;
                note_move(state);
                state.ghost.drifted |= state.object.is_some_and(|object| object.marker.is_none());
            }
            (SomebodyWorks, ..) => state.server.as_mut()?.operation = Some(Operation::Other),
            (SomebodyDeletes, ..) => state.server = None,
            _ => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one accepted rebuild for a standing target", |_, s: &State| {
                s.ghost.accepted <= 1
            }),
            Property::always("nothing is destroyed without a stored intent", |_, s: &State| !s.ghost.unintended),
            Property::always("no rebuild before the first boot", |_, s: &State| !s.ghost.unbooted),
            Property::always("no rebuild of a server that has the image", |_, s: &State| !s.ghost.needless),
            Property::always("no success while Nova is at work", |_, s: &State| !s.ghost.premature),
            Property::always("no failure of what was never accepted", |_, s: &State| !s.ghost.unfounded),
            Property::always("every change settles or parks", |protocol: &Self, s: &State| protocol.settles(s)),
            Property::sometimes("a change is carried out", |_, s: &State| {
                s.changes == 0 && s.object.is_some_and(|o| o.marker.is_none() && o.desired == 2) && is_settled(s)
            }),
            Property::sometimes("a change is parked", |_, s: &State| s.object.is_some_and(|o| o.parked)),
        ]
    }
}
