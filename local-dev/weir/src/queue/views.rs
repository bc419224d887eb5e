//! The views of the queue: each as a table for people, and as JSON for programs.

use crate::say;
use crate::screen::{Screen, Tone, align, clean, harmless, span};
use jiff::Timestamp;
use serde::Serialize;
use std::time::Duration;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::WORK;
use weir_function_runtime::queue::inspect::{Depth, Held, Letter, Listing, Message, Overview, Raw, Timer};
use weir_messages::subject::{self, Subject};

/// A table that is put together row by row.
struct Table {
    cells: Vec<Vec<String>>,
    tones: Vec<Tone>,
}

impl Table {
    fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { cells: vec![head.map(str::to_owned).to_vec()], tones: vec![Tone::Faint] }
    }

    fn row<const N: usize>(&mut self, tone: Tone, cells: [String; N]) {
        self.cells.push(cells.map(|cell| clean(&cell)).to_vec());
        self.tones.push(tone);
    }

    fn show(&self) {
        let screen = Screen::new();
        for (line, tone) in align(&self.cells).iter().zip(&self.tones) {
            say!("{}", screen.paint(*tone, line));
        }
    }
}

fn print_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => say!("{text}"),
        Err(error) => crate::complain!("weir: {error}"),
    }
}

/// How many there are beyond what is shown.
fn more<T>(listing: &Listing<T>) {
    let shown = u64::try_from(listing.items.len()).unwrap_or(u64::MAX);
    if listing.total > shown {
        say!("… and {} more: -n shows more of them", listing.total - shown);
    }
}

fn between(from: Timestamp, to: Timestamp) -> String {
    span(Duration::try_from(to.duration_since(from)).unwrap_or_default())
}

fn ago(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| between(time, Timestamp::now()))
}

fn object_or(object: Option<&ObjectRef>, other: &str) -> String {
    object.map_or_else(|| other.to_owned(), ToString::to_string)
}

fn token(value: Option<impl Serialize>) -> String {
    let value = value.and_then(|value| serde_json::to_value(value).ok());
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_else(|| "-".to_owned())
}

/// `weir queue ls`.
pub fn ls(overview: &Overview, json: bool) {
    if json {
        print_json(overview);
        return;
    }
    let mut table =
        Table::new(["KIND", "LANE", "WAITING", "IN FLIGHT", "WORKING", "OLDEST", "REDELIVERED", "CONSUMER", ""]);
    let mut kind = None;
    for depth in &overview.lanes {
        let (tone, note) = if overview.missing.contains(&WORK) { (Tone::Plain, "") } else { standing(depth) };
        // One number for all lanes of a kind, shown once.
        let working =
            if kind.replace(&depth.kind) == Some(&depth.kind) { String::new() } else { depth.working.to_string() };
        table.row(
            tone,
            [
                if depth.kind == subject::ALL_TICKS { "(ticks)".to_owned() } else { depth.kind.clone() },
                depth.lane.clone(),
                depth.waiting.to_string(),
                depth.in_flight.to_string(),
                working,
                depth.oldest.map_or_else(|| "-".to_owned(), |oldest| between(oldest, overview.now)),
                depth.redelivered.to_string(),
                depth.consumer.clone().unwrap_or_else(|| "-".to_owned()),
                note.to_owned(),
            ],
        );
    }
    table.show();
    say!("");
    let many = |count: Option<u64>, what: &str| match count {
        Some(1) => format!("1 {what}"),
        Some(count) => format!("{count} {what}s"),
        None => format!("{what}s unknown"),
    };
    let (timers, leases) = (many(overview.timers, "timer"), many(overview.leases, "lease"));
    say!("{timers}, {leases}, {}", many(overview.dead, "dead letter"));
    for stream in &overview.missing {
        let note = format!("There is no stream {stream} on this NATS: {}", super::GONE);
        say!("{}", Screen::new().paint(Tone::Bad, &note));
    }
}

/// What is worth saying about a lane.
///
/// A worker asks for no more than it can begin. So when something waits and nobody asks, either all that can be seen of workers
/// are at work, which shows by their leases, or there are none.
fn standing(depth: &Depth) -> (Tone, &'static str) {
    let nobody_asks = depth.requests == 0;
    if depth.consumer.is_none() && depth.kind.parse::<Kind>().is_err() {
        (Tone::Bad, "nobody takes it: it will be put among the dead letters")
    } else if depth.consumer.is_none() && depth.waiting == 0 {
        (Tone::Busy, "worked on by what does not take it from here: on Lambda, or in a replay")
    } else if depth.consumer.is_none() {
        (Tone::Bad, "no function of this kind has been here yet")
    } else if depth.paused {
        (Tone::Bad, "paused by hand")
    } else if depth.waiting > 0 && depth.most.is_some_and(|most| depth.in_flight >= most) {
        (Tone::Busy, "as many are in flight as may be: --max-ack-pending of its workers")
    } else if depth.waiting > 0 && nobody_asks && depth.working > 0 {
        (Tone::Busy, "waits: every worker that can be seen is at work")
    } else if depth.waiting > 0 && nobody_asks && depth.in_flight > 0 {
        (Tone::Bad, "no worker asks for it or is at work; what is in flight comes back by itself")
    } else if depth.waiting > 0 && nobody_asks {
        (Tone::Bad, "no worker asks for it, and none is at work: none runs")
    } else if depth.waiting > 0 || depth.in_flight > 0 {
        (Tone::Busy, "")
    } else {
        (Tone::Plain, if nobody_asks && depth.working == 0 { "no worker" } else { "" })
    }
}

