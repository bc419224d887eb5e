//! Workers as processes of their own, really killed and really paused.
//!
//! A test starts this very test program again, with one test to run: [`a_worker_process`], which is a worker whose cloud
//! is a folder. What it does there is in files, which outlive it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use weir_api::Kind;
use weir_function_runtime::queue;
use weir_function_runtime::settings::Settings;
use weir_function_runtime::worker::{self, Call, Handler, Point, Verdict};
use weir_messages::Lane;

use crate::support::{PATIENCE, Rig, api, changed, count, eventually, until_all_is_quiet};

const FOLDER: &str = "WEIR_TEST_FOLDER";
const ARGUMENTS: &str = "WEIR_TEST_ARGUMENTS";
const STOP_AT: &str = "WEIR_TEST_STOP_AT";

/// A handler whose cloud is a folder. It looks before it creates, yields once, and is done the next time.
struct InFolder {
    folder: PathBuf,
}

impl InFolder {
    fn note(&self, file: &str, text: &str) {
        use std::io::Write;
        let path = self.folder.join(file);
        let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
        // In one piece: others write to it as well.
        file.write_all(format!("{text}\n").as_bytes()).unwrap();
    }
}

impl Handler for InFolder {
    fn kind(&self) -> Kind {
        Kind::Server
    }

    fn handle<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Verdict> {
        async move {
            let name = &call.work.object.name;
            self.note("calls", &format!("{name} {}", std::process::id()));
            if self.folder.join("hold").exists() {
                // Blocking on purpose: this cannot be ended at an await, only be refused its write.
                while !self.folder.join("go").exists() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let word = if call.lease.check().is_ok() { "wrote" } else { "refused" };
                self.note("late", &format!("{word} {}", std::process::id()));
            }
            if let Ok(millis) = fs::read_to_string(self.folder.join("slow")) {
                let begun = now();
                tokio::time::sleep(Duration::from_millis(millis.parse().unwrap())).await;
                self.note("spans", &format!("{name} {} {} {begun} {}", call.lane, std::process::id(), now()));
                return Verdict::Settled;
            }
            if created(&self.folder).iter().any(|resource| resource == name) {
                self.note("done", name);
                return Verdict::Settled;
            }
            if call.lease.check().is_err() {
                return Verdict::Abandoned;
            }
            // Names are not unique in a cloud: whoever creates twice has two.
            fs::write(self.folder.join(format!("cloud-{name}-{}", call.id.simple())), "").unwrap();
            Verdict::After { delay: Duration::from_millis(400) }
        }
        .boxed()
    }
}

/// Microseconds on a clock that all processes share.
pub fn now() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros()
}

/// Not a test, but the worker that the others start: it does nothing unless one of them has.
#[test]
#[ignore = "started by other tests"]
fn a_worker_process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let arguments = std::env::var(ARGUMENTS).unwrap();
    let settings = Settings::from_arguments(arguments.split(' ')).unwrap();
    let stop_at = std::env::var(STOP_AT).unwrap_or_default();
    let code = weir_function_runtime::run::start(|stop| async move {
        fs::write(folder.join(up(std::process::id())), "").unwrap();
        let queue = queue::connect(&settings).await?;
        let marker = folder.join("stopped");
        let probe: worker::Probe = Arc::new(move |point: Point, _: &weir_api::ObjectRef| {
            if format!("{point:?}") != stop_at || marker.exists() {
                return std::future::ready(()).boxed();
            }
            fs::write(&marker, "").unwrap();
            std::future::pending().boxed()
        });
        worker::run_with(Arc::new(InFolder { folder }), queue, &settings, stop, Some(probe)).await
    });
    if code != std::process::ExitCode::SUCCESS {
        std::process::exit(1);
    }
}

/// The file by which a worker tells that it has started.
fn up(process: u32) -> String {
    format!("up-{process}")
}

/// A worker process. Killed when dropped.
pub struct Worker(Child);

