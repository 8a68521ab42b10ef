//! Taking bundles in: from a neighbour (RFC 9171 5.6), from an application (5.2), from the store
//! after a restart. Accepted means kept: the verdict waits for the store.

use crate::agent::{Agent, Step, deleted};
use crate::app::{AppOutput, RequestId, SendRequest};
use crate::debts::Debt;
use crate::edge::{Draft, Edge, Fate, Record, Status};
use crate::io::{OfferToken, Output};
use crate::shares;
use crate::signals::HELLO_MAX;
use crate::waits::Turned;
use alloc::sync::Arc;
use core::time::Duration;
use farlink_base::store::{self, IndexEntry};
use farlink_base::{
    BundleHandle, BundleId, BundleMeta, CreationTimestamp, DeleteReason, DtnTime, Duties, EndpointId, Event, Facts,
    Hop, Instant, LinkId, Malformed, NodeId, Payload, PeerId, Refusal, Sink,
};
use farlink_book::{Birth, Flags, Handle, Held, New, News, Peer, Reason, Reasons, Side, Why};

/// A difference of lifetimes that clocks do not make.
const SHORTENED: Duration = Duration::from_millis(100);

impl Agent {
    // 9171-5.6-2, 9171-5.6-3
    pub(crate) fn on_malformed<S: Sink<Output>>(
        &mut self,
        link: LinkId,
        token: OfferToken,
        error: Malformed,
        out: &mut S,
    ) {
        self.event(out, Event::Malformed { link: Some(link), offset: error.offset, reason: error.reason });
        self.promise_ends(token);
        // Nobody knows which of its pieces is damaged.
        self.pieces_end(token, false);
        out.push(Output::Verdict { token, result: Err(Refusal::NotAcceptable) });
    }

    /// What arrived cannot be taken by this node, whoever it is from.
    pub(crate) fn on_unwanted<S: Sink<Output>>(
        &mut self,
        link: LinkId,
        token: OfferToken,
        bundle: &BundleMeta,
        reason: Refusal,
        out: &mut S,
    ) {
        self.event_refused(Some(link), Some(bundle), reason, out);
        self.promise_ends(token);
        self.pieces_end(token, false);
        out.push(Output::Verdict { token, result: Err(reason) });
    }

    /// A bundle begins to arrive: what would be refused in the end is refused now; to the rest room
    /// is promised, but to what may be a hello, which needs none.
    pub(crate) fn on_begun<S: Sink<Output>>(
        &mut self,
        now: Instant,
        link: LinkId,
        token: OfferToken,
        bundle: Arc<BundleMeta>,
        hop: &Hop,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let from = self.giver(link, hop);
        if self.may_be_hello(from, &bundle) && bundle.payload.len() <= HELLO_MAX {
            return;
        }
        self.promise_ends(token);
        let mut new = self.newcomer(now, bundle.clone(), from, hop);
        new.flags.set(Flags::STRANGE, self.neighbours.is_strange(link));
        let refusal = match self.known(&bundle) {
            // What is durable here need not come again.
            Some(held) if self.is_kept(held) && !self.comes_anew(held, from, hop) => Some(Refusal::Duplicate),
            Some(_) => None,
            None if self.was_delivered(&bundle) => Some(Refusal::Duplicate),
            None if self.was_there(&bundle, from) => Some(Refusal::NotAcceptable),
            None => self.judge(now, &new).and_then(|()| self.make_room(now, &new, edge, out)).err(),
        };
        match refusal {
            None => self.promise_room(token, new),
            Some(reason) => {
                if reason == Refusal::Duplicate {
                    self.note_return(&bundle, from, hop);
                    self.answer_again(now, &bundle, from, hop, edge, out);
                } else {
                    self.turn_away(now, link, &bundle, reason, edge, out);
                }
                out.push(Output::Verdict { token, result: Err(reason) });
            }
        }
    }

