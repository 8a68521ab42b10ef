//! Street maps: nodes and edges, in the order that random draws depend on.

use super::java::{double, string_hash, table_order};
use super::settings::Mistake;
use super::wkt::{self, ShapeKind};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::path::PathBuf;

/// Position, metres.
pub type Point = [f64; 2];

/// Connected map of streets.
#[derive(Clone, Debug)]
pub struct Town {
    /// Crossings and bends; draws pick one by its index.
    pub places: Vec<Point>,
    /// Neighbours of each place, in the order of the lines.
    pub next: Vec<Vec<u32>>,
    /// Map files that have each place, as bits: bit 1 for the first file.
    files: Vec<u32>,
    /// Distance by which the mirrored map was moved.
    moved: Point,
}

/// Places of some map files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed(u32);

impl Allowed {
    /// Places of all files.
    pub const ALL: Allowed = Allowed(u32::MAX);
    /// Highest number of a map file that can be selected: the last bit of a Java integer.
    pub const LAST: i32 = 31;

    /// Selects map files by their numbers, which begin with 1 and end with [`Allowed::LAST`].
    pub fn of(files: impl IntoIterator<Item = u32>) -> Allowed {
        Allowed(files.into_iter().fold(0, |bits, file| bits | 1 << file))
    }
}

impl Town {
    /// Reads map files, mirrors the map so that north is up, and moves it to the corner of the world.
    ///
    /// # Errors
    /// Fails on lines that cannot be parsed, on streets that are not connected, and on a map larger than a world of
    /// `area` metres.
    pub fn read(files: &[(PathBuf, String)], area: Point) -> Result<Town, Mistake> {
        let mut found = PathFound::default();
        for ((file, text), number) in files.iter().zip(1u32..) {
            for shape in wkt::shapes(file, text)? {
                if matches!(shape.kind, ShapeKind::Line | ShapeKind::Lines) {
                    shape.lines.iter().for_each(|line| found.line(line, 1u32.wrapping_shl(number)));
                }
            }
        }
        let Some((file, _)) = files.first().filter(|_| !found.points.is_empty()) else {
            return Err(Mistake::new("the map has no streets", "name a file with LINESTRING lines"));
        };
        let town = found.town();
        let beyond = |axis: usize| town.places.iter().any(|place| place[axis] > area[axis]);
        if beyond(0) || beyond(1) {
            let hint = "make MovementModel.worldSize larger";
            return Err(Mistake::at(file, 0, format!("the map is larger than {} x {} m", area[0], area[1]), hint));
        }
        if town.reached() < town.places.len() {
            return Err(Mistake::at(file, 0, "some streets are not joined to the others", "join or remove them"));
        }
        Ok(town)
    }

    /// Whether a place is on a map that is allowed.
    pub fn is_allowed(&self, place: u32, allowed: Allowed) -> bool {
        self.files[place as usize] & allowed.0 != 0
    }

    /// Place at a position of a map file.
    pub fn place_at(&self, [x, y]: Point) -> Option<u32> {
        let at = [x + self.moved[0], -y + self.moved[1]];
        self.places.iter().position(|place| *place == at).map(|place| place as u32)
    }

    fn reached(&self) -> usize {
        let mut seen = vec![false; self.places.len()];
        let mut ahead = vec![0u32];
        let mut count = 0;
        while let Some(place) = ahead.pop() {
            if std::mem::replace(&mut seen[place as usize], true) {
                continue;
            }
            count += 1;
            ahead.extend(&self.next[place as usize]);
        }
        count
    }

    /// Shortest path between two places through allowed places (Dijkstra 1959), with both ends; empty without a path.
    pub fn way(&self, from: u32, to: u32, allowed: Allowed) -> Vec<u32> {
        let mut best = vec![f64::INFINITY; self.places.len()];
        let mut before = vec![u32::MAX; self.places.len()];
        let mut ahead = BinaryHeap::from([Reached { length: 0.0, at: self.places[from as usize], place: from }]);
        best[from as usize] = 0.0;
        while let Some(Reached { length, place, .. }) = ahead.pop() {
            if place == to {
                break;
            }
            // A shorter way was found since this entry was queued.
            if length > best[place as usize] {
                continue;
            }
            for &next in &self.next[place as usize] {
                if !self.is_allowed(next, allowed) {
                    continue;
                }
                let length = length + distance(self.places[place as usize], self.places[next as usize]);
                if length < best[next as usize] {
                    (best[next as usize], before[next as usize]) = (length, place);
                    ahead.push(Reached { length, at: self.places[next as usize], place: next });
                }
            }
        }
        if to != from && before[to as usize] == u32::MAX {
            return Vec::new();
        }
        let mut way = vec![to];
        let mut place = to;
        while place != from {
            place = before[place as usize];
            way.push(place);
        }
        way.reverse();
        way
    }
}

/// Euclidean distance of two points.
pub fn distance(a: Point, b: Point) -> f64 {
    let (x, y) = (a[0] - b[0], a[1] - b[1]);
    (x * x + y * y).sqrt()
}

