//! `/_sim/…`: faults, the request log and the counts, for whoever holds the administrator's token.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::faults::Fault;
use crate::status::Status;

/// Answers code and body.
pub fn handle(cluster: &Cluster, method: &str, path: &str, body: &[u8]) -> Result<(u16, Value), Status> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let bad = |why: String| Status::bad_request(why);
    match (method, &parts[..]) {
        ("GET", ["_sim", "faults"]) => Ok((200, json!({"items": cluster.faults.list()}))),
        ("POST", ["_sim", "faults"]) => {
            let fault: Fault = serde_json::from_slice(body).map_err(|e| bad(format!("not a fault: {e}")))?;
            let id = cluster.faults.add(fault).map_err(|e| bad(format!("not a fault: {e}")))?;
            Ok((201, json!({"id": id})))
        }
        ("DELETE", ["_sim", "faults"]) => {
            cluster.faults.clear();
            Ok((200, json!({})))
        }
        ("DELETE", ["_sim", "faults", id]) => {
            let found = id.parse().is_ok_and(|id| cluster.faults.remove(id));
            if found { Ok((200, json!({}))) } else { Err(Status::not_found("", "faults", id)) }
        }
        ("GET", ["_sim", "requests"]) => Ok((200, json!({"items": cluster.requests.all()}))),
        ("GET", ["_sim", "served"]) => Ok((200, json!({"served": cluster.requests.served()}))),
        ("GET", ["_sim", "counts"]) => Ok((200, json!(cluster.requests.counts()))),
        ("DELETE", ["_sim", "requests" | "counts"]) => {
            cluster.requests.reset();
            Ok((200, json!({})))
        }
        ("GET", ["_sim", "objects"]) => {
            Ok((200, Value::Object(cluster.store.sizes().iter().map(|(t, n)| (t.to_string(), json!(n))).collect())))
        }
        _ => Err(Status::no_such_resource()),
    }
}
