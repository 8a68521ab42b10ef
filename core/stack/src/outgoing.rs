//! Bundles on their way to convergence layers. A bundle in memory goes at once. Of a bundle on disk the first bytes are
//! read, then the ranges that its layer asks for. Bundles of a link keep their order. A bundle that its layer does not
//! take yet stays on disk: the agent, which handed the bundle over before the layer could refuse, is asked to wait.
//!
//! The module returns the actions to take ([`Do`]) and performs none itself.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use farlink_base::layer::{Input, SendId, WINDOW};
use farlink_base::{Chunk, Empty, Leaving, LinkId, Payload, Refusal};

/// Number of bundles of one link whose first bytes are read ahead. `AHEAD_BYTES` bounds these bytes together; those of
/// the first bundle are always read.
const AHEAD: usize = 8;
const AHEAD_BYTES: u64 = 2 * WINDOW;
/// Number of bundles of one link waiting here at which the agent is asked to keep the next ones.
const BACKLOG: usize = 64;
/// Maximum number of bytes read for a bundle whose transfer goes on after it was cancelled.
const RESCUE_MAX: u64 = 16 << 20;

/// Actions that the stack takes for leaving bundles.
#[derive(Debug)]
pub(crate) enum Do {
    /// Pass this input to the link's convergence layer.
    Layer(LinkId, Input),
    /// Tell the store to read this payload; the result goes to [`Outgoing::loaded`].
    Load { load: u64, payload: Payload },
    /// Tell the agent whether the link takes more.
    Ready { link: LinkId, ready: bool },
    /// Tell the agent that a transmission failed before the layer got any of the bundle.
    Failed { id: SendId },
    /// Tell the agent that the bundle cannot be read. `for_good`: its bytes on disk are lost; otherwise a later
    /// attempt may succeed.
    Unreadable { id: SendId, for_good: bool },
}

/// A bundle that was not passed to its layer yet.
#[derive(Debug)]
struct Waiting {
    id: SendId,
    rope: Payload,
    reliable: bool,
    leaving: Leaving,
    /// First bytes of the bundle, once they are in memory.
    first: Option<Payload>,
    load: Option<u64>,
}
/// A bundle whose first part was passed to its layer; the layer requests further ranges.
#[derive(Debug)]
struct Streaming {
    link: LinkId,
    rope: Payload,
    /// Ranges that the layer asked for and has not got; it gets them in this order.
    wants: VecDeque<WantedRange>,
    /// End of the ranges asked for so far.
    asked: u64,
    /// Number of the load that reads all bytes after `asked`, for a bundle that the store is about to forget.
    rest: Option<u64>,
}
/// A range a layer asked for, and its bytes once they are here.
#[derive(Debug)]
struct WantedRange {
    from: u64,
    len: u64,
    load: u64,
    part: Option<Payload>,
}
impl Streaming {
    fn new(link: LinkId, rope: Payload, asked: u64) -> Self {
        Streaming { link, rope, wants: VecDeque::new(), asked, rest: None }
    }
    /// Gives the layer the parts that are in memory, in the order they were asked for.
    fn give(&mut self, id: SendId, out: &mut Vec<Do>) {
        let link = self.link;
        while let Some(WantedRange { from, part, .. }) = self.wants.pop_front_if(|want| want.part.is_some()) {
            let part = part.unwrap_or_default();
            out.push(Do::Layer(link, Input::SendMore { link, id, from, part }));
        }
    }
}

/// Whether a failed read will fail again.
pub(crate) fn is_for_good(reason: Refusal) -> bool {
    reason != Refusal::StoreFailed
}

/// Purpose of a load.
#[derive(Debug)]
enum Purpose {
    First(LinkId),
    More(SendId),
    Rest(SendId),
}

/// All bundles on their way to layers.
#[derive(Debug)]
pub(crate) struct Outgoing {
    links: BTreeMap<LinkId, VecDeque<Waiting>>,
    /// Links whose layer takes nothing now.
    closed: BTreeSet<LinkId>,
    streaming: BTreeMap<SendId, Streaming>,
    /// Sends that failed because their bytes could not be read, and whether the bytes are lost for good.
    broken: BTreeMap<SendId, bool>,
    /// Reads under way in the store; an entry lasts until the store answers.
    loads: BTreeMap<u64, Purpose>,
    next_load: u64,
}

