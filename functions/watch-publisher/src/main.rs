//! The watch publisher as a process.

use clap::Parser;
use std::process::ExitCode;
use weir_function_runtime::{lambda, queue, run, settings, telemetry};

/// Publishes what changes in Kubernetes to the queue.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    common: settings::Settings,
    #[command(flatten)]
    watches: weir_watch_publisher::Settings,
}

fn main() -> ExitCode {
    run::start(|stop| async move {
        let arguments: Arguments = settings::parse()?;
        lambda::refuse("it holds watches open, and between two invocations Lambda stops a process").await?;
        telemetry::init(&arguments.common)?;
        if let Some(address) = arguments.common.telemetry.metrics {
            telemetry::serve(address, stop.clone()).await?;
        }
        let client = run::kubernetes_client().await?;
        let queue = queue::connect(&arguments.common).await?;
        weir_watch_publisher::run(client, queue, &arguments.watches, stop).await
    })
}
