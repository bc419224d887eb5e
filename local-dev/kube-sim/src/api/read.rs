//! Get and list: selectors, pages, past revisions.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::options::Query;
use super::{Answer, Target};
use crate::builtin;
use crate::cluster::Cluster;
use crate::object::Object;
use crate::resource::{Flavour, Resource, selectable_text};
use crate::selector::{Fields, Labels};
use crate::status::{Cause, Status, field};
use crate::store::{Compacted, Snapshot};

/// How long a read waits for a revision that has not come yet.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// Label and field selector of a request, checked against the resource.
#[derive(Debug, Clone, Default)]
pub struct Selectors {
    pub labels: Labels,
    pub fields: Fields,
}

impl Selectors {
    pub fn parse(resource: &Resource, query: &Query) -> Result<Selectors, Status> {
        let labels = query.text("labelSelector").map(Labels::parse).transpose()?.unwrap_or_default();
        let fields = query.text("fieldSelector").map(Fields::parse).transpose()?.unwrap_or_default();
        for key in fields.keys() {
            if read_field(resource, key, &Value::Null).is_none() {
                return Err(Status::bad_request(if resource.is_custom() {
                    format!("field label not supported: {key}")
                } else {
                    format!("{key:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
                }));
            }
        }
        Ok(Selectors { labels, fields })
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Matches an object in its stored form.
    pub fn matches(&self, resource: &Resource, value: &Value) -> bool {
        self.labels.matches(value) && self.fields.matches(|key| read_field(resource, key, value).unwrap_or_default())
    }
}

fn read_field(resource: &Resource, key: &str, value: &Value) -> Option<String> {
    match (&resource.flavour, key) {
        (Flavour::Custom(custom), key) => match key {
            "metadata.name" => Some(crate::object::meta_str(value, "name").to_owned()),
            "metadata.namespace" => Some(crate::object::meta_str(value, "namespace").to_owned()),
            _ => {
                let (_, path) = custom.selectable.iter().find(|(name, _)| name == key)?;
                Some(selectable_text(path.find(value).first().copied()))
            }
        },
        (flavour, key) => builtin::selectable(flavour, key, value),
    }
}

/// What of a collection is wanted.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    pub limit: usize,
    pub after: Option<Continue>,
    /// Exactly this revision.
    pub exact: Option<u64>,
    /// A revision that must have come.
    pub at_least: Option<u64>,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continue {
    /// `-1`: whatever is newest.
    pub revision: i64,
    pub start: String,
}

impl Continue {
    fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start}).to_string())
    }

    fn parse(token: &str) -> Result<Continue, Status> {
        let invalid =
            |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|e| invalid(&e.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| {
            let first = bytes.first().map_or(' ', |b| char::from(*b));
            invalid(&format!("invalid character '{first}' looking for beginning of value"))
        })?;
        if value.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
            return Err(invalid("server does not recognize this encoded version"));
        }
        let revision = value.get("rv").and_then(Value::as_i64).filter(|rv| *rv != 0);
        let start = value.get("start").and_then(Value::as_str).filter(|s| !s.is_empty());
        match (revision, start) {
            (Some(revision), Some(start)) => Ok(Continue { revision, start: start.trim_start_matches('/').to_owned() }),
            _ => Err(invalid("incorrect encoded start resourceVersion or start key")),
        }
    }
}

fn invalid_list(causes: Vec<Cause>) -> Status {
    Status::invalid("meta.k8s.io", "ListOptions", "", causes)
}

impl ListOptions {
    pub fn everything() -> ListOptions {
        ListOptions::default()
    }

