//! Checks of this machine's capabilities to isolate, emulate and measure: tries each as the current user, with hints
//! for those that are missing.

use crate::container::{self, Bind, ContainerSetup, Libraries, Runtime};
use crate::supervisor::{CableSetup, HostSetup, Reply, Request, Role, SpawnSetup, Supervisor};
use farlink_os::cgroup::{self, ControlGroup, GroupName, Hierarchies, Needs};
use farlink_os::pressure::{self, Resource};
use farlink_os::udp::DatagramSocket;
use farlink_os::{monotonic_ns, namespace, schedule};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// The capability works.
    Yes,
    /// The capability works with limitations.
    Partly,
    /// The capability is missing.
    No,
}

/// One capability of the machine.
#[derive(Clone, Debug, Serialize)]
pub struct MachineCheck {
    /// Short name shown in the list.
    pub name: &'static str,
    /// Result of the check.
    pub outcome: CheckOutcome,
    /// Description of the result.
    pub found: String,
    /// Way to obtain or improve the capability; `None` if it works fully.
    pub hint: Option<String>,
}

impl MachineCheck {
    fn new(name: &'static str, outcome: CheckOutcome, found: impl Into<String>) -> Self {
        MachineCheck { name, outcome, found: found.into(), hint: None }
    }
    fn hint(mut self, hint: &str) -> Self {
        if self.outcome != CheckOutcome::Yes {
            self.hint = Some(hint.into());
        }
        self
    }
}

/// Results of all checks.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// Current user: `root` or a user number.
    pub user: String,
    /// Release of the running kernel.
    pub kernel: String,
    /// Number of processors available to this process.
    pub processors: usize,
    /// Whether `farlink run --in lab` works here.
    pub lab: bool,
    /// Checks in the order of the list.
    pub checks: Vec<MachineCheck>,
}

/// Tries everything, which takes about a second. `program` is the path of a program that first calls
/// [`crate::supervisor::run_if_asked`]; `directory` is on the disk to be measured.
pub fn examine(program: &Path, directory: &Path) -> Findings {
    let (uid, _) = namespace::user_and_group();
    let isolation = isolation(program, uid);
    let links = links(program);
    let lab = isolation.outcome != CheckOutcome::No && links.outcome == CheckOutcome::Yes;
    let checks = vec![
        isolation,
        links,
        real_time(),
        timers(),
        cgroups(),
        containers(program),
        pressure_and_steal(),
        offloads(),
        buffers(),
        disk(directory),
        processors(),
        memory(),
    ];
    Findings {
        user: if uid == 0 { "root".into() } else { format!("user {uid}") },
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string(),
        processors: schedule::processors(),
        lab,
        checks,
    }
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn isolation(program: &Path, uid: u32) -> MachineCheck {
    match Supervisor::start(program, None) {
        Ok(supervisor) if supervisor.user_namespace => MachineCheck::new(
            "isolated hosts",
            CheckOutcome::Yes,
            "own namespaces through a user namespace, without root",
        ),
        Ok(_) => MachineCheck::new("isolated hosts", CheckOutcome::Yes, "own namespaces with the rights this user has"),
        Err(error) => {
            let hint = if number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
                "AppArmor keeps user namespaces from programs without a profile: as root, `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or run as root"
            } else if number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
                "as root: `sysctl -w kernel.unprivileged_userns_clone=1`, or run as root"
            } else if number("/proc/sys/user/max_user_namespaces") == Some(0) {
                "as root: `sysctl -w user.max_user_namespaces=10000`, or run as root"
            } else if uid == 0 {
                "root without CAP_SYS_ADMIN: start the container with `--privileged` or `--cap-add SYS_ADMIN --security-opt seccomp=unconfined`"
            } else {
                "in a container: `--security-opt seccomp=unconfined`; else run as root"
            };
            MachineCheck::new("isolated hosts", CheckOutcome::No, format!("{error:#}")).hint(hint)
        }
    }
}

