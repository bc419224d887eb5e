//! From HTTP to the API and back.

mod listener;
mod respond;
mod route;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};

pub use listener::serve;

use crate::api::delete::DeleteOptions;
use crate::api::options::{Query, WriteOptions};
use crate::api::read::{self, ListOptions, Selectors};
use crate::api::watch::{self, WatchOptions};
use crate::api::write::{self, Body as RequestBody};
use crate::api::{self, Target, admin, discovery, patch, review};
use crate::auth::{Identity, User};
use crate::cluster::Cluster;
use crate::faults::{Action, Call, Disruption};
use crate::status::Status;
use crate::wire::{Accept, Form};
use respond::Responder;
use route::{Path, Verb};

/// What a request may bring.
const BODY_MAX: usize = 3 * 1024 * 1024;
const BODY_LIMIT_TEXT: &str = "limit is 3145728";

pub type ResponseBody = BoxBody<Bytes, Infallible>;

/// The connection is to be closed without an answer.
#[derive(Debug)]
pub struct Dropped;

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is dropped by a fault")
    }
}

impl std::error::Error for Dropped {}

fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).boxed()
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

/// Everything about a request that has been read from it.
struct Incomer {
    method: Method,
    path: String,
    query: Query,
    headers: HeaderMap,
    user: Option<User>,
    user_agent: String,
}

impl Incomer {
    fn header(&self, name: header::HeaderName) -> Option<&str> {
        text(&self.headers, name)
    }
}

/// What a handled request did.
struct Done {
    response: Response<ResponseBody>,
    changed: bool,
}

impl Done {
    fn read(response: Response<ResponseBody>) -> Done {
        Done { response, changed: false }
    }
}

/// Answers one request.
pub async fn handle(cluster: Arc<Cluster>, request: Request<Incoming>) -> Result<Response<ResponseBody>, Dropped> {
    let (parts, body) = request.into_parts();
    let user_agent: String = text(&parts.headers, header::USER_AGENT).unwrap_or_default().chars().take(256).collect();
    let path = percent_decode(parts.uri.path());
    let incomer = Incomer {
        method: parts.method,
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        user: None,
        user_agent,
        headers: parts.headers,
        path,
    };
    let plain = Responder { accept: Accept::JSON, pretty: incomer.query.flag("pretty") };
    match cluster.auth.identify(incomer.header(header::AUTHORIZATION)) {
        Identity::Refused => Ok(plain.status(&Status::unauthorized())),
        Identity::Anonymous if is_public(&incomer.path) => Ok(unresourceful(&cluster, &incomer, plain)),
        Identity::Anonymous => Ok(plain.forbidden(&anonymous_denial(&cluster, &incomer))),
        Identity::User(user) => dispatch(cluster, Incomer { user: Some(user), ..incomer }, body, plain).await,
    }
}

fn percent_decode(path: &str) -> String {
    if !path.contains('%') {
        return path.to_owned();
    }
    let (mut out, bytes) = (Vec::with_capacity(path.len()), path.as_bytes());
    let mut i = 0;
    while i < bytes.len() {
        let hex = || u8::from_str_radix(path.get(i + 1..i + 3)?, 16).ok();
        match (bytes[i], (bytes[i] == b'%').then(hex).flatten()) {
            (_, Some(byte)) => {
                out.push(byte);
                i += 3;
            }
            (byte, None) => {
                out.push(byte);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_public(path: &str) -> bool {
    matches!(path.trim_end_matches('/'), "/version" | "/healthz" | "/livez" | "/readyz")
}

fn anonymous_denial(cluster: &Cluster, incomer: &Incomer) -> Status {
    const USER: &str = "system:anonymous";
    let registry = cluster.registry();
    match route::parse(&registry, &incomer.path) {
        Path::Resource { target, watch } => {
            let verb = Verb::of(&incomer.method, &target, watch || incomer.query.flag("watch"));
            let resource = &target.resource;
            let full = if target.subresource.is_empty() {
                resource.plural.clone()
            } else {
                format!("{}/{}", resource.plural, target.subresource)
            };
            let scope = if target.namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {:?}", target.namespace)
            };
            let why = format!(
                "User {USER:?} cannot {} resource {full:?} in API group {:?} {scope}",
                verb.map_or("get", Verb::name),
                resource.group
            );
            Status::forbidden(&resource.group, &resource.plural, &target.name, &why)
        }
        Path::Review { group, plural } => {
            let why =
                format!("User {USER:?} cannot create resource {plural:?} in API group {group:?} at the cluster scope");
            Status::forbidden(&group, &plural, "", &why)
        }
        _ => Status::forbidden_path(USER, &incomer.method.as_str().to_lowercase(), &incomer.path),
    }
}

async fn read_body(body: Incoming) -> Result<Bytes, Status> {
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Status::too_large(format!("Request entity too large: {BODY_LIMIT_TEXT}")))
        }
        Err(error) => Err(Status::bad_request(format!("reading the body: {error}"))),
    }
}

