//! Pulling the messages of one lane.
//!
//! Intention: ask for as many messages as could be begun now, once, and wait. A request stands until it is used up or has
//! expired, so an idle worker costs a request in half a minute, and a message that comes starts without a round trip.
//! Before it waits, a lane is asked for what it has at once: only the answer to that tells an empty lane from a slow
//! answer, and a routine message may go only when there is no urgent one.
//!
//! Invariant: at most one request is open per lane, and none is made while messages of the lane wait to be begun.

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
/// How long *there is nothing at once* is believed.
const FRESH: Duration = Duration::from_millis(20);
/// The most that is asked for at once.
const BATCH: usize = 64;

pub(super) struct Puller {
    queue: Queue,
    subject: String,
    inbox: String,
    subscriber: Subscriber,
    open: Option<Request>,
    requests: u64,
    /// The lane had nothing at once, for so many messages as there was room for, and when that was: wait for them.
    dry: Option<(usize, Instant)>,
    /// Messages that wait to be begun, and since when.
    pub(super) ready: VecDeque<(Delivery, Instant)>,
}

struct Request {
    number: u64,
    left: usize,
    heard: Instant,
    /// It stands until messages come, instead of asking for what is there at once.
    waits: bool,
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
            open: None,
            requests: 0,
            dry: None,
            ready: VecDeque::new(),
        })
    }

    /// Asks for up to `room` messages, unless a request is open or messages wait already.
    pub(super) async fn ask(&mut self, room: usize) {
        // That there was nothing is soon old news.
        self.dry = self.dry.filter(|(_, since)| since.elapsed() < FRESH);
        let waits = self.dry.is_some();
        let room = self.dry.map_or(room, |(dry, _)| dry.min(room));
        if room == 0 || self.open.is_some() || !self.ready.is_empty() {
            return;
        }
        self.dry = None;
        let batch = room.min(BATCH);
        let request = if waits {
            json!({ "batch": batch, "expires": nanos(EXPIRES), "idle_heartbeat": nanos(HEARTBEAT) })
        } else {
            json!({ "batch": batch, "no_wait": true })
        };
        self.requests += 1;
        let reply = format!("{}.{}", self.inbox, self.requests);
        let sent =
            self.queue.client().publish_with_reply(self.subject.clone(), reply, request.to_string().into()).await;
        match sent {
            Ok(()) => {
                self.open = Some(Request { number: self.requests, left: batch, heard: Instant::now(), waits });
            }
            Err(error) => tracing::debug!(%error, "cannot ask for messages"),
        }
    }

    /// Whether the lane is known to have nothing for us just now.
    pub(super) fn is_dry(&self) -> bool {
        self.ready.is_empty()
            && (self.dry.is_some_and(|(_, since)| since.elapsed() < FRESH)
                || self.open.as_ref().is_some_and(|request| request.waits))
    }

    /// The next message or status on this lane; `None` when the connection has been closed for good.
    pub(super) async fn receive(&mut self) -> Option<Message> {
        use futures::StreamExt;
        self.subscriber.next().await
    }

    /// Makes sense of what [`receive`](Self::receive) has returned.
    pub(super) fn understand(&mut self, message: Message) -> Event {
        if matches!(message.status, None | Some(StatusCode::OK)) {
            // A message comes under its own subject and does not say which request it answers. If it was an earlier
            // one, a few more are asked for than there is room for; they go back.
            if let Some(request) = &mut self.open {
                request.left -= 1;
                request.heard = Instant::now();
                if request.left == 0 {
                    self.open = None;
                }
            }
            return self.decode(message);
        }
        let number = message.subject.rsplit('.').next().and_then(|number| number.parse::<u64>().ok());
        let Some(request) = self.open.as_mut().filter(|request| Some(request.number) == number) else {
            // The end of an earlier request is no news.
            return Event::Quiet;
        };
        let (waits, left) = (request.waits, request.left);
        let words = message.description.unwrap_or_default();
        match message.status {
            Some(StatusCode::IDLE_HEARTBEAT) => request.heard = Instant::now(),
            Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => {
                self.open = None;
                self.dry = (!waits).then(|| (left, Instant::now()));
            }
            // So many are in hand over all processes that there are no more for now.
            Some(StatusCode::REQUEST_TERMINATED) if !waits && words.contains("MaxAckPending") => {
                self.open = None;
                self.dry = Some((left, Instant::now()));
            }
            status => {
                self.open = None;
                self.dry = None;
                let status = status.map(|status| status.to_string()).unwrap_or_default();
                return Event::Trouble(format!("{status} {}", words.trim()));
            }
        }
        Event::Quiet
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

    /// Forgets the request that is open: whom it was made to is gone.
    pub(super) fn forget(&mut self) {
        self.open = None;
        self.dry = None;
    }

    /// Forgets a request of which nothing has been heard for too long, and says so.
    pub(super) fn is_silent(&mut self) -> bool {
        let silent = self.open.as_ref().is_some_and(|request| request.heard.elapsed() > SILENCE);
        if silent {
            self.forget();
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

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