/// Creates two hosts and a cable with receive rings, and removes them.
fn links(program: &Path) -> MachineCheck {
    let address = |host: u8| vec![(std::net::Ipv4Addr::new(10, 0, 0, host).into(), 24)];
    let attempt = || -> anyhow::Result<()> {
        let mut supervisor = Supervisor::start(program, None)?;
        let (addresses, rings) = ([address(1), address(2)], [1 << 20; 2]);
        let cable = CableSetup { hosts: [0, 1], addresses, mtu: 1500, rings, tunnels: [None, None] };
        supervisor.tell(&Request::SetUp {
            hosts: vec![HostSetup::default(); 2],
            cables: vec![cable],
            routes: Vec::new(),
        })?;
        let done = |r: &Reply| matches!(r, Reply::SetUp { .. }).then_some(());
        supervisor.wait_for(Duration::from_secs(10), done, |_| {})?;
        supervisor.end().map(drop)
    };
    match attempt() {
        Ok(()) => {
            let found = "interface pairs with packet sockets and receive rings; super-packets uncut";
            MachineCheck::new("links", CheckOutcome::Yes, found)
        }
        Err(error) => MachineCheck::new("links", CheckOutcome::No, format!("{error:#}"))
            .hint("needs isolated hosts, and a kernel with VETH and PACKET (CONFIG_VETH, CONFIG_PACKET)"),
    }
}

fn real_time() -> MachineCheck {
    // In a thread of its own, so that only that gets the priority; 50 is the priority of the emulator's workers.
    let granted = std::thread::spawn(|| schedule::set_real_time(50)).join();
    match granted {
        Ok(Ok(())) => MachineCheck::new("real-time scheduling", CheckOutcome::Yes, "SCHED_FIFO granted"),
        Ok(Err(e)) => MachineCheck::new("real-time scheduling", CheckOutcome::Partly, format!("{e}; links will be late under load, which runs report"))
            .hint("as root: add `USER - rtprio 60` to /etc/security/limits.conf and log in again, or `setcap cap_sys_nice+ep` on the program"),
        Err(_) => MachineCheck::new("real-time scheduling", CheckOutcome::No, "could not be tried"),
    }
}

/// Measures the wake-up delay of 200 sleeps of 1 ms, with the emulator's priority if that is permitted.
fn timers() -> MachineCheck {
    let measure = || {
        let _ = schedule::set_timer_slack(1);
        let real_time = schedule::set_real_time(50).is_ok();
        let mut late: Vec<u64> = (0..200)
            .map(|_| {
                let until = monotonic_ns() + 1_000_000;
                let _ = schedule::wait_readable(&[], Some(until));
                monotonic_ns().saturating_sub(until)
            })
            .collect();
        late.sort_unstable();
        // `late[100]` is the median, `late[198]` the 99th percentile of 200 values.
        (real_time, late[100] as f64 / 1e3, late[198] as f64 / 1e3)
    };
    let Ok((real_time, p50, p99)) = std::thread::spawn(measure).join() else {
        return MachineCheck::new("timers", CheckOutcome::No, "could not be tried");
    };
    let outcome = if p99 < 1000.0 { CheckOutcome::Yes } else { CheckOutcome::Partly };
    let how = if real_time { "real-time" } else { "ordinary" };
    MachineCheck::new(
        "timers",
        outcome,
        format!("{how} wake-up delay {p50:.0} us (median), {p99:.0} us (99th percentile)"),
    )
    .hint("this is the precision of links; less load, real-time scheduling or a machine of its own helps")
}

fn cgroups() -> MachineCheck {
    let found = Hierarchies::detect();
    let mut kinds = Vec::new();
    if let Some((_, controllers)) = &found.unified {
        let list = if controllers.is_empty() { "no controllers".into() } else { controllers.join(" ") };
        kinds.push(format!("v2 ({list})"));
    }
    kinds.extend(found.version_1.iter().map(|(controller, _)| format!("v1 {}", controller.name())));
    let kinds = if kinds.is_empty() { "none mounted".to_string() } else { kinds.join(", ") };
    // All controllers at once: a host may have every limit.
    let attempt = GroupName::of_self().and_then(|name| {
        let made = ControlGroup::create(&found, name, Needs { quota: true, cpus: true, memory: true });
        cgroup::remove(&found, name);
        made
    });
    match attempt {
        Ok(_) => {
            let found = format!("{kinds}; groups may be made: hosts may be limited");
            MachineCheck::new("cgroups", CheckOutcome::Yes, found)
        }
        Err(e) => MachineCheck::new(
            "cgroups",
            CheckOutcome::Partly,
            format!("{kinds}; {e}; CPU and memory are counted by /proc, and hosts cannot be limited"),
        )
        .hint("as an ordinary user: start within `systemd-run --user --scope -p Delegate=yes`; needed only for `quota` and `memory` of hosts"),
    }
}

