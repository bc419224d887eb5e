//! Metrics in the text format of Prometheus: a handful of counters, gauges and histograms, without a library.
//!
//! Each family is a `static` that names its labels once; [`register`] adds those of other crates to what is shown.
//! Caveat: label values must come from small closed sets (kinds, lanes, outcomes). An object's name is never one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The content type of what [`render`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Calls, by how they ended.
pub static CALLS: Counter = Counter::new("weir_calls_total", "Calls of functions.", &["kind", "lane", "outcome"]);
/// How long calls took.
pub static CALL_SECONDS: Histogram = Histogram::new("weir_call_duration_seconds", "Duration of calls.", &["kind"]);
/// From the first byte in the stream to the start of the call.
pub static WAIT_SECONDS: Histogram =
    Histogram::new("weir_queue_wait_seconds", "From publication to the start of the call.", &["kind", "lane"]);
/// Calls that are running.
pub static IN_FLIGHT: Gauge = Gauge::new("weir_calls_in_flight", "Calls that are running.", &["kind"]);
/// Publications to the lanes.
pub static PUBLISHED: Counter = Counter::new("weir_published_total", "Messages published.", &["kind", "lane"]);
/// Messages taken off the queue.
pub static DELIVERED: Counter =
    Counter::new("weir_delivered_total", "Messages taken off the queue.", &["kind", "lane"]);
/// Messages that another one, for the same object, stood in for.
pub static COALESCED: Counter =
    Counter::new("weir_coalesced_total", "Messages that shared a call with another one.", &["kind"]);
/// Leases that were found taken.
pub static CONTENDED: Counter = Counter::new("weir_leases_contended_total", "Leases found taken.", &["kind"]);
/// Leases that were lost while a call ran.
pub static LEASES_LOST: Counter = Counter::new("weir_leases_lost_total", "Leases lost during a call.", &["kind"]);
/// Timers set and cleared.
pub static TIMERS: Counter = Counter::new("weir_timers_total", "Timers set and cleared.", &["kind", "what"]);
/// Messages that no retry can help.
pub static DEAD_LETTERS: Counter =
    Counter::new("weir_dead_letters_total", "Messages that could not be understood.", &["reason"]);
/// Messages that no consumer brought to anybody, by what was done with them.
pub static SWEPT: Counter =
    Counter::new("weir_queue_swept_total", "Messages that no consumer brought to anybody.", &["what"]);
/// Whether there is a connection to the queue.
pub static CONNECTED: Gauge = Gauge::new("weir_nats_connected", "1 while connected to NATS.", &[]);

static OWN: [&dyn Family; 13] = [
    &CALLS,
    &CALL_SECONDS,
    &WAIT_SECONDS,
    &IN_FLIGHT,
    &PUBLISHED,
    &DELIVERED,
    &COALESCED,
    &CONTENDED,
    &LEASES_LOST,
    &TIMERS,
    &DEAD_LETTERS,
    &SWEPT,
    &CONNECTED,
];
static OTHERS: Mutex<Vec<&'static dyn Family>> = Mutex::new(Vec::new());

/// Adds a family to what [`render`] shows. Adding it again changes nothing.
pub fn register(family: &'static dyn Family) {
    let mut others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    if others.iter().all(|other| other.name() != family.name()) {
        others.push(family);
    }
}

/// All metrics, as text.
pub fn render() -> String {
    let mut text = String::new();
    for family in OWN {
        family.render(&mut text);
    }
    for family in OTHERS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        family.render(&mut text);
    }
    text
}

/// A metric with all its label values.
pub trait Family: Send + Sync {
    /// The metric's name.
    fn name(&self) -> &'static str;
    /// Appends its lines.
    fn render(&self, to: &mut String);
}

struct Series<T> {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    values: Mutex<BTreeMap<Vec<String>, T>>,
}

