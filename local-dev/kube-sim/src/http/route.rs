//! Paths and methods to targets and verbs.

use std::sync::Arc;

use http::Method;

use crate::api::Target;
use crate::resource::{Flavour, Registry, Resource};
use crate::status::Status;

/// What a path leads to.
pub enum Path {
    Resource {
        target: Target,
        /// The old `/watch/` paths.
        watch: bool,
    },
    Review {
        group: String,
        plural: String,
    },
    /// A resource that a built-in version does not have.
    UnknownBuiltin,
    /// Anything else: discovery, health, nothing.
    Other,
}

/// Parses a decoded path.
pub fn parse(registry: &Registry, path: &str) -> Path {
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').skip(1).collect();
    let (group, version, rest) = match &parts[..] {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Path::Other,
    };
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, rest),
    };
    if rest.is_empty() {
        return Path::Other;
    }
    if matches!(group, "authentication.k8s.io" | "authorization.k8s.io") && version == "v1" {
        let plural = rest.iter().rfind(|p| p.ends_with("reviews")).copied().unwrap_or_default();
        return Path::Review { group: group.into(), plural: plural.into() };
    }
    match target(registry, group, version, rest) {
        Some(target) => Path::Resource { target, watch },
        None if registry.is_builtin_version(group, version) => Path::UnknownBuiltin,
        None => Path::Other,
    }
}

fn target(registry: &Registry, group: &str, version: &str, rest: &[&str]) -> Option<Target> {
    let find = |plural: &str| registry.find(group, version, plural).cloned();
    let make = |resource: Arc<Resource>, namespace: &str, name: &str, subresource: &str| Target {
        resource,
        namespace: namespace.into(),
        name: name.into(),
        subresource: subresource.into(),
    };
    match rest {
        ["namespaces", namespace, plural] if !matches!(*plural, "status" | "finalize") || !group.is_empty() => {
            find(plural).filter(|r| r.namespaced).map(|r| make(r, namespace, "", ""))
        }
        ["namespaces", namespace, plural, name] => {
            find(plural).filter(|r| r.namespaced).map(|r| make(r, namespace, name, ""))
        }
        ["namespaces", namespace, plural, name, sub] => {
            find(plural).filter(|r| r.namespaced).map(|r| make(r, namespace, name, sub))
        }
        [plural] => find(plural).map(|r| make(r, "", "", "")),
        [plural, name] => find(plural).filter(|r| !r.namespaced).map(|r| make(r, "", name, "")),
        [plural, name, sub] => find(plural).filter(|r| !r.namespaced).map(|r| make(r, "", name, sub)),
        _ => None,
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// `None`: a method that is not known.
    pub fn of(method: &Method, target: &Target, watch: bool) -> Option<Verb> {
        let one = !target.name.is_empty();
        Some(match *method {
            Method::GET | Method::HEAD if one => Verb::Get,
            Method::GET | Method::HEAD if watch => Verb::Watch,
            Method::GET | Method::HEAD => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if one => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }
}

/// Whether the verb makes sense at this place.
pub fn check_subresource(target: &Target, verb: Verb) -> Result<(), Status> {
    let resource = &target.resource;
    let (group, plural) = (&resource.group, &resource.plural);
    if target.name.is_empty() && matches!(verb, Verb::Update | Verb::Patch) {
        return Err(Status::bad_request("name must be provided"));
    }
    if resource.namespaced && target.namespace.is_empty() && verb == Verb::Create {
        return Err(Status::method_not_allowed());
    }
    if verb == Verb::DeleteCollection && !resource.verbs.contains(&"deletecollection") {
        return Err(Status::method_not_allowed());
    }
    let sub = target.subresource.as_str();
    if sub.is_empty() {
        return Ok(());
    }
    if sub == "token" && matches!(resource.flavour, Flavour::ServiceAccount) {
        return if verb == Verb::Create { Ok(()) } else { Err(Status::method_not_allowed()) };
    }
    if !resource.subresources().contains(&sub) {
        return Err(Status::not_found(group, plural, &target.name));
    }
    match verb {
        Verb::Get | Verb::Update | Verb::Patch => Ok(()),
        other => Err(Status::not_supported(other.name(), group, plural)),
    }
}
