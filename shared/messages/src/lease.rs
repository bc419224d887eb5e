//! What stands in the bucket of leases, for people and for `weir queue leases`. Machines compare revisions only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The name of the schema of [`Record`], and of its file in `queue-schemas/`, without `.json`.
pub const SCHEMA: &str = "lease.v1";

/// Who works on an object right now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The process that holds the lease, as it calls itself.
    pub holder: String,
    /// This taking of the lease. Two takings by one process differ.
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub id: Uuid,
    /// When the lease was taken, by the holder's clock, in RFC 3339.
    pub since: String,
}
