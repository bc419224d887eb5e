//! HTTP in front of the world: accepts, reads, applies faults, answers.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use sha2::{Digest, Sha512};
use tokio::{net::TcpListener, sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    Config, Service, admin,
    compute::Outcome,
    connection::Connection,
    faults::{self, Action, Answer, Failure, Faults},
    identity,
    journal::{self, Entry, Journal},
    wire::{Payload, Reply, Request, Upload, decode, parse_query},
    world::World,
};

/// No JSON body is longer; each service's own limit is far below.
const BODY: usize = 10 * 1024 * 1024;
/// No uploaded image is longer.
const UPLOAD: u64 = 16 * 1024 * 1024 * 1024;

/// What connections, the admin API and the [`crate::Sim`] handle share.
pub(crate) struct Shared {
    pub config: Arc<Config>,
    pub url: String,
    pub faults: Faults,
    pub stop: CancellationToken,
    /// Told after every change, for the one that writes the data file.
    pub dirty: Notify,
    world: Mutex<World>,
    journal: Mutex<Journal>,
}

impl Shared {
    pub fn new(config: Arc<Config>, url: String, world: World) -> Self {
        Self {
            config,
            url,
            faults: Faults::default(),
            stop: CancellationToken::new(),
            dirty: Notify::new(),
            world: Mutex::new(world),
            journal: Mutex::new(Journal::default()),
        }
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves until told to stop, then lets requests in hand finish for a moment.
pub(crate) async fn run(shared: Arc<Shared>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(Arc::clone(&shared), stream, peer));
                }
                Err(error) => {
                    // Out of file descriptors, most likely; it passes.
                    tracing::warn!(%error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    let drained = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(2), drained).await;
}

async fn serve(shared: Arc<Shared>, stream: tokio::net::TcpStream, peer: SocketAddr) {
    let stop = shared.stop.clone();
    let (io, abort) = Connection::new(stream);
    let service = service_fn(move |request| answer(Arc::clone(&shared), Arc::clone(&abort), peer, request));
    let connection =
        hyper::server::conn::http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(io), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Why a request gets no answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection was broken on purpose")]
struct Broken;

async fn answer(
    shared: Arc<Shared>,
    abort: Arc<AtomicBool>,
    peer: SocketAddr,
    incoming: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Broken> {
    let path = decode(incoming.uri().path(), false);
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let service = segments.first().and_then(|prefix| Service::from_prefix(prefix));
    let rest = segments.get(1..).unwrap_or_default();
    let request = match read(incoming, &path, service, rest).await {
        Ok(request) => request,
        Err(reply) => return Ok(render(reply, None)),
    };
    let Some(service) = service else {
        let local = peer.ip().is_loopback() || shared.config.expose_admin;
        let reply = match segments.as_slice() {
            ["_sim", rest @ ..] if local => admin::handle(&shared, rest, &request),
            _ => Reply::text(
                404,
                "text/plain",
                "The services are below /identity, /compute, /network, /image, /volume, /baremetal and /placement.\n"
                    .into(),
            ),
        };
        return Ok(render(reply, None));
    };

    let plan = shared.faults.plan(service, &request);
    if !plan.latency.is_zero() {
        tokio::time::sleep(plan.latency).await;
    }
    let (entry, outcome) = {
        let mut world = shared.world();
        let caller = identity::authenticate(&world, &request);
        let mut entry = Entry {
            seq: 0,
            at: world.clock.now().to_string(),
            service: Some(service),
            method: request.method.to_string(),
            path: request.path.clone(),
            query: request.raw_query.clone(),
            project: caller.as_ref().and_then(|caller| caller.project().map(str::to_owned)),
            user: caller.map(|caller| caller.user),
            status: None,
            effect: false,
            request_id: request.header("x-openstack-request-id").map(str::to_owned),
            user_agent: request.header("user-agent").map(str::to_owned),
            body: journal::redacted(&request.path, &request.body),
            faults: plan.faults,
        };
        let before = |answer: &Answer| substitute(service, &shared.url, answer);
        let mut reply = match (&plan.action, plan.replay) {
            (Some(Action::Status(answer)), _) => Some(before(answer)),
            (Some(Action::ResetBefore), _) => None,
            (Some(Action::TokenExpired), _) if identity::revoke(&mut world, &request) => {
                Some(service.refusal(&shared.url, 401))
            }
            (_, Some(page)) => Some(page),
            (action, None) => {
                world.mishap = match action {
                    Some(Action::Server(Failure::NoHost)) => Some(Outcome::NoHost),
                    Some(Action::Server(Failure::Spawn)) => Some(Outcome::Spawn),
                    _ => None,
                };
                Some(world.handle(service, rest, &request))
            }
        };
        entry.effect = reply.as_ref().is_some_and(|reply| reply.effect);
        match &plan.action {
            Some(Action::StatusAfter(answer)) => reply = Some(before(answer)),
            Some(Action::ResetAfter) => reply = None,
            _ => {}
        }
        entry.status = reply.as_ref().map(|reply| reply.status);
        (entry, reply)
    };
    if entry.effect {
        shared.dirty.notify_one();
    }
    shared.journal().push(entry, shared.config.journal);
    let Some(mut reply) = outcome else {
        abort.store(true, Ordering::SeqCst);
        return Err(Broken);
    };
    if let Some(id) = plan.keep {
        reply = shared.faults.keep(id, service, &shared.url, &request, reply);
    }
    for mangle in &plan.mangles {
        faults::mangle(&mut reply, mangle);
    }
    Ok(render(reply, Some((&request, service))))
}

/// The answer of a fault: as given, or what the service itself would say.
fn substitute(service: Service, url: &str, answer: &Answer) -> Reply {
    let mut reply = match &answer.body {
        None => service.refusal(url, answer.code),
        Some(serde_json::Value::String(text)) if text.is_empty() => Reply::empty(answer.code),
        Some(serde_json::Value::String(text)) => Reply::text(answer.code, "text/html", text.clone()),
        Some(body) => Reply::json(answer.code, body.clone()),
    };
    for (name, value) in &answer.headers {
        reply = reply.with(name, value);
    }
    reply
}

async fn read(
    incoming: hyper::Request<Incoming>,
    path: &str,
    service: Option<Service>,
    rest: &[&str],
) -> Result<Request, Reply> {
    let (parts, body) = incoming.into_parts();
    let is_upload =
        parts.method == Method::PUT && service == Some(Service::Image) && matches!(rest, ["v2", "images", _, "file"]);
    let raw_query = parts.uri.query().unwrap_or_default().to_owned();
    let mut request = Request {
        query: parse_query(&raw_query),
        raw_query,
        method: parts.method,
        path: path.to_owned(),
        headers: parts.headers,
        body: Bytes::new(),
        upload: None,
        id: format!("req-{}", uuid::Uuid::new_v4()),
    };
    let too_large = || Reply::text(413, "text/plain", "The body is too large.\n".to_owned());
    if is_upload {
        request.upload = Some(hash(body).await.ok_or_else(too_large)?);
    } else {
        request.body = Limited::new(body, BODY).collect().await.map_err(|_| too_large())?.to_bytes();
    }
    Ok(request)
}

/// Hashes image data as it comes in; nothing of it is kept.
async fn hash(mut body: Incoming) -> Option<Upload> {
    use std::fmt::Write;
    let (mut size, mut sha) = (0_u64, Sha512::new());
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            size = size.checked_add(data.len() as u64).filter(|size| *size <= UPLOAD)?;
            sha.update(&data);
        }
    }
    let sha512 = sha.finalize().iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    });
    Some(Upload { size, sha512 })
}

fn render(reply: Reply, asked: Option<(&Request, Service)>) -> hyper::Response<Full<Bytes>> {
    let mut reply = reply;
    if let Some((request, service)) = asked {
        reply = reply.with_default("x-openstack-request-id", &request.id);
        if matches!(service, Service::Compute | Service::Volume) {
            reply = reply.with_default("x-compute-request-id", &request.id);
        }
    }
    let (kind, body) = match reply.payload {
        Payload::Empty => (None, Bytes::new()),
        Payload::Json(value) => (Some("application/json"), Bytes::from(value.to_string())),
        Payload::Text(kind, text) => (Some(kind), Bytes::from(text)),
    };
    let head = asked.is_some_and(|(request, _)| request.method == Method::HEAD);
    let mut response = hyper::Response::new(Full::new(if head { Bytes::new() } else { body }));
    *response.status_mut() =
        http::StatusCode::from_u16(reply.status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Some(kind) = kind {
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    for (name, value) in &reply.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str())) {
            headers.insert(name, value);
        }
    }
    response
}
