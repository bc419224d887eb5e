//! What a process tells of itself over HTTP.

use std::net::SocketAddr;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::processes::Worker;
use crate::support::{Rig, eventually};

/// Status and body.
async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Proves: Q-14
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_cannot_work_says_so_to_whoever_asks_and_says_why() {
    let mut rig = Rig::hurried();
    rig.nats.kill();
    let folder = TempDir::new().unwrap();
    let (_worker, address) = Worker::start_serving(&rig, folder.path());
    let (status, body) = get(address, "/readyz").await;
    assert_eq!((status, body.as_str()), (503, "queue: not connected to NATS yet\n"));
    for _ in 0..2 {
        rig.nats.restart().unwrap();
        eventually("readiness", || async { (get(address, "/readyz").await.0 == 200).then_some(()) }).await;
        assert!(get(address, "/metrics").await.1.contains("weir_nats_connected 1\n"));
        rig.nats.kill();
        let why = eventually("the loss to be told", || async {
            let (status, body) = get(address, "/readyz").await;
            (status == 503).then_some(body)
        })
        .await;
        assert!(why.starts_with("queue: "), "{why}");
        assert_eq!(get(address, "/healthz").await, (200, "ok\n".to_owned()), "it lives");
        eventually("the metric", || async {
            get(address, "/metrics").await.1.contains("weir_nats_connected 0\n").then_some(())
        })
        .await;
    }
}
