//! Zero-work relays of a run: at the start of each retention phase, bundles pass a program that only copies them, at
//! the place of each relay in turn.

use crate::driver::Program;
use crate::probes::retention::{RetentionSetup, WatchedRelay};
use crate::probes::zero_work::{FIRST_SEQUENCE, PORT, ZeroWork, ZeroWorkPart};
use anyhow::Result;
use farlink_scenario::{LinkEnd, Medium, Scenario, TrafficKind};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Greatest and least number of bundles of one measurement.
const BUNDLES: u64 = 200;
pub const BUNDLES_LEAST: u64 = 30;
/// Shortest time between two bundles.
const PACE: Duration = Duration::from_millis(2);
/// Bundles use at most this fraction of the slowest link's rate: a tenth.
const RATE_PART: u64 = 10;
/// Bounds of the bundles' payload, in bytes. Within them it has the length of the payloads of the scenario's first
/// traffic flow. With larger bundles over TCP, the time would be mostly that of TCP.
const PAYLOAD_MIN: u64 = 64;
const PAYLOAD_MAX: u64 = 16_000;
/// Bytes of headers, of bundle and packet together, in an IP packet over UDP.
const HEADERS: u64 = 150;
/// Time by which relay and sink start before the source.
const HEAD_START: Duration = Duration::from_millis(300);
/// Time for the last bundles to pass after the source has ended, in addition to the round trips.
const DRAIN: Duration = Duration::from_millis(200);
/// Maximum number of measurements in a phase.
const MEASUREMENTS_MAX: usize = 32;
/// Number of programs of a measurement: sink, relay and source.
const PROGRAMS: u32 = 3;
/// Multiple of the planned time after which a measurement is abandoned.
const PATIENCE: u32 = 5;

/// Program to start: its number, its node, its name, and its command.
pub type ZeroWorkStart = (u32, usize, String, Program);

/// Action that the session takes for zero-work relays.
#[derive(Clone, PartialEq, Debug)]
pub enum ZeroWorkStep {
    /// Start programs.
    Start(Vec<ZeroWorkStart>),
    /// End the programs with these numbers.
    End(std::ops::Range<u32>),
}

/// Measurement that has ended, or for which there was no time left in its phase.
#[derive(Clone, PartialEq, Debug)]
pub struct ZeroWorkRecord {
    /// Name of the phase.
    pub phase: String,
    /// Index of the relay in the probe's setup.
    pub relay: usize,
    /// Whether the bundles passed over TCP; otherwise they passed over UDP.
    pub stream: bool,
    /// Time of the measurement, since the start of the run; empty if there was no time for it.
    pub span: std::ops::Range<Duration>,
}

/// Planned measurement of one relay over one transport.
#[derive(Debug)]
struct Measurement {
    record: ZeroWorkRecord,
    /// Programs that receive, to be started first: the sink, then the relay.
    receivers: Vec<ZeroWorkStart>,
    source: ZeroWorkStart,
    /// Longest time for which the source may send.
    patience: Duration,
    drain: Duration,
    /// Latest end, since the start of the run: the end of the phase, since bundles after it would disturb the next.
    ends: Duration,
}

/// Progress of a measurement. Each stage waits for the programs, which start late on a busy machine.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Sink and relay open their sockets; the source starts at this time.
    Opening(Duration),
    /// The source sends, until this time at the latest.
    Sending(Duration),
    /// The last bundles pass; the programs are ended at this time.
    Draining(Duration),
}

/// Measurements of a run: those to come, the one in progress, and those that ended.
#[derive(Debug, Default)]
pub struct ZeroWorks {
    planned: VecDeque<Measurement>,
    current: Option<(Measurement, Stage)>,
    count: u32,
    /// Measurements that ended, in order of time.
    pub records: Vec<ZeroWorkRecord>,
}

