//! VLAN IDs of a region's provider networks, as a pure table (NET-8).
//!
//! Invariants: an ID is given to one network, a network has one ID, first fit, within the configured segments. A table
//! that says otherwise is corrupt: it is refused, never repaired, because a guess would join two tenants' networks.

use std::collections::BTreeSet;
use weir_api::Problem;
use weir_api::crd::{VlanAllocationEntry, VlanSegment};

/// The IDs that a VLAN can have.
const LEGAL: std::ops::RangeInclusive<i64> = 1..=4094;

/// The ID of `network` in the table, if it has one.
pub fn of(table: &[VlanAllocationEntry], network: &str) -> Result<Option<u16>, Problem> {
    check(table)?;
    let entry = table.iter().find(|entry| entry.physical_network_id == network);
    Ok(entry.and_then(|entry| u16::try_from(entry.id).ok()))
}

/// Gives `network` the first free ID of the segments, or the one that it has. Returns the ID, and the new table if it
/// changed.
pub fn allocate(
    table: &[VlanAllocationEntry],
    segments: &[VlanSegment],
    network: &str,
) -> Result<(u16, Option<Vec<VlanAllocationEntry>>), Problem> {
    if let Some(id) = of(table, network)? {
        return Ok((id, None));
    }
    let taken: BTreeSet<i64> = table.iter().map(|entry| entry.id).collect();
    let free = ranges(segments).into_iter().flatten().find(|id| !taken.contains(id));
    let Some(id) = free.and_then(|id| u16::try_from(id).ok()) else {
        return Err(Problem::operator(
            "the region has no free VLAN left; delete networks, or have an operator add segments",
        ));
    };
    Ok((id, Some(with(table, id, network))))
}

/// Records that `network` has `id` already, as found in the cloud. Returns the new table if it changed.
pub fn record(
    table: &[VlanAllocationEntry],
    id: u16,
    network: &str,
) -> Result<Option<Vec<VlanAllocationEntry>>, Problem> {
    check(table)?;
    let id_taken = table.iter().find(|entry| entry.id == i64::from(id));
    let other_id = table.iter().find(|entry| entry.physical_network_id == network && entry.id != i64::from(id));
    match (id_taken, other_id) {
        (Some(entry), _) if entry.physical_network_id == network => Ok(None),
        (None, None) => Ok(Some(with(table, id, network))),
        _ => Err(Problem::operator(
            "the VLAN of the network in the cloud is not the one that the region's table says; an operator has to look",
        )
        .with_detail(format!("the network has VLAN {id}; the table says otherwise for it or for that VLAN"))),
    }
}

/// The table without `network`, if it was in it. Idempotent.
pub fn free(table: &[VlanAllocationEntry], network: &str) -> Option<Vec<VlanAllocationEntry>> {
    let left: Vec<_> = table.iter().filter(|entry| entry.physical_network_id != network).cloned().collect();
    (left.len() != table.len()).then_some(left)
}

fn with(table: &[VlanAllocationEntry], id: u16, network: &str) -> Vec<VlanAllocationEntry> {
    let mut table = table.to_vec();
    table.push(VlanAllocationEntry { id: id.into(), physical_network_id: network.to_owned() });
    table.sort_by_key(|entry| entry.id);
    table
}

fn check(table: &[VlanAllocationEntry]) -> Result<(), Problem> {
    let ids: BTreeSet<_> = table.iter().map(|entry| entry.id).collect();
    let networks: BTreeSet<_> = table.iter().map(|entry| &entry.physical_network_id).collect();
    let legal = table.iter().all(|entry| LEGAL.contains(&entry.id));
    if ids.len() == table.len() && networks.len() == table.len() && legal {
        return Ok(());
    }
    Err(Problem::operator(
        "the region's VLAN table is corrupt: it names a VLAN or a network twice, or an impossible VLAN; an operator has to mend it",
    ))
}

/// The configured ranges, clamped to what is legal; all of it when none are configured. An inverted segment stands for
/// all of it too, as it did in the predecessor.
fn ranges(segments: &[VlanSegment]) -> Vec<std::ops::RangeInclusive<i64>> {
    if segments.is_empty() {
        return vec![LEGAL];
    }
    let clamp = |segment: &VlanSegment| {
        if segment.start_id > segment.end_id {
            return LEGAL;
        }
        segment.start_id.max(*LEGAL.start())..=segment.end_id.min(*LEGAL.end())
    };
    segments.iter().map(clamp).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use serde_json::Value;

    fn entry(id: i64, network: &str) -> VlanAllocationEntry {
        VlanAllocationEntry { id, physical_network_id: network.into() }
    }

    fn segments(of: &Value) -> Vec<VlanSegment> {
        let pairs: Vec<(i64, i64)> = serde_json::from_value(of.clone()).unwrap();
        pairs.into_iter().map(|(start_id, end_id)| VlanSegment { start_id, end_id }).collect()
    }

    /// Proves: NET-8
    #[test]
    fn the_allocations_of_the_predecessor_s_table_hold() {
        let file: Value = serde_json::from_str(include_str!("../tests/tables/vlan_allocation.json")).unwrap();
        let mut tried = 0;
        for case in file["cases"].as_array().unwrap() {
            let Some(networks) = case["input"]["allocate"].as_array() else { continue };
            let segments = segments(&case["input"]["segments"]);
            let mut table = Vec::new();
            for (network, expected) in networks.iter().zip(case["expect"]["ids"].as_array().unwrap()) {
                let got = allocate(&table, &segments, network.as_str().unwrap());
                match expected.as_u64() {
                    Some(id) => {
                        let (got, changed) = got.expect("an ID");
                        assert_eq!(u64::from(got), id, "{case}");
                        table = changed.unwrap();
                    }
                    None => assert!(got.is_err(), "{case}"),
                }
                tried += 1;
            }
        }
        assert!(tried > 8, "the table was read");
    }

    /// Proves: NET-8
    #[test]
    fn a_network_keeps_its_id_and_a_freed_id_is_given_again() {
        let table = vec![entry(1, "a"), entry(2, "b")];
        assert_eq!(allocate(&table, &[], "b").unwrap(), (2, None));
        let freed = free(&table, "a").unwrap();
        assert_eq!(free(&freed, "a"), None, "freeing is idempotent");
        assert_eq!(allocate(&freed, &[], "c").unwrap().0, 1);
    }

    /// Proves: NET-8
    #[test]
    fn a_corrupt_table_is_refused_and_not_repaired() {
        for table in [
            vec![entry(1, "a"), entry(1, "b")],
            vec![entry(1, "a"), entry(2, "a")],
            vec![entry(0, "a")],
            vec![entry(4095, "a")],
            vec![entry(-1, "a")],
        ] {
            assert!(allocate(&table, &[], "c").is_err(), "{table:?}");
            assert!(allocate(&table, &[], "a").is_err(), "{table:?}");
            assert!(record(&table, 7, "c").is_err(), "{table:?}");
        }
    }

    /// Proves: NET-8
    #[test]
    fn a_vlan_found_in_the_cloud_is_recorded_unless_the_table_contradicts() {
        let table = vec![entry(5, "a")];
        assert_eq!(record(&table, 5, "a").unwrap(), None);
        assert_eq!(record(&table, 6, "b").unwrap().unwrap(), [entry(5, "a"), entry(6, "b")]);
        assert!(record(&table, 5, "b").is_err(), "another network has it");
        assert!(record(&table, 6, "a").is_err(), "the network has another");
    }
}
