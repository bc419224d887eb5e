//! Takes the secrets out of a recording, before it leaves the process.
//!
//! In two passes over all of a call, which [`Secrets::begin`] begins: [`Secrets::learn`] gathers what is a secret by where it stands
//! (a field's name, a header, a Kubernetes Secret, a private key in any text); then [`Secrets::body`], [`Secrets::url`] and
//! [`Secrets::text`] replace it wherever else it stands: inside other texts, JSON in strings, base64, and whole documents such as
//! `clouds.yaml`. Between the two [`Secrets::publish`] notes the names that things have.
//!
//! The rooms: `known` knows how each secret may be written, `finder` finds all of them in a text at once, `encoded` looks into base64
//! and percent signs, `said` finds the secrets in user data, `keys` and `user_data` make what stands in for those, `learn` and
//! `replace` are the two passes, `place` tells names and other structure from text, `plausible` secrets from words, and `seen` spares
//! doing again what was done for the last call. Which names tell of a secret [`weir_openstack::redact`] knows, and it finds the
//! values behind such names in free text.
//!
//! Invariants
//! - A placeholder is a keyed hash of its secret; the key is random and never leaves the process.
//! - A call can run again on what is left. So a placeholder has the shape of what it stands for: base64 stays base64, user
//!   data begins as it began, a private key is a key of our own making, whose public half replaces the real one everywhere.
//! - What cannot be understood is not passed on: a body that is no JSON (a form, a page of HTML), compressed data, and documents
//!   nested deeper than anybody nests them. What is too large is not either; but all of these are learnt from.
//! - What a cloud or Kubernetes calls a secret, in a field of its own, is one for all calls that follow, and is searched for
//!   everywhere. What only a tenant's text calls so (user data, tags, annotations, what an error quotes) is replaced where it
//!   stands, and searched for in the texts of the calls that meet it: not in names, IDs, paths and whatever else programs go by, nor
//!   if it is a word that can be no secret (`plausible`). So nobody wrecks others' recordings by what he writes.
//! - If one call teaches more than can be known at a time, nothing that it said is passed on.
//!
//! Caveats
//! - Names are public: who gives a thing a secret for its name, or a label, has published it.
//! - Who has a tag say that a whole sentence is a secret which our functions write finds that calls for his object do not replay.
//! - A secret of fewer than [`SHORTEST`] bytes is replaced where it stands and not searched for elsewhere, nor is one that is an
//!   [`ORDINARY`] word: it would tear others apart.
//! - What is secret only for whoever put it there, under a name that says nothing, and of no telling form, cannot be known.

mod encoded;
mod finder;
mod keys;
mod known;
mod learn;
mod node;
mod place;
mod plausible;
mod replace;
mod said;
mod seen;
mod user_data;

use bytes::Bytes;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use weir_messages::recording::{Body, PLACEHOLDER};
use weir_openstack::redact::{Field, field};

pub use known::SHORTEST;
use known::{Known, Sort, Trust, Which};
use node::Node;
use place::{Place, Whose};
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

