//! Tests of the supervisor as a real process: isolation, resource reports, and a complete clean-up.
//!
//! This program is its own supervisor (see `run_if_asked`), so it contains a small test harness.

use farlink_lab::supervisor::{
    CableSetup, HostLimits, HostSetup, HostTcp, LinkModels, Reading, Reply, Request, Role, RoleReading, SignalName,
    SpawnSetup, Supervisor, run_if_asked,
};
use farlink_os::cgroup::{self, Hierarchies};
use farlink_os::{monotonic_ns, process};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const SECONDS: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    if let Some(code) = run_if_asked() {
        return code;
    }
    if std::env::args().any(|argument| argument == LISTEN) {
        let listener = std::net::TcpListener::bind("0.0.0.0:4556").unwrap();
        let connection = listener.accept().unwrap();
        std::thread::sleep(Duration::from_secs(60));
        drop(connection);
        return ExitCode::SUCCESS;
    }
    type Test = (&'static str, fn(&mut Supervisor));
    let tests: [Test; 10] = [
        ("two hosts talk over an emulated link", hosts_talk),
        ("a process is accounted for and can be signalled", a_process_is_accounted_for),
        ("a program that does not exist is an error in words", a_missing_program_is_named),
        ("a process gets real-time scheduling where it is permitted", a_process_gets_real_time),
        ("TCP of a host is what it is told, or the kernel's lack is named", tcp_is_as_told),
        ("both directions of a large link are there before anything is told to start", a_large_link_is_there),
        ("roles are counted apart, and peaks by phase", roles_are_counted_apart),
        ("a host obeys its limits, or is refused", a_host_obeys_limits),
        ("connections of a host are seen", connections_are_seen),
        ("nothing is left after kill -9", nothing_is_left_after_kill),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    for (name, test) in tests {
        if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w.as_str())) {
            continue;
        }
        let mut supervisor = match Supervisor::start(&std::env::current_exe().unwrap(), None) {
            Ok(supervisor) => supervisor,
            Err(error) => {
                println!("skipped: this machine lets us isolate nothing: {error:#}");
                return ExitCode::SUCCESS;
            }
        };
        print!("test {name} ... ");
        test(&mut supervisor);
        println!("ok");
    }
    ExitCode::SUCCESS
}

fn set_up(supervisor: &mut Supervisor, links: &str) {
    let address = |host: u8| vec![(std::net::Ipv4Addr::new(10, 0, 0, host).into(), 24)];
    let cable = CableSetup {
        hosts: [0, 1],
        addresses: [address(1), address(2)],
        mtu: 1500,
        rings: [4 << 20, 0],
        tunnels: [None, None],
    };
    supervisor
        .tell(&Request::SetUp { hosts: vec![HostSetup::default(); 2], cables: vec![cable], routes: vec![] })
        .unwrap();
    let set_up = |r: &Reply| matches!(r, Reply::SetUp { .. }).then_some(());
    supervisor.wait_for(SECONDS, set_up, |_| {}).unwrap();
    let links = LinkModels::One { specification: links.into(), exact: false };
    let (captures, retention) = (Vec::new(), false);
    let emulate = Request::Emulate { links, seed: 1, start_ns: None, interval_ms: 50, captures, retention };
    supervisor.tell(&emulate).unwrap();
    let emulating = |r: &Reply| match r {
        Reply::Emulating { start_ns } => Some(*start_ns),
        _ => None,
    };
    let start_ns = supervisor.wait_for(SECONDS, emulating, |_| {}).unwrap();
    assert!(start_ns <= monotonic_ns());
}

fn spawn(supervisor: &mut Supervisor, id: u32, host: usize, script: &str, stdout: Option<PathBuf>) {
    spawn_as(supervisor, id, host, Role::Application, script, stdout);
}

fn spawn_as(supervisor: &mut Supervisor, id: u32, host: usize, role: Role, script: &str, stdout: Option<PathBuf>) {
    let command = ["sh", "-c", script].map(String::from).to_vec();
    let directory = std::env::temp_dir();
    let setup = SpawnSetup {
        id,
        host,
        role,
        command,
        environment: BTreeMap::new(),
        directory,
        stdout,
        stderr: None,
        real_time: None,
    };
    supervisor.tell(&Request::Spawn(setup)).unwrap();
}

