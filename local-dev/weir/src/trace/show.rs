//! Recordings for people: a line for a call, and one call from end to end.

use crate::say;
use crate::screen::{align, clean, harmless, span};
use jiff::Timestamp;
use std::collections::HashMap;
use std::time::Duration;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::record::redact::TOO_LARGE;
use weir_messages::Recording;
use weir_messages::recording::{Answer, Body, Entry, Exchange, Peer};

/// A cell of a story is cut here, so that a line of it can be taken in at a glance; `--id` shows all.
const WIDEST: usize = 80;
/// So much of a name tells it from others, mostly.
const SHORT_NAME: usize = 14;

/// What is told of a call that could not be kept as a whole.
pub const NOT_WHOLE: &str =
    "not whole: an answer or a body was too large to be kept (more than 512 KiB); the call may not replay";

/// A table of calls, under which more may come.
pub struct Table {
    widths: Vec<String>,
}

impl Table {
    /// Shows calls, a line each.
    pub fn tell(rows: impl Iterator<Item = Vec<String>>) -> Self {
        let heading = ["WHEN", "WHY", "READ", "DECIDED", "DID", "TOOK", "CALL", "OUTCOME"].map(str::to_owned).to_vec();
        let rows: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
        for line in align(&rows) {
            say!("{line}");
        }
        let width =
            |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        Self { widths: (0..rows[0].len()).map(|column| " ".repeat(width(column).unwrap_or_default())).collect() }
    }

    /// One more line, whose cells are under the others as far as they fit.
    pub fn line(&self, row: Vec<String>) -> String {
        align(&[self.widths.clone(), row]).pop().unwrap_or_default()
    }
}

/// Where calls may be missing, since processes could not keep all of theirs.
#[derive(Default)]
pub struct Gaps {
    lost: HashMap<String, u64>,
    told: Vec<String>,
}

impl Gaps {
    /// Takes note of a call. `is_later`: there are older ones that are not shown, so that what was lost before the first is not told.
    pub fn see<J>(&mut self, call: &Recording<J>, is_later: bool) {
        let process = call.versions.process.as_str();
        let first = if is_later { call.lost } else { 0 };
        let before = self.lost.insert(process.to_owned(), call.lost).unwrap_or(first);
        let more = call.lost.saturating_sub(before);
        if more > 0 {
            self.told.push(format!(
                "up to {more} calls before {} are missing here: {} could not keep them",
                when(&call.began),
                clean(process)
            ));
        }
    }

    /// What is missing, in words.
    pub fn told(&self) -> &[String] {
        &self.told
    }
}

/// Whether a call is about an object: it is for it, or the monitor's and has changed its status or woken its function.
pub fn is_about<J>(call: &Recording<J>, object: &ObjectRef) -> bool {
    call.object() == object || call.entries.iter().any(|entry| concerns(entry, object))
}

fn concerns<J>(entry: &Entry<J>, object: &ObjectRef) -> bool {
    match entry {
        Entry::Step { step, .. } => {
            step.strip_prefix("show ").is_some_and(|rest| rest.split(':').next() == Some(&object.name))
        }
        Entry::Wake { object: woken, .. } => woken == object,
        Entry::Exchange(exchange) => {
            exchange.writes() && exchange.url.split(['/', '?']).any(|part| part == object.name)
        }
        _ => false,
    }
}

/// A call in a line. Of a look of the monitor's only what concerns the object.
pub fn row<J>(call: &Recording<J>, object: &ObjectRef) -> Vec<String> {
    let watched = call.object() != object;
    let mine = |entry: &&Entry<J>| !watched || concerns(entry, object);
    let (mut steps, mut did) = (vec![], vec![]);
    for entry in call.entries.iter().filter(mine) {
        match entry {
            Entry::Step { step, .. } => steps.push(brief(step, watched)),
            Entry::Wake { failure, .. } => {
                did.push(if failure.is_none() { "wake" } else { "wake (failed)" }.to_owned());
            }
            Entry::Exchange(exchange) if exchange.writes() => did.push(write(exchange)),
            _ => {}
        }
    }
    let count = |peer| call.exchanges().filter(|e| e.peer == peer && !e.writes() && !e.authenticates()).count();
    let nothing =
        |list: Vec<String>| if list.is_empty() { "nothing".to_owned() } else { clip(&clean(&together(list)), WIDEST) };
    vec![
        when(&call.began),
        why(call),
        format!("{} kubernetes, {} cloud", count(Peer::Kubernetes), count(Peer::Openstack)),
        nothing(steps),
        nothing(did),
        took(call.took),
        clean(&call.id),
        clean(&outcome(call)),
    ]
}

