use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{Client, request};
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

impl Client<'_> {
    /// Uploads a public key. A private key is never asked for: Nova would make one, and later versions do not.
    pub async fn create_keypair(&self, name: &str, public_key: &str) -> Result<Keypair> {
        let request = request(Method::POST, "keypairs", &["os-keypairs"])
            .body(json!({"keypair": {"name": name, "public_key": public_key, "type": "ssh"}}));
        self.session.send(&request).await?.one(&request, "keypair")
    }

    /// A key pair by name, which is its identity.
    pub async fn keypair(&self, name: &str) -> Result<Keypair> {
        let request = request(Method::GET, "keypairs", &["os-keypairs", name]);
        self.session.send(&request).await?.one(&request, "keypair")
    }

    /// Deletes a key pair. Servers keep the key they were made with.
    pub async fn delete_keypair(&self, name: &str) -> Result<()> {
        self.session.send(&request(Method::DELETE, "keypairs", &["os-keypairs", name])).await.map(drop)
    }
}
