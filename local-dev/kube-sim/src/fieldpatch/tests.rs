//! Patches and ownership, against what a real server was seen to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::cmp_owned)]

use super::{Error, Writer, apply, json_patch, merge_patch, strategic_merge, track_update};
use crate::schema::Schema;
use proptest::prelude::*;
use serde_json::{Value, json};

const API: &str = "demo.weir.dev/v1alpha1";

fn widget() -> Schema {
    Schema::compile(&serde_json::from_str(include_str!("../schema/testdata/widget.json")).unwrap()).unwrap()
}

fn writer<'a>(manager: &'a str, time: &'a str) -> Writer<'a> {
    Writer { manager, api_version: API, subresource: None, has_status: true, time }
}

fn status_of<'a>(manager: &'a str, time: &'a str) -> Writer<'a> {
    Writer { subresource: Some("status"), ..writer(manager, time) }
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": API, "kind": "Widget", "metadata": {"name": "ap"}, "spec": spec})
}

/// Manager, operation, subresource, fields.
fn owners(object: &Value) -> Vec<(String, String, String, Value)> {
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    let entries = object["metadata"].get("managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
    entries
        .iter()
        .map(|e| (text(e, "manager"), text(e, "operation"), text(e, "subresource"), e["fieldsV1"].clone()))
        .collect()
}

fn owner(manager: &str, operation: &str, subresource: &str, fields: Value) -> (String, String, String, Value) {
    (manager.into(), operation.into(), subresource.into(), fields)
}

fn defaulted(schema: &Schema, mut object: Value) -> Value {
    schema.default(&mut object);
    object
}

fn patch_ok(document: Value, patch: Value) -> Value {
    json_patch(&document, patch.to_string().as_bytes()).unwrap()
}

#[test]
fn json_patch_carries_out_every_operation() {
    let document =
        json!({"spec": {"size": "large", "tags": ["y", "z"], "attrs": {"b": "1"}}, "metadata": {"labels": {"k": "2"}}});
    let patched = patch_ok(
        document,
        json!([{"op": "test", "path": "/spec/size", "value": "large"}, {"op": "replace", "path": "/spec/size", "value": "medium"},
            {"op": "add", "path": "/spec/tags/-", "value": "w"}, {"op": "add", "path": "/spec/tags/0", "value": "x"},
            {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}, {"op": "remove", "path": "/spec/attrs/b"},
            {"op": "copy", "from": "/spec/size", "path": "/spec/attrs/c"}, {"op": "move", "from": "/spec/attrs/c", "path": "/spec/attrs/d"}]),
    );
    let expected = json!({"spec": {"size": "medium", "tags": ["x", "y", "z", "w"], "attrs": {"d": "medium"}},
        "metadata": {"labels": {"k": "2", "a/b": "c"}}});
    assert_eq!(patched, expected);
}

#[test]
fn json_patch_adds_what_it_is_told_to_replace_and_is_missing() {
    assert_eq!(
        patch_ok(json!({"a": {}}), json!([{"op": "replace", "path": "/a/b", "value": 1}])),
        json!({"a": {"b": 1}})
    );
}

#[test]
fn json_patches_that_cannot_be_carried_out_are_422_without_a_word() {
    let document = json!({"spec": {"size": "large", "tags": ["y"]}});
    for patch in [
        json!([{"op": "test", "path": "/spec/size", "value": "small"}]),
        json!([{"op": "remove", "path": "/spec/nope"}]),
        json!([{"op": "add", "path": "/spec/lazy/mode", "value": "x"}]),
        json!([{"op": "add", "path": "/spec/tags/9", "value": "x"}]),
        json!([{"op": "bogus", "path": "/spec/size"}]),
        json!([{"op": "move", "from": "/spec", "path": "/spec/tags/0"}]),
    ] {
        let error = json_patch(&document, patch.to_string().as_bytes()).expect_err("it cannot be carried out");
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            (422, "the server rejected our request due to an error in our request")
        );
    }
}

