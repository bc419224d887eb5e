//! What can vanish at any moment is used for nothing: here a region whose function has not been there yet.

use crate::job::{IDENTITY, all_available, apply, delete, gone, main_job, nothing_left, told};
use weir_harness::stack::FUNCTIONS;
use weir_harness::{Stack, world};

/// Proves: OWN-8, IDN-7, SRV-4, W-5
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_before_the_region_is_held_and_all_goes_with_a_region_that_never_was() {
    let mut stack = Stack::start().await;
    let region_function = FUNCTIONS.iter().position(|name| *name == "region").expect("a function");
    stack.functions[region_function].kill();

    let objects = main_job(&stack);
    apply(&stack, &objects).await;
    told(&stack, &world::identity(IDENTITY), "waits for the region", |c| c.message == "Region region-a is not ready")
        .await;
    for object in &objects[3..] {
        told(&stack, object, "waits for the identity", |c| c.message.contains("(identity-a) is not ready")).await;
    }
    // The region and its Secret go at once: nothing keeps them.
    delete(&stack, &objects).await;
    nothing_left(&stack, "deleted before the region was held").await;
    gone(&stack, &objects[0]).await;
    assert!(stack.cloud_requests().await.is_empty(), "the cloud was never asked for anything");

    // Whoever waits is told when the region is held.
    apply(&stack, &objects).await;
    told(&stack, &world::identity(IDENTITY), "waits for the region", |c| c.message == "Region region-a is not ready")
        .await;
    stack.functions[region_function].start().expect("it starts");
    all_available(&stack, 5).await;
    delete(&stack, &objects).await;
    nothing_left(&stack, "deleted when all was made").await;
    gone(&stack, &objects[0]).await;
    assert!(stack.made().await.is_empty(), "{:?}", stack.made().await);
}
