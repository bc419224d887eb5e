//! What every kind with a function of its own has, for code that is generic over them.

use super::{ComputeInstance, Identity, LoadBalancer, Network, Region, SecurityGroup, Server, Volume};
use crate::{Kind, ObjectRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::{NamespaceResourceScope, Resource};

/// A kind that a function reconciles.
pub trait Reconciled: Resource<DynamicType = (), Scope = NamespaceResourceScope> {
    /// Which kind it is.
    const KIND: Kind;

    /// `spec.pause`: nothing is read from or done to the cloud (OWN-6).
    fn paused(&self) -> bool;

    /// `status.conditions`; empty without a status.
    fn conditions(&self) -> &[Condition];

    /// `status.observedGeneration`: the generation that the status was written for.
    fn observed_generation(&self) -> Option<i64>;

    /// The object's kind, namespace and name.
    fn object_ref(&self) -> ObjectRef {
        let meta = self.meta();
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        ObjectRef::new(Self::KIND, text(&meta.namespace), text(&meta.name))
    }
}

macro_rules! reconciled {
    ($($kind:ident as $token:ident, $paused:expr;)*) => {$(
        impl Reconciled for $kind {
            const KIND: Kind = Kind::$token;

            fn paused(&self) -> bool {
                let paused: fn(&Self) -> bool = $paused;
                paused(self)
            }

            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().map_or(&[], |status| &status.conditions)
            }

            fn observed_generation(&self) -> Option<i64> {
                self.status.as_ref().and_then(|status| status.observed_generation)
            }
        }
    )*};
}

reconciled! {
    Region as Region, |_| false;
    Identity as Identity, |o| o.spec.pause;
    Network as Network, |o| o.spec.pause;
    SecurityGroup as SecurityGroup, |o| o.spec.pause;
    Server as Server, |o| o.spec.pause;
    Volume as Volume, |o| o.spec.pause;
    LoadBalancer as LoadBalancer, |o| o.spec.pause;
    ComputeInstance as Instance, |o| o.spec.pause;
}
