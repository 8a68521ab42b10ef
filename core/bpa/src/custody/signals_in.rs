//! Custody signals from other nodes, and retransmission if none comes (RFC 5050 5.11, 5.12, 6.3).
//!
//! Signals are not signed, and a signal that is believed makes this node delete a bundle that may be the last copy. A
//! signal counts only if a link vouches for the name of the neighbour that brought it, and if that neighbour received
//! the bundle from this node or is the signal's source. It affects only bundles in custody here, however many numbers
//! it names.

use crate::agent::Agent;
use crate::context::Context;
use crate::custody::{Due, ReceivedCustodySignal, Stage, Subject};
use crate::edge::{About, Signal};
use crate::io::Output;
use crate::state::ranges::Ranges;
use crate::state::waits::Turned;
use crate::work::Step;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;
use farlink_base::{BundleId, Event, FragmentInfo, Instant, LinkId, PeerId, Refusal, Sink, Transfer, format_duration};
use farlink_book::{Flags, Handle, Held, Identity, RetentionConstraint, Why};

/// Most bundles of one signal that one step examines, so that a long signal does not delay other steps.
const STEP: usize = 8;

impl Agent {
    /// Queues the custody signals of a record addressed to this node, to be applied in steps. Returns true if the
    /// record was consumed, even if its signals were ignored; false if custody is not configured.
    pub(crate) fn on_custody_signal<S: Sink<Output>>(
        &mut self,
        bundle: Handle,
        signals: Vec<Signal>,
        out: &mut S,
    ) -> bool {
        let Some(held) = self.book.get(bundle).filter(|_| self.custody.is_some()) else { return false };
        let (from, source, version) = (held.from, held.bundle.source.node(), held.bundle.version);
        // A recovered or reassembled record no longer shows which neighbour brought it; one that no link vouches for
        // proves nothing, nor does one out of a tunnel, which is no neighbour.
        let known = ![Flags::SEEN_BEFORE, Flags::VIRTUAL, Flags::STRANGE].into_iter().any(|flag| held.flags.has(flag));
        let peer = self.neighbours.peers().get(from);
        if !known || peer.is_none_or(|peer| peer.identity() < Identity::Address) {
            self.event(out, Event::CustodySignalIgnored { from: source });
            return true;
        }
        for Signal { answer, about } in signals {
            let about = match about {
                About::One(id) => Subject::One(id),
                About::Numbers(numbers) => {
                    // This node numbers bundles with one counter only, so ranges of other counters name none of its
                    // bundles.
                    let ours = numbers.iter().filter(|run| run.sequence == Transfer::COUNTER);
                    // Ranges are merged, so that a number is examined once even if the signal repeats it.
                    let mut named = Ranges::default();
                    ours.for_each(|run| named.insert(run.first..run.last.saturating_add(1)));
                    Subject::Runs(named.all().map(|(first, end)| (first, end - 1)).collect())
                }
            };
            let signal = ReceivedCustodySignal { from, source, version, answer, about, foreign: false };
            self.work.push(Step::Custody(Box::new(signal)));
        }
        true
    }

