//! Ironic, at microversion 1.11: which machine is behind a server, and how far it is.

use http::Method;
use serde::Deserialize;

use crate::paging::{Paging, exactly_one};
use crate::request::Request;
use crate::{NovaServerId, Result, Service, Session, lenient};

/// A machine.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The server that it is for.
    #[serde(default, deserialize_with = "lenient::field")]
    pub instance_uuid: Option<NovaServerId>,
    /// What Ironic is doing with it, in its words, as in `wait call-back`; none if it does not tell.
    #[serde(default, deserialize_with = "lenient::field")]
    pub provision_state: Option<String>,
}

/// Ironic's requests; see [`Session::bare_metal`].
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    session: &'a Session,
}

impl Session {
    /// Ironic.
    pub fn bare_metal(&self) -> Client<'_> {
        Client { session: self }
    }
}

impl Client<'_> {
    /// The machine that is for a server, if one was chosen yet. Takes a privilege that tenants do not have.
    pub async fn node_of(&self, server: &NovaServerId) -> Result<Option<Node>> {
        let request = Request::new(Service::BareMetal, Method::GET, "nodes", &["nodes"])
            .query("instance_uuid", server.as_str())
            .query("fields", "instance_uuid,provision_state");
        let found: Vec<Node> = self.session.list(request.clone(), "nodes", Paging::Next).await?;
        exactly_one(&request, found, |node| node.instance_uuid.as_ref() == Some(server))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use crate::testing::{Cloud, Reply};

    /// Proves: MON-8, OSC-5
    #[tokio::test]
    async fn a_node_is_looked_for_by_the_server_it_is_for_and_compared_exactly() {
        let nodes = json!({"nodes": [
            {"instance_uuid": "other", "provision_state": "active"},
            {"instance_uuid": "s1", "provision_state": "wait call-back"},
            {"instance_uuid": null},
        ]});
        let cloud = Cloud::scripted([Reply::Json(200, nodes), Reply::Json(200, json!({"nodes": []}))]);
        let session = cloud.session();
        let node = session.bare_metal().node_of(&"s1".into()).await.unwrap().unwrap();
        assert_eq!(node.provision_state.as_deref(), Some("wait call-back"));
        assert_eq!(session.bare_metal().node_of(&"s1".into()).await.unwrap(), None);
        let asked = &cloud.asked()[0];
        assert!(asked.url.contains("/v1/nodes?instance_uuid=s1"), "{}", asked.url);
        assert_eq!(asked.headers["x-openstack-ironic-api-version"], "1.11");
    }
}
