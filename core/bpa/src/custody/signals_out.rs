//! Acceptance of custody, and answers to former custodians (RFC 5050 5.10.1, 5.4.2, 5.6 step 4, 5.7). Custody is
//! confirmed only after the store has committed the bundle.

use crate::agent::Agent;
use crate::app::SendRequest;
use crate::context::Context;
use crate::custody::{Custodian, CustodySignalGroup, Stage};
use crate::edge::{About, Answer, Fate, Numbers, Signal};
use crate::io::Output;
use crate::patterns::matches_any;
use crate::state::ranges::Ranges;
use crate::work::Step;
use alloc::vec::Vec;
use farlink_base::{BundleMeta, DeleteReason, EndpointId, Event, Facts, HopState, PeerId, Priority, Sink, Transfer};
use farlink_book::{Flags, Handle, Held, Identity, RetentionConstraint, Why};

/// Store flag of bundles that this node has custody of.
pub(crate) const KEPT_CUSTODY: u32 = 1 << 8;
/// Most ranges of numbers in one signal: with at most 20 bytes each, they take less than 41 kB.
const RUNS_MAX: usize = 2048;
/// Longest head, in bytes, of a bundle that this node accepts custody of: every custodian writes its name into the
/// head.
const HEAD_MAX: u64 = 32 << 10;

/// Whether a bundle requests custody in a form that RFC 5050 4.2 and 5.10 define.
fn asks(meta: &BundleMeta) -> bool {
    meta.facts.has(Facts::CUSTODY) && !meta.is_anonymous() && !meta.is_administrative() && !meta.is_for_group()
}

impl Agent {
    /// Whether custody is configured.
    pub(crate) fn deals_in_custody(&self) -> bool {
        self.custody.is_some()
    }
    /// Notes that a bundle was sent to a neighbour, or into a tunnel.
    pub(crate) fn note_handed(&mut self, number: u64, to: PeerId) {
        if let Some(custody) = &mut self.custody {
            custody.handed(number, to);
        }
    }
    /// Whether this node can be custodian: custody is configured, the store is durable, and the policies make no
    /// copies, since each copy would have a custodian of its own.
    fn may_have_custody(&self) -> bool {
        self.settings.durable && self.custody.is_some() && !self.policies.offers()
    }

    /// Node ID under which this node takes custody of a bundle: one of the source's scheme, if there is one. `None` for
    /// an ipn source if this node has only dtn names, which a version 6 bundle without dictionary cannot hold (RFC
    /// 6260).
    fn custodian_for(&self, meta: &BundleMeta) -> Option<EndpointId> {
        let numbers = |id: &EndpointId| matches!(id, EndpointId::Ipn { .. });
        let alike = self.settings.node_ids.iter().find(|id| numbers(id) == numbers(&meta.source));
        alike.cloned().or_else(|| (!numbers(&meta.source)).then(|| self.node_id()))
    }

    /// Writes this node's name and number into an outgoing bundle of which it is custodian.
    pub(crate) fn say_custody(&self, held: &Held, hop: &mut HopState) {
        if held.has(RetentionConstraint::Custody) {
            hop.custodian = self.custodian_for(&held.bundle).unwrap_or_default();
            hop.transfer = Some(Transfer { number: held.number, sequence: Transfer::COUNTER, block: 0 }.into());
        }
    }

    /// Whether custody is accepted from a neighbour: a link vouches for one of its names, and the settings list that
    /// name.
    fn deals_with(&self, peer: PeerId) -> bool {
        let (Some(custody), Some(peer)) = (&self.custody, self.neighbours.peers().get(peer)) else { return false };
        let sure = |name: &&farlink_book::PeerName| name.identity >= Identity::Address;
        peer.names.iter().filter(sure).any(|name| matches_any(&custody.settings.from, &name.id))
    }

    /// Whether an application's bundle is to request custody: the application or the settings want it, this node can be
    /// custodian, and source and destination permit it.
    // 5050-5.2-1
    pub(crate) fn asks_for_custody(&self, source: &EndpointId, wanted: &SendRequest) -> bool {
        let Some(custody) = self.custody.as_ref().filter(|_| self.may_have_custody()) else { return false };
        let to = &wanted.destination;
        let asked = wanted.facts.has(Facts::CUSTODY) || matches_any(&custody.settings.request, to);
        asked && !source.is_null() && to.is_singleton() && !self.is_local(to.node())
    }

    /// Custodian named in an arriving bundle, unless it is this node.
    fn custodian_of(&self, hop: &HopState) -> Option<Custodian> {
        let node = &hop.custodian;
        let other = !node.is_null() && !self.is_local(node.node());
        other.then(|| Custodian { node: node.clone(), transfer: hop.transfer.as_deref().copied() })
    }

