//! Regions that cannot be used: each says why within ten seconds, and recovers by itself when it is mended (REG-1).

use crate::job::{SOON, apply, available, told};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use weir_harness::{Door, Stack};

/// How soon a region must say what is wrong.
const AT_ONCE: Duration = Duration::from_secs(10);

struct Case {
    secret: Value,
    region: Value,
}

impl Case {
    /// A Region with a Secret of its own.
    fn new(stack: &Stack, name: &str, endpoint: Option<&str>) -> Self {
        let (mut secret, mut region) = (stack.secret(|_| {}), stack.region(endpoint));
        secret["metadata"]["name"] = json!(name);
        region["metadata"]["name"] = json!(name);
        region["spec"]["openstack"]["serviceAccountSecret"]["name"] = json!(name);
        Self { secret, region }
    }

    /// Applies both; the condition must say `fault` soon enough.
    async fn must_say(&self, stack: &Stack, fault: &str) {
        let began = Instant::now();
        apply(stack, &[self.secret.clone(), self.region.clone()]).await;
        self.is_told(stack, fault, began).await;
    }

    async fn is_told(&self, stack: &Stack, fault: &str, began: Instant) {
        let condition = told(stack, &self.region, &format!("says {fault:?}"), |c| c.message.contains(fault)).await;
        let took = began.elapsed();
        println!("{} after {took:?}: {}", self.region["metadata"]["name"], condition.message);
        assert_eq!(condition.status, "False", "{condition:?}");
        assert!(took < AT_ONCE, "it took {took:?}: {condition:?}");
    }

    /// Must become available by itself.
    async fn must_recover(&self, stack: &Stack) {
        let began = Instant::now();
        available(stack, &self.region).await;
        println!("{} has recovered after {:?}", self.region["metadata"]["name"], began.elapsed());
        assert!(began.elapsed() < SOON / 2, "it took {:?}", began.elapsed());
    }
}

/// Proves: REG-1, OWN-7, W-5
#[tokio::test(flavor = "multi_thread")]
async fn a_region_whose_secret_is_missing_or_lacks_a_key_says_so_and_recovers_when_it_is_there() {
    let stack = Stack::start().await;
    for key in ["domain-id", "project-id", "user-id", "password"] {
        let case = Case::new(&stack, &format!("without-{key}"), None);
        let mut secret = case.secret.clone();
        secret["stringData"].as_object_mut().expect("data").remove(key);
        let broken = Case { secret, region: case.region.clone() };
        broken.must_say(&stack, key).await;
        stack.cluster.apply(&case.secret).await;
        case.must_recover(&stack).await;
    }
    let case = Case::new(&stack, "without-secret", None);
    let began = Instant::now();
    stack.cluster.apply(&case.region).await;
    case.is_told(&stack, "without-secret does not exist", began).await;
    stack.cluster.apply(&case.secret).await;
    case.must_recover(&stack).await;
    let case = Case::new(&stack, "wrong-password", None);
    let wrong = Case { secret: stack.secret(|data| data["password"] = json!("wrong")), region: case.region.clone() };
    let mut secret = wrong.secret.clone();
    secret["metadata"]["name"] = json!("wrong-password");
    Case { secret, ..wrong }.must_say(&stack, "refuses the credential").await;
    stack.cluster.apply(&case.secret).await;
    case.must_recover(&stack).await;
}

/// Proves: REG-1, OWN-7
#[tokio::test(flavor = "multi_thread")]
async fn a_region_whose_endpoint_refuses_or_swallows_connections_says_so_and_recovers_when_it_answers() {
    let stack = Stack::start().await;
    let endpoint = stack.bootstrap()["endpoint"].as_str().expect("an endpoint").to_owned();
    let host = endpoint.split('/').nth(2).expect("host and port").to_owned();
    let mut refusing = Door::to(&host);
    let mut silent = Door::to(&host);
    silent.silence().await;
    let through = |door: &Door| endpoint.replace(&host, &door.address());
    let refused = Case::new(&stack, "endpoint-refuses", Some(&through(&refusing)));
    let swallowed = Case::new(&stack, "endpoint-is-silent", Some(&through(&silent)));
    refused.must_say(&stack, "does not answer").await;
    swallowed.must_say(&stack, "does not answer").await;
    refusing.open().await;
    refused.must_recover(&stack).await;
    silent.open().await;
    swallowed.must_recover(&stack).await;
}

/// Proves: REG-1, OWN-7
#[tokio::test(flavor = "multi_thread")]
async fn a_region_whose_user_lacks_the_manager_role_says_so_and_recovers_when_it_is_granted() {
    let stack = Stack::start().await;
    let credential = stack.bootstrap()["credential"].clone();
    let text = |key: &str| credential[key].as_str().expect("a credential").to_owned();
    let roles = stack.keystone("GET", "/roles?name=manager", None).await;
    let role = roles["roles"][0]["id"].as_str().expect("the role").to_owned();
    let grant = format!("/domains/{}/users/{}/roles/{role}", text("domain-id"), text("user-id"));
    stack.keystone("DELETE", &grant, None).await;
    let case = Case::new(&stack, "without-role", None);
    case.must_say(&stack, "manager").await;
    stack.keystone("PUT", &grant, None).await;
    case.must_recover(&stack).await;
}