impl ZeroWorks {
    /// Plans the measurements of a phase that begins now. Returns the names of relays for which there is no time in the
    /// phase.
    pub fn begin(
        &mut self,
        scenario: &Scenario,
        setup: &RetentionSetup,
        phase: usize,
        now: Duration,
        program: &Path,
    ) -> Result<Vec<String>> {
        let mut wanted = Vec::new();
        for (number, relay) in setup.relays.iter().enumerate() {
            let has = |medium| relay.links.iter().any(|(link, _)| scenario.links[*link].layer.kind.medium == medium);
            let media = [(Medium::Streams, true), (Medium::Datagrams, false)];
            wanted.extend(media.into_iter().filter(|(medium, _)| has(*medium)).map(|(_, stream)| (number, stream)));
        }
        // Half of the phase is left to its traffic.
        let phase = &scenario.phases[phase];
        let count = wanted.len().clamp(1, MEASUREMENTS_MAX) as u32;
        let ends = phase.duration.map_or(scenario.duration, |duration| now.saturating_add(duration));
        let most = ends.saturating_sub(now) / 2 / count;
        let mut left = Vec::new();
        for (place, (number, stream)) in wanted.into_iter().enumerate() {
            let relay = &setup.relays[number];
            let chain = RelayChain::new(scenario, relay, stream);
            let bundles = chain.bundles_within(most).filter(|_| place < MEASUREMENTS_MAX);
            let Some(bundles) = bundles else {
                left.push(relay.name.clone());
                continue;
            };
            let record = ZeroWorkRecord { phase: phase.name.clone(), relay: number, stream, span: now..now };
            let planned = self.plan(&chain, relay, bundles, (record, ends), program)?;
            self.planned.push_back(planned);
        }
        left.dedup();
        Ok(left)
    }

    fn plan(
        &mut self,
        chain: &RelayChain,
        relay: &WatchedRelay,
        count: u64,
        (record, ends): (ZeroWorkRecord, Duration),
        program: &Path,
    ) -> Result<Measurement> {
        let number = self.count;
        self.count += 1;
        let [[near, own], [_, far]] = chain.ends;
        let address = |end: LinkEnd| SocketAddr::from((end.address, PORT));
        let (at, to) = (address(own), address(far));
        let start = |place: u32, part, node: usize, word: &str| -> Result<ZeroWorkStart> {
            let work = ZeroWork {
                part,
                stream: chain.stream,
                payload: chain.payload,
                count,
                pace_us: u64::try_from(chain.pace.as_micros()).unwrap_or(u64::MAX),
                // No identity may repeat: the probe would ignore such a bundle as a repetition.
                sequence: FIRST_SEQUENCE + u64::from(number) * BUNDLES,
            };
            let command = std::iter::once(program.display().to_string()).chain(work.arguments()?).collect();
            let name = format!("zero-work-{}-{number}-{word}", relay.name);
            Ok((number * PROGRAMS + place, node, name, Program { command, ..Program::default() }))
        };
        Ok(Measurement {
            record,
            receivers: vec![
                start(0, ZeroWorkPart::Sink { at: to }, far.node, "sink")?,
                start(1, ZeroWorkPart::Relay { at, to }, own.node, "relay")?,
            ],
            source: start(2, ZeroWorkPart::Source { to: at }, near.node, "source")?,
            patience: (chain.overhead() + chain.pace * count as u32) * PATIENCE,
            drain: DRAIN + chain.round_trips,
            ends,
        })
    }

    /// Number of the source that is sending; `None` if no source sends.
    pub fn source(&self) -> Option<u32> {
        let (measurement, stage) = self.current.as_ref()?;
        matches!(stage, Stage::Sending(_)).then_some(measurement.source.0)
    }

