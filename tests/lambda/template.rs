//! The SAM template says what the code relies on.

use serde_json::{Value, json};
use std::path::PathBuf;
use weir_harness::cluster::KINDS;

/// Proves: L-2
#[test]
fn each_function_of_the_template_reports_failed_records_of_a_fifo_queue_that_waits_long_enough() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../infra/lambda/template.yaml");
    let text = std::fs::read_to_string(path).expect("the template");
    let template: Value = serde_yaml_ng::from_str(&text).expect("YAML");
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
