//! The rebuild protocol (RBD-22).
//!
//! Who acts: a *user* changes the image twice, to any of three, and may delete the server; *Nova* accepts, refuses while it is
//! busy, finishes, fails on the host, finds no host (and puts the image back); *somebody else* rebuilds the server, does other
//! work to it, deletes it, or it breaks by itself; the *monitor* reads the object, then the cloud, then writes, with any time in
//! between; the *function* reads the object, then the cloud, acts, then writes, and dies between any two of these.
//!
//! The queue is one flag, *there is work*: messages for one object coalesce, may be repeated at any time, and come back when
//! a worker dies. A timer is work that comes later, and there is no time here. A call that ends by waiting for an event
//! (`Accepted`, `Done`, `Park`) leaves the flag down, and nothing but a person's change, or the level of the object in a
//! write, puts it up again: the safety net and the resync of the real thing are left out, so that the protocol has to live
//! without them.
//!
//! Mishaps (a death, a lost write, a write or a request whose answer is lost, a failed rebuild, somebody else's work, an image
//! that cannot be read …) are bounded in number together; within that bound everything is explored, with no bound on depth.
//!
//! Not modelled: a request that reaches Nova after its sender has died and another call has begun. Nova has no token to
//! refuse it by.

mod protocol;
mod steps;
mod world;

use protocol::{Mutant, Protocol};
use stateright::{Checker, HasDiscoveries, Model};
use std::time::Instant;

fn explore(changes: u8, mishaps: u8) {
    let began = Instant::now();
    let protocol = Protocol { mutant: Mutant::None, changes, mishaps };
    let checker = protocol.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "{changes} changes of image, {mishaps} mishaps: {} states, {} of them unique, depth {}, {:?}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed(),
    );
    checker.assert_properties();
}

/// Proves: RBD-5, RBD-19, RBD-22
#[test]
fn two_changes_of_image_settle_or_park_whatever_goes_wrong_once() {
    explore(2, 1);
}

/// Proves: RBD-5, RBD-19, RBD-22
#[test]
fn one_change_of_image_settles_or_parks_whatever_goes_wrong_twice() {
    explore(1, 2);
}

/// Looks for a counterexample against a protocol with a guard taken out, and returns the properties that it breaks.
fn broken(mutant: Mutant, changes: u8, mishaps: u8) -> Vec<&'static str> {
    let protocol = Protocol { mutant, changes, mishaps };
    let checker = protocol.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    let mut broken: Vec<&'static str> = Vec::new();
    for (name, path) in found {
        if checker.model().property(name).expectation.discovery_is_failure() {
            println!("{mutant:?}: not \"{name}\", after {:?}", path.into_actions());
            broken.push(name);
        }
    }
    broken
}

const ONCE: &str = "at most one accepted rebuild for a standing target";
const INTENT: &str = "nothing is destroyed without a stored intent";
const BOOT: &str = "no rebuild before the first boot";
const NEEDLESS: &str = "no rebuild of a server that has the image";
const PREMATURE: &str = "no success while Nova is at work";
const UNFOUNDED: &str = "no failure of what was never accepted";
const SETTLES: &str = "every change settles or parks";

/// Proves: RBD-22
#[test]
fn each_guard_of_the_protocol_is_needed() {
    let mut useless = Vec::new();
    for (mutant, changes, mishaps, expected) in [
        (Mutant::SubmitWhileArming, 1, 0, &[INTENT][..]),
        (Mutant::NeverMindBoot, 1, 1, &[BOOT]),
        (Mutant::NeverMindImage, 1, 1, &[NEEDLESS, ONCE]),
        (Mutant::NeverMindTask, 1, 0, &[PREMATURE]),
        (Mutant::AdvanceUnattributed, 1, 0, &[UNFOUNDED]),
        (Mutant::CloudBeforeObject, 2, 0, &[UNFOUNDED, SETTLES, PREMATURE]),
        (Mutant::ForgetAcceptance, 1, 1, &[ONCE]),
        (Mutant::ConflictIsAcceptance, 1, 1, &[UNFOUNDED]),
        (Mutant::ForceWrites, 2, 0, &[UNFOUNDED, SETTLES, ONCE, INTENT, NEEDLESS, PREMATURE]),
        (Mutant::NoWayOut, 2, 1, &[SETTLES]),
        (Mutant::SuccessStands, 1, 1, &[SETTLES]),
        (Mutant::EndWaitsForMonitor, 1, 1, &[SETTLES]),
        (Mutant::Deaf, 1, 0, &[SETTLES]),
        (Mutant::OutliveServer, 1, 2, &[SETTLES]),
        (Mutant::NoSecondRead, 1, 2, &[ONCE]),
    ] {
        let broken = broken(mutant, changes, mishaps);
        if broken.is_empty() || !broken.iter().any(|name| expected.contains(name)) {
            useless.push((mutant, broken));
        }
    }
    assert!(useless.is_empty(), "no counterexample, or another one than the guard is there for: {useless:?}");
}
