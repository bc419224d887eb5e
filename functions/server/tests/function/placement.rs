//! A pinned server in a region that has Placement asked first.

use crate::world::{SERVER, World, manifest};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_api::crd;
use weir_function_runtime::worker::Verdict;
use weir_harness::Case;
use weir_openstack_sim::{Config, Equipment, Fault};

/// Another Server.
const OTHER: &str = "d0000000-0000-4000-8000-000000000002";
/// The flavors by their place, as the cloud below has them: fit to be asked about, and each unfit in another way.
const GPU: usize = 0;
const SEVERAL: usize = 1;
const TRAIT: usize = 2;
const PLAIN: usize = 3;

/// A cloud in which one host has one GPU and is ready; and the region has Placement asked.
async fn world(required: &[&str]) -> World {
    let specs = |specs: &[(&str, &str)]| specs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let equipment = Equipment {
        resources: BTreeMap::from([("CUSTOM_GPU".to_owned(), 1)]),
        traits: ["CUSTOM_READY", "CUSTOM_FAST"].map(str::to_owned).into(),
    };
    let gpu = [("resources:CUSTOM_GPU", "1"), ("resources:VCPU", "0"), ("trait:CUSTOM_READY", "required")];
    let config = Config {
        equipment: BTreeMap::from([("sim-compute-1".to_owned(), equipment)]),
        extra_specs: BTreeMap::from([
            ("sim.nano".to_owned(), specs(&gpu)),
            ("sim.small".to_owned(), specs(&[("resources:CUSTOM_GPU", "1"), ("resources:CUSTOM_NIC", "1")])),
            ("sim.medium".to_owned(), specs(&[("resources:CUSTOM_GPU", "1"), ("trait:CUSTOM_READY", "preferred")])),
        ]),
        ..Config::default()
    };
    let world = World::start_with(config).await;
    check(&world, true, required).await;
    world
}

async fn check(world: &World, enabled: bool, required: &[&str]) {
    let check = json!({"enabled": enabled, "requiredTraits": required});
    let patch = json!({"spec": {"openstack": {"compute": {"placementPreflight": check}}}});
    world.patch::<crd::Region>(weir_harness::World::REGION, patch).await;
}

/// What changes a Server into one of this flavor, pinned to the host.
fn pinned(world: &World, flavor: usize, host: &str) -> Value {
    json!({"flavorID": world.cloud.bootstrap().flavors[flavor].0, "infrastructureRef": host, "publicIPAllocation": null})
}

/// The questions to Placement: who asked in which project, and what.
fn questions(world: &World) -> Vec<(Option<String>, Option<String>, String)> {
    let mut found = world.cloud.requests();
    found.retain(|entry| entry.path.starts_with("/placement"));
    found.into_iter().map(|entry| (entry.user, entry.project, entry.query)).collect()
}

fn creates(world: &World) -> usize {
    world.cloud.requests().iter().filter(|entry| entry.method == "POST" && entry.path.ends_with("/servers")).count()
}

/// Proves: PIN-2
#[tokio::test]
async fn placement_is_asked_just_before_the_create_with_the_region_s_credential_in_the_project() {
    let world = world(&["custom_fast", "!HW_CPU_X86_AVX"]).await;
    world.create_server(&pinned(&world, GPU, "sim-compute-1")).await;
    assert_eq!(world.drive().await, Verdict::Settled);
    let asked = questions(&world);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].0.as_deref(), Some(world.region.user.as_str()));
    assert_eq!(asked[0].1.as_deref(), Some(world.project.as_str()));
    let query = asked[0].2.replace("%3A", ":").replace("%2C", ",").replace("%21", "!");
    assert_eq!(query, "resources=CUSTOM_GPU:1&required=CUSTOM_READY,CUSTOM_FAST,!HW_CPU_X86_AVX");
    let all = world.cloud.requests();
    let at = all.iter().position(|entry| entry.path.starts_with("/placement")).unwrap();
    assert!(all[at + 1].method == "POST" && all[at + 1].path.ends_with("/servers"), "{:?}", all[at + 1]);
    // It runs; and nothing is asked of a server that is there.
    assert_eq!(world.body("POST", "/servers")["server"]["hypervisor_hostname"], "sim-compute-1");
    world.cloud.advance(Duration::from_secs(5));
    assert_eq!(world.call(SERVER).await, Verdict::Settled);
    assert_eq!(questions(&world).len(), 1);
}

