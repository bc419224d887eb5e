//! Accepting connections: plain or TLS, HTTP/1.1 or HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::handle;
use crate::cluster::Cluster;

/// How long a TLS handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long open connections get to finish their request at the end.
const GRACE: Duration = Duration::from_millis(500);

/// Serves until the shutdown. All connections are closed when it returns.
pub async fn serve(cluster: Arc<Cluster>, listener: TcpListener, tls: Option<Arc<rustls::ServerConfig>>) {
    let acceptor = tls.map(TlsAcceptor::from);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            () = cluster.shutdown.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                // Small answers must not wait for each other.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "no TCP_NODELAY");
                }
                let (cluster, acceptor) = (cluster.clone(), acceptor.clone());
                connections.spawn(async move {
                    match acceptor {
                        None => connection(cluster, stream).await,
                        Some(acceptor) => match tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
                            Ok(Ok(stream)) => connection(cluster, stream).await,
                            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                            Err(_) => tracing::debug!("TLS handshake timed out"),
                        },
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: wait for some to come back.
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    let finish = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, finish).await.is_err() {
        connections.shutdown().await;
    }
}

async fn connection(cluster: Arc<Cluster>, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let shutdown = cluster.shutdown.clone();
    let service = service_fn(move |request| handle(cluster.clone(), request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(10_000);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended");
    }
}
