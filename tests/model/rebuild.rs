//! The rebuild protocol (RBD-22).
//!
//! Who acts: a *user* changes the image twice, to any of three, and may delete the server; *Nova* accepts, refuses while it is
//! busy, finishes, fails on the host, finds no host (and puts the image back); *somebody else* rebuilds the server, does other
//! work to it, deletes it, or it breaks by itself; the *monitor* reads the object, then the cloud, then writes, with any time in
//! between; the *function* reads the object, then the cloud, acts, then writes, and dies between any two of these.
//!
//! The queue is one flag, *there is work*: messages for one object coalesce, may be repeated at any time, and come back when
//! a worker dies. A timer is work that comes later, and there is no time here. A call that ends by waiting for an event
//! (`Accepted`, `Done`, `Park`) leaves the flag down, and nothing but a person's change, or the level of the object in a
//! write, puts it up again: the safety net and the resync of the real thing are left out, so that the protocol has to live
//! without them.
//!
//! Mishaps (a death, a lost write, a write or a request whose answer is lost, a failed rebuild, somebody else's work, an image
//! that cannot be read …) are bounded in number together; within that bound everything is explored, with no bound on depth.
//!
//! Not modelled: a request that reaches Nova after its sender has died and another call has begun. Nova has no token to
//! refuse it by.

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::time::Instant;
use weir_api::conditions::AVAILABLE;
use weir_api::crd::{ImageId, Rebuild, RebuildState, ServerStatus};
use weir_openstack::compute::{ImageRef, PowerState, ServerStatus as NovaStatus};
use weir_provider::server::{Activity, Booted, View};
use weir_server::rebuild::{self, Step, Wait};
use weir_server_monitor::rebuild::advance;

const IMAGES: [&str; 3] = [
    "00000000-0000-4000-8000-000000000000",
    "11111111-1111-4111-8111-111111111111",
    "22222222-2222-4222-8222-222222222222",
];

type Image = u8;

fn id(image: Image) -> ImageId {
    ImageId::from(IMAGES[usize::from(image)])
}

fn image(id: &ImageId) -> Image {
    u8::try_from(IMAGES.iter().position(|known| *known == id.as_str()).unwrap()).unwrap()
}

/// A guard of the protocol that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Base {
    Active,
    Shutoff,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Build,
    /// Away from this image.
    Rebuild(Image),
    /// Something that leaves the image alone.
    Other,
}

/// A server in Nova.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Server {
    image: Image,
    base: Base,
    operation: Option<Operation>,
    booted: bool,
}

/// What is stored in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Object {
    desired: Image,
    marker: Option<(Image, RebuildState)>,
    /// `Available` is `Errored`.
    parked: bool,
    deleting: bool,
}

/// An object as it was read, and whether it was written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Read {
    object: Object,
    stale: bool,
}

/// A look at the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Look {
    server: Option<Server>,
    readable: bool,
}

