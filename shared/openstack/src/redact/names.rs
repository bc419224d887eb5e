//! Which names say that a secret follows: the one place that knows, for errors and logs (OSC-13) as for recordings.
//!
//! A name is taken apart into words, however it is written (`admin_pass`, `adminPass`, `OS-EXT:admin-pass`, `ADMIN PASS`), and its
//! last word decides: `token` is a secret, `token_expires_at` is a time, `passwordSecretRef` a reference, `key_name` a name. What
//! cannot be told by its last word alone is in one of the short lists below.

/// Of which kind a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Nothing that its name tells.
    Plain,
    /// A secret.
    Secret,
    /// People put passwords in it.
    UserData,
}

/// Words that say it; also as plurals, and with a number behind them.
const WORDS: [&str; 25] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "cred",
    "credential",
    "jwt",
    "key",
    "keytab",
    "mnemonic",
    "otp",
    "pass",
    "pin",
    "privkey",
    "psk",
    "pw",
    "pwd",
    "secret",
    "seed",
    "session",
    "sig",
    "signature",
    "token",
    "totp",
    "userdata",
];
/// Those that say it at the end of anything, though nothing shows where words begin (`dbpassword`, `APIKEY`).
const ENDINGS: [&str; 23] = [
    "accesskey",
    "apikey",
    "authkey",
    "cookie",
    "dockercfg",
    "dockerconfigjson",
    "encryptionkey",
    "kubeconfig",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "psk",
    "pwd",
    "secret",
    "secretkey",
    "sessid",
    "sessionid",
    "signingkey",
    "sshkey",
    "token",
    "tokenid",
];
/// English that ends in `pass`, as `adminpass` does.
const NO_PASS: [&str; 6] = ["bypass", "compass", "encompass", "overpass", "surpass", "trespass"];
/// Keys that open nothing. Any other `…_key` is a secret; a `key` of nothing is as good as a name.
const NO_KEYS: [&str; 18] = [
    "authorized",
    "cache",
    "foreign",
    "group",
    "hash",
    "idempotency",
    "index",
    "label",
    "lookup",
    "map",
    "merge",
    "partition",
    "partial",
    "primary",
    "public",
    "routing",
    "sort",
    "topology",
];
/// Before a word that would say it, these say that it is a number of such, or the name of one.
const NO_SECRETS: [&str; 12] =
    ["active", "available", "count", "held", "limit", "max", "min", "num", "remaining", "total", "usage", "used"];
/// How a secret is written, which does not make it less of one: `token_value`, `client-key-data`, `password_hash`. `base64` and
/// `b64` are here without their number, as is all that has one behind it.
const MANNERS: [&str; 15] = [
    "b",
    "base",
    "content",
    "contents",
    "data",
    "encoded",
    "encrypted",
    "hash",
    "pem",
    "plain",
    "plaintext",
    "raw",
    "string",
    "text",
    "value",
];
/// What something that is a secret is told by, and is none itself.
const REFERENCES: [&str; 11] =
    ["at", "expires", "expiry", "id", "key", "kind", "name", "namespace", "ref", "type", "version"];

/// More of a name is not looked at, in bytes.
const LONGEST: usize = 32;

/// The end of a name, in lower case, and where its last words begin, the last one first.
struct Words {
    end: [u8; LONGEST],
    begins: [usize; 3],
}

impl Words {
    fn of(name: &str) -> Self {
        let mut words = Self { end: [0; LONGEST], begins: [LONGEST; 3] };
        let (mut from, mut found, mut end) = (LONGEST, 0, LONGEST);
        // The two bytes that were met before, which stand behind.
        let (mut next, mut after) = (b' ', b' ');
        for byte in name.bytes().rev() {
            let is_letter = byte.is_ascii_alphanumeric() || !byte.is_ascii();
            // As in `api_key`, `apiKey` and `APIKey`.
            let breaks =
                !is_letter || next.is_ascii_uppercase() && (!byte.is_ascii_uppercase() || after.is_ascii_lowercase());
            (after, next) = (next, byte);
            if breaks && from < end {
                words.begins[found] = from;
                found += 1;
                if found == words.begins.len() {
                    return words;
                }
                end = from;
            }
            // A number behind it is no part of it.
            if !is_letter || from == LONGEST && byte.is_ascii_digit() {
                continue;
            }
            if from == 0 {
                break;
            }
            from -= 1;
            words.end[from] = byte.to_ascii_lowercase();
        }
        words.begins[found..].fill(from);
        words
    }

    /// The last word; the last but one; the one before that. Empty if there is none.
    fn word(&self, number: usize) -> &[u8] {
        let end = if number == 0 { LONGEST } else { self.begins[number - 1] };
        &self.end[self.begins[number]..end]
    }
}

