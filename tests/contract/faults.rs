//! What a cloud does wrong, on demand: only the simulator can be made to.

use std::time::Duration;

use serde_json::json;
use weir_openstack::compute::{Attach, ImageRef, NewServer, Observed};
use weir_openstack::network::NewNetwork;
use weir_openstack::{CallTag, Class, Session};
use weir_openstack_sim::{Action, Answer, Fault, Mangle};

use crate::cloud::{Cloud, on_sim};
use crate::tenant::{refused, with_tenant};

fn set(cloud: &Cloud, fault: Fault) {
    cloud.sim.as_ref().unwrap().faults().add(fault).map(drop).expect("a fault");
}

fn asked(cloud: &Cloud, method: &str, path: &str) -> usize {
    let requests = cloud.sim.as_ref().unwrap().requests();
    requests.iter().filter(|request| request.method == method && request.path.ends_with(path)).count()
}

const NEW: NewNetwork<'_> = NewNetwork { name: "network-a", description: "", segments: &[] };

/// Proves: OSC-9, SRV-11
#[tokio::test]
async fn a_create_whose_answer_was_lost_is_sent_once_and_found_by_the_next_call() {
    on_sim(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            for fault in [Fault::new(Action::ResetAfter), Fault::status_after(500)] {
                cloud.sim.as_ref().unwrap().clear_requests();
                set(cloud, fault.on("POST", "/v2.0/networks$").times(1));
                refused(network.create_network(&NEW).await, Class::Unavailable);
                assert_eq!(asked(cloud, "POST", "/networks"), 1);
                let found = network.find_network_by_name("network-a").await.unwrap().expect("the network");
                network.delete_network(&found.id).await.unwrap();
            }
            set(cloud, Fault::new(Action::ResetBefore).on("POST", "/v2.0/networks$").times(1));
            refused(network.create_network(&NEW).await, Class::Unavailable);
            assert!(network.find_network_by_name("network-a").await.unwrap().is_none());
        })
        .await;
    })
    .await;
}

/// Proves: OSC-9
#[tokio::test]
async fn a_read_and_a_delete_survive_two_broken_connections() {
    on_sim(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            let net = tenant.network("network-a").await;
            set(cloud, Fault::new(Action::ResetBefore).on("GET", "/v2.0/networks/").times(2));
            network.network(&net.id).await.unwrap();
            set(cloud, Fault::new(Action::ResetBefore).on("GET", "/v2.0/networks/").times(3));
            refused(network.network(&net.id).await, Class::Unavailable);
            // The first delete took effect: the repeat finds nothing, which to a delete is success.
            set(cloud, Fault::new(Action::ResetAfter).on("DELETE", "/v2.0/networks/").times(1));
            refused(network.delete_network(&net.id).await, Class::NotFound);
        })
        .await;
    })
    .await;
}

/// Proves: OSC-3
#[tokio::test]
async fn a_token_that_expired_early_costs_one_new_one() {
    on_sim(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            network.networks().await.unwrap();
            cloud.sim.as_ref().unwrap().clear_requests();
            set(cloud, Fault::new(Action::TokenExpired).on("POST", "/v2.0/networks$").times(1));
            network.create_network(&NEW).await.unwrap();
            assert_eq!((asked(cloud, "POST", "/networks"), asked(cloud, "POST", "/auth/tokens")), (2, 1));
            set(cloud, Fault::new(Action::TokenExpired).on("GET", "/v2.0/networks$").times(2));
            refused(network.networks().await.map(drop), Class::Unauthorized);
        })
        .await;
    })
    .await;
}

/// Proves: OSC-7, OSC-8
#[tokio::test]
async fn a_proxy_s_answers_are_classed_and_its_delay_is_handed_up() {
    on_sim(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let network = tenant.member.network();
            let html = Some(json!("<html><body><h1>Slow down</h1></body></html>"));
            let rows = [
                (429, Some("7"), Class::RateLimited),
                (503, Some("9"), Class::Unavailable),
                (502, None, Class::Unavailable),
                (504, None, Class::Unavailable),
                (404, None, Class::NotFound),
                (302, None, Class::NotUnderstood),
            ];
            for (code, delay, class) in rows {
                let headers = delay.map(|delay| ("Retry-After".to_owned(), delay.to_owned())).into_iter().collect();
                let answer = Answer { code, body: html.clone(), headers };
                set(cloud, Fault::new(Action::Status(answer)).on("GET", "/v2.0/networks$").times(1));
                let error = refused(network.networks().await.map(drop), class);
                assert_eq!(error.retry_after(), delay.map(|delay| Duration::from_secs(delay.parse().unwrap())));
                assert_eq!(error.detail(), "Slow down");
            }
        })
        .await;
    })
    .await;
}

/// Proves: OSC-6
#[tokio::test]
async fn a_list_that_answers_a_page_twice_neither_loses_nor_doubles() {
    on_sim(async |cloud| {
        with_tenant(cloud, async |tenant| {
            for n in 0..5 {
                tenant.network(&format!("network-{n}")).await;
            }
            for size in [2, 10] {
                set(cloud, Fault::new(Action::RepeatPage).on("GET", "/v2.0/networks$").times(1));
                let paged = tenant.member.clone().with_page_size(size);
                assert_eq!(paged.network().networks().await.unwrap().len(), 5);
            }
        })
        .await;
    })
    .await;
}

/// Proves: OSC-11
#[tokio::test]
async fn a_cloud_that_is_too_slow_is_given_up() {
    on_sim(async |cloud| {
        with_tenant(cloud, async |tenant| {
            tenant.member.network().networks().await.unwrap();
            set(cloud, Fault::new(Action::Latency(60_000)).on("GET", "/v2.0/networks$").times(1));
            let call = CallTag::new(uuid::Uuid::new_v4()).with_deadline(Duration::from_millis(50));
            let hasty: Session = tenant.member.clone().with_call(call);
            refused(hasty.network().networks().await.map(drop), Class::Unavailable);
        })
        .await;
    })
    .await;
}

/// Proves: OSC-10, RTY-2
#[tokio::test]
async fn an_answer_that_hides_a_field_is_read_and_hides_nothing_else() {
    on_sim(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let (flavor, image) = (cloud.flavor(), cloud.image(0));
            let nothing: [Attach; 0] = [];
            let compute = tenant.member.compute();
            let id = compute.create_server(&NewServer::new("web", &flavor, &image, &nothing)).await.unwrap();
            let mangle = |pointer: &str, replace| {
                let mangle = Mangle { pointer: pointer.to_owned(), replace };
                set(cloud, Fault::new(Action::Mangle(mangle)).on("GET", "/servers/").times(1));
            };
            mangle("/server/OS-SRV-USG:launched_at", None);
            assert_eq!(compute.server(&id).await.unwrap().launched_at, Observed::Untold);
            mangle("/server/image", Some(json!(null)));
            assert_eq!(compute.server(&id).await.unwrap().image, ImageRef::Unreadable);
            mangle("/server/image", Some(json!("")));
            assert_eq!(compute.server(&id).await.unwrap().image, ImageRef::Volume);
            mangle("/server/status", Some(json!("FROM_THE_FUTURE")));
            assert_eq!(compute.server(&id).await.unwrap().name, "web");
        })
        .await;
    })
    .await;
}
