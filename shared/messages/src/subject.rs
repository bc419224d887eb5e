//! Subjects and keys: how an object is addressed on the queue.
//!
//! Invariants
//! - One subject for each object and lane, `work.<lane>.<kind>.<namespace>.<name>`, so that a newer message replaces the
//!   one that waits; one timer subject for each object, `timer.<kind>.<namespace>.<name>`.
//! - What is set beside an object's own timer has a subject of its own, so that neither moves the other.
//! - Subjects are split at dots and Kubernetes names may hold dots: a dot in a name is written `~`, which no Kubernetes
//!   name can hold. The mapping is therefore reversible for every legal name.
//! - Nothing but a legal Kubernetes name becomes part of a subject. A name with a wildcard, a space or a line break is
//!   refused rather than escaped: it would be somebody trying to reach another subject.

use weir_api::{Kind, ObjectRef};

use crate::Lane;

/// The subjects of all work.
pub const ALL_WORK: &str = "work.>";
/// The subjects of all timers.
pub const ALL_TIMERS: &str = "timer.>";
/// The filter that matches ticks, and nothing else.
pub const ALL_TICKS: &str = "work.resync.*";
/// The subjects of all dead letters.
pub const ALL_DEAD: &str = "dead.>";

/// Kubernetes bounds names and namespaces to this many characters.
pub const MAX_NAME: usize = 253;

/// Why something is no subject, or may not become part of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A namespace or name that Kubernetes itself would refuse.
    #[error("{what} {value:?} is not a lower-case DNS name of at most {MAX_NAME} characters")]
    Name {
        /// `namespace` or `name`.
        what: &'static str,
        /// The beginning of the offending value.
        value: String,
    },
    /// The subject has a kind that this release does not know.
    #[error(transparent)]
    Kind(#[from] weir_api::kind::UnknownKind),
    /// The subject has a lane that this release does not know.
    #[error(transparent)]
    Lane(#[from] crate::lane::UnknownLane),
    /// The subject is of none of the known shapes.
    #[error("{0:?} is neither work.<lane>.<kind>.<namespace>.<name> nor one of the subjects of timers")]
    Shape(String),
}

/// What a subject addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Work that waits in a lane.
    Work {
        /// The lane it waits in.
        lane: Lane,
        /// The object to look at.
        object: ObjectRef,
    },
    /// The timer of an object.
    Timer {
        /// The object to look at when it is due.
        object: ObjectRef,
    },
    /// It is time to look at every object of a kind.
    Tick {
        /// The kind.
        kind: Kind,
    },
    /// The schedule of a kind's ticks.
    TickSchedule {
        /// The kind.
        kind: Kind,
    },
    /// The timer by which an object is looked at because of a tick.
    Resync {
        /// The object to look at when it is due.
        object: ObjectRef,
    },
    /// The schedule by which one object is looked at again and again.
    Repeating {
        /// The object.
        object: ObjectRef,
    },
}

/// The subject on which work for `object` waits.
pub fn work(lane: Lane, object: &ObjectRef) -> Result<String, Error> {
    let (namespace, name) = tokens(object, "~")?;
    Ok(format!("work.{lane}.{}.{namespace}.{name}", object.kind))
}

/// The subject that holds the timer of `object`.
pub fn timer(object: &ObjectRef) -> Result<String, Error> {
    let (namespace, name) = tokens(object, "~")?;
    Ok(format!("timer.{}.{namespace}.{name}", object.kind))
}

/// The subject of a kind's ticks.
pub fn tick(kind: Kind) -> String {
    format!("work.resync.{kind}")
}

/// The subject that holds the schedule of a kind's ticks.
pub fn tick_schedule(kind: Kind) -> String {
    format!("timer.resync.{kind}")
}

/// The subject that holds the timer by which `object` is looked at because of a tick.
pub fn resync(object: &ObjectRef) -> Result<String, Error> {
    let (namespace, name) = tokens(object, "~")?;
    Ok(format!("timer.resync.{}.{namespace}.{name}", object.kind))
}