    pub fn parse(query: &Query) -> Result<ListOptions, Status> {
        const MATCH: &str = "resourceVersionMatch";
        query.integer("timeoutSeconds")?;
        let limit = query.integer("limit")?.unwrap_or(0);
        let (version, wanted, token) = (query.text("resourceVersion"), query.text(MATCH), query.text("continue"));
        let mut causes = Vec::new();
        if query.get("sendInitialEvents").is_some() {
            causes.push(field::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        if let Some(wanted) = wanted {
            if version.is_none() {
                causes.push(field::forbidden(
                    MATCH,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if token.is_some() {
                causes.push(field::forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
            }
            match wanted {
                "Exact" if version == Some("0") => {
                    causes.push(field::forbidden(
                        MATCH,
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                    ));
                }
                "Exact" | "NotOlderThan" => {}
                other => {
                    causes.push(field::not_supported(MATCH, &format!("{other:?}"), &["Exact", "NotOlderThan", ""]));
                }
            }
        }
        if !causes.is_empty() {
            return Err(invalid_list(causes));
        }
        let revision =
            parse_revision(version).map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
        let after = token.map(Continue::parse).transpose()?;
        if after.is_some() && revision != 0 {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        // A list "from the cache" is whole, however small a page was asked for.
        let limit = if version == Some("0") { 0 } else { usize::try_from(limit.max(0)).unwrap_or(usize::MAX) };
        let exact = (wanted == Some("Exact")).then_some(revision);
        Ok(ListOptions { limit, after, exact, at_least: (revision > 0).then_some(revision) })
    }
}

/// A resource version parameter; absent is 0. The error is worded as the real server's.
pub fn parse_revision(text: Option<&str>) -> Result<u64, String> {
    match text {
        None => Ok(0),
        Some(text) => text.parse().map_err(|_| {
            format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
        }),
    }
}

/// Waits a little for a revision that is yet to come.
pub async fn wait_for_revision(cluster: &Cluster, wanted: Option<u64>) -> Result<(), Status> {
    let Some(wanted) = wanted.filter(|w| *w > cluster.store.revision()) else { return Ok(()) };
    let deadline = tokio::time::Instant::now() + FUTURE_WAIT;
    while cluster.store.revision() < wanted {
        if tokio::time::Instant::now() >= deadline {
            return Err(Status::resource_version_too_large(wanted, cluster.store.revision()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// GET of one object, also through a subresource.
pub fn get(cluster: &Cluster, target: &Target) -> Result<Answer, Status> {
    let resource = &target.resource;
    match cluster.store.get(&resource.table, &target.key()) {
        Some(object) => Ok(Answer::stored(200, resource, &object, false)),
        None => Err(Status::not_found(&resource.group, &resource.plural, &target.name)),
    }
}

/// A page of a collection.
#[derive(Debug)]
pub struct List {
    pub revision: u64,
    pub items: Vec<Arc<Object>>,
    pub next: Option<String>,
    pub remaining: Option<usize>,
}

/// LIST.
pub fn list(cluster: &Cluster, target: &Target, options: &ListOptions, selectors: &Selectors) -> Result<List, Status> {
    let resource = &target.resource;
    let namespace = (!target.namespace.is_empty()).then_some(target.namespace.as_str());
    let at = options.exact.or_else(|| options.after.as_ref().and_then(|a| u64::try_from(a.revision).ok()));
    let snapshot = match at {
        Some(revision) => {
            cluster.store.list_at(&resource.table, namespace, revision).map_err(|gone| expired(options, &gone))?
        }
        None => cluster.store.list(&resource.table, namespace),
    };
    Ok(page(target, options, selectors, snapshot))
}

fn expired(options: &ListOptions, _: &Compacted) -> Status {
    match &options.after {
        None => Status::expired("The resourceVersion for the provided list is too old."),
        Some(after) => {
            let mut status = Status::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
            );
            status.continue_token = Some(Continue { revision: -1, start: after.start.clone() }.token());
            status
        }
    }
}

fn place(target: &Target, object: &Object) -> String {
    if target.resource.namespaced && target.namespace.is_empty() {
        format!("{}/{}", object.namespace(), object.name())
    } else {
        object.name().to_owned()
    }
}

fn page(target: &Target, options: &ListOptions, selectors: &Selectors, snapshot: Snapshot) -> List {
    let resource = &target.resource;
    let start = options.after.as_ref().map(|a| a.start.as_str()).unwrap_or_default();
    let mut items: Vec<Arc<Object>> = snapshot.items;
    // Order is by namespace, then name. "namespace/name" sorts the same way but for names with characters below '/'.
    if !start.is_empty() {
        let (after_namespace, after_name) = match start.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, start),
        };
        items.retain(|o| match after_namespace {
            Some(namespace) => (o.namespace(), o.name()) >= (namespace, after_name),
            None => o.name() >= after_name,
        });
    }
    if !selectors.is_empty() {
        items.retain(|o| selectors.matches(resource, o.value()));
    }
    let (mut next, mut remaining) = (None, None);
    if options.limit > 0 && items.len() > options.limit {
        if selectors.is_empty() {
            remaining = Some(items.len() - options.limit);
        }
        items.truncate(options.limit);
        let revision = i64::try_from(snapshot.revision).unwrap_or(i64::MAX);
        next = items.last().map(|last| Continue { revision, start: format!("/{}\0", place(target, last)) }.token());
    }
    List { revision: snapshot.revision, items, next, remaining }
}
