//! Street maps: well-known text to nodes and edges, in the order that random draws depend on.

use super::java::{double, string_hash, table_order};
use super::settings::Mistake;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::path::{Path, PathBuf};

/// Position, metres.
pub type Point = [f64; 2];

/// Connected map of streets.
#[derive(Clone, Debug)]
pub struct Town {
    /// Crossings and bends; draws pick one by its index.
    pub places: Vec<Point>,
    /// Neighbours of each place, in the order of the lines.
    pub next: Vec<Vec<u32>>,
}

impl Town {
    /// Reads map files, mirrors the map so that north is up, and moves it to the corner of the world.
    ///
    /// # Errors
    /// Fails on lines that cannot be parsed, on streets that are not connected, and on a map larger than a world of
    /// `area` metres.
    pub fn read(files: &[(PathBuf, String)], area: Point) -> Result<Town, Mistake> {
        let mut found = PathFound::default();
        for (file, text) in files {
            found.lines(file, text)?;
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

    /// The shortest way between two places (Dijkstra 1959), including both.
    pub fn way(&self, from: u32, to: u32) -> Vec<u32> {
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
                let length = length + distance(self.places[place as usize], self.places[next as usize]);
                if length < best[next as usize] {
                    (best[next as usize], before[next as usize]) = (length, place);
                    ahead.push(Reached { length, at: self.places[next as usize], place: next });
                }
            }
        }
        let mut way = vec![to];
        let mut place = to;
        while place != from && before[place as usize] != u32::MAX {
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
}

impl PathFound {
    fn lines(&mut self, file: &Path, text: &str) -> Result<(), Mistake> {
        // A shape may span several lines, until its brackets close.
        let (mut shape, mut begun, mut open) = (String::new(), 0, 0i64);
        for (number, line) in text.lines().enumerate() {
            if shape.is_empty() {
                if line.trim().is_empty() {
                    continue;
                }
                begun = number + 1;
            }
            open += line.matches('(').count() as i64 - line.matches(')').count() as i64;
            shape += line;
            shape.push(' ');
            if open > 0 || !shape.contains('(') {
                continue;
            }
            self.shape(&shape).map_err(|what| {
                let hint = "covered are LINESTRING (X Y, X Y, ...) and MULTILINESTRING ((...), (...))";
                Mistake::at(file, begun, what, hint)
            })?;
            shape.clear();
            open = 0;
        }
        if shape.is_empty() {
            return Ok(());
        }
        Err(Mistake::at(file, begun, "a shape that does not end", "close its brackets"))
    }

    fn shape(&mut self, text: &str) -> Result<(), String> {
        let (kind, rest) = text.split_once('(').unwrap_or((text, ""));
        let inside = rest.trim().strip_suffix(')').ok_or("brackets that do not match")?;
        match kind.trim() {
            "LINESTRING" => self.line(inside),
            "MULTILINESTRING" => inside
                .split(')')
                .map(|part| part.trim_start_matches([',', ' ', '\t', '(']))
                .try_for_each(|part| if part.trim().is_empty() { Ok(()) } else { self.line(part) }),
            other => Err(format!("`{other}` is not covered")),
        }
    }

    fn line(&mut self, text: &str) -> Result<(), String> {
        let mut before = None;
        for pair in text.split(',') {
            let numbers: Vec<Option<f64>> =
                pair.split_whitespace().map(|word| word.parse::<f64>().ok().filter(|n| n.is_finite())).collect();
            let [Some(x), Some(y)] = numbers[..] else { return Err(format!("`{}` is no place", pair.trim())) };
            let place = self.place([x, y]);
            if let Some(before) = before {
                self.join(before, place);
            }
            before = Some(place);
        }
        Ok(())
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
        self.names.push(name.clone());
        self.places.insert(name, place);
        place
    }

    fn join(&mut self, a: u32, b: u32) {
        self.next[a as usize].push(b);
        self.next[b as usize].push(a);
    }

    fn town(self) -> Town {
        // Random draws pick places by index, so the order must be that of The ONE's `Hashtable`.
        let hashes: Vec<i32> = self.names.iter().map(|name| string_hash(name)).collect();
        let order = table_order(&hashes);
        let mut new = vec![0u32; order.len()];
        order.iter().enumerate().for_each(|(number, &old)| new[old] = number as u32);
        let least =
            |axis: usize, sign: f64| self.points.iter().map(|point| sign * point[axis]).fold(f64::INFINITY, f64::min);
        let (left, low) = (least(0, 1.0), least(1, -1.0));
        let moved = |point: Point| [point[0] - left, -point[1] - low];
        let renamed = |old: &usize| self.next[*old].iter().map(|&next| new[next as usize]).collect();
        Town {
            places: order.iter().map(|&old| moved(self.points[old])).collect(),
            next: order.iter().map(renamed).collect(),
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
        assert_eq!(town.way(a, c), [a, b, c]);
        assert_eq!(town.way(a, a), [a]);
        assert_eq!(town.way(place(10.0, 0.0), b).len(), 3);
    }

    #[test]
    fn invalid_map_is_reported_with_line() {
        for (text, told) in [
            ("", "no streets"),
            ("\n\nPOINT (1 2)", "streets.wkt:3: `POINT` is not covered"),
            ("LINESTRING (1 2, x 3)", "streets.wkt:1: `x 3` is no place"),
            ("LINESTRING (1 2, 3)", "is no place"),
            ("LINESTRING (1 2, 3 4", "does not end"),
            ("LINESTRING 1 2)", "does not end"),
            ("LINESTRING (0 0, 1 1)\nLINESTRING (5 5, 6 6)", "not joined"),
            ("LINESTRING (0 0, 2000 0)", "larger than 1000 x 1000 m"),
            ("LINESTRING (0 0, 1e999 0)", "is no place"),
        ] {
            let mistake = read(text).expect_err(text).to_string();
            assert!(mistake.contains(told), "{mistake}");
        }
    }

    #[test]
    fn shape_may_span_lines() {
        assert_eq!(read("LINESTRING (0 0,\n 1 1,\n 2 2)\n\n").expect("it can be read").places.len(), 3);
    }
}
