//! `weir queue`: what waits and for whom, what is due when, who holds what, what could not be understood.
//!
//! Intention: whoever asks *why does nothing happen to my server?* sees the answer in one command, without knowing NATS.
//! A table for people, `--json` for programs.
//!
//! Invariants
//! - Only `redrive` and `drop` change anything, and they ask first.
//! - What stands in messages came from others: it is made harmless before it reaches a terminal.
//! - Which NATS it is: `--nats`, else WEIR_NATS_URL, else that of the stack which runs, with the stack's credentials. That the
//!   variable leads somewhere else is said on standard error: it may have been set for something else, long ago.

mod letters;
mod views;

use crate::checkout::Checkout;
use crate::record::Record;
use crate::trace::find::{self, Told};
use crate::{Exit, cluster, complain, nats};
use anyhow::{Context, bail};
use clap::Subcommand;
use kube::ResourceExt;
use kube::api::DynamicObject;
use std::ffi::OsString;
use std::time::Duration;
use weir_api::kind::UnknownKind;
use weir_api::{Kind, ObjectRef, labels};
use weir_function_runtime::queue::inspect::{Listing, Selector};
use weir_function_runtime::queue::{self, Error, Queue};
use weir_function_runtime::settings::Settings;
use weir_messages::{Lane, subject};

/// How long the cluster may take to say who is called so.
const PATIENCE: Duration = Duration::from_secs(10);

const COLUMNS: &str = "\
WAITING      messages that no worker has been given yet
IN FLIGHT    messages that a worker has been given and has not acknowledged; one whose object changed again\n\
             \x20            meanwhile is WAITING once more, though its call goes on
WORKING      objects of the kind that are being worked on, on Lambda too: the leases that are held, for both\n\
             \x20            lanes in one number
OLDEST       the age of the oldest message that is still there, in flight or not
REDELIVERED  messages in flight that were given out before: a worker died, or somebody else held the object
CONSUMER     what gives them out; a kind's first worker makes it";

/// What to look at.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    view: View,
    /// Another NATS than that of the running stack, or than WEIR_NATS_URL has; credentials come from the WEIR_NATS_… variables
    #[arg(long, global = true, value_name = "URL")]
    nats: Option<String>,
    /// For programs
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum View {
    /// What waits and what is in hand, by kind and lane, and who takes it
    #[command(after_help = COLUMNS)]
    Ls,
    /// The messages that wait or are in hand, oldest first; or one message, as it is
    Peek(Peek),
    /// What will be looked at again, and when
    Timers(Which),
    /// Which objects are being worked on, and by whom
    Leases(Which),
    /// Messages that could not be understood, and why
    Dead(Which),
    /// Send dead letters again: those that are numbered, those of a kind, or all
    Redrive(letters::Redrive),
    /// Remove dead letters for good: those that are numbered, those of a kind, or all; or what is no timer among the timers
    Drop(letters::Drop),
}

#[derive(Clone, Debug, clap::Args)]
struct Which {
    /// Only these: KIND, KIND/NAMESPACE or KIND/NAMESPACE/NAME, where the name may be what people call it
    #[arg(value_name = "OBJECTS")]
    selector: Option<Selector>,
    /// How many to show
    #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

#[derive(Clone, Debug, clap::Args)]
struct Peek {
    #[command(flatten)]
    which: Which,
    /// Only this lane
    #[arg(long, value_name = "LANE")]
    lane: Option<Lane>,
    /// Show one message, a timer perhaps, with its headers and its payload
    #[arg(short, long, value_name = "NUMBER", conflicts_with_all = ["selector", "lane"], value_parser = clap::value_parser!(u64).range(1..))]
    message: Option<u64>,
    /// The number is that of a dead letter
    #[arg(long, requires = "message")]
    dead: bool,
}

impl Which {
    fn selector(&self) -> Selector {
        self.selector.clone().unwrap_or_default()
    }

