use super::*;
use crate::mobility::city::City;
use crate::mobility::map::OnMap;
use crate::mobility::stationary::Stationary;
use crate::mobility::trace::{Fix, Traced};
use crate::mobility::walk::Walk;
use crate::mobility::waypoint::Waypoint;
use crate::mobility::{Wander, distance, stream};
use farlink_base::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

type MovingNodes = Vec<(u32, Box<dyn Mobility>)>;

fn edges(mut contacts: Kinetic, until: f64) -> Vec<ContactEdge> {
    let mut edges = Vec::new();
    while let Some(edge) = contacts.next(instant(until)) {
        edges.push(edge);
    }
    edges
}
fn meetings(range: f64, ways: [&[(f64, f64, f64)]; 2]) -> Vec<(f64, bool)> {
    // Movements are lists of (time, x, y); the result holds the times of edges in seconds.
    let node = |(number, way): (u32, &[(f64, f64, f64)])| {
        let fixes: Vec<Fix> = way.iter().map(|(at, x, y)| Fix { at: *at, position: [*x, *y] }).collect();
        (number, Box::new(Traced::new(fixes.into())) as Box<dyn Mobility>)
    };
    let nodes = [(0, ways[0]), (1, ways[1])].map(node);
    edges(Kinetic::new(0, range, nodes.into()), 1e6).iter().map(|edge| (edge.at.0 as f64 / 1e9, edge.up)).collect()
}

#[test]
fn passing_node_is_near_throughout_range() {
    let still = &[(0.0, 0.0, 0.0)][..];
    let passing = &[(0.0, -100.0, 0.0), (200.0, 100.0, 0.0)][..];
    assert_eq!(meetings(10.0, [still, passing]), [(90.0, true), (110.0, false)]);
    assert_eq!(meetings(10.0, [passing, still]), [(90.0, true), (110.0, false)]);
    let aside = &[(0.0, -100.0, 6.0), (200.0, 100.0, 6.0)][..];
    assert_eq!(meetings(10.0, [still, aside]), [(92.0, true), (108.0, false)]);
    let towards = &[(0.0, 100.0, 0.0), (200.0, -100.0, 0.0)][..];
    assert_eq!(meetings(10.0, [passing, towards]), [(95.0, true), (105.0, false)]);
}

#[test]
fn grazing_is_no_contact_resting_is() {
    let still = &[(0.0, 0.0, 0.0)][..];
    assert_eq!(meetings(10.0, [still, &[(0.0, -100.0, 10.0), (200.0, 100.0, 10.0)]]), []);
    assert_eq!(meetings(10.0, [still, &[(0.0, 6.0, 8.0)]]), [(0.0, true)]);
    assert_eq!(meetings(10.0, [still, &[(0.0, 6.0, 8.000_001)]]), []);
    // Two nodes side by side keep their distance.
    let (one, other) = (&[(0.0, 0.0, 0.0), (50.0, 70.0, 20.0)][..], &[(0.0, 0.0, 5.0), (50.0, 70.0, 25.0)][..]);
    assert_eq!(meetings(10.0, [one, other]), [(0.0, true)]);
}

#[test]
fn turning_back_inside_range_keeps_contact() {
    let still = &[(0.0, 0.0, 0.0)][..];
    let inside = &[(0.0, 20.0, 0.0), (15.0, 5.0, 0.0), (30.0, 20.0, 0.0)][..];
    assert_eq!(meetings(10.0, [still, inside]), [(10.0, true), (20.0, false)]);
    let outside = &[(0.0, 20.0, 0.0), (9.5, 10.5, 0.0), (30.0, 20.0, 0.0)][..];
    assert_eq!(meetings(10.0, [still, outside]), []);
    let to_the_rim = &[(0.0, 0.0, 0.0), (10.0, 10.0, 0.0), (20.0, 0.0, 0.0)][..];
    assert_eq!(meetings(10.0, [still, to_the_rim]), [(0.0, true)], "at the rim it turns");
    let onto_the_rim = &[(0.0, 20.0, 0.0), (10.0, 10.0, 0.0), (20.0, 20.0, 0.0)][..];
    assert!(meetings(10.0, [still, onto_the_rim]).is_empty(), "a contact that ends as it begins never was");
    // A jump into another cell at one instant ends the contact there and starts it on return.
    let leaps = &[(0.0, 5.0, 0.0), (10.0, 5.0, 0.0), (10.0, 500.0, 0.0), (20.0, 500.0, 0.0), (20.0, 3.0, 0.0)][..];
    assert_eq!(meetings(10.0, [still, leaps]), [(0.0, true), (10.0, false), (20.0, true)]);
}

