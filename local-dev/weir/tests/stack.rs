//! Whole stacks: the `weir` command with a real nats-server, both simulators and every function.
//!
//! Each test has a home of its own, so they run side by side. Whatever a stack starts inherits `WEIR_HOME`, which is how
//! a test finds every process of its stack, also those that nobody has recorded.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_api::{Kind, ObjectRef};
use weir_function_runtime::queue;
use weir_function_runtime::settings::Settings;
use weir_function_runtime::timer;
use weir_messages::{Cause, Lane, Work};

/// Longer than anything here takes, even on a machine that is busy building.
const PATIENCE: Duration = Duration::from_secs(120);

const PARTS: [&str; 10] = [
    "nats-server",
    "kube-sim",
    "openstack-sim",
    "region",
    "identity",
    "network",
    "security-group",
    "server",
    "server-monitor",
    "watch-publisher",
];

/// A place for one stack. Ends the stack when it is dropped.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let weir = weir();
        for part in &PARTS[1..] {
            let program = weir.with_file_name(part);
            assert!(
                program.is_file(),
                "{} is not built; `./weir test` builds it, or: cargo build --workspace --bins",
                program.display()
            );
        }
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn weir(&self, args: &[&str]) -> Command {
        let mut command = Command::new(weir());
        command
            .args(args)
            .env("WEIR_HOME", self.0.path())
            .env_remove("WEIR_NATS_SERVER")
            .env_remove("WEIR_NATS_URL")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.weir(args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns what it printed.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "weir {}: {}\n{said}", args.join(" "), output.status);
        said
    }

    /// Starts a stack in the foreground, in a process group of its own, as a shell does.
    fn foreground(&self, args: &[&str]) -> Child {
        let out = fs::File::create(self.path("out")).unwrap();
        let mut command = self.weir(args);
        command.stdout(out.try_clone().unwrap()).stderr(out).process_group(0);
        command.spawn().unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.run(&["status", "--json"]).stdout).unwrap()
    }

    fn part(&self, name: &str) -> Value {
        let status = self.status();
        let parts = status["parts"].as_array().unwrap_or_else(|| panic!("no stack runs: {status}"));
        parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("no {name}: {status}")).clone()
    }

    fn is_ready(&self) -> bool {
        self.status()["ready"] == true
    }

    /// The processes that have this home in their environment and have not ended.
    fn processes(&self) -> Vec<i32> {
        let wanted = format!("WEIR_HOME={}", self.0.path().display());
        let mut found = vec![];
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // That of a process which has ended is empty, or cannot be read.
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
                found.push(pid);
            }
        }
        found
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
        // What `down` has left is a fault that the test has reported by now; it must not disturb others.
        for pid in self.processes() {
            signal(pid, "KILL");
        }
    }
}

