#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::sync::Mutex;

use serde_json::json;

use super::*;
use crate::testing::{Cloud, PASSWORD, Reply, token};
use crate::{Credential, ImageId, NetworkId, NovaServerId, ProjectId, compute, network};

fn server() -> NovaServerId {
    "s1".into()
}

fn broken() -> Reply {
    Reply::Fail(TransportError::Broken("reset".into()))
}

fn found() -> Reply {
    Reply::Json(200, json!({"server": {"id": "s1", "name": "web"}}))
}

/// Proves: OSC-1, OSC-2, OSC-11
#[tokio::test(start_paused = true)]
async fn a_request_carries_token_version_call_id_and_agent() {
    let cloud = Cloud::scripted([found()]);
    cloud.session().compute().server(&server()).await.unwrap();
    let all = cloud.all_asked();
    let login = &all[0];
    assert_eq!((login.method.as_str(), login.url.as_str()), ("POST", "https://cloud.example/identity/v3/auth/tokens"));
    assert_eq!(login.body["auth"]["scope"], json!({"project": {"id": "p1"}}));
    assert_eq!(login.body["auth"]["identity"]["password"]["user"], json!({"id": "u1", "password": PASSWORD}));
    let asked = &all[1];
    assert_eq!((asked.method.as_str(), asked.url.as_str()), ("GET", "https://cloud.example/compute/v2.1/servers/s1"));
    let header = |name: &str| asked.headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(header("x-auth-token"), "TOKEN-secret-1");
    assert!(asked.headers["x-auth-token"].is_sensitive());
    assert_eq!(header("openstack-api-version"), "compute 2.90");
    assert_eq!(header("x-openstack-request-id"), "req-00000000-0000-0000-0000-000000000000");
    assert_eq!(header("user-agent"), AGENT);
    assert_eq!(asked.purpose, Purpose::Read);
}

/// Proves: Q-15
#[tokio::test(start_paused = true)]
async fn a_request_of_a_trace_carries_its_traceparent() {
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let cloud = Cloud::scripted([found()]);
    let tag = CallTag::new(uuid::Uuid::nil()).with_traceparent(traceparent);
    cloud.session().with_call(tag).compute().server(&server()).await.unwrap();
    for asked in cloud.all_asked() {
        assert_eq!(asked.headers.get("traceparent").unwrap(), traceparent, "{}", asked.url);
    }
}

#[tokio::test(start_paused = true)]
async fn each_scope_and_credential_is_asked_for_in_keystone_s_words() {
    let cloud = Cloud::default();
    let session = cloud.session();
    session.in_scope(Scope::Domain("d1".into())).token_info().await.unwrap();
    let mut auth = session.0.auth.clone();
    auth.credential = Credential::ApplicationCredential { id: "ac".into(), secret: Secret::new("S") };
    auth.scope = Scope::Own;
    session.clone().with(|inner| (inner.key, inner.auth) = (auth.key(), auth)).token_info().await.unwrap();
    let bodies: Vec<Value> = cloud.all_asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies[0]["auth"]["scope"], json!({"domain": {"id": "d1"}}));
    assert_eq!(bodies[1]["auth"]["identity"]["application_credential"], json!({"id": "ac", "secret": "S"}));
    assert!(bodies[1]["auth"].get("scope").is_none());
}

/// Proves: OSC-3
#[tokio::test(start_paused = true)]
async fn a_hundred_calls_in_one_scope_cost_one_token() {
    let cloud = Cloud::scripted((0..100).map(|_| found()));
    let cache = TokenCache::default();
    let calls = (0..100).map(|_| {
        let session = cloud.session_with(&cache);
        async move { session.compute().server(&server()).await.map(drop) }
    });
    futures::future::try_join_all(calls).await.unwrap();
    assert_eq!(cloud.tokens(), 1);
    assert_eq!(cloud.asked().len(), 100);
}

/// Proves: OSC-3
#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced_once_and_the_request_repeated_once() {
    let refused = || Reply::Json(401, json!({"error": {"message": "expired"}}));
    let cloud = Cloud::scripted([refused(), Reply::Json(202, json!({"server": {"id": "s9"}}))]);
    let parts = compute_server_parts();
    let id = cloud.session().compute().create_server(&parts.server()).await.unwrap();
    assert_eq!(id.as_str(), "s9");
    assert_eq!(cloud.tokens(), 2);
    let tokens: Vec<_> =
        cloud.asked().iter().map(|asked| asked.headers["x-auth-token"].to_str().unwrap().to_owned()).collect();
    assert_eq!(tokens, ["TOKEN-secret-1", "TOKEN-secret-2"]);

    let cloud = Cloud::scripted([refused(), refused()]);
    let error = cloud.session().compute().server(&server()).await.unwrap_err();
    assert_eq!(error.class(), Class::Unauthorized);
    assert_eq!((cloud.tokens(), cloud.asked().len()), (2, 2));
}

