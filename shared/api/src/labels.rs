//! Labels, annotations and finalizers of the system whose manifests Weir takes over. Spelled here only.

use kube::core::{ObjectMeta, ResourceExt};

/// Display name of any resource; for a Server also its Nova name and host name.
pub const NAME: &str = "unikorn-cloud.org/name";
/// The organization that owns a scoped resource.
pub const ORGANIZATION: &str = "unikorn-cloud.org/organization";
/// The project that owns a scoped resource.
pub const PROJECT: &str = "unikorn-cloud.org/project";
/// The region a resource lives in: the name of the Region object.
pub const REGION: &str = "regions.unikorn-cloud.org/region-id";
/// The identity a resource lives in: the name of the Identity object.
pub const IDENTITY: &str = "regions.unikorn-cloud.org/identity-id";
/// The network a resource lives on: the name of the Network object.
pub const NETWORK: &str = "regions.unikorn-cloud.org/network-id";
/// The security group a resource belongs to.
pub const SECURITY_GROUP: &str = "regions.unikorn-cloud.org/security-group-id";
/// The server a resource belongs to.
pub const SERVER: &str = "regions.unikorn-cloud.org/server-id";
/// `2` on what the v2 API manages.
pub const API_VERSION: &str = "resource.unikorn-cloud.org/api-version";

/// Annotation of a Region: the Secret that it holds, as `<namespace>/<name>`.
pub const HELD_SECRET: &str = "regions.unikorn-cloud.org/held-secret";
/// Annotation: a description written by the owner.
pub const DESCRIPTION: &str = "unikorn-cloud.org/description";

/// The finalizer of a kind's own function: while it is there, something may be left in the cloud.
pub const FINALIZER: &str = "unikorn";

/// Finalizers that Kubernetes itself puts on objects; they are nobody's reference.
pub const KUBERNETES_FINALIZERS: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Whether an object carries the finalizer of its own function, and so cannot vanish unnoticed.
pub fn is_held(object: &impl ResourceExt) -> bool {
    object.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

/// Finalizers other than our own and Kubernetes': somebody still refers to the object (NET-11).
pub fn foreign_references(meta: &ObjectMeta) -> Vec<&str> {
    meta.finalizers
        .iter()
        .flatten()
        .map(String::as_str)
        .filter(|f| *f != FINALIZER && !KUBERNETES_FINALIZERS.contains(f))
        .collect()
}

/// Labels that say where an object's things are in which cloud. As soon as an object is held by a finalizer they are
/// copied into annotations of the same keys, and from then on the copies count: a label that somebody edits or drops must
/// not make what is in the cloud unfindable.
pub const ANCHORS: [&str; 2] = [REGION, IDENTITY];

/// What one of the [`ANCHORS`] says: the annotation, or, before there is one, the label.
pub fn anchor<'a>(object: &'a impl ResourceExt, key: &str) -> Option<&'a str> {
    let kept = object.annotations().get(key).map(String::as_str).filter(|value| !value.is_empty());
    kept.or_else(|| get(object, key))
}

/// The anchors that are not kept yet, with their values.
pub fn unkept(object: &impl ResourceExt) -> Vec<(&'static str, String)> {
    let missing = ANCHORS.into_iter().filter(|key| !object.annotations().contains_key(*key));
    missing.filter_map(|key| Some((key, get(object, key)?.to_owned()))).collect()
}

/// An anchor whose label no longer says what is kept, with what is kept.
pub fn moved(object: &impl ResourceExt) -> Option<(&'static str, &str)> {
    ANCHORS.into_iter().find_map(|key| {
        let kept = object.annotations().get(key)?.as_str();
        (get(object, key) != Some(kept)).then_some((key, kept))
    })
}

/// A label's value, if the label is there and not empty.
pub fn get<'a>(object: &'a impl ResourceExt, label: &str) -> Option<&'a str> {
    object.labels().get(label).map(String::as_str).filter(|value| !value.is_empty())
}

/// What a person calls the object: its name label, else its resource name.
pub fn display_name(object: &impl ResourceExt) -> String {
    get(object, NAME).map_or_else(|| object.name_any(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: NET-11
    #[test]
    fn foreign_references_are_all_finalizers_but_our_own_and_those_of_kubernetes() {
        let meta = ObjectMeta {
            finalizers: Some(vec![
                "unikorn".into(),
                "foregroundDeletion".into(),
                "servers.region.unikorn-cloud.org/a1".into(),
                "backup.example.com".into(),
            ]),
            ..ObjectMeta::default()
        };
        assert_eq!(foreign_references(&meta), ["servers.region.unikorn-cloud.org/a1", "backup.example.com"]);
    }
}
