//! Against what a real server was seen to answer (`testdata`), and the rules that Weir's own kinds have.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::cmp_owned)]

use super::{Cause, Schema};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn widget() -> Schema {
    Schema::compile(&widget_source()).expect("the schema is structural")
}

fn widget_source() -> Value {
    serde_json::from_str(include_str!("testdata/widget.json")).unwrap()
}

fn triple(cause: &Cause) -> [String; 3] {
    [cause.reason.clone(), cause.field.clone(), cause.message.clone()]
}

fn set(causes: &Value) -> BTreeSet<[String; 3]> {
    serde_json::from_value(causes.clone()).unwrap()
}

fn compile(spec: Value) -> Result<Schema, Vec<Cause>> {
    Schema::compile(&json!({"type": "object", "properties": {"spec": spec}}))
}

/// The fields and messages of what is wrong with an object.
fn problems(schema: &Schema, spec: Value, old: Option<Value>) -> Vec<String> {
    let object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec});
    let old = old.map(|spec| json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec}));
    schema
        .validate_after(&object, old.as_ref(), Vec::new())
        .iter()
        .map(|c| format!("{}: {}", c.field, c.message))
        .collect()
}

/// A schema whose spec is one value, `x`, with one rule.
fn ruled(x: Value, rule: &str) -> Result<Schema, Vec<Cause>> {
    let mut x = x;
    x["x-kubernetes-validations"] = json!([{"rule": rule, "message": "no"}]);
    compile(json!({"type": "object", "properties": {"x": x}}))
}

