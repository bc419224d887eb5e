//! What both APIs do wrong during a storm, each with a small chance.

use serde_json::{Value, json};
use weir_harness::{Dice, Stack};
use weir_kube_sim::{Action as KubeAction, Disruption, Fault as KubeFault};
use weir_openstack_sim::{Action, Answer, Fault};

/// Lets faults begin in both APIs.
pub async fn begin(stack: &Stack, dice: &mut Dice) {
    let slow_down = Answer { code: 429, body: None, headers: [("Retry-After".to_owned(), "1".to_owned())].into() };
    let cloud = [
        Fault::status(500).with_probability(0.02, dice.roll()),
        Fault::status_after(500).with_probability(0.02, dice.roll()),
        Fault::status(503).with_probability(0.02, dice.roll()),
        Fault::new(Action::Status(slow_down)).with_probability(0.01, dice.roll()),
        Fault::status(409).on("POST", "").with_probability(0.02, dice.roll()),
        Fault::status(409).on("PUT", "").with_probability(0.02, dice.roll()),
        Fault::status(409).on("DELETE", "").with_probability(0.02, dice.roll()),
        Fault::new(Action::ResetBefore).with_probability(0.01, dice.roll()),
        Fault::new(Action::ResetAfter).with_probability(0.02, dice.roll()),
        Fault::new(Action::TokenExpired).with_probability(0.01, dice.roll()),
    ];
    stack.cloud("POST", "faults", Some(&json!(cloud))).await;
    begin_in_kubernetes(stack, dice).await;
}

/// The same in Kubernetes only.
pub async fn begin_in_kubernetes(stack: &Stack, dice: &mut Dice) {
    let writes = |fault: KubeFault| ["create", "patch", "delete"].into_iter().fold(fault, KubeFault::verb);
    let kubernetes = [
        KubeFault::status(500).probability(0.02, dice.roll()),
        KubeFault::new(KubeAction::Status { code: 429, retry_after: Some(1) }).probability(0.01, dice.roll()),
        writes(KubeFault::status(409)).probability(0.03, dice.roll()),
        KubeFault::lost_write().probability(0.02, dice.roll()),
        KubeFault::new(KubeAction::LostAnswer).probability(0.02, dice.roll()),
        KubeFault::new(KubeAction::Drop).probability(0.01, dice.roll()),
        watch(Disruption::End { after_ms: 500 }).probability(0.3, dice.roll()),
        watch(Disruption::Gone).probability(0.2, dice.roll()),
        watch(Disruption::Hang).probability(0.1, dice.roll()),
    ];
    for fault in &kubernetes {
        // Only those who give no name for themselves: the functions. The test itself wants to be served.
        let fault = fault.clone().user_agent("^$");
        stack.cluster.sim("POST", "faults", Some(&json!(fault))).await;
    }
}

fn watch(disruption: Disruption) -> KubeFault {
    KubeFault::new(KubeAction::Watch { disruption }).verb("watch")
}

/// Ends all faults; returns how often they have struck since the APIs were last started.
pub async fn end(stack: &Stack) -> u64 {
    let count =
        |list: &Value, key: &str| list.as_array().into_iter().flatten().filter_map(|f| f[key].as_u64()).sum::<u64>();
    let cloud = stack.cloud("GET", "faults", None).await;
    let kubernetes = stack.cluster.sim("GET", "faults", None).await;
    stack.cloud("DELETE", "faults", None).await;
    stack.cluster.sim("DELETE", "faults", None).await;
    println!("faults in Kubernetes: {}", count(&kubernetes["items"], "strikes"));
    count(&cloud["faults"], "fired") + count(&kubernetes["items"], "strikes")
}
