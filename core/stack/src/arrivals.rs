//! Bundles that are still arriving. Their parts are joined to a rope until the last one is in. A long bundle goes to
//! disk meanwhile; only its first bytes, which hold the head, and its last bytes stay in memory.
//!
//! The module returns the actions to take ([`Do`]) and performs none itself.

use crate::edge::{Opening, Watch};
use crate::pieces::{Cut, Kept, Pieces};
use crate::spools::Spools;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Empty, HopState, LinkId, Malformed, NodeId, Payload, Refusal};
use farlink_bpa::OfferToken;
use farlink_bpa::app::{RequestId, SendRequest};

/// First bytes that stay in memory; they hold all blocks before the payload.
const HEAD: u64 = 64 << 10;
/// Maximum number of bytes that go to disk at once; equals the window in which a leaving bundle is read.
const BLOCK: u64 = farlink_base::layer::WINDOW;
/// Last bytes that stay in memory; they hold all blocks after the payload.
const TAIL: u64 = 4096;
/// Number of blocks of one bundle on their way to disk beyond which the peer is held back.
const HOLD_FROM: u64 = 4;

/// Actions that the stack takes for arrivals.
#[derive(Debug)]
pub(crate) enum Do {
    /// Tell the agent that a bundle begins.
    Begins(OfferToken, LinkId, Box<(BundleMeta, HopState)>),
    /// The whole bundle is here. `known`: the bundle was announced to the agent ([`Do::Begins`]), or part of it is on
    /// disk. Then ignore it unless [`Arrivals::awaits`] it, and call [`Arrivals::decided`] after the verdict. `digest`:
    /// digest of the payload if it was computed on arrival, else 0.
    Whole { token: OfferToken, link: LinkId, rope: Payload, known: bool, digest: u64 },
    /// The bundle is malformed. The rope is the whole bundle if the fault showed after the last part, else empty.
    Malformed(OfferToken, LinkId, Malformed, Payload),
    /// Tell the agent that an announced bundle does not come.
    Abandoned(OfferToken),
    /// Tell the layer that the offer is refused; then call [`Arrivals::refused`].
    Refuse(OfferToken, Refusal),
    /// A fragment of an arriving bundle is on disk; give it to the agent.
    Piece(OfferToken, LinkId, Box<Kept>),
    /// Tell the layer to slow the peer down.
    Hold(OfferToken),
    /// Tell the layer to go on receiving after a [`Do::Hold`].
    Resume(OfferToken),
    /// Tell the store to write these bytes; the result goes to [`Arrivals::spilled`].
    Spill { spill: u64, quota: u64, data: Payload },
    /// Tell the store to drop the bytes of a spill.
    DropSpill { spill: u64 },
    /// Tell the driver that this many more bytes of a request's payload are on disk.
    Spooled { request: RequestId, bytes: u64 },
    /// Give the agent a request; [`Arrivals::sent`] must be called with the agent's answer.
    Send(RequestId, Box<SendRequest>),
    /// Tell the application that its request is refused.
    NotSent(RequestId, Refusal),
}

/// Reads the head of a bundle from its first bytes; `None`: more are needed.
pub(crate) type Open<'a> = &'a dyn Fn(&Payload) -> Result<Option<Opening>, Malformed>;

/// Functions of the edge that arrivals call.
#[derive(Clone, Copy)]
pub(crate) struct Door<'a> {
    pub open: Open<'a>,
    pub cut: Cut<'a>,
}

/// Limits of all arrivals together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes in memory of all arrivals together. A bundle that already goes to disk may exceed the bound by one part.
    pub memory: u64,
    /// Bytes of one bundle.
    pub bundle: u64,
    /// Length beyond which a bundle goes to disk while it arrives; 0: none does.
    pub spill_from: u64,
}
impl Bounds {
    /// Bytes that go to disk at once.
    pub(crate) fn block(&self) -> u64 {
        BLOCK.min(self.memory / 8).max(TAIL)
    }
    fn spills(&self, len: u64) -> bool {
        self.spill_from > 0 && len > self.spill_from
    }
    /// Whether a bundle of this length could ever be taken.
    fn takes(&self, len: u64) -> bool {
        len <= self.bundle && (len <= self.memory || self.spills(len))
    }
}

