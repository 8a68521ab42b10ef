//! Kills nodes under load and compares acknowledged with delivered bundles.

use super::forgetting::Mount;
use super::interrupt;
use super::load::{Flow, Seen};
use super::node::{self, Over, Room};
use crate::harness::{Node, free_port};
use crate::random::Random;
use anyhow::Result;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Silence after which a node is restarted: a neighbour that was full backs off for up to a minute, and a restart skips
/// that wait.
const QUIET_MAX: Duration = Duration::from_secs(3);
/// Restarts without progress after which missing bundles count as lost.
const STARTS_MAX: u32 = 6;
/// Clock offsets at a restart: hours, a little, and back to before 1970. None is ahead by the bundles' lifetime of a
/// day: such a node would rightly refuse them as expired.
const CLOCKS: [&str; 8] = ["0 s", "0 s", "0 s", "-1 h", "+1 h", "+5 h", "-20500 d", "+3 s"];

/// Most kills of one pair of nodes. A power cut may lose one half of a fragmented bundle; the other half stays for its
/// lifetime, and many of them would fill a small store.
const KILLS_MAX: u64 = 100;

/// One kind of trial.
struct Trial {
    name: &'static str,
    room: Room,
    /// Whether bundles go one way only: two full stores would wait for each other forever.
    one_way: bool,
    /// Whether clocks are wrong after some restarts.
    clocks: bool,
    over: Over,
}
impl Trial {
    /// Whether only the sender is killed: STCP and MTCP confirm nothing, so data that reached only the receiver's host
    /// is lost without a broken promise.
    fn spares_receiver(&self) -> bool {
        matches!(self.over, Over::Stcp | Over::Mtcp)
    }
}
/// Limits for a store of many files, each a 32nd of the capacity, so that files are reused.
const WIDE: Room = Room { capacity: "24 MB", transfer_mru: "4 GiB" };
const PIECES: Room = Room { capacity: "24 MB", transfer_mru: "12 kB" };
const FULL: Room = Room { capacity: "1 MB", transfer_mru: "12 kB" };
const TRIALS: [Trial; 6] = [
    Trial { name: "plain", room: WIDE, one_way: false, clocks: false, over: Over::Tcpcl },
    Trial { name: "in pieces", room: PIECES, one_way: false, clocks: true, over: Over::Tcpcl },
    Trial { name: "full stores", room: FULL, one_way: true, clocks: true, over: Over::Tcpcl },
    Trial { name: "secured", room: WIDE, one_way: false, clocks: false, over: Over::Tls },
    Trial { name: "STCP", room: WIDE, one_way: true, clocks: false, over: Over::Stcp },
    Trial { name: "MTCP", room: WIDE, one_way: true, clocks: true, over: Over::Mtcp },
];

/// Kills nodes under load `kills` times, spread over the trials whose name contains `words`; returns the complaints.
/// With `forgetting`, each of these kills is a power cut, and about as many plain kills happen in addition.
pub fn run(
    dir: &Path,
    binary: &Path,
    (words, kills): (&str, u64),
    forgetting: bool,
    random: &mut Random,
) -> Result<Vec<String>> {
    interrupt::watch()?;
    let (mut complaints, mut work) = (Vec::new(), (0, 0));
    let trials: Vec<&Trial> = TRIALS.iter().filter(|trial| trial.name.contains(words)).collect();
    for (number, trial) in trials.iter().enumerate() {
        // Distributes the kills evenly; the first trials get the remainder.
        let mut left = (kills + trials.len() as u64 - 1 - number as u64) / trials.len() as u64;
        while left > 0 {
            println!("\n{}", trial.name);
            let here = left.min(KILLS_MAX);
            let dir = dir.join(format!("{number}-{left}"));
            let (more, done) = one(&dir, binary, here, trial, forgetting, random)?;
            complaints.extend(more);
            work = (work.0 + done.0, work.1 + done.1);
            left -= here;
        }
    }
    println!("\n{} files of stores were written over, {} commits began while another was under way", work.0, work.1);
    // Trials without reused files or overlapping commits have not tested them.
    if trials.len() == TRIALS.len() && (work.0 == 0 || work.1 == 0) {
        complaints.push("no file was written over, or no commits overlapped: that is not tried".into());
    }
    Ok(complaints)
}

