//! Parts of MIME, written (RFC 2045, RFC 2046).

use super::Managed;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use weir_api::user_data::Payload;

/// A payload as a part.
pub fn part(payload: Payload, body: &[u8]) -> Cow<'static, [u8]> {
    let mut part =
        format!("Content-Type: {}; charset=\"utf-8\"\r\nMIME-Version: 1.0\r\n", payload.content_type()).into_bytes();
    if body.is_ascii() {
        part.extend_from_slice(b"\r\n");
        part.extend_from_slice(body);
    } else {
        part.extend_from_slice(b"Content-Transfer-Encoding: base64\r\n\r\n");
        // Lines of MIME are at most 76 characters long.
        for line in STANDARD.encode(body).as_bytes().chunks(76) {
            part.extend_from_slice(line);
            part.extend_from_slice(b"\r\n");
        }
    }
    Cow::Owned(part)
}

/// A multipart of these parts and the managed one.
pub fn write(parts: &[Cow<'_, [u8]>], managed: &Managed) -> Vec<u8> {
    let last = format!(
        "Content-Type: {}; charset=\"us-ascii\"\r\nMIME-Version: 1.0\r\nContent-Disposition: attachment; filename=\"{}\"\r\n\r\n{}",
        Payload::CloudConfig,
        managed.filename,
        managed.cloud_config,
    );
    let parts = || parts.iter().map(AsRef::as_ref).chain([last.as_bytes()]);
    let boundary = boundary(|candidate| parts().any(|part| contains(part, candidate.as_bytes())));
    let head = format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\nMIME-Version: 1.0\r\n\r\n");
    let mut out = head.into_bytes();
    for part in parts() {
        out.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    out
}

/// The first boundary that is not taken. Always the same one for the same data, so that a repeated create is the same
/// request; there is one, because data of bounded length holds only so many.
fn boundary(taken: impl Fn(&str) -> bool) -> String {
    let mut boundary = "==weir-part==".to_owned();
    let mut number = 0_u32;
    while taken(&boundary) {
        number = number.wrapping_add(1);
        boundary = format!("==weir-part-{number}==");
    }
    boundary
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}
