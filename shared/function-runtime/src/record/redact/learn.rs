//! The first pass: what is a secret, by where it stands.

use std::borrow::Cow;

use weir_openstack::redact::{Field, field, is_plain_inside, is_value, userinfo, values};

use super::encoded::{Inside, document, inside, percent_decoded, percents, words};
use super::keys::PRIVATE;
use super::known::Sort;
use super::node::Node;
use super::replace::Look;
use super::said::{CLOUD_CONFIG, Said, inflated};
use super::user_data::is_stand_in;
use super::{Secrets, is_kubernetes_secret, is_plain_value};

impl Secrets {
    pub(super) fn learn_json(&mut self, value: &Node<'_>, look: Look, depth: usize) {
        match value {
            Node::Map(members) => {
                let (kubernetes, called) = (is_kubernetes_secret(value), value.pair());
                self.noted |= kubernetes || called.is_some();
                for (name, value) in members {
                    self.noted |= name == "managedFields";
                    match value {
                        Node::Map(data) if kubernetes && matches!(&**name, "data" | "stringData") => {
                            self.learn_data(data, name == "data");
                        }
                        _ => self.learn_member(called.filter(|_| is_value(name)).unwrap_or(name), value, look, depth),
                    }
                }
            }
            Node::List(items) => {
                let mut follows = false;
                for item in items {
                    let flag = item.is_flag();
                    self.noted |= flag;
                    match item {
                        Node::Text(text) if follows && !flag => self.learn_secret(text),
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
            (Node::Text(text), Field::Secret) => self.learn_secret(text),
            (Node::Text(text), Field::UserData) => self.learn_user_data(text),
            (Node::Text(text), Field::Plain) => self.learn_text(text, look, depth),
            (Node::List(items), Field::Secret | Field::UserData) => {
                for item in items {
                    self.learn_member(name, item, look, depth);
                }
            }
            (Node::Map(members), Field::Secret | Field::UserData) => {
                for (member, value) in members {
                    let its_own = is_plain_inside(name, member) || field(member) != Field::Plain;
                    self.learn_member(if its_own { member } else { name }, value, look, depth);
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
                Some(plain) => self.learn_secret(&plain),
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

    /// A secret as it stands, in base64 perhaps.
    fn learn_secret(&mut self, text: &str) {
        match inside(text) {
            Some(Inside::Text(key)) if key.contains(PRIVATE) => self.learn_keys(&key),
            _ if text.contains(PRIVATE) => self.learn_keys(text),
            _ => self.add(text),
        }
    }

    /// User data may be repeated elsewhere, in an error or a log, as it was given or as it is; and so may the secrets in it.
    fn learn_user_data(&mut self, text: &str) {
        if is_stand_in(text) || self.known.get(text.trim()).is_some() {
            return;
        }
        self.remember(text, Sort::Data);
        if let Some(plain) = plain_text(text) {
            self.remember(&plain, Sort::Data);
        }
        let said = Said::of(text);
        for keys in &said.keys {
            self.learn_keys(keys);
        }
        for secret in said.secrets() {
            self.add(secret);
        }
    }

    fn learn_text(&mut self, text: &str, look: Look, depth: usize) {
        if text.len() < super::SHORTEST {
            return;
        }
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
        if text.starts_with(CLOUD_CONFIG) {
            self.noted = true;
            return self.learn_user_data(text);
        }
        if look.keys && text.contains(PRIVATE) {
            self.noted = true;
            self.learn_keys(text);
        }
        for value in values(text).into_iter().chain(userinfo(text)) {
            self.noted = true;
            self.learn_secret(&text[value.clone()]);
            // In a form or a URL it is written otherwise than it is.
            let said = text[value.clone()].replace('+', " ");
            let said = percent_decoded(&said).unwrap_or(said);
            if said != text[value] {
                self.learn_secret(&said);
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
