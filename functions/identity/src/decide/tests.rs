#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;
use crate::secrets;
use serde_json::json;
use weir_api::crd::Base64;
use weir_api::names;

fn desired() -> Desired {
    Desired {
        roles: vec!["member".into(), "load-balancer_member".into()],
        group_policy: "soft-anti-affinity".into(),
        tags: vec![],
        endpoint: "http://keystone/v3".into(),
    }
}

/// A cloud, a record, and a call that may die between the two.
struct Stage {
    record: OpenstackIdentitySpec,
    observed: Observed,
    made: usize,
}

impl Stage {
    fn empty() -> Self {
        let roles = ["manager", "member", "load-balancer_member"];
        let observed = Observed {
            roles: Some(roles.iter().map(|name| ((*name).to_owned(), RoleId::from(*name))).collect()),
            project: Some(None),
            managed: Some(false),
            limited: Some(vec![Service::Compute, Service::Network]),
            user: Some(None),
            granted: Some([].into()),
            refused: false,
            credential: Some(None),
            group: Some(None),
            key: Some(None),
        };
        Self { record: OpenstackIdentitySpec::default(), observed, made: 0 }
    }

    fn next(&self) -> Step {
        let clouds = self.record.application_credential_id.as_deref().map(|id| format!("clouds of {id}"));
        let public =
            self.record.ssh_private_key.as_ref().map(|key| secrets::public_key(key.expose().as_bytes()).unwrap());
        decide(&desired(), &self.record, clouds.as_deref(), public.as_deref(), &self.observed).unwrap()
    }

    fn id(&mut self) -> String {
        self.made += 1;
        format!("made-{}", self.made)
    }

    /// What the step does, in the cloud and, unless the call dies in between, in the record.
    fn take(&mut self, step: &Step, dies: bool) {
        let id = self.id();
        let (seen, record) = (&mut self.observed, &mut self.record);
        match step {
            Step::CreateProject => {
                seen.project = Some(Some(serde_json::from_value(json!({"id": id})).unwrap()));
                if !dies {
                    record.project_id = Some(id);
                }
            }
            Step::RecordProject => {
                record.project_id = seen.project.as_ref().unwrap().as_ref().map(|p| p.id.to_string());
            }
            Step::Manage(_) => seen.managed = Some(true),
            Step::LiftQuotas(service) => seen.limited.as_mut().unwrap().retain(|other| other != service),
            Step::CreateUser => {
                seen.user = Some(Some(serde_json::from_value(json!({"id": id})).unwrap()));
                if !dies {
                    (record.user_id, record.password) = (Some(id), Some("secret".to_owned().into()));
                }
            }
            Step::SetPassword => {
                seen.refused = false;
                record.user_id = seen.user.as_ref().unwrap().as_ref().map(|u| u.id.to_string());
                record.password = Some("another".to_owned().into());
            }
            Step::Grant(name, _) => drop(seen.granted.as_mut().unwrap().insert(name.clone())),
            Step::DeleteCredential(_) => seen.credential = Some(None),
            Step::CreateCredential => {
                seen.credential = Some(Some(serde_json::from_value(json!({"id": id})).unwrap()));
                if !dies {
                    record.application_credential_id = Some(id);
                    record.application_credential_secret = Some("secret".to_owned().into());
                }
            }
            Step::WriteClouds => {
                let text = format!("clouds of {}", record.application_credential_id.as_deref().unwrap());
                (record.cloud, record.cloud_config) =
                    (Some("cloud".into()), Some(Base64::from(text.into_bytes()).into()));
            }
            Step::CreateGroup => {
                seen.group = Some(Some(serde_json::from_value(json!({"id": id, "name": "g"})).unwrap()));
                if !dies {
                    record.server_group_id = Some(id);
                }
            }
            Step::RecordGroup => {
                record.server_group_id = seen.group.as_ref().unwrap().as_ref().map(|g| g.id.to_string());
            }
            Step::MakeKey => {
                record.ssh_key_name = Some(names::KEY_PAIR.into());
                let pem = secrets::private_key().unwrap();
                record.ssh_private_key.get_or_insert_with(|| Base64::from(pem.into_bytes()).into());
            }
            Step::DeleteKey => seen.key = Some(None),
            Step::UploadKey => {
                let public = secrets::public_key(record.ssh_private_key.as_ref().unwrap().expose().as_bytes()).unwrap();
                seen.key = Some(Some(serde_json::from_value(json!({"name": "k", "public_key": public})).unwrap()));
            }
            Step::Done => {}
        }
    }

