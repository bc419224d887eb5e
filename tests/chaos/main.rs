//! Everything at once goes wrong, and still everything that was asked for comes about once, and goes again without a rest.
//!
//! Each function has two processes. All of them, the queue's server and the Kubernetes API are killed, again and again, at
//! random moments, and stopped for longer than a lease lives while their connections stay open; the way of each process to
//! the queue is cut, slow, refused or swallows everything; both APIs fail at random. Meanwhile things are made, changed,
//! rebuilt, replaced and deleted.
//!
//! A run goes through as many rounds of that as fit into `WEIR_CHAOS_SECONDS` (two minutes unless it is set), one at least:
//! `WEIR_CHAOS_SECONDS=600 ./weir test -p weir-tests --test chaos --no-capture` is a long one. A run prints its seed;
//! `WEIR_CHAOS_SEED` makes the same plan again.
//!
//! Caveat: a process that is stopped between its last look at its lease and the request that it was about to make will make
//! it when it goes on, for no OpenStack service knows fencing tokens. That is a fraction of a millisecond per request.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod recorded;
mod storm;

use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};
use storm::{Deed, Field, Storm, Victim};
use weir_api::Kind;
use weir_harness::cluster::KINDS;
use weir_harness::{Cluster, Dice, Stack, world};

const SERVERS: u64 = 50;
/// Every so many servers one gets another image, and another one is replaced by a new one of its name.
const EVERY: usize = 5;
const IDENTITY: &str = "identity-a";
const NETWORK: &str = "b0000000-0000-4000-8000-00000000000a";
const GROUP: &str = "b0000000-0000-4000-8000-00000000000b";

/// How long a run is.
const LENGTH: Duration = Duration::from_secs(120);
/// How long each storm lasts: while things are made, while they are changed, while they are deleted.
const STORM: Duration = Duration::from_secs(15);
/// How long things may take once the storm is over. What had failed most often waits longest, since each failure doubles the
/// wait; far less than the safety net, so that a lost event would show.
const CALM: Duration = Duration::from_secs(120);

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

fn servers(stack: &Stack) -> Vec<Value> {
    let server = |i| stack.server(&format!("b0000000-0000-4000-8000-0000000001{i:02}"), IDENTITY, NETWORK, GROUP);
    (0..SERVERS).map(server).collect()
}

fn everything(stack: &Stack) -> Vec<Value> {
    let mut objects = vec![stack.secret(|_| {}), stack.region(None), world::identity(IDENTITY)];
    objects.push(world::network(NETWORK, IDENTITY));
    objects.push(world::security_group(GROUP, IDENTITY));
    objects.extend(servers(stack));
    objects
}

fn length() -> Duration {
    std::env::var("WEIR_CHAOS_SECONDS").map_or(LENGTH, |text| Duration::from_secs(text.parse().expect("seconds")))
}

/// Proves, W-3, W-4, IDN-3, SRV-2, SRV-11, SRV-12, OWN-7, OWN-8, RBD-5
#[tokio::test(flavor = "multi_thread")]
async fn everything_is_made_changed_and_deleted_once_while_every_process_is_killed_or_cut_off_and_both_apis_fail() {
    let mut dice = Dice::from_environment();
    // Leases that end soon let more happen in the same time, and a watch that hangs is noticed soon too. A queue's server that
    // was killed may have a message again that it had removed, which nobody takes any more: that is swept up soon as well.
    let hurry = [
        ("WEIR_LEASE_TTL", "3s"),
        ("WEIR_WATCH_SECONDS", "5"),
        ("WEIR_STRAY_AFTER", "5s"),
        ("WEIR_MONITOR_SECONDS", "2"),
    ];
    let mut field = Field::start(&hurry).await;
    let began = Instant::now();
    for round in 0.. {
        make(&mut field, &mut dice).await;
        println!("round {round}: made after {:?}", began.elapsed());
        change(&mut field, &mut dice).await;
        println!("round {round}: changed after {:?}", began.elapsed());
        remove(&mut field, &mut dice).await;
        println!("round {round}: gone after {:?}", began.elapsed());
        // Another one if it fits.
        if began.elapsed() * (round + 2) / (round + 1) > length() {
            break;
        }
    }
}

async fn make(field: &mut Field, dice: &mut Dice) {
    let mut objects = everything(&field.stack);
    dice.shuffle(&mut objects);
    field.stack.forget().await;
    let cluster = field.stack.cluster.clone();
    let applying = async {
        for object in &objects {
            cluster.apply(object).await;
        }
    };
    tokio::join!(applying, weather(field, dice));
    settled(&field.stack, "everything is there after the storm").await;
    made(&field.stack).await;
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
        created(&field.stack, path, many).await;
    }
    second_pass_writes_nothing(&field.stack).await;
}

