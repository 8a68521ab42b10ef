//! Synthetic city: blocks in columns and rows, crossings displaced from the grid, some streets removed; all crossings
//! remain connected.

use super::Point;
use super::map::Roads;
use farlink_base::Rng;

/// Parameters of a city.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct City {
    /// Crossings from west to east, at least 1.
    pub columns: u32,
    /// Crossings from south to north, at least 1.
    pub rows: u32,
    /// Metres between two crossings of the straight grid.
    pub block: f64,
    /// Largest displacement of a crossing as a share of half a block; 0 gives a straight grid.
    pub bend: f64,
    /// Share of removable streets that are removed.
    pub missing: f64,
}

impl City {
    /// Draws the crossings and streets.
    pub fn roads(&self, random: &mut Rng) -> Roads {
        let (columns, rows) = (self.columns.max(1), self.rows.max(1));
        let mut points: Vec<Point> = Vec::with_capacity(columns as usize * rows as usize);
        for row in 0..rows {
            for column in 0..columns {
                let mut moved = || (random.unit() - 0.5) * self.bend * self.block;
                points.push([f64::from(column) * self.block + moved(), f64::from(row) * self.block + moved()]);
            }
        }
        let mut streets = Vec::new();
        for here in 0..columns * rows {
            if here % columns + 1 < columns {
                streets.push((here, here + 1));
            }
            if here + columns < columns * rows {
                streets.push((here, here + columns));
            }
        }
        // In random order, streets that connect separate parts are kept: a spanning tree (Kruskal 1956).
        for last in (1..streets.len()).rev() {
            streets.swap(last, random.below(last as u64 + 1) as usize);
        }
        let mut joined: Vec<u32> = (0..columns * rows).collect();
        streets.retain(|&(a, b)| {
            let (a, b) = (root(&mut joined, a), root(&mut joined, b));
            joined[a.max(b) as usize] = a.min(b);
            // Drawn for every street, so that another share changes nothing else of the city.
            let spared = random.unit() >= self.missing;
            a != b || spared
        });
        Roads::new(points, &streets)
    }
}

fn root(joined: &mut [u32], mut of: u32) -> u32 {
    // Union-find with path halving; the lowest member represents its set.
    while joined[of as usize] != of {
        let above = joined[of as usize];
        joined[of as usize] = joined[above as usize];
        of = above;
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    fn city(columns: u32, rows: u32, missing: f64) -> Roads {
        City { columns, rows, block: 100.0, bend: 0.4, missing }.roads(&mut Rng::new(11))
    }
    fn streets(roads: &Roads) -> usize {
        // A street counts once in each direction.
        (0..roads.len() as u32)
            .map(|from| (0..roads.len() as u32).filter(|to| roads.way(from, *to) == [*to]).count())
            .sum()
    }

    #[test]
    fn every_crossing_stays_reachable() {
        for missing in [0.0, 0.5, 1.0] {
            let roads = city(7, 5, missing);
            assert_eq!(roads.len(), 35);
            assert!((1..35).all(|to| !roads.way(0, to).is_empty()), "{missing}");
        }
        assert_eq!(streets(&city(4, 4, 1.0)), 2 * 15, "a tree is left");
        assert_eq!(streets(&city(4, 4, 0.0)), 2 * 24, "no neighbour is nearer by way of another");
    }

    #[test]
    fn city_is_reproducible_from_seed() {
        let way = |roads: Roads| roads.way(0, 34);
        assert_eq!(way(city(7, 5, 0.3)), way(city(7, 5, 0.3)));
        assert_eq!(city(5, 1, 0.9).way(0, 4), [4, 3, 2, 1]);
        assert_eq!(city(0, 0, 0.0).len(), 1);
    }
}
