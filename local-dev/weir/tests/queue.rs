//! `weir queue`, the program, against a real nats-server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../tests/harness/src/nats.rs"]
#[allow(dead_code)] // shared with other tests, which use other parts of it
mod nats;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nats::NatsServer;
use serde_json::Value;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue::{self, Queue};
use weir_function_runtime::settings::Settings;
use weir_function_runtime::{lease, timer};
use weir_messages::{Cause, Lane, Work};

struct Rig {
    nats: NatsServer,
    home: tempfile::TempDir,
    queue: Queue,
}

impl Rig {
    async fn start() -> Self {
        let nats = NatsServer::start().unwrap();
        let settings = Settings::from_arguments(["--nats", &nats.url(), "--name", "tester"]).unwrap();
        let queue = queue::connect_now(&settings).await.unwrap();
        queue.ensure().await.unwrap();
        Self { nats, home: tempfile::tempdir().unwrap(), queue }
    }

    fn weir(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("queue").args(args).args(["--nats", &self.nats.url()]);
        command.env("WEIR_HOME", self.home.path()).env_remove("WEIR_NATS_URL").stdin(Stdio::null()).output().unwrap()
    }

    fn says(&self, args: &[&str]) -> String {
        let output = self.weir(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.says(&args)).unwrap()
    }
}

fn work(name: &str) -> Work {
    Work::new(ObjectRef::new(Kind::Server, "ns", name), Cause::Changed)
}

