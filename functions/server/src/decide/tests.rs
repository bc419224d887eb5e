#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::desired::Pair;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weir_api::Consequence;
use weir_openstack::compute::{ImageRef, ServerStatus};
use weir_openstack::{FlavorId, ImageId, SecurityGroupId};
use weir_provider::server::{Activity, Booted};

fn pair(addresses: &str) -> Pair {
    Pair { addresses: addresses.into(), mac: None }
}

fn desired(public: bool) -> Desired {
    Desired {
        port: "server-a1".into(),
        server: "web".into(),
        network: "network-n1".into(),
        groups: BTreeSet::from(["securitygroup-g1".to_owned()]),
        pairs: BTreeSet::from([pair("10.9.0.0/24")]),
        public,
        image: ImageId::from("i1"),
        volumes: false,
        creation: Ok(Creation {
            flavor: FlavorId::from("f1"),
            metadata: BTreeMap::new(),
            key_name: None,
            user_data: None,
            host: None,
        }),
    }
}

/// A status that says nothing yet.
fn unwritten() -> Life {
    Life::of(&crd::ServerStatus::default(), retry::ATTEMPTS)
}

fn port() -> Port {
    Port {
        id: "p1".into(),
        network: "n1".into(),
        addresses: vec!["10.0.0.5".into()],
        groups: BTreeSet::from([SecurityGroupId::from("g1")]),
        pairs: BTreeSet::from([pair("10.9.0.0/24")]),
        device: None,
    }
}

fn server() -> Server {
    Server::accepted("s1".into(), "i1".into())
}

fn ip(id: &str, attached: bool, foreign: bool) -> FloatingIp {
    FloatingIp { id: id.into(), address: "203.0.113.9".into(), attached, foreign }
}

/// A cloud in which the network is ready.
fn observed() -> Observed {
    Observed {
        network: Some("n1".into()),
        groups: BTreeSet::from([SecurityGroupId::from("g1")]),
        ..Observed::default()
    }
}

fn halt(step: Step<'_>) -> Halt {
    match step {
        Step::Halt(halt) => halt,
        other => panic!("{other:?}"),
    }
}

/// Proves: SRV-1, SRV-12
#[test]
fn port_floating_ip_and_server_are_made_in_this_order_and_each_once() {
    let desired = desired(true);
    let mut observed = observed();
    assert_eq!(converge(&desired, &observed, &unwritten()), Step::CreatePort(&"n1".into()));
    observed.port = Some(port());
    assert_eq!(converge(&desired, &observed, &unwritten()), Step::CreateFloatingIp(&"p1".into()));
    observed.floating_ips = vec![ip("f1", true, false)];
    assert_eq!(
        converge(&desired, &observed, &unwritten()),
        Step::CreateServer(&"p1".into(), desired.creation.as_ref().unwrap())
    );
    observed.server = Some(server());
    assert_eq!(converge(&desired, &observed, &unwritten()), Step::Done);
    observed.port.as_mut().unwrap().device = Some("s1".into());
    assert_eq!(converge(&desired, &observed, &unwritten()), Step::Done);
}

/// Proves: SRV-5
#[test]
fn a_port_is_updated_only_when_groups_or_pairs_differ() {
    let desired = desired(false);
    let mut observed = Observed { port: Some(port()), server: Some(server()), ..observed() };
    assert_eq!(converge(&desired, &observed, &unwritten()), Step::Done);
    observed.port.as_mut().unwrap().groups.insert("g2".into());
    assert_eq!(converge(&desired, &observed, &unwritten()), Step::UpdatePort(&"p1".into()));
    observed.port = Some(Port { pairs: BTreeSet::new(), ..port() });
    assert_eq!(converge(&desired, &observed, &unwritten()), Step::UpdatePort(&"p1".into()));
}

