//! Regions: configuration and credential read from Kubernetes, sessions made from them.

use crate::dependency::Purpose;
use crate::record::Record;
use k8s_openapi::api::core::v1::Secret as KubernetesSecret;
use kube::Api;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_api::conditions::Reason;
use weir_api::{Problem, crd};
use weir_openstack::{
    Auth, CallTag, Credential, DomainId, HttpTransport, Interface, ProjectId, Scope, Secret, Session, Tls, TokenCache,
    Transport, UserId,
};

/// Keys of a region's Secret (REG-1).
const DOMAIN: &str = "domain-id";
const PROJECT: &str = "project-id";
const USER: &str = "user-id";
const PASSWORD: &str = "password";
/// Optional: a PEM bundle of certificate authorities to trust for this region (OSC-12).
const CA: &str = "ca.crt";
/// Optional: `true` turns certificate checks off for this region (OSC-12).
const INSECURE: &str = "insecure-skip-tls-verify";

/// No value of a region's Secret is longer than this, in bytes; a CA bundle is the longest.
const LONGEST_VALUE: usize = 256 * 1024;

/// Puts layers around the transport that a call uses.
pub type Wrap<'a> = dyn Fn(Arc<dyn Transport>) -> Arc<dyn Transport> + Send + Sync + 'a;

/// What outlives a call, per process: connections and tokens. Cheap to share, holds no configuration.
#[derive(Default)]
pub struct Provider {
    tokens: TokenCache,
    connections: Mutex<HashMap<Tls, Arc<HttpTransport>>>,
}

impl Provider {
    /// Reads the region `name` and its Secret, for one call, to use them for `purpose`.
    ///
    /// # Errors
    /// A region or Secret that is missing, or may not be used (the table of the room `dependency`), is waited for; a missing
    /// key is named. What is waited for is noticed when it comes (W-5).
    pub async fn region(
        &self,
        kubernetes: &kube::Client,
        (namespace, name): (&str, &str),
        purpose: Purpose,
        call: CallTag,
        wrap: &Wrap<'_>,
    ) -> Result<Region, Problem> {
        let regions: Api<crd::Region> = Api::namespaced(kubernetes.clone(), namespace);
        let found = regions.get_opt(name).await.map_err(|error| unreadable("region", &error))?;
        let region = purpose.region(name, found)?;
        let (config, secret) = read(kubernetes, &region).await?;
        purpose.secret(name, &secret.secret, &secret.at)?;
        self.opened(&region, config, &secret, call, wrap)
    }

    /// A region that has just been read, in whatever state it is, to look at its cloud and make nothing there.
    ///
    /// # Errors
    /// A missing Secret or key is named.
    pub async fn open(
        &self,
        kubernetes: &kube::Client,
        region: &crd::Region,
        call: CallTag,
        wrap: &Wrap<'_>,
    ) -> Result<Region, Problem> {
        let (config, secret) = read(kubernetes, region).await?;
        self.opened(region, config, &secret, call, wrap)
    }

    fn opened(
        &self,
        region: &crd::Region,
        config: crd::OpenstackRegion,
        secret: &Values,
        call: CallTag,
        wrap: &Wrap<'_>,
    ) -> Result<Region, Problem> {
        let tls = Tls {
            ca_bundle: secret.text(CA)?.map(String::into_bytes),
            insecure: secret.text(INSECURE)?.as_deref() == Some("true"),
        };
        Ok(Region {
            name: region.metadata.name.clone().unwrap_or_default(),
            domain: DomainId::from(secret.required(DOMAIN)?),
            project: ProjectId::from(secret.required(PROJECT)?),
            user: UserId::from(secret.required(USER)?),
            password: Secret::new(secret.required(PASSWORD)?),
            transport: wrap(self.connection(tls)?),
            tokens: self.tokens.clone(),
            config,
            call,
        })
    }

    fn connection(&self, tls: Tls) -> Result<Arc<HttpTransport>, Problem> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = connections.get(&tls) {
            return Ok(transport.clone());
        }
        let transport = HttpTransport::new(&tls).map_err(|error| {
            Problem::waiting(
                Reason::Errored,
                format!("{CA} in the region's Secret is not a usable PEM bundle; mend it"),
            )
            .with_detail(error.to_string())
        })?;
        let transport = Arc::new(transport);
        // Bundles come and go with edits of Secrets; what is no longer used must not pile up.
        connections.retain(|_, other| Arc::strong_count(other) > 1);
        connections.insert(tls, transport.clone());
        Ok(transport)
    }
}

