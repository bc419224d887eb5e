//! Which objects to look at.
//!
//! Invariant: nothing in a selector widens it: kinds, namespaces and names hold no wildcard and no separator.

use kube::CustomResourceExt;
use weir_api::kind::UnknownKind;
use weir_api::{Kind, crd};
use weir_messages::{Lane, subject};

/// Which objects to look at. Empty fields stand for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// A lane.
    pub lane: Option<Lane>,
    /// A kind's token; that of a kind which this release does not know will do.
    pub kind: Option<String>,
    /// A namespace.
    pub namespace: Option<String>,
    /// A name.
    pub name: Option<String>,
}

/// A selector that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not KIND, KIND/NAMESPACE or KIND/NAMESPACE/NAME, as in server/default/web-1")]
pub struct BadSelector(String);

impl std::str::FromStr for Selector {
    type Err = BadSelector;

    /// Reads `KIND`, `KIND/NAMESPACE` or `KIND/NAMESPACE/NAME`. A known kind may be named as Kubernetes names it.
    fn from_str(text: &str) -> Result<Self, BadSelector> {
        let bad = || BadSelector(text.chars().take(80).collect());
        let mut parts = text.split('/');
        let mut part = |dots: bool| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || (dots && c == '.');
            match parts.next() {
                None => Ok(None),
                Some(part) if !part.is_empty() && part.len() <= subject::MAX_NAME && part.chars().all(allowed) => {
                    Ok(Some(part.to_owned()))
                }
                Some(_) => Err(bad()),
            }
        };
        let (kind_said, namespace, name) = (part(false)?, part(true)?, part(true)?);
        if parts.next().is_some() {
            return Err(bad());
        }
        let token =
            |said: String| kind(&said).map_or_else(|| said.to_ascii_lowercase(), |kind| kind.token().to_owned());
        Ok(Self { lane: None, kind: kind_said.map(token), namespace, name })
    }
}

/// A kind by whatever a person calls it: its token or several of it, or what `kubectl` takes, its kind, its plural or its short name.
pub fn kind(text: &str) -> Option<Kind> {
    let text = text.to_ascii_lowercase();
    let is_token = |kind: &Kind| text.strip_suffix('s').unwrap_or(&text) == kind.token() || text == kind.token();
    // The monitor has no kind of object in Kubernetes.
    let kubernetes = |kind: &Kind| {
        text == kind.plural()
            || kind.kubernetes().eq_ignore_ascii_case(&text)
            || short_names(*kind).contains(&text.as_str())
    };
    let known = Kind::ALL.into_iter().find(|kind| is_token(kind) || kubernetes(kind));
    known.or_else(|| Some(Kind::ServerMonitor).filter(is_token))
}

/// What `kubectl` takes for a kind in short.
fn short_names(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Region => crd::Region::shortnames(),
        Kind::Identity => crd::Identity::shortnames(),
        Kind::Network => crd::Network::shortnames(),
        Kind::SecurityGroup => crd::SecurityGroup::shortnames(),
        Kind::Server => crd::Server::shortnames(),
        Kind::Volume => crd::Volume::shortnames(),
        Kind::LoadBalancer => crd::LoadBalancer::shortnames(),
        Kind::Instance => crd::ComputeInstance::shortnames(),
        Kind::ServerMonitor => &[],
    }
}

impl Selector {
    /// Complains about a kind that there is none of. Messages may be for such a kind all the same, so that only one who finds
    /// nothing has reason to.
    ///
    /// # Errors
    /// The kind is not known to this release.
    pub fn known(&self) -> Result<(), UnknownKind> {
        self.kind.as_ref().map_or(Ok(()), |kind| kind.parse::<Kind>().map(drop))
    }

