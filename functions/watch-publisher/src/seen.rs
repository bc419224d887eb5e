//! What is kept of an object: enough to tell whether it changed in a way that matters, and nothing else.

use crate::watched::{Node, Watched};
use kube::core::{DynamicObject, ObjectMeta};
use std::hash::{DefaultHasher, Hash, Hasher};

/// An object as a watch showed it, reduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which object.
    pub node: Node,
    /// Its UID; a new one under an old name is another object.
    pub uid: String,
    /// The resource version it was seen at.
    pub version: String,
    /// A hash of what its own function acts on (W-1): generation, deletion, finalizers, labels, annotations.
    pub intent: u64,
    /// A hash of what others wait for.
    pub offer: u64,
    /// Whether it is of use to others now.
    pub ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its status calls for its own function (RBD-20, RTY-4).
    pub calls: bool,
    /// What it refers to.
    pub references: Box<[Node]>,
}

impl Seen {
    /// Reduces an object; `None` if it lacks what every stored object has.
    pub fn of(watched: Watched, object: &DynamicObject) -> Option<Self> {
        let meta = &object.metadata;
        let deleting = meta.deletion_timestamp.is_some();
        let readiness = Watched::readiness(object);
        let version = meta.resource_version.clone()?;
        // Nobody makes anything with what is not held yet.
        let held = weir_api::labels::is_held(object);
        let state = match class(readiness) {
            0 => (0, false),
            class => (class, held),
        };
        let offer = match watched {
            // No condition tells of these: whatever changes may matter to who uses them.
            Watched::Secret => hash(&version),
            Watched::SshCertificateAuthority => hash((meta.generation, deleting)),
            // What a region's objects are built with is in its spec; that its Secret is held, as they need it to be, is told
            // by its function having been through with that.
            Watched::Region => {
                hash((meta.generation, object.data["status"]["observedGeneration"].as_i64(), deleting, state))
            }
            _ => hash((deleting, state)),
        };
        Some(Self {
            node: Node { watched, namespace: meta.namespace.clone().unwrap_or_default(), name: meta.name.clone()? },
            uid: meta.uid.clone()?,
            version,
            intent: intent(meta),
            offer,
            ready: !watched.has_readiness() || readiness == Some("Provisioned"),
            deleting,
            calls: watched == Watched::Server && weir_api::server::calls_in(&object.data["status"]),
            references: watched.references(object).into(),
        })
    }
}

/// The reasons that others tell apart: ready, failed, anything else.
fn class(readiness: Option<&str>) -> u8 {
    match readiness {
        Some("Provisioned") => 2,
        Some("Errored") => 1,
        _ => 0,
    }
}

fn intent(meta: &ObjectMeta) -> u64 {
    let deletion = meta.deletion_timestamp.as_ref().map(|at| at.0.as_nanosecond());
    hash((meta.generation, deletion, &meta.finalizers, &meta.labels, &meta.annotations))
}

/// Compared within one process, and by publishers of one build; where the hasher differs, nothing is taken for the same.
pub(crate) fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
