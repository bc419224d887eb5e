//! The list of built-in kinds.

use crate::meta::NameRule;
use crate::resource::{ALL_VERBS, Flavour, NAMESPACE_VERBS, Resource};
use crate::wire::Order;

/// `(plural, singular, kind, namespaced, short names, categories, status)`
type Row = (&'static str, &'static str, &'static str, bool, &'static [&'static str], &'static [&'static str], bool);

const CORE: &[Row] = &[
    ("configmaps", "configmap", "ConfigMap", true, &["cm"], &[], false),
    ("endpoints", "endpoints", "Endpoints", true, &["ep"], &[], false),
    ("events", "event", "Event", true, &["ev"], &[], false),
    ("limitranges", "limitrange", "LimitRange", true, &["limits"], &[], false),
    ("namespaces", "namespace", "Namespace", false, &["ns"], &[], true),
    ("nodes", "node", "Node", false, &["no"], &[], true),
    ("persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", true, &["pvc"], &[], true),
    ("persistentvolumes", "persistentvolume", "PersistentVolume", false, &["pv"], &[], true),
    ("pods", "pod", "Pod", true, &["po"], &["all"], true),
    ("replicationcontrollers", "replicationcontroller", "ReplicationController", true, &["rc"], &["all"], true),
    ("resourcequotas", "resourcequota", "ResourceQuota", true, &["quota"], &[], true),
    ("secrets", "secret", "Secret", true, &[], &[], false),
    ("serviceaccounts", "serviceaccount", "ServiceAccount", true, &["sa"], &[], false),
    ("services", "service", "Service", true, &["svc"], &["all"], true),
];

/// Groups in the order of the real server's discovery.
const GROUPS: &[(&str, &str, &[Row])] = &[
    (
        "apps",
        "v1",
        &[
            ("daemonsets", "daemonset", "DaemonSet", true, &["ds"], &["all"], true),
            ("deployments", "deployment", "Deployment", true, &["deploy"], &["all"], true),
            ("replicasets", "replicaset", "ReplicaSet", true, &["rs"], &["all"], true),
            ("statefulsets", "statefulset", "StatefulSet", true, &["sts"], &["all"], true),
        ],
    ),
    ("events.k8s.io", "v1", &[("events", "event", "Event", true, &["ev"], &[], false)]),
    (
        "batch",
        "v1",
        &[
            ("cronjobs", "cronjob", "CronJob", true, &["cj"], &["all"], true),
            ("jobs", "job", "Job", true, &[], &["all"], true),
        ],
    ),
    (
        "networking.k8s.io",
        "v1",
        &[
            ("ingresses", "ingress", "Ingress", true, &["ing"], &[], true),
            ("networkpolicies", "networkpolicy", "NetworkPolicy", true, &["netpol"], &[], false),
        ],
    ),
    (
        "policy",
        "v1",
        &[("poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget", true, &["pdb"], &[], true)],
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        &[
            ("clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding", false, &[], &[], false),
            ("clusterroles", "clusterrole", "ClusterRole", false, &[], &[], false),
            ("rolebindings", "rolebinding", "RoleBinding", true, &[], &[], false),
            ("roles", "role", "Role", true, &[], &[], false),
        ],
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        &[(
            "customresourcedefinitions",
            "customresourcedefinition",
            "CustomResourceDefinition",
            false,
            &["crd", "crds"],
            &["api-extensions"],
            true,
        )],
    ),
    ("coordination.k8s.io", "v1", &[("leases", "lease", "Lease", true, &[], &[], false)]),
];

fn resource(group: &str, version: &str, row: &Row) -> Resource {
    let (plural, singular, kind, namespaced, short_names, categories, status) = *row;
    let flavour = match (group, kind) {
        ("", "Namespace") => Flavour::Namespace,
        ("", "Secret") => Flavour::Secret,
        ("", "ConfigMap") => Flavour::ConfigMap,
        ("", "Event") => Flavour::Event { modern: false },
        ("events.k8s.io", "Event") => Flavour::Event { modern: true },
        ("", "ServiceAccount") => Flavour::ServiceAccount,
        ("coordination.k8s.io", "Lease") => Flavour::Lease,
        ("apiextensions.k8s.io", _) => Flavour::Definition,
        _ => Flavour::Plain,
    };
    let table = match flavour {
        Flavour::Event { .. } => "events".to_owned(),
        _ => crate::status::qualified(plural, group),
    };
    let name_rule = match kind {
        "Namespace" | "Service" => NameRule::Label,
        _ if group == "rbac.authorization.k8s.io" => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    };
    Resource {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        singular: singular.into(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        short_names: short_names.iter().map(|s| (*s).into()).collect(),
        categories: categories.iter().map(|s| (*s).into()).collect(),
        namespaced,
        status,
        verbs: if matches!(flavour, Flavour::Namespace) { NAMESPACE_VERBS } else { ALL_VERBS },
        storage_version: "v1".into(),
        table: table.into(),
        order: Order::Struct,
        name_rule,
        flavour,
    }
}

/// All built-in resources, core first.
pub fn resources() -> Vec<Resource> {
    let core = CORE.iter().map(|row| resource("", "v1", row));
    let rest =
        GROUPS.iter().flat_map(|(group, version, rows)| rows.iter().map(move |row| resource(group, version, row)));
    core.chain(rest).collect()
}
