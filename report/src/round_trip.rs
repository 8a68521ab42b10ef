//! Round trips of pings.

use crate::column::Text;
use crate::manifest::RunWorld;
use crate::run::RunReader;
use crate::schema::{BundleRow, ROUND_TRIP_S};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Round trip of one answered ping.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RoundTrip {
    /// Time of the request, in nanoseconds from the start of the run.
    pub sent_ns: u64,
    /// Time until the answer, in seconds.
    pub seconds: f64,
}

/// Source with its service, and destination with its service.
type Endpoints<'a> = (&'a Text, u64, &'a Text, u64);

impl RoundTrip {
    /// Reads the round trips of a run. Nodes whose pinging application measured them have samples; for other nodes they
    /// follow from the bundles.
    ///
    /// # Errors
    /// When the samples cannot be read.
    pub fn read(run: &RunReader, bundles: &[BundleRow]) -> Result<Vec<RoundTrip>> {
        let (mut found, mut stamped) = (Vec::new(), BTreeSet::new());
        // Only real applications measure round trips themselves.
        if run.manifest().world != RunWorld::Sim {
            run.samples(&mut |row| {
                if &*row.metric == ROUND_TRIP_S {
                    let took_ns = (row.value.max(0.0) * 1e9) as u64;
                    found.push(RoundTrip { sent_ns: row.time_ns.saturating_sub(took_ns), seconds: row.value });
                    stamped.extend(row.node);
                }
                Ok(())
            })?;
        }
        found.extend(RoundTrip::pairs_of_others(bundles, &stamped));
        found.sort_by_key(|trip| trip.sent_ns);
        Ok(found)
    }

    /// Pairs requests with their answers: bundles of one traffic flow with exchanged endpoints. Echo services answer in
    /// the order in which requests reach them.
    pub fn pairs(bundles: &[BundleRow]) -> Vec<RoundTrip> {
        RoundTrip::pairs_of_others(bundles, &BTreeSet::new())
    }

    /// As [`RoundTrip::pairs`], without pings of the nodes `stamped`, whose applications measured their round trips.
    fn pairs_of_others(bundles: &[BundleRow], stamped: &BTreeSet<Text>) -> Vec<RoundTrip> {
        let mut flows: BTreeMap<&Text, Vec<&BundleRow>> = BTreeMap::new();
        for bundle in bundles {
            if let Some(flow) = &bundle.traffic {
                flows.entry(flow).or_default().push(bundle);
            }
        }
        let mut found: Vec<RoundTrip> = flows.into_values().flat_map(|flow| pairs_of_flow(flow, stamped)).collect();
        found.sort_by_key(|trip| trip.sent_ns);
        found
    }
}

fn endpoints(bundle: &BundleRow) -> Endpoints<'_> {
    (&bundle.source, bundle.service, &bundle.destination, bundle.destination_service)
}

