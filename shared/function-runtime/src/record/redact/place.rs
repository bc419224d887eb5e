//! Where in a document a text stands: whether others go by it, and whose it is.
//!
//! Intention: a tenant writes tags, annotations, user data and names. What he writes there may look like a secret that is none, or
//! be a word that others need: `kind`, a network's ID, a path. So what only he calls a secret is taught to one call
//! ([`super::known::Trust`]), and is searched for in texts that people read, and not in what programs go by.
//!
//! Caveat: names are public. Somebody who gives something a secret for a name has published it.

use super::known::{Trust, Which};
use super::node::Node;

/// Who has written what is learnt from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A cloud, or Kubernetes: what its own fields call a secret is one. Texts in it are others'.
    Cloud,
    /// A tenant.
    Tenants,
    /// It holds secrets and nothing else: a Kubernetes Secret, `clouds.yaml`.
    Vault,
}

impl Whose {
    /// What a tenant could have written here.
    pub(super) const fn tenants(self) -> Self {
        if matches!(self, Self::Vault) { self } else { Self::Tenants }
    }

    /// What is here to hold secrets, unless a tenant says so.
    pub(super) const fn vault(self) -> Self {
        if matches!(self, Self::Tenants) { self } else { Self::Vault }
    }

    pub(super) const fn trust(self) -> Trust {
        if matches!(self, Self::Tenants) { Trust::Told } else { Trust::Sure }
    }
}

/// Whether the member of that name holds what tenants write, names included.
pub(super) fn is_tenants(name: &str) -> bool {
    matches!(
        name,
        "tags" | "metadata" | "annotations" | "labels" | "matchLabels" | "addresses" | "properties" | "extra_specs"
    )
}

/// Whether the member of that name holds credentials as a document.
pub(super) fn is_vault(name: &str) -> bool {
    matches!(name, "cloudConfig" | "cloud_config" | "clouds.yaml")
}

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Among the fields of an object.
    Body,
    /// Among what tenants write.
    Tenants,
    /// Among labels, by which objects are selected.
    Labels,
    /// In a field that programs go by.
    Structure,
}

impl Place {
    /// Where `value` stands, the member of this name of an object that stands here.
    pub(super) fn of(self, name: &str, value: &Node<'_>) -> Self {
        match self {
            Self::Labels => Self::Structure,
            Self::Tenants if is_id(name) || is_ours(name) => Self::Structure,
            Self::Tenants => Self::Tenants,
            Self::Body | Self::Structure => match name {
                "labels" | "matchLabels" | "nodeSelector" => Self::Labels,
                "annotations" | "tags" | "properties" | "extra_specs" => Self::Tenants,
                "metadata" if !is_of_kubernetes(value) => Self::Tenants,
                _ if is_id(name) || is_gone_by(name) => Self::Structure,
                _ => Self::Body,
            },
        }
    }

    /// Which secrets are searched for here.
    pub(super) const fn which(self) -> Which {
        if matches!(self, Self::Labels | Self::Structure) { Which::Sure } else { Which::All }
    }
}

/// Whether this is the `metadata` of an object of Kubernetes; that of a cloud's server is its owner's.
fn is_of_kubernetes(value: &Node<'_>) -> bool {
    ["resourceVersion", "annotations", "labels", "finalizers", "ownerReferences"]
        .iter()
        .any(|name| value.get(name).is_some_and(|member| *name == "resourceVersion" || member.as_text().is_none()))
}

/// Whether a label or annotation is of a kind that our functions write and read.
fn is_ours(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, name)| domain.ends_with("unikorn-cloud.org") && name != "description")
}

/// Whether a member of this name says which thing it is: its ID or its name.
fn is_id(name: &str) -> bool {
    const ENDS: [&str; 12] =
        ["id", "ID", "Id", "ids", "IDs", "Ids", "uid", "uuid", "name", "Name", "hostname", "namespace"];
    ENDS.iter().filter_map(|end| Some((name.strip_suffix(end)?, end))).any(|(rest, end)| {
        // As in `id`, `network_id` and `networkID`; not as in `paid`.
        let breaks = |c: char| !c.is_alphanumeric() || end.starts_with('I') || end.starts_with('N');
        rest.chars().next_back().is_none_or(breaks)
    })
}

/// Whether programs go by what stands in a member of this name.
fn is_gone_by(name: &str) -> bool {
    let last = name.rsplit(['_', '-', ':', '.', '/']).next().unwrap_or_default();
    matches!(
        last,
        "apiVersion"
            | "architecture"
            | "defaultArchitecture"
            | "endpoint"
            | "finalizers"
            | "group"
            | "href"
            | "interface"
            | "kind"
            | "methods"
            | "op"
            | "path"
            | "phase"
            | "publicKey"
            | "reason"
            | "region"
            | "rel"
            | "resourceVersion"
            | "roles"
            | "self"
            | "state"
            | "status"
            | "type"
            | "url"
            | "version"
            | "zone"
            | "zones"
    ) || name == "public_key"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Proves: R-2, R-3
    #[test]
    fn what_programs_go_by_is_told_from_what_people_read() {
        let is = |path: &[&str], leaf: &str| {
            let value: Node<'_> = serde_json::from_str(leaf).unwrap();
            path.iter().fold(Place::Body, |place, name| place.of(name, &value))
        };
        for path in [
            &["kind"][..],
            &["apiVersion"],
            &["metadata", "name"],
            &["spec", "networks", "id"],
            &["spec", "flavorID"],
            &["status", "conditions", "status"],
            &["server", "hostId"],
            &["server", "OS-EXT-STS:vm_state"],
            &["server", "key_name"],
            &["metadata", "labels", "stage"],
            &["metadata", "annotations", "regions.unikorn-cloud.org/identity-id"],
            &["server", "tags", "name"],
            &["server", "links", "href"],
        ] {
            assert_eq!(is(path, r#"{"labels": {}}"#).which(), Which::Sure, "{path:?}");
        }
        for path in [
            &["spec", "message"][..],
            &["status", "conditions", "message"],
            &["metadata", "annotations", "example.com/status"],
            &["metadata", "annotations", "unikorn-cloud.org/description"],
            &["spec", "tags", "value"],
            &["server", "fault", "details"],
            &["paid"],
            &["config_drive"],
        ] {
            assert_eq!(is(path, r#"{"labels": {}}"#).which(), Which::All, "{path:?}");
        }
        assert_eq!(is(&["metadata", "status"], r#"{"status": "labels"}"#), Place::Tenants, "a server's in a cloud");
    }
}
