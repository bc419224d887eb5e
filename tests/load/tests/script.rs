//! `./weir bench`, the script, where nothing has been built yet.

#![allow(clippy::unwrap_used)]

use std::process::Command;

/// A build of half an hour began, and said after it what was wrong with the command.
#[test]
fn help_and_what_is_wrong_are_said_before_a_build_that_takes_long() {
    let nothing = tempfile::tempdir().unwrap();
    let bench = |args: &[&str]| {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../weir"));
        // Nor is there a compiler that could build anything.
        command.arg("bench").args(args).env("CARGO_TARGET_DIR", nothing.path()).env("PATH", "/usr/bin:/bin");
        let output = command.env("CARGO_HOME", nothing.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    for args in [&["--help"][..], &["a", "-h"]] {
        let (code, said) = bench(args);
        assert!(code == Some(0) && said.contains("--quick") && said.contains("15 to 30 minutes"), "{args:?}: {said}");
    }
    for args in [&["h"][..], &["--fast"], &["a", "--repeats"], &["--repeats", "0"], &["--repeats=x", "b"]] {
        let (code, said) = bench(args);
        assert!(code == Some(2) && said.starts_with("weir: "), "{args:?}: {said}");
    }
    assert_eq!(nothing.path().read_dir().unwrap().count(), 0, "nothing was built");
}
