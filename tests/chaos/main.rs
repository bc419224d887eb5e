//! Everything at once goes wrong: every process is killed, again and again, at random moments, while both APIs fail at
//! random; and still everything that was asked for comes about once, and goes again without a rest.
//!
//! `WEIR_CHAOS_SEED` runs a run's plan again (a test prints its seed). `WEIR_CHAOS_SECONDS` lets the storm last longer; run
//! it with `cargo test -p weir-tests --test chaos -- --nocapture` then, since nextest ends a test after some minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod storm;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use storm::{Storm, Victim};
use weir_harness::{Dice, Stack, world};

const SERVERS: u64 = 50;
const IDENTITY: &str = "identity-a";
const NETWORK: &str = "b0000000-0000-4000-8000-00000000000a";
const GROUP: &str = "b0000000-0000-4000-8000-00000000000b";

/// How long the storm lasts while things are made, and again while they are deleted.
const STORM: Duration = Duration::from_secs(10);
/// How long things may take once the storm is over. What had failed most often waits longest, since each failure doubles the
/// wait; far less than the safety net, so that a lost event would show.
const CALM: Duration = Duration::from_secs(100);

/// What the cloud holds of each kind when all is well, apart from what an identity consists of beside its project.
const MADE: [(&str, u64); 8] = [
    ("projects", 1),
    ("users", 1),
    ("networks", 1),
    ("subnets", 1),
    ("routers", 1),
    ("security_groups", 1),
    ("ports", SERVERS),
    ("servers", SERVERS),
];

fn everything(stack: &Stack) -> Vec<Value> {
    let mut objects = vec![stack.secret(|_| {}), stack.region(None), world::identity(IDENTITY)];
    objects.push(world::network(NETWORK, IDENTITY));
    objects.push(world::security_group(GROUP, IDENTITY));
    let server = |i| stack.server(&format!("b0000000-0000-4000-8000-0000000001{i:02}"), IDENTITY, NETWORK, GROUP);
    objects.extend((0..SERVERS).map(server));
    objects
}

/// How many cycles of making and deleting the storm goes through.
fn cycles() -> u64 {
    let seconds: u64 = std::env::var("WEIR_CHAOS_SECONDS").map_or(0, |text| text.parse().expect("a number of seconds"));
    (seconds / (2 * STORM.as_secs())).max(1)
}

/// Proves, W-3, IDN-3, SRV-2, SRV-11, SRV-12, OWN-7, OWN-8
#[tokio::test(flavor = "multi_thread")]
async fn everything_is_made_once_and_goes_without_a_rest_while_every_process_is_killed_and_both_apis_fail() {
    let mut dice = Dice::from_environment();
    // Leases that end soon let more happen in the same time, and a watch that hangs is noticed soon too. A queue's server that
    // was killed may have a message again that it had removed, which nobody takes any more: that is swept up soon as well.
    let hurry = [("WEIR_LEASE_TTL", "3s"), ("WEIR_WATCH_SECONDS", "5"), ("WEIR_STRAY_AFTER", "5s")];
    let mut stack = Stack::start_with(&hurry).await;
    for cycle in 0..cycles() {
        let mut objects = everything(&stack);
        dice.shuffle(&mut objects);
        stack.forget().await;
        let began = Instant::now();
        let cluster = stack.cluster.clone();
        let applying = async {
            for object in &objects {
                cluster.apply(object).await;
            }
        };
        tokio::join!(applying, weather(&mut stack, &mut dice));
        let many = objects.len() - 1;
        let what = format!("all {many} objects are available after the storm");
        stack.eventually(CALM, &what, async || stack.cluster.available().await == (many, many)).await;
        println!("cycle {cycle}: made within {:?}", began.elapsed());
        made_once(&stack).await;
        second_pass_writes_nothing(&stack).await;

        dice.shuffle(&mut objects);
        let began = Instant::now();
        let cluster = stack.cluster.clone();
        let deleting = async {
            for object in &objects {
                cluster.delete(object).await;
            }
        };
        tokio::join!(deleting, weather(&mut stack, &mut dice));
        stack.eventually(CALM, "nothing is left in Kubernetes", async || stack.cluster.available().await.0 == 0).await;
        println!("cycle {cycle}: gone within {:?}", began.elapsed());
        for plural in ["openstackidentities", "vlanallocations"] {
            assert!(stack.cluster.records(plural).await.is_empty(), "{plural} are left");
        }
        assert!(stack.cluster.get(&stack.secret(|_| {})).await.is_none(), "the Secret is stuck");
        assert_eq!(stack.made().await, BTreeMap::new(), "something is left in the cloud");
    }
}

/// A storm, and then none. Afterwards every process runs.
async fn weather(stack: &mut Stack, dice: &mut Dice) {
    faults::begin(stack, dice).await;
    let mut storm = Storm::new(dice, STORM);
    while let Some(victim) = storm.next(stack).await {
        // A simulated API that was killed has forgotten what it was to do wrong.
        if victim == Victim::KubeSim {
            faults::begin_in_kubernetes(stack, dice).await;
        }
    }
    let struck = faults::end(stack).await;
    println!("{} processes were killed; faults struck {struck} times", storm.kills());
    // Fewer than planned, since some were down when their turn came; and whoever is down makes no calls that could fail.
    assert!(storm.kills() > 15 && struck > 0, "the storm must be one");
    stack.ready().await;
}

/// Nothing is there twice, and nothing ever was.
async fn made_once(stack: &Stack) {
    let made = stack.made().await;
    for (kind, many) in MADE {
        assert_eq!(made.get(kind), Some(&many), "{kind}: {made:?}\n{}", stack.report().await);
    }
    let writes = stack.cloud_writes().await;
    for (path, many) in [
        ("/compute/v2.1/servers", SERVERS),
        ("/network/v2.0/ports", SERVERS),
        ("/network/v2.0/networks", 1),
        ("/network/v2.0/subnets", 1),
        ("/network/v2.0/routers", 1),
        ("/network/v2.0/security-groups", 1),
        ("/identity/v3/projects", 1),
        ("/identity/v3/users", 1),
    ] {
        let creations = writes.iter().filter(|write| write["method"] == "POST" && write["path"] == path).count();
        assert_eq!(creations as u64, many, "creations at {path}");
    }
}

async fn second_pass_writes_nothing(stack: &Stack) {
    stack.at_rest().await;
    stack.forget().await;
    stack.look_again(&stack.cluster.objects().await).await;
    assert_eq!(stack.kubernetes_writes().await, json!({}), "a second pass writes nothing to Kubernetes");
    assert_eq!(stack.cloud_writes().await, [Value::Null; 0], "a second pass writes nothing to the cloud");
}
