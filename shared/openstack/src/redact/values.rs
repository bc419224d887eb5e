//! Values in free text that are secrets by the name before them: `'password': 'x'`, `token=x`, `X-Auth-Token: x`, a line of YAML, an
//! element of XML; passwords in URLs; and by the words around them or their looks, which `sentences` and `tokens` find.
//!
//! Error messages like to quote the request that they refuse, and user data is full of such lines. Nobody can say for sure where
//! such a value ends; rather too much is taken than too little.
//!
//! Every text of every body comes by here, so most are told by one quick look at their bytes.

use std::ops::Range;

use super::names::{Field, field};
use super::{sentences, tokens};

/// A shorter word in the middle of a sentence is not taken for a value, in bytes.
pub(super) const SHORTEST: usize = 6;

/// What each byte is a mark of: of signs, of blanks; then, a bit for each, of the pairs of bytes that tokens and sentences of secrets
/// have, those of which it is the first, and [`PAIRS`] bits further on those of which it is the second.
const MARKS: [u64; 256] = {
    let mut marks = [0; 256];
    marks[b':' as usize] = SIGN;
    marks[b'=' as usize] = SIGN;
    marks[b'>' as usize] = SIGN;
    marks[b' ' as usize] = BLANK;
    marks[b'\n' as usize] = BLANK;
    marks[b'\t' as usize] = BLANK;
    let mut at = 0;
    while at < tokens::PAIRS.len() {
        let [first, second] = *tokens::PAIRS[at];
        marks[first as usize] |= 1 << (FIRST + at);
        marks[second as usize] |= 1 << (FIRST + PAIRS + at);
        at += 1;
    }
    let mut at = 0;
    while at < sentences::PAIRS.len() {
        let [first, second] = *sentences::PAIRS[at];
        let bit = FIRST + tokens::PAIRS.len() + at;
        marks[first as usize] |= 1 << bit;
        marks[first.to_ascii_uppercase() as usize] |= 1 << bit;
        marks[second as usize] |= 1 << (bit + PAIRS);
        marks[second.to_ascii_uppercase() as usize] |= 1 << (bit + PAIRS);
        at += 1;
    }
    marks
};
const SIGN: u64 = 1;
const BLANK: u64 = 2;
/// The bit of the first pair.
const FIRST: usize = 2;
const PAIRS: usize = tokens::PAIRS.len() + sentences::PAIRS.len();

/// What a text has marks of.
#[allow(clippy::struct_excessive_bools, reason = "each is asked by itself")]
struct Look {
    sign: bool,
    blank: bool,
    token: bool,
    sentence: bool,
}

impl Look {
    fn at(text: &str) -> Self {
        let (mut any, mut pairs, mut before) = (0, 0, 0_u64);
        for byte in text.bytes() {
            let marks = MARKS[usize::from(byte)];
            any |= marks;
            pairs |= (before << PAIRS) & marks;
            before = marks;
        }
        let pairs = pairs >> (FIRST + PAIRS);
        let (token, sentence) = (pairs & ((1 << tokens::PAIRS.len()) - 1), pairs >> tokens::PAIRS.len());
        Self { sign: any & SIGN != 0, blank: any & BLANK != 0, token: token != 0, sentence: sentence != 0 }
    }
}

/// The places of the values, in order, none of them empty.
pub fn values(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let look = Look::at(text);
    if look.sign {
        signs(text, &mut found);
    }
    let signs = found.len();
    if look.blank && (look.sentence || text.starts_with('-')) {
        sentences::sentences(text, &mut found);
    }
    if look.blank && text.len() >= tokens::SHORTEST_BLOCK {
        tokens::blocks(text, &mut found);
    }
    if look.token && text.len() >= tokens::SHORTEST {
        tokens::tokens(text, &mut found);
    }
    if found.len() > signs { in_order(found) } else { found }
}

/// The same, in order, those that overlap as one.
fn in_order(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_unstable_by_key(|at| at.start);
    let mut out: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for at in found {
        match out.last_mut() {
            Some(last) if at.start < last.end => last.end = last.end.max(at.end),
            _ => out.push(at),
        }
    }
    out
}

/// Adds the places of the values behind signs.
fn signs(text: &str, found: &mut Vec<Range<usize>>) {
    let mut next = 0;
    let is_sign = |byte: &u8| MARKS[usize::from(*byte)] & SIGN != 0;
    while let Some(at) = text.as_bytes()[next..].iter().position(is_sign).map(|at| next + at) {
        next = at + 1;
        let before = text[..at].trim_end_matches([' ', '"', '\'', '\\', '`', ']']);
        let name_at = before
            .rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        if field(&before[name_at..]) == Field::Plain {
            continue;
        }
        let value =
            if text.as_bytes()[at] == b'>' { element(text, &before[..name_at], at) } else { value(text, name_at, at) };
        if let Some(value) = value
            && !matches!(&text[value.clone()], "" | "null" | "None" | "true" | "false" | "True" | "False")
        {
            next = value.end;
            found.push(value);
        }
    }
}

