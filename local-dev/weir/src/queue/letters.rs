//! `weir queue redrive` and `weir queue drop`: what becomes of dead letters, after showing which and asking.
//!
//! Invariants
//! - What is done is done to what was shown. The letters are chosen first, and one that comes later is not among them.
//! - No letter is answered for an object that is known not to exist: it would be gone, and nothing would come of it.

use super::Meant;
use crate::screen::{self, clean};
use crate::trace::find::{self, Told};
use crate::{Exit, complain, say};
use anyhow::bail;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::IsTerminal;
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
    /// come from the queue. The name may be what people call it
    #[arg(long = "for", value_name = "KIND/NAMESPACE/NAME", conflicts_with_all = ["kind", "all"], value_parser = find::told)]
    instead: Option<Told>,
}

/// What to remove.
#[derive(Clone, Debug, clap::Args)]
pub struct Drop {
    #[command(flatten)]
    chosen: Chosen,
    /// The numbers are those of what `weir queue timers` says is no timer
    #[arg(long, conflicts_with_all = ["kind", "all"])]
    timer: bool,
}

impl Drop {
    pub fn selector(&self) -> Selector {
        self.chosen.selector()
    }
}

impl Redrive {
    pub fn selector(&self) -> Selector {
        self.chosen.selector()
    }
}

impl Chosen {
    /// The numbers that were told, each once.
    fn told(&self) -> Vec<u64> {
        let mut known = BTreeSet::new();
        self.numbers.iter().copied().filter(|number| known.insert(*number)).collect()
    }

    pub fn selector(&self) -> Selector {
        self.kind.clone().unwrap_or_default()
    }

    /// The numbers of the letters, once whoever is at the terminal has said yes to `question` about them; `None` otherwise.
    async fn confirmed(&self, queue: &Queue, meant: &Meant<'_>, question: &str) -> anyhow::Result<Option<Vec<u64>>> {
        let (numbers, letters) = if self.numbers.is_empty() {
            let listing = meant.list(async |selector| queue.dead(selector, MOST).await).await?;
            (listing.items.iter().map(|letter| letter.sequence).collect(), listing.items)
        } else {
            let (numbers, mut letters) = (self.told(), vec![]);
            if !self.yes {
                for number in &numbers {
                    letters.extend(queue.letter(*number).await?);
                }
            }
            (numbers, letters)
        };
        // Of those that are not there, there is nothing to be asked; what is said in the end is that they are not.
        if !self.yes && !letters.is_empty() {
            show(&letters);
            if !asked(letters.len(), question)? {
                return Ok(None);
            }
        }
        Ok(Some(numbers))
    }
}

/// Sends letters again. The exit code tells programs whether all that were chosen have been sent.
pub async fn redrive(queue: &Queue, meant: &Meant<'_>, args: &Redrive, json: bool) -> anyhow::Result<Exit> {
    let instead = match &args.instead {
        Some(told) => Some(meant.object(told).await?),
        None => None,
    };
    let Some(numbers) = args.chosen.confirmed(queue, meant, "Send {} again?").await? else {
        complain!("weir: nothing was sent");
        return Ok(Exit::Failed);
    };
    let mut report = Report::new(json);
    for number in numbers {
        let outcome = match &instead {
            Some(object) => queue.redrive_for(number, object).await?,
            None => queue.redrive(number).await?,
        };
        report.add(
            matches!(outcome, Redriven::Sent { .. } | Redriven::Already { .. }),
            number,
            &in_words(number, &outcome),
            as_json(number, &outcome),
        );
    }
    Ok(report.end())
}

/// Removes letters. The exit code tells programs whether all that were chosen are gone.
pub async fn drop(queue: &Queue, meant: &Meant<'_>, args: &Drop, json: bool) -> anyhow::Result<Exit> {
    let question = "Remove {} for good?";
    let numbers = if args.timer {
        let numbers = args.chosen.told();
        (args.chosen.yes || asked(numbers.len(), question)?).then_some(numbers)
    } else {
        args.chosen.confirmed(queue, meant, question).await?
    };
    let Some(numbers) = numbers else {
        complain!("weir: nothing was removed");
        return Ok(Exit::Failed);
    };
    let mut report = Report::new(json);
    for number in numbers {
        let (dropped, none) = if args.timer {
            (queue.drop_stuck(number).await?, "there is no such message on a timer's subject, or it is a timer")
        } else {
            (queue.drop_letter(number).await?, NO_SUCH)
        };
        let (outcome, words) = if dropped { ("dropped", "removed") } else { ("gone", none) };
        report.add(dropped, number, words, json!({ "number": number, "outcome": outcome }));
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
    screen::asked(&question)
}

const NO_SUCH: &str = "there is no such dead letter, or no longer";

fn in_words(number: u64, outcome: &Redriven) -> String {
    let instead = format!(
        "`weir queue redrive {number} --for KIND/NAMESPACE/NAME` has an object looked at instead, `weir queue drop {number}` removes it"
    );
    match outcome {
        Redriven::Sent { subject, .. } => format!("sent to {}", clean(subject)),
        Redriven::Already { subject } => format!("was sent already, a moment ago, to {}", clean(subject)),
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
        Redriven::Already { subject } => json!({ "number": number, "outcome": "already", "subject": subject }),
        Redriven::Waits { subject } => json!({ "number": number, "outcome": "waits", "subject": subject }),
        Redriven::Incomplete => json!({ "number": number, "outcome": "incomplete" }),
        Redriven::Foreign => json!({ "number": number, "outcome": "foreign" }),
        Redriven::Gone => json!({ "number": number, "outcome": "gone" }),
    }
}