/// What a call is going to write, and how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Outcome {
    marker: Option<(Image, RebuildState)>,
    parked: bool,
    again: bool,
    gone: bool,
    /// Nova has told it that it has accepted.
    knows: bool,
    /// It clears the marker because the change has come to its end, and that it saw a rebuild at work.
    premature: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Worker {
    Idle,
    Has(Read),
    Saw(Read, Look),
    /// About to submit: it has read the object once more, and found it as it was.
    Sure(Read, Look),
    Did(Read, Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Monitor {
    Idle,
    Has(Read),
    /// Only with [`Mutant::CloudBeforeObject`].
    Looked(Look),
    Saw(Read, Look),
}

/// What the checker remembers and nobody in the model knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Ghost {
    /// Accepted rebuilds for the marker that stands.
    accepted: u8,
    /// Whether the call that knew of the last one has written to the object.
    recorded: bool,
    /// Whether Nova has reported the marker's target at any time while it stood.
    arrived: bool,
    /// A request was sent whose intent had not been stored and read back.
    unintended: bool,
    /// One was accepted for a server that had never booted.
    unbooted: bool,
    /// One was asked for by a call that had seen that Nova reports the target already.
    needless: bool,
    /// A change counted as done while Nova was at work on it.
    premature: bool,
    /// A change counted as failed that had never been accepted.
    unfounded: bool,
    /// The server was replaced by another one while the marker stood.
    outlived: bool,
    /// Somebody has rebuilt the server while no change was going on. The resync finds that, which is not here.
    drifted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    /// `None`: it is deleted for good.
    object: Option<Object>,
    server: Option<Server>,
    work: bool,
    worker: Worker,
    monitor: Monitor,
    changes: u8,
    mishaps: u8,
    ghost: Ghost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// The user wants this image.
    Change(Image),
    /// The user deletes the server.
    Delete,
    /// A message is sent again, or lists show the object.
    Repeat,
    WorkerReads,
    WorkerLooks,
    WorkerLooksAndCannotReadTheImage,
    WorkerActs,
    /// Nova does it, and the answer is lost.
    WorkerActsUnanswered,
    /// Nova does not get to see the request.
    WorkerActsInVain,
    WorkerWrites,
    WorkerWriteIsLost,
    WorkerWriteIsUnanswered,
    WorkerDies,
    MonitorReads,
    MonitorLooks,
    MonitorLooksAndCannotReadTheImage,
    MonitorWrites,
    MonitorWriteIsLost,
    NovaFinishes,
    NovaFails,
    NovaFindsNoHost,
    ServerBreaks,
    SomebodyRebuilds(Image),
    SomebodyWorks,
    SomebodyDeletes,
}

struct Protocol {
    mutant: Mutant,
    changes: u8,
    mishaps: u8,
}

impl Protocol {
    fn view(&self, look: &Look, server: &Server) -> View {
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
    fn decide(&self, object: &Object, view: &View) -> Step {
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

    fn advance(&self, marker: &Rebuild, view: &View) -> Option<RebuildState> {
        if self.mutant == Mutant::AdvanceUnattributed && marker.state == RebuildState::Initiated {
            let as_if = Rebuild { state: RebuildState::Rebuilding, ..marker.clone() };
            return advance(&as_if, view).or_else(|| advance(marker, view));
        }
        advance(marker, view)
    }

    /// Whether a call that has read and seen this is going to ask for a rebuild.
    fn submits(&self, read: Read, look: &Look) -> bool {
        let submits = |server| matches!(self.decide(&read.object, &self.view(look, server)), Step::Submit(_));
        !read.object.deleting && look.server.as_ref().is_some_and(submits)
    }

    /// The server function's `act`, up to the write. `sent` and `answered` say what becomes of a request to Nova.
    fn act(&self, state: &mut State, read: Read, look: &Look, sent: bool, answered: bool) -> Outcome {
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
    fn store(&self, state: &mut State, object: Object) {
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
    fn calls(&self, object: &Object) -> bool {
        let status = ServerStatus {
            rebuild: object.marker.map(|(target, state)| Rebuild { target_image_id: id(target), state }),
            conditions: available(object.parked),
            ..ServerStatus::default()
        };
        self.mutant != Mutant::Deaf && weir_api::server::calls(&status)
    }

    /// What follows if nothing more goes wrong: whether the server's image comes to be settled, or parked, by itself.
    fn settles(&self, state: &State) -> bool {
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

fn available(parked: bool) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    use weir_api::conditions::{Told, Truth, put};
    let mut conditions = Vec::new();
    let reason = if parked { "Errored" } else { "Provisioning" };
    let told = Told { kind: AVAILABLE, truth: Truth::False, reason, message: "", observed_generation: None };
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    put(&mut conditions, &told, now);
    conditions
}

/// Whether a server at rest is where it should be: on its image with nothing pending, or parked for its owner to see.
fn is_settled(state: &State) -> bool {
    let (Some(object), Some(server)) = (state.object, state.server) else { return state.object.is_none() };
    match object.marker {
        None => server.image == object.desired || state.ghost.drifted,
        Some((target, RebuildState::Failed)) => target == object.desired && object.parked && !state.ghost.outlived,
        Some(_) => false,
    }
}

/// Nova takes a request to rebuild, or refuses it because it is busy.
fn accept(state: &mut State, target: Image) -> bool {
    let Some(server) = state.server.as_mut().filter(|server| server.operation.is_none()) else { return false };
    let ghost = &mut state.ghost;
    ghost.unbooted |= !server.booted;
    ghost.accepted += 1;
    ghost.recorded = false;
    server.operation = Some(Operation::Rebuild(server.image));
    server.image = target;
    note_arrival(state);
    true
}

/// Notes whether Nova reports the marker's target.
fn note_arrival(state: &mut State) {
    if let (Some(Object { marker: Some((target, _)), .. }), Some(server)) = (state.object, state.server) {
        state.ghost.arrived |= server.image == target;
    }
}

/// The image has moved. If nothing tells any more that a rebuild was accepted, another one is no fault of the protocol: see
/// the caveat of `weir_server::rebuild`.
fn note_move(state: &mut State) {
    if let (Some(Object { marker: Some((target, marker)), .. }), Some(server)) = (state.object, state.server)
        && marker == RebuildState::Initiated
        && server.image != target
        && !state.ghost.recorded
    {
        state.ghost.accepted = 0;
    }
    note_arrival(state);
}

/// Whoever has read the object has read an old one.
fn outdate(state: &mut State) {
    match &mut state.worker {
        Worker::Has(read) | Worker::Saw(read, _) | Worker::Sure(read, _) | Worker::Did(read, _) => read.stale = true,
        Worker::Idle => {}
    }
    match &mut state.monitor {
        Monitor::Has(read) | Monitor::Saw(read, _) => read.stale = true,
        Monitor::Idle | Monitor::Looked(_) => {}
    }
}

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

impl Protocol {
    /// The end of a call: one patch at the resource version that was read.
    fn write(&self, state: &mut State, action: Action, read: Read, outcome: Outcome) {
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
    fn report(&self, state: &mut State, action: Action, read: Read, look: &Look) {
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

fn explore(changes: u8, mishaps: u8) {
    let began = Instant::now();
    let protocol = Protocol { mutant: Mutant::None, changes, mishaps };
    let checker = protocol.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "{changes} changes of image, {mishaps} mishaps: {} states, {} of them unique, depth {}, {:?}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed(),
    );
    checker.assert_properties();
}

/// Proves: RBD-5, RBD-19, RBD-22
#[test]
fn two_changes_of_image_settle_or_park_whatever_goes_wrong_once() {
    explore(2, 1);
}

/// Proves: RBD-5, RBD-19, RBD-22
#[test]
fn one_change_of_image_settles_or_parks_whatever_goes_wrong_twice() {
    explore(1, 2);
}

/// Looks for a counterexample against a protocol with a guard taken out, and returns the properties that it breaks.
fn broken(mutant: Mutant, changes: u8, mishaps: u8) -> Vec<&'static str> {
    let protocol = Protocol { mutant, changes, mishaps };
    let checker = protocol.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    let mut broken: Vec<&'static str> = Vec::new();
    for (name, path) in found {
        if checker.model().property(name).expectation.discovery_is_failure() {
            println!("{mutant:?}: not \"{name}\", after {:?}", path.into_actions());
            broken.push(name);
        }
    }
    broken
}

const ONCE: &str = "at most one accepted rebuild for a standing target";
const INTENT: &str = "nothing is destroyed without a stored intent";
const BOOT: &str = "no rebuild before the first boot";
const NEEDLESS: &str = "no rebuild of a server that has the image";
const PREMATURE: &str = "no success while Nova is at work";
const UNFOUNDED: &str = "no failure of what was never accepted";
const SETTLES: &str = "every change settles or parks";

/// Proves: RBD-22
#[test]
fn each_guard_of_the_protocol_is_needed() {
    let mut useless = Vec::new();
    for (mutant, changes, mishaps, expected) in [
        (Mutant::SubmitWhileArming, 1, 0, &[INTENT][..]),
        (Mutant::NeverMindBoot, 1, 1, &[BOOT]),
        (Mutant::NeverMindImage, 1, 1, &[NEEDLESS, ONCE]),
        (Mutant::NeverMindTask, 1, 0, &[PREMATURE]),
        (Mutant::AdvanceUnattributed, 1, 0, &[UNFOUNDED]),
        (Mutant::CloudBeforeObject, 2, 0, &[UNFOUNDED, SETTLES, PREMATURE]),
        (Mutant::ForgetAcceptance, 1, 1, &[ONCE]),
        (Mutant::ConflictIsAcceptance, 1, 1, &[UNFOUNDED]),
        (Mutant::ForceWrites, 2, 0, &[UNFOUNDED, SETTLES, ONCE, INTENT, NEEDLESS, PREMATURE]),
        (Mutant::NoWayOut, 2, 1, &[SETTLES]),
        (Mutant::SuccessStands, 1, 1, &[SETTLES]),
        (Mutant::EndWaitsForMonitor, 1, 1, &[SETTLES]),
        (Mutant::Deaf, 1, 0, &[SETTLES]),
        (Mutant::OutliveServer, 1, 2, &[SETTLES]),
        (Mutant::NoSecondRead, 1, 2, &[ONCE]),
    ] {
        let broken = broken(mutant, changes, mishaps);
        if broken.is_empty() || !broken.iter().any(|name| expected.contains(name)) {
            useless.push((mutant, broken));
        }
    }
    assert!(useless.is_empty(), "no counterexample, or another one than the guard is there for: {useless:?}");
}
