//! What the cloud has of a server, read afresh.
//!
//! Invariants: reads only; everything is found by name, and names are compared exactly (SRV-2).
//!
//! How a server is found. Its name comes first. A name label may change, and anybody with the identity's credential may
//! rename a server, so what Nova has put onto our port is ours too. Right after a create, a list by name may miss a server
//! that Nova has accepted and not yet placed. A port without a server may be left by such a create, so then, and only
//! then, the servers that are being built are looked through as well: their list is short, and does not pass through the
//! filter by name (SRV-11).

use crate::desired::{Desired, Pair};
use crate::metadata::{self, Claim};
use std::collections::BTreeSet;
use weir_api::Problem;
use weir_openstack::compute::{self, FlavorRef, ImageRef, PowerState, ServerStatus};
use weir_openstack::network::{self, FloatingIpFilter};
use weir_openstack::{FloatingIpId, ImageId, NetworkId, NovaServerId, OrAbsent, PortId, SecurityGroupId, Session};
use weir_provider::During;
use weir_provider::server::{Activity, Booted, View};

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The network to be on.
    pub network: Option<NetworkId>,
    /// The security groups that are there, of those asked for.
    pub groups: BTreeSet<SecurityGroupId>,
    /// Names of security groups that are asked for and not there.
    pub missing_groups: Vec<String>,
    /// Our port.
    pub port: Option<Port>,
    /// Floating IPs on our port, and those that say they are ours and are on none.
    pub floating_ips: Vec<FloatingIp>,
    /// Our server, or one that is in its place.
    pub server: Option<Server>,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its ID.
    pub id: PortId,
    /// Its network.
    pub network: NetworkId,
    /// Its addresses, in order.
    pub addresses: Vec<String>,
    /// Its security groups.
    pub groups: BTreeSet<SecurityGroupId>,
    /// What may be sent from it besides its own address.
    pub pairs: BTreeSet<Pair>,
    /// The server that Nova has put on it.
    pub device: Option<NovaServerId>,
}

impl Port {
    /// The port that Neutron tells of.
    pub fn of(port: &network::Port) -> Self {
        let device = &port.device_id;
        Self {
            id: port.id.clone(),
            network: port.network_id.clone(),
            addresses: port
                .fixed_ips
                .iter()
                .map(|fixed| &fixed.ip_address)
                .filter(|ip| is_address(ip))
                .cloned()
                .collect(),
            groups: port.security_groups.iter().cloned().collect(),
            pairs: port.allowed_address_pairs.iter().map(|pair| Pair::observed(pair, &port.mac_address)).collect(),
            device: (!device.is_empty()).then(|| NovaServerId::from(device.as_str())),
        }
    }
}

/// Whether it is what a cloud calls it: addresses are shown to people.
pub fn is_address(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

/// A floating IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloatingIp {
    /// Its ID.
    pub id: FloatingIpId,
    /// Its address.
    pub address: String,
    /// Whether it is on our port; otherwise it is on none.
    pub attached: bool,
    /// Whether it says that it is somebody else's. One without a description is taken for ours: the predecessor wrote none.
    pub foreign: bool,
}

impl FloatingIp {
    /// The floating IP that Neutron tells of; `None` if it has nothing to do with our port.
    pub fn of(ip: &network::FloatingIp, port: Option<&PortId>, ours: &str) -> Option<Self> {
        let attached = ip.port_id.is_some() && ip.port_id.as_ref() == port;
        let marked = ip.description == ours;
        let orphaned = marked && ip.port_id.is_none();
        (attached || orphaned).then(|| Self {
            id: ip.id.clone(),
            address: ip.floating_ip_address.clone(),
            attached,
            foreign: !marked && !ip.description.is_empty(),
        })
    }
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its ID.
    pub id: NovaServerId,
    /// Whose it says it is.
    pub claim: Claim,
    /// Whether Nova is deleting it.
    pub deleting: bool,
    /// The flavor it was made with.
    pub flavor: FlavorRef,
    /// What decides about its life: its status, its image, whether it is worked on and has ever booted.
    pub view: View,
}

impl Server {
    /// The server that Nova tells of. `id` is the name of our Server object.
    pub fn of(server: &compute::Server, id: &str) -> Self {
        Self {
            id: server.id.clone(),
            claim: metadata::claim(&server.metadata, id),
            deleting: server.task_state.value().is_some_and(|task| task == "deleting" || task == "soft-deleting"),
            flavor: server.flavor.clone(),
            view: View::of(server),
        }
    }

