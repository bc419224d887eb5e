//! Faults: what a cloud does wrong, on demand.
//!
//! A fault names the requests it is about and what becomes of them. Faults are judged in the order they were set; the
//! latencies of all that match add up, answers are mangled by all that match, and of the others the first decides.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    Service,
    wire::{Payload, Reply, Request},
};

/// Which requests, how often, and what then.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The service asked; any, if absent.
    #[serde(default)]
    pub service: Option<Service>,
    /// The HTTP method; any, if absent.
    #[serde(default)]
    pub method: Option<String>,
    /// A regular expression, unanchored, on the whole path (`/network/v2.0/ports`), without the query.
    #[serde(default)]
    pub path: Option<String>,
    /// How many matching requests pass unharmed first.
    #[serde(default)]
    pub after: u64,
    /// How many matching requests are harmed then; all of them, if absent.
    #[serde(default)]
    pub count: Option<u64>,
    /// The chance, from 0 to 1, that a matching request is harmed; always, if absent.
    #[serde(default)]
    pub probability: Option<f64>,
    /// Makes the chance repeatable.
    #[serde(default)]
    pub seed: u64,
    /// What happens.
    pub action: Action,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// The request is answered so and has no effect.
    Status(Answer),
    /// The request has its effect and is answered so all the same.
    StatusAfter(Answer),
    /// The connection is reset without an answer; the request has no effect.
    ResetBefore,
    /// The request has its effect; then the connection is reset without an answer.
    ResetAfter,
    /// The request waits for so many milliseconds first.
    Latency(u64),
    /// A field of the answer is changed.
    Mangle(Mangle),
    /// A list gives one of its pages twice. A list that fits on one page says that there is another, which is the same.
    RepeatPage,
    /// The request is accepted, and the server that it starts to build or rebuild ends in ERROR.
    Server(Failure),
    /// The token counts as expired: it is revoked and the request answered with 401.
    TokenExpired,
}

/// How a server comes to grief.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// No host takes it. A rebuild goes back to the old image.
    NoHost,
    /// It fails on its host, at the end. A rebuild keeps the new image.
    Spawn,
}

/// An answer in place of the true one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// The body: a string is sent as `text/html`, anything else as JSON. Absent: what the service itself sends with this code.
    #[serde(default)]
    pub body: Option<Value>,
    /// More headers, such as `Retry-After`.
    #[serde(default)]
    pub headers: HashMap<String, String>,
}

/// A change to an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mangle {
    /// A JSON pointer; `*` stands for every element of an array.
    pub pointer: String,
    /// What the field becomes; it is removed, if absent.
    #[serde(default, with = "present")]
    pub replace: Option<Value>,
}

/// Tells `"replace": null` from no `replace`.
mod present {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    #[allow(clippy::ref_option)] // the signature is serde's
    pub(super) fn serialize<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
        Value::deserialize(deserializer).map(Some)
    }
}

impl Fault {
    /// A fault for every request; narrow it with the methods below.
    pub fn new(action: Action) -> Self {
        Self { service: None, method: None, path: None, after: 0, count: None, probability: None, seed: 0, action }
    }

    /// Answers with this status code, before any effect.
    pub fn status(code: u16) -> Self {
        Self::new(Action::Status(Answer { code, ..Answer::default() }))
    }

    /// Answers with this status code, after the effect.
    pub fn status_after(code: u16) -> Self {
        Self::new(Action::StatusAfter(Answer { code, ..Answer::default() }))
    }

    /// Only requests of this method and path (a regular expression).
    #[must_use]
    pub fn on(mut self, method: &str, path: &str) -> Self {
        self.method = Some(method.to_owned());
        self.path = Some(path.to_owned());
        self
    }

    /// Only requests to this service.
    #[must_use]
    pub fn of(mut self, service: Service) -> Self {
        self.service = Some(service);
        self
    }

    /// Lets so many matching requests pass first.
    #[must_use]
    pub fn after(mut self, after: u64) -> Self {
        self.after = after;
        self
    }

    /// Harms so many requests and no more.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Harms a matching request with this chance.
    #[must_use]
    pub fn with_probability(mut self, probability: f64, seed: u64) -> Self {
        self.probability = Some(probability);
        self.seed = seed;
        self
    }
}

