//! Watches servers become available, as `kubectl get --watch` shows it.

use futures::TryStreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::runtime::{WatchStreamExt, watcher};
use std::collections::HashSet;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use weir_api::conditions;
use weir_api::crd::Server;

/// How many servers are available, and since when so many.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// How many.
    pub available: usize,
    /// When the last change of that was seen.
    pub at: Instant,
}

/// A watch over all servers.
pub struct Watch {
    standing: watch::Receiver<Standing>,
    _task: AbortOnDropHandle<()>,
}

impl Watch {
    /// Begins to watch.
    pub fn begin(client: &kube::Client) -> Self {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<Server>(&()));
        let (tell, standing) = watch::channel(Standing { available: 0, at: Instant::now() });
        let task = tokio::spawn(async move {
            let mut available = HashSet::new();
            let events = watcher(api, watcher::Config::default()).default_backoff().touched_objects();
            let mut events = std::pin::pin!(events);
            loop {
                let object = match events.try_next().await {
                    Ok(Some(object)) => object,
                    Ok(None) => return,
                    // It is begun again by itself.
                    Err(_) => continue,
                };
                let shown = serde_json::from_value::<Vec<Condition>>(object.data["status"]["conditions"].clone());
                let name = object.metadata.name.unwrap_or_default();
                let is = shown.is_ok_and(|shown| conditions::is_provisioned(&shown));
                if if is { available.insert(name) } else { available.remove(&name) } {
                    tell.send_replace(Standing { available: available.len(), at: Instant::now() });
                }
            }
        });
        Self { standing, _task: AbortOnDropHandle::new(task) }
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        *self.standing.borrow()
    }

    /// Waits until so many are available; says when that was seen.
    pub async fn until(&self, available: usize, patience: Duration) -> anyhow::Result<Instant> {
        let mut standing = self.standing.clone();
        let reached = standing.wait_for(|standing| standing.available >= available);
        match tokio::time::timeout(patience, reached).await {
            Ok(Ok(standing)) => Ok(standing.at),
            Ok(Err(_)) => anyhow::bail!("the watch of servers has ended"),
            Err(_) => {
                let so_far = self.standing().available;
                anyhow::bail!("only {so_far} of {available} servers are available after {patience:?}")
            }
        }
    }
}
