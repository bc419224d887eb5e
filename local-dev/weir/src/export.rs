//! `weir export`: recorded calls as one file, to be kept, sent, made a test, or begun from in another stack.

use crate::checkout::{Checkout, Private};
use crate::trace::find::{self, Found, Told};
use crate::trace::{explain, moment};
use crate::{Exit, complain, queue};
use anyhow::Context;
use jiff::Timestamp;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
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
    /// The file to write; without it, standard output
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
    if let Some(path) = &args.output {
        // Without secrets, but with names and addresses that are not everybody's to read.
        let mut file = Private::create(path)?;
        let written = write(&mut file, calls, events, about.as_ref()).await;
        let written = written.with_context(|| format!("cannot write {}", path.display()))?;
        file.keep()?;
        let Written { rest, events, not_whole } = written;
        let path = path.display();
        complain!("weir: {} calls, {} objects and {events} events are in {path}", rest.calls, rest.objects.len());
        if !rest.left_out.is_empty() {
            complain!("weir: left out, since they were being deleted when last read: {}", find::some(&rest.left_out));
        }
        if not_whole > 0 {
            complain!(
                "weir: {not_whole} of the calls are not whole, since something in them was too large to be kept: they may not replay"
            );
        }
    } else {
        write(&mut BufWriter::new(io::stdout()), calls, events, about.as_ref()).await?;
    }
    Ok(Exit::Done)
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
