//! What goes through a proxy. The environment is that of a whole process, so each request here is made by a process of its
//! own: this test program again.

use crate::get;
use crate::server::{Authority, encrypted, head, plain};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use weir_openstack::Tls;

/// A proxy that lets everybody through, or nobody, and keeps the heads of what it was asked.
struct Proxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    async fn start(open: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), heads: Arc::default() };
        let heads = proxy.heads.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(pass(socket, heads.clone(), open));
            }
        });
        proxy
    }

    /// The first lines of what it was asked since the last time.
    fn asked(&self) -> Vec<String> {
        let heads = std::mem::take(&mut *self.heads.lock().unwrap());
        heads.iter().map(|head| head.lines().next().unwrap_or_default().to_owned()).collect()
    }
}

async fn pass(mut client: TcpStream, heads: Arc<Mutex<Vec<String>>>, open: bool) {
    let head = head(&mut client).await;
    let mut words = head.split(' ').map(str::to_owned);
    heads.lock().unwrap().push(head.clone());
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if !open {
        let _ = client.write_all(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n").await;
        return;
    }
    let host = target.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
    let Ok(mut server) = TcpStream::connect(&host).await else { return };
    if method == "CONNECT" {
        let _ = client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await;
    } else {
        let path = target.trim_start_matches("http://").trim_start_matches(&host).to_owned();
        let _ = server.write_all(head.replacen(&target, &path, 1).as_bytes()).await;
    }
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

/// What a process with these variables gets from `url`.
async fn in_environment(variables: &[(&str, &str)], url: &str, bundle: &str) -> String {
    let mut process = tokio::process::Command::new(std::env::current_exe().unwrap());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        process.env_remove(name).env_remove(name.to_lowercase());
    }
    process.args(["--exact", "proxy::a_request_in_an_environment_of_its_own", "--ignored", "--nocapture"]);
    process.envs(variables.iter().copied()).env("WEIR_TEST_URL", url).env("WEIR_TEST_BUNDLE", bundle);
    let output = process.stdin(Stdio::null()).output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answer = text.split_once("ANSWER<").and_then(|(_, rest)| rest.split_once(">REWSNA"));
    answer.unwrap_or_else(|| panic!("no answer in {text}")).0.to_owned()
}

#[tokio::test]
#[ignore = "the tests below run it, each in an environment of its own"]
async fn a_request_in_an_environment_of_its_own() {
    let variable = |name| std::env::var(name).expect("the tests below set it");
    let bundle = variable("WEIR_TEST_BUNDLE");
    let tls = Tls { ca_bundle: (!bundle.is_empty()).then(|| bundle.into_bytes()), insecure: false };
    match get(&tls, &variable("WEIR_TEST_URL")).await {
        Ok(answer) => println!("ANSWER<{answer}>REWSNA"),
        Err(error) => println!("ANSWER<{error} {error:?}>REWSNA"),
    }
}

/// Proves: OSC-12, OSC-13
#[tokio::test]
async fn an_encrypted_request_goes_through_the_proxy_unread() {
    let authority = Authority::new("ours");
    let server = encrypted(&authority.vouch(&["127.0.0.1"], (2020, 4000))).await;
    let proxy = Proxy::start(true).await;
    let (url, via) = (format!("https://{server}/"), format!("http://{}", proxy.address));
    for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        assert_eq!(in_environment(&[(variable, &via)], &url, &authority.pem).await, "200 ok", "{variable}");
        assert!(!proxy.heads.lock().unwrap().concat().contains("SECRET-TOKEN"));
        assert_eq!(proxy.asked(), [format!("CONNECT {server} HTTP/1.1")], "{variable}");
    }
    // A proxy vouches for nobody.
    let answer = in_environment(&[("HTTPS_PROXY", &via)], &url, &Authority::new("other").pem).await;
    assert!(answer.contains("UnknownIssuer"), "{answer}");
}

/// Proves: OSC-12
#[tokio::test]
async fn a_plain_request_goes_through_its_own_proxy() {
    let server = plain().await;
    let proxy = Proxy::start(true).await;
    let (url, via) = (format!("http://{server}/v3"), format!("http://{}", proxy.address));
    for variable in ["HTTP_PROXY", "http_proxy"] {
        assert_eq!(in_environment(&[(variable, &via)], &url, "").await, "200 ok", "{variable}");
        assert_eq!(proxy.asked(), [format!("GET {url} HTTP/1.1")], "{variable}");
    }
    assert_eq!(in_environment(&[("HTTPS_PROXY", &via)], &url, "").await, "200 ok");
    assert_eq!(proxy.asked(), [""; 0], "that is for encrypted ones");
}

/// Proves: OSC-12
#[tokio::test]
async fn what_needs_no_proxy_goes_directly() {
    let server = plain().await;
    let proxy = Proxy::start(true).await;
    let (url, via) = (format!("http://{server}/"), format!("http://{}", proxy.address));
    for (exempt, direct) in [
        ("127.0.0.1", true),
        ("example.com, 127.0.0.1", true),
        ("127.0.0.0/8", true),
        ("*", true),
        ("example.com", false),
        ("10.0.0.0/8", false),
        ("", false),
    ] {
        let variables = [("HTTP_PROXY", via.as_str()), ("NO_PROXY", exempt)];
        assert_eq!(in_environment(&variables, &url, "").await, "200 ok", "{exempt}");
        assert_eq!(proxy.asked().is_empty(), direct, "{exempt}");
    }
}

/// Proves: OSC-12, OSC-13
#[tokio::test]
async fn a_proxy_s_password_is_sent_to_it_and_told_to_nobody() {
    let authority = Authority::new("ours");
    let server = encrypted(&authority.vouch(&["127.0.0.1"], (2020, 4000))).await;
    let (open, closed) = (Proxy::start(true).await, Proxy::start(false).await);
    let url = format!("https://{server}/");
    let via = |address: SocketAddr| format!("http://weir:hunter2@{address}");
    assert_eq!(in_environment(&[("HTTPS_PROXY", &via(open.address))], &url, &authority.pem).await, "200 ok");
    let expected = format!("basic {}", STANDARD.encode("weir:hunter2")).to_lowercase();
    let heads = open.heads.lock().unwrap().concat().to_lowercase();
    assert!(heads.contains(&format!("proxy-authorization: {expected}")), "{heads}");
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for address in [closed.address, free] {
        let answer = in_environment(&[("HTTPS_PROXY", &via(address))], &url, &authority.pem).await;
        assert!(answer.contains("Connect("), "{answer}");
        assert!(!answer.contains("hunter2") && !answer.contains(&expected), "{answer}");
    }
}
