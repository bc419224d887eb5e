//! Kubernetes, as `weir` uses it: custom resource definitions, manifests, and lists of objects.

use crate::screen::clean;
use anyhow::{Context, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Client, Config, ResourceExt, discovery};
use serde::Deserialize;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_api::{Kind, conditions, labels};

/// The field manager of the definitions.
const MANAGER: &str = "weir-cli";
/// The field manager of manifests: that of `kubectl apply --server-side`, so that whoever goes on with kubectl meets no
/// conflicts.
const KUBECTL: &str = "kubectl";
/// How long a definition may take to be served.
const ESTABLISHED: Duration = Duration::from_secs(30);
/// At most this many objects of a kind are listed for a person to look at.
const MOST: u32 = 200;
/// So many objects come at once where one is looked for among all.
const PAGE: u32 = 500;
/// One is looked for among at most so many.
const SEARCHED: usize = 10_000;

/// A client for the cluster that a kubeconfig's current context names.
pub async fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let text = Kubeconfig::read_from(kubeconfig).with_context(|| format!("cannot use {}", kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(text, &KubeConfigOptions::default()).await;
    let mut config = config.with_context(|| format!("cannot use {}", kubeconfig.display()))?;
    if config.cluster_url.host().is_some_and(|host| matches!(host, "127.0.0.1" | "localhost" | "[::1]")) {
        config.proxy_url = None;
    }
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(Duration::from_secs(300));
    Client::try_from(config).with_context(|| format!("cannot use {}", kubeconfig.display()))
}

/// Applies Weir's custom resource definitions and waits until their kinds are served.
pub async fn apply_definitions(client: &Client) -> anyhow::Result<usize> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let all = weir_api::crd::all();
    let apply = all.iter().map(|definition| {
        let api = api.clone();
        async move {
            let name = definition.name_any();
            let params = PatchParams::apply(MANAGER).force();
            let applied = api.patch(&name, &params, &Patch::Apply(definition)).await;
            applied.map_err(|error| explain(&error)).with_context(|| format!("cannot apply the definition {name}"))?;
            let served =
                kube::runtime::wait::await_condition(api, &name, kube::runtime::conditions::is_crd_established());
            let served = tokio::time::timeout(ESTABLISHED, served).await;
            served.with_context(|| format!("the kinds of {name} were not served within 30 s"))??;
            anyhow::Ok(())
        }
    });
    futures::future::try_join_all(apply).await?;
    Ok(all.len())
}

/// An object that was applied.
#[derive(Clone, Debug)]
pub struct Applied {
    /// How its kind is reached.
    pub resource: ApiResource,
    /// The object as the server has it.
    pub object: DynamicObject,
}

/// Applies the documents of a manifest in their order, by server-side apply.
pub async fn apply(client: &Client, manifest: &str) -> anyhow::Result<Vec<Applied>> {
    let mut applied = vec![];
    for document in serde_yaml_ng::Deserializer::from_str(manifest) {
        let value = serde_json::Value::deserialize(document).context("the manifest is no YAML")?;
        if value.is_null() {
            continue;
        }
        let object: DynamicObject = serde_json::from_value(value).context("a document of the manifest is no object")?;
        applied.push(apply_one(client, &object).await?);
    }
    Ok(applied)
}

async fn apply_one(client: &Client, object: &DynamicObject) -> anyhow::Result<Applied> {
    let (what, resource, api) = reach(client, object).await?;
    match api.patch(&object.name_any(), &PatchParams::apply(KUBECTL).force(), &Patch::Apply(object)).await {
        Ok(object) => Ok(Applied { resource, object }),
        Err(error) => bail!("the cluster refused {what}: {}", explain(&error)),
    }
}

/// Those of some objects that the cluster has already, as it has them; no more than `most`.
pub async fn existing(client: &Client, objects: &[DynamicObject], most: usize) -> anyhow::Result<Vec<DynamicObject>> {
    let mut found = vec![];
    for object in objects {
        let (what, _, api) = reach(client, object).await?;
        let there = api.get_opt(&object.name_any()).await.map_err(|error| explain(&error));
        found.extend(there.with_context(|| format!("cannot see whether there is {what}"))?);
        if found.len() >= most {
            break;
        }
    }
    Ok(found)
}

