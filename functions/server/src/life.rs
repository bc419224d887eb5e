//! What happens to a server after it was asked for: a failed one made again (RTY), a changed image carried out (RBD).
//!
//! The decisions are [`retry`] and [`rebuild`]; this carries them out. Each step ends the call: what it has written into
//! status is stored when the call returns, and the next call goes by what it reads back.
//!
//! Caveat: an event that cannot be written is logged and left out. It is for people, and nothing depends on it.

use crate::act::Cloud;
use crate::observe::Server;
use crate::{rebuild, retry};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::json;
use std::fmt::Display;
use std::time::Duration;
use weir_api::conditions::{self, ACTIVE, Reason, Told};
use weir_api::crd::{self, Rebuild, ServerStatus};
use weir_api::problem::YIELD;
use weir_api::server::Active;
use weir_api::{Consequence, Problem};
use weir_function_runtime::Scope;
use weir_openstack::{Class, FlavorId, ImageId, OrAbsent};
use weir_provider::{During, server};

/// How soon to look again after a step that only had to be stored.
const AT_ONCE: Duration = Duration::from_millis(250);
/// How soon to look whether a server that was just deleted has gone.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// What a Server's status says that its life goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// What is known of failed attempts.
    pub record: retry::Record,
    /// The change of image that is going on.
    pub marker: Option<Rebuild>,
    /// How many creates there may be.
    pub attempts: i32,
}

impl Life {
    /// What `status` says.
    pub fn of(status: &ServerStatus, attempts: i32) -> Self {
        Self { record: retry::Record::of(status), marker: status.rebuild.clone(), attempts }
    }
}

/// Where steps are carried out and what they write to.
pub struct Stage<'a> {
    /// The call's scope.
    pub scope: &'a Scope,
    /// The cloud.
    pub cloud: &'a Cloud<'a>,
    /// The object, as it was read.
    pub object: &'a crd::Server,
    /// The server, if there is one.
    pub server: Option<&'a Server>,
    /// How many creates there may be.
    pub attempts: i32,
}

