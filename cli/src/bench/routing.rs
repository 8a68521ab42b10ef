//! `farlink bench routing`: contact-graph routing over a large plan.

use super::stats::median;
use crate::{CliError, values};
use farlink_base::{DataRate, NodeId, Priority, Rng};
use farlink_routing::sabr::{Booked, Planner, Query};
use farlink_routing::{Contact, ContactPlan, PlanIndex, PlanTime};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Length of the plan, s.
const DAY_S: u64 = 86_400;
/// Length of a contact, s.
const CONTACT_S: u64 = 600;
/// Bundles routed.
const BUNDLES: u64 = 20_000;
/// Size of a bundle, bytes.
const BUNDLE: u64 = 100_000;

/// Arguments of `farlink bench routing`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of nodes.
    #[arg(long, default_value = "206", value_parser = clap::value_parser!(u64).range(2..=100_000))]
    nodes: u64,
    /// Number of contacts, of ten minutes each, between two random nodes over one day.
    #[arg(long, default_value = "16000", allow_hyphen_values = true, value_parser = values::some)]
    contacts: u64,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let result = measure(args.nodes, args.contacts);
    if args.json {
        println!("{result}");
        return Ok(());
    }
    let number = |key: &str| result[key].as_f64().unwrap_or(0.0);
    println!("{} nodes, {} contacts over a day, bundles routed one by one, each booked", args.nodes, args.contacts);
    println!("  routed    {:.0} of {:.0}, {:.1} hops each", number("routed"), number("asked"), number("hops"));
    println!("  speed     {:.0} bundles/s", number("routed_s"));
    println!(
        "  search    p50 {:.0} us, p95 {:.0} us, p99 {:.0} us, no route cached",
        number("p50_us"),
        number("p95_us"),
        number("p99_us")
    );
    Ok(())
}

/// Routes each bundle with a search of its own and books its volume. Returns counts and search times as JSON.
pub fn measure(nodes: u64, contacts: u64) -> Value {
    // A fixed seed: results of different versions are comparable.
    let mut rng = Rng::new(7);
    let index = PlanIndex::new(plan(&mut rng, nodes, contacts));
    let (mut planner, mut booked) = (Planner::default(), Booked::new(7));
    let (mut times, mut hops, mut routed) = (Vec::new(), 0, 0_u64);
    let mut searching = Duration::ZERO;
    for bundle in 0..BUNDLES {
        let to = NodeId::ipn(2 + rng.below(nodes - 1));
        // Created evenly over the first half of the day: later ones would find few contacts left.
        let at = PlanTime(bundle * (DAY_S / 2) * 1_000_000_000 / BUNDLES);
        let began = Instant::now();
        let route = planner.route(&index, &Query::new(NodeId::ipn(1), to, at, BUNDLE), &booked);
        if let Some(route) = &route {
            booked.book(route, Priority::Normal);
            hops += route.hops() as u64;
            routed += 1;
        }
        let took = began.elapsed();
        searching += took;
        times.push(took.as_nanos() as f64 / 1e3);
    }
    let p50 = median(&times);
    // `median` sorts a copy; the quantiles need the order, too.
    times.sort_by(f64::total_cmp);
    // Rounded down to a measured time, without interpolation.
    let at = |share: f64| times.get((share * (times.len() - 1) as f64) as usize).copied();
    json!({
        "nodes": nodes,
        "contacts": contacts,
        "asked": BUNDLES,
        "routed": routed,
        "hops": if routed > 0 { hops as f64 / routed as f64 } else { 0.0 },
        "routed_s": routed as f64 / searching.as_secs_f64(),
        "p50_us": p50,
        "p95_us": at(0.95),
        "p99_us": at(0.99),
    })
}

/// Random contacts between pairs of nodes, in both directions.
fn plan(rng: &mut Rng, nodes: u64, contacts: u64) -> ContactPlan {
    let mut plan = ContactPlan::default();
    // Each draw adds both directions, or nothing if the nodes are equal.
    while (plan.contacts.len() as u64) < contacts {
        let (a, b) = (1 + rng.below(nodes), 1 + rng.below(nodes));
        let start = rng.below(DAY_S - CONTACT_S);
        let [start, end] = [start, start + CONTACT_S].map(|second| PlanTime(second * 1_000_000_000));
        let delay = Duration::from_millis(rng.below(1_300));
        for (from, to) in [(a, b), (b, a)].into_iter().filter(|(from, to)| from != to) {
            plan.contacts.push(Contact {
                from: NodeId::ipn(from),
                to: NodeId::ipn(to),
                link: None,
                start,
                end,
                rate: DataRate(10_000_000),
                one_way_delay: delay,
                confidence: 1.0,
            });
        }
    }
    plan
}
