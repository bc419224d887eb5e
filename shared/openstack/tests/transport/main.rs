//! The real transport against real sockets: who is trusted over TLS, and what goes through a proxy (OSC-12).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod proxy;
mod server;
mod tls;

use bytes::Bytes;
use weir_openstack::{HttpTransport, Tls, Transport as _, TransportError};

/// What a server answers, as text.
async fn get(tls: &Tls, url: &str) -> Result<String, TransportError> {
    let request = http::Request::get(url).header("x-auth-token", "SECRET-TOKEN").body(Bytes::new()).unwrap();
    let answer = HttpTransport::new(tls).unwrap().send(request).await?;
    Ok(format!("{} {}", answer.status().as_u16(), String::from_utf8_lossy(answer.body())))
}
