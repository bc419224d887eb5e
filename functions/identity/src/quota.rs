//! Quotas are no business of the cloud here: a project may have as much as it asks for (IDN-5), and who may ask is decided
//! before.
//!
//! Each function takes the limits that were read and returns those to set. What the cloud did not tell of it does not
//! have, and sending it would be refused.

use weir_openstack::{block_storage, compute, network};

/// No limit.
const UNLIMITED: i64 = -1;

fn lift(limit: Option<i64>) -> Option<i64> {
    limit.filter(|limit| *limit != UNLIMITED).map(|_| UNLIMITED)
}

/// The compute quotas to lift.
pub fn compute(read: &compute::QuotaSet) -> compute::QuotaSet {
    compute::QuotaSet {
        instances: lift(read.instances),
        cores: lift(read.cores),
        ram: lift(read.ram),
        key_pairs: lift(read.key_pairs),
        metadata_items: lift(read.metadata_items),
        server_groups: lift(read.server_groups),
        server_group_members: lift(read.server_group_members),
    }
}

/// The network quotas to lift.
pub fn network(read: &network::Quota) -> network::Quota {
    network::Quota {
        network: lift(read.network),
        subnet: lift(read.subnet),
        subnetpool: lift(read.subnetpool),
        port: lift(read.port),
        router: lift(read.router),
        floatingip: lift(read.floatingip),
        security_group: lift(read.security_group),
        security_group_rule: lift(read.security_group_rule),
        rbac_policy: lift(read.rbac_policy),
    }
}

/// The block storage quotas to lift.
pub fn block_storage(read: &block_storage::QuotaSet) -> block_storage::QuotaSet {
    block_storage::QuotaSet {
        volumes: lift(read.volumes),
        gigabytes: lift(read.gigabytes),
        snapshots: lift(read.snapshots),
        backups: lift(read.backups),
        backup_gigabytes: lift(read.backup_gigabytes),
        per_volume_gigabytes: lift(read.per_volume_gigabytes),
        groups: lift(read.groups),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: IDN-5
    #[test]
    fn only_limits_that_the_cloud_has_and_that_limit_are_lifted() {
        let read =
            compute::QuotaSet { instances: Some(10), cores: Some(-1), ram: None, ..compute::QuotaSet::default() };
        let lifted = compute(&read);
        assert_eq!(lifted, compute::QuotaSet { instances: Some(-1), ..compute::QuotaSet::default() });
        let read = network::Quota { floatingip: Some(0), router: Some(-1), ..network::Quota::default() };
        assert_eq!(network(&read), network::Quota { floatingip: Some(-1), ..network::Quota::default() });
        let read = block_storage::QuotaSet { groups: Some(3), ..block_storage::QuotaSet::default() };
        assert_eq!(block_storage(&read).groups, Some(-1));
    }
}
