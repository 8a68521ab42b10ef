//! Assignment of antenna beams where a node sees more neighbours than it has beams.
//!
//! A beam stays with a neighbour while it is in sight. A free beam goes at once to the neighbour that stays in sight
//! longest and has a free beam itself; it never waits for a better one.

use crate::edges::SightWindow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A window in which two nodes see each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Indices of the nodes in the network.
    pub ends: [u32; 2],
    /// Window of visibility.
    pub window: SightWindow,
}

/// Claims waiting at a node, the one that ends last first.
type WaitingClaims = BTreeSet<(Reverse<i64>, usize)>;

struct BeamNode {
    free: u32,
    waiting: WaitingClaims,
}

/// Time at which each claim gets a beam, which it keeps until it ends; `None` if it never gets one. `beams` holds the
/// number of beams of nodes at the first and at the second end of claims; `None` means no limit. A claim that would
/// keep its beam for less than `shortest` ns gets none.
pub fn serve(claims: &[Claim], beams: [Option<u32>; 2], shortest: i64) -> Vec<Option<i64>> {
    let mut nodes: BTreeMap<u32, BeamNode> = BTreeMap::new();
    let mut events: Vec<(i64, bool, usize)> = Vec::with_capacity(claims.len() * 2);
    for (number, claim) in claims.iter().enumerate() {
        events.push((claim.window.start, true, number));
        events.push((claim.window.end, false, number));
        for (end, beams) in claim.ends.into_iter().zip(beams) {
            let node = nodes.entry(end).or_insert_with(|| BeamNode { free: u32::MAX, waiting: WaitingClaims::new() });
            // A node at the first end of one claim and the second of another gets the smaller number of beams.
            node.free = node.free.min(beams.unwrap_or(u32::MAX));
        }
    }
    // At equal times ends sort before starts, so that a beam freed is available at once.
    events.sort_unstable();
    let mut served: Vec<Option<i64>> = vec![None; claims.len()];
    let mut changed: BTreeSet<u32> = BTreeSet::new();
    let mut rest = events.as_slice();
    while let Some((now, ..)) = rest.first().copied() {
        let same = rest.partition_point(|(time, ..)| *time == now);
        let (these, later) = rest.split_at(same);
        rest = later;
        for (_, begins, number) in these {
            let Some(claim) = claims.get(*number) else { continue };
            let waits = (Reverse(claim.window.end), *number);
            let was_served = served.get(*number).copied().flatten().is_some();
            for end in claim.ends {
                let Some(node) = nodes.get_mut(&end) else { continue };
                if *begins {
                    node.waiting.insert(waits);
                } else if was_served {
                    node.free = node.free.saturating_add(1);
                } else {
                    node.waiting.remove(&waits);
                }
                changed.insert(end);
            }
        }
        // Serving a claim only takes one beam from each of its two nodes, so each changed node needs one visit.
        while let Some(node) = changed.pop_first() {
            while let Some((_, number)) = best(&nodes, claims, node, now.saturating_add(shortest)) {
                let (Some(claim), Some(slot)) = (claims.get(number), served.get_mut(number)) else { break };
                *slot = Some(now);
                for end in claim.ends {
                    if let Some(node) = nodes.get_mut(&end) {
                        node.free = node.free.saturating_sub(1);
                        node.waiting.remove(&(Reverse(claim.window.end), number));
                    }
                }
            }
        }
    }
    served
}

/// Best claim for a node with a free beam: the one that ends last, but not before `least`, among those whose other end
/// has a free beam.
fn best(nodes: &BTreeMap<u32, BeamNode>, claims: &[Claim], node: u32, least: i64) -> Option<(Reverse<i64>, usize)> {
    let here = nodes.get(&node).filter(|here| here.free > 0)?;
    let long_enough = here.waiting.iter().take_while(|(end, _)| end.0 >= least);
    let free = |number: usize| {
        let ends = claims.get(number).map(|claim| claim.ends).unwrap_or_default();
        ends.iter().all(|end| nodes.get(end).is_some_and(|other| other.free > 0))
    };
    long_enough.copied().find(|(_, number)| free(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(first: u32, second: u32, start: i64, end: i64) -> Claim {
        Claim { ends: [first, second], window: SightWindow { start, end } }
    }

    #[test]
    fn free_beam_takes_longest_claim() {
        let claims = [claim(0, 1, 0, 10), claim(0, 2, 0, 50), claim(0, 3, 20, 90), claim(0, 4, 50, 60)];
        assert_eq!(serve(&claims, [Some(1), None], 0), [None, Some(0), Some(50), None]);
        assert_eq!(serve(&claims, [Some(2), None], 0), [Some(0), Some(0), Some(20), Some(50)]);
        assert_eq!(serve(&claims, [None, None], 0), [Some(0), Some(0), Some(20), Some(50)]);
        assert_eq!(serve(&claims, [Some(0), None], 0), [None; 4]);
    }

    #[test]
    fn both_ends_need_a_beam() {
        let claims = [claim(0, 9, 0, 100), claim(1, 9, 0, 50), claim(1, 8, 10, 20)];
        assert_eq!(serve(&claims, [Some(1), Some(1)], 0), [Some(0), None, Some(10)]);
    }

    #[test]
    fn too_short_service_is_skipped() {
        let claims = [claim(0, 1, 0, 100), claim(0, 2, 50, 105)];
        assert_eq!(serve(&claims, [Some(1), None], 10), [Some(0), None]);
        assert_eq!(serve(&claims, [Some(1), None], 5), [Some(0), Some(100)]);
    }

    #[test]
    fn beams_are_bounded_and_never_idle() {
        // Deterministic pseudo-random claims between 5 stations and 30 satellites (Knuth's MMIX
        // generator).
        let mut seed = 1u64;
        let mut draw = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        let claims: Vec<Claim> = (0..400)
            .map(|_| {
                let (first, second, start) = (draw(5) as u32, 5 + draw(30) as u32, draw(1000) as i64);
                claim(first, second, start, start + 1 + draw(100) as i64)
            })
            .collect();
        let served = serve(&claims, [Some(2), Some(1)], 0);
        for now in 0..1100 {
            let mut used = [0u32; 35];
            for (claim, from) in claims.iter().zip(&served) {
                if from.is_some_and(|from| from <= now && now < claim.window.end) {
                    claim.ends.iter().for_each(|end| used[*end as usize] += 1);
                }
            }
            assert!(used[..5].iter().all(|n| *n <= 2) && used[5..].iter().all(|n| *n <= 1), "{now}");
            for (claim, from) in claims.iter().zip(&served) {
                let in_sight = claim.window.start <= now && now < claim.window.end;
                if in_sight && from.is_none_or(|from| from > now) {
                    let [first, second] = claim.ends.map(|end| used[end as usize]);
                    assert!(first == 2 || second == 1, "{now}: {claim:?} could be served");
                }
            }
        }
    }
}
