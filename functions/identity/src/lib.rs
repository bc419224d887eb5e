//! Identities: one tenant's foothold in a region, as a project, a user, an application credential, a server group and a
//! key pair (IDN-1..9).
//!
//! The steps are taken in one order, each written into the OpenstackIdentity ([`record`]) before the next, so that a call
//! that dies anywhere is picked up: what is there under its name is adopted, and a secret that died with the call is
//! replaced. Secrets are the one thing that cannot be found again; everything else is looked up.
//!
//! Choices
//! - Every pass looks at all that the identity consists of, about a dozen reads, and mends what others removed or
//!   changed. Identities are few beside what they hold, and one that is broken breaks all of it.
//! - The SSH key is written down before it is uploaded: the other way round, a crash would leave servers with a key that
//!   nobody has.
//! - A password that the cloud refuses is set again as recorded, not replaced, so that who holds it can go on.
//! - Roles are added when the region asks for more, and never taken: somebody else may have granted them. The
//!   application credential carries the roles of the day it was made.
//! - The record has no owner reference. It has a finalizer instead, and goes when nothing is left in the cloud.

pub mod act;
pub mod decide;
pub mod observe;
pub mod quota;
pub mod record;
pub mod remove;
pub mod secrets;

use act::Work;
use decide::{Desired, Step};
use kube::ResourceExt;
use weir_api::crd::{Identity, IdentityStatus, OpenstackIdentity, OpenstackIdentitySpec};
use weir_api::{Problem, labels};
use weir_function_runtime::{Function, Scope};
use weir_provider::Region;

/// More steps than an identity needs from nothing.
const STEPS: usize = 48;

/// The server group's policy when the region names none (IDN-6).
const POLICY: &str = "soft-anti-affinity";

/// The identity function.
pub struct Identities;

impl Function for Identities {
    type Object = Identity;

    async fn reconcile(&self, scope: &Scope, object: &Identity, _: &mut IdentityStatus) -> Result<(), Problem> {
        let region = scope.region(object).await?;
        let name = object.name_any();
        let (recorded, mut observed) = (scope.get::<OpenstackIdentity>(&name).await?, observe::Observed::default());
        // The cloud is looked at before the record is made: an identity of a region that never worked leaves no record,
        // and so nothing to look for when it is deleted.
        let blank = OpenstackIdentity::new(&name, OpenstackIdentitySpec::default());
        observe::observe(&region, recorded.as_ref().unwrap_or(&blank), &name, &mut observed).await?;
        let record = match recorded {
            Some(record) => record::hold(scope, &record).await?,
            None => record::create(scope, object).await?,
        };
        let desired = desired(object, &region);
        let mut work = Work { scope, region: &region, desired: &desired, record, observed };
        for _ in 0..STEPS {
            let (clouds, key) = (act::clouds(&desired, &work.record)?, act::public_key(&work.record)?);
            match decide::decide(&desired, &work.record.spec, clouds.as_deref(), key.as_deref(), &work.observed)? {
                Step::Done => return Ok(()),
                step => {
                    tracing::info!(?step, "taking a step");
                    work.act(step).await?;
                    observe::observe(&region, &work.record, &name, &mut work.observed).await?;
                }
            }
        }
        Err(Problem::yielding("the cloud does not keep what was made for the identity; looking again"))
    }

    async fn finalize(&self, scope: &Scope, object: &Identity, _: &mut IdentityStatus) -> Result<(), Problem> {
        remove::dependants(scope, object).await?;
        let record = scope.get::<OpenstackIdentity>(&object.name_any()).await?;
        // The record comes before anything in the cloud, so without one there is nothing.
        let Some(record) = record else {
            return Ok(());
        };
        let region = scope.region(object).await?;
        remove::scaffolding(scope, &region, object, Some(record.clone())).await?;
        let record = scope.get::<OpenstackIdentity>(&object.name_any()).await?.unwrap_or(record);
        record::remove(scope, &record).await
    }
}

fn desired(object: &Identity, region: &Region) -> Desired {
    let policy = region.config.compute.as_ref().and_then(|compute| compute.server_group_policy.clone());
    let tag = |name: &str, label: &str| labels::get(object, label).map(|value| format!("{name}={value}"));
    Desired {
        roles: weir_provider::identity_roles(&region.config),
        group_policy: policy.filter(|policy| !policy.is_empty()).unwrap_or_else(|| POLICY.to_owned()),
        tags: [tag("organization", labels::ORGANIZATION), tag("project", labels::PROJECT)]
            .into_iter()
            .flatten()
            .collect(),
        endpoint: region.config.endpoint.clone(),
    }
}
