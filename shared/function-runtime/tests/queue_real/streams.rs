//! Streams and publishing.

use std::io::{Read, Write};

use serde_json::json;
use weir_function_runtime::queue::{self, Error};
use weir_function_runtime::settings::Settings;
use weir_messages::{Cause, Lane, subject};

use crate::nats::NatsServer;
use crate::support::{Rig, api, changed, count, server, within};

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn streams_are_made_by_many_at_once_and_then_left_alone() {
    let rig = Rig::start();
    let mut queues = Vec::new();
    for _ in 0..8 {
        queues.push(rig.bare_queue().await);
    }
    let made = futures::future::join_all(queues.iter().map(queue::Queue::ensure)).await;
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    let queue = &queues[0];
    let work = api(queue, "STREAM.INFO.WORK", json!({})).await;
    for (field, value) in [
        ("retention", json!("workqueue")),
        ("max_msgs_per_subject", json!(1)),
        ("discard", json!("old")),
        ("allow_msg_schedules", json!(true)),
        ("storage", json!("file")),
        ("subjects", json!(["work.>", "timer.>"])),
    ] {
        assert_eq!(work["config"][field], value, "{field}");
    }
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    queue.ensure().await.unwrap();
    let again = api(queue, "STREAM.INFO.WORK", json!({})).await;
    assert_eq!(again["created"], work["created"], "not created anew");
    assert_eq!(again["state"]["messages"], 1, "what was queued is there");
}

/// Proves: Q-1
#[tokio::test(flavor = "multi_thread")]
async fn an_existing_stream_is_updated_in_place_and_keeps_the_operators_limits_and_its_messages() {
    let rig = Rig::start();
    let queue = rig.bare_queue().await;
    let old = json!({
        "name": "WORK", "subjects": ["work.>", "legacy.>"], "retention": "workqueue", "storage": "memory", "num_replicas": 1,
        "max_bytes": 7_000_000, "max_age": 86_400_000_000_000_u64, "duplicate_window": 60_000_000_000_u64, "discard": "old",
        "max_msgs": -1, "max_consumers": -1, "max_msgs_per_subject": 5, "compression": "none"
    });
    let created = api(&queue, "STREAM.CREATE.WORK", old).await;
    assert!(created.get("error").is_none(), "{created}");
    queue.client().request("legacy.x", "kept".into()).await.unwrap();

    queue.ensure().await.unwrap();
    let info = api(&queue, "STREAM.INFO.WORK", json!({})).await;
    let config = &info["config"];
    assert_eq!((&config["storage"], &config["max_bytes"]), (&json!("memory"), &json!(7_000_000)));
    assert_eq!(config["max_age"], json!(86_400_000_000_000_u64));
    assert_eq!(config["duplicate_window"], json!(60_000_000_000_u64));
    assert_eq!(config["max_msgs_per_subject"], 1);
    assert_eq!(config["allow_msg_schedules"], true);
    assert_eq!(config["subjects"], json!(["work.>", "legacy.>", "timer.>"]));
    assert_eq!(info["created"], created["created"]);
    assert_eq!(count(&queue, "WORK", "legacy.>").await, 1, "a message on an older subject is not lost");
}

/// Proves: Q-1
#[tokio::test(flavor = "multi_thread")]
async fn the_limits_that_an_operator_has_given_to_any_stream_are_left_alone() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let limits = [
        ("max_bytes", json!(123_456_789)),
        ("max_age", json!(7_200_000_000_000_u64)),
        ("max_msg_size", json!(500_000)),
    ];
    let streams = ["WORK", "DEAD", "EVENTS", "TRACES", "REQUESTS", "KV_LEASES"];
    for stream in streams {
        let mut config = api(&queue, &format!("STREAM.INFO.{stream}"), json!({})).await["config"].clone();
        for (limit, value) in &limits {
            config[*limit] = value.clone();
        }
        let updated = api(&queue, &format!("STREAM.UPDATE.{stream}"), config).await;
        assert!(updated.get("error").is_none(), "{stream}: {updated}");
    }
    // By one that has not seen them before.
    let another = rig.bare_queue().await;
    another.ensure().await.unwrap();
    for stream in streams {
        let config = api(&queue, &format!("STREAM.INFO.{stream}"), json!({})).await["config"].clone();
        for (limit, value) in &limits {
            assert_eq!(config[*limit], *value, "{limit} of {stream}");
        }
    }
    assert_eq!(another.lease_ttl(), std::time::Duration::from_secs(7200), "and what they mean is heeded");
}

