//! Keystone.

use weir_openstack::identity::{NewApplicationCredential, NewProject, NewUser};
use weir_openstack::{Class, Credential, Scope, Secret, Service};

use crate::cloud::{on_each_cloud, unique};
use crate::tenant::{refused, with_tenant};

/// Proves: IDN-1, OSC-5
#[tokio::test]
async fn a_project_is_made_found_by_its_exact_name_and_deleted() {
    on_each_cloud(async |cloud| {
        let (manager, domain) = (cloud.manager(), cloud.domain());
        let identity = manager.identity();
        let name = unique("project");
        let tags = ["organization=o1".to_owned(), "project=p1".to_owned()];
        let new = |name| NewProject { name, domain_id: &domain, description: "d", tags: &tags };
        let longer = format!("{name}-2");
        let project = identity.create_project(&new(&name)).await.unwrap();
        let other = identity.create_project(&new(&longer)).await.unwrap();
        refused(identity.create_project(&new(&name)).await, Class::Conflict);

        let found = identity.find_project_by_name(&domain, &name).await.unwrap().unwrap();
        assert_eq!(found.id, project.id);
        assert!(found.enabled);
        assert_eq!(found.tags, tags);
        for near in [&name[..name.len() - 1], &name.to_uppercase(), &format!("{name}.")] {
            assert!(identity.find_project_by_name(&domain, near).await.unwrap().is_none(), "{near}");
        }
        identity.set_project_tags(&project.id, &["a".to_owned()]).await.unwrap();
        assert_eq!(identity.project(&project.id).await.unwrap().tags, ["a"]);

        for id in [&project.id, &other.id] {
            identity.delete_project(id).await.unwrap();
            // Not 404: the policy asks for the domain of what is not there.
            refused(identity.delete_project(id).await, Class::Forbidden);
            refused(identity.project(id).await, Class::Forbidden);
        }
        assert!(identity.find_project_by_name(&domain, &name).await.unwrap().is_none());
    })
    .await;
}

/// Proves: IDN-3
#[tokio::test]
async fn a_user_whose_password_was_lost_is_found_and_given_a_new_one() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let (manager, domain) = (cloud.manager(), cloud.domain());
            let identity = manager.identity();
            let name = unique("user");
            let (old, new) = (Secret::new("old-password-1"), Secret::new("new-password-2"));
            let user = NewUser {
                name: &name,
                domain_id: &domain,
                password: &old,
                default_project_id: None,
                description: "contract test",
            };
            let made = identity.create_user(&user).await.unwrap();
            refused(identity.create_user(&user).await, Class::Conflict);
            let found = identity.find_user_by_name(&domain, &name).await.unwrap().unwrap();
            assert_eq!(found.id, made.id);
            assert!(identity.find_user_by_name(&domain, &name[1..]).await.unwrap().is_none());
            assert_eq!(identity.user(&made.id).await.unwrap().name, name);

            let member = identity.find_role_by_name("member").await.unwrap().unwrap();
            identity.grant_project_role(&tenant.project, &made.id, &member.id).await.unwrap();
            let scope = || Scope::Project(tenant.project.clone());
            identity.set_password(&made.id, &new).await.unwrap();
            refused(cloud.password(&made.id, &old, scope()).token_info().await, Class::Unauthorized);
            cloud.password(&made.id, &new, scope()).token_info().await.unwrap();

            identity.delete_user(&made.id).await.unwrap();
            refused(identity.delete_user(&made.id).await, Class::Forbidden);
            refused(identity.user(&made.id).await, Class::Forbidden);
            assert!(identity.find_user_by_name(&domain, &name).await.unwrap().is_none());
        })
        .await;
    })
    .await;
}

/// Proves: IDN-4
#[tokio::test]
async fn a_role_is_found_granted_twice_seen_and_taken_away() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let manager = cloud.manager();
            let identity = manager.identity();
            let names: Vec<String> = identity.roles().await.unwrap().into_iter().map(|role| role.name).collect();
            for name in ["manager", "member", "reader", "load-balancer_member"] {
                assert!(names.iter().any(|role| role == name), "{name} is not in {names:?}");
            }
            assert!(identity.find_role_by_name("no-such-role").await.unwrap().is_none());
            let reader = identity.find_role_by_name("reader").await.unwrap().unwrap().id;
            let (user, session) = tenant.another("member").await;
            let (project, user) = (&tenant.project, &user);
            assert!(!identity.has_project_role(project, user, &reader).await.unwrap());
            identity.grant_project_role(project, user, &reader).await.unwrap();
            identity.grant_project_role(project, user, &reader).await.unwrap();
            assert!(identity.has_project_role(project, user, &reader).await.unwrap());
            let mut roles: Vec<String> =
                identity.project_roles(project, user).await.unwrap().into_iter().map(|role| role.name).collect();
            roles.sort();
            assert_eq!(roles, ["member", "reader"]);
            let new = NewApplicationCredential { name: "c", description: "", roles: &["member".to_owned()] };
            session.identity().create_application_credential(user, &new).await.unwrap();
            identity.revoke_project_role(project, user, &reader).await.unwrap();
            assert!(!identity.has_project_role(project, user, &reader).await.unwrap());
            refused(identity.revoke_project_role(project, user, &reader).await, Class::NotFound);
            let left = session.identity().find_application_credential_by_name(user, "c").await.unwrap();
            assert!(left.is_some(), "an application credential outlives a role that it does not carry");
            refused(identity.grant_project_role(project, &"no-such-user".into(), &reader).await, Class::NotFound);
            identity.delete_user(user).await.unwrap();
        })
        .await;
    })
    .await;
}

