//! Byzantine neighbours: no bundle is lost or delivered twice, except under policies whose papers delete a bundle when
//! a neighbour reports its arrival.

use farlink_base::{Event, Instant};
use farlink_scenario::Scenario;
use farlink_sim::{Observer, World};
use std::collections::{BTreeMap, BTreeSet};

/// Copies in the network and deliveries of each bundle.
#[derive(Default)]
struct Copies {
    of: BTreeMap<(usize, farlink_base::BundleHandle), (u64, u64)>,
    held: BTreeMap<(u64, u64), (i64, u64)>,
    lies: usize,
    /// Bundles addressed to Byzantine nodes, which may truly report their arrival.
    theirs: BTreeSet<(u64, u64)>,
}
impl Observer for Copies {
    fn event(&mut self, _: Instant, node: usize, event: &Event) {
        match event {
            Event::Seen { bundle, key, destination, .. } if key.service > 0 => {
                let id = (key.time, key.sequence);
                if LIARS.contains(&destination.0) {
                    self.theirs.insert(id);
                }
                self.of.insert((node, *bundle), id);
                self.held.entry(id).or_default().0 += 1;
            }
            Event::Delivered { bundle } => {
                let Some(id) = self.of.get(&(node, *bundle)) else { return };
                self.held.entry(*id).or_default().1 += 1;
            }
            Event::Deleted { bundle, .. } => {
                let Some(id) = self.of.remove(&(node, *bundle)) else { return };
                self.held.entry(id).or_default().0 -= 1;
            }
            Event::Fault { what: "lie", .. } => self.lies += 1,
            _ => {}
        }
    }
}
impl Copies {
    fn counts(&self) -> (usize, usize, usize) {
        // Bundles that arrived; bundles for honest nodes that were lost; bundles that arrived twice.
        let all = || self.held.iter();
        let lost = all().filter(|(id, held)| held.1 == 0 && held.0 == 0 && !self.theirs.contains(id)).count();
        (all().filter(|(_, held)| held.1 > 0).count(), lost, all().filter(|(_, held)| held.1 > 1).count())
    }
}

/// Node numbers of the Byzantine nodes.
const LIARS: [u64; 2] = [3, 8];

fn crowd(router: &str, control: &str, metadata: &str, lies: &[&str]) -> (usize, usize, usize) {
    // Twelve walkers, two of them Byzantine from 10 s on.
    let faults: String = lies
        .iter()
        .flat_map(|says| LIARS.map(|node| (says, node)))
        .map(|(says, node)| {
            format!("[[fault]]\nkind = \"lie\"\nnode = \"walker{node}\"\nat = \"10 s\"\nsays = \"{says}\"\n")
        })
        .collect();
    let text = format!(
        r#"
        name = "liars"
        seed = 4
        duration = "20 min"
        stop_when_delivered = false
        fidelity = "message"
        [[mobility]]
        name = "m"
        model = "random_waypoint"
        area = "500 m"
        speed = ["1 m/s", "5 m/s"]
        [[radio]]
        name = "r"
        range = "60 m"
        rate = "1 Mbit/s"
        metadata = "{metadata}"
        [[group]]
        name = "walker"
        count = 12
        first_id = 1
        mobility = "m"
        radio = "r"
        store = "durable"
        router = "{router}"
        control = "{control}"
        [[traffic]]
        from = "walker"
        to = "walker"
        lifetime = "10 h"
        bundles = {{ count = 150, size = "1 kB", interval = "4 s" }}
        {faults}
        "#
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let world = World::new(&scenario, Copies::default()).unwrap_or_else(|error| panic!("{error}"));
    let (outcome, copies) = world.run();
    // Each lie of each Byzantine node is one fault.
    assert_eq!((outcome.faults as usize, copies.lies), (2 * lies.len(), 2 * lies.len()));
    let created: u64 = outcome.traffic.iter().map(|traffic| traffic.created).sum();
    assert!(created > 100, "{created}");
    copies.counts()
}

#[test]
fn false_arrival_deletes_only_by_hearsay() {
    // MaxProp and RAPID delete bundles that neighbours report as arrived; the others ignore such reports.
    for metadata in ["free", "charged"] {
        for (router, control) in [
            ("epidemic", "none"),
            ("spray-and-wait", "none"),
            ("prophet", "none"),
            ("epidemic", "hbsd"),
            ("epidemic", "rrcc"),
            ("epidemic", "marginal-utility"),
        ] {
            let (arrived, lost, twice) = crowd(router, control, metadata, &["met", "arrived", "has"]);
            assert_eq!((lost, twice), (0, 0), "{router} {control} {metadata}");
            assert!(arrived > 30, "{router} {control} {metadata}: {arrived}");
        }
        for router in ["maxprop", "rapid"] {
            let (_, honest, _) = crowd(router, "none", metadata, &[]);
            let (_, lost, twice) = crowd(router, "none", metadata, &["arrived"]);
            assert_eq!((honest, twice), (0, 0), "{router} {metadata}");
            assert!(lost > 10, "{router} {metadata}: {lost}");
            let (arrived, lost, twice) = crowd(router, "none", metadata, &["met", "has"]);
            assert_eq!((lost, twice), (0, 0), "{router} {metadata}: of meetings nobody deletes");
            assert!(arrived > 30, "{router} {metadata}: {arrived}");
        }
    }
}

#[test]
fn false_claims_starve_or_attract() {
    let text = |router: &str, says: &str| {
        let node =
            |name: &str, n: u8| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{n}.0\"\nrouter = \"{router}\"\n");
        let nodes = node("a", 1) + &node("b", 2) + &node("c", 3) + &node("d", 4);
        let lie = match says {
            "" => String::new(),
            says => format!("[[fault]]\nkind = \"lie\"\nnode = \"b\"\nat = \"0 s\"\nsays = \"{says}\"\n"),
        };
        // `a` meets `c`, and later `b`; no node meets `d`.
        format!(
            "name = \"x\"\nduration = \"200 s\"\nfidelity = \"message\"\nstop_when_delivered = false\n{nodes}{lie}\
             [[link]]\nname = \"ab\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\nrate = \"1 Mbit/s\"\n\
             [[contact]]\nlink = \"ab\"\nstart = \"60 s\"\nend = \"80 s\"\n\
             [[link]]\nname = \"ac\"\nbetween = [\"a\", \"c\"]\nlayer = \"tcpclv4\"\nrate = \"1 Mbit/s\"\n\
             [[contact]]\nlink = \"ac\"\nstart = \"45 s\"\nend = \"50 s\"\n\
             [[traffic]]\nfrom = \"a\"\nto = \"d\"\nstart = \"5 s\"\nbundles = {{ count = 10, size = \"1 kB\" }}\n"
        )
    };
    // Returns the number of bundles that reached `b`, which is node 1. `Copies::of` has an entry for each node and
    // bundle, and nothing is deleted here.
    let got = |router: &str, says: &str| {
        let scenario = Scenario::parse(&text(router, says)).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let (_, copies) = World::new(&scenario, Copies::default()).unwrap_or_else(|error| panic!("{error}")).run();
        copies.of.keys().filter(|(node, _)| *node == 1).count()
    };
    assert_eq!((got("epidemic", ""), got("epidemic", "has")), (10, 0));
    assert_eq!((got("prophet", ""), got("prophet", "met")), (0, 10));
    assert_eq!((got("maxprop", ""), got("maxprop", "has")), (10, 0));
}