    /// A server whose creation Nova has just accepted.
    pub fn accepted(id: NovaServerId, image: ImageId) -> Self {
        let view = View {
            status: ServerStatus::Build,
            image: ImageRef::Image(image),
            activity: Activity::Busy,
            booted: Booted::Never,
            power: PowerState::Unknown,
        };
        Self { id, claim: Claim::Ours, deleting: false, flavor: FlavorRef::default(), view }
    }
}

/// The names to look for.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Our Server object's.
    pub id: &'a str,
    /// The port's.
    pub port: &'a str,
    /// The server's.
    pub server: &'a str,
}

/// Looks for everything that `desired` speaks of.
pub async fn whole(session: &Session, id: &str, desired: &Desired) -> Result<Observed, Problem> {
    let names = Names { id, port: &desired.port, server: &desired.server };
    let neutron = session.network();
    let surroundings = async {
        let network = neutron.find_network_by_name(&desired.network).await.during("looking for the network")?;
        let (mut groups, mut missing) = (BTreeSet::new(), Vec::new());
        for name in &desired.groups {
            match neutron.find_security_group_by_name(name).await.during("looking for the security groups")? {
                Some(group) => drop(groups.insert(group.id)),
                None => missing.push(name.clone()),
            }
        }
        Ok::<_, Problem>((network.map(|network| network.id), groups, missing))
    };
    let ((network, groups, missing_groups), own) =
        tokio::try_join!(surroundings, remains(session, &names, desired.public))?;
    Ok(Observed { network, groups, missing_groups, ..own })
}

/// Looks for what is the server's own. With `everywhere`, floating IPs of ours that have come off the port are looked for
/// too, where there is none on it.
pub async fn remains(session: &Session, names: &Names<'_>, everywhere: bool) -> Result<Observed, Problem> {
    let find_port =
        async { session.network().find_port_by_name(names.port).await.during("looking for the server's port") };
    let find_server =
        async { session.compute().find_server_by_name(names.server).await.during("looking for the server") };
    let (port, named) = tokio::try_join!(find_port, find_server)?;
    let port = port.as_ref().map(Port::of);
    let named = named.map(|server| Server::of(&server, names.id));
    let server = server(session, names, named, port.as_ref());
    let floating_ips = floating_ips(session, names, port.as_ref(), everywhere);
    let (server, floating_ips) = tokio::try_join!(server, floating_ips)?;
    Ok(Observed { port, floating_ips, server, ..Observed::default() })
}

/// The server, beyond what the list by name tells.
async fn server(
    session: &Session,
    names: &Names<'_>,
    named: Option<Server>,
    port: Option<&Port>,
) -> Result<Option<Server>, Problem> {
    let ours = |server: &Server| server.claim != Claim::Another;
    if named.as_ref().is_some_and(ours) {
        return Ok(named);
    }
    let Some(port) = port else {
        return Ok(named);
    };
    let nova = session.compute();
    let found = if let Some(device) = &port.device {
        nova.server(device).await.or_absent().during("looking at the server on our port")?
    } else {
        let building = nova.building_servers().await.during("looking for the server")?;
        building.into_iter().find(|server| server.name == names.server)
    };
    let found = found.filter(|server| !server.status.is_gone()).map(|server| Server::of(&server, names.id));
    Ok(found.filter(ours).or(named))
}

async fn floating_ips(
    session: &Session,
    names: &Names<'_>,
    port: Option<&Port>,
    everywhere: bool,
) -> Result<Vec<FloatingIp>, Problem> {
    let port = port.map(|port| &port.id);
    let neutron = session.network();
    let list = async |filter: FloatingIpFilter<'_>| {
        let found = neutron.floating_ips(&filter).await.during("looking for floating IPs")?;
        Ok::<Vec<_>, Problem>(found.iter().filter_map(|ip| FloatingIp::of(ip, port, names.port)).collect())
    };
    if port.is_some() {
        let on_port = list(FloatingIpFilter { port }).await?;
        if !on_port.is_empty() || !everywhere {
            return Ok(on_port);
        }
    }
    if everywhere { list(FloatingIpFilter::default()).await } else { Ok(Vec::new()) }
}