impl Worker {
    pub fn start(rig: &Rig, folder: &Path, arguments: &str, stop_at: &str) -> Self {
        Self::start_at(&rig.nats.url(), folder, arguments, stop_at)
    }

    /// One that reaches NATS by another way.
    pub fn start_at(nats: &str, folder: &Path, arguments: &str, stop_at: &str) -> Self {
        Self(Self::command(nats, folder, arguments, stop_at).spawn().unwrap())
    }

    /// One that serves its metrics, and where.
    pub fn start_serving(rig: &Rig, folder: &Path) -> (Self, SocketAddr) {
        let arguments = "--metrics 127.0.0.1:0";
        let mut child = Self::command(&rig.nats.url(), folder, arguments, "").stdout(Stdio::piped()).spawn().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let said = BufReader::new(child.stdout.take().unwrap());
        // To the end, lest it has nobody to speak to.
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once("metrics http://") {
                    let _ = tell.send(address.trim().parse().unwrap());
                }
            }
        });
        (Self(child), told.recv_timeout(PATIENCE).expect("it says where its metrics are"))
    }

    fn command(nats: &str, folder: &Path, arguments: &str, stop_at: &str) -> Command {
        let arguments = format!("--nats {nats} --lease-ttl 2s {arguments}").trim().to_owned();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "processes::a_worker_process", "--ignored", "--nocapture", "--test-threads", "1"])
            .env(FOLDER, folder)
            .env(ARGUMENTS, arguments)
            .env(STOP_AT, stop_at)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub async fn ended(&mut self) -> ExitStatus {
        eventually("the process to end", || std::future::ready(self.0.try_wait().unwrap())).await
    }

    /// Whether it has not ended.
    pub fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Seconds of processor time so far.
    pub fn processor_time(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        // After the name, in parentheses, the 12th and 13th fields are the ticks in user and system mode, 100 to a second.
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The names of all that has been created, sorted.
pub fn created(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = |file: String| file.strip_prefix("cloud-")?.rsplit_once('-').map(|(name, _)| name.to_owned());
    let mut created: Vec<String> = names.filter_map(name).collect();
    created.sort();
    created
}

pub async fn until_created(folder: &Path, wanted: usize) {
    eventually(&format!("{wanted} resources"), || std::future::ready((created(folder).len() >= wanted).then_some(())))
        .await;
}

pub fn lines(folder: &Path, file: &str) -> Vec<String> {
    fs::read_to_string(folder.join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

pub async fn until_lines(folder: &Path, file: &str, wanted: usize) -> Vec<String> {
    eventually(&format!("{wanted} lines in {file}"), || {
        let lines = lines(folder, file);
        std::future::ready((lines.len() >= wanted).then_some(lines))
    })
    .await
}

/// Kills a worker with SIGKILL at `point` of its first call, and lets another one go on.
async fn killed_at(point: Point) {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let folder = TempDir::new().unwrap();
    let first = Worker::start(&rig, folder.path(), "", &format!("{point:?}"));
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    eventually("the point to be reached", || std::future::ready(folder.path().join("stopped").exists().then_some(())))
        .await;
    let (work, timers) = (count(&queue, "WORK", "work.>").await, count(&queue, "WORK", "timer.>").await);
    // This is the order of Q-7, seen from outside.
    match point {
        Point::Leased | Point::Handled => {
            assert_eq!((work, timers), (1, 0), "no timer before the status, no end before either");
        }
        Point::Timed => assert!(work == 1 || timers == 0, "the message is acknowledged after the timer is set"),
        Point::Acknowledged => assert_eq!(count(&queue, "KV_LEASES", ">").await, 1, "the lease is released last"),
    }
    // Another one is there already, and has asked for work.
    let second = Worker::start(&rig, folder.path(), "", "");
    eventually("the other one to ask", || async {
        let info = api(&queue, "CONSUMER.INFO.WORK.server-urgent", serde_json::json!({})).await;
        (info["num_waiting"].as_u64() >= Some(2)).then_some(())
    })
    .await;
    first.kill();
    let killed = Instant::now();
    until_lines(folder.path(), "done", 1).await;
    if point == Point::Leased {
        assert!(
            killed.elapsed() < Duration::from_secs(2 + 3),
            "replaced within the lease's time to live: {:?}",
            killed.elapsed()
        );
    }
    until_all_is_quiet(&queue).await;
    assert_eq!(created(folder.path()), ["a"], "nothing lost, nothing duplicated");
    drop(second);
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_before_its_handler_begins_is_replaced_within_the_leases_time() {
    killed_at(Point::Leased).await;
}

/// Proves: Q-7
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_between_status_and_timer_loses_and_duplicates_nothing() {
    killed_at(Point::Handled).await;
}

/// Proves: Q-7
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_between_timer_and_acknowledgement_loses_and_duplicates_nothing() {
    killed_at(Point::Timed).await;
}

/// Proves: Q-7
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_between_acknowledgement_and_release_loses_and_duplicates_nothing() {
    killed_at(Point::Acknowledged).await;
}

/// Proves: Q-4
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_was_paused_and_wakes_up_late_writes_nothing() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    fs::write(path.join("hold"), "").unwrap();
    let sleeper = Worker::start(&rig, path, "", "");
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    until_lines(path, "calls", 1).await;
    sleeper.signal(Signal::SIGSTOP);
    fs::remove_file(path.join("hold")).unwrap();
    let other = Worker::start(&rig, path, "", "");
    until_created(path, 1).await;
    // It wakes, at once finds that it may go on, and asks before it writes.
    fs::write(path.join("go"), "").unwrap();
    sleeper.signal(Signal::SIGCONT);
    let late = until_lines(path, "late", 1).await;
    assert_eq!(late, [format!("refused {}", sleeper.0.id())]);
    until_all_is_quiet(&queue).await;
    assert_eq!(created(path), ["a"], "one create");
    drop((sleeper, other));
}

/// Proves
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_come_and_go_lose_and_duplicate_nothing() {
    let rig = Rig::hurried();
    let queue = rig.queue().await;
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let mut workers: Vec<Worker> = (0..3).map(|_| Worker::start(&rig, path, "--concurrency 4", "")).collect();
    for n in 0..60 {
        queue.publish(changed(&format!("a{n}")), Lane::Urgent, None, None).await.unwrap();
    }
    // One told to stop, one killed, each replaced, while there is work.
    for round in 0..2 {
        until_created(path, 10 + 15 * round).await;
        let mut told = workers.remove(0);
        // A process that has only just been made knows no signals yet.
        let listening = path.join(up(told.0.id()));
        eventually("a worker that has started", || std::future::ready(listening.exists().then_some(()))).await;
        told.signal(Signal::SIGTERM);
        workers.remove(0).kill();
        workers.push(Worker::start(&rig, path, "--concurrency 4", ""));
        workers.push(Worker::start(&rig, path, "--concurrency 4", ""));
        assert!(told.ended().await.success(), "exit code 0");
    }
    until_all_is_quiet(&queue).await;
    let mut creates = created(path);
    let all = creates.len();
    creates.dedup();
    assert_eq!((creates.len(), all), (60, 60), "each created once");
    let mut done = lines(path, "done");
    done.sort();
    done.dedup();
    assert_eq!(done.len(), 60, "each brought to its end");
}

/// Proves: Q-14
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_nats_does_not_spin() {
    let mut rig = Rig::hurried();
    let queue = rig.queue().await;
    let folder = TempDir::new().unwrap();
    let worker = Worker::start(&rig, folder.path(), "", "");
    queue.publish(changed("a"), Lane::Urgent, None, None).await.unwrap();
    until_lines(folder.path(), "done", 1).await;
    rig.nats.kill();
    let before = worker.processor_time();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let away = worker.processor_time() - before;
    assert!(away < 0.4, "{away} s of processor time in 4 s without NATS");
    rig.nats.restart().unwrap();
    eventually("a publication", || async { queue.publish(changed("b"), Lane::Urgent, None, None).await.ok() }).await;
    until_lines(folder.path(), "done", 2).await;
}
