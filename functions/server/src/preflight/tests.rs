#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    items.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn specs(value: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(value.clone()).unwrap()
}

fn plain(traits: &[Trait]) -> Vec<String> {
    traits.iter().map(Trait::to_string).collect()
}

/// Goes through the rows that `judge` has something to say of, and tells how many.
fn rows(judge: impl Fn(&str, &Value, &Value) -> Option<()>) -> usize {
    let table: Value = serde_json::from_str(include_str!("../../tests/tables/placement_preflight.json")).unwrap();
    let cases = table["cases"].as_array().unwrap().iter();
    cases.filter(|case| judge(case["case"].as_str().unwrap(), &case["input"], &case["expect"]).is_some()).count()
}

/// Proves: PIN-2
#[test]
fn a_region_s_traits_come_after_the_flavor_s_as_the_table_says() {
    let judged = rows(|case, input, expect| {
        let flavor = input.get("flavorTraits")?;
        let flavor: Vec<Trait> = texts(flavor).iter().map(|name| Trait::required(name).unwrap()).collect();
        let region = region_traits(&texts(&input["config"]["requiredTraits"])).unwrap();
        let traits = plain(&union(&flavor, &region));
        assert_eq!(traits, texts(&expect["traits"]), "{case}");
        assert_eq!(traits.join(","), expect["query"].as_str().unwrap(), "{case}");
        Some(())
    });
    assert_eq!(judged, 3);
}

/// Proves: PIN-2, PIN-3
#[test]
fn a_flavor_s_extra_specs_make_the_question_or_the_error_of_the_table() {
    let judged = rows(|case, input, expect| {
        let extra_specs = specs(input.get("extraSpecs").filter(|_| input["flavor"].is_string())?);
        match (Question::of(&extra_specs, &[]), expect["error"].as_str()) {
            (Ok(question), None) => {
                if let Some(resources) = expect["resources"].as_str() {
                    assert_eq!(format!("{}:1", question.class), resources, "{case}");
                }
                if expect["traits"].is_array() {
                    assert_eq!(plain(&question.traits), texts(&expect["traits"]), "{case}");
                }
            }
            (Err(error), Some("consistency")) => {
                let flavor = FlavorId::from("flavor-7");
                let problem = inconsistent(&flavor, &error);
                assert_eq!(problem.consequence, Consequence::Retry(Some(YIELD)), "{case}");
                let named = texts(&expect["names"]);
                for name in named.iter().map(String::as_str).chain(["flavor-7"]) {
                    assert!(problem.message.contains(name), "{case}: {}", problem.message);
                }
            }
            (other, expected) => panic!("{case}: {other:?}, not {expected:?}"),
        }
        Some(())
    });
    assert_eq!(judged, 22);
}

/// Proves: PIN-2
#[test]
fn a_host_is_found_by_uuid_or_name_as_the_table_says() {
    let judged = rows(|case, input, expect| {
        let available = expect.get("available")?.as_bool().unwrap();
        let providers = input["providers"].as_array().map_or(&[][..], Vec::as_slice);
        let provider = |p: &Value| ResourceProvider::new(p["uuid"].as_str().unwrap(), p["name"].as_str().unwrap());
        let providers: Vec<_> = providers.iter().map(provider).collect();
        let host = input["infrastructureRef"].as_str().unwrap().trim();
        assert_eq!(is_among(host, &providers), available, "{case}");
        Some(())
    });
    assert_eq!(judged, 5);
    // A provider whose name the cloud does not tell is not the host that has none.
    assert!(!is_among("", &[ResourceProvider::new("rp-a", "")]));
}

/// Proves: PIN-3, OWN-5
#[test]
fn what_the_cloud_says_of_a_flavor_is_shown_plain_and_short() {
    let long = format!("x\n\u{1b}[31m{}", "y".repeat(5000));
    let extra_specs = BTreeMap::from([("resources:CUSTOM_GPU".to_owned(), long)]);
    let message = inconsistent(&"f".into(), &Question::of(&extra_specs, &[]).unwrap_err()).message;
    assert!(message.len() < 400 && !message.contains(char::is_control), "{message}");
    let many: BTreeMap<_, _> = (0..500).map(|n| (format!("resources:CUSTOM_{n}"), "1".to_owned())).collect();
    let message = inconsistent(&"f".into(), &Question::of(&many, &[]).unwrap_err()).message;
    assert!(message.len() < 800, "{message}");
}

proptest! {
    /// Proves: PIN-2
    #[test]
    fn a_question_is_of_one_class_and_no_trait_twice(
        specs in proptest::collection::btree_map("(resources|trait):[A-Za-z_,!:]{0,12}", "(1|0|required|forbidden|.{0,6})", 0..6),
        more in proptest::collection::vec("!?[a-z_]{1,4}", 0..6),
    ) {
        let more = region_traits(&more).unwrap();
        if let Ok(question) = Question::of(&specs, &more) {
            let unique: HashSet<_> = question.traits.iter().collect();
            prop_assert_eq!(unique.len(), question.traits.len());
            prop_assert!(more.iter().all(|t| question.traits.contains(t)));
            prop_assert!(question.traits.iter().all(|t| !t.as_str().contains(',')));
        }
    }
}
