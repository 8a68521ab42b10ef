//! Tests of hosts that are containers: the supervisor starts their programs with the OCI runtime. Skipped without a
//! runtime.
//!
//! This program is its own supervisor, and also runs in the containers: their image has nothing but a few files.

use farlink_lab::container::{self, Bind, ContainerSetup, Libraries, Runtime};
use farlink_lab::supervisor::{
    HostLimits, HostSetup, Reading, Reply, Request, Role, SignalName, SpawnSetup, Supervisor, run_if_asked,
};
use farlink_os::cgroup::{self, Hierarchies};
use farlink_os::process;
use farlink_scenario::ContainerImage;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const SECONDS: Duration = Duration::from_secs(10);
/// First argument that makes this program do the work of a program in a container.
const INSIDE: &str = "inside-a-container";

fn main() -> ExitCode {
    if let Some(code) = run_if_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((INSIDE, rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return inside(&rest.iter().map(String::as_str).collect::<Vec<_>>());
    }
    if let Err(error) = Runtime::find() {
        println!("skipped: {}", format!("{error:#}").replace('\n', "; "));
        return ExitCode::SUCCESS;
    }
    if let Err(error) = Supervisor::start(&own_path(), None) {
        println!("skipped: this machine lets us isolate nothing: {error:#}");
        return ExitCode::SUCCESS;
    }
    type Test = (&'static str, fn(&Place));
    let tests: [Test; 6] = [
        ("program has image and its folder", program_has_image_and_folder),
        ("programs of host share files and memory", programs_share_files),
        ("layers are stacked and stay unchanged", layers_are_stacked),
        ("signals and failures are reported", signals_are_reported),
        ("limits and accounts hold", limits_and_accounts_hold),
        ("killed supervisor leaves nothing", killed_supervisor_leaves_nothing),
    ];
    let wanted: Vec<String> = arguments.into_iter().filter(|a| !a.starts_with('-')).collect();
    for (name, test) in tests {
        if wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str())) {
            print!("test {name} ... ");
            test(&Place::new());
            println!("ok");
        }
    }
    ExitCode::SUCCESS
}

/// Does the work of a program in a container.
fn inside(arguments: &[&str]) -> ExitCode {
    match arguments {
        ["report"] => {
            let names = |folder: &str| {
                let entries = fs::read_dir(folder).into_iter().flatten().flatten();
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
            };
            let environment: BTreeMap<String, String> = std::env::vars().collect();
            let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_string();
            let interfaces = fs::read_to_string("/proc/net/dev").unwrap().lines().count() - 2;
            let report = json!({
                "root": names("/"), "etc": names("/etc"), "host": host, "environment": environment,
                "interfaces": interfaces, "folder": names("."), "memory": names("/dev/shm"),
                "emptied": names("/etc/emptied"),
            });
            println!("{report}");
        }
        ["write", path] => fs::write(path, "written").unwrap(),
        ["change"] => {
            fs::remove_file("/etc/first").unwrap();
            fs::write("/etc/second", "changed").unwrap();
        }
        ["exit", code] => return ExitCode::from(code.parse::<u8>().unwrap()),
        ["burn", bytes] => {
            let memory = vec![1u8; bytes.parse().unwrap()];
            while std::hint::black_box(&memory).len() > 1 {}
        }
        _ => std::thread::sleep(Duration::from_secs(60)),
    }
    ExitCode::SUCCESS
}

