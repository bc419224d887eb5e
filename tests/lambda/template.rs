//! The SAM template says what the code relies on.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use weir_harness::World;
use weir_harness::cluster::KINDS;

fn template() -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../infra/lambda/template.yaml");
    let text = std::fs::read_to_string(path).expect("the template");
    serde_yaml_ng::from_str(&text).expect("YAML")
}

/// Proves: L-1, MON-1
#[test]
fn the_monitor_of_the_template_is_invoked_with_an_envelope_that_it_understands() {
    let function = &template()["Resources"]["MonitorFunction"]["Properties"];
    assert_eq!(function["CodeUri"], "build/server-monitor/");
    let tick = &function["Events"]["Tick"]["Properties"];
    assert_eq!(tick["ScheduleExpression"], "rate(1 minute)");
    let input = tick["Input"]["Fn::Sub"].as_str().expect("a constant input");
    let input = input.replace("${RegionNamespace}", World::NAMESPACE).replace("${RegionName}", World::REGION);
    assert_eq!(serde_json::from_str::<Value>(&input).expect("JSON"), crate::monitor::tick());
}

/// Proves: L-1
#[test]
fn all_that_the_template_deploys_is_packaged() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../infra/lambda/package");
    let script = std::fs::read_to_string(path).expect("the script");
    let packaged = script.lines().find_map(|line| line.strip_prefix("functions=")).expect("the functions");
    let packaged: BTreeSet<String> =
        packaged.trim_matches('"').split(' ').map(|name| format!("build/{name}/")).collect();
    let template = template();
    let resources = template["Resources"].as_object().expect("resources").values();
    let deployed = resources.filter_map(|resource| resource["Properties"]["CodeUri"].as_str().map(str::to_owned));
    assert_eq!(deployed.collect::<BTreeSet<_>>(), packaged);
}

/// Proves: L-2
#[test]
fn each_function_of_the_template_reports_failed_records_of_a_fifo_queue_that_waits_long_enough() {
    let template = template();
    let timeout = template["Globals"]["Function"]["Timeout"].as_u64().expect("a time-out");
    for kind in KINDS {
        let name: String = kind.token().split('-').map(|part| part[..1].to_uppercase() + &part[1..]).collect();
        let resource = |what: &str| &template["Resources"][format!("{name}{what}")];
        assert_eq!(resource("Function")["Properties"]["CodeUri"], format!("build/{kind}/"));
        let source = &resource("Function")["Properties"]["Events"]["Queue"]["Properties"];
        assert_eq!(source["Queue"], json!({"Fn::GetAtt": [format!("{name}Queue"), "Arn"]}), "{kind}");
        assert_eq!(source["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]), "{kind}");
        assert!(source["BatchSize"].as_u64().is_some_and(|size| size <= 10), "{kind}: the most of a FIFO queue");
        let queue = &resource("Queue")["Properties"];
        assert_eq!(queue["FifoQueue"], true, "{kind}");
        assert!(queue["VisibilityTimeout"].as_u64().is_some_and(|seconds| seconds >= 6 * timeout), "{kind}");
        let dead_letters = json!({"Fn::GetAtt": [format!("{name}DeadLetters"), "Arn"]});
        assert_eq!(queue["RedrivePolicy"]["deadLetterTargetArn"], dead_letters, "{kind}");
        assert_eq!(resource("DeadLetters")["Properties"]["FifoQueue"], true, "{kind}: as the queue that it serves");
    }
}
