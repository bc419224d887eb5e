//! Takes the secrets out of a recording, before it leaves the process.
//!
//! In two passes over all of a call: [`Secrets::learn`] gathers what is a secret by where it stands (a field's name, a
//! header, a Kubernetes Secret, a private key in any text); then [`Secrets::body`], [`Secrets::url`] and [`Secrets::text`] replace
//! it wherever else it stands: inside other texts, JSON in strings, base64, URLs, and whole documents such as `clouds.yaml`.
//!
//! The rooms: `known` finds all known secrets in a text at once, `encoded` looks into base64 and percent signs, `said` finds the
//! secrets in user data, `keys` and `user_data` make what stands in for those, `learn` and `replace` are the two passes, and `seen`
//! spares doing again what was done for the last call. Which names tell of a secret [`weir_openstack::redact`] knows, and it
//! finds the values behind such names in free text.
//!
//! Invariants
//! - A placeholder is a keyed hash of its secret; the key is random and never leaves the process.
//! - A call can run again on what is left. So a placeholder has the shape of what it stands for: base64 stays base64, user
//!   data begins as it began, a private key is a key of our own making, whose public half replaces the real one everywhere.
//! - What cannot be understood is not passed on: a body that is no JSON (a form, a page of HTML), compressed data, and documents
//!   nested deeper than anybody nests them.
//! - What one call has taught is a secret for those that follow.
//!
//! Caveats
//! - A secret of fewer than [`SHORTEST`] bytes is replaced where it stands and not searched for elsewhere, nor is one that is an
//!   [`ORDINARY`] word: it would tear others apart.
//! - What is secret only for whoever put it there, under a name that says nothing, and of no telling form, cannot be known.

mod encoded;
mod keys;
mod known;
mod learn;
mod node;
mod replace;
mod said;
mod seen;
mod user_data;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use weir_messages::recording::{Body, PLACEHOLDER};
use weir_openstack::redact::{Field, field};

pub use known::SHORTEST;
use known::{Known, Sort};
use node::Node;
use replace::Look;
use seen::{Made, Seen};

/// How deep documents inside documents are looked into.
const DEEPEST: usize = 6;
/// A longer body is not recorded, in bytes.
const LONGEST_BODY: usize = 512 * 1024;

/// Words that are not searched for, though somebody may have them for a password.
const ORDINARY: [&str; 14] = [
    "default", "disabled", "enabled", "ignore", "optional", "password", "private", "public", "random", "required",
    "secret", "static", "string", "unknown",
];

/// Keys of a region's Secret that are no secrets (REG-1), and without which a recording says little.
const PLAIN_KEYS: [&str; 5] = ["domain-id", "project-id", "user-id", "ca.crt", "insecure-skip-tls-verify"];

/// Why a body is not recorded that is longer than that.
pub const TOO_LARGE: &str = "too large";

/// JSON that was written once, and is carried as it is.
pub type Json = Box<RawValue>;

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
    field(name) != Field::Plain
}

