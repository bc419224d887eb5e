//! What it takes to redact a body: `cargo run --release -p weir-function-runtime --example redaction -- <what> <rounds>`, where
//! what is `nova`, `kubernetes` or `user-data`. Under `valgrind --tool=callgrind` it counts instructions, which is repeatable.
#![allow(clippy::unwrap_used, missing_docs)]
#![recursion_limit = "256"]

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use weir_function_runtime::record::redact::{Key, Secrets};

/// A server as Nova shows it, about 4 KB of it.
fn nova(round: usize) -> Value {
    let link = |what: &str, id: &str| json!({"rel": what, "href": format!("http://10.0.0.1:8774/v2.1/servers/{id}")});
    let id = format!("b0000000-0000-4000-8000-{round:012x}");
    let address = |at: usize| {
        json!({"version": 4, "addr": format!("10.0.{}.{at}", round % 250), "OS-EXT-IPS:type": "fixed",
            "OS-EXT-IPS-MAC:mac_addr": format!("fa:16:3e:00:{:02x}:{at:02x}", round % 250)})
    };
    json!({"server": {
        "id": id, "name": format!("server-{round}"), "status": "ACTIVE", "tenant_id": "0f3a1c2d4b5e69788796a5b4c3d2e1f0",
        "user_id": "9a8b7c6d5e4f30211203f4e5d6c7b8a9", "metadata": {"weir-owner": format!("0192a1b2-0000-7000-8000-{round:012x}"),
            "weir-kind": "server", "organization": "acme", "project": "rockets"},
        "hostId": "2091634baaccdc4c5a1d57069c833e402921df696b7f970791b12ec6", "image": {"id": "70a599e0-31e7-49b7-b260-868f441e862b",
            "links": [link("bookmark", "70a599e0-31e7-49b7-b260-868f441e862b")]},
        "flavor": {"vcpus": 2, "ram": 4096, "disk": 40, "ephemeral": 0, "swap": 0, "original_name": "g.2.standard",
            "extra_specs": {"hw:cpu_policy": "dedicated", "hw:mem_page_size": "large", "resources:VGPU": "1"}},
        "created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:01:00Z",
        "addresses": {"network-1": (0..4).map(address).collect::<Vec<_>>()},
        "accessIPv4": "", "accessIPv6": "", "links": [link("self", &id), link("bookmark", &id)], "OS-DCF:diskConfig": "MANUAL",
        "progress": 0, "OS-EXT-AZ:availability_zone": "nova", "config_drive": "", "key_name": "identity-key",
        "OS-SRV-USG:launched_at": "2026-01-01T00:01:00.000000", "OS-SRV-USG:terminated_at": null,
        "OS-EXT-SRV-ATTR:host": "compute-12.example", "OS-EXT-SRV-ATTR:instance_name": "instance-00000042",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": "compute-12.example", "OS-EXT-SRV-ATTR:root_device_name": "/dev/vda",
        "OS-EXT-STS:task_state": null, "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:power_state": 1,
        "os-extended-volumes:volumes_attached": [{"id": "e3e1f6b0-2d6f-4d0c-9a53-2f5d5fa3d4bb", "delete_on_termination": false}],
        "locked": false, "locked_reason": null, "description": null, "tags": ["weir", "owner=team-rocket", "zone=a"],
        "trusted_image_certificates": null, "server_groups": ["616fb98f-46ca-475e-917e-2563e5a8cd19"], "host_status": "UP",
        "security_groups": [{"name": "default"}, {"name": "6a1d2c3b-1111-4222-8333-444455556666"}, {"name": "web"}],
        "fault": {"code": 500, "created": "2026-01-01T00:00:30Z", "message": "No valid host was found. There are not enough hosts available.",
            "details": "Traceback (most recent call last):\n  File \"/usr/lib/nova/conductor/manager.py\", line 654, in build_instances\n    raise exception.NoValidHost(reason=\"\")\nnova.exception.NoValidHost: No valid host was found.\n"}
    }})
}

