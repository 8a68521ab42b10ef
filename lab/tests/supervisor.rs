//! The supervisor as a real process: isolation, resource reports, and a complete clean-up.
//!
//! This program is its own supervisor (see `run_if_asked`), so it contains a small test harness.

use farlink_lab::supervisor::{
    CableSetup, HostTcp, LinkModels, Reply, Request, SignalName, SpawnSetup, Supervisor, run_if_asked,
};
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
    type Test = (&'static str, fn(&mut Supervisor));
    let tests: [Test; 7] = [
        ("two hosts talk over an emulated link", hosts_talk),
        ("a process is accounted for and can be signalled", a_process_is_accounted_for),
        ("a program that does not exist is an error in words", a_missing_program_is_named),
        ("a process gets real-time scheduling where it is permitted", a_process_gets_real_time),
        ("TCP of a host is what it is told, or the kernel's lack is named", tcp_is_as_told),
        ("both directions of a large link are there before anything is told to start", a_large_link_is_there),
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
    let cable = CableSetup { hosts: [0, 1], addresses: [address(1), address(2)], mtu: 1500, rings: [0; 2] };
    supervisor
        .tell(&Request::SetUp { hosts: vec![HostTcp::default(); 2], cables: vec![cable], routes: vec![] })
        .unwrap();
    let set_up = |r: &Reply| matches!(r, Reply::SetUp { .. }).then_some(());
    supervisor.wait_for(SECONDS, set_up, |_| {}).unwrap();
    let links = LinkModels::One { specification: links.into(), exact: false };
    supervisor.tell(&Request::Emulate { links, seed: 1, start_ns: None, interval_ms: 50, captures: vec![] }).unwrap();
    let emulating = |r: &Reply| match r {
        Reply::Emulating { start_ns } => Some(*start_ns),
        _ => None,
    };
    let start_ns = supervisor.wait_for(SECONDS, emulating, |_| {}).unwrap();
    assert!(start_ns <= monotonic_ns());
}

fn spawn(supervisor: &mut Supervisor, id: u32, host: usize, script: &str, stdout: Option<PathBuf>) {
    let command = ["sh", "-c", script].map(String::from).to_vec();
    let directory = std::env::temp_dir();
    let setup = SpawnSetup {
        id,
        host,
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

/// A shell cannot send datagrams, so a connection of one host to a closed port of the other is timed: its refusal takes
/// a round trip.
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
    supervisor.tell(&Request::Account { interval_ms: 20 }).unwrap();
    spawn(supervisor, 1, 1, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 60", None);
    let used = |r: &Reply| {
        matches!(r, Reply::Usage { id: 1, usage, .. } if usage.cpu_user_s > 0.02 && usage.rss_bytes > 100_000)
            .then_some(())
    };
    match supervisor.wait_for(Duration::from_secs(3), used, |_| {}) {
        Ok(()) => {}
        Err(_) => println!("skipped in part: no /proc of our own may be mounted here"),
    }
    supervisor.tell(&Request::Signal { id: 1, signal: SignalName::Terminate }).unwrap();
    let (code, signal, cpu) = exit_of(supervisor, 1);
    assert_eq!((code, signal), (None, Some(15)));
    assert!(cpu > 0.02, "{cpu}");
}

fn a_process_gets_real_time(supervisor: &mut Supervisor) {
    supervisor.tell(&Request::SetUp { hosts: vec![HostTcp::default()], cables: vec![], routes: vec![] }).unwrap();
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
    let setup =
        SpawnSetup { id: 1, host: 0, command, environment, directory, stdout, stderr: None, real_time: Some(9) };
    supervisor.tell(&Request::Spawn(setup)).unwrap();
    exit_of(supervisor, 1);
    let seen = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(seen.trim(), "-10 9 2");
}

fn tcp_is_as_told(supervisor: &mut Supervisor) {
    let cubic = HostTcp { congestion: Some("cubic".into()), send_buffer: 1 << 20, receive_buffer: 3 << 20 };
    let reno = HostTcp { congestion: Some("reno".into()), ..cubic.clone() };
    let address = |host: u8| vec![(std::net::Ipv4Addr::new(10, 0, 0, host).into(), 24)];
    let cable = CableSetup { hosts: [0, 1], addresses: [address(1), address(2)], mtu: 1500, rings: [0; 2] };
    supervisor.tell(&Request::SetUp { hosts: vec![cubic, reno], cables: vec![cable], routes: vec![] }).unwrap();
    let file = std::env::temp_dir().join(format!("farlink-tcp-{}", std::process::id()));
    let settings = "cd /proc/sys/net/ipv4; cat tcp_sack tcp_wmem tcp_rmem; ip route 2>/dev/null";
    let mut seen = Vec::new();
    for host in [0, 1] {
        spawn(supervisor, host as u32, host, settings, Some(file.clone()));
        exit_of(supervisor, host as u32);
        seen.push(std::fs::read_to_string(&file).unwrap().split_whitespace().collect::<Vec<_>>().join(" "));
    }
    std::fs::remove_file(&file).unwrap();
    for (seen, control) in seen.iter().zip(["cubic", "reno"]) {
        assert!(seen.starts_with("1 4096 16384 2097152 4096 131072 6291456"), "{seen}");
        // Checked only where `ip` is installed.
        assert!(!seen.contains("dev") || seen.contains(&format!("congctl {control}")), "{seen}");
    }
    let wanted = HostTcp { congestion: Some("nosuch".into()), ..HostTcp::default() };
    supervisor.tell(&Request::SetUp { hosts: vec![wanted], cables: vec![], routes: vec![] }).unwrap();
    let error = supervisor.wait_for(SECONDS, |_| None::<()>, |_| {}).unwrap_err().to_string();
    for part in ["no TCP congestion control `nosuch`", "reno", "modprobe tcp_nosuch"] {
        assert!(error.contains(part), "{error}");
    }
}

/// Memory for 1 Gbit/s times 2 s takes a while to populate; a start before it is ready would find no link.
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
    supervisor.tell(&Request::SetUp { hosts: vec![HostTcp::default()], cables: vec![], routes: vec![] }).unwrap();
    let command = vec!["/no/such/program".to_string()];
    let directory = PathBuf::from("/");
    let (stdout, stderr) = (None, None);
    let environment = BTreeMap::new();
    let setup = SpawnSetup { id: 1, host: 0, command, environment, directory, stdout, stderr, real_time: None };
    supervisor.tell(&Request::Spawn(setup)).unwrap();
    let error = supervisor.wait_for(SECONDS, |_| None::<()>, |_| {}).unwrap_err().to_string();
    assert!(error.contains("/no/such/program"), "{error}");
}

/// Killing either of the two processes must end everything below, runaways included.
fn nothing_is_left_after_kill(_: &mut Supervisor) {
    let mark = format!("farlink-left-{}", std::process::id());
    for kill_outer in [true, false] {
        let mut supervisor = Supervisor::start(&std::env::current_exe().unwrap(), None).unwrap();
        set_up(&mut supervisor, "geo");
        let runaway = format!("trap '' TERM HUP INT; (setsid sh -c 'while :; do sleep 1; done' {mark} &) ; sleep 60");
        spawn(&mut supervisor, 1, 0, &runaway, None);
        let start = Instant::now();
        while processes_named(&mark) < 2 {
            assert!(start.elapsed() < SECONDS, "the runaway did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        let victim = if kill_outer { supervisor.outer_process() } else { supervisor.process };
        process::signal(victim, process::Signal::Kill).unwrap();
        let start = Instant::now();
        while processes_named(&mark) > 0 {
            assert!(start.elapsed() < SECONDS, "{} processes left", processes_named(&mark));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
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
