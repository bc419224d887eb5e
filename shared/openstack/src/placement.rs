//! Placement, at microversion 1.22: which hosts have room for what.
//!
//! Invariant: a [`ResourceClass`] and a [`Trait`] are made of capital letters, digits and `_`, so that no name out of a
//! flavor can say more in a query than itself.
//!
//! Caveats: Placement has no pages, a list is one answer. An answer is true when it is given: nothing is reserved by asking.
//! A class or trait that Placement does not know is [`Class::BadRequest`](crate::Class::BadRequest), not an empty list.

use std::fmt;

use http::Method;
use serde::Deserialize;

use crate::request::Request;
use crate::{ResourceProviderId, Result, Service, Session, lenient};

/// The longest name that Placement takes, in bytes.
const LONGEST: usize = 255;

/// A resource class of the operator's own, as `CUSTOM_GPU`: what a flavor asks for with `resources:CUSTOM_GPU`, and what
/// Ironic makes of a node's `resource_class`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceClass(String);

impl ResourceClass {
    /// The class that Nova and Ironic mean by this name: in capitals, with `_` for whatever is neither letter nor digit, and
    /// with `CUSTOM_` before it if it is not there yet. `None` for a name that is blank or too long.
    pub fn custom(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_uppercase();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = name.strip_prefix("CUSTOM_").unwrap_or(&name).chars().map(plain).collect();
        let class = Self(format!("CUSTOM_{name}"));
        (!name.is_empty() && class.0.len() <= LONGEST).then_some(class)
    }

    /// The class as Placement writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A trait that a host must have, or must not have. Written as Placement has it: `HW_CPU_X86_AVX`, `!CUSTOM_RETIRED`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trait(String);

impl Trait {
    /// A trait that must be there. In capitals whatever the name is in; `None` for a name that no trait has.
    pub fn required(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_uppercase();
        let plain = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        (plain && !name.is_empty() && name.len() <= LONGEST).then_some(Self(name))
    }

    /// A trait that must not be there.
    pub fn forbidden(name: &str) -> Option<Self> {
        Self::required(name).map(|Self(name)| Self(format!("!{name}")))
    }

    /// The trait as a query has it, `!` included.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Trait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What has resources to give: a hypervisor, or an Ironic node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ResourceProvider {
    /// Its id. Of an Ironic node it is the node's.
    pub uuid: ResourceProviderId,
    /// Its name. Of a hypervisor it is the `hypervisor_hostname`, of an Ironic node the node's UUID.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
}

impl ResourceProvider {
    /// The provider that a UUID or a name means, without asking.
    pub fn new(uuid: impl Into<ResourceProviderId>, name: impl Into<String>) -> Self {
        Self { uuid: uuid.into(), name: name.into() }
    }
}

/// Placement's requests; see [`Session::placement`].
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    session: &'a Session,
}

impl Session {
    /// Placement.
    pub fn placement(&self) -> Client<'_> {
        Client { session: self }
    }
}

