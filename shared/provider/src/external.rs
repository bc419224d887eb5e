//! Which external network a region's routers and floating IPs use (EXT-1, NET-5).
//!
//! The order is stable: that of the selector's ids when there are any, because an operator who lists them has one in mind,
//! and otherwise by id. It must not depend on the order of an answer, or two calls would choose differently.

use crate::{During, Region};
use weir_api::{Problem, crd};
use weir_openstack::network::Network;

impl Region {
    /// The external networks that the region's selector lets through, best first.
    pub async fn external_networks(&self) -> Result<Vec<Network>, Problem> {
        let found = self.inventory().network().external_networks().await.during("listing the external networks")?;
        let options = self.config.network.as_ref().and_then(|n| n.external_networks.as_ref());
        Ok(select(found, options.and_then(|e| e.selector.as_ref())))
    }

    /// The external network to use.
    ///
    /// # Errors
    /// None is selected: an operator has to change the region or the cloud.
    pub async fn external_network(&self) -> Result<Network, Problem> {
        self.external_networks().await?.into_iter().next().ok_or_else(|| {
            Problem::operator(
                "the region has no external network that its selector lets through; an operator has to add one",
            )
        })
    }
}

fn select(mut networks: Vec<Network>, selector: Option<&crd::ExternalNetworkSelector>) -> Vec<Network> {
    networks.sort_by(|a, b| a.id.cmp(&b.id));
    let Some(selector) = selector else {
        return networks;
    };
    let wanted: Vec<_> = selector.tags.iter().map(crd::NetworkTag::neutron).collect();
    // An item that is no tag fits no network.
    networks.retain(|n| wanted.iter().all(|tag| tag.as_deref().is_some_and(|tag| n.tags.iter().any(|t| t == tag))));
    if !selector.ids.is_empty() {
        let place = |n: &Network| selector.ids.iter().position(|id| id == n.id.as_str());
        networks.retain(|n| place(n).is_some());
        networks.sort_by_key(place);
    }
    networks
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn chosen(selector: Option<serde_json::Value>) -> Vec<String> {
        let networks = json!([
            {"id": "c", "tags": ["public", "pool=a"]}, {"id": "a", "tags": ["public"]}, {"id": "b", "tags": []},
        ]);
        let networks: Vec<Network> = serde_json::from_value(networks).unwrap();
        let selector: Option<crd::ExternalNetworkSelector> = selector.map(|s| serde_json::from_value(s).unwrap());
        select(networks, selector.as_ref()).into_iter().map(|n| n.id.to_string()).collect()
    }

    /// Proves: EXT-1, NET-5
    #[test]
    fn external_networks_are_selected_by_ids_and_all_tags_in_a_stable_order() {
        let rows = [
            (None, vec!["a", "b", "c"]),
            (Some(json!({})), vec!["a", "b", "c"]),
            (Some(json!({"ids": ["c", "a", "gone"]})), vec!["c", "a"]),
            (Some(json!({"tags": ["public"]})), vec!["a", "c"]),
            (Some(json!({"tags": ["public", {"name": "pool", "value": "a"}]})), vec!["c"]),
            (Some(json!({"ids": ["b"], "tags": ["public"]})), vec![]),
            (Some(json!({"tags": [7]})), vec![]),
        ];
        for (selector, expected) in rows {
            assert_eq!(chosen(selector.clone()), expected, "{selector:?}");
        }
    }
}
