//! What an identity has in the cloud: the OpenstackIdentity, read as a whole.

use weir_api::crd;
use weir_openstack::{ApplicationCredentialId, Credential, ProjectId, Scope, Secret, UserId};

/// An identity's record whose project exists. Before that there can be nothing in the cloud that belongs to the
/// identity's resources: every deletion is done (NET-12).
#[derive(Clone, Debug)]
pub struct Record {
    /// The identity's project.
    pub project: ProjectId,
    /// The name of the key pair that `identityKeypair` uses (SSH-1).
    pub ssh_key_name: Option<String>,
    spec: crd::OpenstackIdentitySpec,
}

impl Record {
    /// The record, or `None` while it names no project.
    pub fn of(object: &crd::OpenstackIdentity) -> Option<Self> {
        let project = text(object.spec.project_id.as_deref())?;
        Some(Self {
            project: ProjectId::from(project),
            ssh_key_name: text(object.spec.ssh_key_name.as_deref()),
            spec: object.spec.clone(),
        })
    }

    /// Whether an application credential is recorded. Before that one is, the identity's user may not be allowed anything yet.
    pub fn has_application_credential(&self) -> bool {
        let spec = &self.spec;
        text(spec.application_credential_id.as_deref()).is_some() && spec.application_credential_secret.is_some()
    }

    /// The credential to work with: the application credential, which can do least; before there is one, or in records
    /// taken over without one, user and password.
    pub(crate) fn credential(&self) -> Option<(Credential, Scope)> {
        let spec = &self.spec;
        if let (Some(id), Some(secret)) =
            (text(spec.application_credential_id.as_deref()), spec.application_credential_secret.as_ref())
        {
            let secret = Secret::new(secret.expose().as_str());
            return Some((
                Credential::ApplicationCredential { id: ApplicationCredentialId::from(id), secret },
                Scope::Own,
            ));
        }
        let (user, password) = (text(spec.user_id.as_deref())?, spec.password.as_ref()?);
        let credential =
            Credential::Password { user_id: UserId::from(user), password: Secret::new(password.expose().as_str()) };
        Some((credential, Scope::Project(self.project.clone())))
    }
}

fn text(value: Option<&str>) -> Option<String> {
    value.filter(|value| !value.is_empty()).map(str::to_owned)
}
