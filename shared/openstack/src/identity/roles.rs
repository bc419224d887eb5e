use http::Method;
use serde::Deserialize;

use super::{Client, request};
use crate::paging::{Paging, exactly_one};
use crate::{DomainId, OrAbsent, ProjectId, Result, RoleId, UserId, lenient};

/// A role.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Role {
    /// Its id.
    pub id: RoleId,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// Its domain; none for the roles of the whole cloud, the only ones Weir grants.
    #[serde(default, deserialize_with = "lenient::field")]
    pub domain_id: Option<DomainId>,
}

impl Client<'_> {
    /// Every role of the whole cloud.
    pub async fn roles(&self) -> Result<Vec<Role>> {
        self.session.list(request(Method::GET, "roles", &["roles"]), "roles", Paging::Keystone).await
    }

    /// The role of exactly this name.
    pub async fn find_role_by_name(&self, name: &str) -> Result<Option<Role>> {
        let request = request(Method::GET, "roles", &["roles"]).query("name", name);
        let found: Vec<Role> = self.session.list(request.clone(), "roles", Paging::Keystone).await?;
        exactly_one(&request, found, |role| role.name == name && role.domain_id.is_none())
    }

    /// Gives `user` the role on `project`. Idempotent.
    pub async fn grant_project_role(&self, project: &ProjectId, user: &UserId, role: &RoleId) -> Result<()> {
        self.session.send(&request(Method::PUT, "role-assignments", &grant(project, user, role))).await.map(drop)
    }

    /// Whether `user` itself (not by a group or a parent) has the role on `project`.
    pub async fn has_project_role(&self, project: &ProjectId, user: &UserId, role: &RoleId) -> Result<bool> {
        let request = request(Method::HEAD, "role-assignments", &grant(project, user, role));
        Ok(self.session.send(&request).await.or_absent()?.is_some())
    }

    /// The roles that `user` itself has on `project`.
    pub async fn project_roles(&self, project: &ProjectId, user: &UserId) -> Result<Vec<Role>> {
        let path = ["projects", project.as_str(), "users", user.as_str(), "roles"];
        self.session.list(request(Method::GET, "role-assignments", &path), "roles", Paging::Keystone).await
    }

    /// Takes the role away.
    pub async fn revoke_project_role(&self, project: &ProjectId, user: &UserId, role: &RoleId) -> Result<()> {
        self.session.send(&request(Method::DELETE, "role-assignments", &grant(project, user, role))).await.map(drop)
    }
}

fn grant<'a>(project: &'a ProjectId, user: &'a UserId, role: &'a RoleId) -> [&'a str; 6] {
    ["projects", project.as_str(), "users", user.as_str(), "roles", role.as_str()]
}
