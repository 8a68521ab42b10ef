//! Movement without messages: the positions at which hosts turn or change their speed, for other simulators.

use super::map::{Point, distance};
use super::movement::Movers;
use super::settings::Setup;

/// Largest distance from a track at which a position is left out, metres: rounding of millions of steps.
const STRAIGHT: f64 = 1e-6;

/// Time in seconds and position in metres.
pub type Fix = (f64, Point);

/// Tracks of the hosts of a run, as The ONE moves them, in the order of hosts. Between two fixes a host moves straight
/// and at one speed; after the last one it stays.
pub fn tracks(setup: &Setup) -> Vec<Vec<Fix>> {
    let mut movers = Movers::new(setup.seed, setup.area);
    setup.groups.iter().for_each(|group| movers.add(group, -setup.warmup));
    let hosts = movers.len() as u32;
    let mut now = 0.0 - setup.warmup;
    while now < 0.0 {
        let seconds = setup.step.min(-now);
        movers.advance(seconds, now);
        now = if seconds < setup.step { 0.0 } else { now + seconds };
    }
    let mut tracks: Vec<Track> = (0..hosts).map(|host| Track::new((now, movers.at(host)))).collect();
    while now < setup.end {
        movers.advance(setup.step, now);
        now += setup.step;
        tracks.iter_mut().zip(0..hosts).for_each(|(track, host)| track.add((now, movers.at(host))));
    }
    tracks.into_iter().map(Track::end).collect()
}

/// Track under construction.
struct Track {
    fixes: Vec<Fix>,
    /// Newest position, which belongs to the last piece of the track until the next one does not.
    last: Fix,
}

impl Track {
    fn new(first: Fix) -> Track {
        Track { fixes: vec![first], last: first }
    }
    fn add(&mut self, next: Fix) {
        // The position that constant movement since the last fix would have led to.
        if let Some(&(begun, from)) = self.fixes.last().filter(|(begun, _)| *begun < self.last.0) {
            let part = (next.0 - begun) / (self.last.0 - begun);
            let straight = [0, 1].map(|axis| from[axis] + part * (self.last.1[axis] - from[axis]));
            if distance(straight, next.1) > STRAIGHT {
                self.fixes.push(self.last);
            }
        }
        self.last = next;
    }
    fn end(mut self) -> Vec<Fix> {
        self.fixes.push(self.last);
        self.fixes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straight_pieces_keep_their_ends() {
        let mut track = Track::new((0.0, [0.0, 0.0]));
        for fix in [(1.0, [1.0, 0.0]), (2.0, [2.0, 0.0]), (3.0, [2.0, 1.0]), (4.0, [2.0, 1.0]), (5.0, [2.0, 1.0])] {
            track.add(fix);
        }
        let told = [(0.0, [0.0, 0.0]), (2.0, [2.0, 0.0]), (3.0, [2.0, 1.0]), (5.0, [2.0, 1.0])];
        assert_eq!(track.end(), told);
    }
}
