//! The removal of an identity (IDN-7): first everybody who depends on it, then what it has in the cloud, innermost first,
//! then its record.
//!
//! Nova keeps server groups and key pairs of users and projects that are gone, for ever, so they go while somebody may
//! still delete them: the group by the region's credential in the project, the key pair by its user, since it is nobody
//! else's. If the user cannot be used any more, it is made usable again, with roles and password, to clean up after
//! itself; its application credentials go with it.

use crate::observe::{MANAGER_ROLE, filled};
use crate::{record, secrets};
use kube::ResourceExt;
use serde_json::json;
use weir_api::crd::{Identity, OpenstackIdentity};
use weir_api::{Kind, Problem, labels, names};
use weir_function_runtime::{Scope, dependants};
use weir_openstack::identity::{Project, User};
use weir_openstack::{Class, OrAbsent, Secret};
use weir_provider::{During, Region};

/// Waits while anything depends on the identity, and says what.
pub async fn dependants(scope: &Scope, identity: &Identity) -> Result<(), Problem> {
    let kinds = [Kind::Server, Kind::Volume, Kind::LoadBalancer, Kind::SecurityGroup, Kind::Network];
    dependants::none_left(scope, labels::IDENTITY, &identity.name_any(), &kinds).await
}

/// Removes what the identity has in the cloud. `Ok` says that a fresh look has shown that nothing is left.
pub async fn scaffolding(
    scope: &Scope,
    region: &Region,
    identity: &Identity,
    record: Option<OpenstackIdentity>,
) -> Result<(), Problem> {
    let (manager, name) = (region.manager(), names::identity(&identity.name_any()));
    let keystone = manager.identity();
    let project = keystone.find_project_by_name(&region.domain, &name).await.during("looking for the project")?;
    let user = keystone.find_user_by_name(&region.domain, &name).await.during("looking for the user")?;
    if let Some(project) = &project {
        groups(region, project, &name).await?;
        if let (Some(user), Some(record)) = (&user, record) {
            key_pair(scope, region, record, project, user).await?;
        }
    }
    if let Some(user) = user {
        tracing::info!("deleting the user, and with it its application credential");
        keystone.delete_user(&user.id).await.or_absent().during("deleting the user")?;
        if keystone.find_user_by_name(&region.domain, &name).await.during("looking whether the user is gone")?.is_some()
        {
            return Err(Problem::yielding("the cloud has not yet removed the identity's user; looking again"));
        }
    }
    if let Some(project) = project {
        tracing::info!("deleting the project");
        keystone.delete_project(&project.id).await.or_absent().during("deleting the project")?;
        if keystone
            .find_project_by_name(&region.domain, &name)
            .await
            .during("looking whether the project is gone")?
            .is_some()
        {
            return Err(Problem::yielding("the cloud has not yet removed the identity's project; looking again"));
        }
    }
    Ok(())
}

/// Deletes the project's server group, as the region's user, who may lack the role that a crash kept it from taking.
async fn groups(region: &Region, project: &Project, name: &str) -> Result<(), Problem> {
    let manager = region.manager();
    let held =
        manager.identity().project_roles(&project.id, &region.user).await.during("reading the roles on the project")?;
    if !held.iter().any(|role| role.name == MANAGER_ROLE) {
        grant(region, project, &region.user, MANAGER_ROLE).await?;
    }
    let session = region.manager_in_project(&project.id);
    let nova = session.compute();
    for _ in 0..2 {
        let Some(group) = nova.find_server_group_by_name(name).await.during("looking for the server group")? else {
            return Ok(());
        };
        tracing::info!("deleting the server group");
        nova.delete_server_group(&group.id).await.or_absent().during("deleting the server group")?;
    }
    Err(Problem::yielding("the cloud has not yet removed the identity's server group; looking again"))
}

/// Deletes the key pair, as its user. It is written down before it is uploaded, so without a record there is none.
async fn key_pair(
    scope: &Scope,
    region: &Region,
    record: OpenstackIdentity,
    project: &Project,
    user: &User,
) -> Result<(), Problem> {
    if filled(record.spec.ssh_key_name.as_deref()).is_none() {
        return Ok(());
    }
    let mut record = record;
    for restored in [false, true] {
        let password = record.spec.password.as_ref().map(|p| p.expose().clone()).unwrap_or_default();
        let session = region.user_in_project(user.id.clone(), Secret::new(password.as_str()), &project.id);
        match session.token_info().await {
            Ok(_) => {}
            Err(error) if error.class() == Class::Unauthorized && !restored => {
                tracing::warn!("the identity's user cannot be used; restoring it to delete its key pair");
                grant(region, project, &user.id, "member").await?;
                record = restore_password(scope, region, record, user, password).await?;
                continue;
            }
            Err(error) => return Err(weir_provider::problem(&error, "using the identity's user")),
        }
        let nova = session.compute();
        if nova.find_keypair_by_name(names::KEY_PAIR).await.during("looking for the key pair")?.is_none() {
            return Ok(());
        }
        tracing::info!("deleting the key pair");
        nova.delete_keypair(names::KEY_PAIR).await.or_absent().during("deleting the key pair")?;
        if nova.find_keypair_by_name(names::KEY_PAIR).await.during("looking whether the key pair is gone")?.is_none() {
            return Ok(());
        }
    }
    Err(Problem::yielding("the cloud has not yet removed the identity's key pair; looking again"))
}

async fn restore_password(
    scope: &Scope,
    region: &Region,
    record: OpenstackIdentity,
    user: &User,
    password: String,
) -> Result<OpenstackIdentity, Problem> {
    let password = if password.is_empty() { secrets::password()? } else { password };
    let set = region.manager().identity().set_password(&user.id, &Secret::new(password.as_str())).await;
    set.during("giving the identity's user a password")?;
    record::save(scope, &record, json!({"userID": user.id, "password": password})).await
}

async fn grant(region: &Region, project: &Project, user: &weir_openstack::UserId, name: &str) -> Result<(), Problem> {
    let manager = region.manager();
    let role = manager.identity().find_role_by_name(name).await.during("looking for a role")?;
    let role =
        role.ok_or_else(|| Problem::retry(format!("the cloud has no role named {name}; an operator has to add it")))?;
    manager.identity().grant_project_role(&project.id, user, &role.id).await.during("granting a role on the project")
}