    /// Next step that is due, if any. `sent` is whether the source has ended.
    pub fn due(&mut self, elapsed: Duration, sent: bool) -> Option<ZeroWorkStep> {
        let Some((measurement, stage)) = &mut self.current else {
            let mut next = self.planned.pop_front()?;
            if elapsed >= next.ends {
                self.records.push(next.record);
                return None;
            }
            next.record.span = elapsed..elapsed;
            let receivers = next.receivers.clone();
            self.current = Some((next, Stage::Opening(elapsed + HEAD_START)));
            return Some(ZeroWorkStep::Start(receivers));
        };
        match *stage {
            Stage::Opening(until) if elapsed >= until => {
                *stage = Stage::Sending(elapsed + measurement.patience);
                Some(ZeroWorkStep::Start(vec![measurement.source.clone()]))
            }
            Stage::Sending(latest) if sent || elapsed >= latest.min(measurement.ends) => {
                *stage = Stage::Draining(elapsed + measurement.drain);
                None
            }
            Stage::Draining(until) if elapsed >= until => {
                let (mut measurement, _) = self.current.take()?;
                measurement.record.span.end = elapsed.min(measurement.ends);
                self.records.push(measurement.record);
                let last = measurement.source.0;
                Some(ZeroWorkStep::End(last + 1 - PROGRAMS..last + 1))
            }
            _ => None,
        }
    }

    /// Whether all measurements planned so far have ended.
    pub fn is_over(&self) -> bool {
        self.planned.is_empty() && self.current.is_none()
    }
}

/// Relay and two neighbours, joined by the relay's first two links, as a zero-work measurement uses them.
struct RelayChain {
    /// Ends of both links, in the direction of the bundles.
    ends: [[LinkEnd; 2]; 2],
    stream: bool,
    payload: u64,
    pace: Duration,
    round_trips: Duration,
}

impl RelayChain {
    fn new(scenario: &Scenario, relay: &WatchedRelay, stream: bool) -> RelayChain {
        let links = [relay.links[0], relay.links[1]];
        let ends = [0, 1].map(|place| {
            let (link, forward_leads) = links[place];
            let [first, second] = scenario.ends(link);
            // Bundles come over the first link and leave over the second.
            if forward_leads == (place == 0) { [first, second] } else { [second, first] }
        });
        let both = links.map(|(link, _)| &scenario.links[link]);
        let round_trips = both.iter().map(|link| link.forward.longest_delay() + link.reverse.longest_delay()).sum();
        let payload = match scenario.traffic.first().map(|traffic| &traffic.kind) {
            Some(TrafficKind::File { bundle_size, .. }) => bundle_size.bytes(),
            Some(TrafficKind::Bundles { size, .. }) => size.max.bytes(),
            Some(TrafficKind::Ping { size, .. }) => size.bytes(),
            None => PAYLOAD_MIN,
        };
        let mtu = both.iter().map(|link| u64::from(link.mtu_bytes)).min().unwrap_or(0);
        let most = if stream { PAYLOAD_MAX } else { mtu.saturating_sub(HEADERS) };
        let payload = payload.clamp(PAYLOAD_MIN, most.max(PAYLOAD_MIN));
        let rates =
            both.iter().flat_map(|link| [&link.forward, &link.reverse]).filter_map(farlink_scenario::first_rate);
        let rate = rates.map(|rate| rate.bits_per_second()).min().unwrap_or(u64::MAX).max(1);
        let bits = (payload + HEADERS) * 8 * RATE_PART;
        let pace = PACE.max(Duration::from_secs_f64(bits as f64 / rate as f64));
        RelayChain { ends, stream, payload, pace, round_trips }
    }

    /// Time of a measurement in addition to the pauses between bundles, with a round trip to drain, and over TCP two
    /// round trips to connect.
    fn overhead(&self) -> Duration {
        HEAD_START + DRAIN + self.round_trips * if self.stream { 3 } else { 1 }
    }

