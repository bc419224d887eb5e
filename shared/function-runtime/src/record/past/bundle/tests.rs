//! Files of calls, whole and not.

#![allow(clippy::unwrap_used)]
use super::*;
use serde_json::json;

fn call(id: &str, entries: &Value) -> Recording {
    serde_json::from_value(json!({
        "form": 1, "id": id, "versions": {"weir": "1"}, "began": format!("2026-01-01T00:00:0{id}Z"), "took": 1,
        "trigger": {"lane": "urgent", "traceparent": "",
            "work": {"cause": "changed", "object": {"kind": "network", "namespace": "ns", "name": "a"}}},
        "entries": entries, "outcome": {"verdict": "settled"},
    }))
    .unwrap()
}

fn read_object(name: &str, is_going: bool) -> Value {
    let mut object = json!({"apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "Network",
        "metadata": {"namespace": "ns", "name": name, "resourceVersion": "7"}, "spec": {}, "status": {}});
    if is_going {
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    json!({"entry": "exchange", "at": 1, "took": 1, "peer": "kubernetes", "method": "GET", "url": "/x",
        "answer": {"response": {"status": 200, "body": {"json": object}}}})
}

fn file(calls: &[Recording]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut file = Writer::begin(&mut bytes).unwrap();
    for call in calls {
        file.call(call).unwrap();
    }
    if let Some(work) = calls.first().map(|call| call.trigger.work.clone()) {
        file.event(&Event { time: Timestamp::UNIX_EPOCH, lane: Lane::Urgent, work }).unwrap();
    }
    file.end().unwrap();
    bytes
}

/// Proves: R-3
#[test]
fn what_is_written_is_read_again_and_an_object_on_its_way_out_is_named_in_place_of_written() {
    let going = call("2", &json!([read_object("a", true), read_object("b", false)]));
    let calls = [call("1", &json!([read_object("a", false)])), going];
    let bytes = file(&calls);
    assert_eq!(open(bytes.as_slice()).unwrap(), calls);
    let rest = read(bytes.as_slice(), |_| true).unwrap();
    assert_eq!((rest.calls, rest.events.len()), (2, 1));
    assert_eq!(rest.left_out, ["network ns/a"]);
    assert_eq!(rest.objects.len(), 1);
    assert_eq!(rest.objects[0]["metadata"], json!({"namespace": "ns", "name": "b"}));
    assert!(rest.objects[0].get("status").is_none());
    // In whatever order the calls come, the last to begin counts.
    let [first, second] = calls;
    assert_eq!(read(file(&[second, first]).as_slice(), |_| true).unwrap().left_out, ["network ns/a"]);
}

#[test]
fn a_file_is_read_no_further_than_is_asked_for() {
    let bytes = file(&[call("1", &json!([])), call("2", &json!([]))]);
    let mut ids = vec![];
    read(bytes.as_slice(), |call| {
        ids.push(call.id);
        false
    })
    .unwrap();
    assert_eq!(ids, ["1"]);
}

/// Proves: R-3
#[test]
fn a_single_recording_is_a_file_too() {
    let one = call("1", &json!([]));
    assert_eq!(open(serde_json::to_vec(&one).unwrap().as_slice()).unwrap(), [one]);
}

/// Proves: R-3
#[test]
fn what_is_no_file_of_recordings_is_refused_in_one_plain_line() {
    let good = file(&[call("1", &json!([])), call("2", &json!([]))]);
    let refused = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
    for cut in [1, good.len() / 3, good.len() / 2, good.len() - 3] {
        assert!(refused(&good[..cut]).starts_with("it ends in the middle"), "{}", refused(&good[..cut]));
    }
    assert!(refused(b"").starts_with("it ends in the middle"));
    for garbage in ["# Weir", "[]", "7", "\"x\"", "{}", "{\"a\": 1}", "\u{0}\u{1}", &"[".repeat(100_000)] {
        let said = refused(garbage.as_bytes());
        assert!(said.starts_with("it is no file that `weir export` has written"), "{said}");
        assert!(said.len() < 200 && !said.contains('\n'), "{said}");
    }
    assert!(refused(&[good.clone(), b"{}".to_vec()].concat()).contains("trailing"));
    assert!(refused(b"{\"form\": 9, \"recordings\": []}").contains("form 9, from the future"));
    let bad = String::from_utf8(good).unwrap().replacen("\"took\":1", "\"took\":\"x\"", 1);
    assert!(refused(bad.as_bytes()).starts_with("call 1 of it cannot be read: "), "{}", refused(bad.as_bytes()));
}

/// As editors and shells of Windows save a file.
#[test]
fn a_byte_order_mark_before_a_file_is_passed_over() {
    let calls = [call("1", &json!([]))];
    let marked = [BYTE_ORDER_MARK, &file(&calls)].concat();
    assert_eq!(open(marked.as_slice()).unwrap(), calls);
    assert!(matches!(open(BYTE_ORDER_MARK), Err(Error::Truncated(_))));
}

fn rest_of(objects: &Value) -> Rest {
    read(json!({"form": 1, "recordings": [], "objects": objects}).to_string().as_bytes(), |_| true).unwrap()
}

#[test]
fn what_is_never_exported_is_refused_by_name_whatever_it_is() {
    let server =
        |version: &str, metadata: Value| json!({"apiVersion": version, "kind": "Server", "metadata": metadata});
    let ours = "region.unikorn-cloud.org/v1alpha1";
    let named = json!({"namespace": "ns", "name": "a"});
    for (object, word) in [
        (json!("x"), "what is no object"),
        (json!(null), "what is no object"),
        (json!({"apiVersion": 1, "kind": [], "metadata": {"name": 5}}), "what is no object"),
        (
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "x"}}),
            "ClusterRoleBinding of rbac.authorization.k8s.io/v1",
        ),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}), "ConfigMap of v1"),
        (json!({"apiVersion": "v1", "kind": "Secret", "metadata": "x"}), "Secret whose namespace"),
        (server("v1", named.clone()), "Server of v1"),
        (server("example.com/v1", named.clone()), "Server of example.com/v1"),
        (server("\u{1b}[2J", named.clone()), "Server of ??2J"),
        (server(ours, json!({"name": "a"})), "server whose namespace \"\""),
        (server(ours, json!({"namespace": "ns", "name": "../a?x"})), "server whose name \"../a?x\""),
    ] {
        let error = rest_of(&json!([server(ours, named.clone()), object])).checked().unwrap_err().to_string();
        assert!(error.contains("never writes: ") && error.contains(word), "{error}");
    }
    let many: Vec<Value> = (0..30).map(|n| json!({"apiVersion": "v1", "kind": format!("K{n}")})).collect();
    assert!(rest_of(&json!(many)).checked().unwrap_err().to_string().ends_with("and 22 more"));
    let mut rest = rest_of(&json!([server(ours, named)]));
    let work = serde_json::from_value(
        json!({"cause": "changed", "object": {"kind": "server", "namespace": "ns", "name": ">"}}),
    );
    rest.events.push(Event { time: Timestamp::UNIX_EPOCH, lane: Lane::Urgent, work: work.unwrap() });
    assert!(rest.checked().unwrap_err().to_string().contains("name \">\""));
}

#[test]
fn of_an_object_nothing_is_left_but_what_is_exported() {
    let all = json!({"apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "Network", "spec": {"a": 1}, "status": {},
        "metadata": {"namespace": "ns", "name": "a", "labels": {"l": "m"}, "uid": "u", "resourceVersion": "7",
            "finalizers": ["f"], "ownerReferences": [], "managedFields": [{"manager": "kubectl"}]}});
    let left = json!({"apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "Network", "spec": {"a": 1},
        "metadata": {"namespace": "ns", "name": "a", "labels": {"l": "m"}}});
    assert_eq!(rest_of(&json!([all])).checked().unwrap().objects, [left]);
}

/// A source without an end, as `/dev/zero` is, of what looks like one huge text.
#[test]
fn a_file_without_an_end_is_given_up() {
    let endless = io::repeat(b'x');
    let began: &[u8] = b"{\"form\": 1, \"recordings\": [\"";
    assert!(matches!(open(began.chain(endless)), Err(Error::TooLarge)));
}
