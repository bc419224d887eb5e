//! One call's view of a cloud: who asks, through what, until when.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, HeaderValue, Method};
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument;
use url::Url;
use uuid::Uuid;

use crate::auth::Key;
use crate::request::{Answer, Request};
use crate::token::Token;
use crate::transport::of_method;
use crate::{
    Auth, Class, Error, Interface, Meter, NoMeter, ProjectId, Purpose, Result, Sample, Scope, Secret, Service,
    TokenCache, TokenInfo, Transport, TransportError, UserId, catalog, redact,
};

/// `weir/<version>` (OSC-11).
const AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

/// A read or a delete whose connection broke is repeated this often (OSC-9).
const REPEATS: usize = 2;

const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");
const API_VERSION: HeaderName = HeaderName::from_static("openstack-api-version");

/// What ties requests to the call that makes them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallTag {
    /// Sent as `X-OpenStack-Request-ID: req-<uuid>`: the cloud's logs can be searched for it.
    pub request_id: Uuid,
    /// How long one HTTP request may take.
    pub deadline: Duration,
    /// The W3C `traceparent` that requests carry, if they are part of a trace.
    pub traceparent: Option<String>,
}

impl CallTag {
    /// The tag of the call `request_id`, with a deadline of 30 s for each request.
    pub fn new(request_id: Uuid) -> Self {
        Self { request_id, deadline: Duration::from_secs(30), traceparent: None }
    }

    /// As part of a trace.
    #[must_use]
    pub fn with_traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.traceparent = Some(traceparent.into());
        self
    }

    /// Another deadline for each request.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}

/// A cloud seen with one credential, in one scope, for one call. Cheap to make and to clone; the modules' accessors
/// ([`Session::compute`] …) hold the requests.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    transport: Arc<dyn Transport>,
    tokens: TokenCache,
    auth: Auth,
    key: Key,
    interface: Interface,
    call: CallTag,
    meter: Arc<dyn Meter>,
    page_size: Option<u32>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("auth", &self.0.auth).field("call", &self.0.call).finish_non_exhaustive()
    }
}

impl Session {
    /// A session; nothing is sent until the first request.
    pub fn new(
        transport: Arc<dyn Transport>,
        tokens: TokenCache,
        auth: Auth,
        interface: Interface,
        call: CallTag,
    ) -> Self {
        let key = auth.key();
        let meter = Arc::new(NoMeter);
        Self(Arc::new(Inner { transport, tokens, auth, key, interface, call, meter, page_size: None }))
    }

    /// The same session, counted by `meter`.
    #[must_use]
    pub fn with_meter(self, meter: Arc<dyn Meter>) -> Self {
        self.with(|inner| inner.meter = meter)
    }

    /// The same session for another call, or with another deadline.
    #[must_use]
    pub fn with_call(self, call: CallTag) -> Self {
        self.with(|inner| inner.call = call)
    }

    /// The same session, asking for pages of at most `size` (the cloud's own default otherwise).
    #[must_use]
    pub fn with_page_size(self, size: u32) -> Self {
        self.with(|inner| inner.page_size = Some(size))
    }

    /// The same credential in another scope.
    #[must_use]
    pub fn in_scope(&self, scope: Scope) -> Self {
        self.clone().with(|inner| {
            inner.auth.scope = scope;
            inner.key = inner.auth.key();
        })
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        change(&mut inner);
        Self(Arc::new(inner))
    }

    pub(crate) fn page_size(&self) -> Option<u32> {
        self.0.page_size
    }

    /// What the session's token says: user, project or domain, roles, catalog. Costs a request only if no token is kept.
    pub async fn token_info(&self) -> Result<TokenInfo> {
        Ok(self.token().await?.info.clone())
    }

    /// The user the session's credential belongs to.
    pub async fn user_id(&self) -> Result<UserId> {
        let token = self.token().await?;
        token.info.user.as_ref().map(|user| user.id.clone()).ok_or_else(|| {
            Error::new(Class::NotUnderstood, Service::Identity, "POST", "/auth/tokens")
                .with_detail("a token without a user")
        })
    }

    /// The project the session is scoped to, if it is scoped to one.
    pub async fn project_id(&self) -> Result<Option<ProjectId>> {
        Ok(self.token().await?.info.project.as_ref().map(|project| project.id.clone()))
    }

