//! What stands for user data: something that begins as it began, since that is what tells cloud-init, and us, what it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_messages::recording::PLACEHOLDER;

use super::Secrets;

const BEGINNINGS: [&str; 9] = [
    "## template: jinja",
    "#cloud-config-archive",
    "#cloud-config-jsonp",
    "#cloud-config",
    "#cloud-boothook",
    "#include-once",
    "#include",
    "#part-handler",
    "#!/bin/sh",
];

impl Secrets {
    /// What stands for user data, in base64 as it is given.
    pub(super) fn user_data(&self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let bytes = STANDARD.decode(text.trim()).ok();
        let plain = bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let stands_in = match (plain, &bytes) {
            (None, Some(bytes)) if is_ours(bytes) => return text.to_owned(),
            (None, Some(bytes)) if bytes.starts_with(&[0x1f, 0x8b]) => {
                let mut gzip = vec![0x1f, 0x8b];
                gzip.extend(self.key.placeholder(text).into_bytes());
                return STANDARD.encode(gzip);
            }
            (None, _) => return STANDARD.encode(self.key.placeholder(text)),
            (Some(plain), _) if is_ours(plain.as_bytes()) => return text.to_owned(),
            (Some(plain), _) => self.user_text(plain),
        };
        STANDARD.encode(stands_in)
    }

    fn user_text(&self, plain: &str) -> String {
        let (stands_in, head) = (self.key.placeholder(plain), plain.trim_start().to_ascii_lowercase());
        if let Some(beginning) = BEGINNINGS.iter().find(|beginning| head.starts_with(**beginning)) {
            return format!("{beginning}\n# {stands_in}\n");
        }
        if head.starts_with("#!") {
            return format!("#!/bin/sh\n# {stands_in}\n");
        }
        if head.starts_with("content-type:") || head.starts_with("mime-version:") {
            return multipart(&stands_in);
        }
        stands_in
    }
}

/// Whether these bytes are what [`Secrets::user_data`] has made, and nothing else: a placeholder that stands among other words
/// vouches for none of them.
fn is_ours(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(&[0x1f, 0x8b]).unwrap_or(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Some((_, rest)) = text.split_once(PLACEHOLDER) else { return false };
    let Some(placeholder) = rest.get(..16).map(|hash| format!("{PLACEHOLDER}{hash}")) else { return false };
    if !super::is_placeholder(&placeholder) {
        return false;
    }
    text == placeholder
        || text == multipart(&placeholder)
        || BEGINNINGS.iter().any(|beginning| text == format!("{beginning}\n# {placeholder}\n"))
}

/// Whether user data, as it is given, is what stands in for some.
pub(super) fn is_stand_in(text: &str) -> bool {
    STANDARD.decode(text.trim()).is_ok_and(|bytes| is_ours(&bytes))
}

fn multipart(placeholder: &str) -> String {
    format!(
        "Content-Type: multipart/mixed; boundary=\"{placeholder}\"\nMIME-Version: 1.0\n\n--{placeholder}\n\
         Content-Type: text/x-shellscript\n\n#!/bin/sh\n--{placeholder}--\n"
    )
}