    /// A whole bundle arrived.
    pub(crate) fn on_arrived<S: Sink<Output>>(
        &mut self,
        now: Instant,
        link: LinkId,
        token: OfferToken,
        bundle: Arc<BundleMeta>,
        hop: &Hop,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        self.promise_ends(token);
        let inside = token.layer == OfferToken::TUNNEL;
        let (carrier, strange) = match inside {
            true => self.giver_of_inside(token),
            false => (self.giver(link, hop), self.neighbours.is_strange(link)),
        };
        let from = if inside { self.tunnel_of(token) } else { carrier };
        if let Some(peer) = self.neighbours.peer_mut(from) {
            if self.policies.offers() && !bundle.is_anonymous() {
                peer.note_has(bundle.id as u64);
            }
        }
        let insecure = bundle.duties.security().is_some();
        if self.was_delivered(&bundle) {
            // It was delivered: the neighbour only missed the acknowledgment.
            self.pieces_end(token, false);
            if !insecure {
                self.answer_again(now, &bundle, carrier, hop, edge, out);
            }
            return out.push(Output::Verdict { token, result: had(hop) });
        }
        if self.was_there(&bundle, from) {
            self.pieces_end(token, false);
            // What is here of it goes its way.
            if self.known(&bundle).is_some_and(|held| self.is_durable(held)) {
                return out.push(Output::Verdict { token, result: had(hop) });
            }
            self.turn_away(now, link, &bundle, Refusal::NotAcceptable, edge, out);
            return out.push(Output::Verdict { token, result: Err(Refusal::NotAcceptable) });
        }
        if let Some(known) = self.known(&bundle).map(Held::handle) {
            let kept = self.book.get(known).is_some_and(|held| self.is_kept(held));
            self.pieces_end(token, !kept);
            if insecure {
                // It only says that it is the one that is here.
                return out.push(Output::Verdict { token, result: Ok(()) });
            }
            self.note_return(&bundle, from, hop);
            self.answer_again(now, &bundle, carrier, hop, edge, out);
            return self.on_known(now, known, token, from, hop, out);
        }
        // What came through a tunnel no neighbour says.
        if !insecure && !inside && self.take_hello(now, from, &bundle, hop, edge, out) {
            self.pieces_end(token, false);
            return out.push(Output::Verdict { token, result: Ok(()) });
        }
        let mut new = self.newcomer(now, bundle.clone(), from, hop);
        new.flags.set(Flags::STRANGE, strange);
        new.flags.set(Flags::SEEN_BEFORE, inside && bundle.is_administrative());
        let admitted = self.judge(now, &new).and_then(|()| self.make_room(now, &new, edge, out));
        if let Err(reason) = admitted {
            self.turn_away(now, link, &bundle, reason, edge, out);
            // What was promised of it is kept.
            self.pieces_end(token, true);
            return out.push(Output::Verdict { token, result: Err(reason) });
        }
        let wire = hop.labels;
        let handle = self.take_in(now, new, hop, Some(Debt::Offer(token)), out);
        self.pieces_await(token, handle);
        let from = self.node_of(from);
        self.event(out, Event::Received { bundle: self.number(handle), link, from });
        self.report(now, handle, Status::Received, DeleteReason::Done, edge, out);
        if self.compressed.is_some() && self.declines_custody(handle) {
            self.report_compressed_of(now, handle, Fate::CustodyRefused, edge);
        }
        self.tell_kept(now, handle, wire, out);
        if bundle.duties.has(Duties::REPORT) {
            self.report(now, handle, Status::Received, DeleteReason::BlockUnsupported, edge, out);
        }
        self.heed(now, handle, edge, out);
    }

    /// A bundle is not taken. Of one whose time is over, that is its deletion (RFC 9171 5.5, 5.10): whoever asked to be
    /// told hears of it.
    fn turn_away<S: Sink<Output>>(
        &mut self,
        now: Instant,
        link: LinkId,
        bundle: &BundleMeta,
        reason: Refusal,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        self.event_refused(Some(link), Some(bundle), reason, out);
        // Who is refused tries again.
        if reason == Refusal::Expired
            && !self.remembered.was_reported(bundle.id)
            && self.report_about(now, bundle, Status::Deleted, DeleteReason::Expired, edge, out)
        {
            self.remembered.report(bundle.id);
        }
    }

    /// RFC 9171 5.6, 4.4.3: what the edge found, what blocks nobody here knows ask for, and hops; then dispatching.
    // 5050-5.6-2, 9171-5.6-4, 9172-5.1.1-9
    fn heed<S: Sink<Output>>(&mut self, now: Instant, handle: Handle, edge: &mut dyn Edge, out: &mut S) {
        let Some(held) = self.book.get(handle) else { return };
        let meta = &held.bundle;
        let (duties, too_far) = (meta.duties, meta.facts.has(Facts::HOPS) && held.hops > meta.hop_limit);
        if let Some(reason) = duties.security() {
            // RFC 9172 5.1: taken, so that nobody sends it again, and deleted.
            self.depart(now, handle, deleted(reason), None, edge, out);
        } else if duties.has(Duties::DELETE) {
            self.depart(now, handle, deleted(DeleteReason::BlockUnsupported), None, edge, out);
        } else if too_far {
            self.depart(now, handle, deleted(DeleteReason::HopLimit), None, edge, out);
        } else {
            self.steps.push_back(Step::Dispatch(handle));
        }
    }

