//! What the tests apply, and what they wait for.

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_harness::cluster::Condition;
use weir_harness::{Stack, world};

pub const IDENTITY: &str = "identity-a";
/// What a Server refers to is named by a UUID.
pub const NETWORK: &str = "b0000000-0000-4000-8000-00000000000a";
pub const GROUP: &str = "b0000000-0000-4000-8000-00000000000b";
pub const SERVER: &str = "b0000000-0000-4000-8000-00000000000c";

/// Longer than anything takes that no timer of minutes has a part in.
pub const SOON: Duration = Duration::from_secs(60);

/// The main job: a Secret, a Region, an Identity, a Network, a SecurityGroup and a Server, in this order.
pub fn main_job(stack: &Stack) -> Vec<Value> {
    let mut objects = vec![stack.secret(|_| {}), stack.region(None), world::identity(IDENTITY)];
    objects.push(world::network(NETWORK, IDENTITY));
    objects.push(world::security_group(GROUP, IDENTITY));
    objects.push(stack.server(SERVER, IDENTITY, NETWORK, GROUP));
    objects
}

pub async fn apply(stack: &Stack, objects: &[Value]) {
    for object in objects {
        stack.cluster.apply(object).await;
    }
}

/// Asks for the deletion of all of them, without waiting for any.
pub async fn delete(stack: &Stack, objects: &[Value]) {
    for object in objects {
        stack.cluster.delete(object).await;
    }
}

/// Waits until there are `many` objects and all of them are available.
pub async fn all_available(stack: &Stack, many: usize) {
    let what = format!("{many} objects are available");
    stack.eventually(SOON, &what, async || stack.cluster.available().await == (many, many)).await;
}

/// Waits until nothing of Weir's is left in Kubernetes, records included.
pub async fn nothing_left(stack: &Stack, what: &str) {
    let what = format!("nothing is left in Kubernetes: {what}");
    stack.eventually(SOON, &what, async || stack.cluster.available().await.0 == 0).await;
    for plural in ["openstackidentities", "vlanallocations"] {
        let left = stack.cluster.records(plural).await;
        assert!(left.is_empty(), "{what}: {plural} {left:?}");
    }
}

/// Waits until the `Available` of an object satisfies `holds`, and returns it.
pub async fn told(stack: &Stack, object: &Value, what: &str, holds: impl Fn(&Condition) -> bool) -> Condition {
    let mut last = None;
    let what = format!("{} {}: {what}", object["kind"], object["metadata"]["name"]);
    stack
        .eventually(SOON, &what, async || {
            last = stack.cluster.condition(object).await;
            last.as_ref().is_some_and(&holds)
        })
        .await;
    last.expect("it holds")
}

/// Waits until an object is available.
pub async fn available(stack: &Stack, object: &Value) {
    told(stack, object, "is available", |condition| condition.status == "True").await;
}

/// Waits until an object is gone.
pub async fn gone(stack: &Stack, object: &Value) {
    let what = format!("{} {} is gone", object["kind"], object["metadata"]["name"]);
    stack.eventually(SOON, &what, async || stack.cluster.get(object).await.is_none()).await;
}

/// Counts of the cloud that a test names.
pub fn counts(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
}
