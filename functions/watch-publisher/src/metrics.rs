//! What the publisher tells of itself (W-7).

use weir_function_runtime::telemetry::metrics::{Counter, Gauge, register as add};

/// Objects that the watches know.
pub static OBJECTS: Gauge = Gauge::new("weir_watched_objects", "Objects known to the watches.", &[]);
/// Messages that wait to be published.
pub static WAITING: Gauge = Gauge::new("weir_publisher_waiting", "Messages that wait to be published.", &[]);
/// Failures of watches, by kind.
pub static FAILURES: Counter = Counter::new("weir_watch_failures_total", "Failures of watches.", &["watched"]);
/// Whether each watch works, by kind.
pub static UP: Gauge = Gauge::new("weir_watch_up", "1 while the watch works.", &["watched"]);
/// Resyncs begun, by kind.
pub static RESYNCS: Counter = Counter::new("weir_resyncs_total", "Resyncs begun.", &["kind"]);

/// Adds these to what the process exposes.
pub fn register() {
    add(&OBJECTS);
    add(&WAITING);
    add(&FAILURES);
    add(&UP);
    add(&RESYNCS);
}
