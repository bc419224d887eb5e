//! The store: one revision counter, one table per resource, one event log per table.
//!
//! **Intention.** What etcd and the watch cache do for a real API server: linearizable reads and writes, compare-and-swap by resource
//! version, snapshots at a past revision, and watches that resume from any revision still in the log.
//!
//! **Invariants.** The revision only rises, also over a restart. An event is in the log (and in the journal, if there is one) before any
//! watcher can see it. Watchers hold a cursor, not a copy: the log is shared, and bounded; below its floor a watch is told 410.
//!
//! **Caveats.** Everything is in memory. The lock is a plain mutex, held for single steps only and never across an await.

mod journal;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{Notify, watch};

use crate::object::{self, Object};
use crate::wire::Order;
pub use journal::Error as JournalError;
use journal::{Journal, Record};

/// Revisions begin above this, so that a watch from 1 is too old, as it is on every real cluster.
pub const FIRST_REVISION: u64 = 100;

/// Where an object lives inside its table. Ordered by namespace, then name, as lists are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Key { namespace: namespace.into(), name: name.into() }
    }

    pub fn of(value: &Value) -> Self {
        Key::new(object::meta_str(value, "namespace"), object::meta_str(value, "name"))
    }
}

/// Names a table: the storage identity of a resource, e.g. `widgets.demo.weir.dev`. Versions of one resource share a table.
pub type TableName = Arc<str>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// One step of a table's history.
#[derive(Debug, Clone)]
pub struct Event {
    pub revision: u64,
    pub change: Change,
    /// The object after the change; for a deletion the last state under the deletion's revision.
    pub object: Arc<Object>,
    /// The object before the change.
    pub previous: Option<Arc<Object>>,
}

/// Why a commit did not happen.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// A create found the name taken.
    Exists { being_deleted: bool },
    /// The object is not at the expected revision (or is gone).
    Moved,
    /// The journal could not be written: nothing has changed.
    Journal(String),
}

/// A past revision that the log no longer reaches.
#[derive(Debug, PartialEq, Eq)]
pub struct Compacted {
    pub floor: u64,
}

/// What a garbage collector has to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Work {
    /// An object with this uid went away: its dependents may have to follow, its owners may be waiting.
    Gone { uid: String, owners: Vec<String> },
    /// An object that has owners, or waits for its deletion, has been written.
    Check { table: TableName, key: Key },
}

struct Table {
    order: Order,
    objects: BTreeMap<Key, Arc<Object>>,
    log: VecDeque<Event>,
    floor: u64,
    news: watch::Sender<u64>,
}

impl Table {
    fn new(order: Order, floor: u64) -> Self {
        Table { order, objects: BTreeMap::new(), log: VecDeque::new(), floor, news: watch::Sender::new(floor) }
    }
}

struct Inner {
    revision: u64,
    /// The floor of new tables: what a loaded snapshot does not know.
    base: u64,
    tables: HashMap<TableName, Table>,
    uids: HashMap<String, (TableName, Key)>,
    dependents: HashMap<String, HashSet<(TableName, Key)>>,
    work: VecDeque<Work>,
    journal: Option<Journal>,
    /// The server has stopped: nothing may be written any more.
    closed: bool,
    history: usize,
}

/// See the module's documentation.
pub struct Store {
    inner: Mutex<Inner>,
    work_ready: Notify,
}

/// A consistent view of a table.
pub struct Snapshot {
    pub revision: u64,
    pub items: Vec<Arc<Object>>,
}

