use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{Client, request};
use crate::paging::{Paging, exactly_one};
use crate::{ApplicationCredentialId, ProjectId, Result, Secret, UserId, lenient};

/// An application credential.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct ApplicationCredential {
    /// Its id.
    pub id: ApplicationCredentialId,
    /// Its name, unique for its user.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// The project it is for.
    #[serde(default, deserialize_with = "lenient::field")]
    pub project_id: Option<ProjectId>,
    /// Only in the answer that made it; Keystone never tells it again.
    #[serde(default, deserialize_with = "lenient::field")]
    pub secret: Option<Secret>,
}

/// An application credential to be made, for the project of the session.
#[derive(Debug, Clone)]
pub struct NewApplicationCredential<'a> {
    /// Its name, unique for the user.
    pub name: &'a str,
    /// For people.
    pub description: &'a str,
    /// Names of the roles it carries, of those its user has on the project; empty: all of them.
    pub roles: &'a [String],
}

impl Client<'_> {
    /// Makes an application credential for the session's own user: Keystone lets nobody make one for another.
    pub async fn create_application_credential(
        &self,
        user: &UserId,
        credential: &NewApplicationCredential<'_>,
    ) -> Result<ApplicationCredential> {
        let mut body = json!({"name": credential.name, "description": credential.description, "unrestricted": false});
        if !credential.roles.is_empty() {
            body["roles"] = credential.roles.iter().map(|name| json!({ "name": name })).collect();
        }
        let request =
            request(Method::POST, "application-credentials", &["users", user.as_str(), "application_credentials"])
                .body(json!({ "application_credential": body }));
        self.session.send(&request).await?.one(&request, "application_credential")
    }

    /// The user's application credential of exactly this name.
    pub async fn find_application_credential_by_name(
        &self,
        user: &UserId,
        name: &str,
    ) -> Result<Option<ApplicationCredential>> {
        let path = ["users", user.as_str(), "application_credentials"];
        let request = request(Method::GET, "application-credentials", &path).query("name", name);
        let found: Vec<ApplicationCredential> =
            self.session.list(request.clone(), "application_credentials", Paging::Keystone).await?;
        exactly_one(&request, found, |credential| credential.name == name)
    }

    /// Deletes an application credential. It cannot delete itself: that takes the user's password.
    pub async fn delete_application_credential(&self, user: &UserId, id: &ApplicationCredentialId) -> Result<()> {
        let path = ["users", user.as_str(), "application_credentials", id.as_str()];
        self.session.send(&request(Method::DELETE, "application-credentials", &path)).await.map(drop)
    }
}