    fn run(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        loop {
            let step = self.next();
            if step == Step::Done {
                return steps;
            }
            self.take(&step, false);
            steps.push(step);
            assert!(steps.len() < 60, "never done: {steps:?}");
        }
    }
}

/// Proves: IDN-1
#[test]
fn an_identity_is_made_in_order_and_each_step_is_written_down_before_the_next() {
    let steps = Stage::empty().run();
    let expected = [
        Step::CreateProject,
        Step::Manage("manager".into()),
        Step::LiftQuotas(Service::Compute),
        Step::LiftQuotas(Service::Network),
        Step::CreateUser,
        Step::Grant("member".into(), "member".into()),
        Step::Grant("load-balancer_member".into(), "load-balancer_member".into()),
        Step::CreateCredential,
        Step::WriteClouds,
        Step::CreateGroup,
        Step::MakeKey,
        Step::UploadKey,
    ];
    assert_eq!(steps, expected);
}

/// Proves: IDN-3
#[test]
fn a_call_that_dies_between_cloud_and_record_is_picked_up_with_nothing_made_twice() {
    let total = Stage::empty().run().len();
    for fatal in 0..total {
        let mut stage = Stage::empty();
        for n in 0..=fatal {
            let step = stage.next();
            stage.take(&step, n == fatal);
        }
        let again = stage.run();
        let twice = [Step::CreateProject, Step::CreateUser, Step::CreateGroup];
        for step in twice.iter().filter(|step| stage.made > 0 && again.contains(step)) {
            let place = Stage::empty().run().iter().position(|s| s == step).unwrap();
            assert!(place > fatal, "{step:?} was taken again after dying at step {fatal}");
        }
        assert_eq!(stage.next(), Step::Done);
        assert_eq!(stage.record.project_id.as_deref(), stage.observed.project.unwrap().as_ref().map(|p| p.id.as_str()));
        assert_eq!(stage.record.user_id.as_deref(), stage.observed.user.unwrap().as_ref().map(|u| u.id.as_str()));
    }
}

/// Proves: IDN-3
#[test]
fn lost_secrets_are_replaced_and_known_ones_are_kept() {
    let settled = || {
        let mut stage = Stage::empty();
        stage.run();
        stage
    };
    let mut stage = settled();
    stage.record.password = None;
    assert_eq!(stage.run(), [Step::SetPassword]);
    let mut stage = settled();
    stage.observed.refused = true;
    assert_eq!(stage.next(), Step::SetPassword);
    let mut stage = settled();
    stage.record.application_credential_secret = None;
    let steps = stage.run();
    assert!(matches!(steps[..], [Step::DeleteCredential(_), Step::CreateCredential, Step::WriteClouds]), "{steps:?}");
    let mut stage = settled();
    let key = stage.record.ssh_private_key.clone();
    stage.observed.key = Some(None);
    assert_eq!(stage.run(), [Step::UploadKey], "the recorded key is uploaded again, not replaced");
    assert_eq!(stage.record.ssh_private_key, key);
    let mut stage = settled();
    stage.observed.key =
        Some(Some(serde_json::from_value(json!({"name": "k", "public_key": "ssh-ed25519 AAAA"})).unwrap()));
    assert_eq!(stage.run(), [Step::DeleteKey, Step::UploadKey]);
}

/// Proves: IDN-4
#[test]
fn a_role_that_the_cloud_lacks_is_named_before_a_user_is_made() {
    let mut stage = Stage::empty();
    for _ in 0..4 {
        let step = stage.next();
        stage.take(&step, false);
    }
    stage.observed.roles.as_mut().unwrap().remove("load-balancer_member");
    let problem = decide(&desired(), &stage.record, None, None, &stage.observed).expect_err("a problem");
    assert!(problem.message.contains("load-balancer_member"), "{}", problem.message);
}