/// The subject that holds the schedule by which `object` is looked at again and again.
pub fn repeating(object: &ObjectRef) -> Result<String, Error> {
    let (namespace, name) = tokens(object, "~")?;
    Ok(format!("timer.every.{}.{namespace}.{name}", object.kind))
}

/// The key of `object` in the bucket of leases. Keys may not hold `~`, so a dot is written `=` there.
pub fn lease_key(object: &ObjectRef) -> Result<String, Error> {
    let (namespace, name) = tokens(object, "=")?;
    Ok(format!("{}.{namespace}.{name}", object.kind))
}

/// The object that a key in the bucket of leases belongs to.
pub fn parse_lease_key(key: &str) -> Result<ObjectRef, Error> {
    let parts: Vec<&str> = key.split('.').collect();
    match parts.as_slice() {
        [kind, namespace, name] => object(kind, namespace, name, "="),
        _ => Err(Error::Shape(head(key))),
    }
}

/// The filter that matches the work of one kind in one lane.
pub fn work_filter(lane: Lane, kind: Kind) -> String {
    format!("work.{lane}.{kind}.>")
}

/// The subject under which a message that came on `original` is kept as a dead letter.
pub fn dead(original: &str) -> String {
    // The original subject came off the wire. What could not be part of a subject is replaced, not passed on.
    let safe: String = original
        .chars()
        .take(1024)
        .map(|c| if c.is_ascii_graphic() && !matches!(c, '*' | '>') { c } else { '_' })
        .collect();
    let safe = safe.split('.').filter(|token| !token.is_empty()).collect::<Vec<_>>().join(".");
    if safe.is_empty() { "dead.unknown".to_owned() } else { format!("dead.{safe}") }
}

/// Reads a subject.
pub fn parse(subject: &str) -> Result<Subject, Error> {
    let parts: Vec<&str> = subject.split('.').collect();
    match parts.as_slice() {
        ["work", "resync", kind] => Ok(Subject::Tick { kind: kind.parse()? }),
        ["timer", "resync", kind] => Ok(Subject::TickSchedule { kind: kind.parse()? }),
        ["timer", "resync", kind, namespace, name] => {
            Ok(Subject::Resync { object: object(kind, namespace, name, "~")? })
        }
        ["timer", "every", kind, namespace, name] => {
            Ok(Subject::Repeating { object: object(kind, namespace, name, "~")? })
        }
        ["work", lane, kind, namespace, name] => {
            Ok(Subject::Work { lane: lane.parse()?, object: object(kind, namespace, name, "~")? })
        }
        ["timer", kind, namespace, name] => Ok(Subject::Timer { object: object(kind, namespace, name, "~")? }),
        _ => Err(Error::Shape(head(subject))),
    }
}

/// Checks that namespace and name are ones that Kubernetes could have given an object.
pub fn check(object: &ObjectRef) -> Result<(), Error> {
    for (what, value) in [("namespace", &object.namespace), ("name", &object.name)] {
        if !is_dns_subdomain(value) {
            return Err(Error::Name { what, value: head(value) });
        }
    }
    Ok(())
}

fn tokens(object: &ObjectRef, dot: &str) -> Result<(String, String), Error> {
    check(object)?;
    Ok((object.namespace.replace('.', dot), object.name.replace('.', dot)))
}

fn object(kind: &str, namespace: &str, name: &str, dot: &str) -> Result<ObjectRef, Error> {
    let object = ObjectRef::new(kind.parse::<Kind>()?, namespace.replace(dot, "."), name.replace(dot, "."));
    check(&object)?;
    Ok(object)
}

/// RFC 1123 as Kubernetes applies it: labels of lower-case letters, digits and inner hyphens, joined by dots.
fn is_dns_subdomain(value: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
    };
    value.len() <= MAX_NAME && value.split('.').all(label)
}

/// The beginning of a hostile value, for an error message.
fn head(value: &str) -> String {
    value.chars().take(80).collect()
}
