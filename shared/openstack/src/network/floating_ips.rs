use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Client, request};
use crate::paging::Paging;
use crate::{FloatingIpId, NetworkId, PortId, ProjectId, Result, lenient};

/// A floating IP. It has no name; it is found by the port it is on.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct FloatingIp {
    /// Its id.
    pub id: FloatingIpId,
    /// The project it is in.
    #[serde(default, deserialize_with = "lenient::field")]
    pub project_id: Option<ProjectId>,
    /// The external network it is of.
    #[serde(default, deserialize_with = "lenient::field")]
    pub floating_network_id: Option<NetworkId>,
    /// Its address.
    #[serde(default, deserialize_with = "lenient::field")]
    pub floating_ip_address: String,
    /// The address behind it.
    #[serde(default, deserialize_with = "lenient::field")]
    pub fixed_ip_address: Option<String>,
    /// The port it is on.
    #[serde(default, deserialize_with = "lenient::field")]
    pub port_id: Option<PortId>,
    /// `ACTIVE`, `DOWN`, `ERROR`.
    #[serde(default, deserialize_with = "lenient::field")]
    pub status: String,
    /// For people, and for telling ours from others.
    #[serde(default, deserialize_with = "lenient::field")]
    pub description: String,
    /// Its tags.
    #[serde(default, deserialize_with = "lenient::list")]
    pub tags: Vec<String>,
}

/// Which floating IPs to list, of the session's project.
#[derive(Debug, Clone, Default)]
pub struct FloatingIpFilter<'a> {
    /// On this port.
    pub port: Option<&'a PortId>,
}

/// A floating IP to be made.
#[derive(Debug, Clone, Serialize)]
pub struct NewFloatingIp<'a> {
    /// The external network it is to be of.
    pub floating_network_id: &'a NetworkId,
    /// The port it is to be on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_id: Option<&'a PortId>,
    /// For people, and for telling ours from others.
    pub description: &'a str,
}

impl Client<'_> {
    /// Makes a floating IP.
    pub async fn create_floating_ip(&self, ip: &NewFloatingIp<'_>) -> Result<FloatingIp> {
        let request = request(Method::POST, "floatingips", &["floatingips"]).body(json!({ "floatingip": ip }));
        self.send_one(request, "floatingip").await
    }

    /// A floating IP by id.
    pub async fn floating_ip(&self, id: &FloatingIpId) -> Result<FloatingIp> {
        self.send_one(request(Method::GET, "floatingips", &["floatingips", id.as_str()]), "floatingip").await
    }

    /// The project's floating IPs that match.
    pub async fn floating_ips(&self, filter: &FloatingIpFilter<'_>) -> Result<Vec<FloatingIp>> {
        let project = self.session.project_id().await?;
        let request = request(Method::GET, "floatingips", &["floatingips"])
            .query_some("port_id", filter.port)
            .query_some("project_id", project.as_ref());
        let mut found: Vec<FloatingIp> = self.session.list(request, "floatingips", Paging::Links).await?;
        found.retain(|ip| filter.port.is_none() || ip.port_id.as_ref() == filter.port);
        found.retain(|ip| project.is_none() || ip.project_id.is_none() || ip.project_id == project);
        Ok(found)
    }

    /// Puts a floating IP on a port, or with `None` takes it off.
    pub async fn associate_floating_ip(&self, id: &FloatingIpId, port: Option<&PortId>) -> Result<FloatingIp> {
        let request = request(Method::PUT, "floatingips", &["floatingips", id.as_str()])
            .body(json!({"floatingip": {"port_id": port}}));
        self.send_one(request, "floatingip").await
    }

    /// Deletes a floating IP; its address goes back to the cloud.
    pub async fn delete_floating_ip(&self, id: &FloatingIpId) -> Result<()> {
        self.delete("floatingips", id.as_str()).await
    }
}
