#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::cloud_config::{FILENAME, trusting};
use super::*;
use crate::authority::PublicKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::Value;
use weir_api::user_data::{MOST_PARTS, Payload};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti ca@example.com";

fn managed() -> Managed {
    trusting(&PublicKey::parse(KEY).unwrap())
}

fn cases(table: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(table).unwrap()["cases"].as_array().unwrap().clone()
}

/// A multipart as a reader that knows nothing of the writer sees it: of each part the headers and the body.
fn read(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let head = String::from_utf8(data[..data.len().min(200)].to_vec()).unwrap();
    assert!(head.contains("MIME-Version: 1.0\r\n"), "cloud-init looks for it near the beginning");
    let boundary = head.split_once("boundary=\"").unwrap().1.split_once('"').unwrap().0.to_owned();
    let separator = format!("\r\n--{boundary}").into_bytes();
    let mut at: Vec<usize> = (0..data.len()).filter(|i| data[*i..].starts_with(&separator)).collect();
    let last = at.pop().unwrap();
    assert!(data[last..].starts_with(format!("\r\n--{boundary}--\r\n").as_bytes()), "the last one closes");
    at.push(last);
    at.windows(2)
        .map(|pair| {
            let part = &data[pair[0] + separator.len() + 2..pair[1]];
            let end = (0..part.len())
                .find(|i| part[*i..].starts_with(b"\r\n\r\n") || part[*i..].starts_with(b"\n\n"))
                .unwrap();
            let skip = if part[end] == b'\r' { 4 } else { 2 };
            (String::from_utf8(part[..end].to_vec()).unwrap(), part[end + skip..].to_vec())
        })
        .collect()
}

/// Proves: SSH-3
#[test]
fn a_payload_is_known_by_its_first_line_as_the_table_says() {
    for case in cases(include_str!("../../tests/tables/user_data_content_type.json")) {
        let line = case["input"]["firstLine"].as_str().unwrap();
        let found = Payload::of(format!("{line}\nrest").as_bytes()).map(Payload::content_type);
        let expected = match case["expect"]["contentType"].as_str() {
            // The predecessor's word, under which cloud-init would pass a template over.
            Some("text/jinja") => Some("text/jinja2"),
            expected => expected,
        };
        assert_eq!(found, expected, "{line}");
    }
    // What the table leaves out.
    for (text, expected) in [
        ("#cloud-config-jsonp\n[]", Some("text/cloud-config-jsonp")),
        ("#include-once\nhttps://example.com", Some("text/x-include-once-url")),
        ("#Cloud-Config\n", Some("text/cloud-config")),
        ("\n\n  #cloud-config\n", Some("text/cloud-config")),
        ("#cloud-confi", None),
        ("# cloud-config", None),
        ("#", None),
        ("", None),
        ("\u{feff}#cloud-config", None),
    ] {
        assert_eq!(Payload::of(text.as_bytes()).map(Payload::content_type), expected, "{text:?}");
    }
}

/// Proves: SSH-3
#[test]
fn what_cloud_init_would_not_know_is_refused_as_the_table_says() {
    for case in cases(include_str!("../../tests/tables/user_data.json")) {
        let input = &case["input"];
        if !input["service"].is_null() {
            continue; // The predecessor's REST interface.
        }
        let data = match (input["userData"].as_str(), input["userDataHex"].as_str()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some("1f8b0800")) => vec![0x1f, 0x8b, 8, 0],
            other => panic!("{other:?}"),
        };
        let result = merge(&data, None);
        assert_eq!(result.is_ok(), case["expect"]["valid"].as_bool().unwrap(), "{}: {result:?}", case["case"]);
        match result {
            Ok(passed) => assert_eq!(passed.unwrap_or_default(), data, "{}: passed on as it is", case["case"]),
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with(case["expect"]["prefix"].as_str().unwrap()), "{message}");
                assert!(message.contains(case["expect"]["contains"].as_str().unwrap()), "{message}");
            }
        }
    }
}

