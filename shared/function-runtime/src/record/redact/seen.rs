//! What was made of bodies, so that it need not be made again: call after call reads the same region, the same identity, and uses the
//! same token.
//!
//! Invariants: what is taken from here holds no secret that has become known since it was made, and is what would be made of the body
//! if it had not been here; it tells what the body told. Bounded: what was not asked for lately goes.

use std::collections::HashMap;

use bytes::Bytes;

use super::Json;
use super::known::{Known, Which};

/// Twice so many bytes are kept at most.
const MOST: usize = 4 << 20;
/// A longer body is not worth it.
const LONGEST: usize = 64 << 10;

/// What was made of a body.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) json: Json,
    /// What the body tells, which is told whenever it is met.
    pub(super) told: Box<[u32]>,
    /// Holds none of the secrets that were known when so many had been learnt.
    learnt: u64,
}

impl Made {
    /// Whether nothing that has become known since is in it, nor anything that this call has been told by others.
    pub(super) fn is_good(&self, known: &Known) -> bool {
        // What it tells itself was replaced then, and is not to be where it is a name now.
        (self.told.is_empty() || known.published() == 0)
            && (self.learnt == known.learnt() && self.told.len() == known.told()
                || !known.is_in(self.json.get(), Which::All))
    }
}

/// Whole bodies are hashed: quickly.
type Generation = HashMap<(bool, Bytes), Made, foldhash::quality::RandomState>;

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
    /// What was made of `body`, whose secrets have been learnt then and not been forgotten.
    pub(super) fn get(&mut self, about_secrets: bool, body: &Bytes, forgot: u64) -> Option<Made> {
        if self.forgot != forgot {
            *self = Self { forgot, ..Self::default() };
        }
        if body.len() > LONGEST {
            return None;
        }
        // Bytes are shared: this copies nothing.
        let key = (about_secrets, body.clone());
        if let Some(made) = self.young.get(&key) {
            return Some(made.clone());
        }
        let (key, made) = self.old.remove_entry(&key)?;
        self.insert(key, made.clone());
        Some(made)
    }

    pub(super) fn keep(&mut self, about_secrets: bool, body: &Bytes, json: &Json, told: Box<[u32]>, known: &Known) {
        if body.len() <= LONGEST {
            // A copy, since a slice of something larger would hold on to all of it.
            let key = (about_secrets, Bytes::copy_from_slice(body));
            self.insert(key, Made { json: json.clone(), told, learnt: known.learnt() });
        }
    }

    fn insert(&mut self, key: (bool, Bytes), made: Made) {
        if self.bytes > MOST {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += key.1.len() + made.json.get().len() + 4 * made.told.len() + 256;
        self.young.insert(key, made);
    }
}
