//! The server function as a process.

use weir_server::{BoundedServers, retry};

fn main() -> std::process::ExitCode {
    let attempts = std::env::var("WEIR_PROVIDER_CREATE_ATTEMPTS").ok();
    let attempts = match attempts.as_deref().map(str::parse) {
        None => retry::ATTEMPTS,
        Some(Ok(attempts)) => attempts,
        Some(Err(_)) => {
            eprintln!("error: WEIR_PROVIDER_CREATE_ATTEMPTS is no number");
            return std::process::ExitCode::FAILURE;
        }
    };
    weir_function_runtime::run::main(BoundedServers { attempts })
}
