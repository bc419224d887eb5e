//! The second pass: every secret replaced, wherever it stands.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_openstack::redact::{Field, field, is_its_own, is_value, replaced, userinfo, values};

use super::encoded::{Document, Inside, document, inside, is_encoded_in, percents, words};
use super::keys::PRIVATE;
use super::known::{Which, percent};
use super::learn::plain_text;
use super::node::Node;
use super::place::Place;
use super::said::is_user_data;
use super::{DEEPEST, SHORTEST, Secrets, TOO_MANY, is_kubernetes_secret, is_placeholder, is_plain_value};

/// What is worth looking for in the texts of a document, since it is somewhere in it.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "each is asked by itself")]
pub(super) struct Look {
    /// Letters that are written by their numbers.
    pub(super) odd: bool,
    /// A known secret.
    pub(super) known: bool,
    /// A private key.
    pub(super) keys: bool,
    /// Percent signs.
    pub(super) percents: bool,
    /// Base64 that a text may be written in.
    pub(super) encoded: bool,
    /// Where it stands.
    pub(super) place: Place,
}

impl Look {
    /// What is in a text, apart from known secrets.
    pub(super) fn at(text: &str) -> Self {
        // Inside JSON a letter may be written by its number; then it is not seen before it is read.
        let odd = text.contains("\\u") || text.contains("\\/");
        Self {
            odd,
            known: odd,
            keys: odd || text.contains(PRIVATE),
            percents: odd || text.contains('%'),
            encoded: is_encoded_in(text),
            place: Place::Body,
        }
    }
}

impl Secrets {
    /// Whether nothing in it would be replaced, which was read from `text`.
    pub(super) fn leaves(&self, value: &Node<'_>, text: &str) -> bool {
        let mut left = value.clone();
        self.json_at(&mut left, self.look(text, Place::Body), DEEPEST);
        left == *value
    }

