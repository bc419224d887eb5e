//! `weir-bench`: measures what it is asked for and tells it. See [`weir_load`].

use clap::Parser;
use std::process::ExitCode;
use weir_load::machine::Machine;
use weir_load::report::{Figure, Report};
use weir_load::scenario::settled::{self, Asked};
use weir_load::scenario::{Scale, calls, cold, converge, progress, recording, recovery};

/// Measures Weir on this machine, beside a classic controller on the same work.
///
/// Scenarios: a: calls a second of a function that only reads. b: a resync of 10,000 settled servers. c: 1,000 servers made at
/// once, by 1, 2 and 4 processes. d: from a change to the first request to the cloud, at rest and under load. e: recovery after
/// SIGKILL in mid-call. f: cold start. g: what recording costs.
#[derive(Parser)]
#[command(name = "./weir bench", bin_name = "./weir bench", max_term_width = 110)]
struct Arguments {
    /// Which scenarios; all, if none is given
    #[arg(value_parser = ["a", "b", "c", "d", "e", "f", "g"])]
    scenarios: Vec<String>,
    /// Fewer objects and repetitions: minutes instead of a quarter of an hour
    #[arg(long)]
    quick: bool,
    /// How often what takes long is repeated
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    repeats: Option<u8>,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// Exit codes: 0 measured, whatever came of it; 1 something did not do its work.
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let run = || -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let report = runtime.block_on(measure(&arguments))?;
        if arguments.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            print!("{report}");
        }
        Ok(())
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(arguments: &Arguments) -> anyhow::Result<Report> {
    let mut scale = if arguments.quick { Scale::QUICK } else { Scale::FULL };
    scale.repeats = arguments.repeats.map_or(scale.repeats, usize::from);
    let machine = Machine::here();
    if !machine.optimised {
        progress("not optimised: `./weir bench` builds what can be told");
    }
    let asked =
        |letter: &str| arguments.scenarios.is_empty() || arguments.scenarios.iter().any(|given| given == letter);
    let mut figures: Vec<Figure> = vec![];
    if asked("a") {
        figures.extend(calls::run(&scale).await?);
    }
    let of_settled = Asked { resync: asked("b"), latency: asked("d") };
    if of_settled.resync || of_settled.latency {
        figures.extend(settled::run(&scale, of_settled).await?);
    }
    if asked("c") {
        figures.extend(converge::run(&scale).await?);
    }
    if asked("e") {
        figures.extend(recovery::run(&scale).await?);
    }
    if asked("f") {
        figures.extend(cold::run(&scale).await?);
    }
    if asked("g") {
        figures.extend(recording::run(&scale).await?);
    }
    figures.sort_by_key(|figure| figure.scenario);
    Ok(Report { machine, scale: scale.name, figures })
}
