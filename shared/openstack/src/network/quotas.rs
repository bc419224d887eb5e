use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Client, request};
use crate::{ProjectId, Result, lenient};

/// Limits of a project. `-1` is no limit; `None` is left as it is when set, and was not told when read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// Networks.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub network: Option<i64>,
    /// Subnets.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub subnet: Option<i64>,
    /// Subnet pools.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub subnetpool: Option<i64>,
    /// Ports.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Routers.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub router: Option<i64>,
    /// Floating IPs.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub floatingip: Option<i64>,
    /// Security groups.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub security_group: Option<i64>,
    /// Security group rules.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub security_group_rule: Option<i64>,
    /// Policies that share networks with others.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub rbac_policy: Option<i64>,
}

impl Client<'_> {
    /// The limits of `project`.
    pub async fn quotas(&self, project: &ProjectId) -> Result<Quota> {
        self.send_one(request(Method::GET, "quotas", &["quotas", project.as_str()]), "quota").await
    }

    /// Sets those limits of `project` that are given.
    pub async fn set_quotas(&self, project: &ProjectId, quota: &Quota) -> Result<()> {
        let request = request(Method::PUT, "quotas", &["quotas", project.as_str()]).body(json!({ "quota": quota }));
        self.session.send(&request).await.map(drop)
    }
}
