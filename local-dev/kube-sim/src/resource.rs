//! The resources that are served: the built-in ones, and one for each served version of an accepted custom resource definition.
//!
//! A [`Registry`] is immutable; a change of a CRD makes a new one. Requests work on the registry they found.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde_json::Value;

use crate::jsonpath::JsonPath;
use crate::meta::NameRule;
use crate::openapi;
use crate::schema::Schema;
use crate::store::TableName;
use crate::wire::Order;

/// What a kind does beyond storing.
#[derive(Debug, Clone)]
pub enum Flavour {
    Namespace,
    Secret,
    ConfigMap,
    /// `modern`: as events.k8s.io/v1 has it. Stored in the core form.
    Event {
        modern: bool,
    },
    Lease,
    ServiceAccount,
    Definition,
    /// Stored and served, without any behaviour or validation of its own.
    Plain,
    Custom(Arc<Custom>),
}

/// What a custom resource definition says of one version.
#[derive(Debug)]
pub struct Custom {
    pub schema: Schema,
    pub columns: Vec<Column>,
    pub selectable: Vec<(String, JsonPath)>,
    /// The definition is being deleted: nothing may be created any more.
    pub terminating: bool,
    /// Until then requests are answered 429, as a real server does just after Established.
    pub ready_at: Option<Instant>,
}

/// A printer column.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub path: JsonPath,
}

/// One resource of one version.
#[derive(Debug)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// Has a status subresource.
    pub status: bool,
    pub verbs: &'static [&'static str],
    /// The version objects are stored in.
    pub storage_version: String,
    pub table: TableName,
    pub order: Order,
    pub name_rule: NameRule,
    pub flavour: Flavour,
}

pub const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// What the real server lists for a custom resource, in its order.
pub const CUSTOM_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
pub const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

impl Resource {
    pub fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    pub fn storage_api_version(&self) -> String {
        group_version(self.storage_group(), &self.storage_version)
    }

    /// The group objects are stored under: events live in the core group.
    pub fn storage_group(&self) -> &str {
        if matches!(self.flavour, Flavour::Event { .. }) { "" } else { &self.group }
    }

    /// Whether objects are served in the form they are stored in.
    pub fn is_stored_form(&self) -> bool {
        self.version == self.storage_version && self.group == self.storage_group()
    }

    pub fn custom(&self) -> Option<&Custom> {
        match &self.flavour {
            Flavour::Custom(custom) => Some(custom),
            _ => None,
        }
    }

    pub fn is_custom(&self) -> bool {
        matches!(self.flavour, Flavour::Custom(_))
    }

    /// `metadata.generation` is kept for custom resources and for definitions.
    pub fn has_generation(&self) -> bool {
        matches!(self.flavour, Flavour::Custom(_) | Flavour::Definition)
    }

    /// An update has to say which version it replaces.
    pub fn needs_resource_version(&self) -> bool {
        matches!(self.flavour, Flavour::Custom(_) | Flavour::Lease | Flavour::Definition)
    }

    /// `widgets.demo.weir.dev`, `configmaps`.
    pub fn qualified(&self) -> String {
        crate::status::qualified(&self.plural, &self.group)
    }

    /// Subresources that can be read and written like the object.
    pub fn subresources(&self) -> Vec<&'static str> {
        let mut out = Vec::new();
        if self.status {
            out.push("status");
        }
        if matches!(self.flavour, Flavour::Namespace) {
            out.push("finalize");
        }
        out
    }
}

/// `group/version`, or `version` alone for the core group.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Everything that is served.
pub struct Registry {
    by_path: HashMap<(String, String, String), Arc<Resource>>,
    /// In the order of discovery.
    groups: Vec<Group>,
    definitions: Vec<openapi::CustomResource>,
    documents: OnceLock<openapi::Documents>,
}

/// An API group with its versions, preferred first.
#[derive(Debug, Clone)]
pub struct Group {
    pub name: String,
    pub versions: Vec<Version>,
    pub custom: bool,
}

#[derive(Debug, Clone)]
pub struct Version {
    pub name: String,
    pub resources: Vec<Arc<Resource>>,
}

impl Registry {
    /// Built-ins, then the given custom resources.
    pub fn new(custom: Vec<(Arc<Resource>, openapi::CustomResource)>) -> Registry {
        let mut groups: Vec<Group> = Vec::new();
        let mut by_path = HashMap::new();
        let (custom, definitions): (Vec<_>, Vec<_>) = custom.into_iter().unzip();
        let built_in = crate::builtin::resources().into_iter().map(Arc::new);
        for resource in built_in.chain(custom) {
            let at = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
            let at_group = groups.iter().position(|g| g.name == resource.group).unwrap_or_else(|| {
                groups.push(Group { name: resource.group.clone(), versions: Vec::new(), custom: resource.is_custom() });
                groups.len() - 1
            });
            let group = &mut groups[at_group];
            match group.versions.iter_mut().find(|v| v.name == resource.version) {
                Some(version) => version.resources.push(resource.clone()),
                None => {
                    group.versions.push(Version { name: resource.version.clone(), resources: vec![resource.clone()] });
                }
            }
            by_path.insert(at, resource);
        }
        for group in groups.iter_mut().filter(|g| g.custom) {
            group.versions.sort_by_key(|v| std::cmp::Reverse(version_priority(&v.name)));
            for version in &mut group.versions {
                version.resources.sort_by(|a, b| a.plural.cmp(&b.plural));
            }
        }
        Registry { by_path, groups, definitions, documents: OnceLock::new() }
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Whether the group is one of the built-ins: unknown resources in it are answered otherwise.
    pub fn is_builtin_version(&self, group: &str, version: &str) -> bool {
        self.group(group).is_some_and(|g| !g.custom && g.versions.iter().any(|v| v.name == version))
    }

    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|g| g.name == name)
    }

    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// One resource for each table that is served, in its preferred version.
    pub fn by_table(&self, table: &TableName) -> Option<&Arc<Resource>> {
        self.groups.iter().flat_map(|g| &g.versions).flat_map(|v| &v.resources).find(|r| r.table == *table)
    }

    /// The OpenAPI documents, made when they are first asked for.
    pub fn documents(&self) -> &openapi::Documents {
        self.documents.get_or_init(|| openapi::Documents::build(&self.definitions))
    }
}

/// GA before beta before alpha, then higher numbers, then names: `v2`, `v1`, `v1beta2`, `v1alpha1`.
fn version_priority(name: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let unknown = (0, 0, 0, std::cmp::Reverse(name.to_owned()));
    let Some(rest) = name.strip_prefix('v') else { return unknown };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse::<u64>() else { return unknown };
    let (rank, minor) = match &rest[digits..] {
        "" => (3, "0"),
        tail => match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
            (Some(n), _) => (2, n),
            (_, Some(n)) => (1, n),
            _ => return unknown,
        },
    };
    minor.parse().map_or(unknown, |minor| (rank, major, minor, std::cmp::Reverse(name.to_owned())))
}

/// Text of a field for a field selector.
pub fn selectable_text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
