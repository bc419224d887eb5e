//! Keystone.

use std::time::Duration;

use serde_json::{Value, json};
use weir_openstack_sim::Config;

use crate::client::{Cloud, id, password_body};

#[tokio::test]
async fn a_token_names_its_scope_its_roles_and_every_service_by_three_interfaces() {
    let cloud = Cloud::start().await;
    let credential = cloud.sim.bootstrap().credential;
    let answer =
        cloud.login(&credential.user_id, &credential.password, json!({"project": {"id": credential.project_id}})).await;
    assert_eq!(answer.status, 201);
    let token = &answer.json["token"];
    assert_eq!(token["project"]["id"], credential.project_id.as_str());
    let mut roles: Vec<&str> = token["roles"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
    roles.sort_unstable();
    assert_eq!(roles, ["manager", "member", "reader", "weir_region"]);
    for service in ["identity", "compute", "network", "image", "block-storage"] {
        let entry = token["catalog"].as_array().unwrap().iter().find(|entry| entry["type"] == service).unwrap();
        let mut interfaces: Vec<&str> =
            entry["endpoints"].as_array().unwrap().iter().filter_map(|e| e["interface"].as_str()).collect();
        interfaces.sort_unstable();
        assert_eq!(interfaces, ["admin", "internal", "public"], "{service}");
    }
    let domain =
        cloud.login(&credential.user_id, &credential.password, json!({"domain": {"id": credential.domain_id}}));
    let catalog = domain.await.json["token"]["catalog"].clone();
    assert!(!catalog.to_string().contains("block-storage"), "an endpoint with a project in it needs a project");
    let unscoped = cloud.login(&credential.user_id, &credential.password, Value::Null).await;
    assert_eq!((unscoped.status, &unscoped.json["token"]["catalog"]), (201, &Value::Null));
}

#[tokio::test]
async fn who_cannot_be_told_from_a_stranger_gets_the_same_401() {
    let cloud = Cloud::start().await;
    let credential = cloud.sim.bootstrap().credential;
    let other = cloud.sim.bootstrap().admin.project_id;
    let user = |name: &str, password: &str| json!({"name": name, "domain": {"name": "weir"}, "password": password});
    let right = cloud.auth(&password_body(&user("weir", &credential.password), &Value::Null)).await;
    assert_eq!(right.status, 201);
    for (what, body) in [
        ("a wrong password", password_body(&user("weir", "wrong"), &Value::Null)),
        ("an unknown user", password_body(&user("nobody", "wrong"), &Value::Null)),
        (
            "a project without a role",
            password_body(&user("weir", &credential.password), &json!({"project": {"id": other}})),
        ),
        ("an unknown project", password_body(&user("weir", &credential.password), &json!({"project": {"id": "feed"}}))),
    ] {
        let answer = cloud.auth(&body).await;
        assert_eq!(answer.status, 401, "{what}");
        assert_eq!(
            answer.json,
            json!({"error": {
                "code": 401,
                "message": "The request you have made requires authentication.",
                "title": "Unauthorized",
            }}),
            "{what}"
        );
        assert!(answer.headers.contains_key("www-authenticate"), "{what}");
    }
}

#[tokio::test]
async fn a_token_ends_with_its_time_with_itself_and_with_what_it_stands_on() {
    let cloud = Cloud::with(Config { token_life: Duration::from_secs(60), ..Config::default() }).await;
    let tenant = cloud.tenant("one").await;
    let path = "/network/v2.0/ports";
    tenant.member.get(path).await.expect(200);
    cloud.sim.advance(Duration::from_secs(61));
    let gone = tenant.member.get(path).await;
    assert_eq!(gone.status, 401);
    assert_eq!(gone.json["error"]["code"], 401);

    let region = cloud.region().await;
    let again = || cloud.caller(&tenant.user, "pass word", json!({"project": {"id": tenant.project}}));
    let token = again().await;
    let revoke = [("x-subject-token", token.token.as_str())];
    token.send("DELETE", "/identity/v3/auth/tokens", None, &revoke).await.expect(204);
    token.get(path).await.expect(401);

    let token = again().await;
    let patch = json!({"user": {"password": "another"}});
    region.send("PATCH", &format!("/identity/v3/users/{}", tenant.user), Some(&patch), &[]).await.expect(200);
    token.get(path).await.expect(401);

    let token = cloud.caller(&tenant.user, "another", json!({"project": {"id": tenant.project}})).await;
    region.delete(&format!("/identity/v3/projects/{}", tenant.project)).await.expect(204);
    token.get(path).await.expect(401);
}

#[tokio::test]
async fn an_application_credential_is_made_by_its_user_only_shows_its_secret_once_and_dies_with_the_user() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let path = format!("/identity/v3/users/{}/application_credentials", tenant.user);
    let body = json!({"application_credential": {"name": "ac", "roles": [{"name": "member"}]}});
    cloud.region().await.post(&path, body.clone()).await.expect(403);
    cloud.admin().await.post(&path, body.clone()).await.expect(403);
    let made = tenant.member.post(&path, body.clone()).await.expect(201)["application_credential"].clone();
    let again = tenant.member.post(&path, body).await;
    assert_eq!((again.status, &again.json["error"]["title"]), (409, &json!("Conflict")));
    let not_held = json!({"application_credential": {"name": "x", "roles": [{"name": "manager"}]}});
    let refused = tenant.member.post(&path, not_held).await.expect(400);
    assert!(refused["error"]["message"].as_str().unwrap().starts_with("Invalid application credential"));
    let listed = tenant.member.get(&path).await.expect(200);
    assert_eq!(listed["application_credentials"][0]["name"], "ac");
    assert!(listed["application_credentials"][0].get("secret").is_none());

    let login = |secret: &Value| {
        json!({"auth": {"identity": {
            "methods": ["application_credential"],
            "application_credential": {"id": made["id"], "secret": secret},
        }}})
    };
    let answer = cloud.auth(&login(&made["secret"])).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    assert_eq!(answer.json["token"]["project"]["id"], tenant.project.as_str());
    assert!(
        !answer.json["token"]["roles"].to_string().contains("load-balancer_member"),
        "only the roles it was made with"
    );
    assert_eq!(cloud.auth(&login(&json!("wrong"))).await.status, 401);
    let mut scoped = login(&made["secret"]);
    scoped["auth"]["scope"] = json!({"project": {"id": tenant.project}});
    assert_eq!(cloud.auth(&scoped).await.status, 401);

    let mut by_it = tenant.member.clone();
    by_it.token = answer.headers["x-subject-token"].to_str().unwrap().to_owned();
    by_it.get("/network/v2.0/ports").await.expect(200);
    by_it.post(&path, json!({"application_credential": {"name": "y"}})).await.expect(403);
    cloud.region().await.delete(&format!("/identity/v3/users/{}", tenant.user)).await.expect(204);
    by_it.get("/network/v2.0/ports").await.expect(401);
    by_it.get("/identity/v3/auth/projects").await.expect(404);
    assert_eq!(cloud.auth(&login(&made["secret"])).await.status, 401);
    assert_eq!(cloud.sim.counts()["application_credentials"], 0);
}

