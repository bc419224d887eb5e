//! `weir export`: recorded calls as one file, to be kept, sent, made a test, or begun from in another stack.
//!
//! Invariants
//! - A file is there once it is whole; the one that was there before stays until then, and for good if it never is.
//! - Nothing but a file is ever replaced: a device, a pipe or a link is written to, or through.

use crate::checkout::{Checkout, Private, followed};
use crate::signals::Signals;
use crate::trace::find::{self, Found, Told};
use crate::trace::{explain, moment};
use crate::{Exit, complain, queue, screen};
use anyhow::Context;
use jiff::Timestamp;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir_api::ObjectRef;
use weir_function_runtime::queue::Queue;
use weir_function_runtime::record::past::{Past, Rest, Writer};
use weir_messages::{Cause, recording};

/// What to write where.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The object: KIND/NAMESPACE/NAME, its ID or what people call it
    #[arg(value_name = "OBJECT", value_parser = find::told, required_unless_present = "all")]
    object: Option<Told>,
    /// The calls of all objects
    #[arg(long, conflicts_with = "object")]
    all: bool,
    /// The file to write; without it, or with -, standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only what was after this: a time, or how long ago, as in 90m
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Another NATS than that of the running stack; credentials come from the WEIR_NATS_… variables
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
}

/// Writes calls, with the objects that they have read and the events that led to them.
pub async fn run(checkout: &Checkout, args: Args) -> anyhow::Result<Exit> {
    let Some(queue) = queue::open(checkout, args.nats.as_deref()).await? else { return Ok(Exit::NotThere) };
    let written = export(checkout, &queue, &args).await;
    queue.close().await;
    written.map_err(explain)
}

async fn export(checkout: &Checkout, queue: &Queue, args: &Args) -> anyhow::Result<Exit> {
    let about = match &args.object {
        None => None,
        Some(told) => match find::object(checkout, queue, told, find::is_ours(args.nats.as_deref())).await? {
            Found::Is(object) => Some(object),
            Found::None(why) => {
                complain!("weir: {why}");
                return Ok(Exit::Failed);
            }
        },
    };
    let filter = about.as_ref().map_or_else(|| Ok(recording::ALL.to_owned()), recording::filter)?;
    let calls = Past::calls(queue, [filter], args.since).await?;
    if calls.left() == 0 {
        let when = if args.since.is_some() { " since then" } else { "" };
        complain!("weir: no call is recorded{when}");
        return Ok(Exit::Failed);
    }
    let events = Past::events(queue, args.since).await?;
    let path = args.output.as_deref().filter(|path| *path != Path::new("-"));
    let mut out = Out::open(path)?;
    let what = path.map_or_else(|| "to standard output".to_owned(), |path| path.display().to_string());
    // A pipe that nobody reads from could not be interrupted otherwise than by the system.
    let signals = if matches!(out, Out::File(_)) { Some(Signals::listen()?) } else { None };
    let interrupted = async {
        match &signals {
            Some(signals) => signals.stopped().await,
            None => std::future::pending().await,
        }
    };
    let written = tokio::select! {
        written = write(&mut out, calls, events, about.as_ref()) => written,
        () = interrupted => return Ok(Exit::Interrupted),
    };
    let Written { rest, events, not_whole } = match written {
        // Who reads it has seen enough.
        Err(error) if error.downcast_ref().is_some_and(screen::is_gone) => return Ok(Exit::Done),
        written => written.with_context(|| format!("cannot write {what}"))?,
    };
    if let Out::File(file) = out {
        file.keep()?;
    }
    if path.is_some() {
        complain!("weir: {} calls, {} objects and {events} events are in {what}", rest.calls, rest.objects.len());
    }
    if !rest.left_out.is_empty() {
        complain!("weir: left out, since they were being deleted when last read: {}", find::some(&rest.left_out));
    }
    if not_whole > 0 {
        complain!(
            "weir: {not_whole} of the calls are not whole, since something in them was too large to be kept: they may not replay"
        );
    }
    Ok(Exit::Done)
}

/// Where it is written to.
enum Out {
    /// A file, there once it is kept. Without secrets, but with names and addresses that are not everybody's to read.
    File(Private),
    /// What takes bytes as they come: a pipe, a terminal, a device.
    Stream(BufWriter<File>),
}

impl Out {
    /// Opens what a path leads to, or standard output.
    fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let stdout =
            io::stdout().as_fd().try_clone_to_owned().map(File::from).context("there is no standard output")?;
        let Some(path) = path else { return Ok(Self::Stream(BufWriter::new(stdout))) };
        let cannot = || format!("cannot write {}", path.display());
        match fs::metadata(path) {
            // By another name, such as /dev/stdout: what it leads to is whoever's who has opened it.
            Ok(there) if stdout.metadata().is_ok_and(|out| (out.dev(), out.ino()) == (there.dev(), there.ino())) => {
                Ok(Self::Stream(BufWriter::new(stdout)))
            }
            Ok(there) if !there.is_file() => {
                let stream = File::options().append(true).open(path).with_context(cannot)?;
                Ok(Self::Stream(BufWriter::new(stream)))
            }
            _ => Ok(Self::File(Private::create(&followed(path)?)?)),
        }
    }
}

impl Write for Out {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(buffer),
            Self::Stream(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stream(stream) => stream.flush(),
        }
    }
}

/// What was written.
struct Written {
    rest: Rest,
    events: usize,
    not_whole: usize,
}

/// Writes a file, call by call: all of them may be more than there is memory.
async fn write(
    out: &mut (impl Write + Send),
    mut calls: Past,
    mut events: Past,
    about: Option<&ObjectRef>,
) -> anyhow::Result<Written> {
    let mut file = Writer::begin(out)?;
    let mut not_whole = 0;
    while let Some(call) = calls.call().await? {
        not_whole += usize::from(!call.complete);
        file.call(&call)?;
    }
    while let Some(event) = events.event().await? {
        let fits = about.is_none_or(|object| event.work.object == *object);
        if fits && event.work.cause != Cause::Replayed {
            file.event(&event)?;
        }
    }
    let (rest, events) = file.end()?;
    Ok(Written { rest, events, not_whole })
}