/// Number of bytes that the layer gets first.
fn first_bytes(rope: &Payload) -> u64 {
    // The first part of a long rope ends at the end of a block on disk. The following windows then coincide with
    // blocks, so that no block is read twice.
    if rope.len() <= WINDOW || !rope.is_stored() {
        return rope.len();
    }
    let mut at = 0;
    for chunk in rope.chunks() {
        if let Chunk::Stored { extent, .. } = chunk {
            at += WINDOW - extent.offset % WINDOW;
            break;
        }
        at += chunk.len();
    }
    at.clamp(1, rope.len())
}

/// Empty value shared by nodes that sent nothing from disk yet.
impl Empty for Outgoing {
    type From = u64;
    const EMPTY: &'static Self = &Outgoing::new(0);
    fn make(first_load: u64) -> Self {
        Outgoing::new(first_load)
    }
}

impl Outgoing {
    /// Loads get numbers from `first_load` on, apart from those of `Reads`.
    pub const fn new(first_load: u64) -> Self {
        Outgoing {
            links: BTreeMap::new(),
            closed: BTreeSet::new(),
            streaming: BTreeMap::new(),
            broken: BTreeMap::new(),
            loads: BTreeMap::new(),
            next_load: first_load,
        }
    }
    /// Whether bundles of this link wait here; further ones must queue behind them.
    pub fn waits(&self, link: LinkId) -> bool {
        self.links.contains_key(&link)
    }
    #[cfg(test)]
    fn owns(&self, load: u64) -> bool {
        self.loads.contains_key(&load)
    }

    /// Takes an encoded bundle, all of it in memory or some on disk.
    pub fn send(
        &mut self,
        link: LinkId,
        (id, rope): (SendId, Payload),
        (reliable, leaving): (bool, Leaving),
        out: &mut Vec<Do>,
    ) {
        // Without a queue, a bundle in memory cannot overtake another.
        if !self.waits(link) && !rope.is_stored() {
            let input = Input::Send { link, id, total: rope.len(), part: rope, reliable, leaving };
            return out.push(Do::Layer(link, input));
        }
        let first = (!rope.is_stored()).then(|| rope.clone());
        let queue = self.links.entry(link).or_default();
        queue.push_back(Waiting { id, rope, reliable, leaving, first, load: None });
        // The agent keeps further bundles in its own queues, where routing can still choose another link for them.
        if queue.len() == BACKLOG {
            out.push(Do::Ready { link, ready: false });
        }
        self.hand_over(link, out);
    }
    /// Records whether a layer takes more for a link.
    pub fn on_ready(&mut self, link: LinkId, ready: bool, out: &mut Vec<Do>) {
        if ready {
            self.closed.remove(&link);
            self.hand_over(link, out);
        } else {
            self.closed.insert(link);
        }
        let backlog = self.links.get(&link).map_or(0, VecDeque::len);
        out.push(Do::Ready { link, ready: ready && backlog < BACKLOG });
    }
    /// Reads the first bytes of the next few bundles.
    fn read_ahead(&mut self, link: LinkId, out: &mut Vec<Do>) {
        let Some(queue) = self.links.get_mut(&link) else { return };
        let mut ahead = 0;
        for waiting in queue.iter_mut().take(AHEAD) {
            let payload = waiting.rope.slice(0, first_bytes(&waiting.rope));
            // The first bundle's bytes are always read, whatever the bound: otherwise the link would never send
            // anything.
            if ahead > 0 && ahead + payload.len() > AHEAD_BYTES {
                return;
            }
            ahead += payload.len();
            if waiting.first.is_some() || waiting.load.is_some() {
                continue;
            }
            waiting.load = Some(self.next_load);
            self.loads.insert(self.next_load, Purpose::First(link));
            out.push(Do::Load { load: self.next_load, payload });
            self.next_load += 1;
        }
    }
    /// Gives the layer the bundles whose first bytes are in memory, in order.
    fn hand_over(&mut self, link: LinkId, out: &mut Vec<Do>) {
        let open = !self.closed.contains(&link);
        let Some(queue) = self.links.get_mut(&link) else { return };
        let before = queue.len();
        // Only the front may leave: a bundle whose bytes came early waits, which keeps the order of the link.
        while open && queue.front().is_some_and(|waiting| waiting.first.is_some()) {
            let Some(Waiting { id, rope, reliable, leaving, first: Some(part), .. }) = queue.pop_front() else { break };
            let total = rope.len();
            if part.len() < total {
                self.streaming.insert(id, Streaming::new(link, rope, part.len()));
            }
            out.push(Do::Layer(link, Input::Send { link, id, total, part, reliable, leaving }));
        }
        if before >= BACKLOG && queue.len() < BACKLOG {
            out.push(Do::Ready { link, ready: open });
        }
        if queue.is_empty() {
            self.links.remove(&link);
        }
        self.read_ahead(link, out);
    }

