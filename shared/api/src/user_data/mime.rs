//! The little of MIME that cloud-init's user data uses, read: a multipart's headers, boundary and parts (RFC 2045, RFC 2046).
//!
//! Invariants: parts are slices of what was read, never rewritten; lines end in LF or CRLF; everything is linear in the
//! length of the data.

use super::Malformed;

/// More parts than this are refused.
pub const MOST_PARTS: usize = 1000;

/// A multipart, taken apart.
pub struct Multipart<'a> {
    /// Each part: its headers, an empty line, its body.
    pub parts: Vec<&'a [u8]>,
}

impl<'a> Multipart<'a> {
    /// Takes `data` apart. `None` if it does not begin with MIME headers, or they say that it is no multipart.
    pub(super) fn parse(data: &'a [u8]) -> Result<Option<Self>, Malformed> {
        if Lines(data).next().is_none_or(|line| field_name(line.text).is_none()) {
            return Ok(None);
        }
        let (fields, body) = headers(data)?;
        let content_type = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let Some((_, value)) = content_type else {
            return Ok(None);
        };
        if !value.get(..10).is_some_and(|kind| kind.eq_ignore_ascii_case("multipart/")) {
            return Ok(None);
        }
        let boundary = parameter(value, "boundary").filter(|b| !b.is_empty()).ok_or(Malformed::Boundary)?;
        let parts = split(body, boundary.as_bytes())?;
        for part in &parts {
            headers(part)?;
        }
        Ok(Some(Self { parts }))
    }
}

/// A line, with and without its end.
#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a [u8],
    whole: usize,
}

/// The lines of a text.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let whole = self.0.iter().position(|b| *b == b'\n').map_or(self.0.len(), |at| at + 1);
        let (line, rest) = self.0.split_at(whole);
        self.0 = rest;
        Some(Line { text: without_end(line), whole })
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The name of a header field, if the line begins one: printable, no blank, no colon (RFC 5322).
fn field_name(line: &[u8]) -> Option<&str> {
    let colon = line.iter().position(|b| *b == b':')?;
    let name = &line[..colon];
    let plain = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    plain.then(|| std::str::from_utf8(name).ok()).flatten()
}

/// Header fields: name and value.
type Fields<'a> = Vec<(&'a str, String)>;

/// The header fields, folded lines joined, and what comes after the empty line.
fn headers(data: &[u8]) -> Result<(Fields<'_>, &[u8]), Malformed> {
    let mut fields = Fields::new();
    let mut at = 0;
    for line in Lines(data) {
        at += line.whole;
        if line.text.is_empty() {
            return Ok((fields, &data[at..]));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
        if matches!(line.text[0], b' ' | b'\t') {
            let (_, value) = fields.last_mut().ok_or(Malformed::Header)?;
            value.push(' ');
            value.push_str(&text(line.text));
        } else {
            let name = field_name(line.text).ok_or(Malformed::Header)?;
            fields.push((name, text(&line.text[name.len() + 1..])));
        }
    }
    // Headers and no body: a part may be so.
    Ok((fields, &[]))
}

/// A parameter of a header such as `multipart/mixed; boundary="a b"`.
fn parameter(value: &str, wanted: &str) -> Option<String> {
    let mut rest = value.split_once(';')?.1;
    loop {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (content, next) = if let Some(quoted) = after.strip_prefix('"') {
            unquote(quoted)?
        } else {
            let end = after.find(';').unwrap_or(after.len());
            (after[..end].trim_end().to_owned(), &after[end..])
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(content);
        }
        rest = next.trim_start().strip_prefix(';')?;
    }
}

/// What stands before the closing quote, and what comes after it.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut content = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((content, &quoted[at + 1..])),
            '\\' => content.push(characters.next()?.1),
            _ => content.push(c),
        }
    }
    None
}

/// The parts between the lines that begin with the boundary. What comes before the first and after the last is dropped,
/// as by every reader of MIME.
fn split<'a>(body: &'a [u8], boundary: &[u8]) -> Result<Vec<&'a [u8]>, Malformed> {
    let mut parts = Vec::new();
    let mut begun: Option<usize> = None;
    let mut at = 0;
    for line in Lines(body) {
        let here = at;
        at += line.whole;
        let Some(after) = line.text.strip_prefix(b"--").and_then(|text| text.strip_prefix(boundary)) else {
            continue;
        };
        let closing = after.trim_ascii_end() == b"--";
        if !closing && !after.trim_ascii_end().is_empty() {
            continue; // Another boundary, which begins like ours.
        }
        if let Some(from) = begun {
            // The line end before the boundary belongs to the boundary.
            parts.push(without_end(&body[from..here.max(from)]));
            if parts.len() > MOST_PARTS {
                return Err(Malformed::Parts);
            }
        }
        if closing {
            return Ok(parts);
        }
        begun = Some(at);
    }
    Err(Malformed::Truncated)
}
