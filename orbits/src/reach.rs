//! Bounds on distance, speed and acceleration, which make steps through time safe.

/// Bounds that hold at all times of a plan, relative to the body that an object stands on or orbits.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MotionBounds {
    /// Least distance in kilometres.
    pub nearest_km: f64,
    /// Greatest distance in kilometres.
    pub farthest_km: f64,
    /// Greatest speed in km/s.
    pub speed_km_s: f64,
    /// Greatest acceleration in km/s².
    pub turn_km_s2: f64,
}

impl MotionBounds {
    /// Bounds relative to the parent of the central body; `centre` holds the bounds of the central body itself.
    pub fn around(self, centre: MotionBounds) -> MotionBounds {
        MotionBounds {
            nearest_km: self.gap(centre).unwrap_or(0.0),
            farthest_km: self.farthest_km + centre.farthest_km,
            speed_km_s: self.speed_km_s + centre.speed_km_s,
            turn_km_s2: self.turn_km_s2 + centre.turn_km_s2,
        }
    }

    /// Least distance in kilometres between two objects with the same central body; `None` if their ranges of distance
    /// from the body overlap.
    pub fn gap(self, other: MotionBounds) -> Option<f64> {
        let gap = (self.nearest_km - other.farthest_km).max(other.nearest_km - self.farthest_km);
        (gap > 0.0).then_some(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disjoint_shells_have_a_gap() {
        let shell = |nearest_km, farthest_km| MotionBounds { nearest_km, farthest_km, ..MotionBounds::default() };
        assert_eq!(shell(6356.0, 6378.0).gap(shell(6900.0, 7000.0)), Some(522.0));
        assert_eq!(shell(6900.0, 7000.0).gap(shell(6356.0, 6378.0)), Some(522.0));
        assert_eq!(shell(6900.0, 7000.0).gap(shell(6950.0, 9000.0)), None);
        let carried = shell(1000.0, 2000.0).around(shell(300_000.0, 400_000.0));
        assert_eq!((carried.nearest_km, carried.farthest_km), (298_000.0, 402_000.0));
        assert_eq!(shell(0.0, 9.0).around(shell(5.0, 6.0)).nearest_km, 0.0);
    }
}
