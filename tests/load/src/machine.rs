//! Where and of what a run was made: without it a figure says nothing.

use serde::Serialize;
use std::process::{Command, Stdio};

/// The machine and the versions.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's model.
    pub processor: String,
    /// How many threads it runs at once.
    pub cores: usize,
    /// Memory in MiB.
    pub memory: u64,
    /// The kernel.
    pub system: String,
    /// How many processes waited for a processor, on average over a minute, before the run: 0 on a machine of one's own.
    pub load: f64,
    /// The commit, with a `+` if the checkout differs from it.
    pub commit: String,
    /// Weir's own version.
    pub weir: &'static str,
    /// The compiler's.
    pub rustc: String,
    /// The queue server's.
    pub nats: String,
    /// When, UTC.
    pub at: String,
    /// Whether the executables are optimised; figures of others are for trying this out.
    pub optimised: bool,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let memory = memory.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default();
        let dirty = !say("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
        let commit = say("git", &["rev-parse", "--short=10", "HEAD"]);
        let nats = weir_harness::nats::binary().map(|path| say(&path.display().to_string(), &["--version"]));
        Self {
            processor: value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory: memory / 1024,
            system: say("uname", &["-sr"]),
            load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default(),
            commit: format!("{commit}{}", if dirty { "+" } else { "" }),
            weir: env!("CARGO_PKG_VERSION"),
            rustc: say("rustc", &["--version"]),
            nats: nats.unwrap_or_default(),
            at: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M").to_string(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

/// What a program says in one line; nothing if it cannot be asked.
fn say(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}
