//! Walker constellations: satellites evenly spaced in planes, and planes evenly spaced around the equator.
//!
//! J. G. Walker, "Satellite constellations", Journal of the British Interplanetary Society 37 (1984). The ascending
//! nodes of a *delta* are spread around the whole equator, those of a *star* over half of it, so that its planes meet
//! near the poles and two neighbouring planes move in opposite directions.

use crate::kepler::Elements;
use std::f64::consts::{PI, TAU};

/// A Walker constellation; angles in radians.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WalkerPattern {
    /// Number of planes.
    pub planes: u32,
    /// Number of satellites in each plane.
    pub per_plane: u32,
    /// Inclination of every plane.
    pub inclination: f64,
    /// Radius of the circular orbits, in kilometres.
    pub radius_km: f64,
    /// Walker's F: satellites of each plane are ahead of those in the previous one by F / (number of satellites) of a
    /// turn.
    pub phasing: u32,
    /// Whether the nodes are spread over half of the equator only.
    pub star: bool,
    /// Ascending node of the first plane.
    pub node: f64,
    /// Argument of latitude of the first plane's first satellite at the epoch.
    pub anomaly: f64,
    /// Epoch in nanoseconds from the plan's start.
    pub at: i64,
}

/// Neighbour relation of a constellation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkerNeighbours {
    /// The satellites before and behind in the same plane.
    Ring,
    /// The ring, and the satellites beside in the neighbouring planes.
    Grid,
}

impl WalkerPattern {
    /// Number of satellites.
    pub fn count(&self) -> u32 {
        self.planes.saturating_mul(self.per_plane)
    }

    /// Orbit of each satellite, plane by plane.
    pub fn orbits(&self) -> impl Iterator<Item = Elements> + '_ {
        let (planes, slots) = (f64::from(self.planes), f64::from(self.per_plane));
        let spread = if self.star { PI } else { TAU };
        (0..self.planes).flat_map(move |plane| {
            (0..self.per_plane).map(move |slot| Elements {
                semi_major_km: self.radius_km,
                eccentricity: 0.0,
                inclination: self.inclination,
                node: self.node + spread * f64::from(plane) / planes,
                periapsis: 0.0,
                anomaly: self.anomaly
                    + TAU * (f64::from(slot) / slots + f64::from(plane) * f64::from(self.phasing) / (planes * slots)),
                at: self.at,
            })
        })
    }

    /// Pairs of neighbours, each once, as indices into [`WalkerPattern::orbits`].
    pub fn pairs(&self, neighbours: WalkerNeighbours) -> Vec<[u32; 2]> {
        let (planes, slots) = (self.planes, self.per_plane);
        let at = |plane: u32, slot: u32| plane * slots + slot % slots.max(1);
        let mut pairs = Vec::new();
        for plane in 0..planes {
            for slot in 0..slots {
                // In a ring of two, both neighbours are the same satellite.
                if slots > 2 || (slots == 2 && slot == 0) {
                    pairs.push([at(plane, slot), at(plane, slot + 1)]);
                }
                if neighbours == WalkerNeighbours::Ring {
                    continue;
                }
                if plane + 1 < planes {
                    pairs.push([at(plane, slot), at(plane + 1, slot)]);
                } else if !self.star && planes > 2 {
                    // After a full turn the phases have shifted by F slots. In a star the last and
                    // the first plane move in opposite directions.
                    pairs.push([at(plane, slot), at(0, slot + self.phasing)]);
                }
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kepler::{Kepler, Pull};
    use crate::vector::{Axes, Vector};

    fn walker(planes: u32, per_plane: u32, phasing: u32, star: bool) -> WalkerPattern {
        let inclination = 53f64.to_radians();
        WalkerPattern {
            planes,
            per_plane,
            inclination,
            radius_km: 6928.0,
            phasing,
            star,
            node: 0.0,
            anomaly: 0.0,
            at: 0,
        }
    }
    fn places(walker: &WalkerPattern, time: i64) -> Vec<Vector> {
        let pull = Pull { gm: 398_600.441_8, j2: 1.082_626_68e-3, radius_km: 6378.137 };
        walker.orbits().map(|orbit| Kepler::new(&orbit, &pull, &Axes::OWN).state(time).position).collect()
    }

    #[test]
    fn grid_joins_each_pair_once() {
        for (walker, wanted) in [(walker(6, 11, 2, false), 132), (walker(6, 11, 2, true), 121)] {
            let mut pairs = walker.pairs(WalkerNeighbours::Grid);
            assert_eq!(pairs.len(), wanted);
            pairs.iter_mut().for_each(|pair| pair.sort_unstable());
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len(), wanted, "each once");
            assert!(pairs.iter().all(|[a, b]| a != b && *b < walker.count()));
        }
        assert_eq!(walker(6, 11, 2, false).pairs(WalkerNeighbours::Ring).len(), 66);
        assert_eq!(walker(1, 2, 0, false).pairs(WalkerNeighbours::Grid), [[0, 1]]);
        assert_eq!(walker(1, 1, 0, false).pairs(WalkerNeighbours::Grid), [[0u32; 2]; 0]);
        assert_eq!(walker(2, 1, 0, false).pairs(WalkerNeighbours::Grid), [[0, 1]]);
    }

    #[test]
    fn grid_distances_are_equal_across_seam() {
        // In a delta all pairs of neighbouring planes are alike, the last and the first included.
        let walker = walker(5, 8, 3, false);
        let longest = |from: u32, to: u32| {
            let times = (0..60).map(|minute| minute * 100_000_000_000);
            let apart = times.map(|time| {
                let places = places(&walker, time);
                (places[from as usize] - places[to as usize]).length()
            });
            apart.fold(0.0, f64::max)
        };
        let between: Vec<f64> = walker
            .pairs(WalkerNeighbours::Grid)
            .into_iter()
            .filter(|[a, b]| a / 8 != b / 8 && a % 8 == 0)
            .map(|[a, b]| longest(a, b))
            .collect();
        assert_eq!(between.len(), 5);
        assert!(between.iter().all(|apart| (apart - between[0]).abs() < 0.02 * between[0]), "{between:?}");
    }

    #[test]
    fn satellites_are_evenly_spread() {
        let walker = walker(3, 4, 1, false);
        let places = places(&walker, 0);
        assert_eq!(places.len(), 12);
        for plane in 0..3 {
            let apart = (places[plane * 4] - places[plane * 4 + 2]).length();
            assert!((apart - 2.0 * 6928.0).abs() < 1e-6, "half a turn");
        }
        // The second plane's first satellite is 120 degrees around and a twelfth of a turn ahead.
        let orbit = walker.orbits().nth(4).unwrap();
        assert!((orbit.node - TAU / 3.0).abs() < 1e-12 && (orbit.anomaly - TAU / 12.0).abs() < 1e-12);
    }
}
