#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ssh_key::{LineEnding, PrivateKey};

const PASSWORD: &str = "correct-horse-battery";
const USER_DATA: &str = "#cloud-config\nchpasswd: {list: 'root:staple-42'}\n";

fn key_pem() -> (String, String) {
    let pair = ssh_key::private::Ed25519Keypair::from_seed(&[7; 32]);
    let key = PrivateKey::new(pair.into(), "weir").unwrap();
    (key.to_openssh(LineEnding::LF).unwrap().to_string(), key.public_key().to_openssh().unwrap())
}

fn redacted(url: &str, value: &Value) -> Value {
    let mut secrets = Secrets::new(Key([1; 32]));
    let bytes = Bytes::from(value.to_string());
    let learnt = secrets.learn(url, &bytes);
    match secrets.body(learnt) {
        Some(Body::Json(json)) => serde_json::from_str(json.get()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Every form in which `secret` could stand somewhere.
fn must_not_hold(text: &str, secret: &str) {
    assert!(!text.contains(secret), "{secret:?} in {text}");
    for offset in 0..3 {
        let padded = [&b"xxx"[..offset], secret.as_bytes()].concat();
        let encoded = STANDARD.encode(padded);
        // What is the same whatever comes before and after.
        let (from, to) = (if offset == 0 { 0 } else { 4 }, encoded.trim_end_matches('=').len() - 2);
        assert!(!text.contains(&encoded[from..to]), "{secret:?} in base64 in {text}");
    }
}

/// Proves: R-2
#[test]
fn secrets_go_wherever_they_stand() {
    let (pem, public) = key_pem();
    let encoded = |text: &str| STANDARD.encode(text);
    let clouds = format!("clouds:\n  cloud:\n    auth:\n      application_credential_secret: {PASSWORD}\n");
    let nested = json!({"spec": {"userData": encoded(USER_DATA)}, "password": PASSWORD}).to_string();
    let value = json!({
        "auth": {"identity": {"password": {"user": {"id": "u", "password": PASSWORD}}}},
        "applicationCredentialSecret": PASSWORD,
        "cloudConfig": encoded(&clouds),
        "sshPrivateKey": encoded(&pem),
        "inText": format!("the key is {pem} and the password '{PASSWORD}'"),
        "metadata": {"annotations": {"last-applied": nested, "basic": format!("Basic {}", encoded(&format!("me:{PASSWORD}")))}},
        "OS-EXT-SRV-ATTR:user_data": encoded(USER_DATA),
        "error": format!("Invalid input: {{'adminPass': 'Tr0ub4dor', 'x': '{PASSWORD}'}}"),
        "list": [{"credentials": ["one-secret", {"token": "two-secret"}]}],
        "twice": encoded(&encoded(&format!("x {PASSWORD}"))),
        "public_key": public,
    });
    let text = redacted("/x", &value).to_string();
    for secret in [
        PASSWORD,
        "staple-42",
        "Tr0ub4dor",
        "one-secret",
        "two-secret",
        &pem,
        public.trim(),
        pem.lines().nth(3).unwrap(),
    ] {
        must_not_hold(&text, secret);
    }
}

/// Proves: R-2
#[test]
fn nothing_of_a_kubernetes_secret_is_left_but_what_is_none() {
    let data = json!({"domain-id": STANDARD.encode("default"), "password": STANDARD.encode(PASSWORD),
        "user-id": STANDARD.encode("p4ss w0rd!"), "other": STANDARD.encode([0xff, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8])});
    let one = json!({"apiVersion": "v1", "kind": "Secret", "data": data});
    let list = json!({"apiVersion": "v1", "kind": "SecretList", "items": [{"metadata": {"name": "a"}, "data": data}]});
    for value in [&one, &list] {
        let left = redacted("/api/v1/namespaces/x/secrets", value);
        let text = left.to_string();
        must_not_hold(&text, PASSWORD);
        must_not_hold(&text, "p4ss w0rd!");
        assert!(!text.contains(data["other"].as_str().unwrap()), "{text}");
        assert!(text.contains(&STANDARD.encode("default")), "an ID that is none of the secrets stays: {text}");
    }
    let patch = Bytes::from(json!([{"op": "add", "path": "/data/x", "value": "aGVsbG8="}]).to_string());
    let mut secrets = Secrets::new(Key::random());
    let learnt = secrets.learn("/api/v1/namespaces/x/secrets/y", &patch);
    let body = secrets.body(learnt);
    assert!(matches!(body, Some(Body::Omitted { .. })), "{body:?}");
}

/// Proves: R-2
#[test]
fn bodies_that_are_not_understood_are_dropped() {
    let mut secrets = Secrets::new(Key::random());
    for text in ["<html>password: hunter2</html>", "grant_type=password&password=hunter2", "password: hunter2"] {
        let body = Bytes::from(text);
        let learnt = secrets.learn("/", &body);
        match secrets.body(learnt) {
            Some(Body::Omitted { bytes, why }) => assert_eq!((bytes, why.as_str()), (text.len() as u64, "not JSON")),
            other => panic!("{other:?}"),
        }
    }
}

/// Proves: R-3
#[test]
fn what_stands_in_for_secrets_can_be_worked_with() {
    let (pem, public) = key_pem();
    let value = json!({"sshPrivateKey": STANDARD.encode(&pem), "public_key": format!("{public} x"),
        "userData": STANDARD.encode(USER_DATA), "password": PASSWORD});
    let left = redacted("/", &value);
    let inner = String::from_utf8(STANDARD.decode(left["sshPrivateKey"].as_str().unwrap()).unwrap()).unwrap();
    let mut half = PrivateKey::from_openssh(&inner).unwrap().public_key().clone();
    half.set_comment("");
    assert!(left["public_key"].as_str().unwrap().starts_with(half.to_openssh().unwrap().trim()), "{left}");
    let data = STANDARD.decode(left["userData"].as_str().unwrap()).unwrap();
    assert!(data.starts_with(b"#cloud-config\n# redacted-"));
    assert_eq!(redacted("/", &left), left, "what is recorded again stays as it is");
}

/// Proves: R-2
#[test]
fn a_secret_that_is_a_part_of_another_leaves_nothing_of_it() {
    let mut secrets = Secrets::new(Key::random());
    secrets.add("abcdefgh");
    secrets.add("abcdefghijklmnop");
    let text = secrets.text("x abcdefghijklmnop y").into_owned();
    assert!(!text.contains("ijklmnop"), "{text}");
}

/// Proves: R-2
#[test]
fn what_is_quoted_whole_goes_whole_though_a_part_of_it_says_that_it_is_a_secret() {
    let data = "#cloud-config\nwrite_files:\n  - content: |\n      TOKEN=abc-def-ghi\n      PW=correct-horse\n      more of it\n";
    let encoded = base64::engine::general_purpose::STANDARD.encode(data);
    let kubeconfig = "apiVersion: v1\nusers:\n- user:\n    token: abc-def-ghi\n    name: the-private-name\n";
    let secret = base64::engine::general_purpose::STANDARD.encode(kubeconfig);
    let mut secrets = Secrets::new(Key([1; 32]));
    let asked = Bytes::from(serde_json::json!({"server": {"name": "x", "user_data": encoded}}).to_string());
    let held = Bytes::from(
        serde_json::json!({"kind": "Secret", "apiVersion": "v1", "data": {"kubeconfig": secret}}).to_string(),
    );
    let _ = (secrets.learn("/servers", &asked), secrets.learn("/api/v1/secrets/x", &held));
    for quoted in [data, &encoded, kubeconfig, &secret] {
        let message = format!("Invalid input for field/attribute user_data. Value: {quoted}. It is too long");
        let answer = Bytes::from(serde_json::json!({"badRequest": {"message": message}}).to_string());
        let learnt = secrets.learn("/servers", &answer);
        let Some(Body::Json(left)) = secrets.body(learnt) else { panic!("a JSON body is kept") };
        let mut all = vec![left.get().to_owned()];
        for word in left.get().split(|c: char| !c.is_ascii_alphanumeric()) {
            all.extend((0..4).filter_map(|from| {
                let bytes = base64::engine::general_purpose::STANDARD_NO_PAD.decode(word.get(from..)?).ok()?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }));
        }
        for part in ["correct-horse", "more of it", "the-private-name", "abc-def-ghi"] {
            assert!(!all.iter().any(|text| text.contains(part)), "{part} is in {left}");
        }
    }
}

/// Proves: R-2, R-3
#[test]
fn what_is_no_secret_stays_to_the_byte_however_much_it_is_called_like_one() {
    let text = r#"{"server": {"id": "b0000000-0000-4000-8000-00000000000a", "key_name": "identity-key", "tags": ["owner=team", "a:b"],
        "security_groups": [{"name": "web"}], "metadata": {"primary_key": "the-name", "public_key": "of-somebody", "stage": "test"},
        "addresses": {"private": [{"addr": "10.0.0.4", "version": 4}]}, "token_expires_at": "2026-01-01T00:00:00Z",
        "passwordSecretRef": {"name": "the-secret", "key": "the-key"}, "serviceAccountSecret": {"namespace": "x-space", "name": "an-account"},
        "application_credentials": [{"id": "0f3a1c2d4b5e69788796a5b4c3d2e1f0", "name": "the-credential"}], "max_tokens": 12,
        "links": [{"rel": "next", "href": "http://h/v2.1/servers?marker=abc&limit=10"}], "env": [{"name": "STAGE", "value": "production"}],
        "auth_url": "https://keystone/v3", "labels": {"regions.unikorn-cloud.org/held-secret": "the-secret"},
        "fault": {"message": "No valid host was found.", "details": "Traceback:\n  File \"x.py\", line 6\nNoValidHost: none"}}}"#;
    let left = redacted("/x", &serde_json::from_str(text).unwrap());
    assert_eq!(left, serde_json::from_str::<Value>(text).unwrap());
    // What holds nothing at all is not even written anew.
    let (plain, mut secrets) = (r#"{"a": [1.0, "b"],  "key_name": "c"}"#, Secrets::new(Key::random()));
    let body = Bytes::from(plain);
    let learnt = secrets.learn("/x", &body);
    assert!(matches!(secrets.body(learnt), Some(Body::Json(json)) if json.get() == plain));
}

/// Proves: R-2
#[test]
fn what_user_data_says_goes_where_it_stands_alone_and_what_others_go_by_stays() {
    let data = "#cloud-config\nhostname: web-server-1\nchpasswd: {list: 'root:hunter2-of-root'}\nwrite_files:\n- path: /etc/x.env\n  \
        content: |\n    API_TOKEN=tok-en-of-x\n    PROJECT=0f3a1c2d4b5e69788796a5b4c3d2e1f0\n- content: join K10f3a9Bc77Qz18LmN0pR\n";
    let value = json!([
        {"spec": {"userData": STANDARD.encode(data)}},
        {"tags": ["hunter2-of-root", "web-server-1"], "metadata": {"x": "tok-en-of-x", "project": "0f3a1c2d4b5e69788796a5b4c3d2e1f0"},
            "fault": {"message": "cannot join with K10f3a9Bc77Qz18LmN0pR"}},
    ]);
    let left = redacted("/x", &value);
    for secret in ["hunter2-of-root", "tok-en-of-x", "K10f3a9Bc77Qz18LmN0pR"] {
        must_not_hold(&left.to_string(), secret);
    }
    assert_eq!(
        (&left[1]["tags"][1], &left[1]["metadata"]["project"]),
        (&value[1]["tags"][1], &value[1]["metadata"]["project"])
    );
}

/// Proves: R-2
#[test]
fn what_headers_say_is_known_apart_from_their_schemes() {
    let mut secrets = Secrets::new(Key::random());
    for (name, value) in [
        ("authorization", format!("Basic {}", STANDARD.encode("somebody:hunter2-of-basic"))),
        ("authorization", "Bearer tok-of-bearer".to_owned()),
        ("set-cookie", "session=cookie-of-set; Path=/api; HttpOnly; SameSite=Strict".to_owned()),
        ("cookie", "one=cookie-one; two=\"cookie-two\"".to_owned()),
    ] {
        secrets.learn_header(name, &value);
    }
    for secret in ["hunter2-of-basic", "tok-of-bearer", "cookie-of-set", "cookie-one", "cookie-two"] {
        let left = secrets.text(&format!("it was {secret}!")).into_owned();
        assert!(left.starts_with("it was redacted-") && !left.contains(secret), "{left}");
    }
    for word in ["somebody", "Bearer", "HttpOnly", "Strict", "/api"] {
        assert_eq!(secrets.text(word), word);
    }
}

fn json(secrets: &mut Secrets, learnt: Learnt<'_>) -> Value {
    match secrets.body(learnt) {
        Some(Body::Json(json)) => serde_json::from_str(json.get()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn why(secrets: &mut Secrets, learnt: Learnt<'_>) -> String {
    match secrets.body(learnt) {
        Some(Body::Omitted { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

/// A server of a tenant.
fn server(number: usize, secret: &str, filler: usize) -> Value {
    let data = format!("#!/bin/sh\nexport DB_PASSWORD={secret}\n# {}\n", "filler!".repeat(filler / 7));
    json!({"apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "Server", "metadata": {"name": format!("server-{number}"),
        "resourceVersion": "1"}, "spec": {"userData": STANDARD.encode(data), "tags": [{"name": "note", "value": format!("db is at {secret}")}]}})
}

/// Proves: R-2
#[test]
fn what_is_too_large_to_be_kept_or_is_no_json_is_learnt_from_before_it_is_dropped() {
    let passwords: Vec<String> = (0..140).map(|number| format!("Horse!{number:03}papaya")).collect();
    let items: Vec<Value> = passwords.iter().enumerate().map(|(at, secret)| server(at, secret, 4000)).collect();
    let list = Bytes::from(json!({"kind": "ServerList", "items": items}).to_string());
    assert!(list.len() > LONGEST_BODY);
    let page = Bytes::from(format!("<html>password: 'of-a-page-1'<p>{}</html>", "x".repeat(LONGEST_BODY)));
    let form = Bytes::from("grant_type=password&password=of-a-form-1");
    let quotes = Bytes::from(json!([passwords, "of-a-page-1", "of-a-form-1"]).to_string());
    let mut secrets = Secrets::new(Key::random());
    secrets.begin();
    let learnt = [&list, &page, &form, &quotes].map(|body| secrets.learn("/x", body));
    let [list, page, form, quotes] = learnt;
    let whys = [list, page, form].map(|learnt| why(&mut secrets, learnt));
    assert_eq!(whys, [TOO_LARGE, TOO_LARGE, "not JSON"]);
    let left = json(&mut secrets, quotes).to_string();
    for secret in passwords.iter().map(String::as_str).chain(["of-a-page-1", "of-a-form-1"]) {
        must_not_hold(&left, secret);
    }
}

/// Proves: R-2
#[test]
fn a_call_that_teaches_more_than_fits_between_calls_keeps_it_all_until_it_is_over() {
    let mut secrets = Secrets::new(Key::random());
    secrets.begin();
    let passwords: Vec<String> = (0..12).map(|number| format!("Horse!{number:03}papaya")).collect();
    let bodies: Vec<Bytes> =
        passwords.iter().enumerate().map(|(at, secret)| Bytes::from(server(at, secret, 100).to_string())).collect();
    let mut learnt = Vec::new();
    for body in &bodies {
        learnt.push(secrets.learn("/x", body));
        secrets.add(&format!("{}{}", learnt.len(), "x!".repeat(1 << 19)));
    }
    assert!(!secrets.is_full());
    for (learnt, secret) in learnt.into_iter().zip(&passwords) {
        must_not_hold(&json(&mut secrets, learnt).to_string(), secret);
    }
    secrets.begin();
    assert_eq!(secrets.known.forgot(), 1, "it was more than fits");
}

/// Proves: R-2
#[test]
fn of_a_call_that_teaches_more_than_can_be_known_nothing_is_passed_on() {
    let mut secrets = Secrets::new(Key::random());
    secrets.begin();
    let large = "x!".repeat(1 << 20);
    for number in 0..40 {
        secrets.add(&format!("{number:03}{large}"));
    }
    assert!(secrets.is_full());
    secrets.add("the-last-secret");
    let body = Bytes::from(r#"{"message": "it was the-last-secret"}"#);
    let learnt = secrets.learn("/x", &body);
    assert_eq!(why(&mut secrets, learnt), TOO_MANY);
    assert_eq!(
        (secrets.text("the-last-secret").as_ref(), secrets.url("/x?y=the-last-secret").as_str()),
        (TOO_MANY, "/x")
    );
    secrets.begin();
    let learnt = secrets.learn("/x", &body);
    assert_eq!(json(&mut secrets, learnt)["message"], "it was the-last-secret", "the next call begins anew");
}

/// Proves: R-2, R-3
#[test]
fn what_a_tenant_calls_a_secret_goes_from_texts_and_not_from_what_programs_go_by() {
    let secret = "hunter2-of-db";
    let value = json!({
        "apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "Server",
        "metadata": {"name": "a", "resourceVersion": "7", "labels": {"stage": secret},
            "annotations": {"regions.unikorn-cloud.org/network-id": secret, "note": secret}},
        "spec": {"tags": [{"name": "acme.example.com/auth", "value": secret}, {"name": "acme.example.com/token", "value": "server"}],
            "networks": [{"id": "x"}], secret: secret},
        "status": {"phase": secret, "conditions": [{"type": secret, "message": format!("it says {secret}, server")}]},
    });
    let body = Bytes::from(value.to_string());
    let mut secrets = Secrets::new(Key([1; 32]));
    secrets.begin();
    let learnt = secrets.learn("/x", &body);
    let left = json(&mut secrets, learnt);
    let by = secrets.key.placeholder(secret);
    let mut expected = value;
    expected["metadata"]["annotations"]["note"] = json!(by);
    expected["spec"]["tags"][0]["value"] = json!(by);
    expected["spec"]["tags"][1]["value"] = json!(secrets.key.placeholder("server"));
    expected["spec"][secret] = json!(by);
    expected["status"]["conditions"][0]["message"] = json!(format!("it says {by}, server"));
    assert_eq!(left, expected);
    assert_eq!(secrets.url("/x/hunter2-of-db"), "/x/hunter2-of-db");
    // What a cloud calls so goes from everywhere.
    let body = Bytes::from(json!({"server": {"adminPass": secret, "id": secret}}).to_string());
    let learnt = secrets.learn("/x", &body);
    assert_eq!(json(&mut secrets, learnt)["server"]["id"], by.as_str());
    assert_eq!(secrets.url("/x/hunter2-of-db"), format!("/x/{by}"));
}

/// Proves: R-2, R-3
#[test]
fn what_a_body_tells_is_known_to_each_call_that_meets_it_and_to_no_other() {
    let secret = "Horse!000papaya";
    let (body, message) = (Bytes::from(server(0, secret, 100).to_string()), format!("cannot use {secret}"));
    let error = Bytes::from(json!({"message": message}).to_string());
    let mut secrets = Secrets::new(Key([1; 32]));
    for _ in 0..3 {
        secrets.begin();
        let learnt = [&body, &error].map(|body| secrets.learn("/x", body));
        for learnt in learnt {
            must_not_hold(&json(&mut secrets, learnt).to_string(), secret);
        }
        must_not_hold(&secrets.text(&message), secret);
        // A call that has nothing to do with it.
        secrets.begin();
        let learnt = secrets.learn("/x", &error);
        assert_eq!(json(&mut secrets, learnt)["message"], message.as_str());
        assert_eq!(secrets.text(&message), message);
    }
}

/// Proves: R-3
#[test]
fn what_is_the_name_of_something_in_a_call_is_no_secret_of_a_tenant_in_it() {
    let tag = |name: &str| Bytes::from(json!({"tags": [{"name": "password", "value": name}]}).to_string());
    let network =
        Bytes::from(json!({"network": {"id": "net-1a", "name": "of-net-1a", "description": "is net-1a"}}).to_string());
    let mut secrets = Secrets::new(Key([1; 32]));
    for (told, published) in [("net-1a", true), ("net-1b7", false), ("of-net-1a", true), ("apis-x1", true)] {
        secrets.begin();
        let tag = tag(told);
        let learnt = [&tag, &network].map(|body| secrets.learn("/x", body));
        for learnt in &learnt {
            secrets.publish("/the/apis-x1/y", learnt);
        }
        let [tag, network] = learnt.map(|learnt| json(&mut secrets, learnt));
        assert_eq!(
            tag["tags"][0]["value"],
            secrets.key.placeholder(told).as_str(),
            "where it stands it goes all the same"
        );
        assert_eq!((&network["network"]["id"], &network["network"]["name"]), (&json!("net-1a"), &json!("of-net-1a")));
        let message = format!("is {told}");
        assert_eq!(secrets.text(&message) == message, published, "{told}");
    }
}