fn is_one_of(list: &[&str], word: &[u8]) -> bool {
    list.iter().any(|one| one.as_bytes() == word)
}

fn ends(text: &[u8]) -> bool {
    // Most are told by one letter.
    ENDINGS.iter().map(|ending| ending.as_bytes()).any(|ending| ending.last() == text.last() && text.ends_with(ending))
}

/// The last two letters of all that says it: for each last letter the bits of those before it. Of a word of one letter, all.
static LETTERS: [u32; 26] = {
    const fn mark(mut letters: [u32; 26], list: &[&str]) -> [u32; 26] {
        let mut at = 0;
        while at < list.len() {
            let word = list[at].as_bytes();
            let end = word.len();
            let before = if end > 1 { 1 << (word[end - 2] - b'a') } else { u32::MAX };
            letters[(word[end - 1] - b'a') as usize] |= before;
            at += 1;
        }
        letters
    }
    mark(mark(mark([0; 26], &WORDS), &ENDINGS), &MANNERS)
};

/// Whether a name ends as one that says it. Cheap: most do not.
fn may_say(name: &str) -> bool {
    let mut letters =
        name.bytes().rev().filter(u8::is_ascii_alphabetic).map(|byte| usize::from(byte.to_ascii_lowercase() - b'a'));
    let (Some(last), Some(before)) = (letters.next(), letters.next()) else { return false };
    let says = |last: usize, before: usize| LETTERS.get(last).is_some_and(|bits| bits & 1 << before != 0);
    says(last, before) || last == usize::from(b's' - b'a') && letters.next().is_some_and(|third| says(before, third))
}

/// What a field of this name holds.
pub fn field(name: &str) -> Field {
    if !may_say(name) {
        return Field::Plain;
    }
    let words = Words::of(name);
    let (mut last, mut before) = (words.word(0), words.word(1));
    // All that is looked at, its words run together.
    let mut whole = &words.end[words.begins[2]..];
    if last == b"userdata" || last == b"data" && before == b"user" {
        return Field::UserData;
    }
    if !before.is_empty() && is_one_of(&MANNERS, last) {
        whole = &whole[..whole.len() - last.len()];
        (last, before) = (before, words.word(2));
    }
    let says = |last: &[u8]| match last {
        b"key" => !before.is_empty() && !is_one_of(&NO_KEYS, before),
        _ => is_one_of(&WORDS, last) || last.ends_with(b"pass") && !is_one_of(&NO_PASS, last),
    };
    let one = last.strip_suffix(b"s").filter(|_| last != b"pass");
    let is_secret = match one {
        Some(one) => says(last) || says(one) || ends(whole) || ends(&whole[..whole.len() - 1]),
        None => says(last) || ends(whole),
    };
    let is_reference = is_one_of(&NO_SECRETS, before) || before == b"application" && last.starts_with(b"credential");
    if is_secret && !is_reference { Field::Secret } else { Field::Plain }
}

/// Whether a member of an object that is called a secret is none itself, unless its own name says so. Keystone calls objects
/// `password`, `token` and `auth`; Kubernetes has references to Secrets; and whoever holds a credential is told by IDs.
pub fn is_plain_inside(holder: &str, name: &str) -> bool {
    let words = Words::of(name);
    let last = words.word(0);
    if is_one_of(&MANNERS, last) {
        return false;
    }
    match holder {
        "password" | "auth" | "auths" | "authorization" | "session" => true,
        "token" => name != "id",
        _ => is_one_of(&REFERENCES, last) && field(name) == Field::Plain,
    }
}

/// Whether a member of what is called a secret goes by its own name: it is none, or says itself that it is one.
pub fn is_its_own(holder: &str, name: &str) -> bool {
    is_plain_inside(holder, name) || field(name) != Field::Plain
}

/// Whether a member of this name says what its neighbour, the one that [`is_value`], is called: `{"name": "token", "value": …}`.
pub fn is_name(member: &str) -> bool {
    ["name", "key", "header", "variable", "parameter"].iter().any(|name| member.eq_ignore_ascii_case(name))
}