/// A fault that cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path is not a regular expression.
    #[error("the path is not a regular expression: {0}")]
    Path(#[from] regex::Error),
    /// The chance is not between 0 and 1.
    #[error("a probability lies between 0 and 1")]
    Probability,
    /// The code is no HTTP status.
    #[error("a status code lies between 200 and 599")]
    Status,
}

struct Armed {
    id: u64,
    fault: Fault,
    path: Option<Regex>,
    seen: u64,
    fired: u64,
    chance: StdRng,
    /// Pages waiting to be repeated: by who asked for what, with the marker that asks for the next page.
    pages: HashMap<String, (String, Reply)>,
}

/// The faults in force.
#[derive(Default)]
pub struct Faults {
    inner: Mutex<(u64, Vec<Armed>)>,
}

/// What is to be done to one request.
#[derive(Default)]
pub(crate) struct Plan {
    pub latency: Duration,
    pub action: Option<Action>,
    pub mangles: Vec<Mangle>,
    /// The fault that wants to keep this answer, to repeat it.
    pub keep: Option<u64>,
    /// The answer to repeat now.
    pub replay: Option<Reply>,
    /// Which faults had a part in it.
    pub faults: Vec<u64>,
}

impl Faults {
    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, Vec<Armed>)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a fault in force and returns its id.
    pub fn add(&self, fault: Fault) -> Result<u64, Error> {
        let path = fault.path.as_deref().map(Regex::new).transpose()?;
        if fault.probability.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
            return Err(Error::Probability);
        }
        if let Action::Status(answer) | Action::StatusAfter(answer) = &fault.action
            && !(200..600).contains(&answer.code)
        {
            return Err(Error::Status);
        }
        let mut inner = self.lock();
        inner.0 += 1;
        let id = inner.0;
        let chance = StdRng::seed_from_u64(fault.seed);
        inner.1.push(Armed { id, fault, path, seen: 0, fired: 0, chance, pages: HashMap::new() });
        Ok(id)
    }

    /// Ends one fault; says whether it was in force.
    pub fn remove(&self, id: u64) -> bool {
        let mut inner = self.lock();
        let before = inner.1.len();
        inner.1.retain(|armed| armed.id != id);
        inner.1.len() < before
    }

    /// Ends all faults.
    pub fn clear(&self) {
        self.lock().1.clear();
    }

    /// How many requests a fault has harmed so far.
    pub fn fired(&self, id: u64) -> u64 {
        self.lock().1.iter().find(|armed| armed.id == id).map_or(0, |armed| armed.fired)
    }

    /// Every fault with what it has done so far.
    pub fn list(&self) -> Value {
        let inner = self.lock();
        let row =
            |armed: &Armed| json!({"id": armed.id, "seen": armed.seen, "fired": armed.fired, "fault": armed.fault});
        json!({"faults": inner.1.iter().map(row).collect::<Vec<_>>()})
    }

    pub(crate) fn plan(&self, service: Service, request: &Request) -> Plan {
        let mut plan = Plan::default();
        for armed in &mut self.lock().1 {
            let fault = &armed.fault;
            let matches = fault.service.is_none_or(|wanted| wanted == service)
                && fault.method.as_deref().is_none_or(|method| method.eq_ignore_ascii_case(request.method.as_str()))
                && armed.path.as_ref().is_none_or(|path| path.is_match(&request.path));
            if !matches {
                continue;
            }
            if fault.action == Action::RepeatPage {
                // A page that nobody came back for is forgotten.
                let kept = armed.pages.remove(&list_key(request));
                if let Some((_, page)) = kept.filter(|(marker, _)| request.param("marker") == Some(marker)) {
                    armed.fired += 1;
                    plan.faults.push(armed.id);
                    plan.replay.get_or_insert(page);
                    continue;
                }
            }
            armed.seen += 1;
            let spent = fault.count.is_some_and(|count| armed.fired + armed.pages.len() as u64 >= count);
            if armed.seen <= fault.after || spent {
                continue;
            }
            if fault.probability.is_some_and(|chance| armed.chance.random::<f64>() >= chance) {
                continue;
            }
            match &fault.action {
                Action::Latency(millis) => plan.latency += Duration::from_millis(*millis),
                Action::Mangle(mangle) => plan.mangles.push(mangle.clone()),
                // Counted when the page is repeated, not when it is kept.
                Action::RepeatPage => {
                    plan.keep.get_or_insert(armed.id);
                    continue;
                }
                _ if plan.action.is_some() => continue,
                action => plan.action = Some(action.clone()),
            }
            armed.fired += 1;
            plan.faults.push(armed.id);
        }
        plan
    }

    /// Keeps a page to repeat it, and makes sure that the client asks for another.
    pub(crate) fn keep(&self, id: u64, service: Service, url: &str, request: &Request, reply: Reply) -> Reply {
        if request.method != http::Method::GET || reply.status != 200 {
            return reply;
        }
        let Some((marker, with_next)) = with_next_link(service, url, request, &reply) else { return reply };
        if let Some(armed) = self.lock().1.iter_mut().find(|armed| armed.id == id) {
            armed.pages.insert(list_key(request), (marker, reply));
        }
        with_next
    }
}

