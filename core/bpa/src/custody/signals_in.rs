//! Hearing that another node has custody, or waiting for that in vain (RFC 5050 5.11, 5.12, 6.3).
//!
//! Signals are not signed: one that is believed makes a node delete what may be the last copy. So they are believed
//! from neighbours only whose name is sure, and only from one that was given the bundle, or in its own name. They end
//! nothing that is not in custody here, however many numbers they claim.

use crate::agent::Agent;
use crate::context::Context;
use crate::custody::{Due, Heard, Stage, Subject};
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

/// Bundles of one signal that one step looks at.
const STEP: usize = 8;

impl Agent {
    /// A custody signal for this node; whether it is one this node heeds.
    pub(crate) fn hear_custody<S: Sink<Output>>(&mut self, bundle: Handle, signals: Vec<Signal>, out: &mut S) -> bool {
        let Some(held) = self.book.get(bundle).filter(|_| self.custody.is_some()) else { return false };
        let (from, source, version) = (held.from, held.bundle.source.node(), held.bundle.version);
        // After a restart nobody knows any more who brought it, nor who brought the pieces of it.
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
                    // Other counters are none of ours.
                    let ours = numbers.iter().filter(|run| run.sequence == Transfer::COUNTER);
                    // However often it names a number, that is looked at once.
                    let mut named = Ranges::default();
                    ours.for_each(|run| named.insert(run.first..run.last.saturating_add(1)));
                    Subject::Runs(named.all().map(|(first, end)| (first, end - 1)).collect())
                }
            };
            let heard = Heard { from, source, version, answer, about, foreign: false };
            self.work.push(Step::Custody(Box::new(heard)));
        }
        true
    }

    /// A few bundles of a signal; then comes again.
    pub(crate) fn heed_custody<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, mut heard: Box<Heard>) {
        match &mut heard.about {
            Subject::One(id) => {
                let id = id.clone();
                self.heed_one(cx, &mut heard, &id);
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
                    self.heed_about(cx, &mut heard, number, None);
                }
                if more {
                    return self.work.push(Step::Custody(heard));
                }
            }
        }
        if heard.foreign {
            self.event(cx.out, Event::CustodySignalIgnored { from: heard.source });
        }
    }

    fn heed_one<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, heard: &mut Heard, id: &BundleId) {
        if let Some(held) = self.book.find(id.fingerprint_in(heard.version)) {
            return self.heed_about(cx, heard, held.number, None);
        }
        // It may be a piece of one that was whole here.
        let Some((offset, len)) = id.fragment else { return };
        let piece = offset..offset.saturating_add(len);
        let original = id.original().fingerprint_in(heard.version);
        let whole = self.book.find(original).map(|held| held.number);
        let pieces = self.custody.as_ref().map(|custody| custody.pieces_of(original).collect::<Vec<_>>());
        for number in whole.into_iter().chain(pieces.unwrap_or_default()) {
            self.heed_about(cx, heard, number, Some(piece.clone()));
        }
    }

    /// What a signal says about one bundle.
    // 5050-6.3-1, 5050-6.3-2
    fn heed_about<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        heard: &mut Heard,
        number: u64,
        piece: Option<Range<u64>>,
    ) {
        let Some(custody) = &mut self.custody else { return };
        let Some(entry) = custody.get(number).filter(|entry| entry.stage == Stage::Ours) else { return };
        let peer = self.neighbours.peers().get(heard.from);
        let itself = peer.and_then(|peer| peer.identity_as(heard.source)).is_some_and(|sure| sure >= Identity::Address);
        // Nobody can have custody of what nobody was given.
        if !entry.handed || (!itself && !entry.to.contains(&heard.from)) {
            heard.foreign = true;
            return;
        }
        let Some(held) = self.book.get(entry.bundle).filter(|held| held.bundle.version == heard.version) else {
            return;
        };
        if !heard.answer.releases() {
            let (name, tries) = (heard.from, entry.tries);
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

    /// Another node has custody: the bundle is held for nothing but what is under way.
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

    /// A bundle in custody is with a neighbour: from now on a signal is waited for.
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
    /// How long a bundle is on its way: over the link, and from there as the router expects. Who takes custody on that
    /// way is not known before.
    fn way_to_custodian(&self, now: Instant, bundle: Handle, link: LinkId, peer: PeerId) -> Duration {
        let peer = self.neighbours.peers().get(peer);
        let prospect = self.book.get(bundle).and_then(|held| self.policies.prospect(self.seen(now), held, peer));
        let arrival = prospect.map(|prospect| prospect.arrival).filter(|at| *at > now && *at < Instant::MAX);
        let link = || self.neighbours.link(link).map(|link| link.state(self.plan.placed(), now).delay_out);
        link().unwrap_or_default().saturating_add(arrival.map_or(Duration::ZERO, |at| at.since(now)))
    }

    /// Something of custody is due.
    pub(crate) fn on_custody_due<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, due: Due) {
        match due {
            Due::Say(told, numbers) => self.say_gathered(cx, &told, &numbers),
            Due::Repeat(number) => self.repeat(number, cx.out),
        }
    }

    /// RFC 5050 5.12: no signal came, or one that refuses: the bundle goes again, another way if there is one.
    // 5050-5.10.1-4
    fn repeat<S: Sink<Output>>(&mut self, number: u64, out: &mut S) {
        let Some(entry) = self.custody.as_mut().and_then(|custody| custody.get_mut(number)) else { return };
        let bundle = entry.bundle;
        let under_way = |held: &Held| held.has(RetentionConstraint::Route) || held.sends > 0;
        if self.book.get(bundle).is_none_or(under_way) {
            return;
        }
        entry.tries = entry.tries.saturating_add(1);
        if let Some(peer) = entry.refused.take() {
            let (ups, why) = (self.neighbours.ups(peer), Turned::Away(Refusal::NoResources));
            self.outbound.waits.refuse(&mut self.book, bundle, peer, ups, why);
        }
        self.outbound.partial_sends.begin_anew(&self.book, bundle);
        self.book.hold(bundle, RetentionConstraint::Route);
        self.event(out, Event::CustodyRepeated { bundle: self.number(bundle) });
        self.work.extend([Step::Dispatch(bundle), Step::Offer(bundle)]);
    }

    /// What a bundle in custody waits for, in words; `None`: it is under way, or not in custody.
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
