//! The first pass: what is a secret, by where it stands.

use std::borrow::Cow;

use weir_openstack::redact::{Field, field, is_its_own, is_value, userinfo, values};

use super::encoded::{Inside, document, inside, percent_decoded, percents, words};
use super::keys::PRIVATE;
use super::known::Sort;
use super::node::Node;
use super::place::{is_tenants, is_vault};
use super::plausible::is_plausible;
use super::replace::Look;
use super::said::{Said, inflated, is_user_data};
use super::user_data::is_stand_in;
use super::{DEEPEST, Secrets, is_kubernetes_secret, is_plain_value};

impl Secrets {
    pub(super) fn learn_json(&mut self, value: &Node<'_>, look: Look, depth: usize) {
        match value {
            Node::Map(members) => {
                let (kubernetes, called) = (is_kubernetes_secret(value), value.pair());
                self.noted |= kubernetes || called.is_some();
                let before = self.whose;
                for (name, value) in members {
                    self.noted |= name == "managedFields";
                    match value {
                        Node::Map(data) if kubernetes && matches!(&**name, "data" | "stringData") => {
                            self.whose = before.vault();
                            self.learn_data(data, name == "data");
                        }
                        _ => {
                            let called = called.filter(|_| is_value(name));
                            if called.is_some() || is_tenants(name) {
                                self.whose = before.tenants();
                            } else if is_vault(name) {
                                self.whose = before.vault();
                            }
                            self.learn_member(called.unwrap_or(name), value, look, depth);
                        }
                    }
                    self.whose = before;
                }
            }
            Node::List(items) => {
                let mut follows = false;
                for item in items {
                    let flag = item.is_flag();
                    self.noted |= flag;
                    match item {
                        Node::Text(text) if follows && !flag => {
                            let before = self.whose;
                            self.whose = before.tenants();
                            self.learn_secret(text, depth);
                            self.whose = before;
                        }
                        _ => self.learn_json(item, look, depth),
                    }
                    follows = flag;
                }
            }
            Node::Text(text) => self.learn_text(text, look, depth),
            _ => {}
        }
    }

    fn learn_member(&mut self, name: &str, value: &Node<'_>, look: Look, depth: usize) {
        let kind = field(name);
        self.noted |= kind != Field::Plain;
        match (value, kind) {
            (Node::Text(text), Field::Secret) => self.learn_secret(text, depth),
            (Node::Text(text), Field::UserData) => self.learn_user_data(text),
            (Node::Text(text), Field::Plain) => self.learn_text(text, look, depth),
            (Node::List(items), Field::Secret | Field::UserData) => {
                for item in items {
                    self.learn_member(name, item, look, depth);
                }
            }
            (Node::Map(members), Field::Secret | Field::UserData) => {
                for (member, value) in members {
                    self.learn_member(if is_its_own(name, member) { member } else { name }, value, look, depth);
                }
            }
            (other, _) => self.learn_json(other, look, depth),
        }
    }

    fn learn_data(&mut self, data: &[(Cow<'_, str>, Node<'_>)], encoded: bool) {
        for (key, value) in data {
            let Some(text) = value.as_text() else { continue };
            let plain = if encoded { plain_text(text) } else { Some(text.to_owned()) };
            match plain {
                Some(plain) if is_plain_value(key, plain.trim()) => {}
                Some(plain) => self.learn_secret(&plain, DEEPEST),
                None => self.add(text),
            }
        }
    }

    /// What a header says that holds credentials.
    pub fn learn_header(&mut self, name: &str, value: &str) {
        self.add(value);
        let cookie = |pair: &str| pair.split_once('=').map(|(_, cookie)| cookie.trim_matches('"').to_owned());
        match name {
            "set-cookie" => value.split(';').take(1).filter_map(cookie).for_each(|cookie| self.add(&cookie)),
            "cookie" => value.split(';').filter_map(cookie).for_each(|cookie| self.add(&cookie)),
            // Behind the name of a scheme; `Basic` has a name and a password in base64.
            _ => {
                let Some((_, said)) = value.split_once(' ') else { return };
                self.add(said);
                if let Some((_, password)) = plain_text(said).as_deref().and_then(|pair| pair.split_once(':')) {
                    self.add(password);
                }
            }
        }
    }

