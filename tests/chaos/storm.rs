//! What befalls which process, or its way to the queue, and when.

use nix::sys::signal::Signal;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use weir_harness::proxy::{Proxy, Weather};
use weir_harness::stack::FUNCTIONS;
use weir_harness::{Dice, Stack};

/// How many processes of each function work side by side.
const COPIES: usize = 2;
/// How often each process of a function is killed, and each process in the middle.
const KILLS: u64 = 2;
/// How long a pause or a silence may be, in milliseconds: from a hiccup to longer than any lease lives.
const SILENCE: Range<u64> = 200..5000;
/// How long a process may be down.
const DOWN: Range<u64> = 0..1200;

/// A stack whose functions have several processes each, every one with a way of its own to the queue.
pub struct Field {
    pub stack: Stack,
    /// The way of each of the stack's processes, in their order.
    ways: Vec<Proxy>,
}

impl Field {
    /// Starts everything.
    pub async fn start(environment: &[(&str, &str)]) -> Self {
        let mut stack = Stack::start_with(environment).await;
        for _ in 1..COPIES {
            for name in FUNCTIONS {
                stack.add(name, environment);
            }
        }
        let (mut ways, nats) = (vec![], SocketAddr::from(([127, 0, 0, 1], stack.nats.port())));
        for mut process in std::mem::take(&mut stack.functions) {
            process.kill();
            let way = Proxy::start(nats).await.expect("a proxy starts");
            let mut process = process.env("WEIR_NATS_URL", format!("nats://{}", way.address()));
            process.start().expect("a function starts");
            stack.functions.push(process);
            ways.push(way);
        }
        stack.ready().await;
        Self { stack, ways }
    }
}

/// What something befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// A process of a function, or its way to the queue.
    Function(usize),
    Nats,
    KubeSim,
}

/// What befalls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Kill,
    Start,
    /// Stopped where it is, with all its connections open, as a machine is that is suspended.
    Pause,
    Resume,
    /// Every connection on the way ends.
    Cut,
    Weather(Weather),
}

/// A plan of what happens when.
pub struct Storm {
    plan: Vec<(Duration, Victim, Deed)>,
    began: Instant,
    pub kills: usize,
    pub pauses: usize,
    pub silences: usize,
}

struct Plan<'a> {
    dice: &'a mut Dice,
    millis: u64,
    deeds: Vec<(Duration, Victim, Deed)>,
}

impl Plan<'_> {
    /// One thing, and a while later the other, both before the end.
    fn strike(&mut self, victim: Victim, deed: Deed, after: Deed, lasts: &Range<u64>) {
        let at = self.dice.below(self.millis - lasts.end);
        let until = at + lasts.start + self.dice.below(lasts.end - lasts.start);
        self.deeds.push((Duration::from_millis(at), victim, deed));
        self.deeds.push((Duration::from_millis(until), victim, after));
    }
}

impl Storm {
    /// A plan for `length`, for so many processes of functions.
    pub fn new(dice: &mut Dice, length: Duration, processes: usize) -> Self {
        let millis = u64::try_from(length.as_millis()).expect("a short time");
        let mut plan = Plan { dice, millis, deeds: vec![] };
        for victim in (0..processes).map(Victim::Function) {
            for _ in 0..KILLS {
                plan.strike(victim, Deed::Kill, Deed::Start, &DOWN);
            }
            plan.strike(victim, Deed::Pause, Deed::Resume, &SILENCE);
            let weather = match plan.dice.below(4) {
                0 => Deed::Cut,
                1 => Deed::Weather(Weather::Slow(Duration::from_millis(20 + plan.dice.below(200)))),
                2 => Deed::Weather(Weather::Refusing),
                _ => Deed::Weather(Weather::BlackHole),
            };
            plan.strike(victim, weather, Deed::Weather(Weather::Fair), &SILENCE);
        }
        for _ in 0..KILLS {
            plan.strike(Victim::Nats, Deed::Kill, Deed::Start, &DOWN);
        }
        plan.strike(Victim::Nats, Deed::Pause, Deed::Resume, &SILENCE);
        plan.strike(Victim::KubeSim, Deed::Kill, Deed::Start, &DOWN);
        plan.strike(Victim::KubeSim, Deed::Pause, Deed::Resume, &SILENCE);
        let mut deeds = plan.deeds;
        deeds.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        Self { plan: deeds, began: Instant::now(), kills: 0, pauses: 0, silences: 0 }
    }

    /// Waits for the next deed and does it. `None` when the storm is over; then everything runs, and the sky is fair.
    pub async fn next(&mut self, field: &mut Field) -> Option<(Victim, Deed)> {
        let Some((at, victim, deed)) = self.plan.pop() else {
            clear(field);
            return None;
        };
        sleep_until(self.began + at).await;
        match deed {
            Deed::Kill => self.kills += usize::from(kill(&mut field.stack, victim)),
            Deed::Start => start(&mut field.stack, victim),
            // Whoever was killed meanwhile cannot be paused, and one that was killed while paused need not be resumed.
            Deed::Pause => self.pauses += usize::from(signal(&field.stack, victim, Signal::SIGSTOP)),
            Deed::Resume => drop(signal(&field.stack, victim, Signal::SIGCONT)),
            Deed::Cut => way(field, victim, Proxy::cut),
            Deed::Weather(weather) => {
                self.silences += usize::from(weather != Weather::Fair);
                way(field, victim, |way| way.set(weather));
            }
        }
        Some((victim, deed))
    }
}

/// The end of a storm, whatever of its plan overlapped.
fn clear(field: &mut Field) {
    let functions = (0..field.stack.functions.len()).map(Victim::Function);
    for victim in functions.chain([Victim::Nats, Victim::KubeSim]) {
        signal(&field.stack, victim, Signal::SIGCONT);
        start(&mut field.stack, victim);
    }
    for way in &field.ways {
        way.set(Weather::Fair);
    }
}

fn way(field: &Field, victim: Victim, deed: impl Fn(&Proxy)) {
    if let Victim::Function(index) = victim {
        deed(&field.ways[index]);
    }
}

/// Whether it ran.
fn signal(stack: &Stack, victim: Victim, signal: Signal) -> bool {
    let sent = match victim {
        Victim::Nats if signal == Signal::SIGSTOP => stack.nats.pause(),
        Victim::Nats => stack.nats.resume(),
        Victim::Function(index) => stack.functions[index].signal(signal),
        Victim::KubeSim => stack.kube_sim.signal(signal),
    };
    sent.is_ok()
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

/// Starts what does not run.
fn start(stack: &mut Stack, victim: Victim) {
    let started = match victim {
        Victim::Nats if stack.nats.runs() => Ok(()),
        Victim::Nats => stack.nats.restart(),
        Victim::Function(index) => stack.functions[index].start(),
        Victim::KubeSim => stack.kube_sim.start(),
    };
    started.unwrap_or_else(|error| panic!("{victim:?} does not start: {error}"));
}
