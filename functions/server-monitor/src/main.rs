//! The server monitor as a process.

use clap::Parser;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use weir_function_runtime::record::Recorder;
use weir_function_runtime::{queue, run, settings, telemetry, worker};
use weir_provider::Provider;
use weir_server_monitor::{Monitor, metrics, schedule};

/// Writes what servers are doing in the cloud into their objects' status.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    common: settings::Settings,
    /// Seconds between two looks at the servers of a region.
    #[arg(long, env = "WEIR_MONITOR_SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    monitor_seconds: u32,
}

fn main() -> ExitCode {
    run::start(|stop| async move {
        let arguments: Arguments = settings::parse()?;
        run::not_on_lambda()?;
        telemetry::init(&arguments.common)?;
        metrics::register();
        let client = run::kubernetes_client().await?;
        let queue = queue::connect(&arguments.common).await?;
        let interval = Duration::from_secs(arguments.monitor_seconds.into());
        let clock = tokio::spawn(schedule::run(client.clone(), queue.clone(), interval, stop.clone()));
        let monitor = Monitor::new(client, Arc::new(Provider::default()), Arc::new(queue.clone()));
        let monitor = monitor.recorded(Recorder::of(&arguments.common, &queue));
        let served = worker::run(Arc::new(monitor), queue, &arguments.common, stop.clone()).await;
        stop.cancel();
        clock.await?;
        served
    })
}
