//! Servers.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Client, ImageRef, Observed, PowerState, ServerStatus, request};
use crate::paging::{Paging, exactly_one};
use crate::request::Request;
use crate::{
    FlavorId, ImageId, NetworkId, NovaServerId, PortId, ProjectId, Result, Secret, ServerGroupId, VolumeId, lenient,
};

/// An address of a server.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct Address {
    /// The address.
    pub addr: String,
    /// 4 or 6.
    #[serde(default, deserialize_with = "lenient::number")]
    pub version: u64,
    /// The port's MAC.
    #[serde(default, rename = "OS-EXT-IPS-MAC:mac_addr", deserialize_with = "lenient::field")]
    pub mac: Option<String>,
    /// `fixed` or `floating`.
    #[serde(default, rename = "OS-EXT-IPS:type", deserialize_with = "lenient::field")]
    pub kind: String,
}

/// Why a server is in `ERROR`. For operators: Nova writes host names and stack traces into it.
#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// An HTTP-like code.
    #[serde(default, deserialize_with = "lenient::number")]
    pub code: u64,
    /// One sentence.
    #[serde(default, deserialize_with = "lenient::field")]
    pub message: String,
}

/// A server's flavor, as it was when the server was made. Since 2.47 without its id.
#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlavorRef {
    /// The id, which old versions tell.
    #[serde(default, deserialize_with = "lenient::field")]
    pub id: Option<FlavorId>,
    /// The name.
    #[serde(default, deserialize_with = "lenient::field")]
    pub original_name: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Attached {
    id: VolumeId,
}

/// A server.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Server {
    /// Its id.
    pub id: NovaServerId,
    /// Its name, which Nova does not keep unique.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// Its status.
    #[serde(default)]
    pub status: ServerStatus,
    /// What is being done to it; [`Observed::Nothing`] at rest.
    #[serde(default, rename = "OS-EXT-STS:task_state")]
    pub task_state: Observed<String>,
    /// Nova's inner state.
    #[serde(default, rename = "OS-EXT-STS:vm_state", deserialize_with = "lenient::field")]
    pub vm_state: String,
    /// What the hypervisor says.
    #[serde(default, rename = "OS-EXT-STS:power_state")]
    pub power_state: PowerState,
    /// When it first booted, or was last rebuilt; [`Observed::Nothing`] if it never booted.
    #[serde(default, rename = "OS-SRV-USG:launched_at")]
    pub launched_at: Observed<String>,
    /// What it was made from.
    #[serde(default)]
    pub image: ImageRef,
    /// Its flavor.
    #[serde(default, deserialize_with = "lenient::field")]
    pub flavor: FlavorRef,
    /// Its metadata.
    #[serde(default, deserialize_with = "lenient::texts")]
    pub metadata: BTreeMap<String, String>,
    /// Its addresses by network *name*.
    #[serde(default, deserialize_with = "lenient::field")]
    pub addresses: BTreeMap<String, Vec<Address>>,
    /// The key pair it was made with.
    #[serde(default, deserialize_with = "lenient::field")]
    pub key_name: Option<String>,
    /// Why it is in `ERROR`.
    #[serde(default, deserialize_with = "lenient::field")]
    pub fault: Option<Fault>,
    /// The project it is in.
    #[serde(default, rename = "tenant_id", deserialize_with = "lenient::field")]
    pub project_id: Option<ProjectId>,
    /// When it was made, as Nova writes it.
    #[serde(default, deserialize_with = "lenient::field")]
    pub created: String,
    /// When it was changed, as Nova writes it.
    #[serde(default, deserialize_with = "lenient::field")]
    pub updated: String,
    #[serde(default, rename = "os-extended-volumes:volumes_attached", deserialize_with = "lenient::list")]
    volumes_attached: Vec<Attached>,
}

impl Server {
    /// The volumes attached to it.
    pub fn volumes(&self) -> impl Iterator<Item = &VolumeId> {
        self.volumes_attached.iter().map(|attached| &attached.id)
    }
}

/// A server that is there and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its name, if that at least can be read.
    pub name: Option<String>,
}

/// What a new server is attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attach {
    /// A port that exists. Nova leaves it when the server goes.
    Port(PortId),
    /// A network; Nova makes the port, and deletes it with the server.
    Network(NetworkId),
}

/// A server to be made.
#[derive(Debug, Clone)]
pub struct NewServer<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its flavor.
    pub flavor: &'a FlavorId,
    /// The image it boots.
    pub image: &'a ImageId,
    /// What it is attached to, in this order; empty: to nothing.
    pub networks: &'a [Attach],
    /// Its metadata.
    pub metadata: &'a BTreeMap<String, String>,
    /// A key pair of the session's user.
    pub key_name: Option<&'a str>,
    /// What cloud-init reads, not yet encoded.
    pub user_data: Option<&'a [u8]>,
    /// The group it joins.
    pub server_group: Option<&'a ServerGroupId>,
    /// The one host it may run on; takes a privilege (`requested_destination`).
    pub hypervisor_hostname: Option<&'a str>,
}

