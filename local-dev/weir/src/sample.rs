//! The sample: the main job's manifest, with a cloud's values filled in.

use crate::checkout::write_private;
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TEMPLATE: &str = include_str!("../../../infra/samples/main-job.yaml");
/// No such file is larger.
const LONGEST: u64 = 1024 * 1024;

/// What the sample needs to know of a cloud: what openstack-sim tells of itself, and what `--cloud` names for another.
#[derive(Clone, Deserialize)]
pub struct Cloud {
    endpoint: String,
    credential: Credential,
    flavors: Vec<Named>,
    images: Vec<Named>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Credential {
    domain_id: String,
    project_id: String,
    user_id: String,
    password: String,
}

#[derive(Clone, Deserialize)]
struct Named {
    id: String,
}

impl Cloud {
    /// Reads the JSON document that describes a cloud.
    pub fn parse(json: &[u8]) -> anyhow::Result<Self> {
        let cloud: Self = serde_json::from_slice(json).context(
            "it must be JSON of this form: {\"endpoint\": …, \"credential\": {\"domain-id\": …, \"project-id\": …, \
             \"user-id\": …, \"password\": …}, \"flavors\": [{\"id\": …}], \"images\": [{\"id\": …}]}",
        )?;
        if cloud.flavors.is_empty() || cloud.images.is_empty() {
            bail!("it must name at least one flavor and one image");
        }
        Ok(cloud)
    }

    /// Reads the file that `--cloud` names.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let about = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if about.len() > LONGEST {
            bail!("{} is too large to describe a cloud", path.display());
        }
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} does not describe a cloud", path.display()))
    }

    /// Its Keystone.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Writes the sample for this cloud into a folder.
    pub fn write_sample(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = folder.join("sample.yaml");
        write_private(&path, fill(TEMPLATE, &self.values())?.as_bytes())?;
        Ok(path)
    }

    /// Writes `clouds.yaml` for OpenStack's own clients: the cloud as the region's user sees it.
    pub fn write_clouds(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = folder.join("clouds.yaml");
        let Credential { domain_id, project_id, user_id, password } = &self.credential;
        let auth = |scope: serde_json::Value| {
            let mut auth = json!({"auth_url": self.endpoint, "user_id": user_id, "password": password});
            if let (Some(auth), Some(scope)) = (auth.as_object_mut(), scope.as_object()) {
                auth.extend(scope.clone());
            }
            json!({"identity_api_version": 3, "auth": auth})
        };
        let clouds = json!({"clouds": {
            "weir": auth(json!({"project_id": project_id})),
            "weir-domain": auth(json!({"domain_id": domain_id})),
        }});
        write_private(&path, serde_yaml_ng::to_string(&clouds)?.as_bytes())?;
        Ok(path)
    }

    fn values(&self) -> BTreeMap<&'static str, &str> {
        BTreeMap::from([
            ("OPENSTACK_ENDPOINT", self.endpoint.as_str()),
            ("OPENSTACK_DOMAIN_ID", self.credential.domain_id.as_str()),
            ("OPENSTACK_PROJECT_ID", self.credential.project_id.as_str()),
            ("OPENSTACK_USER_ID", self.credential.user_id.as_str()),
            ("OPENSTACK_PASSWORD", self.credential.password.as_str()),
            ("OPENSTACK_FLAVOR_ID", self.flavors.first().map_or("", |flavor| flavor.id.as_str())),
            ("OPENSTACK_IMAGE_ID", self.images.first().map_or("", |image| image.id.as_str())),
        ])
    }
}

/// Fills in what stands as `"${NAME}"`. A value is escaped for the double quotes it lands in, so that no value, however
/// odd, can change the manifest around it. Comments are left alone.
fn fill(template: &str, values: &BTreeMap<&str, &str>) -> anyhow::Result<String> {
    let mut filled = String::with_capacity(template.len() + 1024);
    for line in template.lines() {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("\"${").filter(|_| !line.starts_with('#')) {
            let (name, after) =
                after.split_once("}\"").with_context(|| format!("the sample's line {line:?} is broken"))?;
            let value = values.get(name).with_context(|| format!("the sample asks for an unknown value {name}"))?;
            filled.push_str(before);
            filled.push_str(&serde_json::to_string(value)?);
            rest = after;
        }
        filled.push_str(rest);
        filled.push('\n');
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::Value;

    fn cloud(password: &str) -> Cloud {
        let document = json!({
            "endpoint": "http://127.0.0.1:1/identity/v3",
            "credential": {"domain-id": "d", "project-id": "p", "user-id": "u", "password": password},
            "flavors": [{"id": "f0000000-0000-4000-8000-000000000001", "name": "small"}],
            "images": [{"id": "a0000000-0000-4000-8000-000000000001"}],
        });
        Cloud::parse(document.to_string().as_bytes()).unwrap()
    }

    fn documents(sample: &str) -> Vec<Value> {
        serde_yaml_ng::Deserializer::from_str(sample)
            .map(|document| Value::deserialize(document).unwrap())
            .filter(|document| !document.is_null())
            .collect()
    }

    #[test]
    fn a_value_cannot_break_out_of_its_place_in_the_sample() {
        let odd = "a\"\nkind: Other\n---\n${OPENSTACK_USER_ID} \\ 'é";
        let cloud = cloud(odd);
        let documents = documents(&fill(TEMPLATE, &cloud.values()).unwrap());
        let kinds: Vec<_> = documents.iter().map(|document| document["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["Secret", "Region", "Identity", "Network", "SecurityGroup", "Server"]);
        assert_eq!(documents[0]["stringData"]["password"], odd);
        assert_eq!(documents[1]["spec"]["openstack"]["endpoint"], "http://127.0.0.1:1/identity/v3");
    }

    #[test]
    fn the_names_in_the_sample_are_uuids_that_begin_with_a_letter_and_refer_to_each_other() {
        let documents = documents(&fill(TEMPLATE, &cloud("x").values()).unwrap());
        let names: Vec<_> = documents.iter().map(|d| d["metadata"]["name"].as_str().unwrap()).collect();
        for document in &documents[1..] {
            let name = document["metadata"]["name"].as_str().unwrap();
            assert!(uuid::Uuid::parse_str(name).is_ok() && name.starts_with(char::is_alphabetic), "{name}");
            let labels = document["metadata"]["labels"].as_object().unwrap();
            for (label, value) in labels.iter().filter(|(label, _)| label.ends_with("-id")) {
                assert!(names.contains(&value.as_str().unwrap()), "{name} has {label} of nothing in the sample");
            }
        }
    }

    #[test]
    fn a_cloud_without_flavors_is_refused_with_what_it_lacks() {
        let document = json!({
            "endpoint": "e", "flavors": [], "images": [{"id": "i"}],
            "credential": {"domain-id": "d", "project-id": "p", "user-id": "u", "password": "x"},
        });
        let error = Cloud::parse(document.to_string().as_bytes()).err().unwrap().to_string();
        assert!(error.contains("flavor"), "{error}");
        assert!(Cloud::parse(b"{}").is_err());
    }
}
