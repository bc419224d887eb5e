//! A region whose Keystone speaks TLS: what its Secret says of whom to trust (OSC-12).

use crate::told;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use weir_function_runtime::worker::Verdict;
use weir_harness::{Caller, World, drive};
use weir_region::Regions;

/// Puts TLS before the world's cloud. Returns the URL of its Keystone there, and the authority that vouches for it.
async fn encrypted(world: &World) -> (String, String) {
    let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&authority_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let plain = world.cloud.bootstrap().endpoint;
    let (host, path) = plain.trim_start_matches("http://").split_once('/').unwrap();
    let (host, path) = (host.to_owned(), path.to_owned());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (acceptor, host) = (acceptor.clone(), host.clone());
            tokio::spawn(async move {
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let Ok(mut server) = TcpStream::connect(&host).await else { return };
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (format!("https://{at}/{path}"), pem)
}

/// Proves: OSC-4, OSC-12, REG-1
#[tokio::test]
async fn a_region_is_trusted_by_the_authority_in_its_secret_or_not_at_all() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    let (endpoint, authority) = encrypted(&world).await;
    world.apply_region(json!({ "endpoint": endpoint })).await;
    caller.call(World::REGION).await;
    assert!(told(&world).await.contains("its certificate is not trusted"), "{}", told(&world).await);
    world.apply_secret(|secret| secret["ca.crt"] = json!("-----BEGIN NONSENSE-----")).await;
    caller.call(World::REGION).await;
    assert!(told(&world).await.contains("ca.crt in the region's Secret"), "{}", told(&world).await);
    // The next message notices that it is mended, and that it is gone again.
    world.apply_secret(|secret| secret["ca.crt"] = json!(format!("\n# ours\n{authority}\n"))).await;
    assert_eq!(drive(&world, &caller, World::REGION).await, Verdict::Settled, "{}", told(&world).await);
    world.apply_secret(|_| {}).await;
    caller.call(World::REGION).await;
    assert!(told(&world).await.contains("not trusted"), "{}", told(&world).await);
}

/// Proves: OSC-12
#[tokio::test]
async fn only_the_plain_word_true_turns_checks_off() {
    let world = World::fresh().await;
    let caller = Caller::new(&world, Regions);
    let (endpoint, _) = encrypted(&world).await;
    world.apply_region(json!({ "endpoint": endpoint })).await;
    for (said, trusted) in [("false", false), ("yes", false), ("", false), ("true", true)] {
        world.apply_secret(|secret| secret["insecure-skip-tls-verify"] = json!(said)).await;
        caller.call(World::REGION).await;
        assert_eq!(told(&world).await.starts_with("Provisioned"), trusted, "{said:?}: {}", told(&world).await);
    }
}