fn exit_of(supervisor: &mut Supervisor, wanted: u32) -> (Option<i32>, Option<i32>, f64) {
    let exited = |r: &Reply| match r {
        Reply::Exited { id, code, signal, usage, .. } if *id == wanted => {
            Some((*code, *signal, usage.cpu_user_s + usage.cpu_system_s))
        }
        _ => None,
    };
    supervisor.wait_for(SECONDS, exited, |_| {}).unwrap()
}

/// A shell cannot send datagrams, so the test times a connection from one host to a closed port of the other: its
/// refusal takes a round trip.
fn hosts_talk(supervisor: &mut Supervisor) {
    set_up(supervisor, "delay=100 ms,rate=10 Mbit/s");
    let file = std::env::temp_dir().join(format!("farlink-lab-{}", std::process::id()));
    let script = "exec 2>/dev/null; ls /sys/class/net >/dev/null; cat /proc/net/dev; bash -c ': < /dev/tcp/10.0.0.2/9'";
    let start = Instant::now();
    spawn(supervisor, 7, 0, script, Some(file.clone()));
    exit_of(supervisor, 7);
    let seen = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(seen.contains("link0a") && !seen.contains("eth0"), "{seen}");
    if Path::new("/bin/bash").exists() {
        assert!(start.elapsed() > Duration::from_millis(200), "{:?}", start.elapsed());
        supervisor.tell(&Request::StopEmulator).unwrap();
        let mut packets = [0; 2];
        let ended = |r: &Reply| matches!(r, Reply::EmulatorEnded { .. }).then_some(());
        let count = |r: Reply| {
            if let Reply::Link(report) = r {
                packets[usize::from(report.forward)] = report.delivered[0];
            }
        };
        supervisor.wait_for(SECONDS, ended, count).unwrap();
        assert_eq!(packets, [1, 1], "one SYN, one RST");
    }
}

