//! Phases of a run in progress: the beginning and end of each, and the resources used in between.

use super::baseline::{self, BaselineStep};
use super::session::{FIRST_BASELINE, LabSession, SessionProcess};
use super::usage::Usages;
use crate::supervisor::{Request, SignalName};
use anyhow::Result;
use farlink_report::PhaseFacts;
use farlink_scenario::{Phase, PhaseEnd, PhaseKind, Scenario};
use std::collections::VecDeque;
use std::time::Duration;

/// State of the traffic, on which the end of a phase may depend.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrafficState {
    /// Whether a sender is running.
    pub sending: bool,
    /// Whether a sender has not yet begun.
    pub left: bool,
    /// Whether all bundles created so far were delivered when they were last counted.
    pub delivered: bool,
}

/// Phases of a scenario in progress. A boundary takes effect once the supervisor has read the usage up to it.
#[derive(Debug, Default)]
pub struct Phases {
    phases: VecDeque<(usize, Phase)>,
    /// Phase in progress with its index, its start, and whether a sender was running in it.
    current: Option<(usize, Phase, Duration, bool)>,
    /// Requested boundaries that have not taken effect, each with the phase that begins there; `None` if no phase
    /// begins there.
    asked: VecDeque<Option<(usize, Phase)>>,
    ended: Vec<PhaseFacts>,
}

impl Phases {
    /// Creates the phases of a scenario, none of which has begun.
    pub fn new(scenario: &Scenario) -> Phases {
        Phases { phases: scenario.phases.iter().cloned().enumerate().collect(), ..Phases::default() }
    }

    /// Whether a boundary is due now; if so, it counts as requested, and the caller must ask the supervisor for it.
    pub fn is_boundary(&mut self, elapsed: Duration, traffic: TrafficState) -> bool {
        if !self.asked.is_empty() {
            return false;
        }
        let next_at = self.phases.front().map(|(_, next)| next.start.unwrap_or_default());
        let ended = self.current.as_mut().is_none_or(|(_, phase, begun, sent)| {
            *sent |= traffic.sending;
            let until = phase.until.is_some_and(|until| match until {
                // The phase ends when no sender runs any more. A phase in which none has run yet waits for the next
                // sender, if one is still to begin.
                PhaseEnd::Sent => !traffic.sending && (*sent || !traffic.left),
                PhaseEnd::Delivered => !traffic.sending && traffic.delivered,
            });
            let over = phase.duration.is_some_and(|duration| elapsed >= begun.saturating_add(duration));
            // A phase without a duration ends when the next phase is to start.
            let next = self.phases.front().and_then(|(_, next)| next.start).filter(|_| phase.duration.is_none());
            until || over || next.is_some_and(|at| elapsed >= at)
        });
        if ended && next_at.is_some_and(|at| elapsed >= at) {
            self.asked.push_back(self.phases.pop_front());
        } else if ended && self.current.is_some() {
            self.asked.push_back(None);
        } else {
            return false;
        }
        true
    }

    /// Records that the oldest requested boundary took effect; returns the index and kind of the phase that begins
    /// there, if any.
    pub fn pass(&mut self, at: Duration, usages: &mut Usages) -> Option<(usize, PhaseKind)> {
        self.close(at, usages);
        let (index, phase) = self.asked.pop_front().flatten()?;
        let kind = phase.kind;
        self.current = Some((index, phase, at, false));
        Some((index, kind))
    }

    /// Ends the phase in progress, if any, and the span over which usage is summed.
    pub fn close(&mut self, at: Duration, usages: &mut Usages) {
        let roles = usages.end_span();
        if let Some((_, phase, begun, _)) = self.current.take() {
            self.ended.push(PhaseFacts {
                name: phase.name,
                kind: phase.kind.word().to_string(),
                start_s: begun.as_secs_f64(),
                end_s: at.as_secs_f64(),
                roles,
                ..PhaseFacts::default()
            });
        }
    }

