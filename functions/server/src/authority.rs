//! The public key of an SSH certificate authority, checked before it is put into a server.
//!
//! Invariant: a [`PublicKey`] is one line of printable ASCII: type, key and, if it is plain, comment. Admission has
//! checked the object (SSH-5), but objects older than the rule exist, and a line end in a key would write into the
//! cloud-config of a server.

use ssh_key::Algorithm;
use std::fmt;

/// No longer text is read.
const LONGEST: usize = 16 * 1024;
/// A longer comment is left out.
const LONGEST_COMMENT: usize = 256;
/// The fewest bits of an RSA key.
const RSA_BITS: usize = 3072;

/// An authority's public key, as it goes into sshd's file of trusted keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(String);

/// Why a key is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not one line of text.
    #[error("its publicKey is not one line of text")]
    Text,
    /// There is no key of a known type in it.
    #[error("its publicKey is no OpenSSH public key of a type that is accepted (ed25519, ecdsa, rsa or an sk- type)")]
    Type,
    /// The key cannot be decoded.
    #[error("its publicKey cannot be decoded")]
    Key,
    /// An RSA key that is too short.
    #[error("its RSA key has fewer than {RSA_BITS} bits")]
    Short,
}

impl PublicKey {
    /// Reads a line as in a file `.pub` or `authorized_keys`: options, type, key, comment. sshd's file of trusted keys
    /// knows no options, so they are left out.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text.len() > LONGEST || text.chars().any(|c| c.is_control() && c != '\t') {
            return Err(Error::Text);
        }
        let mut rest = text;
        let kind = loop {
            let (token, after) = token(rest).ok_or(Error::Type)?;
            rest = after;
            if is_accepted(token) {
                break token;
            }
        };
        let (encoded, comment) = token(rest).ok_or(Error::Key)?;
        let key = ssh_key::PublicKey::from_openssh(&format!("{kind} {encoded}")).map_err(|_| Error::Key)?;
        if let Some(rsa) = key.key_data().rsa() {
            let modulus = rsa.n.as_positive_bytes().ok_or(Error::Key)?;
            let leading = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
            if modulus.len() * 8 - leading < RSA_BITS {
                return Err(Error::Short);
            }
        }
        let comment = comment.trim();
        let plain = comment.len() <= LONGEST_COMMENT && comment.bytes().all(|b| matches!(b, b' '..=b'~'));
        let comment = if plain { comment } else { "" };
        Ok(Self(format!("{kind} {encoded} {comment}").trim_end().to_owned()))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The first word, and what comes after it. A word ends at a blank outside of quotes.
fn token(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let mut quoted = false;
    let end = text.find(|c: char| {
        quoted ^= c == '"';
        !quoted && matches!(c, ' ' | '\t')
    });
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    (!word.is_empty()).then_some((word, rest))
}

fn is_accepted(word: &str) -> bool {
    let Ok(algorithm) = word.parse::<Algorithm>() else {
        return false;
    };
    // `rsa-sha2-256` and the like are names of signatures; a key is `ssh-rsa`.
    matches!(
        algorithm,
        Algorithm::Ed25519
            | Algorithm::Ecdsa { .. }
            | Algorithm::Rsa { hash: None }
            | Algorithm::SkEd25519
            | Algorithm::SkEcdsaSha2NistP256
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    const ED25519: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    /// An RSA key whose modulus has as many bits; only its shape matters.
    fn rsa(bits: usize) -> String {
        let mut modulus = vec![0xff; bits / 8];
        modulus.insert(0, 0);
        let mut blob = Vec::new();
        for field in [b"ssh-rsa".as_slice(), &[1, 0, 1], &modulus] {
            blob.extend(u32::try_from(field.len()).unwrap().to_be_bytes());
            blob.extend(field);
        }
        format!("ssh-rsa {}", STANDARD.encode(blob))
    }

    /// Proves: SSH-5
    #[test]
    fn keys_of_the_accepted_types_are_read() {
        for (text, expected) in [
            (ED25519.to_owned(), ED25519.to_owned()),
            (format!("  {ED25519} \n"), ED25519.to_owned()),
            (format!("{ED25519}  Jane's CA, 2026"), format!("{ED25519} Jane's CA, 2026")),
            (format!("{ED25519} Zoë"), ED25519.to_owned()),
            (format!("cert-authority,principals=\"a b\"\t{ED25519} c"), format!("{ED25519} c")),
            (rsa(3072), rsa(3072)),
            (rsa(4096), rsa(4096)),
        ] {
            assert_eq!(PublicKey::parse(&text).unwrap().to_string(), expected, "{text}");
        }
    }

    /// Proves: SSH-5
    #[test]
    fn anything_else_is_refused() {
        let dsa = "ssh-dss AAAAB3NzaC1kc3MAAAAJ";
        let certificate = format!("ssh-ed25519-cert-v01@openssh.com {}", &ED25519[12..]);
        for (text, expected) in [
            (String::new(), Error::Type),
            ("hello".to_owned(), Error::Type),
            (dsa.to_owned(), Error::Type),
            (certificate, Error::Type),
            ("-----BEGIN OPENSSH PRIVATE KEY-----".to_owned(), Error::Type),
            ("ssh-ed25519".to_owned(), Error::Key),
            ("ssh-ed25519 AAAA".to_owned(), Error::Key),
            (format!("ssh-rsa {}", &ED25519[12..]), Error::Key),
            (rsa(3064), Error::Short),
            (rsa(2048), Error::Short),
            (format!("{ED25519}\nruncmd: [reboot]"), Error::Text),
            (format!("{ED25519} \u{85}x"), Error::Text),
            (format!("{ED25519} {}", "c".repeat(LONGEST)), Error::Text),
        ] {
            assert_eq!(PublicKey::parse(&text), Err(expected), "{text}");
        }
    }

    proptest! {
        /// Proves: SSH-5
        #[test]
        fn a_key_that_is_read_is_one_plain_line(head in "\\PC{0,12}", tail in "(?s).{0,40}") {
            for text in [format!("{head}{tail}"), format!("{ED25519} {tail}"), format!("{head} {ED25519}{tail}")] {
                if let Ok(key) = PublicKey::parse(&text) {
                    prop_assert!(key.to_string().bytes().all(|b| (b' '..=b'~').contains(&b)));
                }
            }
        }
    }
}
