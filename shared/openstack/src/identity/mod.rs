//! Keystone v3: projects, users, roles and application credentials.
//!
//! Projects, users and role assignments are made with a domain-scoped session of the region's credential; application
//! credentials only by the user they are for, in the project they are for.
//!
//! # Caveats
//! To anybody but an administrator Keystone answers 403, not 404, when a project or user is not there: its policy compares the
//! domain of something that has none. So *gone* is found out by name ([`Client::find_project_by_name`],
//! [`Client::find_user_by_name`]), which a list answers, and not by the answer to a delete.

mod application_credentials;
mod projects;
mod roles;
mod users;

pub use application_credentials::{ApplicationCredential, NewApplicationCredential};
pub use projects::{NewProject, Project};
pub use roles::Role;
pub use users::{NewUser, User};

use http::Method;

use crate::request::Request;
use crate::{Service, Session};

/// Keystone's requests; see [`Session::identity`].
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    session: &'a Session,
}

impl Session {
    /// Keystone.
    pub fn identity(&self) -> Client<'_> {
        Client { session: self }
    }
}

fn request(method: Method, resource: &'static str, path: &[&str]) -> Request {
    Request::new(Service::Identity, method, resource, path)
}