impl<'a> NewServer<'a> {
    /// A server with only what every server has.
    pub fn new(name: &'a str, flavor: &'a FlavorId, image: &'a ImageId, networks: &'a [Attach]) -> Self {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        Self {
            name,
            flavor,
            image,
            networks,
            metadata: &NONE,
            key_name: None,
            user_data: None,
            server_group: None,
            hypervisor_hostname: None,
        }
    }

    fn request(&self) -> Request {
        let mut server = json!({
            "name": self.name,
            "flavorRef": self.flavor,
            "imageRef": self.image,
            "metadata": self.metadata,
            "networks": "none",
        });
        if !self.networks.is_empty() {
            server["networks"] = self
                .networks
                .iter()
                .map(|attach| match attach {
                    Attach::Port(id) => json!({ "port": id }),
                    Attach::Network(id) => json!({ "uuid": id }),
                })
                .collect();
        }
        if let Some(name) = self.key_name {
            server["key_name"] = json!(name);
        }
        if let Some(host) = self.hypervisor_hostname {
            server["hypervisor_hostname"] = json!(host);
        }
        let user_data = self.user_data.map(|data| STANDARD.encode(data));
        if let Some(data) = &user_data {
            server["user_data"] = json!(data);
        }
        let mut body = json!({ "server": server });
        if let Some(group) = self.server_group {
            body["os:scheduler_hints"] = json!({ "group": group });
        }
        let request = request(Method::POST, "servers", &["servers"]).body(body);
        match user_data {
            Some(data) => request.secret(&Secret::new(data)),
            None => request,
        }
    }
}

/// How to reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reboot {
    /// By the guest.
    Soft,
    /// By the power button.
    Hard,
}

#[derive(Deserialize)]
struct Created {
    id: NovaServerId,
}

impl Client<'_> {
    /// Makes a server. Nova answers before it has scheduled it.
    pub async fn create_server(&self, server: &NewServer<'_>) -> Result<NovaServerId> {
        let request = server.request();
        // The answer also holds an administrator's password: only the id is taken out of it.
        let created: Created = self.session.send(&request).await?.one(&request, "server")?;
        Ok(created.id)
    }

    /// A server by id.
    pub async fn server(&self, id: &NovaServerId) -> Result<Server> {
        let request = request(Method::GET, "servers", &["servers", id.as_str()]);
        self.session.send(&request).await?.one(&request, "server")
    }

    /// The project's servers.
    pub async fn servers(&self) -> Result<Vec<Server>> {
        self.session.list(request(Method::GET, "servers", &["servers", "detail"]), "servers", Paging::Links).await
    }

    /// The project's servers, each for itself: one that cannot be read does not hide the others.
    pub async fn each_server(&self) -> Result<Vec<std::result::Result<Server, Unreadable>>> {
        let request = request(Method::GET, "servers", &["servers", "detail"]);
        let found = self.session.list_each::<Server>(request, "servers", Paging::Links).await?;
        let unreadable = |item: Value| Unreadable { name: item["name"].as_str().map(str::to_owned) };
        Ok(found.into_iter().map(|server| server.map_err(unreadable)).collect())
    }

    /// The project's server of exactly this name. Servers that are deleted and only still shown do not count.
    pub async fn find_server_by_name(&self, name: &str) -> Result<Option<Server>> {
        let mut request = request(Method::GET, "servers", &["servers", "detail"]);
        if let Some(pattern) = name_pattern(name) {
            request = request.query("name", pattern);
        }
        let found: Vec<Server> = self.session.list(request.clone(), "servers", Paging::Links).await?;
        exactly_one(&request, found, |server| server.name == name && !server.status.is_gone())
    }

    /// The project's servers that are being built. Those that Nova has accepted and not yet placed are among them, also
    /// where a filter by name misses them.
    pub async fn building_servers(&self) -> Result<Vec<Server>> {
        let request = request(Method::GET, "servers", &["servers", "detail"]).query("status", "BUILD");
        self.session.list(request, "servers", Paging::Links).await
    }

    /// Deletes a server, in whatever state it is.
    pub async fn delete_server(&self, id: &NovaServerId) -> Result<()> {
        self.session.send(&request(Method::DELETE, "servers", &["servers", id.as_str()])).await.map(drop)
    }

    /// Recreates the root disk from `image`. Key pair and user data stay as they were.
    pub async fn rebuild_server(&self, id: &NovaServerId, image: &ImageId) -> Result<()> {
        self.action(id, json!({"rebuild": {"imageRef": image}})).await
    }

    /// Starts a server.
    pub async fn start_server(&self, id: &NovaServerId) -> Result<()> {
        self.action(id, json!({ "os-start": null })).await
    }

    /// Stops a server.
    pub async fn stop_server(&self, id: &NovaServerId) -> Result<()> {
        self.action(id, json!({ "os-stop": null })).await
    }

    /// Reboots a server.
    pub async fn reboot_server(&self, id: &NovaServerId, how: Reboot) -> Result<()> {
        let how = match how {
            Reboot::Soft => "SOFT",
            Reboot::Hard => "HARD",
        };
        self.action(id, json!({"reboot": {"type": how}})).await
    }

    async fn action(&self, id: &NovaServerId, body: Value) -> Result<()> {
        let request = request(Method::POST, "server-actions", &["servers", id.as_str(), "action"]).body(body);
        self.session.send(&request).await.map(drop)
    }
}

