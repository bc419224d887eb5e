//! Whether an object may use another one that it refers to (SRV-4).
//!
//! Invariant: nothing is made in a cloud through an object that can vanish without waiting for it. An object waits if it
//! carries a finalizer of a function that looks who still needs it: its own function's, on a region's Secret the Region's.
//! Before that is on it, `kubectl delete` takes it away at once, and whatever had been made could not be removed any more.
//!
//! | what is referred to is | by an object that is being made | by one that is being removed |
//! |---|---|---|
//! | not there | waits for it | a Region: tells an operator, see below; an identity's record: goes, nothing was made; others are not needed |
//! | there, not held | waits until it is held | uses it while it is there |
//! | held | uses it, once it is `Available` too where it is an Identity, Network or SecurityGroup | uses it |
//! | held, being deleted | waits: it stays for those who were there before, and for nobody new | uses it: that is what it stays for |
//! | being deleted, not held | waits | uses it while it is there |
//!
//! A region's Secret goes by the same table, but that one that is held is used for making even when it is being deleted: it
//! cannot go before its Region does, or names another, and the Region tells of it.
//!
//! Between the look and the write. Whoever is about to go lists afresh who refers to it, after its deletion was asked for. It
//! finds them by labels and kept labels, which are on an object that is itself held before its function looks here. So either
//! the look came before the deletion, and the list shows the object; or it came after, and has shown the deletion.
//!
//! All answers but *ready* wait for an event (W-5): the other object's change wakes the one at hand.
//!
//! A Region that is gone all the same had its finalizer taken off by hand. Whether something was made in its cloud cannot be
//! known any more: status may have been wiped, and a kept label is written before anything is made. To let the object go would
//! leave servers that nobody knows of, for ever and silently; so it stays and says what an operator can do. It ends when the
//! Region is made again, or when somebody takes the object's finalizer off and answers for what is left.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use weir_api::conditions::{self, Reason};
use weir_api::{Kind, Problem, crd, labels};

/// What an object at hand needs others for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To bring about what it asks for.
    Making,
    /// To remove what it had asked for.
    Removing,
}

impl Purpose {
    /// The purpose of an object as it was read: once it is being deleted, nothing more is made for it.
    pub fn of(object: &impl ResourceExt) -> Self {
        if object.meta().deletion_timestamp.is_some() { Self::Removing } else { Self::Making }
    }

    /// The region `name`, as it was `found`, if it may be used. It need not be `Available`: what its cloud lacks may not matter.
    ///
    /// # Errors
    /// As the table of this room has it.
    pub fn region(self, name: &str, found: Option<crd::Region>) -> Result<crd::Region, Problem> {
        match (self, found) {
            (Self::Removing, Some(region)) => Ok(region),
            (Self::Removing, None) => Err(Problem::operator(format!(
                "Region {name} does not exist any more, so that what there may be in its cloud cannot be removed; make the \
                 Region and its Secret again, or take the finalizer {} off to leave it all there",
                labels::FINALIZER
            ))
            .with_reason(Reason::DependencyNotFound)),
            (Self::Making, Some(region)) => must_stay(&region, &format!("Region {name}")).map(|()| region),
            (Self::Making, None) => Err(missing("Region", name)),
        }
    }

    /// Whether the Secret of the region `name` may be used; `called` is the Secret's place.
    pub(crate) fn secret(self, name: &str, secret: &Secret, called: &str) -> Result<(), Problem> {
        if self == Self::Removing || secret.finalizers().contains(&Kind::Region.reference(name)) {
            return Ok(());
        }
        Err(not_ready(match secret.metadata.deletion_timestamp {
            Some(_) => format!("the region's Secret {called} is being deleted"),
            None => format!("the region's Secret {called} is not held by its Region yet"),
        }))
    }
}

/// Whether an object that another one is made with is ready (SRV-4). `kind` is the Kubernetes kind, `id` the object's name.
///
/// # Errors
/// It is missing, not held, on its way out, not ready or failed.
pub fn dependency<K: ResourceExt>(
    kind: &str,
    id: &str,
    object: Option<&K>,
    conditions: impl FnOnce(&K) -> Option<&[Condition]>,
) -> Result<(), Problem> {
    let object = object.ok_or_else(|| missing(kind, id))?;
    let called = match labels::get(object, labels::NAME) {
        Some(name) => format!("{kind} \"{name}\" ({id})"),
        None => format!("{kind} {id}"),
    };
    must_stay(object, &called)?;
    match conditions(object).and_then(conditions::available_reason) {
        Some("Provisioned") => Ok(()),
        Some("Errored") => Err(Problem::waiting(Reason::DependencyFailed, format!("{called} has failed"))),
        _ => Err(not_ready(format!("{called} is not ready"))),
    }
}

fn must_stay(object: &impl ResourceExt, called: &str) -> Result<(), Problem> {
    if object.meta().deletion_timestamp.is_some() {
        return Err(not_ready(format!("{called} is being deleted")));
    }
    if !labels::is_held(object) {
        return Err(not_ready(format!("{called} is not ready")));
    }
    Ok(())
}

fn missing(kind: &str, id: &str) -> Problem {
    Problem::waiting(Reason::DependencyNotFound, format!("{kind} {id} does not exist"))
}

fn not_ready(message: String) -> Problem {
    Problem::waiting(Reason::DependencyNotReady, message)
}
