//! The cluster: store, registry, and everything else that requests and controllers share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::auth::Auth;
use crate::definition;
use crate::faults::Faults;
use crate::object::{self, Object};
use crate::requests::Requests;
use crate::resource::{Registry, Resource};
use crate::store::{Key, Refused, Store, TableName};
use crate::wire::Order;

/// Namespaces that exist from the start and cannot be deleted.
pub const FIXED_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// What all parts share.
pub struct Cluster {
    pub store: Store,
    pub auth: Auth,
    pub faults: Faults,
    pub requests: Requests,
    pub shutdown: CancellationToken,
    /// `https://…`, as clients reach it.
    pub url: String,
    /// The certificate authority in PEM, for `kube-root-ca.crt`; empty without TLS.
    pub ca_pem: String,
    registry: RwLock<Arc<Registry>>,
    definitions: Mutex<definition::Cache>,
    terminating: Mutex<BTreeSet<String>>,
    readiness_delay: Duration,
}

/// The parts a cluster is made of.
pub struct Parts {
    pub store: Store,
    pub auth: Auth,
    pub url: String,
    pub ca_pem: String,
    pub readiness_delay: Duration,
    pub faults: Faults,
    pub requests: Requests,
}

fn relock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn namespaces_table() -> TableName {
    "namespaces".into()
}

pub fn definitions_table() -> TableName {
    "customresourcedefinitions.apiextensions.k8s.io".into()
}

impl Cluster {
    pub fn new(parts: Parts) -> Cluster {
        let cluster = Cluster {
            store: parts.store,
            auth: parts.auth,
            faults: parts.faults,
            requests: parts.requests,
            shutdown: CancellationToken::new(),
            url: parts.url,
            ca_pem: parts.ca_pem,
            registry: RwLock::new(Arc::new(Registry::new(Vec::new()))),
            definitions: Mutex::default(),
            terminating: Mutex::default(),
            readiness_delay: parts.readiness_delay,
        };
        cluster.seed();
        cluster.sync_definitions();
        for namespace in cluster.store.list(&namespaces_table(), None).items {
            if namespace.is_deleting() {
                cluster.note_terminating(namespace.name());
            }
        }
        cluster
    }

    /// What is served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn seed(&self) {
        for name in FIXED_NAMESPACES {
            if self.store.get(&namespaces_table(), &Key::new("", name)).is_some() {
                continue;
            }
            let mut value = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}});
            stamp(&mut value);
            crate::builtin::prepare_create(&crate::resource::Flavour::Namespace, &mut value);
            if let Err(error) = self.store.create(&namespaces_table(), Order::Struct, value) {
                tracing::error!(?error, name, "could not seed a namespace");
            }
            self.furnish_namespace(name);
        }
    }

    /// What the controller manager puts into every namespace.
    pub fn furnish_namespace(&self, name: &str) {
        let mut account =
            json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default", "namespace": name}});
        stamp(&mut account);
        let mut root = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "kube-root-ca.crt", "namespace": name},
            "data": {"ca.crt": self.ca_pem}});
        stamp(&mut root);
        for (table, value) in [("serviceaccounts", account), ("configmaps", root)] {
            match self.store.create(&table.into(), Order::Struct, value) {
                Ok(_) | Err(Refused::Exists { .. }) => {}
                Err(error) => tracing::error!(?error, name, table, "could not furnish a namespace"),
            }
        }
    }

    /// Brings conditions and registry in line with the stored definitions. Called after every write of one.
    pub fn sync_definitions(&self) {
        let mut cache = relock(&self.definitions);
        let table = definitions_table();
        loop {
            let all = self.store.list(&table, None).items;
            let next =
                all.iter().find_map(|d| definition::next_conditions(d.value(), &all).map(|next| (d.revision(), next)));
            let Some((revision, next)) = next else { break };
            match self.store.update(&table, revision, next) {
                // Moved: a client was faster; look again.
                Ok(_) | Err(Refused::Moved) => {}
                Err(error) => {
                    tracing::error!(?error, "could not set a definition's conditions");
                    break;
                }
            }
        }
        let definitions = self.store.list(&table, None).items;
        for definition in definitions.iter().filter(|d| d.is_deleting()) {
            self.note_terminating_definition(definition);
        }
        let resources = cache.resources(&definitions, self.readiness_delay);
        let before = self.registry();
        let after = Arc::new(Registry::new(resources));
        for group in before.groups().iter().filter(|g| g.custom) {
            for resource in group.versions.iter().flat_map(|v| &v.resources) {
                if after.by_table(&resource.table).is_none() {
                    self.store.end_subscriptions(&resource.table);
                }
            }
        }
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = after;
    }

    fn note_terminating_definition(&self, definition: &Object) {
        relock(&self.terminating).insert(format!("crd/{}", definition.name()));
        self.store.wake();
    }

    /// A namespace whose content has to go.
    pub fn note_terminating(&self, namespace: &str) {
        relock(&self.terminating).insert(format!("ns/{namespace}"));
        self.store.wake();
    }

    /// Namespaces (`ns/…`) and definitions (`crd/…`) that are on their way out.
    pub fn terminating(&self) -> Vec<String> {
        relock(&self.terminating).iter().cloned().collect()
    }

    pub fn forget_terminating(&self, what: &str) {
        relock(&self.terminating).remove(what);
    }

    /// The namespace's state, for writes into it.
    pub fn namespace(&self, name: &str) -> Option<Arc<Object>> {
        self.store.get(&namespaces_table(), &Key::new("", name))
    }

    /// All resources, one per table.
    pub fn tables(&self) -> Vec<Arc<Resource>> {
        let registry = self.registry();
        let mut seen = BTreeSet::new();
        let all = registry.groups().iter().flat_map(|g| &g.versions).flat_map(|v| &v.resources);
        all.filter(|r| seen.insert(r.table.clone())).cloned().collect()
    }
}

/// Gives a new object what only the server can: uid and creation time.
pub fn stamp(value: &mut Value) {
    object::set_meta(value, "uid", Value::String(Uuid::new_v4().to_string()));
    object::set_meta(value, "creationTimestamp", Value::String(object::now()));
}