    /// Number of bundles that fit into `most`, at most [`BUNDLES`]; `None` if fewer than [`BUNDLES_LEAST`] fit.
    fn bundles_within(&self, most: Duration) -> Option<u64> {
        let sends = most.saturating_sub(self.overhead());
        let bundles = u64::try_from(sends.as_nanos() / self.pace.as_nanos().max(1)).unwrap_or(u64::MAX).min(BUNDLES);
        (bundles >= BUNDLES_LEAST).then_some(bundles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(layers: [&str; 2], phase: &str) -> Scenario {
        scenario_at("10 Mbit/s", layers, phase)
    }
    fn scenario_at(rate: &str, layers: [&str; 2], phase: &str) -> Scenario {
        let node = |name: &str, number| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{number}.0\"\n");
        let link = |name: &str, a: &str, b: &str, layer: &str| {
            format!(
                "[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\nlayer = \"{layer}\"\nrate = \"{rate}\"\n\
                 delay = \"10 ms\"\n"
            )
        };
        let text = [
            "name = \"s\"\nduration = \"100 s\"\n".to_string(),
            node("a", 1) + &node("b", 2) + &node("c", 3),
            link("near", "a", "b", layers[0]) + &link("far", "c", "b", layers[1]),
            format!("[[phase]]\nname = \"relay\"\nkind = \"retention\"\n{phase}\n"),
        ]
        .concat();
        Scenario::parse(&text).unwrap()
    }

    /// Plays a phase in tenths of a second with a source that takes half a second. Returns the steps, the measurements,
    /// and the relays that were left out.
    fn steps(scenario: &Scenario) -> (Vec<String>, ZeroWorks, Vec<String>) {
        let (mut works, mut seen, mut sends) = (ZeroWorks::default(), Vec::new(), 0);
        let setup = RetentionSetup::of(scenario);
        let left = works.begin(scenario, &setup, 0, Duration::ZERO, Path::new("farlink")).unwrap();
        for tenth in 0..100 {
            sends = if works.source().is_some() { sends + 1 } else { 0 };
            match works.due(Duration::from_millis(tenth * 100), sends > 5) {
                Some(ZeroWorkStep::Start(programs)) => {
                    seen.extend(programs.iter().map(|(number, node, name, _)| format!("{number} at {node}: {name}")));
                }
                Some(ZeroWorkStep::End(numbers)) => seen.push(format!("end {numbers:?}")),
                None => {}
            }
        }
        (seen, works, left)
    }

    #[test]
    fn each_transport_of_a_relay_has_its_turn() {
        let (seen, works, left) = steps(&scenario(["tcpclv4", "ltp"], "duration = \"20 s\""));
        assert_eq!(
            seen[..3],
            ["0 at 2: zero-work-b-0-sink", "1 at 1: zero-work-b-0-relay", "2 at 0: zero-work-b-0-source"]
        );
        assert_eq!((&seen[3][..], &seen[7][..], seen.len()), ("end 0..3", "end 3..6", 8));
        let records: Vec<_> = works.records.iter().map(|record| (record.relay, record.stream)).collect();
        assert_eq!((records, left.len(), works.is_over()), (vec![(0, true), (0, false)], 0, true));
        let [first, second] = [0, 1].map(|place: usize| works.records[place].span.clone());
        assert!(first.end - first.start > Duration::from_millis(900) && second.start >= first.end, "{first:?}");
        let (seen, ..) = steps(&scenario(["ltp", "ltp"], ""));
        assert_eq!(seen.len(), 4, "UDP only");
    }

    #[test]
    fn short_phase_leaves_relay_out() {
        let (seen, _, left) = steps(&scenario(["tcpclv4", "ltp"], "duration = \"1 s\""));
        assert_eq!((seen.len(), left), (0, vec!["b".to_string()]));
    }

    #[test]
    fn measurement_ends_with_its_phase() {
        let scenario = scenario(["tcpclv4", "ltp"], "duration = \"4 s\"");
        let (mut works, setup) = (ZeroWorks::default(), RetentionSetup::of(&scenario));
        works.begin(&scenario, &setup, 0, Duration::from_secs(1), Path::new("farlink")).unwrap();
        // The source never ends, as `sent` is false at every call.
        let steps = (10..200).filter_map(|tenth| works.due(Duration::from_millis(tenth * 100), false)).count();
        assert_eq!((steps, works.is_over()), (3, true), "the second relay has no time left");
        let spans: Vec<_> = works.records.iter().map(|record| record.span.clone()).collect();
        assert_eq!(spans[0], Duration::from_secs(1)..Duration::from_secs(5));
        assert!(spans[1].is_empty());
    }

    #[test]
    fn slow_link_has_no_time_in_endless_phase() {
        let (seen, _, left) = steps(&scenario_at("5 kbit/s", ["tcpclv4", "tcpclv4"], ""));
        assert_eq!((seen.len(), left), (0, vec!["b".to_string()]));
    }
}
