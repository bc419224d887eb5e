//! `weir import`: what `weir export` has written, begun from again in the stack that runs.
//!
//! Intention: yesterday's objects, and the events that followed, in a scratch stack of one's own, where functions can be stopped,
//! changed and watched, and nothing that matters is touched.
//!
//! Invariants
//! - Only a stack whose Kubernetes, NATS and OpenStack are all its own is loaded into: nothing is written into anybody's cluster or
//!   queue, nor made in anybody's cloud.
//! - No object is overwritten: if the stack has any of the file's already, nothing at all is written. An export's placeholders would
//!   replace what a living object says. Only namespaces may be there.
//! - Nothing is written but what `weir export` writes, whatever the file holds: of other kinds all of it is refused before anything is
//!   applied.
//! - Regions lead to that cloud, with its credential: theirs was not exported, and they must not reach where they did.
//!
//! Caveat: passwords, keys and user data are placeholders, and flavors and images that openstack-sim does not have are replaced by
//! its first. What somebody else makes between the look and the writing is not seen.

use crate::checkout::Checkout;
use crate::record::{Places, Record};
use crate::replay::publish;
use crate::screen::clean;
use crate::trace::find::some;
use crate::{Exit, cluster, complain, queue, say};
use anyhow::{Context, bail};
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use weir_api::{Kind, ObjectRef, labels};
use weir_function_runtime::record::past;
use weir_messages::subject;

/// How long the cloud may take to tell about itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many objects that are in the way are named.
const NAMED: usize = 3;
/// How to come by a stack that can be loaded into.
const EMPTY: &str =
    "`./weir --home DIR up --no-sample` starts an empty stack beside it, and `./weir --home DIR import FILE` loads it";

/// What to load.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A file that `weir export` wrote
    file: PathBuf,
    /// Only the objects, and none of the events
    #[arg(long)]
    no_events: bool,
    /// How many events to publish a second
    #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pace: u32,
}

/// Loads a file into the stack that runs, if that is a scratch stack which has nothing of it yet.
pub async fn run(checkout: &Checkout, args: Args) -> anyhow::Result<Exit> {
    let name = args.file.display();
    let file = std::fs::File::open(&args.file).with_context(|| format!("cannot read {name}"))?;
    let bundle =
        past::read(file, |_| true).and_then(past::Rest::checked).with_context(|| format!("cannot use {name}"))?;
    let Some(record) = Record::read(&checkout.record())?.filter(|record| record.is_watched() && record.ready) else {
        complain!("weir: nothing is running to load it into. `./weir up --no-sample` starts an empty stack");
        return Ok(Exit::NotThere);
    };
    if bundle.objects.is_empty() {
        let all = if bundle.left_out.is_empty() { "" } else { "; all that it was about was being deleted" };
        bail!("{name} holds no objects{all}. A file that `weir export` of this release writes does");
    }
    if let Some(other) = not_its_own(&record.places) {
        bail!("the stack that runs uses {other}, and nothing is loaded into that. {EMPTY}");
    }
    let cloud = Cloud::of(&record.places).await?;
    let objects = cloud.fitted(bundle.objects)?;
    let client = cluster::connect(&record.places.kubeconfig).await?;
    if let Some(there) = in_the_way(&client, &objects).await? {
        bail!("the stack that runs has {there} already, and nothing is overwritten. {EMPTY}");
    }
    let manifest: Vec<String> = objects.iter().map(serde_yaml_ng::to_string).collect::<Result<_, _>>()?;
    let applied = cluster::apply(&client, &manifest.join("---\n")).await?;
    say!("Applied {} objects; their regions lead to this stack's cloud.", applied.len());
    if !bundle.left_out.is_empty() {
        say!("Not there, since they were being deleted when last read: {}.", some(&bundle.left_out));
    }
    if args.no_events || bundle.events.is_empty() {
        say!("No events are published. `./weir status` shows how the objects stand.");
        return Ok(Exit::Done);
    }
    let Some(queue) = queue::open(checkout, None).await? else { return Ok(Exit::NotThere) };
    let published = publish(&queue, &bundle.events, args.pace).await;
    queue.close().await;
    published?;
    say!("Published {} events. `./weir status` shows how the objects stand.", bundle.events.len());
    Ok(Exit::Done)
}

