use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Client, request};
use crate::{ProjectId, Result, lenient};

/// Limits of a project. `-1` is no limit; `None` is left as it is when set, and was not told when read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaSet {
    /// Servers.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub instances: Option<i64>,
    /// Virtual CPUs.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub cores: Option<i64>,
    /// Memory, MiB.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub ram: Option<i64>,
    /// Key pairs per user.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub key_pairs: Option<i64>,
    /// Metadata entries per server.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub metadata_items: Option<i64>,
    /// Server groups.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub server_groups: Option<i64>,
    /// Servers per group.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub server_group_members: Option<i64>,
}

impl Client<'_> {
    /// The limits of `project`.
    pub async fn quotas(&self, project: &ProjectId) -> Result<QuotaSet> {
        let request = request(Method::GET, "quota-sets", &["os-quota-sets", project.as_str()]);
        self.session.send(&request).await?.one(&request, "quota_set")
    }

    /// Sets those limits of `project` that are given.
    pub async fn set_quotas(&self, project: &ProjectId, quotas: &QuotaSet) -> Result<()> {
        let request = request(Method::PUT, "quota-sets", &["os-quota-sets", project.as_str()])
            .body(json!({ "quota_set": quotas }));
        self.session.send(&request).await.map(drop)
    }
}