/// A burst of refusals of the same token costs one new token, not one each.
///
/// Proves: OSC-3
#[tokio::test(start_paused = true)]
async fn fifty_refusals_of_one_token_cost_one_new_token() {
    let refused = (0..50).map(|_| Reply::Json(401, json!({})));
    let cloud = Cloud::scripted(refused.chain((0..50).map(|_| found())));
    let cache = TokenCache::default();
    let calls = (0..50).map(|_| {
        let session = cloud.session_with(&cache);
        async move { session.compute().server(&server()).await.map(drop) }
    });
    futures::future::try_join_all(calls).await.unwrap();
    assert_eq!(cloud.tokens(), 2);
}

/// Proves: OSC-3
#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_reported_and_not_tried_again() {
    let body = r#"{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}"#;
    let cloud = Cloud::default().with_tokens(move |_| Reply::Raw(401, body, vec![]));
    let error = cloud.session().compute().server(&server()).await.unwrap_err();
    assert_eq!((error.class(), error.service()), (Class::Unauthorized, Service::Identity));
    assert_eq!(cloud.tokens(), 1);
}

/// Keystone answers 404 to an application credential that was deleted.
///
/// Proves: OSC-7, NET-9
#[tokio::test(start_paused = true)]
async fn a_credential_that_is_gone_does_not_make_everything_else_look_gone() {
    let body =
        r#"{"error": {"code": 404, "message": "Could not find Application Credential: x.", "title": "Not Found"}}"#;
    let cloud = Cloud::default().with_tokens(move |_| Reply::Raw(404, body, vec![]));
    let error = cloud.session().network().network(&NetworkId::from("n1")).await.unwrap_err();
    assert_eq!(error.class(), Class::Unauthorized);
}

/// Proves: OSC-9
#[tokio::test(start_paused = true)]
async fn reads_and_deletes_are_repeated_twice_when_the_connection_breaks() {
    let cloud = Cloud::scripted([broken(), Reply::Fail(TransportError::Connect("refused".into())), found()]);
    cloud.session().compute().server(&server()).await.unwrap();
    assert_eq!(cloud.asked().len(), 3);

    let cloud = Cloud::scripted([broken(), broken(), broken()]);
    let error = cloud.session().compute().delete_server(&server()).await.unwrap_err();
    assert_eq!(error.class(), Class::Unavailable);
    assert_eq!(cloud.asked().len(), 3);
}

struct Parts {
    flavor: crate::FlavorId,
    image: ImageId,
}

fn compute_server_parts() -> Parts {
    Parts { flavor: "f".into(), image: "i".into() }
}

impl Parts {
    fn server(&self) -> compute::NewServer<'_> {
        compute::NewServer::new("web", &self.flavor, &self.image, &[])
    }
}

/// Proves: OSC-9, SRV-11
#[tokio::test(start_paused = true)]
async fn what_may_have_taken_effect_is_never_sent_again() {
    let parts = compute_server_parts();
    for failure in
        [TransportError::Connect("refused".into()), TransportError::Broken("reset".into()), TransportError::Timeout]
    {
        let cloud = Cloud::scripted([Reply::Fail(failure.clone())]);
        let error = cloud.session().compute().create_server(&parts.server()).await.unwrap_err();
        assert_eq!((error.class(), cloud.asked().len()), (Class::Unavailable, 1));

        let cloud = Cloud::scripted([Reply::Fail(failure)]);
        let update = network::PortUpdate::default();
        cloud.session().network().update_port(&"x".into(), &update).await.unwrap_err();
        assert_eq!(cloud.asked().len(), 1);
    }
    // Nor is an answer that says the service failed a reason to send again, whatever the method.
    let cloud = Cloud::scripted([Reply::Json(503, json!({}))]);
    cloud.session().compute().server(&server()).await.unwrap_err();
    assert_eq!(cloud.asked().len(), 1);
}

