//! The record of a stack: what runs, where it answers, what it has written.
//!
//! Intention: `weir status`, `down` and `logs` know a stack only by this file, which its supervisor rewrites at every
//! change. It is also what is cleaned up by when a supervisor was killed before it could do so itself.
//!
//! Invariant: no secret is in it, only the paths of the files that hold them.

use crate::checkout::write_private;
use crate::probe::Probe;
use crate::process::Identity;
use anyhow::Context;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The form of the file. A record of another form is of a `weir` that this one does not understand.
const FORM: u32 = 1;

/// A stack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    form: u32,
    /// Tells one start of a stack from every other.
    pub instance: String,
    /// When it was started.
    pub started: Timestamp,
    /// The `weir` that watches over it; none once it has been stopped.
    pub supervisor: Option<Identity>,
    /// Whether every part answered once and custom resources can be applied.
    pub ready: bool,
    /// Where things are.
    pub places: Places,
    /// Its processes, in the order of their start.
    pub parts: Vec<Part>,
}

/// Where a stack keeps and serves things.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Places {
    /// The folder with all that follows.
    pub state: PathBuf,
    /// One file for each part.
    pub logs: PathBuf,
    /// How to reach Kubernetes.
    pub kubeconfig: PathBuf,
    /// Whether Kubernetes is kube-sim.
    pub kube_sim: bool,
    /// Where NATS listens, without credentials.
    pub nats: String,
    /// The file with NATS's user and password, if this stack made them.
    pub nats_credentials: Option<PathBuf>,
    /// openstack-sim's address.
    pub openstack: Option<String>,
    /// The Keystone endpoint that the sample's region leads to.
    pub cloud: Option<String>,
    /// OpenStack's `clouds.yaml`, for its command-line clients.
    pub clouds: Option<PathBuf>,
    /// The sample with this stack's values filled in.
    pub sample: Option<PathBuf>,
}

/// One process of a stack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Its name, as `weir logs` takes it.
    pub name: String,
    /// Where it answers, for people.
    pub address: String,
    /// Its metrics.
    pub metrics: Option<String>,
    /// How to ask whether it is well.
    pub probe: Probe,
    /// Its process; none while it is down.
    pub process: Option<Identity>,
    /// When it was last started.
    pub since: Timestamp,
    /// Whether it has answered since this stack began.
    pub answered: bool,
    /// How many times it has been started again.
    pub restarts: u32,
    /// How it last ended.
    pub last_exit: Option<String>,
}

impl Record {
    /// A stack that is just being started by this process.
    pub fn new(instance: String, places: Places) -> Self {
        let supervisor = Identity::own();
        Self { form: FORM, instance, started: Timestamp::now(), supervisor, ready: false, places, parts: vec![] }
    }

    /// The record in a file; `None` if there is none.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let record = serde_json::from_slice::<Self>(&text).ok().filter(|record| record.form == FORM);
        record.map(Some).with_context(|| {
            format!(
                "{} was written by another version of weir; see that nothing of it runs, then remove it",
                path.display()
            )
        })
    }

    /// Writes the record, whole or not at all.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        write_private(path, &serde_json::to_vec_pretty(self)?)
    }

    /// Whether its supervisor runs.
    pub fn is_watched(&self) -> bool {
        self.supervisor.as_ref().is_some_and(Identity::runs)
    }

    /// Those of its processes that run.
    pub fn running(&self) -> Vec<Identity> {
        self.parts.iter().filter_map(|part| part.process.clone()).filter(Identity::runs).collect()
    }

    /// The record of a stack that has been stopped: places stay known, for `weir logs`.
    pub fn stop(&mut self) {
        self.supervisor = None;
        self.ready = false;
        for part in &mut self.parts {
            part.process = None;
        }
    }
}
