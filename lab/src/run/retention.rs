//! Retention times of a run: the findings of the probe, by phase and relay.

use super::session::LabSession;
use super::zero_work::{BUNDLES_LEAST, ZeroWorkRecord, ZeroWorkStep};
use crate::probes::retention::{RelayCounters, RetentionPart, RetentionSetup, RetentionSubject, WatchedRelay};
use crate::supervisor::{Request, SignalName};
use anyhow::Result;
use farlink_report::schema::RETENTION;
use farlink_report::{BundleTimes, PhaseFacts, RetentionFacts, RetentionTimes, SampleRow, ZeroWorkTimes, counted};
use farlink_scenario::{Medium, PhaseKind, Scenario};
use std::ops::Range;
use std::time::Duration;

/// First process number of zero-work relays, their sources and their sinks.
pub const FIRST_ZERO_WORK: u32 = 1 << 26;

/// Passage of a bundle through a relay: times (monotonic ns) at which its last byte arrived, its first byte left and
/// its last byte left; and the index of the link over which it left.
type Passage = [u64; 4];

/// Findings of the probe, which arrive in parts at the end of the run.
#[derive(Debug)]
pub struct Retention {
    setup: RetentionSetup,
    relays: Vec<RelayFindings>,
    missed_at_ns: Vec<u64>,
    /// Number of frames that the probe missed; `None` until the last part has arrived.
    missed: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct RelayFindings {
    /// Passages by [`RetentionSubject`].
    passed: [Vec<Passage>; 3],
    stayed_ns: Vec<u64>,
    counters: RelayCounters,
}

impl Retention {
    /// Creates the state without findings; `None` for a scenario without a retention phase.
    pub fn new(scenario: &Scenario) -> Option<Retention> {
        scenario.phases.iter().any(|phase| phase.kind == PhaseKind::Retention).then(|| {
            let setup = RetentionSetup::of(scenario);
            let relays = vec![RelayFindings::default(); setup.relays.len()];
            Retention { setup, relays, missed_at_ns: Vec::new(), missed: None }
        })
    }

    /// Adds a part of the findings.
    pub fn note(&mut self, part: RetentionPart) {
        match part {
            RetentionPart::Passed { relay, subject, bundles } => {
                self.of(relay, |found| found.passed[subject as usize].extend(bundles));
            }
            RetentionPart::Stayed { relay, at_ns } => self.of(relay, |found| found.stayed_ns.extend(at_ns)),
            RetentionPart::Counted { relay, counters } => self.of(relay, |found| found.counters = counters),
            RetentionPart::Missed { at_ns } => self.missed_at_ns.extend(at_ns),
            RetentionPart::End { missed } => self.missed = Some(missed),
        }
    }
    fn of(&mut self, relay: usize, change: impl FnOnce(&mut RelayFindings)) {
        if let Some(found) = self.relays.get_mut(relay) {
            change(found);
        }
    }

    /// Number of frames missed in a span of monotonic ns; those whose time is unknown count in every span.
    fn missed_in(&self, span_ns: &Range<u64>) -> u64 {
        let known = self.missed_at_ns.iter().filter(|at| span_ns.contains(at)).count() as u64;
        known + self.missed.unwrap_or(0).saturating_sub(self.missed_at_ns.len() as u64)
    }

    /// Results of a phase, by relay; `start_ns` is the start of the run in monotonic ns.
    fn results(
        &self,
        scenario: &Scenario,
        phase: &PhaseFacts,
        zero_works: &[ZeroWorkRecord],
        start_ns: u64,
    ) -> Vec<RetentionFacts> {
        let ns = |seconds: f64| start_ns + (seconds * 1e9) as u64;
        let span = ns(phase.start_s)..ns(phase.end_s);
        let of = |(number, (relay, found)): (usize, (&WatchedRelay, &RelayFindings))| {
            let here = zero_works.iter().filter(|record| record.phase == phase.name && record.relay == number);
            let zero_work: Vec<(bool, ZeroWorkTimes)> = here
                .filter_map(|record| {
                    let at = |since: Duration| start_ns + since.as_nanos() as u64;
                    let span = at(record.span.start)..at(record.span.end);
                    Some((record.stream, found.zero_work(record.stream, &span)?))
                })
                .collect();
            let passed = found.passed_in(RetentionSubject::Relay, &span);
            let times = |passage: &Passage| {
                let stream = scenario.links[passage[3] as usize].layer.kind.medium == Medium::Streams;
                let floor = zero_work.iter().find(|(of_stream, _)| *of_stream == stream);
                BundleTimes {
                    first_s: seconds(passage[0], passage[1]),
                    last_s: seconds(passage[0], passage[2]),
                    floor_s: floor.map(|(_, times)| times.p50_s),
                }
            };
            let RelayCounters { cut, unidentified, lost, enciphered, unread } = found.counters;
            let mut result = RetentionFacts {
                relay: relay.name.clone(),
                unavailable: passed.is_empty().then(|| self.reason(scenario, relay, found)),
                bundles: passed.len() as u64,
                missing: found.stayed_ns.iter().filter(|at| span.contains(at)).count() as u64,
                overtaking: overtaking(&passed),
                frames_missed: self.missed_in(&span),
                enciphered,
                unreadable: cut + unidentified + lost,
                unread_bytes: unread,
                ..RetentionFacts::default()
            };
            result.set_times(&passed.iter().map(times).collect::<Vec<_>>());
            result.zero_work = zero_work.into_iter().map(|(_, times)| times).collect();
            result
        };
        self.setup.relays.iter().zip(&self.relays).enumerate().map(of).collect()
    }

