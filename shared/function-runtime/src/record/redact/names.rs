//! Which names say that a secret follows.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// Of which kind a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Plain,
    Secret,
    /// People put passwords in it.
    UserData,
}

/// Fields that hold a secret, by the whole of their name.
const WHOLE: [&str; 11] = [
    "adminpass",
    "authorization",
    "clientkeydata",
    "cookie",
    "credential",
    "credentials",
    "kubeconfig",
    "rawcredential",
    "setcookie",
    "tokenid",
    "unlockkey",
];
/// Fields that hold a secret, by how their name ends.
const ENDINGS: [&str; 8] = ["accesskey", "apikey", "passphrase", "passwd", "password", "privatekey", "secret", "token"];
/// The longest of them is shorter than this.
const LONGEST: usize = 20;

/// Keys of a region's Secret that are no secrets (REG-1), and without which a recording says little.
const PLAIN_KEYS: [&str; 5] = ["domain-id", "project-id", "user-id", "ca.crt", "insecure-skip-tls-verify"];

/// In every name that tells of a secret there is one of these.
const HINTS: [&str; 12] = [
    "pass",
    "secret",
    "token",
    "key",
    "credential",
    "kubeconfig",
    "authorization",
    "cookie",
    "userdata",
    "user_data",
    "user-data",
    "user.data",
];

/// Whether a text could name anything that tells of a secret. Cheap.
pub(super) fn hints(text: &str) -> bool {
    static FINDER: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(HINTS).ok());
    FINDER.as_ref().is_none_or(|finder| finder.is_match(text))
}

/// What a field of this name holds, without regard to case, hyphens, underscores and dots, and to what stands before a colon.
pub(super) fn field(name: &str) -> Field {
    // It names a Kubernetes Secret, and holds none.
    if name == weir_api::labels::HELD_SECRET {
        return Field::Plain;
    }
    // From the end, since that is what most names are told by.
    let mut tail = [0_u8; LONGEST];
    let mut from = LONGEST;
    let mut whole = true;
    for byte in name.bytes().rev() {
        match byte {
            b':' => break,
            b'-' | b'_' | b'.' | b' ' => {}
            _ if from == 0 => {
                whole = false;
                break;
            }
            _ => {
                from -= 1;
                tail[from] = byte.to_ascii_lowercase();
            }
        }
    }
    let name = &tail[from..];
    if !matches!(name.last(), Some(b'a' | b'd' | b'e' | b'g' | b'l' | b'n' | b's' | b't' | b'y')) {
        return Field::Plain;
    }
    if whole && name == b"userdata" {
        Field::UserData
    } else if ENDINGS.iter().chain([&"secretkey"]).any(|ending| name.ends_with(ending.as_bytes()))
        || whole && WHOLE.iter().any(|known| name == known.as_bytes())
    {
        Field::Secret
    } else {
        Field::Plain
    }
}

/// Whether a member of an object that is called a secret is one itself. Keystone calls objects `password` and `token`, Kubernetes
/// has references to Secrets, and whoever holds a credential is told by IDs.
pub(super) fn is_plain_inside(holder: &str, name: &str) -> bool {
    match holder {
        "password" => true,
        "token" => name != "id",
        _ => matches!(
            name,
            "id" | "name"
                | "namespace"
                | "kind"
                | "apiVersion"
                | "key"
                | "type"
                | "domain-id"
                | "project-id"
                | "user-id"
        ),
    }
}

/// Whether the value of a key of a Kubernetes Secret that is none by its name is none by its looks either.
pub(super) fn is_plain_value(key: &str, value: &str) -> bool {
    let id =
        || value.len() <= 64 && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    PLAIN_KEYS.contains(&key) && if key == "ca.crt" { !value.contains(super::keys::PRIVATE) } else { id() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: R-2
    #[test]
    fn names_of_secrets_are_known_however_they_are_written() {
        for name in [
            "password",
            "adminPass",
            "admin_password",
            "OS-EXT:admin-pass",
            "applicationCredentialSecret",
            "PRIVATE KEY",
            "sshPrivateKey",
            "aws_secret_access_key",
            "X-Auth-Token",
            "token",
            "client-key-data",
            "spring.db.password",
            "kubeconfig",
            "Authorization",
            "averyveryverylongnamethatendsinpassword",
        ] {
            assert_eq!(field(name), Field::Secret, "{name}");
        }
        for name in ["user_data", "OS-EXT-SRV-ATTR:user_data", "userData"] {
            assert_eq!(field(name), Field::UserData, "{name}");
        }
        for name in [
            "",
            "name",
            "tokens",
            "key_name",
            "public_key",
            "passwordExpiresAt",
            weir_api::labels::HELD_SECRET,
            "xcredential",
            "data",
            ":",
            "é",
        ] {
            assert_eq!(field(name), Field::Plain, "{name}");
        }
    }
}
