//! Constellations with flows among ten stations, a bundle every ten minutes each. The simulator's tests run the same
//! scenarios at a small size.

use std::fmt::Write as _;

/// One constellation and its simulated time.
pub struct Sky {
    pub name: &'static str,
    pub planes: u32,
    pub per_plane: u32,
    /// Keys of a scenario's `walker`.
    pub shape: &'static str,
    /// Minimum elevation of satellites above a station's horizon.
    pub mask: &'static str,
    pub duration_s: u32,
    pub flows: u32,
    /// Target for the processor time, s.
    pub mark_s: Option<f64>,
    /// Whether the scenario takes minutes and therefore runs on request only.
    pub long: bool,
}

const IRIDIUM: Sky = Sky {
    name: "iridium",
    planes: 6,
    per_plane: 11,
    shape: "inclination = \"86.4 deg\", altitude = \"780 km\", phasing = 2, pattern = \"star\"",
    mask: "8 deg",
    duration_s: 3600,
    flows: 1000,
    mark_s: None,
    long: false,
};
const LARGE: Sky = Sky {
    name: "20000-hour",
    planes: 200,
    per_plane: 100,
    shape: "inclination = \"53 deg\", altitude = \"550 km\", phasing = 1",
    mask: "25 deg",
    mark_s: Some(2.5),
    ..IRIDIUM
};
/// All constellations of the table.
pub const SKIES: [Sky; 4] = [
    IRIDIUM,
    Sky {
        name: "shell",
        planes: 72,
        per_plane: 22,
        shape: "inclination = \"53 deg\", altitude = \"550 km\", phasing = 39",
        mask: "25 deg",
        duration_s: 86_400,
        ..IRIDIUM
    },
    LARGE,
    Sky { name: "20000-day", duration_s: 86_400, mark_s: Some(60.0), long: true, ..LARGE },
];

/// Interval of a flow's bundles, s.
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
    /// Scenario file of the constellation.
    pub fn scenario(&self) -> String {
        let Sky { name, planes, per_plane, shape, mask, duration_s, flows, .. } = self;
        let positions: Vec<String> = STATIONS.iter().map(|[lat, lon]| format!("[\"{lat}\", \"{lon}\"]")).collect();
        let mut text = format!(
            "name = \"{name}\"\nduration = \"{duration_s} s\"\nstop_when_delivered = false\nshared_routes = true\n\
             fidelity = \"message\"\n\
             [measure]\ntables = [\"bundles\"]\n\
             [[mobility]]\nname = \"orbits\"\nmodel = \"orbit\"\n\
             walker = {{ planes = {planes}, per_plane = {per_plane}, {shape} }}\n\
             [[mobility]]\nname = \"sites\"\nmodel = \"ground\"\npositions = [{}]\n\
             [[radio]]\nname = \"ka\"\nneighbours = \"ground\"\nmask = \"{mask}\"\nrate = \"100 Mbit/s\"\nturns = \"link\"\n\
             [[radio]]\nname = \"laser\"\nneighbours = \"grid\"\nclearance = \"80 km\"\nrate = \"1 Gbit/s\"\nturns = \"link\"\n\
             [[group]]\nname = \"sat\"\ncount = {}\nfirst_id = 100\nmobility = \"orbits\"\nradio = [\"ka\", \"laser\"]\n\
             router = \"sabr\"\n\
             [[group]]\nname = \"station\"\ncount = {}\nfirst_id = 1\nmobility = \"sites\"\nradio = \"ka\"\nrouter = \"sabr\"\n\
             hop_limit = 255\n",
            positions.join(", "),
            planes * per_plane,
            STATIONS.len()
        );
        let stations = STATIONS.len() as u32;
        for flow in 0..*flows {
            // Each ordered pair of stations in turn; none is paired with itself.
            let from = flow % stations;
            let to = (from + 1 + flow / stations % (stations - 1)) % stations;
            // Starts spread over the first interval, so that flows do not send in step.
            let start = f64::from(INTERVAL_S) * f64::from(flow) / f64::from(*flows);
            let count = duration_s.div_ceil(INTERVAL_S);
            // Writing to a string cannot fail.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_connect_distinct_stations() {
        let text = Sky { flows: 100, ..LARGE }.scenario();
        assert_eq!(text.matches("[[traffic]]").count(), 100);
        for block in text.split("[[traffic]]").skip(1) {
            let value = |key: &str| block.split(key).nth(1).and_then(|rest| rest.split('"').nth(1)).unwrap();
            assert_ne!(value("from = "), value("to = "), "{block}");
        }
    }
}