    /// A bundle comes that is here already. It was acknowledged or will be; if all of it is on its
    /// way out, it is routed anew, so that a late confirmation does not lose it.
    fn on_known<S: Sink<Output>>(
        &mut self,
        now: Instant,
        handle: Handle,
        token: OfferToken,
        from: PeerId,
        hop: &Hop,
        out: &mut S,
    ) {
        let Some(held) = self.book.get(handle) else { return };
        let (anew, number) = (self.comes_anew(held, from, hop), held.number);
        // Of a whole with parts that are not durable nothing can be promised yet.
        let promised = if !self.is_kept(held) {
            Err(Refusal::NoResources)
        } else if anew {
            Ok(())
        } else {
            had(hop)
        };
        if self.fragments.is_arriving(handle) || !self.debts.add(number, Debt::Offer(token)) {
            out.push(Output::Verdict { token, result: promised });
        }
        if !anew {
            return;
        }
        let ups = self.neighbours.ups(from);
        if from != PeerId::NONE {
            self.waits.refuse(&mut self.book, handle, from, ups, Turned::Back);
        }
        self.cuts.begin_anew(&self.book, handle);
        self.book.hold(handle, Reason::Route);
        if let Some(held) = self.book.get_mut(handle) {
            held.hops = held.hops.max(hop.hops);
            // Its own labels are under way; it has those it came back with.
            held.labels = hop.labels.unwrap_or(held.labels);
        }
        let _ = now;
        self.steps.extend([Step::Dispatch(handle), Step::Offer(handle)]);
    }

    /// Whether a bundle that is here comes on a new way, rather than once more from the neighbour
    /// that missed the acknowledgment; only then is there something to route.
    fn comes_anew(&self, held: &Held, from: PeerId, hop: &Hop) -> bool {
        const LEAVING: Reasons = Reasons::of(&[Reason::Send, Reason::Commit, Reason::Whole]);
        let leaving = held.has(Reason::Send) && held.reasons().within(LEAVING);
        leaving && is_on_new_way(held, from, hop)
    }
    /// Whether a bundle that is here stays here: a piece of what is arriving goes when its whole is damaged.
    fn is_kept(&self, held: &Held) -> bool {
        self.is_durable(held) && !self.fragments.is_arriving(held.handle())
    }
    /// A bundle that is here comes on another way: whoever had it from this node may have let it go since, so that what
    /// it said before counts no more.
    fn note_return(&mut self, bundle: &BundleMeta, from: PeerId, hop: &Hop) {
        let back = self.book.find(bundle.id).filter(|held| is_on_new_way(held, from, hop)).map(|held| held.number);
        if let (Some(tunnels), Some(number)) = (&mut self.tunnels, back) {
            tunnels.came_back(number);
        }
    }

    /// Whether the node that a bundle is for gives it away: it has had it, and some (dtn7-go) pass on what they
    /// deliver. Sent back, it would be delivered twice, or go to and fro. It is refused: should another node of the same
    /// name be meant, it is not lost.
    fn was_there(&self, bundle: &BundleMeta, from: PeerId) -> bool {
        let node = bundle.destination_node();
        node != NodeId::NULL
            && !bundle.is_for_group()
            && !self.is_local(node)
            && self.neighbours.peers().get(from).is_some_and(|peer| peer.is(node))
    }
    /// A held bundle of the same identity; the book knows none of anonymous bundles (RFC 9171 4.2.3).
    pub(crate) fn known(&self, bundle: &BundleMeta) -> Option<&Held> {
        self.book.find(bundle.id)
    }
    /// Whether it, or the bundle it is a piece of, was delivered here.
    pub(crate) fn was_delivered(&self, bundle: &BundleMeta) -> bool {
        !bundle.is_anonymous()
            && (self.is_local(bundle.destination_node()) || bundle.is_for_group())
            && self.remembered.was_delivered(bundle.original_id())
    }
    /// The neighbour a bundle came from: the link's, or what the bundle says on a link nobody named.
    pub(crate) fn giver(&mut self, link: LinkId, hop: &Hop) -> PeerId {
        let peer = self.neighbours.peer_of(link);
        let unnamed = self.neighbours.peers().get(peer).is_some_and(|p| p.node == NodeId::NULL);
        // RFC 9171 4.4.1: a previous node is said by its node ID.
        if unnamed && self.names_another(&hop.previous) {
            self.learn(peer, hop.previous.clone(), farlink_book::Identity::Claimed);
            self.sweeps.to(hop.previous.node());
        }
        peer
    }

    /// Who gave a bundle, by name: a neighbour, or the far end of the tunnel that it came out of. Null: nobody knows.
    pub(crate) fn giver_name(&self, from: PeerId) -> EndpointId {
        let far_end = || Some(self.tunnels.as_ref()?.far_end(from)?.clone());
        self.neighbours.peers().get(from).map(Peer::endpoint).or_else(far_end).unwrap_or_default()
    }

