//! Hellos: what neighbours tell each other when they meet, and whatever their policies have to say,
//! gathered into one bundle a turn. A real node really sends it.
//!
//! Content: version 1, flags, free bytes, capacity, count of identities and the low halves of the
//! newest, length and bytes of the router's message, bytes of the control's; big-endian.

use crate::agent::{Agent, Timer};
use crate::edge::{Draft, Edge, put_u64};
use crate::hearing::Hearing;
use crate::io::Output;
use crate::waits::back_off;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{BundleMeta, CreationTimestamp, Empty, EndpointId, Facts, Instant, PeerId, Priority, Sink};
use farlink_book::{
    Birth, Book, Flags, Handle, Held, New, NextHop, PolicyEvent, RetentionConstraint, RetentionConstraints, Side, Why,
};

const VERSION: u8 = 1;
/// The identities are a summary of everything held.
const SUMMARY: u8 = 1;
/// Lifetime of a hello, ms, besides four times the light time of its link: as long as it is waited for, since it may
/// have to wait for its turn until the neighbour's has come.
const LIFETIME_MS: u64 = 60_000;
/// Identities in one hello.
const IDS_MAX: usize = 8 << 10;
/// Bytes of one policy's message that are carried.
pub(crate) const MESSAGE_MAX: usize = 1 << 20;
/// Bytes of the longest hello: both policies' messages, identities, and what is around them.
pub(crate) const HELLO_MAX: u64 = (2 * MESSAGE_MAX + 8 * IDS_MAX + 1024) as u64;

/// What a neighbour is to be told.
#[derive(Debug, Default)]
struct Hello {
    summary: bool,
    messages: [Vec<u8>; 2],
}

/// Hellos to be sent.
#[derive(Debug, Default)]
pub(crate) struct Hellos {
    pending: BTreeMap<PeerId, Hello>,
    /// The one on its way to each neighbour, and what it says.
    under_way: BTreeMap<PeerId, (Handle, Hello)>,
    /// What neighbours said that is not heard yet.
    pub(crate) hearing: Option<Box<Hearing>>,
}

/// Most nodes have policies that say nothing.
impl Empty for Hellos {
    type From = ();
    const EMPTY: &'static Self = &Hellos { pending: BTreeMap::new(), under_way: BTreeMap::new(), hearing: None };
    fn make((): ()) -> Self {
        Hellos::default()
    }
}

impl Hello {
    /// What policies say besides, as far as there is room.
    fn add(&mut self, side: Side, bytes: &[u8]) {
        let message = &mut self.messages[side as usize];
        let room = MESSAGE_MAX.saturating_sub(message.len());
        message.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Hellos {
    /// A policy has something to say; several messages of one turn are joined.
    pub fn tell(&mut self, to: PeerId, side: Side, bytes: &[u8]) {
        self.pending.entry(to).or_default().add(side, bytes);
    }
    /// What one that has not left says is said by the next one, too: first, so that of two messages of a policy the
    /// newer is read last.
    fn join(&mut self, to: PeerId, hello: Hello, book: &Book) -> Hello {
        let waits = |(bundle, _): &&mut (Handle, Hello)| book.get(*bundle).is_some_and(|held| held.sends == 0);
        let Some((_, before)) = self.under_way.get_mut(&to).filter(waits) else { return hello };
        let mut all = core::mem::take(before);
        all.summary |= hello.summary;
        for side in [Side::Router, Side::Control] {
            all.add(side, &hello.messages[side as usize]);
        }
        all
    }
    /// A neighbour that came up is greeted.
    pub fn greet(&mut self, to: PeerId, summary: bool) {
        self.pending.entry(to).or_default().summary |= summary;
    }
    /// Whose hello this is.
    pub fn peer_of(&self, hello: Handle) -> Option<PeerId> {
        self.under_way.iter().find(|(_, (bundle, _))| *bundle == hello).map(|(peer, _)| *peer)
    }
    /// A neighbour is gone.
    pub fn forget(&mut self, peer: PeerId) -> Option<Handle> {
        self.pending.remove(&peer);
        if let Some(hearing) = &mut self.hearing {
            hearing.forget(peer);
        }
        self.under_way.remove(&peer).map(|(bundle, _)| bundle)
    }
    /// Hellos that wait, and those under way.
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.pending.len() + self.under_way.len() + self.hearing.as_ref().map_or(0, |hearing| hearing.len())
    }
    /// Whether there is something to be sent.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }
}

/// A hello as it arrived.
pub(crate) struct Heard<'a> {
    pub summary: bool,
    pub free: u64,
    pub capacity: u64,
    pub ids: &'a [u8],
    pub messages: [&'a [u8]; 2],
}

fn read(content: &[u8]) -> Option<Heard<'_>> {
    let (head, rest) = content.split_at_checked(22)?;
    let number = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let count = u32::from_be_bytes(head[18..22].try_into().ok()?) as usize;
    let (ids, rest) = rest.split_at_checked(count.checked_mul(8)?)?;
    let (len, rest) = rest.split_at_checked(4)?;
    let len = u32::from_be_bytes(len.try_into().ok()?) as usize;
    let (router, control) = rest.split_at_checked(len)?;
    let summary = head[1] & SUMMARY != 0;
    (head[0] == VERSION).then_some(Heard {
        summary,
        free: number(2),
        capacity: number(10),
        ids,
        messages: [router, control],
    })
}

