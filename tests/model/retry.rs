//! A server that does not come up, made again a bounded number of times (RTY), with whatever may go wrong in between.
//!
//! Nova makes a server that runs, or one that breaks before or after its first boot; the monitor reports what it sees; a person
//! may wipe the status at any time; calls die, and their writes or requests get lost, between any two steps.

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::time::Instant;
use weir_openstack::compute::{ImageRef, PowerState, ServerStatus as NovaStatus};
use weir_provider::server::{Activity, Booted, View};
use weir_server::retry::{self, Record, Step};

const MOST: i32 = 3;

/// A guard that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// A failure is counted in the same call that deletes (RTY-5).
    CountWhileDeleting,
    /// Only status tells whether a server has booted (RTY-2).
    TrustStatus,
    /// A server that is absent is made, also when there are no attempts left (RTY-5).
    MakeWhatIsAbsent,
    /// The monitor's word alone is enough (RTY-3).
    TrustMonitor,
    /// The monitor wakes only when it writes, not as long as an object calls for its function (RTY-4).
    WakeOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Server {
    Building,
    /// In ERROR, and has never booted.
    Stillborn,
    Running,
    /// In ERROR, and has booted.
    Broken,
}

impl Server {
    const fn booted(self) -> bool {
        matches!(self, Self::Running | Self::Broken)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Object {
    record: Record,
    /// `Active` is `Error`; otherwise it is whatever else was told last.
    told: bool,
    parked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Read {
    object: Object,
    stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Outcome {
    failures: i32,
    retrying: bool,
    forget: bool,
    parked: bool,
    again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Worker {
    Idle,
    Has(Read),
    Saw(Read, Option<Server>),
    Did(Read, Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    object: Object,
    server: Option<Server>,
    work: bool,
    worker: Worker,
    monitor: Option<(Read, Option<Server>)>,
    mishaps: u8,
    wipes: u8,
    creates: u8,
    /// Creates that make up for servers that somebody has deleted, which are no attempts.
    excused: u8,
    destroyed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Repeat,
    WorkerReads,
    WorkerLooks,
    WorkerActs,
    WorkerActsUnanswered,
    WorkerWrites,
    WorkerWriteIsLost,
    WorkerDies,
    MonitorReads,
    MonitorWrites,
    Boots,
    FailsToBoot,
    Breaks,
    SomebodyDeletes,
    SomebodyWipes,
}

struct Protocol {
    mutant: Mutant,
    mishaps: u8,
    wipes: u8,
}

fn view(server: Server) -> View {
    let status = match server {
        Server::Building => NovaStatus::Build,
        Server::Running => NovaStatus::Active,
        Server::Stillborn | Server::Broken => NovaStatus::Error,
    };
    View {
        status,
        image: ImageRef::Unreadable,
        activity: Activity::Quiet,
        booted: if server.booted() { Booted::Yes } else { Booted::Never },
        power: PowerState::Unknown,
    }
}

/// The level of RTY-4.
const fn calls(object: &Object) -> bool {
    object.record.errored && !object.record.ran && !object.parked
}

impl Protocol {
    fn decide(&self, record: &Record, server: Option<Server>) -> Step {
        let mut view = server.map(view);
        if let Some(view) = &mut view {
            if self.mutant == Mutant::TrustStatus {
                view.booted = Booted::Never;
            }
            if self.mutant == Mutant::TrustMonitor && record.errored {
                (view.status, view.booted) = (NovaStatus::Error, Booted::Never);
            }
        }
        match retry::decide(record, view.as_ref(), MOST) {
            Step::GiveUp(_) if self.mutant == Mutant::MakeWhatIsAbsent && server.is_none() => Step::Proceed,
            step => step,
        }
    }

    fn act(&self, state: &mut State, read: Read, server: Option<Server>, answered: bool) -> Outcome {
        let Record { failures, retrying, .. } = read.object.record;
        let keep = Outcome { failures, retrying, forget: false, parked: false, again: true };
        let delete = |state: &mut State| {
            state.destroyed |= state.server.is_some_and(Server::booted);
            state.server = None;
        };
        match self.decide(&read.object.record, server) {
            Step::Proceed => {
                if server.is_none() && state.server.is_none() {
                    state.server = Some(Server::Building);
                    state.creates += 1;
                }
                Outcome { again: !answered, ..keep }
            }
            Step::Await => Outcome { again: false, ..keep },
            Step::Count(failures) if self.mutant == Mutant::CountWhileDeleting => {
                delete(state);
                if answered { Outcome { failures, ..keep } } else { keep }
            }
            Step::Count(failures) => Outcome { failures, retrying: true, ..keep },
            Step::Delete => {
                delete(state);
                keep
            }
            Step::Reset => Outcome { retrying: false, forget: true, ..keep },
            Step::Spare => Outcome { retrying: false, ..keep },
            Step::GiveUp(failures) => Outcome { failures, parked: true, again: false, ..keep },
        }
    }

    fn store(state: &mut State, object: Object) {
        if state.object == object {
            return;
        }
        state.object = object;
        match &mut state.worker {
            Worker::Has(read) | Worker::Saw(read, _) | Worker::Did(read, _) => read.stale = true,
            Worker::Idle => {}
        }
        if let Some((read, _)) = &mut state.monitor {
            read.stale = true;
        }
        // The level of RTY-4.
        state.work |= calls(&object);
    }

    /// Whether, if nothing more goes wrong, the server comes to run or is parked, when every server comes up or when none does.
    fn settles(&self, state: &State, boots: bool) -> bool {
        let mut now = *state;
        for _ in 0..200 {
            let action = match now.worker {
                Worker::Has(_) => Action::WorkerLooks,
                Worker::Saw(..) => Action::WorkerActs,
                Worker::Did(..) => Action::WorkerWrites,
                Worker::Idle if now.monitor.is_some() => Action::MonitorWrites,
                Worker::Idle if now.server == Some(Server::Building) && boots => Action::Boots,
                Worker::Idle if now.server == Some(Server::Building) => Action::FailsToBoot,
                Worker::Idle if now.work => Action::WorkerReads,
                Worker::Idle => {
                    let after = self.next_state(&now, Action::MonitorReads).unwrap();
                    let after = self.next_state(&after, Action::MonitorWrites).unwrap();
                    if after == now {
                        // A server that ran once is never made anew by itself (RTY-2), also if what replaces it fails.
                        return now.object.parked || now.server.is_some_and(Server::booted) || now.object.record.ran;
                    }
                    now = after;
                    continue;
                }
            };
            now = self.next_state(&now, action).unwrap();
        }
        false
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let record = Record { failures: 0, retrying: false, errored: false, ran: false };
        vec![State {
            object: Object { record, told: false, parked: false },
            server: None,
            work: true,
            worker: Worker::Idle,
            monitor: None,
            mishaps: self.mishaps,
            wipes: self.wipes,
            creates: 0,
            excused: 0,
            destroyed: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        use Action::*;
        if !state.work {
            actions.push(Repeat);
        }
        actions.push(if state.monitor.is_some() { MonitorWrites } else { MonitorReads });
        match state.worker {
            Worker::Idle if state.work => actions.push(WorkerReads),
            Worker::Idle => {}
            Worker::Has(_) => actions.push(WorkerLooks),
            Worker::Saw(..) => actions.push(WorkerActs),
            Worker::Did(..) => actions.push(WorkerWrites),
        }
        match state.server {
            Some(Server::Building) => actions.extend([Boots, FailsToBoot]),
            Some(Server::Running) => actions.push(Breaks),
            _ => {}
        }
        if state.mishaps > 0 {
            match state.worker {
                Worker::Idle => {}
                Worker::Has(_) => actions.push(WorkerDies),
                Worker::Saw(..) => actions.extend([WorkerActsUnanswered, WorkerDies]),
                Worker::Did(..) => actions.extend([WorkerWriteIsLost, WorkerDies]),
            }
            if state.server.is_some() {
                actions.push(SomebodyDeletes);
            }
        }
        if state.wipes > 0 {
            actions.push(SomebodyWipes);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        use Action::*;
        let mut next = *last;
        let state = &mut next;
        if matches!(action, WorkerActsUnanswered | WorkerWriteIsLost | WorkerDies | SomebodyDeletes) {
            state.mishaps -= 1;
        }
        let read = Read { object: last.object, stale: false };
        match (action, last.worker) {
            (Repeat, _) => state.work = true,
            (WorkerReads, _) => (state.work, state.worker) = (false, Worker::Has(read)),
            (WorkerLooks, Worker::Has(read)) => state.worker = Worker::Saw(read, last.server),
            (WorkerActs | WorkerActsUnanswered, Worker::Saw(read, server)) => {
                let outcome = self.act(state, read, server, action == WorkerActs);
                state.worker = Worker::Did(read, outcome);
            }
            (WorkerWrites, Worker::Did(read, _)) if read.stale => {
                state.worker = Worker::Has(Read { object: last.object, stale: false });
            }
            (WorkerWrites, Worker::Did(_, Outcome { failures, retrying, forget, parked, again })) => {
                state.worker = Worker::Idle;
                state.work |= again;
                let record = Record { failures, retrying, ..last.object.record };
                Self::store(state, Object { record, told: last.object.told && !forget, parked });
            }
            (WorkerWriteIsLost | WorkerDies, _) => (state.worker, state.work) = (Worker::Idle, true),
            (MonitorReads, _) => state.monitor = Some((read, last.server)),
            (MonitorWrites, _) => {
                let (read, server) = state.monitor.take()?;
                if read.stale {
                    return Some(next);
                }
                let record = last.object.record;
                let (errored, ran, told) = match server {
                    Some(Server::Stillborn) => (true, record.ran, true),
                    Some(Server::Broken) => (true, true, true),
                    Some(Server::Running) => (false, true, false),
                    Some(Server::Building) => (false, record.ran, false),
                    None => {
                        // Gone (MON-12). The real one says so once, which comes to the same.
                        state.work |= last.server.is_none() && !last.object.parked;
                        (false, record.ran, last.object.told)
                    }
                };
                let object = Object { record: Record { errored, ran, ..record }, told, ..last.object };
                Self::store(state, object);
                state.work |= self.mutant != Mutant::WakeOnce && calls(&object);
            }
            (Boots, _) => state.server = Some(Server::Running),
            (FailsToBoot, _) => state.server = Some(Server::Stillborn),
            (Breaks, _) => state.server = Some(Server::Broken),
            (SomebodyDeletes, _) => {
                state.server = None;
                state.excused += u8::from(!last.object.parked);
            }
            (SomebodyWipes, _) => {
                state.wipes -= 1;
                let record = Record { failures: 0, retrying: false, errored: false, ran: false };
                Self::store(state, Object { record, told: false, parked: false });
                // A status that is wiped is a change that wakes nobody; the next message does.
            }
            _ => return None,
        }
        Some(next)
    }

    fn within_boundary(&self, state: &State) -> bool {
        // Without attempts of its own to count, a server that somebody keeps deleting is made for ever.
        state.creates <= 8
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a server that has booted is never deleted", |_, s: &State| !s.destroyed),
            Property::always("no more creates than attempts", |protocol: &Self, s: &State| {
                let wipes = i32::from(protocol.wipes - s.wipes);
                i32::from(s.creates) <= MOST * (1 + wipes) + i32::from(s.excused)
            }),
            Property::always("it runs or is parked if servers come up", |protocol: &Self, s: &State| {
                protocol.settles(s, true)
            }),
            Property::always("it runs or is parked if none does", |protocol: &Self, s: &State| {
                protocol.settles(s, false)
            }),
            Property::sometimes("it runs at the last attempt", |_, s: &State| {
                s.creates == 3 && s.server == Some(Server::Running)
            }),
            Property::sometimes("it is parked", |_, s: &State| s.object.parked),
        ]
    }
}

fn check(mutant: Mutant, mishaps: u8, wipes: u8) -> Vec<&'static str> {
    let began = Instant::now();
    let protocol = Protocol { mutant, mishaps, wipes };
    let checker = protocol.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "{mutant:?}, {mishaps} mishaps, {wipes} wipes: {} states, {} of them unique, depth {}, {:?}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed(),
    );
    if mutant == Mutant::None {
        checker.assert_properties();
    }
    let failures = checker.discoveries().into_iter();
    let failures = failures.filter(|(name, _)| checker.model().property(name).expectation.discovery_is_failure());
    failures
        .map(|(name, path)| {
            println!("not \"{name}\", after {:?}", path.into_actions());
            name
        })
        .collect()
}

/// Proves: RTY-1, RTY-2, RTY-5
#[test]
fn a_server_that_does_not_come_up_is_made_three_times_whatever_goes_wrong() {
    for (mishaps, wipes) in [(0, 0), (3, 0), (1, 1)] {
        check(Mutant::None, mishaps, wipes);
    }
}

/// Proves: RTY-2, RTY-3, RTY-5
#[test]
fn each_guard_of_a_retry_is_needed() {
    for (mutant, mishaps, wipes, property) in [
        (Mutant::CountWhileDeleting, 1, 0, "no more creates than attempts"),
        (Mutant::TrustStatus, 0, 1, "a server that has booted is never deleted"),
        (Mutant::MakeWhatIsAbsent, 1, 0, "no more creates than attempts"),
        (Mutant::TrustMonitor, 1, 0, "a server that has booted is never deleted"),
        (Mutant::WakeOnce, 1, 0, "it runs or is parked if none does"),
    ] {
        let broken = check(mutant, mishaps, wipes);
        assert!(broken.contains(&property), "{mutant:?}: {broken:?}");
    }
}
