//! The secrets in user data, whatever it is: a cloud-config, a script, a file of variables, parts of MIME; in base64, compressed,
//! and all of these inside each other.
//!
//! Intention: user data goes from a recording as a whole, wherever it stands. What it says may also stand alone elsewhere: in a tag,
//! in the metadata of a server, in what a cloud says of a failure. So its secrets are learnt one by one: what stands behind a telling
//! name, what is said to programs that set passwords, private keys, and words that look as if they were made at random.
//!
//! Invariants: nothing is taken out of what it finds here, so it may take too much for a secret rather than too little; but nothing
//! that others go by, an ID, a certificate, a public key: a recording without those says nothing and cannot run again. Bounded in
//! bytes, by more than a server can be given: of what is longer, and so reaches no cloud, the rest is not looked at.

use std::collections::BTreeSet;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use weir_api::crd::Base64;
use weir_api::user_data::{Payload, format};
use weir_openstack::redact::{Field, field, is_its_own, is_value, lines, said, userinfo, values};

use super::SHORTEST;
use super::encoded::{Inside, inside, percent_decoded, words};
use super::keys::PRIVATE;
use super::node::Node;

/// Of each sort, so many bytes are learnt of one text: all that Nova takes could be secret.
const MOST: usize = 48 << 10;
/// A longer value is not one, in bytes.
const LONGEST: usize = 16 << 10;
/// So much is read at most, what is inside included, in bytes: more than Kubernetes keeps of one object.
const MOST_READ: usize = 2 << 20;
/// So much of what is compressed.
const MOST_INFLATED: u64 = 256 << 10;
/// How deep texts inside texts are looked into.
const DEEPEST: usize = 6;
/// A shorter word is not taken for one that was made at random, nor one without a part of so many letters and digits.
const RANDOM: (usize, usize) = (20, 16);
/// The first line of a text in base64 that is broken into lines has so many letters at least.
const LINE: usize = 40;

/// Whether a text is user data by how it begins, wherever it stands. A line alone that begins so says nothing.
pub(super) fn is_user_data(text: &str) -> bool {
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'#') => text.contains('\n') && Payload::of(text.as_bytes()).is_some(),
        // Of MIME, `Content-Type` or `MIME-Version`.
        Some(b'C' | b'c' | b'M' | b'm') if text.contains("boundary=") => format(text.as_bytes()).is_ok(),
        _ => false,
    }
}

/// Secrets of a sort, each once.
#[derive(Default)]
struct Found {
    all: BTreeSet<String>,
    bytes: usize,
}

impl Found {
    fn add(&mut self, secret: &str) {
        if (SHORTEST..=LONGEST).contains(&secret.len())
            && self.bytes + secret.len() <= MOST
            && !self.all.contains(secret)
        {
            self.bytes += secret.len();
            self.all.insert(secret.to_owned());
        }
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(String::as_str)
    }
}

/// What user data says that is secret.
#[derive(Default)]
pub(super) struct Said {
    /// Texts that hold private keys.
    pub(super) keys: Vec<String>,
    named: Found,
    random: Found,
    lines: Found,
    read: usize,
}

impl Said {
    /// What `text` says, which is user data as it is given.
    pub(super) fn of(text: &str) -> Self {
        let mut said = Self::default();
        match Base64::parse(text) {
            Some(Base64(bytes)) => said.bytes(&bytes, DEEPEST),
            None => said.text(text, DEEPEST),
        }
        said
    }