#[test]
fn objects_are_pruned_defaulted_and_refused_as_by_a_real_server() {
    let schema = widget();
    let rows: Vec<Value> = serde_json::from_str(include_str!("testdata/observed.json")).unwrap();
    assert!(rows.len() > 70);
    let mut wrong = Vec::new();
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let mut object: Value = serde_json::from_str(row["object"].as_str().unwrap()).unwrap();
        let unknown: Vec<String> =
            schema.prune(&mut object).iter().map(|path| format!("unknown field {path:?}")).collect();
        schema.default(&mut object);
        let found: BTreeSet<_> = schema.validate_after(&object, None, Vec::new()).iter().map(triple).collect();
        let expected = row.get("causes").map(set).unwrap_or_default();
        if found != expected {
            wrong.push(format!("{name}:\n  got {found:#?}\n  want {expected:#?}"));
        }
        // Numbers are compared as the server writes them: whole floats without a fraction.
        if let Some(spec) = row.get("spec")
            && spec.to_string() != object["spec"].to_string().replace("1000.0", "1000")
        {
            wrong.push(format!("{name}: got spec {}", object["spec"]));
        }
        if row.get("unknown").is_some_and(|u| !u.is_null() && *u != json!(unknown)) {
            wrong.push(format!("{name}: got {unknown:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn schemas_that_are_not_structural_are_refused_as_by_a_real_server() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("testdata/invalid.json")).unwrap();
    let mut wrong = Vec::new();
    for row in &rows {
        let found: BTreeSet<_> =
            Schema::compile(&row["schema"]).expect_err("it is invalid").iter().map(triple).collect();
        let mut expected = set(&row["causes"]);
        // What depends on the status subresource is not this module's.
        expected.retain(|[_, _, message]| !message.contains("if the status subresource is enabled"));
        if found != expected {
            wrong.push(format!("{}:\n  got {found:#?}\n  want {expected:#?}", row["name"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_message_expression_without_bound_is_refused_and_a_bounded_one_is_not() {
    let mut source = widget_source();
    source["properties"]["spec"]["x-kubernetes-validations"][1]["messageExpression"] =
        json!("'replicas ' + string(self.replicas)");
    let causes = Schema::compile(&source).expect_err("its estimate is unbounded");
    assert_eq!(causes.len(), 3, "{causes:?}");
    assert!(
        causes[0].message.contains("estimated messageExpression cost exceeds budget by factor of more than 100x"),
        "{causes:?}"
    );
    source["properties"]["spec"]["x-kubernetes-validations"][1]["messageExpression"] = json!("string(self.replicas)");
    Schema::compile(&source).unwrap();
}

#[test]
fn causes_come_in_the_same_order_every_time() {
    let schema = widget();
    let object =
        json!({"metadata": {"name": "n"}, "spec": {"size": "huge", "replicas": 11, "code": "X", "tags": ["a", "a"]}});
    let fields: Vec<String> = schema.validate_after(&object, None, Vec::new()).into_iter().map(|c| c.field).collect();
    assert_eq!(fields, ["spec.code", "spec.replicas", "spec.size", "spec.owner", "spec.tags[1]", "<nil>"]);
}

#[test]
fn transition_rules_apply_only_where_there_is_an_old_value() {
    let schema = widget();
    let base = |extra: Value| {
        let mut spec = json!({"owner": "ann", "replicas": 1, "size": "small"});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        spec
    };
    let check = |new: Value, old: Value| problems(&schema, base(new), Some(base(old)));
    assert_eq!(
        check(json!({"fixed": "b"}), json!({"fixed": "a"})),
        ["spec.fixed: Invalid value: \"b\": fixed is immutable"]
    );
    assert!(check(json!({}), json!({"fixed": "a"})).is_empty());
    assert!(check(json!({"fixed": "b"}), json!({})).is_empty());
    assert!(problems(&schema, base(json!({"fixed": "b"})), None).is_empty());
    assert_eq!(
        check(json!({"once": "y"}), json!({"once": "x"})),
        ["spec.once: Invalid value: \"y\": once may be set only once"]
    );
    assert!(check(json!({"once": "y"}), json!({})).is_empty());
}

#[test]
fn items_of_a_keyed_list_find_their_old_selves_by_key() {
    let schema = compile(json!({"type": "object", "properties": {"ports": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.port == oldSelf.port", "message": "port is fixed"}]}}}}))
    .unwrap();
    let old = json!({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]});
    let reordered = json!({"ports": [{"name": "c", "port": 3}, {"name": "b", "port": 2}, {"name": "a", "port": 1}]});
    assert!(problems(&schema, reordered, Some(old.clone())).is_empty());
    let changed = json!({"ports": [{"name": "b", "port": 9}]});
    assert_eq!(problems(&schema, changed, Some(old)), ["spec.ports[0]: Invalid value: port is fixed"]);
}

#[test]
fn old_self_in_a_list_without_keys_is_refused() {
    let item = json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let list = json!({"type": "array", "maxItems": 9, "items": item});
    let causes = compile(list).expect_err("items cannot be correlated");
    assert!(
        causes[0].message.contains("oldSelf cannot be used on the uncorrelatable portion of the schema"),
        "{causes:?}"
    );
}

#[test]
fn unchanged_values_are_not_held_against_a_writer() {
    let tight = compile(json!({"type": "object", "required": ["b"], "properties": {
        "a": {"type": "string", "maxLength": 2, "x-kubernetes-validations": [{"rule": "self != 'long'"}]},
        "b": {"type": "string"}, "l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}))
    .unwrap();
    let old = json!({"a": "long", "b": "1", "l": ["x", "x"]});
    assert!(problems(&tight, json!({"a": "long", "b": "2", "l": ["x", "x"]}), Some(old.clone())).is_empty());
    let changed = problems(&tight, json!({"a": "other", "b": "2", "l": ["x", "x"]}), Some(old.clone()));
    assert!(changed[0].starts_with("spec.a: Too long"), "{changed:?}");
    // A field that goes missing is a change of what holds it.
    assert!(!problems(&tight, json!({"a": "long", "l": []}), Some(old)).is_empty());
}

#[test]
fn the_rules_of_weirs_kinds_hold_and_break_where_they_should() {
    let integer = || json!({"type": "integer"});
    let network = compile(json!({"type": "object", "properties": {
        "prefix": {"type": "string", "pattern": r"^(?:[0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$"},
        "reservations": {"type": "object", "required": ["prefixLength"],
            "properties": {"prefixLength": integer(), "providerReservedPrefixLength": integer()},
            "x-kubernetes-validations": [{"rule": "!has(self.providerReservedPrefixLength) || (self.providerReservedPrefixLength >= self.prefixLength)"}]}},
        "x-kubernetes-validations": [{"rule":
            "!has(self.reservations) || (self.reservations.prefixLength > int(self.prefix.split(\"/\")[1]))"}]}))
    .unwrap();
    assert!(problems(&network, json!({"prefix": "10.0.0.0/16"}), None).is_empty());
    assert!(
        problems(&network, json!({"prefix": "10.0.0.0/16", "reservations": {"prefixLength": 24}}), None).is_empty()
    );
    assert_eq!(
        problems(&network, json!({"prefix": "10.0.0.0/16", "reservations": {"prefixLength": 16}}), None).len(),
        1
    );
    let both =
        json!({"prefix": "10.0.0.0/16", "reservations": {"prefixLength": 24, "providerReservedPrefixLength": 20}});
    assert_eq!(problems(&network, both, None).len(), 1);

    let server = compile(json!({"type": "object", "properties": {"infrastructureRef": {"type": "string"}, "pause": {"type": "boolean"}},
        "x-kubernetes-validations": [{"rule": "!has(oldSelf.infrastructureRef) == !has(self.infrastructureRef) && \
            (!has(self.infrastructureRef) || self.infrastructureRef == oldSelf.infrastructureRef)", "message": "immutable"}]}))
    .unwrap();
    let with = |reference: Option<&str>, pause: bool| match reference {
        Some(reference) => json!({"infrastructureRef": reference, "pause": pause}),
        None => json!({"pause": pause}),
    };
    assert!(problems(&server, with(Some("a"), true), None).is_empty());
    assert!(problems(&server, with(Some("a"), true), Some(with(Some("a"), false))).is_empty());
    assert_eq!(
        problems(&server, with(Some("b"), true), Some(with(Some("a"), false))),
        ["spec: Invalid value: immutable"]
    );
    assert_eq!(problems(&server, with(None, true), Some(with(Some("a"), false))).len(), 1);
    assert_eq!(problems(&server, with(Some("a"), true), Some(with(None, false))).len(), 1);

    let region = compile(
        json!({"type": "object", "properties": {"provider": {"type": "string", "enum": ["openstack", "kubernetes"]},
        "openstack": {"type": "object"}},
        "x-kubernetes-validations": [{"rule": "self.provider == \"openstack\" ? has(self.openstack) : true"}]}),
    )
    .unwrap();
    assert_eq!(problems(&region, json!({"provider": "openstack"}), None).len(), 1);
    assert!(problems(&region, json!({"provider": "kubernetes"}), None).is_empty());

    let listener = json!({"type": "object", "properties": {"listeners": {"type": "array", "items": {"type": "object",
        "required": ["protocol", "pool"], "properties": {"protocol": {"type": "string", "enum": ["tcp", "udp"]},
            "idleTimeoutSeconds": integer(),
            "pool": {"type": "object", "properties": {"proxyProtocolV2": {"type": "boolean"}}}},
        "x-kubernetes-validations": [{"rule": "self.protocol == 'tcp' || !has(self.idleTimeoutSeconds)"},
            {"rule": "self.protocol == 'tcp' || !has(self.pool.proxyProtocolV2) || self.pool.proxyProtocolV2 == false"}]}}}});
    let balancer = compile(listener).unwrap();
    let one = |l: Value| problems(&balancer, json!({"listeners": [l]}), None).len();
    assert_eq!(one(json!({"protocol": "udp", "pool": {"proxyProtocolV2": false}})), 0);
    assert_eq!(one(json!({"protocol": "udp", "pool": {"proxyProtocolV2": true}})), 1);
    assert_eq!(one(json!({"protocol": "udp", "idleTimeoutSeconds": 1, "pool": {"proxyProtocolV2": true}})), 2);
    assert_eq!(one(json!({"protocol": "tcp", "idleTimeoutSeconds": 1, "pool": {"proxyProtocolV2": true}})), 0);
}

/// Every version of every definition that Weir ships.
#[test]
fn weirs_own_definitions_are_structural_and_their_rules_affordable() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/crds");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let definition: Value = serde_yaml_ng::from_str(&text).unwrap();
        for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
            Schema::compile(&version["schema"]["openAPIV3Schema"])
                .unwrap_or_else(|c| panic!("{}: {c:#?}", path.display()));
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} versions");
}

/// Rules over a string `x`, each true.
#[test]
fn functions_of_cel_and_of_kubernetes_work() {
    let text = || json!({"type": "string", "maxLength": 100});
    let truths = [
        "self.split('/').size() == 2 && self.split('/')[0] == 'Ab1'",
        "self.split('').join('') == self && self.split('/', 1) == [self]",
        "self.lowerAscii() == 'ab1/é' && self.upperAscii() == 'AB1/é'",
        "self.indexOf('/') == 3 && self.indexOf('z') == -1 && self.lastIndexOf('1') == 2 && self.charAt(4) == 'é'",
        "self.substring(1, 3) == 'b1' && self.substring(4) == 'é' && size(self) == 5",
        "self.replace('b', 'cc') == 'Acc1/é' && '  x '.trim() == 'x'",
        "self.matches('^[A-Z][a-z][0-9]/.$') && self.find('[0-9]+') == '1' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "self.startsWith('Ab') && self.endsWith('é') && self.contains('1/')",
        "[1, 2, 3].isSorted() && [3, 1].sum() == 4 && [3, 1].min() == 1 && [3, 1].max() == 3 && [1, 2].indexOf(2) == 1",
        "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x == 2)",
        "[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6] && {'a': 1}.map(k, k) == ['a']",
        "int('7') + 1 == 8 && uint(3) == 3u && double(1) < 1.5 && string(1) == '1' && bool('true') && type(1) == int",
        "[1, 0].exists(x, 4 / x == 4) && !([0, 1].all(x, 4 / x == 5)) && (1 / 0 == 1 || true)",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('10.0.0.256') && ip('127.0.0.1').isLoopback()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && isCIDR('10.0.0.0/8')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8 && !isCIDR('10.0.0.0/33')",
        "url('https://example.com:80/a?b=c').getHostname() == 'example.com' && url('https://h/p').getScheme() == 'https' && isURL('/abs')",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1500m').compareTo(quantity('1.5')) == 0 && quantity('2k').asInteger() == 2000",
        "quantity('1').add(quantity('2')).sub(1) == quantity('2') && isQuantity('1.5Ti') && !isQuantity('x')",
        "timestamp('2020-01-02T03:04:05Z').getFullYear() == 2020 && duration('90m') == duration('1h30m') && duration('1h').getMinutes() == 60",
        "timestamp('2020-01-01T00:00:00Z') + duration('24h') == timestamp('2020-01-02T00:00:00Z')",
        "optional.of(1).hasValue() && optional.none().orValue(2) == 2 && {'a': 1}.?a.orValue(0) == 1 && !{'a': 1}.?b.hasValue()",
        "optional.of(2).optMap(v, v * 2).value() == 4 && [1, 2][?5].orValue(9) == 9",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])",
        "'b' in ['a', 'b'] && 'a' in {'a': 1} && !(3 in [1]) && 1 != 2 && -1 < 0 && 7 % 4 == 3 && (true ? 1 : 2) == 1",
    ];
    for rule in truths {
        let schema = ruled(text(), rule).unwrap_or_else(|causes| panic!("{rule}: {causes:?}"));
        let found = problems(&schema, json!({"x": "Ab1/é"}), None);
        assert!(found.is_empty(), "{rule}: {found:?}");
    }
}

#[test]
fn rules_that_name_what_is_not_there_or_mix_types_do_not_compile() {
    let object =
        json!({"type": "object", "properties": {"s": {"type": "string", "maxLength": 9}, "n": {"type": "integer"}}});
    for (rule, why) in [
        ("self.x == 1", "undefined field 'x'"),
        ("self.s == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.s > self.n", "found no matching overload for '_>_' applied to '(string, int)'"),
        ("self.n.startsWith('a')", "found no matching overload for 'startsWith' applied to '(int, string)'"),
        ("nope(self.s)", "undeclared reference to 'nope'"),
        ("other == 1", "undeclared reference to 'other'"),
        ("self.s", "cel expression must evaluate to a bool"),
        ("self.s.matches('(')", "invalid matches argument"),
        ("self.n.all(x, x > 1)", "cannot be range of a comprehension"),
        ("self.s.f == 1", "type 'string' does not support field selection"),
        ("", "rule is not specified"),
    ] {
        let causes = ruled(object.clone(), rule).expect_err(rule);
        assert!(causes[0].message.contains(why), "{rule}: {causes:?}");
    }
}

#[test]
fn members_whose_names_cel_cannot_spell_are_reached_by_their_escapes() {
    let object = json!({"type": "object", "properties": {"a-b": {"type": "integer"}, "namespace": {"type": "integer"}, "c.d": {"type": "integer"}}});
    let schema = ruled(object, "self.a__dash__b == 1 && self.__namespace__ == 2 && self.c__dot__d == 3").unwrap();
    assert!(problems(&schema, json!({"x": {"a-b": 1, "namespace": 2, "c.d": 3}}), None).is_empty());
}

#[test]
fn hostile_rules_end_soon() {
    let list = || json!({"type": "array", "maxItems": 100, "items": {"type": "integer"}});
    // Affordable by its estimate, which cannot tell how large `l` grows; not when it runs.
    let doubling =
        "[1, 2].all(a, [1, 2].all(b, [1, 2].map(c, self.map(d, self.map(e, self.map(f, f)))).size() == 0 || true))";
    if let Ok(schema) = ruled(list(), doubling) {
        let found = problems(&schema, json!({"x": (0..100).collect::<Vec<_>>()}), None);
        assert!(found[0].contains("cost"), "{found:?}");
    }
    let deep = format!("{}true{}", "(".repeat(500), ")".repeat(500));
    assert!(ruled(list(), &deep).is_err());
    assert!(ruled(list(), &"!".repeat(2_000)).is_err());
    for link in ["+1", ".a", "[0]", " in [1]", "?1:1", " == 1", " && 1 == 1", ".map(x, x)"] {
        for length in [20, 100, 500, 5_000] {
            let _ = ruled(list(), &format!("1{}", link.repeat(length)));
        }
    }
    assert!(ruled(list(), &format!("'{}' == ''", "a".repeat(20_000))).is_err());
    assert!(
        ruled(json!({"type": "string"}), "self.matches('(a{1000}){1000}')").is_err() || {
            let schema = ruled(json!({"type": "string"}), "self.matches('(a{1000}){1000}')").unwrap();
            !problems(&schema, json!({"x": "a"}), None).is_empty()
        }
    );
}

#[test]
fn schemas_and_objects_as_deep_as_json_can_be_are_handled() {
    let mut schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [{"rule": "has(self.a)"}]});
    let mut object = json!({"a": "x"});
    // A request may be 128 levels deep, and each level of a schema takes two.
    for level in 0..60 {
        schema = json!({"type": "object", "properties": {"a": schema}});
        if level == 30 {
            schema["anyOf"] = json!([{"properties": {"a": {"required": ["b"]}}}, {"required": ["a"]}]);
        }
        object = json!({"a": object});
    }
    let schema = Schema::compile(&schema).unwrap();
    assert!(schema.prune(&mut object).is_empty());
    schema.default(&mut object);
    assert!(schema.validate_after(&object, None, Vec::new()).is_empty());
}

#[test]
fn long_lists_are_compared_with_their_old_selves_quickly() {
    let schema = compile(json!({"type": "object", "properties": {
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}, "v": {"type": "integer"}}}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "!has(oldSelf.set) || self.set == oldSelf.set"}]}))
    .unwrap();
    let with = |v: i64| {
        let keyed: Vec<Value> = (0..30_000).map(|k| json!({"k": k, "v": v})).collect();
        let set: Vec<i64> = if v == 0 { (0..30_000).collect() } else { (0..30_000).rev().collect() };
        json!({"keyed": keyed, "set": set})
    };
    let start = std::time::Instant::now();
    assert!(problems(&schema, with(1), Some(with(0))).is_empty());
    // Quadratic work takes minutes here.
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z/0-9é]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let name = prop_oneof![
            "[a-z]{1,3}",
            prop::sample::select(vec![
                "owner", "size", "ports", "tags", "template", "depth", "note", "quota", "choice", "extra", "name",
                "port"
            ])
            .prop_map(str::to_owned)
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn pruning_and_defaulting_twice_is_as_once_and_no_object_is_too_odd_to_validate(spec in json_value(), status in json_value()) {
        let schema = widget();
        let mut object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec, "status": status});
        schema.prune(&mut object);
        let mut again = object.clone();
        prop_assert!(schema.prune(&mut again).is_empty());
        prop_assert_eq!(&again, &object);
        schema.default(&mut object);
        let mut again = object.clone();
        schema.default(&mut again);
        prop_assert_eq!(&again, &object);
        schema.validate_after(&object, None, Vec::new());
        prop_assert!(schema.validate_after(&object, Some(&object), Vec::new()).is_empty());
    }

    #[test]
    fn no_schema_is_too_odd_to_compile(schema in json_value(), rule in "[a-z()\\[\\]{}.'\"!&|?:0-9+ ]{0,40}") {
        let _ = Schema::compile(&schema);
        let _ = compile(json!({"type": "object", "properties": schema}));
        let _ = ruled(json!({"type": "string"}), &rule);
    }
}
