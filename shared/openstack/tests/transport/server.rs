//! Servers to talk to, and authorities that vouch for them or do not.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What every server here answers.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

/// A certificate and its key.
pub struct Pair {
    pub certificate: rcgen::Certificate,
    pub key: KeyPair,
}

impl Pair {
    /// For `hosts`, by its own word only.
    pub fn self_signed(hosts: &[&str]) -> Self {
        let key = KeyPair::generate().unwrap();
        Self { certificate: params(hosts).self_signed(&key).unwrap(), key }
    }
}

/// A certificate authority.
pub struct Authority {
    /// Its certificate, in PEM.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    /// A certificate for `hosts`, valid in the years `from` to `to`.
    pub fn vouch(&self, hosts: &[&str], (from, to): (i32, i32)) -> Pair {
        let mut params = params(hosts);
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        let key = KeyPair::generate().unwrap();
        Pair { certificate: params.signed_by(&key, &self.issuer).unwrap(), key }
    }
}

fn params(hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    CertificateParams::new(hosts).unwrap()
}

/// A server that shows this certificate.
pub async fn encrypted(pair: &Pair) -> SocketAddr {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            // Whoever does not trust it hangs up in the handshake.
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(socket).await {
                    answer(stream).await;
                }
            });
        }
    });
    address
}

/// A server without TLS.
pub async fn plain() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket));
        }
    });
    address
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    if !head(&mut stream).await.is_empty() {
        let _ = stream.write_all(ANSWER).await;
        let _ = stream.shutdown().await;
    }
}

/// The head of a request; empty if none came.
pub async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => return String::new(),
        }
    }
    String::from_utf8(head).unwrap()
}
