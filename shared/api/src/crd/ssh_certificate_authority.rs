//! SSHCertificateAuthority: whose SSH certificates servers accept.
//!
//! Caveat: admission reads the key with regular expressions (SSH-5). They check its type, that it is one line, that
//! it holds as many bytes as its type needs, and for RSA the length that the key itself states; not that its numbers
//! are a point on a curve or a product of primes.

use super::Tag;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The start of the line: options, if any, whose values may be quoted and then hold blanks and commas.
macro_rules! options {
    () => {
        concat!(
            "^[[:space:]]*",
            r#"(?:[A-Za-z0-9-]+(?:=(?:"[^"\n\r]*"|[^[:space:],"])+)?(?:,[A-Za-z0-9-]+(?:=(?:"[^"\n\r]*"|[^[:space:],"])+)?)*[[:blank:]]+)?"#,
        )
    };
}

/// One line: options, type, key, comment. Each type with the bytes that its key begins with, in base64, and how many
/// follow. Certificates, DSA keys and PEM do not match.
const ONE_KEY: &str = concat!(
    "self.matches('",
    options!(),
    "(?:ssh-ed25519[[:blank:]]+AAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}",
    "|ecdsa-sha2-nistp256[[:blank:]]+AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBB[A-Za-z0-9+/]{86}=",
    "|ecdsa-sha2-nistp384[[:blank:]]+AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhB[A-Za-z0-9+/]{129}==",
    "|ecdsa-sha2-nistp521[[:blank:]]+AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlzdHA1MjEAAACFB[A-Za-z0-9+/]{177}==",
    "|sk-ssh-ed25519@openssh[.]com[[:blank:]]+AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAI[A-Za-z0-9+/]{48,}={0,2}",
    "|sk-ecdsa-sha2-nistp256@openssh[.]com[[:blank:]]+",
    "AAAAInNrLWVjZHNhLXNoYTItbmlzdHAyNTZAb3BlbnNzaC5jb20AAAAIbmlzdHAyNTYAAABBB[A-Za-z0-9+/]{90,}={0,2}",
    "|ssh-rsa[[:blank:]]+AAAAB3NzaC1yc2E[A-Za-z0-9+/]+={0,2}",
    r")(?:[[:blank:]][^\n\r]*)?[[:space:]]*$')",
);

/// For RSA: the length of the modulus, which the key states after the exponent, is 385 bytes or more (3072 bits and the
/// zero before them), and as many follow. Exponents are 65537 or of one byte; `ssh-keygen` has never made others.
const RSA_LENGTH: &str = concat!(
    "!self.matches('",
    options!(),
    "ssh-rsa[[:blank:]]') || self.matches('",
    options!(),
    "ssh-rsa[[:blank:]]+AAAAB3NzaC1yc2E(?:",
    "AAAADAQABAAA(?:B(?:g[Q-Za-z0-9+/]|[h-z0-9+/][A-Za-z0-9+/])|[C-Za-z0-9+/][A-Za-z0-9+/]{2})",
    "|AAAAB[A-Za-z0-9+/][AQgw]AA(?:AY[E-Za-z0-9+/]|A[Za-z0-9+/][A-Za-z0-9+/]|[B-Za-z0-9+/][A-Za-z0-9+/]{2})",
    ")[A-Za-z0-9+/]{512,}')",
);

/// The authority.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "region.unikorn-cloud.org",
    version = "v1alpha1",
    kind = "SSHCertificateAuthority",
    root = "SshCertificateAuthority",
    plural = "sshcertificateauthorities",
    namespaced,
    status = "SshCertificateAuthorityStatus",
    derive = "PartialEq",
    category = "unikorn",
    shortname = "sshca",
    doc = "An SSH certificate authority. Servers that name it accept the certificates that it has signed.",
    printcolumn(
        name = "display name",
        type_ = "string",
        json_path = r".metadata.labels['unikorn-cloud\.org/name']",
        priority = 1
    ),
    printcolumn(name = "age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SshCertificateAuthoritySpec {
    /// Kept for manifests that have it: nothing is done for an authority by itself.
    #[serde(default)]
    pub pause: bool,
    /// Names and values of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// The authority's public key in OpenSSH's form, one line as in a file `.pub`: ssh-ed25519, ecdsa-sha2-nistp256,
    /// -384 or -521, ssh-rsa of at least 3072 bits, or one of the two `sk-` types of security keys.
    #[schemars(
        length(max = 16384),
        extend("x-kubernetes-validations" = [
            {
                "rule": ONE_KEY,
                "message": "publicKey must be one OpenSSH public key on one line, as in a file .pub made by ssh-keygen: ssh-ed25519, ecdsa-sha2-nistp256/384/521, ssh-rsa or an sk- type; private keys, certificates, DSA and PEM are not accepted",
            },
            {
                "rule": RSA_LENGTH,
                "message": "an RSA key must have at least 3072 bits: make a new one with ssh-keygen -t ed25519, or with -t rsa -b 4096",
            },
        ])
    )]
    pub public_key: String,
}

/// Nothing but which spec it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SshCertificateAuthorityStatus {
    /// The generation of the spec that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
