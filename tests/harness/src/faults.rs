//! The faults that every kind has to survive, each struck once at a call of one's choice (issue "The main job runs").

use crate::World;
use weir_kube_sim::Fault as KubeFault;
use weir_openstack_sim::{Action, Answer, Fault};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// The cloud fails, without the effect.
    ErrorBefore,
    /// The cloud fails after the effect.
    ErrorAfter,
    /// The connection breaks, without the effect.
    ResetBefore,
    /// The connection breaks after the effect, also when a read is repeated.
    ResetAfter,
    /// The cloud is away for a while.
    Unavailable,
    /// A read finds nothing.
    NotFound,
    /// A deletion finds nothing.
    Missing,
    /// The cloud reports a conflict.
    Conflict,
    /// The cloud asks for a pause.
    SlowDown,
    /// The token is not taken any more.
    TokenExpired,
    /// A list shows a page twice.
    RepeatedPage,
    /// Kubernetes fails, without the effect.
    KubernetesError,
    /// Kubernetes fails after the effect: the write that was lost, and was not.
    KubernetesLost,
    /// Somebody else was faster.
    KubernetesConflict,
}

impl Case {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::ErrorBefore,
        Self::ErrorAfter,
        Self::ResetBefore,
        Self::ResetAfter,
        Self::Unavailable,
        Self::NotFound,
        Self::Missing,
        Self::Conflict,
        Self::SlowDown,
        Self::TokenExpired,
        Self::RepeatedPage,
        Self::KubernetesError,
        Self::KubernetesLost,
        Self::KubernetesConflict,
    ];

    /// Those that strike whatever call of the cloud comes next.
    pub const AT_ANY_CALL: [Self; 8] = [
        Self::ErrorBefore,
        Self::ErrorAfter,
        Self::ResetBefore,
        Self::ResetAfter,
        Self::Unavailable,
        Self::Conflict,
        Self::SlowDown,
        Self::TokenExpired,
    ];

    /// A name that an object can have.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether the fault is Kubernetes', not the cloud's.
    pub fn of_kubernetes(self) -> bool {
        matches!(self, Self::KubernetesError | Self::KubernetesLost | Self::KubernetesConflict)
    }

    /// Whether the fault that [`Case::inject`] made has struck.
    pub fn struck(self, world: &World, fault: u64) -> bool {
        if self.of_kubernetes() {
            return world.kubernetes.faults().list().iter().any(|listed| listed.id == fault && listed.strikes > 0);
        }
        world.cloud.faults().fired(fault) > 0
    }

    /// Lets the fault strike the call that comes after `at` others.
    pub fn inject(self, world: &World, at: u64) -> u64 {
        let kubernetes = match self {
            Self::KubernetesError => Some(KubeFault::status(500)),
            Self::KubernetesLost => Some(KubeFault::lost_write()),
            Self::KubernetesConflict => Some(KubeFault::status(409).verb("create").verb("patch").verb("delete")),
            _ => None,
        };
        if let Some(fault) = kubernetes {
            let fault = fault.user_agent(World::FUNCTION).skip(at).times(1);
            return world.kubernetes.faults().add(fault).expect("a fault");
        }
        self.inject_into_cloud(world, at)
    }

    fn inject_into_cloud(self, world: &World, at: u64) -> u64 {
        let answer = |code, headers: &[(&str, &str)]| Answer {
            code,
            body: None,
            headers: headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        };
        let (action, times) = match self {
            Self::ErrorBefore => (Action::Status(answer(500, &[])), 1),
            Self::ErrorAfter => (Action::StatusAfter(answer(500, &[])), 1),
            Self::ResetBefore => (Action::ResetBefore, 1),
            // More often than a read is repeated.
            Self::ResetAfter => (Action::ResetAfter, 4),
            Self::Unavailable => (Action::Status(answer(503, &[])), 5),
            Self::NotFound | Self::Missing => (Action::Status(answer(404, &[])), 1),
            Self::Conflict => (Action::Status(answer(409, &[])), 1),
            Self::SlowDown => (Action::Status(answer(429, &[("Retry-After", "7")])), 1),
            Self::TokenExpired => (Action::TokenExpired, 1),
            Self::RepeatedPage | Self::KubernetesError | Self::KubernetesLost | Self::KubernetesConflict => {
                (Action::RepeatPage, 1)
            }
        };
        let mut fault = Fault::new(action).after(at).times(times);
        match self {
            // As the table has it: on reads; and, by the same token, on deletions.
            Self::NotFound | Self::RepeatedPage => fault = fault.on("GET", ""),
            Self::Missing => fault = fault.on("DELETE", ""),
            _ => {}
        }
        world.cloud.faults().add(fault).expect("a fault")
    }
}