    /// Rules that let a bundle in at all.
    pub(crate) fn judge(&self, now: Instant, new: &Held) -> Result<(), Refusal> {
        if self.terminating {
            return Err(Refusal::Terminating);
        }
        if !self.open {
            return Err(Refusal::NotOpen);
        }
        let meta = &new.bundle;
        if meta.destination.is_null() {
            return Err(Refusal::NotAcceptable);
        }
        // A group is nobody to send (RFC 9171 4.2.5.1.1).
        if meta.source.is_group() {
            return Err(Refusal::NotAcceptable);
        }
        // RFC 9758 5.4: "this node" means nothing from another one.
        if [&meta.source, &meta.destination, meta.report_to()].into_iter().any(EndpointId::is_here) {
            return Err(Refusal::NotAcceptable);
        }
        if new.expires <= now {
            return Err(Refusal::Expired);
        }
        let local = self.is_for_us(&new.bundle);
        if local && new.bundle.fragment().is_some() && self.fragments.are_full(new.bundle.source.node()) {
            return Err(Refusal::NoResources);
        }
        if self.remembered.is_banned(new.bundle.id) && !local { Err(Refusal::NoResources) } else { Ok(()) }
    }

    /// A bundle as it would stand in the book.
    pub(crate) fn newcomer(&self, now: Instant, bundle: Arc<BundleMeta>, from: PeerId, hop: &Hop) -> Held {
        let expires = now + self.lifetime_here(self.remaining_lifetime(now, &bundle, hop.age_ms));
        let labels = hop.labels.unwrap_or_default();
        Held::newcomer(New {
            bundle,
            number: None,
            born: Birth::of(now, hop.age_ms),
            expires,
            from,
            hops: hop.hops,
            labels,
            reasons: Reasons::of(&[Reason::Route]),
            flags: Flags::default(),
        })
    }

    /// Lifetime left on arrival: by the clock when both the source's and ours are known, else by
    /// the age block, else all of it (RFC 9171 5.5).
    // 9171-5.5-1
    fn remaining_lifetime(&self, now: Instant, bundle: &BundleMeta, age_ms: u64) -> Duration {
        let age = match (bundle.created_ms, self.wall.utc_at(now)) {
            (0, _) | (_, None) => age_ms,
            (created, Some(utc)) => utc.saturating_since_ms(DtnTime(created)),
        };
        Duration::from_millis(bundle.lifetime_ms.saturating_sub(age))
    }

    /// How long a bundle of this lifetime is kept here: as long, or less where this node overrides it.
    // 9171-4.3.1-7
    fn lifetime_here(&self, lifetime: Duration) -> Duration {
        match self.settings.limits.lifetime_s {
            0 => lifetime,
            most => lifetime.min(Duration::from_secs(most.into())),
        }
    }
    /// Whether this node keeps a bundle for a shorter time than its lifetime.
    pub(crate) fn is_shortened(&self, now: Instant, held: &Held) -> bool {
        let lives = || self.remaining_lifetime(now, &held.bundle, held.age_ms(now));
        self.settings.limits.lifetime_s > 0 && lives() > held.remaining(now) + SHORTENED
    }
    /// Why a bundle goes whose time here is over (RFC 9171 5.5).
    // 9171-5.5-2
    pub(crate) fn over(&self, now: Instant, held: &Held) -> DeleteReason {
        if self.is_shortened(now, held) { DeleteReason::TrafficPared } else { DeleteReason::Expired }
    }

    /// Gives a bundle its number.
    pub(crate) fn keep<S: Sink<Output>>(&mut self, new: New, out: &mut S) -> Handle {
        let handle = self.book.keep(new);
        if let Some(held) = self.book.get(handle) {
            self.memory.come(held);
            if self.shares.counts(held, &self.settings.limits) {
                let giver = self.giver_name(held.from);
                self.shares.come(held, &self.settings.limits, &giver);
            }
            if let Some(oracle) = self.policies.oracle().filter(|_| !held.flags.has(Flags::VIRTUAL)) {
                oracle.kept(held.bundle.id);
            }
        }
        self.event_seen(handle, out);
        handle
    }