/// A regular expression that matches `name` whole, and little else. Which dialect Nova's database speaks (and how Nova
/// escapes for it) differs, so what is special in any of them becomes `.`, which all of them know; the exact comparison
/// comes after. `None` for the empty name, which Nova refuses as a filter.
fn name_pattern(name: &str) -> Option<String> {
    let dot =
        |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | ' ' | ':' | '@' | '/' | ',');
    (!name.is_empty()).then(|| format!("^{}$", name.chars().map(|c| if dot(c) { '.' } else { c }).collect::<String>()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    fn read(value: Value) -> Server {
        serde_json::from_value(value).unwrap()
    }

    /// Proves: OSC-10
    #[test]
    fn a_server_that_lies_about_optional_fields_still_decodes() {
        let server = read(json!({
            "id": "s1", "name": 7, "status": "NEW_STATUS", "image": "", "flavor": {"vcpus": 1}, "metadata": null,
            "addresses": {"net": [{"addr": "10.0.0.4", "version": "4"}]}, "fault": "text", "unheard": {"of": []},
            "OS-EXT-STS:power_state": "on",
        }));
        assert_eq!(server.status, ServerStatus::Unknown("NEW_STATUS".into()));
        assert_eq!(server.image, ImageRef::Volume);
        assert_eq!(server.flavor.id, None);
        assert_eq!(server.addresses["net"][0].version, 4);
        assert_eq!(server.fault, None);
        assert_eq!(server.power_state, PowerState::Unknown);
        let images = [json!(null), json!({"id": null}), json!(3), json!({}), json!("abc")];
        for image in images {
            assert_eq!(read(json!({"id": "s", "image": image})).image, ImageRef::Unreadable);
        }
        assert_eq!(read(json!({"id": "s"})).image, ImageRef::Unreadable);
        assert_eq!(read(json!({"id": "s", "image": {"id": "i"}})).image, ImageRef::Image("i".into()));
    }

    /// Proves: OSC-10, RTY-2
    #[test]
    fn what_the_cloud_does_not_tell_is_not_taken_for_nothing() {
        let launched = |value: Value| read(value).launched_at;
        assert_eq!(launched(json!({"id": "s"})), Observed::Untold);
        assert_eq!(launched(json!({"id": "s", "OS-SRV-USG:launched_at": ""})), Observed::Untold);
        assert_eq!(launched(json!({"id": "s", "OS-SRV-USG:launched_at": null})), Observed::Nothing);
        let at = "2026-11-29T15:26:54.000000";
        assert_eq!(launched(json!({"id": "s", "OS-SRV-USG:launched_at": at})), Observed::Value(at.into()));
        assert_eq!(launched(json!({"id": "s", "OS-SRV-USG:launched_at": 17})), Observed::Value("17".into()));
        assert_eq!(
            read(json!({"id": "s", "OS-EXT-STS:task_state": "rebuilding"})).task_state.value().unwrap(),
            "rebuilding"
        );
    }

    proptest! {
        /// Proves: OSC-5
        #[test]
        fn a_name_s_pattern_matches_the_name_itself(name in "[ -~é]{1,30}") {
            let pattern = name_pattern(&name).unwrap();
            prop_assert!(pattern.starts_with('^') && pattern.ends_with('$'));
            let inner = &pattern[1..pattern.len() - 1];
            prop_assert!(inner.chars().zip(name.chars()).all(|(p, n)| p == n || p == '.'));
            prop_assert_eq!(inner.chars().count(), name.chars().count());
            let special = ['\\', '|', '*', '+', '?', '(', ')', '[', ']', '{', '}', '^', '$'];
            prop_assert!(!inner.contains(special));
        }

        /// Proves: OSC-10
        #[test]
        fn no_field_of_a_server_makes_decoding_fail(field in 0usize..13, value in prop_oneof![
            Just(json!(null)), Just(json!("")), Just(json!("x")), Just(json!(1)), Just(json!(-1.5)), Just(json!(true)),
            Just(json!([])), Just(json!([{"a": null}])), Just(json!({})), Just(json!({"a": [1]})),
        ]) {
            let names = ["name", "status", "OS-EXT-STS:task_state", "OS-EXT-STS:vm_state", "OS-EXT-STS:power_state",
                "OS-SRV-USG:launched_at", "image", "flavor", "metadata", "addresses", "key_name", "fault",
                "os-extended-volumes:volumes_attached"];
            let mut server = json!({"id": "s"});
            server[names[field]] = value;
            read(server);
        }
    }
}
