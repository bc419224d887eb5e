//! Files of recorded calls: `weir export` writes them; `weir replay file`, `weir import` and tests read them.
//!
//! Intention: a file may hold all that a stream held. So it is written and read call by call, and no more than one of them is in
//! memory at a time.
//!
//! Invariants
//! - A file of any earlier release opens; so does a file of a single recording. One of a form from the future is refused by name.
//! - Whatever is in a file, no more memory is taken for it than a recording, or all objects and events, may be large.
//! - What is made of it in another stack is no more than `weir export` could have written ([`Rest::checked`]): a file may come from anybody.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::rc::Rc;

use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weir_messages::recording::{self, FORM};
use weir_messages::{Lane, Recording, Work, subject};

use crate::record::objects::{Objects, rewritten};

/// A recording of more bytes than this is none: the server of the queue takes no message that is nearly as large.
const LARGEST: u64 = 64 << 20;
/// All that is no recording, objects and events, may have so many bytes in all.
const LARGEST_REST: u64 = 256 << 20;
/// So much of what does not belong in a file is named.
const NAMED: usize = 8;
/// What editors and shells of some systems begin a text with.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A past event: work as it was published.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub time: Timestamp,
    /// The lane it was published to.
    pub lane: Lane,
    /// What was asked for.
    pub work: Work,
}

/// What is in a file besides its calls: what is needed to begin from it in another stack.
#[derive(Debug, Default)]
pub struct Rest {
    /// How many calls there were.
    pub calls: usize,
    /// Custom resources and Secrets as the calls last read them: what was asked for, and nothing of what was made of it.
    pub objects: Vec<Value>,
    /// Objects that were being deleted when they were last read, and are not among [`Self::objects`] for that.
    pub left_out: Vec<String>,
    /// Events, oldest first.
    pub events: Vec<Event>,
}

impl Rest {
    /// What may be made of it in another stack: nothing but what `weir export` writes is left in its objects.
    ///
    /// # Errors
    /// [`Error::Foreign`]: there are objects of kinds that it never writes, or names that are none.
    pub fn checked(mut self) -> Result<Self, Error> {
        let mut foreign = BTreeSet::new();
        for object in &mut self.objects {
            match rewritten(object) {
                Ok(clean) => *object = clean,
                Err(what) => {
                    foreign.insert(what);
                }
            }
        }
        for event in &self.events {
            if let Err(error) = subject::check(&event.work.object) {
                foreign.insert(format!("an event for an object whose {error}"));
            }
        }
        if foreign.is_empty() {
            return Ok(self);
        }
        let more = foreign.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named: Vec<String> = foreign.into_iter().take(NAMED).collect();
        Err(Error::Foreign(format!("{}{more}", named.join(", "))))
    }
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses to read it.
    #[error("{0}")]
    Read(String),
    /// It is no JSON, or none of a file of recordings.
    #[error("it is no file that `weir export` has written: {0}")]
    Other(String),
    /// It has a beginning and no end.
    #[error("it ends in the middle, and was perhaps not written to its end: {0}")]
    Truncated(String),
    /// Something in it is larger than anything that is ever exported.
    #[error("it is no file that `weir export` has written: something in it is larger than a recording can be")]
    TooLarge,
    /// One of its calls cannot be read.
    #[error("call {number} of it cannot be read: {reason}")]
    Call {
        /// Which, from 1 on.
        number: usize,
        /// Why.
        reason: recording::Error,
    },
    /// There is something in it that is never exported.
    #[error("it holds what `weir export` never writes: {0}")]
    Foreign(String),
    /// A later release wrote it.
    #[error("it is of form {0}, from the future: this release reads up to {FORM}")]
    Future(u64),
}

/// Writes a file: calls first, then events.
pub struct Writer<W> {
    out: W,
    objects: Objects,
    written: Rest,
    events: usize,
    in_events: bool,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(mut out: W) -> io::Result<Self> {
        write!(out, "{{\"form\":{FORM},\"recordings\":[")?;
        Ok(Self { out, objects: Objects::default(), written: Rest::default(), events: 0, in_events: false })
    }

    /// Adds a call. One a line, so that files can be compared.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn call(&mut self, recording: &Recording) -> io::Result<()> {
        self.out.write_all(if self.written.calls == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut self.out, recording)?;
        self.objects.see(recording);
        self.written.calls += 1;
        Ok(())
    }

    /// Adds an event, once all calls are added.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.objects()?;
        self.out.write_all(if self.events == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut self.out, event)?;
        self.events += 1;
        Ok(())
    }

    /// The objects come between calls and events.
    fn objects(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.in_events, true) {
            return Ok(());
        }
        (self.written.objects, self.written.left_out) = std::mem::take(&mut self.objects).written();
        self.out.write_all(b"\n],\"objects\":")?;
        serde_json::to_writer(&mut self.out, &self.written.objects)?;
        self.out.write_all(b",\n\"leftOut\":")?;
        serde_json::to_writer(&mut self.out, &self.written.left_out)?;
        self.out.write_all(b",\n\"events\":[")
    }

    /// Ends the file. Returns what is in it, its events aside, and how many of those there are.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(mut self) -> io::Result<(Rest, usize)> {
        self.objects()?;
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok((self.written, self.events))
    }
}

