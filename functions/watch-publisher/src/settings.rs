//! The publisher's own settings, beside those of every function.

use kube::runtime::watcher;

/// How long the server is asked to keep a quiet watch open, in seconds. Shorter than the client's read time-out, so that
/// only a connection that hangs runs into that.
const WATCH_SECONDS: u32 = 45;

/// Settings of the watches.
#[derive(Clone, Debug, clap::Args)]
// By default the group would be called like that of every function's settings, which stand beside these.
#[group(id = "watches")]
pub struct Settings {
    /// Seconds after which a watch is asked to end and is resumed; must be below 60, the client's read time-out.
    #[arg(long, env = "WEIR_WATCH_SECONDS", default_value_t = WATCH_SECONDS, value_parser = clap::value_parser!(u32).range(1..60))]
    pub watch_seconds: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { watch_seconds: WATCH_SECONDS }
    }
}

impl Settings {
    /// The configuration of a watch.
    pub fn watch(&self) -> watcher::Config {
        watcher::Config::default().timeout(self.watch_seconds)
    }
}