/// Proves: PIN-2
#[tokio::test]
async fn who_is_not_pinned_or_not_to_be_checked_makes_no_call() {
    let open = world(&[]).await;
    open.create_server(&json!({"publicIPAllocation": null})).await;
    assert_eq!(open.drive().await, Verdict::Settled);
    assert!(questions(&open).is_empty());
    let unchecked = world(&[]).await;
    check(&unchecked, false, &["CUSTOM_FAST"]).await;
    unchecked.create_server(&pinned(&unchecked, GPU, "sim-compute-1")).await;
    assert_eq!(unchecked.drive().await, Verdict::Settled);
    assert!(questions(&unchecked).is_empty());
}

/// Proves: PIN-2
#[tokio::test]
async fn a_host_without_room_is_waited_for_and_nothing_is_recorded() {
    let world = world(&[]).await;
    let other = manifest(OTHER, "first", &pinned(&world, GPU, "sim-compute-1"), &world.cloud);
    world.create::<crd::Server>(other).await;
    assert_eq!(world.drive_named(OTHER).await, Verdict::Settled);
    world.cloud.advance(Duration::from_secs(5));
    world.cloud.clear_requests();
    world.create_server(&pinned(&world, GPU, "sim-compute-1")).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        assert_eq!(world.call(SERVER).await, Verdict::After { delay: Duration::from_secs(10) });
        let (reason, message) = world.available().await;
        assert_eq!(reason, "Provisioning", "{message}");
        assert!(message.contains("infrastructureRef"), "{message}");
        seen.push(serde_json::to_value(world.server().await.status).unwrap());
    }
    assert_eq!(creates(&world), 0);
    seen.dedup();
    assert_eq!(seen.len(), 1, "each miss leaves the status as it was: {seen:?}");
    let mut fields: Vec<_> = seen[0].as_object().unwrap().keys().map(String::as_str).collect();
    fields.retain(|field| !matches!(*field, "conditions" | "observedGeneration"));
    assert_eq!(fields, ["privateIP"]);
    // The host is free again.
    world.delete::<crd::Server>(OTHER).await;
    assert_eq!(world.drive_named(OTHER).await, Verdict::Gone);
    assert_eq!(world.drive().await, Verdict::Settled);
    assert_eq!(world.counts(), (1, 0, 1));
}

/// Proves: PIN-2
#[tokio::test]
async fn a_host_that_is_not_among_the_answer_is_waited_for() {
    // The other host has no GPU; one is named by part of its name; one is not there; one lacks what the region asks for.
    let blank: &[&str] = &[];
    for (host, required) in [
        ("sim-compute-2", blank),
        ("sim-compute", blank),
        ("SIM-COMPUTE-1", blank),
        ("  ", blank),
        ("sim-compute-1", &["!CUSTOM_FAST"]),
        ("sim-compute-1", &["HW_CPU_X86_AVX"]),
    ] {
        let world = world(required).await;
        world.create_server(&pinned(&world, GPU, host)).await;
        assert_eq!(world.call(SERVER).await, Verdict::After { delay: Duration::from_secs(10) }, "{host} {required:?}");
        assert_eq!((creates(&world), world.counts()), (0, (1, 0, 0)));
        assert_eq!(questions(&world).len(), usize::from(!host.trim().is_empty()), "{host}");
        world.delete::<crd::Server>(SERVER).await;
        assert_eq!(world.drive().await, Verdict::Gone);
        assert_eq!(world.counts(), (0, 0, 0));
    }
}

