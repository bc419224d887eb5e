//! User data as cloud-init reads it: recognised, merged with a managed part, bounded (SSH-3, SSH-4).
//!
//! Intention: a user's data reaches the guest as it was written. With a managed part the two become a MIME multipart, in
//! which the user's comes first.
//!
//! Invariants
//! - Without a managed part nothing is rewritten.
//! - A multipart keeps its parts, in order, byte for byte, with their headers. The managed part is the last.
//! - Nothing here fails but by an [`Error`], whatever the bytes are; the boundary occurs in no part.
//!
//! Caveats: compressed data can be passed on, not added to. cloud-init decodes what stands in a multipart by way of
//! text, which spoils bytes beyond ASCII; a single payload that holds any is therefore sent in base64.

pub mod cloud_config;
mod mime;

use std::fmt;

/// The longest user data that Nova takes, in bytes of base64.
pub const LIMIT: usize = 65_535;

/// Why user data cannot be used. The texts are for the owner of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It begins like nothing that cloud-init knows.
    #[error(
        "userData must be a recognized cloud-init format: unsupported userData format; begin it with #cloud-config, #!, \
         #include, #cloud-boothook, #cloud-config-archive, #part-handler or ## template: jinja, or make it a MIME multipart"
    )]
    Unsupported,
    /// A multipart whose headers cannot be read.
    #[error("userData must be a recognized cloud-init format: unable to parse multipart userData: {0}")]
    Malformed(Malformed),
    /// It is compressed, and a part has to be added.
    #[error(
        "userData is compressed with gzip, so the SSH certificate authority cannot be added to it; give it uncompressed, \
         or set sshInjection to none"
    )]
    Compressed,
    /// It is too long for Nova.
    #[error(
        "userData is too long: with all that is added it comes to {0} bytes of base64, and at most {LIMIT} are possible"
    )]
    TooLong(usize),
}

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
    #[error("it has more than {} parts", mime::MOST_PARTS)]
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
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.content_type())
    }
}

/// What user data is as a whole.
enum Format<'a> {
    Compressed,
    Single(Payload),
    Multipart(mime::Multipart<'a>),
}

fn format(data: &[u8]) -> Result<Format<'_>, Error> {
    if data.starts_with(&[0x1f, 0x8b]) {
        return Ok(Format::Compressed);
    }
    if let Some(payload) = Payload::of(data) {
        return Ok(Format::Single(payload));
    }
    match mime::Multipart::parse(data).map_err(Error::Malformed)? {
        Some(multipart) => Ok(Format::Multipart(multipart)),
        None => Err(Error::Unsupported),
    }
}

/// A part that Weir adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// Its file name, by which it is told from others.
    pub filename: &'static str,
    /// A cloud-config, in ASCII.
    pub cloud_config: String,
}

/// What Nova is given: the user's data, the managed part, or both; `None` if there is neither.
///
/// # Errors
/// Data that cloud-init would not know, data that cannot be added to, and data that is too long (SSH-4).
pub fn merge(user: &[u8], managed: Option<&Managed>) -> Result<Option<Vec<u8>>, Error> {
    // Refused before it is read closely: what is too long alone does not get shorter.
    check_length(user.len())?;
    let merged = match (user.is_empty(), managed) {
        (true, None) => return Ok(None),
        (true, Some(managed)) => managed.cloud_config.clone().into_bytes(),
        (false, None) => {
            format(user)?;
            user.to_vec()
        }
        (false, Some(managed)) => match format(user)? {
            Format::Compressed => return Err(Error::Compressed),
            Format::Single(payload) => mime::write(&[mime::part(payload, user)], managed),
            Format::Multipart(multipart) => mime::write(&multipart.parts, managed),
        },
    };
    check_length(merged.len())?;
    Ok(Some(merged))
}

fn check_length(bytes: usize) -> Result<(), Error> {
    let encoded = bytes.div_ceil(3).saturating_mul(4);
    if encoded > LIMIT { Err(Error::TooLong(encoded)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
