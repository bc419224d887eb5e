//! Fresh reads of what an identity has in the cloud.
//!
//! What can be read depends on what is there: the roles of a user need a user, its application credential needs a
//! password that works. So [`observe`] reads as deep as it can and is called again after each step; it reads nothing
//! twice.
//!
//! Project and user are looked up by name, not by their recorded IDs: Keystone answers 403 to a domain's manager who asks
//! for the ID of something that is gone, which cannot be told from a missing privilege. A field that is `None` has not been read, because the step that makes it readable has not been taken.

use std::collections::{BTreeMap, BTreeSet};
use weir_api::crd::OpenstackIdentity;
use weir_api::{Problem, names};
use weir_openstack::compute::{Keypair, ServerGroup};
use weir_openstack::identity::{ApplicationCredential, Project, User};
use weir_openstack::{Class, RoleId, Secret, Service, Session, UserId, block_storage, compute, network};
use weir_provider::{During, Region};

/// The role that the region's user takes on each project it makes (IDN-4).
pub const MANAGER_ROLE: &str = "manager";

/// Something that was looked for: not looked yet, not there, or there.
pub type Looked<T> = Option<Option<T>>;

/// What the cloud holds for one identity.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The cloud's roles by name.
    pub roles: Option<BTreeMap<String, RoleId>>,
    /// The project.
    pub project: Looked<Project>,
    /// Whether the region's user is a manager of the project.
    pub managed: Option<bool>,
    /// The services whose quotas are not as they should be.
    pub limited: Option<Vec<Service>>,
    /// The user.
    pub user: Looked<User>,
    /// Names of the roles that the user has on the project.
    pub granted: Option<BTreeSet<String>>,
    /// Whether the user's recorded password was refused.
    pub refused: bool,
    /// The application credential.
    pub credential: Looked<ApplicationCredential>,
    /// The server group.
    pub group: Looked<ServerGroup>,
    /// The key pair.
    pub key: Looked<Keypair>,
}

/// The identity's user in its project, once both are there and the password is recorded.
pub fn user_session(region: &Region, record: &OpenstackIdentity, observed: &Observed) -> Option<(Session, UserId)> {
    let project = observed.project.as_ref()?.as_ref()?;
    let user = observed.user.as_ref()?.as_ref()?;
    // Only for the user that the password was recorded for.
    let recorded = record.spec.user_id.as_deref() == Some(user.id.as_str());
    let password = record.spec.password.as_ref().filter(|_| recorded)?;
    let session = region.user_in_project(user.id.clone(), Secret::new(password.expose().as_str()), &project.id);
    Some((session, user.id.clone()))
}

/// Reads whatever can be read and has not been.
pub async fn observe(
    region: &Region,
    record: &OpenstackIdentity,
    name: &str,
    observed: &mut Observed,
) -> Result<(), Problem> {
    let manager = region.manager();
    let keystone = manager.identity();
    let name = names::identity(name);
    if observed.roles.is_none() {
        let roles = keystone.roles().await.during("listing the roles")?;
        observed.roles = Some(roles.into_iter().filter(|r| r.domain_id.is_none()).map(|r| (r.name, r.id)).collect());
    }
    if observed.project.is_none() {
        let found = keystone.find_project_by_name(&region.domain, &name).await;
        observed.project = Some(found.during("looking for the project")?);
    }
    if observed.user.is_none() {
        let found = keystone.find_user_by_name(&region.domain, &name).await;
        observed.user = Some(found.during("looking for the user")?);
    }
    let Some(Some(project)) = observed.project.clone() else {
        return Ok(());
    };
    if observed.managed.is_none() {
        let held =
            keystone.project_roles(&project.id, &region.user).await.during("reading the roles on the project")?;
        observed.managed = Some(held.iter().any(|role| role.name == MANAGER_ROLE));
    }
    if observed.managed == Some(true) && observed.limited.is_none() {
        observed.limited = Some(limited(region, &project).await?);
    }
    let Some(Some(user)) = observed.user.clone() else {
        return Ok(());
    };
    if observed.granted.is_none() {
        let held = keystone.project_roles(&project.id, &user.id).await.during("reading the user's roles")?;
        observed.granted = Some(held.into_iter().map(|role| role.name).collect());
    }
    if observed.granted.as_ref().is_some_and(|granted| !granted.is_empty()) && observed.credential.is_none() {
        own(region, record, &name, observed).await?;
    }
    Ok(())
}

/// Reads what only the user itself can see.
async fn own(region: &Region, record: &OpenstackIdentity, name: &str, observed: &mut Observed) -> Result<(), Problem> {
    let Some((session, user)) = user_session(region, record, observed) else {
        return Ok(());
    };
    match session.token_info().await {
        Ok(_) => observed.refused = false,
        Err(error) if error.class() == Class::Unauthorized => {
            observed.refused = true;
            return Ok(());
        }
        Err(error) => return Err(weir_provider::problem(&error, "using the identity's user")),
    }
    let (keystone, nova) = (session.identity(), session.compute());
    let credential = keystone.find_application_credential_by_name(&user, name).await;
    let credential = credential.during("looking for the application credential")?;
    let group = nova.find_server_group_by_name(name).await.during("looking for the server group")?;
    let key = nova.find_keypair_by_name(names::KEY_PAIR).await.during("looking for the key pair")?;
    (observed.group, observed.key, observed.credential) = (Some(group), Some(key), Some(credential));
    Ok(())
}

/// Which services do not let the project have as much as it wants (IDN-5).
async fn limited(region: &Region, project: &Project) -> Result<Vec<Service>, Problem> {
    let session = region.manager_in_project(&project.id);
    let mut limited = Vec::new();
    let compute = session.compute().quotas(&project.id).await.during("reading the compute quotas")?;
    if crate::quota::compute(&compute) != compute::QuotaSet::default() {
        limited.push(Service::Compute);
    }
    let network = session.network().quotas(&project.id).await.during("reading the network quotas")?;
    if crate::quota::network(&network) != network::Quota::default() {
        limited.push(Service::Network);
    }
    // A cloud without block storage has no quotas for it.
    if session.offers(Service::BlockStorage).await.during("reading the catalog")? {
        let volumes = session.block_storage().quotas(&project.id).await.during("reading the volume quotas")?;
        if crate::quota::block_storage(&volumes) != block_storage::QuotaSet::default() {
            limited.push(Service::BlockStorage);
        }
    }
    Ok(limited)
}

/// A recorded value that says something.
pub fn filled(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty())
}