impl Agent {
    /// Sends what is pending to neighbours that are up.
    pub(crate) fn flush_hellos<S: Sink<Output>>(&mut self, now: Instant, edge: &mut dyn Edge, out: &mut S) {
        while let Some((peer, hello)) = self.hellos.pending.pop_first() {
            let Some(p) = self.neighbours.peers().get(peer) else { continue };
            let (Some(link), to) = (p.up.first().copied(), p.endpoint()) else { continue };
            if to.is_null() {
                continue;
            }
            if self.neighbours.link(link).is_some_and(|link| link.takes.says_freely()) {
                out.push(Output::Hello { link, content: self.write_hello(&hello) });
                continue;
            }
            let Some(creation) = self.next_creation(now, &self.node_id(), out) else {
                self.hellos.pending.insert(peer, hello);
                return;
            };
            let hello = self.hellos.join(peer, hello, &self.book);
            let known = self.neighbours.link(link);
            let light = known.map_or(core::time::Duration::ZERO, |link| link.state(self.plan.placed(), now).delay_out);
            let content = self.write_hello(&hello);
            self.budget = self.budget.saturating_sub(content.len() as u32 >> 14);
            let draft = Draft {
                compressed: None,
                version: self.settings.version,
                source: self.node_id(),
                destination: to.node_id(),
                report_to: EndpointId::Null,
                facts: Facts(Facts::ADMIN),
                lifetime_ms: LIFETIME_MS.saturating_add(u64::try_from((4 * light).as_millis()).unwrap_or(u64::MAX)),
                priority: Priority::Expedited,
                hop_limit: 1,
            };
            let payload = edge.hello(&content);
            if let Ok(meta) = self.make_new(now, draft, creation, payload, edge, out) {
                self.send_hello(now, (peer, hello), link, meta, edge, out);
            }
        }
    }

    /// A hello is kept in memory only, and belongs to the link it was made for.
    fn send_hello<S: Sink<Output>>(
        &mut self,
        now: Instant,
        (peer, hello): (PeerId, Hello),
        link: farlink_base::LinkId,
        meta: BundleMeta,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let expires = now + core::time::Duration::from_millis(meta.lifetime_ms);
        let mut flags = Flags::default();
        flags.set(Flags::DURABLE, true);
        flags.set(Flags::VIRTUAL, true);
        let bundle = self.keep(
            New {
                bundle: Arc::new(meta),
                number: None,
                born: Birth::of(now, 0),
                expires,
                from: PeerId::NONE,
                hops: 0,
                labels: [0; 2],
                reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
                flags,
            },
            out,
        );
        if let Some((before, _)) = self.hellos.under_way.insert(peer, (bundle, hello)) {
            // What it said the new one says, too, unless it has left.
            if self.book.get(before).is_some_and(|held| held.sends == 0) {
                self.depart(now, before, Why::Forwarded, None, edge, out);
            }
        }
        let leg = NextHop { link, not_before: Instant::ZERO, until: Instant::MAX };
        self.queue(bundle, leg, false, out);
    }

    /// A hello is nobody's bundle but its neighbour's: it has no record, and no policy hears of it.
    pub(crate) fn is_hello(&self, held: &Held) -> bool {
        let hello = held.flags.has(Flags::VIRTUAL) && !held.flags.has(Flags::UNRECORDED);
        hello && !self.is_local(held.destination())
    }