#[test]
fn bodies_that_are_no_patch_are_400_and_say_why() {
    let text = |result: Result<Value, Error>| {
        let error = result.expect_err("it is no patch");
        (error.code(), error.to_string())
    };
    let array = "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}";
    assert_eq!(text(merge_patch(&json!({}), b"[1]")), (400, array.into()));
    assert_eq!(
        text(merge_patch(&json!({}), b"{\"a\"")),
        (400, "error decoding patch: unexpected end of JSON input".into())
    );
    assert_eq!(text(merge_patch(&json!({}), b"")), (400, "error decoding patch: unexpected end of JSON input".into()));
    let object = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
    assert_eq!(text(json_patch(&json!({}), b"{\"op\":\"test\"}")), (400, object.into()));
    let many = Value::from(vec![json!({"op": "test", "path": "", "value": {}}); 10_001]).to_string();
    let limit = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(text(json_patch(&json!({}), many.as_bytes())), (413, limit.into()));
}

#[test]
fn copies_cannot_make_a_document_grow_without_end() {
    let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
    let patch = Value::from(vec![double; 60]).to_string();
    assert_eq!(json_patch(&json!({"a": ["x"]}), patch.as_bytes()), Err(Error::Rejected));
}

#[test]
fn a_patch_cannot_make_a_document_too_deep_to_handle() {
    let nest = |i: usize| json!({"op": "add", "path": format!("{}/a", "/a".repeat(i)), "value": {}});
    let patch = Value::from((0..5_000).map(nest).collect::<Vec<_>>()).to_string();
    assert_eq!(json_patch(&json!({}), patch.as_bytes()), Err(Error::Rejected));
    let wrap = json!([{"op": "add", "path": "/b", "value": {}}, {"op": "move", "from": "/a", "path": "/b/a"}, {"op": "move", "from": "/b", "path": "/a"}]);
    let patch = Value::from(vec![wrap.as_array().unwrap().clone(); 1_000].concat()).to_string();
    assert_eq!(json_patch(&json!({"a": {}}), patch.as_bytes()), Err(Error::Rejected));
}

#[test]
fn strategic_merge_knows_which_lists_merge() {
    let document = json!({"metadata": {"finalizers": ["a"], "ownerReferences": [{"uid": "1", "name": "x"}, {"uid": "2"}]}, "data": {"a": "1"}});
    let patch = json!({"metadata": {"finalizers": ["b"], "ownerReferences": [{"uid": "1", "name": "y"}, {"$patch": "delete", "uid": "2"}]},
        "data": {"a": null, "b": "2"}});
    let merged = strategic_merge("ConfigMap", &document, patch.to_string().as_bytes()).unwrap();
    let expected = json!({"metadata": {"finalizers": ["a", "b"], "ownerReferences": [{"uid": "1", "name": "y"}]}, "data": {"b": "2"}});
    assert_eq!(merged, expected);
    let gone = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}).to_string();
    assert_eq!(strategic_merge("ConfigMap", &document, gone.as_bytes()).unwrap()["metadata"]["finalizers"], json!([]));
}

#[test]
fn a_create_owns_defaulted_fields_too_and_nothing_of_the_server() {
    let schema = widget();
    let mut new = defaulted(&schema, object(json!({"owner": "ann"})));
    new["metadata"]["uid"] = json!("u");
    track_update(&schema, None, &mut new, &writer("slab-client", "2026-01-01T00:00:00Z"));
    let fields = json!({"f:spec": {".": {}, "f:noteDef": {}, "f:owner": {}, "f:plainDef": {}, "f:replicas": {}, "f:size": {},
        "f:template": {".": {}, "f:color": {}, "f:depth": {".": {}, "f:unit": {}, "f:value": {}}}}});
    assert_eq!(owners(&new), [owner("slab-client", "Update", "", fields)]);
}