    /// A secret as it stands, in base64 perhaps, and what it says if it is a document.
    fn learn_secret(&mut self, text: &str, depth: usize) {
        let inner = match inside(text) {
            Some(Inside::Text(key)) if key.contains(PRIVATE) => return self.learn_keys(&key),
            Some(Inside::Text(inner)) => Some(inner),
            _ if text.contains(PRIVATE) => return self.learn_keys(text),
            _ => None,
        };
        self.add(text);
        if let Some(inner) = &inner {
            self.add(inner);
        }
        let inner = inner.as_deref().unwrap_or(text);
        if let Some(depth) = depth.checked_sub(1)
            && let Some(document) = document(inner)
        {
            let before = self.whose;
            self.whose = before.vault();
            self.learn_json(&document.value, Look::at(inner), depth);
            self.whose = before;
        }
    }

    /// User data may be repeated elsewhere, in an error or a log, as it was given or as it is; and so may the secrets in it.
    fn learn_user_data(&mut self, text: &str) {
        if is_stand_in(text) {
            return;
        }
        let before = self.whose;
        self.whose = before.tenants();
        self.learn_from_user_data(text);
        self.whose = before;
    }

    fn learn_from_user_data(&mut self, text: &str) {
        let known = self.known.again(text.trim(), self.whose.trust());
        // It may be known as a mere word as well.
        if known.and_then(|known| self.known.with(known)).is_some() {
            return self.note(known);
        }
        let from = self.told.len();
        let plain = plain_text(text);
        if plain.as_deref().is_none_or(is_plausible) {
            self.remember(text, Sort::Data);
            if let Some(plain) = &plain {
                self.remember(plain, Sort::Data);
            }
        }
        let said = Said::of(text);
        for keys in &said.keys {
            self.learn_keys(keys);
        }
        for secret in said.secrets() {
            self.add(secret);
        }
        for line in said.lines() {
            self.remember(line, Sort::Line);
        }
        self.known.tie(text.trim(), &self.told[from..]);
    }

    pub(super) fn learn_text(&mut self, text: &str, look: Look, depth: usize) {
        if text.len() < super::SHORTEST {
            return;
        }
        let before = self.whose;
        self.whose = before.tenants();
        self.learn_from_text(text, look, depth);
        self.whose = before;
    }

    fn learn_from_text(&mut self, text: &str, look: Look, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            self.noted = true;
            return;
        };
        if let Some(inner) = look.encoded.then(|| inside(text)).flatten() {
            return self.learn_inside(inner, depth);
        }
        if let Some(document) = document(text) {
            self.noted = true;
            return self.learn_json(&document.value, Look::at(text), depth);
        }
        if is_user_data(text) {
            self.noted = true;
            return self.learn_user_data(text);
        }
        if look.keys && text.contains(PRIVATE) {
            self.noted = true;
            self.learn_keys(text);
        }
        for value in values(text).into_iter().chain(userinfo(text)) {
            self.noted = true;
            self.learn_secret(&text[value.clone()], depth);
            // In a form or a URL it is written otherwise than it is.
            let said = text[value.clone()].replace('+', " ");
            let said = percent_decoded(&said).unwrap_or(said);
            if said != text[value] {
                self.learn_secret(&said, depth);
            }
        }
        if look.percents && text.contains('%') {
            for (_, said) in percents(text) {
                self.noted = true;
                self.learn_text(&said, Look::at(&said), depth);
            }
        }
        for (_, inner) in if look.encoded { words(text) } else { vec![] } {
            self.learn_inside(inner, depth);
        }
    }

    fn learn_inside(&mut self, inner: Inside, depth: usize) {
        self.noted = true;
        let inner = match inner {
            Inside::Text(inner) => Some(inner),
            Inside::Compressed(bytes) => inflated(&bytes),
        };
        if let Some(inner) = inner {
            self.learn_text(&inner, Look::at(&inner), depth);
        }
    }
}

/// What base64 says, if it is a text.
pub(super) fn plain_text(text: &str) -> Option<String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.trim()).ok()?;
    String::from_utf8(bytes).ok()
}