/// Proves: SSH-2, SSH-3
#[test]
fn a_certificate_authority_is_added_as_the_table_says() {
    for case in cases(include_str!("../../tests/tables/ssh_ca_cloud_init.json")) {
        let user = case["input"]["userData"].as_str().unwrap().as_bytes();
        let part = case["input"]["ca"].as_bool().unwrap().then(managed);
        let data = merge(user, part.as_ref()).unwrap().unwrap_or_default();
        let expect = &case["expect"];
        if let Some(expected) = expect["userData"].as_str() {
            assert_eq!(data, expected.as_bytes(), "{}", case["case"]);
        } else if let Some(parts) = expect["parts"].as_array() {
            let found = read(&data);
            assert_eq!(found.len(), parts.len(), "{}", case["case"]);
            for (found, expected) in found.iter().zip(parts) {
                let (kind, whose) =
                    expected.as_str().unwrap().split_once(' ').unwrap_or((expected.as_str().unwrap(), ""));
                assert!(found.0.contains(&format!("Content-Type: {kind}")), "{}", found.0);
                match whose {
                    "(verbatim user)" => assert_eq!(found.1, user),
                    "(managed)" => {
                        assert!(found.0.contains(&format!("filename=\"{FILENAME}\"")), "{}", found.0);
                        assert_eq!(found.1, managed().cloud_config.as_bytes());
                    }
                    _ => assert_eq!(found.1, b"#!/bin/sh\necho hello"),
                }
            }
        } else {
            let text = String::from_utf8(data).unwrap();
            assert!(text.starts_with("#cloud-config\n"));
            for wanted in expect["contains"].as_array().unwrap() {
                assert!(text.contains(&wanted.as_str().unwrap().replace("<public key>", KEY)), "{wanted}");
            }
        }
    }
}

/// Proves: SSH-2
#[test]
fn the_managed_part_writes_the_two_files_and_reloads_sshd() {
    let config: Value = serde_yaml_ng::from_str(&managed().cloud_config).unwrap();
    let files = config["write_files"].as_array().unwrap();
    let told = |at: usize| (files[at]["path"].as_str().unwrap(), files[at]["content"].as_str().unwrap().to_owned());
    assert_eq!(told(0), ("/etc/ssh/trusted-user-ca-keys.pub", format!("{KEY}\n")));
    assert_eq!(
        told(1),
        (
            "/etc/ssh/sshd_config.d/90-unikorn-trusted-user-ca.conf",
            "TrustedUserCAKeys /etc/ssh/trusted-user-ca-keys.pub\n".to_owned()
        )
    );
    for file in files {
        assert_eq!((file["permissions"].as_str(), file["owner"].as_str()), (Some("0644"), Some("root:root")));
    }
    let command = config["runcmd"][0].as_array().unwrap();
    assert_eq!((command.len(), &command[0], &command[1]), (3, &Value::from("sh"), &Value::from("-c")));
    let attempts: Vec<_> = command[2].as_str().unwrap().split("||").map(str::trim).collect();
    let position = |wanted: &str| attempts.iter().position(|attempt| *attempt == wanted).expect(wanted);
    for service in ["ssh", "sshd"] {
        assert!(position(&format!("systemctl reload {service}")) < position(&format!("systemctl restart {service}")));
        assert!(position(&format!("service {service} reload")) < position(&format!("service {service} restart")));
    }
    // Without this the managed lists would replace those of the user's own cloud-config.
    assert_eq!(config["merge_how"], "list(append)+dict(no_replace,recurse_list)+str()");
}

/// Proves: SSH-3
#[test]
fn a_multiparts_parts_keep_their_order_and_headers() {
    let user = "MIME-Version: 1.0\nX-Note: kept\n by folding\ncontent-type: multipart/mixed;\n\tcharset=x; boundary=\"a \\\"b\"\n\n\
        a preamble, dropped\n--a \"b\nContent-Type: text/x-shellscript\nX-Merge-Type: list(append)\n\n#!/bin/sh\n\n\
        --a \"b  \nContent-Type: multipart/mixed; boundary=a\n\n--a\n\ninner\n--a--\n--a \"bc\n--a \"b\n\nno headers\n--a \"b--\nan epilogue";
    let data = merge(user.as_bytes(), Some(&managed())).unwrap().unwrap();
    let Format::Multipart(multipart) = format(&data).unwrap() else { panic!("no multipart") };
    let parts: Vec<_> = multipart.parts.iter().map(|part| String::from_utf8(part.to_vec()).unwrap()).collect();
    assert_eq!(parts[0], "Content-Type: text/x-shellscript\nX-Merge-Type: list(append)\n\n#!/bin/sh\n");
    assert_eq!(parts[1], "Content-Type: multipart/mixed; boundary=a\n\n--a\n\ninner\n--a--\n--a \"bc");
    assert_eq!(parts[2], "\nno headers");
    assert!(parts[3].contains(FILENAME));
    assert_eq!(parts.len(), 4);
}

/// Proves: SSH-3
#[test]
fn compressed_data_is_passed_on_but_not_added_to() {
    let data = [0x1f, 0x8b, 8, 0, 1, 2];
    assert_eq!(merge(&data, None).unwrap().unwrap(), data);
    assert_eq!(merge(&data, Some(&managed())), Err(Error::Compressed));
}

/// Proves: SSH-3
#[test]
fn bytes_beyond_ascii_survive_the_multipart() {
    let user = "#cloud-config\nfqdn: bücher.example\n".as_bytes();
    let data = merge(user, Some(&managed())).unwrap().unwrap();
    let (headers, body) = &read(&data)[0];
    assert!(headers.contains("Content-Transfer-Encoding: base64"), "{headers}");
    assert!(data.is_ascii());
    let text: String = String::from_utf8(body.clone()).unwrap().split_whitespace().collect();
    assert_eq!(STANDARD.decode(text).unwrap(), user);
}

