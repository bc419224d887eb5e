//! Which process is killed when, and for how long it is down.

use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use weir_harness::stack::FUNCTIONS;
use weir_harness::{Dice, Stack};

/// How often each function is killed.
const EACH_FUNCTION: u64 = 4;
/// How often the queue's server is killed.
const NATS: u64 = 2;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Function(usize),
    Nats,
    KubeSim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Kill,
    Start,
}

/// A plan of kills and starts.
pub struct Storm {
    plan: Vec<(Duration, Victim, Deed)>,
    began: Instant,
    kills: usize,
}

impl Storm {
    /// A plan for `length`: at its end everything runs again.
    pub fn new(dice: &mut Dice, length: Duration) -> Self {
        let millis = u64::try_from(length.as_millis()).expect("a short time");
        let mut plan = vec![];
        let mut strike = |victim, down: std::ops::Range<u64>| {
            let at = dice.below(millis - down.end);
            let up = at + down.start + dice.below(down.end - down.start);
            plan.push((Duration::from_millis(at), victim, Deed::Kill));
            plan.push((Duration::from_millis(up), victim, Deed::Start));
        };
        for _ in 0..EACH_FUNCTION {
            (0..FUNCTIONS.len()).for_each(|index| strike(Victim::Function(index), 0..600));
        }
        (0..NATS).for_each(|_| strike(Victim::Nats, 100..1200));
        strike(Victim::KubeSim, 100..1200);
        plan.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        Self { plan, began: Instant::now(), kills: 0 }
    }

    /// Waits for the next start and carries it out, and all kills before it. Returns what was started; `None` at the end.
    pub async fn next(&mut self, stack: &mut Stack) -> Option<Victim> {
        while let Some((at, victim, deed)) = self.plan.pop() {
            sleep_until(self.began + at).await;
            match deed {
                Deed::Kill => self.kills += usize::from(kill(stack, victim)),
                Deed::Start => {
                    start(stack, victim);
                    return Some(victim);
                }
            }
        }
        None
    }

    /// How many running processes were killed so far.
    pub fn kills(&self) -> usize {
        self.kills
    }
}

/// Whether it ran.
fn kill(stack: &mut Stack, victim: Victim) -> bool {
    let process = match victim {
        Victim::Nats => {
            stack.nats.kill();
            return true;
        }
        Victim::Function(index) => &mut stack.functions[index],
        Victim::KubeSim => &mut stack.kube_sim,
    };
    // Whatever happens around it, no process of ours ends but when it is told to.
    if let Some(status) = process.ended() {
        panic!("{} has ended by itself: {status}\n{}", process.name(), process.last_words());
    }
    let ran = process.runs();
    process.kill();
    ran
}

fn start(stack: &mut Stack, victim: Victim) {
    let started = match victim {
        Victim::Nats => stack.nats.restart(),
        Victim::Function(index) => stack.functions[index].start(),
        Victim::KubeSim => stack.kube_sim.start(),
    };
    started.unwrap_or_else(|error| panic!("{victim:?} does not start: {error}"));
}