impl Store {
    /// An empty store, or the one found in `data`. `history`: events kept per table.
    pub fn open(data: Option<&Path>, history: usize) -> Result<Store, JournalError> {
        let mut inner = Inner {
            revision: FIRST_REVISION,
            base: FIRST_REVISION,
            tables: HashMap::new(),
            uids: HashMap::new(),
            dependents: HashMap::new(),
            work: VecDeque::new(),
            journal: None,
            closed: false,
            history: history.max(1),
        };
        if let Some(dir) = data {
            let found = Journal::open(dir)?;
            for record in found.snapshot {
                inner.replay(record);
            }
            // What led to the snapshot is forgotten: older watches have to list again.
            inner.revision = inner.revision.max(found.snapshot_revision);
            inner.base = inner.revision;
            for table in inner.tables.values_mut() {
                table.log.clear();
                table.floor = inner.base;
            }
            for record in found.changes {
                inner.replay(record);
            }
            inner.journal = Some(found.journal);
            inner.work.clear();
            let pending: Vec<Work> = inner
                .tables
                .iter()
                .flat_map(|(name, table)| table.objects.iter().map(move |(key, object)| (name, key, object)))
                .filter(|(_, _, object)| object.is_deleting() || !object.owners().is_empty())
                .map(|(table, key, _)| Work::Check { table: table.clone(), key: key.clone() })
                .collect();
            inner.work.extend(pending);
        }
        Ok(Store { inner: Mutex::new(inner), work_ready: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock is held is a bug elsewhere; the data is still consistent, since changes are made after all checks.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all writing and gives the data folder free, for whoever opens it next. Requests that are still under way fail.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.journal = None;
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub fn get(&self, table: &TableName, key: &Key) -> Option<Arc<Object>> {
        self.lock().tables.get(table)?.objects.get(key).cloned()
    }

    /// Stores a new object.
    pub fn create(&self, table: &TableName, order: Order, value: Value) -> Result<Arc<Object>, Refused> {
        let key = Key::of(&value);
        let mut inner = self.lock();
        if let Some(found) = inner.tables.get(table).and_then(|t| t.objects.get(&key)) {
            return Err(Refused::Exists { being_deleted: found.is_deleting() });
        }
        let object = inner.commit(table, order, key, Change::Added, Some(value))?;
        drop(inner);
        self.work_ready.notify_one();
        Ok(object)
    }

    /// Replaces an object that must be at `expected`.
    pub fn update(&self, table: &TableName, expected: u64, value: Value) -> Result<Arc<Object>, Refused> {
        let key = Key::of(&value);
        let mut inner = self.lock();
        let order = inner.expect(table, &key, expected)?;
        let object = inner.commit(table, order, key, Change::Modified, Some(value))?;
        drop(inner);
        self.work_ready.notify_one();
        Ok(object)
    }

    /// Removes an object that must be at `expected`; answers the deletion's event object.
    pub fn delete(&self, table: &TableName, key: &Key, expected: u64) -> Result<Arc<Object>, Refused> {
        let mut inner = self.lock();
        let order = inner.expect(table, key, expected)?;
        let object = inner.commit(table, order, key.clone(), Change::Deleted, None)?;
        drop(inner);
        self.work_ready.notify_one();
        Ok(object)
    }

    /// All objects of a table (of one namespace, if given), now.
    pub fn list(&self, table: &TableName, namespace: Option<&str>) -> Snapshot {
        let inner = self.lock();
        let items = inner.tables.get(table).map(|t| select(&t.objects, namespace)).unwrap_or_default();
        Snapshot { revision: inner.revision, items }
    }

    /// The same at a past revision.
    pub fn list_at(&self, table: &TableName, namespace: Option<&str>, revision: u64) -> Result<Snapshot, Compacted> {
        let inner = self.lock();
        let Some(t) = inner.tables.get(table) else {
            return if revision < inner.base {
                Err(Compacted { floor: inner.base })
            } else {
                Ok(Snapshot { revision, items: Vec::new() })
            };
        };
        if revision < t.floor {
            return Err(Compacted { floor: t.floor });
        }
        let mut past: BTreeMap<Key, Arc<Object>> = t
            .objects
            .iter()
            .filter(|(k, _)| namespace.is_none_or(|n| n == k.namespace))
            .map(|(k, o)| (k.clone(), o.clone()))
            .collect();
        for event in t.log.iter().rev().take_while(|e| e.revision > revision) {
            let key = Key::of(event.object.value());
            if namespace.is_some_and(|n| n != key.namespace) {
                continue;
            }
            match &event.previous {
                Some(previous) => past.insert(key, previous.clone()),
                None => past.remove(&key),
            };
        }
        Ok(Snapshot { revision, items: past.into_values().collect() })
    }

    /// Up to `limit` events after `cursor`, and the revision up to which the log has now been read.
    pub fn events_after(&self, table: &TableName, cursor: u64, limit: usize) -> Result<(Vec<Event>, u64), Compacted> {
        let inner = self.lock();
        let Some(t) = inner.tables.get(table) else {
            return if cursor < inner.base {
                Err(Compacted { floor: inner.base })
            } else {
                Ok((Vec::new(), inner.revision.max(cursor)))
            };
        };
        if cursor < t.floor {
            return Err(Compacted { floor: t.floor });
        }
        let start = t.log.partition_point(|e| e.revision <= cursor);
        let events: Vec<Event> = t.log.iter().skip(start).take(limit).cloned().collect();
        let reached = match events.last() {
            Some(last) if events.len() == limit => last.revision,
            _ => inner.revision.max(cursor),
        };
        Ok((events, reached))
    }

    /// Wakes on every new event of a table. The table is made if it does not exist.
    pub fn subscribe(&self, table: &TableName, order: Order) -> watch::Receiver<u64> {
        self.lock().table(table, order).news.subscribe()
    }

    /// Ends the subscriptions of a table: its resource is gone. The history stays, for the day the resource comes back.
    pub fn end_subscriptions(&self, table: &TableName) {
        let mut inner = self.lock();
        let revision = inner.revision;
        if let Some(table) = inner.tables.get_mut(table) {
            table.news = watch::Sender::new(revision);
        }
    }

    /// Objects that name `uid` as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<(TableName, Key)> {
        self.lock().dependents.get(uid).map(|s| s.iter().cloned().collect()).unwrap_or_default()
    }

    /// Where the object with this uid is, if it lives.
    pub fn locate(&self, uid: &str) -> Option<(TableName, Key)> {
        self.lock().uids.get(uid).cloned()
    }

    /// The next thing for the garbage collector, without waiting.
    pub fn take_work(&self) -> Option<Work> {
        self.lock().work.pop_front()
    }

    /// Wakes whoever waits for work.
    pub fn wake(&self) {
        self.work_ready.notify_one();
    }

    /// Returns when there may be work.
    pub async fn work_ready(&self) {
        self.work_ready.notified().await;
    }

    /// Number of objects in each table.
    pub fn sizes(&self) -> BTreeMap<TableName, usize> {
        self.lock().tables.iter().map(|(n, t)| (n.clone(), t.objects.len())).collect()
    }
}

fn select(objects: &BTreeMap<Key, Arc<Object>>, namespace: Option<&str>) -> Vec<Arc<Object>> {
    match namespace {
        None => objects.values().cloned().collect(),
        Some(namespace) => objects
            .range(Key::new(namespace, "")..)
            .take_while(|(k, _)| k.namespace == namespace)
            .map(|(_, object)| object.clone())
            .collect(),
    }
}

impl Inner {
    fn table(&mut self, name: &TableName, order: Order) -> &mut Table {
        let floor = self.base;
        self.tables.entry(name.clone()).or_insert_with(|| Table::new(order, floor))
    }

    fn expect(&self, table: &TableName, key: &Key, expected: u64) -> Result<Order, Refused> {
        let table = self.tables.get(table).ok_or(Refused::Moved)?;
        match table.objects.get(key) {
            Some(found) if found.revision() == expected => Ok(table.order),
            _ => Err(Refused::Moved),
        }
    }

    fn commit(
        &mut self,
        name: &TableName,
        order: Order,
        key: Key,
        change: Change,
        value: Option<Value>,
    ) -> Result<Arc<Object>, Refused> {
        if self.closed {
            return Err(Refused::Journal("the server has stopped".into()));
        }
        let revision = self.revision + 1;
        let previous = self.tables.get(name).and_then(|t| t.objects.get(&key)).cloned();
        let object = match (value, &previous) {
            (Some(value), _) => Arc::new(Object::new(value, revision, order)),
            (None, Some(previous)) => Arc::new(previous.at_revision(revision)),
            (None, None) => return Err(Refused::Moved),
        };
        if let Some(journal) = &mut self.journal {
            let record = Record {
                revision,
                table: name.to_string(),
                sorted: order == Order::Sorted,
                key: key.clone(),
                value: (change != Change::Deleted).then(|| object.value().clone()),
            };
            journal.append(&record).map_err(|error| Refused::Journal(error.to_string()))?;
        }
        self.revision = revision;
        self.apply(name, order, key, change, object.clone(), previous);
        self.compact_journal();
        Ok(object)
    }

    fn apply(
        &mut self,
        name: &TableName,
        order: Order,
        key: Key,
        change: Change,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
    ) {
        self.index(name, &key, change, &object, previous.as_deref());
        let history = self.history;
        let table = self.table(name, order);
        if change == Change::Deleted {
            table.objects.remove(&key);
        } else {
            table.objects.insert(key, object.clone());
        }
        let revision = object.revision();
        table.log.push_back(Event { revision, change, object, previous });
        while table.log.len() > history {
            if let Some(dropped) = table.log.pop_front() {
                table.floor = dropped.revision;
            }
        }
        table.news.send_replace(revision);
    }

    fn index(&mut self, name: &TableName, key: &Key, change: Change, object: &Object, previous: Option<&Object>) {
        let place = (name.clone(), key.clone());
        for owner in previous.map(Object::owners).unwrap_or_default() {
            if let Some(set) = self.dependents.get_mut(owner.uid) {
                set.remove(&place);
                if set.is_empty() {
                    self.dependents.remove(owner.uid);
                }
            }
        }
        let owners: Vec<String> = object.owners().iter().map(|o| o.uid.to_owned()).collect();
        if change == Change::Deleted {
            self.uids.remove(object.uid());
            self.work.push_back(Work::Gone { uid: object.uid().to_owned(), owners });
            return;
        }
        self.uids.insert(object.uid().to_owned(), place.clone());
        if !owners.is_empty() || object.is_deleting() {
            self.work.push_back(Work::Check { table: name.clone(), key: key.clone() });
        }
        for uid in owners {
            self.dependents.entry(uid).or_default().insert(place.clone());
        }
    }

    fn replay(&mut self, record: Record) {
        let name: TableName = record.table.into();
        let order = if record.sorted { Order::Sorted } else { Order::Struct };
        let previous = self.tables.get(&name).and_then(|t| t.objects.get(&record.key)).cloned();
        self.revision = self.revision.max(record.revision);
        match (record.value, &previous) {
            (Some(value), _) => {
                let change = if previous.is_some() { Change::Modified } else { Change::Added };
                let object = Arc::new(Object::new(value, record.revision, order));
                self.apply(&name, order, record.key, change, object, previous);
            }
            (None, Some(old)) => {
                let object = Arc::new(old.at_revision(record.revision));
                self.apply(&name, order, record.key, Change::Deleted, object, previous);
            }
            (None, None) => {}
        }
    }

    /// When the journal has grown well beyond what it describes, writes a snapshot and starts it anew. A failure is no harm: the journal
    /// goes on growing.
    fn compact_journal(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        if !journal.wants_snapshot() {
            return;
        }
        let records = self.tables.iter().flat_map(|(name, table)| {
            table.objects.iter().map(move |(key, object)| Record {
                revision: object.revision(),
                table: name.to_string(),
                sorted: table.order == Order::Sorted,
                key: key.clone(),
                value: Some(object.value().clone()),
            })
        });
        if let Err(error) = journal.snapshot(self.revision, records) {
            tracing::warn!(%error, "could not write a snapshot");
        }
    }
}

#[cfg(test)]
mod tests;
