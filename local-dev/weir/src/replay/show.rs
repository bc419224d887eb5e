//! A call that was run again, for people: its decision beside the recorded one, and where they part.

use super::diff::{self, spread, unified};
use crate::say;
use crate::screen::{Screen, Tone, align, clean};
use crate::trace::unkept;
use weir_function_runtime::record::replay::Replay;
use weir_function_runtime::record::{Decision, Line};
use weir_messages::Recording;

/// Shows a call that was run again.
pub fn show(recording: &Recording, replay: &Replay) {
    say!("{}, call {}", clean(&recording.object().to_string()), clean(&recording.id));
    let unkept = unkept(recording);
    for what in &unkept {
        say!("not in the recording, since it was too large to be kept: {what}");
    }
    let (old, new) = (&replay.recorded, &replay.replayed);
    for line in beside(old, new, replay.stopped) {
        say!("{line}");
    }
    if replay.stopped {
        return;
    }
    if !replay.missing.is_empty() {
        say!("The recording holds no answer to:");
    }
    for missing in &replay.missing {
        say!("  {}", clean(missing));
    }
    if !replay.missing.is_empty() {
        say!("What comes after the first of them follows from that, not from what happened.");
    }
    match old.parts_from(new) {
        None if replay.missing.is_empty() => say!("The same decision, to the byte."),
        None => say!("The same decision, by other reads."),
        Some(at) => {
            let is_line = at < old.lines.len().max(new.lines.len());
            let place = if is_line { format!("at line {}", at + 1) } else { "in how they end".to_owned() };
            say!("They part {place} (- recorded, + replayed):");
            let screen = Screen::new();
            for (tone, line) in difference(old, new, at) {
                say!("  {}", screen.paint(tone, &line));
            }
            if !unkept.is_empty() || !recording.complete {
                say!("What was too large to be kept may be why they part.");
            }
        }
    }
}

/// The two decisions beside each other, line by line.
fn beside(old: &Decision, new: &Decision, stopped: bool) -> Vec<String> {
    let pair = |old: String, new: String, same: bool| {
        let (sign, new) = if same { ("=", "the same".to_owned()) } else { ("!", new) };
        vec![sign.to_owned(), old, new]
    };
    let lines = if stopped { new.lines.len() } else { old.lines.len().max(new.lines.len()) };
    let mut rows = vec![vec![String::new(), "RECORDED".to_owned(), "REPLAYED".to_owned()]];
    for at in 0..lines {
        let (old, new) = (old.lines.get(at), new.lines.get(at));
        let text = |line: Option<&Line>| line.map_or_else(|| "-".to_owned(), |line| clean(&near(&line.brief())));
        rows.push(pair(text(old), text(new), old == new));
    }
    if stopped {
        rows.push(vec![String::new(), String::new(), "stopped here, as asked".to_owned()]);
    } else {
        rows.push(pair(clean(&old.verdict), clean(&new.verdict), old.verdict == new.verdict));
        let text = |problem: &Option<String>| problem.as_deref().map_or_else(|| "no problem".to_owned(), clean);
        rows.push(pair(text(&old.problem), text(&new.problem), old.problem == new.problem));
    }
    align(&rows)
}

/// A request without what the URLs of all objects have in common: two of them have to fit beside each other.
fn near(line: &str) -> String {
    let object = line.split_once(" /apis/").and_then(|(method, path)| {
        let (_, object) = path.split_once("/namespaces/")?.1.split_once('/')?;
        Some(format!("{method} …/{object}"))
    });
    object.unwrap_or_else(|| line.to_owned())
}

