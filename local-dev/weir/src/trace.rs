//! `weir trace`: an object's calls as a timeline, and one call with all it said and heard.
//!
//! A server's story has the monitor's looks in it that changed its status or woke its function: they are calls for its region.
//!
//! Caveat: of thousands of calls only those that are shown are opened, and the bodies in them are skipped.

pub mod find;
mod show;

use crate::checkout::Checkout;
use crate::screen::clean;
use crate::{Exit, complain, queue, say};
use anyhow::{Context, bail};
use find::{Found, Told};
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::VecDeque;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::{Error, Queue};
use weir_function_runtime::record::past::{self, Kept, Past};
use weir_messages::Recording;
use weir_messages::recording;

pub use show::{NOT_WHOLE, unkept};

/// So many calls are shown to a person who does not say how many.
const SHOWN: usize = 100;
/// The longest ID that a call can have.
const LONGEST_ID: usize = 64;

/// Which calls to show.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The object: KIND/NAMESPACE/NAME, its ID or what people call it
    #[arg(value_name = "OBJECT", value_parser = find::told, required_unless_present = "id")]
    object: Option<Told>,
    /// One call, with every request and answer: its ID, or as much of it as no other has
    #[arg(long, value_name = "CALL", value_parser = id, conflicts_with_all = ["object", "follow", "last", "since"])]
    id: Option<String>,
    /// Go on, and show calls as they are made; also those of an object that has none yet
    #[arg(long)]
    follow: bool,
    /// Only the newest so many [default: 100; with --json all]
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    last: Option<u32>,
    /// Only calls after this: a time, or how long ago, as in 90m
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// For programs: a recording a line, in the order in which they were stored
    #[arg(long)]
    json: bool,
    /// Another NATS than that of the running stack; credentials come from the WEIR_NATS_… variables
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
}

/// Reads the ID of a call.
pub fn id(text: &str) -> Result<String, String> {
    let fits =
        (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let why = "must be a call's ID, as in the column CALL of `weir trace KIND/NAMESPACE/NAME`";
    fits.then(|| text.to_owned()).ok_or_else(|| why.to_owned())
}

/// Reads a time in RFC 3339, or how long ago it was.
pub fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago = text.parse::<jiff::SignedDuration>().ok().filter(|ago| !ago.is_negative());
    let then = ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok());
    then.ok_or_else(|| "must be a time, as in 2026-01-31T12:00:00Z, or how long ago, as in 90m".to_owned())
}

/// Shows an object's calls, or one call.
pub async fn run(checkout: &Checkout, args: Args) -> anyhow::Result<Exit> {
    let Some(queue) = queue::open(checkout, args.nats.as_deref()).await? else { return Ok(Exit::NotThere) };
    let shown = trace(checkout, &queue, &args).await;
    queue.close().await;
    shown.map_err(explain)
}

/// An error in words for whoever looks into a queue where nothing was recorded ever.
pub fn explain(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Error>() {
        Some(Error::NoStream(stream)) => {
            anyhow::anyhow!("there is no stream {stream} on this NATS: no function of Weir has been there yet")
        }
        _ => error,
    }
}

async fn trace(checkout: &Checkout, queue: &Queue, args: &Args) -> anyhow::Result<Exit> {
    if let Some(id) = &args.id {
        let recording = one(queue, id).await?;
        if args.json {
            say!("{}", serde_json::to_string(&recording)?);
        } else {
            show::open(&recording);
        }
        return Ok(Exit::Done);
    }
    let told = args.object.as_ref().context("no object is given")?;
    let object = match find::object(checkout, queue, told, find::is_ours(args.nats.as_deref())).await? {
        Found::Is(object) => Some(object),
        Found::None(why) => {
            complain!("weir: {why}");
            if !args.follow {
                return Ok(Exit::Failed);
            }
            complain!("weir: waiting for its first call");
            None
        }
    };
    let mut past = Past::calls(queue, filters(told, object.as_ref())?, args.since).await?;
    let mut story = Story::new(told, object, args);
    if let (Some(object), Some(_)) = (&story.object, story.most) {
        story.own = find::count(queue, object, args.since).await?;
    }
    while let Some(kept) = past.kept().await? {
        story.hear(&kept);
    }
    if story.object.is_some() && story.is_empty() && !args.follow {
        complain!("weir: no call for {told} is recorded since then; without --since there are some");
        return Ok(Exit::Failed);
    }
    story.tell();
    if args.follow {
        while let Some(kept) = past.next_kept().await? {
            story.hear(&kept);
        }
    }
    Ok(Exit::Done)
}

/// Where the calls of an object are, or where they will be; with the monitor's for a server.
fn filters(told: &Told, object: Option<&ObjectRef>) -> anyhow::Result<Vec<String>> {
    let mut filters = vec![match object {
        Some(object) => recording::filter(object)?,
        None => find::scope(Some(told.kind), Some(&told.namespace)),
    }];
    if told.kind == Kind::Server {
        filters.push(find::scope(Some(Kind::ServerMonitor), Some(&told.namespace)));
    }
    Ok(filters)
}

/// What is told of an object, call by call.
struct Story<'a> {
    told: &'a Told,
    /// None, until a call of its is heard of.
    object: Option<ObjectRef>,
    json: bool,
    /// No more than so many are told of those that are there.
    most: Option<usize>,
    /// How many calls are there that are the object's own, and how many of them were heard.
    own: u64,
    heard: u64,
    older: u64,
    rows: VecDeque<(Timestamp, Vec<String>)>,
    lines: VecDeque<String>,
    gaps: show::Gaps,
    any_not_whole: bool,
    /// The table is there, and calls are told as they come.
    table: Option<show::Table>,
    is_live: bool,
    /// How many calls of it there are.
    count: u64,
}

