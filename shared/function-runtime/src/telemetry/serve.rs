//! `/metrics`, `/healthz` and `/readyz`.

use std::net::SocketAddr;

use anyhow::Context;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use super::{HEALTH, Starting, metrics};

/// Serves until `stop`, in the background. Returns the address once it listens.
///
/// `/healthz` says that the process runs; `/readyz` that it can do its work, or, with status 503, what keeps it.
pub async fn serve(address: SocketAddr, stop: CancellationToken) -> anyhow::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} for metrics; choose another with --metrics"))?;
    let bound = listener.local_addr()?;
    let router = Router::new()
        .route("/metrics", get(|| async { ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::render()) }))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz));
    tokio::spawn(async move {
        let served = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await;
        if let Err(error) = served {
            tracing::error!(%error, "metrics are no longer served");
        }
    });
    println!("metrics http://{bound}");
    Ok(bound)
}

async fn readyz() -> impl IntoResponse {
    match HEALTH.unready() {
        Ok(unready) if unready.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
        Ok(unready) => {
            let lines: Vec<String> = unready.iter().map(|(part, reason)| format!("{part}: {reason}")).collect();
            (StatusCode::SERVICE_UNAVAILABLE, lines.join("\n") + "\n")
        }
        Err(Starting) => (StatusCode::SERVICE_UNAVAILABLE, "starting\n".to_owned()),
    }
}
