use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{Client, request};
use crate::paging::{Paging, exactly_one};
use crate::{NovaServerId, Result, ServerGroupId, lenient};

/// A server group.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct ServerGroup {
    /// Its id.
    pub id: ServerGroupId,
    /// Its name, which Nova does not keep unique.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// `soft-anti-affinity` and the like.
    #[serde(default, deserialize_with = "lenient::field")]
    pub policy: String,
    /// The servers in it.
    #[serde(default, deserialize_with = "lenient::list")]
    pub members: Vec<NovaServerId>,
}

impl Client<'_> {
    /// Makes a server group.
    pub async fn create_server_group(&self, name: &str, policy: &str) -> Result<ServerGroup> {
        let request = request(Method::POST, "server-groups", &["os-server-groups"])
            .body(json!({"server_group": {"name": name, "policy": policy}}));
        self.session.send(&request).await?.one(&request, "server_group")
    }

    /// The project's server groups.
    pub async fn server_groups(&self) -> Result<Vec<ServerGroup>> {
        let request = request(Method::GET, "server-groups", &["os-server-groups"]);
        self.session.list(request, "server_groups", Paging::Offset).await
    }

    /// The project's server group of exactly this name. Nova has no filter for it.
    pub async fn find_server_group_by_name(&self, name: &str) -> Result<Option<ServerGroup>> {
        let found = self.server_groups().await?;
        exactly_one(&request(Method::GET, "server-groups", &["os-server-groups"]), found, |group| group.name == name)
    }

    /// Deletes a server group. Its members stay.
    pub async fn delete_server_group(&self, id: &ServerGroupId) -> Result<()> {
        let path = ["os-server-groups", id.as_str()];
        self.session.send(&request(Method::DELETE, "server-groups", &path)).await.map(drop)
    }
}
