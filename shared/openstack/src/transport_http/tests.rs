#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// A server that reads a request and answers each connection with the next of `answers`, then closes it.
async fn serve(answers: Vec<&'static [u8]>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x?token=SECRET", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let _ = socket.read(&mut request).await;
            let _ = socket.write_all(answer).await;
        }
    });
    url
}

async fn get(transport: &HttpTransport, url: &str) -> Result<http::Response<Bytes>, TransportError> {
    transport.send(http::Request::get(url).body(Bytes::new()).unwrap()).await
}

fn transport() -> HttpTransport {
    HttpTransport::new(&Tls::default()).unwrap()
}

#[tokio::test]
async fn an_answer_comes_back_whole_whatever_its_status() {
    let url = serve(vec![b"HTTP/1.1 503 Busy\r\nretry-after: 3\r\ncontent-length: 4\r\n\r\nbusy"]).await;
    let answer = get(&transport(), &url).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (503, &b"busy"[..]));
    assert_eq!(answer.headers()["retry-after"], "3");
}

/// A followed redirect would carry the token to wherever it points.
///
/// Proves: OSC-13
#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let url = serve(vec![b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"]).await;
    assert_eq!(get(&transport(), &url).await.unwrap().status().as_u16(), 302);
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_refused_announced_or_not() {
    let small = HttpTransport { limit: 10, ..transport() };
    let url = serve(vec![
        b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n12345678901",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n123456\r\n5\r\n12345\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n1234567890",
    ])
    .await;
    for _ in 0..2 {
        assert_eq!(get(&small, &url).await.unwrap_err(), TransportError::TooLarge { limit: 10 });
    }
    assert_eq!(get(&small, &url).await.unwrap().body().len(), 10);
}

/// Proves: OSC-9, OSC-13
#[tokio::test]
async fn a_broken_connection_is_told_from_one_that_was_never_made() {
    let url = serve(vec![b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"]).await;
    for _ in 0..2 {
        let error = get(&transport(), &url).await.unwrap_err();
        assert!(matches!(error, TransportError::Broken(_)), "{error:?}");
        assert!(!error.to_string().contains("SECRET"));
    }
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = get(&transport(), &format!("http://{free}/?token=SECRET")).await.unwrap_err();
    assert!(matches!(error, TransportError::Connect(_)), "{error:?}");
    assert!(!error.to_string().contains("SECRET"));
}

/// Proves: OSC-12
#[test]
fn a_bundle_without_certificates_is_refused() {
    for pem in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let tls = Tls { ca_bundle: Some(pem.into()), insecure: false };
        assert!(HttpTransport::new(&tls).is_err(), "{pem:?}");
    }
}