    /// All but private keys.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.named.iter().chain(self.random.iter())
    }

    /// Its lines that carry a value: whoever cannot read one quotes it.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter()
    }

    /// What is no text is read as far as it is one: what it says is quoted like that.
    fn bytes(&mut self, bytes: &[u8], depth: usize) {
        if bytes.starts_with(&[0x1f, 0x8b]) {
            return self.inside(Inside::Compressed(bytes.to_owned()), depth);
        }
        let text = String::from_utf8_lossy(bytes);
        if text.contains(is_odd) {
            // A secret begins behind what is no text, or ends before it.
            self.text(&text.replace(is_odd, " "), depth);
            self.text(&text.replace(is_odd, "\n"), depth);
        }
        self.text(&text, depth);
    }

    fn text(&mut self, text: &str, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let room = MOST_READ.saturating_sub(self.read).min(text.len());
        let text = &text[..(0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)];
        self.read += text.len();
        if let Some(inner) = inside(text) {
            return self.inside(inner, depth);
        }
        if text.contains(PRIVATE) {
            self.keys.push(text.to_owned());
        }
        if text.contains(':')
            && let Ok(node) = serde_yaml_ng::from_str::<Node<'_>>(text)
        {
            self.node(&node, depth);
        }
        for value in values(text).into_iter().chain(userinfo(text)) {
            let value = &text[value];
            self.named(value);
            if let Some(said) = percent_decoded(value) {
                self.named(&said);
            }
        }
        said(text, |value| self.named(value));
        lines(text).for_each(|line| self.lines.add(line));
        for (_, inner) in words(text) {
            self.inside(inner, depth);
        }
        let says_so = text.contains("base64") || text.contains("b64") || text.contains("BASE64");
        for block in blocks(text) {
            if let Some(inner) = inside(&block) {
                self.inside(inner, depth);
            } else if let Some(Base64(bytes)) = says_so.then(|| Base64::parse(block)).flatten() {
                self.bytes(&bytes, depth);
            }
        }
        for part in without_certificates(text) {
            let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '=');
            for word in part.split(|c| !is_of_word(c)).filter(|word| word.len() >= RANDOM.0) {
                // Of `name=value` the value.
                let word = word.trim_matches('=').rsplit('=').next().unwrap_or_default();
                if is_random(word) {
                    self.random.add(word);
                }
            }
        }
    }

    fn inside(&mut self, inner: Inside, depth: usize) {
        match inner {
            Inside::Text(text) => self.text(&text, depth),
            Inside::Compressed(bytes) => {
                if let Some(text) = inflated(&bytes) {
                    self.text(&text, depth);
                }
            }
        }
    }

    /// What a document says; the texts of it that are more than a word, as texts.
    fn node(&mut self, node: &Node<'_>, depth: usize) {
        match node {
            Node::Map(members) => {
                let called = node.pair();
                for (name, value) in members {
                    self.member(called.filter(|_| is_value(name)).unwrap_or(name), value, depth);
                }
            }
            Node::List(items) => {
                let mut follows = false;
                for item in items {
                    match item {
                        Node::Text(text) if follows => self.named(text),
                        _ => self.node(item, depth),
                    }
                    follows = item.is_flag();
                }
            }
            Node::Text(text) if text.contains('\n') || inside(text).is_some() => self.text(text, depth),
            // Values of data URLs, as in the files of Ignition.
            Node::Text(text) if text.starts_with("data:") => {
                if let Some(said) = percent_decoded(text) {
                    self.text(&said, depth);
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, name: &str, value: &Node<'_>, depth: usize) {
        match value {
            value if field(name) == Field::Plain => self.node(value, depth),
            Node::Text(text) => {
                self.named(text);
                self.node(value, depth);
            }
            Node::Number(number) => self.named(&number.to_string()),
            Node::List(items) => items.iter().for_each(|item| self.member(name, item, depth)),
            Node::Map(members) => {
                for (member, value) in members {
                    self.member(if is_its_own(name, member) { member } else { name }, value, depth);
                }
            }
            Node::Null | Node::Bool(_) => {}
        }
    }

    fn named(&mut self, value: &str) {
        let value = value.trim().trim_matches(['"', '\'']);
        self.named.add(value);
        if let Some((value, _)) = value.split_once(" #") {
            self.named.add(value.trim());
        }
        if value.contains('\n') {
            value.lines().for_each(|line| self.named.add(line.trim()));
        }
    }
}

/// What stands in no text.
fn is_odd(c: char) -> bool {
    c == char::REPLACEMENT_CHARACTER || c.is_control() && !matches!(c, '\n' | '\r' | '\t')
}

/// What compressed data says, as far as it is read.
pub(super) fn inflated(bytes: &[u8]) -> Option<String> {
    let mut out = Vec::new();
    // What was read before it broke off is worth having.
    let _ = MultiGzDecoder::new(bytes).take(MOST_INFLATED).read_to_end(&mut out);
    (!out.is_empty()).then(|| String::from_utf8_lossy(&out).into_owned())
}

/// Base64 that is broken into lines, in one.
fn blocks(text: &str) -> Vec<String> {
    // What begins with two hyphens stands between parts of MIME.
    let is_base64 = |line: &str| {
        !line.starts_with("--") && line.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=-_".contains(&b))
    };
    let (mut found, mut block) = (Vec::new(), String::new());
    for line in text.lines().map(str::trim).chain([""]) {
        if !line.is_empty() && is_base64(line) && (line.len() >= LINE || !block.is_empty()) {
            block.push_str(line);
        } else if !block.is_empty() {
            found.push(std::mem::take(&mut block));
        }
    }
    found
}

/// What is left of a text without its certificates and public keys, which are as random as secrets.
fn without_certificates(text: &str) -> impl Iterator<Item = &str> {
    let mut parts = text.split("-----BEGIN ");
    let first = parts.next();
    let rest = parts.map(|part| match part.split_once("-----END ") {
        Some((key, after)) if !key.lines().next().is_some_and(|line| line.contains(PRIVATE)) => after,
        _ => part,
    });
    first.into_iter().chain(rest)
}

/// Whether a word looks as if it was made at random, and is no ID.
fn is_random(word: &str) -> bool {
    // A public key of SSH begins with the length of its algorithm's name.
    if word.len() < RANDOM.0 || word.len() > LONGEST || word.starts_with("AAAA") {
        return false;
    }
    let is_id = |part: &str| part.len() == 32 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let random = |part: &str| part.len() >= RANDOM.1 && !is_id(part) && is_mixed(part.as_bytes());
    // An ID has five parts.
    let holds_id = || {
        let places = 0..=word.len().saturating_sub(36);
        places.filter_map(|at| word.get(at..at + 36)).any(|part| uuid::Uuid::try_parse(part).is_ok())
    };
    // What is in base64 is looked into, and may be no secret.
    word.split(['-', '_', '+', '=']).any(random) && !holds_id() && inside(word).is_none()
}

/// Whether small letters, capitals and digits take turns oftener than they do in names.
fn is_mixed(part: &[u8]) -> bool {
    let class = |b: &u8| (b.is_ascii_digit(), b.is_ascii_uppercase());
    let turns = part.windows(2).filter(|pair| class(&pair[0]) != class(&pair[1])).count();
    part.iter().filter(|b| b.is_ascii_digit()).count() >= 2 && turns * 6 >= part.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write as _;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap()
    }

    fn says(text: &str, secret: &str) -> bool {
        Said::of(text).secrets().any(|said| said == secret)
    }

    /// Proves: R-2
    #[test]
    fn the_secrets_of_user_data_are_found_in_every_form_of_it() {
        for (text, secret) in [
            ("#cloud-config\npassword: hunter2it\n", "hunter2it"),
            ("#cloud-config\npassword: hunter2it # as agreed\n", "hunter2it"),
            ("#cloud-config\npassword: \"hunter2 it\"\n", "hunter2 it"),
            (
                "#cloud-config\nchpasswd:\n  expire: false\n  list: |\n    root:hunter2it\n    me:staple-42\n",
                "staple-42",
            ),
            ("#cloud-config\nchpasswd:\n  list:\n    - root:hunter2it\n", "hunter2it"),
            ("#cloud-config\nchpasswd: {list: 'root:staple-42'}\n", "staple-42"),
            ("#cloud-config\nchpasswd:\n  users:\n    - {name: root, password: hunter2it, type: text}\n", "hunter2it"),
            ("#cloud-config\nusers:\n  - name: me\n    hashed_passwd: $6$rounds$abcdef\n", "$6$rounds$abcdef"),
            ("#cloud-config\nruncmd:\n  - [mysql, --password, hunter2it]\n", "hunter2it"),
            ("#cloud-config\nruncmd:\n  - curl -u me:hunter2it https://h/\n", "hunter2it"),
            ("#cloud-config\nwrite_files:\n  - content: |\n      DB_PASSWORD=hunter2it\n      X=1\n", "hunter2it"),
            ("#cloud-config\nwrite_files:\n  - content: \"{\\\"api_key\\\": \\\"hunter2it\\\"}\"\n", "hunter2it"),
            ("#cloud-config\nx:\n  - {name: db-token, value: hunter2it}\n", "hunter2it"),
            ("#!/bin/bash\nexport X_TOKEN=hunter2it\n", "hunter2it"),
            ("#!/bin/bash\nexport X_TOKEN='hunter2 it'; echo\n", "hunter2 it"),
            ("#!/bin/bash\necho 'root:hunter2it' | chpasswd\n", "hunter2it"),
            ("#!/bin/bash\nchpasswd <<EOF\nroot:hunter2it\nEOF\n", "hunter2it"),
            ("#!/bin/bash\nhelm install --set x=y --api-key hunter2it\n", "hunter2it"),
            ("#!/bin/bash\njoin --discovery K10f3a9Bc77Qz18LmN0pR\n", "K10f3a9Bc77Qz18LmN0pR"),
            ("machine h login me password hunter2it\n", "hunter2it"),
            ("DATABASE_URL=postgres://me:hunter2it@db/x\n", "hunter2it"),
            ("<config><dbPassword>hunter2it</dbPassword></config>", "hunter2it"),
            ("[db]\npassword = hunter2it\n", "hunter2it"),
        ] {
            assert!(says(text, secret), "{secret} of {text}: {:?}", Said::of(text).secrets().collect::<Vec<_>>());
            let encoded = STANDARD.encode(text);
            let folded: Vec<&str> =
                encoded.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
            let zipped = STANDARD.encode(gzip(text));
            let part = |text: &str| {
                format!(
                    "Content-Type: multipart/mixed; boundary=\"x\"\n\n--x\nContent-Transfer-Encoding: base64\n\n{text}\n--x--\n"
                )
            };
            for whole in [
                encoded.clone(),
                folded.join("\n"),
                zipped.clone(),
                STANDARD.encode(part(&folded.join("\n"))),
                part(&zipped),
                format!("#cloud-config\nwrite_files:\n- encoding: gz+b64\n  content: {zipped}\n"),
                format!(
                    "#cloud-config\nwrite_files:\n- encoding: b64\n  content: !!binary |\n    {}\n",
                    folded.join("\n    ")
                ),
                STANDARD.encode(STANDARD.encode(text)),
            ] {
                assert!(says(&whole, secret), "{secret} of {text} as {whole}");
            }
        }
    }

    /// Proves: R-2
    #[test]
    fn user_data_that_is_no_text_is_read_as_far_as_it_is_one() {
        let part = STANDARD
            .encode(b"#!/bin/sh\n# \xe9 and so on, that the line is long enough for a block\nX_TOKEN=hunter2it\n");
        for bytes in [
            b"#!/bin/sh\n# \xe9\nX_TOKEN=hunter2it\n".to_vec(),
            b"#!/bin/sh\n# \x1b[31m\nX_TOKEN=hunter2it\n".to_vec(),
            b"#!/bin/sh\nX_TOKEN=\xe9\xffhunter2it\n".to_vec(),
            b"\0\x01#cloud-config\npassword: hunter2it\x1b[0m\n".to_vec(),
            format!("Content-Transfer-Encoding: base64\n\n{part}\n").into_bytes(),
        ] {
            let given = STANDARD.encode(&bytes);
            assert!(
                says(&given, "hunter2it"),
                "{:?}: {:?}",
                bytes.escape_ascii().to_string(),
                Said::of(&given).secrets().collect::<Vec<_>>()
            );
        }
    }

    /// Proves: R-2
    #[test]
    fn of_all_that_a_server_can_be_given_every_secret_is_learnt() {
        let most = 49_149;
        let all: Vec<String> = (0..(most - 14) / 27).map(|n| format!("hunter{n:05}it")).collect();
        let lines: Vec<String> =
            all.iter().enumerate().map(|(n, secret)| format!("k{n:04}_token: {secret}\n")).collect();
        let data = format!("#cloud-config\n{}", lines.concat());
        assert!((most - 100..=most).contains(&data.len()));
        let said = Said::of(&STANDARD.encode(&data));
        let learnt: std::collections::BTreeSet<&str> = said.secrets().collect();
        assert!(all.iter().all(|secret| learnt.contains(secret.as_str())), "{} of {}", learnt.len(), all.len());
        let lines: std::collections::BTreeSet<&str> = said.lines().collect();
        assert!(data.lines().skip(1).all(|line| lines.contains(line)), "{} of {}", lines.len(), all.len());
    }

    /// Proves: R-2
    #[test]
    fn scripts_are_user_data_wherever_they_stand_and_lines_that_begin_like_some_are_none() {
        for text in [
            "#cloud-config\nx: y\n",
            "#!/bin/sh\necho",
            "#!/usr/bin/python3\nx = 1",
            "#include\nhttps://h/",
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\ny\n--x--\n",
        ] {
            assert!(is_user_data(text), "{text}");
        }
        for text in ["#!important", "#cloud-config", "# a heading\nand a text", "#123\nfixed", "text\n#!/bin/sh\n"] {
            assert!(!is_user_data(text), "{text}");
        }
    }

    /// Proves
    #[test]
    fn what_is_no_secret_of_user_data_stays_readable() {
        let text = "#cloud-config\nhostname: web-server-17.eu-west-2.example.com\nlocale: en_GB.UTF-8\nssh_pwauth: true\n\
            packages: [nginx, linux-image-6.8.0-31-generic, python3-openstackclient]\n# b0000000-0000-4000-8000-00000000000a\n\
            write_files:\n- path: /etc/app.env\n  content: |\n    PROJECT=0f3a1c2d4b5e69788796a5b4c3d2e1f0\n    \
            SERVER_ID=server-b0000000-0000-4000-8000-00000000000a\n    DB_HOST=10.0.0.9\n    IMAGE=ubuntu-22.04-server-cloudimg-amd64\n    \
            KEY_NAME=identity-key\nruncmd:\n- apt-get install -y --no-install-recommends nginx\n- mkdir -p /srv/www\n- echo ssh-ed25519 \
            AAAAC3NzaC1lZDI1NTE5AAAAIF2k7Vt0R9mZq1Yx8Wb3Nn5Pj6Lc4Hs7Ud2Eg9Ka0Tf3 me@host > /etc/ssh/ca.pub\n- echo \
            LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJrVENCKzZBREFnRUNBaEExCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K | base64 -d\n\
            ca_certs:\n  trusted:\n  - |\n    -----BEGIN CERTIFICATE-----\n    MIIBkTCB6QIJAKx3Z1w9Qm7vMA0GCSqGSIb3DQEBCwUA\n    -----END CERTIFICATE-----\n";
        assert_eq!(Said::of(text).secrets().collect::<Vec<_>>(), Vec::<&str>::new());
    }

    /// Proves: R-2
    #[test]
    fn however_much_is_in_it_no_more_is_learnt_than_can_be_kept() {
        let many: Vec<String> =
            (0..5000).map(|n| format!("A_TOKEN=hunter{n:05}\nx {n:05}f3a9Bc77Qz18LmN0pR")).collect();
        let many = many.join("\n");
        let said = Said::of(&many);
        assert!(said.named.bytes <= MOST && said.random.bytes <= MOST && said.lines.bytes <= MOST);
        assert!(said.secrets().count() > 5000);
        let bomb = STANDARD.encode(gzip(&"password: hunter2it\n".repeat(1 << 17)));
        let said = Said::of(&bomb);
        assert!(said.read <= MOST_READ && said.secrets().any(|secret| secret == "hunter2it"), "{}", said.read);
    }
}