fn own_path() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Folder of a test, which contains an image of two layers.
struct Place {
    folder: tempfile::TempDir,
    container: ContainerSetup,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let blobs = path("layout/blobs/sha256");
        for name in ["layout/blobs/sha256", "files/etc", "mounts", "node"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        let layer = |digest: &str, names: &[&str]| {
            fs::remove_dir_all(path("files")).unwrap();
            fs::create_dir_all(path("files/etc")).unwrap();
            for name in names.iter().map(|name| path("files/etc").join(name)) {
                fs::create_dir_all(name.parent().unwrap()).unwrap();
                fs::write(name, "of the image").unwrap();
            }
            let archive = Command::new("tar")
                .arg("-czf")
                .arg(blobs.join(digest))
                .arg("-C")
                .arg(path("files"))
                .arg("etc")
                .status();
            assert!(archive.unwrap().success());
        };
        layer("01", &["first", "removed", "emptied/old"]);
        layer("02", &["second", ".wh.removed", "emptied/.wh..wh..opq", "emptied/new"]);
        let digest = |digest: &str| json!({ "digest": format!("sha256:{digest}") });
        let write = |name: &str, value: serde_json::Value| fs::write(path(name), value.to_string()).unwrap();
        write("layout/blobs/sha256/03", json!({ "config": { "Env": ["IMAGE=yes", "PATH=/nowhere"] } }));
        write("layout/blobs/sha256/04", json!({ "config": digest("03"), "layers": [digest("01"), digest("02")] }));
        write("layout/index.json", json!({ "manifests": [digest("04")] }));
        let image = ContainerImage::Path(path("layout"));
        let image = container::open(&image, folder.path(), &path("image")).unwrap();
        let container = ContainerSetup {
            layers: image.layers,
            environment: image.environment,
            binds: vec![Bind { path: path("node"), writable: true }, Bind { path: own_path(), writable: false }],
            libraries: Libraries::of(&own_path()),
            mounts: path("mounts"),
        };
        Place { folder, container }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a supervisor with one host, which is a container.
    fn supervisor(&self, limits: HostLimits) -> anyhow::Result<Supervisor> {
        let mut supervisor = Supervisor::start(&own_path(), Some(&self.path("log"))).unwrap();
        let host =
            HostSetup { name: "hut".into(), limits, container: Some(self.container.clone()), ..HostSetup::default() };
        supervisor.tell(&Request::SetUp { hosts: vec![host], cables: vec![], routes: vec![] }).unwrap();
        let set_up = |r: &Reply| matches!(r, Reply::SetUp { .. }).then_some(());
        supervisor.wait_for(SECONDS, set_up, |_| {})?;
        Ok(supervisor)
    }

    fn spawn(&self, supervisor: &mut Supervisor, id: u32, arguments: &[&str]) {
        let own = own_path().display().to_string();
        self.spawn_program(supervisor, id, &[&[own.as_str(), INSIDE], arguments].concat());
    }

    fn spawn_program(&self, supervisor: &mut Supervisor, id: u32, command: &[&str]) {
        let setup = SpawnSetup {
            id,
            host: 0,
            role: Role::Application,
            command: command.iter().map(ToString::to_string).collect(),
            environment: BTreeMap::from([("GIVEN".to_string(), "too".to_string())]),
            directory: self.path("node"),
            stdout: Some(self.path("node/out")),
            stderr: Some(self.path("node/err")),
            real_time: None,
        };
        supervisor.tell(&Request::Spawn(setup)).unwrap();
    }

    fn report(&self, supervisor: &mut Supervisor) -> serde_json::Value {
        self.spawn(supervisor, 99, &["report"]);
        let ended = exit_of(supervisor, 99);
        let said = || fs::read_to_string(self.path("node/err")).unwrap();
        assert_eq!(ended, (Some(0), None), "{}", said());
        serde_json::from_slice(&fs::read(self.path("node/out")).unwrap()).unwrap()
    }
}

fn exit_of(supervisor: &mut Supervisor, wanted: u32) -> (Option<i32>, Option<i32>) {
    let exited = |r: &Reply| match r {
        Reply::Exited { id, code, signal, .. } if *id == wanted => Some((*code, *signal)),
        _ => None,
    };
    supervisor.wait_for(SECONDS, exited, |_| {}).unwrap()
}

fn program_has_image_and_folder(place: &Place) {
    let mut supervisor = place.supervisor(HostLimits::default()).unwrap();
    let report = place.report(&mut supervisor);
    let has = |key: &str, name: &str| report[key].as_array().unwrap().iter().any(|found| found == name);
    assert!(has("etc", "first") && has("etc", "second") && !has("etc", "passwd"), "{report}");
    assert!(!has("root", "home") && has("folder", "out"), "{report}");
    assert_eq!((&report["host"], &report["interfaces"]), (&json!("hut"), &json!(1)), "its own loopback: {report}");
    let environment = &report["environment"];
    assert_eq!((&environment["IMAGE"], &environment["GIVEN"]), (&json!("yes"), &json!("too")));
    assert_eq!(environment["PATH"], "/nowhere");
    assert_eq!(environment[cgroup::MARK], supervisor.groups());
}

fn programs_share_files(place: &Place) {
    let mut supervisor = place.supervisor(HostLimits::default()).unwrap();
    for (id, path) in [(1, "/dev/shm/segment"), (2, "/etc/made"), (3, "beside")] {
        place.spawn(&mut supervisor, id, &["write", path]);
        assert_eq!(exit_of(&mut supervisor, id), (Some(0), None), "{path}");
    }
    let report = place.report(&mut supervisor);
    for (key, name) in [("memory", "segment"), ("etc", "made"), ("folder", "beside")] {
        assert!(report[key].as_array().unwrap().iter().any(|found| found == name), "{report}");
    }
    assert_eq!(fs::read_to_string(place.path("node/beside")).unwrap(), "written", "at the same path outside");
}

fn layers_are_stacked(place: &Place) {
    let mut supervisor = place.supervisor(HostLimits::default()).unwrap();
    let etc = |report: serde_json::Value| {
        assert_eq!(report["emptied"], json!(["new"]), "the second layer empties a folder");
        let mut names: Vec<String> = serde_json::from_value(report["etc"].clone()).unwrap();
        names.sort();
        names
    };
    assert_eq!(etc(place.report(&mut supervisor)), ["emptied", "first", "second"], "the second layer removes one file");
    place.spawn(&mut supervisor, 1, &["change"]);
    assert_eq!(exit_of(&mut supervisor, 1), (Some(0), None));
    assert_eq!(etc(place.report(&mut supervisor)), ["emptied", "second"]);
    supervisor.end().unwrap();
    let [first, second] = [&place.container.layers[0].join("etc/first"), &place.container.layers[1].join("etc/second")];
    assert_eq!(fs::read_to_string(first).unwrap(), fs::read_to_string(second).unwrap());
}

fn signals_are_reported(place: &Place) {
    let mut supervisor = place.supervisor(HostLimits::default()).unwrap();
    place.spawn(&mut supervisor, 1, &["exit", "7"]);
    assert_eq!(exit_of(&mut supervisor, 1), (Some(7), None));
    // The first signal arrives while the runtime is still starting the program.
    for (id, signal, number) in [(2, SignalName::Terminate, 15), (3, SignalName::Kill, 9)] {
        place.spawn(&mut supervisor, id, &["sleep"]);
        if id == 3 {
            wait_until("the program runs", || processes_named(INSIDE) == 1);
        }
        supervisor.tell(&Request::Signal { id, signal }).unwrap();
        assert_eq!(exit_of(&mut supervisor, id), (None, Some(number)));
        wait_until("it is gone", || processes_named(INSIDE) == 0);
    }
    place.spawn_program(&mut supervisor, 4, &["/no/such/program"]);
    let (code, _) = exit_of(&mut supervisor, 4);
    let said = fs::read_to_string(place.path("node/err")).unwrap();
    assert!(code.is_some_and(|code| code != 0) && said.contains("/no/such/program"), "{code:?} {said}");
}

fn limits_and_accounts_hold(place: &Place) {
    let limits = HostLimits { cpus: vec![0], quota: None, memory: Some(64_000_000) };
    let mut supervisor = match place.supervisor(limits) {
        Ok(supervisor) => supervisor,
        Err(error) => return println!("skipped: no control groups with limits may be made: {error:#}"),
    };
    supervisor.tell(&Request::Probe { interval_ms: 20, start_ns: 0, tcp: false, stores: Vec::new() }).unwrap();
    place.spawn(&mut supervisor, 1, &["burn", "20000000"]);
    let burnt = |r: &Reply| {
        let Reply::Read { readings, .. } = r else { return None };
        readings.iter().find_map(|reading| match reading {
            Reading::Role(role) if role.role == Role::Application && role.cpu_user_ns > 50_000_000 => Some(*role),
            _ => None,
        })
    };
    let reading = supervisor.wait_for(SECONDS, burnt, |_| {}).unwrap();
    assert!(reading.host == Some(0) && (15_000_000..60_000_000).contains(&reading.anonymous), "{reading:?}");
    place.spawn(&mut supervisor, 2, &["burn", "200000000"]);
    assert_eq!(exit_of(&mut supervisor, 2), (None, Some(9)), "killed at the memory limit of its host");
}

fn killed_supervisor_leaves_nothing(place: &Place) {
    let lines = || fs::read_to_string("/proc/self/mounts").unwrap().lines().count();
    let (hierarchies, mounts) = (Hierarchies::detect(), lines());
    for (round, victim) in [0, 1, 0, 1].into_iter().enumerate() {
        let mut supervisor = place.supervisor(HostLimits::default()).unwrap();
        let name = supervisor.groups().parse().unwrap();
        place.spawn(&mut supervisor, 1, &["sleep"]);
        // Kills before, while and after the runtime starts the program.
        std::thread::sleep(Duration::from_millis(60 * round as u64));
        let victim = [supervisor.outer_process(), supervisor.process][victim];
        process::signal(victim, process::Signal::Kill).unwrap();
        wait_until("processes are gone", || processes_named(&place.path("").display().to_string()) == 0);
        wait_until("the program is gone", || processes_named(INSIDE) == 0);
        wait_until("groups are gone", || cgroup::remains(&hierarchies, name).is_empty());
        drop(supervisor);
        assert_eq!(fs::read_dir(place.path("mounts")).unwrap().count(), 0);
    }
    assert_eq!(lines(), mounts);
    assert!(!Path::new("/run/crun").join("farlink-1").exists());
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < SECONDS, "{what}: not within {SECONDS:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes whose command line contains a text, except for this one.
fn processes_named(mark: &str) -> usize {
    let own = std::process::id().to_string();
    let named = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        entry.file_name() != *own && String::from_utf8_lossy(&line).contains(mark)
    });
    named.count()
}
