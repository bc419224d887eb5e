//! The objects that a server needs: waited for, and held so that none of them can go first (SRV-4, SRV-9).
//!
//! A server holds its network, security groups and SSH certificate authority by a finalizer of its own on each. It is
//! put there before anything is made, and taken off when the port no longer uses a group, or nothing of the server is left.
//!
//! Caveat: to find groups that are no longer used, those with the identity's label are listed. All groups have it; without
//! it their own function would not know where to make them.

use crate::desired;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use weir_api::conditions::Reason;
use weir_api::{Consequence, Kind, Problem, crd, labels};
use weir_function_runtime::{Scope, kubernetes};

/// How often a reference is looked for again after others have changed the list that it is in.
const ATTEMPTS: usize = 20;

/// What a server needs, ready to be used.
pub struct Dependencies {
    network: crd::Network,
    groups: Vec<crd::SecurityGroup>,
    /// The certificate authority that the server names, or why it cannot be used.
    pub authority: Result<Option<crd::SshCertificateAuthority>, Problem>,
    unused: Vec<crd::SecurityGroup>,
}

impl Dependencies {
    /// Reads them.
    ///
    /// # Errors
    /// The first that is not ready. Its change wakes the server (W-5).
    pub async fn read(scope: &Scope, server: &crd::Server) -> Result<Self, Problem> {
        let id = desired::network(&server.spec)?.id.as_str();
        let network =
            ready("Network", id, scope.get::<crd::Network>(id).await?, |n| Some(&n.status.as_ref()?.conditions))?;
        let reference = reference(server);
        let mut listed = of_identity::<crd::SecurityGroup>(scope, server).await?;
        let mut groups = Vec::new();
        for wanted in &server.spec.security_groups {
            let id = wanted.id.as_str();
            let at = listed.iter().position(|group| group.name_any() == id);
            let group = match at {
                Some(at) => Some(listed.swap_remove(at)),
                None if groups.iter().any(|group: &crd::SecurityGroup| group.name_any() == id) => continue,
                None => scope.get(id).await?,
            };
            groups.push(ready("SecurityGroup", id, group, |g| Some(&g.status.as_ref()?.conditions))?);
        }
        listed.retain(|group| group.finalizers().contains(&reference));
        Ok(Self { network, groups, authority: authority(scope, server).await?, unused: listed })
    }

    /// Puts the server's reference on each.
    pub async fn hold(&self, scope: &Scope, server: &crd::Server) -> Result<(), Problem> {
        let reference = reference(server);
        kubernetes::hold(&scope.api(), &self.network, &reference).await?;
        for group in &self.groups {
            kubernetes::hold(&scope.api(), group, &reference).await?;
        }
        if let Ok(Some(authority)) = &self.authority {
            kubernetes::hold(&scope.api(), authority, &reference).await?;
        }
        Ok(())
    }

    /// Takes the reference off groups that the port no longer uses.
    pub async fn release_unused(&self, scope: &Scope, server: &crd::Server) -> Result<(), Problem> {
        for group in &self.unused {
            release(scope, group, &reference(server)).await?;
        }
        Ok(())
    }
}

/// Takes the server's reference off everything. Needs nothing but names: what is gone holds nothing.
pub async fn release_all(scope: &Scope, server: &crd::Server) -> Result<(), Problem> {
    let spec = &server.spec;
    let networks: Vec<_> = spec.networks.iter().map(|network| network.id.as_str()).collect();
    release_each::<crd::Network>(scope, server, &networks).await?;
    let groups: Vec<_> = spec.security_groups.iter().map(|group| group.id.as_str()).collect();
    release_each::<crd::SecurityGroup>(scope, server, &groups).await?;
    let authority = spec.ssh_certificate_authority_id.as_ref().map(crd::CertificateAuthorityId::as_str);
    for id in authority.iter().filter(|id| !id.is_empty()) {
        if let Some(authority) = scope.get::<crd::SshCertificateAuthority>(id).await? {
            release(scope, &authority, &reference(server)).await?;
        }
    }
    Ok(())
}

/// Lets go of all of a kind: those of the identity, and those named besides.
async fn release_each<K>(scope: &Scope, server: &crd::Server, named: &[&str]) -> Result<(), Problem>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let mut held = of_identity::<K>(scope, server).await?;
    for id in named.iter().filter(|id| !id.is_empty()) {
        if !held.iter().any(|object| object.name_any() == *id) {
            held.extend(scope.get::<K>(id).await?);
        }
    }
    for object in &held {
        release(scope, object, &reference(server)).await?;
    }
    Ok(())
}

/// Takes one reference off. Others may be doing the same to the same object: whoever comes second looks again.
async fn release<K>(scope: &Scope, object: &K, reference: &str) -> Result<(), Problem>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let mut read = object.clone();
    for _ in 0..ATTEMPTS {
        match kubernetes::release(&scope.api(), &read, reference).await {
            Err(problem) if problem.consequence == Consequence::Reread => {
                let Some(again) = scope.get::<K>(&object.name_any()).await? else {
                    return Ok(());
                };
                read = again;
            }
            outcome => return outcome,
        }
    }
    Err(Problem::reread())
}

/// The finalizer by which a server holds others.
fn reference(server: &crd::Server) -> String {
    Kind::Server.reference(&server.name_any())
}

async fn authority(
    scope: &Scope,
    server: &crd::Server,
) -> Result<Result<Option<crd::SshCertificateAuthority>, Problem>, Problem> {
    let id = server.spec.ssh_certificate_authority_id.as_ref().map(crd::CertificateAuthorityId::as_str);
    let Some(id) = id.filter(|id| !id.is_empty()) else {
        return Ok(Ok(None));
    };
    let Some(authority) = scope.get::<crd::SshCertificateAuthority>(id).await? else {
        let text = format!("SSHCertificateAuthority {id} does not exist");
        return Ok(Err(Problem::waiting(Reason::DependencyNotFound, text)));
    };
    let held = authority.finalizers().contains(&reference(server));
    if authority.metadata.deletion_timestamp.is_some() && !held {
        let text = format!("SSHCertificateAuthority {id} is being deleted");
        return Ok(Err(Problem::waiting(Reason::DependencyNotReady, text)));
    }
    Ok(Ok(Some(authority)))
}

/// The object, if it is ready.
fn ready<K: ResourceExt>(
    kind: &str,
    id: &str,
    object: Option<K>,
    conditions: impl FnOnce(&K) -> Option<&Conditions>,
) -> Result<K, Problem> {
    weir_provider::dependency(kind, id, object.as_ref(), |object| conditions(object).map(Vec::as_slice))?;
    object.ok_or_else(Problem::reread)
}

type Conditions = Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>;

/// The objects of a kind that belong to the server's identity.
async fn of_identity<K>(scope: &Scope, server: &crd::Server) -> Result<Vec<K>, Problem>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let Some(identity) = labels::anchor(server, labels::IDENTITY) else {
        return Ok(Vec::new());
    };
    scope.labelled(labels::IDENTITY, identity).await
}
