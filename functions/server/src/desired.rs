//! What a Server object asks of the cloud, worked out without asking anybody.
//!
//! Invariants: pure. All that can be told to be wrong from the object, its region's configuration and its certificate
//! authority is told here, before anything is made.

use crate::authority::PublicKey;
use crate::metadata::{self, Owner};
use crate::preflight;
use crate::user_data::{self, Managed, cloud_config};
use ipnet::Ipv4Net;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use weir_api::crd::{self, SshInjection};
use weir_api::{Problem, labels, names};
use weir_openstack::network::AddressPair;
use weir_openstack::placement::Trait;
use weir_openstack::{FlavorId, ImageId};

/// What is asked for, in the cloud's words.
#[derive(Clone, Debug)]
pub struct Desired {
    /// The port's name, and the description by which a floating IP of ours is told from others.
    pub port: String,
    /// The server's name.
    pub server: String,
    /// The network's name.
    pub network: String,
    /// The names of the port's security groups.
    pub groups: BTreeSet<String>,
    /// What the server may send from besides its own address.
    pub pairs: BTreeSet<Pair>,
    /// Whether to have a public address.
    pub public: bool,
    /// The image to boot from.
    pub image: ImageId,
    /// Whether there are volumes to attach.
    pub volumes: bool,
    /// What else a server is made of, or why none can be made. It does not matter to a server that exists.
    pub creation: Result<Creation, Problem>,
}

/// What a server is made of.
#[derive(Clone, PartialEq, Eq)]
pub struct Creation {
    /// The flavor.
    pub flavor: FlavorId,
    /// The metadata.
    pub metadata: BTreeMap<String, String>,
    /// The key pair, with `identityKeypair` (SSH-1).
    pub key_name: Option<String>,
    /// What cloud-init gets.
    pub user_data: Option<Vec<u8>>,
    /// The one host it may run on (PIN-1).
    pub host: Option<Host>,
}

/// The host that a server is pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name, or the UUID of its resource provider.
    pub name: String,
    /// With a check by Placement before the create, the traits that the region asks for besides the flavor's (PIN-2).
    pub checked_for: Option<Vec<Trait>>,
}

impl fmt::Debug for Creation {
    /// User data holds what it likes, passwords among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user_data = self.user_data.as_ref().map_or(0, Vec::len);
        write!(
            f,
            "Creation {{ flavor: {}, key_name: {:?}, user_data: [{user_data} bytes], host: {:?} }}",
            self.flavor, self.key_name, self.host
        )
    }
}

/// An address pair in a form in which two that mean the same are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// A prefix; one address is a prefix of 32 bits. What is no IPv4 is kept as it is, in lower case.
    pub addresses: String,
    /// In lower case with colons; `None` is the port's own.
    pub mac: Option<String>,
}

impl Pair {
    /// The pair that Neutron tells of, on a port with the MAC `own`.
    pub fn observed(pair: &AddressPair, own: &str) -> Self {
        let text = &pair.ip_address;
        let parsed = text.parse::<Ipv4Net>().ok().or_else(|| text.parse::<Ipv4Addr>().ok().map(Ipv4Net::from));
        let addresses = parsed.map_or_else(|| text.to_lowercase(), |net| net.trunc().to_string());
        let mac = pair.mac_address.as_deref().and_then(canonical_mac);
        Self { addresses, mac: mac.filter(|mac| Some(mac) != canonical_mac(own).as_ref()) }
    }

    /// The same for Neutron.
    pub fn request(&self) -> AddressPair {
        AddressPair { ip_address: self.addresses.clone(), mac_address: self.mac.clone() }
    }
}

/// Six pairs of hexadecimal digits, with colons or dashes, in lower case with colons.
fn canonical_mac(text: &str) -> Option<String> {
    let octets: Vec<&str> = text.split([':', '-']).collect();
    let plain = octets.len() == 6 && octets.iter().all(|o| o.len() == 2 && o.bytes().all(|b| b.is_ascii_hexdigit()));
    plain.then(|| octets.join(":").to_lowercase())
}

/// What surrounds a Server object and bears on it.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The configuration of its region.
    pub region: &'a crd::OpenstackRegion,
    /// The key pair of its identity.
    pub key_pair: Option<&'a str>,
    /// The public key of its certificate authority; the problem, if it names one that cannot be used.
    pub authority: Result<Option<&'a str>, &'a Problem>,
}

/// The Network object that a server is on. Of several only the first is used, as it has always been.
///
/// # Errors
/// There is none.
pub fn network(spec: &crd::ServerSpec) -> Result<&crd::ServerNetwork, Problem> {
    spec.networks.first().ok_or_else(|| Problem::user_action("spec.networks is empty: name the network to be on"))
}