/// Tries to start this program in a container whose image is empty.
fn containers(program: &Path) -> MachineCheck {
    let none = |found: String, hint: &str| MachineCheck::new("containers", CheckOutcome::Partly, found).hint(hint);
    let Ok(runtime) = Runtime::find() else {
        let hint = "`apt install crun` or `dnf install crun`; needed only for hosts with kind = \"container\"";
        return none("no `crun`, which starts them".into(), hint);
    };
    let folder = std::env::temp_dir().join(format!("farlink-doctor-container-{}", std::process::id()));
    let tried = try_container(program, &folder);
    let _ = fs::remove_dir_all(&folder);
    match tried {
        Ok(()) => {
            let engine = |name: &&str| container::program(name).is_some();
            let engines = ["podman", "docker"].into_iter().filter(engine).collect::<Vec<_>>().join(", ");
            let named = if engines.is_empty() { String::new() } else { format!(", and by name of {engines}") };
            let found = format!("{runtime}; images of folders and archives{named}");
            MachineCheck::new("containers", CheckOutcome::Yes, found)
        }
        Err(error) => none(
            format!("{runtime} does not start them: {}", format!("{error:#}").replace('\n', "; ")),
            "as root; within a container it must be a privileged one",
        ),
    }
}

fn try_container(program: &Path, folder: &Path) -> anyhow::Result<()> {
    let place = |name: &str| folder.join(name);
    for name in ["root", "mounts"] {
        fs::create_dir_all(place(name))?;
    }
    let container = ContainerSetup {
        layers: vec![place("root")],
        binds: vec![Bind { path: program.to_path_buf(), writable: false }],
        libraries: Libraries::of(program),
        mounts: place("mounts"),
        ..ContainerSetup::default()
    };
    let mut supervisor = Supervisor::start(program, Some(&place("log")))?;
    let host = HostSetup { name: "doctor".into(), container: Some(container), ..HostSetup::default() };
    supervisor.tell(&Request::SetUp { hosts: vec![host], cables: Vec::new(), routes: Vec::new() })?;
    supervisor.tell(&Request::Spawn(SpawnSetup {
        id: 0,
        host: 0,
        role: Role::Application,
        command: vec![program.display().to_string(), "--version".into()],
        environment: Default::default(),
        directory: "/".into(),
        stdout: Some(place("version")),
        stderr: None,
        real_time: None,
    }))?;
    let exited = |reply: &Reply| match reply {
        Reply::Exited { code, .. } => Some(*code),
        _ => None,
    };
    let code = supervisor.wait_for(Duration::from_secs(10), exited, |_| {})?;
    supervisor.end()?;
    let log = fs::read_to_string(place("log")).unwrap_or_default();
    anyhow::ensure!(code == Some(0), "{}", log.lines().next_back().unwrap_or("it ended at once"));
    Ok(())
}

fn pressure_and_steal() -> MachineCheck {
    let psi = pressure::pressure(Resource::Cpu).is_some();
    let stolen = pressure::machine_time().is_some();
    let words = |there: bool| if there { "readable" } else { "hidden" };
    let found = format!("pressure stall information {}, stolen time {}", words(psi), words(stolen));
    let outcome = if psi && stolen { CheckOutcome::Yes } else { CheckOutcome::Partly };
    MachineCheck::new("validity of runs", outcome, found)
        .hint("boot with `psi=1` (CONFIG_PSI); without it runs are judged by lateness alone")
}