/// Proves: SRV-6
#[test]
fn a_floating_ip_is_kept_made_or_deleted_as_is_asked_for() {
    type Case = (bool, Vec<FloatingIp>, fn(&PortId) -> Step<'_>);
    fn done(_: &PortId) -> Step<'_> {
        Step::Done
    }
    let first = weir_openstack::FloatingIpId::from("f1");
    let cases: Vec<Case> = vec![
        (true, vec![], |port| Step::CreateFloatingIp(port)),
        (true, vec![ip("f1", true, false)], done),
        (true, vec![ip("f1", true, false), ip("f2", true, false)], |_| Step::Halt(Halt::SeveralFloatingIps)),
        (true, vec![ip("f1", false, false), ip("f2", false, false)], |_| Step::Halt(Halt::SeveralFloatingIps)),
        (true, vec![ip("f1", true, false), ip("f2", false, false)], done),
        (true, vec![ip("f1", true, true)], |_| Step::Halt(Halt::ForeignFloatingIp)),
        (true, vec![ip("f1", true, true), ip("f2", false, false)], |_| Step::Halt(Halt::ForeignFloatingIp)),
        (true, vec![ip("f1", true, true), ip("f2", true, false)], |_| Step::Halt(Halt::ForeignFloatingIp)),
        (false, vec![], done),
        (false, vec![ip("f1", true, true)], |_| Step::Halt(Halt::ForeignFloatingIp)),
    ];
    for (public, floating_ips, expected) in cases {
        let desired = desired(public);
        let observed = Observed { port: Some(port()), server: Some(server()), floating_ips, ..observed() };
        let port = PortId::from("p1");
        assert_eq!(
            converge(&desired, &observed, &unwritten()),
            expected(&port),
            "{public} {:?}",
            observed.floating_ips
        );
    }
    let step = |public: bool, ip: FloatingIp| {
        let observed = Observed { port: Some(port()), server: Some(server()), floating_ips: vec![ip], ..observed() };
        match converge(&desired(public), &observed, &unwritten()) {
            Step::DeleteFloatingIp(id) => Some(("delete", id.clone())),
            Step::AttachFloatingIp(id, _) => Some(("attach", id.clone())),
            _ => None,
        }
    };
    assert_eq!(step(false, ip("f1", true, false)), Some(("delete", first.clone())));
    assert_eq!(step(true, ip("f1", false, false)), Some(("attach", first)));
}

/// Proves: SRV-6
#[test]
fn a_foreign_floating_ip_does_not_keep_the_server_from_being_made() {
    let desired = desired(true);
    let observed = Observed { port: Some(port()), floating_ips: vec![ip("f1", true, true)], ..observed() };
    assert!(matches!(converge(&desired, &observed, &unwritten()), Step::CreateServer(..)));
}