/// A server as Kubernetes shows it.
fn kubernetes(round: usize, user_data: &str) -> Value {
    json!({"apiVersion": "region.unikorn-cloud.org/v1alpha1", "kind": "Server", "metadata": {
        "name": format!("0192a1b2-0000-7000-8000-{round:012x}"), "namespace": "unikorn-region",
        "uid": format!("5e0d0000-0000-4000-8000-{round:012x}"), "resourceVersion": round.to_string(), "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["unikorn"],
        "labels": {"unikorn-cloud.org/name": "web-1", "regions.unikorn-cloud.org/region-id": "region-1",
            "regions.unikorn-cloud.org/identity-id": "0192a1b2-0000-7000-8000-00000000aaaa",
            "unikorn-cloud.org/organization": "acme", "unikorn-cloud.org/project": "rockets"},
        "annotations": {"unikorn-cloud.org/description": "the web server", "unikorn-cloud.org/creator": "me@example.com"},
        "managedFields": [{"manager": "weir", "operation": "Apply", "apiVersion": "region.unikorn-cloud.org/v1alpha1",
            "fieldsV1": {"f:status": {"f:conditions": {}, "f:phase": {}}}}]},
        "spec": {"tags": [{"name": "team", "value": "rockets"}, {"name": "stage", "value": "production"}],
            "flavorId": "g.2.standard", "image": {"id": "70a599e0-31e7-49b7-b260-868f441e862b"},
            "networks": [{"id": "0192a1b2-0000-7000-8000-00000000bbbb", "allowedAddressPairs": [{"cidr": "10.1.0.0/24"}]}],
            "securityGroups": [{"id": "0192a1b2-0000-7000-8000-00000000cccc"}], "publicIPAllocation": {"enabled": true},
            "sshCertificateAuthorityID": "0192a1b2-0000-7000-8000-00000000dddd", "userData": user_data},
        "status": {"phase": "Running", "privateIP": "10.0.0.4", "publicIP": "203.0.113.7", "conditions": [
            {"type": "Available", "status": "True", "reason": "Provisioned", "message": "Provisioned", "lastTransitionTime": "2026-01-01T00:01:00Z"},
            {"type": "Healthy", "status": "True", "reason": "Healthy", "message": "The server is active", "lastTransitionTime": "2026-01-01T00:01:00Z"}]}})
}

fn user_data(round: usize) -> String {
    STANDARD.encode(format!(
        "#cloud-config\nhostname: web-{round}\npackages: [nginx, curl]\nwrite_files:\n  - path: /etc/app.env\n    content: |\n      \
         DB_HOST=10.0.0.9\n      DB_PASSWORD=pw-{round}-of-db\n      API_TOKEN=tok-{round}-abc\nruncmd:\n  - systemctl enable --now nginx\n"
    ))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let rounds: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let mut secrets = Secrets::new(Key::random());
    for number in 0..200 {
        secrets.add(&format!("gAAAAAB-{number:03}-{}", "a token's letters".repeat(9)));
    }
    let one = user_data(0);
    let make = |round| match what.as_str() {
        "nova" => nova(round),
        "kubernetes" => kubernetes(round, &one),
        _ => kubernetes(round, &user_data(round)),
    };
    let bodies: Vec<Bytes> = (0..rounds).map(|round| Bytes::from(make(round).to_string())).collect();
    let begun = Instant::now();
    let mut bytes = 0;
    for body in &bodies {
        secrets.begin();
        let learnt = secrets.learn("/x", body);
        bytes += secrets.body(learnt).map_or(0, |_| body.len());
    }
    println!(
        "{what}: {} bytes a body, {:?} each",
        bytes / rounds.max(1),
        begun.elapsed() / u32::try_from(rounds).unwrap().max(1)
    );
}
