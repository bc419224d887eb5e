//! What to do next about an identity. Pure.

use crate::observe::{MANAGER_ROLE, Observed, filled};
use weir_api::Problem;
use weir_api::crd::OpenstackIdentitySpec;
use weir_openstack::{ApplicationCredentialId, RoleId, Service};

/// What an Identity asks for, derived from its labels and its region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Names of the roles that the user gets (IDN-4).
    pub roles: Vec<String>,
    /// The policy of the server group (IDN-6).
    pub group_policy: String,
    /// Tags of the project (IDN-1).
    pub tags: Vec<String>,
    /// Keystone's URL, for `clouds.yaml`.
    pub endpoint: String,
}

/// One step towards an identity, in the order in which they are taken (IDN-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the project.
    CreateProject,
    /// Write down which project it is.
    RecordProject,
    /// Let the region's user manage the project.
    Manage(RoleId),
    /// Lift a service's quotas.
    LiftQuotas(Service),
    /// Make the user, with a password of our making.
    CreateUser,
    /// Give a user that is there a password that is recorded: nobody knows the one it has.
    SetPassword,
    /// Grant the user a role on the project.
    Grant(String, RoleId),
    /// Remove an application credential whose secret nobody has.
    DeleteCredential(ApplicationCredentialId),
    /// Make the application credential.
    CreateCredential,
    /// Write `clouds.yaml`.
    WriteClouds,
    /// Make the server group.
    CreateGroup,
    /// Write down which server group it is.
    RecordGroup,
    /// Make an SSH key, and write it down before anybody relies on it.
    MakeKey,
    /// Remove a key pair whose private half is not the recorded one.
    DeleteKey,
    /// Upload the recorded key's public half.
    UploadKey,
    /// Nothing is missing.
    Done,
}

/// The next step, from what is wanted, recorded and there. `clouds` is what `clouds.yaml` has to hold, and `public_key`
/// the public half of the recorded key, as far as what is recorded tells.
///
/// # Errors
/// The cloud lacks a role, or does not let the user in with the password that it was just given.
pub fn decide(
    desired: &Desired,
    record: &OpenstackIdentitySpec,
    clouds: Option<&str>,
    public_key: Option<&str>,
    observed: &Observed,
) -> Result<Step, Problem> {
    let unread = Problem::reread;
    let Some(project) = observed.project.as_ref().ok_or_else(unread)? else {
        return Ok(Step::CreateProject);
    };
    if record.project_id.as_deref() != Some(project.id.as_str()) {
        return Ok(Step::RecordProject);
    }
    if !observed.managed.ok_or_else(unread)? {
        return Ok(Step::Manage(role(observed, MANAGER_ROLE)?));
    }
    if let Some(service) = observed.limited.as_ref().ok_or_else(unread)?.first() {
        return Ok(Step::LiftQuotas(*service));
    }
    // Before a user is made that could not be used.
    for name in &desired.roles {
        role(observed, name)?;
    }
    let Some(user) = observed.user.as_ref().ok_or_else(unread)? else {
        return Ok(Step::CreateUser);
    };
    let password = record.password.as_ref().is_some_and(|password| !password.expose().is_empty());
    if record.user_id.as_deref() != Some(user.id.as_str()) || !password {
        return Ok(Step::SetPassword);
    }
    let granted = observed.granted.as_ref().ok_or_else(unread)?;
    if let Some(name) = desired.roles.iter().find(|name| !granted.contains(*name)) {
        return Ok(Step::Grant(name.clone(), role(observed, name)?));
    }
    if observed.refused {
        return Ok(Step::SetPassword);
    }
    let secret = record.application_credential_secret.as_ref().is_some_and(|secret| !secret.expose().is_empty());
    match observed.credential.as_ref().ok_or_else(unread)? {
        None => return Ok(Step::CreateCredential),
        Some(live) if record.application_credential_id.as_deref() != Some(live.id.as_str()) || !secret => {
            return Ok(Step::DeleteCredential(live.id.clone()));
        }
        Some(_) => {}
    }
    let written = record.cloud_config.as_ref().map(|text| text.expose().as_bytes());
    if filled(record.cloud.as_deref()) != Some(weir_api::names::CLOUD) || written != clouds.map(str::as_bytes) {
        return Ok(Step::WriteClouds);
    }
    match observed.group.as_ref().ok_or_else(unread)? {
        None => return Ok(Step::CreateGroup),
        Some(group) if record.server_group_id.as_deref() != Some(group.id.as_str()) => return Ok(Step::RecordGroup),
        Some(_) => {}
    }
    let (Some(public_key), Some(_)) = (public_key, filled(record.ssh_key_name.as_deref())) else {
        return Ok(Step::MakeKey);
    };
    match observed.key.as_ref().ok_or_else(unread)? {
        None => Ok(Step::UploadKey),
        Some(key) if !crate::secrets::same_key(&key.public_key, public_key) => Ok(Step::DeleteKey),
        Some(_) => Ok(Step::Done),
    }
}

fn role(observed: &Observed, name: &str) -> Result<RoleId, Problem> {
    observed.roles.as_ref().and_then(|roles| roles.get(name)).cloned().ok_or_else(|| {
        Problem::retry(format!("the cloud has no role named {name}; an operator has to add it, or change the region's identity.clusterRoles"))
    })
}

#[cfg(test)]
mod tests;
