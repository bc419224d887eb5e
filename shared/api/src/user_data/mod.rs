//! The formats of user data, as cloud-init tells them apart (SSH-3): who makes servers goes by them, and so does whoever has to put
//! something else of the same format in place of user data.
//!
//! Invariants: nothing here fails but by [`Unreadable`], whatever the bytes are; the time is linear in their number.

mod mime;

use std::fmt;

pub use mime::{MOST_PARTS, Multipart};

/// The longest user data that Nova takes, in bytes of base64.
pub const LIMIT: usize = 65_535;

/// What is wrong with a multipart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A line among the headers is no header.
    #[error("a line among its headers is not of the form `Name: value`")]
    Header,
    /// It does not say what separates its parts.
    #[error("boundary missing in its Content-Type")]
    Boundary,
    /// It ends before its last part does.
    #[error("it ends before its closing boundary")]
    Truncated,
    /// It has more parts than anybody needs.
    #[error("it has more than {MOST_PARTS} parts")]
    Parts,
}

/// What a payload is, by how it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// cloud-config with values filled in by a template.
    Jinja,
    /// A list of patches to a cloud-config.
    CloudConfigPatch,
    /// Several payloads in a YAML list.
    CloudConfigArchive,
    /// cloud-config.
    CloudConfig,
    /// A script, run early at each boot.
    Boothook,
    /// A script.
    Script,
    /// URLs to read once.
    IncludeOnce,
    /// URLs to read.
    Include,
    /// A handler for further types.
    PartHandler,
}

/// How each payload begins. A beginning stands before those that it begins with.
const BEGINNINGS: [(&str, Payload); 9] = [
    ("## template: jinja", Payload::Jinja),
    ("#cloud-config-archive", Payload::CloudConfigArchive),
    ("#cloud-config-jsonp", Payload::CloudConfigPatch),
    ("#cloud-config", Payload::CloudConfig),
    ("#cloud-boothook", Payload::Boothook),
    ("#include-once", Payload::IncludeOnce),
    ("#include", Payload::Include),
    ("#part-handler", Payload::PartHandler),
    ("#!", Payload::Script),
];

impl Payload {
    /// The payload that `text` begins like. As in cloud-init, blanks before it and the case of letters do not matter.
    pub fn of(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii_start();
        let begins = |with: &str| text.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with.as_bytes()));
        BEGINNINGS.into_iter().find(|(with, _)| begins(with)).map(|(_, payload)| payload)
    }

    /// The type by which cloud-init knows it inside a multipart. A template's is its own: the predecessor's `text/jinja` is
    /// none that cloud-init acts on.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Jinja => "text/jinja2",
            Self::CloudConfigPatch => "text/cloud-config-jsonp",
            Self::CloudConfigArchive => "text/cloud-config-archive",
            Self::CloudConfig => "text/cloud-config",
            Self::Boothook => "text/cloud-boothook",
            Self::Script => "text/x-shellscript",
            Self::IncludeOnce => "text/x-include-once-url",
            Self::Include => "text/x-include-url",
            Self::PartHandler => "text/part-handler",
        }
    }

    /// How it begins.
    pub fn beginning(self) -> &'static str {
        BEGINNINGS.into_iter().find(|(_, payload)| *payload == self).map_or_else(Default::default, |(with, _)| with)
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.content_type())
    }
}

/// What user data is as a whole.
pub enum Format<'a> {
    /// Compressed with gzip; what is inside is not looked at.
    Compressed,
    /// One payload.
    Single(Payload),
    /// Several, in MIME.
    Multipart(Multipart<'a>),
}

/// Why user data is in none of the formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It begins like nothing that cloud-init knows.
    Unsupported,
    /// A multipart that cannot be taken apart.
    Malformed(Malformed),
}

/// In which format `data` is.
///
/// # Errors
/// Data that cloud-init would not know.
pub fn format(data: &[u8]) -> Result<Format<'_>, Unreadable> {
    if data.starts_with(&[0x1f, 0x8b]) {
        return Ok(Format::Compressed);
    }
    if let Some(payload) = Payload::of(data) {
        return Ok(Format::Single(payload));
    }
    match Multipart::parse(data).map_err(Unreadable::Malformed)? {
        Some(multipart) => Ok(Format::Multipart(multipart)),
        None => Err(Unreadable::Unsupported),
    }
}
