//! Envelopes: what is written, what is understood, what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use weir_api::{Kind, ObjectRef};
use weir_messages::{
    Cause, DecodeError, EncodeError, Envelope, Lane, Tick, Traceparent, Work, envelope, subject, work,
};

fn work() -> Work {
    Work::new(ObjectRef::new(Kind::Server, "team-a", "web.1"), Cause::Changed).seen("0a1b", "42")
}

fn headers(envelope: &Envelope) -> BTreeMap<String, String> {
    envelope.encode().unwrap().headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn decode(headers: &BTreeMap<String, String>, payload: &[u8]) -> Result<Envelope, DecodeError> {
    Envelope::decode(|name| headers.get(name).map(String::as_str), payload)
}

/// Proves: Q-15
#[test]
fn an_envelope_is_a_binary_mode_cloud_event_and_comes_back_unchanged() {
    let parent: Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
    let origin = ObjectRef::new(Kind::Network, "team-a", "net");
    let envelope = Envelope::new("/weir/watch-publisher", work().caused_by(origin), Some(parent));
    let headers = headers(&envelope);
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-id", "0a1b/42"),
        ("ce-source", "/weir/watch-publisher"),
        ("ce-type", "weir.work.v1"),
        ("ce-subject", "server/team-a/web.1"),
        ("ce-dataschema", "urn:weir:queue-schemas:work.v1"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(headers[name], value);
    }
    assert!(headers["ce-time"].parse::<jiff::Timestamp>().is_ok());
    let sent: Traceparent = headers["traceparent"].parse().unwrap();
    assert_eq!(sent.trace_id(), parent.trace_id(), "one trace from end to end");
    assert_ne!(sent, parent, "each hop is a step of its own");
    assert_eq!(decode(&headers, &envelope.encode().unwrap().payload).unwrap(), envelope);
}

/// Proves: Q-15
#[test]
fn a_tick_is_a_cloud_event_as_well_and_nothing_that_anybody_takes_for_work() {
    let tick = Tick { kind: Kind::Server, every_seconds: Some(1800) };
    let encoded = tick.encode("/weir/watch-publisher").unwrap();
    let headers: BTreeMap<String, String> =
        encoded.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-source", "/weir/watch-publisher"),
        ("ce-type", "weir.tick.v1"),
        ("ce-subject", "server"),
        ("ce-dataschema", "urn:weir:queue-schemas:tick.v1"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(headers[name], value);
    }
    assert!(!headers["ce-id"].is_empty() && headers["ce-time"].parse::<jiff::Timestamp>().is_ok());
    assert_eq!(
        serde_json::from_slice::<Value>(&encoded.payload).unwrap(),
        json!({"kind": "server", "everySeconds": 1800})
    );
    let earlier: Tick = serde_json::from_value(json!({"kind": "server", "later": 1})).unwrap();
    assert_eq!(
        earlier,
        Tick { kind: Kind::Server, every_seconds: None },
        "one of an earlier release, or of a later one"
    );
    assert_eq!(decode(&headers, &encoded.payload).unwrap_err().token(), "unknown-type");
    assert!(matches!(tick.encode("a\nb"), Err(EncodeError::Header("ce-source"))));
}

/// Proves: Q-18
#[test]
fn only_a_watch_event_has_a_message_id_and_it_is_uid_and_resource_version() {
    assert_eq!(work().message_id().as_deref(), Some("0a1b/42"));
    assert_eq!(work().again(Cause::Requeued, 0).message_id(), None);
    assert_eq!(Work { cause: Cause::Retry, ..work() }.message_id(), None, "not even when it knows both");
    assert_eq!(Work::new(work().object, Cause::Changed).message_id(), None);
}

/// Proves: Q-10
#[test]
fn each_kind_of_hopeless_message_has_its_reason() {
    let good = headers(&Envelope::new("/test", work(), None));
    let body = serde_json::to_vec(&work()).unwrap();
    let with = |name: &str, value: Option<&str>| {
        let mut changed = good.clone();
        match value {
            Some(value) => changed.insert(name.to_owned(), value.to_owned()),
            None => changed.remove(name),
        };
        decode(&changed, &body).unwrap_err()
    };
    let object = |kind: &str, name: &str| {
        let body = json!({ "object": { "kind": kind, "namespace": "ns", "name": name }, "cause": "changed" });
        decode(&good, body.to_string().as_bytes()).unwrap_err()
    };
    for (error, token) in [
        (with("ce-specversion", None), "missing-header"),
        (with("ce-id", None), "missing-header"),
        (with("ce-specversion", Some("0.3")), "specversion"),
        (with("ce-type", Some("weir.work.v2")), "future-version"),
        (with("ce-type", Some("weir.work.v0")), "unknown-type"),
        (with("ce-type", Some("weir.workv1")), "unknown-type"),
        (with("ce-type", Some("weir.play.v1")), "unknown-type"),
        (with("ce-source", Some(&"x".repeat(2000))), "header-too-long"),
        (with("content-type", Some("text/plain")), "content-type"),
        (object("planet", "earth"), "unknown-kind"),
        (object("server", "../etc"), "bad-object"),
        (decode(&good, b"{").unwrap_err(), "bad-json"),
        (decode(&good, b"[]").unwrap_err(), "bad-json"),
        (decode(&good, &vec![b' '; envelope::MAX_PAYLOAD + 1]).unwrap_err(), "too-large"),
    ] {
        assert_eq!(error.token(), token, "{error}");
    }
    assert!(with("ce-type", Some("weir.work.v7")).to_string().contains('7'), "the version is named");
}

/// Proves: Q-10
#[test]
fn a_message_on_the_subject_of_another_object_is_refused() {
    let envelope = Envelope::new("/test", work(), None);
    let (headers, body) = (headers(&envelope), envelope.encode().unwrap().payload);
    let on = |subject: &str| Envelope::decode_on(subject, |name| headers.get(name).map(String::as_str), &body);
    let own = subject::work(Lane::Routine, &work().object).unwrap();
    assert_eq!(on(&own).unwrap().0, Lane::Routine);
    for (other, token) in [
        ("work.urgent.server.team-a.web", "wrong-subject"),
        ("work.urgent.network.team-a.web~1", "wrong-subject"),
        ("timer.server.team-a.web~1", "wrong-subject"),
        ("elsewhere", "bad-object"),
    ] {
        assert_eq!(on(other).unwrap_err().token(), token, "{other}");
    }
}

#[test]
fn a_bad_trace_or_time_does_not_keep_work_from_being_done() {
    let mut headers = headers(&Envelope::new("/test", work(), None));
    headers.insert("traceparent".to_owned(), "00-0-0-0".to_owned());
    headers.insert("ce-time".to_owned(), "yesterday".to_owned());
    let read = decode(&headers, &serde_json::to_vec(&work()).unwrap()).unwrap();
    assert_eq!((read.traceparent, read.time), (None, None));
}

#[test]
fn nothing_that_would_break_a_header_is_sent() {
    let mut envelope = Envelope::new("/test\r\nNats-Rollup: all", work(), None);
    assert!(matches!(envelope.encode(), Err(EncodeError::Header("ce-source"))));
    envelope.source = "/test".to_owned();
    envelope.id = "x".repeat(5000);
    assert!(matches!(envelope.encode(), Err(EncodeError::Header("ce-id"))));
    envelope.id = "1".to_owned();
    envelope.work.object.name = "a b".to_owned();
    assert!(matches!(envelope.encode(), Err(EncodeError::Object(_))));
}

/// Proves: Q-16
#[test]
fn messages_of_the_previous_release_and_of_the_next_are_understood() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let mut read = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let fixture: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let headers: BTreeMap<String, String> = serde_json::from_value(fixture["headers"].clone()).unwrap();
        let (_, envelope) = Envelope::decode_on(
            fixture["subject"].as_str().unwrap(),
            |name| headers.get(name).map(String::as_str),
            fixture["payload"].to_string().as_bytes(),
        )
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let understood = &fixture["understood"];
        assert_eq!(envelope.work.object.to_string(), understood["object"].as_str().unwrap(), "{}", path.display());
        assert_eq!(envelope.work.cause.token(), understood["cause"].as_str().unwrap(), "{}", path.display());
        assert_eq!(u64::from(envelope.work.attempt), understood["attempt"].as_u64().unwrap(), "{}", path.display());
        read += 1;
    }
    assert!(read >= 4, "only {read} fixtures");
}