/// Proves: Q-4
#[tokio::test(start_paused = true)]
async fn a_request_that_a_layer_withholds_is_its_own_class() {
    let cloud = Cloud::scripted([Reply::Fail(TransportError::Withheld("the lease is lost".into()))]);
    let error = cloud.session().compute().delete_server(&server()).await.unwrap_err();
    assert_eq!(error.class(), Class::Withheld);
    assert_eq!(cloud.asked()[0].purpose, Purpose::Write);
}

/// Proves: OSC-11
#[tokio::test(start_paused = true)]
async fn a_cloud_that_does_not_answer_is_given_up_at_the_deadline() {
    let cloud = Cloud::scripted([Reply::Hang]);
    let started = Instant::now();
    let error = cloud.session().compute().server(&server()).await.unwrap_err();
    assert_eq!(error.class(), Class::Unavailable);
    assert_eq!(started.elapsed().as_secs(), 30);
    assert_eq!(cloud.asked().len(), 1, "a deadline is not a broken connection");
}

/// Proves: OSC-8
#[tokio::test(start_paused = true)]
async fn the_delay_a_cloud_asks_for_is_handed_up_and_nothing_sleeps() {
    let cloud = Cloud::scripted([
        Reply::Raw(429, "", vec![("retry-after", "17".into())]),
        Reply::Raw(503, "", vec![("retry-after", "3".into()), ("x-openstack-request-id", "req-7".into())]),
    ]);
    let started = Instant::now();
    let error = cloud.session().compute().server(&server()).await.unwrap_err();
    assert_eq!((error.class(), error.retry_after()), (Class::RateLimited, Some(Duration::from_secs(17))));
    let error = cloud.session().compute().server(&server()).await.unwrap_err();
    assert_eq!((error.class(), error.retry_after()), (Class::Unavailable, Some(Duration::from_secs(3))));
    assert_eq!(error.request_id(), Some("req-7"));
    assert!(started.elapsed() < Duration::from_secs(1));
}

/// Proves: OSC-2
#[tokio::test(start_paused = true)]
async fn a_cloud_without_the_pinned_version_is_told_what_is_wanted_and_what_it_offers() {
    let document = json!({"version": {"id": "v2.1", "version": "2.79", "min_version": "2.1"}});
    let cloud =
        Cloud::scripted([Reply::Json(406, json!({"computeFault": {"message": "no"}})), Reply::Json(200, document)]);
    let error = cloud.session().compute().server(&server()).await.unwrap_err();
    assert_eq!(error.class(), Class::Unsupported);
    assert_eq!(error.detail(), "compute does not offer API version 2.90, it offers 2.1 to 2.79");
    let asked = cloud.asked();
    assert_eq!(asked[1].url, "https://cloud.example/compute/v2.1");
    assert!(!asked[1].headers.contains_key("openstack-api-version"));
}