    /// Takes an admitted bundle into the book and hands it to the store.
    // 9171-5.6-1, 5050-5.6-1
    fn take_in<S: Sink<Output>>(
        &mut self,
        now: Instant,
        new: Held,
        hop: &Hop,
        debt: Option<Debt>,
        out: &mut S,
    ) -> Handle {
        let mut flags = new.flags;
        flags.set(Flags::DURABLE, !self.settings.durable);
        // What fails is deleted at once: on disk it would be there after a crash, without the reason to delete it.
        let fails = new.bundle.duties.security().is_some() && !new.bundle.payload.is_stored();
        flags.set(Flags::UNRECORDED, fails);
        let handle = self.keep(
            New {
                bundle: new.bundle,
                number: None,
                born: new.born,
                expires: new.expires,
                from: new.from,
                hops: new.hops,
                labels: new.labels,
                reasons: Reasons::of(&[Reason::Route]),
                flags,
            },
            out,
        );
        if self.custody.is_some() {
            let carrier = match debt {
                Some(Debt::Offer(token)) if token.layer == OfferToken::TUNNEL => self.giver_of_inside(token).0,
                _ => new.from,
            };
            self.enter_custody(handle, hop, carrier);
        }
        if self.settings.durable && !fails {
            self.debts.begin(&mut self.book, handle, debt);
            self.put(now, handle, out);
        } else {
            self.pay(handle, debt, Ok(()), out);
        }
        handle
    }

    pub(crate) fn put<S: Sink<Output>>(&self, now: Instant, handle: Handle, out: &mut S) {
        let Some(held) = self.book.get(handle) else { return };
        let (utc, meta) = (self.wall.utc_at(now), &held.bundle);
        let remaining_ms = held.remaining(now).as_millis() as u64;
        let index = IndexEntry {
            priority: meta.priority,
            expires: utc.map(|t| t.saturating_add_ms(remaining_ms)),
            stored_at: utc,
            age_ms: held.age_ms(now),
            quota: meta.source.node().0,
            fingerprint: meta.id,
            flags: u32::from(held.flags.0 & shares::KEPT_FLAGS) | self.kept_custody(held),
        };
        out.push(Output::Put { bundle: held.name(), index, meta: meta.clone() });
    }

    /// Pays debts with the store's answer, or one that does as well.
    pub(crate) fn pay<S: Sink<Output>>(
        &mut self,
        handle: Handle,
        debts: impl IntoIterator<Item = Debt>,
        result: Result<(), Refusal>,
        out: &mut S,
    ) {
        for debt in debts {
            match debt {
                Debt::Offer(token) => out.push(Output::Verdict { token, result }),
                Debt::Piece(token, promises) => {
                    if result.is_ok() {
                        self.promise(token, promises, out);
                    }
                }
                Debt::Pieces(token) => self.pieces_end(token, result.is_err()),
                Debt::Request(request) => {
                    let Some(held) = self.book.get(handle) else { continue };
                    let result = result.map(|()| held.bundle.identity());
                    out.push(Output::App(AppOutput::SendResult { request, result }));
                }
            }
        }
        if result.is_ok() {
            self.event(out, Event::Accepted { bundle: self.number(handle) });
        }
    }

    /// What is owed about a bundle that leaves: it is where it should be.
    pub(crate) fn pay_all<S: Sink<Output>>(&mut self, handle: Handle, out: &mut S) {
        let Some(number) = self.book.get(handle).map(|held| held.number) else { return };
        if let Some(owed) = self.debts.settle(number).filter(|owed| !owed.debts.is_empty()) {
            self.pay(handle, owed.debts, Ok(()), out);
        }
    }

    pub(crate) fn number(&self, handle: Handle) -> BundleHandle {
        self.book.get(handle).map_or(BundleHandle(0), Held::name)
    }

    /// What the store says.
    pub(crate) fn on_store<S: Sink<Output>>(
        &mut self,
        now: Instant,
        output: store::Output,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        match output {
            store::Output::Stored { bundle, payload } => self.on_stored(now, bundle, payload, edge, out),
            store::Output::Refused { bundle, reason } => self.on_store_refused(now, bundle, reason, edge, out),
            store::Output::Deleted { bundle } => self.on_deleted(bundle),
            store::Output::RecoveredDelivery(remembered) => self.remembered.deliver(remembered.fingerprint),
            store::Output::Opened { counter, last_bundle } => self.on_opened(now, counter, last_bundle, edge, out),
            store::Output::CounterSet { value } => {
                self.creation.reserved(value);
                while let Some((request, bundle)) = self.creation.pop_waiting() {
                    self.on_send(now, request, bundle, edge, out);
                }
            }
            store::Output::Event(event) => self.event(out, event),
            // The stack decodes recovered bundles, reads payloads, and keeps spills and disk
            // operations to itself.
            _ => {}
        }
    }

