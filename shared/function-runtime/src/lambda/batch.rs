//! A batch of SQS: which records are worked on together, in which order, and which are reported as failed (L-2).
//!
//! Invariants
//! - Records of one message group are worked on in their order. After the first that fails, the others of its group are not
//!   begun and are reported as failed with it, as a FIFO queue demands; so nothing that was done is done again.
//! - Groups have nothing to do with each other and are worked on side by side.
//! - Records for one object that follow each other in their group share a call, and its fate.

use std::collections::HashMap;

use async_nats::HeaderMap;
use futures::StreamExt;
use serde_json::{Value, json};
use weir_messages::Envelope;

use super::event::Record;
use super::time::Limits;
use super::{Failure, Lambda};
use crate::queue::{Found, Reason};

impl Lambda {
    /// Works on a batch, and returns the answer that tells SQS which records to deliver again.
    pub(super) async fn batch(&self, records: Vec<Record>, limits: Limits) -> Value {
        let order: Vec<String> = records.iter().map(|record| record.id.clone()).collect();
        let groups = futures::stream::iter(groups(records));
        let concurrency = usize::from(self.settings.concurrency);
        let failed: Vec<String> = groups
            .map(|group| self.work_off(group, limits))
            .buffer_unordered(concurrency)
            .flat_map(futures::stream::iter)
            .collect()
            .await;
        tracing::info!(records = order.len(), failed = failed.len(), "batch done");
        let failures = order.iter().filter(|id| failed.contains(id)).map(|id| json!({ "itemIdentifier": id }));
        json!({ "batchItemFailures": failures.collect::<Vec<_>>() })
    }

    /// Works on the records of a group and returns those that are not done.
    async fn work_off(&self, group: Vec<Record>, limits: Limits) -> Vec<String> {
        let mut done = 0;
        let work = async {
            while done < group.len() {
                let together = together(&group[done..]);
                self.work_on(together, limits).await?;
                done += together.len();
            }
            Ok(())
        };
        if let Err(failure) = tokio::time::timeout_at(limits.answer.into(), work).await.unwrap_or(Err(Failure::TimeUp))
        {
            let object = group.get(done).and_then(Record::object).map(ToString::to_string);
            tracing::warn!(object, held_up = group.len() - done, %failure, "to be delivered again");
        }
        group.into_iter().skip(done).map(|record| record.id).collect()
    }

    /// Works on records that belong together: one that cannot be used, or all that share a call.
    async fn work_on(&self, records: &[Record], limits: Limits) -> Result<(), Failure> {
        let Some(first) = records.first() else { return Ok(()) };
        let unusable = match &first.content {
            Ok(envelope) => self.check_kind(envelope).err(),
            Err(error) => Some(error.clone().into()),
        };
        if let Some(failure) = unusable {
            // All of them, since they are about the same object.
            for record in records {
                self.bury(record, &failure).await?;
            }
            return Ok(());
        }
        let envelopes: Vec<&Envelope> = records.iter().filter_map(|record| record.content.as_ref().ok()).collect();
        self.call(&envelopes, limits).await.map(|_| ())
    }

    async fn bury(&self, record: &Record, failure: &Failure) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        for (name, value) in &record.raw.headers {
            headers.insert(name.as_str(), weir_messages::dead::clean(value));
        }
        let subject = record.subject();
        let found = Found {
            subject: &subject,
            headers: Some(&headers),
            payload: &record.raw.payload,
            sequence: 0,
            // SQS may deliver it again, if the answer is lost.
            once: Some(format!("sqs/{}", record.id)).filter(|id| id.len() <= 100 && id.is_ascii()),
        };
        let reason = Reason { token: failure.token(), detail: format!("{failure} (SQS message {})", record.id) };
        Ok(self.queue.bury(found, &reason).await?)
    }
}

/// The records by message group, groups in the order of their first record. Without a message group, in a queue that keeps
/// no order, those for one object belong together.
fn groups(records: Vec<Record>) -> Vec<Vec<Record>> {
    let mut groups: Vec<Vec<Record>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for record in records {
        let key = match (&record.group, record.object()) {
            (Some(group), _) => format!("group {group}"),
            (None, Some(object)) => format!("object {object}"),
            (None, None) => format!("message {}", record.id),
        };
        if let Some(&place) = places.get(&key) {
            groups[place].push(record);
        } else {
            places.insert(key, groups.len());
            groups.push(vec![record]);
        }
    }
    groups
}

/// The first record and those that follow it and are about the same object.
fn together(records: &[Record]) -> &[Record] {
    let object = records.first().and_then(Record::object);
    let same = |record: &&Record| object.is_some() && record.object() == object;
    let more = records.iter().skip(1).take_while(same).count();
    &records[..(1 + more).min(records.len())]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::super::event::Invocation;
    use super::*;

    fn record(id: &str, group: Option<&str>, object: Option<&str>) -> Value {
        let body = match object {
            Some(name) => json!({"specversion": "1.0", "id": id, "source": "/test", "type": "weir.work.v1",
                "data": {"object": {"kind": "server", "namespace": "ns", "name": name}, "cause": "changed"}})
            .to_string(),
            None => "not JSON".to_owned(),
        };
        let attributes = group.map_or(json!({}), |group| json!({"MessageGroupId": group}));
        json!({"messageId": id, "eventSource": "aws:sqs", "body": body, "attributes": attributes, "messageAttributes": {}})
    }

    fn read(records: &[Value]) -> Vec<Record> {
        match Invocation::read(json!({ "Records": records })) {
            Ok(Invocation::Batch(records)) => records,
            other => panic!("{other:?}"),
        }
    }

    fn ids(records: &[Record]) -> Vec<&str> {
        records.iter().map(|record| record.id.as_str()).collect()
    }

    /// Proves: L-2
    #[test]
    fn records_keep_their_order_within_a_message_group_and_share_calls_only_with_their_neighbours() {
        let records = read(&[
            record("1", Some("a"), Some("x")),
            record("2", Some("b"), Some("z")),
            record("3", Some("a"), Some("x")),
            record("4", Some("a"), Some("y")),
            record("5", Some("a"), Some("x")),
        ]);
        let groups = groups(records);
        assert_eq!(groups.iter().map(|group| ids(group)).collect::<Vec<_>>(), [vec!["1", "3", "4", "5"], vec!["2"]]);
        assert_eq!(ids(together(&groups[0])), ["1", "3"], "two in a row");
        assert_eq!(ids(together(&groups[0][2..])), ["4"]);
        assert_eq!(ids(together(&groups[0][3..])), ["5"], "not together with what came before another object");
    }

    #[test]
    fn in_a_queue_without_order_records_for_one_object_belong_together_and_bad_ones_stand_alone() {
        let records = read(&[
            record("1", None, Some("x")),
            record("2", None, None),
            record("3", None, Some("x")),
            record("4", None, None),
        ]);
        let groups = groups(records);
        assert_eq!(groups.iter().map(|group| ids(group)).collect::<Vec<_>>(), [vec!["1", "3"], vec!["2"], vec!["4"]]);
        assert_eq!(ids(together(&groups[1])), ["2"]);
    }

    #[test]
    fn bad_records_of_one_group_are_never_taken_together() {
        let records = read(&[record("1", Some("a"), None), record("2", Some("a"), None)]);
        let groups = groups(records);
        assert_eq!(ids(together(&groups[0])), ["1"]);
    }
}