/// One bundle on its way in.
#[derive(Debug)]
struct Arrival {
    link: LinkId,
    /// First bytes of the bundle, in order: the head in memory, then those on disk.
    rope: Payload,
    /// Last bytes that arrived, in memory; they follow `rope` and `flying`.
    rest: Payload,
    /// Spill and length of each block between `rope` and `rest`, on its way to disk.
    flying: VecDeque<(u64, u64)>,
    /// Number of arrived bytes at which parsing the head is tried next.
    look: u64,
    /// Content of the bundle's head, once that was parsed.
    opened: Option<Opened>,
    /// Whether the agent was informed of the bundle's beginning.
    said: bool,
    /// Spills that hold the bytes on disk; the last one takes the next bytes. Each kept fragment has a spill of its
    /// own.
    spills: Vec<u64>,
    /// Minimum length of a fragment, if the bundle is to be kept in fragments; 0: it is kept whole.
    least: u64,
    pieces: Option<Box<Pieces>>,
    /// Whether the last part is in.
    ended: bool,
    held: bool,
}
#[derive(Debug)]
struct Opened {
    watch: Box<dyn Watch>,
    /// Quota account of the source node, charged for the bytes on disk.
    quota: u64,
}
impl Arrival {
    fn new(link: LinkId) -> Arrival {
        Arrival {
            link,
            rope: Payload::new(),
            rest: Payload::new(),
            flying: VecDeque::new(),
            look: 0,
            opened: None,
            said: false,
            spills: Vec::new(),
            least: 0,
            pieces: None,
            ended: false,
            held: false,
        }
    }
    fn len(&self) -> u64 {
        self.rope.len() + self.flying() + self.rest.len()
    }
    /// Bytes on their way to disk.
    fn flying(&self) -> u64 {
        self.flying.iter().map(|(_, len)| len).sum()
    }
    fn memory(&self) -> u64 {
        self.rope.len().min(HEAD) + self.flying() + self.rest.len()
    }
    /// Whether the agent knows of the bundle's beginning, or of pieces of it.
    fn is_known(&self) -> bool {
        self.said || self.pieces.is_some()
    }
    /// Tries to parse the head, unless that was done or too few bytes came since the last try. Returns its content
    /// once.
    fn look(&mut self, open: Open<'_>) -> Result<Option<Box<(BundleMeta, HopState)>>, Malformed> {
        let len = self.rest.len();
        // Each attempt parses from the first byte again. Doubling the length between attempts keeps the cost linear,
        // even if the bundle comes in parts of a byte each.
        if self.opened.is_some() || len < self.look {
            return Ok(None);
        }
        self.look = if len < HEAD { HEAD.min(2 * len) } else { u64::MAX };
        Ok(open(&self.rest.slice(0, HEAD))?.map(|opening| {
            if self.least > 0 {
                self.pieces = Pieces::of(&opening, self.least).map(Box::new);
            }
            let Opening { meta, hop, watch, .. } = opening;
            self.opened = Some(Opened { watch, quota: meta.source.node().0 });
            Box::new((meta, hop))
        }))
    }
}

/// All arrivals of a node, bounded in bytes.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// Offers in progress; `None` for a refused one, whose further parts are dropped.
    open: BTreeMap<OfferToken, Option<Arrival>>,
    spills: BTreeMap<u64, OfferToken>,
    /// Spills of each complete bundle that waits for the agent's verdict. A bundle that was neither announced nor
    /// spilled has no entry.
    undecided: BTreeMap<OfferToken, Vec<u64>>,
    next_spill: u64,
    memory: u64,
    /// The part of `memory` used by unconfigured neighbours, which may use half of the bound.
    strange: u64,
    bounds: Bounds,
    spools: Spools,
}

/// Empty value shared by nodes that never receive encoded bundles.
impl Empty for Arrivals {
    type From = Bounds;
    const EMPTY: &'static Self = &Arrivals::new(Bounds { memory: 0, bundle: 0, spill_from: 0 });
    fn make(bounds: Bounds) -> Self {
        Arrivals::new(bounds)
    }
}

impl Arrivals {
    pub const fn new(bounds: Bounds) -> Self {
        Arrivals {
            open: BTreeMap::new(),
            spills: BTreeMap::new(),
            undecided: BTreeMap::new(),
            next_spill: 1,
            memory: 0,
            strange: 0,
            bounds,
            spools: Spools::new(),
        }
    }