impl Stage<'_> {
    /// Carries out a step of a retry.
    pub async fn retry(&self, step: retry::Step, status: &mut ServerStatus) -> Result<(), Problem> {
        let most = self.attempts.max(1);
        match step {
            retry::Step::Proceed => Ok(()),
            retry::Step::Await => Err(Problem::waiting(
                Reason::Provisioning,
                "the cloud could not start the server; it is made again once that is confirmed",
            )),
            retry::Step::Count(failures) => {
                status.provider_create_failures = Some(failures);
                status.provider_create_retrying = Some(true);
                let message = format!("the cloud could not start the server; removing it (attempt {failures}/{most})");
                self.tell("Normal", "ProviderCreateRetrying", failures, &message).await;
                Err(soon(AT_ONCE, message))
            }
            retry::Step::Delete => {
                let Some(server) = self.server else { return Err(Problem::reread()) };
                let nova = self.cloud.session.compute();
                nova.delete_server(&server.id).await.or_absent().during("removing the server that did not start")?;
                let left = nova.server(&server.id).await.or_absent().during("looking whether the server is gone")?;
                if left.is_some_and(|server| !server.status.is_gone()) {
                    return Err(soon(FIRST_LOOK, "removing the server that the cloud could not start"));
                }
                self.start_over(status).await
            }
            retry::Step::Reset => self.start_over(status).await,
            retry::Step::Spare => {
                status.provider_create_retrying = Some(false);
                Err(soon(AT_ONCE, "the server has come up after all"))
            }
            retry::Step::GiveUp(failures) => {
                status.provider_create_failures = Some(failures);
                let message = format!("provider server create failed after {most} attempts");
                self.tell("Warning", "ProviderCreateFailed", failures, &message).await;
                Err(Problem::operator(message))
            }
        }
    }

    /// The failed server is gone: as if there had been none (RTY-6).
    async fn start_over(&self, status: &mut ServerStatus) -> Result<(), Problem> {
        retry::reset(status);
        let pending = Told {
            kind: ACTIVE,
            truth: Active::Pending.truth(),
            reason: Active::Pending.as_str(),
            message: Active::Pending.message(),
            observed_generation: self.object.metadata.generation,
        };
        conditions::put(&mut status.conditions, &pending, self.now());
        let (failures, most) = (status.provider_create_failures.unwrap_or_default(), self.attempts.max(1));
        let message = format!("the server that did not start is removed; making another (attempt {failures}/{most})");
        self.tell("Normal", "ProviderCreateRetryReady", failures, &message).await;
        Err(soon(AT_ONCE, message))
    }

    /// Carries out a step of a change of image.
    pub async fn image(&self, step: rebuild::Step, status: &mut ServerStatus) -> Result<(), Problem> {
        match step {
            rebuild::Step::Done => Ok(()),
            rebuild::Step::Wait(wait) => {
                tracing::info!(reason = wait.reason(), "the server's image is waited for");
                Err(Problem::yielding(wait.reason()))
            }
            rebuild::Step::Mark(marker) => {
                let message = if marker.is_some() {
                    "the server's image is about to be changed"
                } else {
                    "confirming the server's image"
                };
                status.rebuild = marker;
                Err(soon(AT_ONCE, message))
            }
            rebuild::Step::Accepted(marker) => Err(self.accepted(marker, status)),
            rebuild::Step::Submit(marker) => self.submit(marker, status).await,
            rebuild::Step::Fail(marker) => {
                status.rebuild = Some(marker);
                self.show(status);
                Err(soon(AT_ONCE, "the change of the server's image has failed"))
            }
            rebuild::Step::Park => {
                self.show(status);
                Err(Problem::user_action(
                    "the server failed after its image was changed; choose another image (spec.image), or replace the server",
                ))
            }
        }
    }

    /// The one step that destroys: Nova recreates the root disk.
    async fn submit(&self, marker: Rebuild, status: &mut ServerStatus) -> Result<(), Problem> {
        let Some(server) = self.server else { return Err(Problem::reread()) };
        // The object was read before the cloud. Since then its owner may have changed their mind, or the monitor may have seen
        // an earlier request of ours accepted whose traces the cloud no longer shows.
        let now = self.scope.get::<crd::Server>(&self.object.name_any()).await?;
        if now.and_then(|now| now.resource_version()) != self.object.resource_version() {
            return Err(Problem::reread());
        }
        let image = ImageId::from(marker.target_image_id.as_str());
        tracing::info!(server = %server.id, %image, "asking Nova to rebuild the server");
        match self.cloud.session.compute().rebuild_server(&server.id, &image).await {
            Ok(()) => Err(self.accepted(rebuild::accepted(&marker), status)),
            Err(error) if matches!(error.class(), Class::Conflict | Class::NotNow) => {
                let wait = rebuild::Wait::OtherWork;
                tracing::info!(%error, "Nova is busy with the server; its image is changed later");
                Err(Problem::yielding(wait.reason()))
            }
            Err(error) => {
                let mut problem = weir_provider::problem(&error, "asking for the server to be rebuilt");
                match error.class() {
                    Class::BadRequest => {
                        "the cloud refuses to rebuild the server with this image; check that it exists and fits the flavor, or choose \
                         another one; trying again"
                            .clone_into(&mut problem.message);
                    }
                    // It may have been accepted: look before asking again, and not at once.
                    Class::Unavailable | Class::NotUnderstood if problem.consequence == Consequence::Retry(None) => {
                        problem.consequence = Consequence::Retry(Some(YIELD));
                    }
                    _ => {}
                }
                Err(problem)
            }
        }
    }

    /// Nova has it. The monitor sees it end, and wakes us then.
    fn accepted(&self, marker: Rebuild, status: &mut ServerStatus) -> Problem {
        status.rebuild = Some(marker);
        server::show_accepted(&mut status.conditions, self.object.metadata.generation, &self.now());
        Problem::waiting(Reason::Provisioning, "the server is being rebuilt with the new image")
    }

    /// Writes what this call's look has shown: a park is a decision, and stands by what it was made on (RBD-11).
    fn show(&self, status: &mut ServerStatus) {
        if let Some(server) = self.server {
            server::show_observed(&mut status.conditions, &server.view, self.object.metadata.generation, &self.now());
        }
    }

    fn now(&self) -> Time {
        Time(self.scope.now())
    }

    /// Says that a flavor which is asked for is not the server's, and will not be (SRV-8): by an event, once for each change of
    /// the spec, since the server is as available as it was. `seen` is the generation that was seen last.
    pub async fn compare_flavor(&self, seen: Option<i64>) {
        let generation = self.object.metadata.generation;
        let Some(server) = self.server.filter(|_| seen != generation) else { return };
        let wanted = FlavorId::from(self.object.spec.flavor_id.as_str());
        let kept = match &server.flavor.id {
            Some(id) => *id == wanted,
            None if server.flavor.original_name.is_empty() => return,
            // Nova tells the name only, which no other flavor has. One that is gone from the cloud may well be the server's.
            None => match self.cloud.session.compute().flavor(&wanted).await {
                Ok(flavor) => flavor.name == server.flavor.original_name,
                Err(error) => return tracing::debug!(%error, "the flavor cannot be compared"),
            },
        };
        if !kept {
            let message = "spec.flavorID is not the flavor that the server was made with, and a server that exists keeps its \
                           flavor; set it back, or delete the Server and create it again";
            self.tell("Warning", "FlavorNotChanged", generation.unwrap_or_default(), message).await;
        }
    }

    /// Writes an event, once for each attempt or generation: its name is made of what it tells, so that a second one is
    /// refused (RTY-7).
    async fn tell(&self, kind: &str, reason: &str, which: impl Display, message: &str) {
        let (name, uid) = (self.object.name_any(), self.object.uid().unwrap_or_default());
        // The object's name leaves room: Kubernetes takes 253 characters.
        let short: String = name.chars().take(150).collect();
        let event_name = format!("{short}.{}-{which}.{}", reason.to_lowercase(), uid.get(..8).unwrap_or_default());
        let now = self.now();
        let event = json!({
            "metadata": {"name": event_name, "namespace": self.scope.namespace()},
            "involvedObject": {
                "apiVersion": format!("{}/{}", crd::REGION_GROUP, crd::VERSION), "kind": "Server",
                "namespace": self.scope.namespace(), "name": name, "uid": uid,
            },
            "type": kind, "reason": reason, "message": message, "count": 1, "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": "weir-server"}, "reportingComponent": "weir-server", "reportingInstance": "weir-server",
        });
        let written = match serde_json::from_value::<Event>(event) {
            Ok(event) => self.scope.api::<Event>().create(&PostParams::default(), &event).await.map(drop),
            Err(error) => Err(kube::Error::SerdeError(error)),
        };
        match written {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => tracing::warn!(%error, reason, "an event could not be written"),
            Ok(()) => {}
        }
    }
}

fn soon(delay: Duration, message: impl Into<String>) -> Problem {
    Problem { consequence: Consequence::Yield(delay), ..Problem::yielding(message) }
}
