//! Secrets are planted in documents of any shape, in any of the ways in which a text can be inside another one, and must not be
//! found in what is left.
#![allow(clippy::unwrap_used, clippy::panic)]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::known::{Sort, hex, percent};
use super::*;

/// A text inside another one.
#[derive(Clone, Copy, Debug)]
enum Wrap {
    Json,
    Base64,
    UrlBase64,
    Percent,
    Sentence,
    Yaml,
    Basic,
    Url,
    Hex,
    Zip,
}

fn wrapped(text: &str, how: Wrap) -> String {
    match how {
        Wrap::Json => json!({"note": text}).to_string(),
        Wrap::Base64 => STANDARD.encode(text),
        Wrap::UrlBase64 => URL_SAFE_NO_PAD.encode(text),
        Wrap::Percent => percent(text, "%20", true),
        Wrap::Sentence => format!("it was refused: {text}, they say"),
        Wrap::Yaml => serde_yaml_ng::to_string(&json!({"apiVersion": "v1", "x": [text]})).unwrap(),
        Wrap::Basic => format!("Basic {}", STANDARD.encode(format!("somebody:{text}"))),
        Wrap::Url => format!("https://host/a?x={}&y=z", percent(text, "%20", false)),
        Wrap::Hex => hex(text),
        Wrap::Zip => STANDARD.encode(gzip(text)),
    }
}

fn wraps() -> impl Strategy<Value = Vec<Wrap>> {
    let one = prop_oneof![
        Just(Wrap::Json),
        Just(Wrap::Base64),
        Just(Wrap::UrlBase64),
        Just(Wrap::Percent),
        Just(Wrap::Sentence),
        Just(Wrap::Yaml),
        Just(Wrap::Basic),
        Just(Wrap::Url),
        Just(Wrap::Zip)
    ];
    proptest::collection::vec(one, 0..4)
}

