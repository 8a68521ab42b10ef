//! Order in which the bundles of a run were delivered.

use crate::column::Text;
use crate::schema::BundleRow;
use std::collections::BTreeMap;

/// Identity of a bundle across runs of a scenario: source, service, and the number of earlier bundles from that source
/// and service. Creation times differ between the worlds, so they identify no bundle.
pub type BundleOrdinal = (Text, u64, u32);

/// Bundles delivered, in order of first delivery.
pub fn delivery_order(bundles: &[BundleRow]) -> Vec<BundleOrdinal> {
    let mut rows: Vec<&BundleRow> = bundles.iter().collect();
    // Creation order within one source and service gives each bundle the same index in every run.
    rows.sort_by_key(|row| (row.created_ns, row.creation_ms, row.sequence));
    let mut sent: BTreeMap<(&Text, u64), u32> = BTreeMap::new();
    let mut delivered: Vec<(u64, BundleOrdinal)> = Vec::new();
    for row in rows {
        let count = sent.entry((&row.source, row.service)).or_default();
        delivered.extend(row.delivered_ns.map(|at| (at, (row.source.clone(), row.service, *count))));
        *count += 1;
    }
    // Equal times are ordered by identity, so that both runs break ties alike.
    delivered.sort();
    delivered.into_iter().map(|(_, place)| place).collect()
}

/// Kendall-style agreement of two delivery orders: fraction of the pairs of bundles delivered in both runs that were
/// delivered in the same order, 0 to 1. Absent when there is no such pair.
pub fn same_order(one: &[BundleOrdinal], other: &[BundleOrdinal]) -> Option<f64> {
    let rank: BTreeMap<&BundleOrdinal, usize> = one.iter().zip(0..).collect();
    let mut ranks: Vec<usize> = other.iter().filter_map(|place| rank.get(place).copied()).collect();
    let count = ranks.len() as f64;
    // Each inversion is one pair in opposite order.
    let pairs = count * (count - 1.0) / 2.0;
    (ranks.len() > 1).then(|| 1.0 - inversions(&mut ranks) as f64 / pairs)
}

/// Counts the pairs in wrong order while sorting the slice (merge sort).
fn inversions(ranks: &mut [usize]) -> u64 {
    if ranks.len() < 2 {
        return 0;
    }
    let (left, right) = ranks.split_at_mut(ranks.len() / 2);
    let mut found = inversions(left) + inversions(right);
    let (mut l, mut r) = (left.iter().peekable(), right.iter().peekable());
    let mut merged = Vec::with_capacity(left.len() + right.len());
    loop {
        match (l.peek(), r.peek()) {
            (Some(a), Some(b)) if a > b => {
                // Every element left in the left half exceeds this one.
                found += l.len() as u64;
                merged.extend(r.next());
            }
            (Some(_), _) => merged.extend(l.next()),
            (None, Some(_)) => merged.extend(r.next()),
            (None, None) => break,
        }
    }
    ranks.copy_from_slice(&merged);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Statistics;
    use crate::statistics::tests::bundle;

    #[test]
    fn delivery_order_is_compared_by_pairs() {
        let run = |times: [f64; 4]| {
            let rows =
                times.iter().zip(0..).map(|(at, sequence)| bundle(sequence, 1, sequence as f64, Some(10.0 + at)));
            Statistics::of(&rows.collect::<Vec<_>>(), &[]).order
        };
        let (straight, swapped, reverse) =
            (run([1.0, 2.0, 3.0, 4.0]), run([2.0, 1.0, 3.0, 4.0]), run([4.0, 3.0, 2.0, 1.0]));
        assert_eq!(same_order(&straight, &straight), Some(1.0));
        assert_eq!(same_order(&straight, &swapped), Some(5.0 / 6.0), "one of six pairs");
        assert_eq!(same_order(&straight, &reverse), Some(0.0));
        assert_eq!(same_order(&straight[..1], &straight), None, "no pair");
        assert_eq!(same_order(&straight[..2], &swapped), Some(0.0), "bundles delivered in both runs");
    }
}