fn crowd(count: u32, seed: u64) -> MovingNodes {
    // Every model at once: contacts must not depend on the model that made the legs.
    let city = City { columns: 9, rows: 9, block: 110.0, bend: 0.5, missing: 0.2 };
    let roads = Arc::new(city.roads(&mut Rng::new(seed)));
    let wander = |pause| Wander { area: [1000.0; 2], speed: [0.5, 15.0], pause: [0.0, pause] };
    let node = |node: u32| {
        let mut random = stream(seed, node);
        let motion: Box<dyn Mobility> = match node % 6 {
            0 => Box::new(Stationary { at: [random.unit() * 1000.0, random.unit() * 1000.0] }),
            1 => Box::new(OnMap::new(roads.clone(), [1.0, 20.0], [0.0, 20.0], random)),
            2 => Box::new(Walk::new(wander(5.0), [0.0, 50.0], random)),
            3 => Box::new(Waypoint::new(wander(0.0), random)),
            _ => Box::new(Waypoint::new(wander(60.0), random)),
        };
        (node, motion)
    };
    (0..count).map(node).collect()
}

fn legs(motion: &mut dyn Mobility, until: f64) -> Vec<Leg> {
    // The last leg ends after `until`, so that every sampled time lies within a leg.
    let mut legs = vec![motion.first_leg()];
    while let Some(last) = legs.last().copied().filter(|last| last.end <= until) {
        legs.push(motion.next_leg(&last));
    }
    legs
}
fn at(legs: &[Leg], time: f64) -> Point {
    let place = legs.partition_point(|leg| leg.end <= time);
    legs[place.min(legs.len() - 1)].at(time)
}

fn against_samples(count: u32, seed: u64, range: f64, until: f64, step: f64) -> u64 {
    // Sampling uses no equation of `Kinetic`, so it checks them independently; returns the number of samples.
    let ways: Vec<Vec<Leg>> = crowd(count, seed).iter_mut().map(|(_, motion)| legs(motion.as_mut(), until)).collect();
    let mut changes: BTreeMap<(u32, u32), Vec<(f64, bool)>> = BTreeMap::new();
    for edge in edges(Kinetic::new(0, range, crowd(count, seed)), until) {
        let time = edge.at.0 as f64 / 1e9;
        let apart = distance(at(&ways[edge.a as usize], time), at(&ways[edge.b as usize], time));
        assert!(edge.at == Instant::ZERO && apart < range || (apart - range).abs() < 1e-6, "{edge:?}: {apart} m apart");
        let pair = changes.entry((edge.a, edge.b)).or_default();
        assert!(edge.a < edge.b && edge.up == pair.len().is_multiple_of(2), "up and down by turns: {edge:?}");
        assert!(pair.last().is_none_or(|(before, _)| *before < time), "{edge:?}");
        pair.push((time, edge.up));
    }
    let (mut states, none) = (0, Vec::new());
    for a in 0..count {
        for b in a + 1..count {
            let (one, other) = (&ways[a as usize], &ways[b as usize]);
            let is_near = |time: f64| distance(at(one, time), at(other, time)) <= range;
            let known = changes.get(&(a, b)).unwrap_or(&none);
            let mut place = 0;
            let (mut before, mut near) = (0.0, false);
            for sample in 0..(until / step) as u64 {
                let time = sample as f64 * step + 1e-7;
                let first = place;
                while known.get(place).is_some_and(|(at, _)| *at <= time) {
                    place += 1;
                }
                states += 1;
                let said = place % 2 == 1;
                let apart = distance(at(one, time), at(other, time));
                assert!(said == (apart <= range) || (apart - range).abs() < 1e-6, "{a} {b} at {time}: {apart} m");
                // A root between two samples is located by bisection.
                if said != near && time > step && place == first + 1 {
                    let (mut low, mut high) = (before, time);
                    while high - low > 1e-9 {
                        let middle = (low + high) / 2.0;
                        if is_near(middle) == near { low = middle } else { high = middle }
                    }
                    assert!((known[first].0 - high).abs() < 1e-5, "{a} {b}: {} for {high}", known[first].0);
                }
                (before, near) = (time, said);
            }
        }
    }
    states
}

