//! A TCP proxy for tests, which does to connections what networks do: delays, cuts, refuses, or swallows without a word.
//!
//! Intention: a server that is killed closes its connections, and a client notices at once. What is hard is everything
//! else: a firewall that forgets a connection, a switch that fails. That cannot be had from a process; it can from this.
//!
//! Invariant: bytes are never lost or reordered within a connection that goes on; that is TCP's promise, in any weather.
//! In a black hole they wait, and when it closes they arrive, late.
//!
//! Caveat: this file stands on its own (no other module of the harness), so that crates that the harness itself depends
//! on can include it in their tests.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// What the network does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Everything passes at once.
    Fair,
    /// Everything arrives later by this much, in each direction.
    Slow(Duration),
    /// Connections stay open, new ones are made, and nothing arrives.
    BlackHole,
    /// Connections end, and new ones end as soon as they are made.
    Refusing,
}

#[derive(Clone, Copy)]
struct Control {
    weather: Weather,
    cuts: u64,
}

/// A proxy in front of one server.
pub struct Proxy {
    address: SocketAddr,
    control: watch::Sender<Control>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Takes connections on a free port and passes them on to `server`.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let control = watch::Sender::new(Control { weather: Weather::Fair, cuts: 0 });
        let watched = control.subscribe();
        let accepting = tokio::spawn(async move {
            // An error concerns one connection that was given up before it was accepted.
            loop {
                if let Ok((client, _)) = listener.accept().await
                    && watched.borrow().weather != Weather::Refusing
                {
                    tokio::spawn(pass(client, server, watched.clone()));
                }
            }
        });
        Ok(Self { address, control, accepting })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the weather, for connections that are there as well as for new ones.
    pub fn set(&self, weather: Weather) {
        self.control.send_modify(|control| control.weather = weather);
    }

    /// Ends every connection there is, in mid-sentence. New ones are made.
    pub fn cut(&self) {
        self.control.send_modify(|control| control.cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Connections end with the sender that they watch.
        self.accepting.abort();
    }
}

async fn pass(client: TcpStream, server: SocketAddr, mut control: watch::Receiver<Control>) {
    let cuts = control.borrow().cuts;
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let (there, back) = (control.clone(), control.clone());
    tokio::select! {
        () = pump(from_client, to_server, there) => {}
        () = pump(from_server, to_client, back) => {}
        _ = control.wait_for(|now| now.cuts != cuts || now.weather == Weather::Refusing) => {}
    }
}

/// Carries one direction until it ends.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, control: watch::Receiver<Control>) {
    // As much as a network holds; beyond that the sender has to wait, as ever.
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(256);
    let mut sky = control.clone();
    let reading = async move {
        let mut buffer = vec![0; 16 * 1024];
        while passable(&mut sky).await {
            let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
            let delay = match sky.borrow().weather {
                Weather::Slow(delay) => delay,
                _ => Duration::ZERO,
            };
            if sender.send((Instant::now() + delay, buffer[..read].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let mut sky = control;
    let writing = async move {
        while let Some((due, bytes)) = receiver.recv().await {
            tokio::time::sleep_until(due).await;
            if !passable(&mut sky).await || to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}

/// Waits until bytes may pass; `false` when the proxy is gone.
async fn passable(sky: &mut watch::Receiver<Control>) -> bool {
    sky.wait_for(|now| now.weather != Weather::BlackHole).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn say(stream: &mut TcpStream, word: &[u8; 4]) -> io::Result<[u8; 4]> {
        stream.write_all(word).await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn bytes_pass_late_or_wait_in_a_black_hole_and_are_never_lost() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(say(&mut stream, b"fair").await.unwrap(), *b"fair");
        proxy.set(Weather::Slow(Duration::from_millis(60)));
        let began = Instant::now();
        assert_eq!(say(&mut stream, b"slow").await.unwrap(), *b"slow");
        assert!(began.elapsed() >= Duration::from_millis(120), "both ways: {:?}", began.elapsed());
        proxy.set(Weather::BlackHole);
        let silence = tokio::time::timeout(Duration::from_millis(200), say(&mut stream, b"hole")).await;
        assert!(silence.is_err(), "nothing arrives, and the connection does not end");
        proxy.set(Weather::Fair);
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, *b"hole", "what was swallowed arrives late");
    }

    #[tokio::test]
    async fn a_cut_ends_the_connections_there_are_and_refusing_ends_new_ones_too() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        say(&mut stream, b"once").await.unwrap();
        proxy.cut();
        assert!(stream.read(&mut [0; 4]).await.map_or(true, |read| read == 0), "it has ended");
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        say(&mut stream, b"more").await.unwrap();
        proxy.set(Weather::Refusing);
        assert!(say(&mut stream, b"none").await.is_err());
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(say(&mut stream, b"none").await.is_err());
    }
}
