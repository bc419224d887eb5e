//! Microversions.

use std::fmt;

use serde_json::{Value, json};

use super::Error;
use crate::wire::{Reply, Request};

/// The minor part of a version 2.x.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub u32);

impl Version {
    pub const OLDEST: Self = Self(1);
    pub const LATEST: Self = Self(103);
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2.{}", self.0)
    }
}

/// The version a request asks for; the error comes with the version to name in the answer.
pub(super) fn requested(request: &Request) -> Result<Version, (String, Error)> {
    let modern = request
        .header("openstack-api-version")
        .and_then(|value| value.split(',').find_map(|part| part.trim().strip_prefix("compute ")));
    let Some(text) = modern.or_else(|| request.header("x-openstack-nova-api-version")).map(str::trim) else {
        return Ok(Version::OLDEST);
    };
    if text == "latest" {
        return Ok(Version::LATEST);
    }
    let parsed =
        text.split_once('.').and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    match parsed {
        Some((2, minor)) if (Version::OLDEST.0..=Version::LATEST.0).contains(&minor) => Ok(Version(minor)),
        Some(_) => {
            let message = format!(
                "Version {text} is not supported by the API. Minimum is {} and maximum is {}.",
                Version::OLDEST,
                Version::LATEST
            );
            Err((text.to_owned(), Error::new(406, message)))
        }
        None => {
            let message =
                format!("API Version String {text} is of invalid format. Must be of format MajorNum.MinorNum.");
            Err((Version::OLDEST.to_string(), Error::bad(message)))
        }
    }
}

pub(super) fn stamp(reply: Reply, version: &str) -> Reply {
    reply
        .with("OpenStack-API-Version", format!("compute {version}"))
        .with("X-OpenStack-Nova-API-Version", version)
        .with("Vary", "OpenStack-API-Version, X-OpenStack-Nova-API-Version")
}

pub(super) fn document(url: &str) -> Value {
    json!({
        "id": "v2.1",
        "status": "CURRENT",
        "version": Version::LATEST.to_string(),
        "min_version": Version::OLDEST.to_string(),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": format!("{url}/compute/v2.1/")}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}],
    })
}

pub(super) fn documents(url: &str) -> Value {
    let old = json!({
        "id": "v2.0",
        "status": "SUPPORTED",
        "version": "",
        "min_version": "",
        "updated": "2011-01-21T11:33:21Z",
        "links": [{"rel": "self", "href": format!("{url}/compute/v2/")}],
    });
    json!({"versions": [old, document(url)]})
}
