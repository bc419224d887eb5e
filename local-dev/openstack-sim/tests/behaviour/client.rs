//! A simulator with a small client and the things most tests begin with.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use weir_openstack_sim::{Config, Sim};

pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub text: String,
    pub json: Value,
}

impl Answer {
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json
    }
}

#[derive(Clone)]
pub struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
}

impl Http {
    pub fn new(base: &str) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), base: base.to_owned() }
    }

    pub async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer, hyper_util::client::legacy::Error> {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.base) };
        let mut request = http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.request(request.body(Full::from(body)).unwrap()).await?;
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let json = serde_json::from_str(&text).unwrap_or_default();
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, text, json })
    }
}

pub struct Cloud {
    pub sim: Sim,
    pub http: Http,
}

/// A token with what it is used for.
#[derive(Clone)]
pub struct Caller {
    pub http: Http,
    pub token: String,
    pub user: String,
}

impl Caller {
    pub async fn send(&self, method: &str, path: &str, body: Option<&Value>, more: &[(&str, &str)]) -> Answer {
        let mut headers = vec![("x-auth-token", self.token.as_str()), ("accept", "application/json")];
        if !more.iter().any(|(name, _)| *name == "content-type") {
            headers.push(("content-type", "application/json"));
        }
        headers.extend(more);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.http.raw(method, path, &headers, body).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, &[]).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, Some(&body), &[]).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send("PUT", path, Some(&body), &[]).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None, &[]).await
    }

    /// Nova at the version the product uses.
    pub async fn nova(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let path = format!("/compute/v2.1{path}");
        self.send(method, &path, body.as_ref(), &[("openstack-api-version", "compute 2.90")]).await
    }

    /// The names (or another field) of a list.
    pub async fn names(&self, path: &str) -> Vec<String> {
        let body = self.get(path).await.expect(200);
        let rows = body.as_object().unwrap().values().find_map(Value::as_array).unwrap().clone();
        rows.iter().map(|row| row["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// A project with its three callers.
pub struct Tenant {
    pub member: Caller,
    pub manager: Caller,
    pub project: String,
    pub user: String,
}

impl Cloud {
    pub async fn start() -> Self {
        Self::with(Config::default()).await
    }

    pub async fn with(config: Config) -> Self {
        let sim = Sim::start(config).await.unwrap();
        let http = Http::new(sim.url());
        Self { sim, http }
    }

    pub async fn auth(&self, body: &Value) -> Answer {
        let headers = [("content-type", "application/json"), ("accept", "application/json")];
        self.http.raw("POST", "/identity/v3/auth/tokens", &headers, body.to_string().into_bytes()).await.unwrap()
    }

    pub async fn login(&self, user: &str, password: &str, scope: Value) -> Answer {
        self.auth(&password_body(&json!({"id": user, "password": password}), &scope)).await
    }

    pub async fn caller(&self, user: &str, password: &str, scope: Value) -> Caller {
        let answer = self.login(user, password, scope).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let token = answer.headers["x-subject-token"].to_str().unwrap().to_owned();
        Caller { http: self.http.clone(), token, user: user.to_owned() }
    }

    /// The manager of the region's domain.
    pub async fn region(&self) -> Caller {
        let credential = self.sim.bootstrap().credential;
        self.caller(&credential.user_id, &credential.password, json!({"domain": {"id": credential.domain_id}})).await
    }

    pub async fn admin(&self) -> Caller {
        let credential = self.sim.bootstrap().admin;
        self.caller(&credential.user_id, &credential.password, json!({"project": {"id": credential.project_id}})).await
    }

    /// The region's credential in a project that it manages.
    pub async fn manager_of(&self, project: &str) -> Caller {
        let credential = self.sim.bootstrap().credential;
        self.caller(&credential.user_id, &credential.password, json!({"project": {"id": project}})).await
    }

    /// A project as an identity has it: a member of its own, and managed by the region.
    pub async fn tenant(&self, name: &str) -> Tenant {
        let region = self.region().await;
        let domain = self.sim.bootstrap().credential.domain_id;
        let body = json!({"project": {"name": name, "domain_id": domain}});
        let project = region.post("/identity/v3/projects", body).await.expect(201);
        let project = project["project"]["id"].as_str().unwrap().to_owned();
        let body = json!({"user": {"name": name, "domain_id": domain, "password": "pass word"}});
        let user = region.post("/identity/v3/users", body).await.expect(201);
        let user = user["user"]["id"].as_str().unwrap().to_owned();
        for (who, role) in [(&region.user, "manager"), (&user, "member"), (&user, "load-balancer_member")] {
            self.grant(&region, &project, who, role).await.expect(204);
        }
        Tenant {
            member: self.caller(&user, "pass word", json!({"project": {"id": project}})).await,
            manager: self.manager_of(&project).await,
            project,
            user,
        }
    }

    pub async fn role(&self, name: &str) -> String {
        let roles = self.region().await.get(&format!("/identity/v3/roles?name={name}")).await.expect(200);
        roles["roles"][0]["id"].as_str().unwrap().to_owned()
    }

    pub async fn grant(&self, by: &Caller, project: &str, user: &str, role: &str) -> Answer {
        let role = self.role(role).await;
        by.send("PUT", &format!("/identity/v3/projects/{project}/users/{user}/roles/{role}"), None, &[]).await
    }
}

pub fn password_body(user: &Value, scope: &Value) -> Value {
    let mut body = json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}});
    if !scope.is_null() {
        body["auth"]["scope"] = scope.clone();
    }
    body
}

pub fn id(body: &Value, key: &str) -> String {
    body[key]["id"].as_str().unwrap_or_else(|| panic!("no {key} in {body}")).to_owned()
}

/// A network with a subnet and a router to the outside.
pub struct Wired {
    pub network: String,
    pub subnet: String,
    pub router: String,
}

pub async fn wire(cloud: &Cloud, tenant: &Tenant, name: &str) -> Wired {
    let caller = &tenant.manager;
    let body = caller.post("/network/v2.0/networks", json!({"network": {"name": name}})).await.expect(201);
    let network = id(&body, "network");
    let subnet = json!({"subnet": {"name": name, "network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24"}});
    let subnet = id(&caller.post("/network/v2.0/subnets", subnet).await.expect(201), "subnet");
    let outside = cloud.sim.bootstrap().external_network;
    let router = json!({"router": {"name": name, "external_gateway_info": {"network_id": outside}}});
    let router = id(&caller.post("/network/v2.0/routers", router).await.expect(201), "router");
    let path = format!("/network/v2.0/routers/{router}/add_router_interface");
    caller.put(&path, json!({"subnet_id": subnet})).await.expect(200);
    Wired { network, subnet, router }
}

pub async fn port(caller: &Caller, network: &str, name: &str) -> Value {
    let body = json!({"port": {"name": name, "network_id": network}});
    caller.post("/network/v2.0/ports", body).await.expect(201)["port"].clone()
}

/// The body of a server on the smallest flavor and the first image.
pub fn server_body(cloud: &Cloud, name: &str, networks: &Value) -> Value {
    let bootstrap = cloud.sim.bootstrap();
    json!({"server": {
        "name": name,
        "flavorRef": bootstrap.flavors[0].0,
        "imageRef": bootstrap.images[0].0,
        "networks": networks,
    }})
}

pub async fn server(cloud: &Cloud, caller: &Caller, name: &str, networks: &Value) -> String {
    let body = server_body(cloud, name, networks);
    id(&caller.nova("POST", "/servers", Some(body)).await.expect(202), "server")
}
