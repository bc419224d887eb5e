//! What stands for user data in a recording is judged as the user data is: a call that runs again decides the same.
#![allow(clippy::unwrap_used, clippy::panic)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};
use weir_api::user_data::MOST_PARTS;
use weir_function_runtime::record::redact::{Key, Secrets};
use weir_messages::recording::Body;

use super::{Error, Managed, merge};

const SECRET: &str = "hunter2-of-horse";

/// What stands for user data in a recording.
fn recorded(given: &Value) -> Value {
    let mut secrets = Secrets::new(Key::random());
    let body = json!({"spec": {"userData": given}}).to_string().into();
    let learnt = secrets.learn("/apis/x/servers/y", &body);
    let Some(Body::Json(left)) = secrets.body(learnt) else { panic!("a JSON body is kept") };
    serde_json::from_str::<Value>(left.get()).unwrap()["spec"]["userData"].clone()
}

/// What becomes of user data, apart from what it says: an error, or so many bytes, if they decide anything.
fn judged(data: &[u8]) -> [Result<Option<usize>, Error>; 2] {
    let managed = Managed { filename: "ours", cloud_config: format!("#cloud-config\n# {}\n", "x".repeat(900)) };
    let close = |merged: Option<Vec<u8>>| merged.map(|merged| merged.len()).filter(|bytes| *bytes > 44_000);
    [merge(data, None).map(close), merge(data, Some(&managed)).map(close)]
}

/// Checks all that is asked of what stands for `data`.
fn check(data: &[u8]) -> Result<(), String> {
    let given = json!(STANDARD.encode(data));
    let once = recorded(&given);
    let stands_in = STANDARD.decode(once.as_str().unwrap()).map_err(|error| error.to_string())?;
    let (one, other) = (judged(data), judged(&stands_in));
    if one != other {
        return Err(format!("{one:?} became {other:?}: {}", stands_in[..stands_in.len().min(300)].escape_ascii()));
    }
    if recorded(&once) != once {
        return Err(format!("what stands for it does not stand for itself: {}", stands_in.escape_ascii()));
    }
    let secret = SECRET.as_bytes();
    if stands_in.windows(secret.len()).any(|part| part == secret) {
        return Err(format!("it holds a secret: {}", stands_in.escape_ascii()));
    }
    Ok(())
}

fn long(begin: &str, bytes: usize) -> Vec<u8> {
    let mut data = format!("{begin}\n# {SECRET}\n").into_bytes();
    data.resize(bytes, b'#');
    data
}