    /// Sentence about traffic that passed a relay while its zero-work relay was measured; both times then include
    /// waits for each other.
    fn mixed(&self, phase: &PhaseFacts, zero_works: &[ZeroWorkRecord], start_ns: u64) -> Option<String> {
        let here = || zero_works.iter().filter(|record| record.phase == phase.name);
        let at = |since: Duration| start_ns + since.as_nanos() as u64;
        let passed = |record: &ZeroWorkRecord| {
            let span = at(record.span.start)..at(record.span.end);
            self.relays[record.relay].passed_in(RetentionSubject::Relay, &span).len()
        };
        let (bundles, mut relays): (Vec<usize>, Vec<&str>) = here()
            .map(|record| (passed(record), self.setup.relays[record.relay].name.as_str()))
            .filter(|(bundles, _)| *bundles > 0)
            .unzip();
        relays.dedup();
        let quiet = here().map(|record| record.span.end).max()?.as_secs_f64();
        (!relays.is_empty()).then(|| {
            format!(
                "Phase {}: {} of the traffic passed {} while the zero-work relay beside it was measured, so times of both \
                 are too long: let the traffic start after {:.1} s.",
                phase.name,
                counted(bundles.iter().sum::<usize>() as u64, "bundle"),
                relays.join(", "),
                quiet
            )
        })
    }

    /// Reason for which a relay has no times.
    fn reason(&self, scenario: &Scenario, relay: &WatchedRelay, found: &RelayFindings) -> String {
        let unknown = relay.links.iter().find(|(link, _)| !self.setup.layers.contains_key(link));
        match unknown {
            _ if found.counters.enciphered > 0 => "its conversations are enciphered (TLS)".into(),
            Some((link, _)) => {
                let link = &scenario.links[*link];
                format!("nothing reads {} of link {} as it passes", link.layer.kind.name, link.name)
            }
            None if self.missed.is_none() => "the findings of the probe did not come".into(),
            None => "no bundle was seen to arrive and leave".into(),
        }
    }

    /// Adds a sample of each retention time for each bundle that arrived in a phase.
    fn samples(&self, scenario: &Scenario, phase: &PhaseFacts, start_ns: u64, rows: &mut Vec<SampleRow>) {
        for (relay, found) in self.setup.relays.iter().zip(&self.relays) {
            for passage in &found.passed[RetentionSubject::Relay as usize] {
                let Some(time_ns) = passage[0].checked_sub(start_ns).filter(|at| phase.holds(*at)) else { continue };
                for (metric, left) in RETENTION.into_iter().zip([passage[1], passage[2]]) {
                    rows.push(SampleRow {
                        time_ns,
                        node: Some(relay.name.as_str().into()),
                        link: Some(scenario.links[passage[3] as usize].name.as_str().into()),
                        metric: metric.into(),
                        value: seconds(passage[0], left),
                        phase: None,
                    });
                }
            }
        }
    }
}

impl RelayFindings {
    /// Passages of bundles that arrived in a span, in the order of arrival.
    fn passed_in(&self, subject: RetentionSubject, span_ns: &Range<u64>) -> Vec<Passage> {
        let passed = self.passed[subject as usize].iter().filter(|passage| span_ns.contains(&passage[0]));
        passed.copied().collect()
    }

