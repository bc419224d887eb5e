//! Recorded calls as the program shows, runs and exports them, against a real nats-server that holds some.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../tests/harness/src/nats.rs"]
#[allow(dead_code)] // shared with other tests, which use other parts of it
mod nats;

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nats::NatsServer;
use weir_function_runtime::queue;
use weir_function_runtime::record::past;
use weir_function_runtime::settings::Settings;
use weir_messages::{Recording, recording};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/recorded/identity.json");

struct Rig {
    nats: NatsServer,
    home: tempfile::TempDir,
    /// The last is like the first, but for the end of its ID.
    calls: Vec<Recording>,
}

impl Rig {
    async fn start() -> Self {
        let nats = NatsServer::start().unwrap();
        let settings = Settings::from_arguments(["--nats", &nats.url(), "--name", "tester"]).unwrap();
        let queue = queue::connect_now(&settings).await.unwrap();
        queue.ensure().await.unwrap();
        let mut calls = past::open(File::open(RECORDED).unwrap()).unwrap();
        let mut twin = calls[0].clone();
        let last = twin.id.pop().unwrap();
        twin.id.push(if last == '0' { '1' } else { '0' });
        calls.push(twin);
        for call in &calls {
            let subject = recording::subject(call.object(), &call.id).unwrap();
            let stored = queue.jetstream().publish(subject, serde_json::to_vec(call).unwrap().into()).await.unwrap();
            stored.await.unwrap();
        }
        queue.close().await;
        Self { nats, home: tempfile::tempdir().unwrap(), calls }
    }

    fn weir(&self, args: &[&str], out: impl Into<Stdio>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(args).args(["--nats", &self.nats.url()]).stdin(Stdio::null()).stdout(out);
        command.env("WEIR_HOME", self.home.path()).env_remove("WEIR_NATS_URL");
        command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap()
    }

    /// Exit code, standard output and standard error.
    fn says(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.weir(args, Stdio::piped());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

/// Proves: R-5
#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_by_as_much_of_its_id_as_no_other_has_in_whatever_case() {
    let rig = Rig::start().await;
    let [first, second, .., twin] = rig.calls.as_slice() else { panic!("more calls are recorded than two") };
    for id in [&second.id[..8], &second.id[..8].to_uppercase(), &second.id.to_uppercase(), &twin.id] {
        let (code, shown, said) = rig.says(&["trace", "--id", id]);
        let call = if *id == *twin.id { twin } else { second };
        assert!(code == 0 && shown.contains(&format!("call {}\n", call.id)), "{id}: {shown}{said}");
        let (code, shown, said) = rig.says(&["replay", "call", id]);
        assert!(code == 0 && shown.contains(&format!("call {}\n", call.id)), "{id}: {shown}{said}");
    }
    for command in [&["trace", "--id"][..], &["replay", "call"]] {
        let with = |id| [command, &[id]].concat();
        let (code, shown, said) = rig.says(&with(&first.id[..8]));
        assert_eq!((code, shown.as_str()), (1, ""), "{said}");
        assert!(said.contains("2 calls") && said.contains(&first.id) && said.contains(&twin.id), "{said}");
        let (code, _, said) = rig.says(&with("no-such"));
        assert!(code == 1 && said.contains("no call no-such is recorded"), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_behind_standard_output_is_a_failure_in_one_line_and_a_reader_who_has_gone_is_none() {
    let rig = Rig::start().await;
    let (id, object) = (rig.calls[1].id.as_str(), rig.calls[1].object().to_string());
    for args in [
        &["trace", &object][..],
        &["trace", &object, "--json"],
        &["trace", "--id", id],
        &["trace", "--id", id, "--json"],
        &["replay", "call", id],
        &["queue", "ls"],
        &["queue", "ls", "--json"],
        &["queue", "peek"],
        &["queue", "dead", "--json"],
        &["export", "--all"],
        &["export", "--all", "--output", "-"],
        &["export", "--all", "--output", "/dev/stdout"],
    ] {
        let output = rig.weir(args, File::options().write(true).open("/dev/full").unwrap());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{args:?}: {said}");
        assert!(said.starts_with("weir: cannot write ") && said.contains("No space left"), "{args:?}: {said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = rig.weir(args, writer);
        assert_eq!(
            (output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

/// Proves: R-3
#[tokio::test(flavor = "multi_thread")]
async fn an_export_replaces_a_file_and_nothing_that_is_none() {
    let rig = Rig::start().await;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let export = |path: &Path| rig.says(&["export", "--all", "--output", path.to_str().unwrap()]);
    let (code, whole, said) = rig.says(&["export", "--all"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(past::open(whole.as_bytes()).unwrap(), rig.calls);
    let (code, shown, _) = rig.says(&["export", "--all", "-o", "-"]);
    assert_eq!((code, shown), (0, whole.clone()));

    // What a killed export has left goes with the next.
    fs::write(at("file"), "old").unwrap();
    fs::write(at("file.1.tmp"), "half").unwrap();
    let (code, shown, said) = export(&at("file"));
    assert!(code == 0 && shown.is_empty() && said.contains("5 calls"), "{said}");
    assert_eq!(fs::read_to_string(at("file")).unwrap(), whole);
    assert!(!at("file.1.tmp").exists());

    // A link stays one, also one that leads to nothing yet.
    fs::create_dir(at("deep")).unwrap();
    symlink("deep/link", at("link")).unwrap();
    symlink("../target", at("deep/link")).unwrap();
    for _ in 0..2 {
        assert_eq!(export(&at("link")).0, 0);
        assert_eq!(fs::read_to_string(at("target")).unwrap(), whole);
        assert!(at("link").is_symlink() && at("deep/link").is_symlink() && !at("target").is_symlink());
        fs::write(at("target"), "old").unwrap();
    }
    symlink("round", at("round")).unwrap();
    let (code, _, said) = export(&at("round"));
    assert!(code == 1 && said.contains("link to link"), "{said}");
    let (code, _, said) = export(folder.path());
    assert!(code == 1 && said.contains("directory"), "{said}");

    // A pipe takes it, and is still one.
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = at("pipe");
        move || fs::read_to_string(pipe)
    });
    let (code, _, said) = export(&at("pipe"));
    assert!(code == 0 && at("pipe").metadata().unwrap().file_type().is_fifo(), "{said}");
    assert_eq!(reader.join().unwrap().unwrap(), whole);

    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["deep", "file", "link", "pipe", "round", "target"], "nothing is left behind");
}

/// By way of links, so that a fault would not replace what the whole machine has.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn an_export_into_a_device_writes_to_the_device() {
    let rig = Rig::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (full, log) = (folder.path().join("full"), folder.path().join("log"));
    symlink("/dev/full", &full).unwrap();
    let (code, _, said) = rig.says(&["export", "--all", "-o", full.to_str().unwrap()]);
    assert!(code == 1 && said.contains("No space left") && said.lines().count() == 1, "{said}");
    assert_eq!(fs::read_link(&full).unwrap(), Path::new("/dev/full"));
    assert!(full.metadata().unwrap().file_type().is_char_device());
    // What standard output leads to is appended to, as the shell was told, and not replaced.
    fs::write(&log, "before\n").unwrap();
    let output = rig.weir(&["export", "--all", "-o", "/dev/stdout"], File::options().append(true).open(&log).unwrap());
    assert!(output.status.success());
    let written = fs::read_to_string(&log).unwrap();
    let export = written.strip_prefix("before\n").expect("what was there is still there");
    assert_eq!(past::open(export.as_bytes()).unwrap(), rig.calls);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}