/// Proves: R-2, R-3
#[test]
fn what_stands_for_user_data_is_judged_as_the_user_data_is() {
    let multipart = |head: &str, tail: &str| format!("{head}\n\n--X\n\n#!/bin/sh\n# {SECRET}\n{tail}").into_bytes();
    let mixed = "Content-Type: multipart/mixed; boundary=\"X\"\nMIME-Version: 1.0";
    let parts = |many: usize, part: &str| {
        format!("Content-Type: multipart/mixed; boundary=X\n\n{}--X--", part.repeat(many)).into_bytes()
    };
    let mut latin = long("#!/bin/sh", 60);
    latin.extend([0xe9, 0xff]);
    let mut cases = vec![
        latin.clone(),
        [&b"Subject: x\n"[..], &latin[..]].concat(),
        multipart(mixed, "--X--\n"),
        multipart(mixed, ""),
        multipart(mixed, "--X-"),
        [&multipart(mixed, "")[..], &[0xe9][..], &b"\n--X--\n"[..]].concat(),
        multipart("Content-Type: multipart/mixed\nMIME-Version: 1.0", "--X--\n"),
        multipart("Content-Type: multipart/mixed; boundary=", "--X--\n"),
        multipart(&format!("From: me@x\n{mixed}"), "--X--\n"),
        multipart(&format!("{mixed}\nno header"), "--X--\n"),
        multipart("Content-Type: text/cloud-config\nMIME-Version: 1.0", ""),
        format!("a: {SECRET}\nno header").into_bytes(),
        format!("\u{a0}#cloud-config\n{SECRET}").into_bytes(),
        format!("\u{feff}#cloud-config\n{SECRET}").into_bytes(),
        format!("\x0b#!/bin/sh\n{SECRET}").into_bytes(),
        format!("\x0c #!/bin/sh\n{SECRET}").into_bytes(),
        format!("\n\n #CLOUD-Config\n{SECRET}").into_bytes(),
        b"   \n".to_vec(),
        b"#!".to_vec(),
        b"#cloud-confi".to_vec(),
        [&[0x1f, 0x8b][..], SECRET.as_bytes()].concat(),
        [&[0x1f, 0x8b, 8][..], &long("", 60_000)[..]].concat(),
        [&b"\0\x01"[..], SECRET.as_bytes()].concat(),
        parts(MOST_PARTS, "--X\n"),
        parts(MOST_PARTS + 1, "--X\n"),
        parts(MOST_PARTS, "--X\n\nabcdefghijklmnopqrstuvwxyz\n"),
        parts(MOST_PARTS, "--X\n\nabcdefghijklmnopqrstu\n"),
        parts(MOST_PARTS, "--X\r\n\r\nabcdefghijklmnopqrstuvwxyz and so on\r\n"),
        parts(3, &format!("--X\n\n{SECRET}{}\n", "é".repeat(4000))),
    ];
    let long_ones = [24_577, 36_000, 48_200, 49_150];
    for (begin, sizes) in [
        ("#cloud-config-archive", &[200][..]),
        ("#cloud-config-jsonp", &[200]),
        ("#cloud-boothook", &[200]),
        ("#include", &[200]),
        ("#include-once", &[200]),
        ("#part-handler", &[200]),
        ("## template: jinja", &[200]),
        ("#cloud-config", &long_ones),
        ("#!/usr/bin/python3", &long_ones),
        ("echo", &long_ones[2..]),
        ("a: b\nno header", &long_ones[2..]),
        (mixed, &long_ones[2..]),
    ] {
        for bytes in sizes {
            let mut data = long(begin, *bytes);
            cases.push(data.clone());
            data[bytes - 2..].copy_from_slice(&[0xe9, b'x']);
            cases.push(data);
        }
    }
    for data in cases {
        if let Err(why) = check(&data) {
            panic!("{:?}…: {why}", data[..data.len().min(120)].escape_ascii().to_string());
        }
    }
}

/// Proves: R-3
#[test]
fn what_is_not_base64_is_replaced_by_what_is_none() {
    for given in ["not base64!", "IyEvYmluL3No IA==", "IyEvYmluL3N-"] {
        let once = recorded(&json!(given));
        assert!(serde_json::from_value::<weir_api::crd::Base64>(once.clone()).is_err(), "{once}");
        assert_eq!(recorded(&once), once);
    }
    for given in ["", "\n", "IyEvYmlu\nL3NoCg==\n"] {
        let once: weir_api::crd::Base64 = serde_json::from_value(recorded(&json!(given))).unwrap();
        let before: weir_api::crd::Base64 = serde_json::from_value(json!(given)).unwrap();
        assert_eq!(judged(once.as_bytes()), judged(before.as_bytes()));
    }
}

/// Data in which all that is looked at is likely.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"Content-Type: multipart/mixed; boundary=\"b\"".to_vec()),
        Just(b"content-type: multipart/x;boundary=b;".to_vec()),
        Just(b"Content-Type: text/plain".to_vec()),
        Just(b"MIME-Version: 1.0".to_vec()),
        Just(b"--b".to_vec()),
        Just(b"--b--".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\n\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b": ".to_vec()),
        Just(b"#cloud-config".to_vec()),
        Just(b"#!".to_vec()),
        Just(vec![0x1f, 0x8b]),
        Just(SECRET.as_bytes().to_vec()),
        Just(vec![b'x'; 24_500]),
        proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(token, 0..14).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Proves: R-2, R-3
    #[test]
    fn whatever_user_data_is_what_stands_for_it_is_judged_alike(data in data()) {
        prop_assert_eq!(check(&data), Ok(()));
    }
}
