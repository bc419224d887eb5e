//! Manifests that break a rule are refused when they are applied, with a message that says what to do.

use crate::job::{GROUP, IDENTITY, NETWORK, SERVER, all_available, apply, main_job};
use serde_json::{Value, json};
use weir_harness::{Stack, World, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_manifest_is_refused_at_apply_with_a_message_that_says_what_to_do() {
    let stack = Stack::start().await;
    let region = stack.region(None);
    let identity = world::identity(IDENTITY);
    let network = world::network(NETWORK, IDENTITY);
    let group = world::security_group(GROUP, IDENTITY);
    let server = stack.server(SERVER, IDENTITY, NETWORK, GROUP);
    // What is changed, to what (nothing: it is removed), and what the refusal says.
    let table: &[(&Value, &str, Option<Value>, &str)] = &[
        (
            &region,
            "/spec/provider",
            Some(json!("aws")),
            "supported values: \"openstack\", \"kubernetes\", \"simulated\"",
        ),
        (&region, "/spec/openstack", None, "needs spec.openstack: set its endpoint and serviceAccountSecret"),
        (&region, "/spec/openstack/endpoint", None, "spec.openstack.endpoint: Required value"),
        (
            &region,
            "/spec/openstack/serviceAccountSecret/name",
            None,
            "spec.openstack.serviceAccountSecret.name: Required value",
        ),
        (
            &region,
            "/spec/openstack/defaultArchitecture",
            Some(json!("riscv")),
            "supported values: \"x86_64\", \"aarch64\"",
        ),
        (
            &region,
            "/spec/openstack/endpont",
            Some(json!("http://x")),
            ".spec.openstack.endpont: field not declared in schema",
        ),
        (&identity, "/spec/provider", None, "spec.provider: Required value"),
        (&network, "/spec/prefix", Some(json!("10.0.0.0")), "spec.prefix"),
        (&network, "/spec/prefix", None, "spec.prefix: Required value"),
        (&network, "/spec/dnsNameservers", Some(json!(["dns.example.com"])), "spec.dnsNameservers[0]"),
        (&network, "/spec/reservations", Some(json!({"prefixLength": 24})), "for a prefix of /24 use 25 or more"),
        (
            &network,
            "/spec/reservations",
            Some(json!({"prefixLength": 26, "providerReservedPrefixLength": 25})),
            "must be at least prefixLength",
        ),
        (&group, "/spec/rules/0/port", Some(json!({})), "set one of them, or leave port out to allow every port"),
        (
            &group,
            "/spec/rules/0/protocol",
            Some(json!("gre")),
            "supported values: \"any\", \"icmp\", \"tcp\", \"udp\", \"vrrp\"",
        ),
        (&group, "/spec/rules/0/cidr", Some(json!("10.0.0.0/33")), "spec.rules[0].cidr"),
        (&server, "/spec/flavorID", None, "spec.flavorID: Required value"),
        (&server, "/spec/image", None, "spec.image: Required value"),
        (&server, "/spec/flavor", Some(json!("large")), ".spec.flavor: field not declared in schema"),
        (&server, "/spec/networks/0/id", Some(json!("NOT-A-UUID")), "spec.networks[0].id"),
    ];
    for (manifest, pointer, value, says) in table {
        let told = format!("{} with {pointer} = {value:?}", manifest["kind"]);
        let mut bad = (*manifest).clone();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let parent = bad.pointer_mut(parent).and_then(Value::as_object_mut).expect("a parent");
        match value {
            Some(value) => parent.insert(key.to_owned(), value.clone()),
            None => parent.remove(key),
        };
        match stack.cluster.try_apply(&bad).await {
            Err(kube::Error::Api(status)) => {
                // The real server too answers 500 when server-side apply meets a field that it does not know.
                assert!((400..=500).contains(&status.code), "{told}: {status:?}");
                assert!(status.message.contains(says), "{told}: {says:?} is not in {:?}", status.message);
            }
            Err(error) => panic!("{told}: {error}"),
            Ok(_) => panic!("{told} is accepted"),
        }
    }
    assert!(stack.cluster.objects().await.is_empty(), "nothing of it is stored");

    // What is decided when an object is made cannot be changed afterwards.
    apply(&stack, &main_job(&stack)).await;
    all_available(&stack, 5).await;
    for (field, value) in [
        ("sshCertificateAuthorityID", json!("b0000000-0000-4000-8000-0000000000ff")),
        ("infrastructureRef", json!("host-1")),
    ] {
        let mut changed = server.clone();
        changed["spec"][field] = value;
        match stack.cluster.try_apply(&changed).await {
            Err(kube::Error::Api(status)) => {
                assert!(status.message.contains("create a new server"), "{field}: {status:?}");
            }
            other => panic!("a changed {field}: {other:?}"),
        }
    }
    let stored = stack.cluster.get(&server).await.expect("the server");
    assert_eq!(stored.metadata.namespace.as_deref(), Some(World::NAMESPACE));
    assert_eq!(stored.data["spec"]["sshCertificateAuthorityID"], Value::Null);
}
