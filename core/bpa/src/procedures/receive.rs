//! Taking bundles in from neighbours (RFC 9171 5.6): who is believed, what is refused, what comes again.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::{Edge, Fate, Record, Status};
use crate::io::{OfferToken, Output};
use crate::neighbours::hellos::HELLO_MAX;
use crate::procedures::identity::Place;
use crate::state::pending_commits::Debt;
use crate::state::waits::Turned;
use crate::work::Step;
use alloc::sync::Arc;
use farlink_base::{
    BundleMeta, DeleteReason, Duties, EndpointId, Event, Facts, HopState, Instant, LinkId, Malformed, NodeId, PeerId,
    Refusal, Sink,
};
use farlink_book::{Flags, Handle, Held, Peer, RetentionConstraint, RetentionConstraints, Why};

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

    /// RFC 9171 5.6 step 3, 5.10 step 1: what arrived of a bundle is deleted, and it may have asked to be told, once; its
    /// head is right.
    // 9171-5.6-2, 9171-5.10-1
    pub(crate) fn report_damaged<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: &BundleMeta) {
        let spared = self.known(bundle).is_some() || self.has_memory_of(bundle);
        let why = DeleteReason::BlockUnintelligible;
        if !spared && !self.remembered.was_reported(bundle.id) && self.report_about(cx, bundle, Status::Deleted, why) {
            self.remembered.report(bundle.id);
        }
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
        cx: &mut Context<'_, S>,
        link: LinkId,
        token: OfferToken,
        bundle: Arc<BundleMeta>,
        hop: &HopState,
    ) {
        let now = cx.now;
        let from = self.previous_node(link, hop);
        if self.may_be_hello(from, &bundle) && bundle.payload.len() <= HELLO_MAX {
            return;
        }
        self.promise_ends(token);
        let mut new = self.newcomer(now, bundle.clone(), from, hop);
        new.flags.set(Flags::STRANGE, hop.unvouched || self.neighbours.is_strange(link));
        // Whether it is what is here already nobody knows where its payload is not told yet: it is taken in to be compared.
        let same = self.is_here_or_was(&bundle, new.flags.has(Flags::STRANGE), cx.edge);
        let refusal = match self.known(&bundle) {
            // What is durable here need not come again.
            Some(held) if same && self.is_kept(held) && !self.comes_anew(held, from, hop) => Some(Refusal::Duplicate),
            Some(_) => self.judge(now, &new).err(),
            None if same => Some(Refusal::Duplicate),
            None if self.was_there(&bundle, from) => Some(Refusal::NotAcceptable),
            None => self.judge(now, &new).and_then(|()| self.make_room(cx, &new)).err(),
        };
        match refusal {
            None => self.promise_room(token, new),
            Some(reason) => {
                if reason == Refusal::Duplicate {
                    if let Some(known) = self.known(&bundle).map(Held::handle) {
                        self.note_return(known, from, hop);
                    }
                    self.answer_again(cx, &bundle, from, hop);
                } else {
                    self.turn_away(cx, link, &bundle, reason);
                }
                cx.out.push(Output::Verdict { token, result: Err(reason) });
            }
        }
    }

    /// A whole bundle arrived.
    pub(crate) fn on_arrived<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        link: LinkId,
        token: OfferToken,
        bundle: Arc<BundleMeta>,
        hop: &HopState,
    ) {
        let now = cx.now;
        self.promise_ends(token);
        let inside = token.layer == OfferToken::TUNNEL;
        let (carrier, strange) = match inside {
            true => self.previous_of_inside(token),
            false => (self.previous_node(link, hop), self.neighbours.is_strange(link)),
        };
        let strange = strange || hop.unvouched;
        let from = if inside { self.tunnel_of(token) } else { carrier };
        let insecure = bundle.duties.security().is_some();
        if self.was_there(&bundle, from) {
            self.pieces_end(token, false);
            // What is here of it goes its way.
            if self.is_durably_here(&bundle, cx.edge) {
                return cx.out.push(Output::Verdict { token, result: had(hop) });
            }
            self.turn_away(cx, link, &bundle, Refusal::NotAcceptable);
            return cx.out.push(Output::Verdict { token, result: Err(Refusal::NotAcceptable) });
        }
        let place = self.place(cx, &bundle, strange);
        if !matches!(place, Place::Forged)
            && let Some(peer) = self.neighbours.peer_mut(from)
            && self.policies.offers()
            && !bundle.is_anonymous()
        {
            peer.note_has(bundle.id as u64);
        }
        let bundle = match place {
            Place::New(bundle) => bundle,
            Place::Delivered => {
                // The neighbour only missed the acknowledgment.
                self.pieces_end(token, false);
                if !insecure {
                    self.answer_again(cx, &bundle, carrier, hop);
                }
                return cx.out.push(Output::Verdict { token, result: had(hop) });
            }
            Place::Forged => {
                self.pieces_end(token, true);
                self.turn_away(cx, link, &bundle, Refusal::NotAcceptable);
                return cx.out.push(Output::Verdict { token, result: Err(Refusal::NotAcceptable) });
            }
            Place::Here(known) => {
                let kept = self.book.get(known).is_some_and(|held| self.is_kept(held));
                self.pieces_end(token, !kept);
                if insecure {
                    // It only says that it is the one that is here.
                    return cx.out.push(Output::Verdict { token, result: Ok(()) });
                }
                self.note_return(known, from, hop);
                self.answer_again(cx, &bundle, carrier, hop);
                return self.on_known(cx, known, token, (from, strange), hop);
            }
        };
        // What came through a tunnel no neighbour says.
        if !insecure && !inside && self.take_hello(now, from, &bundle, hop, cx.edge) {
            self.pieces_end(token, false);
            return cx.out.push(Output::Verdict { token, result: Ok(()) });
        }
        let mut new = self.newcomer(now, bundle.clone(), from, hop);
        new.flags.set(Flags::STRANGE, strange);
        new.flags.set(Flags::SEEN_BEFORE, inside && bundle.is_administrative());
        let admitted = self.judge(now, &new).and_then(|()| self.may_join(&new));
        let admitted = admitted.and_then(|()| self.make_room(cx, &new));
        if let Err(reason) = admitted {
            self.turn_away(cx, link, &bundle, reason);
            // What was promised of it is kept.
            self.pieces_end(token, true);
            return cx.out.push(Output::Verdict { token, result: Err(reason) });
        }
        let wire = hop.labels;
        let handle = self.take_in(cx, new, hop, Some(Debt::Offer(token)));
        self.pieces_await(token, handle);
        let from = self.node_of(from);
        self.event(cx.out, Event::Received { bundle: self.number(handle), link, from });
        self.report(cx, handle, Status::Received, DeleteReason::Done);
        if self.reports.compresses() && self.declines_custody(handle) {
            self.report_compressed_of(now, handle, Fate::CustodyRefused, cx.edge);
        }
        self.tell_kept(now, handle, wire);
        if bundle.duties.has(Duties::REPORT) {
            self.report(cx, handle, Status::Received, DeleteReason::BlockUnsupported);
        }
        self.hold_back_return(cx, handle, strange);
        self.heed(cx, handle);
    }

    /// A bundle is not taken. Of one whose time is over, that is its deletion (RFC 9171 5.5, 5.10): whoever asked to be
    /// told hears of it.
    fn turn_away<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        link: LinkId,
        bundle: &BundleMeta,
        reason: Refusal,
    ) {
        self.event_refused(Some(link), Some(bundle), reason, cx.out);
        // Who is refused tries again.
        if reason == Refusal::Expired
            && !self.remembered.was_reported(bundle.id)
            && self.report_about(cx, bundle, Status::Deleted, DeleteReason::Expired)
        {
            self.remembered.report(bundle.id);
        }
    }

    /// RFC 9171 5.6, 4.4.3: what the edge found, what blocks nobody here knows ask for, and hops; then dispatching.
    // 5050-5.6-2, 9171-5.6-4, 9172-5.1.1-9
    pub(super) fn heed<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, handle: Handle) {
        let Some(held) = self.book.get(handle) else { return };
        let meta = &held.bundle;
        let (duties, too_far) = (meta.duties, meta.facts.has(Facts::HOPS) && held.hops > meta.hop_limit);
        if let Some(reason) = duties.security() {
            // RFC 9172 5.1: taken, so that nobody sends it again, and deleted.
            self.depart(cx, handle, Why::Deleted(reason), None);
        } else if duties.has(Duties::DELETE) {
            self.depart(cx, handle, Why::Deleted(DeleteReason::BlockUnsupported), None);
        } else if too_far {
            self.depart(cx, handle, Why::Deleted(DeleteReason::HopLimit), None);
        } else {
            self.work.push(Step::Dispatch(handle));
        }
    }

    /// A bundle comes that is here already. It was acknowledged or will be; if all of it is on its
    /// way out, it is routed anew, so that a late confirmation does not lose it.
    fn on_known<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        handle: Handle,
        token: OfferToken,
        (from, strange): (PeerId, bool),
        hop: &HopState,
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
        if self.fragments.is_arriving(handle) || !self.pending_commits.add(number, Debt::Offer(token)) {
            cx.out.push(Output::Verdict { token, result: promised });
        }
        if !anew {
            return;
        }
        let ups = self.neighbours.ups(from);
        if from != PeerId::NONE {
            self.outbound.waits.refuse(&mut self.book, handle, from, ups, Turned::Back);
        }
        self.outbound.partial_sends.begin_anew(&self.book, handle);
        self.book.hold(handle, RetentionConstraint::Route);
        self.hold_back_return(cx, handle, strange);
        if let Some(held) = self.book.get_mut(handle) {
            held.hops = held.hops.max(hop.hops);
            // Its own labels are under way; it has those it came back with.
            held.labels = hop.labels.unwrap_or(held.labels);
        }
        self.work.extend([Step::Dispatch(handle), Step::Offer(handle)]);
    }

    /// Whether a bundle that is here comes on a new way, rather than once more from the neighbour
    /// that missed the acknowledgment; only then is there something to route.
    fn comes_anew(&self, held: &Held, from: PeerId, hop: &HopState) -> bool {
        const LEAVING: RetentionConstraints = RetentionConstraints::of(&[
            RetentionConstraint::Send,
            RetentionConstraint::Commit,
            RetentionConstraint::Whole,
        ]);
        let leaving = held.has(RetentionConstraint::Send) && held.reasons().within(LEAVING);
        leaving && is_on_new_way(held, from, hop)
    }

    /// Whether a bundle that is here stays here: a piece of what is arriving goes when its whole is damaged.
    fn is_kept(&self, held: &Held) -> bool {
        self.is_durable(held) && !self.fragments.is_arriving(held.handle())
    }

    /// A bundle that is here comes on another way: whoever had it from this node may have let it go since, so that what
    /// it said before counts no more.
    fn note_return(&mut self, bundle: Handle, from: PeerId, hop: &HopState) {
        let back = self.book.get(bundle).filter(|held| is_on_new_way(held, from, hop)).map(|held| held.number);
        if let Some(number) = back {
            self.note_back_from_tunnel(number);
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

    /// The neighbour a bundle came from: the link's, or what the bundle says on a link nobody named.
    pub(super) fn previous_node(&mut self, link: LinkId, hop: &HopState) -> PeerId {
        let peer = self.neighbours.peer_of(link);
        let unnamed = self.neighbours.peers().get(peer).is_some_and(|p| p.node == NodeId::NULL);
        // RFC 9171 4.4.1: a previous node is said by its node ID.
        if unnamed && self.names_another(&hop.previous) {
            self.learn(peer, hop.previous.clone(), farlink_book::Identity::Claimed);
            self.outbound.reroute_scan.to(hop.previous.node());
        }
        peer
    }

    /// Who gave a bundle, by name: a neighbour, or the far end of the tunnel that it came out of. Null: nobody knows.
    pub(super) fn previous_name(&self, from: PeerId) -> EndpointId {
        self.neighbours.peers().get(from).map(Peer::endpoint).or_else(|| self.far_end(from)).unwrap_or_default()
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
        // 9758-5.4-2, 9758-5.4-3
        if [&meta.source, &meta.destination, meta.report_to()].into_iter().any(EndpointId::is_here) {
            return Err(Refusal::NotAcceptable);
        }
        if new.expires <= now {
            return Err(Refusal::Expired);
        }
        let local = self.is_for_us(&new.bundle);
        if local && new.bundle.fragment().is_some() && self.fragments.are_full(new) {
            return Err(Refusal::NoResources);
        }
        // No want of room: that would hold back all that is like it, and over a stream all that comes after it.
        let banned = !local && !meta.is_anonymous() && self.remembered.is_banned(meta.id);
        if banned { Err(Refusal::NotAcceptable) } else { Ok(()) }
    }

    /// Takes a neighbour's hello: it is heard and not kept. Others' hellos are no hellos; old ones, and
    /// those heard before, say nothing.
    fn take_hello(
        &mut self,
        now: Instant,
        from: PeerId,
        bundle: &BundleMeta,
        hop: &HopState,
        edge: &mut dyn Edge,
    ) -> bool {
        if !bundle.is_administrative() || !self.is_local(bundle.destination_node()) {
            return false;
        }
        let Record::Hello(content) = edge.record(bundle) else { return false };
        let lives = !self.remaining_lifetime(now, bundle, hop.age_ms).is_zero();
        if lives && self.may_be_hello(from, bundle) && self.is_news(now, from, bundle.creation()) {
            self.on_hello(now, from, &content);
        }
        true
    }

    /// Whether a bundle is a record of this neighbour for this node: one of those may be its hello.
    fn may_be_hello(&self, from: PeerId, bundle: &BundleMeta) -> bool {
        let neighbour = || self.neighbours.peers().get(from).is_some_and(|peer| peer.is(bundle.source.node()));
        bundle.is_administrative() && self.is_local(bundle.destination_node()) && neighbour()
    }
}

/// Whether a bundle that is here comes from somebody else than it did, or has come further. One that counts no hops, and is
/// no copy, may have: it is rather sent twice than lost.
fn is_on_new_way(held: &Held, from: PeerId, hop: &HopState) -> bool {
    let further = if held.bundle.facts.has(Facts::HOPS) { hop.hops > held.hops } else { hop.labels.is_none() };
    from != held.from || further
}

/// The verdict on what is here already: a copy gives its label back, anything else is as good as
/// kept.
fn had(hop: &HopState) -> Result<(), Refusal> {
    if hop.labels.is_some() { Err(Refusal::Duplicate) } else { Ok(()) }
}