/// Where a secret stands that says so.
#[derive(Clone, Copy, Debug)]
enum Plant {
    Field(&'static str),
    Inside(&'static str),
    Listed(&'static str),
    Quoted,
    Form,
    Userinfo,
    Header,
    Secret,
    Kubeconfig,
    Clouds,
    UserData,
    /// In user data, by a telling name or a program: what stands for `{}` there.
    Said(&'static str),
    /// The same, compressed.
    Zipped(&'static str),
    /// The same, as a part of several.
    Part(&'static str),
    /// A name and a value: what the members are called, and the name.
    Pair(&'static str, &'static str, &'static str),
    /// What is called by a name, and its value, in one text.
    Tag(&'static str),
    Query(&'static str),
    Element,
    Flag,
}

/// A secret for `{}`.
fn filled(template: &str, secret: &str) -> String {
    template.replace("{}", secret)
}

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

/// In lines, as MIME has it.
fn folded(text: &str) -> String {
    let encoded = STANDARD.encode(text);
    let lines: Vec<&str> = encoded.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join("\n")
}

fn planted(secret: &str, how: Plant) -> Value {
    match how {
        Plant::Field(name) => json!({name: secret, "id": "x"}),
        Plant::Inside(name) => json!({name: {"value": secret, "id": "x"}}),
        Plant::Listed(name) => json!({name: ["", secret]}),
        Plant::Quoted => json!(format!("Invalid input {{'adminPass': '{secret}', 'name': 'x'}}")),
        Plant::Form => json!(format!("grant_type=password&password={}&x=1", percent(secret, "+", true))),
        Plant::Userinfo => json!(format!("nats://me:{}@host:4222/x", percent(secret, "%20", true))),
        Plant::Header => json!(format!("X-Auth-Token: {secret}\nAccept: */*")),
        Plant::Secret => json!({"kind": "Secret", "apiVersion": "v1", "data": {"any": STANDARD.encode(secret)}}),
        Plant::Kubeconfig => json!(
            serde_yaml_ng::to_string(&json!({"apiVersion": "v1", "users": [{"user": {"token": secret}}]})).unwrap()
        ),
        Plant::Clouds => json!(
            STANDARD.encode(
                serde_yaml_ng::to_string(
                    &json!({"clouds": {"c": {"auth": {"application_credential_secret": secret}}}})
                )
                .unwrap()
            )
        ),
        Plant::UserData => json!({"user_data": STANDARD.encode(format!("#!/bin/sh\nlogin {secret}\n"))}),
        Plant::Said(how) => json!({"spec": {"userData": STANDARD.encode(filled(how, secret))}}),
        Plant::Zipped(how) => json!({"server": {"user_data": STANDARD.encode(gzip(&filled(how, secret)))}}),
        Plant::Part(how) => json!({"user_data": STANDARD.encode(format!(
            "Content-Type: multipart/mixed; boundary=\"x\"\n\n--x\nContent-Transfer-Encoding: base64\n\n{}\n--x--\n",
            folded(&filled(how, secret))
        ))}),
        Plant::Pair(name, value, called) => {
            json!({"tags": [{name: "zone", value: "a"}, {name: called, value: secret}]})
        }
        Plant::Tag(how) => json!({"tags": ["zone=a", filled(how, secret)]}),
        Plant::Query(name) => json!(format!("https://host/a?x=y&{name}={}&z=1", percent(secret, "%20", true))),
        Plant::Element => json!(format!("<user><name>me</name><adminPass>{secret}</adminPass></user>")),
        Plant::Flag => json!({"args": ["--name", "me", "--db-password", secret]}),
    }
}

/// What user data says to whom.
const SAYINGS: [&str; 9] = [
    "#cloud-config\npassword: \"{}\"\nhostname: web\n",
    "#cloud-config\nusers:\n- name: me\n  plain_text_passwd: '{}'\n",
    "#cloud-config\nwrite_files:\n- path: /etc/x.env\n  content: |\n    A=b\n    DB_PASSWORD=\"{}\"\n",
    "#cloud-config\nx: [{key: api-token, value: \"{}\"}]\n",
    "#cloud-config\nruncmd:\n- [login, --password, \"{}\"]\n",
    "#!/bin/sh\nexport X_TOKEN='{}'\n",
    "## template: jinja\n#cloud-config\nhostname: {{ v1.name }}\napi_keys: \"{}\"\n",
    "[database]\npassword = \"{}\"\n",
    "{\"auth\": {\"client_secret\": \"{}\"}}",
];
/// The same, of words without blanks.
const WORDS: [&str; 4] = [
    "#cloud-config\nchpasswd:\n  list: |\n    root:{}\n",
    "#cloud-config\nchpasswd: {list: ['root:{}']}\n",
    "#!/bin/sh\necho \"root:{}\" | chpasswd\n",
    "#!/bin/sh\ncurl -u me:{} https://host/\n",
];

fn of<T: Clone + std::fmt::Debug + 'static>(list: &[T]) -> impl Strategy<Value = T> + use<T> {
    proptest::sample::select(list.to_vec())
}

/// Plants of what a tenant writes.
fn tenants() -> impl Strategy<Value = Plant> {
    prop_oneof![
        Just(Plant::Quoted),
        Just(Plant::UserData),
        of(&WORDS).prop_map(Plant::Said),
        of(&SAYINGS).prop_map(Plant::Said),
        Just(Plant::Pair("name", "value", "acme.example.com/auth")),
        of(&["db-password={}", "db_token:{}"]).prop_map(Plant::Tag),
    ]
}

fn plants() -> impl Strategy<Value = Plant> {
    let name = || {
        of(&[
            "password",
            "adminPass",
            "clientSecret",
            "sshPrivateKey",
            "X-Auth-Token",
            "kubeconfig",
            "pwd",
            "api-keys",
            "ACCESS_KEY",
            "db.passwd2",
            "passphrase",
            "session_token",
            ".dockerconfigjson",
            "tls.key",
            "X-Amz-Signature",
            "credentials",
            "otp",
            "tokens",
        ])
    };
    let inside =
        || of(&["adminPass", "clientSecret", "sshPrivateKey", "X-Auth-Token", "credentials", "secrets", "password"]);
    prop_oneof![
        name().prop_map(Plant::Field),
        inside().prop_map(Plant::Inside),
        name().prop_map(Plant::Listed),
        Just(Plant::Quoted),
        Just(Plant::Form),
        Just(Plant::Userinfo),
        Just(Plant::Header),
        Just(Plant::Secret),
        Just(Plant::Kubeconfig),
        Just(Plant::Clouds),
        Just(Plant::UserData),
        of(&SAYINGS).prop_map(Plant::Said),
        of(&SAYINGS).prop_map(Plant::Zipped),
        of(&SAYINGS).prop_map(Plant::Part),
        of(&WORDS).prop_map(Plant::Said),
        of(&WORDS).prop_map(Plant::Part),
        (of(&[("name", "value"), ("key", "value"), ("Key", "Value"), ("header", "values")]), name())
            .prop_map(|((name, value), called)| Plant::Pair(name, value, called)),
        of(&["db-password={}", "db_token:{}", "apiKey = {}", "secret: {}"]).prop_map(Plant::Tag),
        name().prop_map(Plant::Query),
        Just(Plant::Element),
        Just(Plant::Flag),
    ]
}

/// Whether a plant can hold a secret with blanks in it.
fn takes_blanks(plant: Plant) -> bool {
    !matches!(plant, Plant::Said(how) | Plant::Part(how) if WORDS.contains(&how))
}

/// A document with `inner` somewhere in it.
fn buried(inner: Value, how: &[u8]) -> Value {
    how.iter().fold(inner, |inner, how| match how % 4 {
        0 => json!({"items": [1, inner, null]}),
        1 => json!({"spec": {"name": "x", "values": inner}}),
        2 => json!([true, "text", inner]),
        _ => json!({"metadata": {"annotations": {"last-applied": inner.to_string()}}}),
    })
}

/// All that can be read out of a text, in whatever way.
fn unfolded(text: &str, depth: usize, into: &mut Vec<String>) {
    into.push(text.to_owned());
    let Some(depth) = depth.checked_sub(1) else { return };
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        strings(&value, depth, into);
    }
    let base64 = |c: char| c.is_ascii_alphanumeric() || "+/=-_".contains(c);
    for word in text.split(|c| !base64(c)).filter(|word| word.len() >= 8) {
        for word in [word, word.rsplit('=').find(|part| !part.is_empty()).unwrap_or_default()] {
            let word = word.trim_end_matches('=');
            let bytes =
                base64::engine::general_purpose::STANDARD_NO_PAD.decode(word).or_else(|_| URL_SAFE_NO_PAD.decode(word));
            let Ok(bytes) = bytes else { continue };
            let text =
                if bytes.starts_with(&[0x1f, 0x8b]) { said::inflated(&bytes) } else { String::from_utf8(bytes).ok() };
            if let Some(inner) = text {
                unfolded(&inner, depth, into);
            }
        }
    }
    for word in
        text.split(|c: char| !c.is_ascii_hexdigit()).filter(|word| word.len() >= 20 && word.len().is_multiple_of(2))
    {
        let bytes =
            (0..word.len()).step_by(2).filter_map(|at| u8::from_str_radix(&word[at..at + 2], 16).ok()).collect();
        if let Ok(inner) = String::from_utf8(bytes) {
            into.push(inner);
        }
    }
    for (_, said) in encoded::percents(text) {
        unfolded(&said, depth, into);
    }
}

fn strings(value: &Value, depth: usize, into: &mut Vec<String>) {
    match value {
        Value::String(text) => unfolded(text, depth, into),
        Value::Array(items) => items.iter().for_each(|item| strings(item, depth, into)),
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            unfolded(name, depth, into);
            strings(value, depth, into);
        }),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Proves: R-2
    #[test]
    fn a_secret_that_says_what_it_is_goes_with_all_that_quote_it_however_they_are_wrapped(
        secret in "[A-Za-z0-9][A-Za-z0-9 !$%~_.+/-]{10,30}[A-Za-z0-9]"
            .prop_filter("a word or a number is not searched for", |secret| plausible::is_plausible(&secret.replace(' ', "x"))),
        plant in plants(),
        burial in proptest::collection::vec(any::<u8>(), 0..3),
        quote in wraps(),
        in_hex in any::<bool>(),
        quote_burial in proptest::collection::vec(any::<u8>(), 0..3),
    ) {
        let secret = if takes_blanks(plant) { secret } else { secret.replace(' ', "x") };
        let mut secrets = Secrets::new(Key([1; 32]));
        let (one, other) = (
            buried(planted(&secret, plant), &burial),
            buried(
                json!(in_hex.then_some(&Wrap::Hex).into_iter().chain(&quote).fold(secret.clone(), |text, how| wrapped(&text, *how))),
                &quote_burial,
            ),
        );
        // What user data says under no name is not known by its words; only where it stands.
        let only_there = matches!(plant, Plant::UserData);
        let bodies: Vec<Bytes> = [one, other].iter().take(if only_there { 1 } else { 2 }).map(|v| Bytes::from(v.to_string())).collect();
        let learnt: Vec<Learnt<'_>> = bodies.iter().map(|body| secrets.learn("/x", body)).collect();
        for learnt in learnt {
            let Some(Body::Json(left)) = secrets.body(learnt) else { panic!("a JSON body is kept") };
            let mut all = Vec::new();
            unfolded(left.get(), 8, &mut all);
            for text in &all {
                prop_assert!(!text.contains(&secret), "{secret:?} is in {text:?} of {}", left.get());
            }
        }
    }

    /// Proves: R-2
    #[test]
    fn a_secret_that_is_too_short_to_be_searched_for_goes_where_it_stands(
        plant in plants(),
        burial in proptest::collection::vec(any::<u8>(), 0..3),
    ) {
        let mut secrets = Secrets::new(Key([1; 32]));
        let body = Bytes::from(buried(planted("Zq7Z", plant), &burial).to_string());
        let learnt = secrets.learn("/x", &body);
        let Some(Body::Json(left)) = secrets.body(learnt) else { panic!("a JSON body is kept") };
        let mut all = Vec::new();
        unfolded(left.get(), 8, &mut all);
        prop_assert!(!all.iter().any(|text| text.contains("Zq7Z")), "{plant:?}: {}", left.get());
    }

    /// Proves: R-3
    #[test]
    fn what_is_recorded_again_stays_as_it_is(plant in plants(), burial in proptest::collection::vec(any::<u8>(), 0..3)) {
        let clean = |body: &Bytes| {
            let mut secrets = Secrets::new(Key::random());
            let learnt = secrets.learn("/x", body);
            match secrets.body(learnt) {
                Some(Body::Json(left)) => left.get().to_owned(),
                other => panic!("{other:?}"),
            }
        };
        let once = clean(&Bytes::from(buried(planted("correct-horse-battery", plant), &burial).to_string()));
        prop_assert_eq!(clean(&Bytes::from(once.clone())), once);
    }

    #[test]
    fn no_text_makes_it_fail(
        text in "(-----BEGIN |PRIVATE KEY-----|-----END |\\{|\"|'|\\\\|password|token|:|=|://|@|%|%2|clouds:|\\||\n| |é|[a-zA-Z0-9+/]{0,9}){0,40}"
    ) {
        let mut secrets = Secrets::new(Key([3; 32]));
        let _ = secrets.learn("/api/v1/secrets", &Bytes::from(text.clone()));
        let _ = secrets.learn("/x", &Bytes::from(json!(text).to_string()));
        secrets.remember(&text, Sort::Data);
        let _ = secrets.text(&text);
        let _ = secrets.url(&text);
        let _ = secrets.user_data(&text);
        let body = Bytes::from(json!({"password": text, "x": text}).to_string());
        let learnt = secrets.learn("/x", &body);
        let _ = secrets.body(learnt);
    }

    /// Proves
    #[test]
    fn whatever_a_tenant_calls_a_secret_programs_go_by_the_same_and_another_call_does_not_know_of_it(
        word in prop_oneof![
            of(&["v1alpha1", "region.unikorn-cloud.org/v1alpha1", "Server", "securitygroups", "ACTIVE", "region-a", "/compute/v2.1"])
                .prop_map(str::to_owned),
            "[a-z0-9/._-]{6,20}",
            "[a-z]{3,9}-[0-9]{3,6}",
        ],
        plant in tenants(),
        place in of(&["kind", "id", "network_id", "networkID", "name", "status", "href", "resourceVersion", "host_name"]),
        before in "[a-z]{0,3}",
    ) {
        let structure = json!({"apiVersion": "v1", place: format!("{before}{word}"), "list": [{place: word}]});
        let url = format!("/apis/{word}?name={word}");
        let bodies = [planted(&word, plant), structure.clone()].map(|value| Bytes::from(value.to_string()));
        let mut secrets = Secrets::new(Key([1; 32]));
        secrets.begin();
        let learnt: Vec<Learnt<'_>> = bodies.iter().map(|body| secrets.learn("/x", body)).collect();
        for learnt in &learnt {
            secrets.publish(&url, learnt);
        }
        prop_assert_eq!(secrets.url(&url), url);
        let left = learnt.into_iter().filter_map(|learnt| secrets.body(learnt)).next_back();
        let Some(Body::Json(left)) = left else { panic!("a JSON body is kept") };
        prop_assert_eq!(serde_json::from_str::<Value>(left.get()).unwrap(), structure);
        // Our own functions say of it what they go by.
        let message = format!("{word} is not there");
        prop_assert_eq!(secrets.text(&message), message.as_str());
        secrets.begin();
        let message = format!("a text with {word} in it");
        prop_assert_eq!(secrets.text(&message), message.as_str());
    }
}