/// What an object is called in messages, and how its kind is reached where it is.
async fn reach(client: &Client, object: &DynamicObject) -> anyhow::Result<(String, ApiResource, Api<DynamicObject>)> {
    let types = object.types.as_ref().context("a document of the manifest has no apiVersion and kind")?;
    let what = format!("{} {}", clean(&types.kind), clean(&object.name_any()));
    let gvk = GroupVersionKind::try_from(types).with_context(|| format!("{what} has a bad apiVersion"))?;
    // A definition that has just been established may be missing from discovery for a moment.
    let until = Instant::now() + ESTABLISHED;
    let (resource, _) = loop {
        match discovery::pinned_kind(client, &gvk).await {
            Ok(found) => break found,
            Err(error) if Instant::now() > until => {
                return Err(error).with_context(|| format!("the cluster does not know the kind of {what}"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let api = api(client, &resource, object.namespace().as_deref());
    Ok((what, resource, api))
}

/// Objects of a kind in a namespace, or in all.
pub fn api(client: &Client, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// An error of the Kubernetes client, in the server's words when it said any.
pub fn explain(error: &kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("{}", clean(&status.message)),
        error => anyhow::anyhow!("{error}"),
    }
}

/// How far an object is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The reason of its `Available` condition.
    pub reason: String,
    /// The message of that condition.
    pub message: String,
    /// Whether it is available.
    pub available: bool,
    /// Whether it has failed and does not go on by itself.
    pub errored: bool,
}

/// How far an object is, from its conditions.
pub fn standing(object: &DynamicObject) -> Standing {
    #[derive(Deserialize)]
    struct Condition {
        #[serde(rename = "type")]
        kind: String,
        status: String,
        #[serde(default)]
        reason: String,
        #[serde(default)]
        message: String,
    }
    let list = object.data.pointer("/status/conditions").cloned().unwrap_or_default();
    let list: Vec<Condition> = serde_json::from_value(list).unwrap_or_default();
    let available = list.into_iter().find(|condition| condition.kind == conditions::AVAILABLE);
    if object.metadata.deletion_timestamp.is_some() {
        // A condition that still says that all is well is from before.
        let told = available.filter(|condition| condition.status != "True" && !condition.message.is_empty());
        let holders = || format!("held by {}", object.finalizers().join(", "));
        let message = told.map_or_else(holders, |condition| condition.message);
        return Standing { reason: "Deleting".into(), message: clean(&message), ..Standing::default() };
    }
    let Some(available) = available else {
        return Standing { reason: "-".into(), ..Standing::default() };
    };
    Standing {
        available: available.status == "True",
        errored: available.reason == "Errored",
        reason: clean(&available.reason),
        message: clean(&available.message),
    }
}

/// What a person calls an object.
pub fn display_name(object: &DynamicObject) -> String {
    clean(&labels::display_name(object))
}

/// The objects of the kinds that functions handle, in the order in which these depend on each other, and whether
/// there are more.
pub async fn objects(client: &Client) -> anyhow::Result<(Vec<(Kind, DynamicObject)>, bool)> {
    let lists = Kind::ALL.map(|kind| async move {
        let resource = kind.resource();
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        match api.list(&ListParams::default().limit(MOST)).await {
            Ok(list) => Ok((kind, list)),
            // The definitions have not been applied there.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok((kind, empty(&resource))),
            Err(error) => Err(explain(&error)),
        }
    });
    let lists = futures::future::try_join_all(lists).await?;
    let more = lists.iter().any(|(_, list)| list.metadata.continue_.as_ref().is_some_and(|token| !token.is_empty()));
    let all = lists.into_iter().flat_map(|(kind, list)| list.items.into_iter().map(move |object| (kind, object)));
    Ok((all.collect(), more))
}

/// The objects of a kind in a namespace, or in all, that `fits` is true of, looked for among the first 10,000.
pub async fn fitting(
    client: &Client,
    kind: Kind,
    namespace: Option<&str>,
    fits: impl Fn(&DynamicObject) -> bool,
) -> anyhow::Result<Vec<DynamicObject>> {
    let api = api(client, &kind.resource(), namespace);
    let mut params = ListParams::default().limit(PAGE);
    let (mut found, mut seen) = (vec![], 0);
    loop {
        let list = api.list(&params).await.map_err(|error| explain(&error))?;
        seen += list.items.len();
        found.extend(list.items.into_iter().filter(&fits));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if seen < SEARCHED => params = ListParams::default().limit(PAGE).continue_token(&token),
            _ => return Ok(found),
        }
    }
}

fn empty(resource: &ApiResource) -> kube::api::ObjectList<DynamicObject> {
    kube::api::ObjectList {
        types: kube::api::TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() },
        metadata: kube::api::ListMeta::default(),
        items: vec![],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn object(value: serde_json::Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_object_stands_where_its_available_condition_says() {
        let conditions = json!([
            {"type": "Healthy", "status": "True", "reason": "Healthy", "message": "m"},
            {"type": "Available", "status": "False", "reason": "Errored", "message": "no\nsuch flavor"},
        ]);
        let it = standing(&object(json!({"metadata": {"name": "a"}, "status": {"conditions": conditions}})));
        assert_eq!((it.available, it.errored, it.message.as_str()), (false, true, "no such flavor"));
        let new = standing(&object(json!({"metadata": {"name": "a"}})));
        assert_eq!((new.available, new.reason.as_str()), (false, "-"));
    }

    /// A cluster with as many pages as are asked for, the n-th holding the object n; each connection is for one request.
    async fn pages(listener: tokio::net::TcpListener, size: usize) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            let request = String::from_utf8(request).unwrap();
            let at: usize = request
                .split_once("continue=")
                .map_or(0, |(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap());
            let items = vec![json!({"metadata": {"name": format!("page-{at}")}}); size];
            let page = json!({"apiVersion": "a/v1alpha1", "kind": "ServerList", "items": items,
                "metadata": {"continue": (at + 1).to_string()}})
            .to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
            stream.write_all(format!("{head} {}\r\n\r\n{page}", page.len()).as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_object_is_found_on_any_page_and_the_search_has_an_end() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let server = tokio::spawn(pages(listener, SEARCHED / 4));
        let named = |name: &'static str| move |object: &DynamicObject| object.name_any() == name;
        let found = fitting(&client, Kind::Server, Some("ns"), named("page-3")).await.unwrap();
        assert_eq!(found.len(), SEARCHED / 4);
        assert!(fitting(&client, Kind::Server, Some("ns"), named("page-4")).await.unwrap().is_empty());
        server.abort();
    }

    #[test]
    fn an_object_that_is_being_deleted_says_what_holds_it() {
        let it = standing(&object(json!({"metadata": {
            "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["unikorn"],
        }})));
        assert_eq!((it.available, it.reason.as_str(), it.message.as_str()), (false, "Deleting", "held by unikorn"));
        let waiting = json!([{"type": "Available", "status": "False", "reason": "Deprovisioning", "message": "waiting for 1 network"}]);
        let it = standing(&object(json!({"metadata": {
            "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["unikorn"],
        }, "status": {"conditions": waiting}})));
        assert_eq!(it.message, "waiting for 1 network");
    }
}