impl<T: Default> Series<T> {
    const fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, help, labels, values: Mutex::new(BTreeMap::new()) }
    }

    fn with(&self, labels: &[&str], change: impl FnOnce(&mut T)) {
        debug_assert_eq!(labels.len(), self.labels.len(), "{}", self.name);
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        change(values.entry(labels.iter().map(|&label| label.to_owned()).collect()).or_default());
    }

    fn render(&self, kind: &str, to: &mut String, mut line: impl FnMut(&mut String, &str, &T)) {
        let _ = writeln!(to, "# HELP {} {}\n# TYPE {} {kind}", self.name, self.help, self.name);
        for (labels, value) in self.values.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let pairs: Vec<String> =
                self.labels.iter().zip(labels).map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
            line(to, &pairs.join(","), value);
        }
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn sample(to: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = if labels.is_empty() { writeln!(to, "{name} {value}") } else { writeln!(to, "{name}{{{labels}}} {value}") };
}

/// A number that only grows.
pub struct Counter(Series<u64>);

impl Counter {
    /// A counter with these labels.
    pub const fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self(Series::new(name, help, labels))
    }

    /// Counts one.
    pub fn inc(&self, labels: &[&str]) {
        self.0.with(labels, |value| *value += 1);
    }

    /// The count so far.
    pub fn get(&self, labels: &[&str]) -> u64 {
        let mut count = 0;
        self.0.with(labels, |value| count = *value);
        count
    }
}

impl Family for Counter {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn render(&self, to: &mut String) {
        self.0.render("counter", to, |to, labels, value| sample(to, self.0.name, labels, value));
    }
}

/// A number that goes up and down.
pub struct Gauge(Series<i64>);

impl Gauge {
    /// A gauge with these labels.
    pub const fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self(Series::new(name, help, labels))
    }

    /// Adds `change`, which may be negative.
    pub fn add(&self, labels: &[&str], change: i64) {
        self.0.with(labels, |value| *value += change);
    }

    /// Sets it.
    pub fn set(&self, labels: &[&str], to: i64) {
        self.0.with(labels, |value| *value = to);
    }
}

impl Family for Gauge {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn render(&self, to: &mut String) {
        self.0.render("gauge", to, |to, labels, value| sample(to, self.0.name, labels, value));
    }
}

/// The upper bounds of a histogram's buckets, in seconds.
const BOUNDS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0];

#[derive(Default)]
struct Buckets {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

/// How durations are spread.
pub struct Histogram(Series<Buckets>);

impl Histogram {
    /// A histogram with these labels.
    pub const fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self(Series::new(name, help, labels))
    }

    /// Counts a duration.
    pub fn observe(&self, labels: &[&str], duration: Duration) {
        let seconds = duration.as_secs_f64();
        self.0.with(labels, |buckets| {
            for (count, bound) in buckets.counts.iter_mut().zip(BOUNDS) {
                *count += u64::from(seconds <= bound);
            }
            buckets.count += 1;
            buckets.sum += seconds;
        });
    }
}

impl Family for Histogram {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn render(&self, to: &mut String) {
        let name = self.0.name;
        self.0.render("histogram", to, |to, labels, buckets| {
            let separator = if labels.is_empty() { "" } else { "," };
            for (count, bound) in buckets.counts.iter().zip(BOUNDS) {
                let _ = writeln!(to, "{name}_bucket{{{labels}{separator}le=\"{bound}\"}} {count}");
            }
            let _ = writeln!(to, "{name}_bucket{{{labels}{separator}le=\"+Inf\"}} {}", buckets.count);
            sample(to, &format!("{name}_sum"), labels, buckets.sum);
            sample(to, &format!("{name}_count"), labels, buckets.count);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COUNTED: Counter = Counter::new("test_total", "A test.", &["what"]);
    static TIMED: Histogram = Histogram::new("test_seconds", "A test.", &[]);

    #[test]
    fn metrics_are_written_as_prometheus_reads_them() {
        COUNTED.inc(&["a\"b"]);
        COUNTED.inc(&["a\"b"]);
        TIMED.observe(&[], Duration::from_millis(20));
        register(&COUNTED);
        register(&COUNTED);
        register(&TIMED);
        let text = render();
        assert_eq!(text.matches("# TYPE test_total counter").count(), 1, "registered twice, shown once");
        assert!(text.contains("test_total{what=\"a\\\"b\"} 2\n"), "{text}");
        for line in [
            "test_seconds_bucket{le=\"0.01\"} 0\n",
            "test_seconds_bucket{le=\"0.025\"} 1\n",
            "test_seconds_bucket{le=\"+Inf\"} 1\n",
            "test_seconds_sum 0.02\n",
            "test_seconds_count 1\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
