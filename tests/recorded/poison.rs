//! A tenant calls secrets what others go by, every word of it: calls run again all the same.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use weir_function_runtime::record::redact::{Key, Secrets};
use weir_messages::Recording;
use weir_messages::recording::{Answer, Body, Entry, Exchange, PLACEHOLDER};

use crate::{kept, must_replay};

/// Longer than any name.
const LONGEST: usize = 100;
/// So many passwords are said to one server.
const TOGETHER: usize = 40;

fn exchanges(recording: &mut Recording) -> Vec<&mut Exchange> {
    let own = recording.entries.iter_mut().filter_map(|entry| match entry {
        Entry::Exchange(exchange) => Some(exchange),
        _ => None,
    });
    recording.held.iter_mut().chain(own).collect()
}

/// Every word that stands in a document by itself: the names of its members, and what they are.
fn words(value: &Value, into: &mut BTreeSet<String>) {
    // A sentence is no word; nor is a tag like `organization=organization-a`.
    let is_word = |word: &str| word.len() <= LONGEST && !word.contains([' ', '=', '\n']) && !word.contains(PLACEHOLDER);
    match value {
        Value::String(text) if is_word(text) => {
            into.insert(text.clone());
        }
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            into.insert(name.clone());
            words(value, into);
        }),
        Value::Array(items) => items.iter().for_each(|item| words(item, into)),
        _ => {}
    }
}

/// All that calls go by.
fn all_words(recordings: &mut [Recording]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for exchange in recordings.iter_mut().flat_map(exchanges) {
        found.extend(exchange.url.split(['/', '?', '=', '&']).map(str::to_owned));
        for body in bodies(exchange) {
            if let Body::Json(value) = body {
                words(value, &mut found);
            }
        }
    }
    found
}

fn bodies(exchange: &mut Exchange) -> impl Iterator<Item = &mut Body> {
    let answer = match &mut exchange.answer {
        Answer::Response { body, .. } => body.as_mut(),
        _ => None,
    };
    exchange.body.as_mut().into_iter().chain(answer)
}

/// Servers whose owners call each of `words` a secret.
fn servers(words: &BTreeSet<String>) -> Vec<Value> {
    let words: Vec<&String> = words.iter().collect();
    let server = |words: &[&String]| {
        let tag =
            |(at, word): (usize, &&String)| json!({"name": format!("acme.example.com/{at}-password"), "value": word});
        let says: Vec<String> = words.iter().map(|word| format!("    me:{word}\n")).collect();
        let data = format!("#cloud-config\nchpasswd:\n  list: |\n{}", says.concat());
        json!({"apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "Server", "metadata": {"resourceVersion": "1"},
            "spec": {"tags": words.iter().enumerate().map(tag).collect::<Vec<_>>(), "userData": STANDARD.encode(data)}})
    };
    words.chunks(TOGETHER).map(server).collect()
}

/// The recording as it would be if the call had met these servers as well.
fn poisoned(mut recording: Recording, servers: &[Value]) -> Recording {
    let mut secrets = Secrets::new(Key::random());
    secrets.begin();
    let learn = |secrets: &mut Secrets, value: &Value| {
        let body = value.to_string().into();
        let _ = secrets.learn("/x", &body);
    };
    for server in servers {
        learn(&mut secrets, server);
    }
    let all: Vec<(String, Value)> = exchanges(&mut recording)
        .into_iter()
        .flat_map(|exchange| {
            let url = exchange.url.clone();
            bodies(exchange).filter_map(move |body| match body {
                Body::Json(value) => Some((url.clone(), value.clone())),
                Body::Omitted { .. } => None,
            })
        })
        .collect();
    let all: Vec<_> = all.into_iter().map(|(url, value)| (url, value.to_string().into())).collect();
    let learnt: Vec<_> = all.iter().map(|(url, body)| (url, secrets.learn(url, body))).collect();
    for (url, learnt) in &learnt {
        secrets.publish(url, learnt);
    }
    let mut left = learnt.into_iter().map(|(_, learnt)| match secrets.body(learnt) {
        Some(Body::Json(json)) => serde_json::from_str(json.get()).unwrap(),
        other => panic!("{other:?}"),
    });
    for exchange in exchanges(&mut recording) {
        for body in bodies(exchange) {
            if let Body::Json(value) = body {
                *value = left.next().unwrap();
            }
        }
    }
    drop(left);
    for exchange in exchanges(&mut recording) {
        exchange.url = secrets.url(&exchange.url);
    }
    for entry in &mut recording.entries {
        if let Entry::Step { step, .. } = entry {
            *step = secrets.text(step).into_owned();
        }
    }
    if let Some(problem) = &mut recording.outcome.problem {
        problem.message = secrets.text(&problem.message).into_owned();
    }
    recording
}

/// Proves: R-3
#[tokio::test(flavor = "multi_thread")]
async fn calls_run_again_whatever_a_tenant_calls_a_secret() {
    crate::studio::listen();
    let mut recordings = kept();
    let words = all_words(&mut recordings);
    assert!(words.len() > 500 && words.contains("securitygroups") && words.contains("identity-a"), "{words:?}");
    let servers = servers(&words);
    for recording in recordings {
        must_replay(&poisoned(recording, &servers)).await;
    }
}