    /// Takes the next bytes of a payload that an application of this node sends.
    pub fn spool(&mut self, request: RequestId, source: NodeId, part: Payload, out: &mut Vec<Do>) {
        let (bounds, next) = (self.bounds, &mut self.next_spill);
        let number = || {
            *next += 1;
            *next - 1
        };
        self.spools.part((request, source), part, &bounds, number, out);
    }
    /// Completes a request with `wanted`, or cancels it. Returns the request if nothing was spooled for it.
    pub fn request(
        &mut self,
        request: RequestId,
        wanted: Option<SendRequest>,
        out: &mut Vec<Do>,
    ) -> Option<SendRequest> {
        match wanted {
            Some(wanted) => self.spools.send(request, wanted, out),
            None => {
                self.spools.abandon(request, out);
                None
            }
        }
    }
    /// Ends a request after the agent's verdict.
    pub fn sent(&mut self, request: RequestId, out: &mut Vec<Do>) {
        self.spools.decided(request, out);
    }

    /// Announces that an offer is to be kept in pieces of at least this many bytes while it arrives.
    pub fn in_parts(&mut self, token: OfferToken, link: LinkId, least: u64) {
        if self.bounds.spill_from > 0
            && let Some(arrival) = self.open.entry(token).or_insert_with(|| Some(Arrival::new(link)))
        {
            arrival.least = least;
        }
    }
    /// Takes the next part of an offer; `total` is the length of the whole bundle, if known.
    pub fn part(
        &mut self,
        token: OfferToken,
        link: LinkId,
        part: Payload,
        last: bool,
        total: Option<u64>,
        Door { open, cut }: Door<'_>,
        out: &mut Vec<Do>,
    ) {
        if last && !self.open.contains_key(&token) && (part.len() <= BLOCK || !self.bounds.spills(part.len())) {
            // The common case: one part, nothing to remember.
            let fits = part.len() <= self.bounds.bundle;
            return out.push(match fits {
                true => Do::Whole { token, link, rope: part, known: false, digest: 0 },
                false => Do::Refuse(token, Refusal::TooLarge),
            });
        }
        let (memory, strange) = (self.memory, self.strange);
        let Some(arrival) = self.open.entry(token).or_insert_with(|| Some(Arrival::new(link))) else { return };
        let end = (arrival.len() + part.len()).max(total.unwrap_or(0));
        // Unconfigured neighbours get half, so that a flood of their bundles leaves room for configured ones.
        let stranger = arrival.link.is_dynamic();
        let most = if stranger { self.bounds.memory / 2 } else { self.bounds.memory };
        if !(Bounds { memory: most, ..self.bounds }).takes(end) {
            return self.refuse(token, Refusal::TooLarge, out);
        }
        // A bundle that already goes to disk may exceed the bound by one part: refusing it now would waste the bytes
        // that came.
        let more = if arrival.spills.is_empty() { part.len() } else { 0 };
        let full = memory + more > self.bounds.memory;
        if full || stranger && strange + more > most {
            return self.refuse(token, Refusal::NoResources, out);
        }
        self.memory += part.len();
        self.strange += if stranger { part.len() } else { 0 };
        // The watch gets no bytes before the first spill: until then all are in `rest`, and `spill` passes them to the
        // watch together.
        if let Some(opened) = arrival.opened.as_mut().filter(|_| !arrival.spills.is_empty()) {
            opened.watch.pass(&part);
            if let Some(pieces) = &mut arrival.pieces {
                pieces.pass(&part, cut);
            }
        }
        arrival.rest.gather(part);
        arrival.ended = last;
        // A bundle to be kept in fragments goes to disk if it is longer than two of them. From a shorter one only a
        // single fragment could be kept, and the whole bundle soon replaces that.
        let spills = self.bounds.spills(end) || (arrival.least > 0 && end > arrival.least.saturating_mul(2));
        if !last || spills {
            match arrival.look(open) {
                Ok(Some(begins)) if !last => {
                    arrival.said = true;
                    out.push(Do::Begins(token, link, begins));
                }
                Ok(_) => {}
                Err(error) => return self.malformed(token, error, out),
            }
        }
        if spills {
            self.spill(token, cut, out);
        }
        self.finish(token, out);
    }