/// Entry of Dijkstra's queue: the nearest first, then the lowest y, then the lowest x.
struct Reached {
    length: f64,
    at: Point,
    place: u32,
}
impl Ord for Reached {
    fn cmp(&self, other: &Reached) -> Ordering {
        let key = |it: &Reached| [it.length, it.at[1], it.at[0]];
        // Reversed, because `BinaryHeap` returns the largest.
        let (mine, theirs) = (key(self), key(other));
        let order = |axis: usize| theirs[axis].total_cmp(&mine[axis]);
        order(0).then(order(1)).then(order(2))
    }
}
impl PartialOrd for Reached {
    fn partial_cmp(&self, other: &Reached) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Reached {
    fn eq(&self, other: &Reached) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Reached {}

/// Places and edges read so far.
#[derive(Default)]
struct PathFound {
    points: Vec<Point>,
    names: Vec<String>,
    places: HashMap<String, u32>,
    next: Vec<Vec<u32>>,
    files: Vec<u32>,
}

impl PathFound {
    fn line(&mut self, line: &[Point], file: u32) {
        let mut before = None;
        for &point in line {
            let place = self.place(point);
            self.files[place as usize] |= file;
            if let Some(before) = before.replace(place) {
                self.join(place, before);
                self.join(before, place);
            }
        }
    }

    fn place(&mut self, point: Point) -> u32 {
        // Points are the same when Java prints them alike, and the hash of that text decides their order.
        let name = format!("{},{}", double(point[0]), double(point[1]));
        if let Some(&place) = self.places.get(&name) {
            return place;
        }
        let place = self.points.len() as u32;
        self.points.push(point);
        self.next.push(Vec::new());
        self.files.push(0);
        self.names.push(name.clone());
        self.places.insert(name, place);
        place
    }

    /// Adds a neighbour once, however many lines go there: draws pick a neighbour by its index.
    fn join(&mut self, place: u32, neighbour: u32) {
        let next = &mut self.next[place as usize];
        if place != neighbour && !next.contains(&neighbour) {
            next.push(neighbour);
        }
    }

    fn town(self) -> Town {
        // Random draws pick places by index, so the order must be that of The ONE's `Hashtable`.
        let hashes: Vec<i32> = self.names.iter().map(|name| string_hash(name)).collect();
        let order = table_order(&hashes);
        let mut new = vec![0u32; order.len()];
        order.iter().enumerate().for_each(|(number, &old)| new[old] = number as u32);
        let least =
            |axis: usize, sign: f64| self.points.iter().map(|point| sign * point[axis]).fold(f64::INFINITY, f64::min);
        let moved = [-least(0, 1.0), -least(1, -1.0)];
        let renamed = |old: &usize| self.next[*old].iter().map(|&next| new[next as usize]).collect();
        let at = |[x, y]: Point| [x + moved[0], -y + moved[1]];
        Town {
            places: order.iter().map(|&old| at(self.points[old])).collect(),
            next: order.iter().map(renamed).collect(),
            files: order.iter().map(|&old| self.files[old]).collect(),
            moved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Town, Mistake> {
        Town::read(&[("streets.wkt".into(), text.into())], [1000.0, 1000.0])
    }

    #[test]
    fn streets_are_mirrored_moved_and_joined() {
        let town =
            read("LINESTRING (100 50, 200 50, 200 150)\nMULTILINESTRING ((100 50, 100 150), (100 150, 200 150))")
                .expect("it can be read");
        let mut places = town.places.clone();
        places.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        assert_eq!(places, [[0.0, 0.0], [0.0, 100.0], [100.0, 0.0], [100.0, 100.0]]);
        assert!(town.next.iter().all(|next| next.len() == 2));
    }

    #[test]
    fn path_is_shortest_with_both_ends() {
        let town = read("LINESTRING (0 0, 10 0, 20 0)\nLINESTRING (0 0, 10 30, 20 0)").expect("it can be read");
        let place = |x: f64, y: f64| town.places.iter().position(|at| *at == [x, y]).expect("a place") as u32;
        // The map is mirrored: a place at y = 0 moves to y = 30.
        let (a, b, c) = (place(0.0, 30.0), place(10.0, 30.0), place(20.0, 30.0));
        assert_eq!(town.way(a, c, Allowed::ALL), [a, b, c]);
        assert_eq!(town.way(a, a, Allowed::ALL), [a]);
        assert_eq!(town.way(place(10.0, 0.0), b, Allowed::ALL).len(), 3);
    }

    #[test]
    fn invalid_map_is_reported_with_line() {
        for (text, told) in [
            ("", "no streets"),
            ("POINT (1 2)", "no streets"),
            ("LINESTRING (0 0, 1 1)\nLINESTRING (5 5, 6 6)", "not joined"),
            ("LINESTRING (0 0, 2000 0)", "larger than 1000 x 1000 m"),
        ] {
            let mistake = read(text).expect_err(text).to_string();
            assert!(mistake.contains(told), "{mistake}");
        }
    }

    #[test]
    fn shared_streets_join_places_once() {
        let town = read("LINESTRING (0 0, 10 0)\nLINESTRING (10 0, 0 0, 0 0, 0 10)").expect("it can be read");
        let place = town.place_at([0.0, 0.0]).expect("a place");
        assert_eq!(town.next[place as usize].len(), 2);
        assert_eq!(town.place_at([5.0, 0.0]), None);
    }

    #[test]
    fn ways_keep_to_allowed_files() {
        let files = ["LINESTRING (0 0, 10 0, 20 0)", "LINESTRING (0 0, 10 30, 20 0)", "LINESTRING (20 0, 30 0)"];
        let files = files.map(|text| (PathBuf::from("x.wkt"), text.to_string()));
        let town = Town::read(&files, [100.0, 100.0]).expect("it can be read");
        let place = |x: f64, y: f64| town.place_at([x, y]).expect("a place");
        let [a, b, c, d] = [place(0.0, 0.0), place(10.0, 30.0), place(20.0, 0.0), place(30.0, 0.0)];
        assert_eq!(town.way(a, c, Allowed::of([2])), [a, b, c]);
        assert_eq!(town.way(a, d, Allowed::of([1])), []);
        assert!(town.is_allowed(c, Allowed::of([3])) && !town.is_allowed(b, Allowed::of([1, 3])));
    }
}
