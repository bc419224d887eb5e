//! The main job, in every order that people may apply and delete it in.

use crate::job::{SOON, all_available, apply, counts, delete, main_job, nothing_left};
use serde_json::{Value, json};
use weir_harness::cluster::{KINDS, namespace};
use weir_harness::{Dice, Stack, World};

/// What the main job is made of, one of each.
const MADE: [&str; 7] = ["projects", "networks", "subnets", "routers", "security_groups", "ports", "servers"];

async fn one_of_each(stack: &Stack, told: &str) {
    let made = stack.made().await;
    let of_the_job = made.iter().filter(|(kind, _)| MADE.contains(&kind.as_str())).map(|(k, n)| (k.as_str(), *n));
    assert_eq!(counts(&of_the_job.collect::<Vec<_>>()), counts(&MADE.map(|kind| (kind, 1))), "{told}");
}

async fn nothing_made(stack: &Stack, told: &str) {
    assert_eq!(stack.made().await, counts(&[]), "{told}");
}

fn kinds(objects: &[Value]) -> String {
    objects.iter().filter_map(|object| object["kind"].as_str()).collect::<Vec<_>>().join(", ")
}

/// Has every object looked at again: nothing may be written, anywhere.
async fn second_pass_writes_nothing(stack: &Stack, told: &str) {
    stack.at_rest().await;
    let objects = stack.cluster.objects().await;
    let settled = async || {
        let mut settled = 0;
        for kind in KINDS {
            settled += stack.calls(kind, "settled").await;
        }
        settled
    };
    let before = settled().await;
    stack.forget().await;
    stack.look_again(&objects).await;
    assert_eq!(settled().await - before, objects.len() as u64, "{told}: each was looked at once");
    assert!(stack.cloud_requests().await.len() > objects.len(), "{told}: the cloud was looked at");
    assert_eq!(stack.kubernetes_writes().await, json!({}), "{told}: a second pass writes nothing to Kubernetes");
    assert_eq!(stack.cloud_writes().await, [Value::Null; 0], "{told}: a second pass writes nothing to the cloud");
}

/// Proves: OWN-4, OWN-8, SRV-9, NET-11, IDN-7, W-5
#[tokio::test(flavor = "multi_thread")]
async fn the_main_job_comes_and_goes_in_whatever_order_it_is_applied_and_deleted() {
    let stack = Stack::start().await;
    let mut dice = Dice::from_environment();
    for round in 0..6 {
        let mut objects = main_job(&stack);
        match round {
            0 => {}
            1 => objects.reverse(),
            _ => dice.shuffle(&mut objects),
        }
        let told = format!("applied in the order {}", kinds(&objects));
        apply(&stack, &objects).await;
        all_available(&stack, 5).await;
        one_of_each(&stack, &told).await;
        second_pass_writes_nothing(&stack, &told).await;
        match round {
            0 => {}
            1 => objects.reverse(),
            _ => dice.shuffle(&mut objects),
        }
        let told = format!("{told}, deleted in the order {}", kinds(&objects));
        delete(&stack, &objects).await;
        nothing_left(&stack, &told).await;
        nothing_made(&stack, &told).await;
        // The Secret goes last of all: when its Region has let go of it.
        assert!(stack.cluster.get(&stack.secret(|_| {})).await.is_none(), "{told}: the Secret is stuck");
    }
}

/// Proves: OWN-8, NET-12
#[tokio::test(flavor = "multi_thread")]
async fn a_main_job_that_is_deleted_while_it_is_being_made_leaves_nothing() {
    let stack = Stack::start().await;
    let mut dice = Dice::from_environment();
    let mut with_something = 0;
    for round in 0..10_u64 {
        let mut objects = main_job(&stack);
        dice.shuffle(&mut objects);
        let told = format!("round {round}, applied in the order {}", kinds(&objects));
        apply(&stack, &objects).await;
        // As far as it gets until the cloud has been asked for so many changes, and no further.
        let changes = dice.below(16);
        let what = format!("{changes} changes of the cloud");
        stack.eventually(SOON, &what, async || stack.cloud_writes().await.len() as u64 >= changes).await;
        with_something += u32::from(!stack.made().await.is_empty());
        dice.shuffle(&mut objects);
        let told = format!("{told}, deleted after {changes} changes in the order {}", kinds(&objects));
        delete(&stack, &objects).await;
        nothing_left(&stack, &told).await;
        nothing_made(&stack, &told).await;
        stack.forget().await;
    }
    assert!(with_something > 3, "the deletions must strike in the middle: {with_something}");
}

/// Proves: OWN-8, IDN-7
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_deleted_takes_all_of_it_along_in_the_cloud_too() {
    let stack = Stack::start().await;
    apply(&stack, &main_job(&stack)).await;
    all_available(&stack, 5).await;
    let home = namespace(World::NAMESPACE);
    stack.cluster.delete(&home).await;
    stack.eventually(SOON, "the namespace is gone", async || stack.cluster.get(&home).await.is_none()).await;
    nothing_made(&stack, "the namespace was deleted").await;
    // And it can all be had again.
    stack.cluster.apply(&home).await;
    apply(&stack, &main_job(&stack)).await;
    all_available(&stack, 5).await;
    one_of_each(&stack, "in a new namespace of the same name").await;
}