/// The beginning of a text that is longer.
fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// Why the function ran.
fn why<J>(call: &Recording<J>) -> String {
    let trigger = &call.trigger;
    let of =
        trigger.work.origin.as_ref().map(|origin| format!(" of {} {}", origin.kind, clip(&origin.name, SHORT_NAME)));
    let of = of.unwrap_or_default();
    let after = match trigger.work.attempt {
        0 => String::new(),
        1 => " after 1 failure".to_owned(),
        many => format!(" after {many} failures"),
    };
    let by = if call.object().kind == Kind::ServerMonitor { "monitor: " } else { "" };
    clean(&format!("{by}{}{of}, {}{after}", trigger.work.cause.token(), trigger.lane))
}

/// The name of a step without what is in it; all of it, where there is but this one to be told.
fn brief(step: &str, all: bool) -> String {
    if all {
        return step.split_once(": ").map_or(step, |(_, rest)| rest).to_owned();
    }
    step.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == ' '))
        .next()
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

/// A write in a word or two.
fn write<J>(exchange: &Exchange<J>) -> String {
    let path = exchange.url.split(['?', '#']).next().unwrap_or_default();
    let failed = match &exchange.answer {
        Answer::Response { status: 200..300, .. } => String::new(),
        Answer::Response { status, .. } => format!(" ({status})"),
        Answer::Failed { failure, .. } => format!(" ({failure})"),
        Answer::Abandoned => " (no answer)".to_owned(),
    };
    if exchange.peer == Peer::Kubernetes && path.ends_with("/status") {
        return format!("status{failed}");
    }
    // Of IDs there are many; what they are of tells more.
    let is_word =
        |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b == b'_');
    let words: Vec<&str> = path.split('/').filter(is_word).collect();
    format!(
        "{} {}{failed}",
        exchange.method,
        words[words.len().saturating_sub(if path.ends_with("action") { 2 } else { 1 })..].join("/")
    )
}

/// A list of words, those that are repeated once, and a method only before the first of what it was used on.
fn together(list: Vec<String>) -> String {
    let mut words: Vec<(String, usize)> = vec![];
    for word in list {
        match words.last_mut() {
            Some((last, many)) if *last == word => *many += 1,
            _ => words.push((word, 1)),
        }
    }
    let mut method = String::new();
    let mut shown = vec![];
    for (word, many) in words {
        let is_method = |verb: &str| verb.bytes().all(|b| b.is_ascii_uppercase());
        let mut word = word.as_str();
        match word.split_once(' ').filter(|(verb, _)| is_method(verb)) {
            Some((verb, rest)) if verb == method => word = rest,
            Some((verb, _)) => verb.clone_into(&mut method),
            None => {}
        }
        shown.push(if many > 1 { format!("{word} ×{many}") } else { word.to_owned() });
    }
    shown.join(", ")
}

fn when(time: &str) -> String {
    time.parse::<Timestamp>().map_or_else(|_| clean(time), |time| format!("{time:.3}"))
}

/// A duration, in the unit that calls are measured in.
fn took(micros: u64) -> String {
    if micros < 10_000_000 { format!("{} ms", micros / 1000) } else { span(Duration::from_micros(micros)) }
}

