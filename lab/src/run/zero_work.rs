//! Zero-work relays of a run: at the start of each retention phase, beside each relay in turn, bundles pass a program that
//! only copies them.

use crate::driver::Program;
use crate::probes::retention::{RetentionSetup, WatchedRelay};
use crate::probes::zero_work::{FIRST_SEQUENCE, PORT, ZeroWork, ZeroWorkPart};
use anyhow::Result;
use farlink_scenario::{LinkEnd, Medium, Scenario, TrafficKind};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Bundles by which a relay is measured: as many as this, and at least so many.
const BUNDLES: u64 = 200;
const BUNDLES_LEAST: u64 = 30;
/// Shortest time between two bundles.
const PACE: Duration = Duration::from_millis(2);
/// Part of a link's rate that they take at most.
const RATE_PART: u64 = 10;
/// Payload of the bundles: that of the scenario's traffic within these bounds. Larger ones over TCP would measure TCP.
const PAYLOAD_MIN: u64 = 64;
const PAYLOAD_MAX: u64 = 16_000;
/// Bytes of an IP packet that are no payload of a bundle over UDP.
const HEADERS: u64 = 150;
/// By how much relay and sink start before the source.
const HEAD_START: Duration = Duration::from_millis(300);
/// Time left for what is still on its way, besides the round trip.
const DRAIN: Duration = Duration::from_millis(200);
/// Most measurements in a phase.
const MEASUREMENTS_MAX: usize = 32;
/// Number of programs of a measurement.
const PROGRAMS: u32 = 3;

/// Something to do for a zero-work relay.
#[derive(Clone, PartialEq, Debug)]
pub enum ZeroWorkStep {
    /// Start a program: its number, its node and its name.
    Start(u32, usize, String, Program),
    /// End the programs with these numbers.
    End(std::ops::Range<u32>),
}

/// A measurement that was planned.
#[derive(Clone, PartialEq, Debug)]
pub struct ZeroWorkRecord {
    /// Name of the phase.
    pub phase: String,
    /// Number of the relay in the probe's setup.
    pub relay: usize,
    /// Whether over TCP; else UDP.
    pub stream: bool,
    /// Its time, since the start of the run.
    pub span: std::ops::Range<Duration>,
}

/// The steps still to come, in order of time since the start of the run, and all measurements.
#[derive(Debug, Default)]
pub struct ZeroWorks {
    steps: VecDeque<(Duration, ZeroWorkStep)>,
    /// Measurements, in order of time.
    pub records: Vec<ZeroWorkRecord>,
}