/// A node and, if its store is on a forgetting disk, that disk.
struct Host {
    node: Node,
    disk: Option<Mount>,
}

fn one(
    dir: &Path,
    binary: &Path,
    kills: u64,
    trial: &Trial,
    forgetting: bool,
    random: &mut Random,
) -> Result<(Vec<String>, (u64, u64))> {
    let (port_a, port_b) = (free_port()?, free_port()?);
    let mut hosts = Vec::new();
    for (name, ends) in [("a", (1, port_a, port_b)), ("b", (2, port_b, port_a))] {
        let folder = dir.join(name);
        let disk = if forgetting { Some(Mount::new(&folder.join("disk"), random.next())?) } else { None };
        let store = disk.as_ref().map_or_else(|| folder.join("store"), |disk| disk.path().join("store"));
        let mut node = node::narrow(folder, binary, name, ends, store, trial.room, trial.over)?;
        node.start()?;
        node.wait_ready()?;
        hosts.push(Host { node, disk });
    }
    let flows = flows(&hosts, trial.one_way);
    let mut threads = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let (sender, receiver, seed) = (flow.clone(), flow.clone(), random.next() ^ number as u64);
        threads.push(std::thread::spawn(move || sender.send(seed)));
        threads.push(std::thread::spawn(move || receiver.receive()));
    }
    let mut work = (0, 0);
    let outcome = kill_all(&mut hosts, &flows, kills, trial, &mut work, random);
    for flow in &flows {
        flow.sending_over.store(true, Ordering::Relaxed);
        flow.over.store(true, Ordering::Relaxed);
    }
    // Applications' connections end with the nodes, so their threads are joined afterwards.
    for host in hosts {
        drop(host.node);
        drop(host.disk);
    }
    for thread in threads {
        let _ = thread.join();
    }
    let restarts = outcome?;
    Ok((report(&flows, &restarts), work))
}

fn flows(hosts: &[Host], one_way: bool) -> Vec<Flow> {
    let flow = |name, from: usize, source: &str, to: usize, destination: &str, backlog| Flow {
        name,
        // A window of 128 makes group commits overlap.
        window: if backlog > 1 { 128 } else { 1 },
        backlog,
        source: source.into(),
        source_socket: hosts[from].node.socket(),
        destination: destination.into(),
        destination_socket: hosts[to].node.socket(),
        seen: Arc::default(),
        sending_over: Arc::new(AtomicBool::new(false)),
        over: Arc::new(AtomicBool::new(false)),
    };
    let mut flows = vec![
        flow("a to b, many", 0, "ipn:1.11", 1, "ipn:2.21", 300),
        flow("a to b, few", 0, "ipn:1.12", 1, "ipn:2.22", 1),
        flow("b to a, many", 1, "ipn:2.13", 0, "ipn:1.23", 300),
        flow("b to a, few", 1, "ipn:2.14", 0, "ipn:1.24", 1),
    ];
    flows.truncate(if one_way { 2 } else { 4 });
    flows
}

