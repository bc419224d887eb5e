//! The server monitor: what servers are doing in the cloud, written into their objects' status (MON).
//!
//! Intention: nothing tells Weir when a server comes up, stops or breaks. Once in an interval, for each region, every
//! project's servers are listed and held against the Server objects. What is seen wakes functions, and decides nothing: each
//! function looks for itself before it acts.
//!
//! The rooms: [`schedule`] is the clock, [`observe`] reads, [`decide`](mod@decide) and [`rebuild`] tell what it means, [`act`]
//! writes.
//!
//! Invariants
//! - The cost grows with projects, not with servers: one paged list for each identity that has Server objects, with its own
//!   credential; and nothing is written for a server about which nothing is new (MON-2, MON-3).
//! - Two rounds of one region never overlap; regions do not wait for each other; and a project or a server that cannot be
//!   read does not keep the others from being looked at (MON-1, MON-9).
//! - A monitor that was away is late and has lost nothing: all that it writes follows from what is there now.
//!
//! - A round reads the clock once, and asks in an order that follows from the call: it can be run again from its recording.
//!
//! A round is recorded like any call, but only if it wrote, woke or failed: nobody asks for the many that found all as it was, and
//! each would hold all servers of the region.
//!
//! On Lambda an invocation is a tick: it brings the same envelope, and whoever invokes is the clock.
//!
//! Caveat: a round that takes longer than a call may is cut; what it has written stays, and the next one begins anew, in
//! another order. A region with that many servers needs a longer `--call-timeout`, on Lambda a longer time-out of the function.

pub mod act;
pub mod decide;
pub mod metrics;
pub mod observe;
pub mod rebuild;
pub mod schedule;

use act::{Done, Wake};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use metrics::{Census, Censuses};
use observe::Found;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;
use weir_api::server::Active;
use weir_api::{Kind, Problem, crd};
use weir_function_runtime::Scope;
use weir_function_runtime::record::Recorder;
use weir_function_runtime::record::boundary::Boundary;
use weir_function_runtime::worker::{Call, Handler, Verdict};
use weir_provider::{During, Provider, Record, Region};

/// How many projects are looked at at once.
const PROJECTS: usize = 16;
/// How many of a project's servers are written at once.
const PATCHES: usize = 8;

/// Looks at all servers of a region at each tick.
pub struct Monitor {
    boundary: Boundary,
    wake: Arc<dyn Wake>,
    censuses: Censuses,
}

/// What a round came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Projects that were looked at.
    pub projects: usize,
    /// Projects that could not be.
    pub failed: usize,
    /// Server objects that were held against the cloud.
    pub servers: usize,
    /// Statuses written.
    pub written: usize,
    /// Servers left for the next round, because somebody else wrote meanwhile or what the cloud shows is not clear.
    pub skipped: usize,
    /// Servers that are gone from the cloud.
    pub gone: usize,
    /// Servers whose function was woken.
    pub woken: usize,
    census: Census,
}

impl Round {
    fn add(&mut self, other: Self) {
        self.projects += other.projects;
        self.failed += other.failed;
        self.servers += other.servers;
        self.written += other.written;
        self.skipped += other.skipped;
        self.gone += other.gone;
        self.woken += other.woken;
        for (key, servers) in other.census {
            *self.census.entry(key).or_default() += servers;
        }
    }
}

impl Monitor {
    /// A monitor that reads and writes objects through `client` and tells functions through `wake`.
    pub fn new(client: kube::Client, provider: Arc<Provider>, wake: Arc<dyn Wake>) -> Self {
        Self::at(Boundary::new(client, provider), wake)
    }

    /// A monitor whose rounds meet the world at `boundary`.
    pub fn at(boundary: Boundary, wake: Arc<dyn Wake>) -> Self {
        Self { boundary, wake, censuses: Censuses::default() }
    }

    /// A monitor whose rounds are run again from recordings. It wakes nobody.
    pub fn replayed(boundary: Boundary) -> Self {
        Self::at(boundary, Arc::new(act::Nobody))
    }

    /// The same, with its rounds recorded by `recorder`.
    #[must_use]
    pub fn recorded(self, recorder: Recorder) -> Self {
        Self { boundary: self.boundary.recorded(recorder), ..self }
    }

    async fn call(&self, call: &Call) -> Verdict {
        let (scope, taking) = self.boundary.begin(call);
        taking.run(Box::pin(self.told(call, &scope))).await
    }

    async fn told(&self, call: &Call, scope: &Scope) -> Verdict {
        let name = &call.work.object.name;
        let began = Instant::now();
        let mut round = Round::default();
        let ended = tokio::select! {
            biased;
            ended = self.look(scope, name, &mut round) => Some(ended),
            // Of itself, so that it is no failed call: that would be retried, beside the next tick.
            () = scope.out_of_patience(call.cut()) => None,
        };
        let Round { projects, failed, servers, written, skipped, gone, woken, .. } = round;
        let outcome = match ended {
            Some(Ok(false)) => return Verdict::Gone,
            Some(Ok(true)) => {
                tracing::info!(projects, failed, servers, written, skipped, gone, took = ?began.elapsed(), "looked at all servers");
                if failed > 0 {
                    let message = format!("the servers of {failed} identities could not be looked at");
                    scope.troubled_by(Some(&Problem::retry(message)));
                } else if written + skipped + woken == 0 {
                    scope.is_not_worth_recording();
                }
                if failed == 0 { "complete" } else { "partial" }
            }
            Some(Err(problem)) => {
                tracing::warn!(%problem, "the region's servers could not be looked at; trying again at the next tick");
                scope.troubled_by(Some(&problem));
                "failed"
            }
            None => {
                tracing::warn!(projects, failed, servers, written, took = ?began.elapsed(), "out of time; the next round looks at the rest");
                let message = format!(
                    "only {projects} identities' servers could be looked at in the time that one call may take"
                );
                scope.troubled_by(Some(&Problem::retry(message)));
                "cut"
            }
        };
        metrics::ROUNDS.inc(&[name, outcome]);
        metrics::ROUND_SECONDS.observe(&[name], began.elapsed());
        // Whatever went wrong, the next tick comes by itself.
        Verdict::Settled
    }

