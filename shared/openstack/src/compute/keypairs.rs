use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{Client, request};
use crate::paging::{Paging, exactly_one};
use crate::{Result, lenient};

/// A key pair. It belongs to the session's user, not to a project, and is known by its name.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Keypair {
    /// Its name, unique for its user.
    pub name: String,
    /// The public key, in OpenSSH's form.
    #[serde(default, deserialize_with = "lenient::field")]
    pub public_key: String,
    /// MD5 fingerprint.
    #[serde(default, deserialize_with = "lenient::field")]
    pub fingerprint: String,
}

/// As Nova lists them: each in an object of its own.
#[derive(Debug, Deserialize)]
struct Wrapped {
    keypair: Keypair,
}

impl Client<'_> {
    /// Uploads a public key. A private key is never asked for: Nova would make one, and later versions do not.
    pub async fn create_keypair(&self, name: &str, public_key: &str) -> Result<Keypair> {
        let request = request(Method::POST, "keypairs", &["os-keypairs"])
            .body(json!({"keypair": {"name": name, "public_key": public_key, "type": "ssh"}}));
        self.session.send(&request).await?.one(&request, "keypair")
    }

    /// The key pairs of the session's user.
    pub async fn keypairs(&self) -> Result<Vec<Keypair>> {
        let request = request(Method::GET, "keypairs", &["os-keypairs"]);
        let found: Vec<Wrapped> = self.session.list(request, "keypairs", Paging::Links).await?;
        Ok(found.into_iter().map(|wrapped| wrapped.keypair).collect())
    }

    /// The key pair of exactly this name. Listed, not asked for by name: a 404 that something in between answers must not
    /// pass for its being gone.
    pub async fn find_keypair_by_name(&self, name: &str) -> Result<Option<Keypair>> {
        let found = self.keypairs().await?;
        exactly_one(&request(Method::GET, "keypairs", &["os-keypairs"]), found, |keypair| keypair.name == name)
    }

    /// Deletes a key pair. Servers keep the key they were made with.
    pub async fn delete_keypair(&self, name: &str) -> Result<()> {
        self.session.send(&request(Method::DELETE, "keypairs", &["os-keypairs", name])).await.map(drop)
    }
}
