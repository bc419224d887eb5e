//! [`weir_load::classic`] as a process.

use clap::{Parser, ValueEnum};
use std::net::SocketAddr;
use std::process::ExitCode;
use weir_function_runtime::run;
use weir_load::{classic, reader};
use weir_server::Servers;

/// A controller of the classic kind, to compare Weir with.
#[derive(Parser)]
struct Arguments {
    /// What it calls for each server.
    #[arg(long, value_enum)]
    function: Which,
    /// How many objects it works on at once.
    #[arg(long)]
    concurrency: u16,
    /// Where it tells how far it is.
    #[arg(long)]
    listen: SocketAddr,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Server,
    Reader,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Written as a function's log is, since writing it costs something.
    tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(std::io::stderr).init();
    let Arguments { function, concurrency, listen } = arguments;
    run::start(|stop| async move {
        match function {
            Which::Server => classic::serve(Servers, concurrency, listen, stop).await,
            Which::Reader => classic::serve(reader::Reader, concurrency, listen, stop).await,
        }
    })
}