    /// Whether the cloud's catalog has `service`.
    pub async fn offers(&self, service: Service) -> Result<bool> {
        Ok(self.token().await?.info.catalog.offers(service, self.0.interface))
    }

    async fn token(&self) -> Result<Arc<Token>> {
        self.0.tokens.get(&self.0.key, || self.authenticate()).await
    }

    async fn authenticate(&self) -> Result<Token> {
        let auth = &self.0.auth;
        let request = Request::new(Service::Identity, Method::POST, "tokens", &["auth", "tokens"]).body(auth.body());
        let Some(base) = catalog::keystone(&auth.endpoint) else {
            let text = "the region's endpoint is not an http or https URL";
            return Err(request.error(Class::BadRequest).with_detail(text));
        };
        let asked = Instant::now();
        let answer = self.exchange(&request, &request.url(&base)?, None).await?;
        if !answer.is_success() {
            let error = answer.error(&request, &[auth.secret()]);
            // Keystone answers 404 to an application credential that is gone. That must not look as if what was asked for with
            // it were gone: absence is what deletions wait for.
            return Err(if error.is_not_found() { error.with_class(Class::Unauthorized) } else { error });
        }
        let value = answer.headers.get(SUBJECT_TOKEN).and_then(|value| value.to_str().ok()).map(Secret::new);
        let token = value.and_then(|value| Token::read(value, &answer.body, asked));
        token.ok_or_else(|| {
            request.error(Class::NotUnderstood).with_status(answer.status).with_detail("the answer holds no token")
        })
    }

    /// Sends a request and returns the answer if it is a success. A refused token is replaced once (OSC-3).
    pub(crate) async fn send(&self, request: &Request) -> Result<Answer> {
        let token = self.token().await?;
        let answer = self.exchange(request, &self.url(request, &token)?, Some(&token)).await?;
        if answer.status != 401 {
            return self.conclude(request, &token, answer).await;
        }
        self.0.tokens.refuse(&self.0.key, &token);
        let token = self.token().await?;
        let answer = self.exchange(request, &self.url(request, &token)?, Some(&token)).await?;
        if answer.status == 401 {
            self.0.tokens.refuse(&self.0.key, &token);
        }
        self.conclude(request, &token, answer).await
    }

    fn base(&self, request: &Request, token: &Token) -> Result<Url> {
        let project = token.info.project.as_ref().map(|project| &project.id);
        let found = token.info.catalog.endpoint(request.service, self.0.interface, project);
        // Keystone is where the token came from, whether or not the catalog lists it.
        let found = found.or_else(|| match request.service {
            Service::Identity => catalog::keystone(&self.0.auth.endpoint),
            _ => None,
        });
        found.ok_or_else(|| {
            let text = format!("the catalog has no {} endpoint for {}", self.0.interface.as_str(), request.service);
            request.error(Class::Unsupported).with_detail(text)
        })
    }

    fn url(&self, request: &Request, token: &Token) -> Result<Url> {
        request.url(&self.base(request, token)?)
    }

    async fn conclude(&self, request: &Request, token: &Token, answer: Answer) -> Result<Answer> {
        if answer.is_success() {
            return Ok(answer);
        }
        let mut secrets = vec![self.0.auth.secret(), &token.value];
        secrets.extend(&request.secrets);
        let error = answer.error(request, &secrets);
        match request.microversion {
            Some(wanted) if answer.status == 406 => {
                Err(error.with_detail(self.explain_version(request, token, wanted).await))
            }
            _ => Err(error),
        }
    }

    /// Names the service, the version wanted and those offered (OSC-2). Asked only when a version was refused.
    async fn explain_version(&self, request: &Request, token: &Token, wanted: &str) -> String {
        let offered = async {
            let mut document = Request::new(request.service, Method::GET, "versions", &[]);
            document.microversion = None; // the document itself must not be refused
            let answer = self.exchange(&document, &self.base(request, token).ok()?, Some(token)).await.ok()?;
            offered(&serde_json::from_slice(&answer.body).ok()?)
        }
        .await;
        let offered = offered.unwrap_or_else(|| "versions it does not tell".into());
        let text = format!("{} does not offer API version {wanted}, it offers {offered}", request.service);
        redact::text(&text, &[])
    }