/// The first point where two decisions part, as `diff -u` would show it.
fn difference(old: &Decision, new: &Decision, at: usize) -> Vec<(Tone, String)> {
    let (one, other) = match (old.lines.get(at), new.lines.get(at)) {
        (Some(old), Some(new)) if is_alike(old, new) => (whole(old), whole(new)),
        (None, None) => (end(old), end(new)),
        // There is nothing in them to be compared.
        (one, other) => {
            let text = |line: Option<&Line>, decision: &Decision| {
                line.map_or_else(|| format!("nothing more: {}", decision.verdict), Line::brief)
            };
            (text(one, old), text(other, new))
        }
    };
    let (one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
    let mut shown = vec![];
    for line in unified(&one, &other) {
        shown.push(match line {
            diff::Line::Same(text) => (Tone::Plain, format!("  {}", clean(text))),
            diff::Line::Old(text) => (Tone::Bad, format!("- {}", clean(text))),
            diff::Line::New(text) => (Tone::Good, format!("+ {}", clean(text))),
            diff::Line::Gap => (Tone::Faint, "  …".to_owned()),
        });
    }
    shown
}

/// Whether two lines are of the same sort, so that it can be told what in them differs.
fn is_alike(old: &Line, new: &Line) -> bool {
    match (old, new) {
        (Line::Step(old), Line::Step(new)) => name(old) == name(new),
        (Line::Write { method, url, .. }, Line::Write { method: new_method, url: new_url, .. }) => {
            let path = |url: &str| url.split('?').next().unwrap_or_default().to_owned();
            method == new_method && path(url) == path(new_url)
        }
        _ => false,
    }
}

fn name(step: &str) -> &str {
    step.split(['(', '{', ':']).next().unwrap_or_default().trim_end()
}

/// All of a line, over many lines.
fn whole(line: &Line) -> String {
    match line {
        Line::Step(step) => format!("step {}", spread(step)),
        Line::Wake(_) => line.brief(),
        Line::Write { method, url, body, .. } => {
            let body = body.as_ref().and_then(|body| serde_json::to_string_pretty(body).ok());
            format!("{method} {url}\n{}", body.unwrap_or_default())
        }
    }
}

fn end(decision: &Decision) -> String {
    format!("{}\n{}", decision.verdict, decision.problem.as_deref().unwrap_or("no problem"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use weir_messages::recording::Peer;

    fn decision(lines: Vec<Line>) -> Decision {
        Decision { lines, verdict: "settled".to_owned(), problem: None }
    }

    fn write(url: &str, body: Value) -> Line {
        Line::Write { peer: Peer::Openstack, method: "POST".to_owned(), url: url.to_owned(), body: Some(body) }
    }

    fn differ(old: &Decision, new: &Decision) -> Vec<String> {
        let at = old.parts_from(new).unwrap_or(usize::MAX);
        difference(old, new, at).into_iter().map(|(_, line)| line).collect()
    }

    /// Proves: R-3
    #[test]
    fn where_a_request_differs_only_what_differs_in_it_is_shown() {
        let body =
            |port: u16| json!({"rule": {"a": 1, "b": 2, "c": 3, "d": 4, "port": port, "q": 5, "r": 6, "s": 7, "t": 8}});
        let request = |port| decision(vec![write("http://c/rules", body(port))]);
        assert_eq!(
            differ(&request(22), &request(23)),
            [
                "  …",
                "      \"b\": 2,",
                "      \"c\": 3,",
                "      \"d\": 4,",
                "-     \"port\": 22,",
                "+     \"port\": 23,",
                "      \"q\": 5,",
                "      \"r\": 6,",
                "      \"s\": 7,",
                "  …"
            ]
        );
    }

    #[test]
    fn a_request_about_an_object_is_short() {
        assert_eq!(near("PATCH /apis/g/v1/namespaces/ns/servers/a/status"), "PATCH …/servers/a/status");
        for other in ["POST /network/v2.0/ports", "step x /apis/y", "PATCH /apis/g/v1/nodes/a"] {
            assert_eq!(near(other), other);
        }
    }

    /// Proves: R-3
    #[test]
    fn where_a_step_differs_its_field_is_shown_and_another_step_is_shown_beside_the_first() {
        let step = |text: &str| decision(vec![Line::Step(text.to_owned())]);
        assert_eq!(
            differ(&step("Create(Rule { a: 1, b: 2 })"), &step("Create(Rule { a: 1, b: 3 })")),
            ["  step Create(", "    Rule {", "      a: 1,", "-     b: 2", "+     b: 3", "    }", "  )"]
        );
        assert_eq!(differ(&step("Create(1)"), &step("Delete(1)")), ["- step Create(1)", "+ step Delete(1)"]);
        assert_eq!(differ(&step("Create(1)"), &decision(vec![])), ["- step Create(1)", "+ nothing more: settled"]);
        let parked =
            Decision { verdict: "parked".to_owned(), problem: Some("no quota".to_owned()), ..decision(vec![]) };
        assert_eq!(differ(&decision(vec![]), &parked), ["- settled", "- no problem", "+ parked", "+ no quota"]);
    }
}
