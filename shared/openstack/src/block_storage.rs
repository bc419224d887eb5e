//! Cinder, at its base version: so far only quotas.

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::request::Request;
use crate::{ProjectId, Result, Service, Session, lenient};

/// Limits of a project. `-1` is no limit; `None` is left as it is when set, and was not told when read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaSet {
    /// Volumes.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub volumes: Option<i64>,
    /// GiB of volumes and snapshots together.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub gigabytes: Option<i64>,
    /// Snapshots.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<i64>,
    /// Backups.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub backups: Option<i64>,
    /// GiB of backups.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub backup_gigabytes: Option<i64>,
    /// GiB of one volume.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub per_volume_gigabytes: Option<i64>,
    /// Volume groups.
    #[serde(deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub groups: Option<i64>,
}

/// Cinder's requests; see [`Session::block_storage`].
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    session: &'a Session,
}

impl Session {
    /// Cinder.
    pub fn block_storage(&self) -> Client<'_> {
        Client { session: self }
    }
}

impl Client<'_> {
    /// The limits of `project`.
    pub async fn quotas(&self, project: &ProjectId) -> Result<QuotaSet> {
        let request = quota_sets(Method::GET, project);
        self.session.send(&request).await?.one(&request, "quota_set")
    }

    /// Sets those limits of `project` that are given.
    pub async fn set_quotas(&self, project: &ProjectId, quotas: &QuotaSet) -> Result<()> {
        let request = quota_sets(Method::PUT, project).body(json!({ "quota_set": quotas }));
        self.session.send(&request).await.map(drop)
    }
}

fn quota_sets(method: Method, project: &ProjectId) -> Request {
    Request::new(Service::BlockStorage, method, "quota-sets", &["os-quota-sets", project.as_str()])
}
