//! Reviews: questions about identities and rights, and tokens for service accounts.
//!
//! Every authenticated user may do everything, so access reviews of anybody but `system:anonymous` are allowed.

use serde_json::{Value, json};

use super::write::Body;
use super::{Answer, Target};
use crate::auth::{AUDIENCE, User};
use crate::cluster::Cluster;
use crate::decode;
use crate::object;
use crate::status::{Status, field};

const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

fn decode(body: Body<'_>) -> Result<Value, Status> {
    let decoded = decode::object(body.content_type, body.bytes).map_err(|error| match error {
        decode::Error::Syntax(why) => {
            Status::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
        }
        decode::Error::MediaType | decode::Error::UnknownProtobuf(_) => Status::unsupported_media_type(MEDIA_TYPES),
    })?;
    if decoded.value.is_object() { Ok(decoded.value) } else { Err(Status::bad_request("the body is not an object")) }
}

/// A POST to one of the review resources; `None`: there is no such resource.
pub fn review(
    cluster: &Cluster,
    group: &str,
    plural: &str,
    user: Option<&User>,
    body: Body<'_>,
) -> Option<Result<Answer, Status>> {
    let kind = match (group, plural) {
        ("authentication.k8s.io", "selfsubjectreviews") => "SelfSubjectReview",
        ("authentication.k8s.io", "tokenreviews") => "TokenReview",
        ("authorization.k8s.io", "selfsubjectaccessreviews") => "SelfSubjectAccessReview",
        ("authorization.k8s.io", "subjectaccessreviews") => "SubjectAccessReview",
        ("authorization.k8s.io", "localsubjectaccessreviews") => "LocalSubjectAccessReview",
        ("authorization.k8s.io", "selfsubjectrulesreviews") => "SelfSubjectRulesReview",
        _ => return None,
    };
    Some(decode(body).and_then(|asked| {
        if kind.ends_with("AccessReview") {
            check_attributes(group, &asked)?;
        }
        Ok(Answer::of(201, answer(cluster, group, kind, user, &asked), false))
    }))
}

/// An access review asks about a resource or about a path.
fn check_attributes(group: &str, asked: &Value) -> Result<(), Status> {
    let part = |key: &str| asked.pointer(&format!("/spec/{key}")).filter(|v| !v.is_null());
    let cause = match (part("resourceAttributes"), part("nonResourceAttributes")) {
        (None, None) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            field::invalid("spec.resourceAttributes", &Value::Null, detail)
        }
        (Some(_), Some(path)) => field::invalid(
            "spec.nonResourceAttributes",
            path,
            "cannot be specified in combination with resourceAttributes",
        ),
        _ => return Ok(()),
    };
    Err(Status::invalid(group, "", "", vec![cause]))
}

fn answer(cluster: &Cluster, group: &str, kind: &str, user: Option<&User>, asked: &Value) -> Value {
    let spec = asked.get("spec").cloned().unwrap_or_else(|| json!({}));
    let mut out = json!({"kind": kind, "apiVersion": format!("{group}/v1"), "metadata": {}, "spec": spec});
    match kind {
        "SelfSubjectReview" => {
            object::set_meta(&mut out, "creationTimestamp", json!(object::now()));
            out["status"] = json!({"userInfo": user.map(User::info)});
            if let Some(map) = out.as_object_mut() {
                map.remove("spec");
            }
        }
        "TokenReview" => {
            let token = spec.get("token").and_then(Value::as_str).unwrap_or_default();
            out["status"] = match cluster.auth.user(token) {
                Some(found) => json!({"authenticated": true, "user": found.info(), "audiences": [AUDIENCE]}),
                None => json!({"user": {}, "error": "invalid bearer token"}),
            };
        }
        "SelfSubjectRulesReview" => {
            out["status"] = json!({"incomplete": false,
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]});
        }
        _ => {
            let anonymous = spec.get("user").and_then(Value::as_str) == Some("system:anonymous");
            out["status"] = json!({"allowed": !anonymous});
        }
    }
    out
}

/// POST to `serviceaccounts/NAME/token`.
pub fn token(cluster: &Cluster, target: &Target, body: Body<'_>) -> Result<Answer, Status> {
    const DEFAULT_SECONDS: i64 = 3600;
    const LEAST_SECONDS: i64 = 600;
    const MOST_SECONDS: i64 = 1 << 32;
    let asked = decode(body)?;
    let resource = &target.resource;
    let Some(account) = cluster.store.get(&resource.table, &target.key()) else {
        return Err(Status::not_found(&resource.group, &resource.plural, &target.name));
    };
    let seconds = asked.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT_SECONDS);
    if seconds > MOST_SECONDS {
        let cause = field::invalid(
            "spec.expirationSeconds",
            &json!(seconds),
            "may not specify a duration larger than 2^32 seconds",
        );
        return Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", vec![cause]));
    }
    if seconds < LEAST_SECONDS {
        let cause = field::invalid(
            "spec.expirationSeconds",
            &json!(seconds),
            "may not specify a duration less than 10 minutes",
        );
        return Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", vec![cause]));
    }
    let mut audiences: Vec<String> = asked
        .pointer("/spec/audiences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    if audiences.is_empty() {
        audiences.push(AUDIENCE.into());
    }
    let token = cluster.auth.issue(&target.namespace, &target.name, account.uid(), &audiences, seconds);
    let expires = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second().saturating_add(seconds))
        .unwrap_or(jiff::Timestamp::MAX);
    let value = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": target.name, "namespace": target.namespace, "uid": account.uid(), "creationTimestamp": object::now()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": null},
        "status": {"token": token, "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()},
    });
    Ok(Answer::of(201, value, false))
}