fn a_process_is_accounted_for(supervisor: &mut Supervisor) {
    set_up(supervisor, "geo");
    probe(supervisor);
    spawn(supervisor, 1, 1, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 60", None);
    match read_until(supervisor, 1, Role::Application, |r| r.cpu_user_ns > 20_000_000 && r.anonymous > 50_000) {
        Some(_) => {}
        None => println!("skipped in part: no /proc of our own may be mounted here"),
    }
    supervisor.tell(&Request::Signal { id: 1, signal: SignalName::Terminate }).unwrap();
    let (code, signal, cpu) = exit_of(supervisor, 1);
    assert_eq!((code, signal), (None, Some(15)));
    assert!(cpu > 0.02, "{cpu}");
}

fn a_process_gets_real_time(supervisor: &mut Supervisor) {
    supervisor.tell(&Request::SetUp { hosts: vec![HostSetup::default()], cables: vec![], routes: vec![] }).unwrap();
    let permitted = |r: &Reply| match r {
        Reply::SetUp { real_time, .. } => Some(*real_time),
        _ => None,
    };
    if !supervisor.wait_for(SECONDS, permitted, |_| {}).unwrap() {
        return println!("skipped: real-time scheduling is not permitted");
    }
    let file = std::env::temp_dir().join(format!("farlink-real-time-{}", std::process::id()));
    // Fields 40 and 41 of proc_pid_stat(5) are priority and policy (2 is SCHED_RR); field 18 is -1
    // minus the priority.
    let command = ["cut", "-d ", "-f", "18,40,41", "/proc/self/stat"].map(String::from).to_vec();
    let (directory, stdout) = (std::env::temp_dir(), Some(file.clone()));
    let environment = BTreeMap::new();
    let (role, stderr, real_time) = (Role::Implementation, None, Some(9));
    let setup = SpawnSetup { id: 1, host: 0, role, command, environment, directory, stdout, stderr, real_time };
    supervisor.tell(&Request::Spawn(setup)).unwrap();
    exit_of(supervisor, 1);
    let seen = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(seen.trim(), "-10 9 2");
}

fn tcp_is_as_told(supervisor: &mut Supervisor) {
    let tcp = HostTcp {
        congestion: Some("cubic".into()),
        send_buffer: 1 << 20,
        receive_buffer: 3 << 20,
        ..HostTcp::default()
    };
    let cubic = HostSetup { tcp: tcp.clone(), ..HostSetup::default() };
    let plain = HostTcp { congestion: Some("reno".into()), sack: false, window_scaling: false, ..tcp };
    let reno = HostSetup { tcp: plain, ..HostSetup::default() };
    let address = |host: u8| vec![(std::net::Ipv4Addr::new(10, 0, 0, host).into(), 24)];
    let cable = CableSetup {
        hosts: [0, 1],
        addresses: [address(1), address(2)],
        mtu: 1500,
        rings: [0; 2],
        tunnels: [None, None],
    };
    supervisor.tell(&Request::SetUp { hosts: vec![cubic, reno], cables: vec![cable], routes: vec![] }).unwrap();
    let file = std::env::temp_dir().join(format!("farlink-tcp-{}", std::process::id()));
    let settings = "cd /proc/sys/net/ipv4; cat tcp_sack tcp_window_scaling tcp_wmem tcp_rmem; ip route 2>/dev/null";
    let mut seen = Vec::new();
    for host in [0, 1] {
        spawn(supervisor, host as u32, host, settings, Some(file.clone()));
        exit_of(supervisor, host as u32);
        seen.push(std::fs::read_to_string(&file).unwrap().split_whitespace().collect::<Vec<_>>().join(" "));
    }
    std::fs::remove_file(&file).unwrap();
    for (seen, (control, flags)) in seen.iter().zip([("cubic", "1 1"), ("reno", "0 0")]) {
        assert!(seen.starts_with(&format!("{flags} 4096 16384 2097152 4096 131072 6291456")), "{seen}");
        // Routes are listed only if `ip` is installed.
        assert!(!seen.contains("dev") || seen.contains(&format!("congctl {control}")), "{seen}");
    }
    let tcp = HostTcp { congestion: Some("nosuch".into()), ..HostTcp::default() };
    let wanted = HostSetup { tcp, ..HostSetup::default() };
    supervisor.tell(&Request::SetUp { hosts: vec![wanted], cables: vec![], routes: vec![] }).unwrap();
    let error = supervisor.wait_for(SECONDS, |_| None::<()>, |_| {}).unwrap_err().to_string();
    for part in ["no TCP congestion control `nosuch`", "reno", "modprobe tcp_nosuch"] {
        assert!(error.contains(part), "{error}");
    }
}

/// Memory for 1 Gbit/s times 2 s takes a while to populate; a start before that would find no link.
fn a_large_link_is_there(supervisor: &mut Supervisor) {
    set_up(supervisor, "rate=1 Gbit/s,delay=2 s");
    let start = Instant::now();
    let mut directions = [false; 2];
    while directions != [true; 2] {
        let report = |r: &Reply| match r {
            Reply::Link(report) => Some(report.forward),
            _ => None,
        };
        directions[usize::from(supervisor.wait_for(SECONDS, report, |_| {}).unwrap())] = true;
    }
    // Samples come every 50 ms. If a direction had started late, its first sample would be late by
    // the time to populate the memory.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

fn a_missing_program_is_named(supervisor: &mut Supervisor) {
    supervisor.tell(&Request::SetUp { hosts: vec![HostSetup::default()], cables: vec![], routes: vec![] }).unwrap();
    let command = vec!["/no/such/program".to_string()];
    let directory = PathBuf::from("/");
    let (role, stdout, stderr) = (Role::Application, None, None);
    let environment = BTreeMap::new();
    let setup = SpawnSetup { id: 1, host: 0, role, command, environment, directory, stdout, stderr, real_time: None };
    supervisor.tell(&Request::Spawn(setup)).unwrap();
    let error = supervisor.wait_for(SECONDS, |_| None::<()>, |_| {}).unwrap_err().to_string();
    assert!(error.contains("/no/such/program"), "{error}");
}

fn probe(supervisor: &mut Supervisor) {
    supervisor.tell(&Request::Probe { interval_ms: 20, start_ns: 0, tcp: true, stores: Vec::new() }).unwrap();
}

/// Waits for a reading of a role that fulfils a condition; `None` after some seconds.
fn read_until(
    supervisor: &mut Supervisor,
    host: usize,
    role: Role,
    wanted: impl Fn(&RoleReading) -> bool,
) -> Option<RoleReading> {
    let found = |r: &Reply| {
        let Reply::Read { readings, .. } = r else { return None };
        let roles = readings.iter().filter_map(|reading| match reading {
            Reading::Role(role) => Some(*role),
            _ => None,
        });
        roles.into_iter().find(|reading| reading.host == Some(host) && reading.role == role && wanted(reading))
    };
    supervisor.wait_for(Duration::from_secs(5), found, |_| {}).ok()
}

/// `dd` reads into a buffer of one block, which is anonymous memory of a known size.
fn roles_are_counted_apart(supervisor: &mut Supervisor) {
    set_up(supervisor, "geo");
    probe(supervisor);
    let large = "dd if=/dev/zero of=/dev/null bs=40M count=100000 2>/dev/null & sleep 60";
    spawn_as(supervisor, 1, 0, Role::Implementation, large, None);
    spawn(supervisor, 2, 0, "while :; do :; done", None);
    let large = |r: &RoleReading| r.anonymous > 40_000_000 && r.peak.is_none_or(|peak| peak > 40_000_000);
    if read_until(supervisor, 0, Role::Implementation, large).is_none() {
        return println!("skipped: no /proc of our own may be mounted here");
    }
    let small = read_until(supervisor, 0, Role::Application, |r| r.cpu_user_ns > 0).unwrap();
    assert!(small.anonymous < 20_000_000 && small.peak.is_none_or(|peak| peak < 20_000_000), "{small:?}");
    supervisor.tell(&Request::Signal { id: 1, signal: SignalName::Kill }).unwrap();
    exit_of(supervisor, 1);
    // The account still counts the orphan.
    assert!(read_until(supervisor, 0, Role::Implementation, |r| r.anonymous > 40_000_000).is_some());
    spawn(supervisor, 3, 0, "pkill -9 -x dd || kill -9 $(pidof dd)", None);
    exit_of(supervisor, 3);
    assert!(read_until(supervisor, 0, Role::Implementation, |r| r.anonymous < 20_000_000).is_some());
    supervisor.tell(&Request::Phase { number: 7 }).unwrap();
    let begun = |r: &Reply| matches!(r, Reply::Phase { number: 7, .. }).then_some(());
    supervisor.wait_for(SECONDS, begun, |_| {}).unwrap();
    let after = read_until(supervisor, 0, Role::Implementation, |_| true).unwrap();
    assert!(after.peak.is_none_or(|peak| peak < 20_000_000), "the peak counts from the phase on: {after:?}");
}

fn a_host_obeys_limits(supervisor: &mut Supervisor) {
    let limits = HostLimits { cpus: vec![0], quota: Some(0.5), memory: Some(64_000_000) };
    let host = HostSetup { name: "small".into(), limits, ..HostSetup::default() };
    supervisor.tell(&Request::SetUp { hosts: vec![host], cables: vec![], routes: vec![] }).unwrap();
    let set_up = |r: &Reply| matches!(r, Reply::SetUp { .. }).then_some(());
    if let Err(error) = supervisor.wait_for(SECONDS, set_up, |_| {}) {
        let text = error.to_string();
        assert!(text.contains("the limits of host `small` need control groups") && text.contains("hint"), "{text}");
        return println!("skipped: no control groups with limits may be made: {}", text.lines().next().unwrap());
    }
    // Two busy loops that run for two seconds share half of a processor, one second in all.
    let begun = Instant::now();
    spawn(
        supervisor,
        1,
        0,
        "timeout 2 sh -c 'while :; do :; done' & timeout 2 sh -c 'while :; do :; done'; wait",
        None,
    );
    let (_, _, cpu_s) = exit_of(supervisor, 1);
    let share = cpu_s / begun.elapsed().as_secs_f64();
    assert!(share < 0.62, "{share} of a processor");
    let file = std::env::temp_dir().join(format!("farlink-limits-{}", std::process::id()));
    spawn(supervisor, 2, 0, "grep Cpus_allowed_list /proc/self/status", Some(file.clone()));
    exit_of(supervisor, 2);
    let seen = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(seen.split_whitespace().last(), Some("0"), "{seen}");
    spawn(supervisor, 3, 0, "exec dd if=/dev/zero of=/dev/null bs=200M count=1", None);
    let (code, signal, _) = exit_of(supervisor, 3);
    assert_eq!((code, signal), (None, Some(9)), "killed at its memory limit");
    spawn(supervisor, 4, 0, "exec dd if=/dev/zero of=/dev/null bs=20M count=1", None);
    assert_eq!(exit_of(supervisor, 4).0, Some(0), "what fits goes on");
}

fn connections_are_seen(supervisor: &mut Supervisor) {
    if !Path::new("/bin/bash").exists() {
        return println!("skipped: /bin/bash opens the connection");
    }
    set_up(supervisor, "delay=20 ms");
    probe(supervisor);
    let own = std::env::current_exe().unwrap().display().to_string();
    spawn(supervisor, 1, 1, &format!("exec {own} {LISTEN}"), None);
    let connect = "while ! exec 3<>/dev/tcp/10.0.0.2/4556; do sleep 0.1; done; echo hello >&3; sleep 60";
    spawn(supervisor, 2, 0, &format!("exec bash -c '{connect}'"), None);
    let seen = |r: &Reply| {
        let Reply::Read { readings, .. } = r else { return None };
        readings.iter().find_map(|reading| match reading {
            Reading::Tcp(tcp) if tcp.host == 0 => Some(*tcp),
            _ => None,
        })
    };
    let tcp = supervisor.wait_for(SECONDS, seen, |_| {}).unwrap();
    assert_eq!(tcp.peer.to_string(), "10.0.0.2");
    assert!(tcp.round_trip_us >= 40_000 && tcp.window > 1000, "{tcp:?}");
}

/// Argument that makes this program accept one connection and hold it.
const LISTEN: &str = "listen-at-4556";

/// Killing any process of the supervisor at any moment must end everything below it, runaway processes and control
/// groups included.
fn nothing_is_left_after_kill(_: &mut Supervisor) {
    let mark = format!("farlink-left-{}", std::process::id());
    let before = left_on_machine();
    for (round, victim) in [0, 1, 0].into_iter().enumerate() {
        let mut supervisor = Supervisor::start(&std::env::current_exe().unwrap(), None).unwrap();
        let name = supervisor.groups().parse().unwrap();
        set_up(&mut supervisor, "geo");
        let runaway = format!("trap '' TERM HUP INT; (setsid sh -c 'while :; do sleep 1; done' {mark} &) ; sleep 60");
        spawn(&mut supervisor, 1, 0, &runaway, None);
        let start = Instant::now();
        while processes_named(&mark) < 2 {
            assert!(start.elapsed() < SECONDS, "the runaway did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(17 * round as u64));
        let victim = [supervisor.outer_process(), supervisor.process][victim];
        process::signal(victim, process::Signal::Kill).unwrap();
        let start = Instant::now();
        let hierarchies = Hierarchies::detect();
        while processes_named(&mark) > 0 || !cgroup::remains(&hierarchies, name).is_empty() {
            let left = cgroup::remains(&hierarchies, name);
            assert!(start.elapsed() < SECONDS, "{} processes and {left:?} left", processes_named(&mark));
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(supervisor);
        assert_eq!(left_on_machine(), before);
    }
}

/// Names of objects that a run could leave behind: interfaces, mounts, IPC objects.
fn left_on_machine() -> Vec<String> {
    let lines = |file: &str| -> Vec<String> {
        std::fs::read_to_string(file).unwrap_or_default().lines().map(|line| format!("{file}: {line}")).collect()
    };
    let interfaces = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let interfaces = interfaces.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // Other programs' mounts may change; the supervisor mounts /proc.
    let mounts = lines("/proc/self/mounts").into_iter().filter(|line| line.contains(" proc "));
    let ipc = ["shm", "sem", "msg"].map(|kind| lines(&format!("/proc/sysvipc/{kind}"))).concat();
    let mut all: Vec<String> = interfaces.filter(|name| name.starts_with("link")).chain(mounts).collect();
    // Only the first columns, which identify an object: usage counters in the others change.
    all.extend(ipc.into_iter().map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ")));
    all
}

fn processes_named(mark: &str) -> usize {
    let me = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let named = processes.filter(|p| {
        let line = std::fs::read(p.path().join("cmdline")).unwrap_or_default();
        p.file_name() != *me && String::from_utf8_lossy(&line).contains(mark)
    });
    named.count()
}