    fn spill(&mut self, token: OfferToken, cut: Cut<'_>, out: &mut Vec<Do>) {
        // Bytes may go to disk only after the head was read: before that neither the quota nor the position of the
        // payload is known. The last `TAIL` bytes stay in memory, because the blocks after the payload are parsed
        // from there.
        let Some(Some(arrival)) = self.open.get_mut(&token) else { return };
        let Some(Opened { watch, quota }) = &mut arrival.opened else { return };
        if arrival.spills.is_empty() {
            if arrival.rest.len() < HEAD && !arrival.ended {
                return;
            }
            // The watch gets all bytes so far together; later parts are passed to it as they come.
            watch.pass(&arrival.rest);
            if let Some(pieces) = &mut arrival.pieces {
                pieces.pass(&arrival.rest, cut);
            }
            // A copy of the head, so that it does not keep alive the large buffer it came in.
            let head = arrival.rest.split_to(HEAD);
            arrival.rope = if head.is_fill() { head } else { head.to_bytes().map_or(head, |b| b.to_vec().into()) };
            arrival.spills.push(self.next_spill);
            self.spills.insert(self.next_spill, token);
            self.next_spill += 1;
        }
        let block = self.bounds.block();
        let mut flying: u64 = arrival.flying.iter().map(|(_, len)| len).sum();
        while let Some(spill) = arrival.spills.last().copied() {
            let at = arrival.rope.len() + flying;
            // A spill ends where a kept piece ends, because the store keeps or drops a spill as a whole.
            let until_end = arrival.pieces.as_ref().and_then(|pieces| pieces.until_end(at));
            let len = until_end.map_or(block, |len| len.clamp(1, block));
            if arrival.rest.len() < len + TAIL {
                break;
            }
            let data = arrival.rest.split_to(len);
            flying += len;
            arrival.flying.push_back((spill, len));
            out.push(Do::Spill { spill, quota: *quota, data });
            if arrival.pieces.as_mut().is_some_and(|pieces| pieces.left(at + len)) {
                // The next piece gets a spill of its own, so that each piece can be kept or dropped alone.
                arrival.spills.push(self.next_spill);
                self.spills.insert(self.next_spill, token);
                self.next_spill += 1;
            }
        }
        // The peer is faster than the disk. The bundle would soon be refused at the memory bound, so the peer is held
        // back before.
        if flying > HOLD_FROM * block && !arrival.ended && !core::mem::replace(&mut arrival.held, true) {
            out.push(Do::Hold(token));
        }
    }
    pub fn spilled(&mut self, spill: u64, result: Result<Payload, Refusal>, out: &mut Vec<Do>) {
        let Some(token) = self.spills.get(&spill).copied() else { return self.spools.spilled(spill, result, out) };
        let Some(Some(arrival)) = self.open.get_mut(&token) else { return };
        let extents = match result {
            Ok(extents) => extents,
            Err(reason) => return self.refuse(token, reason, out),
        };
        // Spills are answered in the order of their requests. Extents joined out of order would form a different
        // bundle, so anything else is an error of the store.
        let Some((_, len)) = arrival.flying.pop_front_if(|next| *next == (spill, extents.len())) else {
            return self.refuse(token, Refusal::StoreFailed, out);
        };
        self.memory = self.memory.saturating_sub(len);
        if arrival.link.is_dynamic() {
            self.strange = self.strange.saturating_sub(len);
        }
        arrival.rope.append(extents);
        if let Some(pieces) = &mut arrival.pieces {
            let link = arrival.link;
            out.extend(pieces.complete(&arrival.rope).into_iter().map(|kept| Do::Piece(token, link, Box::new(kept))));
        }
        // Resume at half of the bound, so that the layer is not held and resumed with every block.
        let few = arrival.flying() <= HOLD_FROM * self.bounds.block() / 2;
        if few && core::mem::take(&mut arrival.held) && !arrival.ended {
            out.push(Do::Resume(token));
        }
        self.finish(token, out);
    }
    fn finish(&mut self, token: OfferToken, out: &mut Vec<Do>) {
        let whole = |arrival: &Arrival| arrival.ended && arrival.flying.is_empty();
        if !self.open.get(&token).is_some_and(|open| open.as_ref().is_some_and(whole)) {
            return;
        }
        let Some(mut arrival) = self.close(token) else { return };
        arrival.rope.append(arrival.rest);
        let (link, rope, known) = (arrival.link, arrival.rope, arrival.said || !arrival.spills.is_empty());
        // A digest computed on arrival spares the agent a read of the payload from disk.
        let digest = arrival.opened.as_ref().map_or(0, |opened| opened.watch.digest());
        if let Some(opened) = arrival.opened.filter(|_| !arrival.spills.is_empty())
            // Bytes on disk were never parsed as a whole, so only the watch has checked their CRCs.
            && let Err(error) = opened.watch.finish(&rope)
        {
            out.extend(arrival.spills.into_iter().map(|spill| Do::DropSpill { spill }));
            return out.push(Do::Malformed(token, link, error, rope));
        }
        if known {
            self.undecided.insert(token, arrival.spills);
        }
        out.push(Do::Whole { token, link, rope, known, digest });
    }
    /// Forgets an arrival and subtracts its memory. `None` if the offer is unknown or refused.
    fn close(&mut self, token: OfferToken) -> Option<Arrival> {
        self.open.get(&token)?.as_ref()?;
        let arrival = self.open.remove(&token)??;
        self.memory = self.memory.saturating_sub(arrival.memory());
        if arrival.link.is_dynamic() {
            self.strange = self.strange.saturating_sub(arrival.memory());
        }
        for spill in &arrival.spills {
            self.spills.remove(spill);
        }
        Some(arrival)
    }
    fn drop(&mut self, token: OfferToken, out: &mut Vec<Do>) -> Option<Arrival> {
        // A refused offer stays in `open` as `None` until the layer has seen the refusal: parts that were on their
        // way meanwhile must not start a new arrival.
        let arrival = self.close(token)?;
        out.extend(arrival.spills.iter().map(|spill| Do::DropSpill { spill: *spill }));
        if !arrival.ended {
            self.open.insert(token, None);
        }
        Some(arrival)
    }
    fn refuse(&mut self, token: OfferToken, reason: Refusal, out: &mut Vec<Do>) {
        if let Some(arrival) = self.drop(token, out) {
            // The agent reserved room for a bundle it knows of, and must release it.
            out.extend(arrival.is_known().then_some(Do::Abandoned(token)));
            out.push(Do::Refuse(token, reason));
        }
    }
    fn malformed(&mut self, token: OfferToken, error: Malformed, out: &mut Vec<Do>) {
        if let Some(arrival) = self.drop(token, out) {
            out.push(Do::Malformed(token, arrival.link, error, Payload::new()));
        }
    }