/// Proves: SRV-2
#[test]
fn what_stands_in_the_way_is_told_and_nothing_is_made() {
    let whole = || Observed { port: Some(port()), server: Some(server()), ..observed() };
    let with = |change: fn(&mut Observed)| {
        let mut observed = whole();
        change(&mut observed);
        let desired = desired(false);
        halt(converge(&desired, &observed, &unwritten()))
    };
    let cases: Vec<(Halt, Halt)> = vec![
        (with(|o| o.server.as_mut().unwrap().claim = Claim::Another), Halt::NameTaken),
        (with(|o| o.server.as_mut().unwrap().deleting = true), Halt::BeingDeleted),
        (with(|o| o.network = None), Halt::NoNetwork),
        (with(|o| o.missing_groups.push("securitygroup-g2".into())), Halt::NoSecurityGroups),
        (with(|o| o.port = None), Halt::PortLost),
        (with(|o| o.port.as_mut().unwrap().network = "n2".into()), Halt::NetworkChanged),
        (with(|o| o.port.as_mut().unwrap().device = Some("s2".into())), Halt::PortInUse),
        (
            with(|o| {
                o.server = None;
                o.port.as_mut().unwrap().device = Some("s2".into());
            }),
            Halt::PortInUse,
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

/// Proves: RBD-10, RBD-11, RTY-5
#[test]
fn what_status_says_of_a_server_that_is_gone_is_dealt_with_before_another_is_made() {
    let observed = Observed { port: Some(port()), ..observed() };
    let marker = crd::Rebuild { target_image_id: "i1".into(), state: crd::RebuildState::Failed };
    let life = Life { marker: Some(marker), ..unwritten() };
    assert_eq!(converge(&desired(false), &observed, &life), Step::Image(rebuild::Step::Mark(None)));
    let record = retry::Record { failures: 3, ..unwritten().record };
    let life = Life { record, ..life };
    assert_eq!(converge(&desired(false), &observed, &life), Step::Retry(retry::Step::GiveUp(3)));
}

/// Proves: RBD-1, RTY-1
#[test]
fn a_failed_start_comes_before_a_changed_image() {
    let mut observed = Observed { port: Some(port()), server: Some(server()), ..observed() };
    let view = &mut observed.server.as_mut().unwrap().view;
    view.status = ServerStatus::Error;
    view.image = ImageRef::Image("i2".into());
    assert_eq!(converge(&desired(false), &observed, &unwritten()), Step::Retry(retry::Step::Await));
    observed.server.as_mut().unwrap().view.booted = Booted::Yes;
    observed.server.as_mut().unwrap().view.activity = Activity::Quiet;
    let armed = crd::Rebuild { target_image_id: "i1".into(), state: crd::RebuildState::Initiated };
    let step = Step::Image(rebuild::Step::Mark(Some(armed)));
    assert_eq!(converge(&desired(false), &observed, &unwritten()), step);
}

#[test]
fn a_server_that_cannot_be_made_leaves_no_port_and_one_that_exists_needs_not_be() {
    let refused = Desired { creation: Err(Problem::user_action("no")), ..desired(true) };
    assert_eq!(halt(converge(&refused, &observed(), &unwritten())), Halt::Refused(Problem::user_action("no")));
    let observed = Observed { port: Some(port()), server: Some(server()), ..observed() };
    let refused = Desired { public: false, ..refused };
    assert_eq!(converge(&refused, &observed, &unwritten()), Step::Done);
}

#[test]
fn volumes_are_refused_only_once_the_server_is_there() {
    let desired = Desired { volumes: true, ..desired(false) };
    assert_eq!(converge(&desired, &observed(), &unwritten()), Step::CreatePort(&"n1".into()));
    let observed = Observed { port: Some(port()), server: Some(server()), ..observed() };
    assert_eq!(halt(converge(&desired, &observed, &unwritten())), Halt::Volumes);
}

/// Proves: SRV-10
#[test]
fn the_server_goes_first_and_the_rest_once_it_is_gone() {
    let mut observed = Observed {
        port: Some(Port { device: Some("s1".into()), ..port() }),
        server: Some(server()),
        floating_ips: vec![ip("f1", true, false), ip("f2", false, false), ip("f3", true, true)],
        ..Observed::default()
    };
    assert_eq!(remove(&observed, None), Step::DeleteServer(&"s1".into()));
    assert_eq!(halt(remove(&observed, Some(&"s1".into()))), Halt::NotGone);
    observed.server.as_mut().unwrap().deleting = true;
    assert_eq!(halt(remove(&observed, None)), Halt::NotGone);
    assert_eq!(halt(remove(&observed, Some(&"s1".into()))), Halt::Going);
    // It may be in ERROR because its deletion fails each time.
    observed.server.as_mut().unwrap().view.status = ServerStatus::Error;
    assert_eq!(halt(remove(&observed, Some(&"s1".into()))), Halt::NotGone);
    // Deleted by this call, and another one of ours shows.
    observed.server.as_mut().unwrap().deleting = false;
    assert_eq!(remove(&observed, Some(&"s0".into())), Step::DeleteServer(&"s1".into()));
    observed.server = None;
    assert_eq!(remove(&observed, Some(&"s1".into())), Step::DeleteFloatingIp(&"f1".into()));
    observed.floating_ips.remove(0);
    assert_eq!(remove(&observed, None), Step::DeleteFloatingIp(&"f2".into()));
    observed.floating_ips.remove(0);
    assert_eq!(remove(&observed, None), Step::DeletePort(&"p1".into()), "a foreign floating IP is left");
    observed.port = None;
    assert_eq!(remove(&observed, None), Step::Done);
}

/// Proves: Q-8
#[test]
fn a_deletion_just_begun_is_looked_at_after_a_second_and_one_under_way_after_ten() {
    let delay = |halt: Halt| halt.problem().consequence;
    assert_eq!(delay(Halt::Going), Consequence::Yield(std::time::Duration::from_secs(1)));
    assert_eq!(delay(Halt::NotGone), Consequence::Yield(std::time::Duration::from_secs(10)));
}

/// Proves: SRV-10
#[test]
fn a_server_in_any_state_is_deleted_but_never_another_objects() {
    for status in [ServerStatus::Error, ServerStatus::Build, ServerStatus::Active] {
        let mut server = server();
        server.view.status = status;
        let observed = Observed { server: Some(server), ..Observed::default() };
        assert_eq!(remove(&observed, None), Step::DeleteServer(&"s1".into()));
    }
    let another = Server { claim: Claim::Another, ..server() };
    let observed = Observed { server: Some(another), port: Some(port()), ..Observed::default() };
    assert_eq!(remove(&observed, None), Step::DeletePort(&"p1".into()));
}

/// Proves: OWN-7
#[test]
fn only_what_the_owner_can_mend_alone_is_parked() {
    let parked = [Halt::NetworkChanged, Halt::Volumes];
    let all = [
        Halt::NameTaken,
        Halt::BeingDeleted,
        Halt::NoNetwork,
        Halt::NoSecurityGroups,
        Halt::PortLost,
        Halt::NetworkChanged,
        Halt::PortInUse,
        Halt::SeveralFloatingIps,
        Halt::ForeignFloatingIp,
        Halt::Volumes,
        Halt::Going,
        Halt::NotGone,
    ];
    for halt in all {
        let is_parked = halt.clone().problem().consequence == Consequence::UserAction;
        assert_eq!(is_parked, parked.contains(&halt), "{halt:?}");
    }
}

fn any_ip() -> impl Strategy<Value = FloatingIp> {
    (0..4u8, any::<bool>(), any::<bool>())
        .prop_map(|(id, attached, foreign)| ip(&format!("f{id}"), attached, attached && foreign))
}

fn any_server() -> impl Strategy<Value = Server> {
    (0..2u8, any::<[bool; 2]>(), 0..3u8).prop_map(|(id, [failed, deleting], claim)| {
        let mut server = Server {
            id: format!("s{id}").as_str().into(),
            claim: [Claim::Ours, Claim::Unclaimed, Claim::Another][usize::from(claim)],
            deleting,
            ..server()
        };
        if failed {
            server.view.status = ServerStatus::Error;
        }
        server
    })
}

fn any_port() -> impl Strategy<Value = Port> {
    (proptest::option::of(0..2u8), any::<[bool; 2]>()).prop_map(|(device, [groups, pairs])| {
        let (device, mut port) = (device.map(|id| format!("s{id}").as_str().into()), port());
        if groups {
            port.groups.clear();
        }
        if pairs {
            port.pairs.clear();
        }
        Port { device, ..port }
    })
}

prop_compose! {
    fn any_observed()(
        port in proptest::option::of(any_port()),
        server in proptest::option::of(any_server()),
        mut floating_ips in proptest::collection::vec(any_ip(), 0..4),
    ) -> Observed {
        floating_ips.sort_by(|a, b| a.id.cmp(&b.id));
        floating_ips.dedup_by(|a, b| a.id == b.id);
        if port.is_none() {
            floating_ips.retain(|ip| !ip.attached);
        }
        Observed { port, floating_ips, server, ..observed() }
    }
}

/// What the cloud does with a step. Nothing but what the step says.
fn carry_out(step: &Step<'_>, cloud: &Observed) -> Observed {
    let mut next = cloud.clone();
    match step {
        Step::CreatePort(_) | Step::UpdatePort(_) => {
            next.port = Some(Port { device: cloud.port.as_ref().and_then(|p| p.device.clone()), ..port() });
        }
        Step::CreateFloatingIp(_) => next.floating_ips.push(ip("new", true, false)),
        Step::AttachFloatingIp(id, _) => {
            next.floating_ips.iter_mut().filter(|ip| ip.id == **id).for_each(|ip| ip.attached = true);
        }
        Step::DeleteFloatingIp(id) => next.floating_ips.retain(|ip| ip.id != **id),
        Step::CreateServer(..) => next.server = Some(server()),
        Step::DeleteServer(_) => next.server = None,
        Step::DeletePort(_) => {
            next.port = None;
            next.floating_ips.iter_mut().for_each(|ip| ip.attached = false);
        }
        Step::Retry(_) | Step::Image(_) | Step::Halt(_) | Step::Done => {}
    }
    next
}

proptest! {
    /// Whatever there is, and wherever a call breaks off: the steps end, nothing is made that is there, and nothing of
    /// anybody else's is touched.
    ///
    /// Proves: SRV-11, SRV-12
    #[test]
    fn converging_ends_and_makes_nothing_twice(start in any_observed(), public in any::<bool>()) {
        let desired = desired(public);
        let mut cloud = start.clone();
        let mut steps = 0;
        loop {
            let step = converge(&desired, &cloud, &unwritten());
            let attached = cloud.floating_ips.iter().filter(|ip| ip.attached).count();
            match &step {
                Step::Retry(_) | Step::Image(_) | Step::Halt(_) | Step::Done => break,
                Step::CreatePort(_) => prop_assert!(cloud.port.is_none()),
                Step::CreateServer(..) => {
                    prop_assert!(cloud.server.is_none() && cloud.port.as_ref().unwrap().device.is_none());
                }
                Step::CreateFloatingIp(_) => prop_assert!(public && cloud.floating_ips.is_empty()),
                Step::AttachFloatingIp(..) => prop_assert!(public && attached == 0),
                Step::DeleteFloatingIp(id) => {
                    prop_assert!(!public && cloud.floating_ips.iter().any(|ip| ip.id == **id && !ip.foreign));
                }
                Step::UpdatePort(_) => {}
                Step::DeleteServer(_) | Step::DeletePort(_) => prop_assert!(false, "{step:?}"),
            }
            cloud = carry_out(&step, &cloud);
            steps += 1;
            prop_assert!(steps < crate::MOST_STEPS);
        }
        let foreign = |o: &Observed| o.floating_ips.iter().filter(|ip| ip.foreign).cloned().collect::<Vec<_>>();
        prop_assert_eq!(foreign(&cloud), foreign(&start));
    }

    /// Proves: SRV-10
    #[test]
    fn removing_ends_with_nothing_but_what_is_somebody_elses(start in any_observed()) {
        let mut cloud = start;
        let mut steps = 0;
        loop {
            let step = remove(&cloud, None);
            match &step {
                Step::Done => break,
                Step::Halt(halt) => {
                    prop_assert_eq!(halt, &Halt::NotGone);
                    cloud.server = None;
                    continue;
                }
                Step::DeleteServer(_) => prop_assert!(cloud.server.as_ref().unwrap().claim != Claim::Another),
                _ => prop_assert!(cloud.server.as_ref().is_none_or(|server| server.claim == Claim::Another)),
            }
            cloud = carry_out(&step, &cloud);
            steps += 1;
            prop_assert!(steps < crate::MOST_STEPS);
        }
        prop_assert!(cloud.port.is_none() && cloud.floating_ips.iter().all(|ip| ip.foreign));
        prop_assert!(cloud.server.is_none_or(|server| server.claim == Claim::Another));
    }
}
