//! Settings of a function's process, from flags and the environment.
//!
//! Invariants: every value is checked before anything is started, and a refusal names the flag and the range. No secret
//! can be given as a flag, since a process's arguments are everybody's to read: passwords, tokens and seeds come from
//! the environment or from a file.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Parser, ValueEnum};

/// All settings of a function's process.
#[derive(Clone, Debug, Parser)]
#[command(version, about = "A function of Weir: takes work off the queue until it is told to stop")]
pub struct Settings {
    /// How to reach the queue.
    #[command(flatten)]
    pub nats: Nats,
    /// How work is taken.
    #[command(flatten)]
    pub worker: Worker,
    /// Which calls are recorded.
    #[command(flatten)]
    pub record: Record,
    /// What is told about it.
    #[command(flatten)]
    pub telemetry: Telemetry,
}

impl Settings {
    /// The settings of this process. Asked for help or the version, shows it and exits.
    pub fn of_process() -> anyhow::Result<Self> {
        parse()
    }

    /// The settings that a process has with `arguments` after its name, and without looking at its own command line.
    pub fn from_arguments<I, T>(arguments: I) -> Result<Self, clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<std::ffi::OsString>,
    {
        Self::try_parse_from(
            std::iter::once(std::ffi::OsString::from("weir")).chain(arguments.into_iter().map(Into::into)),
        )
    }
}

/// The arguments of this process, for one that has more than [`Settings`]. A refusal never repeats what was refused, since
/// that may hold a password. Asked for help or the version, shows it and exits.
pub fn parse<T: Parser>() -> anyhow::Result<T> {
    T::try_parse().map_err(|error| refusal(&error))
}

/// How to reach the queue.
///
/// Credentials, at most one kind: `--nats-creds`, `--nats-nkey-file`, `WEIR_NATS_USER` with `WEIR_NATS_PASSWORD` (or
/// `--nats-password-file`), `WEIR_NATS_TOKEN`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Queue")]
pub struct Nats {
    /// NATS servers, separated by commas. No passwords here: other users of the machine can read a process's arguments.
    #[arg(
        long = "nats",
        env = "WEIR_NATS_URL",
        default_value = "nats://127.0.0.1:4222",
        value_delimiter = ',',
        value_parser = server_url,
        value_name = "URL"
    )]
    pub servers: Vec<String>,
    /// A NATS credentials file (JWT and seed).
    #[arg(long = "nats-creds", env = "WEIR_NATS_CREDS", value_name = "FILE")]
    pub creds: Option<PathBuf>,
    /// A file that holds an NKey seed.
    #[arg(long = "nats-nkey-file", env = "WEIR_NATS_NKEY_FILE", value_name = "FILE")]
    pub nkey_file: Option<PathBuf>,
    /// A user name. The password comes from WEIR_NATS_PASSWORD or from --nats-password-file.
    #[arg(long = "nats-user", env = "WEIR_NATS_USER", value_name = "NAME")]
    pub user: Option<String>,
    /// A file that holds the user's password.
    #[arg(long = "nats-password-file", env = "WEIR_NATS_PASSWORD_FILE", value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// A file with the certificate authorities to trust, PEM.
    #[arg(long = "nats-ca", env = "WEIR_NATS_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// This process's certificate, PEM.
    #[arg(long = "nats-cert", env = "WEIR_NATS_CERT", requires = "key", value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[arg(long = "nats-key", env = "WEIR_NATS_KEY", requires = "cert", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// How many servers keep a copy of each stream that is created. Existing streams keep what they have.
    #[arg(long = "nats-replicas", env = "WEIR_NATS_REPLICAS", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5), value_name = "N")]
    pub replicas: u8,
    /// How this process calls itself on the queue; by default its program's name, host and process id.
    #[arg(long = "name", env = "WEIR_NAME", value_parser = process_name, value_name = "NAME")]
    pub name: Option<String>,
    /// How long a lease lives without being renewed. A worker that was killed is replaced after this time. Only used
    /// when the bucket of leases is created; after that, the bucket's own maximum age counts, for all processes alike.
    #[arg(long = "lease-ttl", env = "WEIR_LEASE_TTL", default_value = "10s", value_parser = |s: &str| duration(s, 1.0, 300.0), value_name = "DURATION")]
    pub lease_ttl: Duration,
}

