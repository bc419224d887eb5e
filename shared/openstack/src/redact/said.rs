//! What user data says that is secret, beyond values behind names: what is said to programs, and lines that carry a value, which are
//! quoted as a whole by whoever cannot read them.
//!
//! It is known that the text is user data, so it takes more than [`super::values`] does of any text: nothing is taken out of what it
//! is found in.

use super::names::{Field, field};
use super::sentences::is_credible;
use super::values::SHORTEST;

/// So many lines at most are said to a program that sets passwords.
const MOST_PASSWORDS: usize = 512;
/// A shorter line is not looked for by itself, in bytes.
pub(super) const SHORTEST_LINE: usize = 8;

/// Hands on what is said to programs: behind a flag, to `curl -u`, to `chpasswd`.
pub fn said<'a>(text: &'a str, mut take: impl FnMut(&'a str)) {
    arguments(text, &mut take);
    passwords(text, &mut take);
}

/// The lines that carry a value, and the assignments in them: none that says no more than what is to be done.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let trimmed = text.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE && carries(line));
    trimmed.flat_map(|line| {
        let words = line.split_whitespace().filter(move |word| word.len() < line.len() && assigns(word));
        std::iter::once(line).chain(words)
    })
}

fn carries(line: &str) -> bool {
    if line.starts_with("#!") {
        return false;
    }
    let parts = |word| str::split(word, ['=', ':', '"', '\'', ',', ';', '(', ')', '[', ']', '{', '}', '|', '#']);
    line.split_whitespace().any(|word| assigns(word) || parts(word).any(is_credible))
}

/// Whether a word is `NAME=value`, and the value no path and no reference.
fn assigns(word: &str) -> bool {
    word.len() >= SHORTEST_LINE
        && word.split_once('=').is_some_and(|(name, value)| {
            let value = value.trim_matches(['"', '\'']);
            !name.is_empty() && value.len() >= SHORTEST && !value.starts_with(['/', '$'])
        })
}

/// Behind a telling name, or the name of a flag: `--password x`, `password x`, `-u me:x`.
fn arguments<'a>(text: &'a str, take: &mut impl FnMut(&'a str)) {
    let mut before = "";
    for word in text.split_whitespace() {
        let word = word.trim_matches(['"', '\'', ',', ';', '[', ']']);
        let flag = before.starts_with('-');
        if matches!(before, "-u" | "--user") {
            if let Some((_, password)) = word.split_once(':') {
                take(password);
            }
        } else if !word.starts_with('-')
            && (flag || word.bytes().any(|b| !b.is_ascii_lowercase()))
            && !before.contains(['=', ':'])
            && field(before) == Field::Secret
        {
            take(word);
        }
        before = word;
    }
}

/// What is said to `chpasswd`, as a program or as a part of a cloud-config: `name:password`, in its line and in those that follow.
fn passwords<'a>(text: &'a str, take: &mut impl FnMut(&'a str)) {
    let mut left = 0;
    for line in text.lines() {
        if line.contains("chpasswd") {
            left = MOST_PASSWORDS;
        }
        if left == 0 {
            continue;
        }
        left -= 1;
        for word in line.split(|c: char| c.is_whitespace() || "\"'{}[],|".contains(c)) {
            let is_name = |name: &str| {
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-$".contains(&b))
            };
            if let Some((_, password)) = word.split_once(':').filter(|(user, _)| is_name(user)) {
                take(password);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: R-2
    #[test]
    fn lines_that_carry_a_value_are_told_from_those_that_carry_none() {
        for (line, expected) in [
            ("  export DBX=Horse.Papaya", vec!["export DBX=Horse.Papaya", "DBX=Horse.Papaya"]),
            ("/opt/enrol.sh Horse-kiwi3f2a now", vec!["/opt/enrol.sh Horse-kiwi3f2a now"]),
            ("content: Tulip!mango", vec!["content: Tulip!mango"]),
            ("list: 'root:hunter2it'", vec!["list: 'root:hunter2it'"]),
            ("apt-get install -y nginx", vec![]),
            ("- path: /etc/x.env", vec![]),
            ("expire: false", vec![]),
            ("#!/usr/bin/env python3", vec![]),
            ("#cloud-config", vec![]),
            ("# see https://example.com/docs", vec![]),
            ("export PATH=/usr/bin HOME=$HOME", vec![]),
        ] {
            assert_eq!(lines(line).collect::<Vec<_>>(), expected, "{line}");
        }
    }
}