    /// Looks at all servers of a region; `None` if there is no such region.
    ///
    /// # Errors
    /// Nothing of the region can be looked at. What goes wrong with one project only counts in [`Round::failed`].
    pub async fn round(&self, scope: &Scope, region: &str) -> Result<Option<Round>, Problem> {
        let mut round = Round::default();
        Ok(self.look(scope, region, &mut round).await?.then_some(round))
    }

    /// The same, added to `round` project by project, so that it tells how far it got when it is dropped. False if there is no
    /// such region.
    async fn look(&self, scope: &Scope, region: &str, round: &mut Round) -> Result<bool, Problem> {
        let Some(object) = scope.get::<crd::Region>(region).await? else { return Ok(false) };
        let region = scope.open(&object).await?;
        let mut identities = observe::identities(scope, &region.name).await?;
        // In another order each time, so that a round that is cut short cuts off other projects than the last one did.
        identities.sort_by_cached_key(|name| {
            let mut order = DefaultHasher::new();
            (scope.id(), name).hash(&mut order);
            order.finish()
        });
        let (region, now) = (&region, &Time(scope.now()));
        let looks = stream::iter(identities).map(|identity| async move {
            self.project(scope, region, &identity, now).await.unwrap_or_else(|problem| {
                tracing::warn!(identity, %problem, "the identity's servers could not be looked at");
                Round { failed: 1, ..Round::default() }
            })
        });
        let mut looks = std::pin::pin!(looks.buffer_unordered(PROJECTS));
        while let Some(look) = looks.next().await {
            round.add(look);
        }
        self.censuses.show(&region.name, std::mem::take(&mut round.census));
        Ok(true)
    }

    async fn project(&self, scope: &Scope, region: &Region, identity: &str, now: &Time) -> Result<Round, Problem> {
        let mut objects = observe::objects(scope, identity).await?;
        // Paused ones are not looked at (OWN-6), and of those that are going nothing is worth telling.
        objects.retain(|object| !object.spec.pause && object.metadata.deletion_timestamp.is_none());
        if objects.is_empty() {
            return Ok(Round::default());
        }
        let Some(record) = observe::record(scope, identity).await? else { return Ok(Round::default()) };
        let session = region.identity(&record)?;
        let cloud = observe::cloud(&session).await?;
        let (cloud, record) = (&cloud, &record);
        let looks = stream::iter(objects).map(|object| async move {
            let found = cloud.find(&object);
            match self.server(scope, region, record, &object, found, now).await {
                Ok(round) => round,
                Err(problem) => {
                    tracing::warn!(server = object.name_any(), %problem, "a server's status could not be written");
                    Round { servers: 1, skipped: 1, ..Round::default() }
                }
            }
        });
        let round = Round { projects: 1, ..Round::default() };
        Ok(looks.buffer_unordered(PATCHES).fold(round, add).await)
    }

    async fn server(
        &self,
        scope: &Scope,
        region: &Region,
        record: &Record,
        object: &crd::Server,
        found: Found<'_>,
        now: &Time,
    ) -> Result<Round, Problem> {
        let mut round = Round { servers: 1, ..Round::default() };
        let server = match found {
            Found::Here(server) => Some(server),
            Found::Gone => None,
            Found::Unclear => return Ok(Round { skipped: 1, ..round }),
        };
        let building = match server {
            Some(server) if decide::asks_ironic(&server.status, &region.config, &object.spec.flavor_id) => {
                let manager = region.manager_in_project(&record.project);
                let node = manager.bare_metal().node_of(&server.id).await.during("looking for the server's machine");
                node.map_or_else(
                    |problem| {
                        tracing::warn!(server = object.name_any(), %problem, "Ironic does not tell; the server shows as being built");
                        Active::Building
                    },
                    |node| decide::building(node.as_ref()),
                )
            }
            _ => Active::Building,
        };
        let news = decide::decide(object, server, building, now);
        metrics::count(&mut round.census, object, &news.status);
        round.gone = usize::from(server.is_none());
        round.woken = usize::from(news.wake);
        match act::carry_out(scope, &*self.wake, object, &news).await? {
            Done::Written => round.written = 1,
            Done::Skipped => round.skipped = 1,
            Done::Unchanged => {}
        }
        Ok(round)
    }
}

async fn add(mut sum: Round, round: Round) -> Round {
    sum.add(round);
    sum
}

impl Handler for Monitor {
    fn kind(&self) -> Kind {
        Kind::ServerMonitor
    }

    fn handle<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Verdict> {
        Box::pin(self.call(call))
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.boundary.flush())
    }
}
