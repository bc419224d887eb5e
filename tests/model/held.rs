//! A region and an identity that are applied and deleted at any moment, and their functions: nothing is left in the cloud that
//! nobody can remove.
//!
//! What is real: [`Purpose::region`], which decides whether a region may be used. What is modelled: two objects with finalizer,
//! deletion and version, a person who applies and deletes them, and the two functions, which may die between any two steps.

use serde_json::json;
use stateright::{Checker, HasDiscoveries, Model, Property};
use weir_api::crd;
use weir_provider::Purpose;

/// A guard that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// A region is used that its function has not taken hold of.
    UseWhatIsNotHeld,
    /// A region that is being deleted is used for making.
    UseWhatGoes,
    /// The identity looks at its region before it is held itself.
    LookBeforeHolding,
    /// The region's function lists who refers to it before it knows that it is being deleted.
    ListTooEarly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Object {
    held: bool,
    deleting: bool,
    version: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RegionFunction {
    Idle,
    Read(Object),
    /// Has listed, and found nobody.
    Free(Object),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum IdentityFunction {
    Idle,
    Read(Object),
    Holds,
    MayMake,
    MayRemove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    region: Option<Object>,
    identity: Option<Object>,
    /// The identity has something in the cloud.
    made: bool,
    ever_made: bool,
    region_function: RegionFunction,
    identity_function: IdentityFunction,
    versions: u8,
    applied: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    ApplyRegion,
    ApplyIdentity,
    DeleteRegion,
    DeleteIdentity,
    RegionFunctionSteps,
    RegionFunctionDies,
    IdentityFunctionSteps,
    IdentityFunctionDies,
}

struct Protocol {
    mutant: Mutant,
    /// How often anything may be applied.
    applies: u8,
}

impl State {
    fn write(&mut self, object: Object) -> Object {
        self.versions += 1;
        Object { version: self.versions, ..object }
    }

    fn apply(&mut self) -> Object {
        self.applied += 1;
        self.write(Object { held: false, deleting: false, version: 0 })
    }

    /// What the Kubernetes API makes of a deletion.
    fn delete(&mut self, object: Object) -> Option<Object> {
        object.held.then(|| self.write(Object { deleting: true, ..object }))
    }
}

impl Protocol {
    fn may_use(&self, purpose: Purpose, region: Option<Object>) -> bool {
        let region = region.map(|object| {
            let held = object.held || self.mutant == Mutant::UseWhatIsNotHeld;
            let deleting = object.deleting && self.mutant != Mutant::UseWhatGoes;
            let finalizers: &[&str] = if held { &[weir_api::labels::FINALIZER] } else { &[] };
            let deletion = deleting.then_some("2026-01-01T00:00:00Z");
            serde_json::from_value::<crd::Region>(json!({
                "apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "Region", "spec": {"provider": "openstack"},
                "metadata": {"name": "r", "finalizers": finalizers, "deletionTimestamp": deletion},
            }))
            .unwrap()
        });
        purpose.region("r", region).is_ok()
    }

    fn region_function(&self, state: &mut State) {
        use RegionFunction::{Free, Idle, Read};
        state.region_function = match (state.region_function, state.region) {
            (Idle, Some(region)) => Read(region),
            (Read(read), region) => {
                let unchanged = region.is_some_and(|region| region.version == read.version);
                if !read.held && unchanged {
                    state.region = Some(state.write(Object { held: true, ..read }));
                }
                let lists = read.held && (read.deleting || self.mutant == Mutant::ListTooEarly);
                if lists && state.identity.is_none() { Free(read) } else { Idle }
            }
            (Free(read), Some(region)) => {
                let lets_go = match self.mutant {
                    Mutant::ListTooEarly => region.deleting,
                    _ => region.version == read.version,
                };
                if lets_go {
                    state.region = None;
                }
                Idle
            }
            (_, None) => Idle,
        };
    }

    fn identity_function(&self, state: &mut State) {
        use IdentityFunction::{Holds, Idle, MayMake, MayRemove, Read};
        let may = |purpose| self.may_use(purpose, state.region);
        state.identity_function = match state.identity_function {
            Idle => state.identity.map_or(Idle, Read),
            Read(read) if read.deleting && !state.made => {
                state.identity = None;
                Idle
            }
            Read(read) if read.deleting => {
                if may(Purpose::Removing) {
                    MayRemove
                } else {
                    Idle
                }
            }
            Read(read) if read.held => Holds,
            Read(_) if self.mutant == Mutant::LookBeforeHolding => {
                if may(Purpose::Making) {
                    MayMake
                } else {
                    Idle
                }
            }
            Read(read) => {
                if state.identity.is_some_and(|identity| identity.version == read.version) {
                    state.identity = Some(state.write(Object { held: true, ..read }));
                    Holds
                } else {
                    Idle
                }
            }
            Holds => {
                if may(Purpose::Making) {
                    MayMake
                } else {
                    Idle
                }
            }
            MayMake => {
                (state.made, state.ever_made) = (true, true);
                Idle
            }
            MayRemove => {
                (state.made, state.identity) = (false, None);
                Idle
            }
        };
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            region: None,
            identity: None,
            made: false,
            ever_made: false,
            region_function: RegionFunction::Idle,
            identity_function: IdentityFunction::Idle,
            versions: 0,
            applied: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let may_apply = state.applied < self.applies;
        let asked = |object: Option<Object>| object.is_some_and(|object| !object.deleting);
        let all = [
            (may_apply && state.region.is_none(), Action::ApplyRegion),
            (may_apply && state.identity.is_none(), Action::ApplyIdentity),
            (asked(state.region), Action::DeleteRegion),
            (asked(state.identity), Action::DeleteIdentity),
            (true, Action::RegionFunctionSteps),
            (true, Action::RegionFunctionDies),
            (true, Action::IdentityFunctionSteps),
            (true, Action::IdentityFunctionDies),
        ];
        actions.extend(all.into_iter().filter_map(|(may, action)| may.then_some(action)));
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = *before;
        match action {
            Action::ApplyRegion => state.region = Some(state.apply()),
            Action::ApplyIdentity => state.identity = Some(state.apply()),
            Action::DeleteRegion => state.region = state.region.and_then(|region| state.delete(region)),
            Action::DeleteIdentity => state.identity = state.identity.and_then(|identity| state.delete(identity)),
            Action::RegionFunctionSteps => self.region_function(&mut state),
            Action::RegionFunctionDies => state.region_function = RegionFunction::Idle,
            Action::IdentityFunctionSteps => self.identity_function(&mut state),
            Action::IdentityFunctionDies => state.identity_function = IdentityFunction::Idle,
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what is in the cloud can be removed", |_, state: &State| {
                !state.made || (state.region.is_some() && state.identity.is_some())
            }),
            Property::sometimes("something is made, and all of it goes", |_, state: &State| {
                state.ever_made && !state.made && state.region.is_none() && state.identity.is_none()
            }),
        ]
    }
}

/// Proves: OWN-8, IDN-7
#[test]
fn nothing_is_left_in_a_cloud_whose_region_has_gone_whenever_what_is_applied_and_deleted() {
    let checker = Protocol { mutant: Mutant::None, applies: 4 }.checker().spawn_bfs().join();
    checker.assert_properties();
    println!("{} states", checker.unique_state_count());
    assert!(checker.unique_state_count() > 1000, "the model has become trivial");
}

/// Proves: OWN-8
#[test]
fn the_checker_finds_what_each_guard_is_there_for() {
    for mutant in [Mutant::UseWhatIsNotHeld, Mutant::UseWhatGoes, Mutant::LookBeforeHolding, Mutant::ListTooEarly] {
        let checker =
            Protocol { mutant, applies: 4 }.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let found = checker.discovery("what is in the cloud can be removed");
        assert!(found.is_some(), "{mutant:?} is not caught");
    }
}
