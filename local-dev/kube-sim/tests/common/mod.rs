//! A raw HTTP client, and a server with the demo definition.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::{Value, json};
use weir_kube_sim::{Config, KubeSim};

pub const WIDGETS: &str = "/apis/demo.weir.dev/v1alpha1/namespaces/demo/widgets";
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/demo/configmaps";
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const WAIT: Duration = Duration::from_secs(10);

/// The demo custom resource definition.
pub fn definition() -> Value {
    serde_json::from_str(include_str!("../fixtures/widgets.json")).unwrap()
}

pub fn widget(name: &str) -> Value {
    json!({"apiVersion": "demo.weir.dev/v1alpha1", "kind": "Widget", "metadata": {"name": name}, "spec": {"owner": "ann"}})
}

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// A raw client of one server.
pub struct Raw {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    pub fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    pub fn revision(&self) -> String {
        self.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    pub fn warnings(&self) -> Vec<String> {
        self.headers.get_all("warning").iter().map(|v| v.to_str().unwrap().to_owned()).collect()
    }
}

impl Raw {
    pub fn new(sim: &KubeSim) -> Raw {
        Raw::with_token(sim, Some(sim.token()))
    }

    pub fn with_token(sim: &KubeSim, token: Option<&str>) -> Raw {
        // A second test in the same process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().user_agent("raw-client/1.0").build().unwrap();
        Raw { http, url: sim.url().to_owned(), token: token.map(str::to_owned) }
    }

    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method.parse().unwrap(), format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> reqwest::Result<Answer> {
        let mut request = self.request(method, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await?;
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer { code, headers, text: response.text().await? })
    }

    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.try_send(method, path, headers, Some(body.to_owned())).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.try_send("GET", path, &[], None).await.unwrap()
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.send("PATCH", path, &[("content-type", "application/merge-patch+json")], &body.to_string()).await
    }

    pub async fn apply(&self, path: &str, body: &Value) -> Answer {
        self.send("PATCH", path, &[("content-type", "application/apply-patch+yaml")], &body.to_string()).await
    }

    pub async fn delete(&self, path: &str, body: &Value) -> Answer {
        self.send("DELETE", path, &[("content-type", "application/json")], &body.to_string()).await
    }

    /// Asks again until the answer pleases.
    pub async fn until(&self, path: &str, pleases: impl Fn(&Answer) -> bool) -> Answer {
        let asking = async {
            loop {
                let answer = self.get(path).await;
                if pleases(&answer) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT, asking).await.unwrap_or_else(|_| panic!("{path} never became as awaited"))
    }

    /// Opens a watch.
    pub async fn watch(&self, path: &str) -> Watch {
        let response = self.request("GET", path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        Watch { response, buffer: Vec::new() }
    }
}

/// An open watch.
pub struct Watch {
    response: reqwest::Response,
    buffer: Vec<u8>,
}

impl Watch {
    /// The next event; `None`: the stream has ended.
    pub async fn next(&mut self) -> Option<Value> {
        let reading = async {
            loop {
                if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                    let line: Vec<u8> = self.buffer.drain(..=end).collect();
                    return Some(serde_json::from_slice(&line).unwrap());
                }
                match self.response.chunk().await {
                    Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
                    Ok(None) | Err(_) => return None,
                }
            }
        };
        tokio::time::timeout(WAIT, reading).await.expect("no event came")
    }

    /// The next `n` events as `TYPE name`.
    pub async fn brief(&mut self, n: usize) -> Vec<String> {
        let mut out = Vec::new();
        for _ in 0..n {
            let event = self.next().await.expect("the stream ended");
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
            out.push(format!("{} {name}", event["type"].as_str().unwrap()));
        }
        out
    }

    /// Nothing comes for a while.
    pub async fn is_silent(&mut self, time: Duration) -> bool {
        if self.buffer.contains(&b'\n') {
            return false;
        }
        tokio::time::timeout(time, self.response.chunk()).await.is_err()
    }
}

/// A plain server with the namespace `demo` and the demo definition.
pub async fn demo() -> (KubeSim, Raw) {
    demo_with(Config::plain()).await
}

pub async fn demo_with(config: Config) -> (KubeSim, Raw) {
    let sim = KubeSim::start(config).await.unwrap();
    let raw = Raw::new(&sim);
    assert_eq!(raw.post(DEFINITIONS, &definition()).await.code, 201);
    assert_eq!(raw.post("/api/v1/namespaces", &json!({"metadata": {"name": "demo"}})).await.code, 201);
    (sim, raw)
}