    /// A hello did not get through: it is said again while its neighbour is there, after the back-off
    /// where that one refuses.
    pub(crate) fn repeat_hello<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: Handle,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let peer = self.hellos.peer_of(bundle).and_then(|peer| self.neighbours.peers().get(peer));
        let Some(link) = peer.and_then(|peer| peer.up.first().copied()) else {
            return self.depart(now, bundle, Why::Forwarded, None, edge, out);
        };
        if self.waits.first_refusal(bundle).is_some() {
            let failures = self.book.get(bundle).map_or(0, |held| held.failures);
            self.waits.until(&mut self.book, bundle, now + back_off(failures));
        } else {
            self.queue(bundle, NextHop { link, not_before: Instant::ZERO, until: Instant::MAX }, false, out);
        }
    }

    fn write_hello(&self, hello: &Hello) -> Vec<u8> {
        let [router, control] = &hello.messages;
        let mut content = Vec::with_capacity(64 + router.len() + control.len());
        content.extend_from_slice(&[VERSION, if hello.summary { SUMMARY } else { 0 }]);
        put_u64(&mut content, self.settings.capacity_bytes.saturating_sub(self.book.bytes()));
        put_u64(&mut content, self.settings.capacity_bytes);
        let at = content.len();
        content.extend_from_slice(&[0; 4]);
        if hello.summary {
            let listed = |held: &&Held| !held.bundle.is_anonymous() && !self.is_hello(held);
            let kept = self.book.all().filter(listed).map(|held| held.bundle.id);
            for id in self.remembered.newest_deliveries().take(IDS_MAX / 2).chain(kept).take(IDS_MAX) {
                put_u64(&mut content, id as u64);
            }
        }
        let count = ((content.len() - at - 4) / 8) as u32;
        content[at..at + 4].copy_from_slice(&count.to_be_bytes());
        content.extend_from_slice(&(router.len() as u32).to_be_bytes());
        content.extend_from_slice(router);
        content.extend_from_slice(control);
        content
    }

    /// Whether a neighbour's hello is newer than all heard of it in this encounter; it is noted then.
    /// One that forgot its numbers in a restart, and has no clock, is heard again after a hello's lifetime.
    pub(crate) fn is_news(&mut self, now: Instant, from: PeerId, made: CreationTimestamp) -> bool {
        let Some(peer) = self.neighbours.peer_mut(from) else { return false };
        peer.newest_hello.is_news(made, now, core::time::Duration::from_millis(LIFETIME_MS))
    }

    /// A neighbour says hello.
    pub(crate) fn on_hello<S: Sink<Output>>(&mut self, now: Instant, from: PeerId, content: &[u8], out: &mut S) {
        let Some(heard) = read(content) else { return };
        let Some(peer) = self.neighbours.peer_mut(from) else { return };
        (peer.free, peer.capacity) = (Some(heard.free), Some(heard.capacity));
        self.hear(now, from, &heard, out);
    }

    /// A hello whose turn has come is weighed.
    pub(crate) fn weigh_hello<S: Sink<Output>>(&mut self, now: Instant, from: PeerId, heard: &Heard<'_>, out: &mut S) {
        let Some(peer) = self.neighbours.peer_mut(from) else { return };
        if heard.summary {
            peer.heard = true;
            peer.forget();
        }
        let ids = heard.ids.as_chunks::<8>().0;
        ids.iter().take(IDS_MAX).for_each(|id| peer.note_has(u64::from_be_bytes(*id)));
        for side in [Side::Router, Side::Control] {
            let bytes = heard.messages[side as usize];
            if !bytes.is_empty() {
                self.tell_one(now, side, &PolicyEvent::Heard { from, bytes }, out);
            }
        }
        if heard.summary || !self.policies.asks_summaries() {
            if let Some(timer) = self.offers.heard(from) {
                self.timers.cancel(timer);
            }
            self.offers.reask(&mut self.book, from);
        }
    }

    /// A neighbour came up: it is greeted, and offered what is carried here.
    pub(crate) fn greet(&mut self, now: Instant, peer: PeerId, delay: core::time::Duration) {
        if !self.policies.offers() {
            return;
        }
        let summary = self.policies.asks_summaries();
        self.hellos.greet(peer, summary);
        let heard = self.neighbours.peers().get(peer).is_some_and(|p| p.heard);
        let awaits = (summary && !heard).then(|| now + core::time::Duration::from_secs(2) + 4 * delay);
        self.offers.begin(&mut self.book, peer, awaits);
        if let Some(at) = awaits {
            let timer = self.timers.arm(at, Timer::Summary(peer));
            self.offers.set_timer(peer, timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_that_is_cut_or_lies_about_its_length_is_no_hello() {
        let mut content = Vec::from([VERSION, SUMMARY]);
        put_u64(&mut content, 7);
        put_u64(&mut content, 9);
        content.extend_from_slice(&2u32.to_be_bytes());
        put_u64(&mut content, 1);
        put_u64(&mut content, 2);
        content.extend_from_slice(&3u32.to_be_bytes());
        content.extend_from_slice(b"abcde");
        let heard = read(&content).unwrap();
        assert_eq!((heard.summary, heard.free, heard.capacity, heard.ids.len()), (true, 7, 9, 16));
        assert_eq!(heard.messages, [&b"abc"[..], b"de"]);
        for cut in 0..content.len() - 2 {
            assert!(read(&content[..cut]).is_none(), "{cut}");
        }
        content[18..22].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(read(&content).is_none());
        content[0] = 2;
        assert!(read(&content).is_none());
    }
}