    /// Times of a zero-work relay, from bundles that arrived and left in the span; `None` if they are too few.
    fn zero_work(&self, stream: bool, span_ns: &Range<u64>) -> Option<ZeroWorkTimes> {
        let (subject, transport) = if stream {
            (RetentionSubject::ZeroWorkStreams, "tcp")
        } else {
            (RetentionSubject::ZeroWorkDatagrams, "udp")
        };
        let passed: Vec<Passage> =
            self.passed_in(subject, span_ns).into_iter().filter(|passage| span_ns.contains(&passage[2])).collect();
        let times = passed.iter().map(|passage| seconds(passage[0], passage[1])).collect();
        let RetentionTimes { p50, p99, .. } =
            RetentionTimes::of(times).filter(|_| passed.len() as u64 >= BUNDLES_LEAST)?;
        Some(ZeroWorkTimes { transport: transport.into(), bundles: passed.len() as u64, p50_s: p50, p99_s: p99 })
    }
}

/// Time between two monotonic times in ns, in seconds; negative if `to` is the earlier.
fn seconds(from: u64, to: u64) -> f64 {
    (to as i64 - from as i64) as f64 / 1e9
}

/// Number of bundles whose first byte left before that of a bundle that had arrived earlier. `passed` is in order of
/// arrival.
fn overtaking(passed: &[Passage]) -> u64 {
    let mut latest = 0;
    let overtakes = |passage: &&Passage| {
        let earlier = passage[1] < latest;
        latest = latest.max(passage[1]);
        earlier
    };
    passed.iter().filter(overtakes).count() as u64
}

impl LabSession<'_> {
    /// Plans the zero-work measurements of a retention phase that begins.
    pub fn begin_zero_work(&mut self, phase: usize, at: Duration) -> Result<()> {
        let Some(retention) = &self.retention else { return Ok(()) };
        let left = self.zero_works.begin(self.scenario, &retention.setup, phase, at, &self.program)?;
        if !left.is_empty() {
            let name = &self.scenario.phases[phase].name;
            let text = format!(
                "Phase {name} has no time for the zero-work relay beside {}, so its net retention times are missing: \
                 a longer phase has.",
                left.join(", ")
            );
            self.remarks.unmeasured.push(text);
        }
        Ok(())
    }

