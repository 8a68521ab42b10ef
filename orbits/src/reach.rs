//! How near, how far and how fast something may be: what makes steps through time safe.

/// Bounds that hold at all times of a plan, seen from the body that something is at or goes around.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reach {
    /// It is never nearer, in kilometres.
    pub nearest_km: f64,
    /// It is never farther, in kilometres.
    pub farthest_km: f64,
    /// It is never faster, in kilometres a second.
    pub speed_km_s: f64,
    /// Its velocity never changes faster, in kilometres a second in a second.
    pub turn_km_s2: f64,
}

impl Reach {
    /// The bounds as seen from what its centre moves around, where the centre keeps to `centre`.
    pub fn around(self, centre: Reach) -> Reach {
        Reach {
            nearest_km: self.gap(centre).unwrap_or(0.0),
            farthest_km: self.farthest_km + centre.farthest_km,
            speed_km_s: self.speed_km_s + centre.speed_km_s,
            turn_km_s2: self.turn_km_s2 + centre.turn_km_s2,
        }
    }

    /// The kilometres that always lie between two things seen from the same body; `None` where their
    /// shells around it meet.
    pub fn gap(self, other: Reach) -> Option<f64> {
        let gap = (self.nearest_km - other.farthest_km).max(other.nearest_km - self.farthest_km);
        (gap > 0.0).then_some(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_that_do_not_meet_are_apart() {
        let shell = |nearest_km, farthest_km| Reach { nearest_km, farthest_km, ..Reach::default() };
        assert_eq!(shell(6356.0, 6378.0).gap(shell(6900.0, 7000.0)), Some(522.0));
        assert_eq!(shell(6900.0, 7000.0).gap(shell(6356.0, 6378.0)), Some(522.0));
        assert_eq!(shell(6900.0, 7000.0).gap(shell(6950.0, 9000.0)), None);
        let carried = shell(1000.0, 2000.0).around(shell(300_000.0, 400_000.0));
        assert_eq!((carried.nearest_km, carried.farthest_km), (298_000.0, 402_000.0));
        assert_eq!(shell(0.0, 9.0).around(shell(5.0, 6.0)).nearest_km, 0.0);
    }
}
