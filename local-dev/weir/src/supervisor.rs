//! Keeps the parts of a stack running, and ends them with it.
//!
//! Intention: one task per part starts its process, starts it again when it ends, waiting longer each time, and says so.
//! The stack's record is written at every change, before anything else happens, so that whoever finds it can clean up.
//!
//! Invariants
//! - Parts end in the reverse order of their start: functions hand back their work while NATS still takes it.
//! - Nothing outlives the supervisor. It ends its parts itself when it is told to stop; [`guard`] ends them when it was
//!   killed; the next `weir up` ends what is left when both were.

use crate::complain;
use crate::logs;
use crate::probe::Probe;
use crate::process::{self, Identity};
use crate::record::{Part, Record};
use anyhow::{Context, bail};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a part may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(15);
/// How long a part may take to answer for the first time. Debug builds on a busy machine are slow.
const START: Duration = Duration::from_secs(60);
/// A part that ends this often before it has answered once will not do better.
const TRIES: u32 = 3;
/// A part that ran this long is started again at once.
const STEADY: Duration = Duration::from_secs(30);
const SHORTEST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
const ROTATION: Duration = Duration::from_secs(30);

/// What is started together and ended together, in this order and the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The queue.
    Queue,
    /// Kubernetes and OpenStack.
    Apis,
    /// Functions and the watch-publisher.
    Functions,
}

/// How to run a part.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// When it is started and ended.
    pub tier: Tier,
    /// Its executable.
    pub program: PathBuf,
    /// Its arguments. Everybody on the machine can read them: no secrets.
    pub args: Vec<OsString>,
    /// Its environment, on top of ours; a variable without a value is taken away.
    pub env: Vec<(&'static str, Option<OsString>)>,
    /// Where it answers, for people.
    pub address: String,
    /// Its metrics.
    pub metrics: Option<String>,
    /// How to ask whether it is well.
    pub probe: Probe,
}

/// What happens in a stack.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A part answered for the first time.
    Answers {
        /// The part.
        part: String,
        /// Where.
        address: String,
    },
    /// A part ended, and will be started again.
    Ended {
        /// The part.
        part: String,
        /// How it ended.
        how: String,
        /// In how long it is started again.
        wait: Duration,
    },
}

/// A running stack.
pub struct Supervisor {
    shared: Arc<Shared>,
    stops: [(Tier, CancellationToken); 3],
    hurry: CancellationToken,
    tasks: Vec<(Tier, JoinHandle<()>)>,
    rotation: JoinHandle<()>,
    guard: Option<Child>,
}

struct Shared {
    record: Mutex<Record>,
    path: PathBuf,
    logs: PathBuf,
    notices: mpsc::UnboundedSender<Notice>,
}

impl Supervisor {
    /// A stack without parts yet. Its record is written to `path`.
    pub fn new(record: Record, path: PathBuf, notices: mpsc::UnboundedSender<Notice>) -> anyhow::Result<Self> {
        record.write(&path)?;
        let guard = guard::start(&record.instance, &path)?;
        let logs = record.places.logs.clone();
        let folder = logs.clone();
        let rotation = tokio::spawn(async move {
            loop {
                tokio::time::sleep(ROTATION).await;
                logs::rotate(&folder);
            }
        });
        Ok(Self {
            shared: Arc::new(Shared { record: Mutex::new(record), path, logs, notices }),
            stops: [Tier::Queue, Tier::Apis, Tier::Functions].map(|tier| (tier, CancellationToken::new())),
            hurry: CancellationToken::new(),
            tasks: vec![],
            rotation,
            guard: Some(guard),
        })
    }

    /// Cancelled to end everything at once, without grace.
    pub fn hurry(&self) -> CancellationToken {
        self.hurry.clone()
    }

    /// A copy of the record as it is now.
    pub fn record(&self) -> Record {
        self.shared.record().clone()
    }