/// Proves: Q-1
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_cannot_be_used_is_refused_by_name_and_left_alone() {
    let rig = Rig::start();
    let queue = rig.bare_queue().await;
    let other = json!({ "name": "WORK", "subjects": ["work.>"], "retention": "limits", "storage": "file", "num_replicas": 1, "discard": "old", "max_age": 0, "max_bytes": -1, "max_msgs": -1, "max_consumers": -1 });
    api(&queue, "STREAM.CREATE.WORK", other).await;
    let refusal = queue.ensure().await.unwrap_err();
    assert!(matches!(refusal, Error::Incompatible { stream: "WORK", field: "retention", .. }), "{refusal}");
    let handler = crate::support::Recorder::settling();
    let worker = rig.worker(&handler, &[]).await;
    let ended = within("the worker to refuse", worker.task).await.unwrap().unwrap_err().to_string();
    assert!(ended.contains("WORK") && ended.contains("retention"), "{ended}");
}

/// Proves: Q-1
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_on_a_server_too_old_ends_with_the_feature_and_the_version() {
    // Nobody installs a server of 2022 for this: one that introduces itself as such is enough to be refused.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.write_all(b"INFO {\"server_id\":\"x\",\"version\":\"2.10.7\",\"proto\":1,\"headers\":true,\"max_payload\":1048576,\"jetstream\":true}\r\n").unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(read) = stream.read(&mut buffer) {
                    if read == 0 || stream.write_all(b"PONG\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    let settings = Settings::from_arguments(["--nats", &format!("nats://127.0.0.1:{port}")]).unwrap();
    let queue = queue::connect(&settings).await.unwrap();
    let handler = crate::support::Recorder::settling();
    let run = weir_function_runtime::worker::run(handler, queue, &settings, tokio_util::sync::CancellationToken::new());
    let refusal = within("the refusal", run).await.unwrap_err().to_string();
    assert!(refusal.contains("2.10.7") && refusal.contains("2.12") && refusal.contains("later"), "{refusal}");
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_published_message_is_a_cloud_event_and_only_a_message_id_makes_it_a_duplicate() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    let event = changed("a").seen("uid-1", "42");
    let id = event.message_id();
    let first = queue.publish(event.clone(), Lane::Urgent, id.clone(), None).await.unwrap();
    assert!(!first.duplicate);
    assert!(
        queue.publish(event.clone(), Lane::Urgent, id, None).await.unwrap().duplicate,
        "the same watch event, published by a second publisher"
    );
    let requeue = event.again(Cause::Requeued, 0);
    for _ in 0..2 {
        let published = queue.publish(requeue.clone(), Lane::Urgent, requeue.message_id(), None).await.unwrap();
        assert!(!published.duplicate, "a second legitimate requeue is not swallowed");
    }
    let subject = subject::work(Lane::Urgent, &server("a")).unwrap();
    let stream = queue.jetstream().get_stream("WORK").await.unwrap();
    let message = stream.get_last_raw_message_by_subject(&subject).await.unwrap();
    for header in [
        "ce-specversion",
        "ce-id",
        "ce-source",
        "ce-type",
        "ce-time",
        "ce-subject",
        "ce-dataschema",
        "traceparent",
        "content-type",
    ] {
        assert!(message.headers.get(header).is_some(), "{header}");
    }
    assert!(message.headers.get("Nats-Msg-Id").is_none());
}

/// Proves: Q-3
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_for_one_object_is_one_message() {
    let rig = Rig::start();
    let queue = rig.queue().await;
    for _ in 0..1000 {
        queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    }
    assert_eq!(count(&queue, "WORK", "work.>").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_used_and_wrong_ones_do_not_end_the_process() {
    let nats = NatsServer::start_with(&["--user", "weir", "--pass", "hunter2"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "hunter2\n").unwrap();
    let url = nats.url();
    let arguments = ["--nats", &url, "--nats-user", "weir", "--nats-password-file", file.to_str().unwrap()];
    let queue = queue::connect(&Settings::from_arguments(arguments).unwrap()).await.unwrap();
    within("a connection", queue.connected()).await;
    queue.ensure().await.unwrap();

    std::fs::write(&file, "wrong").unwrap();
    let refused = queue::connect(&Settings::from_arguments(arguments).unwrap()).await.unwrap();
    assert!(matches!(refused.ensure().await, Err(Error::Disconnected)));
}