/// Proves: R-6
#[tokio::test(flavor = "multi_thread")]
async fn every_view_shows_what_there_is_to_people_and_to_programs() {
    let rig = Rig::start().await;
    let queue = &rig.queue;
    queue.publish(work("a"), Lane::Urgent, None, None).await.unwrap();
    timer::set(queue, work("later"), Lane::Routine, Duration::from_secs(600), None).await.unwrap();
    let held = lease::acquire(queue, &work("held").object).await.unwrap();

    let overview = rig.json(&["ls"]);
    assert_eq!((&overview["timers"], &overview["leases"]), (&1.into(), &1.into()));
    assert_eq!((&overview["lanes"][0]["kind"], &overview["lanes"][0]["waiting"]), (&"server".into(), &1.into()));
    let shown = rig.says(&["ls"]);
    assert!(
        shown.contains("no function of this kind has been here yet")
            && shown.contains("1 timer, 1 lease, 0 dead letters"),
        "{shown}"
    );

    let waiting = rig.json(&["peek", "servers"]);
    assert_eq!(waiting["items"][0]["object"]["name"], "a");
    let number = waiting["items"][0]["sequence"].to_string();
    assert!(rig.says(&["peek", "--lane", "urgent"]).contains("server/ns/a"));
    assert!(rig.says(&["peek", "--lane", "routine"]).contains("Nothing"));
    let whole = rig.says(&["peek", "--message", &number]);
    assert!(whole.contains("ce-type: weir.work.v1") && whole.contains(r#""cause":"changed""#), "{whole}");
    assert_eq!(rig.weir(&["peek", "--message", "999"]).status.code(), Some(1));

    assert_eq!(rig.json(&["timers"])["items"][0]["target"], "work.routine.server.ns.later");
    assert!(rig.says(&["timers"]).contains("in 9 min"), "{}", rig.says(&["timers"]));
    assert_eq!(rig.json(&["leases"])["items"][0]["holder"], "tester");
    assert!(rig.says(&["leases", "server/ns/held"]).contains("tester"));
    assert!(rig.says(&["dead"]).contains("no dead letters"));
    assert_eq!(rig.weir(&["peek", "server/ns/>"]).status.code(), Some(2), "wrong usage");
    let row = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let columns = |shown: &str| row(shown.lines().find(|line| line.starts_with("server")).unwrap())[..5].to_vec();
    assert_eq!(columns(&shown), ["server", "urgent", "1", "0", "1"], "waiting, in flight, working: {shown}");
    let help = rig.says(&["ls", "--help"]);
    for column in ["WAITING", "IN FLIGHT", "WORKING", "OLDEST", "REDELIVERED", "CONSUMER"] {
        assert!(shown.contains(column) && help.contains(&format!("\n{column} ")), "{column}: {help}");
    }
    drop(held);
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_shown_harmlessly_and_sent_again_one_by_kind_or_all_and_only_when_told() {
    let rig = Rig::start().await;
    let queue = &rig.queue;
    for (kind, name) in [("planet", "a"), ("planet", "b"), ("comet", "c")] {
        let body = "\u{1b}[2J".as_bytes().to_vec().into();
        queue.client().request(format!("work.urgent.{kind}.ns.{name}"), body).await.unwrap();
    }
    queue.sweep(Duration::ZERO).await.unwrap();
    let dead = rig.json(&["dead"]);
    assert_eq!(dead["total"], 3);
    assert_eq!(dead["items"][0]["reason"], "unknown-kind");
    let number = rig.json(&["dead", "planet"])["items"][0]["sequence"].to_string();
    assert!(rig.says(&["dead", "planet"]).contains("unknown kind \"planet\""));
    let whole = rig.says(&["peek", "--dead", "--message", &number]);
    assert!(!whole.contains('\u{1b}') && whole.contains("Weir-Dead-Reason"), "{whole:?}");

    assert_eq!(rig.weir(&["redrive", "--yes"]).status.code(), Some(2), "which, it must be told");
    let asked = rig.weir(&["redrive", "--all"]);
    assert_eq!(asked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&asked.stderr).contains("--yes"), "nobody can be asked here");
    assert_eq!(rig.json(&["dead"])["total"], 3, "and nothing was sent");

    let sent = rig.json(&["redrive", "--kind", "comet", "--yes"]);
    assert_eq!((&sent[0]["outcome"], &sent[0]["subject"]), (&"sent".into(), &"work.urgent.comet.ns.c".into()));
    assert!(rig.says(&["redrive", &number, "-y"]).contains("sent to work.urgent.planet.ns."));
    assert_eq!(rig.weir(&["redrive", &number, "-y"]).status.code(), Some(1), "it is no longer there");
    rig.says(&["redrive", "--all", "--yes"]);
    assert_eq!(rig.json(&["dead"])["total"], 0);
    assert_eq!(rig.json(&["peek"])["total"], 3);
    assert!(rig.says(&["ls"]).contains("nobody takes it"));
}

/// Proves: R-6
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_there_is_not_is_told_from_one_that_has_nothing() {
    let rig = Rig::start().await;
    let body = "x".into();
    rig.queue.client().request("work.urgent.planet.ns.a", body).await.unwrap();
    for view in ["peek", "timers", "leases", "dead"] {
        for kind in ["srever", "srever/ns", "srever/ns/a"] {
            let output = rig.weir(&[view, kind]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{view} {kind}");
            assert!(said.contains("srever") && said.contains("security-group"), "{view} {kind}: {said}");
        }
        for kind in ["servers", "Server", "srv", "SecurityGroups", "securitygroup/ns", "sg/ns", "server-monitor"] {
            rig.says(&[view, kind]);
        }
    }
    for command in ["redrive", "drop"] {
        let output = rig.weir(&[command, "--kind", "srever", "--yes"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("security-group"), "{command}: {said}");
    }
    assert!(rig.says(&["peek", "planet"]).contains("work.urgent.planet.ns.a"), "of that there is a message");
}

/// Proves: R-6
#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_none_is_wrong_usage_and_a_huge_one_is_not_there() {
    let rig = Rig::start().await;
    for args in [
        &["peek", "-m", "0"][..],
        &["peek", "--message", "-1"],
        &["peek", "-m", "18446744073709551616"],
        &["peek", "--dead", "-m", "0"],
        &["peek", "-n", "0"],
        &["timers", "-n", "-1"],
        &["leases", "-n", "100001"],
        &["dead", "-n", "x"],
        &["redrive", "0", "-y"],
        &["redrive", "-1", "-y"],
        &["drop", "0", "-y"],
        &["drop", "99999999999999999999", "-y"],
        &["peek", "--lane", "fast"],
        &["redrive", "1", "--for", "srever/ns/a"],
        &["redrive", "--all", "--for", "server/ns/a"],
    ] {
        let output = rig.weir(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(!said.contains("JetStream") && !said.contains("10003"), "{args:?}: {said}");
    }
    for huge in ["999", "9223372036854775808", "18446744073709551615"] {
        for args in [&["peek", "-m", huge][..], &["peek", "--dead", "-m", huge]] {
            let output = rig.weir(args);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{args:?}");
            assert!(said.contains(&format!("there is no message {huge}")), "{args:?}: {said}");
        }
        for command in ["redrive", "drop"] {
            let output = rig.weir(&[command, huge, "--yes"]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.code() == Some(1) && said.contains("no such dead letter"), "{command}: {said}");
        }
    }
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn any_dead_letter_can_be_answered_or_dropped_and_none_without_being_told() {
    let rig = Rig::start().await;
    let put = async |subject: &str, came_on: &str, complete: &str| {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Weir-Dead-Subject", came_on);
        headers.insert("Weir-Dead-Complete", complete);
        headers.insert("Weir-Dead-Reason", "missing-header");
        let jetstream = rig.queue.jetstream();
        jetstream.publish_with_headers(subject.to_owned(), headers, "x".into()).await.unwrap().await.unwrap().sequence
    };
    // As a function on Lambda keeps what came from SQS and tells nothing of its object.
    let foreign = put("dead.sqs.servers.fifo", "sqs.servers.fifo", "true").await.to_string();
    let output = rig.weir(&["redrive", &foreign, "--yes"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("--for") && said.contains("weir queue drop"), "{said}");
    let sent = rig.json(&["redrive", &foreign, "--for", "servers/ns/web", "--yes"]);
    assert_eq!((&sent[0]["outcome"], &sent[0]["subject"]), (&"sent".into(), &"work.urgent.server.ns.web".into()));
    assert_eq!(rig.json(&["peek", "server"])["items"][0]["cause"], "replayed");

    for name in ["a", "b"] {
        put(&format!("dead.work.urgent.planet.ns.{name}"), &format!("work.urgent.planet.ns.{name}"), "true").await;
    }
    let one = put("dead.sqs.q", "sqs.q", "true").await.to_string();
    assert_eq!(rig.weir(&["drop", "--yes"]).status.code(), Some(2), "which, it must be told");
    for args in [&["drop", "--all"][..], &["drop", &one]] {
        let asked = rig.weir(args);
        assert_eq!(asked.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&asked.stderr).contains("--yes"), "nobody can be asked here");
        assert!(String::from_utf8_lossy(&asked.stdout).contains("sqs.q"), "but it is shown what would be dropped");
    }
    assert_eq!(rig.json(&["dead"])["total"], 3, "and nothing was dropped");
    assert_eq!(rig.json(&["drop", &one, "--yes"])[0]["outcome"], "dropped");
    let again = rig.weir(&["drop", &one, "--yes"]);
    assert!(again.status.code() == Some(1) && String::from_utf8_lossy(&again.stdout).contains("no such"));
    assert_eq!(rig.json(&["drop", "--kind", "planet/ns/a", "-y"])[0]["outcome"], "dropped");
    assert_eq!(rig.json(&["dead"])["total"], 1);
    rig.says(&["drop", "--all", "-y"]);
    assert_eq!(rig.json(&["dead"])["total"], 0);
    assert!(rig.says(&["drop", "--all", "-y"]).contains("no such dead letters"));
}

#[test]
fn a_nats_that_a_variable_names_is_said_so_and_the_flag_outranks_it() {
    let home = tempfile::tempdir().unwrap();
    let nats = NatsServer::start().unwrap();
    let ls = |variable: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["queue", "ls"]).args(args).env("WEIR_HOME", home.path()).env("WEIR_NATS_URL", variable);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = ls(&nats.url(), &[]);
    assert!(code == Some(1) && said.contains("no stream WORK"), "{code:?} {said}");
    let first = said.lines().next().unwrap();
    assert!(first.contains(&nats.url()) && first.contains("WEIR_NATS_URL"), "{said}");
    let (code, said) = ls("nats://127.0.0.1:1", &["--nats", &nats.url()]);
    assert!(code == Some(1) && said.contains("no stream WORK") && !said.contains("WEIR_NATS_URL"), "{code:?} {said}");
    let (code, said) = ls("", &[]);
    assert!(code == Some(3) && said.contains("weir up"), "one that is empty is none: {code:?} {said}");
    let (code, said) = ls("nats://me:hunter2@127.0.0.1:1", &[]);
    assert!(code == Some(1) && !said.contains("hunter2"), "{code:?} {said}");
}

#[test]
fn without_a_stack_or_with_a_nats_that_is_not_there_it_says_so() {
    let home = tempfile::tempdir().unwrap();
    let weir = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("queue").args(args).env("WEIR_HOME", home.path()).env_remove("WEIR_NATS_URL");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = weir(&["ls"]);
    assert!(code == Some(3) && said.contains("weir up"), "{code:?} {said}");
    let (code, said) = weir(&["ls", "--nats", "nats://127.0.0.1:1"]);
    assert!(code == Some(1) && said.contains("127.0.0.1:1"), "{code:?} {said}");
    let (code, said) = weir(&["ls", "--nats", "nats://me:hunter2@127.0.0.1:1"]);
    assert!(code == Some(1) && !said.contains("hunter2"), "{code:?} {said}");
    let nats = NatsServer::start().unwrap();
    let (code, said) = weir(&["ls", "--nats", &nats.url()]);
    assert!(code == Some(1) && said.contains("no stream WORK"), "{code:?} {said}");
}

/// Proves: R-6
#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_told_beside_what_is_there() {
    let rig = Rig::start().await;
    rig.queue.publish(work("a"), Lane::Urgent, None, None).await.unwrap();
    rig.queue.jetstream().delete_stream("DEAD").await.unwrap();
    let shown = rig.says(&["ls"]);
    assert!(shown.contains("server") && shown.contains("0 timers, 0 leases, dead letters unknown"), "{shown}");
    assert!(shown.contains("no stream DEAD") && shown.contains("has been removed"), "{shown}");
    let overview = rig.json(&["ls"]);
    assert_eq!((&overview["dead"], &overview["missing"][0]), (&Value::Null, &"DEAD".into()));
    rig.says(&["peek"]);
    rig.queue.jetstream().delete_stream("KV_LEASES").await.unwrap();
    for (view, stream) in [("dead", "DEAD"), ("leases", "KV_LEASES")] {
        let output = rig.weir(&[view]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(&format!("no stream {stream}")), "{said}");
        assert!(said.contains("has been removed") && !said.contains("been there yet"), "{said}");
    }
}

/// Proves: Q-10
#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_not_there_is_not_asked_about_and_one_told_twice_is_one() {
    let rig = Rig::start().await;
    let put = async |on: String| rig.queue.jetstream().publish(on, "x".into()).await.unwrap().await.unwrap().sequence;
    let number = put("dead.x".to_owned()).await.to_string();
    for command in ["redrive", "drop"] {
        let output = rig.weir(&[command, "999"]);
        let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.code() == Some(1) && out.contains("999: there is no such"), "{command}: {out}");
        assert_eq!(said, "", "{command}");
        let output = rig.weir(&[command, &number, "999", &number]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("this message"), "{command}: {said}");
    }
    assert_eq!(rig.json(&["drop", &number, &number, "-y"]).as_array().unwrap().len(), 1);

    let junk = put("timer.server.ns.a".to_owned()).await.to_string();
    assert!(rig.says(&["timers"]).contains(&format!("`drop {junk} --timer`")));
    let asked = rig.weir(&["drop", &junk, "--timer"]);
    assert!(asked.status.code() == Some(1) && String::from_utf8_lossy(&asked.stderr).contains("--yes"));
    assert_eq!(rig.json(&["drop", &junk, "--timer", "-y"])[0]["outcome"], "dropped");
    assert_eq!(rig.json(&["timers"])["total"], 0);
}