    /// Gives the layer another range of a bundle.
    pub fn want(&mut self, id: SendId, from: u64, len: u64, out: &mut Vec<Do>) {
        let Some(streaming) = self.streaming.get_mut(&id) else { return };
        let payload = streaming.rope.slice(from, len);
        // A range in memory may be given at once only if no earlier range is still being read.
        if !payload.is_stored() && streaming.wants.is_empty() {
            let link = streaming.link;
            return out.push(Do::Layer(link, Input::SendMore { link, id, from, part: payload }));
        }
        // The rescue already reads everything from `asked` on: the store may have forgotten the bundle by now.
        if let Some(load) = streaming.rest.filter(|_| from >= streaming.asked) {
            return streaming.wants.push_back(WantedRange { from, len, load, part: None });
        }
        streaming.asked = streaming.asked.max(from + len);
        let load = self.next_load;
        self.next_load += 1;
        streaming.wants.push_back(WantedRange { from, len, load, part: None });
        self.loads.insert(load, Purpose::More(id));
        out.push(Do::Load { load, payload });
    }
    /// Takes the store's answer to a load.
    pub fn loaded(&mut self, load: u64, result: Result<Payload, Refusal>, out: &mut Vec<Do>) {
        match self.loads.remove(&load) {
            Some(Purpose::First(link)) => self.first_loaded(link, load, result, out),
            Some(Purpose::More(id)) => self.more_loaded(id, load, result, out),
            Some(Purpose::Rest(id)) => self.rest_loaded(id, load, result, out),
            None => {}
        }
    }
    fn first_loaded(&mut self, link: LinkId, load: u64, result: Result<Payload, Refusal>, out: &mut Vec<Do>) {
        let Some(queue) = self.links.get_mut(&link) else { return };
        let Some(at) = queue.iter().position(|waiting| waiting.load == Some(load)) else { return };
        match result {
            Ok(first) => queue[at].first = Some(first),
            Err(reason) => {
                let for_good = is_for_good(reason);
                out.extend(queue.remove(at).map(|waiting| Do::Unreadable { id: waiting.id, for_good }));
            }
        }
        self.hand_over(link, out);
    }
    fn more_loaded(&mut self, id: SendId, load: u64, result: Result<Payload, Refusal>, out: &mut Vec<Do>) {
        let Some(streaming) = self.streaming.get_mut(&id) else { return };
        match result {
            Ok(part) => {
                if let Some(want) = streaming.wants.iter_mut().find(|want| want.load == load) {
                    want.part = Some(part);
                }
                streaming.give(id, out);
            }
            Err(reason) => self.broke(id, reason, out),
        }
    }
    fn broke(&mut self, id: SendId, reason: Refusal, out: &mut Vec<Do>) {
        let Some(Streaming { link, .. }) = self.streaming.remove(&id) else { return };
        // The layer ends the transfer on its own terms; `ended` then distinguishes this failure from a refusal by
        // the peer.
        self.broken.insert(id, is_for_good(reason));
        out.push(Do::Layer(link, Input::SendBroken { link, id }));
    }

