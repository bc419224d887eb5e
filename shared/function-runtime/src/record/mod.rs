//! Record and replay: what a call was given, what it did and decided, kept so that it can be seen and run again (R-1..R-7).
//!
//! Intention: a function is nothing but its inputs, so a call that went wrong yesterday can be run again today, offline,
//! step by step, with yesterday's code or with tomorrow's. Functions know nothing of it: the recorder stands where they
//! meet the world ([`tape`], around the clients of a [`crate::Scope`]), and so does the player ([`replay`]).
//!
//! A call takes down what it says and hears ([`tape`]), which costs it next to nothing; when it is over, what was taken down goes to
//! a thread on the side, which takes the secrets out ([`redact`]) and sends it to the stream.
//!
//! Invariants
//! - Recording never holds up a call, and never fails one: what cannot be kept is counted and dropped, and `weir trace` says so.
//! - No secret leaves the process ([`redact`]). This is done after the call, on all of it at once, since what is a secret is
//!   often known only when it is seen a second time.
//! - A replay sees what the call saw: reads, refusals, broken connections, the clock, and where it was cut short. It reaches nobody.
//! - The streams are bounded in age and size; the oldest go first.
//!
//! What is recorded, of which kind: every call of a function, by `--record`; of the server monitor's rounds those that wrote, woke or
//! failed, since a round holds all servers of a region and most find nothing new. `REQUESTS`, the stream of what the front door was
//! asked, is there and bounded; nothing writes to it until there is a front door.
//!
//! # Caveats
//! - What is made at random (passwords, keys) differs from run to run. A request that carries it is compared without it.
//! - Two requests made at the same time may be answered in another order when replayed; only steps and writes are compared.
//! - `Retry-After` with a date, rather than seconds, is read against the clock of the day of the replay.
//! - User data keeps its beginning only: a decision that hangs on its length or its parts is not replayed faithfully.
//! - A function's own settings are not recorded; `weir replay` takes them from its environment.
//! - A process that is killed takes with it what it has not stored yet, a few milliseconds' calls.
//!
#![doc = include_str!("guide.md")]

pub mod boundary;
mod decision;
mod exchange;
mod objects;
pub mod past;
mod publish;
pub mod redact;
pub mod replay;
mod tap;
pub mod tape;
mod tokens;

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::mpsc;
use weir_api::Consequence;
use weir_messages::Recording;
use weir_messages::recording::{Answer, Body, Entry, Exchange, FORM, Outcome, Trigger, Versions};

pub use decision::{Decision, Line, normal};
use publish::Publisher;
pub use tap::tap;

use crate::queue::Queue;
use crate::settings::Settings;
use crate::worker::{Call, Verdict};
use redact::{Json, Key, Secrets};
use tape::Tape;
use tokens::Tokens;

/// Which calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// None.
    Off,
    /// Those that fail, are parked with a problem, or are cut short.
    Errors,
    /// This share of them, from 0 to 1.
    Sampled(f64),
    /// All.
    All,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = |text: &str| text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        match (text, text.strip_prefix("sampled:").and_then(share)) {
            ("off", _) => Ok(Self::Off),
            ("errors", _) => Ok(Self::Errors),
            ("all", _) => Ok(Self::All),
            (_, Some(share)) => Ok(Self::Sampled(share)),
            _ => Err("must be off, errors, sampled:<share> with a share from 0 to 1, or all".to_owned()),
        }
    }
}

/// Records calls.
#[derive(Clone)]
pub struct Recorder {
    inner: Option<Arc<Inner>>,
}

struct Inner {
    mode: Mode,
    process: String,
    tokens: Arc<Tokens>,
    sink: Sink,
}

enum Sink {
    /// Everything is kept, at once: for tests and replays.
    Here(mpsc::UnboundedSender<Recording>, Box<Mutex<Secrets>>),
    /// To the stream, in the background.
    Stream(Publisher),
}

impl Recorder {
    /// Records nothing.
    pub const fn off() -> Self {
        Self { inner: None }
    }

    /// Records to the stream of traces, as the settings say. Within a runtime: what is recorded is stored in the
    /// background. [`crate::worker::Handler::flush`] waits for it.
    pub fn of(settings: &Settings, queue: &Queue) -> Self {
        let mode = settings.record.mode;
        if mode == Mode::Off {
            return Self::off();
        }
        Self::with(mode, queue.name().to_owned(), Sink::Stream(Publisher::start(queue.clone(), Key::random())))
    }

    /// Records into memory: for tests, and for replays.
    pub fn collecting(mode: Mode) -> (Self, mpsc::UnboundedReceiver<Recording>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let secrets = Box::new(Mutex::new(Secrets::new(Key::random())));
        (Self::with(mode, String::new(), Sink::Here(sender, secrets)), receiver)
    }

    fn with(mode: Mode, process: String, sink: Sink) -> Self {
        let inner = Inner { mode, process, tokens: Arc::default(), sink };
        Self { inner: Some(Arc::new(inner)) }
    }

