//! `cargo xtask bench kills`: checks that runs of the testbed leave nothing behind when one of their processes is
//! killed at a random moment.

use crate::random::Random;
use crate::tools;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A run that keeps its nodes busy until it is killed.
const SCENARIO: &str = "name = \"kills\"\nduration = \"60 s\"\nstop_when_delivered = false\n\
    [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\nstore = \"durable\"\n\
    [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\ndelay = \"5 ms\"\nrate = \"100 Mbit/s\"\n\
    [[phase]]\nname = \"base\"\nkind = \"baseline\"\nduration = \"6 s\"\n\
    [[traffic]]\nfrom = \"a\"\nto = \"b\"\nstart = \"6 s\"\nbundles = { count = 100000, size = \"10 kB\" }\n";
/// Latest moment of a kill after the start.
const LATEST: Duration = Duration::from_secs(9);
/// Longest time until nothing of a run is left after its end.
const GRACE: Duration = Duration::from_secs(10);

/// Kills a random process of each of `--times` runs.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let (times, seed) = (arguments.number("--times", 20)?, arguments.number("--seed", 1)?);
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench kills");
    }
    let farlink = std::path::absolute(tools::farlink()?)?;
    let folder = tempfile::tempdir()?;
    let scenario = folder.path().join("kills.toml");
    fs::write(&scenario, SCENARIO)?;
    let mut random = Random::new(seed);
    for time in 1..=times {
        let out = folder.path().join(format!("run-{time}"));
        let what = kill(&farlink, &scenario, &out, &mut random).with_context(|| format!("kill {time} of {times}"))?;
        println!("{time:3}: {what}; nothing is left");
        let _ = fs::remove_dir_all(&out);
    }
    Ok(())
}

fn kill(farlink: &Path, scenario: &Path, out: &Path, random: &mut Random) -> Result<String> {
    // Noted before the run: another run, or namespaces and mounts of other programs, may exist already.
    let before = Left::now();
    let mut command = Command::new(farlink);
    command.args(["run", "--in", "lab", "--out"]).arg(out).arg(scenario).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let after = Duration::from_millis(random.below(LATEST.as_millis() as u64));
    std::thread::sleep(after);
    let mut processes = descendants(child.id());
    processes.push(child.id());
    let victim = processes[random.below(processes.len() as u64) as usize];
    let name = fs::read_to_string(format!("/proc/{victim}/cmdline")).unwrap_or_default().replace('\0', " ");
    let words: Vec<&str> = name.split(' ').skip(1).take(2).collect();
    let what =
        format!("after {:.2} s process {victim} (`{}`) of {}", after.as_secs_f64(), words.join(" "), processes.len());
    if let Some(victim) = i32::try_from(victim).ok().and_then(Pid::from_raw) {
        let _ = kill_process(victim, Signal::KILL);
    }
    // A killed sender or cleaner does not end the run; then the run itself is killed, as a user would do.
    while child.try_wait()?.is_none() {
        if begun.elapsed() > after + Duration::from_secs(3) {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = Instant::now();
    loop {
        let left: Vec<String> = Left::now().things.difference(&before.things).cloned().collect();
        if left.is_empty() {
            return Ok(what);
        }
        ensure!(ended.elapsed() < GRACE, "{what}: left {}", left.join(", "));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// IDs of all descendants of a process.
fn descendants(process: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let below: Vec<u32> = children.iter().flat_map(|child| descendants(*child)).collect();
    children.into_iter().chain(below).collect()
}

/// Things on this machine that a run makes: processes and namespaces of farlink, interfaces, groups, mounts, IPC.
struct Left {
    things: BTreeSet<String>,
}

impl Left {
    fn now() -> Left {
        let mut things = BTreeSet::new();
        for process in names(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok()) {
            let folder = PathBuf::from("/proc").join(&process);
            let line = fs::read(folder.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            // Programs in hosts have `FARLINK_GROUP` in their environment; a supervisor is recognized by its command
            // line.
            let marked = environment.windows(14).any(|part| part == b"FARLINK_GROUP=");
            if marked || line.contains("lab-supervisor") {
                things.insert(format!("process {process} `{line}`"));
                for kind in ["net", "pid", "mnt", "ipc", "uts"] {
                    things.extend(fs::read_link(folder.join("ns").join(kind)).ok().map(|ns| ns.display().to_string()));
                }
            }
        }
        things.extend(names(Path::new("/sys/class/net")).into_iter().map(|name| format!("interface {name}")));
        groups(Path::new("/sys/fs/cgroup"), 0, &mut things);
        let lines = |file: &str| fs::read_to_string(file).unwrap_or_default();
        things.extend(lines("/proc/self/mounts").lines().map(|line| format!("mount {line}")));
        for kind in ["shm", "sem", "msg"] {
            let text = lines(&format!("/proc/sysvipc/{kind}"));
            let ids = text.lines().skip(1).map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
            things.extend(ids.map(|id| format!("{kind} {id}")));
        }
        things.extend(names(Path::new("/dev/mqueue")).into_iter().map(|name| format!("queue {name}")));
        Left { things }
    }
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

fn groups(folder: &Path, depth: usize, things: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|e| e.path().is_dir()) {
        if entry.file_name().to_string_lossy().starts_with("farlink-") {
            things.insert(format!("group {}", entry.path().display()));
        } else if depth < 8 && !entry.path().is_symlink() {
            groups(&entry.path(), depth + 1, things);
        }
    }
}
