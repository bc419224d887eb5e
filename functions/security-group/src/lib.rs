//! Security groups: packet filter rules that converge as a set (SEC-1..5).
//!
//! The group is found by the name `securitygroup-<name of the object>` in the identity's project, with the identity's own
//! credential. Its rules are compared by what they mean ([`rule`]), so that a rule made by a call whose answer was lost,
//! or spelled otherwise by the cloud, is found again instead of made twice.
//!
//! Choices
//! - A tcp or udp rule without a port is for every port. A port on a protocol that has none is refused.
//! - The egress rules that Neutron puts into every new group are kept whatever the spec says, as the predecessor did:
//!   users rely on servers reaching out.

pub mod act;
pub mod decide;
pub mod observe;
pub mod rule;

use decide::Step;
use kube::ResourceExt;
use weir_api::Problem;
use weir_api::crd::{SecurityGroup, SecurityGroupStatus};
use weir_function_runtime::{Function, Scope};

/// More steps than a cloud that keeps what is made needs beyond one for each rule that is there or wanted.
const SPARE_STEPS: usize = 16;

/// The security group function.
pub struct SecurityGroups;

impl Function for SecurityGroups {
    type Object = SecurityGroup;

    async fn reconcile(
        &self,
        scope: &Scope,
        object: &SecurityGroup,
        _: &mut SecurityGroupStatus,
    ) -> Result<(), Problem> {
        let wanted = decide::wanted(&object.spec)?;
        let session = scope.identity(object).await?.session()?;
        let name = object.name_any();
        let mut group = observe::observe(&session, &name).await?;
        let there = group.as_ref().map_or(0, |group| group.rules.len());
        for _ in 0..wanted.len() + there + SPARE_STEPS {
            match decide::decide(&wanted, group.as_ref()) {
                Step::Done => return Ok(()),
                step => {
                    tracing::info!(?step, "taking a step");
                    act::act(&session, &name, step, &mut group).await?;
                }
            }
        }
        Err(Problem::yielding("the cloud does not keep the rules of the security group; looking again"))
    }

    async fn finalize(
        &self,
        scope: &Scope,
        object: &SecurityGroup,
        _: &mut SecurityGroupStatus,
    ) -> Result<(), Problem> {
        let Some(foothold) = scope.foothold(object).await? else {
            return Ok(());
        };
        let (session, name) = (foothold.any_session(), object.name_any());
        for _ in 0..SPARE_STEPS {
            let Some(group) = observe::observe(&session, &name).await? else {
                return Ok(());
            };
            tracing::info!("deleting the group");
            if !act::delete(&session, &group.id).await? {
                let users = observe::users(&session, &group).await?;
                let by = if users.is_empty() {
                    "something in the cloud".to_owned()
                } else {
                    weir_provider::described(&users)
                };
                return Err(Problem::yielding(format!("still in use by {by}; waiting for it to let go")));
            }
        }
        Err(Problem::yielding("the cloud does not let go of the security group; looking again"))
    }
}