    fn on_stored<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: BundleHandle,
        payload: Option<farlink_base::Payload>,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some(owed) = self.debts.settle(bundle.0) else { return };
        let handle = owed.bundle;
        let Some(held) = self.book.get_mut(handle) else { return };
        held.flags.set(Flags::DURABLE, true);
        self.pay(handle, owed.debts, Ok(()), out);
        if self.custody.is_some() {
            self.on_custody_stored(now, handle, edge, out);
        }
        let last = self.book.release(handle, Reason::Commit);
        debug_assert!(!last, "a bundle nobody needs has left by now");
        if let Some(on_disk) = payload.filter(|_| self.memory.is_scarce(self.settings.limits.memory_bytes)) {
            self.memory.let_go(&mut self.book, handle, on_disk);
        }
        self.await_delivery(handle);
        self.durable_part(handle);
    }

    fn on_store_refused<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: BundleHandle,
        reason: Refusal,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some(held) = self.debts.bundle(bundle.0).and_then(|handle| self.book.get_mut(handle)) else { return };
        let (handle, meta) = (held.handle(), held.bundle.clone());
        held.flags.set(Flags::UNRECORDED, true);
        let sending = held.has(Reason::Send);
        self.event_refused(None, Some(&meta), reason, out);
        if sending {
            self.forgo(handle);
            return self.debts.refuse(bundle.0, reason);
        }
        let Some(owed) = self.debts.settle(bundle.0) else { return };
        self.pay(handle, owed.debts, Err(reason), out);
        self.depart(now, handle, deleted(DeleteReason::DepletedStorage), None, edge, out);
    }

    /// A bundle an earlier run kept; before `Opened`.
    pub(crate) fn on_recovered<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: BundleHandle,
        index: &IndexEntry,
        meta: Arc<BundleMeta>,
        hop: &Hop,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        // Residence counts through downtime when both ends of it were dated, and can be believed.
        let down_ms = index.stored_at.map_or(0, |stored_at| self.wall.found(now, stored_at));
        let stored_remaining_ms = match (index.expires, index.stored_at) {
            (Some(expires), Some(stored_at)) => expires.saturating_since_ms(stored_at),
            _ => meta.lifetime_ms.saturating_sub(index.age_ms),
        };
        let remaining = Duration::from_millis(stored_remaining_ms.saturating_sub(down_ms));
        if self.known(&meta).is_some() || self.was_delivered(&meta) {
            self.book.skip_to(bundle.0);
            return out.push(Output::Store(store::Input::Delete { bundle, remember: None }));
        }
        let giver = self.neighbours.of_node(hop.previous.node()).map_or(PeerId::NONE, |peer| peer.id);
        let handle = self.keep(
            New {
                bundle: meta,
                number: Some(bundle.0),
                born: Birth::of(now, index.age_ms.saturating_add(down_ms)),
                expires: now + remaining,
                from: giver,
                hops: hop.hops,
                labels: hop.labels.unwrap_or_default(),
                reasons: Reasons::of(&[Reason::Route]),
                flags: Flags(Flags::DURABLE | Flags::SEEN_BEFORE | (index.flags as u8 & shares::KEPT_FLAGS)),
            },
            out,
        );
        if self.custody.is_some() {
            self.resume_custody(handle, index.flags, hop);
        }
        self.event(out, Event::Recovered { bundle });
        self.tell_kept(now, handle, hop.labels, out);
        // The node may have died between keeping it and deleting it.
        self.heed(now, handle, edge, out);
    }

    fn on_opened<S: Sink<Output>>(
        &mut self,
        now: Instant,
        counter: u64,
        last_bundle: u64,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        self.open = true;
        self.book.skip_to(last_bundle);
        let reserve = self.creation.resume(counter);
        self.reserve(reserve, out);
        self.judge_clock(now, out);
        for link in self.neighbours.links().map(|link| link.id).collect::<alloc::vec::Vec<_>>() {
            self.refresh_link(now, link, out);
        }
        let mut deferred = core::mem::take(&mut self.deferred);
        for input in deferred.made().map(|deferred| core::mem::take(&mut deferred.0)).into_iter().flatten() {
            self.on_app(now, input, edge, out);
        }
    }

    /// RFC 9171 5.2: an application wants a bundle sent.
    // 9171-5.2-2, 5050-5.2-4
    pub(crate) fn on_send<S: Sink<Output>>(
        &mut self,
        now: Instant,
        request: RequestId,
        wanted: SendRequest,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let refuse = |agent: &Self, reason, out: &mut S| {
            agent.event_refused(None, None, reason, out);
            out.push(Output::App(AppOutput::SendResult { request, result: Err(reason) }));
        };
        let Some(source) = self.local_endpoint(&wanted.source) else {
            return refuse(self, if self.terminating { Refusal::Terminating } else { Refusal::Unknown }, out);
        };
        if self.terminating {
            return refuse(self, Refusal::Terminating, out);
        }
        if wanted.destination.is_null() {
            return refuse(self, Refusal::NotAcceptable, out);
        }
        // RFC 5050 5.2 step 1: a request that cannot be honoured is refused.
        if wanted.facts.has(Facts::CUSTODY) && !self.asks_for_custody(&source, &wanted) {
            return refuse(self, Refusal::NotAcceptable, out);
        }
        let Some(creation) = self.next_creation(now, &source, out) else {
            if self.creation.wait(request, wanted).is_err() {
                refuse(self, Refusal::NoResources, out);
            }
            return;
        };
        let (mut draft, payload) = self.draft(source, wanted);
        if draft.destination.is_null() {
            return refuse(self, Refusal::NotAcceptable, out);
        }
        draft.compressed = self.asks_compressed(now, &draft);
        if draft.compressed.is_some() {
            draft.facts.0 &= !(Facts::REPORTS | Facts::STATUS_TIME);
        }
        let made = self.make_new(now, draft, creation, payload, edge, out);
        if let Err(reason) = made.and_then(|meta| self.create(now, meta, Some(request), edge, out)) {
            refuse(self, reason, out);
        }
    }

    /// An endpoint as other nodes understand it: what "this node" is called is said here (RFC 9758 5.4: `ipn:!.n` never
    /// leaves). Null where this node has no name of that scheme.
    fn seen_outside(&self, endpoint: EndpointId) -> EndpointId {
        if endpoint.is_here() { endpoint.canonical(&self.settings.node_ids).unwrap_or_default() } else { endpoint }
    }

    /// What is to be made of a request, and its payload.
    pub(crate) fn draft(&self, source: EndpointId, wanted: SendRequest) -> (Draft, Payload) {
        let unreliable = if wanted.reliable { 0 } else { Facts::UNRELIABLE };
        let custody = if self.asks_for_custody(&source, &wanted) { Facts::CUSTODY } else { 0 };
        let draft = Draft {
            version: self.settings.version,
            source,
            destination: self.seen_outside(wanted.destination),
            report_to: self.seen_outside(wanted.report_to),
            facts: Facts(wanted.facts.0 & (Facts::REQUESTS | Facts::CRITICAL) | unreliable | custody),
            lifetime_ms: wanted.lifetime_ms,
            priority: wanted.priority,
            hop_limit: if wanted.hop_limit == 0 { self.settings.hop_limit } else { wanted.hop_limit },
            compressed: None,
        };
        (draft, wanted.payload)
    }

    /// Takes a bundle made here into the node.
    // 9171-5.2-1, 5050-5.2-3
    pub(crate) fn create<S: Sink<Output>>(
        &mut self,
        now: Instant,
        meta: BundleMeta,
        request: Option<RequestId>,
        edge: &mut dyn Edge,
        out: &mut S,
    ) -> Result<(), Refusal> {
        let mut new = self.newcomer(now, Arc::new(meta), PeerId::NONE, &Hop::default());
        new.expires = now + self.lifetime_here(Duration::from_millis(new.bundle.lifetime_ms));
        if new.bundle.facts.has(Facts::CUSTODY) && !self.takes_custody(&new) {
            return Err(Refusal::NoResources);
        }
        self.make_room(now, &new, edge, out)?;
        let record = new.bundle.is_administrative();
        let handle = self.take_in(now, new, &Hop::default(), request.map(Debt::Request), out);
        // What nodes tell each other, nobody waits for.
        if !record {
            self.event(out, Event::Created { bundle: self.number(handle) });
        }
        self.tell_kept(now, handle, None, out);
        self.steps.push_back(Step::Dispatch(handle));
        Ok(())
    }

    /// Tells policies of a bundle that is held from now on, and which label came with it.
    pub(crate) fn tell_kept<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: Handle,
        wire: Option<[u32; 2]>,
        out: &mut S,
    ) {
        for side in [Side::Router, Side::Control] {
            let news = News::Kept { bundle, wire: wire.map(|labels| labels[side as usize]) };
            if self.policies.wants(side, &news) {
                self.tell_one(now, side, &news, out);
            }
        }
    }

    /// A creation timestamp for a source here; `None` while numbers are being reserved on disk. What a
    /// neighbour sent under that source's name is stepped over.
    pub(crate) fn next_creation<S: Sink<Output>>(
        &mut self,
        now: Instant,
        source: &EndpointId,
        out: &mut S,
    ) -> Option<CreationTimestamp> {
        loop {
            let creation = self.next_timestamp(now, out)?;
            let id = BundleId { source: source.clone(), creation, fragment: None };
            if source.is_null() || self.book.find(id.fingerprint()).is_none() {
                return Some(creation);
            }
        }
    }
    /// A new bundle that nobody here has. A version that says its timestamp otherwise may make it another's, which only
    /// the bundle shows: that is stepped over too.
    // 5050-4.5.1-1
    pub(crate) fn make_new<S: Sink<Output>>(
        &mut self,
        now: Instant,
        draft: Draft,
        creation: CreationTimestamp,
        payload: Payload,
        edge: &mut dyn Edge,
        out: &mut S,
    ) -> Result<BundleMeta, Refusal> {
        let mut made = edge.make(draft.clone(), creation, payload.clone())?;
        while !made.is_anonymous() && self.book.find(made.id).is_some() {
            let creation = self.next_creation(now, &draft.source, out).ok_or(Refusal::NoResources)?;
            made = edge.make(draft.clone(), creation, payload.clone())?;
        }
        edge.protect(made)
    }
    /// A creation timestamp nobody else here has.
    fn next_timestamp<S: Sink<Output>>(&mut self, now: Instant, out: &mut S) -> Option<CreationTimestamp> {
        let next = self.creation.next(self.wall.utc_at(now));
        let Some(value) = next.reserve else { return next.timestamp };
        self.reserve(value, out);
        next.timestamp.or_else(|| self.creation.next(self.wall.utc_at(now)).timestamp)
    }
    /// Reserves numbers, on disk where there is one.
    fn reserve<S: Sink<Output>>(&mut self, value: u64, out: &mut S) {
        if self.settings.durable {
            out.push(Output::Store(store::Input::SetCounter { value }));
        } else {
            self.creation.reserved(value);
        }
    }

    /// Takes a neighbour's hello: it is heard and not kept. Others' hellos are no hellos; old ones, and
    /// those heard before, say nothing.
    fn take_hello<S: Sink<Output>>(
        &mut self,
        now: Instant,
        from: PeerId,
        bundle: &BundleMeta,
        hop: &Hop,
        edge: &mut dyn Edge,
        out: &mut S,
    ) -> bool {
        if !bundle.is_administrative() || !self.is_local(bundle.destination_node()) {
            return false;
        }
        let Record::Hello(content) = edge.record(bundle) else { return false };
        let lives = !self.remaining_lifetime(now, bundle, hop.age_ms).is_zero();
        if lives && self.may_be_hello(from, bundle) && self.is_news(now, from, bundle.creation()) {
            self.on_hello(now, from, &content, out);
        }
        true
    }
    /// Whether a bundle is a record of this neighbour for this node: one of those may be its hello.
    fn may_be_hello(&self, from: PeerId, bundle: &BundleMeta) -> bool {
        let neighbour = || self.neighbours.peers().get(from).is_some_and(|peer| peer.is(bundle.source.node()));
        bundle.is_administrative() && self.is_local(bundle.destination_node()) && neighbour()
    }

    /// How a delivered bundle is remembered.
    pub(crate) fn remembrance(&self, now: Instant, held: &Held) -> store::Remembered {
        // As long as another copy of it may live elsewhere.
        let lives = self.remaining_lifetime(now, &held.bundle, held.age_ms(now));
        let remaining_ms = held.remaining(now).max(lives).as_millis() as u64;
        let until = match (self.wall.utc_at(now), held.bundle.created_ms) {
            (Some(utc), _) => utc.saturating_add_ms(remaining_ms),
            // Nobody knows when that is: as long as there is room.
            (None, 0) => DtnTime(u64::MAX),
            (None, created_ms) => DtnTime(created_ms).saturating_add_ms(held.bundle.lifetime_ms),
        };
        store::Remembered { fingerprint: held.bundle.original_id(), until }
    }

    /// The end of a lifetime (RFC 9171 5.5). Parts of a whole leave with it.
    // 9171-5.5-2, 5050-5.5-1
    pub(crate) fn on_lifetime_end<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: Handle,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        if self.fragments.whole_of(bundle).is_none() {
            let Some(why) = self.book.get(bundle).map(|held| self.over(now, held)) else { return };
            self.depart(now, bundle, Why::Deleted(why), None, edge, out);
        }
    }
}

/// Whether a bundle that is here comes from somebody else than it did, or has come further.
fn is_on_new_way(held: &Held, from: PeerId, hop: &Hop) -> bool {
    from != held.from || (held.bundle.facts.has(Facts::HOPS) && hop.hops > held.hops)
}

/// The verdict on what is here already: a copy gives its label back, anything else is as good as
/// kept.
fn had(hop: &Hop) -> Result<(), Refusal> {
    if hop.labels.is_some() { Err(Refusal::Duplicate) } else { Ok(()) }
}
