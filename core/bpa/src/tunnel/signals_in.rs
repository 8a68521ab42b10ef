//! Answers of a tunnel's far end about bundles sent through it (draft-ietf-dtn-bibect), and repetition if no answer
//! comes.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Numbers;
use crate::io::Output;
use crate::state::ranges::Ranges;
use crate::tunnel::{Due, ReceivedTunnelSignal, runs_of};
use crate::work::Step;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use farlink_base::{Event, Instant, Sink, format_duration};
use farlink_book::{Held, RetentionConstraint};

/// Most bundles of one signal that one step examines, so that a long signal does not delay other steps.
const STEP: usize = 8;

impl Agent {
    /// Sends a due answer, or schedules a due bundle again.
    pub(crate) fn on_tunnel_due<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, due: Due) {
        match due {
            Due::Send(group, numbers) => self.send_tunnel_signal(cx, &group, &numbers),
            Due::Repeat(number) => {
                let inner = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number));
                if let Some(bundle) = inner.map(|inner| inner.bundle) {
                    self.event(cx.out, Event::CustodyRepeated { bundle: self.number(bundle) });
                    self.tunnel_failed(cx, number);
                }
            }
        }
    }

    /// Takes a signal about transmissions through a tunnel. A signal that names numbers never assigned is forged and
    /// has no effect.
    pub(super) fn on_tunnel_signal<S: Sink<Output>>(&mut self, mut signal: ReceivedTunnelSignal, out: &mut S) {
        let Some(tunnels) = &self.tunnels else { return };
        if signal.runs.is_empty() || !signal.runs.iter().all(|run| tunnels.gave(run.first, run.last)) {
            return self.event(out, Event::CustodySignalIgnored { from: signal.source });
        }
        // Ranges are merged, so that a number is examined once even if the signal repeats it.
        let mut numbers = Ranges::default();
        signal.runs.iter().for_each(|run| numbers.insert(run.first..run.last.saturating_add(1)));
        signal.runs = runs_of(&numbers);
        signal.runs.reverse();
        self.work.push(Step::Signal(Box::new(signal)));
    }
    /// Applies a signal to a few bundles and queues itself again for the rest.
    pub(crate) fn apply_tunnel_signal<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        mut signal: Box<ReceivedTunnelSignal>,
    ) {
        for _ in 0..STEP {
            let Some(run) = signal.runs.pop() else { return };
            // Numbers of transmissions that are no longer remembered are skipped together.
            let Some((given, number)) =
                self.tunnels.as_ref().and_then(|tunnels| tunnels.first_given(run.first, run.last))
            else {
                continue;
            };
            if given < run.last {
                signal.runs.push(Numbers { first: given + 1, ..run });
            }
            let inner = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number));
            let Some(inner) = inner.filter(|inner| inner.rule == signal.rule) else {
                self.event(cx.out, Event::CustodySignalIgnored { from: signal.source });
                continue;
            };
            if signal.answer.releases() {
                // The tunnel's signal does not end this node's custody, so no release is reported for such a bundle.
                if let Some(held) = self.book.get(inner.bundle).filter(|held| !held.has(RetentionConstraint::Custody)) {
                    self.event(cx.out, Event::CustodyReleased { bundle: held.name() });
                }
                self.tunnel_done(cx, number);
            } else {
                self.tunnel_failed(cx, number);
            }
        }
        if !signal.runs.is_empty() {
            self.work.push(Step::Signal(signal));
        }
    }

    /// Event that a tunnelled bundle waits for, in words for operators; `None` if it waits for no tunnel.
    pub(crate) fn waits_for_tunnel(&self, now: Instant, held: &Held) -> Option<String> {
        let tunnels = self.tunnels.as_ref()?;
        let sent = tunnels.get(held.number).filter(|inner| inner.send.is_some());
        let Some(inner) = sent else {
            if let Some(end) = tunnels.in_line(held) {
                return Some(format!("room in the tunnel to {end}"));
            }
            let end = &tunnels.settings(tunnels.get(held.number)?.rule)?.end;
            let at = self.outbound.waits.due(held.handle()).filter(|_| held.has(RetentionConstraint::Route))?;
            return Some(format!("the tunnel to {end}, tried again in {}", format_duration(at.since(now))));
        };
        let end = &tunnels.settings(inner.rule)?.end;
        Some(match (inner.outer.and_then(|outer| self.book.get(outer)), tunnels.due_of(held.number)) {
            (Some(outer), _) => format!("the way through the tunnel to {end}, in bundle {}", outer.number),
            (None, Some(at)) => {
                format!("the signal of {end} at the tunnel's end, {} more", format_duration(at.since(now)))
            }
            (None, None) => format!("the tunnel to {end}"),
        })
    }
}
