//! Neutron v2.0.
//!
//! Lists and look-ups are limited to the session's own project, whatever the credential may see: a shared network of somebody
//! else with our name is not ours. What is listed beyond it says so in its name ([`Client::external_networks`]).

mod floating_ips;
mod networks;
mod ports;
mod quotas;
mod routers;
mod security_groups;
mod subnets;

pub use floating_ips::{FloatingIp, FloatingIpFilter, NewFloatingIp};
pub use networks::{Network, NewNetwork, Segment};
pub use ports::{AddressPair, FixedIp, NewPort, Port, PortFilter, PortUpdate};
pub use quotas::Quota;
pub use routers::{Gateway, NewRouter, Router, RouterUpdate};
pub use security_groups::{NewSecurityGroup, NewSecurityGroupRule, SecurityGroup, SecurityGroupRule};
pub use subnets::{AllocationPool, HostRoute, NewSubnet, Subnet, SubnetUpdate};

use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::paging::{Paging, exactly_one};
use crate::request::Request;
use crate::{ProjectId, Result, Service, Session, lenient};

/// Neutron's requests; see [`Session::network`].
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    session: &'a Session,
}

impl Session {
    /// Neutron.
    pub fn network(&self) -> Client<'_> {
        Client { session: self }
    }
}

#[derive(Deserialize)]
struct Extension {
    #[serde(default, deserialize_with = "lenient::field")]
    alias: String,
}

/// What has a name and a project.
trait Named: DeserializeOwned {
    fn name(&self) -> &str;
    fn project(&self) -> Option<&ProjectId>;
}

macro_rules! named {
    ($($kind:ty),*) => {$(
        impl Named for $kind {
            fn name(&self) -> &str {
                &self.name
            }

            fn project(&self) -> Option<&ProjectId> {
                self.project_id.as_ref()
            }
        }
    )*};
}

named!(Network, Subnet, Router, Port, SecurityGroup);

impl Client<'_> {
    /// The aliases of the extensions the cloud has.
    pub async fn extensions(&self) -> Result<Vec<String>> {
        let request = request(Method::GET, "extensions", &["extensions"]);
        let found: Vec<Extension> = self.session.list(request, "extensions", Paging::Links).await?;
        Ok(found.into_iter().map(|extension| extension.alias).collect())
    }

    /// The items of a collection that are in the session's project.
    async fn list<T: Named>(&self, request: Request, key: &str) -> Result<Vec<T>> {
        let project = self.session.project_id().await?;
        let request = request.query_some("project_id", project.as_ref());
        let found: Vec<T> = self.session.list(request, key, Paging::Links).await?;
        // A cloud that ignores the filter is held to it here.
        let ours = |item: &T| project.is_none() || item.project().is_none() || item.project() == project.as_ref();
        Ok(found.into_iter().filter(ours).collect())
    }

    async fn find<T: Named>(&self, resource: &'static str, key: &str, name: &str) -> Result<Option<T>> {
        let request = request(Method::GET, resource, &[resource]).query("name", name);
        let found = self.list(request.clone(), key).await?;
        exactly_one(&request, found, |item: &T| item.name() == name)
    }

    async fn send_one<T: DeserializeOwned>(&self, request: Request, key: &str) -> Result<T> {
        self.session.send(&request).await?.one(&request, key)
    }

    async fn delete(&self, resource: &'static str, id: &str) -> Result<()> {
        self.session.send(&request(Method::DELETE, resource, &[resource, id])).await.map(drop)
    }
}

fn request(method: Method, resource: &'static str, path: &[&str]) -> Request {
    Request::new(Service::Network, method, resource, path)
}