/// Who asks for what, whichever page of it.
fn list_key(request: &Request) -> String {
    let filters = request.query_for_page(0, "", false);
    format!("{} {filters} {}", request.path, request.header("x-auth-token").unwrap_or_default())
}

/// The page with a link to a next one, added if there is none, and the marker in that link; `None` for what is not a
/// list with something in it.
fn with_next_link(service: Service, url: &str, request: &Request, reply: &Reply) -> Option<(String, Reply)> {
    let Payload::Json(Value::Object(body)) = &reply.payload else { return None };
    let (key, rows) = body.iter().find_map(|(key, value)| {
        let rows = value.as_array().filter(|_| !key.ends_with("_links"))?;
        (!rows.is_empty() && rows.iter().all(Value::is_object)).then_some((key, rows))
    })?;
    let last = rows.last()?;
    let marker = last["id"].as_str().or_else(|| last["keypair"]["name"].as_str())?;
    let limit = rows.len().max(1);
    let query = request.query_for_page(limit, marker, false);
    let mut body: Map<String, Value> = body.clone();
    match service {
        Service::Image => {
            body.entry("next")
                .or_insert_with(|| json!(format!("{}?{query}", request.path.trim_start_matches("/image"))));
        }
        Service::Identity => {
            if body.get("links").is_none_or(|links| links["next"].is_null()) {
                let next = format!("{url}{}?{query}", request.path);
                body.entry("links").or_insert_with(|| json!({}))["next"] = json!(next);
            }
        }
        // Lists of nodes and of resource providers come in one page.
        Service::BareMetal | Service::Placement => {}
        Service::Compute | Service::Network | Service::Volume => {
            let name = format!("{key}_links");
            let next = json!({"rel": "next", "href": format!("{url}{}?{query}", request.path)});
            let links = body.entry(name).or_insert_with(|| json!([]));
            if let Some(links) = links.as_array_mut()
                && !links.iter().any(|link| link["rel"] == "next")
            {
                links.push(next);
            }
        }
    }
    let marker = marker.to_owned();
    Some((marker, Reply { payload: Payload::Json(Value::Object(body)), ..reply.clone() }))
}

/// Changes an answer; one that has no such field is left alone.
pub(crate) fn mangle(reply: &mut Reply, mangle: &Mangle) {
    let Payload::Json(body) = &mut reply.payload else { return };
    let path: Vec<String> =
        mangle.pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    change(body, &path, mangle.replace.as_ref());
}

fn change(value: &mut Value, path: &[String], replace: Option<&Value>) {
    match (path, value) {
        ([], value) => {
            if let Some(replace) = replace {
                *value = replace.clone();
            }
        }
        ([star, rest @ ..], Value::Array(rows)) if star == "*" => {
            for row in rows {
                change(row, rest, replace);
            }
        }
        ([key, rest @ ..], Value::Array(rows)) => {
            let Ok(index) = key.parse::<usize>() else { return };
            if rest.is_empty() && replace.is_none() && index < rows.len() {
                rows.remove(index);
            } else if let Some(row) = rows.get_mut(index) {
                change(row, rest, replace);
            }
        }
        ([key], Value::Object(map)) => match replace {
            Some(replace) => {
                map.insert(key.clone(), replace.clone());
            }
            None => {
                map.remove(key);
            }
        },
        ([key, rest @ ..], Value::Object(map)) => {
            if let Some(inner) = map.get_mut(key) {
                change(inner, rest, replace);
            }
        }
        _ => {}
    }
}