    /// Decides whether this node will accept custody of a bundle that is now held, or only remembers its custodian.
    /// `carrier`: the bundle's previous node, or that of the outer bundle if it came through a tunnel.
    pub(crate) fn enter_custody(&mut self, bundle: Handle, hop: &HopState, carrier: PeerId) {
        // A signal about a copy of doubtful identity must not release the custodian's bundle: a copy that failed its
        // security check only claims the identity and will be deleted, and one that no link vouches for may differ.
        let counts = |held: &&Held| {
            asks(&held.bundle) && held.bundle.duties.security().is_none() && !held.flags.has(Flags::STRANGE)
        };
        let Some(held) = self.book.get(bundle).filter(counts) else { return };
        if self.custody.is_none() || !(held.is_own() || self.deals_with(carrier)) {
            return;
        }
        let before = self.custodian_of(hop);
        let takes = self.takes_custody(held);
        let stage = match before {
            Some(_) if self.is_for_us(&held.bundle) => Stage::Arrives,
            _ if takes => Stage::Promised,
            Some(_) => Stage::Theirs,
            None => return,
        };
        if let Some(custody) = &mut self.custody {
            custody.enter(&mut self.book, bundle, stage, before);
        }
    }
    /// Whether custody of a bundle would be accepted: the settings allow it, there is room, and the bundle goes on to
    /// another node.
    // 5050-5.2-2
    pub(crate) fn takes_custody(&self, held: &Held) -> bool {
        let Some(custody) = self.custody.as_ref().filter(|_| self.may_have_custody()) else { return false };
        let meta = &held.bundle;
        let goes_on = !self.is_for_us(meta) && !held.is_tired();
        let fits = custody.has_room(held.size()) && meta.overhead() <= HEAD_MAX;
        goes_on && fits && matches_any(&custody.settings.to, &meta.destination) && self.custodian_for(meta).is_some()
    }
    /// Whether this node forwards a bundle without accepting the custody that the bundle requests.
    pub(crate) fn declines_custody(&self, bundle: Handle) -> bool {
        let (Some(custody), Some(held)) = (&self.custody, self.book.get(bundle)) else { return false };
        asks(&held.bundle) && !self.is_for_us(&held.bundle) && !custody.is(held.number, Stage::Promised)
    }
    /// Restores custody of a bundle that the store returned after a restart.
    pub(crate) fn resume_custody(&mut self, bundle: Handle, flags: u32, hop: &HopState) {
        let Some(held) = self.book.get(bundle).filter(|held| asks(&held.bundle)) else { return };
        let before = self.custodian_of(hop);
        let stage = match &before {
            _ if flags & KEPT_CUSTODY != 0 && self.may_have_custody() => Stage::Ours,
            Some(_) if !self.is_for_us(&held.bundle) => Stage::Theirs,
            _ => return,
        };
        if let Some(custody) = &mut self.custody {
            custody.enter(&mut self.book, bundle, stage, before);
        }
    }
    /// Whether a bundle must not leave yet because custody of it is accepted with the commit.
    // 5050-5.4-6, 5050-5.4.1-3
    pub(crate) fn awaits_custody(&self, held: &Held) -> bool {
        held.has(RetentionConstraint::Commit)
            && self.custody.as_ref().is_some_and(|custody| custody.is(held.number, Stage::Promised))
    }
    /// Store flag of a bundle whose custody this node accepts with the commit ([`KEPT_CUSTODY`]); 0 for other bundles.
    pub(crate) fn kept_custody(&self, held: &Held) -> u32 {
        let taken = self.custody.as_ref().is_some_and(|custody| custody.is(held.number, Stage::Promised));
        if taken { KEPT_CUSTODY } else { 0 }
    }

