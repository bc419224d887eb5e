//! Lanes and bounds over several processes at once.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use weir_messages::Lane;

use crate::processes::{Worker, lines, now, until_lines};
use crate::support::{Rig, changed, until_all_is_quiet};

/// A call that was made by one of the processes.
#[derive(Clone, Debug)]
struct Span {
    name: String,
    urgent: bool,
    process: String,
    /// Microseconds.
    from: u128,
    to: u128,
}

fn spans(folder: &Path) -> Vec<Span> {
    let read = |line: String| {
        let parts: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| parts[index].parse().unwrap();
        let (name, process) = (parts[0].to_owned(), parts[2].to_owned());
        Span { name, urgent: parts[1] == "urgent", process, from: number(3), to: number(4) }
    };
    let mut spans: Vec<Span> = lines(folder, "spans").into_iter().map(read).collect();
    spans.sort_by_key(|span| span.from);
    spans
}

/// Starts `count` workers whose calls take `millis`.
fn workers(rig: &Rig, folder: &Path, count: usize, millis: u32, arguments: &str) -> Vec<Worker> {
    fs::write(folder.join("slow"), millis.to_string()).unwrap();
    (0..count).map(|_| Worker::start(rig, folder, arguments, "")).collect()
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_starts_soon_in_one_of_several_processes_that_have_a_list_to_work_through() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let folder = TempDir::new().unwrap();
    let names: Vec<String> = (0..3000).map(|n| format!("r{n}")).collect();
    let sent = names.iter().map(|name| queue.publish(changed(name), Lane::Routine, None, None));
    assert!(futures::future::join_all(sent).await.iter().all(Result::is_ok));
    let workers = workers(&rig, folder.path(), 3, 40, "--concurrency 4");
    until_lines(folder.path(), "spans", 30).await;
    let mut published = Vec::new();
    for n in 0..40 {
        published.push((format!("u{n}"), now()));
        queue.publish(changed(&format!("u{n}")), Lane::Urgent, None, None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    crate::support::eventually("all edits", || {
        let urgent = spans(folder.path()).iter().filter(|span| span.urgent).count();
        std::future::ready((urgent == 40).then_some(()))
    })
    .await;
    let spans = spans(folder.path());
    drop(workers);
    let mut waited: Vec<u128> = published
        .iter()
        .map(|(name, at)| spans.iter().find(|span| span.name == *name).unwrap().from.saturating_sub(*at))
        .collect();
    waited.sort_unstable();
    assert!(waited[38] < 1_000_000, "{waited:?}");
    assert!(spans.len() < 2000, "there was a list to wait behind all the time: {}", spans.len());
}

/// Proves: Q-11
#[tokio::test(flavor = "multi_thread")]
async fn no_process_starves_the_list_while_there_are_edits_without_end() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let folder = TempDir::new().unwrap();
    for n in 0..300 {
        queue.publish(changed(&format!("u{n}")), Lane::Urgent, None, None).await.unwrap();
        queue.publish(changed(&format!("r{n}")), Lane::Routine, None, None).await.unwrap();
    }
    let workers = workers(&rig, folder.path(), 3, 15, "--concurrency 1");
    crate::support::eventually("all edits", || {
        let urgent = spans(folder.path()).iter().filter(|span| span.urgent).count();
        std::future::ready((urgent == 300).then_some(()))
    })
    .await;
    drop(workers);
    let spans = spans(folder.path());
    let last = spans.iter().rposition(|span| span.urgent).unwrap();
    let mut processes: Vec<&str> = spans.iter().map(|span| span.process.as_str()).collect();
    processes.sort_unstable();
    processes.dedup();
    for process in processes {
        let lanes: Vec<bool> =
            spans[..last].iter().filter(|span| span.process == process).map(|span| span.urgent).collect();
        for (start, window) in lanes.windows(8).enumerate() {
            assert!(window.contains(&false), "process {process} starved it from its call {start}: {lanes:?}");
        }
    }
}

/// Proves: Q-12
#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_hand_over_all_processes_has_one_bound() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let folder = TempDir::new().unwrap();
    let workers = workers(&rig, folder.path(), 3, 150, "--concurrency 8 --max-ack-pending 4");
    for n in 0..60 {
        queue.publish(changed(&format!("a{n}")), Lane::Urgent, None, None).await.unwrap();
    }
    until_lines(folder.path(), "spans", 60).await;
    until_all_is_quiet(&queue).await;
    drop(workers);
    let spans = spans(folder.path());
    assert_eq!(spans.len(), 60, "each once");
    let at_once = |moment: u128| spans.iter().filter(|span| span.from <= moment && moment < span.to).count();
    let most = spans.iter().map(|span| at_once(span.from)).max().unwrap();
    assert!(most <= 4, "{most} at once");
    let mut processes: Vec<&str> = spans.iter().map(|span| span.process.as_str()).collect();
    processes.sort_unstable();
    processes.dedup();
    assert!(processes.len() > 1, "they share the work");
}