/// Proves: OSC-1
#[tokio::test(start_paused = true)]
async fn a_service_the_catalog_lacks_is_named_without_a_request() {
    let body = r#"{"token": {"user": {"id": "u"}, "catalog": []}}"#;
    let cloud = Cloud::default().with_tokens(move |_| Reply::Raw(201, body, vec![("x-subject-token", "T".into())]));
    let error = cloud.session().network().routers().await.unwrap_err();
    assert_eq!(error.class(), Class::Unsupported);
    assert_eq!(error.detail(), "the catalog has no public endpoint for network");
    assert!(!cloud.session().offers(Service::Network).await.unwrap());
    assert!(cloud.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_no_url_is_a_bad_request() {
    let session = Cloud::default().session().with(|inner| inner.auth.endpoint = "file:///etc/passwd".into());
    assert_eq!(session.token_info().await.unwrap_err().class(), Class::BadRequest);
}

/// Proves: OSC-13
#[tokio::test(start_paused = true)]
async fn no_secret_is_in_an_error_or_a_debug_text() {
    let echo = format!("you sent {PASSWORD} and TOKEN-secret-1 and {{'password': 'other'}} and NEW-password-1");
    let cloud = Cloud::scripted([Reply::Json(400, json!({"error": {"message": echo}}))]);
    let session = cloud.session();
    let error = session.identity().set_password(&"u2".into(), &Secret::new("NEW-password-1")).await.unwrap_err();
    let seen = format!("{error} {error:?} {session:?}");
    for secret in [PASSWORD, "TOKEN-secret-1", "other", "NEW-password-1"] {
        assert!(!seen.contains(secret), "{secret} is in {seen}");
    }
    assert!(error.detail().starts_with("you sent ***"));
    let body = json!({"error": {"message": format!("bad login {PASSWORD}")}}).to_string();
    let body: &'static str = Box::leak(body.into_boxed_str());
    let cloud = Cloud::default().with_tokens(move |_| Reply::Raw(400, body, vec![]));
    let error = cloud.session().token_info().await.unwrap_err();
    assert_eq!(error.detail(), "bad login ***");
}

/// Proves: OSC-5
#[tokio::test(start_paused = true)]
async fn a_name_finds_exactly_itself_and_two_of_them_are_a_contradiction() {
    let list = |names: &[&str]| {
        let servers: Vec<Value> =
            names.iter().enumerate().map(|(i, name)| json!({"id": format!("s{i}"), "name": name})).collect();
        Reply::Json(200, json!({ "servers": servers }))
    };
    let cloud = Cloud::scripted([list(&["abc", "a.c", "A.C", "a.cd"]), list(&["server-45"]), list(&["a.c", "a.c"])]);
    let session = cloud.session();
    let found = session.compute().find_server_by_name("a.c").await.unwrap().unwrap();
    assert_eq!(found.id.as_str(), "s1");
    assert!(session.compute().find_server_by_name("server-4").await.unwrap().is_none());
    let error = session.compute().find_server_by_name("a.c").await.unwrap_err();
    assert_eq!(error.class(), Class::Inconsistent);
    assert_eq!(cloud.asked()[0].url, "https://cloud.example/compute/v2.1/servers/detail?name=%5Ea.c%24");
}

/// Proves: OSC-5
#[tokio::test(start_paused = true)]
async fn a_network_of_another_project_is_not_taken_for_ours() {
    let cloud = Cloud::scripted([Reply::Json(
        200,
        json!({"networks": [
            {"id": "n1", "name": "network-a", "project_id": "p2", "shared": true},
            {"id": "n2", "name": "network-a", "project_id": "p1"},
            {"id": "n3", "name": "Network-A", "project_id": "p1"},
        ]}),
    )]);
    let found = cloud.session().network().find_network_by_name("network-a").await.unwrap().unwrap();
    assert_eq!(found.id.as_str(), "n2");
    assert_eq!(cloud.asked()[0].url, "https://cloud.example/network/v2.0/networks?name=network-a&project_id=p1");
}

#[tokio::test(start_paused = true)]
async fn an_update_sends_only_what_is_given() {
    let port = || Reply::Json(200, json!({"port": {"id": "x", "network_id": "n"}}));
    let cloud = Cloud::scripted([
        port(),
        port(),
        Reply::Json(200, json!({"subnet": {"id": "x", "network_id": "n"}})),
        Reply::Json(200, json!({"router": {"id": "x"}})),
        Reply::Json(200, json!({"quota_set": {}})),
        Reply::Json(200, json!({"floatingip": {"id": "f"}})),
    ]);
    let session = cloud.session();
    let network = session.network();
    network.update_port(&"x".into(), &network::PortUpdate::default()).await.unwrap();
    let clear = network::PortUpdate { security_groups: Some(&[]), ..Default::default() };
    network.update_port(&"x".into(), &clear).await.unwrap();
    let dns = ["1.1.1.1".to_owned()];
    let update = network::SubnetUpdate { dns_nameservers: Some(&dns), ..Default::default() };
    network.update_subnet(&"x".into(), &update).await.unwrap();
    network.update_router(&"x".into(), &network::RouterUpdate { gateway: Some(None) }).await.unwrap();
    let quotas = compute::QuotaSet { cores: Some(-1), ..Default::default() };
    session.compute().set_quotas(&ProjectId::from("p1"), &quotas).await.unwrap();
    network.associate_floating_ip(&"f".into(), None).await.unwrap();
    let bodies: Vec<Value> = cloud.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(
        bodies,
        [
            json!({"port": {}}),
            json!({"port": {"security_groups": []}}),
            json!({"subnet": {"dns_nameservers": ["1.1.1.1"]}}),
            json!({"router": {"external_gateway_info": null}}),
            json!({"quota_set": {"cores": -1}}),
            json!({"floatingip": {"port_id": null}}),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_server_is_written_in_nova_s_words() {
    let cloud = Cloud::scripted([Reply::Json(202, json!({"server": {"id": "s", "adminPass": "x"}}))]);
    let parts = compute_server_parts();
    let networks = [compute::Attach::Port("p".into()), compute::Attach::Network(NetworkId::from("n"))];
    let metadata = [("serverID".to_owned(), "a1".to_owned())].into();
    let new = compute::NewServer {
        networks: &networks,
        metadata: &metadata,
        key_name: Some("k"),
        user_data: Some(b"#cloud-config"),
        server_group: Some(&"g".into()),
        hypervisor_hostname: Some("h"),
        ..parts.server()
    };
    cloud.session().compute().create_server(&new).await.unwrap();
    assert_eq!(
        cloud.asked()[0].body,
        json!({
            "server": {
                "name": "web", "flavorRef": "f", "imageRef": "i", "metadata": {"serverID": "a1"},
                "networks": [{"port": "p"}, {"uuid": "n"}], "key_name": "k", "user_data": "I2Nsb3VkLWNvbmZpZw==",
                "hypervisor_hostname": "h",
            },
            "os:scheduler_hints": {"group": "g"},
        })
    );
}

#[derive(Default)]
struct Counting(Mutex<Vec<String>>);

impl Meter for Counting {
    fn record(&self, sample: &Sample<'_>) {
        let Sample { service, method, resource, status, class, .. } = sample;
        self.0.lock().unwrap().push(format!("{service} {method} {resource} {status:?} {class:?}"));
    }
}

/// Proves: OSC-11
#[tokio::test(start_paused = true)]
async fn every_request_is_counted_with_its_outcome() {
    let cloud = Cloud::scripted([Reply::Json(404, json!({})), broken(), found()]);
    let meter = Arc::new(Counting::default());
    let session = cloud.session().with_meter(meter.clone());
    session.compute().server(&server()).await.unwrap_err();
    session.compute().server(&server()).await.unwrap();
    assert_eq!(
        *meter.0.lock().unwrap(),
        [
            "identity POST tokens Some(201) None",
            "compute GET servers Some(404) Some(NotFound)",
            "compute GET servers None Some(Unavailable)",
            "compute GET servers Some(200) None",
        ]
    );
}

/// Proves: OSC-10
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_json_is_not_understood() {
    let cloud = Cloud::scripted([
        Reply::Raw(200, "<html>welcome</html>", vec![]),
        Reply::Json(200, json!({"other": 1})),
        Reply::Json(200, json!({"server": {"name": "without an id"}})),
        Reply::Json(200, json!({"servers": {"not": "a list"}})),
    ]);
    let session = cloud.session();
    for _ in 0..3 {
        let error = session.compute().server(&server()).await.unwrap_err();
        assert_eq!((error.class(), error.status()), (Class::NotUnderstood, Some(200)));
    }
    assert_eq!(session.compute().servers().await.unwrap_err().class(), Class::NotUnderstood);
}

/// Proves: OSC-3
#[tokio::test(start_paused = true)]
async fn a_token_dies_at_four_fifths_of_its_life() {
    let cloud = Cloud::default().with_tokens(|n| token(n, 1000));
    let session = cloud.session();
    session.token_info().await.unwrap();
    tokio::time::advance(Duration::from_secs(798)).await;
    session.token_info().await.unwrap();
    assert_eq!(cloud.tokens(), 1);
    tokio::time::advance(Duration::from_secs(3)).await;
    session.token_info().await.unwrap();
    assert_eq!(cloud.tokens(), 2);
}

/// Proves: OSC-4
#[tokio::test(start_paused = true)]
async fn a_changed_secret_or_a_forgotten_region_gets_a_new_token() {
    let cloud = Cloud::default();
    let cache = TokenCache::default();
    let session = cloud.session_with(&cache);
    session.token_info().await.unwrap();
    let changed = session.clone().with(|inner| {
        inner.auth.credential = Credential::Password { user_id: "u1".into(), password: Secret::new("rotated") };
        inner.key = inner.auth.key();
    });
    changed.token_info().await.unwrap();
    assert_eq!((cloud.tokens(), cache.len()), (2, 2));
    cache.forget_endpoint("https://cloud.example/identity");
    assert!(cache.is_empty());
    session.token_info().await.unwrap();
    assert_eq!(cloud.tokens(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_token_says_of_its_owner_is_told() {
    let cloud = Cloud::default();
    let session = cloud.session();
    let info = session.token_info().await.unwrap();
    assert!(info.has_role("Manager") && !info.has_role("admin"));
    assert_eq!(session.project_id().await.unwrap().unwrap().as_str(), "p1");
    assert_eq!(session.user_id().await.unwrap().as_str(), "u1");
    assert_eq!(cloud.tokens(), 1);
}