    /// Begins to read the rest of a bundle that the store is about to forget: all bytes that the layer has not asked
    /// for. Returns the load to request; `None` if nothing is left on disk, or too much.
    pub fn rescue(&mut self, id: SendId) -> Option<(u64, Payload)> {
        // Only layers that cannot stop a transfer need this. A long rest is not read: a range that cannot be read
        // ends the session, which costs less than the memory.
        let streaming = self.streaming.get_mut(&id).filter(|streaming| streaming.rest.is_none())?;
        let rest = streaming.rope.slice(streaming.asked, u64::MAX);
        // Nothing to rescue, or too much for memory.
        if !rest.is_stored() || rest.len() > RESCUE_MAX {
            return None;
        }
        let load = self.next_load;
        self.next_load += 1;
        streaming.rest = Some(load);
        self.loads.insert(load, Purpose::Rest(id));
        Some((load, rest))
    }
    fn rest_loaded(&mut self, id: SendId, load: u64, result: Result<Payload, Refusal>, out: &mut Vec<Do>) {
        let Some(streaming) = self.streaming.get_mut(&id) else { return };
        match result {
            Ok(rest) => {
                let asked = streaming.asked;
                for want in streaming.wants.iter_mut().filter(|want| want.load == load) {
                    want.part = Some(rest.slice(want.from - asked, want.len));
                }
                streaming.rope = streaming.rope.slice(0, asked);
                streaming.rope.append(rest);
                streaming.rest = None;
                streaming.give(id, out);
            }
            Err(reason) if streaming.wants.iter().any(|want| want.load == load) => self.broke(id, reason, out),
            // The failure ends the transfer only if the layer asks for that range.
            Err(_) => streaming.rest = None,
        }
    }

