//! Carries out one step about a security group.

use crate::decide::Step;
use crate::rule::Rule;
use weir_api::crd::Direction;
use weir_api::{Problem, names};
use weir_openstack::network::{NewSecurityGroup, NewSecurityGroupRule, SecurityGroup};
use weir_openstack::{Class, OrAbsent, SecurityGroupId, Session};
use weir_provider::During;

/// Says in the cloud who made a group.
const GROUP: &str = "managed by Weir: change the SecurityGroup in Kubernetes instead";
/// Says in the cloud who made a rule; the predecessor's words, by which its operators search.
const RULE: &str = "unikorn managed security group rule";

/// Takes one step, and brings the observation up to date with its answer.
pub async fn act(
    session: &Session,
    object: &str,
    step: Step,
    group: &mut Option<SecurityGroup>,
) -> Result<(), Problem> {
    let client = session.network();
    match (step, group.as_mut()) {
        (Step::CreateGroup, _) => {
            let name = names::security_group(object);
            let new = NewSecurityGroup { name: &name, description: GROUP };
            *group = Some(client.create_security_group(&new).await.during("creating the security group")?);
        }
        (Step::CreateRule(rule), Some(group)) => create(session, rule, group).await?,
        (Step::DeleteRule(id), Some(group)) => {
            client.delete_security_group_rule(&id).await.or_absent().during("deleting a rule of the security group")?;
            group.rules.retain(|rule| rule.id != id);
        }
        (Step::CreateRule(_) | Step::DeleteRule(_), None) | (Step::Done, _) => {}
    }
    Ok(())
}

async fn create(session: &Session, rule: Rule, group: &mut SecurityGroup) -> Result<(), Problem> {
    let client = session.network();
    let prefix = (rule.prefix.prefix_len() > 0).then(|| rule.prefix.to_string());
    let new = NewSecurityGroupRule {
        security_group_id: &group.id,
        direction: match rule.direction {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        },
        ethertype: "IPv4",
        protocol: rule.protocol.as_deref(),
        port_range_min: rule.ports.map(|(start, _)| start),
        port_range_max: rule.ports.map(|(_, end)| end),
        remote_ip_prefix: prefix.as_deref(),
        description: RULE,
    };
    match client.create_security_group_rule(&new).await {
        Ok(made) => group.rules.push(made),
        // Made by a call whose answer was lost, or by somebody else: what is there now is read again (SEC-4).
        Err(error) if error.kind() == Some("SecurityGroupRuleExists") => {
            *group = client.security_group(&group.id).await.during("reading the security group")?;
        }
        Err(error) => return Err(weir_provider::problem(&error, "creating a rule of the security group")),
    }
    Ok(())
}

/// Asks for the group to be removed. `Ok(false)` says that something uses it.
pub async fn delete(session: &Session, group: &SecurityGroupId) -> Result<bool, Problem> {
    match session.network().delete_security_group(group).await.or_absent() {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.class(), Class::Conflict | Class::NotNow) => Ok(false),
        Err(error) => Err(weir_provider::problem(&error, "deleting the security group")),
    }
}
