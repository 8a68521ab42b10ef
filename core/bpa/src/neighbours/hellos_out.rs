//! Outgoing hellos: one bundle for each neighbour with pending content, at the end of each call of the agent.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::{Draft, put_u64};
use crate::io::Output;
use crate::neighbours::hellos::{Hello, IDS_MAX, LIFETIME_MS, SUMMARY, VERSION};
use crate::state::waits::back_off;
use crate::work::Timer;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{BundleMeta, EndpointId, Facts, Instant, PeerId, Priority, Sink};
use farlink_book::{Birth, Flags, Handle, Held, New, NextHop, RetentionConstraint, RetentionConstraints, Why};

impl Agent {
    /// Sends pending hellos; those for neighbours that are down or have no name are dropped.
    pub(crate) fn flush_hellos<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>) {
        while let Some((peer, hello)) = self.hellos.pending.pop_first() {
            let Some(p) = self.neighbours.peers().get(peer) else { continue };
            let (Some(link), to) = (p.up.first().copied(), p.endpoint()) else { continue };
            if to.is_null() {
                continue;
            }
            if self.neighbours.link(link).is_some_and(|link| link.takes.has_free_hellos()) {
                cx.out.push(Output::Hello { link, content: self.write_hello(&hello) });
                continue;
            }
            // Without a sequence number the hello stays pending until the store has reserved some.
            let Some(creation) = self.next_creation(cx, &self.node_id()) else {
                self.hellos.pending.insert(peer, hello);
                return;
            };
            let hello = self.hellos.join(peer, hello, &self.book);
            let known = self.neighbours.link(link);
            let light =
                known.map_or(core::time::Duration::ZERO, |link| link.state(self.plan.placed(), cx.now).delay_out);
            let content = self.write_hello(&hello);
            // A long hello costs units of the slice: one per 16 KiB.
            self.work.spend(content.len() as u32 >> 14);
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
            let payload = cx.edge.hello(&content);
            if let Ok(meta) = self.make_new(cx, draft, creation, payload) {
                self.send_hello(cx, (peer, hello), link, meta);
            }
        }
    }

    /// Keeps a hello in memory only and queues it for this link. It replaces an earlier hello to the neighbour that was
    /// never sent.
    fn send_hello<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        (peer, hello): (PeerId, Hello),
        link: farlink_base::LinkId,
        meta: BundleMeta,
    ) {
        let expires = cx.now + core::time::Duration::from_millis(meta.lifetime_ms);
        let mut flags = Flags::default();
        flags.set(Flags::DURABLE, true);
        flags.set(Flags::VIRTUAL, true);
        let bundle = self.keep(
            New {
                bundle: Arc::new(meta),
                number: None,
                born: Birth::of(cx.now, 0),
                expires,
                from: PeerId::NONE,
                hops: 0,
                labels: [0; 2],
                reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
                flags,
            },
            cx.out,
        );
        if let Some((before, _)) = self.hellos.under_way.insert(peer, (bundle, hello)) {
            // The new hello supersedes a former one that was never sent.
            if self.book.get(before).is_some_and(|held| held.sends == 0) {
                self.depart(cx, before, Why::Forwarded, None);
            }
        }
        let leg = NextHop { link, not_before: Instant::ZERO, until: Instant::MAX };
        self.queue(bundle, leg, false, cx.out);
    }

    /// Whether a bundle is a hello that this node made: it has no record in the store, and policies do not see it.
    pub(crate) fn is_hello(&self, held: &Held) -> bool {
        let hello = held.flags.has(Flags::VIRTUAL) && !held.flags.has(Flags::UNRECORDED);
        hello && !self.is_local(held.destination())
    }

    /// Sends a hello again whose transmission failed: at once, or after the backoff if the neighbour refused it. Drops
    /// the hello if its neighbour is down.
    pub(crate) fn repeat_hello<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        let peer = self.hellos.peer_of(bundle).and_then(|peer| self.neighbours.peers().get(peer));
        let Some(link) = peer.and_then(|peer| peer.up.first().copied()) else {
            return self.depart(cx, bundle, Why::Forwarded, None);
        };
        if self.outbound.waits.first_refusal(bundle).is_some() {
            let failures = self.book.get(bundle).map_or(0, |held| held.failures);
            self.outbound.waits.until(&mut self.book, bundle, cx.now + back_off(failures));
        } else {
            self.queue(bundle, NextHop { link, not_before: Instant::ZERO, until: Instant::MAX }, false, cx.out);
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
            // Deliveries fill at most half of the list; held bundles follow, the oldest first, because the neighbour
            // most likely has those. If the neighbour offers a bundle that the list leaves out, this node refuses the
            // copy.
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

    /// Greets a neighbour that came up, and begins to offer it held bundles, if the policies offer copies at all.
    pub(super) fn greet(&mut self, now: Instant, peer: PeerId, delay: core::time::Duration) {
        if !self.policies.offers() {
            return;
        }
        let summary = self.policies.asks_summaries();
        self.hellos.greet(peer, summary);
        let heard = self.neighbours.peers().get(peer).is_some_and(|p| p.heard);
        // The neighbour sends its summary once the link is up there, and the summary takes one light time; the rest is
        // margin.
        let awaits = (summary && !heard).then(|| now + core::time::Duration::from_secs(2) + 4 * delay);
        self.outbound.offers.begin(&mut self.book, peer, awaits);
        if let Some(at) = awaits {
            let timer = self.work.arm(at, Timer::Summary(peer));
            self.outbound.offers.set_timer(peer, timer);
        }
    }
}