    /// Whether the run may end once everything is delivered: no phase that ends by its duration alone is in progress or
    /// to come.
    pub fn may_end(&self) -> bool {
        let fixed = |phase: &Phase| phase.duration.is_some() && phase.until.is_none();
        let asked = self.asked.iter().flatten().map(|(_, phase)| phase);
        let mut left = self.phases.iter().map(|(_, phase)| phase).chain(asked);
        !left.any(fixed) && !self.current.as_ref().is_some_and(|(_, phase, ..)| fixed(phase))
    }

    /// Facts about the phases that ended, and the names of those that never began.
    pub fn into_ended(self) -> (Vec<PhaseFacts>, Vec<String>) {
        let missed = self.asked.into_iter().flatten().chain(self.phases);
        (self.ended, missed.map(|(_, phase)| phase.name).collect())
    }
}

impl LabSession<'_> {
    /// Begins and ends phases that are due, and takes the due steps of baselines and zero-work relays.
    pub fn change_phase(&mut self, elapsed: Duration) -> Result<()> {
        let is_sending = |p: &SessionProcess| p.sends.is_some() && p.exited.is_none();
        let sending = self.processes.iter().any(is_sending);
        let traffic = TrafficState { sending, left: self.has_waiting_senders(), delivered: self.delivered };
        if self.phases.is_boundary(elapsed, traffic) {
            self.crew.tell(&Request::Phase { number: 0 })?;
        }
        while let Some(step) = self.baseline.due(elapsed) {
            match step {
                BaselineStep::Start(number, node, name, program) => {
                    // Marked as killed: a flow that fails is a result, and must not end the run.
                    self.spawn(FIRST_BASELINE + number, node, &name, program)?.killed = true;
                }
                BaselineStep::End(numbers) => {
                    for number in numbers {
                        let (id, signal) = (FIRST_BASELINE + number, SignalName::Terminate);
                        self.crew.tell(&Request::Signal { id, signal })?;
                    }
                }
            }
        }
        self.do_zero_work(elapsed)
    }

    pub fn note_boundary(&mut self, at_ns: u64, dropped: u64) -> Result<()> {
        self.samples_dropped = self.samples_dropped.max(dropped);
        let at = Duration::from_nanos(at_ns.saturating_sub(self.start_ns));
        if self.ended {
            self.phases.close(at, &mut self.usages);
            self.closed = true;
            return Ok(());
        }
        match self.phases.pass(at, &mut self.usages) {
            Some((index, PhaseKind::Baseline)) => {
                self.baseline.begin(self.scenario, index, at, &self.program);
                self.remarks.unmeasured.extend(baseline::shortage(self.scenario, index));
                Ok(())
            }
            Some((index, PhaseKind::Retention)) => self.begin_zero_work(index, at),
            _ => Ok(()),
        }
    }

    /// Ends the phase in progress and reads the last values while all programs still run.
    pub fn end_phases(&mut self) -> Result<()> {
        self.crew.tell(&Request::Phase { number: 1 })?;
        self.turns_until(|session| session.closed)
    }

    /// Facts about the phases that took place, with the results of their baselines and retention times, and names of
    /// those that did not.
    pub fn collect_phases(&mut self) -> (Vec<PhaseFacts>, Vec<String>) {
        let (mut phases, missed) = std::mem::take(&mut self.phases).into_ended();
        for (name, flow) in std::mem::take(&mut self.baseline).results(self.folder) {
            phases.iter_mut().filter(|phase| phase.name == name).for_each(|phase| phase.baseline.push(flow.clone()));
        }
        self.collect_retention(&mut phases);
        (phases, missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(text: &str) -> (Phases, Usages) {
        let nodes = "[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n";
        let scenario = Scenario::parse(&format!("name = \"s\"\nduration = \"100 s\"\n{nodes}{text}")).unwrap();
        (Phases::new(&scenario), Usages::new(&scenario))
    }
    const IDLE: TrafficState = TrafficState { sending: false, left: true, delivered: false };
    const BUSY: TrafficState = TrafficState { sending: true, left: true, delivered: false };

    /// Lets each boundary within the given tenths of a second take effect; returns the times of the boundaries and the
    /// phases that begin there.
    fn play(
        phases: &mut Phases,
        usages: &mut Usages,
        tenths: u64,
        traffic: impl Fn(u64) -> TrafficState,
    ) -> Vec<String> {
        let mut seen = Vec::new();
        for tenth in 0..tenths {
            let now = Duration::from_millis(tenth * 100);
            if phases.is_boundary(now, traffic(tenth)) {
                assert!(!phases.is_boundary(now, traffic(tenth)), "one boundary at a time");
                let begun = phases.pass(now, usages).map_or("-".into(), |(index, _)| index.to_string());
                seen.push(format!("{tenth}:{begun}"));
            }
        }
        seen
    }

    #[test]
    fn phases_without_start_follow() {
        let (mut phases, mut usages) = phases(
            "[[phase]]\nname = \"one\"\nstart = \"1 s\"\nduration = \"1 s\"\n[[phase]]\nname = \"two\"\nduration = \"2 s\"\n\
             [[phase]]\nname = \"three\"\nstart = \"5 s\"\n",
        );
        assert!(!phases.may_end());
        assert_eq!(play(&mut phases, &mut usages, 60, |_| IDLE), ["10:0", "20:1", "40:-", "50:2"]);
        assert!(phases.may_end(), "the last has no end of its own");
        phases.close(Duration::from_secs(6), &mut usages);
        let (ended, missed) = phases.into_ended();
        let spans: Vec<(f64, f64)> = ended.iter().map(|phase| (phase.start_s, phase.end_s)).collect();
        assert_eq!(spans, [(1.0, 2.0), (2.0, 4.0), (5.0, 6.0)]);
        assert!(missed.is_empty());
    }

    #[test]
    fn traffic_ends_load_and_unload() {
        let (mut phases, mut usages) = phases(
            "[[phase]]\nname = \"load\"\nkind = \"load\"\nuntil = \"sent\"\n\
             [[phase]]\nname = \"unload\"\nkind = \"unload\"\nuntil = \"delivered\"\nduration = \"9 s\"\n\
             [[phase]]\nname = \"never\"\nstart = \"90 s\"\nduration = \"1 s\"\n",
        );
        // Senders work from 1 s to 2 s, and all is delivered at 3 s.
        let traffic = |tenth: u64| match tenth {
            10..20 => BUSY,
            30.. => TrafficState { sending: false, left: false, delivered: true },
            _ => IDLE,
        };
        assert_eq!(play(&mut phases, &mut usages, 60, traffic), ["0:0", "20:1", "30:-"]);
        assert_eq!(phases.into_ended().1, ["never"]);
    }

    #[test]
    fn phase_after_the_last_sender_waits_for_none() {
        let (mut phases, mut usages) = phases(
            "[[phase]]\nname = \"warm\"\nduration = \"3 s\"\n[[phase]]\nname = \"load\"\nuntil = \"sent\"\n\
             [[phase]]\nname = \"rest\"\nduration = \"1 s\"\n",
        );
        // The only sender works from 1 s to 2 s.
        let traffic = |tenth: u64| match tenth {
            0..10 => IDLE,
            10..20 => TrafficState { left: false, ..BUSY },
            _ => TrafficState { left: false, ..IDLE },
        };
        assert_eq!(play(&mut phases, &mut usages, 60, traffic), ["0:0", "30:1", "31:2", "41:-"]);
    }

    #[test]
    fn phase_asked_for_at_the_end_never_began() {
        let (mut phases, _) = phases("[[phase]]\nname = \"late\"\nstart = \"1 s\"\n");
        assert!(phases.is_boundary(Duration::from_secs(1), IDLE));
        assert_eq!(phases.into_ended().1, ["late"]);
    }
}