impl ZeroWorks {
    /// Plans the measurements of a phase that begins now. Returns the names of relays for which there is no time.
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
        // Half of the phase belongs to its traffic.
        let phase = &scenario.phases[phase];
        let count = wanted.len().clamp(1, MEASUREMENTS_MAX) as u32;
        let most = phase.duration.map(|duration| duration / 2 / count);
        let (mut at, mut left) = (now, Vec::new());
        for (place, (number, stream)) in wanted.into_iter().enumerate() {
            let relay = &setup.relays[number];
            let chain = RelayChain::new(scenario, relay, stream);
            let bundles = chain.bundles_within(most).filter(|_| place < MEASUREMENTS_MAX);
            let Some(bundles) = bundles else {
                left.push(relay.name.clone());
                continue;
            };
            let span = at..at + chain.overhead() + chain.pace * bundles as u32;
            at = span.end;
            self.plan(&chain, relay, bundles, (span.start, span.end), program)?;
            self.records.push(ZeroWorkRecord { phase: phase.name.clone(), relay: number, stream, span });
        }
        left.dedup();
        Ok(left)
    }

    fn plan(
        &mut self,
        chain: &RelayChain,
        relay: &WatchedRelay,
        count: u64,
        (begin, end): (Duration, Duration),
        program: &Path,
    ) -> Result<()> {
        let number = self.records.len() as u32;
        let first = number * PROGRAMS;
        let [[near, own], [_, far]] = chain.ends;
        let address = |end: LinkEnd| SocketAddr::from((end.address, PORT));
        let (at, to) = (address(own), address(far));
        let parts = [
            (ZeroWorkPart::Sink { at: to }, far.node, "sink", begin),
            (ZeroWorkPart::Relay { at, to }, own.node, "relay", begin),
            (ZeroWorkPart::Source { to: at }, near.node, "source", begin + HEAD_START),
        ];
        for (index, (part, node, word, at)) in parts.into_iter().enumerate() {
            let work = ZeroWork {
                part,
                stream: chain.stream,
                payload: chain.payload,
                count,
                pace_us: u64::try_from(chain.pace.as_micros()).unwrap_or(u64::MAX),
                // The probe takes an identity that it knows for a repetition.
                sequence: FIRST_SEQUENCE + u64::from(number) * BUNDLES,
            };
            let command = std::iter::once(program.display().to_string()).chain(work.arguments()?).collect();
            let name = format!("zero-work-{}-{number}-{word}", relay.name);
            let program = Program { command, ..Program::default() };
            self.steps.push_back((at, ZeroWorkStep::Start(first + index as u32, node, name, program)));
        }
        self.steps.push_back((end, ZeroWorkStep::End(first..first + PROGRAMS)));
        Ok(())
    }

    /// The next step that is due.
    pub fn due(&mut self, elapsed: Duration) -> Option<ZeroWorkStep> {
        self.steps.pop_front_if(|(at, _)| *at <= elapsed).map(|(_, step)| step)
    }

    /// Whether no measurement is still to end.
    pub fn is_over(&self) -> bool {
        self.steps.is_empty()
    }
}

/// A relay between its neighbours over its first two links.
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

    /// Time that it takes besides that between bundles: two round trips for each connection, and one to drain.
    fn overhead(&self) -> Duration {
        HEAD_START + DRAIN + self.round_trips * if self.stream { 3 } else { 1 }
    }

    /// Number of bundles for which there is time; `None` if they are too few.
    fn bundles_within(&self, most: Option<Duration>) -> Option<u64> {
        let Some(most) = most else { return Some(BUNDLES) };
        let sends = most.saturating_sub(self.overhead());
        let bundles = u64::try_from(sends.as_nanos() / self.pace.as_nanos().max(1)).unwrap_or(u64::MAX).min(BUNDLES);
        (bundles >= BUNDLES_LEAST).then_some(bundles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(layers: [&str; 2], phase: &str) -> Scenario {
        let node = |name: &str, number| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{number}.0\"\n");
        let link = |name: &str, a: &str, b: &str, layer: &str| {
            format!(
                "[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\nlayer = \"{layer}\"\nrate = \"10 Mbit/s\"\n\
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

    fn steps(scenario: &Scenario) -> (Vec<String>, ZeroWorks, Vec<String>) {
        let (mut works, begun, mut seen) = (ZeroWorks::default(), Duration::from_secs(5), Vec::new());
        let setup = RetentionSetup::of(scenario);
        let left = works.begin(scenario, &setup, 0, begun, Path::new("farlink")).unwrap();
        let at: Vec<Duration> = works.steps.iter().map(|(at, _)| *at).collect();
        assert!(at.is_sorted() && at.first().is_none_or(|first| *first == begun), "{at:?}");
        while let Some(step) = works.due(Duration::from_secs(99)) {
            seen.push(match step {
                ZeroWorkStep::Start(number, node, name, _) => format!("{number} at {node}: {name}"),
                ZeroWorkStep::End(numbers) => format!("end {numbers:?}"),
            });
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
        assert!(works.records[1].span.end <= Duration::from_secs(15), "half of the phase is left");
        let (seen, ..) = steps(&scenario(["ltp", "ltp"], ""));
        assert_eq!(seen.len(), 4, "UDP only");
    }

    #[test]
    fn short_phase_leaves_relay_out() {
        let (seen, _, left) = steps(&scenario(["tcpclv4", "ltp"], "duration = \"1 s\""));
        assert_eq!((seen.len(), left), (0, vec!["b".to_string()]));
    }
}
