//! SSH and user data, as they reach the cloud.

use crate::world::{AUTHORITY, KEY_PAIR, PUBLIC_KEY, SERVER, World, authority};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use weir_api::crd;
use weir_function_runtime::worker::Verdict;

async fn world_with_authority(change: &Value) -> World {
    let world = World::start().await;
    world.create::<crd::SshCertificateAuthority>(authority(&format!("{PUBLIC_KEY} ca@example.com"))).await;
    world.create_server(change).await;
    world
}

/// Proves: SSH-1
#[tokio::test]
async fn the_identitys_key_pair_is_sent_only_when_it_is_asked_for() {
    for (injection, authority, expected) in [
        (Value::Null, Value::Null, Some(KEY_PAIR)),
        (json!("identityKeypair"), Value::Null, Some(KEY_PAIR)),
        (json!("none"), Value::Null, None),
        (Value::Null, json!(AUTHORITY), None),
        (json!("ca"), json!(AUTHORITY), None),
    ] {
        let change = json!({"sshInjection": injection, "sshCertificateAuthorityID": authority});
        let world = world_with_authority(&change).await;
        assert_eq!(world.drive().await, Verdict::Settled, "{change}");
        let body = world.body("POST", "/servers");
        assert_eq!(body["server"]["key_name"].as_str(), expected, "{change}");
        let server = world.session.compute().find_server_by_name("web").await.unwrap().unwrap();
        assert_eq!(server.key_name.as_deref(), expected, "{change}");
    }
}

/// Proves: SSH-4
#[tokio::test]
async fn user_data_that_is_too_long_is_told_before_any_call_to_the_cloud() {
    for authority in [Value::Null, json!(AUTHORITY)] {
        // Alone it would do, with the authority it does not.
        let length = if authority.is_null() { 49_150 } else { 49_100 };
        let data = STANDARD.encode(format!("#!{}", "x".repeat(length - 2)));
        let change = json!({"userData": data, "sshCertificateAuthorityID": authority, "sshInjection": null});
        let world = world_with_authority(&change).await;
        assert_eq!(world.drive().await, Verdict::Parked);
        let (reason, message) = world.available().await;
        assert_eq!(reason, "Errored");
        assert!(message.contains("too long"), "{message}");
        assert!(world.cloud.requests().is_empty(), "{:?}", world.cloud.requests());
    }
}

/// Proves: SSH-3
#[tokio::test]
async fn user_data_that_cloud_init_would_not_know_leaves_nothing_behind() {
    let world = World::start().await;
    world.create_server(&json!({"userData": STANDARD.encode("echo hello")})).await;
    assert_eq!(world.drive().await, Verdict::Parked);
    assert!(world.available().await.1.contains("recognized cloud-init format"));
    assert_eq!(world.counts(), (0, 0, 0));
    world.patch::<crd::Server>(SERVER, json!({"spec": {"userData": STANDARD.encode("#!/bin/sh\n")}})).await;
    assert_eq!(world.drive().await, Verdict::Settled);
}

#[tokio::test]
async fn user_data_changed_later_counts_for_the_next_server_only() {
    let world = World::settled(&json!({"userData": STANDARD.encode("#!/bin/sh\n")})).await;
    let mutations = world.cloud.mutations();
    world.patch::<crd::Server>(SERVER, json!({"spec": {"userData": STANDARD.encode("echo hello")}})).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.cloud.mutations(), mutations);
}
