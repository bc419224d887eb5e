//! What there is: the object, the server in Nova, who is in the middle of what, and what may happen next.

use weir_api::conditions::AVAILABLE;
use weir_api::crd::{ImageId, RebuildState};

pub const IMAGES: [&str; 3] = [
    "00000000-0000-4000-8000-000000000000",
    "11111111-1111-4111-8111-111111111111",
    "22222222-2222-4222-8222-222222222222",
];

pub type Image = u8;

pub fn id(image: Image) -> ImageId {
    ImageId::from(IMAGES[usize::from(image)])
}

pub fn image(id: &ImageId) -> Image {
    u8::try_from(IMAGES.iter().position(|known| *known == id.as_str()).unwrap()).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    Active,
    Shutoff,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Build,
    /// Away from this image.
    Rebuild(Image),
    /// Something that leaves the image alone.
    Other,
}

/// A server in Nova.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    pub image: Image,
    pub base: Base,
    pub operation: Option<Operation>,
    pub booted: bool,
}

/// What is stored in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    pub desired: Image,
    pub marker: Option<(Image, RebuildState)>,
    /// `Available` is `Errored`.
    pub parked: bool,
    pub deleting: bool,
}

/// An object as it was read, and whether it was written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    pub object: Object,
    pub stale: bool,
}

/// A look at the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    pub server: Option<Server>,
    pub readable: bool,
}

/// What a call is going to write, and how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    pub marker: Option<(Image, RebuildState)>,
    pub parked: bool,
    pub again: bool,
    pub gone: bool,
    /// Nova has told it that it has accepted.
    pub knows: bool,
    /// It clears the marker because the change has come to its end, and that it saw a rebuild at work.
    pub premature: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Worker {
    Idle,
    Has(Read),
    Saw(Read, Look),
    /// About to submit: it has read the object once more, and found it as it was.
    Sure(Read, Look),
    Did(Read, Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Monitor {
    Idle,
    Has(Read),
    /// Only with [`Mutant::CloudBeforeObject`].
    Looked(Look),
    Saw(Read, Look),
}

/// What the checker remembers and nobody in the model knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    /// Accepted rebuilds for the marker that stands.
    pub accepted: u8,
    /// Whether the call that knew of the last one has written to the object.
    pub recorded: bool,
    /// Whether Nova has reported the marker's target at any time while it stood.
    pub arrived: bool,
    /// A request was sent whose intent had not been stored and read back.
    pub unintended: bool,
    /// One was accepted for a server that had never booted.
    pub unbooted: bool,
    /// One was asked for by a call that had seen that Nova reports the target already.
    pub needless: bool,
    /// A change counted as done while Nova was at work on it.
    pub premature: bool,
    /// A change counted as failed that had never been accepted.
    pub unfounded: bool,
    /// The server was replaced by another one while the marker stood.
    pub outlived: bool,
    /// Somebody has rebuilt the server while no change was going on. The resync finds that, which is not here.
    pub drifted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// `None`: it is deleted for good.
    pub object: Option<Object>,
    pub server: Option<Server>,
    pub work: bool,
    pub worker: Worker,
    pub monitor: Monitor,
    pub changes: u8,
    pub mishaps: u8,
    pub ghost: Ghost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
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

pub fn available(parked: bool) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    use weir_api::conditions::{Told, Truth, put};
    let mut conditions = Vec::new();
    let reason = if parked { "Errored" } else { "Provisioning" };
    let told = Told { kind: AVAILABLE, truth: Truth::False, reason, message: "", observed_generation: None };
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    put(&mut conditions, &told, now);
    conditions
}

/// Whether a server at rest is where it should be: on its image with nothing pending, or parked for its owner to see.
pub fn is_settled(state: &State) -> bool {
    let (Some(object), Some(server)) = (state.object, state.server) else { return state.object.is_none() };
    match object.marker {
        None => server.image == object.desired || state.ghost.drifted,
        Some((target, RebuildState::Failed)) => target == object.desired && object.parked && !state.ghost.outlived,
        Some(_) => false,
    }
}

/// Nova takes a request to rebuild, or refuses it because it is busy.
pub fn accept(state: &mut State, target: Image) -> bool {
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
pub fn note_arrival(state: &mut State) {
    if let (Some(Object { marker: Some((target, _)), .. }), Some(server)) = (state.object, state.server) {
        state.ghost.arrived |= server.image == target;
    }
}

/// The image has moved. If nothing tells any more that a rebuild was accepted, another one is no fault of the protocol: see
/// the caveat of `weir_server::rebuild`.
pub fn note_move(state: &mut State) {
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
pub fn outdate(state: &mut State) {
    match &mut state.worker {
        Worker::Has(read) | Worker::Saw(read, _) | Worker::Sure(read, _) | Worker::Did(read, _) => read.stale = true,
        Worker::Idle => {}
    }
    match &mut state.monitor {
        Monitor::Has(read) | Monitor::Saw(read, _) => read.stale = true,
        Monitor::Idle | Monitor::Looked(_) => {}
    }
}
