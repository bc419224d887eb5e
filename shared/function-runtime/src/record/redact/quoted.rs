//! What tags and a cloud's errors quote: of user data, and of whatever else people write down.
#![allow(clippy::unwrap_used, clippy::panic)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;

/// What is recorded of a call that had these bodies.
fn recorded(bodies: &[Value]) -> Vec<String> {
    let mut secrets = Secrets::new(Key::random());
    let bodies: Vec<Bytes> = bodies.iter().map(|body| Bytes::from(body.to_string())).collect();
    let learnt: Vec<Learnt<'_>> = bodies.iter().map(|body| secrets.learn("/x", body)).collect();
    let kept = learnt.into_iter().map(|learnt| match secrets.body(learnt) {
        Some(Body::Json(left)) => left.get().to_owned(),
        other => panic!("{other:?}"),
    });
    kept.collect()
}

fn refused(message: &str) -> Value {
    json!({"badRequest": {"code": 400, "message": message}})
}

/// Proves: R-2
#[test]
fn what_a_cloud_quotes_of_user_data_goes_line_by_line_and_word_by_word() {
    let many = (0..200).map(|n| format!("k{n}_token: x{n:03}hunter2\n")).collect::<Vec<_>>().concat();
    for (data, quoted, secret) in [
        (b"#!/bin/bash\nexport DBX=Horse.Papaya\n".to_vec(), "bad line: export DBX=Horse.Papaya", "Horse.Papaya"),
        (b"#!/bin/bash\nexport DBX=Horse.Papaya\n".to_vec(), "bad word DBX=Horse.Papaya", "Horse.Papaya"),
        (b"#!/bin/sh\n  /opt/enrol.sh Horse-kiwi3f2a now\n".to_vec(), "'/opt/enrol.sh Horse-kiwi3f2a now'", "kiwi3f2a"),
        (b"#!/bin/sh\n# \xe9\npassword=hunter2it\n".to_vec(), "echoed hunter2it", "hunter2it"),
        (b"#!/bin/sh\n# \x1b[31m\nTOKEN=hunter2it\n".to_vec(), "echoed hunter2it", "hunter2it"),
        (
            format!("#cloud-config\n{many}").into_bytes(),
            "echoed x000hunter2, x064hunter2, x065hunter2, x199hunter2",
            "hunter2",
        ),
    ] {
        let left = recorded(&[json!({"server": {"user_data": STANDARD.encode(&data)}}), refused(quoted)]);
        assert!(!left[1].contains(secret) && left[1].contains(PLACEHOLDER), "{}", left[1]);
    }
    let data = STANDARD.encode("#cloud-config\nhostname: web-server-1\nexpire: false\npackages: [nginx]\n");
    let message = refused("server web-server-1: expire: false, #cloud-config, packages: [nginx]");
    assert_eq!(recorded(&[json!({"userData": data}), message.clone()])[1], message.to_string());
}

/// Proves: R-2
#[test]
fn a_script_is_user_data_wherever_it_stands() {
    for script in [
        "#!/bin/sh\nexport DBX=Horse.Papaya\n/opt/x Tulip-mango77\n",
        "#cloud-boothook\n/opt/x Horse.Papaya Tulip-mango77\n",
    ] {
        for given in [script.to_owned(), STANDARD.encode(script), json!({"run": script}).to_string()] {
            let left = recorded(&[json!({"metadata": {"annotations": {"example.com/run": given}}}), refused(script)]);
            for part in ["Horse.Papaya", "Tulip-mango77"] {
                let inside = left.iter().flat_map(|left| left.split('"')).filter_map(|word| STANDARD.decode(word).ok());
                let inside = inside.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                let all: Vec<String> = left.iter().cloned().chain(inside).collect();
                assert!(!all.iter().any(|text| text.contains(part)), "{part} in {all:?}");
            }
        }
    }
}

/// Proves
#[test]
fn secrets_of_telling_words_or_looks_go_from_tags_and_errors_and_what_stands_for_them_stays() {
    let (token, basic) = ("Zq9xW3vU7tS5rQ1pN8mK", STANDARD.encode("me:Zq9xW3vU7tS5rQ1pN8mK"));
    for text in [
        format!("sent Authorization: Bearer {token} to it"),
        format!("Basic {basic} is none"),
        format!("run --token {token} --debug"),
        format!("openstack --os-token {token}"),
        format!("--password {token}"),
        format!("curl -u admin:{token} http://h/"),
        format!("Token \"{token}\" not found"),
        format!("token {token} is expired"),
        format!("the password is {token}."),
        format!("Password for admin: {token}"),
        format!("machine h login me password {token}"),
        format!("password = \"\"\"{token}\"\"\""),
        format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{token}\n-----END PGP PRIVATE KEY BLOCK-----\n"),
        format!("PuTTY-User-Key-File-2: x\nPrivate-Lines: 1\n{token}\nPrivate-MAC: 00\n"),
        format!("AGE-SECRET-KEY-1{token}{token}"),
        format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{token}"),
        format!("ghp_{token}"),
        format!("of github_pat_{token}!"),
        format!("glpat-{token}"),
        format!("xoxb-{token}"),
        format!("AKIAIOSFODNN7EXAMPLE {token}{token}"),
        format!("Could not find gAAAAABm{token}{token}=="),
    ] {
        let bodies = [json!({"spec": {"tags": [{"name": "note", "value": text}]}}), refused(&text)];
        let left = recorded(&bodies);
        for left in &left {
            assert!(!left.contains(token) && !left.contains(&basic) && left.contains(PLACEHOLDER), "{left}");
            assert_eq!(
                &recorded(&[serde_json::from_str(left).unwrap()])[0],
                left,
                "what is recorded again stays as it is"
            );
        }
    }
}

/// Proves: R-3
#[test]
fn what_is_said_about_secrets_stays_to_the_byte() {
    for text in [
        "token expired",
        "The request you have made requires authentication: the token is expired.",
        "the password is required, and the password policy v2 wants 12 characters",
        "Invalid password or token; Basic authentication or a Bearer token",
        "the --password option must be set",
        "secrets \"region-credentials-1\" not found",
        "Access denied for user 'root'@'10.0.0.1' (using password: YES)",
        "eyJhbGciOiJIUzI1NiJ9",
        "ghp_short",
        "#!important",
        "# a heading\nand a text",
        "see https://example.com/docs/token_v2#password",
    ] {
        let message = refused(text);
        assert_eq!(recorded(std::slice::from_ref(&message))[0], message.to_string());
    }
}
