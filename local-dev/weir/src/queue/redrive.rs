//! `weir queue redrive`: sends dead letters again, after showing which and asking.
//!
//! Invariant: what is sent is what was shown. The letters are chosen first, and one that comes later is not among them.

use crate::screen::clean;
use crate::{Exit, complain, say};
use anyhow::bail;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use weir_function_runtime::queue::inspect::{Letter, Selector};
use weir_function_runtime::queue::{Queue, Redriven};

/// The most that one command sends.
const MOST: usize = 100_000;
/// How many are shown before it asks.
const SHOWN: usize = 20;

/// Which letters to send again.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("letters").required(true).args(["numbers", "kind", "all"])))]
pub struct Args {
    /// Their numbers, as `weir queue dead` shows them
    #[arg(value_name = "NUMBER")]
    numbers: Vec<u64>,
    /// Those of a kind, or of KIND/NAMESPACE, or of KIND/NAMESPACE/NAME
    #[arg(long, value_name = "OBJECTS")]
    kind: Option<Selector>,
    /// All of them
    #[arg(long)]
    all: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Sends letters again. The exit code tells programs whether all that were chosen have been sent.
pub async fn run(queue: &Queue, args: &Args, json: bool) -> anyhow::Result<Exit> {
    let numbers = if args.numbers.is_empty() {
        let listing = queue.dead(&args.kind.clone().unwrap_or_default(), MOST).await?;
        if !args.yes && !listing.items.is_empty() {
            show(&listing.items);
        }
        listing.items.iter().map(|letter| letter.sequence).collect()
    } else {
        args.numbers.clone()
    };
    if numbers.is_empty() {
        if json {
            say!("[]");
        } else {
            say!("There are no such dead letters.");
        }
        return Ok(Exit::Done);
    }
    if !args.yes && !confirmed(numbers.len())? {
        complain!("weir: nothing was sent");
        return Ok(Exit::Failed);
    }
    let mut outcomes = Vec::new();
    let mut all_sent = true;
    for number in numbers {
        let outcome = queue.redrive(number).await?;
        all_sent &= matches!(outcome, Redriven::Sent { .. });
        if json {
            outcomes.push(as_json(number, &outcome));
        } else {
            say!("{number}: {}", in_words(&outcome));
        }
    }
    if json {
        say!("{:#}", Value::Array(outcomes));
    }
    Ok(if all_sent { Exit::Done } else { Exit::Failed })
}

fn show(letters: &[Letter]) {
    super::views::letters(&letters[..letters.len().min(SHOWN)]);
    if letters.len() > SHOWN {
        say!("… and {} more", letters.len() - SHOWN);
    }
}

/// Asks on the terminal. Without one nobody can answer, and nothing is taken for a yes.
fn confirmed(count: usize) -> anyhow::Result<bool> {
    let what = if count == 1 { "this message".to_owned() } else { format!("these {count} messages") };
    if !std::io::stdin().is_terminal() {
        bail!("sending {what} again is asked about first, and there is nobody to ask here: say --yes");
    }
    let mut out = std::io::stderr();
    write!(out, "Send {what} again? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn in_words(outcome: &Redriven) -> String {
    match outcome {
        Redriven::Sent { subject, .. } => format!("sent to {}", clean(subject)),
        Redriven::Waits { subject } => {
            format!("kept: a newer message is on {} already, and says the same", clean(subject))
        }
        Redriven::Incomplete => "kept: it was too large to be kept whole, so there is nothing to send".to_owned(),
        Redriven::Foreign => "kept: it did not come from the queue".to_owned(),
        Redriven::Gone => "there is no such dead letter, or no longer".to_owned(),
    }
}

fn as_json(number: u64, outcome: &Redriven) -> Value {
    match outcome {
        Redriven::Sent { subject, sequence } => {
            json!({ "number": number, "outcome": "sent", "subject": subject, "sequence": sequence })
        }
        Redriven::Waits { subject } => json!({ "number": number, "outcome": "waits", "subject": subject }),
        Redriven::Incomplete => json!({ "number": number, "outcome": "incomplete" }),
        Redriven::Foreign => json!({ "number": number, "outcome": "foreign" }),
        Redriven::Gone => json!({ "number": number, "outcome": "gone" }),
    }
}
