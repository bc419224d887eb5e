//! VLAN IDs of a region's provider networks, as a pure table (NET-8).
//!
//! Invariants: an ID is given to one network, a network has one ID, the lowest that is free within the configured segments,
//! in whatever order they are written. A table that says otherwise is corrupt: it is refused, never repaired, because a
//! guess would join two tenants' networks.

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

/// Gives `network` the lowest free ID of the segments, or the one that it has. Returns the ID, and the new table if it
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
    let ranges = ranges(segments);
    let free = LEGAL.into_iter().find(|id| !taken.contains(id) && ranges.iter().any(|range| range.contains(id)));
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
pub fn free(table: &[VlanAllocationEntry], network: &str) -> Result<Option<Vec<VlanAllocationEntry>>, Problem> {
    check(table)?;
    let left: Vec<_> = table.iter().filter(|entry| entry.physical_network_id != network).cloned().collect();
    Ok((left.len() != table.len()).then_some(left))
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
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use serde_json::{Value, json};

    fn entry(id: i64, network: &str) -> VlanAllocationEntry {
        VlanAllocationEntry { id, physical_network_id: network.into() }
    }

    fn segments(of: &Value) -> Vec<VlanSegment> {
        let pairs: Vec<(i64, i64)> = serde_json::from_value(of.clone()).unwrap();
        pairs.into_iter().map(|(start_id, end_id)| VlanSegment { start_id, end_id }).collect()
    }

    /// The rows' operations: `alloc net1`, `free 1` (by ID), `freeNet net1`. Weir frees by network only; an ID is that of
    /// the network which has it, and one that no VLAN can have is a table that says it was given away.
    fn operate(table: &mut Vec<VlanAllocationEntry>, segments: &[VlanSegment], operation: &str) -> Result<(), Problem> {
        let (verb, what) = operation.split_once(' ').unwrap();
        let after = match verb {
            "alloc" => allocate(table, segments, what)?.1,
            "freeNet" => free(table, what)?,
            "free" => {
                let id: i64 = what.parse().unwrap();
                if !LEGAL.contains(&id) {
                    table.push(entry(id, "whoever"));
                }
                let holder = table.iter().find(|entry| entry.id == id).map(|entry| entry.physical_network_id.clone());
                free(table, holder.as_deref().unwrap_or("nobody"))?
            }
            other => panic!("{other}"),
        };
        *table = after.unwrap_or_else(|| table.clone());
        Ok(())
    }

    /// Proves: NET-8
    #[test]
    fn the_table_of_the_predecessor_holds() {
        let file: Value = serde_json::from_str(include_str!("../tests/tables/vlan_allocation.json")).unwrap();
        for case in file["cases"].as_array().unwrap() {
            let (input, expect) = (&case["input"], &case["expect"]);
            let configured = input.get("segments").map(segments).unwrap_or_default();
            let mut table = Vec::new();
            if let Some(networks) = input["allocate"].as_array() {
                let ids: Vec<Value> = networks
                    .iter()
                    .map(|network| match allocate(&table, &configured, network.as_str().unwrap()) {
                        Ok((id, changed)) => {
                            table = changed.unwrap_or_else(|| table.clone());
                            json!(id)
                        }
                        Err(_) => json!("error"),
                    })
                    .collect();
                assert_eq!(json!(ids), expect["ids"], "{case}");
            } else if let Some(operations) = input["ops"].as_array() {
                for operation in operations {
                    operate(&mut table, &configured, operation.as_str().unwrap()).expect("what the row does is fine");
                }
                assert_eq!(expect["ok"], true, "{case}");
            } else if let Some(id) = input["free"].as_i64() {
                assert_eq!(json!(operate(&mut table, &[], &format!("free {id}")).is_err()), expect["error"], "{case}");
            } else if input.get("table").is_some_and(Value::is_null) {
                assert_eq!(free(&[], "net1"), Ok(None), "{case}");
            } else {
                // What a create that failed leaves is in `a_vlan_stays_taken_while_its_network_may_be_there`.
                assert_eq!(input["createNetwork"], "error", "a row that nothing tries: {case}");
            }
        }
    }

    /// Proves: NET-8
    #[test]
    fn the_lowest_free_id_is_given_in_whatever_order_segments_are_written() {
        let given = |segments: &Value, taken: &[i64], count: usize| {
            let segments = self::segments(segments);
            let mut table: Vec<_> = taken.iter().map(|id| entry(*id, &format!("taken-{id}"))).collect();
            let mut ids = Vec::new();
            for n in 0..count {
                let Ok((id, changed)) = allocate(&table, &segments, &format!("net-{n}")) else { break };
                table = changed.unwrap();
                ids.push(id);
            }
            ids
        };
        assert_eq!(given(&json!([[100, 101], [7, 8]]), &[], 9), [7, 8, 100, 101]);
        assert_eq!(given(&json!([[5, 7], [6, 9]]), &[6], 9), [5, 7, 8, 9], "segments may overlap");
        assert_eq!(given(&json!([[4093, 9000]]), &[], 9), [4093, 4094]);
        assert_eq!(given(&json!([[-9, -1]]), &[], 9), [] as [u16; 0], "nothing of it is legal");
        assert_eq!(given(&json!([[100, 100], [10, 5]]), &[1], 2), [2, 3], "an inverted segment is everything");
        assert_eq!(given(&json!([]), &[1, 2, 4], 2), [3, 5]);
    }

    /// Proves: NET-8
    #[test]
    fn a_network_keeps_its_id_and_a_freed_id_is_given_again() {
        let table = vec![entry(1, "a"), entry(2, "b")];
        assert_eq!(allocate(&table, &[], "b").unwrap(), (2, None));
        let freed = free(&table, "a").unwrap().unwrap();
        assert_eq!(free(&freed, "a"), Ok(None), "freeing is idempotent");
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
            assert!(free(&table, "a").is_err(), "{table:?}");
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
