use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Client, request};
use crate::{NetworkId, ProjectId, Result, RouterId, SubnetId, lenient};

/// A router.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Router {
    /// Its id.
    pub id: RouterId,
    /// Its name, which Neutron does not keep unique.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// The project it is in.
    #[serde(default, deserialize_with = "lenient::field")]
    pub project_id: Option<ProjectId>,
    /// `ACTIVE`, `ERROR` …
    #[serde(default, deserialize_with = "lenient::field")]
    pub status: String,
    /// Its way out, if it has one.
    #[serde(default, rename = "external_gateway_info", deserialize_with = "lenient::field")]
    pub gateway: Option<Gateway>,
}

/// A router's way out of the cloud.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// An external network.
    pub network_id: NetworkId,
}

/// A router to be made.
#[derive(Debug, Clone, Serialize)]
pub struct NewRouter<'a> {
    /// Its name.
    pub name: &'a str,
    /// For people.
    pub description: &'a str,
    /// Its way out.
    #[serde(rename = "external_gateway_info", skip_serializing_if = "Option::is_none")]
    pub gateway: Option<&'a Gateway>,
}

/// What to change of a router; `None` is left as it is.
#[derive(Debug, Clone, Default)]
pub struct RouterUpdate<'a> {
    /// Its way out; `Some(None)` closes it.
    pub gateway: Option<Option<&'a Gateway>>,
}

impl Client<'_> {
    /// Makes a router.
    pub async fn create_router(&self, router: &NewRouter<'_>) -> Result<Router> {
        let request = request(Method::POST, "routers", &["routers"]).body(json!({ "router": router }));
        self.send_one(request, "router").await
    }

    /// A router by id.
    pub async fn router(&self, id: &RouterId) -> Result<Router> {
        self.send_one(request(Method::GET, "routers", &["routers", id.as_str()]), "router").await
    }

    /// The project's routers.
    pub async fn routers(&self) -> Result<Vec<Router>> {
        self.list(request(Method::GET, "routers", &["routers"]), "routers").await
    }

    /// The project's router of exactly this name.
    pub async fn find_router_by_name(&self, name: &str) -> Result<Option<Router>> {
        self.find("routers", "routers", name).await
    }

    /// Changes what `update` names.
    pub async fn update_router(&self, id: &RouterId, update: &RouterUpdate<'_>) -> Result<Router> {
        let mut router = json!({});
        if let Some(gateway) = update.gateway {
            router["external_gateway_info"] = gateway.map_or(Value::Null, |gateway| json!(gateway));
        }
        let request = request(Method::PUT, "routers", &["routers", id.as_str()]).body(json!({ "router": router }));
        self.send_one(request, "router").await
    }

    /// Gives the router a port with the subnet's gateway address. A port of the router's appears among the network's ports,
    /// with device owner [`super::Port::ROUTER_INTERFACE`]. 400 if it has one already.
    pub async fn add_router_interface(&self, id: &RouterId, subnet: &SubnetId) -> Result<()> {
        self.interface(id, "add_router_interface", subnet).await
    }

    /// Takes the router's port in `subnet` away; not found if there is none.
    pub async fn remove_router_interface(&self, id: &RouterId, subnet: &SubnetId) -> Result<()> {
        self.interface(id, "remove_router_interface", subnet).await
    }

    async fn interface(&self, id: &RouterId, verb: &str, subnet: &SubnetId) -> Result<()> {
        let request = request(Method::PUT, "router-interfaces", &["routers", id.as_str(), verb])
            .body(json!({ "subnet_id": subnet }));
        self.session.send(&request).await.map(drop)
    }

    /// Deletes a router; [`crate::Class::Conflict`] with kind `RouterInUse` while it has interfaces.
    pub async fn delete_router(&self, id: &RouterId) -> Result<()> {
        self.delete("routers", id.as_str()).await
    }
}
