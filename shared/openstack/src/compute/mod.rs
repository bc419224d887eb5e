//! Nova, at microversion 2.90.

mod flavors;
mod keypairs;
mod quotas;
mod server_groups;
mod servers;
mod state;

pub use flavors::Flavor;
pub use keypairs::Keypair;
pub use quotas::QuotaSet;
pub use server_groups::ServerGroup;
pub use servers::{Address, Attach, Fault, FlavorRef, NewServer, Reboot, Server, Unreadable};
pub use state::{ImageRef, Observed, PowerState, ServerStatus};

use http::Method;

use crate::request::Request;
use crate::{Service, Session};

/// Nova's requests; see [`Session::compute`].
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    session: &'a Session,
}

impl Session {
    /// Nova.
    pub fn compute(&self) -> Client<'_> {
        Client { session: self }
    }
}

fn request(method: Method, resource: &'static str, path: &[&str]) -> Request {
    Request::new(Service::Compute, method, resource, path)
}
