//! `weir export`: recorded calls as one file, to be kept, sent, made a test, or begun from in another stack.

use crate::checkout::{Checkout, write_private};
use crate::trace::{self, Found, moment, object};
use crate::{Exit, complain, queue, say};
use jiff::Timestamp;
use std::path::PathBuf;
use weir_api::ObjectRef;
use weir_function_runtime::queue::Queue;
use weir_function_runtime::record::past::{Bundle, Event, Past};
use weir_messages::{Cause, Recording, recording};

/// What to write where.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The object: KIND/NAMESPACE/NAME, its ID or what people call it
    #[arg(value_name = "OBJECT", value_parser = object, required_unless_present = "all")]
    object: Option<ObjectRef>,
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
    let gathered = gather(checkout, &queue, &args).await;
    queue.close().await;
    let Some((calls, events)) = gathered? else { return Ok(Exit::Failed) };
    let bundle = Bundle::of(&calls)?.with(&calls, events);
    let text = serde_json::to_string_pretty(&bundle)?;
    if let Some(path) = &args.output {
        // Without secrets, but with names and addresses that are not everybody's to read.
        write_private(path, text.as_bytes())?;
        let (objects, events) = (bundle.objects.len(), bundle.events.len());
        complain!("weir: {} calls, {objects} objects and {events} events are in {}", calls.len(), path.display());
    } else {
        say!("{text}");
    }
    Ok(Exit::Done)
}

async fn gather(
    checkout: &Checkout,
    queue: &Queue,
    args: &Args,
) -> anyhow::Result<Option<(Vec<Recording>, Vec<Event>)>> {
    let (about, calls) = match &args.object {
        None => {
            let mut past = Past::calls(queue, [recording::ALL.to_owned()], args.since).await?;
            let mut calls = Vec::new();
            while let Some(call) = past.call().await? {
                calls.push(call);
            }
            (None, calls)
        }
        Some(told) => match trace::calls(checkout, queue, told, args.nats.is_none(), args.since).await? {
            Found::Calls(object, calls) => (Some(object), calls),
            Found::None(why) => {
                complain!("weir: {why}");
                return Ok(None);
            }
        },
    };
    if calls.is_empty() {
        complain!("weir: no call is recorded");
        return Ok(None);
    }
    let mut past = Past::events(queue, args.since).await?;
    let mut events = Vec::new();
    while let Some(event) = past.event().await? {
        let fits = about.as_ref().is_none_or(|object| event.work.object == *object);
        if fits && event.work.cause != Cause::Replayed {
            events.push(event);
        }
    }
    Ok(Some((calls, events)))
}