#[test]
fn contacts_match_sampled_distances() {
    // Sampling is slow without optimization.
    let (count, until) = if cfg!(debug_assertions) { (24, 300.0) } else { (60, 3600.0) };
    for (seed, range) in [(1, 150.0), (2, 40.0), (3, 8.0)] {
        let states = against_samples(count, seed, range, until, 0.5);
        assert!(states > 100_000, "{states}");
    }
}

#[test]
fn cell_size_never_changes_edges() {
    let until = if cfg!(debug_assertions) { 1000.0 } else { 20_000.0 };
    for range in [10.0, 90.0] {
        let with = |cell: f64| edges(Kinetic::with_cells(3, range, crowd(60, 9), cell), until);
        let first = with(0.0);
        assert!(first.len() > 200 && first.is_sorted_by_key(ContactEdge::key), "{}", first.len());
        assert!(first.iter().all(|edge| edge.radio == 3));
        for cell in [range * 1.5, range * 4.0, 333.0, 5000.0] {
            assert!(with(cell) == first, "cells of {cell} m");
        }
    }
}

#[test]
fn edges_stop_at_requested_time() {
    let all = edges(Kinetic::new(0, 90.0, crowd(30, 4)), 500.0);
    // Calls with a limit one second later each time must yield the same edges as a single call.
    let mut contacts = Kinetic::new(0, 90.0, crowd(30, 4));
    let mut pieces = Vec::new();
    for until in 0..=500 {
        while let Some(edge) = contacts.next(instant(f64::from(until))) {
            assert!(edge.at <= instant(f64::from(until)) && edge.at > instant(f64::from(until) - 1.0) || until == 0);
            pieces.push(edge);
        }
    }
    assert_eq!(all, pieces);
}

struct Hasty;
impl Mobility for Hasty {
    // Every leg takes no time, and the bounds are not finite.
    fn first_leg(&mut self) -> Leg {
        Leg::rest([0.0; 2], 0.0, 0.0)
    }
    fn next_leg(&mut self, last: &Leg) -> Leg {
        Leg::rest([0.0; 2], last.end, -1.0)
    }
    fn bounds(&self) -> [Point; 2] {
        [[f64::NAN, 0.0], [f64::INFINITY, 0.0]]
    }
}

#[test]
fn time_always_advances() {
    let nodes: MovingNodes = (0..3).map(|node| (node, Box::new(Hasty) as Box<dyn Mobility>)).collect();
    let found = edges(Kinetic::new(0, 1.0, nodes), 100.0);
    assert_eq!(found.len(), 3, "all hear each other from the start on: {found:?}");
    assert!(edges(Kinetic::new(0, 1.0, Vec::new()), 100.0).is_empty());
}

/// Seconds between positions in whole metres, so that arithmetic is exact.
const STEP: i64 = 8;

