//! Glance.

use std::time::Duration;

use serde_json::{Value, json};
use weir_openstack_sim::Config;

use crate::client::{Caller, Cloud, id};

const IMAGES: &str = "/image/v2/images";

async fn create(caller: &Caller, name: &str) -> String {
    let body = json!({"name": name, "disk_format": "raw", "container_format": "bare", "unikorn:os:kernel": "linux"});
    let answer = caller.post(IMAGES, body).await.expect(201);
    assert_eq!(answer["status"], "queued");
    answer["id"].as_str().unwrap().to_owned()
}

async fn patch(caller: &Caller, id: &str, operations: Value) -> crate::client::Answer {
    let headers = [("content-type", "application/openstack-images-v2.1-json-patch")];
    caller.send("PATCH", &format!("{IMAGES}/{id}"), Some(&operations), &headers).await
}

#[tokio::test]
async fn an_image_is_filled_once_changed_by_patch_and_deleted() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let caller = &tenant.member;
    let id = create(caller, "mine").await;
    let file = format!("{IMAGES}/{id}/file");
    let headers = [
        ("x-auth-token", caller.token.as_str()),
        ("content-type", "application/octet-stream"),
        ("accept", "application/json"),
    ];
    let upload = || cloud.http.raw("PUT", &file, &headers, b"some bytes".to_vec());
    assert_eq!(upload().await.unwrap().status, 204);
    let image = caller.get(&format!("{IMAGES}/{id}")).await.expect(200);
    assert_eq!(
        (&image["status"], &image["size"], &image["os_hash_algo"]),
        (&json!("active"), &json!(10), &json!("sha512"))
    );
    assert_eq!(image["os_hash_value"].as_str().unwrap().len(), 128);
    let second = upload().await.unwrap();
    assert_eq!(second.status, 409);
    assert_eq!(
        second.json,
        json!({
            "message": "Image status transition from active to saving is not allowed<br /><br />\n\n\n",
            "code": "409 Conflict",
            "title": "Conflict",
        })
    );
    let operations = json!([
        {"op": "replace", "path": "/name", "value": "renamed"},
        {"op": "add", "path": "/unikorn:os:family", "value": "debian"},
        {"op": "remove", "path": "/unikorn:os:kernel"},
    ]);
    let changed = patch(caller, &id, operations).await.expect(200);
    assert_eq!((&changed["name"], &changed["unikorn:os:family"]), (&json!("renamed"), &json!("debian")));
    assert!(changed.get("unikorn:os:kernel").is_none());
    for (operations, status) in [
        (json!([{"op": "replace", "path": "/status", "value": "active"}]), 403),
        (json!([{"op": "replace", "path": "/nosuch", "value": "x"}]), 409),
        (json!([{"op": "replace", "path": "/visibility", "value": "public"}]), 403),
        (json!([{"op": "move", "path": "/name"}]), 400),
    ] {
        assert_eq!(patch(caller, &id, operations.clone()).await.status, status, "{operations}");
    }
    let public = json!([{"op": "replace", "path": "/visibility", "value": "public"}]);
    assert_eq!(patch(&tenant.manager, &id, public).await.expect(200)["visibility"], "public");
    patch(caller, &id, json!([{"op": "replace", "path": "/protected", "value": true}])).await.expect(200);
    caller.delete(&format!("{IMAGES}/{id}")).await.expect(403);
    patch(caller, &id, json!([{"op": "replace", "path": "/protected", "value": false}])).await.expect(200);
    caller.delete(&format!("{IMAGES}/{id}")).await.expect(204);
    let gone = caller.get(&format!("{IMAGES}/{id}")).await.expect(404);
    assert_eq!(gone["message"], format!("No image found with ID {id}<br /><br />\n\n\n"));
}

#[tokio::test]
async fn lists_filter_exactly_by_any_property_and_page_by_next() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let other = cloud.tenant("two").await;
    for name in ["web", "web2", "we.b", "WEB"] {
        create(&tenant.member, name).await;
    }
    for (query, wanted) in [
        ("name=web", vec!["WEB", "web"]),
        ("name=we", vec![]),
        ("name=in:web2,we.b", vec!["we.b", "web2"]),
        ("nosuch=1", vec![]),
        ("visibility=shared&unikorn:os:kernel=linux", vec!["WEB", "we.b", "web", "web2"]),
        ("visibility=public&unikorn:os:distro=debian", vec!["sim-debian-13"]),
        ("visibility=private", vec![]),
    ] {
        let mut names = tenant.member.names(&format!("{IMAGES}?{query}")).await;
        names.sort();
        assert_eq!(names, wanted, "{query}");
    }
    assert!(
        other.member.names(&format!("{IMAGES}?name=web")).await.is_empty(),
        "another project's images are not listed"
    );
    let mut path = format!("{IMAGES}?limit=3&sort=name:asc");
    let mut pages = Vec::new();
    loop {
        let page = tenant.member.get(&path).await.expect(200);
        pages.push(page["images"].as_array().unwrap().len());
        match page["next"].as_str() {
            Some(next) => path = format!("/image{next}"),
            None => break,
        }
    }
    assert_eq!(pages, [3, 3, 2]);
    tenant.member.get(&format!("{IMAGES}?marker=nosuch")).await.expect(400);
}

#[tokio::test]
async fn errors_are_html_unless_json_is_accepted() {
    let cloud = Cloud::start().await;
    let tenant = cloud.tenant("one").await;
    let path = format!("{IMAGES}/79694335-01cc-48c9-b8d7-cfa8fe3b28a4");
    let html = cloud.http.raw("GET", &path, &[("x-auth-token", &tenant.member.token)], Vec::new()).await.unwrap();
    assert_eq!(html.status, 404);
    assert!(html.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(html.text.contains("<h1>404 Not Found</h1>"));
    let stranger = cloud.http.raw("GET", IMAGES, &[("accept", "application/json")], Vec::new()).await.unwrap();
    assert_eq!((stranger.status, &stranger.json["code"]), (401, &json!("401 Unauthorized")));
    let bad = tenant.member.post(IMAGES, json!({"disk_format": "nosuch"})).await.expect(400);
    assert!(
        bad["message"]
            .as_str()
            .unwrap()
            .starts_with("Provided object does not match schema 'image': 'nosuch' is not one of")
    );
}

#[tokio::test]
async fn an_import_takes_its_time() {
    let cloud = Cloud::with(Config { build: Duration::from_secs(10), ..Config::default() }).await;
    let tenant = cloud.tenant("one").await;
    cloud.sim.freeze();
    let image = create(&tenant.member, "imported").await;
    let path = format!("{IMAGES}/{image}");
    let body = json!({"method": {"name": "web-download", "uri": "https://example.com/image.raw"}});
    tenant.member.post(&format!("{path}/import"), body.clone()).await.expect(202);
    assert_eq!(tenant.member.get(&path).await.expect(200)["status"], "importing");
    tenant.member.post(&format!("{path}/import"), body).await.expect(409);
    cloud.sim.advance(Duration::from_secs(10));
    assert_eq!(tenant.member.get(&path).await.expect(200)["status"], "active");
    let wired = crate::client::server_body(&cloud, "s", &json!("none"));
    let mut body = wired;
    body["server"]["imageRef"] = json!(image);
    id(&tenant.member.nova("POST", "/servers", Some(body)).await.expect(202), "server");
}