fn pairs_of_flow(mut bundles: Vec<&BundleRow>, stamped: &BTreeSet<Text>) -> Vec<RoundTrip> {
    bundles.sort_by_key(|bundle| (bundle.created_ns, bundle.creation_ms, bundle.sequence));
    // A request precedes its answer, so the first bundle between two endpoints is one.
    let mut requests: BTreeMap<Endpoints<'_>, Vec<&BundleRow>> = BTreeMap::new();
    let mut answers: Vec<(Endpoints<'_>, &BundleRow)> = Vec::new();
    for bundle in bundles {
        let (source, service, destination, destination_service) = endpoints(bundle);
        let asked = (destination, destination_service, source, service);
        if requests.contains_key(&asked) {
            answers.push((asked, bundle));
        } else {
            requests.entry(endpoints(bundle)).or_default().push(bundle);
        }
    }
    let mut reached: BTreeMap<Endpoints<'_>, VecDeque<(u64, u64)>> = BTreeMap::new();
    for (ends, asked) in requests.into_iter().filter(|(ends, _)| !stamped.contains(ends.0)) {
        let mut times: Vec<_> = asked.iter().filter_map(|b| Some((b.delivered_ns?, b.created_ns))).collect();
        times.sort_unstable();
        reached.insert(ends, times.into());
    }
    let mut found = Vec::new();
    for (asked, answer) in answers {
        let Some(waiting) = reached.get_mut(&asked) else { continue };
        // A second answer to a request is created before the next request arrives, so it is paired with none.
        let Some((_, sent_ns)) = waiting.pop_front_if(|(at, _)| *at <= answer.created_ns) else { continue };
        if let Some(back) = answer.delivered_ns {
            found.push(RoundTrip { sent_ns, seconds: back.saturating_sub(sent_ns) as f64 / 1e9 });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::bundle;

    /// A request or an answer, created and delivered at these times in s.
    fn ping(sequence: u64, answers: bool, created_s: f64, delivered_s: Option<f64>) -> BundleRow {
        let row = bundle(sequence, 8, created_s, delivered_s);
        if answers {
            let (source, destination) = (row.destination.clone(), row.source.clone());
            return BundleRow { source, service: 2, destination, destination_service: 1, ..row };
        }
        row
    }

    fn seconds(bundles: &[BundleRow]) -> Vec<(u64, f64)> {
        RoundTrip::pairs(bundles).iter().map(|trip| (trip.sent_ns / 1_000_000_000, trip.seconds)).collect()
    }

    #[test]
    fn answers_are_paired_in_order() {
        let found = seconds(&[
            ping(0, false, 1.0, Some(1.5)),
            ping(0, true, 1.5, Some(2.0)),
            ping(1, false, 2.0, Some(2.5)),
            ping(1, true, 2.5, Some(4.0)),
        ]);
        assert_eq!(found, [(1, 1.0), (2, 2.0)]);
    }

    #[test]
    fn lost_request_shifts_no_answer() {
        let found = seconds(&[
            ping(0, false, 1.0, None),
            ping(1, false, 2.0, Some(2.5)),
            ping(1, true, 2.5, None),
            ping(2, false, 3.0, Some(3.5)),
            ping(2, true, 3.5, Some(4.0)),
        ]);
        assert_eq!(found, [(3, 1.0)], "the second answer was lost");
    }

    #[test]
    fn repeated_answer_counts_once() {
        let found = seconds(&[
            ping(0, false, 1.0, Some(1.5)),
            ping(0, true, 1.5, Some(2.0)),
            ping(1, true, 1.6, Some(2.1)),
            ping(2, false, 3.0, Some(3.5)),
            ping(2, true, 3.5, Some(4.0)),
        ]);
        assert_eq!(found, [(1, 1.0), (3, 1.0)]);
    }

    #[test]
    fn stamps_replace_pairs_of_their_node() {
        let other = |row: BundleRow| BundleRow { traffic: Some("u".into()), source: "c".into(), ..row };
        let asked = other(ping(0, false, 5.0, Some(5.5)));
        let back = BundleRow { source: "b".into(), destination: "c".into(), ..other(ping(0, true, 5.5, Some(8.0))) };
        let bundles = [ping(0, false, 1.0, Some(1.5)), ping(0, true, 1.5, Some(2.0)), asked, back];
        let of = |stamped: &[&str]| {
            let stamped = stamped.iter().map(|node| (*node).into()).collect();
            RoundTrip::pairs_of_others(&bundles, &stamped).iter().map(|trip| trip.seconds).collect::<Vec<_>>()
        };
        assert_eq!((of(&[]), of(&["a"]), of(&["a", "c"])), (vec![1.0, 3.0], vec![3.0], vec![]));
    }

    #[test]
    fn plain_traffic_has_no_round_trips() {
        assert_eq!(seconds(&[bundle(0, 9, 1.0, Some(2.0)), bundle(1, 9, 2.0, Some(3.0))]), []);
    }
}
