//! `cargo xtask overload`: offers a node with a small store ten times its link's rate.
//!
//! Two durable nodes exchange bundles over TCPCLv4, and the first one's link has a rate. First the goodput of normal
//! bundles is measured at saturation. Then applications offer ten times as much for a while, a few bundles expedited,
//! and finally half of the goodput. They are attached to the overloaded node or, with `--from LAYER`, to a third node
//! that forwards to it over this layer.

mod flow;

use crate::harness::{Node, free_port};
use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use flow::{Account, Flow, PAYLOAD};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The chore `cargo xtask overload`.
pub const CHORE: Chore = Chore {
    name: "overload",
    usage: "[--seconds N] [--link MBIT] [--from applications|tcpclv4|ltp]",
    help: "A full node is offered ten times what its link carries, for a minute: it loses nothing and keeps working.\n\
           \n\
           Judged: memory within 105 % of its budget, nothing acknowledged lost, all expedited bundles taken and \
           delivered; from 20 s on also goodput of at least 85 % of saturation, and nothing refused from 10 s after it on. \
           --link: the rate of the link, 40 Mbit/s. --from: who offers it, its applications (so when not given), or \
           a neighbour over TCPCLv4 or LTP, a node as small, of which the same is asked. Builds with `--profile quick` first; FARLINK_BIN names a ready \
           binary instead.",
    run,
};

/// Offered rate, as a multiple of the goodput at saturation.
const FACTOR: u64 = 10;
/// Number of applications that offer normal bundles.
const SENDERS: u64 = 4;
/// Rate of expedited bundles, per second.
const EXPEDITED: u64 = 5;
/// Memory budget of the small nodes, bytes.
const MEMORY: u64 = 128 << 20;
// Allowed share of the budget, percent.
const MEMORY_MAX: u64 = 105;
/// Least goodput, percent of saturation.
const GOODPUT_MIN: u64 = 85;
/// Longest time from the end of the overload to the last refusal.
const RECOVERY_MAX: Duration = Duration::from_secs(10);
/// Least duration of the overload, s, for which goodput and recovery are judged.
const JUDGED_FROM: u64 = 20;
/// Longest wait for acknowledged bundles to arrive.
const DRAIN_MAX: Duration = Duration::from_secs(120);
/// Interval of memory readings.
const LOOK: Duration = Duration::from_millis(200);

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let seconds = arguments.number("--seconds", 60)?.max(1);
    let link = arguments.number("--link", 40)?.max(1);
    let from = match arguments.word("--from")? {
        None | Some("applications") => None,
        Some(layer @ ("tcpclv4" | "ltp")) => Some(layer),
        Some(other) => bail!("--from {other}: applications, tcpclv4 or ltp"),
    };
    if let Some(word) = arguments.rest()?.first() {
        bail!("`{word}` is not an argument of overload");
    }
    let binary = std::path::absolute(tools::farlink()?)?;
    let dir = std::env::temp_dir().join(format!("farlink-overload-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let mut nodes = start(&binary, &dir, link, seconds, from)?;
    let (flows, threads) = flows(&nodes);
    let outcome = overload(&mut nodes, &flows, seconds);
    flows.iter().for_each(|flow| flow.end());
    // Applications' connections end with the nodes, so their threads are joined afterwards.
    let ended: Result<()> = nodes.iter_mut().try_for_each(Node::end);
    drop(nodes);
    for thread in threads {
        let _ = thread.join();
    }
    let complaints = outcome?;
    ended?;
    if complaints.is_empty() {
        std::fs::remove_dir_all(&dir)?;
        return Ok(());
    }
    bail!("{}\nconfigurations and logs are in {}", complaints.join("\n"), dir.display())
}

/// Starts the node under overload, the one behind its link and, with `from`, the neighbour before it.
fn start(binary: &Path, dir: &Path, link: u64, seconds: u64, from: Option<&str>) -> Result<Vec<Node>> {
    let (here, there, wide) = (free_port()?, free_port()?, free_port()?);
    let source = free_port()?;
    // The store holds the bundles offered in a tenth of the overload, within 4 to 64 MB, so that it is full early.
    let capacity = (link * 1_000_000 / 8 * FACTOR * seconds / 10).clamp(4_000_000, 64_000_000);
    let node = |name: &'static str, number: u64, capacity: u64, listen: u16, rest: &str| -> Result<Node> {
        let text = format!(
            "node_ids = [\"ipn:{number}.0\"]\n\n[store]\nkind = \"durable\"\ndir = \"store\"\ncapacity = \"{capacity} B\"\n\n\
             [layer.tcp]\nkind = \"tcpclv4\"\nlisten = [\"127.0.0.1:{listen}\"]\n\n[app]\nsocket = \"app.sock\"\n\n\
             [log]\nlevel = \"warn\"\n\n{rest}"
        );
        let mut node = Node::started(dir, name, binary, &text, 4096)?;
        node.wait_ready().map(|_| node)
    };
    let small = format!("[limits]\nmemory = \"{MEMORY} B\"\n\n");
    // The layer between the neighbour and the full node; twice the offered rate, so that it is no bottleneck.
    let between = |listen: u16, number: u64, address: u16| {
        from.map_or_else(String::new, |kind| {
            format!(
                "[layer.wide]\nkind = \"{kind}\"\nlisten = [\"127.0.0.1:{listen}\"]\n\n[link.wide]\nlayer = \"wide\"\n\
                 peer = \"ipn:{number}.0\"\naddress = \"127.0.0.1:{address}\"\nrate = \"{} Mbit/s\"\n\n",
                link * 2 * FACTOR
            )
        })
    };
    let out = format!(
        "[link.out]\nlayer = \"tcp\"\npeer = \"ipn:2.0\"\naddress = \"127.0.0.1:{there}\"\nrate = \"{link} Mbit/s\"\n\n\
         [routes]\n\"ipn:2.*\" = \"ipn:2.0\"\n"
    );
    let back = "[link.back]\nlayer = \"tcp\"\npeer = \"ipn:1.0\"\n";
    let mut nodes = vec![
        node("full", 1, capacity, here, &format!("{small}{}{out}", between(wide, 3, source)))?,
        node("behind", 2, 1_000_000_000, there, back)?,
    ];
    if from.is_some() {
        let routes = "[routes]\n\"ipn:2.*\" = \"ipn:1.0\"\n";
        let rest = format!("{small}{}{routes}", between(source, 1, wide));
        nodes.push(node("before", 3, capacity, free_port()?, &rest)?);
    }
    Ok(nodes)
}