#[test]
fn an_update_owns_what_it_changed_and_others_lose_it() {
    let schema = widget();
    let mut old = object(json!({"owner": "ann", "size": "small"}));
    track_update(&schema, None, &mut old, &writer("a", "2026-01-01T00:00:00Z"));
    let mut new = old.clone();
    new["spec"]["size"] = json!("large");
    new["metadata"]["labels"] = json!({"k": "v"});
    new["metadata"]["ownerReferences"] = json!([{"uid": "u", "name": "n"}]);
    track_update(&schema, Some(&old), &mut new, &writer("b", "2026-01-01T00:00:01Z"));
    let expected = [
        owner("a", "Update", "", json!({"f:spec": {".": {}, "f:owner": {}}})),
        owner(
            "b",
            "Update",
            "",
            json!({"f:metadata": {"f:labels": {".": {}, "f:k": {}}, "f:ownerReferences": {".": {}, "k:{\"uid\":\"u\"}": {}}},
            "f:spec": {"f:size": {}}}),
        ),
    ];
    assert_eq!(owners(&new), expected);
    // Nothing changed: not even the time.
    let mut same = new.clone();
    track_update(&schema, Some(&new), &mut same, &writer("c", "2026-01-01T00:00:09Z"));
    assert_eq!(same, new);
    // What is removed belongs to nobody.
    let mut less = new.clone();
    less["metadata"].as_object_mut().unwrap().remove("labels");
    track_update(&schema, Some(&new), &mut less, &writer("c", "2026-01-01T00:00:09Z"));
    assert!(!less["metadata"]["managedFields"].to_string().contains("f:labels"));
}

#[test]
fn a_status_write_is_its_own_entry() {
    let schema = widget();
    let mut old = object(json!({"owner": "ann"}));
    track_update(&schema, None, &mut old, &writer("a", "2026-01-01T00:00:00Z"));
    let mut new = old.clone();
    new["status"] = json!({"phase": "Pending", "conditions": [{"type": "Available", "status": "False"}]});
    track_update(&schema, Some(&old), &mut new, &status_of("a", "2026-01-01T00:00:01Z"));
    let fields = json!({"f:status": {".": {}, "f:conditions": {".": {}, "k:{\"type\":\"Available\"}": {".": {}, "f:status": {}, "f:type": {}}}, "f:phase": {}}});
    assert_eq!(owners(&new)[1], owner("a", "Update", "status", fields));
}

#[test]
fn a_reset_record_comes_back_with_the_first_apply() {
    let schema = widget();
    let mut old = object(json!({"owner": "ann"}));
    track_update(&schema, None, &mut old, &writer("a", "2026-01-01T00:00:00Z"));
    let mut reset = old.clone();
    reset["metadata"]["managedFields"] = json!([{}]);
    track_update(&schema, Some(&old), &mut reset, &writer("a", "2026-01-01T00:00:01Z"));
    assert!(owners(&reset).is_empty());
    let mut changed = reset.clone();
    changed["spec"]["lo"] = json!(1);
    track_update(&schema, Some(&reset), &mut changed, &writer("a", "2026-01-01T00:00:02Z"));
    assert!(owners(&changed).is_empty());
    let applied =
        apply(&schema, Some(&changed), &object(json!({"code": "a-1"})), &writer("m1", "2026-01-01T00:00:03Z"), false)
            .unwrap();
    let expected = [
        owner("m1", "Apply", "", json!({"f:spec": {"f:code": {}}})),
        owner("before-first-apply", "Update", "", json!({"f:spec": {".": {}, "f:lo": {}, "f:owner": {}}})),
    ];
    assert_eq!(owners(&applied), expected);
}