/// Proves: IDN-1, IDN-3
#[tokio::test]
async fn an_application_credential_is_made_by_its_user_and_its_secret_is_told_once() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let session = tenant.by_password();
            let identity = session.identity();
            let name = unique("credential");
            let roles = ["member".to_owned()];
            let new = NewApplicationCredential { name: &name, description: "d", roles: &roles };
            let made = identity.create_application_credential(&tenant.user, &new).await.unwrap();
            assert_eq!(made.project_id.as_ref(), Some(&tenant.project));
            refused(identity.create_application_credential(&tenant.user, &new).await, Class::Conflict);
            let found = identity.find_application_credential_by_name(&tenant.user, &name).await.unwrap().unwrap();
            assert_eq!((&found.id, found.secret.is_none()), (&made.id, true));
            let nearly = &name[..name.len() - 1];
            assert!(identity.find_application_credential_by_name(&tenant.user, nearly).await.unwrap().is_none());

            let secret = made.secret.clone().unwrap();
            let credential = Credential::ApplicationCredential { id: made.id.clone(), secret };
            let info = cloud.session(credential.clone(), Scope::Own).token_info().await.unwrap();
            assert_eq!(info.project.as_ref().map(|project| &project.id), Some(&tenant.project));
            assert!(info.has_role("member") && !info.has_role("load-balancer_member") && !info.has_role("manager"));

            // It is restricted: it cannot make another, nor unmake itself.
            let restricted = cloud.session(credential.clone(), Scope::Own);
            let another = NewApplicationCredential { name: "x", description: "", roles: &[] };
            refused(
                restricted.identity().create_application_credential(&tenant.user, &another).await,
                Class::Forbidden,
            );
            // Nor can anybody make one for somebody else.
            let manager = cloud.manager();
            refused(manager.identity().create_application_credential(&tenant.user, &another).await, Class::Forbidden);
            // A role its user does not have cannot be put into it.
            let roles = ["manager".to_owned()];
            let more = NewApplicationCredential { name: "more", description: "", roles: &roles };
            assert!(identity.create_application_credential(&tenant.user, &more).await.is_err());

            identity.delete_application_credential(&tenant.user, &made.id).await.unwrap();
            refused(identity.delete_application_credential(&tenant.user, &made.id).await, Class::NotFound);
            refused(restricted.in_scope(Scope::Own).compute().servers().await.map(drop), Class::Unauthorized);
        })
        .await;
    })
    .await;
}

/// Proves: OSC-1, REG-1
#[tokio::test]
async fn a_token_says_whose_it_is_and_what_the_cloud_has() {
    on_each_cloud(async |cloud| {
        let manager = cloud.manager();
        let info = manager.token_info().await.unwrap();
        assert_eq!(info.domain.as_ref().map(|domain| &domain.id), Some(&cloud.domain()));
        assert!(info.project.is_none() && info.has_role("manager") && !info.has_role("admin"));
        assert_eq!(manager.user_id().await.unwrap(), cloud.region_user());
        let inventory = cloud.inventory();
        assert_eq!(inventory.project_id().await.unwrap(), Some(cloud.region_project()));
        for service in [Service::Identity, Service::Compute, Service::Network, Service::Image] {
            assert!(inventory.offers(service).await.unwrap(), "{service}");
        }
    })
    .await;
}

/// Proves: OSC-3, OSC-7
#[tokio::test]
async fn a_wrong_credential_or_scope_is_unauthorised() {
    on_each_cloud(async |cloud| {
        let scope = || Scope::Domain(cloud.domain());
        let region = cloud.region_user();
        let wrong = Secret::new("wrong-password");
        let error = refused(cloud.password(&region, &wrong, scope()).token_info().await, Class::Unauthorized);
        assert!(!format!("{error:?}").contains("wrong-password"));
        refused(cloud.password(&"nobody".into(), &wrong, scope()).token_info().await, Class::Unauthorized);
        refused(cloud.manager_in(&"no-such-project".into()).token_info().await, Class::Unauthorized);
        let credential = Credential::ApplicationCredential { id: "none".into(), secret: Secret::new("x") };
        refused(cloud.session(credential, Scope::Own).token_info().await, Class::Unauthorized);
    })
    .await;
}
