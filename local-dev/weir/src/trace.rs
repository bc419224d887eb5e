//! `weir trace`: an object's calls as a timeline, and one call with all it said and heard.

use crate::checkout::Checkout;
use crate::screen::{align, clean, span};
use crate::{Exit, complain, queue, say};
use anyhow::{Context, bail};
use jiff::Timestamp;
use std::time::Duration;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::Queue;
use weir_function_runtime::record::past::Past;
use weir_messages::Recording;
use weir_messages::recording::{self, Answer, Body, Entry, Exchange, Peer};

/// Which calls to show.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The object: KIND/NAMESPACE/NAME
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

/// Reads KIND/NAMESPACE/NAME.
pub fn object(text: &str) -> Result<ObjectRef, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let [kind, namespace, name] = parts.as_slice() else {
        return Err("must be KIND/NAMESPACE/NAME, as in server/weir/web".to_owned());
    };
    let kind = kind.parse::<Kind>().map_err(|error| error.to_string())?;
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
    let shown = show(&queue, &args).await;
    queue.close().await;
    shown
}

async fn show(queue: &Queue, args: &Args) -> anyhow::Result<Exit> {
    if let Some(id) = &args.id {
        let recording = one(queue, id).await?;
        if args.json {
            say!("{}", serde_json::to_string(&recording)?);
        } else {
            open(&recording);
        }
        return Ok(Exit::Done);
    }
    let object = args.object.as_ref().context("no object is given")?;
    let mut past = Past::calls(queue, recording::filter(object)?, args.since).await?;
    let mut all = Vec::new();
    while let Some(call) = past.call().await? {
        all.push(call);
    }
    if all.is_empty() && !args.follow {
        complain!(
            "weir: no call for {object} is recorded. Functions record those that fail unless started with --record all; \
             `weir up` records all"
        );
        return Ok(Exit::Failed);
    }
    if args.json {
        for call in &all {
            say!("{}", serde_json::to_string(call)?);
        }
    } else {
        let rows: Vec<Vec<String>> = std::iter::once(heading()).chain(all.iter().map(row)).collect();
        for line in align(&rows) {
            say!("{line}");
        }
    }
    if !args.follow {
        return Ok(Exit::Done);
    }
    while let Some(call) = past.next_call().await? {
        if args.json {
            say!("{}", serde_json::to_string(&call)?);
        } else {
            say!("{}", row(&call).join("  "));
        }
    }
    Ok(Exit::Done)
}

/// The recording of one call.
pub async fn one(queue: &Queue, id: &str) -> anyhow::Result<Recording> {
    let mut past = Past::calls(queue, recording::filter_id(id), None).await?;
    match past.call().await? {
        Some(call) => Ok(call),
        None => bail!("no call {id:?} is recorded, or no longer"),
    }
}

fn heading() -> Vec<String> {
    ["WHEN", "WHY", "READ", "DID", "OUTCOME", "TOOK", "CALL"].map(str::to_owned).to_vec()
}

fn row(call: &Recording) -> Vec<String> {
    let trigger = &call.trigger;
    let attempt =
        if trigger.work.attempt > 0 { format!(" after {} failures", trigger.work.attempt) } else { String::new() };
    let origin = trigger.work.origin.as_ref().map(|origin| format!(" of {origin}")).unwrap_or_default();
    let count = |peer| call.exchanges().filter(|e| e.peer == peer && !e.writes() && !e.authenticates()).count();
    let steps: Vec<&str> = call.steps().collect();
    let writes = call.exchanges().filter(|e| e.writes()).count();
    let did = match (steps.is_empty(), writes) {
        (true, 0) => "nothing".to_owned(),
        (true, writes) => format!("{writes} writes"),
        (false, writes) => format!("{} ({writes} writes)", brief(&steps)),
    };
    vec![
        when(&call.began),
        format!("{}{origin}, {}{attempt}", trigger.work.cause.token(), trigger.lane),
        format!("{} objects, {} from the cloud", count(Peer::Kubernetes), count(Peer::Openstack)),
        clean(&did),
        clean(&outcome(call)),
        span(Duration::from_micros(call.took)),
        call.id.clone(),
    ]
}

/// The names of steps without what is in them.
fn brief(steps: &[&str]) -> String {
    let name = |step: &&str| {
        step.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == ' ')).next().unwrap_or_default().to_owned()
    };
    steps.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn when(time: &str) -> String {
    time.parse::<Timestamp>().map_or_else(|_| clean(time), |time| format!("{time:.3}"))
}

/// How a call ended, in words.
pub fn outcome(call: &Recording) -> String {
    let outcome = &call.outcome;
    let delay = outcome.delay.map(|ms| format!(", again in {}", span(Duration::from_millis(ms)))).unwrap_or_default();
    let problem = outcome.problem.as_ref().map(|problem| format!(": {}", problem.message)).unwrap_or_default();
    format!("{}{delay}{problem}", outcome.verdict)
}

fn open(call: &Recording) {
    let object = call.object();
    say!("{object}, call {}", clean(&call.id));
    say!(
        "began {}, took {}, weir {} as {}",
        when(&call.began),
        span(Duration::from_micros(call.took)),
        clean(&call.versions.weir),
        clean(&call.versions.process)
    );
    say!(
        "why: {} in lane {}, trace {}",
        call.trigger.work.cause.token(),
        call.trigger.lane,
        clean(&call.trigger.traceparent)
    );
    if !call.held.is_empty() {
        say!("used {} tokens that the process held already", call.held.len());
    }
    for entry in &call.entries {
        match entry {
            Entry::Exchange(exchange) => show_exchange(exchange),
            Entry::Step { at, step } => say!("{:>9}  step  {}", ms(*at), clean(step)),
            Entry::Clock { .. } | Entry::Other => {}
        }
    }
    say!("outcome: {}", clean(&outcome(call)));
    if let Some(detail) = call.outcome.problem.as_ref().and_then(|problem| problem.detail.as_deref()) {
        say!("for operators: {}", clean(detail));
    }
    if !call.complete {
        say!("something was too large to be kept; the call may not replay");
    }
}

fn show_exchange(exchange: &Exchange) {
    let answer = match &exchange.answer {
        Answer::Response { status, .. } => status.to_string(),
        Answer::Failed { failure, detail } => format!("{failure}: {detail}"),
        Answer::Abandoned => "no answer was waited for".to_owned(),
    };
    let line = format!("{} {} -> {answer} in {}", exchange.method, exchange.url, ms(exchange.took));
    say!("{:>9}  {}", ms(exchange.at), clean(&line));
    let answered = match &exchange.answer {
        Answer::Response { body, .. } => body.as_ref(),
        _ => None,
    };
    for (sign, body) in [('>', exchange.body.as_ref()), ('<', answered)] {
        match body {
            Some(Body::Json(value)) => say!("           {sign} {}", clean(&value.to_string())),
            Some(Body::Omitted { bytes, why }) => say!("           {sign} {bytes} bytes, {}", clean(why)),
            None => {}
        }
    }
}

fn ms(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_moments_are_read_and_nonsense_is_explained() {
        assert_eq!(object("server/weir/web"), Ok(ObjectRef::new(Kind::Server, "weir", "web")));
        for text in ["server/web", "moon/a/b", "server/a/*"] {
            assert!(object(text).is_err(), "{text}");
        }
        assert!(moment("90m").is_ok_and(|then| then < Timestamp::now()));
        assert!(moment("2026-01-31T12:00:00Z").is_ok());
        assert!(moment("yesterday").is_err());
    }
}
