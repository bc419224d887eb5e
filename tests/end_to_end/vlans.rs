//! Provider networks: a VLAN for each, never the same twice (NET-8, NET-9).

use crate::job::{IDENTITY, SOON, apply, available, delete, gone, told};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weir_harness::{Stack, world};

const FIRST: u64 = 100;
const MANY: u64 = 10;

/// Proves: NET-7, NET-8, NET-9
#[tokio::test(flavor = "multi_thread")]
async fn ten_provider_networks_at_once_get_ten_vlans_and_give_them_back() {
    let stack = Stack::start().await;
    let mut region = stack.region(None);
    let segments = json!([{"startId": FIRST, "endId": FIRST + MANY - 1}]);
    region["spec"]["openstack"]["network"] =
        json!({"providerNetworks": {"physicalNetwork": "physnet1", "vlan": {"segments": segments}}});
    let networks: Vec<Value> = (0..MANY).map(|i| world::network(&format!("network-{i}"), IDENTITY)).collect();
    apply(&stack, &[stack.secret(|_| {}), region, world::identity(IDENTITY)]).await;
    apply(&stack, &networks).await;
    for network in &networks {
        available(&stack, network).await;
    }
    let mut told_by_status = BTreeSet::new();
    for network in &networks {
        let object = stack.cluster.get(network).await.expect("the network");
        told_by_status.insert(object.data["status"]["openstack"]["vlanID"].as_u64().expect("a VLAN"));
    }
    let all: BTreeSet<u64> = (FIRST..FIRST + MANY).collect();
    assert_eq!(told_by_status, all);
    assert_eq!(in_the_cloud(&stack).await, all);
    assert_eq!(in_the_table(&stack).await, all);

    // One more than there is room for says so, and holds nothing.
    let further = world::network("network-too-many", IDENTITY);
    stack.cluster.apply(&further).await;
    told(&stack, &further, "says that no VLAN is free", |c| c.message.contains("no free VLAN")).await;
    assert_eq!(in_the_cloud(&stack).await, all);
    stack.cluster.delete(&further).await;
    gone(&stack, &further).await;

    // A VLAN that was given back is given again.
    stack.cluster.delete(&networks[3]).await;
    gone(&stack, &networks[3]).await;
    assert_eq!(in_the_table(&stack).await.len() as u64, MANY - 1);
    stack.cluster.apply(&networks[3]).await;
    available(&stack, &networks[3]).await;
    assert_eq!(in_the_cloud(&stack).await, all);

    delete(&stack, &networks).await;
    stack.eventually(SOON, "all VLANs are free", async || in_the_table(&stack).await.is_empty()).await;
    for network in &networks {
        gone(&stack, network).await;
    }
    assert_eq!(in_the_cloud(&stack).await, BTreeSet::new());
}

/// VLANs of the networks that the cloud holds.
async fn in_the_cloud(stack: &Stack) -> BTreeSet<u64> {
    let state = stack.cloud("GET", "state", None).await;
    let networks = state["networks"].as_array().expect("networks").clone();
    let ours =
        networks.into_iter().filter(|n| n["name"].as_str().is_some_and(|name| name.starts_with("network-network-")));
    let vlans: Vec<u64> = ours.map(|n| n["provider:segmentation_id"].as_u64().unwrap_or_default()).collect();
    assert_eq!(vlans.iter().collect::<BTreeSet<_>>().len(), vlans.len(), "a VLAN was given twice: {vlans:?}");
    vlans.into_iter().collect()
}

/// VLANs of the region's table.
async fn in_the_table(stack: &Stack) -> BTreeSet<u64> {
    let tables = stack.cluster.records("vlanallocations").await;
    let entries =
        tables.iter().flat_map(|table| table.data["spec"]["allocations"].as_array().cloned().unwrap_or_default());
    entries.filter_map(|entry| entry["id"].as_u64()).collect()
}