/// A region's configuration and its Secret.
async fn read(kubernetes: &kube::Client, region: &crd::Region) -> Result<(crd::OpenstackRegion, Values), Problem> {
    let Some(config) = region.spec.openstack.clone() else {
        return Err(Problem::user_action("the region is not an OpenStack region, and no other provider is served"));
    };
    let named = &config.service_account_secret;
    let at = format!("{}/{}", named.namespace, named.name);
    let secrets: Api<KubernetesSecret> = Api::namespaced(kubernetes.clone(), &named.namespace);
    let found = secrets.get_opt(&named.name).await.map_err(|error| unreadable("region's Secret", &error))?;
    let secret = found.ok_or_else(|| {
        Problem::waiting(Reason::Errored, format!("the region's Secret {at} does not exist; create it"))
    })?;
    Ok((config, Values { at, secret }))
}

/// The Secret of a region, whose values come from outside.
struct Values {
    at: String,
    secret: KubernetesSecret,
}

impl Values {
    fn text(&self, key: &str) -> Result<Option<String>, Problem> {
        let Some(value) = self.secret.data.as_ref().and_then(|data| data.get(key)) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&value.0).ok().filter(|text| text.len() <= LONGEST_VALUE);
        let text = text.ok_or_else(|| self.problem(&format!("{key} is no text of a reasonable length")))?.trim();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    fn required(&self, key: &str) -> Result<String, Problem> {
        self.text(key)?.ok_or_else(|| self.problem(&format!("the key {key} is missing or empty")))
    }

    fn problem(&self, what: &str) -> Problem {
        Problem::waiting(Reason::Errored, format!("the region's Secret {}: {what}; mend the Secret", self.at))
    }
}

/// One region, open for one call.
pub struct Region {
    /// The name of the Region object.
    pub name: String,
    /// Its configuration.
    pub config: crd::OpenstackRegion,
    /// The Keystone domain that the region's credential manages.
    pub domain: DomainId,
    /// The region's own project.
    pub project: ProjectId,
    /// The region's user.
    pub user: UserId,
    password: Secret,
    transport: Arc<dyn Transport>,
    tokens: TokenCache,
    call: CallTag,
}

impl Region {
    /// The same region for a check of it: with tokens that nobody has used before, since a kept one tells of the roles of
    /// the day it was made, and with a deadline for each answer.
    #[must_use]
    pub fn for_a_check(mut self, deadline: Duration) -> Self {
        self.tokens = TokenCache::default();
        self.call = self.call.with_deadline(deadline);
        self
    }

    /// The region's credential on its domain: for users, projects and roles.
    pub fn manager(&self) -> Session {
        self.own(Scope::Domain(self.domain.clone()))
    }

    /// The region's credential in its own project: for what the cloud offers to everybody (flavors, external networks).
    pub fn inventory(&self) -> Session {
        self.own(Scope::Project(self.project.clone()))
    }

    /// The region's credential in an identity's project: for provider networks, quotas and pinned servers.
    pub fn manager_in_project(&self, project: &ProjectId) -> Session {
        self.own(Scope::Project(project.clone()))
    }

    /// An identity's own credential: for almost everything.
    pub fn identity(&self, record: &Record) -> Result<Session, Problem> {
        let (credential, scope) = record.credential().ok_or_else(|| {
            Problem::waiting(Reason::DependencyNotReady, "the identity has no credential in the cloud yet")
        })?;
        Ok(self.session(credential, scope))
    }

    /// A user of the region by its password, in a project: for what only the user itself may do (IDN-1).
    pub fn user_in_project(&self, user_id: UserId, password: Secret, project: &ProjectId) -> Session {
        self.session(Credential::Password { user_id, password }, Scope::Project(project.clone()))
    }

    fn own(&self, scope: Scope) -> Session {
        self.session(Credential::Password { user_id: self.user.clone(), password: self.password.clone() }, scope)
    }

    fn session(&self, credential: Credential, scope: Scope) -> Session {
        let auth = Auth { endpoint: self.config.endpoint.clone(), credential, scope };
        Session::new(self.transport.clone(), self.tokens.clone(), auth, Interface::Public, self.call.clone())
    }
}

/// The roles of an identity's user when the region names none (IDN-4).
const ROLES: [&str; 2] = ["member", "load-balancer_member"];

/// Names of the roles that the identities of a region get (IDN-4): what is granted, and so what is checked for.
pub fn identity_roles(region: &crd::OpenstackRegion) -> Vec<String> {
    let configured = region.identity.as_ref().map(|identity| &identity.cluster_roles).filter(|roles| !roles.is_empty());
    configured.cloned().unwrap_or_else(|| ROLES.map(str::to_owned).to_vec())
}

fn unreadable(what: &str, error: &kube::Error) -> Problem {
    Problem::retry(format!("the {what} could not be read; trying again")).with_detail(error.to_string())
}
