//! Reception of bundles from neighbours (RFC 9171 5.6): trust, refusals, duplicates.

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

/// Shortest payload, in bytes, that is digested on arrival.
const LONG: u64 = 16 << 10;

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
        self.release_reservation(token);
        // The damage may be in any piece.
        self.pieces_end(token, false);
        out.push(Output::Verdict { token, result: Err(Refusal::NotAcceptable) });
    }

    /// Reports the deletion of an arrived bundle that is damaged behind its valid head, once and on request (RFC 9171
    /// 5.6 step 3, 5.10 step 1).
    // 9171-5.6-2, 9171-5.10-1
    pub(crate) fn report_damaged<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: &BundleMeta) {
        let spared = self.known(bundle).is_some() || self.has_memory_of(bundle);
        let why = DeleteReason::BlockUnintelligible;
        if !spared && !self.remembered.was_reported(bundle.id) && self.report_about(cx, bundle, Status::Deleted, why) {
            self.remembered.report(bundle.id);
        }
    }

    /// Refuses an arrived bundle to which this node cannot apply its security rules now.
    pub(crate) fn on_unwanted<S: Sink<Output>>(
        &mut self,
        link: LinkId,
        token: OfferToken,
        bundle: &BundleMeta,
        reason: Refusal,
        out: &mut S,
    ) {
        self.event_refused(Some(link), Some(bundle), reason, out);
        self.release_reservation(token);
        self.pieces_end(token, false);
        out.push(Output::Verdict { token, result: Err(reason) });
    }

    /// Takes the head of an arriving bundle: refuses the bundle at once if it would be refused in the end, else
    /// reserves room. Possible hellos need no room.
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
        self.release_reservation(token);
        let mut new = self.newcomer(now, bundle.clone(), from, hop);
        new.flags.set(Flags::STRANGE, hop.unvouched || self.neighbours.is_strange(link));
        // A bundle without its payload may equal a held one: then it is taken in to be compared.
        let same = self.is_here_or_was(&bundle, new.flags.has(Flags::STRANGE), cx.edge);
        let refusal = match self.known(&bundle) {
            // A durable bundle need not be sent again.
            Some(held) if same && self.is_kept(held) && !self.comes_anew(held, from, hop) => Some(Refusal::Duplicate),
            Some(_) => self.judge(now, &new).err(),
            None if same => Some(Refusal::Duplicate),
            None if self.was_there(&bundle, from) => Some(Refusal::NotAcceptable),
            None => self.judge(now, &new).and_then(|()| self.make_room(cx, &new)).err(),
        };
        match refusal {
            None => self.reserve_room(token, new),
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

    /// Takes a bundle that has arrived completely: a duplicate, a hello, or a new bundle to be admitted and kept.
    pub(crate) fn on_arrived<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        link: LinkId,
        token: OfferToken,
        mut bundle: Arc<BundleMeta>,
        hop: &HopState,
    ) {
        let now = cx.now;
        self.release_reservation(token);
        // The digest is needed at delivery. Computed now it is cheap: the checksum was just computed, so the payload is
        // in the processor's cache. A short payload is probably still cached at delivery.
        if bundle.digest == 0
            && bundle.payload.len() >= LONG
            && self.is_for_us(&bundle)
            && !bundle.is_anonymous()
            && bundle.fragment().is_none()
            && let Some(bundle) = Arc::get_mut(&mut bundle)
        {
            bundle.digest = cx.edge.digest(bundle);
        }
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
            // Only this arrival is answered; the copy held here is handled on its own.
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
                // The neighbour missed the acknowledgment of the first delivery.
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
                    // The arrival only claims the identity of the bundle that is held.
                    return cx.out.push(Output::Verdict { token, result: Ok(()) });
                }
                self.note_return(known, from, hop);
                self.answer_again(cx, &bundle, carrier, hop);
                return self.on_known(cx, known, token, (from, strange), hop);
            }
        };
        // An inner bundle is not from the neighbour, so it cannot be that neighbour's hello.
        if !insecure && !inside && self.take_hello(now, from, &bundle, hop, cx.edge) {
            self.pieces_end(token, false);
            return cx.out.push(Output::Verdict { token, result: Ok(()) });
        }
        let mut new = self.newcomer(now, bundle.clone(), from, hop);
        new.flags.set(Flags::STRANGE, strange);
        let admitted = self.judge(now, &new).and_then(|()| self.may_join(&new));
        let admitted = admitted.and_then(|()| self.make_room(cx, &new));
        if let Err(reason) = admitted {
            self.turn_away(cx, link, &bundle, reason);
            // The neighbour may rely on promised pieces although the whole bundle is refused.
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
        self.notify_kept(now, handle, wire);
        if bundle.duties.has(Duties::REPORT) {
            self.report(cx, handle, Status::Received, DeleteReason::BlockUnsupported);
        }
        self.hold_back_return(cx, handle, strange);
        self.heed(cx, handle);
    }

    /// Announces the refusal of a bundle. An expired bundle is thereby deleted (RFC 9171 5.5, 5.10), which is reported
    /// once, on request.
    fn turn_away<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        link: LinkId,
        bundle: &BundleMeta,
        reason: Refusal,
    ) {
        self.event_refused(Some(link), Some(bundle), reason, cx.out);
        // A refused sender tries again, so the report leaves only once.
        if reason == Refusal::Expired
            && !self.remembered.was_reported(bundle.id)
            && self.report_about(cx, bundle, Status::Deleted, DeleteReason::Expired)
        {
            self.remembered.report(bundle.id);
        }
    }

    /// Applies the results of security checks, the flags of unknown blocks, and the hop limit, then dispatches the
    /// bundle (RFC 9171 5.6, 4.4.3).
    // 5050-5.6-2, 9171-5.6-4, 9172-5.1.1-9
    pub(super) fn heed<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, handle: Handle) {
        let Some(held) = self.book.get(handle) else { return };
        let meta = &held.bundle;
        let (duties, too_far) = (meta.duties, meta.facts.has(Facts::HOPS) && held.hops > meta.hop_limit);
        if let Some(reason) = duties.security() {
            // RFC 9172 5.1: accepted, so that the sender does not repeat it, and deleted.
            self.depart(cx, handle, Why::Deleted(reason), None);
        } else if duties.has(Duties::DELETE) {
            self.depart(cx, handle, Why::Deleted(DeleteReason::BlockUnsupported), None);
        } else if too_far {
            self.depart(cx, handle, Why::Deleted(DeleteReason::HopLimit), None);
        } else {
            self.work.push(Step::Dispatch(handle));
        }
    }

    /// Answers the arrival of another copy of a held bundle. If all of the held bundle is being sent and the copy came
    /// over a new path, the bundle is routed again, so that a late confirmation does not lose it.
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
        // A reassembled bundle with parts that are not durable cannot be promised yet.
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
            // The labels it had were given away with it; it now has those it returned with.
            held.labels = hop.labels.unwrap_or(held.labels);
        }
        self.work.extend([Step::Dispatch(handle), Step::Offer(handle)]);
    }

    /// Whether a bundle in transmission arrived again over a new path, so that it must be routed again. Over the old
    /// path it is only a repetition by a neighbour that missed the acknowledgment.
    fn comes_anew(&self, held: &Held, from: PeerId, hop: &HopState) -> bool {
        const LEAVING: RetentionConstraints = RetentionConstraints::of(&[
            RetentionConstraint::Send,
            RetentionConstraint::Commit,
            RetentionConstraint::Whole,
        ]);
        let leaving = held.has(RetentionConstraint::Send) && held.reasons().within(LEAVING);
        leaving && is_on_new_way(held, from, hop)
    }

    /// Whether a held bundle may be promised: it is durable and no piece of an arriving bundle. Pieces go if the
    /// arriving bundle proves damaged.
    fn is_kept(&self, held: &Held) -> bool {
        self.is_durable(held) && !self.fragments.is_arriving(held.handle())
    }

    /// Notes that a held bundle came back over another path. Nodes on the old path may have released it since, so
    /// answers about its earlier passage through a tunnel no longer count.
    fn note_return(&mut self, bundle: Handle, from: PeerId, hop: &HopState) {
        let back = self.book.get(bundle).filter(|held| is_on_new_way(held, from, hop)).map(|held| held.number);
        if let Some(number) = back {
            self.note_back_from_tunnel(number);
        }
    }

    /// Whether a bundle comes from its own destination: some nodes (dtn7-go) forward bundles that they have delivered.
    /// Sending it back would deliver it twice or let it loop. If it is for another node of the same name, a refusal
    /// loses nothing: its sender keeps it.
    fn was_there(&self, bundle: &BundleMeta, from: PeerId) -> bool {
        let node = bundle.destination_node();
        node != NodeId::NULL
            && !bundle.is_for_group()
            && !self.is_local(node)
            && self.neighbours.peers().get(from).is_some_and(|peer| peer.is(node))
    }

    /// Held bundle of the same identity; anonymous bundles are never found (RFC 9171 4.2.3).
    pub(crate) fn known(&self, bundle: &BundleMeta) -> Option<&Held> {
        self.book.find(bundle.id)
    }

    /// Neighbour at the other end of the link that a bundle came over. A neighbour without a name learns it from the
    /// bundle's previous node block.
    pub(super) fn previous_node(&mut self, link: LinkId, hop: &HopState) -> PeerId {
        let peer = self.neighbours.peer_of(link);
        let unnamed = self.neighbours.peers().get(peer).is_some_and(|p| p.node == NodeId::NULL);
        // RFC 9171 4.4.1: the block holds the previous node's node ID.
        if unnamed && self.names_another(&hop.previous) {
            self.learn(peer, hop.previous.clone(), farlink_book::Identity::Claimed);
            self.outbound.reroute_scan.to(hop.previous.node());
        }
        peer
    }

    /// Name of a previous node: of a neighbour, or of the far end if the number stands for a tunnel. Null if unknown.
    pub(super) fn previous_name(&self, from: PeerId) -> EndpointId {
        self.neighbours.peers().get(from).map(Peer::endpoint).or_else(|| self.far_end(from)).unwrap_or_default()
    }

    /// Checks the rules that every new bundle must satisfy, whatever room there is.
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
        // The source is a node, and only a singleton endpoint names one (RFC 9171 4.2.5.2).
        if meta.source.is_group() {
            return Err(Refusal::NotAcceptable);
        }
        // RFC 9758 5.4: "this node" has no meaning when it comes from another node.
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
        // Not `NoResources`: the sender would then hold back all bundles of this source, and on a stream all later
        // bundles.
        let banned = !local && !meta.is_anonymous() && self.remembered.is_banned(meta.id);
        if banned { Err(Refusal::NotAcceptable) } else { Ok(()) }
    }

    /// Consumes a hello for this node, which is not kept. Hellos of other nodes than the neighbour, expired and
    /// repeated ones have no effect. Returns whether the bundle is a hello.
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

    /// Whether a bundle is a record from this neighbour to this node, and so may be a hello.
    fn may_be_hello(&self, from: PeerId, bundle: &BundleMeta) -> bool {
        let neighbour = || self.neighbours.peers().get(from).is_some_and(|peer| peer.is(bundle.source.node()));
        bundle.is_administrative() && self.is_local(bundle.destination_node()) && neighbour()
    }
}

/// Whether a held bundle now comes from another neighbour, or has made more hops. Without a hop count and labels it is
/// assumed to have made more: sending it twice is better than losing it.
fn is_on_new_way(held: &Held, from: PeerId, hop: &HopState) -> bool {
    let further = if held.bundle.facts.has(Facts::HOPS) { hop.hops > held.hops } else { hop.labels.is_none() };
    from != held.from || further
}

/// Verdict on a bundle that is already here: one with labels is refused, so that the labels return to the sender;
/// others count as kept.
fn had(hop: &HopState) -> Result<(), Refusal> {
    if hop.labels.is_some() { Err(Refusal::Duplicate) } else { Ok(()) }
}
