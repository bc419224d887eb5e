#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{Cloud, Reply};

fn page(key: &str, ids: &[&str], next: Option<&str>) -> Reply {
    let items: Vec<Value> = ids.iter().map(|id| json!({"id": id, "name": id, "network_id": "n"})).collect();
    let mut body = json!({ key: items });
    if let Some(next) = next {
        body[format!("{key}_links")] = json!([{"rel": "previous", "href": "x"}, {"rel": "next", "href": next}]);
    }
    Reply::Json(200, body)
}

async fn servers(cloud: &Cloud) -> Result<Vec<String>> {
    Ok(cloud.session().compute().servers().await?.into_iter().map(|server| server.id.into()).collect())
}

fn queries(cloud: &Cloud) -> Vec<String> {
    cloud
        .asked()
        .iter()
        .map(|asked| asked.url.split_once('?').map_or(String::new(), |(_, query)| query.to_owned()))
        .collect()
}

/// Proves: OSC-6
#[tokio::test(start_paused = true)]
async fn links_are_followed_by_their_query_and_never_to_another_host() {
    let cloud = Cloud::scripted([
        page("servers", &["a", "b"], Some("http://elsewhere.example:8774/v2.1/servers/detail?limit=2&marker=b")),
        page("servers", &["c"], None),
    ]);
    let session = cloud.session().with_page_size(2);
    assert_eq!(session.compute().servers().await.unwrap().len(), 3);
    let urls: Vec<String> = cloud.asked().into_iter().map(|asked| asked.url).collect();
    assert_eq!(
        urls,
        [
            "https://cloud.example/compute/v2.1/servers/detail?limit=2",
            "https://cloud.example/compute/v2.1/servers/detail?limit=2&marker=b",
        ]
    );
}

/// Proves: OSC-6
#[tokio::test(start_paused = true)]
async fn each_service_s_convention_is_followed_to_the_end() {
    let cloud = Cloud::scripted([
        Reply::Json(200, json!({"images": [{"id": "a"}], "next": "/v2/images?marker=a"})),
        Reply::Json(200, json!({"images": [{"id": "b"}]})),
        Reply::Json(200, json!({"roles": [{"id": "a"}], "links": {"next": "https://x/v3/roles?marker=a"}})),
        Reply::Json(200, json!({"roles": [{"id": "b"}], "links": {"next": null}})),
        Reply::Json(200, json!({"server_groups": [{"id": "a"}, {"id": "b"}]})),
        Reply::Json(200, json!({"server_groups": [{"id": "c"}]})),
        Reply::Json(200, json!({"server_groups": []})),
        page("security_groups", &["a"], Some("https://x/v2.0/security-groups?marker=a")),
        page("security_groups", &["b"], None),
    ]);
    let session = cloud.session();
    assert_eq!(session.image().images(&crate::image::ImageFilter::default()).await.unwrap().len(), 2);
    assert_eq!(session.identity().roles().await.unwrap().len(), 2);
    assert_eq!(session.compute().server_groups().await.unwrap().len(), 3);
    assert_eq!(session.network().security_groups().await.unwrap().len(), 2);
    assert_eq!(
        queries(&cloud),
        ["", "marker=a", "", "marker=a", "", "offset=2", "offset=3", "project_id=p1", "marker=a",]
    );
}

/// Proves: OSC-6
#[tokio::test(start_paused = true)]
async fn a_page_that_is_answered_twice_neither_loses_nor_doubles_anything() {
    let cloud = Cloud::scripted([
        page("servers", &["a", "b"], Some("?marker=b")),
        page("servers", &["a", "b"], Some("?marker=b")),
        page("servers", &["c", "d"], Some("?marker=d")),
        page("servers", &["d", "e"], None),
    ]);
    assert_eq!(servers(&cloud).await.unwrap(), ["a", "b", "c", "d", "e"]);
}

/// Proves: OSC-6
#[tokio::test(start_paused = true)]
async fn a_list_without_an_end_is_refused_and_not_cut() {
    let cloud = Cloud::scripted((0..10).map(|_| page("servers", &["a"], Some("?marker=a"))));
    assert_eq!(servers(&cloud).await.unwrap_err().class(), Class::Inconsistent);
    assert_eq!(cloud.asked().len(), 4, "the first page, and the same page three times");
}

/// Proves: OSC-6
#[tokio::test(start_paused = true)]
async fn a_marker_that_is_gone_starts_the_list_again() {
    let lost = |status| Reply::Json(status, json!({"badRequest": {"message": "marker [b] not found"}}));
    let cloud = Cloud::scripted([
        page("servers", &["a", "b"], Some("?marker=b")),
        lost(400),
        page("servers", &["a", "c"], Some("?marker=c")),
        lost(404),
        page("servers", &["a", "d"], None),
    ]);
    assert_eq!(servers(&cloud).await.unwrap(), ["a", "d"]);

    let cloud = Cloud::scripted((0..9).flat_map(|_| [page("servers", &["a"], Some("?marker=a")), lost(400)]));
    assert_eq!(servers(&cloud).await.unwrap_err().class(), Class::Inconsistent);
    assert_eq!(cloud.asked().len(), 6);

    let cloud = Cloud::scripted([lost(400)]);
    assert_eq!(servers(&cloud).await.unwrap_err().class(), Class::BadRequest, "the first page has no marker to lose");
}

/// Proves: OSC-6
#[tokio::test(start_paused = true)]
async fn a_list_that_keystone_cut_short_is_refused() {
    let cloud = Cloud::scripted([Reply::Json(
        200,
        json!({"roles": [{"id": "a"}], "truncated": true, "links": {"next": null}}),
    )]);
    assert_eq!(cloud.session().identity().roles().await.unwrap_err().class(), Class::Inconsistent);
}

/// Proves: OSC-6
#[tokio::test(start_paused = true)]
async fn a_failure_on_a_later_page_fails_the_list() {
    let cloud = Cloud::scripted([page("servers", &["a"], Some("?marker=a")), Reply::Json(500, json!({}))]);
    assert_eq!(servers(&cloud).await.unwrap_err().class(), Class::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn an_offset_that_a_cloud_ignores_ends_the_list() {
    let groups = || Reply::Json(200, json!({"server_groups": [{"id": "a"}]}));
    let cloud = Cloud::scripted([groups(), groups()]);
    assert_eq!(cloud.session().compute().server_groups().await.unwrap().len(), 1);
}

proptest! {
    /// Proves: OSC-6
    #[test]
    fn no_link_makes_the_reader_fail(link in "(https?://|/|\\?|&|=|#|%|marker|é|[a-z0-9]{0,3}){0,15}") {
        if let Some(query) = query_of(&link) {
            prop_assert!(!query.is_empty());
        }
    }

    /// Whatever a list's pages hold and link to, reading it ends.
    ///
    /// Proves: OSC-6
    #[test]
    fn every_list_is_read_or_refused_in_bounded_time(
        pages in proptest::collection::vec((proptest::collection::vec("[a-d]", 0..3), proptest::option::of("\\?marker=[a-c]|[a-z]{0,3}|\\?")), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let replies = pages.iter().cycle().take(60).map(|(ids, next)| {
            page("servers", &ids.iter().map(String::as_str).collect::<Vec<_>>(), next.as_deref())
        });
        let cloud = Cloud::scripted(replies.collect::<Vec<_>>());
        if let Ok(ids) = runtime.block_on(servers(&cloud)) {
            let unique: HashSet<&String> = ids.iter().collect();
            prop_assert_eq!(unique.len(), ids.len());
        }
        prop_assert!(cloud.asked().len() <= 13);
    }
}
