//! Private keys, and the keys of our own making that stand in for them.

use ssh_key::{LineEnding, PrivateKey};

use super::Secrets;
use super::known::Sort;

/// How the first line of a private key ends.
pub(super) const PRIVATE: &str = "PRIVATE KEY-----";
const BEGIN: &str = "-----BEGIN ";
const OPENSSH: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
/// The comment of a key of our own making.
const STAND_IN: &str = "stands in for a key in a recording";

/// What precedes the first private key of a text, the key, what follows it.
fn private_key(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let begin = from + text[from..].find(BEGIN)?;
        let line = text[begin..].lines().next().unwrap_or_default();
        from = begin + BEGIN.len();
        if !line.contains(PRIVATE) {
            continue;
        }
        // A key that has no end takes all the rest with it.
        let end = text[from..].find("-----END ").map_or(text.len(), |at| {
            let tail = from + at + "-----END ".len();
            text[tail..].find("-----").map_or(text.len(), |more| tail + more + "-----".len())
        });
        return Some((&text[..begin], &text[begin..end], &text[end..]));
    }
}

impl Secrets {
    /// A private key is replaced by one of our own making, and its public half by that one's, so that whoever compares
    /// the two finds what was found.
    pub(super) fn learn_keys(&mut self, text: &str) {
        let (mut rest, trust) = (text, self.whose.trust());
        while let Some((_, pem, after)) = private_key(rest) {
            rest = after;
            let known = self.known.again(pem, trust);
            if known.is_some() {
                self.note(known);
                continue;
            }
            let stand_in = if pem.starts_with(OPENSSH) { self.stand_in(pem) } else { None };
            let (stand_in, halves) = stand_in.unwrap_or_else(|| (self.key.placeholder(pem), None));
            let key = self.known.add(pem, &stand_in, Sort::Data, trust);
            if let Some((real, ours)) = halves
                && let Some(half) = self.known.add(&real, &ours, Sort::Half, trust)
            {
                self.known.tie(pem, &[half]);
            }
            self.note(key);
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

    fn key_for(&self, pem: &str) -> String {
        if self.known.stands_for_one(pem) || PrivateKey::from_openssh(pem).is_ok_and(|key| key.comment() == STAND_IN) {
            return pem.to_owned();
        }
        self.known.get(pem).map_or_else(|| self.key.placeholder(pem), str::to_owned)
    }

    /// What stands for a text that is a private key. Nothing of what is around it is kept but the line break that OpenSSH
    /// ends with.
    pub(super) fn key_alone(&self, text: &str) -> String {
        let Some((_, pem, after)) = private_key(text) else { return self.key.placeholder(text) };
        self.key_for(pem) + if after.starts_with('\n') { "\n" } else { "" }
    }

    /// A text whose private keys are replaced; `None` if it holds none.
    pub(super) fn keys(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, pem, after)) = private_key(rest) {
            out.push_str(before);
            out.push_str(&self.key_for(pem));
            rest = after;
        }
        (rest.len() < text.len()).then(|| out + rest).filter(|out| out != text)
    }
}
