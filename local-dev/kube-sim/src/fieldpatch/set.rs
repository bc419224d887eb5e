//! Sets of field paths, in the form `metadata.managedFields[].fieldsV1` has.
//!
//! An element of a path is kept as that form writes it: `f:name` for a member, `k:{"name":"h"}` for an item with keys, `v:"a"` for an
//! item of a set, `i:0` for an index. So sets compare, order and serialise without translation.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A set of paths, as a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    /// Whether the path that ends here is in the set.
    member: bool,
    below: FieldSet,
}

/// Deeper sets are not read: no object is that deep.
const MAX_DEPTH: usize = 128;

impl FieldSet {
    /// Whether there is no path in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads `fieldsV1`; `None` when it is something else.
    pub fn from_json(value: &Value) -> Option<FieldSet> {
        Self::read(value, 0)
    }

    fn read(value: &Value, depth: usize) -> Option<FieldSet> {
        let mut set = FieldSet::default();
        if depth > MAX_DEPTH {
            return None;
        }
        for (element, inner) in value.as_object()? {
            if element == "." {
                continue;
            }
            if !["f:", "k:", "v:", "i:"].iter().any(|prefix| element.starts_with(prefix)) {
                return None;
            }
            let below = Self::read(inner, depth + 1)?;
            let member = below.is_empty() || inner.get(".").is_some();
            set.entries.insert(element.clone(), Entry { member, below });
        }
        Some(set)
    }

    /// The form for `fieldsV1`.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (element, entry) in &self.entries {
            let mut inner = entry.below.to_json();
            if let (true, false, Value::Object(members)) = (entry.member, entry.below.is_empty(), &mut inner) {
                members.insert(".".into(), Value::Object(Map::new()));
            }
            map.insert(element.clone(), inner);
        }
        Value::Object(map)
    }

    /// Adds a path.
    pub(super) fn insert(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else { return };
        let entry = self.entries.entry(first.clone()).or_default();
        if rest.is_empty() {
            entry.member = true;
        } else {
            entry.below.insert(rest);
        }
    }

    /// Takes a path out; paths below it stay.
    pub(super) fn remove(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let Some(entry) = self.entries.get_mut(*first) else { return };
        if rest.is_empty() {
            entry.member = false;
        } else {
            entry.below.remove(rest);
        }
        if !entry.member && entry.below.is_empty() {
            self.entries.remove(*first);
        }
    }

    /// Keeps only what is below the first elements that `keep` accepts.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.entries.retain(|element, _| keep(element));
    }

    pub(super) fn union(&self, other: &FieldSet) -> FieldSet {
        let mut result = self.clone();
        for (element, entry) in &other.entries {
            let mine = result.entries.entry(element.clone()).or_default();
            mine.member |= entry.member;
            mine.below = mine.below.union(&entry.below);
        }
        result
    }

    /// What of `self` `keep` wants, given whether a path is in `self` and in `other`.
    fn combine(&self, other: &FieldSet, keep_in_both: bool) -> FieldSet {
        let nothing = Entry::default();
        let mut entries = BTreeMap::new();
        for (element, entry) in &self.entries {
            let theirs = other.entries.get(element).unwrap_or(&nothing);
            let member = entry.member && theirs.member == keep_in_both;
            let below = entry.below.combine(&theirs.below, keep_in_both);
            if member || !below.is_empty() {
                entries.insert(element.clone(), Entry { member, below });
            }
        }
        FieldSet { entries }
    }

    pub(super) fn difference(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, false)
    }

    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, true)
    }

    /// With every path also those that lead to it.
    pub(super) fn with_parents(&self) -> FieldSet {
        let all = |(element, entry): (&String, &Entry)| {
            (element.clone(), Entry { member: true, below: entry.below.with_parents() })
        };
        FieldSet { entries: self.entries.iter().map(all).collect() }
    }

    /// Whether the one-element path is in the set.
    pub(super) fn has(&self, element: &str) -> bool {
        self.entries.get(element).is_some_and(|entry| entry.member)
    }

    /// The paths below an element.
    pub(super) fn below(&self, element: &str) -> Option<&FieldSet> {
        self.entries.get(element).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    /// All paths as messages show them, in order: `.spec.ports[name="h"].port`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect(&mut String::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut String, paths: &mut Vec<String>) {
        for (element, entry) in &self.entries {
            let length = prefix.len();
            prefix.push_str(&shown(element));
            if entry.member {
                paths.push(prefix.clone());
            }
            entry.below.collect(prefix, paths);
            prefix.truncate(length);
        }
    }
}

/// An element as messages show it.
pub(super) fn shown(element: &str) -> String {
    let Some((kind, rest)) = element.split_once(':') else { return element.to_owned() };
    match kind {
        "f" => format!(".{rest}"),
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        "v" => format!("[={rest}]"),
        _ => format!("[{rest}]"),
    }
}
