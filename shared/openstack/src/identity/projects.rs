use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Client, request};
use crate::paging::{Paging, exactly_one};
use crate::{DomainId, ProjectId, Result, lenient};

/// A project.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its name, unique in its domain.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// Its domain.
    #[serde(default, deserialize_with = "lenient::field")]
    pub domain_id: Option<DomainId>,
    /// For people.
    #[serde(default, deserialize_with = "lenient::field")]
    pub description: String,
    /// Whether it can be used; absent counts as not.
    #[serde(default, deserialize_with = "lenient::field")]
    pub enabled: bool,
    /// Its tags.
    #[serde(default, deserialize_with = "lenient::list")]
    pub tags: Vec<String>,
}

/// A project to be made.
#[derive(Debug, Clone, Serialize)]
pub struct NewProject<'a> {
    /// Its name, unique in the domain.
    pub name: &'a str,
    /// The domain it belongs to.
    pub domain_id: &'a DomainId,
    /// For people.
    pub description: &'a str,
    /// Its tags; without `,` and `/`, which Keystone refuses.
    pub tags: &'a [String],
}

impl Client<'_> {
    /// Makes a project.
    pub async fn create_project(&self, project: &NewProject<'_>) -> Result<Project> {
        let request = request(Method::POST, "projects", &["projects"]).body(json!({ "project": project }));
        self.session.send(&request).await?.one(&request, "project")
    }

    /// The project of exactly this name in `domain`.
    pub async fn find_project_by_name(&self, domain: &DomainId, name: &str) -> Result<Option<Project>> {
        let request =
            request(Method::GET, "projects", &["projects"]).query("domain_id", domain.as_str()).query("name", name);
        let found: Vec<Project> = self.session.list(request.clone(), "projects", Paging::Keystone).await?;
        exactly_one(&request, found, |project| {
            project.name == name && project.domain_id.as_ref().is_none_or(|of| of == domain)
        })
    }

    /// A project by id.
    pub async fn project(&self, id: &ProjectId) -> Result<Project> {
        let request = request(Method::GET, "projects", &["projects", id.as_str()]);
        self.session.send(&request).await?.one(&request, "project")
    }

    /// Replaces the project's tags.
    pub async fn set_project_tags(&self, id: &ProjectId, tags: &[String]) -> Result<()> {
        let request =
            request(Method::PUT, "projects", &["projects", id.as_str(), "tags"]).body(json!({ "tags": tags }));
        self.session.send(&request).await.map(drop)
    }

    /// Deletes a project. What other services hold in it is not deleted, and not reachable any more.
    pub async fn delete_project(&self, id: &ProjectId) -> Result<()> {
        self.session.send(&request(Method::DELETE, "projects", &["projects", id.as_str()])).await.map(drop)
    }
}
