//! `weir trace`: an object's calls as a timeline, and one call with all it said and heard.
//!
//! A server's story has the monitor's looks in it that changed its status or woke its function: they are calls for its region.

mod find;
mod show;

use crate::checkout::Checkout;
use crate::{Exit, complain, queue, say};
use anyhow::{Context, bail};
use jiff::Timestamp;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::Queue;
use weir_function_runtime::record::past::Past;
use weir_messages::Recording;
use weir_messages::recording;

pub use find::Found;

/// Which calls to show.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The object: KIND/NAMESPACE/NAME, its ID or what people call it
    #[arg(value_name = "OBJECT", value_parser = object, required_unless_present = "id")]
    object: Option<ObjectRef>,
    /// One call, with every request and answer
    #[arg(long, value_name = "CALL", conflicts_with_all = ["object", "follow"])]
    id: Option<String>,
    /// Go on, and show calls as they are made
    #[arg(long)]
    follow: bool,
    /// For programs: a recording a line
    #[arg(long)]
    json: bool,
    /// Only calls after this: a time, or how long ago, as in 90m
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Another NATS than that of the running stack; credentials come from the WEIR_NATS_… variables
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
}

/// Reads KIND/NAMESPACE/NAME; the kind as subjects have it, or as kubectl takes it.
pub fn object(text: &str) -> Result<ObjectRef, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let [kind, namespace, name] = parts.as_slice() else {
        return Err("must be KIND/NAMESPACE/NAME, as in server/weir/web".to_owned());
    };
    let said = kind.to_ascii_lowercase();
    let known = Kind::ALL.into_iter().find(|k| said == k.plural() || said == k.kubernetes().to_ascii_lowercase());
    let kind = known.map_or_else(|| said.parse::<Kind>().map_err(|error| error.to_string()), Ok)?;
    let object = ObjectRef::new(kind, *namespace, *name);
    weir_messages::subject::check(&object).map_err(|error| error.to_string())?;
    Ok(object)
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
    shown
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
    let (object, mut all) = match find::calls(checkout, queue, told, args.nats.is_none(), args.since).await? {
        Found::Calls(object, calls) => (object, calls),
        Found::None(_) if args.follow => (told.clone(), vec![]),
        Found::None(why) => {
            complain!("weir: {why}");
            return Ok(Exit::Failed);
        }
    };
    if object.kind == Kind::Server {
        let mut past = Past::calls(queue, [find::monitor(&object)?], args.since).await?;
        while let Some(call) = past.call().await? {
            if show::is_about(&call, &object) {
                all.push(call);
            }
        }
    }
    all.sort_by_key(|call| call.began.parse::<Timestamp>().unwrap_or_default());
    if args.json {
        for call in &all {
            say!("{}", serde_json::to_string(call)?);
        }
    } else {
        show::story(&object, &all);
    }
    if !args.follow {
        return Ok(Exit::Done);
    }
    let mut filters = vec![recording::filter(&object)?];
    if object.kind == Kind::Server {
        filters.push(find::monitor(&object)?);
    }
    let shown: std::collections::HashSet<String> = all.into_iter().map(|call| call.id).collect();
    let mut past = Past::calls(queue, filters, args.since).await?;
    while let Some(call) = past.next_call().await? {
        if shown.contains(&call.id) || !show::is_about(&call, &object) {
            continue;
        }
        if args.json {
            say!("{}", serde_json::to_string(&call)?);
        } else {
            say!("{}", show::row(&call, &object).join("  "));
        }
    }
    Ok(Exit::Done)
}

/// The calls of an object, whatever name it is given by; else why there are none.
pub async fn calls(
    checkout: &Checkout,
    queue: &Queue,
    object: &ObjectRef,
    ours: bool,
    since: Option<Timestamp>,
) -> anyhow::Result<Found> {
    find::calls(checkout, queue, object, ours, since).await
}

/// The recording of one call.
pub async fn one(queue: &Queue, id: &str) -> anyhow::Result<Recording> {
    let mut past = Past::calls(queue, [recording::filter_id(id)], None).await?;
    match past.call().await? {
        Some(call) => Ok(call),
        None => {
            bail!("no call {id:?} is recorded, or no longer; `weir trace KIND/NAMESPACE/NAME` lists those of an object")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_moments_are_read_and_nonsense_is_explained() {
        assert_eq!(object("server/weir/web"), Ok(ObjectRef::new(Kind::Server, "weir", "web")));
        for text in ["Server/weir/web", "servers/weir/web"] {
            assert_eq!(object(text).map(|object| object.kind), Ok(Kind::Server));
        }
        for text in ["server/web", "moon/a/b", "server/a/*"] {
            assert!(object(text).is_err(), "{text}");
        }
        assert!(moment("90m").is_ok_and(|then| then < Timestamp::now()));
        assert!(moment("2026-01-31T12:00:00Z").is_ok());
        assert!(moment("yesterday").is_err());
    }
}