type Flows = (Vec<Arc<Flow>>, Vec<JoinHandle<()>>);

/// Flows of normal bundles, and the expedited one last.
fn flows(nodes: &[Node]) -> Flows {
    let (mut flows, mut threads) = (Vec::new(), Vec::new());
    for number in 0..=SENDERS {
        let priority = if number == SENDERS { 3 } else { 2 };
        let end = |node: usize| (nodes[node].socket(), format!("ipn:{}.{}", node + 1, 11 + number));
        let source = if nodes.len() > 2 { 2 } else { 0 };
        let (flow, both) = Flow::start(priority, end(source), end(1), 200);
        flows.push(flow);
        threads.extend(both);
    }
    (flows, threads)
}

fn sum(flows: &[Arc<Flow>]) -> Account {
    flows.iter().map(|flow| flow.account()).fold(Account::default(), |sum, one| Account {
        acknowledged: sum.acknowledged + one.acknowledged,
        refused: sum.refused + one.refused,
        delivered: sum.delivered + one.delivered,
        missing: sum.missing + one.missing,
        corrupt: sum.corrupt + one.corrupt,
        slowest: sum.slowest.max(one.slowest),
        last_refused: sum.last_refused.max(one.last_refused),
    })
}

/// Waits for `lasts`; returns the most memory of a small node meanwhile.
fn watch(nodes: &mut [Node], lasts: Duration) -> Result<u64> {
    let (begun, mut most) = (Instant::now(), 0);
    while begun.elapsed() < lasts {
        std::thread::sleep(LOOK.min(lasts.saturating_sub(begun.elapsed())));
        for (n, node) in nodes.iter_mut().enumerate() {
            if !node.alive() {
                bail!("node {} ended:\n{}", node.name(), node.log_tail());
            }
            // The node behind the link has no budget.
            most = most.max(if n == 1 { 0 } else { node.memory() });
        }
    }
    Ok(most)
}