/// Proves: SSH-4
#[test]
fn the_limit_counts_what_nova_will_be_sent() {
    // 49,149 bytes are 65,532 of base64; one more is 65,536.
    let data = |bytes: usize| format!("#cloud-config\n{}", "#".repeat(bytes - 14)).into_bytes();
    assert!(merge(&data(49_149), None).is_ok());
    assert_eq!(merge(&data(49_150), None), Err(Error::TooLong(65_536)));
    let Err(Error::TooLong(length)) = merge(&data(49_149), Some(&managed())) else { panic!("accepted") };
    assert!(length > LIMIT);
    let room = 49_149 - (merge(&data(20), Some(&managed())).unwrap().unwrap().len() - 20);
    let data = merge(&data(room), Some(&managed())).unwrap().unwrap();
    assert_eq!(STANDARD.encode(data).len(), 65_532);
}

#[test]
fn a_boundary_that_occurs_in_the_data_is_not_used() {
    let user = b"#!/bin/sh\ncat <<END\n--==weir-part==\n--==weir-part-1==\nEND\n";
    let data = merge(user, Some(&managed())).unwrap().unwrap();
    let parts = read(&data);
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0].1, user);
}

#[test]
fn a_multipart_of_too_many_parts_is_refused() {
    let parts = |count: usize| {
        let head = "Content-Type: multipart/mixed; boundary=b\n\n";
        format!("{head}{}--b--\n", "--b\n\n\n".repeat(count))
    };
    assert!(merge(parts(MOST_PARTS).as_bytes(), None).is_ok());
    assert_eq!(merge(parts(MOST_PARTS + 1).as_bytes(), None), Err(Error::Malformed(Malformed::Parts)));
}

/// Text in which the marks of MIME are likely.
fn mime_like() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"Content-Type: multipart/mixed; boundary=\"b\"".to_vec()),
        Just(b"content-type: multipart/x;boundary=b;".to_vec()),
        Just(b"MIME-Version: 1.0".to_vec()),
        Just(b"--b".to_vec()),
        Just(b"--b--".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\"\\".to_vec()),
        Just(b": ".to_vec()),
        Just(b"#cloud-config".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

proptest! {
    /// Proves: SSH-3
    #[test]
    fn merging_never_panics_and_the_managed_part_is_last(data in mime_like()) {
        let _ = merge(&data, None);
        if let Ok(Some(merged)) = merge(&data, Some(&managed())) {
            match format(&merged) {
                Ok(Format::Multipart(multipart)) => {
                    let last = multipart.parts.last().unwrap();
                    prop_assert!(last.ends_with(managed().cloud_config.as_bytes()));
                }
                Ok(Format::Single(Payload::CloudConfig)) => prop_assert!(data.is_empty()),
                _ => prop_assert!(false, "what was written cannot be read"),
            }
        }
    }

    /// Proves: SSH-3
    #[test]
    fn parts_come_back_byte_for_byte(
        mut bodies in proptest::collection::vec(proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'-'), any::<u8>()], 0..60), 0..6),
        crlf in any::<bool>(),
    ) {
        let end: &[u8] = if crlf { b"\r\n" } else { b"\n" };
        let mut user = [b"MIME-Version: 1.0", end, b"Content-Type: multipart/mixed; boundary=0123456789abcdef", end, end].concat();
        for body in &mut bodies {
            // Before a bare line feed it would be half of a line end.
            while !crlf && body.last() == Some(&b'\r') {
                body.pop();
            }
            user.extend([b"--0123456789abcdef", end, b"Content-Type: text/x-shellscript", end, end, body.as_slice(), end].concat());
        }
        user.extend([b"--0123456789abcdef--", end].concat());
        let merged = merge(&user, Some(&managed())).unwrap().unwrap();
        let Format::Multipart(multipart) = format(&merged).unwrap() else { panic!("no multipart") };
        prop_assert_eq!(multipart.parts.len(), bodies.len() + 1);
        for (part, body) in multipart.parts.iter().zip(&bodies) {
            let expected = [b"Content-Type: text/x-shellscript", end, end, body.as_slice()].concat();
            prop_assert_eq!(*part, expected.as_slice());
        }
    }

    /// Proves: SSH-3
    #[test]
    fn a_single_payload_comes_back_byte_for_byte(body in "[ -~\r\n\t]{0,200}") {
        let user = format!("#!/bin/sh\n{body}");
        let merged = merge(user.as_bytes(), Some(&managed())).unwrap().unwrap();
        let parts = read(&merged);
        prop_assert_eq!(&parts[0].1, user.as_bytes());
    }
}
