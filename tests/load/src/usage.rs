//! What a process has used, as the kernel tells.

use anyhow::Context;
use std::time::Duration;

/// The kernel tells processor time in hundredths of a second, whatever its own clock is.
const TICKS: u64 = 100;

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time, of all its threads, in user and kernel mode.
    pub cpu: Duration,
    /// Resident memory now, in KiB.
    pub resident: u64,
    /// Resident memory at most so far, in KiB.
    pub peak: u64,
    /// What of the resident memory is files, in KiB: the executable and its libraries, which all processes of an image share.
    pub files: u64,
}

impl Usage {
    /// Memory of its own at most so far, in KiB. The kernel tells how much of it were files only for now; it changes little once a
    /// process has done all that it does.
    pub fn own_peak(&self) -> u64 {
        self.peak.saturating_sub(self.files)
    }
}

/// What a process has used since its start.
pub fn of(pid: u32) -> anyhow::Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("process {pid}"))?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("process {pid}"))?;
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Ok(Usage {
        cpu: cpu(&stat).context("/proc/<pid>/stat cannot be understood")?,
        resident: kib("VmRSS:").context("no VmRSS")?,
        peak: kib("VmHWM:").context("no VmHWM")?,
        files: kib("RssFile:").context("no RssFile")?,
    })
}

/// User and system time out of `/proc/<pid>/stat`, whose second field is a name in brackets and may hold anything.
fn cpu(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn processor_time_is_read_behind_a_name_with_brackets_and_blanks() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 9 9 20 0 4 0 100 1000 200";
        assert_eq!(cpu(stat), Some(Duration::from_secs(3)));
        let here = of(std::process::id()).unwrap();
        assert!(here.files > 0 && here.own_peak() > 0 && here.resident > here.files);
    }
}
