//! Paused objects: neither read from the cloud nor changed in it, deletion included (OWN-6).

use crate::job::{IDENTITY, NETWORK, apply, available, gone, told};
use serde_json::json;
use weir_harness::{Stack, world};

/// Proves: OWN-6
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_object_is_left_alone_in_the_cloud_until_the_pause_ends_even_while_it_is_being_deleted() {
    let stack = Stack::start().await;
    let identity = world::identity(IDENTITY);
    apply(&stack, &[stack.secret(|_| {}), stack.region(None), identity.clone()]).await;
    available(&stack, &identity).await;

    // From the beginning.
    let mut network = world::network(NETWORK, IDENTITY);
    network["spec"]["pause"] = json!(true);
    stack.at_rest().await;
    stack.forget().await;
    stack.cluster.apply(&network).await;
    let condition = told(&stack, &network, "says that it is paused", |c| c.message.contains("paused")).await;
    assert_eq!(condition.status, "False", "{condition:?}");
    stack.at_rest().await;
    assert_eq!(stack.cloud_requests().await, [json!(null); 0], "a new object that is paused");

    // It goes on when the pause ends.
    network["spec"]["pause"] = json!(false);
    stack.cluster.apply(&network).await;
    available(&stack, &network).await;
    assert_eq!(stack.made().await["networks"], 1);

    // A change made during a pause waits for its end; what works goes on working.
    stack.at_rest().await;
    stack.forget().await;
    network["spec"]["pause"] = json!(true);
    network["spec"]["dnsNameservers"] = json!(["1.1.1.1"]);
    stack.cluster.apply(&network).await;
    let condition = told(&stack, &network, "says that it is paused", |c| c.message.contains("paused")).await;
    assert_eq!(condition.status, "True", "what others use stays usable: {condition:?}");
    stack.at_rest().await;
    assert_eq!(stack.cloud_requests().await, [json!(null); 0], "a changed object that is paused");

    // So does its deletion.
    stack.cluster.delete(&network).await;
    told(&stack, &network, "says that it is paused and going", |c| {
        c.message.contains("paused") && c.reason == "Deprovisioning"
    })
    .await;
    stack.at_rest().await;
    assert_eq!(stack.cloud_requests().await, [json!(null); 0], "a deleted object that is paused");
    assert_eq!(stack.made().await["networks"], 1);
    stack.cluster.merge(&network, &json!({"spec": {"pause": false}})).await;
    gone(&stack, &network).await;
    assert!(!stack.made().await.contains_key("networks"));
}