impl Client<'_> {
    /// The providers that have one unit of `class` to give, all the traits that are required and none of those that are
    /// forbidden. Takes a credential that Placement's policy lets list providers (OPS-14).
    pub async fn providers_with(&self, class: &ResourceClass, traits: &[Trait]) -> Result<Vec<ResourceProvider>> {
        let request = Request::new(Service::Placement, Method::GET, "resource-providers", &["resource_providers"])
            .query("resources", format!("{class}:1"));
        let traits: Vec<&str> = traits.iter().map(Trait::as_str).collect();
        // Placement refuses a filter that is empty.
        let request = request.query_some("required", (!traits.is_empty()).then(|| traits.join(",")));
        self.session.send(&request).await?.one(&request, "resource_providers")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::Class;
    use crate::testing::{Cloud, Reply};

    const FOUND: &str = r#"{"resource_providers": [
        {"uuid": "rp-a", "name": "node-a", "generation": 3, "links": []}, {"uuid": "rp-b", "name": null}
    ]}"#;

    async fn ask(reply: Reply, traits: &[Trait]) -> (Result<Vec<ResourceProvider>>, crate::testing::Asked) {
        let cloud = Cloud::scripted([reply]);
        let class = ResourceClass::custom("gb300-host").unwrap();
        let answer = cloud.session().placement().providers_with(&class, traits).await;
        (answer, cloud.asked().pop().expect("a request"))
    }

    fn query(url: &str) -> Vec<(String, String)> {
        url::Url::parse(url).unwrap().query_pairs().into_owned().collect()
    }

    /// Proves: PIN-2, OSC-2
    #[tokio::test]
    async fn one_unit_of_the_class_and_all_traits_are_asked_for_in_the_version_that_knows_forbidden_ones() {
        let traits = [Trait::required("custom_customer_ready").unwrap(), Trait::forbidden(" HW_CPU_X86_AVX ").unwrap()];
        let (answer, asked) = ask(Reply::Raw(200, FOUND, vec![]), &traits).await;
        assert_eq!(answer.unwrap(), [ResourceProvider::new("rp-a", "node-a"), ResourceProvider::new("rp-b", "")]);
        assert_eq!(asked.method, "GET");
        assert!(asked.url.starts_with("https://cloud.example/placement/resource_providers?"), "{}", asked.url);
        let expected = [("resources", "CUSTOM_GB300_HOST:1"), ("required", "CUSTOM_CUSTOMER_READY,!HW_CPU_X86_AVX")];
        assert_eq!(query(&asked.url), expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert_eq!(asked.headers["openstack-api-version"], "placement 1.22");
    }

    /// Proves: PIN-2
    #[tokio::test]
    async fn without_traits_there_is_no_filter_for_them() {
        let (_, asked) = ask(Reply::Json(200, json!({"resource_providers": []})), &[]).await;
        assert_eq!(query(&asked.url), [("resources".to_owned(), "CUSTOM_GB300_HOST:1".to_owned())]);
    }

    /// Proves: OSC-7
    #[tokio::test]
    async fn an_answer_without_a_list_is_none_and_a_refusal_keeps_its_class() {
        let error = |status: u16, detail: &str| {
            Reply::Json(status, json!({"errors": [{"status": status, "title": "x", "detail": detail}]}))
        };
        let rows: [(Reply, Class); 5] = [
            (Reply::Json(200, json!({})), Class::NotUnderstood),
            (Reply::Json(200, json!({"resource_providers": [{"name": "node-a"}]})), Class::NotUnderstood),
            (error(400, "No such trait(s): CUSTOM_X."), Class::BadRequest),
            (error(403, "Policy does not allow placement:resource_providers:list to be performed."), Class::Forbidden),
            (Reply::Json(500, Value::Null), Class::Unavailable),
        ];
        for (reply, class) in rows {
            let (answer, _) = ask(reply, &[]).await;
            assert_eq!(answer.unwrap_err().class(), class);
        }
    }

    #[test]
    fn a_class_is_the_one_that_nova_and_ironic_mean() {
        for (name, class) in [
            (" CUSTOM_GB300_HOST ", Some("CUSTOM_GB300_HOST")),
            ("gb300-host", Some("CUSTOM_GB300_HOST")),
            ("custom_gpu", Some("CUSTOM_GPU")),
            ("a:1,VCPU", Some("CUSTOM_A_1_VCPU")),
            ("", None),
            ("CUSTOM_", None),
            (" ", None),
        ] {
            assert_eq!(ResourceClass::custom(name).as_ref().map(ResourceClass::as_str), class, "{name:?}");
        }
        assert_eq!(ResourceClass::custom(&"x".repeat(LONGEST)), None);
    }

    proptest! {
        /// Proves: PIN-2
        #[test]
        fn no_name_says_more_than_itself_in_a_query(name in ".{0,300}") {
            let plain = |text: &str| text.len() <= LONGEST + 1 && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
            prop_assert!(ResourceClass::custom(&name).is_none_or(|class| plain(class.as_str())));
            prop_assert!(Trait::required(&name).is_none_or(|t| plain(t.as_str())));
            prop_assert!(Trait::forbidden(&name).is_none_or(|t| t.as_str().strip_prefix('!').is_some_and(plain)));
        }
    }
}
