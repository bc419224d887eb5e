//! Takes the secrets out of a recording, before it leaves the process.
//!
//! In two passes over all of a call: [`Secrets::learn`] gathers what is a secret by where it stands (a field's name, a
//! header, a Kubernetes Secret, a private key in any text); then [`Secrets::json`] and [`Secrets::text`] replace it wherever else
//! it stands: inside other texts, JSON in strings, base64, and whole documents such as `clouds.yaml`.
//!
//! Invariants
//! - A placeholder is a keyed hash of its secret; the key is random and never leaves the process.
//! - A call can run again on what is left. So a placeholder has the shape of what it stands for: base64 stays base64, user
//!   data begins as it began, a private key is a key of our own making, whose public half replaces the real one everywhere.
//! - What cannot be understood is not passed on ([`Secrets::body`]).
//!
//! Caveat: a secret of fewer than [`SHORTEST`] bytes is replaced where it stands and not searched for elsewhere: it would
//! tear ordinary words apart.

mod find;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use ssh_key::{LineEnding, PrivateKey};
use weir_messages::recording::{Body, PLACEHOLDER};

use find::{Document, PRIVATE, SHORTEST_BASE64, decoded, document, is_secrets, mark, mentions_a_secret, private_key};

/// A shorter secret is not searched for.
pub const SHORTEST: usize = 6;
/// How deep documents inside documents are looked into.
const DEEPEST: usize = 6;
/// A longer body is not recorded, in bytes.
const LONGEST_BODY: usize = 512 * 1024;

/// Fields that hold a secret, without regard to case, hyphens and underscores, and to what stands before a colon.
const FIELDS: [&str; 12] = [
    "adminpass",
    "tokenid",
    "authtoken",
    "token",
    "credential",
    "credentials",
    "kubeconfig",
    "clientkeydata",
    "passphrase",
    "accesskey",
    "rawcredential",
    "unlockkey",
];
/// Endings of the names of such fields.
const ENDINGS: [&str; 8] =
    ["password", "passwd", "secret", "privatekey", "secretkey", "apikey", "accesstoken", "refreshtoken"];
/// Fields that hold user data. People put passwords in it.
const USER_DATA: &str = "userdata";
/// Keys of a region's Secret that are no secrets (REG-1), and without which a recording says little.
const PLAIN_KEYS: [&str; 5] = ["domain-id", "project-id", "user-id", "ca.crt", "insecure-skip-tls-verify"];

const OPENSSH: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";

/// Why a body is not recorded that is longer than that.
pub const TOO_LARGE: &str = "too large";

/// What makes placeholders of secrets: random, and never shown.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// A new one.
    pub fn random() -> Self {
        Self(rand::random())
    }

    fn hash(&self, secret: &[u8]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(secret);
        hash.update(self.0);
        hash.finalize().into()
    }

    /// What stands for `secret`. A placeholder stands for itself: what is replayed is recorded again.
    pub fn placeholder(&self, secret: &str) -> String {
        if is_placeholder(secret) {
            return secret.to_owned();
        }
        let hash = self.hash(secret.as_bytes());
        hash[..8].iter().fold(PLACEHOLDER.to_owned(), |text, byte| format!("{text}{byte:02x}"))
    }
}

/// Whether the value of a field differs from run to run, or cannot be told from what stands for it: it holds a secret.
pub(super) fn is_random(name: &str) -> bool {
    !matches!(field(name), Field::Plain)
}

/// Whether `text` is a placeholder and nothing more.
pub fn is_placeholder(text: &str) -> bool {
    text.strip_prefix(PLACEHOLDER).is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The secrets of one call, and what stands for each.
pub struct Secrets {
    key: Key,
    /// The longest first: one secret may be a part of another.
    known: BTreeMap<(Reverse<usize>, String), StandIn>,
}

/// What stands for a secret.
struct StandIn {
    /// This.
    by: String,
    /// The secret as it is written inside JSON, if that differs.
    escaped: Option<String>,
}

/// Of which kind a field is.
enum Field {
    Plain,
    Secret,
    UserData,
}

fn field(name: &str) -> Field {
    let name = name.rsplit(':').next().unwrap_or(name);
    let name: String = name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect();
    if name == USER_DATA {
        Field::UserData
    } else if FIELDS.contains(&name.as_str()) || ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        Field::Secret
    } else {
        Field::Plain
    }
}

