//! Writes the CustomResourceDefinitions to a folder, one file each, or checks that the folder holds exactly them.
//!
//! Invariant: the outcome depends on the types alone; the same source gives the same bytes. Files of the folder that end
//! in `.yaml` and are not written here are leftovers: `--write` removes them, `--check` reports them.

use serde_yaml_ng::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};
use weir_api::crd;

const USAGE: &str = "usage: crds --check FOLDER | --write FOLDER";
const HEADER: &str =
    "# Generated from shared/api: do not edit. To renew it: cargo run -p weir-api --bin crds -- --write infra/crds\n";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{USAGE}")]
    Usage,
    #[error("{0}: {1}")]
    File(String, io::Error),
    #[error("{0}: {1}")]
    Yaml(String, serde_yaml_ng::Error),
    #[error("{0} differ from the types in shared/api; renew with: cargo run -p weir-api --bin crds -- --write {1}")]
    Drift(String, String),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crds: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [mode, folder] = arguments.as_slice() else { return Err(Error::Usage) };
    let wanted = files()?;
    match mode.as_str() {
        "--write" => write(folder, &wanted),
        "--check" => check(folder, &wanted),
        _ => Err(Error::Usage),
    }
}

/// Every file by its name.
fn files() -> Result<BTreeMap<String, String>, Error> {
    let mut files = BTreeMap::new();
    let mut index = String::from("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n");
    for crd in crd::all() {
        let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        let failed = |e| Error::Yaml(name.clone(), e);
        let mut value = serde_yaml_ng::to_value(&crd).map_err(failed)?;
        whole(&mut value);
        let text = serde_yaml_ng::to_string(&value).map_err(failed)?;
        files.insert(name, format!("{HEADER}{text}"));
    }
    for name in files.keys() {
        index.extend(["  - ", name, "\n"]);
    }
    files.insert("kustomization.yaml".to_owned(), format!("{HEADER}{index}"));
    Ok(files)
}

/// Writes bounds as people do, `30` instead of `30.0`: the Kubernetes type has them in floating point.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::float_cmp)] // the cast is kept only where it loses nothing
fn whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|f| number.is_f64() && (*f as i64) as f64 == *f) {
                *number = (float as i64).into();
            }
        }
        Value::Sequence(items) => items.iter_mut().for_each(whole),
        Value::Mapping(entries) => entries.values_mut().for_each(whole),
        _ => {}
    }
}

/// The YAML files that the folder holds.
fn present(folder: &str) -> Result<BTreeMap<String, String>, Error> {
    let failed = |e| Error::File(folder.to_owned(), e);
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|e| e == "yaml") {
            let path = Path::new(folder).join(&name);
            let text = fs::read_to_string(&path).map_err(|e| Error::File(name.clone(), e))?;
            files.insert(name, text);
        }
    }
    Ok(files)
}

fn write(folder: &str, wanted: &BTreeMap<String, String>) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|e| Error::File(folder.to_owned(), e))?;
    for name in present(folder)?.keys().filter(|name| !wanted.contains_key(*name)) {
        fs::remove_file(Path::new(folder).join(name)).map_err(|e| Error::File(name.clone(), e))?;
    }
    for (name, text) in wanted {
        fs::write(Path::new(folder).join(name), text).map_err(|e| Error::File(name.clone(), e))?;
    }
    Ok(())
}

fn check(folder: &str, wanted: &BTreeMap<String, String>) -> Result<(), Error> {
    let present = present(folder)?;
    let names = wanted.keys().chain(present.keys()).filter(|name| wanted.get(*name) != present.get(*name));
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { Ok(()) } else { Err(Error::Drift(names.join(", "), folder.to_owned())) }
}