async fn change(field: &mut Field, dice: &mut Dice) {
    let image = field.stack.bootstrap()["images"][1]["id"].clone();
    let mut servers = servers(&field.stack);
    dice.shuffle(&mut servers);
    let many = servers.len() / EVERY;
    let (replaced, rest) = servers.split_at(many);
    let (rebuilt, _) = rest.split_at(many);
    let mut group = world::security_group(GROUP, IDENTITY);
    let rules = group["spec"]["rules"].as_array_mut().expect("rules");
    rules.push(json!({"direction": "ingress", "protocol": "tcp", "port": {"number": 443}}));
    field.stack.forget().await;
    let cluster = field.stack.cluster.clone();
    let changing = async {
        for server in replaced {
            cluster.delete(server).await;
        }
        for server in rebuilt {
            cluster.merge(server, &json!({"spec": {"image": {"id": image}}})).await;
        }
        cluster.apply(&group).await;
        for server in replaced {
            replace(&cluster, server).await;
        }
    };
    tokio::join!(changing, weather(field, dice));
    settled(&field.stack, "everything is as it was changed after the storm").await;
    made(&field.stack).await;
    for (path, many) in [
        ("/compute/v2.1/servers", many as u64),
        ("/network/v2.0/ports", many as u64),
        ("/network/v2.0/security-group-rules", 1),
        ("/network/v2.0/security-groups", 0),
    ] {
        created(&field.stack, path, many).await;
    }
    let writes = field.stack.cloud_writes().await;
    let rebuilds: Vec<&Value> = writes.iter().filter(|write| write["body"]["rebuild"]["imageRef"] == image).collect();
    let different: HashSet<&str> = rebuilds.iter().filter_map(|write| write["path"].as_str()).collect();
    assert_eq!((rebuilds.len(), different.len()), (many, many), "each was rebuilt once: {rebuilds:#?}");
    second_pass_writes_nothing(&field.stack).await;
}

/// Waits until an object has gone, and applies it anew.
async fn replace(cluster: &Cluster, object: &Value) {
    let began = Instant::now();
    while cluster.get(object).await.is_some() {
        assert!(began.elapsed() < STORM + CALM, "{} does not go", object["metadata"]["name"]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.apply(object).await;
}

async fn remove(field: &mut Field, dice: &mut Dice) {
    let mut objects = everything(&field.stack);
    dice.shuffle(&mut objects);
    let cluster = field.stack.cluster.clone();
    let deleting = async {
        for object in &objects {
            cluster.delete(object).await;
        }
    };
    tokio::join!(deleting, weather(field, dice));
    let stack = &field.stack;
    stack.eventually(CALM, "nothing is left in Kubernetes", async || stack.cluster.available().await.0 == 0).await;
    for plural in ["openstackidentities", "vlanallocations"] {
        assert!(stack.cluster.records(plural).await.is_empty(), "{plural} are left");
    }
    assert!(stack.cluster.get(&stack.secret(|_| {})).await.is_none(), "the Secret is stuck");
    assert_eq!(stack.made().await, BTreeMap::new(), "something is left in the cloud");
    accounted_for(stack).await;
}

/// A storm, and then none. Afterwards every process runs.
async fn weather(field: &mut Field, dice: &mut Dice) {
    faults::begin(&field.stack, dice).await;
    let mut storm = Storm::new(dice, STORM, field.stack.functions.len());
    while let Some(deed) = storm.next(field).await {
        // A simulated API that was killed has forgotten what it was to do wrong.
        if deed == (Victim::KubeSim, Deed::Start) {
            faults::begin_in_kubernetes(&field.stack, dice).await;
        }
    }
    let struck = faults::end(&field.stack).await;
    let Storm { kills, pauses, silences, .. } = storm;
    println!("{kills} kills, {pauses} pauses, {silences} ways disturbed; faults struck {struck} times");
    // Fewer than planned, since some were down when their turn came; and whoever is down makes no calls that could fail.
    assert!(kills > 15 && pauses > 5 && silences > 3 && struck > 0, "the storm must be one");
    field.stack.ready().await;
}

/// Waits until every object is as its spec wants it, and every server runs.
async fn settled(stack: &Stack, what: &str) {
    let many = everything(stack).len() - 1;
    stack
        .eventually(CALM, what, async || {
            let mut objects = vec![];
            for kind in KINDS {
                objects.extend(stack.cluster.list(kind).await.into_iter().map(|object| (kind, object)));
            }
            objects.len() == many && objects.iter().all(|(kind, object)| is_settled(*kind, object))
        })
        .await;
}

fn is_settled(kind: Kind, object: &DynamicObject) -> bool {
    let status = &object.data["status"];
    let is = |condition: &str| {
        let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        conditions.iter().find(|found| found["type"] == condition).filter(|found| found["status"] == "True").cloned()
    };
    let current = |condition: Value| condition["observedGeneration"].as_i64() == object.metadata.generation;
    let going = object.metadata.deletion_timestamp.is_some();
    let runs =
        kind != Kind::Server || (is("Healthy").is_some() && is("Active").is_some() && status["rebuild"].is_null());
    !going && runs && is("Available").is_some_and(current)
}

/// Nothing is there twice.
async fn made(stack: &Stack) {
    let made = stack.made().await;
    for (kind, many) in MADE {
        assert_eq!(made.get(kind), Some(&many), "{kind}: {made:?}\n{}", stack.report().await);
    }
}

/// Nothing ever was there twice, since [`Stack::forget`].
async fn created(stack: &Stack, path: &str, many: u64) {
    let writes = stack.cloud_writes().await;
    let creations: Vec<&Value> = writes.iter().filter(|w| w["method"] == "POST" && w["path"] == path).collect();
    assert_eq!(creations.len() as u64, many, "creations at {path}: {creations:#?}");
}

async fn second_pass_writes_nothing(stack: &Stack) {
    stack.at_rest().await;
    stack.forget().await;
    stack.look_again(&stack.cluster.objects().await).await;
    assert_eq!(stack.kubernetes_writes().await, json!({}), "a second pass writes nothing to Kubernetes");
    assert_eq!(stack.cloud_writes().await, [Value::Null; 0], "a second pass writes nothing to the cloud");
}

/// Every message has led somewhere: none waits, none was given up, and nobody holds a lease for nothing.
async fn accounted_for(stack: &Stack) {
    stack.at_rest().await;
    stack
        .eventually(CALM, "no lease is held and no letter is dead", async || {
            stack.queue.overview().await.is_ok_and(|overview| overview.leases == Some(0) && overview.dead == Some(0))
        })
        .await;
}
