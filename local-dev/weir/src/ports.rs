//! The ports of a stack.
//!
//! Intention: a part keeps its port over restarts, because the others and what a person has written down refer to it.
//! So ports are chosen once, before anything starts, and remembered where the stack keeps its data.
//!
//! Ports are taken from below the range from which systems give numbers to outgoing connections: a port of that range
//! could go to somebody's connection while its owner restarts, even to a connection that was made to that very port.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

const FIRST: u16 = 15_000;
const LAST: u16 = 31_000;
/// Stacks that start at the same moment look in different places, by their process numbers.
const STRIDE: u16 = 16;

/// A stack's ports, by the name of the part that listens.
#[derive(Debug, Default)]
pub struct Ports {
    chosen: BTreeMap<String, u16>,
}

impl Ports {
    /// The ports that an earlier stack in the same folder used.
    pub fn remembered(file: &Path) -> Self {
        let text = std::fs::read(file).unwrap_or_default();
        Self { chosen: serde_json::from_slice(&text).unwrap_or_default() }
    }

    /// Remembers them for the next stack in the same folder.
    pub fn remember(&self, file: &Path) -> anyhow::Result<()> {
        crate::checkout::write_private(file, &serde_json::to_vec_pretty(&self.chosen)?)
    }

    /// The port for a part: the one asked for, else the one it had, else a free one.
    pub fn take(&mut self, part: &str, wanted: Option<u16>, option: &str) -> anyhow::Result<u16> {
        let had = self.chosen.get(part).copied();
        let port = match wanted.or(had) {
            Some(port) if is_free(port) => port,
            Some(port) if wanted.is_some() => {
                bail!("port {port}, wanted for {part}, is in use by another program; give another with {option}")
            }
            Some(port) => bail!(
                "port {port}, which {part} had when this data was written, is in use by another program; stop that, or \
                 move {part} with {option}"
            ),
            None => self.free().with_context(|| format!("no free port for {part} on 127.0.0.1"))?,
        };
        self.chosen.insert(part.to_owned(), port);
        Ok(port)
    }

    fn free(&self) -> Option<u16> {
        let slots = u32::from((LAST - FIRST) / STRIDE);
        let slot = u16::try_from(std::process::id() % slots).unwrap_or_default();
        let start = FIRST + slot * STRIDE;
        (start..LAST)
            .chain(FIRST..start)
            .find(|port| !self.chosen.values().any(|taken| taken == port) && is_free(*port))
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parts_get_different_ports_and_get_them_again_the_next_time() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ports.json");
        let mut ports = Ports::remembered(&file);
        let (a, b) = (ports.take("a", None, "--a").unwrap(), ports.take("b", None, "--b").unwrap());
        assert_ne!(a, b);
        ports.remember(&file).unwrap();
        let mut again = Ports::remembered(&file);
        assert_eq!((again.take("a", None, "--a").unwrap(), again.take("b", None, "--b").unwrap()), (a, b));
    }

    #[test]
    fn a_port_that_is_in_use_is_refused_by_name_and_option() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = held.local_addr().unwrap().port();
        let error = Ports::default().take("kube-sim", Some(port), "--kube-port").unwrap_err().to_string();
        assert!(error.contains(&port.to_string()) && error.contains("--kube-port"), "{error}");
    }
}
