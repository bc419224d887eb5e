//! The tokens that the process holds, with the exchanges that got them.
//!
//! Intention: a call often uses a token that an earlier one has got, and with it the catalog that says where everything is.
//! Its recording has to hold both, or it could not be run again alone.
//!
//! Invariants: bounded; what is here is as secret as the tokens themselves, and goes out by way of the redactor only.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::exchange::RawExchange;

/// No more are kept; the oldest goes.
const MOST: usize = 1024;
/// No more refusals are kept.
const MOST_FAILURES: usize = 16;

#[derive(Default)]
struct State {
    by_token: HashMap<u64, Arc<RawExchange>>,
    order: VecDeque<u64>,
    failures: VecDeque<(Instant, Arc<RawExchange>)>,
}

/// What the process knows of tokens.
#[derive(Default)]
pub(super) struct Tokens {
    hash: RandomState,
    state: Mutex<State>,
}

impl Tokens {
    /// Remembers how a token was got, or was not.
    pub(super) fn remember(&self, exchange: &Arc<RawExchange>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(token) = exchange.token() else {
            if state.failures.len() == MOST_FAILURES {
                state.failures.pop_front();
            }
            state.failures.push_back((Instant::now(), exchange.clone()));
            return;
        };
        let token = self.hash.hash_one(token);
        if state.by_token.insert(token, exchange.clone()).is_none() {
            state.order.push_back(token);
        }
        if state.order.len() > MOST
            && let Some(oldest) = state.order.pop_front()
        {
            state.by_token.remove(&oldest);
        }
    }

    /// How a token was got.
    pub(super) fn held(&self, token: &[u8]) -> Option<Arc<RawExchange>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.by_token.get(&self.hash.hash_one(token)).cloned()
    }

    /// Vain attempts since `begun`: calls that run at one time share the outcome of one attempt, and only one of them
    /// has it on its tape.
    pub(super) fn failures(&self, begun: Instant) -> Vec<Arc<RawExchange>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failures.iter().filter(|(at, _)| *at >= begun).map(|(_, exchange)| exchange.clone()).collect()
    }
}
