//! Output for people: lines, and beneath them a table that is drawn anew as it changes.
//!
//! On a terminal the table stays at the bottom and lines scroll above it. Elsewhere there is no table, only lines. What
//! comes from outside is cleaned first: a status message must not move the cursor.
//!
//! Invariant: whatever goes to standard output goes through [`put`], but for a file that `weir export` writes there and clap's help, so
//! that all commands end alike when it takes no more. A reader
//! that has gone away is no failure and is not spoken of; anything else, a full disk, is one. A command that does nothing but show
//! ends at once then ([`lost`]); one that does something does all of it first ([`settled`]).

use crate::Exit;
use anyhow::anyhow;
use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::OnceLock;
use tokio::sync::Notify;

/// The first failure to write to standard output.
static LOST: OnceLock<io::Error> = OnceLock::new();
/// Tells of it.
static LOSS: Notify = Notify::const_new();

/// Prints a line to standard output.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => {
        $crate::screen::put(format_args!("{}\n", format_args!($($arg)*)))
    };
}

/// The same to standard error, where nothing can be done about a failure.
#[macro_export]
macro_rules! complain {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($arg)*);
    }};
}

/// Writes to standard output. That it takes no more is remembered for [`settled`].
pub fn put(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        lose(error);
    }
}

/// Remembers that standard output takes no more.
pub fn lose(error: io::Error) {
    if LOST.set(error).is_ok() {
        LOSS.notify_one();
    }
}

/// Whether standard output has failed to take something.
pub fn is_lost() -> bool {
    LOST.get().is_some()
}

/// Returns once standard output has failed to take something, to the first who waits.
pub async fn lost() {
    LOSS.notified().await;
}

/// How a command has ended, once what has become of its output is considered, too.
pub fn settled(ended: anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    match LOST.get() {
        Some(error) if !is_gone(error) => ended.and_then(|_| Err(anyhow!("cannot write to standard output: {error}"))),
        _ => ended,
    }
}

/// Whether it is only that nobody reads any longer.
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// How a piece of text is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// Less important.
    Faint,
    /// Going on.
    Busy,
    /// Well.
    Good,
    /// Not well.
    Bad,
}

/// Standard output.
pub struct Screen {
    live: bool,
    colour: bool,
    table: Vec<String>,
}

impl Screen {
    /// Standard output as it is: a terminal or not.
    pub fn new() -> Self {
        let terminal = io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { live: terminal, colour, table: vec![] }
    }

    /// Whether a table can be redrawn.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The text in the colour of its tone.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            _ if !self.colour => return text.to_owned(),
            Tone::Faint => "2",
            Tone::Busy => "33",
            Tone::Good => "32",
            Tone::Bad => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A line, above the table if there is one.
    pub fn line(&mut self, text: &str) {
        let drawing = format!("{}{text}\n{}", self.erasure(), rows(&self.table));
        put(format_args!("{drawing}"));
    }

    /// Puts this table in the place of the one before.
    pub fn draw(&mut self, table: Vec<String>) {
        if self.live && table != self.table {
            put(format_args!("{}{}", self.erasure(), rows(&table)));
            self.table = table;
        }
    }

    /// Leaves the table where it is; what comes next goes below it.
    pub fn leave(&mut self) {
        self.table.clear();
    }

    fn erasure(&self) -> String {
        if self.table.is_empty() { String::new() } else { format!("\x1b[{}A\r\x1b[J", self.table.len()) }
    }
}

/// The rows of a table, each cut off at the terminal's edge, so that a row is always one line to go back over.
fn rows(table: &[String]) -> String {
    table.iter().flat_map(|row| ["\x1b[?7l", row, "\x1b[?7h\n"]).collect()
}

/// Text from outside in one harmless line of bounded length.
pub fn clean(text: &str) -> String {
    const LONG: usize = 300;
    let end = text.char_indices().nth(LONG).map(|(end, _)| end);
    let mut clean = harmless(&text[..end.unwrap_or(text.len())], None);
    if end.is_some() {
        clean.push('…');
    }
    clean
}

/// Text from outside, of which nothing moves the cursor but a character that is `kept`.
pub fn harmless(text: &str, kept: Option<char>) -> String {
    text.chars().map(|c| if c.is_control() && Some(c) != kept { ' ' } else { c }).collect()
}

/// Asks on the terminal, and takes for a no whatever is not a yes.
pub fn asked(question: &str) -> anyhow::Result<bool> {
    answered(question, &mut io::stdin().lock(), &mut io::stderr())
}

fn answered(question: &str, input: &mut impl BufRead, out: &mut impl Write) -> anyhow::Result<bool> {
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// A table of text with its columns aligned and two spaces between them. The last column is not padded.
pub fn align(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let pad = |cell: &String, width: usize| format!("{cell}{}", " ".repeat(width.saturating_sub(cell.chars().count())));
    rows.iter()
        .map(|row| {
            let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| pad(cell, *width)).collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect()
}

/// A span of time, short.
pub fn span(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=59 => format!("{:.1} s", time.as_secs_f64()),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A path that a shell takes as one word.
pub fn quoted(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    /// Proves: R-4
    #[test]
    fn only_a_yes_is_a_yes() {
        let said = |answer: &str| {
            let mut out = vec![];
            let yes = answered("Publish 3 events again?", &mut answer.as_bytes(), &mut out).unwrap();
            assert_eq!(out, b"Publish 3 events again? [y/N] ");
            yes
        };
        assert!(said("y\n") && said("YES\n") && said(" yes \n"));
        assert!(!said("") && !said("\n") && !said("n\n") && !said("yesterday\n"));
    }

    #[test]
    fn text_from_outside_cannot_move_the_cursor_or_flood_the_screen() {
        assert_eq!(clean("a\x1b[2Jb\r\nc"), "a [2Jb  c");
        assert_eq!(clean(&"x".repeat(1000)).chars().count(), 301);
    }

    #[test]
    fn columns_line_up_by_characters() {
        let rows = [vec!["é".into(), "b".into()], vec!["long".into(), String::new()]];
        assert_eq!(align(&rows), ["é     b", "long"]);
    }

    #[test]
    fn spans_are_told_in_two_units_at_most() {
        for (seconds, text) in [(0, "0.0 s"), (75, "1 min 15 s"), (7260, "2 h 1 min"), (90_000, "1 d 1 h")] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }
}