    /// Copies arriving bytes out of the read buffers, which frees those buffers while memory is scarce.
    pub fn unshare(&mut self) {
        for arrival in self.open.values_mut().flatten() {
            arrival.rest = arrival.rest.own();
        }
    }
    /// Bytes in memory: of bundles that arrive, and of payloads that applications send.
    pub fn memory(&self) -> u64 {
        self.memory + self.spools.memory()
    }
    /// Number of offers in progress, and of refused ones that the layer may still go on with.
    #[cfg(test)]
    pub fn offers(&self) -> usize {
        self.open.len()
    }
    /// Whether a complete bundle still waits for its verdict.
    pub fn awaits(&self, token: OfferToken) -> bool {
        // The agent may have refused the bundle at its beginning; then no verdict on the complete bundle follows.
        self.undecided.contains_key(&token)
    }
    /// Ends an offer after the agent's verdict, whether it is complete or still arriving.
    pub fn decided(&mut self, token: OfferToken, out: &mut Vec<Do>) {
        // Spills that the agent kept belong to a bundle by now, and dropping them has no effect.
        if let Some(spills) = self.undecided.remove(&token) {
            return out.extend(spills.into_iter().map(|spill| Do::DropSpill { spill }));
        }
        self.drop(token, out);
    }
    /// Forgets a refused offer: the layer has seen the refusal and sends no more of it.
    pub fn refused(&mut self, token: OfferToken) {
        if self.open.get(&token).is_some_and(Option::is_none) {
            self.open.remove(&token);
        }
    }
    /// Ends an offer that the layer gave up.
    pub fn abort(&mut self, token: OfferToken, out: &mut Vec<Do>) {
        if let Some(arrival) = self.drop(token, out) {
            out.extend(arrival.is_known().then_some(Do::Abandoned(token)));
        }
        self.open.remove(&token);
    }
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