/// The story of section 5.4 of the transcripts: several managers apply to one object.
#[test]
fn managers_share_an_object_conflict_and_take_over() {
    let schema = widget();
    let run = |live: Option<&Value>, spec: Value, manager: &str, time: &str, force: bool| {
        apply(&schema, live, &object(spec), &writer(manager, time), force).map(|new| defaulted(&schema, new))
    };
    let mut first = object(
        json!({"owner": "ann", "size": "large", "ports": [{"name": "h", "port": 80}], "tags": ["a"], "attrs": {"k": "1"}, "plain": [1, 2]}),
    );
    first["metadata"]["labels"] = json!({"x": "1"});
    let created =
        defaulted(&schema, apply(&schema, None, &first, &writer("m1", "2026-01-01T00:00:00Z"), false).unwrap());
    let fields = json!({"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:attrs": {"f:k": {}}, "f:owner": {}, "f:plain": {},
        "f:ports": {"k:{\"name\":\"h\"}": {".": {}, "f:name": {}, "f:port": {}}}, "f:size": {}, "f:tags": {"v:\"a\"": {}}}});
    assert_eq!(owners(&created), [owner("m1", "Apply", "", fields)]);

    // The same again changes nothing.
    let again = defaulted(
        &schema,
        apply(&schema, Some(&created), &first, &writer("m1", "2026-01-01T00:00:09Z"), false).unwrap(),
    );
    assert_eq!(again, created);

    // What is left out goes; a default comes back.
    let second = run(
        Some(&created),
        json!({"owner": "bob", "ports": [{"name": "h", "port": 81}, {"name": "i", "port": 82}], "plain": [1, 2]}),
        "m1",
        "2026-01-01T00:00:01Z",
        false,
    )
    .unwrap();
    assert!(
        second["metadata"].get("labels").is_none()
            && second["spec"].get("tags").is_none()
            && second["spec"].get("attrs").is_none()
    );
    assert_eq!(
        (&second["spec"]["size"], &second["spec"]["ports"][1]["protocol"], &second["metadata"]["name"]),
        (&json!("small"), &json!("TCP"), &json!("ap"))
    );

    // Another manager's items do not conflict.
    let third = run(
        Some(&second),
        json!({"owner": "bob", "ports": [{"name": "j", "port": 83}], "tags": ["b"]}),
        "m2",
        "2026-01-01T00:00:02Z",
        false,
    )
    .unwrap();
    assert_eq!(third["spec"]["ports"].as_array().unwrap().len(), 3);

    let one = run(
        Some(&third),
        json!({"owner": "bob", "ports": [{"name": "h", "port": 99}]}),
        "m3",
        "2026-01-01T00:00:03Z",
        false,
    )
    .expect_err("m1 has the port");
    assert_eq!(
        (one.code(), one.to_string().as_str()),
        (409, "Apply failed with 1 conflict: conflict with \"m1\": .spec.ports[name=\"h\"].port")
    );
    let many = run(
        Some(&third),
        json!({"owner": "eve", "ports": [{"name": "h", "port": 99}, {"name": "j", "port": 98}], "plain": [9]}),
        "m3",
        "2026-01-01T00:00:03Z",
        false,
    )
    .expect_err("they have it");
    let text = "Apply failed with 5 conflicts: conflicts with \"m1\":\n- .spec.owner\n- .spec.plain\n- .spec.ports[name=\"h\"].port\n\
        conflicts with \"m2\":\n- .spec.owner\n- .spec.ports[name=\"j\"].port";
    assert_eq!(many.to_string(), text);
    let causes = many.causes();
    assert_eq!(
        (causes.len(), causes[4].message.as_str(), causes[4].field.as_str()),
        (5, "conflict with \"m2\"", ".spec.ports[name=\"j\"].port")
    );

    let mut updated = third.clone();
    updated["spec"]["code"] = json!("z-1");
    track_update(&schema, Some(&third), &mut updated, &writer("slab-client", "2026-01-01T00:00:04Z"));
    let other = run(Some(&updated), json!({"owner": "bob", "code": "y-1"}), "m3", "2026-01-01T00:00:05Z", false)
        .expect_err("slab-client has it");
    assert_eq!(
        other.to_string(),
        format!("Apply failed with 1 conflict: conflict with \"slab-client\" using {API}: .spec.code")
    );

    let forced = run(
        Some(&updated),
        json!({"owner": "eve", "ports": [{"name": "h", "port": 99}]}),
        "m3",
        "2026-01-01T00:00:05Z",
        true,
    )
    .unwrap();
    let expected = [
        owner(
            "m1",
            "Apply",
            "",
            json!({"f:spec": {"f:plain": {}, "f:ports": {"k:{\"name\":\"h\"}": {".": {}, "f:name": {}},
            "k:{\"name\":\"i\"}": {".": {}, "f:name": {}, "f:port": {}}}}}),
        ),
        owner(
            "m2",
            "Apply",
            "",
            json!({"f:spec": {"f:ports": {"k:{\"name\":\"j\"}": {".": {}, "f:name": {}, "f:port": {}}}, "f:tags": {"v:\"b\"": {}}}}),
        ),
        owner(
            "m3",
            "Apply",
            "",
            json!({"f:spec": {"f:owner": {}, "f:ports": {"k:{\"name\":\"h\"}": {".": {}, "f:name": {}, "f:port": {}}}}}),
        ),
        owner("slab-client", "Update", "", json!({"f:spec": {"f:code": {}}})),
    ];
    assert_eq!(owners(&forced), expected);

    // What only m1 had goes; what others have stays.
    let dropped = run(Some(&forced), json!({"owner": "eve"}), "m1", "2026-01-01T00:00:06Z", true).unwrap();
    let names: Vec<_> = dropped["spec"]["ports"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    assert_eq!((names, dropped["spec"].get("plain")), (vec![json!("h"), json!("j")], None));
    let managers: Vec<String> = owners(&dropped).into_iter().map(|o| o.0).collect();
    assert_eq!(managers, ["m2", "m3", "m1", "slab-client"]);
}

