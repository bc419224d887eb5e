//! A door to a server, which a test opens, shuts, or leaves ajar: connections are passed on, refused, or taken and never
//! answered, as behind a firewall that drops packets.

use crate::process::free_port;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A TCP port before a server. Shut at first.
pub struct Door {
    port: u16,
    target: String,
    keeper: Option<JoinHandle<()>>,
}

impl Door {
    /// A door to `target`, a host and port.
    pub fn to(target: &str) -> Self {
        Self { port: free_port(), target: target.to_owned(), keeper: None }
    }

    /// Host and port of the door.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Passes connections on.
    pub async fn open(&mut self) {
        self.keep(Some(self.target.clone())).await;
    }

    /// Takes connections and says nothing.
    pub async fn silence(&mut self) {
        self.keep(None).await;
    }

    /// Refuses connections, and ends those that there are.
    pub async fn shut(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
            let _ = keeper.await;
        }
    }

    async fn keep(&mut self, target: Option<String>) {
        self.shut().await;
        let listener = TcpListener::bind(self.address()).await.expect("the door's port is free");
        self.keeper = Some(tokio::spawn(async move {
            let mut guests = JoinSet::new();
            while let Ok((mut guest, _)) = listener.accept().await {
                let target = target.clone();
                guests.spawn(async move {
                    match target {
                        Some(target) => {
                            if let Ok(mut host) = TcpStream::connect(target).await {
                                let _ = copy_bidirectional(&mut guest, &mut host).await;
                            }
                        }
                        // Held, so that it is not closed.
                        None => std::future::pending().await,
                    }
                });
            }
        }));
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
    }
}
