//! What there is to do: tenants, each with a network and a security group, and servers spread over them.
//!
//! A hundred servers to a tenant: as many as a network of this size takes, and few enough for the lists of finalizers that
//! its network and group carry.

use serde_json::{Value, json};
use weir_api::{Kind, ObjectRef};
use weir_harness::World;
use weir_harness::world::{links, object};

/// Servers of one tenant.
const SERVERS_PER_TENANT: usize = 100;

/// So many servers.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    /// How many.
    pub servers: usize,
}

impl Population {
    /// How many tenants they belong to.
    pub fn tenants(self) -> usize {
        self.servers.div_ceil(SERVERS_PER_TENANT).max(1)
    }

    /// Everything that servers need, in the order in which it can be made.
    pub fn surroundings(self, bootstrap: &Value) -> Vec<Value> {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": World::SECRET, "namespace": World::NAMESPACE}, "stringData": bootstrap["credential"]});
        let at = json!({"namespace": World::NAMESPACE, "name": World::SECRET});
        let openstack = json!({"endpoint": bootstrap["endpoint"], "serviceAccountSecret": at});
        let region = object(Kind::Region, World::REGION, &[], json!({"provider": "openstack", "openstack": openstack}));
        let mut all = vec![secret, region];
        for tenant in 0..self.tenants() {
            let [identity, network, group] = names(tenant);
            all.push(weir_harness::world::identity(&identity));
            all.push(weir_harness::world::network(&network, &identity));
            all.push(weir_harness::world::security_group(&group, &identity));
        }
        all
    }

    /// The servers, tenant after tenant.
    pub fn manifests(self, bootstrap: &Value) -> Vec<Value> {
        (0..self.servers).map(|number| manifest(number, bootstrap)).collect()
    }

    /// Their names.
    pub fn names(self) -> Vec<String> {
        (0..self.servers).map(server).collect()
    }
}

/// The name of a server.
pub fn server(number: usize) -> String {
    format!("d0000000-0000-4000-8000-{number:012}")
}

/// The server for a function.
pub fn reference(name: &str) -> ObjectRef {
    ObjectRef::new(Kind::Server, World::NAMESPACE, name)
}

/// A server on its tenant's network.
pub fn manifest(number: usize, bootstrap: &Value) -> Value {
    let [identity, network, group] = names(number / SERVERS_PER_TENANT);
    object(Kind::Server, &server(number), &links(&identity), spec(bootstrap, &network, json!([{"id": group}])))
}

/// A server that belongs to nobody, for a function that does not look at what it asks for.
pub fn orphan(number: usize, bootstrap: &Value) -> Value {
    let [_, network, _] = names(0);
    object(Kind::Server, &server(number), &[], spec(bootstrap, &network, json!([])))
}

#[allow(clippy::needless_pass_by_value)] // built in place
fn spec(bootstrap: &Value, network: &str, groups: Value) -> Value {
    json!({"flavorID": bootstrap["flavors"][0]["id"], "image": {"id": bootstrap["images"][0]["id"]},
        "networks": [{"id": network}], "securityGroups": groups})
}

fn names(tenant: usize) -> [String; 3] {
    ['a', 'b', 'c'].map(|letter| format!("{letter}0000000-0000-4000-8000-{tenant:012}"))
}
