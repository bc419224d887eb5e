//! Microversions.

use serde_json::{Value, json};

use super::Error;
use crate::wire::{Reply, Request};

/// The minor part of a version 1.x.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub u32);

const LATEST: Version = Version(39);

/// The version that a request asks for; the oldest if it does not say.
pub(super) fn requested(request: &Request) -> Result<Version, Error> {
    let header = request.header("openstack-api-version").unwrap_or_default();
    let Some(text) = header.split(',').find_map(|part| part.trim().strip_prefix("placement ")).map(str::trim) else {
        return Ok(Version(0));
    };
    if text == "latest" {
        return Ok(LATEST);
    }
    let parsed =
        text.split_once('.').and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    match parsed {
        Some((1, minor)) if minor <= LATEST.0 => Ok(Version(minor)),
        Some(_) => Err(Error::version(text)),
        None => Err(Error::bad(&format!("Invalid microversion: invalid version string: {text}"))),
    }
}

pub(super) fn stamp(reply: Reply, version: Version) -> Reply {
    reply.with("OpenStack-API-Version", format!("placement 1.{}", version.0)).with("Vary", "OpenStack-API-Version")
}

pub(super) fn document() -> Value {
    json!({
        "id": "v1.0",
        "status": "CURRENT",
        "min_version": "1.0",
        "max_version": format!("1.{}", LATEST.0),
        "links": [{"rel": "self", "href": ""}],
    })
}
