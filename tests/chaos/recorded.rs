//! A storm whose calls are all recorded: each is decided again, offline, from its recording, to the byte.
//!
//! What a killed process had not stored yet is not there, and cannot be replayed; the test says how many calls were made and how
//! many are recorded. A call that was cut short, because its process was paused for longer than its lease or its time was up, is
//! recorded up to there, and run again up to there.

use crate::storm::{Deed, Field, Storm, Victim};
use crate::{CALM, GROUP, IDENTITY, NETWORK, faults};
use base64::Engine as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use weir_api::Kind;
use weir_function_runtime::record::past::Past;
use weir_function_runtime::record::replay::{Replay, replay, replay_handler};
use weir_function_runtime::record::tap;
use weir_harness::{Dice, Stack, world};
use weir_messages::Recording;
use weir_messages::recording::ALL;

const SERVERS: u64 = 8;
/// How long the storm lasts.
const STORM: Duration = Duration::from_secs(8);

fn servers(stack: &Stack) -> Vec<Value> {
    let user_data =
        base64::engine::general_purpose::STANDARD.encode("#!/bin/sh\nlogin --password staple-battery-4711\n");
    let server = |i| {
        let mut server = stack.server(&format!("b0000000-0000-4000-8000-0000000002{i:02}"), IDENTITY, NETWORK, GROUP);
        server["spec"]["userData"] = json!(user_data);
        server
    };
    (0..SERVERS).map(server).collect()
}

async fn again(recording: &Recording) -> Replay {
    match recording.object().kind {
        Kind::Region => replay(weir_region::Regions, recording, None).await,
        Kind::Identity => replay(weir_identity::Identities, recording, None).await,
        Kind::Network => replay(weir_network::Networks, recording, None).await,
        Kind::SecurityGroup => replay(weir_security_group::SecurityGroups, recording, None).await,
        Kind::ServerMonitor => replay_handler(weir_server_monitor::Monitor::replayed, recording, None).await,
        _ => replay(weir_server::Servers, recording, None).await,
    }
    .unwrap()
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_call_of_a_storm_is_decided_again_to_the_byte() {
    let _ = tracing_subscriber::registry().with(tap()).try_init();
    let mut dice = Dice::from_environment();
    let environment = [
        ("WEIR_LEASE_TTL", "3s"),
        ("WEIR_WATCH_SECONDS", "5"),
        ("WEIR_STRAY_AFTER", "5s"),
        ("WEIR_MONITOR_SECONDS", "2"),
        ("WEIR_RECORD", "all"),
    ];
    let mut field = Field::start(&environment).await;
    let (stack, servers) = (&field.stack, servers(&field.stack));
    let mut objects = vec![stack.secret(|_| {}), stack.region(None), world::identity(IDENTITY)];
    objects.extend([world::network(NETWORK, IDENTITY), world::security_group(GROUP, IDENTITY)]);
    objects.extend(servers.clone());
    let image = stack.bootstrap()["images"][1]["id"].clone();
    let cluster = stack.cluster.clone();
    let changing = async {
        for object in &objects {
            cluster.apply(object).await;
        }
        for server in servers.iter().take(3) {
            cluster.merge(server, &json!({"spec": {"image": {"id": image}}})).await;
        }
        cluster.delete(&servers[3]).await;
    };
    let raging = async {
        faults::begin(&field.stack, &mut dice).await;
        let mut storm = Storm::new(&mut dice, STORM, field.stack.functions.len());
        while let Some(deed) = storm.next(&mut field).await {
            if deed == (Victim::KubeSim, Deed::Start) {
                faults::begin_in_kubernetes(&field.stack, &mut dice).await;
            }
        }
        faults::end(&field.stack).await;
    };
    tokio::join!(changing, raging);
    let stack = &field.stack;
    let many = objects.len() - 2;
    stack.eventually(CALM, "what is left is available", async || stack.cluster.available().await == (many, many)).await;
    for object in objects.iter().rev() {
        stack.cluster.delete(object).await;
    }
    stack.eventually(CALM, "nothing is left", async || stack.cluster.available().await.0 == 0).await;
    stack.at_rest().await;

    let mut past = Past::calls(&stack.queue, [ALL.to_owned()], None).await.unwrap();
    let (mut ends, mut recordings) = (BTreeMap::<String, usize>::new(), vec![]);
    while let Some(recording) = past.call().await.unwrap() {
        *ends.entry(recording.outcome.verdict.clone()).or_default() += 1;
        recordings.push(recording);
    }
    let incomplete = recordings.iter().filter(|recording| !recording.complete).count();
    println!("{} calls are recorded, {incomplete} of them not wholly; they ended so: {ends:?}", recordings.len());
    assert!(recordings.len() > 50, "the storm was recorded");
    let mut parted = vec![];
    for recording in &recordings {
        let replay = again(recording).await;
        if !replay.is_faithful() {
            let at = replay.recorded.parts_from(&replay.replayed);
            parted.push(format!(
                "{} {} {:?}\nmissing {:#?}\nparts at {at:?}\nrecorded {:#?}\nreplayed {:#?}\n{}",
                recording.object(),
                recording.id,
                recording.outcome,
                replay.missing,
                replay.recorded,
                replay.replayed,
                serde_json::to_string(recording).unwrap()
            ));
        }
    }
    assert!(
        parted.is_empty(),
        "{} of {} are decided otherwise:\n{}",
        parted.len(),
        recordings.len(),
        parted.join("\n\n")
    );
}
