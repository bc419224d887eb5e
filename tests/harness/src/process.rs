//! Real processes for tests: the product's own executables, each with a log of its own.
//!
//! Invariants: a process is killed when its handle is dropped; it stays in the test's process group, so that whatever ends
//! the test from outside (a runner's time-out, Ctrl-C) ends it as well. None of them has children.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How much of the end of a log is shown when a test fails.
const LAST_WORDS: usize = 25;

/// A process that can be killed and started again with the same arguments.
pub struct Process {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    /// How long the log was when it was last started.
    before: u64,
    child: Option<Child>,
}

impl Process {
    /// A process that does not run yet. Its output goes to `<name>.log` in `folder`.
    pub fn new(name: &str, program: PathBuf, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        Self { name: name.to_owned(), program, arguments: vec![], environment: vec![], log, before: 0, child: None }
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_string_lossy().into_owned());
        self
    }

    /// With a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().to_string_lossy().into_owned()));
        self
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts it, unless it runs.
    pub fn start(&mut self) -> anyhow::Result<()> {
        if self.runs() {
            return Ok(());
        }
        let log = File::options().create(true).append(true).open(&self.log)?;
        self.before = log.metadata()?.len();
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // What is set for the tests' own machine must not reach into a stack of theirs.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_foreign(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        let child = command.envs(self.environment.iter().map(|(name, value)| (name, value))).spawn();
        self.child = Some(child.with_context(|| format!("cannot start {}", self.program.display()))?);
        Ok(())
    }

    /// Kills it with SIGKILL, as a crash would, and waits until it is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Kills it and starts it again.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill();
        self.start()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_ref().with_context(|| format!("{} does not run", self.name))?;
        kill(Pid::from_raw(i32::try_from(child.id())?), signal)?;
        Ok(())
    }

    /// The process's id, while there is one.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether it was started and has not ended.
    pub fn runs(&mut self) -> bool {
        self.child.is_some() && self.ended().is_none()
    }

    /// How it ended, if it ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// All that it has said, over all its lives.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// What it has said since it was last started.
    pub fn said(&self) -> String {
        let log = self.log();
        usize::try_from(self.before).ok().and_then(|before| log.get(before..)).unwrap_or_default().to_owned()
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn is_foreign(variable: &str) -> bool {
    let variable = variable.to_ascii_lowercase();
    variable.starts_with("weir_") || variable.starts_with("kube") || variable.ends_with("_proxy")
}

/// An executable of the workspace, built into the folder that this one, or the test that this is, was built into.
///
/// # Panics
/// It is not built.
pub fn built(name: &str) -> PathBuf {
    let folder = std::env::var_os("WEIR_TEST_BIN").map(PathBuf::from).or_else(|| {
        let this = std::env::current_exe().ok()?;
        let folder = this.parent()?;
        // <target>/debug/deps/<test>, or <target>/debug/<program>
        let folder = if folder.ends_with("deps") { folder.parent()? } else { folder };
        Some(folder.to_path_buf())
    });
    let program = folder.expect("a test has a folder").join(name);
    assert!(
        program.is_file(),
        "{} is not built; `./weir test` builds it, or: cargo build --workspace --bins",
        program.display()
    );
    program
}

/// A port that is free now and stays so, because it lies below those that the system gives to outgoing connections: a client
/// that keeps trying to reach a server which is down would otherwise take the server's own port in the end.
///
/// Two tests may be given the same one; whoever comes second finds its process ended, and takes another.
///
/// # Panics
/// No port is free.
pub fn free_port() -> u16 {
    const FIRST: u16 = 12_000;
    const MANY: u32 = 20_000;
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map(|now| now.subsec_nanos()).unwrap_or_default();
    let start = (nanos / 1000).wrapping_add(std::process::id().wrapping_mul(7919)) % MANY;
    (0..MANY)
        .filter_map(|step| u16::try_from((start + step) % MANY).ok().map(|offset| FIRST + offset))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a free port")
}