/// Runs the overload; returns the complaints.
fn overload(nodes: &mut [Node], flows: &[Arc<Flow>], seconds: u64) -> Result<Vec<String>> {
    let (expedited, normal) = flows.split_last().context("there are flows")?;
    let lasts = Duration::from_secs(seconds);
    normal.iter().for_each(|flow| flow.offer(u64::MAX));
    let warm = Instant::now();
    while sum(normal).delivered < 20 {
        watch(nodes, LOOK)?;
        if warm.elapsed() > DRAIN_MAX {
            bail!("nothing arrives");
        }
    }
    // Saturation: the senders keep the backlog full for a quarter of the time.
    let (before, measured) = (sum(normal).delivered, lasts / 4);
    watch(nodes, measured)?;
    let saturation = (sum(normal).delivered - before) as f64 / measured.as_secs_f64();
    println!("saturation     {saturation:>10.0} bundles/s of {PAYLOAD} B");

    // A slow link must not round a sender's part down to nothing.
    let each = (saturation as u64 * FACTOR / SENDERS).max(1);
    normal.iter().for_each(|flow| flow.offer(each));
    expedited.offer(EXPEDITED);
    let (before, begun) = (sum(normal), Instant::now());
    let most = watch(nodes, lasts)?;
    let (after, took, over) = (sum(normal), begun.elapsed().as_secs_f64(), Instant::now());
    let rate = |before: u64, after: u64| (after - before) as f64 / took;
    let answered = rate(before.acknowledged + before.refused, after.acknowledged + after.refused);
    let goodput = rate(before.delivered, after.delivered);
    println!("answered       {answered:>10.0} bundles/s, {:.0} refused", rate(before.refused, after.refused));
    println!("goodput        {goodput:>10.0} bundles/s, {:.0} % of saturation", 100.0 * goodput / saturation.max(1.0));

    // Half of the goodput lets a full node drain, so refusals must end.
    let each = (saturation as u64 / 2 / SENDERS).max(1);
    normal.iter().for_each(|flow| flow.offer(each));
    let most = most.max(watch(nodes, RECOVERY_MAX.min(lasts) + Duration::from_secs(1))?);
    let recovery = sum(normal).last_refused.map_or(Duration::ZERO, |last| last.saturating_duration_since(over));
    println!("recovery       {:>10.2} s until the last refusal", recovery.as_secs_f64());
    println!("memory         {:>10.1} MiB of {}", most as f64 / f64::from(1 << 20), MEMORY >> 20);

    // Only an acknowledged bundle that never arrives is a loss; a refused bundle is none.
    flows.iter().for_each(|flow| flow.stop());
    let drain = Instant::now();
    while sum(flows).missing > 0 && drain.elapsed() < DRAIN_MAX {
        watch(nodes, LOOK)?;
    }
    let (all, urgent) = (sum(flows), expedited.account());
    println!(
        "expedited      {:>10} taken, {} refused, {} delivered, {:.2} s at most",
        urgent.acknowledged,
        urgent.refused,
        urgent.delivered,
        urgent.slowest.as_secs_f64()
    );
    println!("{} acknowledged, {} lost, {} corrupt", all.acknowledged, all.missing, all.corrupt);
    let mut complaints = Vec::new();
    let mut demand = |well: bool, else_: String| complaints.extend((!well).then_some(else_));
    demand(all.missing == 0 && all.corrupt == 0, format!("{} bundles lost, {} corrupt", all.missing, all.corrupt));
    // A node that never was full would prove nothing.
    demand(after.refused > before.refused, "nothing was refused: the node was never full".into());
    demand(most <= MEMORY / 100 * MEMORY_MAX, format!("{most} B of memory, of {MEMORY}"));
    demand(
        urgent.refused == 0 && urgent.delivered > 0 && urgent.missing == 0,
        format!("expedited bundles do not get through: {urgent:?}"),
    );
    if seconds >= JUDGED_FROM {
        demand(goodput * 100.0 >= saturation * GOODPUT_MIN as f64, "goodput is below 85 % of saturation".into());
        demand(recovery <= RECOVERY_MAX, format!("bundles are refused {recovery:?} after it"));
    }
    Ok(complaints)
}
