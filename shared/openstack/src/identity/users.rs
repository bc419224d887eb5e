use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{Client, request};
use crate::paging::{Paging, exactly_one};
use crate::{DomainId, ProjectId, Result, Secret, UserId, lenient};

/// A user.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// Its name, unique in its domain.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// Its domain.
    #[serde(default, deserialize_with = "lenient::field")]
    pub domain_id: Option<DomainId>,
    /// The project it gets a token for when it names none.
    #[serde(default, deserialize_with = "lenient::field")]
    pub default_project_id: Option<ProjectId>,
    /// Whether it can be used; absent counts as not.
    #[serde(default, deserialize_with = "lenient::field")]
    pub enabled: bool,
}

/// A user to be made.
#[derive(Debug, Clone)]
pub struct NewUser<'a> {
    /// Its name, unique in the domain.
    pub name: &'a str,
    /// The domain it belongs to.
    pub domain_id: &'a DomainId,
    /// Its password.
    pub password: &'a Secret,
    /// The project it gets a token for when it names none.
    pub default_project_id: Option<&'a ProjectId>,
    /// For people.
    pub description: &'a str,
}

impl Client<'_> {
    /// Makes a user.
    pub async fn create_user(&self, user: &NewUser<'_>) -> Result<User> {
        let mut body = json!({
            "name": user.name,
            "domain_id": user.domain_id,
            "password": user.password.reveal(),
            "description": user.description,
        });
        if let Some(project) = user.default_project_id {
            body["default_project_id"] = json!(project);
        }
        let request = request(Method::POST, "users", &["users"]).body(json!({ "user": body })).secret(user.password);
        self.session.send(&request).await?.one(&request, "user")
    }

    /// The user of exactly this name in `domain`.
    pub async fn find_user_by_name(&self, domain: &DomainId, name: &str) -> Result<Option<User>> {
        let request = request(Method::GET, "users", &["users"]).query("domain_id", domain.as_str()).query("name", name);
        let found: Vec<User> = self.session.list(request.clone(), "users", Paging::Keystone).await?;
        exactly_one(&request, found, |user| user.name == name && user.domain_id.as_ref().is_none_or(|of| of == domain))
    }

    /// A user by id.
    pub async fn user(&self, id: &UserId) -> Result<User> {
        let request = request(Method::GET, "users", &["users", id.as_str()]);
        self.session.send(&request).await?.one(&request, "user")
    }

    /// Gives the user a new password; its tokens and those of the old password die.
    pub async fn set_password(&self, id: &UserId, password: &Secret) -> Result<()> {
        let request = request(Method::PATCH, "users", &["users", id.as_str()])
            .body(json!({"user": {"password": password.reveal()}}))
            .secret(password);
        self.session.send(&request).await.map(drop)
    }

    /// Deletes a user, and with it its application credentials.
    pub async fn delete_user(&self, id: &UserId) -> Result<()> {
        self.session.send(&request(Method::DELETE, "users", &["users", id.as_str()])).await.map(drop)
    }
}
