//! Routers and congestion controls of the program that drives the simulator, instead of registered ones.

use farlink_base::Refusal;
use farlink_book::{CopyOffer, DeliveryForecast, Held, Node, Peer};
use farlink_congestion::Control;
use farlink_routing::Router;
use farlink_scenario::{Policy, Scenario};
use farlink_sim::{OwnPolicies, Silent, World};

const SCENARIO: &str = r#"
name = "crowd"
duration = "10 min"
stop_when_delivered = false
fidelity = "message"
[[mobility]]
name = "walking"
model = "random_waypoint"
area = "300 m"
speed = ["0.5 m/s", "1.5 m/s"]
[[radio]]
name = "wifi"
range = "60 m"
rate = "1 Mbit/s"
[[group]]
name = "walker"
count = 8
first_id = 1
mobility = "walking"
radio = "wifi"
router = "ROUTER"
[[traffic]]
name = "message"
from = "walker"
to = "walker"
bundles = { count = 100, size = "50 kB", interval = "5 s" }
"#;

/// Epidemic routing under an unregistered name.
#[derive(Debug)]
struct Flood;
impl DeliveryForecast for Flood {}
impl Router for Flood {
    fn copies(&self) -> bool {
        true
    }
    fn asks_summaries(&self) -> bool {
        true
    }
    fn wants(&self, _node: &Node<'_>, _peer: &Peer, held: &Held) -> Option<CopyOffer> {
        Some(CopyOffer::copy(held, held.number))
    }
}

/// Control that refuses every bundle.
#[derive(Debug)]
struct Closed;
impl Control for Closed {
    fn admit(&self, _node: &Node<'_>, _new: &Held) -> Result<f64, Refusal> {
        Err(Refusal::NoResources)
    }
}

/// Flooding at every node; with `closed`, node 0 refuses every bundle.
struct Mine {
    closed: bool,
}
impl OwnPolicies for Mine {
    fn router(&self, _node: usize) -> Option<Box<dyn Router>> {
        Some(Box::new(Flood))
    }
    fn control(&self, node: usize) -> Option<Box<dyn Control>> {
        (self.closed && node == 0).then(|| Box::new(Closed) as _)
    }
}

fn scenario(router: &str) -> Scenario {
    Scenario::parse(&SCENARIO.replace("ROUTER", router)).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

#[test]
fn caller_router_matches_registered_one() {
    let (registered, _) = World::new(&scenario("epidemic"), Silent).unwrap().run();
    let mut named = scenario("static");
    // The name of a caller's policy is in no registry.
    named.nodes.iter_mut().for_each(|node| {
        node.router = Policy { name: "Flood".into(), params: vec![("weight".into(), 7.0)] };
    });
    let (own, _) = World::with_policies(&named, Silent, &Mine { closed: false }).unwrap().run();
    assert!(registered.traffic.iter().any(|traffic| traffic.delivered_bytes > 0));
    assert_eq!(own.trace, registered.trace);
    assert!(World::new(&named, Silent).is_err(), "by itself the name means nothing");
}

#[test]
fn caller_control_decides_locally() {
    let mine = |closed| World::with_policies(&scenario("static"), Silent, &Mine { closed }).unwrap().run().0;
    let (open, closed) = (mine(false), mine(true));
    let delivered = |outcome: &farlink_sim::Outcome| outcome.traffic.iter().map(|t| t.delivered_bytes).sum::<u64>();
    assert!(delivered(&closed) < delivered(&open) && delivered(&closed) > 0);
}
