//! Carries out one step about an identity. What a step makes is written into the record before the next one.

use crate::decide::{Desired, Step};
use crate::observe::{Observed, user_session};
use crate::{quota, record, secrets};
use kube::ResourceExt;
use serde_json::json;
use weir_api::crd::{Base64, OpenstackIdentity};
use weir_api::{Problem, names};
use weir_function_runtime::Scope;
use weir_openstack::identity::{NewApplicationCredential, NewProject, NewUser, Project, User};
use weir_openstack::{OrAbsent, Secret, Service, Session, UserId};
use weir_provider::{During, Region};

/// Says in the cloud who made a thing.
const DESCRIPTION: &str = "managed by Weir: change the Identity in Kubernetes instead";
/// The predecessor's words, by which its operators search.
const CREDENTIAL: &str = "IaaS lifecycle management";

/// What a step works on.
pub struct Work<'a> {
    /// The call.
    pub scope: &'a Scope,
    /// The region.
    pub region: &'a Region,
    /// What is wanted.
    pub desired: &'a Desired,
    /// What is written down.
    pub record: OpenstackIdentity,
    /// What is there.
    pub observed: Observed,
}

impl Work<'_> {
    /// Takes one step, and brings record and observation up to date with its answer.
    pub async fn act(&mut self, step: Step) -> Result<(), Problem> {
        let name = names::identity(&self.record.name_any());
        match step {
            Step::CreateProject => {
                let new = NewProject {
                    name: &name,
                    domain_id: &self.region.domain,
                    description: DESCRIPTION,
                    tags: &self.desired.tags,
                };
                let made =
                    self.region.manager().identity().create_project(&new).await.during("creating the project")?;
                let id = made.id.clone();
                self.observed.project = Some(Some(made));
                self.save(json!({ "projectID": id })).await?;
            }
            Step::RecordProject => {
                let id = self.project()?.id.clone();
                self.save(json!({ "projectID": id })).await?;
            }
            Step::Manage(role) => {
                let (manager, project) = (self.region.manager(), self.project()?.id.clone());
                let granted = manager.identity().grant_project_role(&project, &self.region.user, &role).await;
                granted.during("taking the manager role on the project")?;
                self.observed.managed = Some(true);
            }
            Step::LiftQuotas(service) => self.lift(service).await?,
            Step::CreateUser => {
                let password = Secret::new(secrets::password()?);
                let new = NewUser {
                    name: &name,
                    domain_id: &self.region.domain,
                    password: &password,
                    default_project_id: Some(&self.project()?.id),
                    description: DESCRIPTION,
                };
                let made = self.region.manager().identity().create_user(&new).await.during("creating the user")?;
                let id = made.id.clone();
                self.observed.user = Some(Some(made));
                self.save(json!({"userID": id, "password": password.reveal()})).await?;
            }
            Step::SetPassword => self.set_password().await?,
            Step::Grant(name, role) => {
                let (project, user) = (self.project()?.id.clone(), self.user()?.id.clone());
                let granted = self.region.manager().identity().grant_project_role(&project, &user, &role).await;
                granted.during("granting the identity's roles")?;
                self.observed.granted.get_or_insert_default().insert(name);
            }
            Step::DeleteCredential(id) => {
                let (session, user) = self.own()?;
                let deleted = session.identity().delete_application_credential(&user, &id).await.or_absent();
                deleted.during("deleting an application credential whose secret is lost")?;
                self.observed.credential = Some(None);
            }
            Step::CreateCredential => {
                let (session, user) = self.own()?;
                let new = NewApplicationCredential { name: &name, description: CREDENTIAL, roles: &self.desired.roles };
                let made = session.identity().create_application_credential(&user, &new).await;
                let made = made.during("creating the application credential")?;
                let (id, secret) = (made.id.clone(), made.secret.clone());
                self.observed.credential = Some(Some(made));
                // Without a secret in the answer it is of no use: the next look finds it unrecorded, and makes another.
                let secret = secret.ok_or_else(Problem::reread)?;
                let fields = json!({"applicationCredentialID": id, "applicationCredentialSecret": secret.reveal()});
                self.save(fields).await?;
            }
            Step::WriteClouds => {
                let clouds = clouds(self.desired, &self.record)?.ok_or_else(Problem::reread)?;
                self.save(json!({"cloud": names::CLOUD, "cloudConfig": Base64::from(clouds.into_bytes())})).await?;
            }
            Step::CreateGroup => {
                let made = self.own()?.0.compute().create_server_group(&name, &self.desired.group_policy).await;
                let made = made.during("creating the server group")?;
                let id = made.id.clone();
                self.observed.group = Some(Some(made));
                self.save(json!({ "serverGroupID": id })).await?;
            }
            Step::RecordGroup => {
                let id = self.observed.group.as_ref().and_then(Option::as_ref).ok_or_else(Problem::reread)?.id.clone();
                self.save(json!({ "serverGroupID": id })).await?;
            }
            Step::MakeKey => self.make_key().await?,
            Step::DeleteKey => {
                let deleted = self.own()?.0.compute().delete_keypair(names::KEY_PAIR).await.or_absent();
                deleted.during("deleting a key pair whose private half is lost")?;
                self.observed.key = Some(None);
            }
            Step::UploadKey => {
                let public = public_key(&self.record)?.ok_or_else(Problem::reread)?;
                let made = self.own()?.0.compute().create_keypair(names::KEY_PAIR, &public).await;
                let made = made.during("uploading the key pair")?;
                self.observed.key = Some(Some(made));
            }
            Step::Done => {}
        }
        Ok(())
    }

    async fn set_password(&mut self) -> Result<(), Problem> {
        let user = self.user()?.id.clone();
        let recorded = self.record.spec.user_id.as_deref() == Some(user.as_str());
        let known =
            self.record.spec.password.as_ref().map(|p| p.expose().clone()).filter(|p| recorded && !p.is_empty());
        // A password that is recorded is set again as it is: whoever holds it goes on.
        let password = known.map_or_else(secrets::password, Ok)?;
        let set = self.region.manager().identity().set_password(&user, &Secret::new(password.as_str())).await;
        set.during("giving the identity's user a password")?;
        self.observed.refused = false;
        self.observed.credential = None;
        self.save(json!({"userID": user, "password": password})).await
    }

    /// A key that is recorded already keeps being used; only its name may be missing.
    async fn make_key(&mut self) -> Result<(), Problem> {
        let mut fields = json!({ "sshKeyName": names::KEY_PAIR });
        if public_key(&self.record)?.is_none() {
            fields["sshPrivateKey"] = json!(Base64::from(secrets::private_key()?.into_bytes()));
        }
        self.save(fields).await
    }

    async fn lift(&mut self, service: Service) -> Result<(), Problem> {
        let project = self.project()?.id.clone();
        let session = self.region.manager_in_project(&project);
        match service {
            Service::Compute => {
                let client = session.compute();
                let read = client.quotas(&project).await.during("reading the compute quotas")?;
                client.set_quotas(&project, &quota::compute(&read)).await.during("lifting the compute quotas")?;
            }
            Service::Network => {
                let client = session.network();
                let read = client.quotas(&project).await.during("reading the network quotas")?;
                client.set_quotas(&project, &quota::network(&read)).await.during("lifting the network quotas")?;
            }
            _ => {
                let client = session.block_storage();
                let read = client.quotas(&project).await.during("reading the volume quotas")?;
                client.set_quotas(&project, &quota::block_storage(&read)).await.during("lifting the volume quotas")?;
            }
        }
        self.observed.limited.get_or_insert_default().retain(|other| *other != service);
        Ok(())
    }

    async fn save(&mut self, fields: serde_json::Value) -> Result<(), Problem> {
        self.record = record::save(self.scope, &self.record, fields).await?;
        Ok(())
    }

    fn project(&self) -> Result<&Project, Problem> {
        self.observed.project.as_ref().and_then(Option::as_ref).ok_or_else(Problem::reread)
    }

    fn user(&self) -> Result<&User, Problem> {
        self.observed.user.as_ref().and_then(Option::as_ref).ok_or_else(Problem::reread)
    }

    fn own(&self) -> Result<(Session, UserId), Problem> {
        user_session(self.region, &self.record, &self.observed).ok_or_else(Problem::reread)
    }
}

/// What `clouds.yaml` has to hold, once there is an application credential.
pub fn clouds(desired: &Desired, record: &OpenstackIdentity) -> Result<Option<String>, Problem> {
    let spec = &record.spec;
    match (&spec.application_credential_id, &spec.application_credential_secret) {
        (Some(id), Some(secret)) => secrets::clouds_yaml(&desired.endpoint, id, secret.expose()).map(Some),
        _ => Ok(None),
    }
}

/// The public half of the recorded key, once there is one.
pub fn public_key(record: &OpenstackIdentity) -> Result<Option<String>, Problem> {
    let private = record.spec.ssh_private_key.as_ref().map(|key| key.expose().as_bytes()).filter(|pem| !pem.is_empty());
    private.map(secrets::public_key).transpose()
}