/// Why a body is not recorded that is longer than [`LONGEST_BODY`].
pub const TOO_LARGE: &str = "too large";
/// Why nothing is that a call has said.
const TOO_MANY: &str = "more secrets in one call than can be told apart";

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
pub(super) fn is_placeholder(text: &str) -> bool {
    text.strip_prefix(PLACEHOLDER).is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The secrets that are known, and what stands for each.
pub struct Secrets {
    key: Key,
    known: Known,
    seen: Seen,
    /// Whether there was anything to replace in the body that was learnt from last, known secrets aside.
    noted: bool,
    /// Who has written what is being learnt from.
    whose: Whose,
    /// What the body that was learnt from last has told.
    told: Vec<u32>,
}

impl Secrets {
    /// None known yet.
    pub fn new(key: Key) -> Self {
        let (known, seen) = (Known::default(), Seen::default());
        Self { key, known, seen, noted: false, whose: Whose::Cloud, told: Vec::new() }
    }

    /// Another call begins: what tenants' texts have told during the last one is not held against this one.
    pub fn begin(&mut self) {
        self.known.begin();
    }

    /// Whether the call that has begun had more secrets than can be known at a time, so that nothing it said is passed on.
    pub const fn is_full(&self) -> bool {
        self.known.is_full()
    }

    /// Remembers a secret, to be found wherever it stands.
    pub fn add(&mut self, secret: &str) {
        self.remember(secret, Sort::Word);
    }

    fn remember(&mut self, secret: &str, sort: Sort) {
        let (secret, trust) = (secret.trim(), self.whose.trust());
        if secret.len() < SHORTEST
            || ORDINARY.contains(&secret)
            || is_placeholder(secret)
            || trust == Trust::Told && !plausible::is_plausible(secret)
        {
            return;
        }
        let index = self.known.again(secret, trust).or_else(|| {
            let by = self.key.placeholder(secret);
            self.known.add(secret, &by, sort, trust)
        });
        self.note(index);
    }

    /// Takes note that a secret was met, and what is met with it.
    fn note(&mut self, index: Option<u32>) {
        if let Some(index) = index.filter(|_| self.whose.trust() == Trust::Told) {
            self.told.push(index);
            self.told.extend(self.known.with(index).iter().flat_map(|with| with.iter()));
        }
    }

    /// Takes a body apart that was sent to, or came from, `url`, and remembers all secrets in it.
    pub fn learn<'a>(&mut self, url: &str, body: &'a Bytes) -> Learnt<'a> {
        let omitted = |why: &str| What::Ready(Some(Body::Omitted { bytes: body.len() as u64, why: why.to_owned() }));
        let about_secrets = is_about_secrets(url);
        let what = if body.is_empty() {
            What::Ready(None)
        } else if let Some(made) = self.seen.get(about_secrets, body, self.known.forgot()) {
            self.known.recall(&made.told);
            What::Made(made)
        } else {
            self.told.clear();
            let whose = if about_secrets { Whose::Vault } else { Whose::Cloud };
            let before = std::mem::replace(&mut self.whose, whose);
            let read = std::str::from_utf8(body).ok().and_then(|text| Some((text, serde_json::from_str(text).ok()?)));
            let read = if let Some((text, mut value)) = read {
                mark(about_secrets, &mut value);
                let look = Look::at(text);
                // What is written in an odd way is not looked at before it is read.
                self.noted = about_secrets || look.odd;
                self.learn_json(&value, look, DEEPEST);
                Some((text, value, look))
            } else {
                // An error may quote how it begins.
                let text = String::from_utf8_lossy(&body[..body.len().min(LONGEST_BODY)]);
                self.learn_text(&text, Look::at(&text), DEEPEST);
                None
            };
            self.whose = before;
            match read {
                _ if body.len() > LONGEST_BODY => omitted(TOO_LARGE),
                Some((_, Node::List(_), _)) if about_secrets => omitted("a patch of a Secret"),
                Some((text, value, look)) => {
                    self.told.sort_unstable();
                    self.told.dedup();
                    What::Read { text, value, look, plain: !self.noted, told: self.told.as_slice().into() }
                }
                None => omitted("not JSON"),
            }
        };
        Learnt { about_secrets, body, what }
    }

    /// Takes note of the names that stand in `url`, and in what was sent to it or came from it: what a tenant's text alone calls a
    /// secret is none if something in the same call is called so. After all that belongs to the call has been learnt from.
    pub fn publish(&mut self, url: &str, learnt: &Learnt<'_>) {
        if self.known.told() == 0 {
            return;
        }
        self.known.publish(url.split(['?', '#']).next().unwrap_or_default());
        let text = match &learnt.what {
            What::Read { text, .. } => *text,
            What::Made(_) => std::str::from_utf8(learnt.body).unwrap_or_default(),
            What::Ready(_) => return,
        };
        if !self.known.is_in(text, Which::All) {
            return;
        }
        match &learnt.what {
            What::Read { value, .. } => self.publish_json(value, Place::Body),
            _ => {
                if let Ok(value) = serde_json::from_str(text) {
                    self.publish_json(&value, Place::Body);
                }
            }
        }
    }

    fn publish_json(&mut self, value: &Node<'_>, place: Place) {
        match value {
            Node::Map(members) => {
                for (name, value) in members {
                    self.known.publish(name);
                    self.publish_json(value, place.of(name, value));
                }
            }
            Node::List(items) => items.iter().for_each(|item| self.publish_json(item, place)),
            Node::Text(text) if place.which() == Which::Sure => self.known.publish(text),
            _ => {}
        }
    }

    /// What of a body is fit to be recorded; after all that belongs to it has been learnt from.
    pub fn body(&mut self, learnt: Learnt<'_>) -> Option<Body<Json>> {
        let Learnt { about_secrets, body, what } = learnt;
        if self.is_full() && !matches!(what, What::Ready(_)) {
            return Some(Body::Omitted { bytes: body.len() as u64, why: TOO_MANY.to_owned() });
        }
        let (text, mut value, mut look, plain, told) = match what {
            What::Ready(ready) => return ready,
            What::Made(made) if made.is_good(&self.known) => return Some(Body::Json(made.json)),
            // It was JSON then.
            What::Made(made) => {
                let text = std::str::from_utf8(body).ok()?;
                let mut value = serde_json::from_str(text).ok()?;
                mark(about_secrets, &mut value);
                (text, value, Look::at(text), false, made.told)
            }
            What::Read { text, value, look, plain, told } => (text, value, look, plain, told),
        };
        let known = self.known.is_in(text, Which::All);
        let (json, holds_any) = if plain && !known {
            // Most bodies: neither looked at again nor written anew.
            debug_assert!(self.leaves(&value, text), "something in it was not noted: {text}");
            (RawValue::from_string(text.to_owned()).ok()?, false)
        } else {
            look.known |= known;
            self.json_at(&mut value, look, DEEPEST);
            (serde_json::value::to_raw_value(&value).ok()?, look.known)
        };
        // What is made of it hangs on nothing but what it tells itself.
        if !holds_any || self.known.published() == 0 && self.known.told() == told.len() {
            self.seen.keep(about_secrets, body, &json, told, &self.known);
        }
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
        let clean = |text: &str| self.text_in(text, Place::Structure).unwrap_or_else(|| text.to_owned());
        let Some((path, query)) = url.split_once(['?', '#']) else { return clean(url) };
        if self.is_full() {
            return clean(path);
        }
        let mark = &url[path.len()..=path.len()];
        let query: Vec<String> = query
            .split('&')
            .map(|pair| match pair.split_once('=') {
                Some((name, value)) if is_random(name) => format!("{name}={}", self.key.placeholder(value)),
                _ => clean(pair),
            })
            .collect();
        format!("{}{mark}{}", clean(path), query.join("&"))
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
        /// What is worth looking for in it.
        look: Look,
        /// Whether there is nothing to replace in it, known secrets aside.
        plain: bool,
        /// What it tells.
        told: Box<[u32]>,
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
mod quoted;
#[cfg(test)]
mod tests;
