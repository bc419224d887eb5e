//! `weir queue redrive` and `weir queue drop`: what becomes of dead letters, after showing which and asking.
//!
//! Invariant: what is done is done to what was shown. The letters are chosen first, and one that comes later is not among them.

use super::Meant;
use crate::screen::clean;
use crate::trace::find;
use crate::{Exit, complain, say};
use anyhow::bail;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use weir_api::ObjectRef;
use weir_function_runtime::queue::inspect::{Letter, Selector};
use weir_function_runtime::queue::{Queue, Redriven};

/// The most that one command does something to.
const MOST: usize = 100_000;
/// How many are shown before it asks.
const SHOWN: usize = 20;

/// Which letters.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("letters").required(true).args(["numbers", "kind", "all"])))]
pub struct Chosen {
    /// Their numbers, as `weir queue dead` shows them
    #[arg(value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
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

/// Which letters to send again, and as what.
#[derive(Clone, Debug, clap::Args)]
pub struct Redrive {
    #[command(flatten)]
    chosen: Chosen,
    /// Have this object looked at instead of sending what the letter holds: for one that nobody understands, or that did not
    /// come from the queue
    #[arg(long = "for", value_name = "KIND/NAMESPACE/NAME", conflicts_with_all = ["kind", "all"], value_parser = object)]
    instead: Option<ObjectRef>,
}

impl Redrive {
    pub fn selector(&self) -> Selector {
        self.chosen.selector()
    }
}

impl Chosen {
    pub fn selector(&self) -> Selector {
        self.kind.clone().unwrap_or_default()
    }

    /// The numbers of the letters, once whoever is at the terminal has said yes to `question` about them; `None` otherwise.
    async fn confirmed(&self, queue: &Queue, meant: &Meant<'_>, question: &str) -> anyhow::Result<Option<Vec<u64>>> {
        let numbers: Vec<u64> = if self.numbers.is_empty() {
            let listing = meant.list(async |selector| queue.dead(selector, MOST).await).await?;
            if !self.yes {
                show(&listing.items);
            }
            listing.items.iter().map(|letter| letter.sequence).collect()
        } else {
            if !self.yes {
                let listing = queue.dead(&Selector::default(), MOST).await?;
                let told = |letter: &Letter| self.numbers.contains(&letter.sequence);
                show(&listing.items.into_iter().filter(told).collect::<Vec<_>>());
            }
            self.numbers.clone()
        };
        if !self.yes && !numbers.is_empty() && !asked(numbers.len(), question)? {
            return Ok(None);
        }
        Ok(Some(numbers))
    }
}

/// Sends letters again. The exit code tells programs whether all that were chosen have been sent.
pub async fn redrive(queue: &Queue, meant: &Meant<'_>, args: &Redrive, json: bool) -> anyhow::Result<Exit> {
    let Some(numbers) = args.chosen.confirmed(queue, meant, "Send {} again?").await? else {
        complain!("weir: nothing was sent");
        return Ok(Exit::Failed);
    };
    let mut report = Report::new(json);
    for number in numbers {
        let outcome = match &args.instead {
            Some(object) => queue.redrive_for(number, object).await?,
            None => queue.redrive(number).await?,
        };
        report.add(
            matches!(outcome, Redriven::Sent { .. }),
            number,
            &in_words(number, &outcome),
            as_json(number, &outcome),
        );
    }
    Ok(report.end())
}

/// Removes letters. The exit code tells programs whether all that were chosen are gone.
pub async fn drop(queue: &Queue, meant: &Meant<'_>, args: &Chosen, json: bool) -> anyhow::Result<Exit> {
    let Some(numbers) = args.confirmed(queue, meant, "Remove {} for good?").await? else {
        complain!("weir: nothing was removed");
        return Ok(Exit::Failed);
    };
    let mut report = Report::new(json);
    for number in numbers {
        let (outcome, words) =
            if queue.drop_letter(number).await? { ("dropped", "removed") } else { ("gone", NO_SUCH) };
        report.add(outcome == "dropped", number, words, json!({ "number": number, "outcome": outcome }));
    }
    Ok(report.end())
}

/// What has become of each letter, told one by one to people and at the end to programs.
struct Report {
    outcomes: Option<Vec<Value>>,
    any: bool,
    all: bool,
}

impl Report {
    const fn new(json: bool) -> Self {
        Self { outcomes: if json { Some(vec![]) } else { None }, any: false, all: true }
    }

    fn add(&mut self, done: bool, number: u64, words: &str, outcome: Value) {
        self.any = true;
        self.all &= done;
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.push(outcome);
        } else {
            say!("{number}: {words}");
        }
    }

    fn end(self) -> Exit {
        match self.outcomes {
            Some(outcomes) => say!("{:#}", Value::Array(outcomes)),
            None if !self.any => say!("There are no such dead letters."),
            None => {}
        }
        if self.all { Exit::Done } else { Exit::Failed }
    }
}

fn object(text: &str) -> Result<ObjectRef, String> {
    let find::Told { kind, namespace, name } = find::told(text)?;
    let object = ObjectRef::new(kind, namespace, name);
    weir_messages::subject::check(&object).map_err(|error| error.to_string())?;
    Ok(object)
}

fn show(letters: &[Letter]) {
    if letters.is_empty() {
        return;
    }
    super::views::letters(&letters[..letters.len().min(SHOWN)]);
    if letters.len() > SHOWN {
        say!("… and {} more", letters.len() - SHOWN);
    }
}

/// Asks on the terminal. Without one nobody can answer, and nothing is taken for a yes.
fn asked(count: usize, question: &str) -> anyhow::Result<bool> {
    let what = if count == 1 { "this message".to_owned() } else { format!("these {count} messages") };
    let question = question.replace("{}", &what);
    if !std::io::stdin().is_terminal() {
        bail!("{question} There is nobody to ask here: say --yes");
    }
    let mut out = std::io::stderr();
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

const NO_SUCH: &str = "there is no such dead letter, or no longer";

fn in_words(number: u64, outcome: &Redriven) -> String {
    let instead = format!(
        "`weir queue redrive {number} --for KIND/NAMESPACE/NAME` has an object looked at instead, `weir queue drop {number}` removes it"
    );
    match outcome {
        Redriven::Sent { subject, .. } => format!("sent to {}", clean(subject)),
        Redriven::Waits { subject } => {
            format!("kept: a newer message is on {} already, and says the same", clean(subject))
        }
        Redriven::Incomplete => {
            format!("kept: it was too large to be kept whole, so there is nothing to send. {instead}")
        }
        Redriven::Foreign => format!("kept: it did not come from the queue, and does not tell its object. {instead}"),
        Redriven::Gone => NO_SUCH.to_owned(),
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
