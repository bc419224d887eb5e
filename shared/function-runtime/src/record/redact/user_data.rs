//! What stands for user data: something of the same format, as whoever makes servers tells it (SSH-3), so that a call that runs again
//! is told the same of it.
//!
//! Invariants
//! - [`weir_api::user_data::format`] says the same of both, errors included. Where the length could decide whether it is too long
//!   (SSH-4), with whatever is added to it, both are of the same length, and so are the parts of a multipart.
//! - Nothing of what it stands for is in it but how it begins, in our words, and these lengths.
//! - What stands for something stands for itself.
//!
//! Caveat: what is not base64 is nothing that a server can be given, and neither is what stands for it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_api::crd::Base64;
use weir_api::user_data::{Format, MOST_PARTS, Malformed, Payload, Unreadable, format};
use weir_messages::recording::PLACEHOLDER;

use super::Secrets;

/// Of shorter data the length decides nothing, in bytes: all that is added, and a thousand parts with other separators, leave it
/// below what Nova takes.
const SHORT: usize = 24 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];

impl Secrets {
    /// What stands for user data, in base64 as it is given.
    pub(super) fn user_data(&self, text: &str) -> String {
        if super::is_placeholder(text) {
            return text.to_owned();
        }
        match Base64::parse(text) {
            None => self.key.placeholder(text),
            Some(Base64(bytes)) if bytes.is_empty() || is_ours(&bytes) => text.to_owned(),
            Some(Base64(bytes)) => STANDARD.encode(Shape::of(&bytes).filled(&self.key.placeholder(text))),
        }
    }
}

/// Whether these bytes are what [`Secrets::user_data`] has made, and nothing else: a placeholder that stands among other words
/// vouches for none of them.
fn is_ours(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes.strip_prefix(GZIP).unwrap_or(bytes)) else { return false };
    let Some(at) = text.find(PLACEHOLDER) else { return false };
    let placeholder = text.get(at..at + PLACEHOLDER.len() + 16).filter(|text| super::is_placeholder(text));
    placeholder.is_some_and(|placeholder| Shape::of(bytes).filled(placeholder) == bytes)
}

/// Whether user data, as it is given or as it is, is what stands in for some.
pub(super) fn is_stand_in(text: &str) -> bool {
    is_ours(text.as_bytes()) || Base64::parse(text).is_some_and(|Base64(bytes)| is_ours(&bytes))
}

/// All of user data that is in what stands for it.
struct Shape {
    is: Is,
    /// How long it is, and whether all of it is ASCII, if that decides anything.
    exactly: Option<(usize, bool)>,
}

enum Is {
    Compressed,
    Single(Payload),
    /// How long the parts are.
    Multipart(Vec<usize>),
    Unsupported,
    Malformed(Malformed),
}

impl Shape {
    fn of(data: &[u8]) -> Self {
        let is = match format(data) {
            Ok(Format::Compressed) => Is::Compressed,
            Ok(Format::Single(payload)) => Is::Single(payload),
            Ok(Format::Multipart(multipart)) => Is::Multipart(multipart.parts.iter().map(|part| part.len()).collect()),
            Err(Unreadable::Unsupported) => Is::Unsupported,
            Err(Unreadable::Malformed(malformed)) => Is::Malformed(malformed),
        };
        Self { is, exactly: (data.len() > SHORT).then(|| (data.len(), data.is_ascii())) }
    }

    fn filled(&self, placeholder: &str) -> Vec<u8> {
        let text = match &self.is {
            Is::Compressed => {
                let text = self.of_length(placeholder.to_owned(), GZIP.len());
                return [GZIP, text.as_bytes()].concat();
            }
            Is::Multipart(parts) => match self.exactly {
                Some((bytes, _)) => return multipart(parts, bytes, placeholder).into_bytes(),
                None => format!(
                    "Content-Type: multipart/mixed; boundary=\"{placeholder}\"\nMIME-Version: 1.0\n\n--{placeholder}\n\
                     Content-Type: text/x-shellscript\n\n#!/bin/sh\n--{placeholder}--\n"
                ),
            },
            Is::Single(Payload::Script) => format!("#!/bin/sh\n# {placeholder}\n"),
            Is::Single(payload) => format!("{}\n# {placeholder}\n", payload.beginning()),
            Is::Unsupported => placeholder.to_owned(),
            Is::Malformed(Malformed::Header) => format!("Content-Type: multipart/mixed\n{placeholder}\n"),
            Is::Malformed(Malformed::Boundary) => format!("Content-Type: multipart/mixed\n\n{placeholder}\n"),
            Is::Malformed(Malformed::Truncated) => {
                format!("Content-Type: multipart/mixed; boundary=\"{placeholder}\"\n\n--{placeholder}\n")
            }
            Is::Malformed(Malformed::Parts) => {
                let parts = "--r\n".repeat(MOST_PARTS + 2);
                format!("Content-Type: multipart/mixed; boundary=r\n\n{parts}{placeholder}\n")
            }
        };
        self.of_length(text, 0).into_bytes()
    }

    /// The text, longer if it has to be, `before` included: there is room, since what is filled is short.
    fn of_length(&self, mut text: String, before: usize) -> String {
        let Some((bytes, ascii)) = self.exactly else { return text };
        let end = if ascii { "x" } else { "é" };
        let missing = bytes.saturating_sub(before + text.len() + "\n".len() + end.len());
        text.push('\n');
        text.push_str(&"x".repeat(missing));
        text.push_str(end);
        text
    }
}

/// A multipart of so many bytes with parts of these lengths. All around the parts is as short as it can be, so that there is room
/// for it, whatever was around them before.
fn multipart(parts: &[usize], bytes: usize, placeholder: &str) -> String {
    let mut left = Some(placeholder);
    // An empty line, and behind it the placeholder, once, where there is room.
    let mut filled = |bytes: usize| {
        let said = left.take_if(|said| said.len() < bytes).unwrap_or_default();
        format!("\n{said}{}", "x".repeat(bytes - said.len() - 1))
    };
    let mut out = "Content-Type:multipart/;boundary=r\n\n".to_owned();
    for part in parts {
        out.push_str("--r\n");
        if *part > 0 {
            out.push_str(&filled(*part));
            out.push('\n');
        }
    }
    out.push_str("--r--");
    if bytes > out.len() {
        out.push_str(&filled(bytes - out.len()));
    }
    out
}
