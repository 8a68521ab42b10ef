//! Statistics of one run. Percentiles interpolate linearly, as pandas and NumPy do by default.

use crate::column::Text;
use crate::custody::CustodyUse;
use crate::format::Quantity;
use crate::order::{BundleOrdinal, delivery_order};
use crate::phase::{PhaseUse, RoleUse};
use crate::round_trip::RoundTrip;
use crate::run::RunReader;
use crate::schema::{BundleRow, LinkRow};
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;

/// Statistics of one run; the field names are those of `farlink run --json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Statistics {
    /// Number of bundles created by applications.
    pub created: u64,
    /// Number of bundles delivered at least once.
    pub delivered: u64,
    /// Number of bundles that the senders' own nodes did not accept; absent in the testbed, where nobody knows.
    pub refused: Option<u64>,
    /// Delivered bundles over those that applications wanted to send, created or refused, 0 to 1; absent when there were
    /// none.
    pub delivery_ratio: Option<f64>,
    /// Latency from creation to first delivery, in seconds; absent when nothing was delivered.
    pub latency_s: Option<Latency>,
    /// Goodput: delivered payload over the time from the first creation to the last delivery, in bit/s. Absent if that
    /// time is 0.
    pub goodput_bit_s: Option<f64>,
    /// Goodput by the receiver's stamps: payload delivered after the first delivery over the time from the first to the
    /// last delivery, in bit/s. Absent if that time is 0.
    pub goodput_received_bit_s: Option<f64>,
    /// Round-trip times of pings, in seconds; absent when none was answered.
    pub round_trip_s: Option<Latency>,
    /// Bytes sent on all links over payload bytes delivered: 4 hops without any overhead give 4. Absent without
    /// deliveries or links, and with plain flows, whose bytes the links count as well.
    pub overhead: Option<f64>,
    /// Copies of bundles that arrived at any node, destinations included.
    pub relayed: u64,
    /// Overhead ratio as The ONE defines it: arrivals that were no first delivery, over deliveries. Absent when nothing
    /// was delivered.
    pub overhead_ratio: Option<f64>,
    /// Mean number of arrivals of a delivered bundle at nodes, over all its copies, returns and repetitions: without any,
    /// its hops. Absent when nothing was delivered.
    pub hops_mean: Option<f64>,
    /// Payload bytes delivered, each bundle counted once.
    pub delivered_bytes: u64,
    /// Time of the last delivery, in seconds from the start of the run.
    pub last_delivery_s: Option<f64>,
    /// Number of bundles delivered more than once.
    pub redelivered: u64,
    /// Length of the run in seconds; simulated time in `sim`.
    pub duration_s: f64,
    /// Real time the run took, in seconds.
    pub wall_s: f64,
    /// Custody counters; absent if the run had no custody.
    pub custody: Option<CustodyUse>,
    /// Usage of each direction of each link.
    pub links: Vec<LinkUse>,
    /// Statistics of each traffic flow that created a bundle.
    pub traffic: Vec<FlowUse>,
    /// Phases of the scenario, with the bundles created in each.
    pub phases: Vec<PhaseUse>,
    /// Use of processors and memory, by node and role; empty in simulations.
    pub roles: Vec<RoleUse>,
    /// Bundles in order of their first delivery.
    #[serde(skip)]
    pub order: Vec<BundleOrdinal>,
}

/// Statistics of one traffic flow of the scenario.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowUse {
    /// Name of the traffic flow.
    pub traffic: String,
    /// Number of bundles created.
    pub created: u64,
    /// Number of bundles that the sender's own node did not accept; simulations only.
    pub refused: u64,
    /// Number of bundles delivered at least once.
    pub delivered: u64,
    /// Latency from creation to first delivery, in seconds; absent when nothing was delivered.
    pub latency_s: Option<Latency>,
    /// Goodput: delivered payload over the time from the first creation to the last delivery, in bit/s.
    pub goodput_bit_s: Option<f64>,
    /// Time of the last delivery, in seconds from the start of the run.
    pub last_delivery_s: Option<f64>,
}

