//! The measurements at a size that takes seconds: so that they cannot rot, and that what both sides do is right. What comes
//! of it is looked at, how fast it was is not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use weir_load::population::Population;
use weir_load::report::Figure;
use weir_load::scenario::converge::{self, Side};
use weir_load::scenario::settled::{self, Asked};
use weir_load::scenario::{Scale, calls, cold, recovery};

const TINY: Scale =
    Scale { name: "tiny", reads: 200, settled: 20, made: 20, repeats: 1, changes: 4, kills: 1, starts: 1 };

/// Each figure is a number that was measured, and has its counterpart where it is to have one.
fn check(figures: &[Figure], compared: usize) {
    for figure in figures {
        let weir = figure.weir.unwrap_or_else(|| panic!("nothing of {}", figure.what));
        assert!(weir.n > 0 && weir.median.is_finite() && weir.median >= 0.0, "{figure:?}");
    }
    assert_eq!(figures.iter().filter(|figure| figure.classic.is_some()).count(), compared, "{figures:#?}");
    let names: BTreeSet<_> = figures.iter().map(|figure| &figure.what).collect();
    assert!(names.len() + 1 >= figures.len(), "two figures can be told from each other: {figures:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_made_at_once_by_one_process_by_two_and_by_a_classic_controller_are_made_once_each() {
    for side in [Side::Weir(1), Side::Weir(2), Side::Classic] {
        // Fails unless all become available, and there is one port and one server for each.
        converge::once(Population { servers: 20 }, side, 8).await.unwrap_or_else(|error| panic!("{side:?}: {error:#}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settled_servers_are_looked_at_again_and_changes_acted_on_by_both_sides() {
    let figures = settled::run(&TINY, Asked { resync: true, latency: true }).await.expect("measured");
    check(&figures, 13);
    let of = |what: &str| figures.iter().find(|figure| figure.what.starts_with(what)).expect("a figure");
    let requests = of("requests to OpenStack").weir.expect("measured").median;
    assert!(requests >= 1.0, "each server was looked for in the cloud: {requests}");
    assert!(of("requests to OpenStack").target.as_ref().expect("a target").reached, "as few as the classic controller");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_only_reads_is_called_once_for_each_message() {
    check(&calls::run(&TINY).await.expect("measured"), 2);
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_in_mid_call_is_replaced_and_makes_nothing_twice() {
    check(&recovery::run(&TINY).await.expect("measured"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_just_been_started_makes_its_first_call_as_a_worker_and_in_lambda() {
    check(&cold::run(&TINY).await.expect("measured"), 0);
}