/// Whether a member of this name holds what its neighbour, the one that [`is_name`], names.
pub fn is_value(member: &str) -> bool {
    member.len() <= 6 && ["value", "values"].iter().any(|name| member.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: OSC-13, R-2
    #[test]
    fn names_of_secrets_are_known_however_they_are_written() {
        for name in [
            "password",
            "adminPass",
            "admin_password",
            "OS-EXT:admin-pass",
            "ADMIN PASS",
            "adminpass",
            "rootpass",
            "passwords",
            "password2",
            "passWord",
            "original_password",
            "db.password",
            "spring.db.password",
            "user[password]",
            "pwd",
            "dbpwd",
            "MYSQL_PWD",
            "passwd",
            "hashed_passwd",
            "password_hash",
            "pass",
            "passphrase",
            "key_passphrase",
            "passcode",
            "pin",
            "psk",
            "wpa-psk",
            "secret",
            "secrets",
            "clientSecret",
            "client_secret",
            "CLIENT_SECRETS",
            "consumer-secret",
            "applicationCredentialSecret",
            "secret_value",
            "secretString",
            "token",
            "tokens",
            "X-Auth-Token",
            "authToken",
            "token_id",
            "TokenID",
            "token_value",
            "csrf-token",
            "GITHUB_TOKEN",
            "x-amz-security-token",
            "jwt",
            "bearer",
            "Authorization",
            "auth",
            "basic_auth",
            "cookie",
            "Set-Cookie",
            "cookies",
            "sessionCookie",
            "session",
            "sessionid2",
            "session_id",
            "credential",
            "credentials",
            "rawCredential",
            "X-Amz-Credential",
            "aws_credentials",
            "creds",
            "nats-creds",
            "client-key-data",
            "apiKey",
            "APIKey",
            "api-keys",
            "API_KEYS",
            "apikey",
            "access_key",
            "AccessKeys",
            "aws_secret_access_key",
            "private_key",
            "PRIVATE KEY",
            "sshPrivateKey",
            "privateKeyPem",
            "ssh_key",
            "tls.key",
            "signing-key",
            "ENCRYPTION_KEY",
            "stripe_key",
            "privkey",
            "kubeconfig",
            "kubeConfig",
            ".dockerconfigjson",
            ".dockercfg",
            "X-Amz-Signature",
            "signature",
            "signatures",
            "temp_url_sig",
            "sig",
            "otp",
            "totp",
            "seed",
            "wallet_seed",
            "mnemonic",
            "token_base64",
            "--db-password",
            "averyveryverylongnamethatendsinpassword",
        ] {
            assert_eq!(field(name), Field::Secret, "{name}");
        }
        for name in ["user_data", "OS-EXT-SRV-ATTR:user_data", "userData", "USERDATA", "user-data", "user.data"] {
            assert_eq!(field(name), Field::UserData, "{name}");
        }
    }

    /// Proves
    #[test]
    fn names_of_what_is_no_secret_are_none() {
        for name in [
            "",
            ":",
            "é",
            "name",
            "data",
            "key",
            "keys",
            "key-data",
            "value",
            "s",
            "key_name",
            "keypair",
            "keypairs",
            "key_pairs",
            "maxTotalKeypairs",
            "sshKeyName",
            "public_key",
            "publicKey",
            "authorized_keys",
            "ssh_authorized_keys",
            "primary key",
            "primaryKey",
            "sort_key",
            "sortkey2",
            "topologyKey",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-patch-merge-key",
            "passwordExpiresAt",
            "password_expires_at",
            "passwordless",
            "lock_passwd_after",
            "token_expires",
            "token_type",
            "secretRef",
            "passwordSecretRef",
            "secretName",
            "secret_ref",
            "secretKeyRef",
            "service_account_secret.name",
            "regions.unikorn-cloud.org/held-secret",
            "application_credential",
            "application_credentials",
            "applicationCredentialID",
            "application_credential_id",
            "auth_url",
            "auth_type",
            "www-authenticate",
            "sshCertificateAuthorityID",
            "certificate-authority-data",
            "tls.crt",
            "security_groups",
            "max_tokens",
            "total_tokens",
            "cookie_name",
            "session_persistence",
            "signature_method",
            "img_signature_hash_method",
            "pinned_availability_zone",
            "bypass",
            "compass",
            "monkey",
            "seeds_count",
            "private",
            "is_private",
            "privateIP",
            "assigned",
            "keystone",
            "identityKeypair",
            "author",
            "authority",
            "automountServiceAccountTokenName",
        ] {
            assert_eq!(field(name), Field::Plain, "{name}");
        }
    }

    /// Proves
    #[test]
    fn what_stands_in_a_secret_is_one_unless_it_tells_whose_it_is() {
        for (holder, name) in
            [("secret", "blob"), ("password", "value"), ("token", "id"), ("auth", "data"), ("credentials", "any")]
        {
            assert!(!is_plain_inside(holder, name), "{holder} {name}");
        }
        for (holder, name) in
            [("secret", "secretName"), ("password", "user"), ("token", "roles"), ("auth", "scope"), ("secrets", "id")]
        {
            assert!(is_plain_inside(holder, name), "{holder} {name}");
        }
    }
}
