//! Constellations of `cargo xtask bench sim`: flows among ten stations, each a bundle every ten minutes.

use serde_json::Value;
use std::fmt::Write as _;

/// One constellation, and how long it is simulated.
pub struct Sky {
    pub name: &'static str,
    planes: u32,
    per_plane: u32,
    /// As a scenario's `walker` has them.
    shape: &'static str,
    duration_s: u32,
    flows: u32,
    /// Processor seconds aimed at.
    mark_s: Option<f64>,
}

pub const SKIES: [Sky; 3] = [
    Sky {
        name: "iridium",
        planes: 6,
        per_plane: 11,
        shape: "inclination = \"86.4 deg\", altitude = \"780 km\", phasing = 2, pattern = \"star\"",
        duration_s: 86_400,
        flows: 1000,
        mark_s: None,
    },
    Sky {
        name: "shell",
        planes: 72,
        per_plane: 22,
        shape: "inclination = \"53 deg\", altitude = \"550 km\", phasing = 39",
        duration_s: 3600,
        flows: 1000,
        mark_s: None,
    },
    Sky {
        name: "20000",
        planes: 200,
        per_plane: 100,
        shape: "inclination = \"53 deg\", altitude = \"550 km\", phasing = 1",
        duration_s: 600,
        flows: 100,
        mark_s: None,
    },
];

/// Seconds between two bundles of a flow.
const INTERVAL_S: u32 = 600;
/// Latitude and longitude of the stations.
const STATIONS: [[&str; 2]; 10] = [
    ["52.5 N", "13.4 E"],
    ["40.7 N", "74.0 W"],
    ["35.7 N", "139.7 E"],
    ["33.9 S", "18.4 E"],
    ["33.9 S", "151.2 E"],
    ["23.5 S", "46.6 W"],
    ["1.3 N", "103.8 E"],
    ["21.3 N", "157.9 W"],
    ["28.6 N", "77.2 E"],
    ["1.3 S", "36.8 E"],
];

impl Sky {
    /// Its scenario.
    pub fn scenario(&self) -> String {
        let Sky { name, planes, per_plane, shape, duration_s, flows, .. } = self;
        let positions: Vec<String> = STATIONS.iter().map(|[lat, lon]| format!("[\"{lat}\", \"{lon}\"]")).collect();
        let mut text = format!(
            "name = \"{name}\"\nduration = \"{duration_s} s\"\nstop_when_delivered = false\nshared_routes = true\n\
             fidelity = \"message\"\n\
             [measure]\ntables = [\"bundles\"]\n\
             [[mobility]]\nname = \"orbits\"\nmodel = \"orbit\"\n\
             walker = {{ planes = {planes}, per_plane = {per_plane}, {shape} }}\n\
             [[mobility]]\nname = \"sites\"\nmodel = \"ground\"\npositions = [{}]\n\
             [[radio]]\nname = \"ka\"\nneighbours = \"ground\"\nmask = \"25 deg\"\nrate = \"100 Mbit/s\"\nturns = \"link\"\n\
             [[radio]]\nname = \"laser\"\nneighbours = \"grid\"\nclearance = \"80 km\"\nrate = \"1 Gbit/s\"\nturns = \"link\"\n\
             [[group]]\nname = \"sat\"\ncount = {}\nfirst_id = 100\nmobility = \"orbits\"\nradio = [\"ka\", \"laser\"]\n\
             router = \"sabr\"\n\
             [[group]]\nname = \"station\"\ncount = {}\nfirst_id = 1\nmobility = \"sites\"\nradio = \"ka\"\nrouter = \"sabr\"\n",
            positions.join(", "),
            planes * per_plane,
            STATIONS.len()
        );
        let stations = STATIONS.len() as u32;
        for flow in 0..*flows {
            let from = flow % stations;
            let to = (from + 1 + flow / stations % (stations - 1)) % stations;
            let start = f64::from(INTERVAL_S) * f64::from(flow) / f64::from(*flows);
            let count = duration_s.div_ceil(INTERVAL_S);
            // Writing to a text cannot fail.
            let _ = write!(
                text,
                "[[traffic]]\nname = \"f{flow}\"\nfrom = \"station{}\"\nto = \"station{}\"\nstart = \"{start:.3} s\"\n\
                 bundles = {{ count = {count}, size = \"10 kB\", interval = \"{INTERVAL_S} s\" }}\n",
                from + 1,
                to + 1
            );
        }
        text
    }

    /// What was measured of it, as a row of [`HEAD`].
    pub fn row(&self, measured: &Value) -> String {
        let number = |key: &str| measured[key].as_f64().unwrap_or(f64::NAN);
        let count = |key: &str| measured[key].as_u64().unwrap_or(0);
        let run_s = number("run_s");
        format!(
            "| {}: {} satellites, {} s, {} flows | {:.2} s | {run_s:.2} s | {} | {:.0} MB | {} | {} of {} | {} | {:.0} us |",
            self.name,
            self.planes * self.per_plane,
            self.duration_s,
            self.flows,
            number("build_s"),
            self.mark_s.map_or("-".into(), |mark| format!("{mark} s")),
            number("memory_mb"),
            count("contacts"),
            count("delivered"),
            count("created"),
            count("arrived"),
            1e6 * run_s / number("arrived"),
        )
    }
}

/// Of the table.
pub const HEAD: &str = "| constellation | CPU, orbits and stacks | CPU, run | mark | memory | contacts | delivered | hops | CPU a hop |\n\
                        |---|---|---|---|---|---|---|---|---|";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_between_two_stations_and_each_is_there_once() {
        let text = SKIES[2].scenario();
        assert_eq!(text.matches("[[traffic]]").count(), 100);
        for block in text.split("[[traffic]]").skip(1) {
            let value = |key: &str| block.split(key).nth(1).and_then(|rest| rest.split('"').nth(1)).unwrap();
            assert_ne!(value("from = "), value("to = "), "{block}");
        }
        let measured = serde_json::json!({
            "build_s": 1.0, "run_s": 2.0, "memory_mb": 3.4, "contacts": 5, "delivered": 6, "created": 7, "arrived": 8
        });
        assert_eq!(
            SKIES[0].row(&measured),
            "| iridium: 66 satellites, 86400 s, 1000 flows | 1.00 s | 2.00 s | - | 3 MB | 5 | 6 of 7 | 8 | 250000 us |"
        );
    }
}
