//! How much waits on the queue for servers, as the queue's server tells.

use serde_json::{Value, json};
use weir_api::Kind;
use weir_function_runtime::queue::{Queue, WORK, consumer_name};
use weir_messages::Lane;

/// Messages of both lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Not given to anybody yet.
    pub waiting: u64,
    /// Given to somebody and not acknowledged.
    pub in_hand: u64,
}

impl Backlog {
    /// Nothing waits, nothing is in hand.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// What waits for the function of servers.
pub async fn backlog(queue: &Queue) -> anyhow::Result<Backlog> {
    let mut sum = Backlog::default();
    for lane in Lane::ALL {
        let subject = format!("$JS.API.CONSUMER.INFO.{WORK}.{}", consumer_name(Kind::Server, lane));
        let answer = queue.client().request(subject, json!({}).to_string().into()).await?;
        let info: Value = serde_json::from_slice(&answer.payload)?;
        let count = |key: &str| info[key].as_u64().ok_or_else(|| anyhow::anyhow!("no {key} in {info}"));
        sum.waiting += count("num_pending")?;
        sum.in_hand += count("num_ack_pending")?;
    }
    Ok(sum)
}
