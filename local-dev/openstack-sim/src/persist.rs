//! The data file: the whole state as one JSON document, replaced atomically.
//!
//! Written half a second after a change at the latest, and at an orderly stop. A process that is killed loses what
//! changed in between; faults, the log and a moved clock are never kept.

use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::Duration,
};

use crate::{server::Shared, world::Data};

/// How the data file failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("the data file cannot be used: {0}")]
    Io(#[from] io::Error),
    /// The file is not one of ours.
    #[error("the data file does not hold a simulator's state: {0}")]
    Format(#[from] serde_json::Error),
}

pub(crate) fn load(path: &Path) -> Result<Option<Data>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn save(shared: &Shared, path: &Path) -> Result<(), Error> {
    let bytes = serde_json::to_vec(&shared.world().data)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)?;
    }
    let scratch = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&scratch)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    std::fs::rename(&scratch, path)?;
    Ok(())
}

/// Writes after changes, until the simulator stops; then once more.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let Some(path) = shared.config.data.clone() else { return };
    loop {
        let stopping = tokio::select! {
            () = shared.dirty.notified() => {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(500)) => false,
                    () = shared.stop.cancelled() => true,
                }
            }
            () = shared.stop.cancelled() => true,
        };
        if stopping {
            return;
        }
        write(&shared, &path).await;
    }
}

pub(crate) async fn write(shared: &Arc<Shared>, path: &Path) {
    let (shared, path) = (Arc::clone(shared), path.to_owned());
    let done = tokio::task::spawn_blocking(move || save(&shared, &path)).await;
    if let Ok(Err(error)) = done {
        tracing::error!(%error, "the state was not kept");
    }
}