// Waits for work that a kill can lose, but 400 ms at most: kills of an idle node are tested, too.
fn wait_for_work(flows: &[Flow]) {
    let done = || {
        let of = |seen: &Seen| seen.acknowledged.len() + seen.deliveries.len();
        flows.iter().map(|flow| of(&flow.seen())).sum::<usize>()
    };
    let (before, begun) = (done(), Instant::now());
    while done() < before + 10 && begun.elapsed() < Duration::from_millis(400) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills and restarts, then lets everything arrive; returns the time of each restart.
fn kill_all(
    hosts: &mut [Host],
    flows: &[Flow],
    kills: u64,
    trial: &Trial,
    stores: &mut (u64, u64),
    random: &mut Random,
) -> Result<Vec<Duration>> {
    let (mut restarts, mut number, mut lost) = (Vec::new(), 0, (0, 0));
    while number < kills {
        interrupt::check()?;
        // A shorter pause on a forgetting disk, so that a cut may hit a node that still recovers from the previous one.
        let work = if hosts[0].disk.is_some() { 150 } else { 400 };
        std::thread::sleep(Duration::from_millis(30 + random.below(work)));
        wait_for_work(flows);
        let dies = random.below(if trial.spares_receiver() { 1 } else { 2 });
        let Host { node, disk } = &mut hosts[dies as usize];
        let done = node.store_work();
        *stores = (stores.0 + done.0, stores.1 + done.1);
        node.kill()?;
        match disk {
            // About every other kill is a power cut; the others only end the process, and the disk keeps unsynced data.
            Some(disk) if random.below(2) == 0 => {
                let (bytes, names) = disk.cut(random)?;
                lost = (lost.0 + bytes, lost.1 + names);
                number += 1;
            }
            Some(_) => {}
            None => number += 1,
        }
        std::thread::sleep(Duration::from_millis(random.below(100)));
        if trial.clocks {
            node.clock_offset = CLOCKS[random.below(CLOCKS.len() as u64) as usize].into();
        }
        node.start()?;
        restarts.push(node.wait_ready()?);
        if restarts.len() % 20 == 0 || number == kills {
            let acknowledged: usize = flows.iter().map(|flow| flow.seen().acknowledged.len()).sum();
            println!("  {} kills, {number}/{kills} that count, {acknowledged} bundles acknowledged", restarts.len());
        }
    }
    if lost != (0, 0) {
        println!("  not synced when the power went: {} bytes, {} names of files", lost.0, lost.1);
    }
    flows.iter().for_each(|flow| flow.sending_over.store(true, Ordering::Relaxed));
    let missing = || flows.iter().map(|flow| flow.seen().missing()).sum::<usize>();
    let (mut last, mut starts) = ((missing(), Instant::now()), 0);
    while last.0 > 0 && starts < STARTS_MAX {
        interrupt::check()?;
        std::thread::sleep(Duration::from_millis(20));
        // Restarts count as useless only while nothing arrives.
        let now = missing();
        if now != last.0 {
            (last, starts) = ((now, Instant::now()), 0);
        } else if last.1.elapsed() > QUIET_MAX {
            let die = if trial.spares_receiver() { 1 } else { 2 };
            for Host { node, .. } in hosts.iter_mut().take(die) {
                node.kill()?;
                node.start()?;
                node.wait_ready()?;
            }
            (last.1, starts) = (Instant::now(), starts + 1);
        }
    }
    if last.0 > 0 {
        hosts.iter().for_each(|host| println!("\n{} holds:\n{}", host.node.name(), host.node.holds()));
    }
    // Repeated deliveries would arrive in this time.
    std::thread::sleep(Duration::from_millis(500));
    Ok(restarts)
}

fn report(flows: &[Flow], restarts: &[Duration]) -> Vec<String> {
    let mut complaints = Vec::new();
    let columns =
        ["acked", "unanswered", "refused", "delivered", "in flight", "lost", "repeated", "unmarked", "corrupt"];
    println!("\n{:<16}{}", "", columns.map(|name| format!("{name:>11}")).concat());
    let mut sums = [0; 9];
    let row = |name: &str, numbers: [usize; 9]| {
        println!("{name:<16}{}", numbers.map(|number| format!("{number:>11}")).concat());
    };
    for flow in flows {
        let seen = flow.seen();
        let verdict = seen.verdict();
        let numbers = [
            seen.acknowledged.len(),
            seen.unanswered.len(),
            seen.refused as usize,
            seen.deliveries.len(),
            verdict.in_flight,
            verdict.lost.len(),
            verdict.repeated.len(),
            verdict.unmarked.len(),
            seen.corrupt.len(),
        ];
        row(flow.name, numbers);
        sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        for (what, which) in [
            ("lost", &verdict.lost),
            ("delivered again", &verdict.repeated),
            ("delivered again and not marked redelivered", &verdict.unmarked),
            ("corrupt", &seen.corrupt),
        ] {
            if !which.is_empty() {
                complaints.push(format!("{}: {what}: {:?}", flow.name, &which[..which.len().min(10)]));
            }
        }
    }
    row("all", sums);
    let longest = restarts.iter().max().copied().unwrap_or_default();
    println!(
        "\n{} kills; ready again after {:.0} ms at most; {} acknowledged bundles lost",
        restarts.len(),
        longest.as_secs_f64() * 1e3,
        sums[5]
    );
    complaints
}