/// How a call ended, in words.
fn outcome<J>(call: &Recording<J>) -> String {
    let outcome = &call.outcome;
    let delay = outcome.delay.map(|ms| format!(", again in {}", span(Duration::from_millis(ms)))).unwrap_or_default();
    let problem = outcome.problem.as_ref().map(|problem| format!(": {}", problem.message)).unwrap_or_default();
    let whole = if call.complete { "" } else { " (not whole)" };
    format!("{}{whole}{delay}{problem}", outcome.verdict)
}

/// Shows one call, with all it said and heard.
pub fn open(call: &Recording) {
    say!("{}, call {}", call.object(), clean(&call.id));
    say!(
        "began {}, took {}, weir {} as {}",
        when(&call.began),
        took(call.took),
        clean(&call.versions.weir),
        clean(&call.versions.process)
    );
    say!("why: {}; trace {}", why(call), clean(&call.trigger.traceparent));
    if !call.held.is_empty() {
        say!("used {} tokens that the process held already", call.held.len());
    }
    for entry in &call.entries {
        match entry {
            Entry::Exchange(exchange) => show_exchange(exchange),
            Entry::Step { at, step } => say!("{:>9}  step  {}", ms(*at), clean(step)),
            Entry::Wake { at, object, failure } => {
                let failure = failure.as_ref().map(|why| format!(", which failed: {why}")).unwrap_or_default();
                say!("{:>9}  wake  {}", ms(*at), clean(&format!("{object}{failure}")));
            }
            Entry::Stopped { at, by } => say!("{:>9}  stopped: {}", ms(*at), clean(by)),
            Entry::Clock { .. } | Entry::Other => {}
        }
    }
    say!("outcome: {}", clean(&outcome(call)));
    if let Some(detail) = call.outcome.problem.as_ref().and_then(|problem| problem.detail.as_deref()) {
        say!("for operators: {}", clean(detail));
    }
    if !call.complete {
        say!("{NOT_WHOLE}");
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
    for (sign, body) in [('>', exchange.body.as_ref()), ('<', answer_of(exchange))] {
        match body {
            Some(Body::Json(value)) => say!("           {sign} {}", harmless(&value.to_string(), None)),
            Some(Body::Omitted { bytes, why }) => say!("           {sign} {bytes} bytes, {}", clean(why)),
            None => {}
        }
    }
}

fn answer_of(exchange: &Exchange) -> Option<&Body> {
    match &exchange.answer {
        Answer::Response { body, .. } => body.as_ref(),
        _ => None,
    }
}

/// What of a call was too large to be kept, in words.
pub fn unkept(call: &Recording) -> Vec<String> {
    let mut found = vec![];
    for exchange in call.held.iter().chain(call.exchanges()) {
        for (what, body) in [("the body", exchange.body.as_ref()), ("the answer", answer_of(exchange))] {
            if let Some(Body::Omitted { bytes, why }) = body
                && why == TOO_LARGE
            {
                found.push(clean(&format!("{what} of {} {} ({bytes} bytes)", exchange.method, exchange.url)));
            }
        }
    }
    found
}

fn ms(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn call(kind: &str, entries: &Value, lost: u64) -> Recording {
        serde_json::from_value(json!({
            "form": 1, "id": "0c1d", "versions": {"weir": "1", "process": "server-7"}, "began": "2026-01-01T00:00:00Z",
            "took": 41_500, "entries": entries, "lost": lost,
            "trigger": {"lane": "urgent", "traceparent": "", "work": {"cause": "dependency", "attempt": 2,
                "object": {"kind": kind, "namespace": "ns", "name": "a"},
                "origin": {"kind": "network", "namespace": "ns", "name": "n"}}},
            "outcome": {"verdict": "yielded", "delay": 10_000,
                "problem": {"consequence": "yield", "message": "Nova is busy"}},
        }))
        .unwrap()
    }

    fn exchange(peer: &str, method: &str, url: &str, status: u16) -> Value {
        json!({"entry": "exchange", "at": 1, "took": 1, "peer": peer, "method": method, "url": url,
            "answer": {"response": {"status": status}}})
    }

    /// Proves: R-5
    #[test]
    fn a_line_says_why_a_call_ran_what_it_read_decided_and_did_and_how_long_it_took() {
        let entries = json!([
            exchange("kubernetes", "GET", "/apis/g/v1/namespaces/ns/servers/a", 200),
            exchange("openstack", "POST", "http://c/identity/v3/auth/tokens", 201),
            exchange("openstack", "GET", "http://c/compute/v2.1/servers/detail?name=a", 200),
            {"entry": "step", "at": 2, "step": "rebuild Submit(Rebuild { image: x })"},
            exchange("openstack", "POST", "http://c/network/v2.0/ports", 201),
            exchange("openstack", "POST", "http://c/network/v2.0/ports", 201),
            exchange("openstack", "POST", "http://c/compute/v2.1/servers/1f/action", 409),
            exchange("kubernetes", "PATCH", "/apis/g/v1/namespaces/ns/servers/a/status?fieldManager=weir", 200),
            exchange("kubernetes", "PATCH", "/apis/g/v1/namespaces/ns/servers/a/status?fieldManager=weir", 200),
        ]);
        let call = call("server", &entries, 0);
        assert_eq!(
            row(&call, call.object()),
            [
                "2026-01-01T00:00:00.000Z",
                "dependency of network n, urgent after 2 failures",
                "1 kubernetes, 1 cloud",
                "rebuild Submit",
                "POST ports ×2, servers/action (409), status ×2",
                "41 ms",
                "0c1d",
                "yielded, again in 10.0 s: Nova is busy",
            ]
        );
    }

    /// Proves: R-5
    #[test]
    fn a_look_of_the_monitor_shows_in_the_story_of_each_server_that_it_changed_and_of_no_other() {
        let entries = json!([
            {"entry": "step", "at": 2, "step": "show a: Healthy Healthy, Active Running"},
            exchange("kubernetes", "PATCH", "/apis/g/v1/namespaces/ns/servers/a/status", 200),
            {"entry": "step", "at": 2, "step": "show b: Healthy Errored"},
            {"entry": "wake", "at": 3, "object": {"kind": "server", "namespace": "ns", "name": "b"}},
            exchange("kubernetes", "PATCH", "/apis/g/v1/namespaces/ns/servers/b/status", 200),
        ]);
        let look = call("server-monitor", &entries, 0);
        let server = |name: &str| ObjectRef::new(Kind::Server, "ns", name);
        assert_eq!(row(&look, &server("a"))[3..5], ["Healthy Healthy, Active Running", "status"]);
        assert_eq!(row(&look, &server("b"))[3..5], ["Healthy Errored", "wake, status"]);
        assert!(is_about(&look, &server("a")) && !is_about(&look, &server("c")));
    }

    #[test]
    fn what_a_process_could_not_keep_is_told_where_it_is_missing() {
        let calls = [0, 0, 3, 3].map(|lost| call("server", &json!([]), lost));
        let told = |older: bool| {
            let mut gaps = Gaps::default();
            calls.iter().skip(if older { 3 } else { 0 }).for_each(|call| gaps.see(call, older));
            gaps.told().to_vec()
        };
        let gaps = told(false);
        assert!(gaps.len() == 1 && gaps[0].contains("up to 3 calls") && gaps[0].contains("server-7"), "{gaps:?}");
        assert!(told(true).is_empty(), "what was lost before older calls is their story");
    }

    #[test]
    fn a_call_that_could_not_be_kept_as_a_whole_says_so_and_what_of_it_was_not() {
        let large = json!([{"entry": "exchange", "at": 1, "took": 1, "peer": "openstack", "method": "GET", "url": "http://c/x",
            "answer": {"response": {"status": 200, "body": {"omitted": {"bytes": 700_000, "why": TOO_LARGE}}}}}]);
        let mut call = call("server", &large, 0);
        call.complete = false;
        assert!(row(&call, call.object())[7].starts_with("yielded (not whole)"));
        assert_eq!(unkept(&call), ["the answer of GET http://c/x (700000 bytes)"]);
    }
}