    /// Applies a signal to a few bundles and queues itself again for the rest.
    pub(crate) fn apply_custody_signal<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        mut signal: Box<ReceivedCustodySignal>,
    ) {
        match &mut signal.about {
            Subject::One(id) => {
                let id = id.clone();
                self.apply_to_bundle(cx, &mut signal, &id);
            }
            Subject::Runs(runs) => {
                let mut met = Vec::with_capacity(STEP);
                for _ in 0..STEP {
                    let Some((first, last)) = runs.pop() else { break };
                    let Some(number) = self.custody.as_ref().and_then(|custody| custody.first_in(first, last)) else {
                        continue;
                    };
                    if number < last {
                        runs.push((number + 1, last));
                    }
                    met.push(number);
                }
                let more = !runs.is_empty();
                for number in met {
                    self.apply_to_number(cx, &mut signal, number, None);
                }
                if more {
                    return self.work.push(Step::Custody(signal));
                }
            }
        }
        if signal.foreign {
            self.event(cx.out, Event::CustodySignalIgnored { from: signal.source });
        }
    }

    fn apply_to_bundle<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        signal: &mut ReceivedCustodySignal,
        id: &BundleId,
    ) {
        if let Some(held) = self.book.find(id.fingerprint_in(signal.version)) {
            return self.apply_to_number(cx, signal, held.number, None);
        }
        // The signal may be about a fragment of a bundle that was whole here.
        let Some((offset, len)) = id.fragment else { return };
        let piece = offset..offset.saturating_add(len);
        let original = id.original().fingerprint_in(signal.version);
        let whole = self.book.find(original).map(|held| held.number);
        let pieces = self.custody.as_ref().map(|custody| custody.pieces_of(original).collect::<Vec<_>>());
        for number in whole.into_iter().chain(pieces.unwrap_or_default()) {
            self.apply_to_number(cx, signal, number, Some(piece.clone()));
        }
    }

    /// Applies a signal to one bundle, or to the range `piece` of the bundle's payload.
    // 5050-6.3-1, 5050-6.3-2
    fn apply_to_number<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        signal: &mut ReceivedCustodySignal,
        number: u64,
        piece: Option<Range<u64>>,
    ) {
        let Some(custody) = &mut self.custody else { return };
        let Some(entry) = custody.get(number).filter(|entry| entry.stage == Stage::Ours) else { return };
        let peer = self.neighbours.peers().get(signal.from);
        let itself =
            peer.and_then(|peer| peer.identity_as(signal.source)).is_some_and(|sure| sure >= Identity::Address);
        // The bundle must have left here, and the neighbour must be the signal's source or have received the bundle
        // from here.
        if !entry.handed || (!itself && !entry.to.contains(&signal.from)) {
            signal.foreign = true;
            return;
        }
        let Some(held) = self.book.get(entry.bundle).filter(|held| held.bundle.version == signal.version) else {
            return;
        };
        // After a refusal the bundle is not sent again at once: another neighbour may still accept custody.
        if !signal.answer.releases() {
            let (name, tries) = (signal.from, entry.tries);
            let at = cx.now + custody.patience(tries);
            if let Some(entry) = custody.get_mut(number) {
                entry.refused = Some(name);
            }
            return custody.repeat_at(number, at);
        }
        let len = held.bundle.payload.len();
        let own = held.bundle.fragment().unwrap_or(FragmentInfo { offset: 0, total: len }).offset;
        if piece.is_some_and(|piece| !custody.take_piece(number, piece, own..own.saturating_add(len))) {
            return;
        }
        self.release_custody(cx, number);
    }

    /// Ends custody here because another node has it: the bundle leaves once no other constraint, such as a
    /// transmission in progress, holds it.
    // 5050-5.10.2-1, 5050-5.11-1
    fn release_custody<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, number: u64) {
        let Some(entry) = self.custody.as_mut().and_then(|custody| custody.forget(number)) else { return };
        let bundle = entry.bundle;
        self.event(cx.out, Event::CustodyReleased { bundle: self.number(bundle) });
        self.leave_queues(bundle);
        let last = self.book.release(bundle, RetentionConstraint::Route);
        if self.book.release(bundle, RetentionConstraint::Custody) || last || self.is_done(bundle) {
            self.depart(cx, bundle, Why::Forwarded, None);
        }
    }

    /// Starts the wait for a custody signal once a neighbour has received all of the bundle and no other transmission
    /// is in progress.
    pub(crate) fn await_signal(&mut self, now: Instant, bundle: Handle, link: LinkId, peer: PeerId) {
        let Some(held) = self.book.get(bundle) else { return };
        if !held.has(RetentionConstraint::Custody) || held.has(RetentionConstraint::Route) || held.sends > 0 {
            return;
        }
        let number = held.number;
        let way = self.way_to_custodian(now, bundle, link, peer);
        let Some(custody) = &mut self.custody else { return };
        let Some(tries) = custody.get(number).map(|entry| entry.tries) else { return };
        let at = now.saturating_add(custody.patience(tries)).saturating_add(way.saturating_mul(2));
        custody.repeat_at(number, at);
    }
    /// Upper bound of a bundle's travel time to the next custodian: the link's delay, plus the router's estimate for
    /// the way to the destination if there is one. Any node on the way may take custody, so the last one is assumed.
    fn way_to_custodian(&self, now: Instant, bundle: Handle, link: LinkId, peer: PeerId) -> Duration {
        let peer = self.neighbours.peers().get(peer);
        let prospect = self.book.get(bundle).and_then(|held| self.policies.prospect(self.seen(now), held, peer));
        let arrival = prospect.map(|prospect| prospect.arrival).filter(|at| *at > now && *at < Instant::MAX);
        let link = || self.neighbours.link(link).map(|link| link.state(self.plan.placed(), now).delay_out);
        link().unwrap_or_default().saturating_add(arrival.map_or(Duration::ZERO, |at| at.since(now)))
    }

    /// Sends a due answer, or a due bundle again.
    pub(crate) fn on_custody_due<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, due: Due) {
        match due {
            Due::Send(group, numbers) => self.send_gathered(cx, &group, &numbers),
            Due::Repeat(number) => self.repeat(number, cx.out),
        }
    }

    /// Routes a bundle again after a refusal or without a signal, avoiding the neighbour that refused (RFC 5050 5.12).
    // 5050-5.10.1-4
    fn repeat<S: Sink<Output>>(&mut self, number: u64, out: &mut S) {
        let Some(entry) = self.custody.as_mut().and_then(|custody| custody.get_mut(number)) else { return };
        let bundle = entry.bundle;
        let under_way = |held: &Held| held.has(RetentionConstraint::Route) || held.sends > 0;
        if self.book.get(bundle).is_none_or(under_way) {
            return;
        }
        entry.tries = entry.tries.saturating_add(1);
        // Routing avoids the refusing neighbour until its backoff ends.
        if let Some(peer) = entry.refused.take() {
            let (ups, why) = (self.neighbours.ups(peer), Turned::Away(Refusal::NoResources));
            self.outbound.waits.refuse(&mut self.book, bundle, peer, ups, why);
        }
        self.outbound.partial_sends.begin_anew(&self.book, bundle);
        self.book.hold(bundle, RetentionConstraint::Route);
        self.event(out, Event::CustodyRepeated { bundle: self.number(bundle) });
        self.work.extend([Step::Dispatch(bundle), Step::Offer(bundle)]);
    }

    /// Whether custody alone holds the bundle here: it is neither to be sent nor being sent.
    pub(crate) fn is_in_custody_only(&self, held: &Held) -> bool {
        let only = held.has(RetentionConstraint::Custody) && !held.has(RetentionConstraint::Route) && held.sends == 0;
        only && self.custody.as_ref().is_some_and(|custody| custody.get(held.number).is_some())
    }
    pub(crate) fn waits_for_custody(&self, now: Instant, held: &Held) -> Option<String> {
        let entry = self.custody.as_ref()?.get(held.number)?;
        let to = entry.to.last().and_then(|peer| self.neighbours.peers().get(*peer));
        let to = to.map_or_else(String::new, |peer| format!(", sent to {}", peer.endpoint()));
        let wait = match entry.due {
            Some(at) => format!("; waits for its signal, {} more", format_duration(at.since(now))),
            None => String::from("; waits for its signal"),
        };
        Some(format!("in custody{to}{wait}"))
    }
}
