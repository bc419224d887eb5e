//! The publisher's own settings, beside those of every function.

use std::time::Duration;

/// How long the server is asked to keep a watch open, in seconds.
const WATCH_SECONDS: u32 = 30;
/// How often everything is looked at again, in seconds.
const RESYNC_SECONDS: u32 = 30 * 60;

/// Settings of the watches.
#[derive(Clone, Debug, clap::Args)]
// By default the group would be called like that of every function's settings, which stand beside these.
#[group(id = "watches")]
pub struct Settings {
    /// Seconds after which a watch is asked to end and is resumed. One that hangs is noticed a little later.
    // Less than the minute after which a watch that fails is to show, since until then a quiet one may be one that hangs (W-7).
    #[arg(long, env = "WEIR_WATCH_SECONDS", default_value_t = WATCH_SECONDS, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub watch_seconds: u32,
    /// Seconds after which every object is looked at again; for each, up to a fifth is added by chance. Of several publishers, the
    /// one that started last says.
    #[arg(long, env = "WEIR_RESYNC_SECONDS", default_value_t = RESYNC_SECONDS, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub resync_seconds: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { watch_seconds: WATCH_SECONDS, resync_seconds: RESYNC_SECONDS }
    }
}

impl Settings {
    /// How long Kubernetes may be silent: longer than a watch that works can be.
    pub(crate) fn patience(&self) -> Duration {
        let watch = Duration::from_secs(self.watch_seconds.into());
        watch + (watch / 9).max(Duration::from_secs(1))
    }

    /// Between two looks at everything.
    pub(crate) fn resync(&self) -> Duration {
        Duration::from_secs(self.resync_seconds.into())
    }
}
