//! `cargo xtask crash`: real nodes under load are killed with -9 at random moments and started
//! again. What an application was told is kept must be kept; what an application has taken must
//! not come again.
//!
//! Two nodes with durable stores exchange bundles over TCPCLv4; an application at each sends to two
//! endpoints of the other. The seed fixes payloads, moments and victims; the machine does the rest.

pub mod aap2;
mod flip;
pub mod load;
pub mod node;
pub mod random;

use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use load::Flow;
use node::{Node, free_port};
use random::Random;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The chore.
pub const CHORE: Chore = Chore {
    name: "crash",
    usage: "[--kills N] [--flip N] [--seed N]",
    help: "Kills nodes under load (20 times), flips bytes of stores (20): nothing acknowledged may be lost.",
    run,
};

/// Longest time for what is left to arrive after the last kill.
const DRAIN_MAX: Duration = Duration::from_secs(120);

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let (kills, flips) = (arguments.number("--kills", 20)?, arguments.number("--flip", 20)?);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.subsec_nanos();
    let seed = arguments.number("--seed", clock.into())?;
    if let Some(word) = arguments.rest()?.first() {
        bail!("`{word}` is not an option of crash");
    }
    let binary = build()?;
    let dir = std::env::temp_dir().join(format!("farlink-crash-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    println!("crash: seed {seed}, {kills} kills, {flips} flipped bytes; working in {}", dir.display());
    let mut random = Random::new(seed);
    let mut complaints = Vec::new();
    if kills > 0 {
        complaints.extend(kill(&dir, &binary, kills, &mut random)?);
    }
    if flips > 0 {
        let flips = flip::run(&dir, &binary, flips, &mut random)?;
        println!("\nflipped bytes    {:>8}", flips.tried);
        println!("  cost nothing   {:>8}", flips.tried - flips.lost_one - flips.wrong.len() as u64);
        println!("  cost a bundle  {:>8}", flips.lost_one);
        println!("  cost more      {:>8}", flips.wrong.len());
        complaints.extend(flips.wrong);
    }
    if complaints.is_empty() {
        std::fs::remove_dir_all(&dir)?;
        return Ok(());
    }
    bail!(
        "{}\nstores and logs are in {}\ntry again with `cargo xtask crash --kills {kills} --seed {seed}`",
        complaints.join("\n"),
        dir.display()
    )
}

/// Builds the node and gives its path.
pub fn build() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("FARLINK_BIN") {
        return Ok(binary.into());
    }
    let arguments = ["build", "--quiet", "-p", "farlink", "--bin", "farlink", "--message-format", "json"];
    let output = tools::output(tools::cargo().args(arguments)).context("building farlink")?;
    let messages = output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let executables: Vec<String> =
        messages.filter_map(|message| message["executable"].as_str().map(String::from)).collect();
    executables.last().map(PathBuf::from).context("cargo built no farlink")
}

/// Kills nodes under load; gives what is to be complained of.
fn kill(dir: &Path, binary: &Path, kills: u64, random: &mut Random) -> Result<Vec<String>> {
    let (port_a, port_b) = (free_port()?, free_port()?);
    let mut nodes = [Node::new(dir, binary, "a", 1, port_a, port_b)?, Node::new(dir, binary, "b", 2, port_b, port_a)?];
    for node in &mut nodes {
        node.start()?;
        node.wait_ready()?;
    }
    let flows = flows(&nodes);
    let mut threads = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let (sender, receiver, seed) = (flow.clone(), flow.clone(), random.next() ^ number as u64);
        threads.push(std::thread::spawn(move || sender.send(seed)));
        threads.push(std::thread::spawn(move || receiver.receive()));
    }
    let outcome = kill_all(&mut nodes, &flows, kills, random);
    for flow in &flows {
        flow.sending_over.store(true, Ordering::Relaxed);
        flow.over.store(true, Ordering::Relaxed);
    }
    // Their connections end with the nodes.
    drop(nodes);
    for thread in threads {
        let _ = thread.join();
    }
    let restarts = outcome?;
    Ok(report(&flows, &restarts))
}

fn flows(nodes: &[Node; 2]) -> Vec<Flow> {
    let flow = |name, from: usize, source: &str, to: usize, destination: &str, backlog| Flow {
        name,
        window: if backlog > 1 { 16 } else { 1 },
        backlog,
        source: source.into(),
        source_socket: nodes[from].socket(),
        destination: destination.into(),
        destination_socket: nodes[to].socket(),
        seen: Arc::default(),
        sending_over: Arc::new(AtomicBool::new(false)),
        over: Arc::new(AtomicBool::new(false)),
    };
    vec![
        flow("a to b, many", 0, "ipn:1.11", 1, "ipn:2.21", 300),
        flow("a to b, few", 0, "ipn:1.12", 1, "ipn:2.22", 1),
        flow("b to a, many", 1, "ipn:2.13", 0, "ipn:1.23", 300),
        flow("b to a, few", 1, "ipn:2.14", 0, "ipn:1.24", 1),
    ]
}

/// Kills and restarts, then lets everything arrive; gives how long each restart took.
fn kill_all(nodes: &mut [Node; 2], flows: &[Flow], kills: u64, random: &mut Random) -> Result<Vec<Duration>> {
    let mut restarts = Vec::new();
    for number in 1..=kills {
        std::thread::sleep(Duration::from_millis(30 + random.below(400)));
        let node = &mut nodes[random.below(2) as usize];
        node.kill()?;
        std::thread::sleep(Duration::from_millis(random.below(100)));
        node.start()?;
        restarts.push(node.wait_ready()?);
        if number % 20 == 0 || number == kills {
            let acknowledged: usize = flows.iter().map(|flow| flow.seen().acknowledged.len()).sum();
            println!("  {number}/{kills} kills, {acknowledged} bundles acknowledged");
        }
    }
    flows.iter().for_each(|flow| flow.sending_over.store(true, Ordering::Relaxed));
    let begun = Instant::now();
    let missing = || flows.iter().map(|flow| flow.seen().missing()).sum::<usize>();
    while missing() > 0 && begun.elapsed() < DRAIN_MAX {
        std::thread::sleep(Duration::from_millis(20));
    }
    // What should not come again would come now.
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