async fn dispatch(
    cluster: Arc<Cluster>,
    incomer: Incomer,
    body: Incoming,
    plain: Responder,
) -> Result<Response<ResponseBody>, Dropped> {
    let body = match read_body(body).await {
        Ok(body) => body,
        Err(status) => return Ok(plain.status(&status)),
    };
    if incomer.path.starts_with("/_sim/") {
        let admin = incomer.user.as_ref().is_some_and(User::is_admin);
        let answer = if admin {
            admin::handle(&cluster, incomer.method.as_str(), &incomer.path, &body)
        } else {
            Err(Status::forbidden_path("the user", "use", &incomer.path))
        };
        return Ok(match answer {
            Ok((code, value)) => plain.value(code, &value, &[]),
            Err(status) => plain.status(&status),
        });
    }
    let registry = cluster.registry();
    match route::parse(&registry, &incomer.path) {
        Path::Resource { target, watch } => {
            let Some(verb) = Verb::of(&incomer.method, &target, watch || incomer.query.flag("watch")) else {
                return Ok(plain.status(&Status::method_not_allowed()));
            };
            if verb == Verb::Create
                && target.resource.is_custom()
                && target.resource.namespaced
                && target.namespace.is_empty()
            {
                return Ok(respond::plain_text(StatusCode::NOT_FOUND, "404 page not found\n"));
            }
            call(cluster, incomer, target, verb, body).await
        }
        Path::Review { group, plural } => {
            let request = RequestBody { content_type: incomer.header(header::CONTENT_TYPE), bytes: &body };
            Ok(match review::review(&cluster, &group, &plural, incomer.user.as_ref(), request) {
                Some(_) if incomer.method != Method::POST => plain.status(&Status::method_not_allowed()),
                Some(Ok(answer)) => plain.value(answer.code, &answer.value, &[]),
                Some(Err(status)) => plain.status(&status),
                None => plain.status(&Status::no_such_resource()),
            })
        }
        Path::UnknownBuiltin => Ok(plain.status(&Status::no_such_resource())),
        Path::Other => Ok(unresourceful(&cluster, &incomer, plain)),
    }
}