/// Reads a file, and hands over its calls in their order for as long as `call` says `true`.
///
/// # Errors
/// It is no such file, is damaged, or one from the future.
pub fn read(mut source: impl Read, call: impl FnMut(Recording) -> bool) -> Result<Rest, Error> {
    let mut head = Vec::new();
    let begun = source.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut head);
    begun.map_err(|error| Error::Read(error.to_string()))?;
    let source = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head).chain(source);
    let left = Rc::new(Cell::new(LARGEST_REST));
    let source = BufReader::with_capacity(64 << 10, Bounded { source, left: left.clone() });
    let mut file = File { left, call, rest: Rest::default(), whole: Map::new(), is_bundle: false, failed: None };
    let mut json = serde_json::Deserializer::from_reader(source);
    let read = (&mut file).deserialize(&mut json).and_then(|()| json.end());
    let File { mut rest, mut call, whole, is_bundle, failed, .. } = file;
    match (failed, read) {
        (Some(Stop::Enough), _) => return Ok(rest),
        (Some(Stop::Failed(error)), _) => return Err(error),
        (None, Err(error)) => return Err(explain(&error)),
        (None, Ok(())) => {}
    }
    if !is_bundle {
        let recording = Recording::from_value(Value::Object(whole)).map_err(|error| match error {
            recording::Error::Future(form) => Error::Future(form),
            recording::Error::Json(_) => Error::Other("it holds no recorded calls".to_owned()),
        })?;
        rest.calls = 1;
        call(recording);
    }
    Ok(rest)
}

/// Reads the calls of a file, all of them at once.
///
/// # Errors
/// Those of [`read`].
pub fn open(source: impl Read) -> Result<Vec<Recording>, Error> {
    let mut calls = Vec::new();
    read(source, |call| {
        calls.push(call);
        true
    })?;
    Ok(calls)
}

fn explain(error: &serde_json::Error) -> Error {
    use serde_json::error::Category;
    match error.classify() {
        Category::Io if error.io_error_kind() == Some(io::ErrorKind::FileTooLarge) => Error::TooLarge,
        Category::Io => Error::Read(error.to_string()),
        Category::Eof => Error::Truncated(error.to_string()),
        Category::Syntax | Category::Data => Error::Other(error.to_string()),
    }
}

/// Lets so many bytes through and no more.
struct Bounded<R> {
    source: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.source.read(buffer)?;
        match self.left.get().checked_sub(got as u64) {
            Some(left) => self.left.set(left),
            None => return Err(io::ErrorKind::FileTooLarge.into()),
        }
        Ok(got)
    }
}

enum Stop {
    Enough,
    Failed(Error),
}

/// A file that is being read.
struct File<F> {
    left: Rc<Cell<u64>>,
    call: F,
    rest: Rest,
    /// The parts of what may be a single recording.
    whole: Map<String, Value>,
    is_bundle: bool,
    failed: Option<Stop>,
}

impl<F> File<F> {
    fn stop<E: serde::de::Error>(&mut self, stop: Stop) -> E {
        self.failed = Some(stop);
        E::custom("stopped")
    }
}

impl<'de, F: FnMut(Recording) -> bool> DeserializeSeed<'de> for &mut File<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Recording) -> bool> Visitor<'de> for &mut File<F> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a file of recorded calls")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "form" => {
                    let form: u64 = map.next_value()?;
                    if form > u64::from(FORM) {
                        return Err(self.stop(Stop::Failed(Error::Future(form))));
                    }
                    self.whole.insert(key, form.into());
                }
                "recordings" => {
                    self.is_bundle = true;
                    let rest = self.left.replace(LARGEST);
                    map.next_value_seed(Calls(&mut *self))?;
                    self.left.set(rest);
                }
                "objects" => self.rest.objects = map.next_value()?,
                "leftOut" => self.rest.left_out = map.next_value()?,
                "events" => self.rest.events = map.next_value()?,
                // The fields of a single recording.
                "id" | "versions" | "trigger" | "began" | "took" | "held" | "entries" | "outcome" | "complete"
                | "lost" => {
                    let value = map.next_value()?;
                    self.whole.insert(key, value);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The calls of a file that is being read.
struct Calls<'a, F>(&'a mut File<F>);

impl<'de, F: FnMut(Recording) -> bool> DeserializeSeed<'de> for Calls<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(Recording) -> bool> Visitor<'de> for Calls<'_, F> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("recorded calls")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut calls: A) -> Result<(), A::Error> {
        let file = self.0;
        while let Some(value) = calls.next_element::<Value>()? {
            file.left.set(LARGEST);
            file.rest.calls += 1;
            let recording = match Recording::from_value(value) {
                Ok(recording) => recording,
                Err(reason) => {
                    let number = file.rest.calls;
                    return Err(file.stop(Stop::Failed(Error::Call { number, reason })));
                }
            };
            if !(file.call)(recording) {
                return Err(file.stop(Stop::Enough));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
