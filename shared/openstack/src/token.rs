//! Tokens, shared by everything in the process (OSC-3).
//!
//! # Invariants
//! - One request in flight per key, however many wait; all of them get its outcome.
//! - A failure is given to those who waited and then forgotten: the next caller asks again.
//! - If the one who asks is dropped, one of those who wait takes over.
//! - A token is used for at most 80 % of its life, measured on this machine's monotonic clock from before it was asked for,
//!   so that neither a skewed clock nor a slow answer prolongs it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::auth::Key;
use crate::catalog::Catalog;
use crate::{Class, DomainId, ProjectId, Result, Secret, UserId, lenient};

/// More tokens than this are not kept: the one that dies first goes.
const MOST: usize = 4096;

/// Used when a token does not say how long it lives.
const UNKNOWN_LIFE: Duration = Duration::from_secs(60);

/// What Keystone says of a token: whose it is, for what, and what it may do there.
#[derive(Debug, Clone, Default, Deserialize)]
#[non_exhaustive]
pub struct TokenInfo {
    /// The user.
    #[serde(default, deserialize_with = "lenient::field")]
    pub user: Option<Owner<UserId>>,
    /// The project, if it is scoped to one.
    #[serde(default, deserialize_with = "lenient::field")]
    pub project: Option<Owner<ProjectId>>,
    /// The domain, if it is scoped to one.
    #[serde(default, deserialize_with = "lenient::field")]
    pub domain: Option<Owner<DomainId>>,
    /// The roles the user has in that scope.
    #[serde(default, deserialize_with = "lenient::list")]
    pub roles: Vec<RoleName>,
    /// The endpoints.
    #[serde(default)]
    pub catalog: Catalog,
    #[serde(default, deserialize_with = "lenient::field")]
    issued_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient::field")]
    expires_at: Option<Timestamp>,
}

impl TokenInfo {
    /// Whether the token carries the role of this name; Keystone compares role names without regard to case.
    pub fn has_role(&self, name: &str) -> bool {
        self.roles.iter().any(|role| role.name.eq_ignore_ascii_case(name))
    }
}

/// An id with its name.
#[derive(Debug, Clone, Deserialize)]
pub struct Owner<I> {
    /// The id.
    pub id: I,
    /// The name, which may be missing.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
}

/// A role as a token names it.
#[derive(Debug, Clone, Deserialize)]
pub struct RoleName {
    /// The name.
    pub name: String,
}

/// A token in hand.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) value: Secret,
    pub(crate) info: TokenInfo,
    fresh_until: Instant,
}

impl Token {
    /// Reads Keystone's answer to a request begun at `asked`. `None`: it is not understood.
    pub(crate) fn read(value: Secret, body: &[u8], asked: Instant) -> Option<Self> {
        let mut body: Value = serde_json::from_slice(body).ok()?;
        let info: TokenInfo = serde_json::from_value(body.get_mut("token")?.take()).ok()?;
        let life = match (info.issued_at, info.expires_at) {
            (Some(issued), Some(expires)) => {
                Duration::try_from(expires.duration_since(issued)).unwrap_or(Duration::ZERO)
            }
            _ => UNKNOWN_LIFE,
        };
        // A day at most: longer lives are a misconfiguration, and an `Instant` cannot hold every sum.
        let fresh = (life / 5 * 4).min(Duration::from_secs(24 * 3600));
        Some(Self { value, info, fresh_until: asked + fresh })
    }

    fn is_fresh(&self) -> bool {
        Instant::now() < self.fresh_until
    }
}

/// The process-wide cache. Clones share it.
#[derive(Clone, Default)]
pub struct TokenCache(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    entries: HashMap<Key, Entry>,
    flights: u64,
}

enum Entry {
    Ready(Arc<Token>),
    Flight { id: u64, outcome: watch::Receiver<Outcome> },
}

type Outcome = Option<Result<Arc<Token>>>;

enum Part {
    Wait(watch::Receiver<Outcome>),
    Ask(u64, watch::Sender<Outcome>),
}

impl std::fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCache").field("entries", &self.state().entries.len()).finish()
    }
}

impl TokenCache {
    /// Drops every token got from `endpoint` (OSC-4). A request in flight is left to those who wait for it, and not kept.
    pub fn forget_endpoint(&self, endpoint: &str) {
        self.state().entries.retain(|key, _| key.endpoint != endpoint);
    }

    /// How many tokens are kept or on their way.
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The token for `key`: the kept one, the one on its way, or the one that `fetch` brings.
    pub(crate) async fn get<F, Fut>(&self, key: &Key, fetch: F) -> Result<Arc<Token>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Token>>,
    {
        loop {
            let part = {
                let mut state = self.state();
                match state.entries.get(key) {
                    Some(Entry::Ready(token)) if token.is_fresh() => return Ok(Arc::clone(token)),
                    Some(Entry::Flight { outcome, .. }) => Part::Wait(outcome.clone()),
                    _ => {
                        let (sender, outcome) = watch::channel(None);
                        state.flights += 1;
                        let id = state.flights;
                        state.entries.insert(key.clone(), Entry::Flight { id, outcome });
                        Part::Ask(id, sender)
                    }
                }
            };
            match part {
                Part::Wait(mut outcome) => {
                    let settled = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
                    match settled {
                        Some(Ok(token)) => return Ok(token),
                        // What stopped the one who asked (its lease, say) need not stop us.
                        Some(Err(error)) if error.class() != Class::Withheld => return Err(error),
                        _ => {}
                    }
                }
                Part::Ask(id, sender) => {
                    // On drop, also of this future in mid-request, the flight is over and somebody else may ask.
                    let _landing = Landing { cache: self, key, id };
                    let result = fetch().await.map(Arc::new);
                    if let Ok(token) = &result {
                        self.keep(key, id, token);
                    }
                    sender.send_replace(Some(result.clone()));
                    return result;
                }
            }
        }
    }

    /// Drops `token` because the cloud refused it; a newer one that has taken its place stays.
    pub(crate) fn refuse(&self, key: &Key, token: &Arc<Token>) {
        if let MapEntry::Occupied(entry) = self.state().entries.entry(key.clone())
            && matches!(entry.get(), Entry::Ready(kept) if Arc::ptr_eq(kept, token))
        {
            entry.remove();
        }
    }

    fn keep(&self, key: &Key, id: u64, token: &Arc<Token>) {
        let mut state = self.state();
        let ours = matches!(state.entries.get(key), Some(Entry::Flight { id: flying, .. }) if *flying == id);
        if !ours {
            return;
        }
        state.entries.insert(key.clone(), Entry::Ready(Arc::clone(token)));
        if state.entries.len() > MOST {
            state.entries.retain(|_, entry| !matches!(entry, Entry::Ready(token) if !token.is_fresh()));
        }
        if state.entries.len() > MOST {
            let first = state
                .entries
                .iter()
                .filter_map(|(key, entry)| match entry {
                    Entry::Ready(token) => Some((token.fresh_until, key)),
                    Entry::Flight { .. } => None,
                })
                .min_by_key(|(dies, _)| *dies)
                .map(|(_, key)| key.clone());
            if let Some(first) = first {
                state.entries.remove(&first);
            }
        }
    }

    /// No code panics while holding the lock, and the map is whole between any two statements: a poisoned lock is usable.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Landing<'a> {
    cache: &'a TokenCache,
    key: &'a Key,
    id: u64,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if let MapEntry::Occupied(entry) = self.cache.state().entries.entry(self.key.clone())
            && matches!(entry.get(), Entry::Flight { id, .. } if *id == self.id)
        {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests;