/// `weir queue peek`.
pub fn work(listing: &Listing<Message>, json: bool) {
    if json {
        print_json(listing);
        return;
    }
    if listing.items.is_empty() {
        say!("Nothing of that waits.");
        return;
    }
    let mut table = Table::new(["NUMBER", "AGE", "LANE", "OBJECT", "CAUSE", "FAILURES", "FROM", ""]);
    for message in &listing.items {
        table.row(
            if message.problem.is_some() { Tone::Bad } else { Tone::Plain },
            [
                message.sequence.to_string(),
                ago(message.stored),
                token(message.lane),
                object_or(message.object.as_ref(), &message.subject),
                token(message.cause),
                message.attempt.to_string(),
                message.source.clone().unwrap_or_else(|| "-".to_owned()),
                message.problem.clone().unwrap_or_default(),
            ],
        );
    }
    table.show();
    more(listing);
}

/// `weir queue peek --message`.
pub fn raw(message: &Raw, json: bool) {
    if json {
        print_json(message);
        return;
    }
    say!("{}, number {}, stored {} ago", clean(&message.subject), message.sequence, ago(message.stored));
    say!("");
    let mut headers = message.headers.clone();
    headers.sort();
    for (name, value) in headers {
        say!("{}: {}", clean(&name), clean(&value));
    }
    say!("");
    // Whole, so that it can be read as JSON; but nothing in it moves the cursor.
    say!("{}", harmless(&message.text, Some('\n')));
}

/// `weir queue timers`.
pub fn timers(listing: &Listing<Timer>, json: bool) {
    if json {
        print_json(listing);
        return;
    }
    if listing.items.is_empty() {
        say!("No timer is set.");
        return;
    }
    let now = Timestamp::now();
    let mut table = Table::new(["NUMBER", "DUE", "OBJECT", "CAUSE", "FAILURES", "GOES TO"]);
    for timer in &listing.items {
        let (tone, due) = match (timer.due, timer.schedule.as_deref()) {
            (Some(due), _) if due >= now => (Tone::Plain, format!("in {}", between(now, due))),
            // Under load the server is late; a few seconds are nothing, much more is a fault.
            (Some(due), _) => (Tone::Busy, format!("{} ago", between(due, now))),
            (None, Some(schedule)) => (Tone::Plain, schedule.trim_start_matches('@').to_owned()),
            (None, None) => (Tone::Bad, format!("never: it is no timer; `drop {} --timer` removes it", timer.sequence)),
        };
        table.row(
            tone,
            [
                timer.sequence.to_string(),
                due,
                match subject::parse(&timer.subject) {
                    Ok(Subject::TickSchedule { kind }) => format!("(every {kind})"),
                    _ => object_or(timer.object.as_ref(), &timer.subject),
                },
                token(timer.cause),
                timer.attempt.to_string(),
                timer.target.clone().unwrap_or_else(|| "-".to_owned()),
            ],
        );
    }
    table.show();
    more(listing);
}

/// `weir queue leases`.
pub fn leases(listing: &Listing<Held>, json: bool) {
    if json {
        print_json(listing);
        return;
    }
    if listing.items.is_empty() {
        say!("Nothing is being worked on.");
        return;
    }
    let now = Timestamp::now();
    let mut table = Table::new(["OBJECT", "HOLDER", "SINCE", "RENEWED", "ENDS UNLESS RENEWED", "REVISION"]);
    for held in &listing.items {
        let since = held.since.as_deref().and_then(|since| since.parse().ok());
        table.row(
            Tone::Plain,
            [
                object_or(held.object.as_ref(), &held.key),
                held.holder.clone().unwrap_or_else(|| "-".to_owned()),
                ago(since),
                ago(held.renewed),
                held.expires.map_or_else(|| "-".to_owned(), |expires| format!("in {}", between(now, expires))),
                held.revision.to_string(),
            ],
        );
    }
    table.show();
    more(listing);
}

/// `weir queue dead`.
pub fn dead(listing: &Listing<Letter>, json: bool) {
    if json {
        print_json(listing);
        return;
    }
    if listing.items.is_empty() {
        say!("There are no dead letters.");
        return;
    }
    letters(&listing.items);
    more(listing);
    say!("");
    say!(
        "`weir queue peek --dead --message NUMBER` shows one whole; `redrive NUMBER` sends it again, `drop NUMBER` removes it."
    );
}

/// A table of dead letters.
pub fn letters(letters: &[Letter]) {
    let mut table = Table::new(["NUMBER", "AGE", "SUBJECT", "BYTES", "REASON", "FOUND BY", "WHY"]);
    for letter in letters {
        let size = if letter.complete { letter.size.to_string() } else { format!("{}, not all", letter.size) };
        let words = [&letter.subject, &size, &letter.reason, &letter.by, &letter.detail].map(Clone::clone);
        let [subject, size, reason, by, detail] = words;
        table.row(Tone::Plain, [letter.sequence.to_string(), ago(letter.stored), subject, size, reason, by, detail]);
    }
    table.show();
}