#[test]
fn an_apply_to_status_says_only_status_and_one_to_the_resource_all_else() {
    let schema = widget();
    let created =
        apply(&schema, None, &object(json!({"owner": "ann"})), &writer("m1", "2026-01-01T00:00:00Z"), false).unwrap();
    let mut both = object(json!({"owner": "zed"}));
    both["status"] = json!({"phase": "Ready"});
    let status = apply(&schema, Some(&created), &both, &status_of("m1", "2026-01-01T00:00:01Z"), false).unwrap();
    assert_eq!((&status["spec"]["owner"], &status["status"]["phase"]), (&json!("ann"), &json!("Ready")));
    assert_eq!(owners(&status)[1], owner("m1", "Apply", "status", json!({"f:status": {"f:phase": {}}})));
    both["status"] = json!({"phase": "Pending"});
    let main = apply(&schema, Some(&status), &both, &writer("m1", "2026-01-01T00:00:02Z"), false).unwrap();
    assert_eq!((&main["spec"]["owner"], &main["status"]["phase"]), (&json!("zed"), &json!("Ready")));
}

#[test]
fn an_apply_that_does_not_fit_the_schema_is_500_and_says_where() {
    let schema = widget();
    let error = |spec: Value| {
        let error = apply(&schema, None, &object(spec), &writer("m1", "t"), false).expect_err("it does not fit");
        assert_eq!(error.code(), 500);
        error.to_string()
    };
    let prefix = format!("failed to create typed patch object (/ap; {API}, Kind=Widget): ");
    assert_eq!(error(json!({"bogus": 1})), format!("{prefix}.spec.bogus: field not declared in schema"));
    assert_eq!(
        error(json!({"replicas": "x"})),
        format!("{prefix}.spec.replicas: expected numeric (int or float), got string")
    );
    let twice = json!({"ports": [{"name": "h", "port": 1}, {"name": "h", "port": 2}]});
    assert_eq!(error(twice), format!("{prefix}.spec.ports: duplicate entries for key [name=\"h\"]"));
}

#[test]
fn an_applied_null_is_kept_and_owned() {
    let schema = widget();
    let applied = apply(&schema, None, &object(json!({"note": null})), &writer("m1", "t"), false).unwrap();
    assert_eq!(applied["spec"]["note"], Value::Null);
    assert_eq!(owners(&applied)[0].3, json!({"f:spec": {"f:note": {}}}));
}

