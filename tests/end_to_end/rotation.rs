//! A region's credential that is rotated while it is in use (IDN-9).

use crate::job::{
    GROUP, IDENTITY, NETWORK, SERVER, all_available, apply, available, delete, main_job, nothing_left, told,
};
use serde_json::{Value, json};
use weir_harness::{Stack, world};

/// Proves: IDN-9
#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_region_secret_is_taken_up_and_nothing_is_made_again() {
    let stack = Stack::start().await;
    let objects = main_job(&stack);
    apply(&stack, &objects).await;
    all_available(&stack, 5).await;
    stack.at_rest().await;
    stack.forget().await;
    let before = stack.made().await;

    // In the cloud first, as one must: from here on the old secret is worth nothing.
    let user = stack.bootstrap()["credential"]["user-id"].as_str().expect("a user").to_owned();
    let change = json!({"user": {"password": "another"}});
    stack.keystone("PATCH", &format!("/users/{user}"), Some(&change)).await;
    let region = stack.region(None);
    stack.look_again(&stack.cluster.objects().await).await;
    told(&stack, &region, "says that the credential is refused", |c| c.message.contains("refuses the credential"))
        .await;

    // The Secret's change alone makes everything go on.
    let rotated = stack.secret(|data| data["password"] = json!("another"));
    stack.cluster.apply(&rotated).await;
    all_available(&stack, 5).await;
    assert_eq!(stack.made().await, before);
    let writes = stack.cloud_writes().await;
    let by_us: Vec<&Value> = writes.iter().filter(|w| w["path"] != format!("/identity/v3/users/{user}")).collect();
    assert_eq!(by_us, [&Value::Null; 0], "nothing is made again");

    // The identity is as good as before, and so is the region for a new one.
    let further = stack.server("b0000000-0000-4000-8000-00000000000d", IDENTITY, NETWORK, GROUP);
    let second = world::identity("identity-b");
    apply(&stack, &[further.clone(), second.clone()]).await;
    available(&stack, &further).await;
    available(&stack, &second).await;
    let mut all = objects;
    all.extend([further, second]);
    delete(&stack, &all).await;
    nothing_left(&stack, "after a rotation").await;
    assert!(stack.made().await.is_empty(), "{:?}", stack.made().await);
    assert!(stack.cluster.get(&stack.server(SERVER, IDENTITY, NETWORK, GROUP)).await.is_none());
}
