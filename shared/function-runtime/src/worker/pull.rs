//! Pulling the messages of one lane.
//!
//! Intention: ask for as many messages as could be begun now, once, and wait. A request stands until it is used up or has
//! expired, so an idle worker costs a request in half a minute, and a message that comes starts without a round trip.
//!
//! Invariant: at most one request stands per lane, and none is made while messages of the lane wait to be begun.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use async_nats::{Message, StatusCode, Subscriber};
use serde_json::json;
use weir_api::{Kind, ObjectRef};
use weir_messages::{DecodeError, Lane};

use super::delivery::{Delivery, Receipt};
use crate::queue::{self, Queue, WORK};

/// How long a request stands.
const EXPIRES: Duration = Duration::from_secs(30);
/// How often the server says that a request still stands.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A request of which nothing was heard for this long stands no more.
const SILENCE: Duration = Duration::from_secs(12);
/// The most that is asked for at once.
const BATCH: usize = 64;

pub(super) struct Puller {
    queue: Queue,
    subject: String,
    inbox: String,
    subscriber: Subscriber,
    standing: Option<Request>,
    requests: u64,
    /// Messages that wait to be begun, and since when.
    pub(super) ready: VecDeque<(Delivery, Instant)>,
}

struct Request {
    number: u64,
    left: usize,
    heard: Instant,
}

/// What came on a lane.
pub(super) enum Event {
    /// A message.
    Message(Box<Delivery>),
    /// A message that cannot be understood.
    Hopeless(Box<(Message, Receipt, DecodeError)>),
    /// The consumer is not there, or not for us: see to it before asking again.
    Trouble(String),
    /// Nothing of interest.
    Quiet,
}

impl Puller {
    pub(super) async fn new(queue: &Queue, kind: Kind, lane: Lane) -> Result<Self, queue::Error> {
        let inbox = queue.client().new_inbox();
        let subscriber = queue
            .client()
            .subscribe(format!("{inbox}.*"))
            .await
            .map_err(|error| queue::Error::Refused { what: "a subscription".to_owned(), reason: error.to_string() })?;
        // The context's own prefix cannot be asked for; Weir uses no JetStream domain.
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{WORK}.{}", queue::consumer_name(kind, lane));
        Ok(Self {
            queue: queue.clone(),
            subject,
            inbox,
            subscriber,
            standing: None,
            requests: 0,
            ready: VecDeque::new(),
        })
    }

    /// Asks for up to `room` messages, unless a request stands or messages wait already.
    pub(super) async fn ask(&mut self, room: usize) {
        if room == 0 || self.standing.is_some() || !self.ready.is_empty() {
            return;
        }
        let batch = room.min(BATCH);
        let request = json!({
            "batch": batch,
            "expires": u64::try_from(EXPIRES.as_nanos()).unwrap_or_default(),
            "idle_heartbeat": u64::try_from(HEARTBEAT.as_nanos()).unwrap_or_default()
        });
        self.requests += 1;
        let reply = format!("{}.{}", self.inbox, self.requests);
        let sent =
            self.queue.client().publish_with_reply(self.subject.clone(), reply, request.to_string().into()).await;
        match sent {
            Ok(()) => self.standing = Some(Request { number: self.requests, left: batch, heard: Instant::now() }),
            Err(error) => tracing::debug!(%error, "cannot ask for messages"),
        }
    }

    /// The next message or status on this lane; `None` when the connection has been closed for good.
    pub(super) async fn receive(&mut self) -> Option<Message> {
        use futures::StreamExt;
        self.subscriber.next().await
    }

    /// Makes sense of what [`receive`](Self::receive) has returned.
    pub(super) fn understand(&mut self, message: Message) -> Event {
        let number = message.subject.rsplit('.').next().and_then(|number| number.parse::<u64>().ok());
        let of_standing = self.standing.as_ref().is_some_and(|request| Some(request.number) == number);
        match message.status {
            None | Some(StatusCode::OK) => {
                // A message comes under its own subject and does not say which request it answers. If it was an earlier
                // one, a few more are asked for than there is room for; they go back.
                if let Some(request) = &mut self.standing {
                    request.left -= 1;
                    request.heard = Instant::now();
                    if request.left == 0 {
                        self.standing = None;
                    }
                }
                self.decode(message)
            }
            Some(StatusCode::IDLE_HEARTBEAT) => {
                if of_standing && let Some(request) = &mut self.standing {
                    request.heard = Instant::now();
                }
                Event::Quiet
            }
            // The end of an earlier request is no news.
            Some(_) if !of_standing => Event::Quiet,
            Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => {
                self.standing = None;
                Event::Quiet
            }
            Some(status) => {
                self.standing = None;
                let words = message.description.unwrap_or_default();
                Event::Trouble(format!("{status} {}", words.trim()))
            }
        }
    }

    fn decode(&self, mut message: Message) -> Event {
        let Some(receipt) = Receipt::of(&self.queue, &message) else {
            // Somebody wrote to this process's inbox. It is not JetStream, so nothing is owed.
            return Event::Quiet;
        };
        match Delivery::decode(&message, &receipt) {
            Ok(delivery) => Event::Message(Box::new(delivery)),
            Err(error) => {
                message.reply = None;
                Event::Hopeless(Box::new((message, receipt, error)))
            }
        }
    }

    /// Forgets the request that stands: whom it was made to is gone.
    pub(super) fn forget(&mut self) {
        self.standing = None;
    }

    /// Forgets a request of which nothing has been heard for too long, and says so.
    pub(super) fn is_silent(&mut self) -> bool {
        let silent = self.standing.as_ref().is_some_and(|request| request.heard.elapsed() > SILENCE);
        if silent {
            self.standing = None;
        }
        silent
    }

    /// Takes out whatever waits for `object`.
    pub(super) fn take_for(&mut self, object: &ObjectRef, into: &mut Vec<Delivery>) {
        let mut index = 0;
        while let Some((delivery, _)) = self.ready.get(index) {
            if delivery.envelope.work.object == *object {
                into.extend(self.ready.remove(index).map(|(delivery, _)| delivery));
            } else {
                index += 1;
            }
        }
    }

    /// Stops listening, and returns what has come until then.
    pub(super) async fn close(mut self) -> Vec<Receipt> {
        let mut receipts: Vec<Receipt> = self.ready.drain(..).map(|(delivery, _)| delivery.receipt).collect();
        let _ = self.subscriber.unsubscribe().await;
        let rest = async {
            let mut rest = Vec::new();
            while let Some(message) = self.receive().await {
                rest.extend(Receipt::of(&self.queue, &message));
            }
            rest
        };
        receipts.extend(tokio::time::timeout(Duration::from_millis(500), rest).await.unwrap_or_default());
        receipts
    }
}