    /// Begins to take down `call`; `None` if it is not to be recorded.
    pub(crate) fn begin(&self, call: &Call, until: Option<String>) -> Option<InProgress> {
        let inner = self.inner.clone()?;
        if matches!(inner.mode, Mode::Sampled(share) if rand::random::<f64>() >= share) {
            return None;
        }
        let tape = Arc::new(Tape::new(inner.tokens.clone(), until));
        let trigger = Trigger { work: call.work.clone(), lane: call.lane, traceparent: call.traceparent.to_string() };
        let head = Head { id: call.id.to_string(), trigger, began: Timestamp::now() };
        Some(InProgress { tape, head: Some(head), inner })
    }

    /// Waits until what was recorded is stored, for a few seconds at most.
    pub(crate) async fn flush(&self) {
        if let Some(Inner { sink: Sink::Stream(publisher), .. }) = self.inner.as_deref() {
            publisher.flush().await;
        }
    }
}

struct Head {
    id: String,
    trigger: Trigger,
    began: Timestamp,
}

/// A call that is being recorded. However it ends, by a panic or by being cut short, it is a recording then.
pub(crate) struct InProgress {
    pub(crate) tape: Arc<Tape>,
    head: Option<Head>,
    inner: Arc<Inner>,
}

impl InProgress {
    /// The call is over.
    pub(crate) fn finish(mut self, verdict: Verdict) {
        self.close(outcome(verdict));
    }

    fn close(&mut self, outcome: Outcome) {
        let Some(head) = self.head.take() else { return };
        // Also what is parked with a problem: somebody will ask why.
        let failed = matches!(outcome.verdict.as_str(), "failed" | "ended" | "abandoned") || self.tape.is_in_trouble();
        if !failed && (self.inner.mode == Mode::Errors || self.tape.is_dull()) {
            return;
        }
        let finished = Finished {
            head,
            outcome,
            took: self.tape.at(),
            tape: self.tape.clone(),
            process: self.inner.process.clone(),
        };
        match &self.inner.sink {
            Sink::Here(sender, secrets) => {
                let recording = {
                    let mut secrets = secrets.lock().unwrap_or_else(PoisonError::into_inner);
                    finished.recording(&mut secrets, 0)
                };
                // As it would come out of the stream.
                let recording = publish::encode(&recording).ok().and_then(|bytes| Recording::decode(&bytes).ok());
                if let Some(recording) = recording {
                    let _ = sender.send(recording);
                }
            }
            Sink::Stream(publisher) => publisher.keep(finished),
        }
    }
}

/// The function panicked, and the call was ended by that.
pub(crate) const PANIC: &str = "panic";

impl Drop for InProgress {
    fn drop(&mut self) {
        if self.head.is_some() && std::thread::panicking() {
            self.tape.stopped(PANIC);
        }
        self.close(Outcome { verdict: "ended".to_owned(), delay: None, problem: None });
    }
}

/// A call that is over, and not yet fit to be kept.
struct Finished {
    head: Head,
    outcome: Outcome,
    took: u64,
    tape: Arc<Tape>,
    process: String,
}

impl Finished {
    fn size(&self) -> usize {
        self.tape.size()
    }

    fn recording(self, secrets: &mut Secrets, lost: u64) -> Recording<Json> {
        let read = self.tape.read(secrets, self.outcome);
        let exchanges = read.entries.iter().filter_map(|entry| match entry {
            Entry::Exchange(exchange) => Some(exchange),
            _ => None,
        });
        Recording {
            form: FORM,
            id: self.head.id,
            versions: Versions { weir: env!("CARGO_PKG_VERSION").to_owned(), process: self.process },
            trigger: self.head.trigger,
            began: self.head.began.to_string(),
            took: self.took,
            complete: read.complete && read.held.iter().chain(exchanges).all(is_complete),
            held: read.held,
            entries: read.entries,
            outcome: read.outcome,
            lost,
        }
    }
}

fn is_complete(exchange: &Exchange<Json>) -> bool {
    let large = |body: &Option<Body<Json>>| matches!(body, Some(Body::Omitted { why, .. }) if why == redact::TOO_LARGE);
    !large(&exchange.body) && !matches!(&exchange.answer, Answer::Response { body, .. } if large(body))
}

fn outcome(verdict: Verdict) -> Outcome {
    let millis = |delay: std::time::Duration| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    let (verdict, delay) = match verdict {
        Verdict::Settled => ("settled", None),
        Verdict::Gone => ("gone", None),
        Verdict::After { delay } => ("yielded", Some(millis(delay))),
        Verdict::Retry { after } => ("failed", after.map(millis)),
        Verdict::Waiting => ("waiting", None),
        Verdict::Parked => ("parked", None),
        Verdict::Abandoned => ("abandoned", None),
    };
    Outcome { verdict: verdict.to_owned(), delay, problem: None }
}

const fn consequence(consequence: Consequence) -> &'static str {
    match consequence {
        Consequence::Yield(_) => "yield",
        Consequence::Await => "await",
        Consequence::UserAction => "user-action",
        Consequence::Operator => "operator",
        Consequence::Reread => "reread",
        Consequence::Retry(_) => "retry",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: R-1
    #[test]
    fn modes_are_read_and_anything_else_is_refused() {
        for (text, mode) in
            [("off", Mode::Off), ("errors", Mode::Errors), ("all", Mode::All), ("sampled:0.25", Mode::Sampled(0.25))]
        {
            assert_eq!(text.parse(), Ok(mode));
        }
        for text in ["", "ALL", "sampled", "sampled:2", "sampled:NaN", "sampled:-1"] {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
    }
}
