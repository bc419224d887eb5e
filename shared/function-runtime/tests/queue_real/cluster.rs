//! A Kubernetes API with the custom resources, for tests of what is done to objects.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, Config};
use serde_json::json;
use weir_api::crd::{self, SecurityGroup};
use weir_kube_sim::KubeSim;

/// A cluster with Weir's kinds, and the security groups in it.
pub async fn cluster() -> (KubeSim, Api<SecurityGroup>, Client) {
    let kubernetes = KubeSim::start(weir_kube_sim::Config::plain()).await.unwrap();
    let mut config = Config::new(kubernetes.url().parse().unwrap());
    config.auth_info.token = Some(kubernetes.token().to_owned().into());
    let client = Client::try_from(config).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crd::all() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    (kubernetes, Api::namespaced(client.clone(), "default"), client)
}

/// The spec of a security group that lets these ports in.
pub fn rules(ports: &[u16]) -> serde_json::Value {
    let rules: Vec<_> = ports
        .iter()
        .map(|port| json!({ "direction": "ingress", "protocol": "tcp", "port": { "number": port } }))
        .collect();
    json!({ "spec": { "rules": rules } })
}

/// A security group of this name.
pub fn group(name: &str) -> SecurityGroup {
    let mut object = rules(&[22]);
    object["apiVersion"] = "region.unikorn-cloud.org/v1alpha1".into();
    object["kind"] = "SecurityGroup".into();
    object["metadata"] = json!({ "name": name, "namespace": "default" });
    serde_json::from_value(object).unwrap()
}