impl<'a> Story<'a> {
    fn new(told: &'a Told, object: Option<ObjectRef>, args: &Args) -> Self {
        let last = args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX));
        Self {
            told,
            object,
            json: args.json,
            most: last.or(if args.json { None } else { Some(SHOWN) }),
            own: 0,
            heard: 0,
            older: 0,
            rows: VecDeque::new(),
            lines: VecDeque::new(),
            gaps: show::Gaps::default(),
            any_not_whole: false,
            table: None,
            is_live: false,
            count: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn hear(&mut self, kept: &Kept) {
        let object = match &self.object {
            Some(object) => object.clone(),
            None => match self.first(kept) {
                Some(object) => object,
                None => return,
            },
        };
        if kept.object().as_ref() == Some(&object) {
            self.heard += 1;
            let behind = self.own.saturating_sub(self.heard);
            if !self.is_live && self.most.is_some_and(|most| behind >= most as u64) {
                (self.older, self.count) = (self.older + 1, self.count + 1);
                return;
            }
        } else if !kept.mentions(&object.name) {
            return;
        }
        if self.json {
            let call = kept.open::<Value>().filter(|call| show::is_about(call, &object));
            if let Some(line) = call.and_then(|call| serde_json::to_string(&call).ok()) {
                self.count += 1;
                self.line(line);
            }
        } else if let Some(call) = kept.open::<IgnoredAny>().filter(|call| show::is_about(call, &object)) {
            self.count += 1;
            self.row(&call, &object);
        }
    }

    /// The object, if this is the first call of one that is called so.
    fn first(&mut self, kept: &Kept) -> Option<ObjectRef> {
        let object = kept.object().filter(|object| object.kind == self.told.kind)?;
        let is_it = object.name == self.told.name
            || kept.mentions(&find::quoted(&self.told.name))
                && kept.open::<Value>().is_some_and(|call| find::is_called(&call, &self.told.name));
        self.object = is_it.then_some(object);
        if self.is_live {
            self.tell();
        }
        self.object.clone()
    }

    fn line(&mut self, line: String) {
        if self.is_live || self.most.is_none() {
            say!("{line}");
            return;
        }
        self.lines.push_back(line);
        if self.most.is_some_and(|most| self.lines.len() > most) {
            self.lines.pop_front();
        }
    }

    fn row(&mut self, call: &Recording<IgnoredAny>, object: &ObjectRef) {
        let row = show::row(call, object);
        self.any_not_whole |= !call.complete;
        self.gaps.see(call, self.older > 0);
        match &self.table {
            Some(table) => say!("{}", table.line(row)),
            None => self.rows.push_back((call.began.parse().unwrap_or_default(), row)),
        }
    }

    /// Tells what was heard, in the order in which the calls began; what comes then is told as it comes.
    fn tell(&mut self) {
        self.is_live = true;
        for line in self.lines.drain(..) {
            say!("{line}");
        }
        let Some(object) = self.object.as_ref().filter(|_| !self.json && self.table.is_none()) else { return };
        let mut rows: Vec<_> = self.rows.drain(..).collect();
        rows.sort_by_key(|(began, _)| *began);
        let most = self.most.unwrap_or(usize::MAX);
        let over = rows.len().saturating_sub(most);
        let older = self.older + over as u64;
        let called = if object.name == self.told.name { String::new() } else { format!(", {}", self.told.name) };
        say!("{}", clean(&format!("{object}{called}")));
        if older > 0 {
            say!("… {older} older calls: --last {}", older + most as u64);
        }
        self.table = Some(show::Table::tell(rows.into_iter().skip(over).map(|(_, row)| row)));
        for gap in self.gaps.told() {
            say!("{gap}");
        }
        if self.any_not_whole {
            say!("{NOT_WHOLE}");
        }
    }
}

/// The recording of the call of this ID, or of the one whose ID begins so, in whatever case.
pub async fn one(queue: &Queue, id: &str) -> anyhow::Result<Recording> {
    if let Some(call) = by_id(queue, id).await? {
        return Ok(call);
    }
    let begin_so: Vec<String> = past::ids(queue, id).await?.into_iter().collect();
    let call = match begin_so.as_slice() {
        [id] => by_id(queue, id).await?,
        [] => None,
        several => bail!("the IDs of {} calls begin with {id}: {}", several.len(), find::some(several)),
    };
    call.with_context(|| {
        format!("no call {id} is recorded, or no longer; `weir trace KIND/NAMESPACE/NAME` lists those of an object")
    })
}

async fn by_id(queue: &Queue, id: &str) -> anyhow::Result<Option<Recording>> {
    Ok(Past::calls(queue, [recording::filter_id(id)], None).await?.call().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_calls_are_read_and_nonsense_is_explained() {
        assert!(moment("90m").is_ok_and(|then| then < Timestamp::now()));
        assert!(moment("2026-01-31T12:00:00Z").is_ok());
        assert!(moment("yesterday").is_err());
        assert!(id("da5c7b65-ade8-4347-a479-5c004e8d9073").is_ok());
        for text in ["", "*", "a.b", ">", &"a".repeat(65)] {
            assert!(id(text).is_err(), "{text}");
        }
    }
}
