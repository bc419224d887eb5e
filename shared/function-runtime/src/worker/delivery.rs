//! A message in hand, and what can be said to the server about it.

use std::time::Duration;

use async_nats::jetstream::{self, AckKind};
use async_nats::{Client, Message, Subject};
use bytes::Bytes;
use jiff::Timestamp;
use weir_messages::{DecodeError, Envelope, Lane};

use crate::queue::{Error, Queue};

/// What tells one delivery of a message from others, and where its acknowledgement goes.
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    pub(super) reply: Subject,
    /// The message's sequence in the stream.
    pub(super) sequence: u64,
    /// How often it has been delivered, this time included.
    pub(super) delivered: u64,
    /// When it was stored.
    pub(super) published: Option<Timestamp>,
}

/// Work in hand.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) receipt: Receipt,
    pub(super) lane: Lane,
    pub(super) envelope: Envelope,
}

impl Receipt {
    /// Reads the receipt of a message; `None` if it is none of JetStream's.
    pub(super) fn of(queue: &Queue, message: &Message) -> Option<Self> {
        let reply = message.reply.clone()?;
        let message = jetstream::Message { message: message.clone(), context: queue.jetstream().clone() };
        let info = message.info().ok()?;
        Some(Self {
            reply,
            sequence: info.stream_sequence,
            delivered: u64::try_from(info.delivered).unwrap_or(1),
            published: Timestamp::from_nanosecond(info.published.unix_timestamp_nanos()).ok(),
        })
    }

    /// Acknowledges and waits until the server has confirmed it.
    pub(super) async fn acknowledge(&self, client: &Client) -> Result<(), Error> {
        let what = || "an acknowledgement".to_owned();
        let request = client.request(self.reply.clone(), Bytes::from(AckKind::Ack));
        match tokio::time::timeout(Duration::from_secs(5), request).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Error::Refused { what: what(), reason: error.to_string() }),
            Err(_) => Err(Error::TimedOut { what: what() }),
        }
    }

    /// Says something to the server without waiting for an answer. If it is lost, the message comes back a little later.
    pub(super) async fn say(&self, client: &Client, kind: AckKind) {
        if let Err(error) = client.publish(self.reply.clone(), Bytes::from(kind)).await {
            tracing::debug!(%error, "an acknowledgement could not be sent");
        }
    }

    /// Gives the message back, to be delivered again after `delay`.
    pub(super) async fn give_back(&self, client: &Client, delay: Option<Duration>) {
        self.say(client, AckKind::Nak(delay)).await;
    }
}

impl Delivery {
    /// Decodes a message.
    pub(super) fn decode(message: &Message, receipt: &Receipt) -> Result<Self, DecodeError> {
        let headers = message.headers.as_ref();
        let header = |name: &str| headers.and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str);
        let (lane, envelope) = Envelope::decode_on(&message.subject, header, &message.payload)?;
        Ok(Self { receipt: receipt.clone(), lane, envelope })
    }
}
