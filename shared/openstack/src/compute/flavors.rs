use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;

use super::{Client, request};
use crate::paging::Paging;
use crate::{FlavorId, Result, lenient};

/// A flavor.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Flavor {
    /// Its id, of no particular form.
    pub id: FlavorId,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// Virtual CPUs.
    #[serde(default, deserialize_with = "lenient::number")]
    pub vcpus: u64,
    /// Memory, MiB.
    #[serde(default, deserialize_with = "lenient::number")]
    pub ram: u64,
    /// Root disk, GB.
    #[serde(default, deserialize_with = "lenient::number")]
    pub disk: u64,
    /// Second disk, GB.
    #[serde(default, rename = "OS-FLV-EXT-DATA:ephemeral", deserialize_with = "lenient::number")]
    pub ephemeral: u64,
    /// Swap, MiB.
    #[serde(default, deserialize_with = "lenient::number")]
    pub swap: u64,
    /// Whether every project may use it; absent counts as not.
    #[serde(default, rename = "os-flavor-access:is_public", deserialize_with = "lenient::field")]
    pub is_public: bool,
    /// Traits, resource classes and the like. Empty also when the cloud's policy hides them.
    #[serde(default, deserialize_with = "lenient::texts")]
    pub extra_specs: BTreeMap<String, String>,
}

impl Client<'_> {
    /// The flavors this scope may use, with their extra specs.
    pub async fn flavors(&self) -> Result<Vec<Flavor>> {
        self.session.list(request(Method::GET, "flavors", &["flavors", "detail"]), "flavors", Paging::Links).await
    }

    /// A flavor by id, with its extra specs.
    pub async fn flavor(&self, id: &FlavorId) -> Result<Flavor> {
        let request = request(Method::GET, "flavors", &["flavors", id.as_str()]);
        self.session.send(&request).await?.one(&request, "flavor")
    }
}