/// The data of a Kubernetes Secret, if `map` is one.
fn is_kubernetes_secret(map: &Map<String, Value>) -> bool {
    let kind = map.get("kind").and_then(Value::as_str);
    kind == Some("Secret") && map.get("apiVersion").and_then(Value::as_str) == Some("v1")
}

/// Whether the value of a key that is no secret by its name is none by its looks either.
fn is_plain_value(key: &str, value: &str) -> bool {
    let id =
        || value.len() <= 64 && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    PLAIN_KEYS.contains(&key) && if key == "ca.crt" { !value.contains(PRIVATE) } else { id() }
}

impl Secrets {
    /// None known yet.
    pub const fn new(key: Key) -> Self {
        Self { key, known: BTreeMap::new() }
    }

    /// Remembers a secret, to be found wherever it stands.
    pub fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() >= SHORTEST && !is_placeholder(secret) && !matches!(secret, "password" | "secret" | "default") {
            self.replace(secret, self.key.placeholder(secret));
        }
    }

    fn replace(&mut self, secret: &str, by: String) {
        let escaped = Value::String(secret.to_owned()).to_string();
        let escaped = escaped[1..escaped.len() - 1].to_owned();
        let escaped = (escaped != secret).then_some(escaped);
        self.known.insert((Reverse(secret.len()), secret.to_owned()), StandIn { by, escaped });
    }

    fn replacement(&self, secret: &str) -> String {
        let known = self.known.get(&(Reverse(secret.len()), secret.to_owned()));
        known.map_or_else(|| self.key.placeholder(secret), |known| known.by.clone())
    }

    /// Remembers all secrets of a JSON body that was sent to, or came from, `url`.
    pub fn learn(&mut self, url: &str, body: &Bytes) {
        if let Ok(mut value) = serde_json::from_slice(body) {
            mark(url, &mut value);
            self.learn_json(&value, DEEPEST);
        }
    }

    fn learn_json(&mut self, value: &Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::Object(map) => {
                let kubernetes = is_kubernetes_secret(map);
                for (name, value) in map {
                    match value {
                        Value::Object(data) if kubernetes && matches!(name.as_str(), "data" | "stringData") => {
                            self.learn_data(data, name == "data");
                        }
                        Value::String(text) => match field(name) {
                            Field::Secret => self.learn_secret(text),
                            // Its lines may be repeated elsewhere, in a log or an error.
                            Field::UserData => self.add(text),
                            Field::Plain => self.learn_text(text, depth),
                        },
                        Value::Array(items) if !matches!(field(name), Field::Plain) => {
                            items.iter().filter_map(Value::as_str).for_each(|text| self.learn_secret(text));
                        }
                        // Depth is for documents in documents; JSON has a bound of its own.
                        other => self.learn_json(other, depth + 1),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn_json(item, depth + 1)),
            Value::String(text) => self.learn_text(text, depth),
            _ => {}
        }
    }

    fn learn_data(&mut self, data: &Map<String, Value>, encoded: bool) {
        for (key, value) in data {
            let Some(text) = value.as_str() else { continue };
            let plain = if encoded { decoded(text) } else { Some(text.to_owned()) };
            match plain {
                Some(plain) if is_plain_value(key, plain.trim()) => {}
                Some(plain) => self.learn_secret(&plain),
                None => self.add(text),
            }
        }
    }

    /// A secret as it stands, in base64 perhaps.
    fn learn_secret(&mut self, text: &str) {
        match decoded(text).filter(|inner| inner.contains(PRIVATE)) {
            Some(key) => self.learn_keys(&key),
            None if text.contains(PRIVATE) => self.learn_keys(text),
            None => self.add(text),
        }
    }

    fn learn_text(&mut self, text: &str, depth: usize) {
        let text = decoded(text).map_or(Cow::Borrowed(text), Cow::Owned);
        if text.contains(PRIVATE) {
            self.learn_keys(&text);
        }
        if let Some(document) = document(&text) {
            self.learn_json(&document.value, depth);
        }
    }

    /// A private key is replaced by one of our own making, and its public half by that one's, so that whoever compares
    /// the two finds what was found.
    fn learn_keys(&mut self, text: &str) {
        let mut rest = text;
        while let Some((_, pem, after)) = private_key(rest) {
            rest = after;
            let stand_in = if pem.starts_with(OPENSSH) { self.stand_in(pem) } else { None };
            let (stand_in, halves) = stand_in.unwrap_or_else(|| (self.key.placeholder(pem), None));
            self.replace(pem, stand_in);
            if let Some((real, ours)) = halves {
                self.replace(&real, ours);
            }
        }
    }

    fn stand_in(&self, pem: &str) -> Option<(String, Option<(String, String)>)> {
        let real = PrivateKey::from_openssh(pem).ok()?;
        if real.comment() == STAND_IN {
            return Some((pem.to_owned(), None));
        }
        let pair = ssh_key::private::Ed25519Keypair::from_seed(&self.key.hash(pem.as_bytes()));
        let ours = PrivateKey::new(pair.into(), STAND_IN).ok()?;
        let half = |key: &PrivateKey| {
            let mut public = key.public_key().clone();
            public.set_comment("");
            Some(public.to_openssh().ok()?.trim().to_owned())
        };
        let halves = (half(&real)?, half(&ours)?);
        // The trailing line break belongs to whatever holds the key.
        Some((ours.to_openssh(LineEnding::LF).ok()?.trim_end().to_owned(), Some(halves)))
    }

    /// A body, sent to or come from `url`, that is fit to be recorded.
    pub fn body(&self, url: &str, body: &Bytes) -> Option<Body> {
        if body.is_empty() {
            return None;
        }
        let omitted = |why: &str| Some(Body::Omitted { bytes: body.len() as u64, why: why.to_owned() });
        if body.len() > LONGEST_BODY {
            return omitted(TOO_LARGE);
        }
        match serde_json::from_slice::<Value>(body) {
            Ok(Value::Array(_)) if is_secrets(url) => omitted("a patch of a Secret"),
            Ok(mut value) => {
                mark(url, &mut value);
                self.json(&mut value);
                Some(Body::Json(value))
            }
            Err(_) => omitted("not JSON"),
        }
    }

    /// Replaces every secret in `value`, at any depth.
    pub fn json(&self, value: &mut Value) {
        self.json_at(value, DEEPEST);
    }

    fn json_at(&self, value: &mut Value, depth: usize) {
        match value {
            Value::Object(map) => {
                let kubernetes = is_kubernetes_secret(map);
                // Bookkeeping of the Kubernetes API, which nothing reads.
                map.remove("managedFields");
                for (name, value) in map {
                    let kind = field(name);
                    match (value, kind) {
                        (Value::Object(data), _) if kubernetes && matches!(name.as_str(), "data" | "stringData") => {
                            self.data(data, name == "data");
                        }
                        (Value::String(text), Field::Secret) => *text = self.secret(text),
                        (Value::String(text), Field::UserData) => *text = self.user_data(text),
                        (Value::Array(items), Field::Secret | Field::UserData) => {
                            for item in items {
                                match item {
                                    Value::String(text) => *text = self.secret(text),
                                    other => self.json_at(other, depth),
                                }
                            }
                        }
                        (number @ Value::Number(_), Field::Secret | Field::UserData) => {
                            *number = Value::String(self.key.placeholder(&number.to_string()));
                        }
                        (other, _) => self.json_at(other, depth),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.json_at(item, depth)),
            Value::String(text) => {
                if let Cow::Owned(changed) = self.text_at(text, depth) {
                    *text = changed;
                }
            }
            _ => {}
        }
    }

    fn data(&self, data: &mut Map<String, Value>, encoded: bool) {
        for (key, value) in data {
            let Some(text) = value.as_str() else { continue };
            let plain = if encoded { decoded(text) } else { Some(text.to_owned()) };
            let stands_in = match plain {
                Some(plain) if is_plain_value(key, plain.trim()) => continue,
                // Blanks around it are nobody's secret, and not part of it.
                Some(plain) => self.secret(plain.trim()),
                None => self.key.placeholder(text),
            };
            *value = Value::String(if encoded { STANDARD.encode(stands_in) } else { stands_in });
        }
    }

    /// What stands for a secret as it stands in its field: in base64 if it is a document in base64.
    fn secret(&self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        match decoded(text) {
            Some(inner) if inner.contains(PRIVATE) => STANDARD.encode(self.keys(&inner)),
            Some(inner) if inner.starts_with(PLACEHOLDER) => text.to_owned(),
            _ if text.contains(PRIVATE) => self.keys(text),
            _ => self.key.placeholder(text.trim()),
        }
    }

    fn keys(&self, text: &str) -> String {
        let Some((_, pem, after)) = private_key(text) else { return self.key.placeholder(text) };
        let stands_in = if self.is_ours(pem) { pem.to_owned() } else { self.replacement(pem) };
        // Nothing of what is around it is kept but the line break that OpenSSH ends with.
        stands_in + if after.starts_with('\n') { "\n" } else { "" }
    }

    /// User data that begins as it began, since that is what tells cloud-init, and us, what it is.
    fn user_data(&self, text: &str) -> String {
        let bytes = STANDARD.decode(text.trim()).ok();
        let plain = bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let stands_in = match (plain, &bytes) {
            (None, Some(bytes)) if bytes.starts_with(&[0x1f, 0x8b]) => {
                let mut gzip = vec![0x1f, 0x8b];
                gzip.extend(self.key.placeholder(text).into_bytes());
                return STANDARD.encode(gzip);
            }
            (None, _) => return STANDARD.encode(self.key.placeholder(text)),
            (Some(plain), _) if plain.contains(PLACEHOLDER) => return text.to_owned(),
            (Some(plain), _) => self.user_text(plain),
        };
        STANDARD.encode(stands_in)
    }

    fn user_text(&self, plain: &str) -> String {
        const BEGINNINGS: [&str; 9] = [
            "## template: jinja",
            "#cloud-config-archive",
            "#cloud-config-jsonp",
            "#cloud-config",
            "#cloud-boothook",
            "#include-once",
            "#include",
            "#part-handler",
            "#!/bin/sh",
        ];
        let (stands_in, head) = (self.key.placeholder(plain), plain.trim_start().to_ascii_lowercase());
        if let Some(beginning) = BEGINNINGS.iter().find(|beginning| head.starts_with(**beginning)) {
            return format!("{beginning}\n# {stands_in}\n");
        }
        if head.starts_with("#!") {
            return format!("#!/bin/sh\n# {stands_in}\n");
        }
        if head.starts_with("content-type:") || head.starts_with("mime-version:") {
            return format!(
                "Content-Type: multipart/mixed; boundary=\"{stands_in}\"\nMIME-Version: 1.0\n\n--{stands_in}\n\
                 Content-Type: text/x-shellscript\n\n#!/bin/sh\n--{stands_in}--\n"
            );
        }
        stands_in
    }

    /// Text without its secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.text_at(text, DEEPEST)
    }

    fn text_at<'a>(&self, text: &'a str, depth: usize) -> Cow<'a, str> {
        if text.len() < SHORTEST {
            return Cow::Borrowed(text);
        }
        let Some(depth) = depth.checked_sub(1) else {
            // So deep that nobody can say what is in it.
            return Cow::Owned(self.key.placeholder(text));
        };
        if let Some(inner) = decoded(text)
            && let Cow::Owned(changed) = self.text_at(&inner, depth)
        {
            return Cow::Owned(STANDARD.encode(changed));
        }
        if let Some(Document { mut value, yaml }) = document(text) {
            let before = value.clone();
            self.json_at(&mut value, depth);
            if value == before {
                return Cow::Borrowed(text);
            }
            return Cow::Owned(if yaml {
                serde_yaml_ng::to_string(&value).unwrap_or_else(|_| self.key.placeholder(text))
            } else {
                value.to_string()
            });
        }
        let mut out = Cow::Borrowed(text);
        while let Some((before, pem, after)) = private_key(&out).filter(|(_, pem, _)| !self.is_ours(pem)) {
            out = Cow::Owned(format!("{before}{}{after}", self.replacement(pem)));
        }
        if let Some(changed) = self.words(&out, depth) {
            out = Cow::Owned(changed);
        }
        // A secret that is longer than the text is not in it.
        for ((_, secret), StandIn { by, escaped }) in self.known.range((Reverse(out.len()), String::new())..) {
            if out.contains(secret.as_str()) {
                out = Cow::Owned(out.replace(secret.as_str(), by));
            }
            if let Some(escaped) = escaped
                && out.contains(escaped.as_str())
            {
                out = Cow::Owned(out.replace(escaped.as_str(), by));
            }
        }
        if mentions_a_secret(&out) {
            let cleaned = weir_openstack::redact::body(&Bytes::from(out.clone().into_owned()));
            let cleaned = String::from_utf8_lossy(&cleaned).into_owned();
            if cleaned != *out {
                out = Cow::Owned(cleaned);
            }
        }
        out
    }

    /// Text whose words in base64 hold no secrets; `None` if none of them does.
    fn words(&self, text: &str, depth: usize) -> Option<String> {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '-' | '_');
        let mut out = None;
        for run in text.split(|c| !word(c)).filter(|run| run.len() >= SHORTEST_BASE64 && run.len() < text.len()) {
            // `name=value` holds the value only after its first sign.
            let value = run
                .split_once('=')
                .map_or(run, |(_, value)| if value.trim_matches('=').is_empty() { run } else { value });
            if let Some(inner) = decoded(value)
                && let Cow::Owned(changed) = self.text_at(&inner, depth)
            {
                let so_far = out.unwrap_or_else(|| text.to_owned());
                out = Some(so_far.replace(value, &STANDARD.encode(changed)));
            }
        }
        out
    }

    fn is_ours(&self, pem: &str) -> bool {
        self.known.values().any(|known| known.by == pem)
            || PrivateKey::from_openssh(pem).is_ok_and(|key| key.comment() == STAND_IN)
    }

    /// A header's value; `None` if it is nothing that a recording needs.
    pub fn header(&self, name: &str, value: &str) -> Option<String> {
        match name {
            "x-auth-token" | "x-subject-token" => Some(self.key.placeholder(value)),
            "accept"
            | "content-type"
            | "openstack-api-version"
            | "x-openstack-request-id"
            | "x-openstack-nova-api-version"
            | "x-openstack-ironic-api-version"
            | "location"
            | "link"
            | "retry-after"
            | "x-compute-request-id" => Some(self.url(value)),
            _ => None,
        }
    }

    /// A URL without secrets in its query, or elsewhere.
    pub fn url(&self, url: &str) -> String {
        let Some((path, query)) = url.split_once('?') else { return self.text(url).into_owned() };
        let query: Vec<String> = query
            .split('&')
            .map(|pair| match pair.split_once('=') {
                Some((name, value)) if !matches!(field(name), Field::Plain) => {
                    format!("{name}={}", self.key.placeholder(value))
                }
                _ => self.text(pair).into_owned(),
            })
            .collect();
        format!("{}?{}", self.text(path), query.join("&"))
    }
}

/// The comment of a key of our own making.
const STAND_IN: &str = "stands in for a key in a recording";

#[cfg(test)]
mod tests;