    /// One request and its repeats.
    async fn exchange(&self, request: &Request, url: &Url, token: Option<&Token>) -> Result<Answer> {
        let repeatable = matches!(request.method, Method::GET | Method::HEAD | Method::DELETE);
        let mut repeats = 0;
        loop {
            match self.attempt(request, url, token).await? {
                Ok(answer) => return Ok(answer),
                Err(error) if repeatable && error.is_connection() && repeats < REPEATS => repeats += 1,
                Err(error) => {
                    return Err(Error::from_transport(
                        &error,
                        request.service,
                        request.method.as_str(),
                        &request.path(),
                    ));
                }
            }
        }
    }

    /// One HTTP request, within the deadline, as a span and a sample (OSC-11). The outer error: it cannot be put together.
    async fn attempt(
        &self,
        request: &Request,
        url: &Url,
        token: Option<&Token>,
    ) -> Result<std::result::Result<Answer, TransportError>> {
        let message = self.message(request, url, token)?;
        let path = request.path();
        let span = tracing::debug_span!(
            "openstack",
            service = request.service.name(),
            method = request.method.as_str(),
            resource = request.resource,
            path,
            request_id = %self.0.call.request_id,
            status = tracing::field::Empty,
        );
        let started = Instant::now();
        let sent = async {
            let sent = tokio::time::timeout(self.0.call.deadline, self.0.transport.send(message)).await;
            let result = sent.unwrap_or(Err(TransportError::Timeout)).map(|response| {
                let (parts, body) = response.into_parts();
                Answer { status: parts.status.as_u16(), headers: parts.headers, body }
            });
            match &result {
                Ok(answer) => {
                    tracing::Span::current().record("status", answer.status);
                    tracing::debug!(cloud_request_id = answer.request_id(), "answered");
                }
                Err(error) => tracing::debug!(%error, "no answer"),
            }
            result
        };
        let result = sent.instrument(span).await;
        let class = match &result {
            Ok(answer) if answer.is_success() => None,
            Ok(answer) => Some(answer.error(request, &[]).class()),
            Err(error) => Some(Error::from_transport(error, request.service, "", "").class()),
        };
        self.0.meter.record(&Sample {
            service: request.service,
            method: request.method.as_str(),
            resource: request.resource,
            status: result.as_ref().ok().map(|answer| answer.status),
            class,
            elapsed: started.elapsed(),
        });
        Ok(result)
    }

    fn message(&self, request: &Request, url: &Url, token: Option<&Token>) -> Result<http::Request<Bytes>> {
        let unfit = |what: &str| request.error(Class::BadRequest).with_detail(what);
        let mut message = http::Request::builder().method(request.method.clone()).uri(url.as_str());
        message = message
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, "application/json")
            .header(REQUEST_ID, format!("req-{}", self.0.call.request_id));
        if let Some(traceparent) = &self.0.call.traceparent {
            message = message.header(TRACEPARENT, traceparent);
        }
        if let Some(token) = token {
            let mut value =
                HeaderValue::from_str(token.value.reveal()).map_err(|_| unfit("the token is no header value"))?;
            value.set_sensitive(true);
            message = message.header(AUTH_TOKEN, value);
        }
        if let Some(version) = request.microversion {
            message = message.header(API_VERSION, format!("{} {version}", request.service.name()));
            if request.service == Service::BareMetal {
                // Ironic at 1.11 knows only its own header.
                message = message.header("x-openstack-ironic-api-version", version);
            }
        }
        let body = match &request.body {
            Some(body) => {
                message = message.header(CONTENT_TYPE, "application/json");
                Bytes::from(body.to_string())
            }
            None => Bytes::new(),
        };
        let purpose = if token.is_none() { Purpose::Authenticate } else { of_method(&request.method) };
        message.extension(purpose).body(body).map_err(|_| unfit("the URL is no request target"))
    }
}

/// `<min> to <max>` of a version document: of one version (`{"version": …}`) or, for Placement and Ironic, of several.
fn offered(document: &Value) -> Option<String> {
    let version = document
        .get("version")
        .or_else(|| document.get("default_version"))
        .or_else(|| document.get("versions")?.as_array()?.last())?;
    let text = |key: &str| version.get(key)?.as_str().filter(|text| !text.is_empty() && text.len() <= 16);
    let most = text("max_version").or_else(|| text("version"))?;
    Some(format!("{} to {most}", text("min_version")?))
}

#[cfg(test)]
mod tests;