    /// Text without its secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_full() {
            return TOO_MANY.into();
        }
        self.text_in(text, Place::Body).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The same of one that stands there; `None` if it has none.
    pub(super) fn text_in(&self, text: &str, place: Place) -> Option<String> {
        self.text_at(text, self.look(text, place), DEEPEST)
    }

    fn look(&self, text: &str, place: Place) -> Look {
        let look = Look::at(text);
        Look { known: look.known || self.known.is_in(text, place.which()), place, ..look }
    }

    pub(super) fn json_at(&self, value: &mut Node<'_>, look: Look, depth: usize) {
        match value {
            Node::Map(_) => {
                let kubernetes = is_kubernetes_secret(value);
                let called = value.pair().map(str::to_owned);
                let Node::Map(members) = value else { return };
                // Bookkeeping of the Kubernetes API, which nothing reads.
                members.retain(|(name, _)| name != "managedFields");
                for (name, value) in members {
                    match value {
                        Node::Map(data) if kubernetes && matches!(&**name, "data" | "stringData") => {
                            self.data(data, name == "data");
                        }
                        _ => {
                            let called = called.as_deref().filter(|_| is_value(name)).unwrap_or(name);
                            let look = Look { place: look.place.of(name, value), ..look };
                            self.member(called, value, look, depth);
                        }
                    }
                    if look.known
                        && let Some(changed) = self.known.replace(name, Which::Sure)
                    {
                        *name = changed.into();
                    }
                }
            }
            Node::List(items) => {
                let mut follows = false;
                for item in items {
                    let flag = item.is_flag();
                    match item {
                        Node::Text(text) if follows && !flag => *text = self.secret(text).into(),
                        _ => self.json_at(item, look, depth),
                    }
                    follows = flag;
                }
            }
            Node::Text(text) => {
                if let Some(changed) = self.text_at(text, look, depth) {
                    *text = changed.into();
                }
            }
            _ => {}
        }
    }

    fn member(&self, name: &str, value: &mut Node<'_>, look: Look, depth: usize) {
        match (&mut *value, field(name)) {
            (Node::Text(text), Field::Secret) => *text = self.secret(text).into(),
            (Node::Text(text), Field::UserData) => *text = self.user_data(text).into(),
            (Node::List(items), Field::Secret | Field::UserData) => {
                for item in items {
                    self.member(name, item, look, depth);
                }
            }
            (Node::Map(members), Field::Secret | Field::UserData) => {
                for (member, value) in members {
                    let called = if is_its_own(name, member) { member.clone() } else { Cow::Borrowed(name) };
                    let look = Look { place: look.place.of(member, value), ..look };
                    self.member(&called, value, look, depth);
                }
            }
            (Node::Number(number), Field::Secret | Field::UserData) => {
                *value = Node::text(self.key.placeholder(&number.to_string()));
            }
            (other, _) => self.json_at(other, look, depth),
        }
    }

    fn data(&self, data: &mut [(Cow<'_, str>, Node<'_>)], encoded: bool) {
        for (key, value) in data {
            let Some(text) = value.as_text() else { continue };
            let plain = if encoded { plain_text(text) } else { Some(text.to_owned()) };
            let stands_in = match plain {
                Some(plain) if is_plain_value(key, plain.trim()) => continue,
                // Blanks around it are nobody's secret, and not part of it.
                Some(plain) => self.secret(plain.trim()),
                None => self.key.placeholder(text),
            };
            *value = Node::text(if encoded { STANDARD.encode(stands_in) } else { stands_in });
        }
    }

    /// What stands for a secret as it stands in its field: in base64 if it is a document in base64.
    fn secret(&self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        match inside(text) {
            Some(Inside::Text(inner)) if inner.contains(PRIVATE) => STANDARD.encode(self.key_alone(&inner)),
            Some(Inside::Text(inner)) if is_placeholder(&inner) => text.to_owned(),
            _ if text.contains(PRIVATE) => self.key_alone(text),
            _ => self.key.placeholder(text.trim()),
        }
    }

    /// The text without its secrets; `None` if it has none.
    fn text_at(&self, text: &str, mut look: Look, depth: usize) -> Option<String> {
        if text.len() < SHORTEST || is_placeholder(text) {
            return None;
        }
        let Some(depth) = depth.checked_sub(1) else {
            // So deep that nobody can say what is in it.
            return Some(self.key.placeholder(text));
        };
        match look.encoded.then(|| inside(text)).flatten() {
            Some(Inside::Text(inner)) => {
                if let Some(changed) = self.inner_text(&inner, look, depth) {
                    return Some(STANDARD.encode(changed));
                }
                // What a tenant calls a secret is not in it, unless it is all of it: elsewhere it is what programs go by, in base64.
                if let Some(whole) = self.known.replace(text, look.place.which()).filter(|whole| is_placeholder(whole))
                {
                    return Some(whole);
                }
                look.place = Place::Structure;
            }
            Some(Inside::Compressed(_)) => return Some(STANDARD.encode(self.key.placeholder(text))),
            None => {}
        }
        if let Some(Document { mut value, yaml }) = document(text) {
            let before = value.clone();
            self.json_at(&mut value, self.look(text, look.place), depth);
            if value == before {
                return None;
            }
            let written = if yaml { serde_yaml_ng::to_string(&value).ok() } else { serde_json::to_string(&value).ok() };
            return Some(written.unwrap_or_else(|| self.key.placeholder(text)));
        }
        if is_user_data(text) {
            return Some(self.key.placeholder(text.trim()));
        }
        self.plain(text, look, depth)
    }

    fn inner_text(&self, text: &str, look: Look, depth: usize) -> Option<String> {
        self.text_at(text, self.look(text, look.place), depth)
    }

    /// The same for a text that is nothing but a text, some words of which may be more.
    fn plain(&self, text: &str, look: Look, depth: usize) -> Option<String> {
        let mut out = Cow::Borrowed(text);
        // Before anything in it is replaced for itself: a text of which a part is gone would not be known any more.
        if look.known {
            change(&mut out, |text| self.known.replace(text, look.place.which()));
        }
        if look.keys {
            change(&mut out, |text| self.keys(text));
        }
        if look.percents {
            let said = |said: &String| self.inner_text(said, look, depth).map(|said| percent(&said, "%20", true));
            change(&mut out, |text| {
                replaced(text, percents(text).iter().filter_map(|(at, text)| Some((at.clone(), said(text)?))))
            });
        }
        if look.encoded {
            change(&mut out, |text| {
                let changed = |inside: &Inside, at: &Range<usize>| match inside {
                    Inside::Text(inner) => self.inner_text(inner, look, depth),
                    Inside::Compressed(_) => Some(self.key.placeholder(&text[at.clone()])),
                };
                let words = words(text);
                replaced(
                    text,
                    words.iter().filter_map(|(at, inside)| Some((at.clone(), STANDARD.encode(changed(inside, at)?)))),
                )
            });
        }
        let stands_in = |value: &str| (!is_placeholder(value)).then(|| self.secret(value));
        for find in [userinfo, values] {
            change(&mut out, |text| {
                replaced(text, find(text).into_iter().filter_map(|at| Some((at.clone(), stands_in(&text[at])?))))
            });
        }
        match out {
            Cow::Owned(changed) => Some(changed),
            Cow::Borrowed(_) => None,
        }
    }
}

fn change(text: &mut Cow<'_, str>, by: impl FnOnce(&str) -> Option<String>) {
    if let Some(changed) = by(text) {
        *text = Cow::Owned(changed);
    }
}
