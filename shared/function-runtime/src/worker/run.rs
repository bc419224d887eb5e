//! The worker's loop: pulls, chooses, begins; and stops in good order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use weir_api::Kind;
use weir_messages::Lane;

use super::caller::Caller;
use super::delivery::Receipt;
use super::execute::{Context, drive};
use super::hand::{Hand, Offer};
use super::pull::{Event, Puller};
use super::{Handler, Probe};
use crate::queue::{Error, Found, Queue, Reason};
use crate::settings::Settings;
use crate::telemetry::{self, HEALTH, metrics};

/// After this many urgent calls in a row, a routine one is due. It may have to be fetched first, during one urgent call
/// more; so every eighth call at least is a routine one.
const URGENT_IN_A_ROW: usize = 6;
/// What could not be begun for so long goes back to the server, for another process.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the loop looks after what time brings.
const TICK: Duration = Duration::from_millis(250);
/// How often the server's clock is looked at.
const CLOCK: Duration = Duration::from_secs(60);
/// What a process that stops waits for beyond the grace period.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How the worker calls itself in the process's health.
const HEALTH_PART: &str = "queue";

/// Takes work off the queue and has `handler` look at it, until `stop` is cancelled. Then nothing new is begun, what is in
/// hand is finished within the grace period or handed back, and leases are released.
///
/// Waits for NATS for as long as it takes. Fails only at the start, and only for what no waiting mends: a server too old,
/// a stream that cannot be used, an address that cannot be listened on.
pub async fn run(
    handler: Arc<dyn Handler>,
    queue: Queue,
    settings: &Settings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    run_with(handler, queue, settings, stop, None).await
}

/// [`run`], with a probe at the points of a call.
pub async fn run_with(
    handler: Arc<dyn Handler>,
    queue: Queue,
    settings: &Settings,
    stop: CancellationToken,
    probe: Option<Probe>,
) -> anyhow::Result<()> {
    let serving = CancellationToken::new();
    let _stop_serving = serving.clone().drop_guard();
    HEALTH.not_ready(HEALTH_PART, "not connected to NATS yet");
    if let Some(address) = settings.telemetry.metrics {
        telemetry::serve(address, serving).await?;
    }
    let kind = handler.kind();
    let its_handler = handler.clone();
    let context = Arc::new(Context {
        caller: Caller {
            handler,
            queue: queue.clone(),
            safety_net: settings.worker.safety_net,
            stopping: stop.clone(),
            ending: CancellationToken::new(),
            probe,
        },
        queue: queue.clone(),
        settings: settings.worker.clone(),
        hand: Hand::default(),
        trouble: Notify::new(),
    });
    let worker = Worker {
        kind,
        concurrency: usize::from(settings.worker.concurrency),
        pullers: [Puller::new(&queue, kind, Lane::Urgent).await?, Puller::new(&queue, kind, Lane::Routine).await?],
        calls: JoinSet::new(),
        chores: JoinSet::new(),
        routine_running: 0,
        urgent_in_a_row: 0,
        sweep: None,
        next_sweep: Instant::now(),
        repair: None,
        repairs: 0,
        proven: false,
        context,
    };
    let result = worker.run(stop).await;
    its_handler.flush().await;
    queue.close().await;
    result
}

struct Worker {
    context: Arc<Context>,
    kind: Kind,
    concurrency: usize,
    /// Urgent, routine.
    pullers: [Puller; 2],
    calls: JoinSet<Lane>,
    /// Small things on the side that must not hold up the loop.
    chores: JoinSet<()>,
    routine_running: usize,
    urgent_in_a_row: usize,
    /// The sweep that runs, or the last one.
    sweep: Option<AbortHandle>,
    next_sweep: Instant,
    /// Streams and consumers are being looked after; nothing is asked for until that has succeeded.
    repair: Option<BoxFuture<'static, Result<(), Error>>>,
    /// How many repairs in a row have not led to a single answer from the consumer.
    repairs: u32,
    /// Whether the consumers have ever been there.
    proven: bool,
}