/// What stands in an element of XML, behind its first tag, which ends at `at`.
fn element(text: &str, before: &str, at: usize) -> Option<Range<usize>> {
    let rest = &text[at + 1..];
    before.ends_with('<').then(|| at + 1..at + 1 + rest.find('<').unwrap_or(rest.len()))
}

/// The value behind the colon or equals sign at `at`, of a name that begins at `name_at`.
fn value(text: &str, name_at: usize, at: usize) -> Option<Range<usize>> {
    // Of Ruby's `=>` and Go's `:=` both are signs.
    let at = if matches!(text.as_bytes().get(at + 1), Some(b'>' | b'=')) { at + 1 } else { at };
    let rest = &text[at + 1..];
    let blank = |c: char| c == ' ' || c == '\t';
    let mut from = at + 1 + (rest.len() - rest.trim_start_matches(blank).len());
    // Python writes u'…' and b'…'.
    let quoted =
        text[from..].trim_start_matches('\\').strip_prefix(['u', 'b']).filter(|rest| rest.starts_with(['\'', '"']));
    if let Some(quoted) = quoted {
        from = text.len() - quoted.len();
    }
    let escapes = text[from..].bytes().take_while(|b| *b == b'\\').count();
    if let Some(quote) = text[from + escapes..].chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let open = from + escapes + 1;
        // Python and TOML quote by three as well.
        let three = ["\"\"\"", "'''"].into_iter().find(|three| escapes == 0 && text[from..].starts_with(three));
        if let Some(three) = three {
            let open = from + three.len();
            return Some(open..text[open..].find(three).map_or(text.len(), |at| open + at));
        }
        return Some(open..close(text, open, quote, escapes));
    }
    let rest = &text[from..];
    let word = || {
        let end = rest.find(|c: char| c.is_whitespace() || "&;,\"'<>)}]\\".contains(c)).unwrap_or(rest.len());
        from..from + end
    };
    if matches!(text.as_bytes()[at], b'=' | b'>') {
        // A tag: nothing but a name and its value, which may have blanks in it.
        let is_all = name_at == 0 && !rest.contains(['&', ';', ',', '\n', '"', '\'']);
        return Some(if is_all { from..text.len() } else { word() });
    }
    if rest.starts_with(['{', '[']) {
        // What is in there has names of its own.
        return None;
    }
    let line_at = text[..name_at].rfind('\n').map_or(0, |at| at + 1);
    let indent = text[line_at..name_at].trim_end_matches(['"', '\'']);
    if !indent.chars().all(|c| c == ' ' || c == '\t' || c == '-' || c == '>') {
        // In the middle of a sentence: a word, if it is none of a language.
        let word = word();
        let odd = text[word.clone()].bytes().any(|b| !b.is_ascii_alphabetic() && b != b'.');
        return (odd && word.len() >= SHORTEST).then_some(word);
    }
    let line_end = rest.find('\n').map_or(text.len(), |end| from + end);
    let line = text[from..line_end].trim_end();
    if matches!(line.trim_end_matches(['-', '+', '1', '2', '4']), "|" | ">") {
        return Some(from..block_end(text, line_end, indent.len()));
    }
    Some(from..from + line.len())
}

/// Where a quoted text ends that begins at `open`, behind a quote with so many backslashes before it: at the next such.
pub(super) fn close(text: &str, open: usize, quote: char, escapes: usize) -> usize {
    let mut slashes = 0;
    for (at, c) in text[open..].char_indices() {
        match c {
            '\\' => slashes += 1,
            // With more backslashes it is a part of the text; with fewer, what it was in has ended.
            c if c == quote && slashes <= escapes => return open + at - slashes,
            _ => slashes = 0,
        }
        if c == quote {
            slashes = 0;
        }
    }
    text.len()
}

/// Where a block of YAML ends whose first line ends at `line_end`: before the next line that is not indented further.
fn block_end(text: &str, line_end: usize, indent: usize) -> usize {
    let mut end = line_end;
    while end < text.len() {
        let from = end + 1;
        let until = text[from.min(text.len())..].find('\n').map_or(text.len(), |at| from + at);
        let line = &text[from.min(text.len())..until];
        let spaces = line.len() - line.trim_start_matches(' ').len();
        if !line.trim().is_empty() && spaces <= indent {
            break;
        }
        end = until;
    }
    end
}