/// Whether `text` is a placeholder and nothing more.
pub fn is_placeholder(text: &str) -> bool {
    text.strip_prefix(PLACEHOLDER).is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The secrets that are known, and what stands for each.
pub struct Secrets {
    key: Key,
    known: Known,
    seen: Seen,
    /// Whether there was anything to replace in the body that was learnt from last, known secrets aside.
    noted: bool,
}

impl Secrets {
    /// None known yet.
    pub fn new(key: Key) -> Self {
        Self { key, known: Known::default(), seen: Seen::default(), noted: false }
    }

    /// Remembers a secret, to be found wherever it stands.
    pub fn add(&mut self, secret: &str) {
        self.remember(secret, Sort::Word);
    }

    /// Grows each time that so many were known that all were forgotten: what was learnt just before may have to be learnt again.
    pub fn forgot(&self) -> u64 {
        self.known.forgot()
    }

    fn remember(&mut self, secret: &str, sort: Sort) {
        let secret = secret.trim();
        if secret.len() >= SHORTEST
            && !ORDINARY.contains(&secret)
            && !is_placeholder(secret)
            && self.known.get(secret).is_none()
        {
            let by = self.key.placeholder(secret);
            self.known.add(secret, &by, sort);
        }
    }

    /// Takes a body apart that was sent to, or came from, `url`, and remembers all secrets in it.
    pub fn learn<'a>(&mut self, url: &str, body: &'a Bytes) -> Learnt<'a> {
        let omitted = |why: &str| What::Ready(Some(Body::Omitted { bytes: body.len() as u64, why: why.to_owned() }));
        let about_secrets = is_about_secrets(url);
        let what = if body.is_empty() {
            What::Ready(None)
        } else if body.len() > LONGEST_BODY {
            omitted(TOO_LARGE)
        } else if let Some(made) = self.seen.get(about_secrets, body, self.known.forgot()) {
            What::Made(made)
        } else {
            match std::str::from_utf8(body).ok().and_then(|text| Some((text, serde_json::from_str(text).ok()?))) {
                Some((text, mut value)) => {
                    mark(about_secrets, &mut value);
                    let look = Look::at(text);
                    // What is written in an odd way is not looked at before it is read.
                    self.noted = about_secrets || look.odd;
                    self.learn_json(&value, look, DEEPEST);
                    match value {
                        Node::List(_) if about_secrets => omitted("a patch of a Secret"),
                        value => What::Read { text, value, plain: !self.noted },
                    }
                }
                None => omitted("not JSON"),
            }
        };
        Learnt { about_secrets, body, what }
    }

    /// What of a body is fit to be recorded; after all that belongs to it has been learnt from.
    pub fn body(&mut self, learnt: Learnt<'_>) -> Option<Body<Json>> {
        let Learnt { about_secrets, body, what } = learnt;
        let (text, mut value, plain) = match what {
            What::Ready(ready) => return ready,
            What::Made(made) if made.is_good(&self.known) => return Some(Body::Json(made.json)),
            // It was JSON then.
            What::Made(_) => {
                let text = std::str::from_utf8(body).ok()?;
                let mut value = serde_json::from_str(text).ok()?;
                mark(about_secrets, &mut value);
                (text, value, false)
            }
            What::Read { text, value, plain } => (text, value, plain),
        };
        let json = if plain && !self.known.is_in(text) {
            // Most bodies: neither looked at again nor written anew.
            debug_assert!(self.leaves(&value, text), "something in it was not noted: {text}");
            RawValue::from_string(text.to_owned()).ok()?
        } else {
            self.json(&mut value, text);
            serde_json::value::to_raw_value(&value).ok()?
        };
        self.seen.keep(about_secrets, body, &json, &self.known);
        Some(Body::Json(json))
    }

    /// Whether a header says something that a recording needs.
    pub fn keeps_header(name: &str) -> bool {
        matches!(
            name,
            "x-auth-token"
                | "x-subject-token"
                | "accept"
                | "content-type"
                | "openstack-api-version"
                | "x-openstack-request-id"
                | "x-openstack-nova-api-version"
                | "x-openstack-ironic-api-version"
                | "location"
                | "link"
                | "retry-after"
                | "x-compute-request-id"
        )
    }

    /// A header's value; `None` if it is nothing that a recording needs.
    pub fn header(&self, name: &str, value: &str) -> Option<String> {
        match name {
            "x-auth-token" | "x-subject-token" => Some(self.key.placeholder(value)),
            _ => Self::keeps_header(name).then(|| self.url(value)),
        }
    }

    /// A URL without secrets in its query, or elsewhere.
    pub fn url(&self, url: &str) -> String {
        let Some((path, query)) = url.split_once(['?', '#']) else { return self.text(url).into_owned() };
        let mark = &url[path.len()..=path.len()];
        let query: Vec<Cow<'_, str>> = query
            .split('&')
            .map(|pair| match pair.split_once('=') {
                Some((name, value)) if is_random(name) => format!("{name}={}", self.key.placeholder(value)).into(),
                _ => self.text(pair),
            })
            .collect();
        format!("{}{mark}{}", self.text(path), query.join("&"))
    }
}

/// A body that was learnt from.
pub struct Learnt<'a> {
    about_secrets: bool,
    body: &'a Bytes,
    what: What<'a>,
}

enum What<'a> {
    /// Nothing more has to be done.
    Ready(Option<Body<Json>>),
    /// The same body was there before.
    Made(Made),
    Read {
        text: &'a str,
        value: Node<'a>,
        /// Whether there is nothing to replace in it, known secrets aside.
        plain: bool,
    },
}

/// Whether a URL is of Kubernetes Secrets.
fn is_about_secrets(url: &str) -> bool {
    url.starts_with("/api/v1/") && url.split(['/', '?']).any(|part| part == "secrets")
}

/// Makes Secrets known as such that do not say so themselves: those of a list do not.
fn mark(about_secrets: bool, value: &mut Node<'_>) {
    if !about_secrets {
        return;
    }
    let mark_one = |value: &mut Node<'_>| {
        if let Node::Map(members) = value
            && members.iter().any(|(name, _)| name == "data" || name == "stringData")
        {
            members.retain(|(name, _)| name != "kind" && name != "apiVersion");
            members.push(("kind".into(), Node::text("Secret")));
            members.push(("apiVersion".into(), Node::text("v1")));
        }
    };
    if let Node::Map(members) = value
        && let Some((_, Node::List(items))) = members.iter_mut().find(|(name, _)| name == "items")
    {
        items.iter_mut().for_each(mark_one);
    } else {
        mark_one(value);
    }
}

/// Whether this is a Kubernetes Secret.
fn is_kubernetes_secret(value: &Node<'_>) -> bool {
    let is = |name: &str, text: &str| value.get(name).and_then(Node::as_text) == Some(text);
    is("kind", "Secret") && is("apiVersion", "v1")
}

/// Whether the value of a key of a Kubernetes Secret that is none by its name is none by its looks either.
fn is_plain_value(key: &str, value: &str) -> bool {
    let id =
        || value.len() <= 64 && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    PLAIN_KEYS.contains(&key) && if key == "ca.crt" { !value.contains(keys::PRIVATE) } else { id() }
}

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;