impl Worker {
    async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut connection = self.context.queue.connection();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last_progress = Instant::now();
        let mut last_clock = Instant::now();
        self.start_repair();
        loop {
            let connected = connection.borrow().connected;
            metrics::CONNECTED.set(&[], i64::from(connected));
            // Asking comes before choosing: the place that has just come free may be what a routine message gets.
            if connected && self.repair.is_none() {
                let room = self.room();
                for (puller, room) in self.pullers.iter_mut().zip(room) {
                    puller.ask(room).await;
                }
            }
            self.begin_what_is_ready();
            let [urgent, routine] = &mut self.pullers;
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                changed = connection.changed() => {
                    if changed.is_err() {
                        anyhow::bail!("the NATS client is gone");
                    }
                    // Whatever was asked for on the old connection will not be answered; and the server may come
                    // back without what was on it.
                    self.pullers.iter_mut().for_each(Puller::forget);
                    if connection.borrow_and_update().connected {
                        self.start_repair();
                    } else {
                        HEALTH.not_ready(HEALTH_PART, "connection to NATS lost");
                    }
                }
                Some(done) = self.calls.join_next() => {
                    if matches!(done, Ok(Lane::Routine)) {
                        self.routine_running = self.routine_running.saturating_sub(1);
                    }
                    if let Err(error) = done {
                        tracing::error!(%error, "a call's task ended in a way that it should not");
                        // Its lane is not known; what is left running says how many routine ones there can be.
                        self.routine_running = self.routine_running.min(self.calls.len());
                    }
                }
                () = self.context.trouble.notified() => self.start_repair(),
                message = urgent.receive() => self.received(0, message).await?,
                message = routine.receive() => self.received(1, message).await?,
                repaired = wait_for(&mut self.repair) => self.repaired(repaired)?,
                _ = tick.tick() => {
                    let ack_wait = self.context.queue.lease_ttl();
                    if last_progress.elapsed() >= ack_wait / 3 {
                        last_progress = Instant::now();
                        self.say_progress().await;
                    }
                    if last_clock.elapsed() >= CLOCK {
                        last_clock = Instant::now();
                        let queue = self.context.queue.clone();
                        self.chores.spawn(async move {
                            if let Err(error) = queue.sync_clock().await {
                                tracing::debug!(%error, "the server's clock could not be read");
                            }
                        });
                    }
                    self.hand_back_what_waits().await;
                    if connected && self.repair.is_none() {
                        self.sweep();
                    }
                    while self.chores.try_join_next().is_some() {}
                    let silent = self.pullers.iter_mut().map(Puller::is_silent).fold(false, |any, silent| any | silent);
                    if silent && connected {
                        tracing::warn!("nothing heard of a request for messages; looking after the consumer");
                        self.start_repair();
                    }
                }
            }
        }
        self.stop().await
    }

    /// How many more messages of each lane could be begun now.
    fn room(&self) -> [usize; 2] {
        let free = self.concurrency.saturating_sub(self.calls.len());
        [free, free.min(self.routine_limit().saturating_sub(self.routine_running))]
    }

    /// Routine work never takes all places: with four or more, a quarter is kept for what is urgent.
    fn routine_limit(&self) -> usize {
        self.concurrency - self.concurrency / 4
    }

    fn routine_is_due(&self) -> bool {
        self.urgent_in_a_row >= URGENT_IN_A_ROW
    }

    fn begin_what_is_ready(&mut self) {
        loop {
            let [urgent_room, routine_room] = self.room();
            let urgent = urgent_room > 0 && !self.pullers[0].ready.is_empty();
            let routine = routine_room > 0 && !self.pullers[1].ready.is_empty();
            let lane = match (urgent, routine) {
                (true, _) if !(routine && self.routine_is_due()) => 0,
                // An urgent one may be on its way; its lane has been asked and will say so in a moment.
                (_, true) if self.routine_is_due() || self.pullers[0].is_dry() => 1,
                _ => return,
            };
            let Some((delivery, _)) = self.pullers[lane].ready.pop_front() else { return };
            let object = delivery.envelope.work.object.clone();
            let mut batch = vec![delivery];
            for puller in &mut self.pullers {
                puller.take_for(&object, &mut batch);
            }
            let lane = Lane::ALL[lane];
            match lane {
                Lane::Urgent => self.urgent_in_a_row += 1,
                Lane::Routine => {
                    self.urgent_in_a_row = 0;
                    self.routine_running += 1;
                }
            }
            self.context.hand.begin(&object, &batch);
            let context = self.context.clone();
            self.calls.spawn(async move {
                drive(context, object, batch).await;
                lane
            });
        }
    }

    async fn received(&mut self, lane: usize, message: Option<async_nats::Message>) -> anyhow::Result<()> {
        let Some(message) = message else { anyhow::bail!("the subscription to the queue has ended") };
        match self.pullers[lane].understand(message) {
            Event::Quiet => self.answered(),
            Event::Message(delivery) => {
                self.answered();
                metrics::DELIVERED.inc(&[self.kind.token(), delivery.lane.token()]);
                // Its object may be in hand: then it waits there, and takes no place.
                match self.context.hand.offer(*delivery) {
                    Offer::Free(delivery) => self.pullers[lane].ready.push_back((*delivery, Instant::now())),
                    Offer::Waits { replaced } => {
                        if let Some(replaced) = replaced {
                            replaced.say(self.context.queue.client(), async_nats::jetstream::AckKind::Ack).await;
                        }
                    }
                    Offer::Closed(receipt) => receipt.give_back(self.context.queue.client(), None).await,
                }
            }
            Event::Hopeless(hopeless) => {
                self.answered();
                let (message, receipt, error) = *hopeless;
                let queue = self.context.queue.clone();
                self.chores.spawn(async move {
                    // Kept first, acknowledged then. If either fails, it comes again.
                    let found = Found::delivered(&message, receipt.sequence, receipt.published);
                    let buried = match queue.bury(found, &Reason::from(&error)).await {
                        Ok(()) => receipt.acknowledge(queue.client()).await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = buried {
                        tracing::warn!(%error, "a message that cannot be understood could not be put aside; trying again");
                    }
                });
            }
            Event::Trouble(what) => {
                tracing::warn!(what, "the consumer does not answer as it should; looking after it");
                self.start_repair();
            }
        }
        Ok(())
    }

    /// Looks, now and then, after messages that no consumer brings to anybody.
    fn sweep(&mut self) {
        let running = self.sweep.as_ref().is_some_and(|sweep| !sweep.is_finished());
        if running || Instant::now() < self.next_sweep {
            return;
        }
        let grace = self.context.settings.stray_after;
        let interval = (grace / 5).clamp(Duration::from_millis(500), Duration::from_secs(60));
        self.next_sweep = Instant::now() + interval.mul_f64(rand::random_range(0.8..1.2));
        let queue = self.context.queue.clone();
        self.sweep = Some(self.chores.spawn(async move {
            if let Err(error) = queue.sweep(grace).await {
                tracing::debug!(%error, "the queue could not be swept");
            }
        }));
    }

    fn answered(&mut self) {
        self.repairs = 0;
    }

    /// Looks after streams and consumers: at once, or after a while if the last time did not help.
    fn start_repair(&mut self) {
        if self.repair.is_some() {
            return;
        }
        let wait = match self.repairs {
            0 => Duration::ZERO,
            n => (Duration::from_millis(100) * 2_u32.pow(n.min(6)))
                .min(Duration::from_secs(5))
                .mul_f64(rand::random_range(0.5..1.0)),
        };
        self.repairs = self.repairs.saturating_add(1);
        let (queue, kind, max_ack_pending) =
            (self.context.queue.clone(), self.kind, self.context.settings.max_ack_pending);
        self.repair = Some(
            async move {
                tokio::time::sleep(wait).await;
                queue.connected().await;
                queue.ensure().await?;
                for lane in Lane::ALL {
                    queue.ensure_consumer(kind, lane, max_ack_pending).await?;
                }
                Ok(())
            }
            .boxed(),
        );
    }

    fn repaired(&mut self, repaired: Result<(), Error>) -> anyhow::Result<()> {
        self.repair = None;
        match repaired {
            Ok(()) => {
                self.pullers.iter_mut().for_each(Puller::forget);
                HEALTH.ready(HEALTH_PART);
                if !self.proven {
                    tracing::info!(kind = %self.kind, "taking work off the queue");
                }
                self.proven = true;
            }
            Err(error @ (Error::ServerTooOld { .. } | Error::Incompatible { .. })) if !self.proven => {
                return Err(error.into());
            }
            Err(error) => {
                tracing::warn!(%error, "the queue is not ready; trying again");
                HEALTH.not_ready(HEALTH_PART, error.to_string());
                self.start_repair();
            }
        }
        Ok(())
    }

    /// Tells the server that work on everything in hand goes on.
    async fn say_progress(&mut self) {
        let ready = self.pullers.iter().flat_map(|puller| puller.ready.iter());
        let ready: Vec<Receipt> = ready.map(|(delivery, _)| delivery.receipt.clone()).collect();
        for receipt in self.context.hand.receipts().into_iter().chain(ready) {
            receipt.say(self.context.queue.client(), async_nats::jetstream::AckKind::Progress).await;
        }
    }

    /// Gives back what has waited too long for a place, except the one routine message whose turn it is.
    async fn hand_back_what_waits(&mut self) {
        let due = self.routine_is_due();
        for (index, puller) in self.pullers.iter_mut().enumerate() {
            let keep = usize::from(index == 1 && due);
            while puller.ready.len() > keep && puller.ready.back().is_some_and(|(_, since)| since.elapsed() > PATIENCE)
            {
                if let Some((delivery, _)) = puller.ready.pop_back() {
                    delivery.receipt.give_back(self.context.queue.client(), None).await;
                }
            }
        }
    }

    /// The end: nothing new, finish what is in hand within the grace period, hand back the rest.
    async fn stop(mut self) -> anyhow::Result<()> {
        HEALTH.not_ready(HEALTH_PART, "stopping");
        tracing::info!(in_hand = self.calls.len(), grace = ?self.context.settings.grace, "stopping");
        let client = self.context.queue.client().clone();
        for receipt in self.context.hand.close() {
            receipt.give_back(&client, None).await;
        }
        for puller in self.pullers {
            for receipt in puller.close().await {
                receipt.give_back(&client, None).await;
            }
        }
        let ending = self.context.caller.ending.clone();
        let grace = tokio::time::sleep(self.context.settings.grace);
        let last = tokio::time::sleep(self.context.settings.grace + LAST_WORDS);
        tokio::pin!(grace, last);
        let mut progress = tokio::time::interval(self.context.queue.lease_ttl() / 3);
        while !self.calls.is_empty() {
            tokio::select! {
                _ = self.calls.join_next() => {}
                () = &mut grace, if !ending.is_cancelled() => {
                    tracing::warn!(in_hand = self.calls.len(), "the grace period is over; handing back");
                    ending.cancel();
                }
                () = &mut last => break,
                _ = progress.tick() => {
                    for receipt in self.context.hand.receipts() {
                        receipt.say(&client, async_nats::jetstream::AckKind::Progress).await;
                    }
                }
            }
        }
        let _ =
            tokio::time::timeout(Duration::from_secs(2), async { while self.chores.join_next().await.is_some() {} })
                .await;
        tracing::info!("stopped");
        Ok(())
    }
}

async fn wait_for(repair: &mut Option<BoxFuture<'static, Result<(), Error>>>) -> Result<(), Error> {
    match repair {
        Some(repair) => repair.await,
        None => std::future::pending().await,
    }
}