/// The program under test: the one that cargo has just built, or one among others in `WEIR_TEST_BIN`.
fn weir() -> PathBuf {
    let elsewhere = std::env::var_os("WEIR_TEST_BIN").map(|folder| Path::new(&folder).join("weir"));
    elsewhere.unwrap_or_else(|| env!("CARGO_BIN_EXE_weir").into())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Sends a signal to a process, or, with a negative number, to a group.
fn signal(pid: i32, name: &str) {
    let status = Command::new("kill").args(["-s", name, "--", &pid.to_string()]).stderr(Stdio::null()).status();
    assert!(status.is_ok(), "there is no program called kill");
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "not so after {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ended(child: &mut Child) -> i32 {
    let mut code = None;
    eventually("weir has ended", || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    code.unwrap().code().expect("an exit code")
}

/// Proves: OPS-1, OPS-8
#[test]
fn up_brings_the_sample_to_available_and_down_leaves_nothing() {
    let home = Home::new();
    let said = home.ok(&["up", "--detach"]);
    assert!(said.contains("All available"), "{said}");

    let status = home.status();
    let parts = status["parts"].as_array().unwrap();
    let names: Vec<_> = parts.iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, PARTS);
    assert!(parts.iter().all(|part| part["well"] == true && part["restarts"] == 0), "{status:#}");
    let mut kinds: Vec<_> = status["objects"].as_array().unwrap().iter().map(|object| &object["kind"]).collect();
    kinds.sort_by_key(ToString::to_string);
    assert_eq!(kinds, ["Identity", "Network", "Region", "SecurityGroup", "Server"]);
    assert!(status["objects"].as_array().unwrap().iter().all(|object| object["available"] == true), "{status:#}");

    // What is printed for a shell must be there.
    for place in ["kubeconfig", "clouds", "sample", "nats_credentials"] {
        let path = status["places"][place].as_str().unwrap_or_else(|| panic!("no {place}: {status:#}"));
        assert!(Path::new(path).is_file() && said.contains(path), "{place} {path}\n{said}");
    }

    let password = fs::read_to_string(home.path("run/nats-password")).unwrap();
    for pid in home.processes() {
        let arguments = text(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
        let environment = text(&fs::read(format!("/proc/{pid}/environ")).unwrap_or_default());
        assert!(!arguments.contains(&password) && !environment.contains(&password), "{arguments}");
    }
    for file in fs::read_dir(home.path("run/logs")).unwrap().flatten().map(|entry| entry.path()) {
        assert!(!fs::read_to_string(&file).unwrap().contains(&password), "{}", file.display());
    }
    assert!(!fs::read_to_string(home.path("stack.json")).unwrap().contains(&password));

    assert!(home.ok(&["logs", "nats-server"]).contains("Server is ready"));
    assert!(home.ok(&["queue", "ls"]).contains("server-urgent"), "with the stack's own credentials");
    whose_queue_it_is_and_whose_timer(&home, status["places"]["nats"].as_str().unwrap());
    assert_eq!(home.run(&["logs", "nonsense"]).status.code(), Some(1));

    home.ok(&["down"]);
    assert_eq!(home.processes(), [] as [i32; 0]);
    home.ok(&["down"]);
    assert_eq!(home.run(&["status"]).status.code(), Some(3));
}

/// An object goes by what people call it, too, and a NATS that a variable names is said when it is not the stack's.
fn whose_queue_it_is_and_whose_timer(home: &Home, nats: &str) {
    let password = home.path("run/nats-password");
    let own = ["--nats", nats, "--nats-user", "weir", "--nats-password-file", password.to_str().unwrap()];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let letter = runtime.block_on(async {
        let queue = queue::connect_now(&Settings::from_arguments(own).unwrap()).await.unwrap();
        let server = ObjectRef::new(Kind::Server, "default", "c0ffee00-0000-4000-8000-000000000005");
        let work = Work::new(server, Cause::Requested);
        timer::set(&queue, work, Lane::Routine, Duration::from_secs(3600), None).await.unwrap();
        queue.jetstream().publish("dead.x", "x".into()).await.unwrap().await.unwrap().sequence
    });
    let timers = home.ok(&["queue", "timers", "server/default/demo-server"]);
    assert!(timers.contains("c0ffee00-0000-4000-8000-000000000005"), "{timers}");
    assert!(home.ok(&["queue", "timers", "server/default/nobody"]).contains("No timer"));
    // A letter goes to the object that is meant, and to none that there is not.
    let letter = letter.to_string();
    let answer = |object: &str| home.run(&["queue", "redrive", &letter, "--for", object, "--yes"]);
    let refused = answer("server/default/nobody");
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("there is no server/default/nobody"));
    assert!(home.ok(&["queue", "dead"]).contains(&letter), "it is kept");
    let sent = answer("server/default/demo-server");
    assert!(text(&sent.stdout).contains("work.urgent.server.default.c0ffee00"), "{}", text(&sent.stderr));

    let ls = |url: &str| {
        let mut command = home.weir(&["queue", "ls"]);
        command.env("WEIR_NATS_URL", url).env("WEIR_NATS_USER", "weir").env("WEIR_NATS_PASSWORD_FILE", &password);
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = ls("nats://127.0.0.1:1");
    assert!(code == Some(1) && said.contains("not about the stack"), "{said}");
    assert_eq!(ls(nats), (Some(0), String::new()), "it is the stack's own");
}

#[test]
fn ctrl_c_leaves_nothing_running() {
    let home = Home::new();
    let mut up = home.foreground(&["up", "--no-sample"]);
    eventually("the stack is ready", || home.is_ready());
    // Its parts, the guard and weir itself.
    assert_eq!(home.processes().len(), PARTS.len() + 2);
    signal(-up.id().cast_signed(), "INT");
    assert_eq!(ended(&mut up), 0);
    assert_eq!(home.processes(), [] as [i32; 0]);
}

#[test]
fn ctrl_c_in_the_middle_of_starting_leaves_nothing_running() {
    let home = Home::new();
    let mut up = home.foreground(&["up"]);
    eventually("a first part runs", || home.processes().len() > 2);
    signal(-up.id().cast_signed(), "INT");
    assert_eq!(ended(&mut up), 130);
    assert_eq!(home.processes(), [] as [i32; 0]);
}

#[test]
fn a_terminal_that_goes_away_takes_the_stack_with_it() {
    let home = Home::new();
    let mut up = home.foreground(&["up", "--no-sample"]);
    eventually("the stack is ready", || home.is_ready());
    signal(-up.id().cast_signed(), "HUP");
    assert_eq!(ended(&mut up), 0);
    assert_eq!(home.processes(), [] as [i32; 0]);
}

#[test]
fn a_stack_whose_supervisor_is_killed_ends_too() {
    let home = Home::new();
    home.ok(&["up", "--detach", "--no-sample"]);
    let supervisor = home.status()["supervisor"].as_i64().unwrap();
    signal(i32::try_from(supervisor).unwrap(), "KILL");
    eventually("nothing of the stack runs", || home.processes().is_empty());
    assert_eq!(home.run(&["status"]).status.code(), Some(3));
    home.ok(&["down"]);
}

#[test]
fn what_a_killed_stack_has_left_is_ended_by_the_next_one() {
    let home = Home::new();
    home.ok(&["up", "--detach", "--no-sample"]);
    let status = home.status();
    let supervisor = i32::try_from(status["supervisor"].as_i64().unwrap()).unwrap();
    let parts = status["parts"].as_array().unwrap();
    let parts: Vec<_> = parts.iter().map(|part| i32::try_from(part["pid"].as_i64().unwrap()).unwrap()).collect();
    // The guard is the only process of the stack that nobody lists.
    let all = home.processes();
    let guard: Vec<_> = all.iter().filter(|pid| **pid != supervisor && !parts.contains(pid)).collect();
    assert_eq!(guard.len(), 1, "{all:?}");
    signal(*guard[0], "KILL");
    eventually("the guard has ended", || !home.processes().contains(guard[0]));
    signal(supervisor, "KILL");
    eventually("the supervisor has ended", || !home.processes().contains(&supervisor));
    assert_eq!(home.processes().len(), parts.len(), "its parts were meant to be left over");

    home.ok(&["up", "--detach", "--no-sample"]);
    assert!(home.processes().iter().all(|pid| !parts.contains(pid)));
    assert!(home.is_ready());
}

#[test]
fn a_function_that_is_killed_is_started_again() {
    let home = Home::new();
    let mut up = home.foreground(&["up", "--no-sample"]);
    eventually("the stack is ready", || home.is_ready());
    let first = home.part("network")["pid"].as_i64().unwrap();
    signal(i32::try_from(first).unwrap(), "KILL");
    eventually("network runs again", || {
        let part = home.part("network");
        part["restarts"] == 1 && part["well"] == true && part["pid"].as_i64().unwrap() != first
    });
    assert_eq!(home.part("network")["lastExit"], "SIGKILL");
    let said = fs::read_to_string(home.path("out")).unwrap();
    assert!(said.contains("network ended (SIGKILL)"), "{said}");
    // Ending the stack from elsewhere is the same as Ctrl-C.
    home.ok(&["down"]);
    assert_eq!(ended(&mut up), 0);
    assert_eq!(home.processes(), [] as [i32; 0]);
}

#[test]
fn a_second_stack_in_the_same_place_is_refused_and_the_first_goes_on() {
    let home = Home::new();
    home.ok(&["up", "--detach", "--no-sample"]);
    let before = home.processes();
    for again in [&["up"] as &[&str], &["up", "--detach"]] {
        let refused = home.run(again);
        assert_eq!(refused.status.code(), Some(3));
        let said = text(&refused.stderr);
        assert!(said.contains("runs already") && said.contains("weir down"), "{said}");
    }
    assert_eq!(home.processes(), before);
    assert!(home.is_ready());
}

#[test]
fn a_nats_server_that_is_too_old_is_refused_by_its_version() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let old = home.path("old-nats-server");
    fs::write(&old, "#!/bin/sh\necho 'nats-server: v2.11.3'\n").unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    for how in [&["up"] as &[&str], &["up", "--detach"]] {
        let refused = home.weir(how).env("WEIR_NATS_SERVER", &old).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let said = text(&refused.stderr);
        assert!(
            said.contains("2.11.3 is too old") && said.contains("2.14") && said.contains("WEIR_NATS_SERVER"),
            "{said}"
        );
        assert_eq!(home.processes(), [] as [i32; 0]);
    }
}

#[test]
fn a_part_that_does_not_come_up_is_named_with_its_last_words() {
    let home = Home::new();
    // The port is free when it is looked at, and the configuration is ours; only a folder in the wrong place is left.
    let data = home.path("data");
    home.ok(&["up", "--detach", "--no-sample", "--data", data.to_str().unwrap()]);
    home.ok(&["down"]);
    fs::remove_dir_all(data.join("jetstream")).unwrap();
    fs::write(data.join("jetstream"), "no folder").unwrap();
    let failed = home.run(&["up", "--no-sample", "--data", data.to_str().unwrap()]);
    assert_eq!(failed.status.code(), Some(1));
    let said = text(&failed.stderr);
    assert!(said.contains("nats-server does not come up") && said.contains("not a directory"), "{said}");
    assert_eq!(home.processes(), [] as [i32; 0]);
}

#[test]
fn a_stack_goes_on_from_its_data() {
    let home = Home::new();
    let data = home.path("data");
    let data = data.to_str().unwrap();
    home.ok(&["up", "--detach", "--data", data]);
    let first = home.status();
    home.ok(&["down"]);
    home.ok(&["up", "--detach", "--no-sample", "--data", data]);
    let second = home.status();
    let addresses = |status: &Value| -> Vec<_> {
        status["parts"].as_array().unwrap().iter().map(|part| part["address"].to_string()).collect()
    };
    assert_eq!(addresses(&first), addresses(&second));
    assert_eq!(second["objects"].as_array().unwrap().len(), 5);
    assert!(second["objects"].as_array().unwrap().iter().all(|object| object["available"] == true), "{second:#}");
}

#[test]
fn kubernetes_and_nats_from_elsewhere_take_the_place_of_ours() {
    let (elsewhere, home) = (Home::new(), Home::new());
    elsewhere.ok(&["up", "--detach", "--no-sample"]);
    let places = elsewhere.status()["places"].clone();
    let (kubeconfig, nats) = (places["kubeconfig"].as_str().unwrap(), places["nats"].as_str().unwrap());
    let args = ["up", "--detach", "--no-openstack-sim", "--kubeconfig", kubeconfig, "--nats", nats];
    let up = home
        .weir(&args)
        .env("WEIR_NATS_USER", "weir")
        .env("WEIR_NATS_PASSWORD_FILE", elsewhere.path("run/nats-password"))
        .output()
        .unwrap();
    let said = format!("{}{}", text(&up.stdout), text(&up.stderr));
    assert!(up.status.success() && said.contains("No sample is applied"), "{said}");
    let status = home.status();
    let names: Vec<_> = status["parts"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, PARTS[3..]);
    assert!(status["parts"].as_array().unwrap().iter().all(|part| part["well"] == true), "{status:#}");
    // What is not ours goes on.
    home.ok(&["down"]);
    assert!(elsewhere.is_ready());
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_may_be_killed_at_once_and_the_sample_can_still_be_deleted() {
    use kube::api::{Api, DeleteParams, DynamicObject};
    use weir_api::Kind;

    let home = Home::new();
    home.ok(&["up", "--detach"]);
    for part in home.status()["parts"].as_array().unwrap() {
        signal(i32::try_from(part["pid"].as_i64().unwrap()).unwrap(), "KILL");
    }
    eventually("every part runs again", || {
        home.status()["parts"].as_array().unwrap().iter().all(|part| part["restarts"] == 1 && part["well"] == true)
    });

    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = kube::config::Kubeconfig::read_from(home.path("run/kubeconfig")).unwrap();
    let choice = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &choice);
    let client = kube::Client::try_from(config.await.unwrap()).unwrap();
    for kind in [Kind::Region, Kind::Identity, Kind::Network, Kind::SecurityGroup, Kind::Server] {
        let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind.resource());
        api.delete_collection(&DeleteParams::default(), &kube::api::ListParams::default()).await.unwrap();
    }
    eventually("no object is left", || home.status()["objects"].as_array().is_some_and(Vec::is_empty));
}
