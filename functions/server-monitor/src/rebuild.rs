//! The monitor's part in a change of image: how far it is, as far as the cloud shows it (RBD-9). Pure.
//!
//! Invariants
//! - A state only goes forward, and an end is an end: whatever is seen late, or twice, takes nothing back (RBD-3).
//! - The marker is never made, cleared or given another target here.
//! - Nothing is concluded for a marker at `Initiated` unless Nova reports its target: an advance that no acceptance stands
//!   behind would let the server function take its own request for done, or ask a second time.
//!
//! Caveat: `view` must have been read after `marker`, and the advance written at the marker's resource version. A view from
//! before may show the target from an earlier change towards the same image.

use weir_api::crd::{Rebuild, RebuildState};
use weir_provider::server::{Activity, Place, View};

/// The state to advance a marker to, if there is one that is further.
pub fn advance(marker: &Rebuild, view: &View) -> Option<RebuildState> {
    let under_way = marker.state == RebuildState::Rebuilding;
    let seen = match view.place(&marker.target_image_id) {
        Place::On if view.is_error() => RebuildState::Failed,
        Place::On if view.activity == Activity::Busy => RebuildState::Rebuilding,
        Place::On if view.is_converged(&marker.target_image_id) => RebuildState::Succeeded,
        // It was accepted, and cannot arrive any more.
        Place::Off if under_way && (view.is_error() || view.activity == Activity::Quiet) => RebuildState::Failed,
        Place::Unreadable if under_way && view.is_error() => RebuildState::Failed,
        _ => return None,
    };
    (rank(seen) > rank(marker.state)).then_some(seen)
}

const fn rank(state: RebuildState) -> u8 {
    match state {
        RebuildState::Initiated => 1,
        RebuildState::Rebuilding => 2,
        RebuildState::Succeeded | RebuildState::Failed => 3,
        // It may be any of them, so nothing is further.
        RebuildState::Unknown => u8::MAX,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    const TARGET: &str = "22222222-2222-4222-a222-222222222222";
    const OTHER: &str = "11111111-1111-4111-a111-111111111111";

    fn view(status: &str, image: &Value, task: &Value) -> View {
        let server = json!({"id": "s", "status": status, "image": {"id": image}, "OS-EXT-STS:task_state": task});
        View::of(&serde_json::from_value(server).unwrap())
    }

    fn marker(state: RebuildState) -> Rebuild {
        Rebuild { target_image_id: TARGET.into(), state }
    }

    /// Proves: RBD-3, RBD-9
    #[test]
    fn a_marker_advances_as_the_table_says() {
        let table: Value = serde_json::from_str(include_str!("../tests/tables/rebuild_advance.json")).unwrap();
        for case in table["cases"].as_array().unwrap() {
            let nova = &case["input"]["nova"];
            let task = if nova["task_state"] == "" { &Value::Null } else { &nova["task_state"] };
            let marker: Rebuild = serde_json::from_value(case["input"]["marker"].clone()).unwrap();
            let after = advance(&marker, &view(nova["status"].as_str().unwrap(), &nova["imageRef"], task));
            assert_eq!(json!(after.unwrap_or(marker.state)), case["expect"]["state"], "{}", case["case"]);
        }
    }

    /// Proves: RBD-9
    #[test]
    fn the_rows_that_the_table_leaves_out_follow_from_its_rules() {
        use RebuildState::{Failed, Initiated, Rebuilding, Succeeded};
        let (on, off, none) = (json!(TARGET), json!(OTHER), Value::Null);
        let (busy, quiet, untold) = (json!("rebuild_spawning"), Value::Null, json!(""));
        for (state, status, image, task, expected) in [
            (Initiated, "ACTIVE", &on, &busy, Some(Rebuilding)),
            (Initiated, "REBUILD", &on, &quiet, Some(Rebuilding)),
            (Initiated, "SHUTOFF", &on, &quiet, Some(Succeeded)),
            (Rebuilding, "SHUTOFF", &on, &quiet, Some(Succeeded)),
            (Rebuilding, "ERROR", &on, &busy, Some(Failed)),
            (Rebuilding, "SHUTOFF", &on, &busy, None),
            (Rebuilding, "RESIZE", &on, &quiet, None),
            (Rebuilding, "ACTIVE", &on, &untold, None),
            (Rebuilding, "ACTIVE", &off, &untold, None),
            (Rebuilding, "ERROR", &off, &busy, Some(Failed)),
            (Rebuilding, "ACTIVE", &off, &busy, None),
            (Initiated, "ACTIVE", &off, &quiet, None),
            (Initiated, "ACTIVE", &off, &busy, None),
            (Initiated, "ERROR", &none, &quiet, None),
            (Initiated, "ACTIVE", &none, &quiet, None),
            (RebuildState::Unknown, "ACTIVE", &on, &quiet, None),
            (RebuildState::Unknown, "ERROR", &on, &quiet, None),
        ] {
            assert_eq!(
                advance(&marker(state), &view(status, image, task)),
                expected,
                "{state:?} {status} {image} {task}"
            );
        }
    }

    proptest! {
        /// Proves: RBD-3, RBD-9
        #[test]
        fn whatever_is_seen_a_state_only_goes_forward_and_no_end_is_taken_back(
            state in proptest::sample::select(vec![
                RebuildState::Initiated, RebuildState::Rebuilding, RebuildState::Succeeded, RebuildState::Failed,
            ]),
            status in proptest::sample::select(vec!["ACTIVE", "SHUTOFF", "ERROR", "REBUILD", "BUILD", "DELETED", "NEW"]),
            image in proptest::sample::select(vec![json!(TARGET), json!(OTHER), Value::Null]),
            task in proptest::sample::select(vec![Value::Null, json!("rebuilding"), json!("")]),
        ) {
            let view = view(status, &image, &task);
            if let Some(after) = advance(&marker(state), &view) {
                prop_assert!(rank(after) > rank(state));
                prop_assert!(state != RebuildState::Initiated || image == json!(TARGET));
                prop_assert!(after != RebuildState::Succeeded || view.is_converged(&TARGET.into()));
                prop_assert_eq!(advance(&marker(after), &view).filter(|_| rank(after) == 3), None);
            }
        }
    }
}