/// What of a stack was there before it, and stays when it ends.
fn not_its_own(places: &Places) -> Option<&'static str> {
    if !places.kube_sim {
        Some("another cluster than its own kube-sim (--kubeconfig)")
    } else if places.nats_credentials.is_none() {
        Some("another NATS than its own (--nats)")
    } else if places.openstack.is_none() {
        Some("another cloud than its own openstack-sim (--cloud, --no-openstack-sim)")
    } else {
        None
    }
}

/// Those of the objects that the stack has already, for a message.
async fn in_the_way(client: &kube::Client, objects: &[Value]) -> anyhow::Result<Option<String>> {
    let objects = objects.iter().filter(|object| object["kind"] != "Namespace");
    let objects: Vec<DynamicObject> = objects
        .map(DynamicObject::deserialize)
        .collect::<Result<_, _>>()
        .context("the file holds what is no object")?;
    let there = cluster::existing(client, &objects, NAMED + 1).await?;
    let name = |object: &DynamicObject| {
        let kind = object.types.as_ref().map_or("", |types| &types.kind);
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        format!("{} {}/{}", clean(kind), clean(namespace), cluster::display_name(object))
    };
    let named: Vec<String> = there.iter().take(NAMED).map(name).collect();
    let more = if there.len() > NAMED { " and more" } else { "" };
    Ok((!named.is_empty()).then(|| format!("{}{more}", named.join(", "))))
}

/// The cloud of the stack, as it tells of itself.
struct Cloud {
    endpoint: Value,
    credential: Value,
    flavors: Vec<String>,
    images: Vec<String>,
}

impl Cloud {
    async fn of(places: &Places) -> anyhow::Result<Self> {
        let address = places.openstack.as_deref().context("the stack has no openstack-sim")?;
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        let told =
            http.get(format!("{address}/_sim/bootstrap")).send().await.context("openstack-sim does not answer")?;
        let told: Value = serde_json::from_slice(&told.error_for_status()?.bytes().await?)?;
        let ids = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().filter_map(|one| Some(one["id"].as_str()?.to_owned())).collect()
        };
        Ok(Self {
            endpoint: told["endpoint"].clone(),
            credential: told["credential"].clone(),
            flavors: ids(&told["flavors"]),
            images: ids(&told["images"]),
        })
    }

    /// The objects, made to fit this cloud, with their namespaces and their regions' Secrets before them.
    fn fitted(&self, objects: Vec<Value>) -> anyhow::Result<Vec<Value>> {
        let is = |object: &Value, kind: &str| object["kind"] == *kind;
        let mut secrets = BTreeMap::new();
        let mut fitted = Vec::with_capacity(objects.len());
        for mut object in objects.into_iter().filter(|object| !is(object, "Secret")) {
            unanchor(&mut object);
            if is(&object, Kind::Region.kubernetes()) {
                let reference = &object["spec"]["openstack"]["serviceAccountSecret"];
                let text = |field: &str| reference[field].as_str().map(str::to_owned);
                let place = (text("namespace"), text("name"));
                let (Some(namespace), Some(name)) = place else { bail!("a Region of the file names no Secret") };
                // For the rules of names alone, which are those of any kind.
                let named = ObjectRef::new(Kind::Region, &namespace, &name);
                subject::check(&named).context("the Secret of a Region of the file is none")?;
                if let Some(openstack) = object.pointer_mut("/spec/openstack").and_then(Value::as_object_mut) {
                    openstack.insert("endpoint".to_owned(), self.endpoint.clone());
                }
                secrets.insert((namespace, name), self.credential.clone());
            }
            if is(&object, Kind::Server.kubernetes()) {
                replace(object.pointer_mut("/spec/flavorID"), &self.flavors);
                replace(object.pointer_mut("/spec/image/id"), &self.images);
            }
            fitted.push(object);
        }
        let secrets = secrets.into_iter().map(|((namespace, name), data)| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name}, "stringData": data})
        });
        let objects: Vec<Value> = secrets.chain(fitted).collect();
        let namespaces: BTreeSet<&str> =
            objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
        let namespaces =
            namespaces.iter().map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        Ok(namespaces.collect::<Vec<_>>().into_iter().chain(objects).collect())
    }
}