    /// Changes the record.
    pub fn update(&self, change: impl FnOnce(&mut Record)) {
        self.shared.change(change);
    }

    /// Starts a part and keeps it running.
    pub fn start(&mut self, spec: &Spec) {
        self.shared.change(|record| {
            record.parts.push(Part {
                name: spec.name.to_owned(),
                address: spec.address.clone(),
                metrics: spec.metrics.clone(),
                probe: spec.probe.clone(),
                process: None,
                since: Timestamp::now(),
                answered: false,
                restarts: 0,
                last_exit: None,
            });
        });
        let stop = self.stops[spec.tier as usize].1.clone();
        let task = keep(spec.clone(), self.shared.clone(), stop, self.hurry.clone());
        self.tasks.push((spec.tier, tokio::spawn(task)));
    }

    /// Waits until all parts of a tier have answered once. The error says what one that does not has last said.
    pub async fn answered(&self, tier: Tier, specs: &[Spec]) -> anyhow::Result<()> {
        let waits = specs.iter().filter(|spec| spec.tier == tier).map(|spec| self.shared.answered(spec));
        futures::future::try_join_all(waits).await.map(|_| ())
    }

    /// Ends every part, tier by tier, and then the record's claim that anything runs.
    pub async fn stop(mut self) {
        for (tier, stop) in self.stops.iter().rev() {
            stop.cancel();
            for (_, task) in self.tasks.iter_mut().filter(|(of, _)| of == tier) {
                let _ = task.await;
            }
        }
        self.rotation.abort();
        self.shared.change(Record::stop);
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait().await;
        }
    }
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Record)) {
        let mut record = self.record();
        change(&mut record);
        // A full disk must not end the stack; what is lost is the clean-up after a second misfortune.
        if let Err(error) = record.write(&self.path) {
            complain!("weir: {error:#}");
        }
    }

    fn change_part(&self, name: &str, change: impl FnOnce(&mut Part)) {
        self.change(|record| {
            if let Some(part) = record.parts.iter_mut().find(|part| part.name == name) {
                change(part);
            }
        });
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    async fn answered(&self, spec: &Spec) -> anyhow::Result<()> {
        let until = Instant::now() + START;
        loop {
            let why = match spec.probe.ask().await {
                Ok(()) => break,
                Err(why) => why,
            };
            let ended = self.record().parts.iter().find(|part| part.name == spec.name).map_or(0, |part| part.restarts);
            if ended >= TRIES || Instant::now() > until {
                let what = if ended >= TRIES {
                    format!("it ended {ended} times")
                } else {
                    format!("{why} after {} s", START.as_secs())
                };
                bail!("{} does not come up: {what}\n{}", spec.name, last_words(&self.log(spec.name)));
            }
            // It tells nobody when it is ready, so it is asked.
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        self.change_part(spec.name, |part| part.answered = true);
        let _ = self.notices.send(Notice::Answers { part: spec.name.to_owned(), address: spec.address.clone() });
        Ok(())
    }
}

/// The end of a part's log, indented, for an error message. The frames of a backtrace are left out: they push away what
/// matters.
fn last_words(log: &Path) -> String {
    let is_frame = |line: &str| {
        let line = line.trim_start();
        line.starts_with("at ") || line.split_once(':').is_some_and(|(number, _)| number.parse::<u32>().is_ok())
    };
    let lines = logs::tail(log, 200).map(|(lines, _)| lines).unwrap_or_default();
    let lines: Vec<_> = lines.iter().filter(|line| !line.trim().is_empty() && !is_frame(line)).collect();
    let last: Vec<_> =
        lines.iter().rev().take(10).rev().map(|line| format!("  | {}", crate::screen::clean(line))).collect();
    if last.is_empty() {
        return format!("it has said nothing (its log would be {})", log.display());
    }
    format!("its log ends with\n{}\n(all of it: {})", last.join("\n"), log.display())
}

/// Runs a part until `stop`, starting it again whenever it ends.
async fn keep(spec: Spec, shared: Arc<Shared>, stop: CancellationToken, hurry: CancellationToken) {
    let mut failures = 0;
    while !stop.is_cancelled() {
        let born = Instant::now();
        let how = match spawn(&spec, &shared.log(spec.name)) {
            Ok(mut child) => {
                let process = child.id().and_then(Identity::of);
                shared.change_part(spec.name, |part| {
                    part.process.clone_from(&process);
                    part.since = Timestamp::now();
                });
                let ended = tokio::select! {
                    ended = child.wait() => ended,
                    () = stop.cancelled() => {
                        end(child, process.as_ref(), &hurry).await;
                        shared.change_part(spec.name, |part| part.process = None);
                        return;
                    }
                };
                ended.map_or_else(|error| error.to_string(), describe)
            }
            Err(error) => format!("{error:#}"),
        };
        failures = if born.elapsed() > STEADY { 1 } else { failures + 1 };
        let wait = back_off(failures);
        shared.change_part(spec.name, |part| {
            part.process = None;
            part.restarts += 1;
            part.last_exit = Some(how.clone());
        });
        let _ = shared.notices.send(Notice::Ended { part: spec.name.to_owned(), how, wait });
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => {}
        }
    }
}

