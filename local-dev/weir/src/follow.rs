//! Watches objects until they are available, and shows how they get there.

use crate::cluster::{self, Applied, Standing};
use crate::screen::{Screen, Tone, align, span};
use futures::stream::{StreamExt, select_all};
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use std::time::{Duration, Instant};

/// How often the clocks in the table move on.
const TICK: Duration = Duration::from_millis(100);
/// A watch that fails is begun again by itself; after this many failures in a row a person is told.
const FAILURES: u32 = 5;

struct Row {
    kind: String,
    name: String,
    namespace: Option<String>,
    shown: String,
    standing: Standing,
    settled: Option<Duration>,
}

/// The objects that are followed.
pub struct Follow {
    client: Client,
    groups: Vec<(kube::api::ApiResource, Option<String>)>,
    rows: Vec<Row>,
    began: Instant,
}

impl Follow {
    /// Follows those of the applied objects that have a status to follow.
    pub fn new(client: Client, applied: &[Applied], began: Instant) -> Self {
        let followed = applied.iter().filter(|applied| applied.resource.group.ends_with("unikorn-cloud.org"));
        let mut groups = vec![];
        let mut rows = vec![];
        for Applied { resource, object } in followed {
            let group = (resource.clone(), object.namespace());
            if !groups.contains(&group) {
                groups.push(group);
            }
            rows.push(Row {
                kind: resource.kind.clone(),
                name: object.name_any(),
                namespace: object.namespace(),
                shown: cluster::display_name(object),
                standing: cluster::standing(object),
                settled: None,
            });
        }
        Self { client, groups, rows, began }
    }

    /// Shows the objects until all of them are available. Never returns if that does not happen.
    pub async fn run(&mut self, screen: &std::cell::RefCell<Screen>) {
        let watches = self.groups.iter().enumerate().map(|(index, (resource, namespace))| {
            let api = cluster::api(&self.client, resource, namespace.as_deref());
            watcher(api, watcher::Config::default()).default_backoff().map(move |event| (index, event)).boxed()
        });
        let mut events = select_all(watches);
        let mut tick = tokio::time::interval(TICK);
        let mut failures = 0;
        while self.rows.iter().any(|row| row.settled.is_none()) {
            tokio::select! {
                Some((group, event)) = events.next() => match event {
                    Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                        failures = 0;
                        self.see(group, &object, cluster::standing(&object), screen);
                    }
                    Ok(watcher::Event::Delete(object)) => {
                        let gone = Standing { reason: "Deleted".into(), ..Standing::default() };
                        self.see(group, &object, gone, screen);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        failures += 1;
                        if failures == FAILURES {
                            screen.borrow_mut().line(&format!("  the objects cannot be watched: {error}; trying again"));
                        }
                    }
                },
                _ = tick.tick() => {}
            }
            let mut screen = screen.borrow_mut();
            let table = self.table(&screen);
            screen.draw(table);
        }
        screen.borrow_mut().leave();
    }

    /// How long it took until all were available.
    pub fn took(&self) -> Duration {
        self.rows.iter().filter_map(|row| row.settled).max().unwrap_or_default()
    }

    /// What is not available yet, one line each.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.rows.iter().filter(|row| row.settled.is_none());
        missing
            .map(|row| format!("{} {}: {} {}", row.kind, row.shown, row.standing.reason, row.standing.message))
            .collect()
    }

    fn see(&mut self, group: usize, object: &DynamicObject, standing: Standing, screen: &std::cell::RefCell<Screen>) {
        let Some((resource, _)) = self.groups.get(group) else { return };
        let at = self.began.elapsed();
        let (name, namespace) = (object.name_any(), object.namespace());
        let same = |row: &&mut Row| row.kind == resource.kind && row.name == name && row.namespace == namespace;
        let Some(row) = self.rows.iter_mut().find(same) else { return };
        row.settled = standing.available.then(|| row.settled.unwrap_or(at));
        if row.standing == standing {
            return;
        }
        row.standing = standing;
        let mut screen = screen.borrow_mut();
        if !screen.is_live() {
            let Row { kind, shown, standing, .. } = row;
            let line = format!("  {:>8}  {kind} {shown}: {}  {}", span(at), standing.reason, standing.message);
            screen.line(line.trim_end());
        }
    }

    fn table(&self, screen: &Screen) -> Vec<String> {
        let now = self.began.elapsed();
        let mut cells = vec![["", "KIND", "NAME", "AFTER", "STATUS", "MESSAGE"].map(str::to_owned).to_vec()];
        cells.extend(self.rows.iter().map(|row| {
            let Standing { reason, message, available, errored } = &row.standing;
            let mark = if *available {
                "✓"
            } else if *errored {
                "✗"
            } else {
                "·"
            };
            let after = span(row.settled.unwrap_or(now));
            vec![mark.to_owned(), row.kind.clone(), row.shown.clone(), after, reason.clone(), message.clone()]
        }));
        let tones = self.rows.iter().map(|row| match &row.standing {
            Standing { available: true, .. } => Tone::Good,
            Standing { errored: true, .. } => Tone::Bad,
            _ => Tone::Busy,
        });
        let tones = std::iter::once(Tone::Faint).chain(tones);
        align(&cells).iter().zip(tones).map(|(line, tone)| screen.paint(tone, &format!("  {line}"))).collect()
    }
}
