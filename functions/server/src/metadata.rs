//! A server's metadata: what the control plane finds it by, and what the guest sees of itself (SRV-3).
//!
//! Invariant: system keys are written last, so no tag replaces one.

use std::collections::BTreeMap;
use weir_api::crd::Tag;

/// Key of the server's ID that the predecessor reads; frozen.
pub const SERVER_ID_LEGACY: &str = weir_provider::server::SERVER_ID[1];
/// Key of the server's ID.
pub const SERVER_ID: &str = weir_provider::server::SERVER_ID[0];

/// The longest key and value that Nova takes, in characters.
const LONGEST: usize = 255;

/// Whose server it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The Server object's name.
    pub server: &'a str,
    /// The organization's ID.
    pub organization: &'a str,
    /// The project's ID.
    pub project: &'a str,
    /// The Region object's name.
    pub region: &'a str,
}

/// A tag that Nova would refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Its name makes too long a key.
    #[error("the name of a tag is too long: at most {LONGEST} characters of it become a key of the server's metadata")]
    Key,
    /// Its value is too long.
    #[error("the value of the tag {0} is longer than the {LONGEST} characters that a server's metadata can hold")]
    Value(String),
}

/// The metadata of a new server.
pub fn metadata(owner: &Owner<'_>, tags: &[Tag]) -> Result<BTreeMap<String, String>, Error> {
    let mut metadata = BTreeMap::new();
    for tag in tags {
        let Some(key) = key(&tag.name) else { continue };
        if key.len() > LONGEST {
            return Err(Error::Key);
        }
        if tag.value.chars().count() > LONGEST {
            return Err(Error::Value(tag.name.clone()));
        }
        metadata.insert(key, tag.value.clone());
    }
    let system = [
        (SERVER_ID_LEGACY, owner.server),
        ("organizationID", owner.organization),
        ("projectID", owner.project),
        ("regionID", owner.region),
        (SERVER_ID, owner.server),
        ("identity:organization_id", owner.organization),
        ("identity:project_id", owner.project),
        ("region:region_id", owner.region),
    ];
    metadata.extend(system.map(|(key, value)| (key.to_owned(), value.to_owned())));
    Ok(metadata)
}

/// The key that a tag becomes: `<service>.<domain>/<name>` is `<service>:<name>`, with `_` for `-` in the name. `None` for
/// any other tag, which stays in Kubernetes.
pub fn key(tag: &str) -> Option<String> {
    let (host, name) = tag.split_once('/')?;
    let (service, domain) = host.split_once('.')?;
    let usable = is_word(service) && !domain.is_empty() && is_word(name);
    usable.then(|| format!("{service}:{}", name.replace('-', "_")))
}

/// `[a-z0-9][a-z0-9-]*`
fn is_word(text: &str) -> bool {
    !text.starts_with('-') && !text.is_empty() && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// Whose server something in the cloud is, by its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It says that it is the server asked for.
    Ours,
    /// It does not say. What is found under our name is then adopted (OPS-12).
    Unclaimed,
    /// It says that it is another Server object's.
    Another,
}

/// What `metadata` says of the Server object `server`.
pub fn claim(metadata: &BTreeMap<String, String>, server: &str) -> Claim {
    match weir_provider::server::claimed(metadata) {
        None => Claim::Unclaimed,
        Some(Some(id)) if id == server => Claim::Ours,
        Some(_) => Claim::Another,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    const OWNER: Owner<'_> =
        Owner { server: "<server>", organization: "<org>", project: "<project>", region: "<region>" };

    fn cases(table: &str) -> Vec<Value> {
        serde_json::from_str::<Value>(table).unwrap()["cases"].as_array().unwrap().clone()
    }

    /// Proves: SRV-3
    #[test]
    fn a_tag_becomes_the_key_that_the_table_says() {
        for case in cases(include_str!("../tests/tables/metadata_key.json")) {
            let tag = case["input"]["tag"].as_str().unwrap();
            assert_eq!(key(tag).as_deref(), case["expect"]["key"].as_str(), "{tag}");
        }
    }

    /// Proves: SRV-3
    #[test]
    fn metadata_is_what_the_table_says() {
        for case in cases(include_str!("../tests/tables/server_metadata.json")) {
            let tags = case["input"]["tags"].as_object().unwrap().iter();
            let tags = tags.map(|(name, value)| Tag { name: name.clone(), value: value.as_str().unwrap().into() });
            let expected: BTreeMap<String, String> =
                serde_json::from_value(case["expect"]["metadata"].clone()).unwrap();
            assert_eq!(metadata(&OWNER, &tags.collect::<Vec<_>>()).unwrap(), expected, "{}", case["case"]);
        }
    }

    #[test]
    fn what_nova_would_refuse_is_refused_by_name() {
        let tag = |name: &str, value: String| [Tag { name: name.into(), value }];
        assert!(metadata(&OWNER, &tag("a.b/c", "é".repeat(255))).is_ok());
        assert_eq!(metadata(&OWNER, &tag("a.b/c", "x".repeat(256))), Err(Error::Value("a.b/c".into())));
        assert_eq!(metadata(&OWNER, &tag(&format!("a.b/{}", "c".repeat(254)), String::new())), Err(Error::Key));
        // A tag that is left out may be as long as it likes.
        assert!(metadata(&OWNER, &tag("plain", "x".repeat(256))).is_ok());
    }

    #[test]
    fn a_server_is_ours_unless_it_says_otherwise() {
        let said = |pairs: &[(&str, &str)]| {
            claim(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(), "a1")
        };
        assert_eq!(said(&[]), Claim::Unclaimed);
        assert_eq!(said(&[("colour", "red")]), Claim::Unclaimed);
        assert_eq!(said(&[(SERVER_ID, "a1")]), Claim::Ours);
        assert_eq!(said(&[(SERVER_ID_LEGACY, "a1")]), Claim::Ours);
        assert_eq!(said(&[(SERVER_ID_LEGACY, "a1"), (SERVER_ID, "a1")]), Claim::Ours);
        assert_eq!(said(&[(SERVER_ID_LEGACY, "a1"), (SERVER_ID, "b2")]), Claim::Another);
        assert_eq!(said(&[(SERVER_ID_LEGACY, "b2")]), Claim::Another);
        assert_eq!(said(&[(SERVER_ID, "")]), Claim::Another);
    }

    proptest! {
        /// Proves: SRV-3
        #[test]
        fn no_tag_replaces_a_system_key(tags in proptest::collection::vec(("[a-z:.-]{1,12}[./][a-z./_-]{1,20}", ".{0,8}"), 0..20)) {
            let tags: Vec<_> = tags.into_iter().map(|(name, value)| Tag { name, value }).collect();
            let with = metadata(&OWNER, &tags).unwrap();
            for (key, value) in metadata(&OWNER, &[]).unwrap() {
                prop_assert_eq!(&with[&key], &value);
            }
        }

        #[test]
        fn a_key_is_one_that_nova_takes(tag in "\\PC{0,40}") {
            if let Some(key) = key(&tag) {
                prop_assert!(key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, ':' | '_' | '-')));
            }
        }
    }
}