    /// Starts and ends the programs of zero-work measurements that are due.
    pub fn do_zero_work(&mut self, elapsed: Duration) -> Result<()> {
        let source = self.zero_works.source().map(|number| FIRST_ZERO_WORK + number);
        let sent = source.is_some_and(|id| self.processes.iter().any(|p| p.id == id && p.exited.is_some()));
        match self.zero_works.due(elapsed, sent) {
            Some(ZeroWorkStep::Start(programs)) => {
                for (number, node, name, program) in programs {
                    // Marked as killed: a failure only costs the net times, and must not end the run.
                    self.spawn(FIRST_ZERO_WORK + number, node, &name, program)?.killed = true;
                }
            }
            Some(ZeroWorkStep::End(numbers)) => {
                for number in numbers {
                    let (id, signal) = (FIRST_ZERO_WORK + number, SignalName::Terminate);
                    self.crew.tell(&Request::Signal { id, signal })?;
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Adds the retention times to their phases, and samples of the times to the run's samples.
    pub fn collect_retention(&mut self, phases: &mut [PhaseFacts]) {
        let Some(retention) = self.retention.take() else { return };
        for phase in phases.iter_mut().filter(|phase| phase.kind == PhaseKind::Retention.word()) {
            phase.retention = retention.results(self.scenario, phase, &self.zero_works.records, self.start_ns);
            retention.samples(self.scenario, phase, self.start_ns, &mut self.samples);
            let unmeasured = |relay: &&RetentionFacts| {
                let of = |record: &&ZeroWorkRecord| {
                    record.phase == phase.name && retention.setup.relays[record.relay].name == relay.relay
                };
                self.zero_works.records.iter().filter(of).count() > relay.zero_work.len()
            };
            let names: Vec<&str> =
                phase.retention.iter().filter(unmeasured).map(|relay| relay.relay.as_str()).collect();
            if !names.is_empty() {
                let text = format!("Phase {}: too few bundles passed the zero-work relay beside", phase.name);
                let missing = "in its time, so net retention times are missing";
                self.remarks.unmeasured.push(format!("{text} {} {missing}.", names.join(", ")));
            }
            let told = phase.retention.iter().filter_map(|relay| Some((&relay.relay, relay.unavailable.as_ref()?)));
            let told = told.map(|(relay, why)| format!("Phase {}: no retention times of {relay}: {why}.", phase.name));
            self.remarks.unmeasured.extend(told);
            self.remarks.unmeasured.extend(retention.mixed(phase, &self.zero_works.records, self.start_ns));
            let missed = phase.retention.first().map_or(0, |relay| relay.frames_missed);
            if missed > 0 {
                let text = format!("Phase {}: the probe of retention times missed {missed} frames.", phase.name);
                self.remarks.disturbances.push(text);
            }
        }
        if retention.missed.is_none() {
            self.remarks.disturbances.push("The findings about retention times did not come in time.".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_000_000_000_000;
    const MS: u64 = 1_000_000;

    fn scenario() -> Scenario {
        let node = |name: &str, number| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{number}.0\"\n");
        let link = |name: &str, a: &str, b: &str, layer: &str| {
            format!("[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\nlayer = \"{layer}\"\n")
        };
        let text = [
            "name = \"s\"\nduration = \"100 s\"\n".to_string(),
            node("a", 1) + &node("b", 2) + &node("c", 3),
            link("near", "a", "b", "tcpclv4") + &link("far", "b", "c", "ltp"),
            "[[phase]]\nname = \"relay\"\nkind = \"retention\"\n".into(),
        ];
        Scenario::parse(&text.concat()).unwrap()
    }
    fn phase() -> PhaseFacts {
        PhaseFacts { name: "relay".into(), kind: "retention".into(), start_s: 1.0, end_s: 2.0, ..PhaseFacts::default() }
    }
    /// Passage over link `far` of a bundle that arrives `at_ms` ms after the start of the run and leaves `stays_us` µs
    /// later.
    fn passage(at_ms: u64, stays_us: u64) -> Passage {
        let at = START + at_ms * MS;
        [at, at + stays_us * 1000, at + stays_us * 1000 + 5, 1]
    }
    fn close(found: Option<RetentionTimes>, expected: f64) -> bool {
        found.is_some_and(|times| (times.p50 - expected).abs() < 1e-9)
    }

    #[test]
    fn bundles_belong_to_phase_of_arrival() {
        let scenario = scenario();
        let mut retention = Retention::new(&scenario).unwrap();
        let passed = |subject, bundles| RetentionPart::Passed { relay: 0, subject, bundles };
        let bundles =
            vec![passage(900, 9), passage(1100, 300), passage(1100, 200), passage(1999, 200), passage(2000, 9)];
        retention.note(passed(RetentionSubject::Relay, bundles));
        let mut zero_work = vec![passage(1050, 20); BUNDLES_LEAST as usize];
        // Not counted: a bundle that arrives after the measurement, and one that leaves after it.
        zero_work.extend([passage(1300, 70), passage(1190, 20_000)]);
        retention.note(passed(RetentionSubject::ZeroWorkDatagrams, zero_work));
        retention.note(RetentionPart::Stayed { relay: 0, at_ns: vec![START, START + 1500 * MS] });
        retention.note(RetentionPart::Missed { at_ns: vec![START + 1200 * MS, START + 2200 * MS] });
        let milliseconds = Duration::from_millis;
        let record = |relay, stream| {
            let span = milliseconds(1000)..milliseconds(1200);
            ZeroWorkRecord { phase: "relay".into(), relay, stream, span }
        };
        let works = [record(0, true), record(0, false)];
        let found = &retention.results(&scenario, &phase(), &works, START)[0];
        assert_eq!((found.bundles, found.missing, found.overtaking, found.frames_missed), (3, 1, 1, 1));
        assert!(close(found.first_out_s, 200e-6) && close(found.net_first_out_s, 180e-6), "{found:?}");
        assert_eq!(found.zero_work.len(), 1, "none over TCP");
        assert_eq!((&found.zero_work[0].transport[..], found.zero_work[0].bundles), ("udp", BUNDLES_LEAST));
        let told = retention.mixed(&phase(), &works, START).unwrap();
        assert!(told.starts_with("Phase relay: 4 bundles of the traffic passed b while"), "{told}");
        assert!(told.ends_with("let the traffic start after 1.2 s."), "{told}");
        let quiet = ZeroWorkRecord { span: milliseconds(1300)..milliseconds(1400), ..record(0, true) };
        assert_eq!(retention.mixed(&phase(), &[quiet], START), None);
        let mut rows = Vec::new();
        retention.samples(&scenario, &phase(), START, &mut rows);
        assert_eq!(rows.len(), 6);
        assert_eq!(
            (rows[0].time_ns, rows[0].link.as_deref(), &*rows[1].metric),
            (1100 * MS, Some("far"), RETENTION[1])
        );
    }

    #[test]
    fn reason_is_told_without_bundles() {
        let scenario = scenario();
        let mut retention = Retention::new(&scenario).unwrap();
        let reason = |retention: &Retention| {
            retention.results(&scenario, &phase(), &[], START)[0].unavailable.clone().unwrap_or_default()
        };
        assert_eq!(reason(&retention), "the findings of the probe did not come");
        retention.note(RetentionPart::End { missed: 0 });
        assert_eq!(reason(&retention), "no bundle was seen to arrive and leave");
        retention.setup.layers.remove(&1);
        assert_eq!(reason(&retention), "nothing reads ltp of link far as it passes");
        let counters = RelayCounters { enciphered: 2, ..RelayCounters::default() };
        retention.note(RetentionPart::Counted { relay: 0, counters });
        assert_eq!(reason(&retention), "its conversations are enciphered (TLS)");
    }

    #[test]
    fn scenario_without_retention_phase_is_not_watched() {
        let mut scenario = scenario();
        scenario.phases[0].kind = PhaseKind::Load;
        assert!(Retention::new(&scenario).is_none());
    }
}
