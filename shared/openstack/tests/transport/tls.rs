//! Who is trusted.

use crate::get;
use crate::server::{Authority, Pair, encrypted};
use weir_openstack::{Tls, TransportError};

const HOST: &[&str] = &["127.0.0.1"];
const NOW: (i32, i32) = (2020, 4000);

fn trusting(bundle: &str) -> Tls {
    Tls { ca_bundle: Some(bundle.as_bytes().to_vec()), insecure: false }
}

/// Fails in the handshake, with a reason that helps, before anything secret was sent.
async fn refused(tls: &Tls, pair: &Pair, because: &str) {
    let url = format!("https://{}/", encrypted(pair).await);
    match get(tls, &url).await {
        Err(TransportError::Connect(reason)) => {
            assert!(reason.to_lowercase().contains(because), "{reason}");
            assert!(!reason.contains("SECRET"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

async fn trusted(tls: &Tls, pair: &Pair) {
    let url = format!("https://{}/", encrypted(pair).await);
    assert_eq!(get(tls, &url).await.unwrap(), "200 ok");
}

/// Proves: OSC-12
#[tokio::test]
async fn a_cloud_is_trusted_by_the_authority_in_the_bundle_and_by_no_other() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let pair = ours.vouch(HOST, NOW);
    trusted(&trusting(&ours.pem), &pair).await;
    refused(&trusting(&other.pem), &pair, "unknownissuer").await;
    // Without a bundle the system's authorities count, and none of them knows ours.
    refused(&Tls::default(), &pair, "certificate").await;
}

/// Proves: OSC-12
#[tokio::test]
async fn a_bundle_may_hold_several_authorities_and_text_between_them() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let bundle = format!("# corporate\n{}\n\nSubject: CN=ours\n{}\n", other.pem, ours.pem);
    for bundle in [bundle.clone(), bundle.replace('\n', "\r\n")] {
        trusted(&trusting(&bundle), &ours.vouch(HOST, NOW)).await;
        trusted(&trusting(&bundle), &other.vouch(HOST, NOW)).await;
        refused(&trusting(&bundle), &Authority::new("third").vouch(HOST, NOW), "unknownissuer").await;
    }
}

/// Proves: OSC-12
#[tokio::test]
async fn a_certificate_of_another_host_or_another_time_is_refused_whoever_vouches_for_it() {
    let ours = Authority::new("ours");
    refused(&trusting(&ours.pem), &ours.vouch(&["keystone.example.com"], NOW), "not valid for name").await;
    refused(&trusting(&ours.pem), &ours.vouch(HOST, (2001, 2002)), "expired").await;
    refused(&trusting(&ours.pem), &ours.vouch(HOST, (3999, 4000)), "not valid yet").await;
}

/// Small clouds have a certificate that nobody vouches for, which is its own bundle.
///
/// Proves: OSC-12
#[tokio::test]
async fn a_self_signed_certificate_is_trusted_where_it_is_the_bundle() {
    let pair = Pair::self_signed(HOST);
    trusted(&trusting(&pair.certificate.pem()), &pair).await;
    refused(&trusting(&Authority::new("ours").pem), &pair, "certificate").await;
}

/// Proves: OSC-12
#[tokio::test]
async fn the_explicit_opt_out_trusts_anybody_and_is_needed_for_it() {
    let insecure = Tls { ca_bundle: None, insecure: true };
    let ours = Authority::new("ours");
    for pair in [Pair::self_signed(HOST), ours.vouch(&["keystone.example.com"], NOW), ours.vouch(HOST, (2001, 2002))] {
        trusted(&insecure, &pair).await;
        refused(&Tls::default(), &pair, "certificate").await;
    }
}
