#![allow(clippy::needless_pass_by_value, clippy::unwrap_used, clippy::panic)]
use super::*;
use serde_json::{Value, json};

fn look(status: &str, launched: Value) -> View {
    let server =
        json!({"id": "s", "status": status, "OS-SRV-USG:launched_at": launched, "OS-EXT-STS:task_state": null});
    View::of(&serde_json::from_value(server).unwrap())
}

fn failed() -> View {
    look("ERROR", Value::Null)
}

fn record(failures: i32) -> Record {
    Record { failures, retrying: false, errored: true, ran: false }
}

/// A status as the rows of the table give it.
fn status(input: &Value) -> ServerStatus {
    let mut conditions = Vec::new();
    if let Some(active) = input["active"].as_str() {
        let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "False", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        conditions.push(condition("Active", active));
        if active == "Error" {
            conditions.push(condition("Healthy", "Errored"));
        }
    }
    let time = |key: &str| if input[key].is_null() { Value::Null } else { json!("2026-01-01T00:00:00Z") };
    serde_json::from_value(json!({
        "conditions": conditions, "providerCreateFailures": input["failures"], "providerCreateRetrying": input["retrying"],
        "launchedAt": time("launchedAt"), "provisionedAt": time("provisionedAt"), "scheduledAt": "2026-01-01T00:00:00Z",
        "macAddress": "<kept>", "privateIP": "10.0.0.4", "publicIP": "192.0.2.4",
    }))
    .unwrap()
}

/// Proves: RTY-1, RTY-2, RTY-3, RTY-5, RTY-6
#[test]
fn an_attempt_that_failed_goes_as_the_table_says() {
    let table: Value = serde_json::from_str(include_str!("../../tests/tables/provider_create_retry.json")).unwrap();
    for case in table["cases"].as_array().unwrap() {
        let (input, expect, name) = (&case["input"], &case["expect"], &case["case"]);
        let mut status = status(input);
        let most = input["max"].as_i64().map_or(ATTEMPTS, |max| i32::try_from(max).unwrap());
        // The calls up to where the row ends; each reads back what the one before has written.
        let (mut deleted, mut outcome) = (false, "complete");
        for _ in 0..4 {
            let server = failed();
            match decide(&Record::of(&status), (!deleted).then_some(&server), most) {
                Step::Count(failures) => {
                    status.provider_create_failures = Some(failures);
                    status.provider_create_retrying = Some(true);
                }
                Step::Delete => deleted = true,
                Step::Reset => {
                    reset(&mut status);
                    outcome = "yield";
                    break;
                }
                Step::GiveUp(failures) => {
                    status.provider_create_failures = Some(failures);
                    outcome = "terminal";
                    break;
                }
                Step::Proceed | Step::Await | Step::Spare => break,
            }
        }
        if expect.get("isFailure").is_some() {
            assert!(!Record::of(&status).errored, "{name}");
            assert!(!deleted, "{name}");
            continue;
        }
        assert_eq!(outcome, expect["outcome"], "{name}");
        assert_eq!(json!(status.provider_create_failures), expect["failures"], "{name}");
        assert_eq!(json!(status.provider_create_retrying.unwrap_or_default()), expect["retrying"], "{name}");
        assert_eq!(deleted, expect["deleteCalled"].as_bool().unwrap_or_default(), "{name}");
        if expect.get("macAddress").is_some() {
            assert_eq!(status.mac_address.as_deref(), Some("<kept>"), "{name}");
            let forgotten = status.private_ip.is_none() && status.public_ip.is_none();
            assert!(forgotten && status.scheduled_at.is_none() && status.launched_at.is_none(), "{name}");
        }
    }
}

/// Proves: RTY-1, RTY-5
#[test]
fn there_are_exactly_as_many_creates_as_attempts() {
    for most in [-1, 0, 1, 2, 3, 5] {
        let mut record = record(0);
        let (mut server, mut creates) = (None, 0);
        for _ in 0..60 {
            match decide(&record, server.as_ref(), most) {
                Step::Proceed if server.is_none() => {
                    creates += 1;
                    server = Some(failed());
                }
                Step::Count(failures) => {
                    record = Record { failures, retrying: true, ..record };
                }
                Step::Delete => server = None,
                Step::Reset => record.retrying = false,
                Step::GiveUp(failures) => {
                    assert_eq!(failures, most.max(1));
                    record.failures = failures;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(creates, most.max(1));
        // An operator removes it by hand: that is no attempt more.
        assert_eq!(decide(&record, None, most), Step::GiveUp(most.max(1)));
        // An operator's reset is.
        record.failures = 0;
        assert_eq!(decide(&record, None, most), Step::Proceed);
    }
}

/// Proves: RTY-2
#[test]
fn anything_that_says_it_has_run_keeps_a_server_alive() {
    for failures in 0..4 {
        for retrying in [false, true] {
            for errored in [false, true] {
                let record = Record { failures, retrying, errored, ran: false };
                let gentle = |step| matches!(step, Step::Proceed | Step::Spare);
                assert!(gentle(decide(&Record { ran: true, ..record }, Some(&failed()), 3)), "{record:?}");
                for launched in [json!("2026-01-01T00:00:00.000000"), json!(""), json!(17)] {
                    assert!(gentle(decide(&record, Some(&look("ERROR", launched)), 3)), "{record:?}");
                }
                for status in ["ACTIVE", "BUILD", "SHUTOFF", "REBUILD", "UNKNOWN", ""] {
                    assert!(gentle(decide(&record, Some(&look(status, Value::Null)), 3)), "{record:?} {status}");
                }
            }
        }
    }
}

/// Proves: RTY-2
#[test]
fn each_trace_of_a_run_in_status_counts() {
    let ran = |change: Value| {
        let mut input = json!({"active": "Error", "failures": 0});
        input.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        Record::of(&status(&input)).ran
    };
    assert!(!ran(json!({})));
    assert!(ran(json!({"launchedAt": "T"})));
    assert!(ran(json!({"provisionedAt": "T"})));
    for active in ["Running", "Stopping", "Stopped"] {
        assert!(ran(json!({ "active": active })), "{active}");
    }
    for active in ["Pending", "Queued", "Building", "Rebuilding", "Error"] {
        assert!(!ran(json!({ "active": active })), "{active}");
    }
}

/// Proves: RTY-3
#[test]
fn a_failure_that_the_monitor_has_not_told_is_waited_for() {
    let unseen = Record { errored: false, ..record(0) };
    assert_eq!(decide(&unseen, Some(&failed()), 3), Step::Await);
    assert_eq!(decide(&record(0), Some(&look("BUILD", Value::Null)), 3), Step::Proceed, "a fresh look decides");
}

/// Proves: RTY-5
#[test]
fn nothing_is_deleted_that_was_not_counted_in_an_earlier_call() {
    for failures in 0..3 {
        assert_ne!(decide(&record(failures), Some(&failed()), 3), Step::Delete);
    }
    assert_eq!(decide(&Record { retrying: true, ..record(1) }, Some(&failed()), 3), Step::Delete);
}
