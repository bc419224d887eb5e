//! What a look costs: calls, time, memory, and what it writes when nothing changed and when one server in a hundred did.
//!
//! `WEIR_MONITOR_PROJECTS=100` makes it 10,000 servers; without it there are 1,000, so that it can always run.

use crate::world::World;
use futures::stream::{self, StreamExt};
use std::time::{Duration, Instant};

const SERVERS: usize = 100;

/// Resident memory of this process, simulators and all, in MiB: now, and at most so far.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    (field("VmRSS:").unwrap_or_default() / 1024, field("VmHWM:").unwrap_or_default() / 1024)
}

/// Proves: MON-2, MON-3
#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_look_grows_with_projects_and_its_writes_with_what_has_changed() {
    let projects: usize = std::env::var("WEIR_MONITOR_PROJECTS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let world = World::start().await;
    let tenants: Vec<_> = stream::iter(0..projects)
        .map(async |number| {
            let tenant = world.tenant(number).await;
            let names: Vec<String> = (0..SERVERS).map(|n| format!("d{number:07}-0000-4000-8000-{n:012}")).collect();
            world.fill(&tenant, &names).await;
            tenant
        })
        .buffered(4)
        .collect()
        .await;
    world.cloud.advance(Duration::from_secs(60));
    let (servers, mut rows) = (projects * SERVERS, Vec::new());
    for (what, expected) in [("everything is new", servers), ("nothing changed", 0), ("1 % changed", servers / 100)] {
        if expected == servers / 100 {
            for tenant in &tenants {
                let one = tenant.session.compute().servers().await.unwrap().remove(0);
                tenant.session.compute().stop_server(&one.id).await.unwrap();
            }
            world.cloud.advance(Duration::from_secs(60));
        }
        world.settle();
        let (before, began) = (memory().0, Instant::now());
        let round = world.look().await;
        let took = began.elapsed();
        let lists = world.asked("GET", "/servers/detail");
        let cluster = world.kubernetes.requests().all().len();
        rows.push(format!(
            "{what}: {servers} servers in {projects} projects, {took:?}, {lists} lists of the cloud, {cluster} requests to \
             Kubernetes, {} patches, {} MiB more than before",
            round.written,
            memory().0.saturating_sub(before),
        ));
        assert_eq!(lists, projects);
        assert_eq!((round.written, round.failed, round.skipped), (expected, 0, 0), "{what}");
        assert!(cluster <= expected + 2 * projects + 5, "{what}: {cluster}");
    }
    println!("{}\nat most {} MiB, simulators and all", rows.join("\n"), memory().1);
}