    fn limit(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }
}

/// Shows a view, or sends dead letters again.
pub async fn run(checkout: &Checkout, args: Args) -> anyhow::Result<Exit> {
    let Some(queue) = open(checkout, args.nats.as_deref()).await? else { return Ok(Exit::NotThere) };
    let mut shown = show(checkout, &queue, &args).await;
    if let Err(error) = &shown {
        if let Some(Error::NoStream(stream)) = error.downcast_ref() {
            let why = absent(&queue, stream).await;
            shown = Err(anyhow::anyhow!("there is no stream {stream} on this NATS: {why}"));
        } else if let Some(unknown) = error.downcast_ref::<UnknownKind>() {
            complain!("weir: {unknown}");
            shown = Ok(Exit::Usage);
        }
    }
    queue.close().await;
    shown
}

/// Why a stream may be missing.
async fn absent(queue: &Queue, stream: &str) -> &'static str {
    // Whoever makes one makes all.
    match queue.absent().await {
        Ok(absent) if absent.contains(&queue::WORK) && absent.contains(&queue::DEAD) => {
            "no function of Weir has been there yet"
        }
        Ok(absent) if absent.contains(&stream) => GONE,
        _ => "it may be on its way",
    }
}

/// What is said of a stream that is missing where others are.
const GONE: &str = "others of Weir are there, so it has been removed; whoever needs it next makes it again";

async fn show(checkout: &Checkout, queue: &Queue, args: &Args) -> anyhow::Result<Exit> {
    let json = args.json;
    let ours = find::is_ours(args.nats.as_deref());
    let meant = |selector: Selector| Meant { checkout, ours, selector };
    match &args.view {
        View::Ls => views::ls(&queue.overview().await?, json),
        View::Peek(Peek { message: Some(number), dead, .. }) => {
            let found = if *dead { queue.raw_dead(*number).await? } else { queue.raw_work(*number).await? };
            let place = if *dead { "among the dead letters" } else { "on the queue" };
            let found = found.with_context(|| format!("there is no message {number} {place}, or no longer"))?;
            views::raw(&found, json);
        }
        View::Peek(Peek { which, lane, .. }) => {
            let meant = meant(Selector { lane: *lane, ..which.selector() });
            views::work(&meant.list(async |selector| queue.work(selector, which.limit()).await).await?, json);
        }
        View::Timers(which) => {
            let meant = meant(which.selector());
            views::timers(&meant.list(async |selector| queue.timers(selector, which.limit()).await).await?, json);
        }
        View::Leases(which) => {
            let meant = meant(which.selector());
            views::leases(&meant.list(async |selector| queue.leases(selector, which.limit()).await).await?, json);
        }
        View::Dead(which) => {
            let meant = meant(which.selector());
            views::dead(&meant.list(async |selector| queue.dead(selector, which.limit()).await).await?, json);
        }
        View::Redrive(redrive) => return letters::redrive(queue, &meant(redrive.selector()), redrive, json).await,
        View::Drop(chosen) => return letters::drop(queue, &meant(chosen.selector()), chosen, json).await,
    }
    Ok(Exit::Done)
}

/// What a person may have meant by a selector.
struct Meant<'a> {
    checkout: &'a Checkout,
    ours: bool,
    selector: Selector,
}

