//! OpenstackIdentity: what has been made for an Identity in OpenStack.

use super::{Base64, Confidential};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What has been made so far. Written by the identity function, one field after each step (IDN-1); a field that is
/// absent is a step not yet recorded.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "region.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "OpenstackIdentity",
    plural = "openstackidentities",
    namespaced,
    status = "OpenstackIdentityStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "osid",
    doc = "The record of an Identity in an OpenStack region: IDs and secrets that cannot be found again. It has the name of its Identity, and is written by Weir only.",
    printcolumn(name = "provider", type_ = "string", json_path = ".spec.provider", priority = 1),
    printcolumn(name = "project", type_ = "string", json_path = ".spec.projectID"),
    printcolumn(name = "user", type_ = "string", json_path = ".spec.userID", priority = 1),
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct OpenstackIdentitySpec {
    /// The `clouds.yaml` with the application credential, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_config: Option<Confidential<Base64>>,
    /// The cloud's name in `cloudConfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud: Option<String>,
    /// The Keystone project.
    #[serde(default, rename = "projectID", skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The Keystone user.
    #[serde(default, rename = "userID", skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Confidential<String>>,
    /// The application credential.
    #[serde(default, rename = "applicationCredentialID", skip_serializing_if = "Option::is_none")]
    pub application_credential_id: Option<String>,
    /// The application credential's secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential_secret: Option<Confidential<String>>,
    /// The Nova server group.
    #[serde(default, rename = "serverGroupID", skip_serializing_if = "Option::is_none")]
    pub server_group_id: Option<String>,
    /// The name of the Nova key pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_name: Option<String>,
    /// The key pair's private half: PEM in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_private_key: Option<Confidential<Base64>>,
}

/// Nothing but which spec it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenstackIdentityStatus {
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
