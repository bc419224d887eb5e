//! What is wrong with a region, from what its cloud answered. Pure.

use crate::observe::Observed;
use weir_openstack::{Class, Error, Service};

/// The role that the region's credential needs on its domain.
pub const MANAGER: &str = "manager";
/// The services that every region needs (REG-1).
pub const NEEDED: [Service; 4] = [Service::Identity, Service::Compute, Service::Network, Service::Image];

/// Everything that is missing, each with what to do about it; empty when the region can be used.
///
/// `roles` are those that its identities get.
pub fn faults(observed: &Observed, roles: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    match (&observed.domain, &observed.project) {
        (Err(domain), Err(project)) if domain.class() == project.class() => {
            faults.push(refusal(domain, "its domain and its project"));
        }
        (domain, project) => {
            faults.extend(domain.as_ref().err().map(|error| refusal(error, "its domain")));
            faults.extend(project.as_ref().err().map(|error| refusal(error, "its project")));
        }
    }
    if let Ok(held) = &observed.domain
        && !held.contains(MANAGER)
    {
        faults.push(format!("the credential lacks the role {MANAGER} on its domain; grant it"));
    }
    if let Ok(offered) = &observed.project {
        let lacking = NEEDED.iter().filter(|service| !offered.contains(service));
        faults.extend(lacking.map(|service| format!("the cloud's catalog has no {} service", service.name())));
    }
    match &observed.roles {
        Some(Ok(known)) => {
            let needed = std::iter::once(MANAGER).chain(roles.iter().map(String::as_str));
            let mut lacking: Vec<&str> = needed.filter(|role| !known.contains(*role)).collect();
            lacking.dedup();
            faults.extend(lacking.iter().map(|role| {
                format!("the cloud has no role named {role}; add it, or change the region's identity.clusterRoles")
            }));
        }
        Some(Err(error)) => faults.push(format!("the cloud's roles cannot be listed: {}", why(error))),
        None => {}
    }
    if let Some(Err(error)) = &observed.network {
        faults.push(format!("the cloud's network service cannot be used: {}", why(error)));
    }
    faults
}

fn refusal(error: &Error, scope: &str) -> String {
    match (error.class(), error.status()) {
        (Class::NotFound, _) | (Class::Unauthorized, Some(404)) => format!(
            "the endpoint answers, but knows neither Keystone's path nor the credential for {scope}; check \
             spec.openstack.endpoint (as in https://keystone.example.com:5000/v3), and the IDs in the region's Secret"
        ),
        (Class::Unauthorized | Class::Forbidden, _) => format!(
            "the cloud refuses the credential for {scope}; check user-id, password, domain-id and project-id in the \
             region's Secret"
        ),
        (Class::Unavailable, None) => "the endpoint does not answer, or its certificate is not trusted; check \
             spec.openstack.endpoint, and ca.crt in the region's Secret if the cloud has a certificate authority of its own"
            .to_owned(),
        (_, None) => "spec.openstack.endpoint cannot be used; it must be the http or https URL of Keystone".to_owned(),
        _ => format!("no token for {scope}: {}", why(error)),
    }
}

/// Whether all that is wrong is the credential: asking the cloud about it again and again may lock its user out.
pub fn is_refused(observed: &Observed) -> bool {
    let refused = |error: Option<&Error>| error.is_some_and(|error| error.class() == Class::Unauthorized);
    refused(observed.domain.as_ref().err()) || refused(observed.project.as_ref().err())
}

/// A class of failure for people. Nothing that the cloud wrote.
fn why(error: &Error) -> &'static str {
    match error.class() {
        Class::Unavailable => "the service is not available",
        Class::Unauthorized | Class::Forbidden => {
            "the credential may not; an operator has to grant it in the cloud's policy"
        }
        Class::RateLimited => "the cloud asks to slow down",
        Class::Unsupported => "the cloud does not offer the version that is needed",
        _ => "its answer makes no sense",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn set<T: Ord + Clone>(items: &[T]) -> BTreeSet<T> {
        items.iter().cloned().collect()
    }

    fn names(items: &[&str]) -> BTreeSet<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    fn well() -> Observed {
        Observed {
            domain: Ok(names(&["manager", "member", "reader"])),
            project: Ok(set(&NEEDED)),
            roles: Some(Ok(names(&["manager", "member", "load-balancer_member"]))),
            network: Some(Ok(())),
        }
    }

    fn roles() -> Vec<String> {
        vec!["member".into(), "load-balancer_member".into()]
    }

    /// Proves: REG-1
    #[test]
    fn a_region_with_everything_has_no_faults() {
        assert_eq!(faults(&well(), &roles()), [""; 0]);
    }

    /// Proves: REG-1, IDN-4
    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        let mut observed = well();
        observed.domain = Ok(names(&["member"]));
        observed.project = Ok(set(&[Service::Identity, Service::Network, Service::Image]));
        observed.roles = Some(Ok(names(&["member"])));
        let found = faults(&observed, &roles());
        let expected = [
            "lacks the role manager",
            "no compute service",
            "no role named manager",
            "no role named load-balancer_member",
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (fault, says) in found.iter().zip(expected) {
            assert!(fault.contains(says), "{fault}");
        }
    }
}
