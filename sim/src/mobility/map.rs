//! Shortest-path movement on a map: a uniformly drawn crossing, the shortest way there along streets at a speed drawn
//! per way, a pause, and so on.
//!
//! A node starts at a random crossing with a pause. Each straight piece of a street is a leg.

use super::{Leg, Mobility, Point, distance, draw};
use farlink_base::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Street map, shared by all nodes that use it.
#[derive(Clone, Debug)]
pub struct Roads {
    points: Vec<Point>,
    /// Neighbours of each point with their distances, in the order of their indices.
    ways: Vec<Vec<(u32, f64)>>,
}

impl Roads {
    /// Makes a map from points and streets; streets with unknown points are ignored.
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

    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.len()
    }
    /// Whether the map has no points.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Points of the shortest way, the goal first and without the start; empty if no way exists. Ties go to the way
    /// whose last point but one is nearer to the start, then to the point with the lower index.
    pub fn way(&self, from: u32, to: u32) -> Vec<u32> {
        const NOBODY: u32 = u32::MAX;
        let mut least = vec![f64::INFINITY; self.points.len()];
        let mut before = vec![NOBODY; self.points.len()];
        // The bit patterns of non-negative floats sort like the numbers.
        let mut open = BinaryHeap::from([Reverse((0.0f64.to_bits(), from))]);
        if let Some(start) = least.get_mut(from as usize) {
            *start = 0.0;
        }
        while let Some(Reverse((bits, here))) = open.pop() {
            if here == to {
                break;
            }
            let (so_far, Some(ways)) = (f64::from_bits(bits), self.ways.get(here as usize)) else { continue };
            // A shorter way was found since this entry was queued.
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

/// Movement of a node along streets.
#[derive(Clone, Debug)]
pub struct OnMap {
    roads: Arc<Roads>,
    /// Smallest and largest speed, metres a second.
    speed: [f64; 2],
    /// Shortest and longest pause between two ways, seconds.
    pause: [f64; 2],
    random: Rng,
    /// Point at which the node is, or to which it moves.
    here: u32,
    /// Rest of the way, the next point last.
    way: Vec<u32>,
    /// Speed on the present way.
    pace: f64,
}

impl OnMap {
    /// Makes the movement of a node, with its own random stream.
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
            // Any point but the present one, each as likely.
            let drawn = self.random.below(self.roads.len() as u64 - 1) as u32;
            let goal = drawn + u32::from(drawn >= self.here);
            self.way = self.roads.way(self.here, goal);
            self.pace = draw(&mut self.random, self.speed);
        }
        let Some(next) = self.way.pop() else {
            // No street leads there: pause for a second, then try another goal.
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

    fn roads() -> Roads {
        // A square of 100 m with a diagonal through its centre, and an unconnected point.
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
        // The expected distances are computed by the algorithm of Bellman and Ford.
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