impl Meant<'_> {
    /// What `list` has for the selector. When there is nothing: for the object that people call so; and when that cannot be
    /// because there is no such kind, not an empty list but why.
    async fn list<T>(&self, list: impl AsyncFn(&Selector) -> Result<Listing<T>, Error>) -> anyhow::Result<Listing<T>> {
        let found = list(&self.selector).await?;
        if found.total > 0 {
            return Ok(found);
        }
        self.selector.known()?;
        match self.called_so().await?.as_ref() {
            Some(selector) => Ok(list(selector).await?),
            None => Ok(found),
        }
    }

    /// The object that is told, by its name or by what people call it. That there is none is an error if the cluster can be asked.
    async fn object(&self, told: &Told) -> anyhow::Result<ObjectRef> {
        let object = ObjectRef::new(told.kind, &told.namespace, &told.name);
        // The monitor's objects are regions.
        let kind = if told.kind == Kind::ServerMonitor { Kind::Region } else { told.kind };
        let names = async { if self.ours { self.names(kind, told).await } else { None } };
        let Some(names) = tokio::time::timeout(PATIENCE, names).await.ok().flatten() else {
            let only =
                "only with the stack's own queue, while its cluster answers, is it known what people call an object";
            subject::check(&object).with_context(|| only)?;
            return Ok(object);
        };
        match names.as_slice() {
            [] => bail!("there is no {told}: nothing was sent"),
            [name] => Ok(ObjectRef { name: name.clone(), ..object }),
            several => bail!("several objects are called {told}: {}", find::some(several)),
        }
    }

    /// The name of the object that has the name which is told, or else of those that people call so; none if the cluster cannot be asked.
    async fn names(&self, kind: Kind, told: &Told) -> Option<Vec<String>> {
        let record = Record::read(&self.checkout.record()).ok()?.filter(Record::is_watched)?;
        let client = cluster::connect(&record.places.kubeconfig).await.ok()?;
        let named = DynamicObject::new(&told.name, &kind.resource());
        // Asked for by itself: of very many objects, not all are looked through.
        if !cluster::existing(&client, &[named.within(&told.namespace)], 1).await.ok()?.is_empty() {
            return Some(vec![told.name.clone()]);
        }
        let called = |object: &DynamicObject| labels::display_name(object) == told.name;
        let called = cluster::fitting(&client, kind, Some(&told.namespace), called).await.ok()?;
        Some(called.iter().map(ResourceExt::name_any).collect())
    }

    /// The object that people call as the selector's name has it.
    async fn called_so(&self) -> anyhow::Result<Option<Selector>> {
        let Selector { kind: Some(kind), namespace: Some(namespace), name: Some(name), .. } = &self.selector else {
            return Ok(None);
        };
        let Ok(kind) = kind.parse::<Kind>() else { return Ok(None) };
        if !self.ours {
            return Ok(None);
        }
        match find::living(self.checkout, &[kind], Some(namespace), name).await.as_slice() {
            [] => Ok(None),
            [object] => Ok(Some(Selector { name: Some(object.name.clone()), ..self.selector.clone() })),
            several => bail!("several objects are called so: {}", find::list(several)),
        }
    }
}

/// Connects to the queue: as told, else as WEIR_NATS_URL has it, else that of the stack which runs. `None`, and a word about it, when none does.
pub async fn open(checkout: &Checkout, told: Option<&str>) -> anyhow::Result<Option<Queue>> {
    let Some(settings) = settings(checkout, told)? else {
        complain!("weir: nothing is running. `./weir up` starts a stack; --nats URL looks into another queue");
        return Ok(None);
    };
    let server = settings.nats.servers.join(", ");
    queue::connect_now(&settings).await.map(Some).context(server)
}

/// How to reach the queue: as told, else as WEIR_NATS_URL has it, else that of the stack which runs; `None` when none does.
fn settings(checkout: &Checkout, told: Option<&str>) -> anyhow::Result<Option<Settings>> {
    let mut arguments: Vec<OsString> = vec![];
    let running = || anyhow::Ok(Record::read(&checkout.record())?.filter(Record::is_watched));
    let elsewhere = !find::is_ours(None);
    match told {
        Some(url) => arguments.extend(["--nats".into(), url.into()]),
        None if elsewhere => {}
        None => {
            let Some(record) = running()? else { return Ok(None) };
            if record.places.nats.is_empty() {
                bail!("the stack is only being started: its queue is not known yet");
            }
            arguments.extend(["--nats".into(), record.places.nats.into()]);
            // A NATS that the stack was pointed at is reached as its functions reach it, by the variables.
            if record.places.nats_credentials.is_some() {
                let password = nats::password_file(&record.places.state);
                arguments.extend(["--nats-user".into(), nats::USER.into()]);
                arguments.extend(["--nats-password-file".into(), password.into()]);
            }
        }
    }
    let settings = Settings::from_arguments(arguments).map_err(|error| match std::error::Error::source(&error) {
        // Only why: clap would repeat the value, which may hold a password, and show the usage of a function.
        Some(why) => anyhow::anyhow!("the setting of NATS {why}"),
        None => anyhow::anyhow!("the settings of NATS, WEIR_NATS_…, cannot be used: {}", error.kind()),
    })?;
    if told.is_none() && elsewhere {
        let servers = settings.nats.servers.join(", ");
        match running()? {
            Some(stack) if stack.places.nats == servers => {}
            Some(_) => {
                complain!("weir: this is about {servers}, as WEIR_NATS_URL has it, not about the stack that runs here");
            }
            None => complain!("weir: this is about {servers}, as WEIR_NATS_URL has it"),
        }
    }
    Ok(Some(settings))
}