/// Carries out a call on a resource, with whatever faults have to say about it.
async fn call(
    cluster: Arc<Cluster>,
    incomer: Incomer,
    target: Target,
    verb: Verb,
    body: Bytes,
) -> Result<Response<ResponseBody>, Dropped> {
    let call = Call {
        verb: verb.name().into(),
        resource: target.resource.qualified(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        subresource: target.subresource.clone(),
        user_agent: incomer.user_agent.clone(),
    };
    let accept = Accept::parse(incomer.header(header::ACCEPT), false, true);
    let pretty = incomer.query.flag("pretty");
    let responder = Responder { accept: accept.unwrap_or(Accept { pretty_errors: true, ..Accept::JSON }), pretty };
    let action = cluster.faults.strike(&call);
    let mut disruption: Option<Disruption> = None;
    match action {
        Some(Action::Status { code, retry_after }) => {
            let mut status = injected(code, &call);
            status.retry_after = retry_after;
            cluster.requests.note(call, code, false, true);
            return Ok(responder.status(&status));
        }
        Some(Action::Drop) => {
            cluster.requests.note(call, 0, false, true);
            return Err(Dropped);
        }
        Some(Action::Latency { ms }) => tokio::time::sleep(Duration::from_millis(ms)).await,
        Some(Action::Watch { disruption: found }) => disruption = Some(found),
        Some(Action::LostWrite { .. } | Action::LostAnswer) | None => {}
    }
    let outcome = if accept.is_none() {
        Err(Status::not_acceptable())
    } else {
        perform(&cluster, &incomer, &target, verb, &body, responder, &call, disruption).await
    };
    let done = outcome.unwrap_or_else(|status| Done::read(responder.status(&status)));
    match action {
        Some(Action::LostWrite { code }) => {
            cluster.requests.note(call.clone(), code, done.changed, true);
            Ok(responder.status(&injected(code, &call)))
        }
        Some(Action::LostAnswer) => {
            cluster.requests.note(call, 0, done.changed, true);
            Err(Dropped)
        }
        _ => {
            cluster.requests.note(call, done.response.status().as_u16(), done.changed, action.is_some());
            Ok(done.response)
        }
    }
}

/// What an injected failure says.
fn injected(code: u16, call: &Call) -> Status {
    if code == 409 {
        let (plural, group) = call.resource.split_once('.').unwrap_or((&call.resource, ""));
        return Status::modified(group, plural, &call.name);
    }
    Status::of_code(code, format!("injected fault: {code}"))
}

#[allow(clippy::too_many_arguments)]
async fn perform(
    cluster: &Arc<Cluster>,
    incomer: &Incomer,
    target: &Target,
    verb: Verb,
    body: &Bytes,
    responder: Responder,
    call: &Call,
    disruption: Option<Disruption>,
) -> Result<Done, Status> {
    let resource = &target.resource;
    check_ready(resource)?;
    let query = &incomer.query;
    let request = RequestBody { content_type: incomer.header(header::CONTENT_TYPE), bytes: body };
    let include = respond::include(query, responder.accept)?;
    let options = |kind: &str, apply: bool| WriteOptions::parse(query, kind, apply, &incomer.user_agent);
    route::check_subresource(target, verb)?;
    match verb {
        Verb::Get => {
            read::wait_for_revision(cluster, read::parse_revision(query.text("resourceVersion")).ok()).await?;
            respond_object(responder, resource, include, &read::get(cluster, target)?)
        }
        Verb::List => {
            let list_options = ListOptions::parse(query)?;
            let selectors = Selectors::parse(resource, query)?;
            read::wait_for_revision(cluster, list_options.at_least).await?;
            let list = read::list(cluster, target, &list_options, &selectors)?;
            Ok(Done::read(responder.list(resource, &list, include)?))
        }
        Verb::Watch => {
            let watch_options = WatchOptions::parse(query, cluster.store.revision())?;
            let selectors = Selectors::parse(resource, query)?;
            read::wait_for_revision(cluster, watch_options.at_least).await?;
            let shape = watch::Shape { form: responder.accept.form, include };
            let stream = watch::stream(
                cluster.clone(),
                target.clone(),
                selectors,
                shape,
                watch_options,
                call.clone(),
                disruption,
            );
            let frames = stream.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
            Ok(Done::read(Responder::stream(http_body_util::BodyExt::boxed(StreamBody::new(frames)))))
        }
        Verb::Create if target.subresource == "token" => {
            let answer = review::token(cluster, target, request)?;
            Ok(Done::read(responder.value(answer.code, &answer.value, &[])))
        }
        Verb::Create => respond_object(
            responder,
            resource,
            include,
            &write::create(cluster, target, request, &options("CreateOptions", false)?)?,
        ),
        Verb::Update => respond_object(
            responder,
            resource,
            include,
            &write::update(cluster, target, request, &options("UpdateOptions", false)?)?,
        ),
        Verb::Patch => {
            let form = patch::Form::of(resource, request.content_type)?;
            let options = options("PatchOptions", form == patch::Form::Apply)?;
            respond_object(responder, resource, include, &patch::patch(cluster, target, form, request, &options)?)
        }
        Verb::Delete => {
            let options = DeleteOptions::parse(query, request)?;
            let answer = api::delete::delete(cluster, target, &options)?;
            if answer.value.get("kind").and_then(serde_json::Value::as_str) == Some("Status") {
                let changed = answer.changed;
                let bytes = answer.encoded.unwrap_or_default();
                return Ok(Done { response: responder.json(200, bytes, &[]), changed });
            }
            respond_object(responder, resource, include, &answer)
        }
        Verb::DeleteCollection => {
            let options = DeleteOptions::parse(query, request)?;
            let (list, changed) = api::delete::delete_collection(cluster, target, query, &options)?;
            Ok(Done { response: responder.list(resource, &list, include)?, changed })
        }
    }
}

fn respond_object(
    responder: Responder,
    resource: &crate::resource::Resource,
    include: crate::table::Include,
    answer: &api::Answer,
) -> Result<Done, Status> {
    let changed = answer.changed;
    Ok(Done { response: responder.object(resource, answer, include)?, changed })
}

fn check_ready(resource: &crate::resource::Resource) -> Result<(), Status> {
    let late = resource.custom().and_then(|c| c.ready_at).is_some_and(|at| std::time::Instant::now() < at);
    if late { Err(Status::too_many_requests("storage is (re)initializing", 1)) } else { Ok(()) }
}

/// Version, health, discovery, OpenAPI.
fn unresourceful(cluster: &Cluster, incomer: &Incomer, plain: Responder) -> Response<ResponseBody> {
    let registry = cluster.registry();
    let path = incomer.path.trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let accept = |discovery: bool| Accept::parse(incomer.header(header::ACCEPT), discovery, false);
    let pretty = plain.pretty;
    let known = match &parts[..] {
        ["version"] => Some(discovery::version()),
        ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", _] => {
            return respond::plain_text(StatusCode::OK, "ok");
        }
        ["api" | "apis"] => {
            let core = parts[0] == "api";
            let Some(accept) = accept(true) else {
                return Responder { accept: Accept { pretty_errors: true, ..Accept::JSON }, pretty }
                    .status(&Status::not_acceptable());
            };
            if let Form::Discovery { beta } = accept.form {
                let value = discovery::aggregated(&registry, core, beta);
                return respond::discovery(&value, beta, incomer.header(header::IF_NONE_MATCH));
            }
            Some(if core {
                discovery::api_versions(cluster.url.split("://").nth(1).unwrap_or_default())
            } else {
                discovery::group_list(&registry)
            })
        }
        ["api", "v1"] => discovery::resource_list(&registry, "", "v1"),
        ["apis", group] => discovery::group(&registry, group),
        ["apis", group, version] => discovery::resource_list(&registry, group, version),
        ["openapi", ..] => {
            return respond::openapi(
                &registry,
                &parts[1..],
                incomer.header(header::ACCEPT),
                incomer.query.text("hash"),
                incomer.header(header::IF_NONE_MATCH),
            );
        }
        [""] | [] => Some(
            serde_json::json!({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}),
        ),
        _ => None,
    };
    match known {
        None => respond::plain_text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Some(_) if incomer.method != Method::GET && incomer.method != Method::HEAD => {
            plain.status(&Status::method_not_allowed())
        }
        Some(value) => match accept(false) {
            Some(accept) => {
                Responder { accept, pretty: pretty || parts.first() == Some(&"version") }.value(200, &value, &[])
            }
            None => Responder { accept: Accept { pretty_errors: true, ..Accept::JSON }, pretty }
                .status(&Status::not_acceptable()),
        },
    }
}