impl FlowUse {
    /// A flow of which the sender's node accepted nothing.
    fn refused(traffic: &str, refused: u64) -> FlowUse {
        FlowUse {
            traffic: traffic.into(),
            created: 0,
            refused,
            delivered: 0,
            latency_s: None,
            goodput_bit_s: None,
            last_delivery_s: None,
        }
    }
    /// Computes the statistics of each flow, in order of the flows' first bundles.
    fn all(bundles: &[BundleRow]) -> Vec<FlowUse> {
        let mut places: BTreeMap<&Text, usize> = BTreeMap::new();
        let mut flows: Vec<(&Text, Vec<&BundleRow>)> = Vec::new();
        for bundle in bundles {
            let Some(name) = &bundle.traffic else { continue };
            // Bundles are sorted by creation, so flows keep the order of their first bundle.
            let place = *places.entry(name).or_insert(flows.len());
            if place == flows.len() {
                flows.push((name, Vec::new()));
            }
            flows[place].1.push(bundle);
        }
        let flow = |(name, mine): (&Text, Vec<&BundleRow>)| {
            let numbers = BundleNumbers::of(&mine);
            FlowUse {
                traffic: name.to_string(),
                created: mine.len() as u64,
                refused: 0,
                delivered: numbers.delivered,
                latency_s: numbers.latency_s,
                goodput_bit_s: numbers.goodput_bit_s,
                last_delivery_s: numbers.last_delivery_s,
            }
        };
        flows.into_iter().map(flow).collect()
    }
}

/// Statistics common to a run and to a traffic flow.
pub(crate) struct BundleNumbers {
    pub delivered: u64,
    delivered_bytes: u64,
    pub latency_s: Option<Latency>,
    pub goodput_bit_s: Option<f64>,
    pub goodput_received_bit_s: Option<f64>,
    last_delivery_s: Option<f64>,
}

impl BundleNumbers {
    pub fn of(bundles: &[&BundleRow]) -> BundleNumbers {
        let delivered = || bundles.iter().filter(|b| b.delivered_ns.is_some());
        let seconds = |ns: u64| ns as f64 / 1e9;
        let delivered_bytes: u64 = delivered().map(|b| b.payload).sum();
        let first_created = bundles.iter().map(|b| b.created_ns).min();
        let last_delivered = delivered().filter_map(|b| b.delivered_ns).max();
        let span = first_created.zip(last_delivered).map(|(first, last)| seconds(last.saturating_sub(first)));
        BundleNumbers {
            delivered: delivered().count() as u64,
            delivered_bytes,
            latency_s: Latency::of(delivered().filter_map(|b| b.latency_ns).map(seconds).collect()),
            // A single instantaneous delivery spans no time and has no goodput.
            goodput_bit_s: span.filter(|span| *span > 0.0).map(|span| delivered_bytes as f64 * 8.0 / span),
            goodput_received_bit_s: received_bit_s(bundles),
            last_delivery_s: last_delivered.map(seconds),
        }
    }
}

/// Payload after the first delivery over the time from the first delivery to the last, in bit/s.
fn received_bit_s(bundles: &[&BundleRow]) -> Option<f64> {
    let deliveries = || bundles.iter().filter_map(|b| Some((b.delivered_ns?, b.payload)));
    let (first, first_payload) = deliveries().min()?;
    let (last, _) = deliveries().max()?;
    let payload = deliveries().map(|(_, payload)| payload).sum::<u64>() - first_payload;
    (last > first).then(|| payload as f64 * 8e9 / (last - first) as f64)
}

/// Latency distribution of delivered bundles, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Latency {
    /// Smallest latency.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median: 50th percentile.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// Largest latency.
    pub max: f64,
}

/// Usage of one direction of one link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkUse {
    /// Name of the link.
    pub link: String,
    /// Name of the sending node.
    pub from: String,
    /// Name of the receiving node.
    pub to: String,
    /// Bytes sent, headers and link overhead included.
    pub sent_bytes: u64,
    /// Packets sent, lost ones included.
    pub sent_packets: u64,
    /// Fraction of packets lost, 0 to 1; absent when nothing was sent.
    pub loss: Option<f64>,
    /// Time spent transmitting over the time the link was up, 0 to 1; absent when it was never up.
    pub utilisation: Option<f64>,
}

