//! The server monitor as a process: on Lambda it looks at a region when it is invoked to, and otherwise by a clock that it keeps
//! in the stream.

use clap::Parser;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use weir_api::Kind;
use weir_function_runtime::queue::Queue;
use weir_function_runtime::record::Recorder;
use weir_function_runtime::settings::Settings;
use weir_function_runtime::{lambda, queue, run, settings, telemetry, worker};
use weir_provider::Provider;
use weir_server_monitor::{Monitor, metrics, schedule};

/// Writes what servers are doing in the cloud into their objects' status.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    common: Settings,
    /// Seconds between two looks at the servers of a region.
    #[arg(long, env = "WEIR_MONITOR_SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    monitor_seconds: u32,
}

fn monitor(client: kube::Client, queue: &Queue, settings: &Settings) -> Monitor {
    let monitor = Monitor::new(client, Arc::new(Provider::default()), Arc::new(queue.clone()));
    monitor.recorded(Recorder::of(settings, queue))
}

fn main() -> ExitCode {
    run::start(|stop| async move {
        metrics::register();
        if lambda::is_here() {
            return lambda::serve(
                Kind::ServerMonitor,
                |client, queue, settings| Arc::new(monitor(client, queue, settings)),
                stop,
            )
            .await;
        }
        let arguments: Arguments = settings::parse()?;
        telemetry::init(&arguments.common)?;
        let client = run::kubernetes_client().await?;
        let queue = queue::connect(&arguments.common).await?;
        let interval = Duration::from_secs(arguments.monitor_seconds.into());
        let clock = tokio::spawn(schedule::run(client.clone(), queue.clone(), interval, stop.clone()));
        let monitor = Arc::new(monitor(client, &queue, &arguments.common));
        let served = worker::run(monitor, queue, &arguments.common, stop.clone()).await;
        stop.cancel();
        clock.await?;
        served
    })
}
