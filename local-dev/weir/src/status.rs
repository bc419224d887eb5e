//! `weir status`: what runs, where, since when, and how the objects stand.

use crate::checkout::{Checkout, short};
use crate::cluster::{self, Standing};
use crate::record::{Part, Record};
use crate::screen::{Screen, Tone, align, clean, span};
use crate::{Exit, say};
use futures::future::join_all;
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;
use weir_api::Kind;

/// How long Kubernetes may take to list the objects.
const PATIENCE: Duration = Duration::from_secs(5);

/// How to show it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// For programs
    #[arg(long)]
    pub json: bool,
}

struct Health<'a> {
    part: &'a Part,
    runs: bool,
    well: Result<(), String>,
}

struct Object {
    kind: Kind,
    namespace: String,
    name: String,
    shown: String,
    standing: Standing,
}

/// Shows the stack. The exit code tells programs: 0 all well, 1 something is not, 3 nothing runs.
pub async fn run(checkout: &Checkout, args: &Args) -> anyhow::Result<Exit> {
    let record = Record::read(&checkout.record())?.filter(Record::is_watched);
    let Some(record) = record else {
        if args.json {
            say!("{}", json!({"running": false}));
        } else {
            say!("Nothing is running. `./weir up` starts a stack.");
        }
        return Ok(Exit::NotThere);
    };
    let health = join_all(record.parts.iter().map(|part| async move {
        let runs = part.process.as_ref().is_some_and(crate::process::Identity::runs);
        let well = if runs { part.probe.ask().await } else { Err("down, to be started again".into()) };
        Health { part, runs, well }
    }));
    let (health, objects) = tokio::join!(health, objects(&record));
    let all_well = record.ready && health.iter().all(|health| health.well.is_ok());
    if args.json {
        say!("{:#}", as_json(&record, &health, &objects));
    } else {
        show(&record, &health, &objects);
    }
    Ok(if all_well { Exit::Done } else { Exit::Failed })
}

async fn objects(record: &Record) -> Result<(Vec<Object>, bool), String> {
    let list = async {
        let client = cluster::connect(&record.places.kubeconfig).await?;
        let (objects, more) = cluster::objects(&client).await?;
        let objects = objects.into_iter().map(|(kind, object)| Object {
            kind,
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
            shown: cluster::display_name(&object),
            standing: cluster::standing(&object),
        });
        anyhow::Ok((objects.collect(), more))
    };
    match tokio::time::timeout(PATIENCE, list).await {
        Ok(listed) => listed.map_err(|error| clean(&format!("{error:#}"))),
        Err(_) => Err("Kubernetes does not answer".into()),
    }
}

fn since(time: Timestamp) -> String {
    span(Duration::try_from(time.duration_until(Timestamp::now())).unwrap_or_default())
}

fn show(record: &Record, health: &[Health<'_>], objects: &Result<(Vec<Object>, bool), String>) {
    let screen = Screen::new();
    let pid = record.supervisor.as_ref().map_or(0, |process| process.pid);
    let doing = if record.ready { "runs" } else { "is being started" };
    say!("The stack in {} {doing}, since {} (process {pid}).", short(&record.places.state), since(record.started));
    say!("");
    let mut cells = vec![["", "PART", "PID", "UP", "RESTARTS", "ADDRESS", ""].map(str::to_owned).to_vec()];
    let mut tones = vec![Tone::Faint];
    for Health { part, runs, well } in health {
        let pid = part.process.as_ref().filter(|_| *runs).map_or_else(|| "-".into(), |process| process.pid.to_string());
        let up = if *runs { since(part.since) } else { "-".into() };
        let address = part.metrics.clone().unwrap_or_else(|| part.address.clone());
        let (mark, tone) = if well.is_ok() { ("✓", Tone::Plain) } else { ("✗", Tone::Bad) };
        let mut note = well.as_ref().err().map(|why| clean(why)).unwrap_or_default();
        if let Some(how) = part.last_exit.as_ref().filter(|_| well.is_ok()) {
            note = format!("ended before with {how}");
        }
        cells.push(vec![mark.to_owned(), part.name.clone(), pid, up, part.restarts.to_string(), address, note]);
        tones.push(tone);
    }
    table(&screen, &cells, &tones);
    say!("");
    let (objects, more) = match objects {
        Ok((objects, more)) => (objects, *more),
        Err(why) => {
            say!("{}", screen.paint(Tone::Bad, &format!("The objects cannot be listed: {why}")));
            return;
        }
    };
    if objects.is_empty() {
        say!("There are no objects yet.");
        return;
    }
    let mut cells = vec![["", "KIND", "NAMESPACE", "NAME", "STATUS", "MESSAGE"].map(str::to_owned).to_vec()];
    let mut tones = vec![Tone::Faint];
    for Object { kind, namespace, shown, standing, .. } in objects {
        let (mark, tone) = match standing {
            Standing { available: true, .. } => ("✓", Tone::Plain),
            Standing { errored: true, .. } => ("✗", Tone::Bad),
            _ => ("·", Tone::Busy),
        };
        let words = [mark, kind.kubernetes(), namespace, shown, &standing.reason, &standing.message];
        cells.push(words.map(str::to_owned).to_vec());
        tones.push(tone);
    }
    table(&screen, &cells, &tones);
    if more {
        say!("  … and more: kubectl lists them all");
    }
}

fn table(screen: &Screen, cells: &[Vec<String>], tones: &[Tone]) {
    for (line, tone) in align(cells).iter().zip(tones) {
        say!("{}", screen.paint(*tone, &format!("  {line}")));
    }
}

fn as_json(record: &Record, health: &[Health<'_>], objects: &Result<(Vec<Object>, bool), String>) -> serde_json::Value {
    let parts: Vec<_> = health
        .iter()
        .map(|Health { part, runs, well }| {
            json!({
                "name": part.name,
                "running": runs,
                "well": well.is_ok(),
                "why": well.as_ref().err(),
                "pid": part.process.as_ref().filter(|_| *runs).map(|process| process.pid),
                "since": part.since,
                "restarts": part.restarts,
                "lastExit": part.last_exit,
                "address": part.address,
                "metrics": part.metrics,
            })
        })
        .collect();
    let listed: Vec<_> = objects
        .iter()
        .flat_map(|(objects, _)| objects)
        .map(|Object { kind, namespace, name, shown, standing }| {
            json!({
                "kind": kind.kubernetes(),
                "namespace": namespace,
                "name": name,
                "displayName": shown,
                "available": standing.available,
                "reason": standing.reason,
                "message": standing.message,
            })
        })
        .collect();
    json!({
        "running": true,
        "ready": record.ready,
        "supervisor": record.supervisor.as_ref().map(|process| process.pid),
        "started": record.started,
        "places": record.places,
        "parts": parts,
        "objects": listed,
        "objectsError": objects.as_ref().err(),
    })
}