fn offloads() -> MachineCheck {
    let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    match DatagramSocket::bind(&loopback, true, 1 << 20) {
        Ok(socket) if socket.segments() && socket.coalesces() => {
            MachineCheck::new("UDP offload", CheckOutcome::Yes, "segmentation (UDP_SEGMENT) and coalescing (UDP_GRO)")
        }
        Ok(socket) => {
            let found = format!("segmentation: {}, coalescing: {}", socket.segments(), socket.coalesces());
            MachineCheck::new("UDP offload", CheckOutcome::Partly, found)
                .hint("Linux 5.0 or later; LTP then falls back to batched system calls")
        }
        Err(e) => MachineCheck::new("UDP offload", CheckOutcome::No, e.to_string())
            .hint("UDP sockets are refused: look at the sandbox"),
    }
}

fn buffers() -> MachineCheck {
    let most = number("/proc/sys/net/core/rmem_max").unwrap_or(0);
    let outcome =
        if most >= 4 << 20 || namespace::user_and_group().0 == 0 { CheckOutcome::Yes } else { CheckOutcome::Partly };
    MachineCheck::new("socket buffers", outcome, format!("up to {} kB (net.core.rmem_max)", most / 1000)).hint(
        "for fast LTP as an ordinary user: as root `sysctl -w net.core.rmem_max=26214400 net.core.wmem_max=26214400`",
    )
}

/// Measures the median time of a 4 kB write with a sync.
fn disk(directory: &Path) -> MachineCheck {
    let path = directory.join(format!(".farlink-doctor-{}", std::process::id()));
    let measure = || -> std::io::Result<f64> {
        use std::os::unix::fs::FileExt;
        let file = fs::File::create(&path)?;
        let mut times: Vec<u64> = Vec::new();
        for turn in 0..15 {
            let start = monotonic_ns();
            file.write_all_at(&[turn as u8; 4096], turn * 4096)?;
            file.sync_data()?;
            times.push(monotonic_ns() - start);
        }
        times.sort_unstable();
        Ok(times[times.len() / 2] as f64 / 1e6)
    };
    // The file is removed whether or not the measurement succeeds.
    let measured = measure();
    let _ = fs::remove_file(&path);
    match measured {
        Ok(ms) => {
            let outcome = if ms < 20.0 { CheckOutcome::Yes } else { CheckOutcome::Partly };
            MachineCheck::new(
                "durable writes",
                outcome,
                format!("{ms:.2} ms for each fsync in {}", directory.display()),
            )
            .hint("put stores on a faster disk; group commit makes up for some of it")
        }
        Err(e) => MachineCheck::new("durable writes", CheckOutcome::No, format!("{}: {e}", directory.display()))
            .hint("run in a directory that can be written"),
    }
}

fn processors() -> MachineCheck {
    let count = schedule::processors();
    let outcome = if count >= 2 { CheckOutcome::Yes } else { CheckOutcome::Partly };
    MachineCheck::new("processors", outcome, format!("{count} may be used"))
        .hint("with one processor, nodes and links take turns: keep rates below 50 Mbit/s and watch the run's validity")
}

fn memory() -> MachineCheck {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available =
        text.lines().find_map(|l| l.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse::<u64>().ok());
    let megabytes = available.unwrap_or(0) / 1000;
    let outcome = if megabytes >= 1000 { CheckOutcome::Yes } else { CheckOutcome::Partly };
    MachineCheck::new("memory", outcome, format!("{megabytes} MB available"))
        .hint("a link needs rate times delay of memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_program_fails_isolation_check() {
        let check = isolation(Path::new("/bin/true"), 1000);
        assert_eq!(check.outcome, CheckOutcome::No);
        assert!(check.hint.is_some(), "{check:?}");
    }

    #[test]
    fn every_failed_check_has_hint() {
        let checks = [real_time(), cgroups(), pressure_and_steal(), offloads(), buffers(), processors(), memory()];
        for check in checks.into_iter().chain([disk(&std::env::temp_dir()), disk(Path::new("/no/such/place"))]) {
            assert!(!check.found.is_empty());
            assert!(check.outcome == CheckOutcome::Yes || check.hint.is_some(), "{check:?}");
        }
    }
}