#[tokio::test]
async fn a_domains_manager_rules_in_its_domain_and_nowhere_else() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let region = cloud.region().await;
    let admin = cloud.sim.bootstrap().admin;
    let forbidden = [
        ("POST", "/identity/v3/projects".to_owned(), json!({"project": {"name": "x", "domain_id": "default"}})),
        ("POST", "/identity/v3/users".to_owned(), json!({"user": {"name": "x", "domain_id": "default"}})),
        ("GET", format!("/identity/v3/projects/{}", admin.project_id), Value::Null),
        ("DELETE", format!("/identity/v3/users/{}", admin.user_id), Value::Null),
        // A domain's manager has to name its domain.
        ("POST", "/identity/v3/projects".to_owned(), json!({"project": {"name": "x"}})),
        ("POST", "/identity/v3/users".to_owned(), json!({"user": {"name": "x"}})),
        ("POST", "/identity/v3/roles".to_owned(), json!({"role": {"name": "x"}})),
        // With no target to look at, the policy says no before anybody says "not found".
        ("DELETE", "/identity/v3/users/feed".to_owned(), Value::Null),
        ("GET", "/identity/v3/projects/feed".to_owned(), Value::Null),
    ];
    for (method, path, body) in &forbidden {
        let answer = region.send(method, path, Some(body), &[]).await;
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text);
        assert_eq!(answer.json["error"]["title"], "Forbidden");
    }
    for (role, status) in [
        ("manager", 204),
        ("member", 204),
        ("reader", 204),
        ("load-balancer_member", 204),
        ("admin", 403),
        ("service", 403),
    ] {
        assert_eq!(cloud.grant(&region, &tenant.project, &tenant.user, role).await.status, status, "{role}");
    }
    let listed = region.get("/identity/v3/projects").await.expect(200);
    assert!(!listed.to_string().contains(&admin.project_id), "lists end at the domain's border");
    tenant.member.get("/identity/v3/users").await.expect(403);
    tenant.member.post("/identity/v3/projects", json!({"project": {"name": "x"}})).await.expect(403);
}

#[tokio::test]
async fn without_the_products_policy_a_manager_is_only_what_openstack_makes_of_it() {
    let cloud = Cloud::with(Config { product_policy: false, ..Config::default() }).await;
    let region = cloud.region().await;
    let project = id(
        &region
            .post(
                "/identity/v3/projects",
                json!({"project": {"name": "p", "domain_id": cloud.sim.bootstrap().credential.domain_id}}),
            )
            .await
            .expect(201),
        "project",
    );
    cloud.grant(&region, &project, &region.user, "manager").await.expect(204);
    cloud.grant(&region, &project, &region.user, "load-balancer_member").await.expect(403);
    let manager = cloud.manager_of(&project).await;
    let quota = json!({"quota_set": {"instances": -1}});
    manager.put(&format!("/compute/v2.1/os-quota-sets/{project}"), quota.clone()).await.expect(403);
    manager.put(&format!("/network/v2.0/quotas/{project}"), json!({"quota": {"port": -1}})).await.expect(403);
    manager.put(&format!("/volume/v3/{project}/os-quota-sets/{project}"), quota).await.expect(403);
    let network =
        json!({"network": {"name": "n", "provider:network_type": "vlan", "provider:physical_network": "physnet1"}});
    manager.post("/network/v2.0/networks", network).await.expect(403);
}

