//! Creates, updates and patches: codes, bodies, resource versions and generations, as a real server was observed to answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{CONFIG_MAPS, WIDGETS, config_map, demo, widget};
use serde_json::{Value, json};

/// `(body, code, part of the message)`
const REFUSED: &[(&str, u16, &str)] = &[
    (
        "",
        400,
        "the object provided is unrecognized (must be of type Widget): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)",
    ),
    (r#"{"a":}"#, 400, "json parse error: invalid character '}' looking for beginning of value ({\"a\":})"),
    (r#"{"apiVersion":"demo.weir.dev/v1alpha1","metadata":{"name":"k"}}"#, 400, "Object 'Kind' is missing in"),
    (
        r#"{"apiVersion":"other.dev/v1","kind":"Widget","metadata":{"name":"k"}}"#,
        400,
        "the API version in the data (other.dev/v1) does not match the expected API version (demo.weir.dev/v1alpha1)",
    ),
    (
        r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Gadget","metadata":{"name":"k"}}"#,
        422,
        "kind: Invalid value: \"Gadget\": must be Widget",
    ),
    (
        r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Widget","metadata":{"name":"k","labels":{"a":1}},"spec":{"owner":"a"}}"#,
        400,
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
    ),
    (
        r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Widget","metadata":{"name":"k","resourceVersion":"1"},"spec":{"owner":"a"}}"#,
        500,
        "resourceVersion should not be set on objects to be created",
    ),
    (
        r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Widget","metadata":{"name":"k","namespace":"other"},"spec":{"owner":"a"}}"#,
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    (
        r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Widget","metadata":{"name":"Bad_Name"},"spec":{"owner":"a"}}"#,
        422,
        "metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of",
    ),
    (
        r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Widget","metadata":{"name":"k"},"spec":{}}"#,
        422,
        "Widget.demo.weir.dev \"k\" is invalid: [spec.owner: Required value, <nil>: Invalid value: null: some validation rules were not checked",
    ),
    (
        r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Widget","metadata":{"name":"k"},"spec":{"owner":"ann","size":"huge"}}"#,
        422,
        "spec.size: Unsupported value: \"huge\": supported values: \"small\", \"medium\", \"large\"",
    ),
    (
        r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Widget","metadata":{"name":"k"},"spec":{"owner":"ann","lo":2,"hi":1}}"#,
        422,
        "spec: Invalid value: lo must not exceed hi",
    ),
    (
        r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Widget","metadata":{"name":"k"},"spec":{"owner":"ann","replicas":7}}"#,
        422,
        "spec.replicas: Forbidden: replicas needs size large, not small",
    ),
];

#[tokio::test]
async fn bad_objects_are_refused_with_the_real_codes_and_texts() {
    let (_sim, raw) = demo().await;
    for (body, code, message) in REFUSED {
        let answer = raw.send("POST", WIDGETS, &[], body).await;
        assert_eq!(answer.code, *code, "{body}: {}", answer.text);
        assert!(answer.message().contains(message), "{body}: {}", answer.message());
        assert_eq!(answer.json()["code"], *code);
    }
    assert_eq!(raw.get(&format!("{WIDGETS}/k")).await.code, 404);
}

#[tokio::test]
async fn a_created_object_has_defaults_and_what_the_server_gives() {
    let (_sim, raw) = demo().await;
    let mut sent = widget("a");
    sent["status"] = json!({"phase": "Ready"});
    sent["metadata"]["uid"] = json!("11111111-1111-1111-1111-111111111111");
    sent["metadata"]["generation"] = json!(7);
    sent["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    let made = raw.post(WIDGETS, &sent).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let value = made.json();
    assert_eq!(value["spec"]["size"], "small");
    assert_eq!(value["spec"]["template"], json!({"color": "red", "depth": {"unit": "mm", "value": 7}}));
    assert_eq!(value["metadata"]["generation"], 1);
    assert_ne!(value["metadata"]["uid"], "11111111-1111-1111-1111-111111111111");
    assert_eq!(value.get("status"), None, "status is a subresource");
    assert_eq!(value["metadata"].get("deletionTimestamp"), None);
    assert_eq!(value["metadata"]["managedFields"][0]["manager"], "raw-client");
    assert_eq!(raw.get(&format!("{WIDGETS}/a")).await.text, made.text);

    let again = raw.post(WIDGETS, &widget("a")).await;
    assert_eq!((again.code, again.message().as_str()), (409, "widgets.demo.weir.dev \"a\" already exists"));
    let nowhere = raw.post(&WIDGETS.replace("demo/w", "nons/w"), &widget("a")).await;
    assert_eq!((nowhere.code, nowhere.message().as_str()), (404, "namespaces \"nons\" not found"));
    let generated = raw.post(WIDGETS, &json!({"apiVersion": "demo.weir.dev/v1alpha1", "kind": "Widget", "metadata": {"generateName": "gen-"}, "spec": {"owner": "ann"}})).await;
    let name = generated.json()["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.len() == 9 && name.starts_with("gen-"), "{name}");
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let (sim, raw) = demo().await;
    let counted = sim.counts();
    let dry = raw.post(&format!("{WIDGETS}?dryRun=All"), &widget("dry")).await;
    assert_eq!(dry.code, 201);
    assert_eq!(dry.json()["metadata"].get("resourceVersion"), None);
    assert_eq!(raw.get(&format!("{WIDGETS}/dry")).await.code, 404);
    raw.post(WIDGETS, &widget("d")).await;
    let patched = raw.merge(&format!("{WIDGETS}/d?dryRun=All"), &json!({"spec": {"size": "large"}})).await;
    assert_eq!(patched.json()["metadata"]["generation"], 2, "shown as it would be");
    assert_eq!(raw.get(&format!("{WIDGETS}/d")).await.json()["spec"]["size"], "small");
    assert_eq!(raw.delete(&format!("{WIDGETS}/d?dryRun=All"), &json!({})).await.code, 200);
    assert_eq!(raw.get(&format!("{WIDGETS}/d")).await.code, 200);
    let bad = raw.post(&format!("{WIDGETS}?dryRun=x"), &widget("dry")).await;
    assert!(bad.message().contains("dryRun: Unsupported value: [\"x\"]: supported values: \"All\""));
    assert_eq!(
        sim.counts()["widgets.demo.weir.dev"],
        std::collections::BTreeMap::from([("create".to_owned(), 1)]),
        "{counted:?}"
    );
}

/// The observed table: what moves the resource version and the generation, and what does not.
#[tokio::test]
async fn only_real_changes_move_the_resource_version_and_only_the_spec_moves_the_generation() {
    let (_sim, raw) = demo().await;
    raw.post(WIDGETS, &widget("g")).await;
    let path = format!("{WIDGETS}/g");
    let status = format!("{path}/status");
    let steps: Vec<(&str, &str, Value, bool, bool)> = vec![
        ("spec change", &path, json!({"spec": {"size": "large"}}), true, true),
        ("the same again", &path, json!({"spec": {"size": "large"}}), false, false),
        ("empty patch", &path, json!({}), false, false),
        ("label", &path, json!({"metadata": {"labels": {"a": "1"}}}), true, false),
        ("annotation", &path, json!({"metadata": {"annotations": {"a": "1"}}}), true, false),
        ("finalizer", &path, json!({"metadata": {"finalizers": ["x.io/f"]}}), true, false),
        ("finalizer removed", &path, json!({"metadata": {"finalizers": null}}), true, false),
        ("status", &status, json!({"status": {"phase": "Ready"}}), true, false),
        ("status again", &status, json!({"status": {"phase": "Ready"}}), false, false),
        ("status by the main resource", &path, json!({"status": {"phase": "Pending"}}), false, false),
        ("spec by the status", &status, json!({"spec": {"size": "small"}}), false, false),
        ("a default spelled out", &path, json!({"spec": {"replicas": 1}}), false, false),
        ("an unknown field", &path, json!({"spec": {"bogus": 1}}), false, false),
        (
            "what the server keeps",
            &path,
            json!({"metadata": {"generation": 99, "creationTimestamp": "2001-01-01T00:00:00Z"}}),
            false,
            false,
        ),
    ];
    let read = |value: &Value| {
        (value["metadata"]["resourceVersion"].clone(), value["metadata"]["generation"].as_i64().unwrap())
    };
    let mut before = read(&raw.get(&path).await.json());
    for (what, at, patch, moves, generation) in steps {
        let answer = raw.merge(at, &patch).await;
        assert_eq!(answer.code, 200, "{what}: {}", answer.text);
        let after = read(&answer.json());
        assert_eq!(after.0 != before.0, moves, "{what}: resource version");
        assert_eq!(after.1 - before.1, i64::from(generation), "{what}: generation");
        before = after;
    }
    let whole = raw.get(&path).await.json();
    assert_eq!(read(&raw.put(&path, &whole).await.json()), before, "a PUT of what was read");
}

#[tokio::test]
async fn a_put_has_to_name_the_version_it_replaces() {
    let (_sim, raw) = demo().await;
    raw.post(WIDGETS, &widget("p")).await;
    let path = format!("{WIDGETS}/p");
    let first = raw.get(&path).await.json();
    let mut second = first.clone();
    second["spec"]["size"] = json!("large");
    assert_eq!(raw.put(&path, &second).await.code, 200);
    let stale = raw.put(&path, &second).await;
    assert_eq!(stale.code, 409);
    assert_eq!(
        stale.json(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict", "code": 409,
            "message": "Operation cannot be fulfilled on widgets.demo.weir.dev \"p\": the object has been modified; please apply your changes to the latest version and try again",
            "details": {"name": "p", "group": "demo.weir.dev", "kind": "widgets"}})
    );
    assert_eq!(raw.put(&format!("{path}/status"), &second).await.code, 409);
    let with = |version: Value| {
        let mut value = widget("p");
        value["metadata"]["resourceVersion"] = version;
        value
    };
    for (body, code, message) in [
        (
            widget("p"),
            422,
            "widgets.demo.weir.dev \"p\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        ),
        (with(json!("0")), 422, "must be specified for an update"),
        (with(json!("abc")), 500, "strconv.ParseUint: parsing \"abc\": invalid syntax"),
        (with(json!("99999999")), 409, "the object has been modified"),
        (widget("q"), 400, "the name of the object (q) does not match the name on the URL (p)"),
    ] {
        let answer = raw.put(&path, &body).await;
        assert_eq!(answer.code, code, "{}", answer.text);
        assert!(answer.message().contains(message), "{}", answer.message());
    }
    assert_eq!(raw.put(&format!("{WIDGETS}/none"), &widget("none")).await.code, 404);
    let mut foreign = raw.get(&path).await.json();
    foreign["metadata"]["uid"] = json!("11111111-1111-1111-1111-111111111111");
    let answer = raw.put(&path, &foreign).await;
    assert_eq!(answer.code, 409);
    assert!(
        answer.message().contains("StorageError: invalid object, Code: 4, Key: /registry/demo.weir.dev/widgets/demo/p")
    );

    raw.post(CONFIG_MAPS, &config_map("c")).await;
    let mut changed = config_map("c");
    changed["data"]["a"] = json!("2");
    assert_eq!(
        raw.put(&format!("{CONFIG_MAPS}/c"), &changed).await.code,
        200,
        "config maps may be replaced unconditionally"
    );
}

#[tokio::test]
async fn the_status_subresource_takes_the_status_and_nothing_else() {
    let (_sim, raw) = demo().await;
    raw.post(WIDGETS, &widget("s")).await;
    let mut value = raw.get(&format!("{WIDGETS}/s")).await.json();
    value["status"] = json!({"phase": "Pending"});
    value["spec"]["size"] = json!("large");
    value["metadata"]["labels"] = json!({"l": "1"});
    value["metadata"]["finalizers"] = json!(["x.io/f"]);
    let answer = raw.put(&format!("{WIDGETS}/s/status"), &value).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    let got = answer.json();
    assert_eq!(got["status"]["phase"], "Pending");
    assert_eq!(got["spec"]["size"], "small");
    assert_eq!((got["metadata"].get("labels"), got["metadata"].get("finalizers")), (None, None));
    assert_eq!(got["metadata"]["managedFields"][1]["subresource"], "status");
    let bad = raw.merge(&format!("{WIDGETS}/s/status"), &json!({"status": {"phase": "Nope"}})).await;
    assert_eq!(bad.code, 422);
    assert_eq!(raw.post(&format!("{WIDGETS}/s/status"), &widget("s")).await.code, 405);
    assert_eq!(raw.get(&format!("{WIDGETS}/s/scale")).await.code, 404);
}

#[tokio::test]
async fn unknown_fields_are_warned_about_or_refused_as_asked() {
    let (_sim, raw) = demo().await;
    let mut value = widget("u1");
    value["spec"]["bogus"] = json!(1);
    value["metadata"]["odd"] = json!(1);
    let warned = raw.post(WIDGETS, &value).await;
    assert_eq!(warned.code, 201);
    assert_eq!(
        warned.warnings(),
        [r#"299 - "unknown field \"metadata.odd\"""#, r#"299 - "unknown field \"spec.bogus\"""#]
    );
    assert_eq!(warned.json()["spec"].get("bogus"), None);
    value["metadata"]["name"] = json!("u2");
    let strict = raw.post(&format!("{WIDGETS}?fieldValidation=Strict"), &value).await;
    assert_eq!(strict.code, 400);
    assert_eq!(
        strict.message(),
        "Widget in version \"v1alpha1\" cannot be handled as a Widget: strict decoding error: unknown field \"metadata.odd\", unknown field \"spec.bogus\""
    );
    let silent = raw.post(&format!("{WIDGETS}?fieldValidation=Ignore"), &value).await;
    assert_eq!((silent.code, silent.warnings().len()), (201, 0));
    let patched = raw.merge(&format!("{WIDGETS}/u1?fieldValidation=Strict"), &json!({"spec": {"bogus": 1}})).await;
    assert_eq!(patched.code, 422);
    assert!(patched.message().starts_with(" \"\" is invalid: patch: Invalid value: "), "{}", patched.message());
    let twice = r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Widget","metadata":{"name":"dup"},"spec":{"owner":"ann","owner":"bob"}}"#;
    let answer = raw.send("POST", WIDGETS, &[], twice).await;
    assert_eq!(answer.warnings(), [r#"299 - "duplicate field \"spec.owner\"""#]);
    assert_eq!(answer.json()["spec"]["owner"], "bob");
}

#[tokio::test]
async fn patches_of_every_kind_work_and_fail_as_the_real_ones() {
    let (_sim, raw) = demo().await;
    raw.post(WIDGETS, &widget("m")).await;
    let path = format!("{WIDGETS}/m");
    let json_patch = [("content-type", "application/json-patch+json")];
    let done = raw.send("PATCH", &path, &json_patch, r#"[{"op":"test","path":"/spec/size","value":"small"},{"op":"replace","path":"/spec/size","value":"large"}]"#).await;
    assert_eq!(done.json()["spec"]["size"], "large");
    let failed = raw.send("PATCH", &path, &json_patch, r#"[{"op":"test","path":"/spec/size","value":"small"}]"#).await;
    assert_eq!(
        (failed.code, failed.message().as_str()),
        (422, "the server rejected our request due to an error in our request")
    );
    let strategic = raw.send("PATCH", &path, &[("content-type", "application/strategic-merge-patch+json")], "{}").await;
    assert_eq!(strategic.code, 415);
    assert!(
        strategic
            .message()
            .ends_with("application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
    );
    let stale = raw.merge(&path, &json!({"metadata": {"resourceVersion": "1"}, "spec": {"size": "small"}})).await;
    assert_eq!(stale.code, 409);
    let immutable = raw.merge(&path, &json!({"metadata": {"uid": "x"}})).await;
    assert_eq!(immutable.code, 422);
    assert_eq!(immutable.json()["details"]["causes"].as_array().unwrap().len(), 2, "said twice");
    assert_eq!(
        immutable.message(),
        "Widget.demo.weir.dev \"m\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable"
    );
    assert_eq!(raw.merge(&format!("{WIDGETS}/none"), &json!({})).await.code, 404);
    assert_eq!(raw.send("PATCH", &path, &[("content-type", "application/merge-patch+json")], "[1]").await.code, 400);

    raw.post(CONFIG_MAPS, &config_map("c")).await;
    let merged = raw
        .send(
            "PATCH",
            &format!("{CONFIG_MAPS}/c"),
            &[("content-type", "application/strategic-merge-patch+json")],
            r#"{"data":{"a":null,"b":"2"}}"#,
        )
        .await;
    assert_eq!(merged.json()["data"], json!({"b": "2"}));
}

#[tokio::test]
async fn server_side_apply_creates_owns_and_conflicts() {
    let (_sim, raw) = demo().await;
    let path = |manager: &str| format!("{WIDGETS}/ap?fieldManager={manager}");
    let mut wanted = widget("ap");
    assert_eq!(raw.apply(&format!("{WIDGETS}/ap"), &wanted).await.code, 422, "a manager must be named");
    wanted["spec"]["ports"] = json!([{"name": "h", "port": 80}]);
    let made = raw.apply(&path("m1"), &wanted).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!(made.json()["metadata"]["managedFields"][0]["operation"], "Apply");
    let again = raw.apply(&path("m1"), &wanted).await;
    assert_eq!((again.code, again.revision()), (200, made.revision()), "nothing has changed");
    wanted["spec"]["ports"][0]["port"] = json!(99);
    let conflict = raw.apply(&path("m2"), &wanted).await;
    assert_eq!(conflict.code, 409);
    assert_eq!(conflict.message(), "Apply failed with 1 conflict: conflict with \"m1\": .spec.ports[name=\"h\"].port");
    assert_eq!(conflict.json()["details"]["causes"][0]["reason"], "FieldManagerConflict");
    let forced = raw.apply(&format!("{}&force=true", path("m2")), &wanted).await;
    assert_eq!(forced.json()["spec"]["ports"][0]["port"], 99);
    wanted["spec"]["bogus"] = json!(1);
    let undeclared = raw.apply(&path("m1"), &wanted).await;
    assert_eq!(undeclared.code, 500);
    assert_eq!(
        undeclared.message(),
        "failed to create typed patch object (/ap; demo.weir.dev/v1alpha1, Kind=Widget): .spec.bogus: field not declared in schema"
    );
    let status = json!({"apiVersion": "demo.weir.dev/v1alpha1", "kind": "Widget", "metadata": {"name": "ap"}, "status": {"phase": "Ready"}});
    let applied = raw.apply(&format!("{WIDGETS}/ap/status?fieldManager=m1"), &status).await;
    assert_eq!(applied.json()["status"]["phase"], "Ready", "{}", applied.text);
    assert_eq!(
        raw.apply(
            &format!("{WIDGETS}/none/status?fieldManager=m1"),
            &json!({"apiVersion": "demo.weir.dev/v1alpha1", "kind": "Widget", "metadata": {"name": "none"}})
        )
        .await
        .code,
        404
    );
}

#[tokio::test]
async fn secrets_and_leases_are_decoded_as_their_go_types() {
    let (_sim, raw) = demo().await;
    let secrets = "/api/v1/namespaces/demo/secrets";
    let made =
        raw.post(secrets, &json!({"metadata": {"name": "s"}, "data": {"a": "MQ=="}, "stringData": {"b": "two"}})).await;
    assert_eq!(made.json()["data"], json!({"a": "MQ==", "b": "dHdv"}));
    assert_eq!((&made.json()["type"], made.json().get("stringData")), (&json!("Opaque"), None));
    let bad = raw.post(secrets, &json!({"metadata": {"name": "t"}, "data": {"a": "***"}})).await;
    assert_eq!(
        (bad.code, bad.message().as_str()),
        (400, "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 0")
    );
    assert_eq!(raw.merge(&format!("{secrets}/s"), &json!({"immutable": true})).await.code, 200);
    let frozen = raw.merge(&format!("{secrets}/s"), &json!({"data": {"a": null}})).await;
    assert_eq!(
        frozen.message(),
        "Secret \"s\" is invalid: data: Forbidden: field is immutable when `immutable` is set"
    );

    let leases = "/apis/coordination.k8s.io/v1/namespaces/demo/leases";
    let lease = |time: &str| json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "x", "renewTime": time}});
    assert_eq!(raw.post(leases, &lease("2026-11-29T15:00:01Z")).await.code, 400, "six digits are required");
    let made = raw.post(leases, &lease("2026-11-29T17:00:00.123456+02:00")).await;
    assert_eq!(made.json()["spec"]["renewTime"], "2026-11-29T15:00:00.123456Z");
    let refused = raw.merge(&format!("{leases}/l"), &json!({"spec": {"leaseDurationSeconds": 0}})).await;
    assert!(refused.message().ends_with("spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"));
}

#[tokio::test]
async fn an_event_is_one_object_in_two_forms() {
    let (_sim, raw) = demo().await;
    let modern = "/apis/events.k8s.io/v1/namespaces/demo/events";
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e1"}, "eventTime": "2026-11-29T15:00:00.123456Z",
        "reportingController": "demo.weir.dev/ctl", "reportingInstance": "pod-1", "action": "Reconcile", "reason": "Created", "note": "hello",
        "type": "Normal", "regarding": {"apiVersion": "demo.weir.dev/v1alpha1", "kind": "Widget", "name": "a", "namespace": "demo", "uid": "1"}});
    let made = raw.post(modern, &event).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!(made.json()["note"], "hello");
    let core = raw.get("/api/v1/namespaces/demo/events/e1").await.json();
    assert_eq!(
        (&core["message"], &core["involvedObject"]["name"], &core["apiVersion"]),
        (&json!("hello"), &json!("a"), &json!("v1"))
    );
    let selected =
        raw.get("/api/v1/namespaces/demo/events?fieldSelector=involvedObject.name%3Da%2Creason%3DCreated").await.json();
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
    let mut bad = event.clone();
    bad["metadata"]["name"] = json!("e2");
    bad["type"] = json!("Odd");
    assert_eq!(
        raw.post(modern, &bad).await.message(),
        "Event \"e2\" is invalid: type: Invalid value: \"\": has invalid value: Odd"
    );
}

#[tokio::test]
async fn strings_are_escaped_as_go_escapes_them() {
    let (_sim, raw) = demo().await;
    let mut value = widget("e");
    value["spec"]["note"] = json!("<a>&b\u{2028}é");
    let made = raw.post(WIDGETS, &value).await;
    assert!(made.text.contains(r#""note":"\u003ca\u003e\u0026b\u2028é""#), "{}", made.text);
    assert!(made.text.starts_with(r#"{"apiVersion":"demo.weir.dev/v1alpha1","kind":"Widget","metadata":{"#));
    let built_in = raw.post(CONFIG_MAPS, &config_map("c")).await;
    assert!(
        built_in
            .text
            .starts_with(r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","namespace":"demo","uid":"#)
    );
}

#[tokio::test]
async fn hostile_bodies_are_bounded() {
    let (_sim, raw) = demo().await;
    let big = raw.send("POST", WIDGETS, &[], &"x".repeat(3 * 1024 * 1024 + 1)).await;
    assert_eq!((big.code, big.message().as_str()), (413, "Request entity too large: limit is 3145728"));
    let mut value = widget("big");
    value["metadata"]["annotations"] = json!({"a": "x".repeat(300_000)});
    assert!(
        raw.post(WIDGETS, &value)
            .await
            .message()
            .contains("metadata.annotations: Too long: may not be more than 262144 bytes")
    );
    assert_eq!(raw.send("POST", WIDGETS, &[], &"[".repeat(100_000)).await.code, 400);
    let odd = json!({"status": "odd"});
    for path in [
        "/api/v1/namespaces/demo/status",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.weir.dev/status",
    ] {
        let answer = raw.merge(path, &odd).await;
        assert_eq!(answer.code, 422, "{}", answer.text);
        assert!(
            answer.message().contains("json: cannot unmarshal string into Go struct field"),
            "{}",
            answer.message()
        );
    }
    assert_eq!(raw.get(WIDGETS).await.code, 200, "still served");
    let form = raw.send("POST", WIDGETS, &[("content-type", "application/x-www-form-urlencoded")], "x=1").await;
    assert_eq!(form.code, 415);
}
