//! Shortest paths on a map: a crossing drawn uniformly from all, the shortest way there along the
//! streets at a speed drawn for the whole way, a rest, and so on.
//!
//! A node begins at a random crossing with a rest. Each straight piece of a street is a leg.

use super::{Leg, Mobility, Point, distance, draw};
use farlink_base::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Points joined by streets; one for all nodes that go there.
#[derive(Clone, Debug)]
pub struct Roads {
    points: Vec<Point>,
    /// Per point, where streets lead from there, with their lengths; the nearest in number first.
    ways: Vec<Vec<(u32, f64)>>,
}

impl Roads {
    /// Streets between points, given by their places; streets of points that there are not are left out.
    pub fn new(points: Vec<Point>, streets: &[(u32, u32)]) -> Roads {
        let mut ways = vec![Vec::new(); points.len()];
        for &(a, b) in streets {
            let (Some(one), Some(other)) = (points.get(a as usize), points.get(b as usize)) else { continue };
            let length = distance(*one, *other);
            ways[a as usize].push((b, length));
            ways[b as usize].push((a, length));
        }
        for ways in &mut ways {
            ways.sort_by_key(|(to, _)| *to);
            ways.dedup_by_key(|(to, _)| *to);
        }
        Roads { points, ways }
    }

    /// Points on the map.
    pub fn len(&self) -> usize {
        self.points.len()
    }
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The points of the shortest way, the goal first and without the beginning; empty when there is none.
    /// Of two ways of one length the points that are reached first, and then the lower, decide.
    pub fn way(&self, from: u32, to: u32) -> Vec<u32> {
        const NOBODY: u32 = u32::MAX;
        let mut least = vec![f64::INFINITY; self.points.len()];
        let mut before = vec![NOBODY; self.points.len()];
        // Bits of numbers that are not negative are in the order of the numbers.
        let mut open = BinaryHeap::from([Reverse((0.0f64.to_bits(), from))]);
        if let Some(start) = least.get_mut(from as usize) {
            *start = 0.0;
        }
        while let Some(Reverse((bits, here))) = open.pop() {
            if here == to {
                break;
            }
            let (so_far, Some(ways)) = (f64::from_bits(bits), self.ways.get(here as usize)) else { continue };
            if so_far > least[here as usize] {
                continue;
            }
            for &(next, length) in ways {
                let total = so_far + length;
                if total < least[next as usize] {
                    least[next as usize] = total;
                    before[next as usize] = here;
                    open.push(Reverse((total.to_bits(), next)));
                }
            }
        }
        let mut way = Vec::new();
        let mut here = to;
        while here != from {
            let Some(&last) = before.get(here as usize).filter(|last| **last != NOBODY) else { return Vec::new() };
            way.push(here);
            here = last;
        }
        way
    }

    fn bounds(&self) -> [Point; 2] {
        let first = self.points.first().copied().unwrap_or_default();
        let join = |[low, high]: [Point; 2], p: &Point| {
            [[low[0].min(p[0]), low[1].min(p[1])], [high[0].max(p[0]), high[1].max(p[1])]]
        };
        self.points.iter().fold([first, first], join)
    }
}

/// A node that goes along streets.
#[derive(Clone, Debug)]
pub struct OnMap {
    roads: Arc<Roads>,
    /// Least and largest speed, metres a second.
    speed: [f64; 2],
    /// Least and largest rest between two ways, seconds.
    pause: [f64; 2],
    random: Rng,
    /// The point it is at, or goes to.
    here: u32,
    /// What is to go after that, the next last.
    way: Vec<u32>,
    /// Its speed on this way.
    pace: f64,
}

impl OnMap {
    /// A node whose ways follow from a generator of its own.
    pub fn new(roads: Arc<Roads>, speed: [f64; 2], pause: [f64; 2], random: Rng) -> OnMap {
        OnMap { roads, speed, pause, random, here: 0, way: Vec::new(), pace: 0.0 }
    }
    fn place(&self) -> Point {
        self.roads.points.get(self.here as usize).copied().unwrap_or_default()
    }
}

