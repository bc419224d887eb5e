//! The services by name.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    bare_metal, compute, identity, image, network, placement,
    wire::{Reply, reason},
};

/// A simulated service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Keystone, below `/identity`.
    Identity,
    /// Nova, below `/compute`.
    Compute,
    /// Neutron, below `/network`.
    Network,
    /// Glance, below `/image`.
    Image,
    /// Cinder, below `/volume`: quota sets only so far.
    Volume,
    /// Ironic, below `/baremetal`: nodes only.
    BareMetal,
    /// Placement, below `/placement`: what there is, to be read.
    Placement,
}

impl Service {
    pub(crate) fn from_prefix(prefix: &str) -> Option<Self> {
        match prefix {
            "identity" => Some(Self::Identity),
            "compute" => Some(Self::Compute),
            "network" => Some(Self::Network),
            "image" => Some(Self::Image),
            "volume" => Some(Self::Volume),
            "baremetal" => Some(Self::BareMetal),
            "placement" => Some(Self::Placement),
            _ => None,
        }
    }

    /// An error of this status in the service's own words.
    pub(crate) fn refusal(self, url: &str, status: u16) -> Reply {
        let message = match status {
            500 => "Unexpected API Error.",
            503 => "The server is currently unavailable. Please try again at a later time.",
            429 => "Too many requests.",
            404 => "The resource could not be found.",
            409 => "There was a conflict when trying to complete your request.",
            other => reason(other),
        };
        match self {
            Self::Identity if status == 401 => identity::Error::unauthorized().reply(url),
            Self::Identity => identity::Error::new(status, message).reply(url),
            Self::Image => image::Error::new(status, message).reply(url, true),
            _ if status == 401 => unauthorized(url),
            Self::BareMetal => bare_metal::refusal(status, message),
            Self::Placement => placement::Error::new(status, "").reply("req-0"),
            Self::Compute | Self::Volume => compute::Error::new(status, message).reply(),
            Self::Network => {
                let kind = match status {
                    500 => "HTTPInternalServerError",
                    404 => "HTTPNotFound",
                    409 => "Conflict",
                    503 => "HTTPServiceUnavailable",
                    _ => "HTTPClientError",
                };
                network::Error::new(status, kind, message).reply()
            }
        }
    }
}

/// The answer of the token middleware that all but Keystone and Glance share.
pub(crate) fn unauthorized(url: &str) -> Reply {
    let body = json!({"error": {
        "code": 401,
        "title": "Unauthorized",
        "message": "The request you have made requires authentication.",
    }});
    Reply::json(401, body).with("WWW-Authenticate", format!("Keystone uri=\"{url}/identity\""))
}
