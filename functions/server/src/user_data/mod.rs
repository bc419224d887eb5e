//! User data as Nova is given it: merged with a managed part, bounded (SSH-3, SSH-4). Its formats are told apart in
//! [`weir_api::user_data`].
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

use std::borrow::Cow;

use weir_api::user_data::{Format, LIMIT, Malformed, Unreadable, format};

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

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Unsupported => Self::Unsupported,
            Unreadable::Malformed(malformed) => Self::Malformed(malformed),
        }
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
            Format::Multipart(multipart) => {
                mime::write(&multipart.parts.into_iter().map(Cow::Borrowed).collect::<Vec<_>>(), managed)
            }
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
mod recorded;
#[cfg(test)]
mod tests;
