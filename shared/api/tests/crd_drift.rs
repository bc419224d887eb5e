//! `infra/crds` holds what the types say, and the tool that compares them notices when it does not.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn crds(mode: &str, folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crds")).arg(mode).arg(folder).output().unwrap()
}

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/crds")
}

#[test]
fn the_committed_definitions_are_those_of_the_types() {
    let output = crds("--check", &committed());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_changed_a_missing_and_a_leftover_file_are_each_drift_and_writing_mends_them() {
    let folder = tempfile::tempdir().unwrap();
    let check = |what: &str| {
        let output = crds("--check", folder.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(what), "{what}: {said}");
        assert!(crds("--write", folder.path()).status.success());
        assert!(crds("--check", folder.path()).status.success());
    };
    check("region.unikorn-cloud.org_servers.yaml");

    let file = folder.path().join("region.unikorn-cloud.org_servers.yaml");
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("maximum", "minimum").replace("Server", "Servant"))
        .unwrap();
    check("region.unikorn-cloud.org_servers.yaml");

    fs::remove_file(folder.path().join("kustomization.yaml")).unwrap();
    check("kustomization.yaml");

    fs::write(folder.path().join("old.yaml"), "").unwrap();
    check("old.yaml");
}
