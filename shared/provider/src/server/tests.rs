#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]
use super::*;
use serde_json::{Value, json};

fn cases(table: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(table).unwrap()["cases"].as_array().unwrap().clone()
}

fn view(server: Value) -> View {
    View::of(&serde_json::from_value(server).unwrap())
}

fn target() -> ImageId {
    ImageId::from("22222222-2222-4222-a222-22222222222b")
}

/// Proves: MON-4
#[test]
fn health_is_what_the_table_says() {
    for case in cases(include_str!("../../tests/tables/health_mapping.json")) {
        let status = case["input"]["novaStatus"].as_str().map(ServerStatus::from);
        let (health, message) = health(status.as_ref());
        let shown = json!({"status": health.truth().as_str(), "reason": health.as_str(), "message": message});
        assert_eq!(shown, case["expect"]["healthy"], "{}", case["case"]);
    }
}

/// Proves: MON-4, OWN-5
#[test]
fn a_status_that_is_not_known_is_named_as_far_as_it_may_be_shown() {
    let named = |text: &str| health(Some(&ServerStatus::from(text)));
    assert_eq!(named("NEW_STATE").1, "server is in state NEW_STATE");
    assert_eq!(named("x\n<script>y").1, "server is in state XSCRIPTY");
    assert_eq!(named(&"A".repeat(500)).1.len(), "server is in state ".len() + 32);
    assert_eq!(named("").0, Health::Unknown);
    assert_eq!(named("<>").0, Health::Unknown);
}

/// Proves: MON-5
#[test]
fn what_a_server_does_is_what_the_table_says() {
    for case in cases(include_str!("../../tests/tables/active_mapping.json")) {
        let input = &case["input"];
        let view = input["nova"]["status"].as_str().map(|status| {
            let power = match input["nova"]["power"].as_str().unwrap_or("NOSTATE") {
                "RUNNING" => 1,
                "PAUSED" => 3,
                "SHUTDOWN" => 4,
                _ => 0,
            };
            view(json!({"id": "s", "status": status, "OS-EXT-STS:power_state": power}))
        });
        let building = if input["ironic"] == "available" { Active::Queued } else { Active::Building };
        let prior = input["prior"].as_str().and_then(Active::parse);
        assert_eq!(activity(view.as_ref(), building, prior).as_str(), case["expect"]["active"], "{}", case["case"]);
    }
}

/// Proves: MON-5
#[test]
fn what_the_table_leaves_out_follows_from_its_order() {
    let doing = |status: &str, power: u8, prior| {
        let view = view(json!({"id": "s", "status": status, "OS-EXT-STS:power_state": power}));
        activity(Some(&view), Active::Building, prior)
    };
    for power in 0..8 {
        assert_eq!(doing("ERROR", power, Some(Active::Running)), Active::Error);
        assert_eq!(doing("BUILD", power, Some(Active::Running)), Active::Building);
        assert_eq!(doing("REBUILD", power, Some(Active::Running)), Active::Rebuilding);
        let by_power = match power {
            1 => Active::Running,
            4 => Active::Stopped,
            _ => Active::Stopping,
        };
        for status in ["ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED", "NEW"] {
            assert_eq!(doing(status, power, Some(Active::Stopping)), by_power, "{status} {power}");
        }
    }
    assert_eq!(doing("ACTIVE", 6, None), Active::Pending);
    assert_eq!(activity(None, Active::Building, Some(Active::Running)), Active::Running);
}

/// Proves: RBD-6
#[test]
fn only_an_image_that_is_read_is_on_or_off_a_target() {
    let place = |image: Value| view(json!({"id": "s", "image": image})).place(&target());
    assert_eq!(place(json!({"id": "22222222-2222-4222-a222-22222222222b"})), Place::On);
    assert_eq!(place(json!({"id": "22222222-2222-4222-A222-22222222222B"})), Place::On);
    assert_eq!(place(json!({"id": "11111111-1111-4111-a111-111111111111"})), Place::Off);
    for unreadable in [json!(null), json!(""), json!({}), json!({"id": null}), json!(7)] {
        assert_eq!(place(unreadable.clone()), Place::Unreadable, "{unreadable}");
    }
}

/// Proves: RBD-7
#[test]
fn a_server_has_converged_only_at_rest_on_the_target_in_a_stable_status() {
    let server = |status: &str, task: Value| {
        view(json!({"id": "s", "status": status, "image": {"id": target()}, "OS-EXT-STS:task_state": task}))
    };
    for status in ["ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED", "RESCUE", "SHELVED", "VERIFY_RESIZE"] {
        assert!(server(status, json!(null)).is_converged(&target()), "{status}");
        assert!(!server(status, json!("rebuild_spawning")).is_converged(&target()), "{status} at work");
        assert!(!server(status, json!("")).is_converged(&target()), "{status}, tasks hidden");
    }
    for status in ["ERROR", "REBUILD", "BUILD", "RESIZE", "REBOOT", "DELETED", "SOFT_DELETED", "UNKNOWN", "", "NEW"] {
        assert!(!server(status, json!(null)).is_converged(&target()), "{status}");
    }
    assert_eq!(server("REBUILD", json!(null)).activity, Activity::Busy, "the status tells of the task");
    let hidden = view(json!({"id": "s", "status": "ACTIVE", "image": {"id": target()}}));
    assert_eq!((hidden.activity, hidden.booted), (Activity::Untold, Booted::Untold));
    assert!(!hidden.is_converged(&target()));
}

/// Proves: RBD-8
#[test]
fn an_accepted_rebuild_shows_as_one_whatever_was_shown_before() {
    let now = Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    let mut conditions = Vec::new();
    show(&mut conditions, (Health::Healthy, "server is healthy"), Active::Running, Some(1), &now);
    assert!(show_accepted(&mut conditions, Some(2), &now));
    assert!(!show_accepted(&mut conditions, Some(2), &now), "said twice is said once");
    let said: Vec<_> = conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str())).collect();
    assert_eq!(said, [("Healthy", "False", "Provisioning"), ("Active", "False", "Rebuilding")]);
}
