//! A request before it has an address, and the answer to it.

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use crate::error::{Fault, classify, retry_after};
use crate::{Class, Error, Result, Secret, Service, redact};

/// One request to a service: everything but the host and the token.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) service: Service,
    pub(crate) method: Method,
    /// A fixed word for metrics.
    pub(crate) resource: &'static str,
    path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Option<Value>,
    /// The version asked for.
    pub(crate) microversion: Option<&'static str>,
    /// Secrets in `body`, which must not come back in an error's detail.
    pub(crate) secrets: Vec<Secret>,
}

impl Request {
    /// `path` is split into segments, each of which is escaped: an id cannot reach another path.
    pub(crate) fn new(service: Service, method: Method, resource: &'static str, path: &[&str]) -> Self {
        let path = path.iter().map(|segment| (*segment).to_owned()).collect();
        let microversion = service.microversion();
        Self { service, method, resource, path, query: Vec::new(), body: None, microversion, secrets: Vec::new() }
    }

    pub(crate) fn query(mut self, key: &str, value: impl Into<String>) -> Self {
        self.query.push((key.to_owned(), value.into()));
        self
    }

    pub(crate) fn query_some<T: AsRef<str>>(self, key: &str, value: Option<T>) -> Self {
        match value {
            Some(value) => self.query(key, value.as_ref()),
            None => self,
        }
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub(crate) fn secret(mut self, secret: &Secret) -> Self {
        self.secrets.push(secret.clone());
        self
    }

    /// For errors: the path without host, version and query.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.path.join("/"))
    }

    pub(crate) fn error(&self, class: Class) -> Error {
        Error::new(class, self.service, self.method.as_str(), &self.path())
    }

    /// The whole URL. Refuses path segments that would mean another path: an empty id would turn `DELETE /servers/<id>` into
    /// `DELETE /servers/`.
    pub(crate) fn url(&self, base: &Url) -> Result<Url> {
        if self.path.iter().any(|segment| matches!(segment.as_str(), "" | "." | "..")) {
            return Err(self.error(Class::BadRequest).with_detail("an identifier in the path is empty or a dot"));
        }
        let mut url = base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(&self.path);
        }
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok(url)
    }
}

/// A whole answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The cloud's own id of the request.
    pub(crate) fn request_id(&self) -> Option<String> {
        ["x-openstack-request-id", "x-compute-request-id"].iter().find_map(|name| {
            let id = self.headers.get(*name)?.to_str().ok()?;
            (id.len() <= 128).then(|| id.to_owned())
        })
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The error this answer is. `secrets` are removed from what it says.
    pub(crate) fn error(&self, request: &Request, secrets: &[&Secret]) -> Error {
        let fault = Fault::read(&self.body);
        let class = classify(request.service, self.status, &fault);
        // The whole message, so that no half of a secret is left at the cut.
        let held = request.body.as_ref().map(redact::held).unwrap_or_default();
        let all: Vec<&Secret> = secrets.iter().copied().chain(&held).collect();
        let detail = redact::text(&fault.message, &all);
        request
            .error(class)
            .with_status(self.status)
            .with_kind(fault.kind.filter(|kind| kind.len() <= 128))
            .with_retry_after(retry_after(&self.headers, jiff::Timestamp::now()))
            .with_request_id(self.request_id())
            .with_detail(detail)
    }

    /// The JSON body.
    pub(crate) fn value(&self, request: &Request) -> Result<Value> {
        serde_json::from_slice(&self.body).map_err(|error| self.not_understood(request, &error))
    }

    /// What the body holds under `key`.
    pub(crate) fn one<T: DeserializeOwned>(&self, request: &Request, key: &str) -> Result<T> {
        let mut value = self.value(request)?;
        let inner = value.get_mut(key).map(Value::take).unwrap_or_default();
        serde_json::from_value(inner).map_err(|error| self.not_understood(request, &error))
    }

    /// The detail holds serde's words, which quote no more than a field's name or a short value; never the body.
    pub(crate) fn not_understood(&self, request: &Request, error: &serde_json::Error) -> Error {
        request.error(Class::NotUnderstood).with_status(self.status).with_request_id(self.request_id()).with_detail(
            format!("the answer cannot be decoded ({:?} error at line {})", error.classify(), error.line()),
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn url(path: &[&str]) -> Result<Url> {
        Request::new(Service::Compute, Method::DELETE, "servers", path).url(&"http://c/compute/v2.1/".parse().unwrap())
    }

    #[test]
    fn an_id_cannot_reach_another_path() {
        assert_eq!(
            url(&["servers", "a/../b?c#d"]).unwrap().as_str(),
            "http://c/compute/v2.1/servers/a%2F..%2Fb%3Fc%23d"
        );
        for bad in ["", ".", ".."] {
            assert_eq!(url(&["servers", bad]).unwrap_err().class(), Class::BadRequest);
        }
    }
}
