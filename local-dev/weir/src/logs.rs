//! The log files of a stack's parts, and `weir logs`.
//!
//! Each part writes to its own file itself, so a `weir` that is suspended or slow holds nobody up. The supervisor only
//! sees to it that the files stay small.

use crate::checkout::Checkout;
use crate::record::Record;
use crate::{Exit, say, screen};
use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file that grows beyond this is set aside.
const LARGE: u64 = 32 * 1024 * 1024;
/// At most this much of a file's end is looked at for its last lines.
const TAIL: u64 = 1024 * 1024;

/// Which logs to show.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The part to show, such as `server` or `nats-server`; all of them if not given
    pub part: Option<String>,
    /// Go on showing what is written
    #[arg(short, long)]
    pub follow: bool,
    /// How many lines to show of each part
    #[arg(short = 'n', long, default_value_t = 100, value_name = "COUNT")]
    pub lines: usize,
}

/// Opens a part's log for appending.
pub fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().create(true).append(true).mode(0o600).open(path)
}

/// Sets large logs aside: copied to `….1`, then emptied in place, since their writers keep them open.
pub fn rotate(folder: &Path) {
    for path in list(folder).unwrap_or_default() {
        if fs::metadata(&path).is_ok_and(|about| about.len() > LARGE)
            && fs::copy(&path, path.with_extension("log.1")).is_ok()
        {
            let _ = File::options().write(true).open(&path).and_then(|file| file.set_len(0));
        }
    }
}

/// The last lines of a file, and how long it was then.
pub fn tail(path: &Path, lines: usize) -> std::io::Result<(Vec<String>, u64)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(length - from).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut all: Vec<_> = text.lines().map(str::to_owned).collect();
    Ok((all.split_off(all.len().saturating_sub(lines)), length))
}

fn list(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files: Vec<_> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    files.sort();
    Ok(files)
}

fn part_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// `weir logs`.
pub fn run(checkout: &Checkout, args: &Args) -> anyhow::Result<Exit> {
    let mut files = vec![];
    if let Some(record) = Record::read(&checkout.record())? {
        files = list(&record.places.logs).unwrap_or_default();
    }
    if checkout.supervisor_log().is_file() {
        files.push(checkout.supervisor_log());
    }
    if files.is_empty() {
        bail!("there are no logs: nothing has been started here yet; `weir up` starts a stack");
    }
    if let Some(part) = &args.part {
        let known: Vec<_> = files.iter().map(|path| part_of(path)).collect();
        files.retain(|path| part_of(path) == *part);
        if files.is_empty() {
            bail!("there is no log of {part:?}; there are logs of {}", known.join(", "));
        }
    }
    let width = files.iter().map(|path| part_of(path).len()).max().unwrap_or_default();
    let several = files.len() > 1;
    let show = |part: &str, line: &str| {
        // A log may repeat what others have sent; it must not move the cursor.
        let line = screen::harmless(line, Some('\t'));
        if several { say!("{part:<width$} | {line}") } else { say!("{line}") }
    };
    let mut followed = vec![];
    for path in files {
        let (lines, end) = tail(&path, args.lines).with_context(|| format!("cannot read {}", path.display()))?;
        let part = part_of(&path);
        for line in lines {
            show(&part, &line);
            // Whoever has been reading has seen enough: `weir logs -f | head`.
            if screen::is_lost() {
                return Ok(Exit::Done);
            }
        }
        followed.push((path, part, end));
    }
    if !args.follow {
        return Ok(Exit::Done);
    }
    loop {
        // Nothing tells of a file's growth on every system; this is for eyes, which do not see a fifth of a second.
        std::thread::sleep(Duration::from_millis(200));
        for (path, part, end) in &mut followed {
            for line in grown(path, end).unwrap_or_default() {
                show(part, &line);
                if screen::is_lost() {
                    return Ok(Exit::Done);
                }
            }
        }
    }
}

/// The whole lines written since `end`, which moves behind them.
fn grown(path: &Path, end: &mut u64) -> std::io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    if length < *end {
        *end = 0;
    }
    file.seek(SeekFrom::Start(*end))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    // A line longer than what is read at once is shown in pieces rather than waited for.
    let whole = if whole == 0 && bytes.len() as u64 == TAIL { bytes.len() } else { whole };
    *end += whole as u64;
    Ok(String::from_utf8_lossy(&bytes[..whole]).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    #[test]
    fn following_shows_whole_lines_once_and_starts_over_when_the_file_was_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let mut file = open(&path).unwrap();
        let mut end = 0;
        file.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(grown(&path, &mut end).unwrap(), ["one", "two"]);
        file.write_all(b"ee\n").unwrap();
        assert_eq!(grown(&path, &mut end).unwrap(), ["three"]);
        file.set_len(0).unwrap();
        file.write_all(b"four\n").unwrap();
        assert_eq!(grown(&path, &mut end).unwrap(), ["four"]);
    }

    #[test]
    fn the_tail_of_a_file_is_its_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        fs::write(&path, "1\n2\n3\n").unwrap();
        assert_eq!(tail(&path, 2).unwrap(), (vec!["2".to_owned(), "3".to_owned()], 6));
        assert_eq!(tail(&path, 9).unwrap().0.len(), 3);
    }
}
