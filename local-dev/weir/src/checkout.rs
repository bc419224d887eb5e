//! Where things are kept on this machine: the checkout, its folder for running stacks, and its cache.

use crate::record::Record;
use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the lock of a supervisor that was killed is waited for.
const LAST_BREATH: Duration = Duration::from_secs(1);
/// What the name of a file in the making ends in, after its process.
const SCRATCH: &str = ".tmp";
/// As many links are followed as Linux would.
const LINKS: usize = 40;

/// A checkout of Weir and the folder in which its stacks are kept.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// The checkout's root.
    pub root: PathBuf,
    /// Where the running stack is recorded; `.weir` in the root unless told otherwise.
    pub home: PathBuf,
}

impl Checkout {
    /// Finds the checkout: told by `./weir` in `WEIR_ROOT`, else around this executable, else around the current folder.
    pub fn find(home: Option<PathBuf>) -> anyhow::Result<Self> {
        let told = std::env::var_os("WEIR_ROOT").map(PathBuf::from);
        let root = told
            .or_else(|| std::env::current_exe().ok().as_deref().and_then(above))
            .or_else(|| std::env::current_dir().ok().as_deref().and_then(above))
            .context(
                "this is not run from a checkout of Weir: use the script ./weir in its root, or set WEIR_ROOT to it",
            )?;
        let home = home.unwrap_or_else(|| root.join(".weir"));
        Ok(Self { root, home: std::path::absolute(home)? })
    }

    /// Programs that were fetched, kept between runs.
    pub fn cache(&self) -> PathBuf {
        self.root.join(".cache")
    }

    /// The record of the stack.
    pub fn record(&self) -> PathBuf {
        self.home.join("stack.json")
    }

    /// What a detached stack says.
    pub fn supervisor_log(&self) -> PathBuf {
        self.home.join("supervisor.log")
    }

    /// Where a stack keeps its state unless `--data` names another place. Emptied at each start.
    pub fn fresh_state(&self) -> PathBuf {
        self.home.join("run")
    }

    /// Takes the lock that a supervisor holds while it lives, or `None` when another one does. The system gives it back
    /// when its holder ends, however that happens; a moment after it seems to have ended, which is waited for.
    pub fn lock(&self) -> anyhow::Result<Option<File>> {
        let began = Instant::now();
        loop {
            let lock = self.try_lock()?;
            if lock.is_some() || began.elapsed() > LAST_BREATH || !self.is_left_over() {
                return Ok(lock);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the last supervisor is known, and was killed.
    fn is_left_over(&self) -> bool {
        let record = Record::read(&self.record()).ok().flatten();
        record.and_then(|record| record.supervisor).is_some_and(|supervisor| !supervisor.is_alive())
    }

    fn try_lock(&self) -> anyhow::Result<Option<File>> {
        create_private_dir(&self.home)?;
        let path = self.home.join("lock");
        let file = File::options().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error)
                .with_context(|| format!("cannot lock {}: is it on a file system without locks?", path.display())),
        }
    }
}

/// The nearest folder above that is a checkout of Weir.
fn above(start: &Path) -> Option<PathBuf> {
    start.ancestors().find(|dir| dir.join("infra/samples/main-job.yaml").is_file()).map(Path::to_owned)
}

/// Creates a folder that only its owner can enter, unless it exists.
pub fn create_private_dir(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot create the folder {}", path.display()))
}

/// Writes a file that only its owner can read, whole or not at all.
pub fn write_private(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let mut file = Private::create(path)?;
    file.write_all(content).with_context(|| file.cannot())?;
    file.keep()
}

/// A file in the making that only its owner can read. Once it is kept, it is there, whole; dropped before, it never was. What one
/// has left that was killed meanwhile is removed by the next.
pub struct Private {
    path: PathBuf,
    scratch: PathBuf,
    file: BufWriter<File>,
}

impl Private {
    /// Begins a file.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        sweep(path, &name);
        name.push(format!(".{}{SCRATCH}", std::process::id()));
        let scratch = path.with_file_name(name);
        let file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&scratch);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        // For as long as it is held, somebody is at it. Where there are no locks, nothing is swept.
        let _ = file.try_lock();
        Ok(Self { path: path.to_owned(), scratch, file: BufWriter::new(file) })
    }

    /// Puts it in its place.
    pub fn keep(mut self) -> anyhow::Result<()> {
        self.file.flush().and_then(|()| fs::rename(&self.scratch, &self.path)).with_context(|| self.cannot())
    }

    fn cannot(&self) -> String {
        format!("cannot write {}", self.path.display())
    }
}

impl Write for Private {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // Nothing is there any more once it was kept.
        let _ = fs::remove_file(&self.scratch);
    }
}

/// Removes what is left of attempts to write a file whose processes were killed: nobody holds it.
fn sweep(path: &Path, name: &OsStr) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_scratch = |entry: &fs::DirEntry| {
        let found = entry.file_name();
        let process = found.as_encoded_bytes().strip_prefix(name.as_encoded_bytes());
        let process = process.and_then(|rest| rest.strip_prefix(b".")?.strip_suffix(SCRATCH.as_bytes()));
        process.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
            && entry.file_type().is_ok_and(|sort| sort.is_file())
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(is_scratch) {
        if File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Where a path leads, whether or not something is there.
pub fn followed(path: &Path) -> anyhow::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(target),
        }
    }
    bail!("cannot write {}: it leads from link to link", path.display())
}

/// A path as a person would type it: relative to the current folder when it lies below.
pub fn short(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let below = path.strip_prefix(&here).ok().filter(|_| here.parent().is_some());
    below.unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_a_killed_process_has_left_of_a_file_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| File::create(dir.path().join(name)).unwrap();
        let held = put("x.json.2.tmp");
        held.try_lock().unwrap();
        let others = ["x.json.tmp", "x.json.a1.tmp", "yx.json.1.tmp", "x.json.1.tmp.json", "x.json.2.tmp"];
        for left in ["x.json.1.tmp", "x.json.4000000000.tmp"].iter().chain(&others[..4]) {
            put(left);
        }
        write_private(&dir.path().join("x.json"), b"x").unwrap();
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        let mut expected = [&others[..], &["x.json"]].concat();
        expected.sort_unstable();
        assert_eq!(names, expected);
    }

    #[test]
    fn the_lock_of_a_supervisor_that_was_killed_is_waited_for_and_that_of_one_which_lives_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let checkout = Checkout { root: dir.path().to_owned(), home: dir.path().join("home") };
        let held = checkout.lock().unwrap().unwrap();
        let mut record = Record::new("a".into(), crate::record::Places::default());
        record.write(&checkout.record()).unwrap();
        assert!(checkout.lock().unwrap().is_none(), "this process lives");
        let mut killed = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        record.supervisor = crate::process::Identity::of(killed.id());
        killed.kill().unwrap();
        killed.wait().unwrap();
        record.write(&checkout.record()).unwrap();
        let closing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(held);
        });
        assert!(checkout.lock().unwrap().is_some(), "its files are closed in the end");
        closing.join().unwrap();
    }
}
