//! An insertion-ordered table with an index by link.
//!
//! A row names what it hangs on through [`Row::links`] (`project:…`, `network:…`, `device:…`), so that "the ports of
//! this network" or "the servers of this project" never scans the others. Rows change only through [`Table::update`],
//! which keeps the index true. On disk a table is the list of its rows; the index is built again at load.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a table needs to know of a row.
pub(crate) trait Row {
    /// The unique id.
    fn id(&self) -> &str;
    /// What the row can be found by, as `kind:id`.
    fn links(&self) -> Vec<String>;
}

#[derive(Debug, Clone)]
pub(crate) struct Table<T> {
    rows: BTreeMap<u64, T>,
    ids: HashMap<String, u64>,
    links: HashMap<String, BTreeSet<u64>>,
    next: u64,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), ids: HashMap::new(), links: HashMap::new(), next: 0 }
    }
}

impl<T: Row> Table<T> {
    /// Adds a row; one of the same id is replaced.
    pub fn insert(&mut self, row: T) {
        self.remove(row.id().to_owned().as_str());
        let seq = self.next;
        self.next += 1;
        self.ids.insert(row.id().to_owned(), seq);
        self.link(seq, row.links());
        self.rows.insert(seq, row);
    }

    pub fn get(&self, id: &str) -> Option<&T> {
        self.ids.get(id).and_then(|seq| self.rows.get(seq))
    }

    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains_key(id)
    }

    /// Changes a row in place; `None` when there is none.
    pub fn update<R>(&mut self, id: &str, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let seq = *self.ids.get(id)?;
        let row = self.rows.get_mut(&seq)?;
        let before = row.links();
        let result = change(row);
        let after = row.links();
        if before != after {
            self.unlink(seq, before);
            self.link(seq, after);
        }
        Some(result)
    }

    pub fn remove(&mut self, id: &str) -> Option<T> {
        let seq = self.ids.remove(id)?;
        let row = self.rows.remove(&seq)?;
        self.unlink(seq, row.links());
        Some(row)
    }

    /// All rows, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.rows.values()
    }

    /// The rows under one link, oldest first.
    pub fn linked<'a>(&'a self, link: &str) -> impl DoubleEndedIterator<Item = &'a T> + use<'a, T> {
        self.links.get(link).into_iter().flatten().filter_map(|seq| self.rows.get(seq))
    }

    /// How many rows are under one link.
    pub fn count(&self, link: &str) -> usize {
        self.links.get(link).map_or(0, BTreeSet::len)
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    fn link(&mut self, seq: u64, links: Vec<String>) {
        for link in links {
            self.links.entry(link).or_default().insert(seq);
        }
    }

    fn unlink(&mut self, seq: u64, links: Vec<String>) {
        for link in links {
            if let Some(set) = self.links.get_mut(&link) {
                set.remove(&seq);
                if set.is_empty() {
                    self.links.remove(&link);
                }
            }
        }
    }
}

impl<T: Serialize> Serialize for Table<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.values())
    }
}

impl<'de, T: Row + Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = Self::default();
        for row in Vec::<T>::deserialize(deserializer)? {
            table.insert(row);
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Item(&'static str, String);
    impl Row for Item {
        fn id(&self) -> &str {
            self.0
        }
        fn links(&self) -> Vec<String> {
            vec![self.1.clone()]
        }
    }

    #[test]
    fn a_row_is_found_by_what_it_links_to_now_not_by_what_it_linked_to_before() {
        let mut table = Table::default();
        table.insert(Item("1", "a".into()));
        table.insert(Item("2", "a".into()));
        table.update("1", |row| row.1 = "b".into());
        assert_eq!(table.linked("a").map(Row::id).collect::<Vec<_>>(), ["2"]);
        assert_eq!(table.linked("b").map(Row::id).collect::<Vec<_>>(), ["1"]);
        table.remove("2");
        assert_eq!(table.count("a"), 0);
    }
}
