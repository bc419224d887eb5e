//! What happened in one stack, seen, run again, and begun from in another: `weir trace`, `replay`, `export` and `import`, as a
//! newcomer types them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_api::{Kind, labels};

/// Longer than anything here takes, even on a machine that is busy building.
const PATIENCE: Duration = Duration::from_secs(120);

/// A place for one stack. Ends the stack when it is dropped.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PathBuf::from(env!("CARGO_BIN_EXE_weir")));
        command.args(args).env("WEIR_HOME", self.0.path()).stdin(Stdio::null());
        for variable in ["WEIR_NATS_SERVER", "WEIR_NATS_URL"] {
            command.env_remove(variable);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Waits until a command prints this.
    fn until(&self, what: &str, args: &[&str], prints: &str) {
        let began = Instant::now();
        loop {
            let text = String::from_utf8_lossy(&self.run(args).stdout).into_owned();
            if text.contains(prints) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "never: {what}\n{text}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a command that must end so, and returns what it printed.
    fn said(&self, args: &[&str], code: i32) -> String {
        let output = self.run(args);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "weir {}\n{text}", args.join(" "));
        text
    }

    fn ok(&self, args: &[&str]) -> String {
        self.said(args, 0)
    }

    fn eventually(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let status: Value = serde_json::from_slice(&self.run(&["status", "--json"]).stdout).unwrap_or_default();
            if holds(&status["objects"]) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "never: {what}\n{status:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
    }
}

fn all_available(objects: &Value) -> bool {
    objects.as_array().is_some_and(|all| all.len() == 5 && all.iter().all(|object| object["available"] == true))
}

/// Cells of a table, by two blanks or more between them.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// Proves
#[test]
fn a_call_of_one_stack_is_traced_and_run_again_and_its_objects_come_about_in_another() {
    let home = Home::new();
    home.ok(&["up", "--detach"]);
    home.eventually("the sample is available", all_available);
    // By what people call it; and by a kind as kubectl takes it. A call is recorded a moment after what it did shows.
    home.until("the call that made the server", &["trace", "server/default/demo-server"], "create server");
    let trace = home.ok(&["trace", "servers/default/demo-server"]);
    let lines: Vec<&str> = trace.lines().collect();
    assert_eq!(cells(lines[1]), ["WHEN", "WHY", "READ", "DECIDED", "DID", "TOOK", "CALL", "OUTCOME"]);
    let made = lines.iter().find(|line| line.contains("create server"));
    let made = cells(made.unwrap_or_else(|| panic!("no call has made the server:\n{trace}")));
    assert_eq!(made.len(), 8, "{trace}");
    assert!(made[1].contains("urgent") || made[1].contains("routine"), "why: {trace}");
    assert!(made[2].contains("kubernetes") && made[2].contains("cloud"), "read: {trace}");
    assert!(made[4].contains("POST ports, servers, status"), "did: {trace}");
    assert!(made[5].ends_with(" ms") || made[5].ends_with(" s"), "how long: {trace}");
    assert_eq!(made[7], "settled", "{trace}");
    let call = made[6];

    let story = home.ok(&["trace", "--id", call]);
    assert!(story.contains("step  ") && story.contains("-> 202") && story.contains("outcome: "), "{story}");
    let replay = home.ok(&["replay", "call", call]);
    assert!(replay.contains("The same decision, to the byte."), "{replay}");
    let until = home.ok(&["replay", "call", call, "--until", "create"]);
    assert!(until.contains("stopped here"), "{until}");
    let never = home.said(&["replay", "call", call, "--until", "moonrise"], 1);
    assert!(
        never.contains("no step was decided that begins with moonrise") && never.contains("  create server"),
        "{never}"
    );
    let last = home.ok(&["trace", "srv/default/demo-server", "--last", "1"]);
    assert!(last.contains("older calls") && last.lines().count() == 4, "{last}");
    assert!(!last.contains(cells(lines[2])[6]), "the first call is not the last: {last}\n{trace}");

    // Of what is not there, it is told what is.
    let none = home.said(&["trace", "server/default/nobody"], 1);
    assert!(none.contains("There are some for: server/default/"), "{none}");
    let dry = home.ok(&["replay", "events", "--kind", "server", "--dry-run"]);
    assert!(dry.contains("server/default/") && dry.contains("nothing was published"), "{dry}");

    let file = home.0.path().join("yesterday.json");
    let file = file.to_str().unwrap();
    let written = home.ok(&["export", "--all", "--output", file]);
    assert!(written.contains("calls") && written.contains("objects"), "{written}");
    home.ok(&["down"]);
    let again = home.ok(&["replay", "file", file]);
    assert!(again.contains("calls were run again: ") && again.contains(", 0 otherwise."), "{again}");
    assert_eq!(secrets(Path::new(file)), 0);

    let scratch = Home::new();
    scratch.said(&["import", file], 3);
    scratch.ok(&["up", "--detach", "--no-sample"]);
    let imported = scratch.ok(&["import", file]);
    assert!(imported.contains("Applied ") && imported.contains("Published "), "{imported}");
    scratch.eventually("all is available in the other stack", all_available);
    scratch.until("the call that made it there", &["trace", "server/default/demo-server"], "create server");

    // What is there is not overwritten, even where only a name was changed; and another stack's cluster is not written into.
    server(&scratch, Some("mine"));
    let refused = scratch.said(&["import", file], 1);
    assert!(refused.contains("already, and nothing is overwritten") && refused.contains("and more"), "{refused}");
    assert!(refused.contains("up --no-sample") && !refused.contains("Applied"), "{refused}");
    assert_eq!(name(&scratch), "mine");
    let other = Home::new();
    let kubeconfig = scratch.0.path().join("run/kubeconfig");
    other.ok(&["up", "--detach", "--no-sample", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    let refused = other.said(&["import", file], 1);
    assert!(refused.contains("--kubeconfig") && refused.contains("up --no-sample"), "{refused}");
    assert_eq!(name(&scratch), "mine");
}

/// Proves: R-4
#[test]
fn past_events_are_found_by_any_name_listed_asked_about_and_published_at_a_pace() {
    let home = Home::new();
    home.ok(&["up", "--detach"]);
    home.eventually("the sample is available", all_available);
    let of_server = ["replay", "events", "--kind", "servers", "--name", "demo-server"];
    let with = |more: &[&'static str]| [&of_server[..], more].concat();
    let dry = home.ok(&with(&["--dry-run"]));
    let count = dry.lines().filter(|line| line.contains("server/default/")).count();
    assert!(count > 0 && dry.contains("nothing was published"), "{dry}");
    // Of what is not there, it is told what is.
    let none = home.said(&["replay", "events", "--kind", "volume", "--dry-run"], 1);
    assert!(
        none.contains("no event fits") && none.contains("There are some from") && none.contains("server "),
        "{none}"
    );
    let none = home.said(&["replay", "events", "--kind", "server", "--name", "Nobody", "--yes"], 1);
    assert!(none.contains("; for server/default/"), "{none}");
    let none = home.said(&["replay", "events", "--since", "1h", "--until", "2h"], 1);
    assert!(none.contains("--since is after --until"), "{none}");
    // Without an answer nothing is published.
    let asked = home.said(&with(&[]), 1);
    assert!(asked.contains("say --yes") && asked.contains("Nothing was published"), "{asked}");
    assert!(!home.ok(&["trace", "server/default/demo-server"]).contains("replayed"), "nothing was published");
    let began = Instant::now();
    let published = home.ok(&with(&["--yes", "--pace", "2"]));
    let many: u32 =
        published.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{published}"));
    // There may be more by now. The first goes at once.
    assert!(many as usize >= count && began.elapsed() >= Duration::from_millis(500) * (many - 1), "{published}");
    home.until("a replayed call", &["trace", "server/default/demo-server"], "replayed");
    // Those are no events to be replayed again.
    let dry = home.ok(&with(&["--dry-run"]));
    assert!(!dry.contains("replayed"), "{dry}");
}

/// Proves: R-5
#[test]
fn an_object_goes_by_its_display_name_before_it_is_called_so_and_after_it_is_gone() {
    let home = Home::new();
    home.ok(&["up", "--detach"]);
    home.eventually("the sample is available", all_available);
    // Nobody is called so yet.
    let late = "server/default/Web_Two.x";
    let none = home.said(&["trace", late], 1);
    assert!(none.contains("no call for server/default/Web_Two.x is recorded"), "{none}");
    let mut follower = home.command(&["trace", late, "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    server(&home, Some("Web_Two.x"));
    let told = BufReader::new(follower.stdout.take().unwrap()).lines();
    let told: Vec<String> = told.map_while(Result::ok).take(3).collect();
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert!(told.iter().any(|line| line.contains(", Web_Two.x")), "{told:?}");
    assert!(told.last().is_some_and(|line| cells(line).len() == 8), "{told:?}");

    let id = remove(&home);
    home.eventually("the server is gone", |objects| objects.as_array().is_some_and(|all| all.len() == 4));
    for name in [late, "server/default/demo-server", &format!("server/default/{id}")] {
        home.until("the end of its story", &["trace", name], "gone");
    }
    let file = home.0.path().join("gone.json");
    let written = home.ok(&["export", late, "--output", file.to_str().unwrap()]);
    assert!(written.contains(&format!("being deleted when last read: server default/{id}")), "{written}");
}

/// The one server of a stack's cluster, called otherwise first if a name is given.
fn server(home: &Home, rename: Option<&str>) -> DynamicObject {
    talk(home, async |api| {
        let server = api.list(&ListParams::default()).await.unwrap().items.remove(0);
        let Some(name) = rename else { return server };
        let patch = Patch::Merge(serde_json::json!({"metadata": {"labels": {(labels::NAME): name}}}));
        api.patch(&server.metadata.name.unwrap(), &PatchParams::default(), &patch).await.unwrap()
    })
}

/// Deletes the one server. Returns its name.
fn remove(home: &Home) -> String {
    talk(home, async |api| {
        let name = api.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        name
    })
}

/// Talks about servers to a stack's cluster.
fn talk<T>(home: &Home, about: impl AsyncFnOnce(Api<DynamicObject>) -> T) -> T {
    let talk = async {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = kube::config::Kubeconfig::read_from(home.0.path().join("run/kubeconfig")).unwrap();
        let choice = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &choice);
        let client = kube::Client::try_from(config.await.unwrap()).unwrap();
        about(Api::namespaced_with(client, "default", &Kind::Server.resource())).await
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(talk)
}

/// What people call the one server of a stack's cluster.
fn name(home: &Home) -> String {
    labels::display_name(&server(home, None))
}

/// How many passwords are in an exported file that are none of its placeholders.
fn secrets(file: &Path) -> usize {
    fn look(value: &Value) -> usize {
        match value {
            Value::Object(map) => map
                .iter()
                .map(|(name, value)| match value {
                    Value::String(text) if name == "password" => {
                        usize::from(!text.starts_with("redacted-") && !text.starts_with("cmVkYWN0ZWQt"))
                    }
                    other => look(other),
                })
                .sum(),
            Value::Array(items) => items.iter().map(look).sum(),
            _ => 0,
        }
    }
    look(&serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())
}
