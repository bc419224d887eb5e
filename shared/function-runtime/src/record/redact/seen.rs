//! What was made of bodies, so that it need not be made again: call after call reads the same region, the same identity, and uses the
//! same token.
//!
//! Invariants: what is taken from here holds no secret that has become known since it was made. Bounded: what was not asked for
//! lately goes.

use std::cell::Cell;
use std::collections::HashMap;

use bytes::Bytes;

use super::Json;
use super::known::Known;

/// Twice so many bytes are kept at most.
const MOST: usize = 4 << 20;
/// A longer body is not worth it.
const LONGEST: usize = 64 << 10;

struct Made {
    json: Json,
    /// Holds none of the secrets that were known when so many had been learnt.
    learnt: Cell<u64>,
}

type Generation = HashMap<(bool, Bytes), Made>;

/// What was made of bodies.
#[derive(Default)]
pub(super) struct Seen {
    young: Generation,
    old: Generation,
    /// In the young ones.
    bytes: usize,
    forgot: u64,
}

impl Seen {
    /// Whether the secrets of `body` have been learnt, and not been forgotten.
    pub(super) fn has(&mut self, about_secrets: bool, body: &Bytes, forgot: u64) -> bool {
        if self.forgot != forgot {
            *self = Self { forgot, ..Self::default() };
        }
        if body.len() > LONGEST {
            return false;
        }
        // Bytes are shared: this copies nothing.
        let key = (about_secrets, body.clone());
        if self.young.contains_key(&key) {
            return true;
        }
        let Some(made) = self.old.remove(&key) else { return false };
        self.insert(key, made);
        true
    }

    /// What was made of `body`.
    pub(super) fn get(&mut self, about_secrets: bool, body: &Bytes, known: &Known) -> Option<Json> {
        if !self.has(about_secrets, body, known.forgot()) {
            return None;
        }
        let key = (about_secrets, body.clone());
        let made = self.young.get(&key)?;
        if made.learnt.get() != known.learnt() {
            if known.is_in(made.json.get()) {
                self.young.remove(&key);
                return None;
            }
            made.learnt.set(known.learnt());
        }
        Some(made.json.clone())
    }

    pub(super) fn keep(&mut self, about_secrets: bool, body: &Bytes, json: &Json, known: &Known) {
        if body.len() <= LONGEST {
            // A copy, since a slice of something larger would hold on to all of it.
            let key = (about_secrets, Bytes::copy_from_slice(body));
            self.insert(key, Made { json: json.clone(), learnt: Cell::new(known.learnt()) });
        }
    }

    fn insert(&mut self, key: (bool, Bytes), made: Made) {
        if self.bytes > MOST {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += key.1.len() + made.json.get().len() + 256;
        self.young.insert(key, made);
    }
}
