//! That nothing is made in a cloud through what could vanish without waiting: an identity, its record, a region or its Secret
//! that is not held by its function yet, or is on its way out.

use crate::{Caller, World, drive};
use weir_api::Kind;
use weir_function_runtime::worker::Verdict;

/// Holds the caller's kind to it, with its object `name`, which is applied and was never called for, and the settled identity
/// `identity`, which `identities` looks after. Everything is removed in the end.
///
/// # Panics
/// Something was made, or something is left.
pub async fn hold_to_it(world: &World, caller: &Caller, name: &str, identities: &Caller, identity: &str) {
    let kind = caller.kind();
    let nothing_is_made = async |says: &str| {
        world.settle();
        let verdict = caller.call(name).await;
        let (reason, message) = world.condition(kind, name).await.expect("a condition");
        assert!(reason == "DependencyNotReady" && message.contains(says), "{reason}: {message}, not {says}");
        assert!(world.cloud.requests().is_empty(), "the cloud is not even asked: {says}");
        verdict
    };
    let not_ready = format!("({identity}) is not ready");
    world.hold(Kind::Identity, identity, false).await;
    assert!(matches!(nothing_is_made(&not_ready).await, Verdict::Waiting));
    world.hold(Kind::Identity, identity, true).await;
    world.hold_record(identity, false).await;
    let of_record = format!("record of Identity {identity}");
    assert!(matches!(nothing_is_made(&of_record).await, Verdict::After { .. }), "no event tells");
    world.hold_record(identity, true).await;
    world.hold(Kind::Region, World::REGION, false).await;
    assert!(matches!(nothing_is_made("Region region-a is not ready").await, Verdict::Waiting));
    world.hold(Kind::Region, World::REGION, true).await;
    world.hold_secret(false).await;
    assert!(matches!(nothing_is_made("is not held by its Region yet").await, Verdict::Waiting));
    world.hold_secret(true).await;
    assert!(matches!(drive(world, caller, name).await, Verdict::Settled));
    // It goes through what is going itself, and with it all that it had.
    world.delete(Kind::Region, World::REGION).await;
    assert!(matches!(nothing_is_made("Region region-a is being deleted").await, Verdict::Waiting));
    world.delete(Kind::Identity, identity).await;
    let going = format!("({identity}) is being deleted");
    assert!(matches!(nothing_is_made(&going).await, Verdict::Waiting));
    world.delete(kind, name).await;
    assert!(matches!(drive(world, caller, name).await, Verdict::Gone));
    assert!(matches!(drive(world, identities, identity).await, Verdict::Gone));
    assert_eq!(world.made(), [].into());
}
