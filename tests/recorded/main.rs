//! Recordings: every call of a scripted life replays to the same decision, and no recording holds a secret (R-1..R-7).
//!
//! `*.json` in this folder are recordings that were kept, with `weir export` or by `KEEP_RECORDED=1` and this suite. Each
//! must open and replay, whatever release has made it; if a change of a function makes it decide otherwise on purpose,
//! make the file anew. `server-monitor-identities.json` is of rounds in which many identities ask the same at the same time,
//! and some get no answer: what each of them heard has to reach the same one again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cut;
mod poison;
mod streams;
mod studio;

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use studio::{AUTHORITY, GROUP, IDENTITY, NETWORK, SERVER, Studio, TAG_SECRET, USER_SECRET, again, listen};
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::record::past::{Writer, open};
use weir_function_runtime::record::{Line, Mode, Recorder};
use weir_function_runtime::worker::Call;
use weir_harness::leaks::leak;
use weir_harness::{World, world};
use weir_kube_sim::Fault as KubeFault;
use weir_messages::recording::{self, Answer, Body, Entry, Exchange};
use weir_messages::{Cause, Recording, Work};
use weir_openstack_sim::{Action, Fault};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/recorded");

/// Everything is made, looked at, changed and removed; everywhere something goes wrong. Returns the secrets that were in play.
async fn life(studio: &Studio) -> Vec<String> {
    let world = &studio.world;
    let faults = |n: u64| {
        let actions = [
            Fault::status_after(500),
            Fault::new(Action::ResetAfter),
            Fault::status(503),
            Fault::new(Action::TokenExpired),
            Fault::status(409),
        ];
        for (at, fault) in actions.into_iter().enumerate() {
            world.cloud.faults().add(fault.after(n + 4 * at as u64).times(1)).unwrap();
        }
        let conflict = KubeFault::status(409).user_agent(World::FUNCTION).verb("patch").skip(n % 3).times(1);
        world.kubernetes.faults().add(conflict).unwrap();
        world.kubernetes.faults().add(KubeFault::lost_write().user_agent(World::FUNCTION).skip(n).times(1)).unwrap();
    };
    studio.settle(Kind::Region, World::REGION).await;
    world.apply(&world::certificate_authority(AUTHORITY)).await;
    world.apply(&world::identity(IDENTITY)).await;
    faults(3);
    studio.settle(Kind::Identity, IDENTITY).await;
    let spec = world::record_api(&world.client).get(IDENTITY).await.unwrap().spec;
    let key = String::from_utf8(spec.ssh_private_key.unwrap().expose().as_bytes().to_vec()).unwrap();
    let mut secrets = vec![
        USER_SECRET.to_owned(),
        TAG_SECRET.to_owned(),
        world.cloud.bootstrap().credential.password,
        spec.password.unwrap().expose().clone(),
        spec.application_credential_secret.unwrap().expose().clone(),
    ];
    // A line in the middle of the key, and its last: what a key is known by.
    secrets.extend(key.lines().filter(|line| !line.starts_with('-')).skip(3).map(str::to_owned));
    world.apply(&world::network(NETWORK, IDENTITY)).await;
    faults(1);
    studio.settle(Kind::Network, NETWORK).await;
    world.apply(&world::security_group(GROUP, IDENTITY)).await;
    faults(2);
    studio.settle(Kind::SecurityGroup, GROUP).await;
    world.apply(&studio.server(&json!({ "sshCertificateAuthorityID": AUTHORITY }))).await;
    faults(5);
    studio.settle(Kind::Server, SERVER).await;
    world.settle();
    // The monitor shows what the server does; and then looks without finding news, of which nothing is kept.
    for _ in 0..3 {
        world.cloud.advance(Duration::from_secs(60));
        world.settle();
        studio.call(Kind::ServerMonitor, World::REGION).await;
    }
    // What is there is looked at again, and changed.
    for (kind, name) in [(Kind::Identity, IDENTITY), (Kind::Network, NETWORK), (Kind::Server, SERVER)] {
        studio.settle(kind, name).await;
    }
    world
        .apply(
            &studio.server(&json!({"publicIPAllocation": {"enabled": false}, "sshCertificateAuthorityID": AUTHORITY})),
        )
        .await;
    studio.settle(Kind::Server, SERVER).await;
    for (kind, name) in
        [(Kind::Server, SERVER), (Kind::SecurityGroup, GROUP), (Kind::Network, NETWORK), (Kind::Identity, IDENTITY)]
    {
        faults(2);
        studio.remove(kind, name).await;
        world.settle();
    }
    // A region whose Secret holds more than it should, and whose password is refused.
    secrets.push("a-wrong-password-1234".to_owned());
    secrets.push("kubeconfig-of-somebody".to_owned());
    world
        .apply_secret(|values| {
            values["password"] = json!("a-wrong-password-1234");
            values["kubeconfig"] = json!("kubeconfig-of-somebody");
        })
        .await;
    studio.call(Kind::Region, World::REGION).await;
    secrets
}

fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Response { status, .. } => status.to_string(),
        other => format!("{other:?}"),
    }
}

async fn must_replay(recording: &Recording) {
    let replay = again(recording, None).await.unwrap();
    let said = |recording: &Recording| -> Vec<String> {
        let brief = |e: &Exchange| format!("{} {} -> {}", e.method, e.url, answer(&e.answer));
        let held = recording.held.iter().map(|e| format!("held: {}", brief(e)));
        let entries = recording.entries.iter().map(|entry| match entry {
            Entry::Exchange(e) => brief(e),
            other => format!("{other:?}"),
        });
        held.chain(entries).collect()
    };
    assert!(
        replay.is_faithful(),
        "{} {}, {:?}\nsaid: {:#?}\nsaid again: {:#?}\nmissing: {:#?}\nparts at {:?}\nrecorded: {:#?}\nreplayed: {:#?}",
        recording.object(),
        recording.id,
        recording.outcome,
        said(recording),
        said(&replay.run),
        replay.missing,
        replay.recorded.parts_from(&replay.replayed),
        replay.recorded,
        replay.replayed
    );
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_a_life_with_faults_is_decided_again_to_the_byte_and_no_recording_holds_a_secret() {
    let mut studio = Studio::open().await;
    let secrets = life(&studio).await;
    let recordings = studio.recorded();
    assert!(recordings.len() > 25, "{} calls", recordings.len());
    let steps: usize = recordings.iter().map(|recording| recording.steps().count()).sum();
    let failed = recordings.iter().filter(|recording| recording.outcome.verdict == "failed").count();
    println!("{} calls, {steps} steps, {failed} failed", recordings.len());
    assert!(steps > 30 && failed > 5, "{steps} steps, {failed} failed");
    for recording in &recordings {
        let text = serde_json::to_string(recording).unwrap();
        if let Some(secret) = leak(&text, &secrets) {
            panic!("{} holds {secret:?}: {text}", recording.object());
        }
        for exchange in recording.exchanges().chain(&recording.held) {
            for (name, value) in &exchange.headers {
                assert!(name != "x-auth-token" || value.starts_with(recording::PLACEHOLDER), "{name}: {value}");
            }
        }
    }
    for recording in &recordings {
        must_replay(recording).await;
    }
    if std::env::var_os("KEEP_RECORDED").is_some() {
        // Those of the other files were made by the first release that recorded anything, and have to open for ever.
        for (kind, name) in [(Kind::Server, "server"), (Kind::ServerMonitor, "server-monitor")] {
            let calls: Vec<Recording> =
                recordings.iter().filter(|r| r.object().kind == kind).take(4).cloned().collect();
            let path = Path::new(FOLDER).join(format!("{name}.json"));
            let mut file = Writer::begin(std::fs::File::create(path).unwrap()).unwrap();
            for call in &calls {
                file.call(call).unwrap();
            }
            file.end().unwrap();
        }
    }
}

/// All calls that are kept in files.
fn kept() -> Vec<Recording> {
    let files = std::fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().path());
    let recordings = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    recordings.flat_map(|path| open(std::fs::File::open(path).unwrap()).unwrap()).collect()
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_were_kept_open_and_are_decided_as_they_were() {
    listen();
    let kept = kept();
    for recording in &kept {
        must_replay(recording).await;
    }
    assert!(!kept.is_empty(), "there is no recording in {FOLDER}");
    // Of the first release that recorded anything. They are never made anew, and hold nothing that came later.
    for first in ["identity.json", "security-group.json"] {
        let text = std::fs::read_to_string(Path::new(FOLDER).join(first)).unwrap();
        assert!(["\"lost\"", "\"wake\"", "\"stopped\""].iter().all(|later| !text.contains(later)), "{first}");
        assert!(!open(text.as_bytes()).unwrap().is_empty(), "{first}");
    }
}

/// Proves: R-3
#[tokio::test(flavor = "multi_thread")]
async fn where_a_decision_parts_from_the_recorded_one_is_shown_and_so_is_what_was_not_recorded() {
    let mut studio = Studio::open().await;
    studio.world.apply(&world::identity(IDENTITY)).await;
    studio.settle(Kind::Identity, IDENTITY).await;
    studio.recorded();
    studio.world.apply(&world::security_group(GROUP, IDENTITY)).await;
    studio.settle(Kind::SecurityGroup, GROUP).await;
    let recording = studio.recorded().remove(0);
    must_replay(&recording).await;

    // As if the code had changed: the object that it reads asks for another rule.
    let mut other = recording.clone();
    for entry in &mut other.entries {
        if let Entry::Exchange(exchange) = entry
            && exchange.url.contains("securitygroups")
            && let recording::Answer::Response { body: Some(Body::Json(body)), .. } = &mut exchange.answer
            && let Some(port) = body.pointer_mut("/spec/rules/0/port/number")
        {
            *port = json!(23);
        }
    }
    let replay = again(&other, None).await.unwrap();
    let at = replay.recorded.parts_from(&replay.replayed).expect("they part");
    let (old, new) = (&replay.recorded.lines[at], &replay.replayed.lines[at]);
    let text = |line: &Line| serde_json::to_string(line).unwrap();
    assert!(text(old).contains("22") && text(new).contains("23"), "{old:?} {new:?}");

    // A read that was not made then.
    let mut poorer = recording.clone();
    poorer.entries.retain(
        |entry| !matches!(entry, Entry::Exchange(e) if e.method == "GET" && e.url.contains("/security-groups")),
    );
    let replay = again(&poorer, None).await.unwrap();
    assert!(replay.missing.iter().any(|missing| missing.contains("/security-groups")), "{:?}", replay.missing);

    // And no further than was asked.
    let first = recording.steps().next().expect("a step").to_owned();
    let replay = again(&recording, Some(first.clone())).await.unwrap();
    assert!(replay.stopped);
    assert_eq!(replay.run.steps().collect::<Vec<_>>(), [first.as_str()], "nothing after it");
    assert!(matches!(replay.replayed.lines.last(), Some(Line::Step(step)) if *step == first), "{:#?}", replay.replayed);
}

/// Proves: R-1
#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_asked_for_is_recorded() {
    let studio = Studio::open().await;
    for (mode, of_good, of_bad) in [(Mode::Errors, 0, 1), (Mode::Sampled(0.0), 0, 0), (Mode::Sampled(1.0), 1, 1)] {
        let (recorder, mut recordings) = Recorder::collecting(mode);
        let region = studio.function(Kind::Region, recorder.clone());
        let call =
            || Call::direct(Work::new(ObjectRef::new(Kind::Region, World::NAMESPACE, World::REGION), Cause::Changed));
        region.handle(&call()).await;
        let count = |recordings: &mut tokio::sync::mpsc::UnboundedReceiver<Recording>| {
            std::iter::from_fn(|| recordings.try_recv().ok()).count()
        };
        assert_eq!(count(&mut recordings), of_good, "{mode:?}");
        studio.world.kubernetes.faults().add(KubeFault::status(500).user_agent(World::FUNCTION).times(1)).unwrap();
        region.handle(&call()).await;
        assert_eq!(count(&mut recordings), of_bad, "{mode:?}");
        // One that is cut short is a failure too.
        let cut = call();
        let _ = futures::poll!(region.handle(&cut));
        assert_eq!(count(&mut recordings), of_bad, "{mode:?}");
    }
}