/// Where passwords stand before hosts, as in `https://me:password@host/`; a name alone may be a token.
pub fn userinfo(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    // Cheap: most texts have none.
    if !text.contains('@') {
        return found;
    }
    while let Some(at) = text[from..].find("://") {
        let host = from + at + "://".len();
        let end = text[host..]
            .find(|c: char| c.is_whitespace() || "/?#\"'<>\\".contains(c))
            .map_or(text.len(), |at| host + at);
        from = host;
        if let Some(at) = text[host..end].rfind('@').map(|at| host + at) {
            let password = text[host..at].find(':').map_or(host, |colon| host + colon + 1);
            if password < at {
                found.push(password..at);
            }
            from = at;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str) -> String {
        let mut out = text.to_owned();
        for value in values(text).into_iter().rev() {
            out.replace_range(value, "*");
        }
        out
    }

    /// Proves: OSC-13, R-2
    #[test]
    fn values_end_where_their_quotes_lines_or_words_do() {
        for (text, expected) in [
            (
                r"Invalid: {'name': 'x', 'password': 'hunter2 it', 'y': 1}",
                r"Invalid: {'name': 'x', 'password': '*', 'y': 1}",
            ),
            (r#"{"password": "a\"b", "z": "c"}"#, r#"{"password": "*", "z": "c"}"#),
            (r#"in a string {\"secret\": \"hunter\\\"2\", \"z\": 1}"#, r#"in a string {\"secret\": \"*\", \"z\": 1}"#),
            ("adminPass=u'hunter2'", "adminPass=u'*'"),
            (r#"{"password": "open"#, r#"{"password": "*"#),
            ("grant_type=password&password=hunter2&x=1", "grant_type=password&password=*&x=1"),
            ("the password is too short; a token: none", "the password is too short; a token: none"),
            ("refused, X-Auth-Token: gAAAA1_-x, again", "refused, X-Auth-Token: *, again"),
            ("Authorization: Basic bWU6aA==\nAccept: */*", "Authorization: *\nAccept: */*"),
            ("a:\n  - password: correct horse\n    x: 1", "a:\n  - password: *\n    x: 1"),
            ("password: |\n  one\n  two\nuser: me", "password: *\nuser: me"),
            ("password: |\n  one\n\n  two", "password: *"),
            ("token: {id: x}", "token: {id: x}"),
            ("password:", "password:"),
            ("é'password'=é", "é'password'=*"),
            ("db_password=correct horse", "db_password=*"),
            ("db-password:correct horse", "db-password:*"),
            ("export A_TOKEN=abc B=c", "export A_TOKEN=* B=c"),
            ("user[password]=abc&user[name]=x", "user[password]=*&user[name]=x"),
            ("{'password' => 'abc', 'x' => 'y'}", "{'password' => '*', 'x' => 'y'}"),
            ("password := \"abc\"", "password := \"*\""),
            ("password = \"\"\"two\nlines\"\"\"\nx = 1", "password = \"\"\"*\"\"\"\nx = 1"),
            ("password: '''two \"of\" them", "password: '''*"),
            ("password = \"\"", "password = \"\""),
            (
                "an Authorization: Bearer tok-3n, and token a1b2c3d4e5 is no ghp_0123456789abcdefghij",
                "an Authorization: Bearer *, and token * is no *",
            ),
            ("Authorization: Bearer tok-3n\nX: Bearer tok-4n", "Authorization: *\nX: Bearer *"),
            ("a ghp_0123456789abcdefghij: password=abcdef", "a *: password=*"),
            ("<a><password>abc</password><name>x</name></a>", "<a><password>*</password><name>x</name></a>"),
            ("a password> abc", "a password> abc"),
            ("https://h/x?temp_url_sig=abc&temp_url_expires=12", "https://h/x?temp_url_sig=*&temp_url_expires=12"),
            ("key_name=abc public_key: def", "key_name=abc public_key: def"),
        ] {
            assert_eq!(without(text), expected, "{text}");
        }
    }
    /// Proves: OSC-13, R-2
    #[test]
    fn passwords_before_hosts_are_found() {
        for (text, password) in [
            ("nats://me:a@b:c@host:4222/x", Some("a@b:c")),
            ("https://token@host", Some("token")),
            ("https://host/me@x", None),
            ("me@host ://", None),
        ] {
            let found: Vec<&str> = userinfo(text).into_iter().map(|at| &text[at]).collect();
            assert_eq!(found, Vec::from_iter(password), "{text}");
        }
    }
}
