#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Auth, Credential, Error, Scope, Service};

fn key(user: &str) -> Key {
    let credential = Credential::Password { user_id: user.into(), password: Secret::new("p") };
    Auth { endpoint: "http://k".into(), credential, scope: Scope::Own }.key()
}

fn token(seconds: u64) -> Token {
    let body = json!({"token": {
        "issued_at": "2026-01-01T00:00:00.000000Z",
        "expires_at": (Timestamp::from_second(1_767_225_600 + i64::try_from(seconds).unwrap()).unwrap()).to_string(),
    }});
    Token::read(Secret::new("t"), body.to_string().as_bytes(), Instant::now()).unwrap()
}

fn failure(class: Class) -> Error {
    Error::new(class, Service::Identity, "POST", "/auth/tokens")
}

async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Proves: OSC-3
#[tokio::test(start_paused = true)]
async fn a_hundred_waiters_get_the_one_failure_and_the_next_caller_asks_again() {
    let cache = TokenCache::default();
    let asked = AtomicU32::new(0);
    let ask = || async {
        asked.fetch_add(1, Ordering::SeqCst);
        a_moment().await;
        Err(failure(Class::Unavailable))
    };
    let key = key("u");
    let results = futures::future::join_all((0..100).map(|_| cache.get(&key, ask))).await;
    assert!(results.iter().all(|result| result.as_ref().is_err_and(|error| error.class() == Class::Unavailable)));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(cache.is_empty());
    cache.get(&key, || async { Ok(token(3600)) }).await.unwrap();
}

/// Proves: OSC-3
#[tokio::test(start_paused = true)]
async fn when_the_one_who_asks_is_dropped_another_takes_over() {
    let cache = TokenCache::default();
    let key = key("u");
    let mut dropped = Box::pin(cache.get(&key, || async {
        std::future::pending::<()>().await;
        unreachable!()
    }));
    assert!(futures::poll!(&mut dropped).is_pending());
    let waiting = cache.get(&key, || async { Ok(token(3600)) });
    let drop_it = async {
        a_moment().await;
        drop(dropped);
    };
    let (result, ()) = tokio::join!(waiting, drop_it);
    result.unwrap();
}

/// Proves: OSC-3, Q-4
#[tokio::test(start_paused = true)]
async fn one_call_s_lost_lease_does_not_fail_the_calls_that_wait_with_it() {
    let cache = TokenCache::default();
    let key = key("u");
    let first = cache.get(&key, || async {
        a_moment().await;
        Err(failure(Class::Withheld))
    });
    let second = cache.get(&key, || async { Ok(token(3600)) });
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap_err().class(), Class::Withheld);
    second.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_replaced_already_is_not_dropped_again() {
    let cache = TokenCache::default();
    let key = key("u");
    let old = cache.get(&key, || async { Ok(token(3600)) }).await.unwrap();
    cache.refuse(&key, &old);
    let new = cache.get(&key, || async { Ok(token(3600)) }).await.unwrap();
    cache.refuse(&key, &old);
    let kept = cache.get(&key, || async { unreachable!() }).await.unwrap();
    assert!(Arc::ptr_eq(&kept, &new));
}

/// Proves: OSC-4
#[tokio::test(start_paused = true)]
async fn a_token_on_its_way_when_its_region_is_forgotten_is_not_kept() {
    let cache = TokenCache::default();
    let key = key("u");
    let asked = cache.get(&key, || async {
        a_moment().await;
        Ok(token(3600))
    });
    let forget = async { cache.forget_endpoint("http://k") };
    let (result, ()) = tokio::join!(asked, forget);
    result.unwrap();
    assert!(cache.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_cache_does_not_grow_without_end() {
    let cache = TokenCache::default();
    for n in 0..MOST + 10 {
        cache.get(&key(&n.to_string()), || async { Ok(token(3600 + n as u64)) }).await.unwrap();
    }
    assert_eq!(cache.len(), MOST);
    let asked = AtomicU32::new(0);
    cache
        .get(&key("0"), || async {
            asked.fetch_add(1, Ordering::SeqCst);
            Ok(token(1))
        })
        .await
        .unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1, "the one that dies first was dropped first");
}

proptest! {
    #[test]
    fn no_answer_to_a_token_request_makes_the_reader_fail(body in "(\\{|\\}|\"token\"|:|\\[|\\]|,|null|1|\"catalog\"|\"type\"|\"user\"|\"expires_at\"|\"x\"){0,20}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _guard = runtime.enter();
        let _ = Token::read(Secret::new("t"), body.as_bytes(), Instant::now());
    }

    /// Proves: OSC-10
    #[test]
    fn strange_fields_of_a_token_are_survived(field in 0usize..7, value in prop_oneof![
        Just(json!(null)), Just(json!("x")), Just(json!(-1)), Just(json!([])), Just(json!([1, {"type": 2}])), Just(json!({"id": []})),
    ]) {
        let names = ["user", "project", "domain", "roles", "catalog", "issued_at", "expires_at"];
        let mut body = json!({"token": {"expires_at": "2026-01-01T00:00:00Z"}});
        body["token"][names[field]] = value;
        let read = Token::read(Secret::new("t"), body.to_string().as_bytes(), Instant::now());
        prop_assert!(read.is_some());
    }
}
