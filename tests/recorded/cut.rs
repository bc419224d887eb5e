//! Calls that are cut short are run again to where they were cut, and no further.

use std::time::{Duration, Instant};

use weir_api::{Kind, ObjectRef};
use weir_function_runtime::worker::Call;
use weir_harness::{World, world};
use weir_messages::recording::Entry;
use weir_messages::{Cause, Recording, Work};
use weir_openstack_sim::{Action, Fault};

use crate::must_replay;
use crate::studio::{GROUP, IDENTITY, Studio};

/// Longer than anybody waits here.
const FOR_EVER: u64 = 600_000;

async fn studio() -> Studio {
    let mut studio = Studio::open().await;
    studio.world.apply(&world::identity(IDENTITY)).await;
    studio.settle(Kind::Identity, IDENTITY).await;
    studio.world.apply(&world::security_group(GROUP, IDENTITY)).await;
    studio.recorded();
    studio
}

fn call() -> Call {
    Call::direct(Work::new(ObjectRef::new(Kind::SecurityGroup, World::NAMESPACE, GROUP), Cause::Changed))
}

fn stopped_by(recording: &Recording) -> Vec<&str> {
    let stops = recording.entries.iter().filter_map(|entry| match entry {
        Entry::Stopped { by, .. } => Some(by.as_str()),
        _ => None,
    });
    stops.collect()
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_ended_while_it_waits_for_an_answer_is_run_again_to_there() {
    let mut studio = studio().await;
    studio
        .world
        .cloud
        .faults()
        .add(Fault::new(Action::Latency(FOR_EVER)).on("POST", "/security-group-rules$"))
        .unwrap();
    let (function, call) = (studio.function(Kind::SecurityGroup, studio.recorder.clone()), call());
    tokio::select! {
        verdict = function.handle(&call) => panic!("it has not waited: {verdict:?}"),
        // Until it waits for the first rule; then it is dropped, as when its lease is lost or its time is up. What it waits for does
        // not show before it is answered, so this may be a little before: that is cut short too.
        () = async {
            let requests = || studio.world.cloud.requests();
            while !requests().iter().any(|r| r.method == "POST" && r.path.ends_with("/security-groups")) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        } => {}
    }
    let recording = studio.recorded().remove(0);
    assert_eq!(recording.outcome.verdict, "ended");
    must_replay(&recording).await;
}

/// Proves: L-4, R-3
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_out_of_time_or_patience_is_decided_as_it_was() {
    let mut studio = studio().await;
    let function = studio.function(Kind::SecurityGroup, studio.recorder.clone());
    // No write is let through any more.
    let late = Call { deadline: Instant::now(), ..call() };
    function.handle(&late).await;
    let recording = studio.recorded().remove(0);
    assert_eq!(stopped_by(&recording), ["time-up"], "{:?}", recording.outcome);
    must_replay(&recording).await;
    // An answer does not come, and is given up.
    studio.world.cloud.faults().add(Fault::new(Action::Latency(FOR_EVER)).on("POST", "/security-groups$")).unwrap();
    let soon = Instant::now() + Duration::from_secs(2);
    let short = Call { deadline: soon, end: soon + Duration::from_secs(2), ..call() };
    function.handle(&short).await;
    let recording = studio.recorded().remove(0);
    assert_eq!(stopped_by(&recording), ["no-answer"], "{:?}", recording.outcome);
    must_replay(&recording).await;
}