fn spawn(spec: &Spec, log: &Path) -> anyhow::Result<Child> {
    let out = logs::open(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).process_group(0);
    // It writes to a file.
    command.env("NO_COLOR", "1");
    for (name, value) in &spec.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.spawn().with_context(|| format!("cannot run {}", spec.program.display()))
}

async fn end(mut child: Child, process: Option<&Identity>, hurry: &CancellationToken) {
    let Some(process) = process else {
        // It had ended before it could be looked at.
        let _ = child.wait().await;
        return;
    };
    process.signal(Signal::SIGTERM);
    tokio::select! {
        _ = child.wait() => return,
        () = tokio::time::sleep(GRACE) => {}
        () = hurry.cancelled() => {}
    }
    process.signal(Signal::SIGKILL);
    let _ = child.wait().await;
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(number)) => Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |s| s.to_string()),
        (None, None) => "unknown".to_owned(),
    }
}

fn back_off(failures: u32) -> Duration {
    SHORTEST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_WAIT)
}

/// Ends what a stack has left behind, by its record. Returns how many processes that were.
pub fn clean_up(record: &Record) -> usize {
    let left = record.running();
    process::end(&left, Duration::from_secs(5));
    left.len()
}

/// A small process beside the supervisor that ends the stack when the supervisor has been killed.
///
/// It waits on a pipe whose other end the supervisor alone holds, and which the system closes with it.
pub mod guard {
    use super::{Child, Command, Context, Path, Record, Stdio, clean_up};
    use std::io::Read;

    pub(super) fn start(instance: &str, record: &Path) -> anyhow::Result<Child> {
        let weir = std::env::current_exe().context("cannot find this executable")?;
        Command::new(weir)
            .args(["guard", instance])
            .arg(record)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start the guard process")
    }

    /// Waits until the supervisor is gone, then ends what it has left.
    pub fn run(instance: &str, path: &Path) -> anyhow::Result<()> {
        let mut nothing = [0; 1];
        while std::io::stdin().read(&mut nothing).is_ok_and(|read| read > 0) {}
        // By now another stack may have begun; it is not ours to end.
        if let Some(mut record) = Record::read(path)?.filter(|record| record.instance == instance)
            && clean_up(&record) > 0
        {
            record.stop();
            record.write(path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_keeps_ending_is_started_less_and_less_often_but_never_given_up() {
        assert_eq!(back_off(1), SHORTEST_WAIT);
        assert_eq!(back_off(2), SHORTEST_WAIT * 2);
        assert_eq!(back_off(100), LONGEST_WAIT);
    }
}
