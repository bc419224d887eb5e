//! The service catalog of a token: from a service to the URL to ask (OSC-1).

use serde::Deserialize;
use url::Url;

use crate::{Interface, ProjectId, Service, lenient};

/// The endpoints a token came with.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Catalog(#[serde(deserialize_with = "lenient::list")] Vec<Entry>);

#[derive(Debug, Clone, Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "lenient::list")]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Clone, Deserialize)]
struct Endpoint {
    interface: String,
    url: String,
}

impl Catalog {
    /// Whether the cloud has `service`, reachable through `interface`.
    pub fn offers(&self, service: Service, interface: Interface) -> bool {
        self.raw(service, interface).is_some()
    }

    /// The types of all services, as the cloud names them: for telling an operator what is there.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|entry| entry.kind.as_str())
    }

    fn raw(&self, service: Service, interface: Interface) -> Option<Url> {
        service.types().iter().find_map(|kind| {
            self.0
                .iter()
                .filter(|entry| entry.kind == *kind)
                .flat_map(|entry| &entry.endpoints)
                .filter(|endpoint| endpoint.interface == interface.as_str())
                .find_map(|endpoint| web(&endpoint.url))
        })
    }

    /// The versioned URL to join paths to.
    pub(crate) fn endpoint(&self, service: Service, interface: Interface, project: Option<&ProjectId>) -> Option<Url> {
        self.raw(service, interface).map(|url| versioned(url, service, project))
    }
}

fn web(text: &str) -> Option<Url> {
    let url = Url::parse(text.trim()).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// Keystone's URL as an operator wrote it, made into the versioned one.
pub(crate) fn keystone(endpoint: &str) -> Option<Url> {
    web(endpoint).map(|url| versioned(url, Service::Identity, None))
}

/// Brings a URL, which may name no version, another one, or a project after it, to the version that is spoken.
fn versioned(mut url: Url, service: Service, project: Option<&ProjectId>) -> Url {
    url.set_query(None);
    url.set_fragment(None);
    let mut segments: Vec<String> =
        url.path_segments().into_iter().flatten().filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
    if let Some(version) = service.version_segment() {
        match segments.iter().rposition(|segment| is_version(segment)) {
            Some(at) => version.clone_into(&mut segments[at]),
            None => segments.push(version.to_owned()),
        }
        let ends_in_version = segments.last().is_some_and(|segment| is_version(segment));
        if let Some(project) = project.filter(|_| service.project_in_url() && ends_in_version) {
            segments.push(project.to_string());
        }
    }
    url.set_path(&segments.join("/"));
    url
}

/// `v2`, `v2.1`, `v3` …
fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|number| {
        number.starts_with(|c: char| c.is_ascii_digit()) && number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Proves: OSC-1
    #[test]
    fn an_endpoint_is_found_with_or_without_a_version_in_its_url() {
        let project = ProjectId::from("p1");
        let rows = [
            (Service::Compute, "http://c:8774", "http://c:8774/v2.1"),
            (Service::Compute, "http://c:8774/v2.1/", "http://c:8774/v2.1"),
            (Service::Compute, "http://c/compute/v2/p9", "http://c/compute/v2.1/p9"),
            (Service::Network, "http://c:9696/networking", "http://c:9696/networking/v2.0"),
            (Service::Network, "http://c:9696/v2.0/", "http://c:9696/v2.0"),
            (Service::Image, "https://c/image/v2.9", "https://c/image/v2"),
            (Service::Identity, "https://c/identity", "https://c/identity/v3"),
            (Service::Identity, "https://c/v2.0", "https://c/v3"),
            (Service::BlockStorage, "https://c/volume", "https://c/volume/v3/p1"),
            (Service::BlockStorage, "https://c/v3/p9", "https://c/v3/p9"),
            (Service::Placement, "https://c/placement", "https://c/placement"),
            (Service::BareMetal, "https://c:6385/?x=1#y", "https://c:6385/v1"),
        ];
        for (service, url, expected) in rows {
            let catalog: Catalog = serde_json::from_value(json!([
                {"type": service.types()[0], "endpoints": [{"interface": "public", "url": url}]}
            ]))
            .unwrap();
            let found = catalog.endpoint(service, Interface::Public, Some(&project)).unwrap();
            assert_eq!(found.as_str(), expected, "{service} {url}");
        }
    }

    /// Proves: OSC-1
    #[test]
    fn a_service_is_known_by_its_aliases_and_the_asked_interface() {
        let catalog: Catalog = serde_json::from_value(json!([
            {"type": "volume", "endpoints": [{"interface": "public", "url": "http://old/v1/p"}]},
            {"type": "volumev3", "endpoints": [
                {"interface": "internal", "url": "http://inside/v3/p"},
                {"interface": "public", "url": "not a url"},
                {"interface": "public", "url": "http://outside/v3/p"},
            ]},
            {"type": "bare-metal", "endpoints": [{"interface": "public", "url": "http://metal"}]},
            {"type": 7}, "nonsense",
        ]))
        .unwrap();
        let url = |service, interface| catalog.endpoint(service, interface, None).map(String::from);
        assert_eq!(url(Service::BlockStorage, Interface::Public).as_deref(), Some("http://outside/v3/p"));
        assert_eq!(url(Service::BlockStorage, Interface::Internal).as_deref(), Some("http://inside/v3/p"));
        assert_eq!(url(Service::BlockStorage, Interface::Admin), None);
        assert_eq!(url(Service::BareMetal, Interface::Public).as_deref(), Some("http://metal/v1"));
        assert!(!catalog.offers(Service::LoadBalancer, Interface::Public));
        assert_eq!(catalog.types().collect::<Vec<_>>(), ["volume", "volumev3", "bare-metal"]);
    }

    proptest! {
        #[test]
        fn any_endpoint_text_gives_a_web_url_or_none(text in "(http|https|ftp|file|:|/|v[0-9.]{0,3}|\\?|#|é|[a-z.%]{0,4}){0,12}") {
            if let Some(url) = keystone(&text) {
                prop_assert!(url.path().ends_with("/v3") || url.path().contains("/v3/"), "{}", url);
                prop_assert!(url.query().is_none());
            }
        }
    }
}