    fn filter(&self, prefix: &str, dot: &str) -> String {
        let token = |part: &Option<String>| part.as_ref().map_or_else(|| "*".to_owned(), |part| part.replace('.', dot));
        match (&self.kind, &self.namespace, &self.name) {
            (None, None, None) => format!("{prefix}.>"),
            (_, None, None) => format!("{prefix}.{}.>", token(&self.kind)),
            _ => format!("{prefix}.{}.{}.{}", token(&self.kind), token(&self.namespace), token(&self.name)),
        }
    }

    /// The filter of the work that it selects.
    pub fn work(&self) -> String {
        match (self.lane, &self.kind) {
            (None, None) => self.filter("work", "~"),
            (lane, _) => self.filter(&format!("work.{}", lane.map_or("*", Lane::token)), "~"),
        }
    }

    /// The filters of the timers that it selects: objects' own, those that a resync has set, and those that repeat.
    pub(super) fn timers(&self) -> Vec<String> {
        let own = self.filter("timer", "~");
        if own == subject::ALL_TIMERS {
            return vec![own];
        }
        let mut filters = vec![own, self.filter("timer.resync", "~"), self.filter("timer.every", "~")];
        if let (Some(kind), None) = (&self.kind, &self.namespace) {
            filters.push(format!("timer.resync.{kind}"));
        }
        filters
    }

    pub(super) fn leases(&self) -> String {
        self.filter("$KV.LEASES", "=")
    }

    pub(super) fn dead(&self) -> String {
        match (self.lane, &self.kind) {
            (None, None) => subject::ALL_DEAD.to_owned(),
            _ => format!("dead.{}", self.work()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_selector_takes_kinds_by_any_of_their_names_and_nothing_that_could_widen_it() {
        let selector: Selector = "SecurityGroup/team-a/web.1".parse().unwrap();
        assert_eq!(selector.work(), "work.*.security-group.team-a.web~1");
        assert_eq!(selector.leases(), "$KV.LEASES.security-group.team-a.web=1");
        assert_eq!(selector.dead(), "dead.work.*.security-group.team-a.web~1");
        let kind: Selector = "planet".parse().unwrap();
        assert_eq!(kind.work(), "work.*.planet.>");
        let timers = ["timer.planet.>", "timer.resync.planet.>", "timer.every.planet.>", "timer.resync.planet"];
        assert_eq!(kind.timers(), timers);
        let namespace: Selector = "servers/ns".parse().unwrap();
        assert_eq!(namespace.timers(), ["timer.server.ns.*", "timer.resync.server.ns.*", "timer.every.server.ns.*"]);
        assert_eq!(Selector::default().timers(), ["timer.>"]);
        assert_eq!(Selector::default().work(), "work.>");
        let lane = Selector { lane: Some(Lane::Urgent), ..Selector::default() };
        assert_eq!((lane.work().as_str(), lane.dead().as_str()), ("work.urgent.>", "dead.work.urgent.>"));
        for (said, token) in [
            ("servers", "server"),
            ("Servers", "server"),
            ("security-groups", "security-group"),
            ("securitygroups", "security-group"),
            ("identities", "identity"),
            ("ComputeInstance", "instance"),
            ("instances", "instance"),
            ("Server-Monitor", "server-monitor"),
            ("regions", "region"),
            ("rgn", "region"),
            ("idn", "identity"),
            ("net", "network"),
            ("sg", "security-group"),
            ("SRV", "server"),
            ("vol", "volume"),
            ("lb", "load-balancer"),
            ("inst", "instance"),
        ] {
            let selector: Selector = said.parse().unwrap();
            assert_eq!((selector.kind.as_deref(), selector.known()), (Some(token), Ok(())), "{said}");
        }
        let unknown = kind.known().unwrap_err().to_string();
        assert!(unknown.contains("planet") && unknown.contains("security-group"), "{unknown}");
        assert_eq!(Selector::default().known(), Ok(()));
        for bad in ["", "a/b/c/d", "a//c", "*", "a/>", "a b", "a.b", "server/n s"] {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
    }
}
