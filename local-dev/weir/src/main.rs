//! `weir`: brings the whole product up on one machine, shows it, and takes it down again.
//!
//! Intention: a newcomer types `./weir up` and sees the main job done; a developer has every part at hand, with its log,
//! its address and its restarts. The parts are the very binaries that run in production; only what they are pointed at
//! is local.
//!
//! Invariants
//! - Nothing is written outside the checkout, or the folder given by `--data`.
//! - Nothing outlives its stack: not after Ctrl-C, not after the supervisor was killed ([`supervisor`]).
//! - No secret is on a command line or in the stack's record.

mod checkout;
mod cluster;
mod down;
mod export;
mod follow;
mod import;
mod logs;
mod nats;
mod parts;
mod ports;
mod probe;
mod process;
mod queue;
mod record;
mod replay;
mod sample;
mod screen;
mod signals;
mod stack;
mod status;
mod supervisor;
mod trace;
mod up;

use checkout::Checkout;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Turns Kubernetes custom resources into OpenStack clouds: the whole product on this machine.
#[derive(Debug, Parser)]
#[command(name = "weir", version, max_term_width = 110, after_help = EXITS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Where this checkout's running stack is recorded, and kept unless --data is given
    ///
    /// [env: WEIR_HOME]
    // Not read by clap, whose usage lines would show the option as one that is needed.
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    home: Option<PathBuf>,
}

/// No more of an error is told, in characters.
const LONGEST: usize = 10_000;
const EXITS: &str = "Exit codes: 0 done; 1 failed, or not all is well; 2 wrong usage; 3 there is a stack already, or none;\n\
                     4 the sample did not become available in time; 130 interrupted before it was done.\n\n\
                     `./weir test`, of the script in the checkout's root, runs every check and test; `./weir bench`\n\
                     measures.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Start everything, apply the sample, and show it becoming available
    Up(Box<up::Args>),
    /// End the stack, however it was started
    Down,
    /// Show what runs, where, and how the objects stand
    Status(status::Args),
    /// Show what the parts say
    Logs(logs::Args),
    /// Look into the queue: what waits, timers, leases, dead letters; and send dead letters again
    Queue(queue::Args),
    /// Show what an object's function was called for, and what it read, did and decided
    Trace(trace::Args),
    /// Run recorded calls again, offline, or publish past events again
    Replay(replay::Args),
    /// Write recorded calls into a file, for `weir replay file` and `weir import`
    Export(export::Args),
    /// Load the objects and events of an exported file into the stack that runs
    Import(import::Args),
    /// Fetch nats-server unless a good one is there, and print where it is
    #[command(hide = true)]
    NatsServer,
    /// The supervisor of a detached stack
    #[command(hide = true)]
    Supervise,
    /// Ends a stack whose supervisor was killed
    #[command(hide = true)]
    Guard { instance: String, record: PathBuf },
}

impl Command {
    /// Whether it does nothing but show what is there: once nobody sees it any more, there is nothing left to do.
    const fn only_shows(&self) -> bool {
        match self {
            Self::Status(_) | Self::Logs(_) | Self::Trace(_) => true,
            Self::Replay(args) => args.only_shows(),
            _ => false,
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As it should.
    Done = 0,
    /// Something is not well.
    Failed = 1,
    /// It was used wrongly, which showed only when it was looked into.
    Usage = 2,
    /// There is a stack already, or there is none.
    NotThere = 3,
    /// The sample did not become available in time.
    NotAvailable = 4,
    /// A signal came before it was done.
    Interrupted = 130,
}

fn main() -> ExitCode {
    // An error only says that a provider was chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    let home = cli.home.or_else(|| std::env::var_os("WEIR_HOME").filter(|home| !home.is_empty()).map(PathBuf::from));
    let ended = match cli.command {
        Command::Guard { instance, record } => supervisor::guard::run(&instance, &record).map(|()| Exit::Done),
        command => run(home, command),
    };
    match screen::settled(ended) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) => {
            complain!("weir: {}", told(&error));
            ExitCode::from(if error.is::<stack::Running>() { Exit::NotThere as u8 } else { Exit::Failed as u8 })
        }
    }
}

/// An error with its causes, each said once: many repeat their cause's words, and those of a file that somebody has made up.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    screen::harmless(&text.chars().take(LONGEST).collect::<String>(), Some('\n'))
}

/// Says what is wrong with a command line, and for a command that does not exist also which do.
fn refuse(error: &clap::Error) -> ! {
    if error.kind() == ErrorKind::InvalidSubcommand {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let names: Vec<&str> = visible.map(clap::Command::get_name).collect();
        complain!(
            "{}The commands are: {}; and of the script ./weir also: test, bench",
            error.render(),
            names.join(", ")
        );
        std::process::exit(error.exit_code());
    }
    let printed = error.print();
    if let Err(why) = printed
        && !error.use_stderr()
    {
        screen::lose(why);
    }
    if let Err(why) = screen::settled(Ok(Exit::Done)) {
        complain!("weir: {}", told(&why));
        std::process::exit(Exit::Failed as i32);
    }
    std::process::exit(error.exit_code())
}

fn run(home: Option<PathBuf>, command: Command) -> anyhow::Result<Exit> {
    let checkout = Checkout::find(home)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let only_shows = command.only_shows();
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = perform(&checkout, command) => ended,
            () = screen::lost(), if only_shows => Ok(Exit::Done),
        }
    });
    // A download that was interrupted is not waited for.
    runtime.shutdown_background();
    // Whatever it would have come to: it was not to come to its end.
    if only_shows && screen::is_lost() { Ok(Exit::Done) } else { ended }
}

async fn perform(checkout: &Checkout, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Up(args) => up::run(checkout, *args).await,
        Command::Down => down::run(checkout),
        Command::Status(args) => status::run(checkout, &args).await,
        Command::Logs(args) => logs::run(checkout, &args),
        Command::Queue(args) => queue::run(checkout, args).await,
        Command::Trace(args) => trace::run(checkout, args).await,
        Command::Replay(args) => replay::run(checkout, args).await,
        Command::Export(args) => export::run(checkout, args).await,
        Command::Import(args) => import::run(checkout, args).await,
        Command::NatsServer => {
            let server = nats::get(checkout, |what| complain!("weir: {what}"))?;
            say!("{}", server.program.display());
            Ok(Exit::Done)
        }
        Command::Supervise => up::supervise(checkout).await,
        Command::Guard { .. } => Ok(Exit::Done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_whose_words_an_error_repeats_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("not a recording: {0}")]
        struct Outer(#[from] std::num::ParseIntError);
        let inner = "x".parse::<u8>().map_err(Outer);
        let error = inner.map_err(|error| anyhow::Error::new(error).context("cannot use x.json"));
        let said = error.map_or_else(|error| told(&error), |_| String::new());
        assert_eq!(said, "cannot use x.json: not a recording: invalid digit found in string");
    }

    #[test]
    fn an_error_that_repeats_what_stands_in_a_file_is_harmless_on_a_terminal() {
        let said = told(&anyhow::anyhow!("unknown variant `\u{1b}[2J\r{}`\nsee x", "x".repeat(1 << 20)));
        assert!(said.starts_with("unknown variant ` [2J xxx") && said.chars().count() == LONGEST, "{}", &said[..80]);
        assert_eq!(told(&anyhow::anyhow!("a\nb")), "a\nb");
    }
}
