use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Client, request};
use crate::paging::Paging;
use crate::{NetworkId, ProjectId, Result, SubnetId, lenient};

/// A network.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Network {
    /// Its id.
    pub id: NetworkId,
    /// Its name, which Neutron does not keep unique.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// For people.
    #[serde(default, deserialize_with = "lenient::field")]
    pub description: String,
    /// The project it is in.
    #[serde(default, deserialize_with = "lenient::field")]
    pub project_id: Option<ProjectId>,
    /// `ACTIVE`, `BUILD`, `DOWN`, `ERROR`.
    #[serde(default, deserialize_with = "lenient::field")]
    pub status: String,
    /// Whether every project may use it.
    #[serde(default, deserialize_with = "lenient::field")]
    pub shared: bool,
    /// Whether it leads out of the cloud.
    #[serde(default, rename = "router:external", deserialize_with = "lenient::field")]
    pub external: bool,
    /// Its subnets.
    #[serde(default, deserialize_with = "lenient::list")]
    pub subnets: Vec<SubnetId>,
    /// Its tags.
    #[serde(default, deserialize_with = "lenient::list")]
    pub tags: Vec<String>,
    #[serde(flatten)]
    provider: Segment,
    #[serde(default, deserialize_with = "lenient::list")]
    segments: Vec<Segment>,
}

impl Network {
    /// What it is made of; `None` if the scope may not see that, or it has several segments.
    pub fn segment(&self) -> Option<&Segment> {
        match self.segments.as_slice() {
            [one] => Some(one),
            [] => self.provider.network_type.as_ref().map(|_| &self.provider),
            _ => None,
        }
    }
}

/// How a network is carried. Seen and set only with a privilege.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// `vlan`, `vxlan`, `flat` …
    #[serde(default, rename = "provider:network_type", deserialize_with = "lenient::field")]
    pub network_type: Option<String>,
    /// The operator's name of the physical network.
    #[serde(default, rename = "provider:physical_network", deserialize_with = "lenient::field")]
    pub physical_network: Option<String>,
    /// The VLAN id, for a VLAN.
    #[serde(default, rename = "provider:segmentation_id", deserialize_with = "lenient::field")]
    pub segmentation_id: Option<u32>,
}

impl Segment {
    /// A VLAN of `physical_network`.
    pub fn vlan(physical_network: impl Into<String>, id: u16) -> Self {
        Self {
            network_type: Some("vlan".into()),
            physical_network: Some(physical_network.into()),
            segmentation_id: Some(id.into()),
        }
    }

    /// The VLAN id, if it is one.
    pub fn vlan_id(&self) -> Option<u16> {
        if self.network_type.as_deref() != Some("vlan") {
            return None;
        }
        self.segmentation_id.and_then(|id| u16::try_from(id).ok())
    }
}

/// A network to be made.
#[derive(Debug, Clone, Serialize)]
pub struct NewNetwork<'a> {
    /// Its name.
    pub name: &'a str,
    /// For people.
    pub description: &'a str,
    /// What it is made of; empty: what the cloud gives tenants. Takes a privilege.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub segments: &'a [Segment],
}

impl Client<'_> {
    /// Makes a network in the session's project.
    pub async fn create_network(&self, network: &NewNetwork<'_>) -> Result<Network> {
        let request = request(Method::POST, "networks", &["networks"]).body(json!({ "network": network }));
        self.send_one(request, "network").await
    }

    /// A network by id, also of another project if it is visible.
    pub async fn network(&self, id: &NetworkId) -> Result<Network> {
        self.send_one(request(Method::GET, "networks", &["networks", id.as_str()]), "network").await
    }

    /// The project's networks.
    pub async fn networks(&self) -> Result<Vec<Network>> {
        self.list(request(Method::GET, "networks", &["networks"]), "networks").await
    }

    /// The project's network of exactly this name.
    pub async fn find_network_by_name(&self, name: &str) -> Result<Option<Network>> {
        self.find("networks", "networks", name).await
    }

    /// The networks that lead out of the cloud, of any project, by id.
    pub async fn external_networks(&self) -> Result<Vec<Network>> {
        let request = request(Method::GET, "networks", &["networks"]).query("router:external", "true");
        let mut found: Vec<Network> = self.session.list(request, "networks", Paging::Links).await?;
        found.retain(|network| network.external);
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }

    /// Deletes a network; [`crate::Class::Conflict`] with kind `NetworkInUse` while something hangs on it.
    pub async fn delete_network(&self, id: &NetworkId) -> Result<()> {
        self.delete("networks", id.as_str()).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_vlan_is_read_from_either_form() {
        let vlan =
            json!({"provider:network_type": "vlan", "provider:physical_network": "p", "provider:segmentation_id": 7});
        let mut flat = vlan.clone();
        flat["id"] = json!("n");
        let mut listed = json!({"id": "n", "segments": [vlan]});
        for network in [&flat, &listed] {
            let network: Network = serde_json::from_value(network.clone()).unwrap();
            assert_eq!(network.segment().unwrap().vlan_id(), Some(7));
        }
        listed["segments"] = json!([vlan, vlan]);
        assert!(serde_json::from_value::<Network>(listed).unwrap().segment().is_none());
        assert!(serde_json::from_value::<Network>(json!({"id": "n"})).unwrap().segment().is_none());
        let new = NewNetwork { name: "a", description: "", segments: &[Segment::vlan("p", 7)] };
        assert_eq!(serde_json::to_value(new).unwrap()["segments"], json!([vlan]));
        let new = NewNetwork { name: "a", description: "d", segments: &[] };
        assert_eq!(serde_json::to_value(new).unwrap(), json!({"name": "a", "description": "d"}));
    }
}