#[test]
fn built_in_kinds_need_no_schema() {
    let anything = Schema::anything();
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": data});
    let by = |manager| Writer {
        manager,
        api_version: "v1",
        subresource: None,
        has_status: false,
        time: "2026-01-01T00:00:00Z",
    };
    let created = apply(&anything, None, &map(json!({"a": "1"})), &by("m1"), false).unwrap();
    assert_eq!(owners(&created), [owner("m1", "Apply", "", json!({"f:data": {"f:a": {}}}))]);
    let mut put = created.clone();
    put["data"]["a"] = json!("2");
    track_update(&anything, Some(&created), &mut put, &by("m9"));
    assert_eq!(owners(&put), [owner("m9", "Update", "", json!({"f:data": {"f:a": {}}}))]);
    let conflict = apply(&anything, Some(&put), &map(json!({"a": "1"})), &by("m1"), false).expect_err("m9 has it");
    assert_eq!(conflict.to_string(), "Apply failed with 1 conflict: conflict with \"m9\" using v1: .data.a");

    let mut crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"},
        "spec": {"group": "g", "names": {"plural": "x"}, "versions": [{"name": "v1"}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]}});
    track_update(&anything, None, &mut crd, &Writer { api_version: "apiextensions.k8s.io/v1", ..by("c") });
    let fields = &owners(&crd)[0].3;
    assert_eq!(fields["f:spec"], json!({"f:group": {}, "f:names": {"f:plural": {}}, "f:versions": {}}));
    assert!(fields["f:status"]["f:conditions"].get("k:{\"type\":\"Established\"}").is_some(), "{fields}");
}

#[test]
fn an_object_does_not_collect_managers_without_end() {
    let schema = Schema::anything();
    let mut live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "0"}});
    track_update(
        &schema,
        None,
        &mut live,
        &Writer {
            manager: "m-0",
            api_version: "v1",
            subresource: None,
            has_status: false,
            time: "2026-01-01T00:00:00Z",
        },
    );
    for i in 1..30 {
        let mut new = live.clone();
        new["data"][format!("k{i}")] = json!("1");
        let (manager, time) = (format!("m-{i}"), format!("2026-01-01T00:00:{i:02}Z"));
        track_update(
            &schema,
            Some(&live),
            &mut new,
            &Writer { manager: &manager, api_version: "v1", subresource: None, has_status: false, time: &time },
        );
        live = new;
    }
    let managers = owners(&live);
    assert_eq!(managers.len(), 10);
    assert!(managers.iter().any(|m| m.0 == "ancient-changes"));
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn map() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", document(), 0..4).prop_map(|m| Value::Object(m.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_merge_patch_applied_twice_is_as_once(document in document(), patch in map()) {
        let patch = patch.to_string();
        let once = merge_patch(&document, patch.as_bytes()).unwrap();
        prop_assert_eq!(&merge_patch(&once, patch.as_bytes()).unwrap(), &once);
    }

    #[test]
    fn no_bytes_are_too_odd_for_a_patch(document in document(), bytes in prop::collection::vec(any::<u8>(), 0..64), ops in prop::collection::vec((0..7_usize, "(/[a-d0-9~-]{0,2}){0,3}", "(/[a-d]){0,2}", document()), 0..5)) {
        let _ = json_patch(&document, &bytes);
        let _ = merge_patch(&document, &bytes);
        let _ = strategic_merge("ConfigMap", &document, &bytes);
        let names = ["add", "remove", "replace", "move", "copy", "test", "odd"];
        let ops: Vec<Value> = ops.into_iter().map(|(op, path, from, value)| json!({"op": names[op], "path": path, "from": from, "value": value})).collect();
        let _ = json_patch(&document, Value::from(ops).to_string().as_bytes());
    }

    #[test]
    fn the_same_apply_again_changes_nothing(live in map(), applied in map(), record in document()) {
        let schema = Schema::anything();
        let with = |spec: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}, "data": spec});
        let by = |manager, time| Writer { manager, api_version: "v1", subresource: None, has_status: false, time };
        let mut live = with(live);
        track_update(&schema, None, &mut live, &by("a", "2026-01-01T00:00:00Z"));
        let once = apply(&schema, Some(&live), &with(applied.clone()), &by("m", "2026-01-01T00:00:01Z"), true).unwrap();
        let twice = apply(&schema, Some(&once), &with(applied.clone()), &by("m", "2026-01-01T00:00:02Z"), false).unwrap();
        prop_assert_eq!(&twice, &once);
        // Records of ownership that a client made up harm nothing.
        let mut odd = once.clone();
        odd["metadata"]["managedFields"] = record;
        let _ = apply(&schema, Some(&odd), &with(applied), &by("m", "2026-01-01T00:00:02Z"), false);
        let mut new = odd.clone();
        track_update(&schema, Some(&once), &mut new, &by("a", "2026-01-01T00:00:03Z"));
    }
}