/// How work is taken.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Worker")]
pub struct Worker {
    /// How many objects this process works on at once. Work is mostly waiting for clouds, so far more than there are cores.
    #[arg(long, env = "WEIR_CONCURRENCY", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=4096), value_name = "N")]
    pub concurrency: u16,
    /// How many messages of one kind and lane may be in hand over all processes.
    #[arg(long, env = "WEIR_MAX_ACK_PENDING", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N")]
    pub max_ack_pending: u32,
    /// How long one call may take. A call that overruns is ended and tried again with back-off.
    #[arg(long, env = "WEIR_CALL_TIMEOUT", default_value = "2m", value_parser = |s: &str| duration(s, 1.0, 3600.0), value_name = "DURATION")]
    pub call_timeout: Duration,
    /// How long calls in hand may go on after SIGTERM before they are handed back.
    #[arg(long, env = "WEIR_GRACE", default_value = "20s", value_parser = |s: &str| duration(s, 0.0, 3600.0), value_name = "DURATION")]
    pub grace: Duration,
    /// How old a message must be that no consumer takes, or whose consumer has given it up, for a worker to see to it.
    /// Longer than a new kind's first worker takes to start in an upgrade.
    #[arg(long, env = "WEIR_STRAY_AFTER", default_value = "5m", value_parser = |s: &str| duration(s, 1.0, 86_400.0), value_name = "DURATION")]
    pub stray_after: Duration,
    /// How soon to look again at an object that waits for an event, in case the event never comes.
    #[arg(long, env = "WEIR_SAFETY_NET", default_value = "5m", value_parser = |s: &str| duration(s, 1.0, 86_400.0), value_name = "DURATION")]
    pub safety_net: Duration,
}

/// Which calls are recorded, and how much of the past is kept.
///
/// The limits count when the streams are made; streams that exist keep what they have.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Recording")]
pub struct Record {
    /// Which calls are recorded: off, errors, sampled:<share>, as in sampled:0.1, or all. Recordings hold no secrets.
    #[arg(long = "record", env = "WEIR_RECORD", default_value = "errors", value_name = "MODE")]
    pub mode: crate::record::Mode,
    /// How long recordings, events and requests are kept.
    #[arg(long = "record-age", env = "WEIR_RECORD_AGE", default_value = "72h", value_parser = |s: &str| duration(s, 60.0, 31_536_000.0), value_name = "DURATION")]
    pub age: Duration,
    /// How many MiB of recordings are kept, and at most half of that of events, and of requests. The oldest go first.
    #[arg(long = "record-size", env = "WEIR_RECORD_SIZE", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_048_576), value_name = "MIB")]
    pub size: u32,
}

/// What is told about the process.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Telemetry")]
pub struct Telemetry {
    /// What is logged, as in `info,weir_function_runtime=debug`.
    #[arg(long, env = "WEIR_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
    /// How it is logged.
    #[arg(long, env = "WEIR_LOG_FORMAT", value_enum, default_value_t = LogFormat::Human)]
    pub log_format: LogFormat,
    /// Where to serve /metrics, /healthz and /readyz. Port 0 takes a free one and prints it.
    #[arg(long, env = "WEIR_METRICS", value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
}

/// A string that is nobody's to read: it does not show in `Debug`, and has no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, to hand to whom it is for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// How a process proves to the queue who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Not at all.
    None,
    /// A JWT and its seed, as a credentials file.
    File(PathBuf),
    /// An NKey seed.
    NKey(Secret),
    /// A user and a password.
    Password(String, Secret),
    /// A token.
    Token(Secret),
}

/// Credentials that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// More than one kind was given.
    #[error("several kinds of credentials for NATS are given ({0}); give one")]
    Several(String),
    /// A user without a password.
    #[error("user {0:?} for NATS has no password: set WEIR_NATS_PASSWORD or --nats-password-file")]
    NoPassword(String),
}

impl Nats {
    /// The credentials that were given. Reads files and the environment.
    pub fn credentials(&self) -> Result<Credentials, CredentialsError> {
        let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty()).map(Secret::new);
        self.credentials_with(environment)
    }

    fn credentials_with(&self, environment: impl Fn(&str) -> Option<Secret>) -> Result<Credentials, CredentialsError> {
        let token = environment("WEIR_NATS_TOKEN");
        let given: Vec<&str> = [
            (self.creds.is_some(), "a credentials file"),
            (self.nkey_file.is_some(), "an NKey"),
            (self.user.is_some(), "a user"),
            (token.is_some(), "a token"),
        ]
        .into_iter()
        .filter_map(|(given, name)| given.then_some(name))
        .collect();
        if given.len() > 1 {
            return Err(CredentialsError::Several(given.join(", ")));
        }
        if let Some(path) = &self.creds {
            return Ok(Credentials::File(path.clone()));
        }
        if let Some(path) = &self.nkey_file {
            return Ok(Credentials::NKey(read_secret(path)?));
        }
        if let Some(user) = &self.user {
            let password = match &self.password_file {
                Some(path) => Some(read_secret(path)?),
                None => environment("WEIR_NATS_PASSWORD"),
            };
            let password = password.ok_or_else(|| CredentialsError::NoPassword(user.clone()))?;
            return Ok(Credentials::Password(user.clone(), password));
        }
        Ok(token.map_or(Credentials::None, Credentials::Token))
    }

    /// How this process calls itself on the queue. Always the same within a process.
    pub fn process_name(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let program = std::env::args().next().unwrap_or_default();
        let program = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or("weir").to_owned();
        let host = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
        let host = host.unwrap_or_default();
        let name = format!("{program}@{}/{}", host.trim(), std::process::id());
        name.chars().filter(char::is_ascii_graphic).take(128).collect()
    }
}