impl Desired {
    /// What `object` asks for.
    ///
    /// # Errors
    /// What its owner has to change, whether the server exists or not.
    pub fn of(object: &crd::Server, around: &Surroundings<'_>) -> Result<Self, Problem> {
        let spec = &object.spec;
        let id = object.metadata.name.as_deref().unwrap_or_default();
        let network = network(spec)?;
        let pairs = network.allowed_address_pairs.iter().map(pair).collect::<Result<_, _>>()?;
        let user_data = match user_data(spec, around) {
            // Nothing but a shorter one will do, whatever there is in the cloud (SSH-4).
            Err(Refusal::UserData(error @ user_data::Error::TooLong(_))) => {
                return Err(Problem::user_action(error.to_string()));
            }
            other => other.map_err(Refusal::problem),
        };
        Ok(Self {
            port: names::server_port(id),
            server: labels::display_name(object),
            network: names::network(network.id.as_str()),
            groups: spec.security_groups.iter().map(|group| names::security_group(group.id.as_str())).collect(),
            pairs,
            public: spec.wants_public_ip(),
            image: ImageId::from(spec.image.id.as_str()),
            volumes: !spec.volumes.is_empty(),
            creation: user_data.and_then(|user_data| creation(object, id, user_data, around)),
        })
    }
}

fn pair(pair: &crd::AllowedAddressPair) -> Result<Pair, Problem> {
    let mac = match pair.mac_address.as_deref().map(str::trim).filter(|mac| !mac.is_empty()) {
        None => None,
        Some(text) => Some(canonical_mac(text).ok_or_else(|| {
            Problem::user_action(format!(
                "the macAddress of the allowed address pair {} is no MAC address such as fa:16:3e:00:00:01",
                pair.cidr
            ))
        })?),
    };
    Ok(Pair { addresses: pair.cidr.to_string(), mac })
}

/// Why a server cannot be made.
enum Refusal {
    UserData(user_data::Error),
    Other(Problem),
}

impl Refusal {
    fn problem(self) -> Problem {
        match self {
            Self::UserData(error) => Problem::user_action(error.to_string()),
            Self::Other(problem) => problem,
        }
    }
}

fn user_data(spec: &crd::ServerSpec, around: &Surroundings<'_>) -> Result<Option<Vec<u8>>, Refusal> {
    let user = spec.user_data.as_ref().map_or(&[][..], crd::Base64::as_bytes);
    let managed = managed(spec, around);
    // The length of the user's part is told even where the managed one is not known yet.
    let merged = user_data::merge(user, managed.as_ref().ok().and_then(Option::as_ref)).map_err(Refusal::UserData)?;
    managed.map(|_| merged).map_err(Refusal::Other)
}

fn managed(spec: &crd::ServerSpec, around: &Surroundings<'_>) -> Result<Option<Managed>, Problem> {
    if spec.resolved_ssh_injection() != SshInjection::Ca {
        return Ok(None);
    }
    let Some(key) = around.authority.map_err(Problem::clone)? else {
        return Err(Problem::user_action(
            "spec.sshInjection is ca, but spec.sshCertificateAuthorityID does not say which; create the server again with both",
        ));
    };
    let key = PublicKey::parse(key).map_err(|error| {
        let text = format!("the SSH certificate authority cannot be used: {error}; name another one");
        Problem::user_action(text)
    })?;
    Ok(Some(cloud_config::trusting(&key)))
}

/// The key pair that a server gets (SSH-1).
fn key_name(injection: SshInjection, identity: Option<&str>) -> Option<String> {
    match injection {
        SshInjection::IdentityKeypair => identity.filter(|name| !name.is_empty()).map(str::to_owned),
        SshInjection::Ca | SshInjection::None => None,
    }
}

fn creation(
    object: &crd::Server,
    id: &str,
    user_data: Option<Vec<u8>>,
    around: &Surroundings<'_>,
) -> Result<Creation, Problem> {
    let spec = &object.spec;
    let label = |label| labels::get(object, label).unwrap_or_default();
    let owner = Owner {
        server: id,
        organization: label(labels::ORGANIZATION),
        project: label(labels::PROJECT),
        region: label(labels::REGION),
    };
    Ok(Creation {
        flavor: FlavorId::from(spec.flavor_id.as_str()),
        metadata: metadata::metadata(&owner, &spec.tags).map_err(|error| Problem::user_action(error.to_string()))?,
        key_name: key_name(spec.resolved_ssh_injection(), around.key_pair),
        user_data,
        host: host(spec, around.region)?,
    })
}

/// The host that a server is pinned to (PIN-1).
fn host(spec: &crd::ServerSpec, region: &crd::OpenstackRegion) -> Result<Option<Host>, Problem> {
    let compute = region.compute.as_ref();
    let Some(host) = spec.infrastructure_ref.as_deref().filter(|host| !host.is_empty()) else {
        let metadata = compute.and_then(|c| c.flavors.as_ref()).map_or(&[][..], |f| &f.metadata);
        if metadata.iter().any(|flavor| flavor.id == spec.flavor_id && flavor.pinned_only) {
            return Err(Problem::user_action(
                "servers of this flavor have to say on which host they run: create the server again with spec.infrastructureRef",
            ));
        }
        return Ok(None);
    };
    if spec.resolved_ssh_injection() == SshInjection::IdentityKeypair {
        return Err(Problem::user_action(
            "a server that is pinned to a host (spec.infrastructureRef) cannot have the identity's key pair: create it again \
             with sshInjection ca or none",
        ));
    }
    let check = compute.and_then(|c| c.placement_preflight.as_ref()).filter(|check| check.enabled);
    let checked_for = check.map(|check| preflight::region_traits(&check.required_traits)).transpose()?;
    Ok(Some(Host { name: host.to_owned(), checked_for }))
}
#[cfg(test)]
mod tests;
