//! Glance v2.

use std::collections::BTreeMap;

use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::paging::Paging;
use crate::request::Request;
use crate::{ImageId, ProjectId, Result, Service, Session, lenient};

/// An image.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Image {
    /// Its id.
    pub id: ImageId,
    /// Its name, which need not be unique.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// `queued`, `saving`, `active` …
    #[serde(default, deserialize_with = "lenient::field")]
    pub status: String,
    /// `public`, `private`, `shared` or `community`.
    #[serde(default, deserialize_with = "lenient::field")]
    pub visibility: String,
    /// The project it belongs to.
    #[serde(default, deserialize_with = "lenient::field")]
    pub owner: Option<ProjectId>,
    /// Bytes stored; none before there is data.
    #[serde(default, deserialize_with = "lenient::field")]
    pub size: Option<u64>,
    /// Bytes when unpacked; none if unknown.
    #[serde(default, deserialize_with = "lenient::field")]
    pub virtual_size: Option<u64>,
    /// The least disk to boot it, GiB.
    #[serde(default, deserialize_with = "lenient::number")]
    pub min_disk: u64,
    /// The least memory to boot it, MiB.
    #[serde(default, deserialize_with = "lenient::number")]
    pub min_ram: u64,
    /// `raw`, `qcow2` …
    #[serde(default, deserialize_with = "lenient::field")]
    pub disk_format: Option<String>,
    /// When it was made.
    #[serde(default, deserialize_with = "lenient::field")]
    pub created_at: Option<Timestamp>,
    /// When it was changed.
    #[serde(default, deserialize_with = "lenient::field")]
    pub updated_at: Option<Timestamp>,
    /// Its tags.
    #[serde(default, deserialize_with = "lenient::list")]
    pub tags: Vec<String>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

impl Image {
    /// A property (`architecture`, `unikorn:os:kernel` …), if it is there and text.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.rest.get(name)?.as_str()
    }

    /// All properties that are text, sorted by name. Glance's own lesser fields (`self`, `schema` …) are among them.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rest.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
    }
}

/// Which images to list. Empty: all that are visible in the scope.
#[derive(Debug, Clone, Default)]
pub struct ImageFilter<'a> {
    /// `public`, `private` …
    pub visibility: Option<&'a str>,
    /// `active` …
    pub status: Option<&'a str>,
    /// The project they belong to.
    pub owner: Option<&'a ProjectId>,
}

/// Glance's requests; see [`Session::image`].
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    session: &'a Session,
}

impl Session {
    /// Glance.
    pub fn image(&self) -> Client<'_> {
        Client { session: self }
    }
}

impl Client<'_> {
    /// The images that match.
    pub async fn images(&self, filter: &ImageFilter<'_>) -> Result<Vec<Image>> {
        let request = Request::new(Service::Image, Method::GET, "images", &["images"])
            .query_some("visibility", filter.visibility)
            .query_some("status", filter.status)
            .query_some("owner", filter.owner);
        self.session.list(request, "images", Paging::Next).await
    }

    /// An image by id.
    pub async fn image(&self, id: &ImageId) -> Result<Image> {
        let request = Request::new(Service::Image, Method::GET, "images", &["images", id.as_str()]);
        let answer = self.session.send(&request).await?;
        serde_json::from_slice(&answer.body).map_err(|error| answer.not_understood(&request, &error))
    }
}