/// The error to show for arguments that are refused. Values are not repeated: one may be a password in the wrong place.
///
/// Whatever is not about a value, asking for help among it, is shown as clap does it, which ends the process.
fn refusal(error: &clap::Error) -> anyhow::Error {
    match (error.get(ContextKind::InvalidArg), std::error::Error::source(error)) {
        (Some(argument), Some(why)) if error.kind() == ErrorKind::ValueValidation => {
            anyhow::anyhow!("{argument}: {why}")
        }
        _ => error.exit(),
    }
}

fn read_secret(path: &Path) -> Result<Secret, CredentialsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| CredentialsError::File { path: path.display().to_string(), source })?;
    Ok(Secret::new(text.trim()))
}

fn server_url(text: &str) -> Result<String, String> {
    let address: async_nats::ServerAddr =
        text.trim().parse().map_err(|error: std::io::Error| format!("not a NATS URL: {error}"))?;
    if address.has_user_pass() || address.username().is_some() {
        // The text is not repeated: it holds the password.
        return Err("holds a user or password; set WEIR_NATS_USER and WEIR_NATS_PASSWORD instead".to_owned());
    }
    Ok(text.trim().to_owned())
}

fn process_name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.len() <= 128 && text.chars().all(|c| c.is_ascii_graphic());
    fits.then(|| text.to_owned()).ok_or_else(|| "must be 1 to 128 printable characters without blanks".to_owned())
}

/// A number with `ms`, `s`, `m` or `h`, between `least` and `most` seconds.
fn duration(text: &str, least: f64, most: f64) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let scale = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("must be a number with a unit: ms, s, m or h, as in 10s".to_owned()),
    };
    let seconds =
        number.trim().parse::<f64>().map_err(|_| "must be a number with a unit, as in 10s".to_owned())? * scale;
    if seconds.is_finite() && (least..=most).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("must be between {least} s and {most} s"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_with_the_range() {
        for (arguments, says) in [
            (["--lease-ttl", "10ms"], "between 1 s and 300 s"),
            (["--lease-ttl", "10"], "with a unit"),
            (["--lease-ttl", "NaNs"], "with a unit"),
            (["--lease-ttl", "6m"], "between"),
            (["--concurrency", "0"], "1..=4096"),
            (["--nats-replicas", "6"], "1..=5"),
            (["--record", "some"], "sampled:<share>"),
            (["--metrics", "nowhere"], "--metrics"),
            (["--name", "a b"], "without blanks"),
        ] {
            let refusal = Settings::from_arguments(arguments).unwrap_err().to_string();
            assert!(refusal.contains(says), "{arguments:?}: {refusal}");
        }
        assert_eq!(Settings::from_arguments(["--lease-ttl", "1.5m"]).unwrap().nats.lease_ttl, Duration::from_secs(90));
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        let refusal = refusal(&Settings::from_arguments(["--nats", "nats://me:hunter2@localhost"]).unwrap_err());
        assert!(format!("{refusal:#}").contains("WEIR_NATS_PASSWORD"), "{refusal:#}");
        assert!(!format!("{refusal:?}").contains("hunter2"), "{refusal:?}");
    }

    #[test]
    fn secrets_come_from_the_environment_or_a_file_and_never_show() {
        let mut nats = Settings::from_arguments(["--nats-user", "me"]).unwrap().nats;
        let environment = |name: &str| (name == "WEIR_NATS_PASSWORD").then(|| Secret::new("hunter2"));
        let credentials = nats.credentials_with(environment).unwrap();
        assert_eq!(credentials, Credentials::Password("me".to_owned(), Secret::new("hunter2")));
        assert!(!format!("{credentials:?}").contains("hunter2"));
        assert!(matches!(nats.credentials_with(|_| None), Err(CredentialsError::NoPassword(_))));
        nats.creds = Some("x".into());
        assert!(matches!(nats.credentials_with(environment), Err(CredentialsError::Several(_))));
    }
}
