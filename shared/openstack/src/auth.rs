//! Who asks, and in which scope.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{ApplicationCredentialId, DomainId, ProjectId, Secret, UserId};

/// Where and how a session gets its tokens.
#[derive(Debug, Clone)]
pub struct Auth {
    /// Keystone's URL, with or without `/v3`.
    pub endpoint: String,
    /// Who asks.
    pub credential: Credential,
    /// For what.
    pub scope: Scope,
}

/// A Keystone credential.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A user and its password.
    Password {
        /// The user.
        user_id: UserId,
        /// Its password.
        password: Secret,
    },
    /// An application credential; its scope is the project it was made in.
    ApplicationCredential {
        /// The credential.
        id: ApplicationCredentialId,
        /// Its secret.
        secret: Secret,
    },
}

/// What a token is good for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A whole domain.
    Domain(DomainId),
    /// One project.
    Project(ProjectId),
    /// What the credential itself carries: the only choice for an application credential.
    Own,
}

/// The identity of a token in the cache (OSC-3). Holds a hash of the secret, not the secret: a changed secret is another key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) endpoint: String,
    user: String,
    secret: [u8; 32],
    scope: Scope,
}

impl Auth {
    pub(crate) fn secret(&self) -> &Secret {
        match &self.credential {
            Credential::Password { password, .. } => password,
            Credential::ApplicationCredential { secret, .. } => secret,
        }
    }

    pub(crate) fn key(&self) -> Key {
        let user = match &self.credential {
            Credential::Password { user_id, .. } => format!("user:{user_id}"),
            Credential::ApplicationCredential { id, .. } => format!("application-credential:{id}"),
        };
        Key {
            endpoint: self.endpoint.clone(),
            user,
            secret: Sha256::digest(self.secret().reveal()).into(),
            scope: self.scope.clone(),
        }
    }

    pub(crate) fn body(&self) -> Value {
        let identity = match &self.credential {
            Credential::Password { user_id, password } => json!({
                "methods": ["password"],
                "password": {"user": {"id": user_id, "password": password.reveal()}},
            }),
            Credential::ApplicationCredential { id, secret } => json!({
                "methods": ["application_credential"],
                "application_credential": {"id": id, "secret": secret.reveal()},
            }),
        };
        let mut auth = json!({ "identity": identity });
        match &self.scope {
            Scope::Domain(id) => auth["scope"] = json!({"domain": {"id": id}}),
            Scope::Project(id) => auth["scope"] = json!({"project": {"id": id}}),
            Scope::Own => {}
        }
        json!({ "auth": auth })
    }
}
