//! Processes of a stack, told apart from others that later got the same number.
//!
//! Intention: a stack that was killed leaves a record of its processes. Whoever cleans up after it must end those and
//! no others, although the system hands a dead process's number to a new one. So a process is known by its number
//! *and* the moment it began.
//!
//! Invariant: every process that Weir starts leads a process group of its own, and is signalled as that group. A
//! Ctrl-C typed at the terminal therefore reaches `weir` only, which stops the others in order.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How often a process that was asked to end is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// One process, for as long as it lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The process number, which is also the number of its group.
    pub pid: i32,
    /// When it began, in whatever form the system tells it. Compared, never read.
    birth: String,
}

impl Identity {
    /// The process with this number, if there is one that has not ended.
    pub fn of(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        Some(Self { pid, birth: birth(pid)? })
    }

    /// This very process.
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Whether it still runs. A process that has ended and that nobody has collected does not.
    pub fn runs(&self) -> bool {
        birth(self.pid).is_some_and(|birth| birth == self.birth)
    }

    /// Whether it does anything any more. One that is killed gives back its memory first and its files after that, and has not
    /// ended until it has.
    pub fn is_alive(&self) -> bool {
        self.runs() && has_memory(self.pid)
    }

    /// Sends a signal to its group, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        if self.runs() {
            // It may end in between; then there is nothing left to do.
            let _ = killpg(Pid::from_raw(self.pid), signal);
        }
    }

    /// Sends a signal to the process alone: for a `weir`, whose group may be the terminal's.
    pub fn signal_alone(&self, signal: Signal) {
        if self.runs() {
            let _ = nix::sys::signal::kill(Pid::from_raw(self.pid), signal);
        }
    }
}

/// Ends the groups of these processes: asks, waits up to `grace`, then insists. Returns when none of them runs.
pub fn end(processes: &[Identity], grace: Duration) {
    for (signal, patience) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, Duration::from_secs(5))] {
        for process in processes {
            process.signal(signal);
        }
        let until = Instant::now() + patience;
        while processes.iter().any(Identity::runs) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }
}

/// When a process began: on Linux the boot and the clock ticks since, from `/proc`.
#[cfg(target_os = "linux")]
fn birth(pid: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // The state is field 3 of the line, the start field 22.
    let ticks = fields.nth(18)?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Some(format!("{}/{ticks}", boot.trim()))
}

/// When a process began: elsewhere as `ps` tells it, to the second.
#[cfg(not(target_os = "linux"))]
fn birth(pid: i32) -> Option<String> {
    let output =
        std::process::Command::new("ps").args(["-o", "state=,lstart=", "-p", &pid.to_string()]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (state, start) = text.trim().split_once(char::is_whitespace)?;
    (!state.starts_with('Z')).then(|| start.trim().to_owned())
}

/// Whether a process has memory: on Linux one that is being ended has none, and so no arguments.
#[cfg(target_os = "linux")]
fn has_memory(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| !arguments.is_empty())
}

/// Elsewhere that cannot be told.
#[cfg(not(target_os = "linux"))]
fn has_memory(_: i32) -> bool {
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_process_is_no_longer_the_one_it_was_once_its_number_belongs_to_another() {
        let own = Identity::own().unwrap();
        assert!(own.runs());
        let earlier = Identity { birth: "some other moment".into(), ..own };
        assert!(!earlier.runs());
        // Were this not so, the test would end itself here.
        earlier.signal_alone(Signal::SIGKILL);
    }

    #[test]
    fn a_process_that_will_not_end_when_asked_is_made_to() {
        let mut stubborn = Command::new("sh")
            .args(["-c", "trap '' TERM; while :; do sleep 0.05; done"])
            .process_group(0)
            .spawn()
            .unwrap();
        let identity = Identity::of(stubborn.id()).unwrap();
        end(std::slice::from_ref(&identity), Duration::from_millis(200));
        assert!(!identity.runs());
        assert!(!stubborn.wait().unwrap().success());
    }
}
