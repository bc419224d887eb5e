//! What a host has, and what of it is used.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::{compute::Flavor, world::World};

/// What every host has. Enough that only what the configuration adds is ever short, as Nova here never lacks vCPUs either.
const STANDARD: [(&str, u64, f64); 3] =
    [("VCPU", 1_000_000, 4.0), ("MEMORY_MB", 1_000_000_000, 1.0), ("DISK_GB", 1_000_000_000, 1.0)];
/// Other classes that Placement knows from the first.
const CLASSES: [&str; 4] = ["PCI_DEVICE", "SRIOV_NET_VF", "VGPU", "PCPU"];
/// Traits that every host has.
const OF_ALL: [&str; 2] = ["COMPUTE_NODE", "HW_CPU_X86_SSE2"];
/// Other traits that Placement knows from the first.
const TRAITS: [&str; 4] = ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "STORAGE_DISK_SSD"];

/// The UUID of the provider that stands for a host.
pub(super) fn provider(host: &str) -> String {
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_DNS, host.as_bytes()).to_string()
}

/// Whether a class is of an operator's own making.
fn is_custom(class: &str) -> bool {
    class.starts_with("CUSTOM_")
}

/// Every class that Placement knows.
pub(super) fn classes(world: &World) -> BTreeSet<String> {
    let own = world.config.equipment.values().flat_map(|equipment| equipment.resources.keys().cloned());
    STANDARD.iter().map(|(name, ..)| *name).chain(CLASSES).map(str::to_owned).chain(own).collect()
}

/// Every trait that Placement knows.
pub(super) fn traits(world: &World) -> BTreeSet<String> {
    let own = world.config.equipment.values().flat_map(|equipment| equipment.traits.iter().cloned());
    OF_ALL.into_iter().chain(TRAITS).map(str::to_owned).chain(own).collect()
}

/// Whether what a flavor asks for by name can be had on a host.
pub(crate) fn fits(world: &World, host: &str, flavor: &Flavor) -> bool {
    let traits: Vec<(&str, &str)> = flavor
        .extra_specs
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("trait:")?, value.as_str())))
        .collect();
    let mut needs = needs(flavor);
    needs.retain(|class, amount| is_custom(class) && *amount > 0);
    if traits.is_empty() && needs.is_empty() {
        // Without a count of what everybody on the host uses: there may be thousands.
        return true;
    }
    let stock = Stock::of(world, host);
    let has = |(name, value): &(&str, &str)| match *value {
        "required" => stock.has_trait(name),
        "forbidden" => !stock.has_trait(name),
        _ => true,
    };
    needs.iter().all(|(class, amount)| stock.has_room(class, *amount)) && traits.iter().all(has)
}

/// What a server of this flavor takes of its host.
fn needs(flavor: &Flavor) -> BTreeMap<String, u64> {
    let mut needs = BTreeMap::from([
        ("VCPU".to_owned(), flavor.vcpus),
        ("MEMORY_MB".to_owned(), flavor.ram),
        ("DISK_GB".to_owned(), flavor.disk),
    ]);
    for (key, value) in &flavor.extra_specs {
        if let (Some(class), Ok(amount)) = (key.strip_prefix("resources:"), value.parse()) {
            needs.insert(class.to_owned(), amount);
        }
    }
    needs
}

/// One host's.
pub(super) struct Stock {
    /// How much there is, and how many times over it may be given.
    have: BTreeMap<String, (u64, f64)>,
    used: BTreeMap<String, u64>,
    traits: BTreeSet<String>,
}

impl Stock {
    pub fn of(world: &World, host: &str) -> Self {
        let mut have: BTreeMap<String, (u64, f64)> =
            STANDARD.iter().map(|(name, total, ratio)| ((*name).to_owned(), (*total, *ratio))).collect();
        let mut traits: BTreeSet<String> = OF_ALL.iter().map(|name| (*name).to_owned()).collect();
        if let Some(equipment) = world.config.equipment.get(host) {
            have.extend(equipment.resources.iter().map(|(class, total)| (class.clone(), (*total, 1.0))));
            traits.extend(equipment.traits.iter().cloned());
        }
        let mut used: BTreeMap<String, u64> = have.keys().map(|class| (class.clone(), 0)).collect();
        for server in world.data.compute.servers.linked(&format!("host:{host}")) {
            for (class, amount) in needs(&server.flavor) {
                *used.entry(class).or_default() += amount;
            }
        }
        Self { have, used, traits }
    }

    pub fn has_trait(&self, name: &str) -> bool {
        self.traits.contains(name)
    }

    /// Whether so much can be had at once, and is left.
    #[allow(clippy::cast_precision_loss)] // amounts are far below 2^52
    pub fn has_room(&self, class: &str, amount: u64) -> bool {
        let Some((total, ratio)) = self.have.get(class) else { return false };
        let used = self.used.get(class).copied().unwrap_or_default();
        amount <= *total && used.saturating_add(amount) as f64 <= *total as f64 * ratio
    }

    pub fn inventories(&self) -> Value {
        let row = |(class, (total, ratio)): (&String, &(u64, f64))| {
            let row = json!({
                "total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1, "allocation_ratio": ratio,
            });
            (class.clone(), row)
        };
        let rows: Map<String, Value> = self.have.iter().map(row).collect();
        json!({"resource_provider_generation": 1, "inventories": rows})
    }

    pub fn usages(&self) -> Value {
        let used: BTreeMap<&String, &u64> =
            self.used.iter().filter(|(class, _)| self.have.contains_key(*class)).collect();
        json!({"resource_provider_generation": 1, "usages": used})
    }

    pub fn traits(&self) -> Value {
        json!({"resource_provider_generation": 1, "traits": self.traits})
    }
}