fn exact(range: i64, [one, other]: [&[[i64; 2]]; 2]) -> Vec<(f64, f64)> {
    // Integer arithmetic except for the roots. Intervals are at least a microsecond long, and shorter gaps are closed.
    let apart = |n: usize| [other[n][0] - one[n][0], other[n][1] - one[n][1]];
    let mut spans: Vec<(f64, f64)> = Vec::new();
    for step in 0..one.len() {
        let (p, q) = (apart(step), apart((step + 1).min(one.len() - 1)));
        let v = [q[0] - p[0], q[1] - p[1]];
        // |p + s v|^2 = range^2, written as w s^2 + 2 h s + c = 0 with s from 0 to 1; the last step has no end.
        let (w, h, c) =
            (v[0] * v[0] + v[1] * v[1], p[0] * v[0] + p[1] * v[1], p[0] * p[0] + p[1] * p[1] - range * range);
        let found = if w == 0 {
            (c <= 0).then_some((0.0, if step + 1 == one.len() { f64::INFINITY } else { 1.0 }))
        } else {
            let discriminant = i128::from(h) * i128::from(h) - i128::from(w) * i128::from(c);
            let root = (discriminant.max(0) as f64).sqrt();
            let at = |sign: f64| ((-h as f64 + sign * root) / w as f64).clamp(0.0, 1.0);
            (discriminant > 0).then(|| (at(-1.0), at(1.0)))
        };
        let Some((from, until)) = found.map(|(a, b)| ((step as f64 + a), (step as f64 + b))) else { continue };
        let (from, until) = (from * STEP as f64, until * STEP as f64);
        match spans.last_mut() {
            Some(last) if from - last.1 < 1e-6 => last.1 = until,
            _ => spans.push((from, until)),
        }
    }
    spans.retain(|(from, until)| until - from > 1e-6);
    spans
}

#[test]
fn integer_ways_yield_exact_contacts() {
    let mut random = Rng::new(25);
    let (mut contacts, mut always) = (0, 0);
    for round in 0..400 {
        let (count, steps) = (2 + random.below(12) as usize, 1 + random.below(20) as usize);
        // Few distinct positions, so that nodes often meet exactly, graze the range, rest on its border and turn back
        // there.
        let side = [3, 12, 40, 2000][random.below(4) as usize];
        let range = [0, 1, 5, 13, 500, 100_000][random.below(6) as usize];
        let place = |random: &mut Rng| [random.below(side) as i64, random.below(side) as i64 * 3 / 2];
        let ways: Vec<Vec<[i64; 2]>> = (0..count)
            .map(|_| {
                let mut way = vec![place(&mut random)];
                while way.len() < steps {
                    let rests = random.chance(0.3);
                    way.push(if rests { way[way.len() - 1] } else { place(&mut random) });
                }
                way
            })
            .collect();
        let node = |(number, way): (u32, &Vec<[i64; 2]>)| {
            let fix = |(n, at): (i64, &[i64; 2])| Fix { at: (n * STEP) as f64, position: at.map(|m| m as f64) };
            let fixes: Vec<Fix> = (0..).zip(way).map(fix).collect();
            (number, Box::new(Traced::new(fixes.into())) as Box<dyn Mobility>)
        };
        let mut found: BTreeMap<(u32, u32), Vec<(f64, f64)>> = BTreeMap::new();
        for edge in edges(Kinetic::new(0, range as f64, (0..).zip(&ways).map(node).collect()), 1e6) {
            let (at, spans) = (edge.at.0 as f64 / 1e9, found.entry((edge.a, edge.b)).or_default());
            match spans.last_mut() {
                Some(last) if !edge.up => last.1 = at,
                // Rounding may split an interval at the border of the range.
                Some(last) if at - last.1 < 1e-6 => last.1 = f64::INFINITY,
                _ => spans.push((at, f64::INFINITY)),
            }
        }
        for a in 0..count {
            for b in a + 1..count {
                let expected = exact(range, [&ways[a], &ways[b]]);
                let mut found = found.remove(&(a as u32, b as u32)).unwrap_or_default();
                found.retain(|(from, until)| until - from > 1e-6);
                let alike = |x: f64, y: f64| x == y || (x - y).abs() < 2e-8;
                let same = found.len() == expected.len()
                    && found.iter().zip(&expected).all(|(f, e)| alike(f.0, e.0) && alike(f.1, e.1));
                assert!(
                    same,
                    "round {round}: {a} {:?} and {b} {:?} within {range}: {found:?}, and {expected:?}",
                    ways[a], ways[b]
                );
                contacts += expected.len();
                always += usize::from(expected.first().is_some_and(|span| *span == (0.0, f64::INFINITY)));
            }
        }
    }
    assert!(contacts > 10_000 && always > 500 && always < contacts / 2, "{contacts}, {always} of them without end");
}
