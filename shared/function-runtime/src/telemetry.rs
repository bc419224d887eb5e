//! What is told about the process: logs, metrics, and whether it is ready.

pub mod metrics;
mod serve;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

pub use serve::serve;

use crate::settings::{LogFormat, Settings};

/// Begins to log to standard error, as the settings say. Once per process.
pub fn init(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.telemetry.log).with_context(|| {
        format!("--log {:?} is no filter, as in info,weir_function_runtime=debug", settings.telemetry.log)
    })?;
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match settings.telemetry.log_format {
        LogFormat::Human => {
            log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).with_target(false).boxed()
        }
        LogFormat::Json => log.json().flatten_event(true).boxed(),
    };
    // Steps are heard whatever is shown of the log.
    let begun = tracing_subscriber::registry().with(log.with_filter(filter)).with(crate::record::tap()).try_init();
    begun.map_err(|error| anyhow::anyhow!("cannot begin to log: {error}"))
}

/// Whether the parts of this process are ready, and why not.
///
/// A process is ready when every part that has ever reported is.
#[derive(Debug, Default)]
pub struct Health {
    parts: Mutex<BTreeMap<&'static str, Option<String>>>,
}

/// The health of this process.
pub static HEALTH: Health = Health::new();

impl Health {
    /// Health of which nothing is known yet.
    pub const fn new() -> Self {
        Self { parts: Mutex::new(BTreeMap::new()) }
    }

    /// Reports `part` as ready.
    pub fn ready(&self, part: &'static str) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).insert(part, None);
    }

    /// Reports `part` as not ready, and why. The reason is shown to whoever asks: no secrets.
    pub fn not_ready(&self, part: &'static str, reason: impl Into<String>) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).insert(part, Some(reason.into()));
    }

    /// What is not ready, by part; empty when all is. `Err` until anything has reported.
    pub fn unready(&self) -> Result<Vec<(&'static str, String)>, Starting> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.is_empty() {
            return Err(Starting);
        }
        Ok(parts.iter().filter_map(|(part, reason)| reason.clone().map(|reason| (*part, reason))).collect())
    }
}

/// Nothing has reported its health yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starting;