/// Proves: PIN-3, OWN-7
#[tokio::test]
async fn a_flavor_that_makes_no_question_is_named_and_looked_at_again() {
    for (flavor, named) in [
        (PLAIN, vec!["no custom resource class"]),
        (SEVERAL, vec!["CUSTOM_GPU", "CUSTOM_NIC"]),
        (TRAIT, vec!["CUSTOM_READY", "preferred"]),
    ] {
        let world = world(&[]).await;
        let change = pinned(&world, flavor, "sim-compute-1");
        world.create_server(&change).await;
        assert_eq!(world.call(SERVER).await, Verdict::Retry { after: Some(Duration::from_secs(10)) });
        let (reason, message) = world.available().await;
        assert_eq!(reason, "Errored");
        for name in named.iter().chain([&change["flavorID"].as_str().unwrap()]) {
            assert!(message.contains(name), "{name}: {message}");
        }
        assert_eq!((creates(&world), questions(&world).len()), (0, 0));
        // Nobody has mended it; the region does without.
        check(&world, false, &[]).await;
        assert_eq!(world.drive().await, Verdict::Settled);
    }
}

/// Proves: PIN-2, PIN-3
#[tokio::test]
async fn what_placement_does_not_know_or_does_not_allow_is_told() {
    let world = world(&["CUSTOM_NO_SUCH_TRAIT"]).await;
    world.create_server(&pinned(&world, GPU, "sim-compute-1")).await;
    assert_eq!(world.call(SERVER).await, Verdict::Retry { after: Some(Duration::from_secs(10)) });
    let (reason, message) = world.available().await;
    assert_eq!(reason, "Errored");
    assert!(message.contains("CUSTOM_GPU") && message.contains("traits"), "{message}");
    check(&world, true, &["A,B"]).await;
    world.call(SERVER).await;
    let (_, message) = world.available().await;
    assert!(message.contains("requiredTraits") && message.contains("A,B"), "{message}");
    check(&world, true, &[]).await;
    world.cloud.faults().add(Fault::status(403).on("GET", "^/placement").times(1)).unwrap();
    assert!(matches!(world.call(SERVER).await, Verdict::Retry { .. }));
    let (_, message) = world.available().await;
    assert!(message.contains("policy"), "{message}");
    assert_eq!(creates(&world), 0);
    assert_eq!(world.drive().await, Verdict::Settled);
}

/// Proves: PIN-2, SRV-11
#[tokio::test]
async fn a_fault_at_any_call_of_a_checked_create_leaves_one_of_each() {
    let world = world(&["CUSTOM_FAST"]).await;
    let undisturbed = async || {
        world.cloud.clear_requests();
        world.create_server(&pinned(&world, GPU, "sim-compute-1")).await;
        assert_eq!(world.drive().await, Verdict::Settled, "{:?}", world.available().await);
    };
    let remove = async || {
        world.cloud.advance(Duration::from_secs(10));
        world.delete::<crd::Server>(SERVER).await;
        assert_eq!(world.drive().await, Verdict::Gone);
        assert_eq!(world.counts(), (0, 0, 0));
    };
    undisturbed().await;
    remove().await;
    undisturbed().await;
    // The flavor, the question and the create are the last three.
    let calls = world.cloud.requests().len() as u64;
    remove().await;
    for case in Case::ALL.into_iter().filter(|case| !case.of_kubernetes()) {
        for at in calls - 3..calls {
            let fault = case.inject(&world, at);
            undisturbed().await;
            assert_eq!(world.counts(), (1, 0, 1), "{case:?} at {at}");
            let struck = case.struck(&world, fault);
            assert!(struck || !Case::AT_ANY_CALL.contains(&case), "{case:?} at {at}");
            world.cloud.faults().clear();
            remove().await;
        }
    }
}
