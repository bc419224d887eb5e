//! What no recording may hold: every secret that a run has used.
//!
//! Intention: each test that starts a whole product is a proof of it, without knowing: when its [`crate::Stack`] ends, the secrets
//! that were ever stored in its Kubernetes API are looked for in what its functions have recorded.

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use weir_function_runtime::queue::TRACES;
use weir_function_runtime::settings::Settings;

/// So many of the last recordings are looked through.
const MOST: u64 = 250;
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A shorter one could be anything.
const SHORTEST: usize = 8;
/// How deep base64 inside base64 is looked into.
const DEEPEST: usize = 3;
/// What every token of the simulated cloud begins with, and how long one is at least.
const TOKEN: (&str, usize) = ("gAAAAAB", 30);
/// What of a region's Secret is none.
const PLAIN: [&str; 3] = ["domain-id", "project-id", "user-id"];

/// Looks for the secrets that were ever stored in the Kubernetes API whose data is in `folder` in what was last recorded on the queue
/// at `url`. Blocks. Returns how many recordings it has looked through.
///
/// # Panics
/// One of them holds a secret.
///
/// # Errors
/// The queue cannot be read: a test may have left it dead.
pub fn search(url: &str, folder: &Path) -> anyhow::Result<usize> {
    let looking = async {
        let settings = Settings::from_arguments(["--nats", url, "--name", "test"])?;
        let queue = weir_function_runtime::queue::connect_now(&settings).await?;
        let mut stream = queue.jetstream().get_stream(TRACES).await?;
        let last = stream.info().await?.state.last_sequence;
        let start_sequence = last.saturating_sub(MOST) + 1;
        let config = OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence },
            ..OrderedConfig::default()
        };
        let consumer = stream.create_consumer(config).await?;
        let many = usize::try_from(consumer.cached_info().num_pending)?;
        let mut messages = consumer.messages().await?.take(many);
        let (mut looked, secrets) = (0, stored(folder));
        while let Some(message) = messages.next().await {
            let message = message?;
            let text = String::from_utf8_lossy(&message.payload);
            if let Some(secret) = leak(&text, &secrets) {
                panic!("the recording {} holds the secret {secret:?}: {text}", message.subject);
            }
            looked += 1;
        }
        Ok(looked)
    };
    let run = || -> anyhow::Result<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { tokio::time::timeout(PATIENCE, looking).await? })
    };
    // On a thread of its own, since whoever asks may be within a runtime.
    std::thread::scope(|scope| match scope.spawn(run).join() {
        Ok(looked) => looked,
        Err(found) => std::panic::resume_unwind(found),
    })
}

/// The secrets that were ever stored in the Kubernetes API whose data is in this folder.
pub fn stored(folder: &Path) -> BTreeSet<String> {
    let mut secrets = BTreeSet::new();
    for file in ["snapshot.jsonl", "journal.jsonl"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        for value in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            gather(&value, &mut secrets);
        }
    }
    secrets
}

fn gather(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let secret = value["kind"] == "Secret";
            for (name, value) in map {
                match (name.as_str(), value) {
                    ("password" | "applicationCredentialSecret", Value::String(text)) => add(text, into),
                    ("sshPrivateKey" | "userData", Value::String(text)) => lines(&decoded(text), into),
                    ("data" | "stringData", Value::Object(data)) if secret => {
                        for (_, value) in data.iter().filter(|(name, _)| !PLAIN.contains(&name.as_str())) {
                            let text = value.as_str().unwrap_or_default();
                            add(if name == "data" { decoded(text) } else { text.to_owned() }.trim(), into);
                        }
                    }
                    _ => gather(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, into)),
        _ => {}
    }
}

fn decoded(text: &str) -> String {
    STANDARD.decode(text.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| text.to_owned())
}

fn add(text: &str, into: &mut BTreeSet<String>) {
    if text.len() >= SHORTEST {
        into.insert(text.to_owned());
    }
}

/// How names end behind which user data has its secrets, in lower case.
const TELLING: [&str; 5] = ["password", "passwd", "secret", "token", "api_key"];

/// What a key or user data is known by: its lines, without those that many have, and what stands behind a telling name by itself.
fn lines(text: &str, into: &mut BTreeSet<String>) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (name, value) in lines.iter().filter_map(|line| line.split_once([':', '='])) {
        if TELLING.iter().any(|ending| name.trim().to_ascii_lowercase().ends_with(ending)) {
            add(value.trim().trim_matches(['"', '\'']), into);
        }
    }
    let telling =
        |line: &&&str| line.len() > 16 && !line.starts_with(['-', '#']) && !line.starts_with("b3BlbnNzaC1rZXk");
    for line in lines.iter().filter(telling) {
        add(line, into);
    }
}

/// The first of `secrets` that `text` holds, or a token; in whatever way it is written.
pub fn leak<'a>(text: &str, secrets: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let mut all = Vec::new();
    unfold(text, DEEPEST, &mut all);
    let holds = |form: &str| all.iter().any(|text| text.contains(form));
    let token = all.iter().find_map(|text| {
        let at = text.find(TOKEN.0)?;
        let token: String =
            text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
        (token.len() >= TOKEN.1).then_some(token)
    });
    let stored = || secrets.into_iter().find(|secret| forms(secret).iter().any(|form| holds(form))).cloned();
    token.or_else(stored)
}

/// The secret, and what is the same of it in base64 whatever stands before and after it.
fn forms(secret: &str) -> Vec<String> {
    let encoded = (0..3).map(|offset| {
        let padded = [&b"xxx"[..offset], secret.as_bytes()].concat();
        let encoded = STANDARD.encode(padded);
        let (from, to) = (if offset == 0 { 0 } else { 4 }, encoded.trim_end_matches('=').len().saturating_sub(2));
        encoded[from..to].to_owned()
    });
    std::iter::once(secret.to_owned()).chain(encoded).collect()
}

/// The text, and all that is in base64 in it.
fn unfold(text: &str, depth: usize, into: &mut Vec<String>) {
    into.push(text.to_owned());
    let Some(depth) = depth.checked_sub(1) else { return };
    for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || "+/=".contains(c))).filter(|word| word.len() > 15) {
        if let Some(inner) = STANDARD.decode(word).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
            unfold(&inner, depth, into);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_leak_is_found_however_it_is_written() {
        let mut secrets = BTreeSet::new();
        gather(
            &json!({"v": {"kind": "Secret", "data": {"password": STANDARD.encode("battery-staple")}}}),
            &mut secrets,
        );
        gather(
            &json!({"spec": {"userData": STANDARD.encode("#cloud-config\nlist: 'root:correct-horse'\nDB_PASSWORD=\"hunter2-alone\"\n")}}),
            &mut secrets,
        );
        for text in [
            "a battery-staple".to_owned(),
            "hunter2-alone".to_owned(),
            STANDARD.encode("a battery-staple b"),
            STANDARD.encode(STANDARD.encode("list: 'root:correct-horse'")),
            format!("token gAAAAAB{}", "x".repeat(40)),
        ] {
            assert!(leak(&text, &secrets).is_some(), "{text}");
        }
        assert_eq!(leak("redacted-0123456789abcdef of gAAAAAB kind", &secrets), None);
    }
}