proptest! {
    #[test]
    fn decoding_never_panics(name in ".{0,20}", value in ".{0,40}", body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let good = headers(&Envelope::new("/test", work(), None));
        let lookup = |wanted: &str| if wanted == name { Some(value.as_str()) } else { good.get(wanted).map(String::as_str) };
        let _ = Envelope::decode(lookup, &body);
    }

    #[test]
    fn a_traceparent_that_parses_is_written_back_the_same(text in "00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", junk in ".{0,60}") {
        if let Ok(parsed) = text.parse::<Traceparent>() {
            prop_assert_eq!(parsed.to_string(), text);
        }
        let _ = junk.parse::<Traceparent>();
    }
}

#[test]
fn a_traceparent_is_refused_as_the_standard_says() {
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    good.parse::<Traceparent>().unwrap();
    format!("01{}-more", &good[2..]).parse::<Traceparent>().expect("later versions may append");
    for bad in [
        "",
        &good[..54],
        &good.to_uppercase(),
        &format!("{good}-more"),
        &format!("ff{}", &good[2..]),
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-+7ad6b7169203331-01",
    ] {
        bad.parse::<Traceparent>().expect_err(bad);
    }
}

#[test]
fn the_version_in_the_type_and_in_the_schema_are_one() {
    assert_eq!(work::SCHEMA, format!("work.v{}", work::VERSION));
}