#[tokio::test]
async fn names_are_unique_in_a_domain_whatever_their_case_and_tags_select() {
    let cloud = Cloud::start().await;
    let region = cloud.region().await;
    let domain = cloud.sim.bootstrap().credential.domain_id;
    let project = json!({"project": {"name": "One", "domain_id": domain, "tags": ["organization=o", "project=p"]}});
    let first = id(&region.post("/identity/v3/projects", project).await.expect(201), "project");
    region.post("/identity/v3/projects", json!({"project": {"name": "one", "domain_id": domain}})).await.expect(409);
    region
        .post(
            "/identity/v3/projects",
            json!({"project": {"name": "two", "domain_id": domain, "tags": ["organization=o"]}}),
        )
        .await
        .expect(201);
    region.post("/identity/v3/users", json!({"user": {"name": "u", "domain_id": domain}})).await.expect(201);
    let refused =
        region.post("/identity/v3/users", json!({"user": {"name": "U", "domain_id": domain}})).await.expect(409);
    assert_eq!(
        refused["error"]["message"],
        format!(
            "Conflict occurred attempting to store user - Duplicate entry found with name U at domain ID {}.",
            cloud.sim.bootstrap().credential.domain_id
        )
    );
    for (query, wanted) in [
        ("name=one", vec!["One"]),
        ("name=on", vec![]),
        ("name__contains=N", vec!["One"]),
        ("tags=organization%3Do,project%3Dp", vec!["One"]),
        ("tags=organization%3Do", vec!["One", "two"]),
        ("nosuch=1&name=two", vec!["two"]),
    ] {
        assert_eq!(region.names(&format!("/identity/v3/projects?{query}")).await, wanted, "{query}");
    }
    let role = cloud.role("member").await;
    let grant = format!("/identity/v3/projects/{first}/users/{}/roles/{role}", region.user);
    region.send("HEAD", &grant, None, &[]).await.expect(404);
    region.send("PUT", &grant, None, &[]).await.expect(204);
    region.send("HEAD", &grant, None, &[]).await.expect(204);
    let listed =
        region.get(&format!("/identity/v3/role_assignments?scope.project.id={first}&include_names")).await.expect(200);
    assert_eq!(listed["role_assignments"][0]["role"]["name"], "member");
    region.delete(&grant).await.expect(204);
    region.delete(&grant).await.expect(404);
}

#[tokio::test]
async fn lists_page_by_limit_and_marker_and_lead_on_by_links() {
    let cloud = Cloud::start().await;
    let region = cloud.region().await;
    let domain = cloud.sim.bootstrap().credential.domain_id;
    for n in 0..5 {
        region
            .post("/identity/v3/users", json!({"user": {"name": format!("u{n}"), "domain_id": domain}}))
            .await
            .expect(201);
    }
    let mut path = "/identity/v3/users?limit=2".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = region.get(&path).await.expect(200);
        let rows = page["users"].as_array().unwrap();
        assert!(rows.len() <= 2);
        seen.extend(rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()));
        match page["links"]["next"].as_str() {
            Some(next) => next.clone_into(&mut path),
            None => break,
        }
    }
    assert_eq!(seen, ["weir", "u0", "u1", "u2", "u3", "u4"]);
}

#[tokio::test]
async fn bad_bodies_and_unknown_routes_are_refused_in_keystones_words() {
    let cloud = Cloud::start().await;
    let region = cloud.region().await;
    let headers = [("x-auth-token", region.token.as_str()), ("content-type", "application/json")];
    let bad = cloud.http.raw("POST", "/identity/v3/users", &headers, b"{bad".to_vec()).await.unwrap();
    assert_eq!(bad.status, 400);
    assert!(bad.json["error"]["message"].as_str().unwrap().starts_with("Expecting to find valid JSON"));
    let missing = region.post("/identity/v3/users", json!({"user": {"password": "hush"}})).await.expect(400);
    assert!(!missing.to_string().contains("hush"), "an error shows no password");
    let unknown = region.get("/identity/v3/nosuch").await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    let large = cloud.http.raw("POST", "/identity/v3/users", &headers, vec![b'x'; 200_000]).await.unwrap();
    assert_eq!((large.status, &large.json["code"]), (413, &json!("413 Request Entity Too Large")));
    assert_eq!(cloud.http.raw("GET", "/identity", &[], Vec::new()).await.unwrap().status, 300);
}
