//! One trace from whoever asks to the last request to a cloud.

use crate::batches::structured;
use crate::emulator::Answer;
use crate::room::Room;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_api::Kind;

/// A way to a server on which all that clients say is overheard. Returns where it begins. When the server speaks of itself, as
/// a catalog does, clients are led this way as well.
async fn overheard(server: String) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    assert_eq!(address.len(), server.len(), "so that no length changes with it");
    let said = Arc::new(Mutex::new(Vec::new()));
    let (ear, here) = (said.clone(), address.clone());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, here, ear) = (server.clone(), here.clone(), ear.clone());
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = TcpStream::connect(&server).await.expect("a cloud").into_split();
                let back = tokio::spawn(async move {
                    let mut buffer = vec![0; 64 * 1024];
                    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
                        let mut words = buffer[..read].to_vec();
                        for at in 0..read.saturating_sub(server.len() - 1) {
                            if words[at..].starts_with(server.as_bytes()) {
                                words[at..at + server.len()].copy_from_slice(here.as_bytes());
                            }
                        }
                        if to_client.write_all(&words).await.is_err() {
                            break;
                        }
                    }
                });
                let mut buffer = vec![0; 16 * 1024];
                while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                    ear.lock().expect("no panic").extend_from_slice(&buffer[..read]);
                    if to_server.write_all(&buffer[..read]).await.is_err() {
                        break;
                    }
                }
                back.abort();
            });
        }
    });
    (address, said)
}

/// Proves: Q-15
#[tokio::test(flavor = "multi_thread")]
async fn every_request_to_the_cloud_is_a_step_of_the_trace_that_the_message_came_with() {
    let room = Room::new().await;
    let endpoint = room.world.cloud.bootstrap().endpoint;
    let server = endpoint.split('/').nth(2).expect("host and port").to_owned();
    let (way, said) = overheard(server.clone()).await;
    room.world.apply_region(json!({ "endpoint": endpoint.replace(&server, &way) })).await;
    let lambda = room.started(Kind::Identity).await;
    let object = room.identity("traced").await;
    let event = structured(&object);
    let trace = event["traceparent"].as_str().expect("a traceparent")[3..35].to_owned();
    let answer = lambda.invoke(event).await;
    assert!(matches!(answer, Answer::Response(_)), "{answer:?}");
    assert_eq!(room.reason(&object).await.as_deref(), Some("Provisioned"));
    let said = String::from_utf8_lossy(&said.lock().expect("no panic")).into_owned();
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("traceparent").then(|| value.trim().to_owned())
    };
    let steps: Vec<String> = said.lines().filter_map(header).collect();
    let requests = said.lines().filter(|line| line.ends_with(" HTTP/1.1")).count();
    assert!(requests > 3, "there was something to overhear: {requests}");
    assert_eq!(steps.len(), requests, "each says which trace it belongs to");
    assert!(steps.iter().all(|step| step[3..35] == trace), "{trace}: {steps:?}");
    let spans: BTreeSet<&str> = steps.iter().map(|step| &step[36..52]).collect();
    println!("{requests} requests in {} steps", spans.len());
}
