//! Fresh answers of a cloud to whoever comes with a region's credential.

use std::collections::BTreeSet;
use std::time::Duration;
use weir_openstack::{Error, Service};
use weir_provider::Region;

/// How long a cloud may take for one answer while it is checked. Longer, and a person who mends a region waits for the
/// news of it too long (REG-1).
const DEADLINE: Duration = Duration::from_secs(4);

/// What was found.
#[derive(Debug)]
pub struct Observed {
    /// Names of the roles that the credential has on its domain, or why it does not get in.
    pub domain: Result<BTreeSet<String>, Error>,
    /// The same in its own project, with the services that the catalog offers there.
    pub project: Result<BTreeSet<Service>, Error>,
    /// Names of the roles that the cloud has; `None` if the credential did not get as far.
    pub roles: Option<Result<BTreeSet<String>, Error>>,
    /// Whether the network service answers, as one that everything else needs; `None` if nobody got as far.
    pub network: Option<Result<(), Error>>,
}

impl Observed {
    /// What went wrong, for operators.
    pub fn errors(&self) -> String {
        let errors = [
            self.domain.as_ref().err(),
            self.project.as_ref().err(),
            self.roles.as_ref().and_then(|roles| roles.as_ref().err()),
            self.network.as_ref().and_then(|network| network.as_ref().err()),
        ];
        errors.into_iter().flatten().map(|error| format!("{error}: {}", error.detail())).collect::<Vec<_>>().join("; ")
    }
}

/// Asks the cloud.
pub async fn observe(region: Region) -> Observed {
    let region = region.for_a_check(DEADLINE);
    let (manager, inventory) = (region.manager(), region.inventory());
    // At once, so that a cloud which does not answer costs one deadline and not four.
    let (domain, project) = futures::join!(manager.token_info(), offered(&inventory));
    let (roles, network) = futures::join!(
        async {
            let found = if domain.is_ok() { Some(manager.identity().roles().await) } else { None };
            found.map(|roles| roles.map(|roles| roles.into_iter().map(|role| role.name).collect()))
        },
        async {
            let offers = project.as_ref().is_ok_and(|services| services.contains(&Service::Network));
            if offers { Some(inventory.network().external_networks().await.map(drop)) } else { None }
        }
    );
    let domain = domain.map(|token| token.roles.iter().map(|role| role.name.clone()).collect());
    Observed { domain, project, roles, network }
}

async fn offered(session: &weir_openstack::Session) -> Result<BTreeSet<Service>, Error> {
    let mut offered = BTreeSet::new();
    for service in Service::ALL {
        if session.offers(service).await? {
            offered.insert(service);
        }
    }
    Ok(offered)
}
