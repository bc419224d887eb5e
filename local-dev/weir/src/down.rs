//! `weir down`: ends the checkout's stack, whoever started it.

use crate::checkout::Checkout;
use crate::record::Record;
use crate::screen::span;
use crate::supervisor::clean_up;
use crate::{Exit, say};
use anyhow::bail;
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// A supervisor gives each tier of parts a grace; this is beyond all of them.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends what runs, and returns when nothing does. Doing it again does nothing.
pub fn run(checkout: &Checkout) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let Some(mut record) = Record::read(&checkout.record())? else {
        if checkout.lock()?.is_none() {
            bail!("a stack is just being started here; try again in a moment");
        }
        say!("Nothing is running.");
        return Ok(Exit::Done);
    };
    if let Some(supervisor) = record.supervisor.clone().filter(crate::process::Identity::runs) {
        say!("Stopping the stack of process {} …", supervisor.pid);
        supervisor.signal_alone(Signal::SIGTERM);
        while supervisor.runs() && began.elapsed() < PATIENCE {
            // It is not our child, so the system does not tell us of its end.
            std::thread::sleep(Duration::from_millis(20));
        }
        if !supervisor.runs() {
            say!("Stopped in {}. Nothing is left running.", span(began.elapsed()));
            return Ok(Exit::Done);
        }
        say!("It does not stop by itself; killing it.");
        supervisor.signal_alone(Signal::SIGKILL);
        // It may have started parts again in the meantime.
        record = Record::read(&checkout.record())?.unwrap_or(record);
    } else if checkout.lock()?.is_none() {
        bail!("a stack is just being started here; try again in a moment");
    }
    match clean_up(&record) {
        0 => say!("Nothing is running."),
        left => say!("Ended {left} processes whose supervisor had been killed."),
    }
    record.stop();
    record.write(&checkout.record())?;
    Ok(Exit::Done)
}
