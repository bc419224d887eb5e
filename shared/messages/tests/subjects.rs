//! Subjects and keys: the mapping from objects and back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use weir_api::{Kind, ObjectRef};
use weir_messages::subject::{self, Subject};
use weir_messages::{Lane, subject::Error};

/// Legal Kubernetes names: DNS subdomains, dots included.
fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]([-a-z0-9]{0,12}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?){0,4}"
}

fn object() -> impl Strategy<Value = ObjectRef> {
    (0..Kind::ALL.len(), name(), name())
        .prop_map(|(kind, namespace, name)| ObjectRef::new(Kind::ALL[kind], namespace, name))
}

proptest! {
    /// Proves: Q-2
    #[test]
    fn every_legal_object_comes_back_from_its_subjects_and_its_key(object in object(), urgent: bool) {
        let lane = if urgent { Lane::Urgent } else { Lane::Routine };
        let work = subject::work(lane, &object).unwrap();
        prop_assert_eq!(work.split('.').count(), 5, "{}", work);
        prop_assert_eq!(subject::parse(&work).unwrap(), Subject::Work { lane, object: object.clone() });
        let timer = subject::timer(&object).unwrap();
        prop_assert_eq!(timer.split('.').count(), 4, "{}", timer);
        prop_assert_eq!(subject::parse(&timer).unwrap(), Subject::Timer { object: object.clone() });
        prop_assert_eq!(subject::parse(&subject::resync(&object).unwrap()).unwrap(), Subject::Resync { object: object.clone() });
        let repeating = subject::repeating(&object).unwrap();
        prop_assert_eq!(subject::parse(&repeating).unwrap(), Subject::Repeating { object: object.clone() });
        let key = subject::lease_key(&object).unwrap();
        prop_assert!(key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-/_=.".contains(&b)), "{}", key);
        prop_assert_eq!(subject::parse_lease_key(&key).unwrap(), object);
    }

    /// Proves: Q-2
    #[test]
    fn different_objects_never_share_a_subject_or_a_key(a in object(), b in object()) {
        prop_assume!(a != b);
        prop_assert_ne!(subject::work(Lane::Urgent, &a).unwrap(), subject::work(Lane::Urgent, &b).unwrap());
        prop_assert_ne!(subject::timer(&a).unwrap(), subject::timer(&b).unwrap());
        prop_assert_ne!(subject::lease_key(&a).unwrap(), subject::lease_key(&b).unwrap());
    }

    /// Proves: Q-2
    #[test]
    fn no_string_becomes_more_than_the_tokens_of_its_place(namespace in ".{0,40}", name in "\\PC{0,300}") {
        let object = ObjectRef::new(Kind::Server, namespace, name);
        let made = [
            subject::work(Lane::Routine, &object),
            subject::timer(&object),
            subject::resync(&object),
            subject::repeating(&object),
            subject::lease_key(&object),
        ];
        for made in made.into_iter().flatten() {
            prop_assert!(made.bytes().all(|b| b.is_ascii_graphic() && b != b'*' && b != b'>'), "{}", made);
        }
    }

    #[test]
    fn reading_never_panics_and_a_dead_letter_always_has_a_legal_subject(text in ".{0,200}") {
        let _ = subject::parse(&text);
        let _ = subject::parse_lease_key(&text);
        let dead = subject::dead(&text);
        let fits = dead.starts_with("dead.") && dead.split('.').all(|token| !token.is_empty())
            && dead.bytes().all(|b| b.is_ascii_graphic() && b != b'*' && b != b'>');
        prop_assert!(fits, "{}", dead);
    }
}

/// Proves: Q-17
#[test]
fn ticks_and_what_comes_of_them_have_subjects_that_are_no_objects_own() {
    for kind in Kind::ALL {
        assert_eq!(subject::parse(&subject::tick(kind)).unwrap(), Subject::Tick { kind });
        assert_eq!(subject::parse(&subject::tick_schedule(kind)).unwrap(), Subject::TickSchedule { kind });
    }
    let object = ObjectRef::new(Kind::Server, "a", "b.c");
    assert_eq!(subject::resync(&object).unwrap(), "timer.resync.server.a.b~c");
    assert_eq!(subject::repeating(&object).unwrap(), "timer.every.server.a.b~c");
    // No namespace and no name makes one of these out of an object's own timer.
    for (namespace, name) in [("resync", "server"), ("every", "server"), ("server", "resync")] {
        let own = ObjectRef::new(Kind::Server, namespace, name);
        assert_eq!(subject::parse(&subject::timer(&own).unwrap()).unwrap(), Subject::Timer { object: own });
    }
}

/// Proves: Q-2
#[test]
fn a_dot_is_written_as_a_tilde() {
    let object = ObjectRef::new(Kind::SecurityGroup, "team-a", "web.example.com");
    assert_eq!(subject::work(Lane::Urgent, &object).unwrap(), "work.urgent.security-group.team-a.web~example~com");
    assert_eq!(subject::timer(&object).unwrap(), "timer.security-group.team-a.web~example~com");
    assert_eq!(subject::lease_key(&object).unwrap(), "security-group.team-a.web=example=com");
    assert_eq!(subject::work_filter(Lane::Routine, Kind::LoadBalancer), "work.routine.load-balancer.>");
}

/// Proves: Q-2
#[test]
fn hostile_names_are_refused_not_escaped() {
    for bad in
        ["", ".", "a..b", ".a", "a.", "-a", "a-", "A", "a b", "a\r\nb", "*", ">", "a~b", "a=b", "ä", &"a".repeat(254)]
    {
        let by_name = subject::work(Lane::Urgent, &ObjectRef::new(Kind::Server, "ns", bad));
        assert!(matches!(by_name, Err(Error::Name { what: "name", .. })), "{bad:?}");
        let by_namespace = subject::timer(&ObjectRef::new(Kind::Server, bad, "a"));
        assert!(matches!(by_namespace, Err(Error::Name { what: "namespace", .. })), "{bad:?}");
    }
    for bad in [
        "work.urgent.server.ns",
        "work.soon.server.ns.a",
        "work.urgent.planet.ns.a",
        "timer.server.ns.a.b",
        "work.urgent.server.ns.*",
        "work.resync.planet",
        "timer.resync.planet",
        "timer.resync.server.ns",
        "timer.resync.server.NS.a",
        "timer.every.server",
        "timer.sometimes.server.ns.a",
    ] {
        assert!(subject::parse(bad).is_err(), "{bad}");
    }
}
