//! `weir export`: an object's recorded calls as one file, to be kept, sent, or made a test.

use crate::checkout::{Checkout, write_private};
use crate::trace::{moment, object};
use crate::{Exit, complain, queue, say};
use jiff::Timestamp;
use std::path::PathBuf;
use weir_api::ObjectRef;
use weir_function_runtime::record::past::{Bundle, Past};
use weir_messages::recording;

/// What to write where.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The object: KIND/NAMESPACE/NAME
    #[arg(value_name = "OBJECT", value_parser = object)]
    object: ObjectRef,
    /// The file to write; without it, standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only calls after this: a time, or how long ago, as in 90m
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Another NATS than that of the running stack; credentials come from the WEIR_NATS_… variables
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
}

/// Writes an object's calls.
pub async fn run(checkout: &Checkout, args: Args) -> anyhow::Result<Exit> {
    let Some(queue) = queue::open(checkout, args.nats.as_deref()).await? else { return Ok(Exit::NotThere) };
    let mut past = Past::calls(&queue, recording::filter(&args.object)?, args.since).await?;
    let mut calls = Vec::new();
    while let Some(call) = past.call().await? {
        calls.push(call);
    }
    queue.close().await;
    if calls.is_empty() {
        complain!("weir: no call for {} is recorded", args.object);
        return Ok(Exit::Failed);
    }
    let bundle = serde_json::to_string_pretty(&Bundle::of(&calls)?)?;
    if let Some(path) = &args.output {
        // Without secrets, but with names and addresses that are not everybody's to read.
        write_private(path, bundle.as_bytes())?;
        complain!("weir: {} calls are in {}", calls.len(), path.display());
    } else {
        say!("{bundle}");
    }
    Ok(Exit::Done)
}
