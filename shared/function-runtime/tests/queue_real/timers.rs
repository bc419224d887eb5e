//! Timers.

use std::sync::Arc;
use std::time::Duration;

use weir_function_runtime::worker::Verdict;
use weir_function_runtime::{queue::Error, timer};
use weir_messages::{Cause, Lane};

use crate::support::{Recorder, Rig, changed, count, server, until_all_is_quiet};

/// Proves: Q-6
#[tokio::test(flavor = "multi_thread")]
async fn an_object_has_one_timer_which_moves_when_set_again_and_goes_when_cleared() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let set = |seconds| {
        let queue = queue.clone();
        async move {
            timer::set(
                &queue,
                changed("a").again(Cause::Requeued, 3),
                Lane::Urgent,
                Duration::from_secs_f64(seconds),
                None,
            )
            .await
            .unwrap();
        }
    };
    set(0.5).await;
    set(3600.0).await;
    set(86_400.0).await;
    timer::set(&queue, changed("b"), Lane::Urgent, Duration::from_secs(60), None).await.unwrap();
    assert_eq!(count(&queue, "WORK", "timer.>").await, 2, "one each");

    let handler = Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    // Were the first of the three still there, it would be due before this one.
    set(1.0).await;
    let calls = handler.until("the timer", |calls| !calls.is_empty()).await;
    assert_eq!(
        (calls[0].cause, calls[0].attempt, calls[0].lane),
        (Cause::Requeued, 3, Lane::Urgent),
        "the payload carries it"
    );
    timer::clear(&queue, &server("b")).await.unwrap();
    until_all_is_quiet(&queue).await;
    worker.stop().await;
    assert_eq!(handler.calls().len(), 1, "{:?}", handler.calls());
}

/// Proves: Q-6
#[tokio::test(flavor = "multi_thread")]
async fn a_delay_below_the_servers_step_is_no_delay_and_one_beyond_a_day_is_refused() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    timer::set(&queue, changed("a"), Lane::Urgent, Duration::from_secs(60), None).await.unwrap();
    timer::set(&queue, changed("a"), Lane::Urgent, Duration::from_millis(249), None).await.unwrap();
    assert_eq!(count(&queue, "WORK", "work.urgent.server.ns.a").await, 1, "at once");
    assert_eq!(count(&queue, "WORK", "timer.>").await, 0, "instead of the timer there was");
    let refusal = timer::set(&queue, changed("a"), Lane::Urgent, Duration::from_secs(86_401), None).await.unwrap_err();
    assert!(matches!(refusal, Error::Delay(_)));
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_yield_comes_back_after_its_delay_and_a_settled_object_has_no_timer() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler: Arc<Recorder> = Recorder::new(|_, _, nth| async move {
        if nth == 0 { Verdict::After { delay: Duration::from_millis(700) } } else { Verdict::Settled }
    });
    let worker = rig.worker(&handler, &[]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    let calls = handler.until("two calls", |calls| calls.len() == 2).await;
    assert!(calls[1].at - calls[0].at >= Duration::from_millis(690), "{:?}", calls[1].at - calls[0].at);
    assert_eq!((calls[1].cause, calls[1].attempt), (Cause::Requeued, 0), "a yield is no failure");
    let trace = |seen: &crate::support::Seen| seen.traceparent[3..35].to_owned();
    assert_eq!(trace(&calls[0]), trace(&calls[1]), "the trace goes on through the timer");
    until_all_is_quiet(&queue).await;
    worker.stop().await;
}

/// Proves: Q-8
#[tokio::test(flavor = "multi_thread")]
async fn failures_are_counted_in_the_payload_and_a_users_change_begins_anew() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let handler: Arc<Recorder> = Recorder::new(|_, seen, nth| async move {
        match nth {
            0..3 => Verdict::Retry { after: Some(Duration::from_millis(300)) },
            // The third retry is far away, so that the user comes first.
            3 => Verdict::Retry { after: Some(Duration::from_secs(3600)) },
            _ if seen.attempt == 0 => Verdict::Settled,
            _ => Verdict::Parked,
        }
    });
    let worker = rig.worker(&handler, &[]).await;
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    let calls = handler.until("four calls", |calls| calls.len() == 4).await;
    assert_eq!(calls.iter().map(|seen| seen.attempt).collect::<Vec<_>>(), [0, 1, 2, 3]);
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    let calls = handler.until("the user's change", |calls| calls.len() == 5).await;
    assert_eq!((calls[4].attempt, calls[4].cause), (0, Cause::Changed));
    until_all_is_quiet(&queue).await;
    worker.stop().await;
}
