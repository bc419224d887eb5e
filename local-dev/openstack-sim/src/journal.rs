//! The log of requests, for tests to count and to look at. It is bounded, and no secret gets into it.

use std::collections::VecDeque;

use serde::Serialize;
use serde_json::{Value, json};

use crate::Service;

/// One request as it was answered.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Counts up from 1 and is never used twice.
    pub seq: u64,
    /// RFC 3339, by the simulator's clock.
    pub at: String,
    /// The service asked; absent for what belongs to none.
    pub service: Option<Service>,
    /// The HTTP method.
    pub method: String,
    /// The whole path.
    pub path: String,
    /// The query, as sent.
    pub query: String,
    /// The project the token is scoped to.
    pub project: Option<String>,
    /// The token's user.
    pub user: Option<String>,
    /// The status code; absent when the connection was reset instead.
    pub status: Option<u16>,
    /// Whether the request changed something (tokens count), whatever was answered.
    pub effect: bool,
    /// `X-OpenStack-Request-ID`, as the client sent it.
    pub request_id: Option<String>,
    /// The `User-Agent`.
    pub user_agent: Option<String>,
    /// The body without its secrets.
    pub body: Option<Value>,
    /// Ids of the faults that had a part in the answer.
    pub faults: Vec<u64>,
}

#[derive(Default)]
pub(crate) struct Journal {
    entries: VecDeque<Entry>,
    last: u64,
}

impl Journal {
    pub fn push(&mut self, mut entry: Entry, limit: usize) {
        self.last += 1;
        entry.seq = self.last;
        self.entries.push_back(entry);
        while self.entries.len() > limit {
            self.entries.pop_front();
        }
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }

    /// How many requests there have been since the start, whatever has been cleared.
    pub fn served(&self) -> u64 {
        self.last
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

const SECRETS: [&str; 9] = [
    "password",
    "original_password",
    "secret",
    "adminPass",
    "private_key",
    "user_data",
    "personality",
    "passcode",
    "auth",
];

/// A body that may be kept: bounded, secrets left out. Of a request for a token only methods and scope remain.
pub(crate) fn redacted(path: &str, body: &[u8]) -> Option<Value> {
    if body.len() > 65_536 {
        return None;
    }
    let mut body: Value = serde_json::from_slice(body).ok()?;
    if path.ends_with("/auth/tokens") {
        return Some(json!({"methods": body["auth"]["identity"]["methods"], "scope": body["auth"]["scope"]}));
    }
    redact(&mut body);
    Some(body)
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                if SECRETS.contains(&key.as_str()) {
                    *inner = json!("***");
                } else {
                    redact(inner);
                }
            }
        }
        Value::Array(rows) => rows.iter_mut().for_each(redact),
        _ => {}
    }
}
