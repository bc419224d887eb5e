//! Secrets that are made here, and the file that carries one of them.

use rand::TryRngCore;
use rand::rngs::OsRng;
use serde_json::json;
use ssh_key::{Algorithm, LineEnding, PrivateKey};
use weir_api::{Problem, names};

/// Bytes of randomness in a password.
const PASSWORD_BYTES: usize = 32;

/// A random password: 64 characters that need no quoting anywhere.
pub fn password() -> Result<String, Problem> {
    let mut bytes = [0_u8; PASSWORD_BYTES];
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| no_entropy(&error.to_string()))?;
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
    Ok(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect())
}

/// A new ed25519 key in OpenSSH's PEM form (IDN-6).
pub fn private_key() -> Result<String, Problem> {
    let mut seed = [0_u8; 32];
    OsRng.try_fill_bytes(&mut seed).map_err(|error| no_entropy(&error.to_string()))?;
    let pair = ssh_key::private::Ed25519Keypair::from_seed(&seed);
    let key = PrivateKey::new(pair.into(), names::KEY_PAIR).map_err(|error| no_entropy(&error.to_string()))?;
    debug_assert_eq!(key.algorithm(), Algorithm::Ed25519);
    let pem = key.to_openssh(LineEnding::LF).map_err(|error| no_entropy(&error.to_string()))?;
    Ok(pem.to_string())
}

/// The public half of a private key, as `authorized_keys` has it, without a comment.
pub fn public_key(pem: &[u8]) -> Result<String, Problem> {
    let unreadable =
        || Problem::operator("the identity's recorded SSH key cannot be read; an operator has to look at its record");
    let text = std::str::from_utf8(pem).map_err(|_| unreadable())?;
    let key = PrivateKey::from_openssh(text).map_err(|_| unreadable())?;
    let mut public = key.public_key().clone();
    public.set_comment("");
    public.to_openssh().map_err(|_| unreadable())
}

/// Whether two public keys are the same, comments aside.
pub fn same_key(one: &str, other: &str) -> bool {
    let essence = |key: &str| key.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
    essence(one) == essence(other)
}

/// The `clouds.yaml` of an identity: one cloud, by application credential (IDN-1).
pub fn clouds_yaml(endpoint: &str, id: &str, secret: &str) -> Result<String, Problem> {
    let clouds = json!({"clouds": {names::CLOUD: {
        "auth_type": "v3applicationcredential",
        "auth": {
            "auth_url": endpoint,
            "application_credential_id": id,
            "application_credential_secret": secret,
        },
    }}});
    // The error would hold the values.
    serde_yaml_ng::to_string(&clouds).map_err(|_| Problem::retry("clouds.yaml could not be written; trying again"))
}

fn no_entropy(detail: &str) -> Problem {
    Problem::retry("no secret could be made; trying again").with_detail(detail.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Proves: IDN-6
    #[test]
    fn the_key_is_ed25519_and_its_public_half_can_be_made_again() {
        let pem = private_key().unwrap();
        let public = public_key(pem.as_bytes()).unwrap();
        assert!(public.starts_with("ssh-ed25519 "), "{public}");
        assert!(same_key(&public, &format!("{public} a comment")));
        assert!(!same_key(&public, &public_key(private_key().unwrap().as_bytes()).unwrap()));
    }

    #[test]
    fn passwords_are_long_and_never_the_same() {
        let (one, other) = (password().unwrap(), password().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
    }

    /// Proves: IDN-1
    #[test]
    fn clouds_yaml_has_one_cloud_named_cloud() {
        let text = clouds_yaml("https://keystone/v3", "id", "a \"secret\": {}").unwrap();
        let value: serde_json::Value = serde_yaml_ng::from_str(&text).unwrap();
        let cloud = &value["clouds"]["cloud"];
        assert_eq!(cloud["auth_type"], "v3applicationcredential");
        assert_eq!(cloud["auth"]["application_credential_secret"], "a \"secret\": {}");
        assert_eq!(value["clouds"].as_object().unwrap().len(), 1);
    }

    #[test]
    fn an_unreadable_key_is_an_operator_s_matter_and_shows_nothing_of_itself() {
        let problem = public_key(b"-----BEGIN OPENSSH PRIVATE KEY-----\nnonsense").unwrap_err();
        assert!(!problem.to_string().contains("nonsense"));
    }
}