/// Quantile `q` of sorted values, interpolated linearly; `None` for an empty list.
pub fn percentile(sorted: &[f64], q: f64) -> Option<f64> {
    let place = (sorted.len().checked_sub(1)? as f64) * q.clamp(0.0, 1.0);
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

impl Latency {
    /// Computes the distribution of latencies in seconds, given in any order; `None` without any.
    pub fn of(mut latencies: Vec<f64>) -> Option<Latency> {
        latencies.sort_by(f64::total_cmp);
        let at = |q| percentile(&latencies, q);
        Some(Latency {
            min: at(0.0)?,
            mean: latencies.iter().sum::<f64>() / latencies.len() as f64,
            p50: at(0.5)?,
            p90: at(0.9)?,
            p95: at(0.95)?,
            p99: at(0.99)?,
            max: at(1.0)?,
        })
    }
}

impl LinkUse {
    fn of(row: &LinkRow) -> LinkUse {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        LinkUse {
            link: row.link.to_string(),
            from: row.from_node.to_string(),
            to: row.to_node.to_string(),
            sent_bytes: row.sent_bytes,
            sent_packets: row.sent_packets,
            loss: share(row.dropped_packets(), row.sent_packets),
            utilisation: share(row.busy_ns, row.up_ns),
        }
    }
}

impl Statistics {
    /// Describes the overhead: `3.16 bytes on links per byte delivered, over 3 hops`; where no bytes were counted, `588
    /// extra transfers per delivery`.
    pub fn overhead_text(&self) -> Option<String> {
        let ratio = |value: f64| Quantity::Ratio.text(value);
        if self.overhead.is_none() {
            return Some(format!("{} extra transfers per delivery", ratio(self.overhead_ratio?)));
        }
        // Copies, returns and repetitions count, too: then it is no length of a path.
        let hops = match self.hops_mean {
            Some(1.0) => ", over 1 hop".to_string(),
            Some(hops) if hops.fract() == 0.0 => format!(", over {} hops", ratio(hops)),
            Some(hops) => format!(", {} arrivals at nodes per bundle", ratio(hops)),
            None => String::new(),
        };
        Some(format!("{} bytes on links per byte delivered{hops}", ratio(self.overhead?)))
    }

    /// Reads a run and computes its statistics.
    pub fn read(run: &RunReader) -> Result<Statistics> {
        let bundles = run.bundles()?;
        let round_trips = RoundTrip::read(run, &bundles)?;
        Statistics::with(run, &bundles, &round_trips)
    }

    /// Computes the statistics of a run whose bundles and round trips were read before.
    ///
    /// # Errors
    /// When another table cannot be read.
    pub fn with(run: &RunReader, bundles: &[BundleRow], round_trips: &[RoundTrip]) -> Result<Statistics> {
        let manifest = run.manifest();
        let mut statistics = Statistics::of(bundles, &run.links()?);
        statistics.round_trip_s = Latency::of(round_trips.iter().map(|trip| trip.seconds).collect());
        statistics.phases = PhaseUse::all(&manifest.phases, bundles, round_trips);
        statistics.roles = manifest.roles.clone();
        statistics.duration_s = manifest.duration_s;
        statistics.wall_s = manifest.wall_s;
        statistics.custody = manifest.custody;
        if !manifest.flows.is_empty() {
            // Links count the bytes of plain flows, too.
            statistics.overhead = None;
        }
        for facts in &manifest.topology.traffic {
            let Some(offered) = facts.offered else { continue };
            let own = |bundle: &&BundleRow| bundle.traffic.as_deref() == Some(&facts.name) && !facts.is_answer(bundle);
            statistics.refuse(&facts.name, offered.saturating_sub(bundles.iter().filter(own).count() as u64));
        }
        Ok(statistics)
    }

    /// Number of bundles that applications wanted to send.
    pub fn wanted(&self) -> u64 {
        self.created + self.refused.unwrap_or(0)
    }

    /// Adds bundles of a traffic flow that the sender's own node did not accept, if any.
    fn refuse(&mut self, traffic: &str, refused: u64) {
        *self.refused.get_or_insert(0) += refused;
        if refused == 0 {
            return;
        }
        self.delivery_ratio = Some(self.delivered as f64 / self.wanted() as f64);
        match self.traffic.iter_mut().find(|flow| flow.traffic == traffic) {
            Some(flow) => flow.refused += refused,
            None => self.traffic.push(FlowUse::refused(traffic, refused)),
        }
    }

    /// Computes statistics from bundles and links. Facts that only a manifest holds stay 0 or absent.
    pub fn of(bundles: &[BundleRow], links: &[LinkRow]) -> Statistics {
        let numbers = BundleNumbers::of(&bundles.iter().collect::<Vec<_>>());
        let (delivered, delivered_bytes) = (numbers.delivered, numbers.delivered_bytes);
        let sent_bytes: u64 = links.iter().map(|l| l.sent_bytes).sum();
        let relayed: u64 = bundles.iter().map(|b| b.hops).sum();
        let hops: u64 = bundles.iter().filter(|b| b.delivered_ns.is_some()).map(|b| b.hops).sum();
        // Applications of other implementations know nothing of hops, which are then all 0.
        let travelled = bundles.iter().any(|b| b.delivered_ns.is_some() && b.source != b.destination);
        let hops_known = delivered > 0 && (relayed > 0 || !travelled);
        Statistics {
            created: bundles.len() as u64,
            delivered,
            refused: None,
            delivery_ratio: (!bundles.is_empty()).then(|| delivered as f64 / bundles.len() as f64),
            latency_s: numbers.latency_s,
            goodput_bit_s: numbers.goodput_bit_s,
            goodput_received_bit_s: numbers.goodput_received_bit_s,
            round_trip_s: Latency::of(RoundTrip::pairs(bundles).iter().map(|trip| trip.seconds).collect()),
            // Without link counters the overhead is unknown, not zero.
            overhead: (delivered_bytes > 0 && !links.is_empty()).then(|| sent_bytes as f64 / delivered_bytes as f64),
            relayed,
            // Each first delivery is one of the arrivals, so it is subtracted.
            overhead_ratio: hops_known.then(|| relayed.saturating_sub(delivered) as f64 / delivered as f64),
            hops_mean: hops_known.then(|| hops as f64 / delivered as f64),
            delivered_bytes,
            last_delivery_s: numbers.last_delivery_s,
            redelivered: bundles.iter().filter(|b| b.deliveries > 1).count() as u64,
            duration_s: 0.0,
            wall_s: 0.0,
            custody: None,
            links: links.iter().map(LinkUse::of).collect(),
            traffic: FlowUse::all(bundles),
            phases: Vec::new(),
            roles: Vec::new(),
            order: delivery_order(bundles),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn bundle(sequence: u64, payload: u64, created_s: f64, delivered_s: Option<f64>) -> BundleRow {
        let ns = |s: f64| (s * 1e9).round() as u64;
        BundleRow {
            source: "a".into(),
            service: 1,
            creation_ms: 5,
            sequence,
            destination: "b".into(),
            destination_service: 2,
            payload,
            size: payload + 50,
            priority: "bulk".into(),
            created_ns: ns(created_s),
            delivered_ns: delivered_s.map(ns),
            latency_ns: delivered_s.map(|d| ns(d) - ns(created_s)),
            hops: 1,
            transmissions: 1,
            deliveries: u64::from(delivered_s.is_some()),
            deleted: None,
            traffic: Some("t".into()),
        }
    }

    pub fn link(sent: u64, bytes: u64, lost: u64, busy_s: u64, up_s: u64) -> LinkRow {
        LinkRow {
            sent_packets: sent,
            sent_bytes: bytes,
            dropped_loss: lost,
            busy_ns: busy_s * 1_000_000_000,
            up_ns: up_s * 1_000_000_000,
            ..LinkRow::new("l", "a", "b", &farlink_link::Statistics::default())
        }
    }

    #[test]
    fn percentiles_interpolate_as_numpy_does() {
        // numpy.percentile([1, 2, 3, 4], [50, 99, 0, 100]) == [2.5, 3.97, 1, 4]
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(percentile(&values, 0.5), Some(2.5));
        assert!((percentile(&values, 0.99).unwrap() - 3.97).abs() < 1e-12);
        assert_eq!((percentile(&values, 0.0), percentile(&values, 1.0)), (Some(1.0), Some(4.0)));
        assert_eq!((percentile(&[], 0.5), percentile(&[7.0], 0.3)), (None, Some(7.0)));
    }

    #[test]
    fn statistics_match_manual_computation() {
        // Four bundles of 1000 B, created at 0, 1, 2, 3 s; three delivered at 2, 4, 8 s: latencies
        // 2, 3, 6 s; goodput 3000 B in 8 s; 12,000 B on links.
        let bundles = [
            bundle(0, 1000, 0.0, Some(2.0)),
            bundle(1, 1000, 1.0, Some(4.0)),
            bundle(2, 1000, 2.0, Some(8.0)),
            bundle(3, 1000, 3.0, None),
        ];
        let s = Statistics::of(&bundles, &[link(100, 9000, 10, 3, 4), link(0, 3000, 0, 0, 0)]);
        assert_eq!((s.created, s.delivered, s.delivery_ratio), (4, 3, Some(0.75)));
        let latency = s.latency_s.unwrap();
        assert!((latency.mean - 11.0 / 3.0).abs() < 1e-12);
        assert_eq!((latency.min, latency.p50, latency.max), (2.0, 3.0, 6.0));
        assert!((latency.p99 - 5.94).abs() < 1e-12, "3 + 3 * 0.98");
        assert!((latency.p90 - 5.4).abs() < 1e-12, "3 + 3 * 0.8");
        assert_eq!(s.goodput_bit_s, Some(3000.0));
        assert_eq!(s.goodput_received_bit_s, Some(16_000.0 / 6.0), "two of the three, from 2 s to 8 s");
        assert_eq!(s.overhead, Some(4.0));
        assert_eq!(s.overhead_text().as_deref(), Some("4 bytes on links per byte delivered, over 1 hop"));
        assert_eq!(
            (s.relayed, s.overhead_ratio),
            (4, Some(1.0 / 3.0)),
            "a copy of the undelivered bundle reached one node"
        );
        let unmeasured = Statistics::of(&bundles, &[]);
        assert_eq!(unmeasured.overhead_text().as_deref(), Some("0.333 extra transfers per delivery"));
        assert_eq!((s.links[0].loss, s.links[0].utilisation), (Some(0.1), Some(0.75)));
        assert_eq!((s.links[1].loss, s.links[1].utilisation), (None, None));
        assert_eq!(s.last_delivery_s, Some(8.0));
    }

    #[test]
    fn each_traffic_has_its_own_numbers() {
        let of = |traffic: &str, bundle: BundleRow| BundleRow { traffic: Some(traffic.into()), ..bundle };
        let bundles = [
            of("slow", bundle(0, 1000, 0.0, Some(8.0))),
            of("fast", bundle(1, 500, 1.0, Some(1.5))),
            of("slow", bundle(2, 1000, 2.0, None)),
            BundleRow { traffic: None, ..bundle(3, 9, 3.0, Some(4.0)) },
        ];
        let s = Statistics::of(&bundles, &[]);
        let of = |f: &FlowUse| (f.traffic.clone(), f.created, f.delivered, f.goodput_bit_s, f.last_delivery_s);
        let flows: Vec<_> = s.traffic.iter().map(of).collect();
        let expected = [("slow".into(), 2, 1, Some(1000.0), Some(8.0)), ("fast".into(), 1, 1, Some(8000.0), Some(1.5))];
        assert_eq!(flows, expected);
        assert_eq!((s.traffic[1].latency_s.unwrap().mean, s.hops_mean), (0.5, Some(1.0)));
    }

    #[test]
    fn refused_bundles_count_as_wanted() {
        let mut named = bundle(1, 100, 0.0, Some(1.0));
        named.traffic = Some("m".into());
        let mut s = Statistics::of(&[named], &[]);
        s.refuse("m", 1);
        s.refuse("n", 2);
        assert_eq!((s.created, s.refused, s.wanted(), s.delivery_ratio), (1, Some(3), 4, Some(0.25)));
        let flows: Vec<_> = s.traffic.iter().map(|flow| (&*flow.traffic, flow.created, flow.refused)).collect();
        assert_eq!(flows, [("m", 1, 1), ("n", 0, 2)]);
    }

    #[test]
    fn an_empty_run_has_no_ratios() {
        let s = Statistics::of(&[], &[]);
        assert_eq!(s, Statistics::default());
        let json = serde_json::to_value(&s).unwrap();
        for key in [
            "created",
            "delivered",
            "delivery_ratio",
            "latency_s",
            "overhead",
            "overhead_ratio",
            "relayed",
            "goodput_bit_s",
            "wall_s",
        ] {
            assert!(json.get(key).is_some(), "{key} is promised to scripts");
        }
    }
}
