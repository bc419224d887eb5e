//! A fresh read of a security group and of what uses it.

use weir_api::{Problem, names};
use weir_openstack::Session;
use weir_openstack::network::{Port, PortFilter, SecurityGroup};
use weir_provider::During;

/// Reads the group by its exact name, rules included.
pub async fn observe(session: &Session, object: &str) -> Result<Option<SecurityGroup>, Problem> {
    let name = names::security_group(object);
    session.network().find_security_group_by_name(&name).await.during("looking for the security group")
}

/// The ports of the project that use a group.
pub async fn users(session: &Session, group: &SecurityGroup) -> Result<Vec<Port>, Problem> {
    let ports =
        session.network().ports(&PortFilter::default()).await.during("looking for what uses the security group")?;
    Ok(ports.into_iter().filter(|port| port.security_groups.contains(&group.id)).collect())
}
