//! Walkers on a plane, as The ONE was measured with them (commit c973bfb, an update every 0.1 s): 50 per square
//! kilometre, 2.5 Mbit/s, bundles of 50 to 100 kB. The simulator's tests run the same scenarios at a small size.

/// One scenario and its reference values.
pub struct Cell {
    pub name: &'static str,
    pub nodes: u32,
    /// Radio range, m.
    pub range: u32,
    pub duration_s: u32,
    pub router: &'static str,
    /// Store capacity, kB.
    pub store: u32,
    /// Shortest and longest interval between two bundles, s.
    pub interval: [f64; 2],
    /// Target for the processor time, s.
    pub mark_s: f64,
    // Processor time of The ONE, s; `None`: not measured.
    pub one_s: Option<f64>,
    /// Share of bundles that The ONE delivers.
    pub one_delivered: Option<f64>,
    /// Target for the peak memory, MB.
    pub mark_mb: Option<f64>,
    // Peak memory of The ONE, MB; `None`: not measured.
    pub one_mb: Option<f64>,
    /// Target for the processor time in The ONE's own world, as `one/` runs it, s; `None`: not run there.
    pub exact_s: Option<f64>,
    /// Whether Farlink's world and The ONE's are compared with several seeds.
    pub compared: bool,
    /// Whether the scenario takes minutes and therefore runs on request only.
    pub long: bool,
}
impl Cell {
    /// Side of the square, m.
    pub fn side_m(&self) -> f64 {
        // 50 nodes per square kilometre.
        (f64::from(self.nodes) / 50.0).sqrt() * 1000.0
    }
}

/// A thousand nodes as measured with The ONE: a bundle every 150 s, from any node.
const THOUSAND: Cell = Cell {
    name: "1000-sparse",
    nodes: 1000,
    range: 30,
    duration_s: 1200,
    router: "epidemic",
    store: 1000,
    interval: [1.0, 300.0],
    mark_s: 0.03,
    one_s: Some(5.54),
    one_delivered: None,
    mark_mb: Some(20.0),
    one_mb: None,
    exact_s: Some(0.3),
    compared: false,
    long: false,
};
const FIFTY: Cell = Cell {
    name: "saturated",
    nodes: 50,
    range: 150,
    duration_s: 43_200,
    store: 500,
    mark_s: 4.0,
    one_s: Some(65.1),
    one_delivered: Some(0.268),
    mark_mb: None,
    one_mb: Some(442.0),
    exact_s: Some(3.2),
    compared: true,
    ..THOUSAND
};
/// Ten thousand nodes for an hour; each creates a bundle every 7,500 s.
const HOUR: Cell = Cell {
    name: "10000-hour",
    nodes: 10_000,
    duration_s: 3600,
    interval: [0.0, 1.5],
    mark_s: 3.75,
    // Estimated from 50 to 1,000 nodes: half a microsecond for each node at each step.
    one_s: Some(180.0),
    mark_mb: None,
    exact_s: None,
    ..THOUSAND
};
/// All scenarios of the table.
pub const CELLS: [Cell; 6] = [
    FIFTY,
    Cell {
        name: "spray",
        router: "spray-and-wait",
        mark_s: 0.15,
        one_s: Some(24.6),
        one_delivered: Some(0.991),
        one_mb: Some(178.0),
        exact_s: Some(0.5),
        ..FIFTY
    },
    THOUSAND,
    Cell {
        name: "1000-dense",
        range: 150,
        duration_s: 300,
        mark_s: 0.15,
        one_s: Some(11.71),
        exact_s: Some(0.6),
        ..THOUSAND
    },
    HOUR,
    Cell { name: "10000-sparse", duration_s: 43_200, mark_s: 45.0, one_s: Some(2160.0), long: true, ..HOUR },
];

/// Scenario file of a cell.
pub fn scenario(cell: &Cell) -> String {
    let Cell { name, nodes, range, duration_s, router, store, interval: [least, most], .. } = cell;
    let side_m = cell.side_m();
    // Ten copies: the value of the measured runs.
    let copies = if *router == "spray-and-wait" { "router_params = { copies = 10 }\n" } else { "" };
    format!(
        "name = \"{name}\"\nduration = \"{duration_s} s\"\nstop_when_delivered = false\nfidelity = \"message\"\n\
         [measure]\ntables = [\"bundles\"]\n\
         [[mobility]]\nname = \"walking\"\nmodel = \"random_waypoint\"\narea = \"{side_m:.3} m\"\n\
         speed = [\"0.5 m/s\", \"1.5 m/s\"]\npause = [\"0 s\", \"2 min\"]\n\
         [[radio]]\nname = \"radio\"\nrange = \"{range} m\"\nrate = \"2.5 Mbit/s\"\ndelay = \"0 s\"\nmetadata = \"free\"\n\
         [[group]]\nname = \"n\"\ncount = {nodes}\nfirst_id = 1\nmobility = \"walking\"\nradio = \"radio\"\n\
         router = \"{router}\"\n{copies}control = \"drop-oldest\"\nstore_capacity = \"{store} kB\"\nlifetime = \"12 h\"\n\
         [[traffic]]\nname = \"message\"\nfrom = \"n\"\nto = \"n\"\n\
         bundles = {{ count = 100000, size = [\"50 kB\", \"100 kB\"], interval = [\"{least} s\", \"{most} s\"] }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn density_is_constant() {
        // The area is printed to the millimetre, hence the tolerance.
        for cell in &CELLS {
            let text = scenario(cell);
            let side = text.split("area = \"").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
            let side: f64 = side.parse().unwrap();
            assert!((f64::from(cell.nodes) / (side * side / 1e6) - 50.0).abs() < 1e-3, "{}", cell.name);
        }
    }
}