impl Mobility for OnMap {
    fn first_leg(&mut self) -> Leg {
        self.here = self.random.below(self.roads.len() as u64) as u32;
        Leg::rest(self.place(), 0.0, draw(&mut self.random, self.pause))
    }
    fn next_leg(&mut self, last: &Leg) -> Leg {
        let from = self.place();
        if self.roads.len() < 2 {
            return Leg::rest(from, last.end, f64::INFINITY);
        }
        if self.way.is_empty() {
            if !last.is_rest() && self.pause[1] > 0.0 {
                return Leg::rest(from, last.end, draw(&mut self.random, self.pause));
            }
            // Any other point.
            let drawn = self.random.below(self.roads.len() as u64 - 1) as u32;
            let goal = drawn + u32::from(drawn >= self.here);
            self.way = self.roads.way(self.here, goal);
            self.pace = draw(&mut self.random, self.speed);
        }
        let Some(next) = self.way.pop() else {
            // No street leads there: it tries another goal.
            return Leg::rest(from, last.end, 1.0);
        };
        self.here = next;
        Leg::way(from, self.place(), last.end, self.pace)
    }
    fn bounds(&self) -> [Point; 2] {
        self.roads.bounds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mobility::stream;

    /// A square of 100 m with one diagonal by way of its middle, and a point far off.
    fn roads() -> Roads {
        let points = vec![[0.0, 0.0], [100.0, 0.0], [100.0, 100.0], [0.0, 100.0], [50.0, 50.0], [900.0, 900.0]];
        Roads::new(points, &[(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (4, 2), (4, 0), (7, 1)])
    }

    #[test]
    fn equal_ways_prefer_lower_points() {
        assert_eq!(roads().way(0, 2), [2, 4], "by the middle");
        assert_eq!(roads().way(1, 3), [3, 0], "by 0, as long as by 2");
        assert!(roads().way(1, 1).is_empty(), "one is there");
        assert!(roads().way(0, 5).is_empty() && roads().way(9, 0).is_empty(), "no street leads there");
    }

    #[test]
    fn shortest_way_matches_exhaustive_search() {
        let mut random = Rng::new(3);
        let points: Vec<Point> = (0..40).map(|_| [random.unit() * 1e3, random.unit() * 1e3]).collect();
        let streets: Vec<(u32, u32)> = (0..90).map(|_| (random.below(40) as u32, random.below(40) as u32)).collect();
        let roads = Roads::new(points.clone(), &streets);
        // Bellman and Ford.
        for from in 0..40u32 {
            let mut least = [f64::INFINITY; 40];
            least[from as usize] = 0.0;
            for _ in 0..40 {
                for &(a, b) in &streets {
                    let length = distance(points[a as usize], points[b as usize]);
                    least[b as usize] = least[b as usize].min(least[a as usize] + length);
                    least[a as usize] = least[a as usize].min(least[b as usize] + length);
                }
            }
            for to in 0..40u32 {
                let way = roads.way(from, to);
                let (mut here, mut length) = (from, 0.0);
                for next in way.iter().rev() {
                    assert!(streets.contains(&(here, *next)) || streets.contains(&(*next, here)));
                    length += distance(points[here as usize], points[*next as usize]);
                    here = *next;
                }
                let known = least[to as usize];
                assert!((way.is_empty() && from != to) == known.is_infinite(), "{from} to {to}");
                assert!(way.is_empty() || (length - known).abs() < 1e-6, "{from} to {to}: {length} for {known}");
            }
        }
    }

    #[test]
    fn walker_stays_on_streets_and_rests() {
        let city = crate::mobility::city::City { columns: 6, rows: 4, block: 100.0, bend: 0.3, missing: 0.2 };
        let roads = Arc::new(city.roads(&mut Rng::new(5)));
        let mut node = OnMap::new(roads.clone(), [1.0, 2.0], [5.0, 5.0], stream(1, 2));
        let (mut leg, mut rests) = (node.first_leg(), 0);
        for _ in 0..5000 {
            let next = node.next_leg(&leg);
            assert_eq!(next.start, leg.end);
            assert!(distance(next.from, leg.at(leg.end)) < 1e-9);
            if next.is_rest() {
                rests += 1;
                assert!((next.end - next.start - 5.0).abs() < 1e-9);
            } else {
                let at = |p: Point| roads.points.iter().position(|q| distance(p, *q) < 1e-9);
                let (from, to) = (at(next.from).expect("a crossing"), at(next.at(next.end)).expect("a crossing"));
                assert!(roads.ways[from].iter().any(|(end, _)| *end as usize == to), "a street joins them");
            }
            leg = next;
        }
        assert!(rests > 200, "{rests}");
    }

    #[test]
    fn tiny_map_does_not_loop_forever() {
        for points in [vec![], vec![[7.0, 7.0]]] {
            let mut node = OnMap::new(Arc::new(Roads::new(points, &[])), [1.0; 2], [0.0; 2], stream(1, 2));
            let leg = node.first_leg();
            assert_eq!(node.next_leg(&leg).end, f64::INFINITY);
        }
        let apart = Roads::new(vec![[0.0; 2], [1.0; 2]], &[]);
        let mut node = OnMap::new(Arc::new(apart), [1.0; 2], [0.0; 2], stream(1, 2));
        let leg = node.first_leg();
        assert_eq!(node.next_leg(&leg).end, leg.end + 1.0, "time goes on");
    }
}
