//! What `weir` says of command lines that make no sense, before it does anything.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

/// Exit code, standard output and standard error of a command in a place of its own.
fn weir(args: &[&str]) -> (i32, String, String) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).env("WEIR_HOME", home.path()).env_remove("WEIR_NATS_URL");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_command_that_does_not_exist_is_answered_with_those_that_do() {
    let (code, _, said) = weir(&["strat"]);
    assert_eq!(code, 2);
    for name in ["strat", "up", "status", "queue", "test", "bench"] {
        assert!(said.contains(name), "{name}: {said}");
    }
    assert!(!said.contains("supervise") && !said.contains("guard"), "{said}");
}

/// Proves: OSC-13
#[test]
fn a_password_in_an_address_is_refused_and_not_said_again() {
    for address in
        ["nats://weir:hunter2@127.0.0.1:4222", "nats://127.0.0.1:4222,nats://weir:hunter2@bad host", "hunter2@x"]
    {
        let (code, out, said) = weir(&["up", "--nats", address]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("WEIR_NATS_PASSWORD"), "{said}");
        assert!(!said.contains("hunter2") && !out.contains("hunter2"), "{said}{out}");
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_the_option_that_chose_it() {
    let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    for option in ["--kube-port", "--nats-port", "--openstack-port", "--metrics-port"] {
        let (code, _, said) = weir(&["up", option, &port]);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(&format!("port {port}")) && said.contains(option), "{said}");
        let (code, _, said) = weir(&["up", option, "0"]);
        assert!(code == 2 && said.contains(option), "{said}");
    }
}

#[test]
fn a_usage_line_shows_what_is_needed_and_nothing_else() {
    for command in [&["replay", "call"][..], &["trace"], &["export"], &["import"]] {
        let (code, _, said) = weir(command);
        assert!(code == 2 && said.contains("Usage: "), "{said}");
        assert!(!said.contains("--home"), "{said}");
    }
}

/// Proves: R-3
#[test]
fn a_file_that_holds_no_recordings_is_refused_in_one_plain_line() {
    let folder = tempfile::tempdir().unwrap();
    let good = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/recorded/identity.json")).unwrap();
    let files: [(&str, &[u8], &str); 6] = [
        ("cut.json", &good[..good.len() / 2], "ends in the middle"),
        ("empty.json", b"", "ends in the middle"),
        ("garbage.json", b"\x00\xff\x01", "no file that `weir export` has written"),
        ("other.json", b"{\"kind\": \"Server\"}", "holds no recorded calls"),
        ("none.json", b"{\"form\": 1, \"recordings\": []}", "holds no "),
        ("future.json", b"{\"form\": 9, \"recordings\": []}", "from the future"),
    ];
    for (name, bytes, why) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        for command in ["replay file", "import"] {
            let path = path.to_str().unwrap();
            let words: Vec<&str> = command.split(' ').chain([path]).collect();
            let (code, out, said) = weir(&words);
            if command == "import" && name == "none.json" {
                // That it holds nothing is looked at once there is something to load it into.
                assert_eq!(code, 3, "{said}");
                continue;
            }
            assert_eq!((code, out.as_str()), (1, ""), "{command} {name}: {said}");
            assert!(
                said.starts_with("weir: ") && said.contains(why) && said.contains(path),
                "{command} {name}: {said}"
            );
            assert!(said.lines().count() == 1 && said.matches("column").count() <= 1, "said twice: {said}");
        }
    }
    let (code, _, said) = weir(&["replay", "file", "/dev/zero"]);
    assert!(code == 1 && said.contains("no file that `weir export` has written"), "{said}");
    let (code, _, said) = weir(&["replay", "file", folder.path().to_str().unwrap()]);
    assert!(code == 1 && said.contains("directory"), "{said}");
}

/// Proves: R-3
#[test]
fn what_export_never_writes_is_not_imported_whatever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for (objects, why) in [
        (r#"["x"]"#, "what is no object"),
        (
            r#"[{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}]"#,
            "ConfigMap of v1",
        ),
        (
            r#"[{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "x"}}]"#,
            "ClusterRoleBinding of rbac.authorization.k8s.io/v1",
        ),
    ] {
        let path = folder.path().join("x.json");
        std::fs::write(&path, format!(r#"{{"form": 1, "recordings": [], "objects": {objects}}}"#)).unwrap();
        let (code, out, said) = weir(&["import", path.to_str().unwrap()]);
        assert_eq!((code, out.as_str()), (1, ""), "{said}");
        assert!(said.contains("never writes: ") && said.contains(why) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_step_to_stop_at_has_to_be_named() {
    for command in [&["replay", "call", "a", "--until", ""][..], &["replay", "file", "a", "--until="]] {
        let (code, _, said) = weir(command);
        assert!(code == 2 && said.contains("--until"), "{said}");
    }
}

/// Exit code and standard error of a command whose standard output leads there.
#[cfg(target_os = "linux")]
fn weir_into(out: impl Into<std::process::Stdio>, args: &[&str]) -> (i32, String) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).env("WEIR_HOME", home.path()).env_remove("WEIR_NATS_URL").stdout(out);
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Of commands that need no stack; the others are in `past.rs`.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_a_failure_in_one_line_and_a_reader_who_has_gone_is_none() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/recorded/identity.json");
    for args in
        [&["--help"][..], &["trace", "--help"], &["replay", "file", recorded, "--all"], &["replay", "file", recorded]]
    {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, said) = weir_into(full, args);
        assert_eq!((code, said.lines().count()), (1, 1), "{args:?}: {said}");
        assert!(said.contains("cannot write to standard output: No space left"), "{args:?}: {said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(weir_into(writer, args), (0, String::new()), "{args:?}");
    }
}