/// Where an object's things were in the other cloud is nothing that holds here; its labels say it again.
fn unanchor(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !labels::ANCHORS.contains(&key.as_str()));
    }
}

fn replace(id: Option<&mut Value>, known: &[String]) {
    if let (Some(id), Some(first)) = (id, known.first())
        && !id.as_str().is_some_and(|id| known.iter().any(|known| known == id))
    {
        *id = first.clone().into();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The whole of a foreign cluster, queue or cloud would be written into otherwise.
    #[test]
    fn only_a_stack_that_is_all_its_own_is_loaded_into() {
        let own = Places {
            kube_sim: true,
            nats_credentials: Some("nats.env".into()),
            openstack: Some("http://127.0.0.1:1".into()),
            ..Places::default()
        };
        assert_eq!(not_its_own(&own), None);
        let others = [
            (Places { kube_sim: false, ..own.clone() }, "--kubeconfig"),
            (Places { nats_credentials: None, ..own.clone() }, "--nats"),
            (Places { openstack: None, ..own }, "--cloud"),
        ];
        for (places, option) in others {
            assert!(not_its_own(&places).is_some_and(|why| why.contains(option)), "{option}");
        }
    }

    #[test]
    fn objects_of_another_cloud_are_made_to_fit_this_one_and_reach_no_other() {
        let cloud = Cloud {
            endpoint: json!("http://here/v3"),
            credential: json!({"user-id": "u", "password": "p"}),
            flavors: vec!["f1".into(), "f2".into()],
            images: vec!["i1".into()],
        };
        let meta =
            |name: &str| json!({"namespace": "ns", "name": name, "annotations": {labels::REGION: "r", "mine": "x"}});
        let region = json!({"kind": "Region", "metadata": meta("r"), "spec": {"openstack": {"endpoint": "https://there/v3",
            "serviceAccountSecret": {"namespace": "other", "name": "s"}}}});
        let server = |flavor: &str| {
            json!({"kind": "Server", "metadata": meta("a"),
            "spec": {"flavorID": flavor, "image": {"id": "theirs"}}})
        };
        let secret =
            json!({"kind": "Secret", "metadata": {"namespace": "other", "name": "s"}, "data": {"password": "eA=="}});
        let fitted = cloud.fitted(vec![secret, region, server("f2"), server("f9")]).unwrap();
        let kinds: Vec<&str> = fitted.iter().filter_map(|object| object["kind"].as_str()).collect();
        assert_eq!(kinds, ["Namespace", "Namespace", "Secret", "Region", "Server", "Server"]);
        assert_eq!(fitted[2]["stringData"]["password"], "p");
        assert_eq!(fitted[3]["spec"]["openstack"]["endpoint"], "http://here/v3");
        let ids: Vec<&Value> =
            fitted[4..].iter().flat_map(|s| [&s["spec"]["flavorID"], &s["spec"]["image"]["id"]]).collect();
        assert_eq!(ids, ["f2", "i1", "f1", "i1"]);
        assert_eq!(fitted[3]["metadata"]["annotations"], json!({"mine": "x"}));
    }

    /// Of hostile files, each of these has once been a panic or could have been.
    #[test]
    fn an_object_that_is_not_built_as_it_should_be_is_refused_or_left_to_the_cluster_to_refuse() {
        let cloud =
            Cloud { endpoint: json!("e"), credential: json!({}), flavors: vec!["f".into()], images: vec!["i".into()] };
        for region in [
            json!({"kind": "Region", "metadata": "x", "spec": "x"}),
            json!({"kind": "Region", "spec": {"openstack": {"serviceAccountSecret": {"namespace": "a/../b", "name": "s"}}}}),
        ] {
            assert!(cloud.fitted(vec![region]).is_err());
        }
        for object in [
            json!("x"),
            json!(null),
            json!({"kind": "Server", "metadata": [], "spec": "x"}),
            json!({"kind": "Server", "metadata": {"annotations": "x"}, "spec": {"flavorID": {}, "image": "x"}}),
        ] {
            assert!(cloud.fitted(vec![object]).is_ok());
        }
    }
}
