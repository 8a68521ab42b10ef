//! Networks of many moving nodes with message-level radios: many contacts, copies and kills at little cost each.

use super::cables::Layers;
use super::draft::{Draft, Shape, node, pick, radio};
use farlink_base::Rng;

/// Radio range, metres.
const RANGE_M: f64 = 150.0;
/// Fault-free time at the end of a throng, seconds: long enough for the most remote node to meet another.
const CALM_OF_THRONGS_S: u64 = 2000;

impl Draft {
    /// Draws a crowd: dense, with many copies from many nodes at once.
    pub fn crowd(seed: u64) -> Draft {
        let mut random = Rng::stream(seed, 0x51f0_0222);
        let mut draft = Draft::empty(seed, &mut random, true, true);
        let router = pick(&mut random, &["epidemic", "epidemic", "epidemic", "maxprop", "prophet", "spray-and-wait"]);
        let control = pick(&mut random, &["none", "none", "none", "drop-oldest", "marginal-utility"]);
        let shape = shape(20 + random.below(30) as usize, router, control);
        let capacity = if shape.gives_up() { "500 kB" } else { "200 MB" };
        draft.settle(&mut random, &shape, capacity, "700 m", [0.0, 0.6, 1.0, 1.0]);
        for n in 0..4 {
            let bundles = 60 + random.below(120);
            draft.draw_messages(&mut random, &shape, n, bundles);
        }
        let faults = random.below(300);
        draft.draw_faults(&mut random, &shape, faults);
        draft
    }

    /// Draws a throng: sparse nodes with many bundles for each other, so that a hop is cheap, and faults every few
    /// seconds.
    pub fn throng(seed: u64) -> Draft {
        let mut random = Rng::stream(seed, 0x51f0_0223);
        let mut draft = Draft::empty(seed, &mut random, true, true);
        draft.well_s = CALM_OF_THRONGS_S;
        let routers = ["epidemic", "epidemic", "epidemic", "epidemic", "maxprop", "prophet", "spray-and-wait"];
        let router = pick(&mut random, &routers);
        let control = pick(&mut random, &["none", "none", "none", "none", "none", "drop-oldest"]);
        let shape = shape(25 + random.below(25) as usize, router, control);
        let neighbours = 0.6 + random.below(60) as f64 / 100.0;
        // The side that gives the drawn mean number of neighbours in range.
        let side_m = RANGE_M * (shape.count as f64 * std::f64::consts::PI / neighbours).sqrt();
        let capacity = if shape.gives_up() { "1 MB" } else { "200 MB" };
        draft.settle(&mut random, &shape, capacity, &format!("{side_m:.0} m"), [0.0, 0.0, 0.3, 1.0]);
        for n in 0..4 + random.below(3) as usize {
            let bundles = 150 + random.below(350);
            draft.draw_messages(&mut random, &shape, n, bundles);
        }
        let faults = 300 + random.below(600);
        draft.draw_faults(&mut random, &shape, faults);
        draft
    }

    fn settle(&mut self, random: &mut Rng, shape: &Shape, capacity: &str, area: &str, durable: [f64; 4]) {
        // `durable` holds four probabilities that a node's store is durable, of which one is drawn; `area` is the side
        // of the square in which the nodes walk.
        self.drains = shape.router == "epidemic" && shape.control == "none";
        self.common = format!(
            "[node_defaults]\nrouter = \"{}\"\ncontrol = \"{}\"\nstore_capacity = \"{capacity}\"\n\
             [measure]\ninterval = \"60 s\"\n{}",
            shape.router,
            shape.control,
            radio(area, &format!("{RANGE_M} m"), "20 Mbit/s", "free")
        );
        let durable = durable[random.below(4) as usize];
        for n in 1..=shape.count {
            self.nodes.push(node(n, random.chance(durable), false, true));
        }
    }
}

fn shape(count: usize, router: &'static str, control: &'static str) -> Shape {
    Shape {
        count,
        message: true,
        by_radio: true,
        router,
        control,
        small: false,
        custody: false,
        secured: false,
        layers: Layers::Plain,
        lost: true,
    }
}
