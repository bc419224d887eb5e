//! Takes down the steps that functions log.
//!
//! Intention: a function logs each step that it decides on, in an event with a field `step`. That is enough: this layer
//! of the log hears it, whatever is shown of the log, and writes it on the tape of the call that runs.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, filter};

use super::tape::Tape;

/// The field of an event that makes it a step.
const STEP: &str = "step";
/// A step's name is cut here, in bytes.
const LONGEST: usize = 2048;

struct Tap;

/// The layer that hears steps. Put it beside the one that writes the log, not under its filter.
pub fn tap<S>() -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    Tap.with_filter(steps())
}

fn steps<S>() -> impl Filter<S> {
    filter::filter_fn(|metadata| {
        metadata.is_event() && *metadata.level() <= Level::DEBUG && metadata.fields().field(STEP).is_some()
    })
}

impl<S: Subscriber> Layer<S> for Tap {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(tape) = Tape::current() else { return };
        let mut step = Step(None);
        event.record(&mut step);
        if let Some(step) = step.0 {
            tape.step(step);
        }
    }
}

struct Step(Option<String>);

impl Visit for Step {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == STEP {
            let mut text = String::new();
            let _ = write!(text, "{value:?}");
            self.set(text);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == STEP {
            self.set(value.to_owned());
        }
    }
}

impl Step {
    fn set(&mut self, mut text: String) {
        let end = (0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        self.0 = Some(text);
    }
}
