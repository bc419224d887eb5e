//! Writes or checks `queue-schemas/`.
//!
//! `queue-schemas --write DIR` brings the folder up to date; `queue-schemas --check DIR` exits 1 if it is not.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (write, folder) = match arguments.as_slice() {
        [mode, folder] if mode == "--write" => (true, PathBuf::from(folder)),
        [mode, folder] if mode == "--check" => (false, PathBuf::from(folder)),
        _ => {
            eprintln!("usage: queue-schemas --write|--check DIR");
            return ExitCode::from(2);
        }
    };
    match run(write, &folder) {
        Ok(stale) if stale.is_empty() => ExitCode::SUCCESS,
        Ok(stale) => {
            eprintln!("not as the types say: {}; run with --write", stale.join(", "));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the files, or returns the names of those that differ.
fn run(write: bool, folder: &std::path::Path) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut stale = Vec::new();
    for (name, content) in weir_messages::schema::files()? {
        let path = folder.join(&name);
        if write {
            std::fs::create_dir_all(folder)?;
            std::fs::write(path, content)?;
        } else if std::fs::read_to_string(path).ok().as_deref() != Some(content.as_str()) {
            stale.push(name);
        }
    }
    Ok(stale)
}
