//! A project with a user of its own, as an identity has it, made and unmade by the region's credential.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use weir_openstack::identity::{NewApplicationCredential, NewProject, NewUser};
use weir_openstack::network::{
    AllocationPool, FloatingIpFilter, Gateway, Network, NewNetwork, NewPort, NewRouter, NewSubnet, Port, PortFilter,
    Router, Subnet,
};
use weir_openstack::{Credential, OrAbsent, ProjectId, Scope, Secret, Session, UserId};

use crate::cloud::{Cloud, eventually, unique};

pub struct Tenant<'a> {
    pub cloud: &'a Cloud,
    pub project: ProjectId,
    pub user: UserId,
    pub password: Secret,
    /// The tenant's application credential.
    pub member: Session,
}

impl<'a> Tenant<'a> {
    async fn make(cloud: &'a Cloud) -> Self {
        let name = unique("tenant");
        let manager = cloud.manager();
        let identity = manager.identity();
        let domain = cloud.domain();
        let project = NewProject { name: &name, domain_id: &domain, description: "contract test", tags: &[] };
        let project = identity.create_project(&project).await.expect("a project").id;
        let role = async |name: &str| identity.find_role_by_name(name).await.expect("roles").expect(name).id;
        let region = cloud.region_user();
        identity.grant_project_role(&project, &region, &role("manager").await).await.expect("manager on the project");
        let password = Secret::new(uuid::Uuid::new_v4().to_string());
        let user = NewUser {
            name: &name,
            domain_id: &domain,
            password: &password,
            default_project_id: Some(&project),
            description: "contract test",
        };
        let user = identity.create_user(&user).await.expect("a user").id;
        for name in ["member", "load-balancer_member"] {
            identity.grant_project_role(&project, &user, &role(name).await).await.expect(name);
        }
        let session = cloud.password(&user, &password, Scope::Project(project.clone()));
        let roles = ["member".to_owned(), "load-balancer_member".to_owned()];
        let credential = NewApplicationCredential { name: &name, description: "contract test", roles: &roles };
        // Under load the real Keystone now and then takes this token for one without the user's roles, and refuses.
        let create = async || session.identity().create_application_credential(&user, &credential).await.ok();
        let credential = eventually("application credential", create).await;
        let secret = credential.secret.expect("a new credential's secret");
        let credential = Credential::ApplicationCredential { id: credential.id, secret };
        let member = cloud.session(credential, Scope::Own);
        Self { cloud, project, user, password, member }
    }

    /// The user with its password, in the project.
    pub fn by_password(&self) -> Session {
        self.cloud.password(&self.user, &self.password, Scope::Project(self.project.clone()))
    }

    /// The region's credential in the project.
    pub fn manager(&self) -> Session {
        self.cloud.manager_in(&self.project)
    }

    /// Another user with `role` on the project, by its password, in the project.
    pub async fn another(&self, role: &str) -> (UserId, Session) {
        let manager = self.cloud.manager();
        let identity = manager.identity();
        let (name, password) = (unique("user"), Secret::new(uuid::Uuid::new_v4().to_string()));
        let user = NewUser {
            name: &name,
            domain_id: &self.cloud.domain(),
            password: &password,
            default_project_id: None,
            description: "contract test",
        };
        let user = identity.create_user(&user).await.expect("a user").id;
        let role = identity.find_role_by_name(role).await.expect("roles").expect("the role").id;
        identity.grant_project_role(&self.project, &user, &role).await.expect("a grant");
        let session = self.cloud.password(&user, &password, Scope::Project(self.project.clone()));
        (user, session)
    }

    pub async fn network(&self, name: &str) -> Network {
        let network = NewNetwork { name, description: "", segments: &[] };
        self.member.network().create_network(&network).await.expect("a network")
    }

    pub async fn subnet(&self, network: &Network, cidr: &str) -> Subnet {
        let first_three = cidr.rsplit_once('.').expect("an IPv4 prefix").0;
        let at = |last: u8| format!("{first_three}.{last}").parse().expect("an address");
        let subnet = NewSubnet {
            name: &network.name,
            description: "",
            network_id: &network.id,
            ip_version: 4,
            cidr,
            gateway_ip: at(1),
            allocation_pools: &[AllocationPool { start: at(128), end: at(254) }],
            dns_nameservers: &[],
            host_routes: &[],
        };
        self.member.network().create_subnet(&subnet).await.expect("a subnet")
    }

    pub async fn router(&self, name: &str, gateway: bool) -> Router {
        let gateway = gateway.then(|| Gateway { network_id: self.cloud.external_network() });
        let router = NewRouter { name, description: "", gateway: gateway.as_ref() };
        self.member.network().create_router(&router).await.expect("a router")
    }

    pub async fn port(&self, name: &str, network: &Network) -> Port {
        let port = NewPort {
            name,
            description: "",
            network_id: &network.id,
            security_groups: None,
            allowed_address_pairs: &[],
        };
        self.member.network().create_port(&port).await.expect("a port")
    }

    /// Deletes all it holds, in the order that the services demand.
    async fn unmake(&self) -> weir_openstack::Result<()> {
        let compute = self.member.compute();
        for server in compute.servers().await? {
            compute.delete_server(&server.id).await.or_absent()?;
        }
        eventually("end of the servers", async || compute.servers().await.ok()?.is_empty().then_some(())).await;
        for group in compute.server_groups().await? {
            compute.delete_server_group(&group.id).await.or_absent()?;
        }
        let network = self.member.network();
        for ip in network.floating_ips(&FloatingIpFilter::default()).await? {
            network.delete_floating_ip(&ip.id).await.or_absent()?;
        }
        for router in network.routers().await? {
            let filter = PortFilter { device_id: Some(router.id.as_str()), ..PortFilter::default() };
            for ip in network.ports(&filter).await?.into_iter().flat_map(|port| port.fixed_ips) {
                network.remove_router_interface(&router.id, &ip.subnet_id).await.or_absent()?;
            }
            network.delete_router(&router.id).await.or_absent()?;
        }
        for port in network.ports(&PortFilter::default()).await? {
            network.delete_port(&port.id).await.or_absent()?;
        }
        for net in network.networks().await? {
            network.delete_network(&net.id).await.or_absent()?;
        }
        for group in network.security_groups().await? {
            if group.name != "default" {
                network.delete_security_group(&group.id).await.or_absent()?;
            }
        }
        // The default group, which Neutron made with the first thing in the project, goes with an administrator only.
        self.unmake_identity().await
    }

    async fn unmake_identity(&self) -> weir_openstack::Result<()> {
        let manager = self.cloud.manager();
        manager.identity().delete_user(&self.user).await?;
        manager.identity().delete_project(&self.project).await
    }
}

/// Runs `test` with a tenant, which is gone afterwards whatever happened.
pub async fn with_tenant(cloud: &Cloud, test: impl AsyncFn(&Tenant<'_>)) {
    let tenant = Tenant::make(cloud).await;
    let result = AssertUnwindSafe(test(&tenant)).catch_unwind().await;
    let unmade = AssertUnwindSafe(tenant.unmake()).catch_unwind().await;
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    match unmade {
        Ok(done) => done.map_err(|error| format!("{error}: {}", error.detail())).expect("the tenant is unmade"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The error of what must fail, with what the cloud said in case it does not fail as it should.
#[track_caller]
pub fn refused<T>(result: weir_openstack::Result<T>, class: weir_openstack::Class) -> weir_openstack::Error {
    match result {
        Ok(_) => panic!("this should have been refused: {class}"),
        Err(error) => {
            assert_eq!(error.class(), class, "{error}: {}", error.detail());
            error
        }
    }
}
