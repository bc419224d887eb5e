//! Deletions that wait for others to let go (NET-11), and are woken when they do.

use crate::job::{GROUP, IDENTITY, NETWORK, SERVER, all_available, apply, gone, main_job, told};
use serde_json::json;
use std::time::{Duration, Instant};
use weir_harness::{Stack, world};

/// Far less than the safety net, which looks again after some minutes.
const BY_EVENT: Duration = Duration::from_secs(15);

/// Proves: NET-11, W-5
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_waits_for_whoever_still_refers_to_the_object_and_goes_on_when_they_let_go() {
    let stack = Stack::start().await;
    apply(&stack, &main_job(&stack)).await;
    all_available(&stack, 5).await;
    let (network, server) = (world::network(NETWORK, IDENTITY), stack.server(SERVER, IDENTITY, NETWORK, GROUP));

    // A stranger's reference, beside those of Weir's own.
    let finalizers = stack.cluster.get(&network).await.expect("the network").metadata.finalizers.unwrap_or_default();
    let mut with_stranger = finalizers.clone();
    with_stranger.push("backup.example.com/nightly".to_owned());
    stack.cluster.merge(&network, &json!({"metadata": {"finalizers": with_stranger}})).await;
    stack.cluster.delete(&network).await;
    told(&stack, &network, "names who holds it", |c| {
        c.message.contains(&format!("servers.region.unikorn-cloud.org/{SERVER}"))
            && c.message.contains("backup.example.com/nightly")
    })
    .await;

    // The server goes; the stranger still holds the network, and is left alone.
    stack.cluster.delete(&server).await;
    gone(&stack, &server).await;
    told(&stack, &network, "names the stranger only", |c| {
        !c.message.contains("servers.region") && c.message.contains("backup.example.com/nightly")
    })
    .await;
    stack.at_rest().await;
    assert_eq!(stack.made().await["networks"], 1, "what is held is not touched in the cloud");

    // The stranger lets go, by whatever means: that event is enough.
    let held = stack.cluster.get(&network).await.expect("the network").metadata.finalizers.unwrap_or_default();
    let left: Vec<_> = held.into_iter().filter(|f| f != "backup.example.com/nightly").collect();
    assert_eq!(left, ["unikorn"], "the server's reference has gone with it");
    let began = Instant::now();
    stack.cluster.merge(&network, &json!({"metadata": {"finalizers": left}})).await;
    gone(&stack, &network).await;
    assert!(began.elapsed() < BY_EVENT, "it took {:?}", began.elapsed());
    assert!(!stack.made().await.contains_key("networks"));
}

/// Proves: IDN-7, W-5
#[tokio::test(flavor = "multi_thread")]
async fn an_identity_and_its_region_wait_for_what_is_in_them_and_say_so() {
    let stack = Stack::start().await;
    let identity = world::identity(IDENTITY);
    let network = world::network(NETWORK, IDENTITY);
    let region = stack.region(None);
    apply(&stack, &[stack.secret(|_| {}), region.clone(), identity.clone(), network.clone()]).await;
    all_available(&stack, 3).await;
    stack.cluster.delete(&region).await;
    stack.cluster.delete(&identity).await;
    told(&stack, &region, "waits for its identity", |c| c.message.contains("1 identity")).await;
    told(&stack, &identity, "waits for its network", |c| c.reason == "Deprovisioning" && c.message.contains("network"))
        .await;
    let began = Instant::now();
    stack.cluster.delete(&network).await;
    for object in [&network, &identity, &region] {
        gone(&stack, object).await;
    }
    assert!(began.elapsed() < BY_EVENT, "it took {:?}", began.elapsed());
    assert!(stack.made().await.is_empty(), "{:?}", stack.made().await);
}