    /// Ends a send after the layer's `Sent` or `SendFailed`. If its bytes could not be read, returns whether they
    /// are lost for good.
    pub fn ended(&mut self, id: SendId) -> Option<bool> {
        self.streaming.remove(&id);
        self.broken.remove(&id)
    }
    /// Forgets a bundle that its layer does not have yet; returns whether it was here.
    pub fn cancel(&mut self, link: LinkId, id: SendId, out: &mut Vec<Do>) -> bool {
        let Some(queue) = self.links.get_mut(&link) else { return false };
        let Some(at) = queue.iter().position(|waiting| waiting.id == id) else { return false };
        // A load under way is not cancelled; `first_loaded` finds no bundle for it and drops the bytes.
        queue.remove(at);
        self.hand_over(link, out);
        true
    }
    /// Fails all bundles of a link that is down or removed, except those that its layer already has.
    pub fn down(&mut self, link: LinkId, out: &mut Vec<Do>) {
        self.closed.remove(&link);
        let all = self.links.remove(&link).into_iter().flatten();
        out.extend(all.map(|waiting| Do::Failed { id: waiting.id }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Extent;

    const LINK: LinkId = LinkId(3);
    const PLAIN: (bool, Leaving) = (true, Leaving::AS_IT_IS);

    fn stored(record: u64, offset: u64, len: u64) -> Payload {
        let mut rope = Payload::from(&b"head"[..]);
        rope.push(Chunk::Stored { extent: Extent { record, offset }, len });
        rope.push_bytes(farlink_base::Bytes::from_static(b"tail"));
        rope
    }
    /// Bytes that stand for a rope once it is in memory.
    fn bytes(rope: &Payload) -> Payload {
        Payload::fill(1, rope.len())
    }
    fn loads(out: &[Do]) -> Vec<(u64, u64)> {
        let load = |what: &Do| if let Do::Load { load, payload } = what { Some((*load, payload.len())) } else { None };
        out.iter().filter_map(load).collect()
    }
    fn sends(out: &[Do]) -> Vec<(u64, u64, u64)> {
        let send = |what: &Do| match what {
            Do::Layer(LINK, Input::Send { id, total, part, .. }) => Some((id.0, *total, part.len())),
            _ => None,
        };
        out.iter().filter_map(send).collect()
    }

    #[test]
    fn memory_bundle_leaves_in_order() {
        let (mut outgoing, mut out) = (Outgoing::new(1), Vec::new());
        outgoing.send(LINK, (SendId(1), Payload::fill(1, 10)), PLAIN, &mut out);
        assert_eq!(sends(&out), [(1, 10, 10)]);
        outgoing.send(LINK, (SendId(2), stored(5, 0, 100)), PLAIN, &mut out);
        outgoing.send(LINK, (SendId(3), Payload::fill(1, 20)), PLAIN, &mut out);
        outgoing.send(LINK, (SendId(4), stored(6, 0, 200)), PLAIN, &mut out);
        assert_eq!((sends(&out).len(), loads(&out)), (1, alloc::vec![(1, 108), (2, 208)]));
        out.clear();
        outgoing.loaded(2, Ok(Payload::fill(1, 208)), &mut out);
        assert!(out.is_empty(), "the first is not there");
        outgoing.loaded(1, Ok(Payload::fill(1, 108)), &mut out);
        assert_eq!(sends(&out), [(2, 108, 108), (3, 20, 20), (4, 208, 208)]);
        assert!(outgoing.links.is_empty() && outgoing.streaming.is_empty() && outgoing.loads.is_empty());
    }

    #[test]
    fn long_bundle_read_by_disk_blocks() {
        let (mut outgoing, mut out) = (Outgoing::new(1), Vec::new());
        let rope = stored(Extent::SPILL | 1, 3 * WINDOW - 1000, 5 * WINDOW);
        outgoing.send(LINK, (SendId(1), rope.clone()), PLAIN, &mut out);
        // The first part is the head (4 bytes) and the 1,000 bytes up to the end of a window on disk, so that later
        // reads begin at windows.
        assert_eq!(loads(&out), [(1, 4 + 1000)]);
        out.clear();
        outgoing.loaded(1, Ok(Payload::fill(1, 1004)), &mut out);
        assert_eq!(sends(&out), [(1, rope.len(), 1004)]);
        out.clear();
        outgoing.want(SendId(1), 1004, WINDOW, &mut out);
        outgoing.want(SendId(1), 1004 + WINDOW, WINDOW, &mut out);
        let Do::Load { payload, .. } = &out[0] else { panic!() };
        assert!(matches!(payload.chunks(), [Chunk::Stored { extent, .. }] if extent.offset % WINDOW == 0));
        let wanted: Vec<(u64, u64)> = loads(&out);
        out.clear();
        outgoing.loaded(wanted[1].0, Ok(bytes(&rope.slice(0, WINDOW))), &mut out);
        assert!(out.is_empty(), "in the order they were asked for");
        outgoing.loaded(wanted[0].0, Ok(bytes(&rope.slice(0, WINDOW))), &mut out);
        let from: Vec<u64> = out
            .iter()
            .map(|what| if let Do::Layer(_, Input::SendMore { from, .. }) = what { *from } else { panic!("{what:?}") })
            .collect();
        assert_eq!(from, [1004, 1004 + WINDOW]);
        out.clear();
        outgoing.want(SendId(1), rope.len() - 3, 3, &mut out);
        assert!(matches!(out[..], [Do::Layer(_, Input::SendMore { .. })]), "the tail is in memory");
        assert_eq!((outgoing.ended(SendId(1)), outgoing.streaming.len()), (None, 0));
    }

    #[test]
    fn rescue_reads_before_store_forgets() {
        let (mut outgoing, mut out) = (Outgoing::new(1), Vec::new());
        let begin = |outgoing: &mut Outgoing, id, len| {
            let mut out = Vec::new();
            outgoing.send(LINK, (SendId(id), stored(5, 0, len)), PLAIN, &mut out);
            let (load, first) = loads(&out)[0];
            outgoing.loaded(load, Ok(Payload::fill(1, first)), &mut out);
            first
        };
        let first = begin(&mut outgoing, 1, 5 * WINDOW);
        outgoing.want(SendId(1), first, WINDOW, &mut out);
        // The range that the layer asked for is read on its own; the rescue covers all bytes behind it.
        let asked = loads(&out)[0].0;
        let (load, rest) = outgoing.rescue(SendId(1)).unwrap();
        assert_eq!(rest.len(), 4 + 5 * WINDOW + 4 - first - WINDOW);
        assert!(outgoing.rescue(SendId(1)).is_none(), "once");
        out.clear();
        outgoing.want(SendId(1), first + WINDOW, WINDOW, &mut out);
        assert!(out.is_empty(), "the store is not asked again");
        outgoing.loaded(load, Ok(Payload::fill(1, rest.len())), &mut out);
        assert!(out.is_empty(), "in the order they were asked for");
        outgoing.loaded(asked, Ok(Payload::fill(1, WINDOW)), &mut out);
        outgoing.want(SendId(1), first + 2 * WINDOW, WINDOW, &mut out);
        let given = |what: &Do| match what {
            Do::Layer(_, Input::SendMore { from, part, .. }) => (*from, part.len()),
            other => panic!("{other:?}"),
        };
        let windows: Vec<(u64, u64)> = out.iter().map(given).collect();
        assert_eq!(windows, [0, 1, 2].map(|n| (first + n * WINDOW, WINDOW)));
        // The first of these transfers is too long to be read as a whole, and the second does not exist.
        begin(&mut outgoing, 2, RESCUE_MAX + 3 * WINDOW);
        assert!(outgoing.rescue(SendId(2)).is_none() && outgoing.rescue(SendId(9)).is_none());
        // A failed rescue ends the transfer when the layer asks for the bytes.
        let first = begin(&mut outgoing, 3, 5 * WINDOW);
        let (load, _) = outgoing.rescue(SendId(3)).unwrap();
        out.clear();
        outgoing.want(SendId(3), first, WINDOW, &mut out);
        outgoing.loaded(load, Err(Refusal::Unknown), &mut out);
        assert!(matches!(out[..], [Do::Layer(LINK, Input::SendBroken { id: SendId(3), .. })]));
    }

    #[test]
    fn rescued_bytes_answer_waiting_range() {
        let (mut outgoing, mut out) = (Outgoing::new(1), Vec::new());
        outgoing.send(LINK, (SendId(1), stored(5, 0, 3 * WINDOW)), PLAIN, &mut out);
        let (first_load, first) = loads(&out)[0];
        outgoing.loaded(first_load, Ok(Payload::fill(1, first)), &mut out);
        let (load, rest) = outgoing.rescue(SendId(1)).expect("its end is on disk");
        outgoing.want(SendId(1), first, WINDOW, &mut out);
        out.clear();
        outgoing.loaded(load, Ok(bytes(&rest)), &mut out);
        let [Do::Layer(LINK, Input::SendMore { from, part, .. })] = &out[..] else { panic!("{out:?}") };
        assert_eq!((*from, part.len()), (first, WINDOW));
    }

    #[test]
    fn link_down_forgets_closed_layer() {
        let (mut outgoing, mut out) = (Outgoing::new(1), Vec::new());
        outgoing.on_ready(LINK, false, &mut out);
        outgoing.down(LINK, &mut out);
        // The number of a removed link may be used again: what was said of the former link holds no more.
        outgoing.send(LINK, (SendId(1), stored(5, 0, 100)), PLAIN, &mut out);
        outgoing.loaded(1, Ok(Payload::fill(1, 108)), &mut out);
        assert_eq!(sends(&out), [(1, 108, 108)]);
    }

    #[test]
    fn full_layer_leaves_backlog_on_disk() {
        let (mut outgoing, mut out) = (Outgoing::new(1), Vec::new());
        let told = |out: &[Do]| -> Vec<bool> {
            out.iter().filter_map(|what| if let Do::Ready { ready, .. } = what { Some(*ready) } else { None }).collect()
        };
        outgoing.on_ready(LINK, false, &mut out);
        for id in 1..=BACKLOG as u64 {
            outgoing.send(LINK, (SendId(id), stored(id, 0, WINDOW / 2)), PLAIN, &mut out);
        }
        assert_eq!(told(&out), [false, false]);
        let first = loads(&out);
        assert!(first.len() < 6 && first.iter().map(|(_, len)| len).sum::<u64>() <= AHEAD_BYTES, "{first:?}");
        first.iter().for_each(|(load, len)| outgoing.loaded(*load, Ok(Payload::fill(1, *len)), &mut out));
        assert!(sends(&out).is_empty(), "it takes none");
        out.clear();
        outgoing.on_ready(LINK, true, &mut out);
        assert_eq!((sends(&out).len(), told(&out)), (first.len(), alloc::vec![true, true]));
        assert_eq!(loads(&out).len(), first.len(), "and the next are read");
        outgoing.down(LINK, &mut out);
        assert!(outgoing.closed.is_empty() && outgoing.links.is_empty());
    }

    #[test]
    fn failed_read_reports_permanence() {
        for (reason, for_good) in [(Refusal::StoreFailed, false), (Refusal::Damaged, true), (Refusal::Unknown, true)] {
            let (mut outgoing, mut out) = (Outgoing::new(1), Vec::new());
            outgoing.send(LINK, (SendId(1), stored(5, 0, 100)), PLAIN, &mut out);
            outgoing.send(LINK, (SendId(2), Payload::fill(1, 20)), PLAIN, &mut out);
            out.clear();
            outgoing.loaded(1, Err(reason), &mut out);
            assert!(matches!(out[0], Do::Unreadable { id: SendId(1), for_good: f } if f == for_good));
            assert_eq!(sends(&out), [(2, 20, 20)], "the next goes on");
            // After the first part, the layer ends the transfer.
            out.clear();
            outgoing.send(LINK, (SendId(3), stored(5, 0, 3 * WINDOW)), PLAIN, &mut out);
            outgoing.loaded(2, Ok(Payload::fill(1, 4 + WINDOW)), &mut out);
            outgoing.want(SendId(3), 4 + WINDOW, WINDOW, &mut out);
            out.clear();
            outgoing.loaded(3, Err(reason), &mut out);
            assert!(matches!(out[..], [Do::Layer(LINK, Input::SendBroken { id: SendId(3), .. })]));
            assert_eq!((outgoing.ended(SendId(3)), outgoing.ended(SendId(3))), (Some(for_good), None));
        }
    }

    #[test]
    fn cancelled_bundle_unblocks_followers() {
        let (mut outgoing, mut out) = (Outgoing::new(1), Vec::new());
        outgoing.send(LINK, (SendId(1), stored(5, 0, 100)), PLAIN, &mut out);
        outgoing.send(LINK, (SendId(2), Payload::fill(1, 20)), PLAIN, &mut out);
        out.clear();
        assert!(outgoing.cancel(LINK, SendId(1), &mut out) && !outgoing.cancel(LINK, SendId(1), &mut out));
        assert_eq!(sends(&out), [(2, 20, 20)]);
        outgoing.loaded(1, Ok(Payload::fill(1, 108)), &mut out);
        assert!(out.len() == 1 && !outgoing.owns(1) && !outgoing.waits(LINK));
        // A bundle that its layer already has cannot be cancelled here.
        outgoing.send(LINK, (SendId(3), stored(5, 0, 3 * WINDOW)), PLAIN, &mut out);
        outgoing.loaded(2, Ok(Payload::fill(1, 4 + WINDOW)), &mut out);
        assert!(!outgoing.cancel(LINK, SendId(3), &mut out) && outgoing.ended(SendId(3)).is_none());
        assert!(outgoing.streaming.is_empty(), "and is forgotten with its answer");
    }

    #[test]
    fn link_down_returns_bounded_read_ahead() {
        let (mut outgoing, mut out) = (Outgoing::new(1), Vec::new());
        for id in 0..20 {
            outgoing.send(LINK, (SendId(id), stored(id, 0, 100)), PLAIN, &mut out);
        }
        assert_eq!(loads(&out).len(), AHEAD);
        out.clear();
        outgoing.loaded(1, Ok(Payload::fill(1, 108)), &mut out);
        assert_eq!((sends(&out).len(), loads(&out).len()), (1, 1));
        out.clear();
        outgoing.down(LINK, &mut out);
        let failed = |what: &&Do| matches!(what, Do::Failed { .. });
        assert_eq!(out.iter().filter(failed).count(), 19);
        out.clear();
        // Loads that were under way are answered late, and belong to no bundle.
        (2..=AHEAD as u64 + 1).for_each(|load| outgoing.loaded(load, Ok(Payload::fill(1, 108)), &mut out));
        assert!(out.is_empty() && outgoing.loads.is_empty());
    }
}
