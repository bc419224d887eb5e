#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;

use super::*;

fn object(name: &str, n: i64) -> Value {
    json!({"metadata": {"namespace": "d", "name": name, "uid": format!("uid-{name}")}, "n": n})
}

fn table() -> TableName {
    "things".into()
}

fn names(snapshot: &Snapshot) -> Vec<(String, i64)> {
    snapshot.items.iter().map(|o| (o.name().to_owned(), o.value()["n"].as_i64().unwrap())).collect()
}

#[test]
fn a_past_revision_is_read_as_it_was() {
    let store = Store::open(None, 100).unwrap();
    let a = store.create(&table(), Order::Sorted, object("a", 1)).unwrap();
    store.create(&table(), Order::Sorted, object("b", 1)).unwrap();
    let then = store.revision();
    store.update(&table(), a.revision(), object("a", 2)).unwrap();
    let b = store.get(&table(), &Key::new("d", "b")).unwrap();
    store.delete(&table(), &Key::new("d", "b"), b.revision()).unwrap();
    store.create(&table(), Order::Sorted, object("c", 1)).unwrap();
    assert_eq!(names(&store.list(&table(), None)), [("a".into(), 2), ("c".into(), 1)]);
    assert_eq!(names(&store.list_at(&table(), None, then).unwrap()), [("a".into(), 1), ("b".into(), 1)]);
    assert_eq!(names(&store.list_at(&table(), None, then - 1).unwrap()), [("a".into(), 1)]);
    assert!(store.list_at(&table(), None, 1).is_err());
}

#[test]
fn a_write_at_an_old_revision_is_refused_and_changes_nothing() {
    let store = Store::open(None, 100).unwrap();
    let first = store.create(&table(), Order::Sorted, object("a", 1)).unwrap();
    store.update(&table(), first.revision(), object("a", 2)).unwrap();
    let revision = store.revision();
    assert_eq!(store.update(&table(), first.revision(), object("a", 3)).unwrap_err(), Refused::Moved);
    assert_eq!(store.delete(&table(), &Key::new("d", "a"), first.revision()).unwrap_err(), Refused::Moved);
    assert_eq!(
        store.create(&table(), Order::Sorted, object("a", 3)).unwrap_err(),
        Refused::Exists { being_deleted: false }
    );
    assert_eq!(store.revision(), revision);
}

#[test]
fn readers_of_the_log_fall_behind_only_when_history_runs_out() {
    let store = Store::open(None, 2).unwrap();
    let mut revision = store.create(&table(), Order::Sorted, object("a", 0)).unwrap().revision();
    let start = revision;
    for n in 1..3 {
        revision = store.update(&table(), revision, object("a", n)).unwrap().revision();
    }
    let (events, reached) = store.events_after(&table(), start, 10).unwrap();
    assert_eq!((events.len(), reached), (2, revision));
    store.update(&table(), revision, object("a", 3)).unwrap();
    assert!(store.events_after(&table(), start, 10).is_err());
}

#[test]
fn a_snapshot_and_the_journal_after_it_give_the_same_state() {
    let dir = tempfile::tempdir().unwrap();
    let before = {
        let store = Store::open(Some(dir.path()), 100).unwrap();
        let a = store.create(&table(), Order::Sorted, object("a", 1)).unwrap();
        store.create(&table(), Order::Sorted, object("b", 1)).unwrap();
        {
            let mut inner = store.lock();
            let records: Vec<Record> = inner.tables[&table()]
                .objects
                .iter()
                .map(|(key, o)| Record {
                    revision: o.revision(),
                    table: "things".into(),
                    sorted: true,
                    key: key.clone(),
                    value: Some(o.value().clone()),
                })
                .collect();
            let revision = inner.revision;
            inner.journal.as_mut().unwrap().snapshot(revision, records.into_iter()).unwrap();
        }
        store.update(&table(), a.revision(), object("a", 2)).unwrap();
        (store.revision(), names(&store.list(&table(), None)))
    };
    let store = Store::open(Some(dir.path()), 100).unwrap();
    assert_eq!((store.revision(), names(&store.list(&table(), None))), before);
    let floor = before.0 - 1;
    assert_eq!(store.events_after(&table(), floor, 10).unwrap().0.len(), 1, "the journal's changes can be watched");
    assert!(store.events_after(&table(), floor - 1, 10).is_err(), "what the snapshot swallowed cannot");
}