    /// Begins custody of a bundle that the store has committed, and answers the former custodian.
    // 5050-5.7-5, 5050-5.10-2, 5050-5.10.1-2
    pub(crate) fn on_custody_stored<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        let (Some(custody), Some(held)) = (&mut self.custody, self.book.get(bundle)) else { return };
        let (number, name, meta) = (held.number, held.name(), held.bundle.clone());
        let before = if custody.is(number, Stage::Arrives) {
            custody.forget(number).map(|entry| entry.before)
        } else {
            let taken = custody.take(&mut self.book, number);
            // The bundle was held back until now: custody must be durable before it leaves.
            if taken.is_some() {
                self.event(cx.out, Event::CustodyTaken { bundle: name });
                self.work.extend([Step::Dispatch(bundle), Step::Offer(bundle)]);
                self.report_compressed_of(cx.now, bundle, Fate::CustodyTaken, cx.edge);
            }
            taken
        };
        if let Some(before) = before.flatten() {
            self.answer(cx, &before, &meta, Answer::Taken);
        }
    }

    /// Answers a custodian that sends a bundle which is held or was delivered here already, so that the custodian may
    /// release it (RFC 5050 5.6 step 4).
    // 5050-5.6-5
    pub(crate) fn answer_again<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        meta: &BundleMeta,
        from: PeerId,
        hop: &HopState,
    ) {
        if self.custody.is_none() || !asks(meta) || !self.deals_with(from) {
            return;
        }
        let Some(before) = self.custodian_of(hop) else { return };
        let held = self.book.find(meta.id);
        let answer = match held {
            // The bundle was delivered and is no longer held, so no later event would answer the custodian.
            None => Answer::Taken,
            Some(held) if self.is_for_us(meta) && self.is_durable(held) && self.settings.durable => Answer::Taken,
            Some(held) if held.has(RetentionConstraint::Custody) && self.stays_custodian(held.number, &before) => {
                Answer::Redundant
            }
            Some(_) => return,
        };
        self.answer(cx, &before, meta, answer);
    }

    /// Answers the custodian of a departing bundle that was given up or delivered here, and ends custody of it.
    // 5050-5.4.2-1, 5050-5.7-5
    pub(crate) fn leave_custody<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle, why: Why) {
        let (Some(custody), Some(held)) = (&mut self.custody, self.book.get(bundle)) else { return };
        let Some(entry) = custody.forget(held.number) else { return };
        let (meta, reason) = (held.bundle.clone(), why.reason());
        let answer = match (entry.stage, reason) {
            (Stage::Arrives, DeleteReason::Done) => Answer::Taken,
            // RFC 5050 5.4.2. The custodian notices expiry on its own.
            (Stage::Theirs, reason) if !matches!(reason, DeleteReason::Done | DeleteReason::Expired) => failed(reason),
            _ => return,
        };
        if let Some(before) = entry.before {
            self.answer(cx, &before, &meta, answer);
        }
    }

    /// Whether this node certainly remains custodian of a bundle that `other` sends again, so that `other` may release
    /// it. Once the bundle was forwarded, this is certain only if `other` was custodian before this node. Any other
    /// custodian may have got the bundle through this node: its custody signal, still under way, would end custody
    /// here, and if `other` had released the bundle, no custodian would be left.
    fn stays_custodian(&self, number: u64, other: &Custodian) -> bool {
        let entry = self.custody.as_ref().and_then(|custody| custody.get(number));
        entry.is_some_and(|entry| !entry.handed || entry.before.as_ref() == Some(other))
    }

    /// Answers a custodian about one bundle: gathered with other answers if the custodian numbered the bundle, else in
    /// a signal of its own.
    fn answer<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        before: &Custodian,
        meta: &BundleMeta,
        answer: Answer,
    ) {
        let Custodian { node, transfer } = before;
        if let Some((transfer, custody)) = transfer.as_ref().zip(self.custody.as_mut()) {
            let destination = if transfer.sequence == 0 { meta.destination.clone() } else { EndpointId::Null };
            let sequence = transfer.sequence;
            let group = CustodySignalGroup { to: node.clone(), version: meta.version, answer, sequence, destination };
            return custody.gather(cx.now, group, transfer.number);
        }
        let signal = Signal { answer, about: About::One(meta.identity()) };
        self.say(cx, node.clone(), meta.version, &signal, 1);
    }

    /// Sends a gathered answer in as many signals as needed.
    pub(super) fn send_gathered<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        group: &CustodySignalGroup,
        numbers: &Ranges,
    ) {
        let (sequence, destination) = (group.sequence, &group.destination);
        let run =
            |(first, end): (u64, u64)| Numbers { sequence, destination: destination.clone(), first, last: end - 1 };
        let runs: Vec<Numbers> = numbers.all().map(run).collect();
        for runs in runs.chunks(RUNS_MAX) {
            let count = runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.last - run.first + 1));
            let signal = Signal { answer: group.answer, about: About::Numbers(runs.to_vec()) };
            self.say(cx, group.to.clone(), group.version, &signal, count);
        }
    }

    fn say<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        to: EndpointId,
        version: u8,
        signal: &Signal,
        bundles: u64,
    ) {
        let Some(payload) = cx.edge.custody_signal(version, signal, self.wall_clock.utc_at(cx.now)) else { return };
        let (node, taken) = (to.node(), signal.answer.releases());
        if self.send_record(cx, to, version, Facts(Facts::ADMIN | Facts::NO_FRAGMENT), payload, Priority::Expedited) {
            self.event(cx.out, Event::CustodySignalled { to: node, taken, bundles });
        }
    }
}

/// Answer to a custodian about a bundle that was given up for this reason.
fn failed(reason: DeleteReason) -> Answer {
    match reason {
        DeleteReason::DepletedStorage | DeleteReason::TrafficPared => Answer::Depleted,
        DeleteReason::DestinationUnavailable => Answer::Unintelligible,
        DeleteReason::NoRoute => Answer::NoRoute,
        DeleteReason::NoTimelyContact => Answer::NoContact,
        DeleteReason::BlockUnintelligible | DeleteReason::BlockUnsupported => Answer::BadBlock,
        _ => Answer::Refused,
    }
}
