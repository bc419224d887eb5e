//! The journal: what makes a store survive its process.
//!
//! Two files of JSON lines in the data folder: `snapshot.jsonl`, the whole state at one revision, and `journal.jsonl`, every change since.
//! A change is handed to the operating system before it is acknowledged, so it survives a SIGKILL (not a power cut: there is no fsync,
//! since this is a simulator). A last line that is torn is ignored, since nobody was told that it had happened.
//!
//! Both hold Secrets, and only their owner can read them.
//!
//! A snapshot is written beside the old one and renamed over it; the journal is cut only afterwards. A crash in between leaves journal
//! lines that the snapshot already holds; they are recognised by their revision and skipped.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Key;

const SNAPSHOT: &str = "snapshot.jsonl";
const JOURNAL: &str = "journal.jsonl";
/// Below this size a snapshot is not worth its time.
const MIN_BYTES: u64 = 32 * 1024 * 1024;

/// The data folder could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} is in use by another server")]
    InUse { path: PathBuf },
    #[error("{path}:{line}: not a journal record: {source}")]
    Corrupt { path: PathBuf, line: usize, source: serde_json::Error },
}

/// One change.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    #[serde(rename = "r")]
    pub revision: u64,
    #[serde(rename = "t")]
    pub table: String,
    #[serde(rename = "s")]
    pub sorted: bool,
    #[serde(rename = "k", with = "key")]
    pub key: Key,
    /// Absent: deleted.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

#[derive(Serialize, Deserialize)]
struct SnapshotHeader {
    #[serde(rename = "snapshotRevision")]
    revision: u64,
}

mod key {
    use super::Key;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub fn serialize<S: Serializer>(key: &Key, to: S) -> Result<S::Ok, S::Error> {
        [&key.namespace, &key.name].serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Key, D::Error> {
        let [namespace, name] = <[String; 2]>::deserialize(from)?;
        Ok(Key { namespace, name })
    }
}

pub struct Journal {
    dir: PathBuf,
    file: File,
    bytes: u64,
    snapshot_bytes: u64,
}

/// What a data folder held.
pub struct Found {
    pub journal: Journal,
    pub snapshot_revision: u64,
    pub snapshot: Vec<Record>,
    /// Changes after the snapshot, in order.
    pub changes: Vec<Record>,
}

impl Journal {
    /// Reads what is there and opens the journal for appending.
    pub fn open(dir: &Path) -> Result<Found, Error> {
        std::fs::create_dir_all(dir).map_err(|source| Error::Io { path: dir.into(), source })?;
        let journal_path = dir.join(JOURNAL);
        let io = |source| Error::Io { path: journal_path.clone(), source };
        let file = crate::files::private().append(true).open(&journal_path).map_err(io)?;
        // Released by the operating system when the process dies, however it does.
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => Error::InUse { path: dir.into() },
            std::fs::TryLockError::Error(source) => io(source),
        })?;
        let (mut header, mut snapshot, mut changes) = (None, Vec::new(), Vec::new());
        let snapshot_bytes = lines(&dir.join(SNAPSHOT), |text| {
            if header.is_none() {
                header = Some(serde_json::from_slice::<SnapshotHeader>(text)?.revision);
            } else {
                snapshot.push(serde_json::from_slice(text)?);
            }
            Ok(())
        })?;
        let snapshot_revision = header.unwrap_or(0);
        let bytes = lines(&journal_path, |text| {
            let record: Record = serde_json::from_slice(text)?;
            if record.revision > snapshot_revision {
                changes.push(record);
            }
            Ok(())
        })?;
        // Cuts off a torn last line, so that the next record does not continue it.
        file.set_len(bytes).map_err(io)?;
        let journal = Journal { dir: dir.into(), file, bytes, snapshot_bytes };
        Ok(Found { journal, snapshot_revision, snapshot, changes })
    }

    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        match self.file.write_all(&line) {
            Ok(()) => {
                self.bytes += line.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Part of the line may be there: cut it off again, or the next record would be unreadable.
                self.file.set_len(self.bytes)?;
                Err(error)
            }
        }
    }

    pub fn wants_snapshot(&self) -> bool {
        self.bytes > MIN_BYTES.max(self.snapshot_bytes * 2)
    }

    /// Writes the whole state and starts the journal anew.
    pub fn snapshot(&mut self, revision: u64, records: impl Iterator<Item = Record>) -> io::Result<()> {
        let temporary = self.dir.join("snapshot.tmp");
        let mut out = BufWriter::new(crate::files::private().write(true).truncate(true).open(&temporary)?);
        serde_json::to_writer(&mut out, &SnapshotHeader { revision })?;
        out.write_all(b"\n")?;
        // Oldest first: replay rebuilds each table's floor from the order.
        let mut records: Vec<Record> = records.collect();
        records.sort_by_key(|r| r.revision);
        for record in records {
            serde_json::to_writer(&mut out, &record)?;
            out.write_all(b"\n")?;
        }
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(&temporary, self.dir.join(SNAPSHOT))?;
        self.snapshot_bytes = std::fs::metadata(self.dir.join(SNAPSHOT))?.len();
        self.file.set_len(0)?;
        self.bytes = 0;
        Ok(())
    }
}

/// Calls `each` for every whole line; answers the length up to the last one.
fn lines(path: &Path, mut each: impl FnMut(&[u8]) -> Result<(), serde_json::Error>) -> Result<u64, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(source) => return Err(Error::Io { path: path.into(), source }),
    };
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let (mut good, mut number, mut text) = (0u64, 0usize, Vec::new());
    loop {
        text.clear();
        let read = reader.read_until(b'\n', &mut text).map_err(|source| Error::Io { path: path.into(), source })?;
        number += 1;
        if read == 0 || text.last() != Some(&b'\n') {
            return Ok(good);
        }
        each(&text).map_err(|source| Error::Corrupt { path: path.into(), line: number, source })?;
        good += read as u64;
    }
}
