//! Who is asking: bearer tokens.
//!
//! There is one administrator, further users by token, and service accounts by tokens that this server has signed. Authorization is not
//! modelled: every authenticated user may do everything, RBAC objects or not. Without a token a request is `system:anonymous`, who may
//! read the version and the health, and nothing else.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// An authenticated user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// The token's id, for service accounts.
    pub credential: Option<String>,
}

impl User {
    fn admin() -> User {
        User {
            name: "admin".into(),
            uid: "admin-uid".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            credential: None,
        }
    }

    fn named(name: &str) -> User {
        User {
            name: name.into(),
            uid: format!("{name}-uid"),
            groups: vec!["system:authenticated".into()],
            credential: None,
        }
    }

    /// `UserInfo` as reviews show it.
    pub fn info(&self) -> Value {
        let mut info = json!({"username": self.name, "uid": self.uid, "groups": self.groups});
        if let Some(id) = &self.credential {
            info["extra"] = json!({"authentication.kubernetes.io/credential-id": [format!("JTI={id}")]});
        }
        info
    }

    pub fn is_admin(&self) -> bool {
        self.groups.iter().any(|g| g == "system:masters")
    }
}

/// The result of looking at a request's credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Anonymous,
    User(User),
    /// A token that is not known: 401.
    Refused,
}

/// All tokens. Not `Debug`: it holds secrets.
pub struct Auth {
    /// By the token's hash, so that a look-up does not compare secrets byte by byte.
    users: HashMap<[u8; 32], User>,
    signing_key: [u8; 32],
}

/// The audience of service account tokens.
pub const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

impl Auth {
    /// `admin`: the administrator's token; `others`: user names by token.
    pub fn new(admin: &str, others: &[(String, String)]) -> Auth {
        let mut users: HashMap<[u8; 32], User> =
            others.iter().map(|(name, token)| (hash(&[token.as_bytes()]), User::named(name))).collect();
        users.insert(hash(&[admin.as_bytes()]), User::admin());
        // Derived, so that tokens of service accounts outlive a restart with the same administrator.
        let signing_key = hash(&[b"kube-sim service account tokens", admin.as_bytes()]);
        Auth { users, signing_key }
    }

    /// Reads an `Authorization` header.
    pub fn identify(&self, header: Option<&str>) -> Identity {
        let Some(header) = header else { return Identity::Anonymous };
        let Some(token) = header.strip_prefix("Bearer ").or_else(|| header.strip_prefix("bearer ")).map(str::trim)
        else {
            return Identity::Anonymous;
        };
        self.user(token).map_or(Identity::Refused, Identity::User)
    }

    /// The user of a token.
    pub fn user(&self, token: &str) -> Option<User> {
        self.users.get(&hash(&[token.as_bytes()])).cloned().or_else(|| self.service_account(token))
    }

    /// A token for a service account. It looks like a JWT and is one, but for its signature, which only this server can check.
    pub fn issue(&self, namespace: &str, name: &str, uid: &str, audiences: &[String], seconds: i64) -> String {
        let now = jiff::Timestamp::now().as_second();
        let claims = json!({
            "aud": audiences, "exp": now.saturating_add(seconds), "iat": now, "nbf": now, "iss": AUDIENCE,
            "jti": uuid::Uuid::new_v4().to_string(),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
        });
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "typ": "JWT"}).to_string());
        let payload = URL_SAFE_NO_PAD.encode(claims.to_string());
        let signature = URL_SAFE_NO_PAD.encode(self.sign(&format!("{header}.{payload}")));
        format!("{header}.{payload}.{signature}")
    }

    /// HMAC-SHA-256.
    fn sign(&self, text: &str) -> [u8; 32] {
        let pad = |byte: u8| -> Vec<u8> {
            let mut block = [byte; 64];
            for (b, k) in block.iter_mut().zip(self.signing_key) {
                *b ^= k;
            }
            block.to_vec()
        };
        let inner = hash(&[&pad(0x36), text.as_bytes()]);
        hash(&[&pad(0x5c), &inner])
    }

    fn service_account(&self, token: &str) -> Option<User> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        // Hashed again before comparing, so that the time says nothing about the right one.
        if hash(&[&signature]) != hash(&[&self.sign(signed)]) {
            return None;
        }
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?).ok()?;
        if claims.get("exp").and_then(Value::as_i64)? <= jiff::Timestamp::now().as_second() {
            return None;
        }
        let text = |pointer: &str| claims.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let namespace = text("/kubernetes.io/namespace")?;
        Some(User {
            name: text("/sub")?,
            uid: text("/kubernetes.io/serviceaccount/uid")?,
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".into(),
            ],
            credential: text("/jti"),
        })
    }
}

/// A random token.
pub fn random_token() -> String {
    let bytes: [u8; 24] = rand::random();
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_say_who_is_asking() {
        let auth = Auth::new("root", &[("alice".into(), "wonder".into())]);
        assert_eq!(auth.identify(None), Identity::Anonymous);
        assert_eq!(auth.identify(Some("Bearer nope")), Identity::Refused);
        assert!(matches!(auth.identify(Some("Bearer root")), Identity::User(u) if u.is_admin()));
        assert!(
            matches!(auth.identify(Some("Bearer wonder")), Identity::User(u) if u.name == "alice" && !u.is_admin())
        );
    }

    #[test]
    fn a_service_account_token_is_good_until_it_expires_or_is_tampered_with() {
        let auth = Auth::new("root", &[]);
        let token = auth.issue("demo", "sa", "u-1", &[AUDIENCE.into()], 600);
        assert_eq!(auth.user(&token).unwrap().name, "system:serviceaccount:demo:sa");
        let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
        parts[1] = URL_SAFE_NO_PAD.encode(r#"{"exp":99999999999,"sub":"system:serviceaccount:kube-system:root"}"#);
        assert_eq!(auth.user(&parts.join(".")), None);
        assert_eq!(auth.user(&auth.issue("demo", "sa", "u-1", &[], -1)), None);
        assert_eq!(Auth::new("other", &[]).user(&token), None);
    }
}
