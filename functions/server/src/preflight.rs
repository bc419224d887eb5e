//! Whether the host that a server is pinned to has room for it: asked of Placement just before the create (PIN-2, PIN-3).
//!
//! Why: Nova takes a create whose host is full, and only then finds that no host will do; that leaves a server in ERROR
//! where there should have been a wait.
//!
//! Invariants: nothing is remembered; a miss waits. What is asked comes from the flavor as Nova has it now and from the
//! region's configuration; nothing that they say can make it another question.
//!
//! Caveats: nothing is reserved. Somebody else may take the host between the answer and the create, and then the create
//! fails as it would have without the check. Extra specs of numbered or named groups (`resources1:`, `trait_A:`) are not
//! looked at.

use std::collections::{BTreeMap, HashSet};
use weir_api::problem::YIELD;
use weir_api::{Consequence, Problem};
use weir_openstack::placement::{ResourceClass, ResourceProvider, Trait};
use weir_openstack::{Class, FlavorId, OrAbsent, Session};
use weir_provider::During;

/// No more of a cloud's own words is shown, in characters.
const MOST_SHOWN: usize = 64;
/// No more of several classes are shown.
const MOST_CLASSES: usize = 5;

/// What Placement is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The class that the host must have one unit of.
    pub class: ResourceClass,
    /// What it must have and must not have.
    pub traits: Vec<Trait>,
}

/// Why a flavor makes no question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It asks for nothing that only some hosts have.
    #[error("asks for no custom resource class (an extra spec resources:CUSTOM_… with an amount above 0)")]
    NoClass,
    /// It asks for too much.
    #[error("asks for more than one custom resource class ({0})")]
    Classes(String),
    /// An amount is no number.
    #[error("asks for \"{1}\" of {0}, which is no amount")]
    Amount(String, String),
    /// The name of a trait that no trait has.
    #[error("has the extra spec \"{0}\", which names no trait")]
    Name(String),
    /// What is said of a trait makes no sense.
    #[error("says \"{1}\" of the trait {0}, where only required and forbidden are known")]
    Value(String, String),
}

impl Question {
    /// What a flavor with these extra specs has to be asked, in a region that asks for `more` traits.
    ///
    /// # Errors
    /// The flavor has no or several custom resource classes, or says of a trait what nobody knows.
    pub fn of(extra_specs: &BTreeMap<String, String>, more: &[Trait]) -> Result<Self, Error> {
        Ok(Self { class: class(extra_specs)?, traits: union(&flavor_traits(extra_specs)?, more) })
    }
}

/// The one custom class that there is some of.
fn class(extra_specs: &BTreeMap<String, String>) -> Result<ResourceClass, Error> {
    let mut found = Vec::new();
    for (key, amount) in extra_specs {
        let Some(name) = key.strip_prefix("resources:").map(str::trim).filter(|name| name.starts_with("CUSTOM_"))
        else {
            continue;
        };
        let number: f64 = amount.trim().parse().map_err(|_| Error::Amount(shown(name), shown(amount)))?;
        if !number.is_finite() {
            return Err(Error::Amount(shown(name), shown(amount)));
        }
        if number > 0.0 {
            found.push(name);
        }
    }
    match found.as_slice() {
        [] => Err(Error::NoClass),
        [name] => ResourceClass::custom(name).ok_or(Error::NoClass),
        several => {
            let names: Vec<_> = several.iter().take(MOST_CLASSES).map(|name| shown(name)).collect();
            Err(Error::Classes(names.join(", ")))
        }
    }
}

/// The traits that a flavor asks for, in order.
fn flavor_traits(extra_specs: &BTreeMap<String, String>) -> Result<Vec<Trait>, Error> {
    let mut traits = Vec::new();
    for (key, value) in extra_specs {
        let Some(name) = key.strip_prefix("trait:") else { continue };
        let found = match value.trim() {
            "required" => Trait::required(name),
            "forbidden" => Trait::forbidden(name),
            _ => return Err(Error::Value(shown(name), shown(value))),
        };
        traits.push(found.ok_or_else(|| Error::Name(shown(key)))?);
    }
    traits.sort();
    Ok(traits)
}

/// Those of the flavor, then those of the region that are not among them.
fn union(flavor: &[Trait], region: &[Trait]) -> Vec<Trait> {
    let mut seen = HashSet::new();
    flavor.iter().chain(region).filter(|found| seen.insert(*found)).cloned().collect()
}

/// The traits that a region's configuration asks for. Blank ones count for nothing; `!` before one forbids it.
///
/// # Errors
/// One that is none, in words for the region's operator.
pub fn region_traits(configured: &[String]) -> Result<Vec<Trait>, Problem> {
    let named = configured.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
    named
        .map(|text| {
            let found = text.strip_prefix('!').map_or_else(|| Trait::required(text), Trait::forbidden);
            found.ok_or_else(|| {
                Problem::operator(format!(
                    "the region's placementPreflight.requiredTraits has \"{}\", which is no trait's name; an operator has to \
                     mend the Region",
                    shown(text)
                ))
            })
        })
        .collect()
}

/// Whether `host`, a name or a UUID, is among the providers.
fn is_among(host: &str, found: &[ResourceProvider]) -> bool {
    let is = |provider: &ResourceProvider| provider.name == host || provider.uuid.as_str().eq_ignore_ascii_case(host);
    !host.is_empty() && found.iter().any(is)
}

/// Passes if the host has room for a server of the flavor, and the traits that flavor and region ask for. `session` is the
/// one that the server is created with.
///
/// # Errors
/// It has not: look again. Or the flavor makes no question (PIN-3), or a service fails.
pub async fn check(session: &Session, flavor: &FlavorId, host: &str, traits: &[Trait]) -> Result<(), Problem> {
    let host = host.trim();
    if host.is_empty() {
        return Err(no_room());
    }
    let found = session.compute().flavor(flavor).await.or_absent().during("looking at the server's flavor")?;
    let Some(found) = found else {
        return Err(Problem::retry(format!("the cloud has no flavor {flavor} for the server; trying again")));
    };
    let question = Question::of(&found.extra_specs, traits).map_err(|error| inconsistent(flavor, &error))?;
    let answer = session.placement().providers_with(&question.class, &question.traits).await;
    let providers = answer.map_err(|error| {
        let mut problem = weir_provider::problem(&error, "asking for room on the server's host");
        if error.class() == Class::BadRequest {
            problem.consequence = Consequence::Retry(Some(YIELD));
            problem.message = format!(
                "the cloud's placement service does not know the resource class {} or one of the traits that the flavor \
                 {flavor} and the region ask for; an operator has to mend it; trying again",
                question.class
            );
        }
        problem
    })?;
    if is_among(host, &providers) { Ok(()) } else { Err(no_room()) }
}

fn no_room() -> Problem {
    Problem::yielding(
        "waiting until the host that spec.infrastructureRef names has room for the server, and the traits that its flavor and \
         the region ask for",
    )
}

/// An operator can mend it in the cloud, and nothing tells of that: looked at again, as with all that contradicts itself.
fn inconsistent(flavor: &FlavorId, error: &Error) -> Problem {
    let mut problem = Problem::retry(format!(
        "the region asks for a placement check of pinned servers, but the flavor {flavor} {error}; choose another flavor, or \
         ask an operator to mend this one"
    ));
    problem.consequence = Consequence::Retry(Some(YIELD));
    problem
}

/// Text of the cloud's, fit for a message: plain and short.
fn shown(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(MOST_SHOWN).collect()
}

#[cfg(test)]
mod tests;
