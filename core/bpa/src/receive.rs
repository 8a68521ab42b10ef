//! Taking bundles in: from a neighbour (RFC 9171 5.6), from an application (5.2), from the store
//! after a restart. Accepted means kept: the verdict waits for the store.

use crate::agent::{Agent, Step, bundle_key};
use crate::app::{AppOutput, RequestId, SendRequest};
use crate::held::{Held, Place};
use crate::io::{OfferToken, Output};
use alloc::boxed::Box;
use alloc::vec::Vec;
use farlink_base::store::{self, IndexEntry, Remembered};
use farlink_base::{
    BundleHandle, BundleView, DeleteReason, DtnTime, Duration, Event, Instant, LinkId, Malformed, NodeId, Priority,
    Refusal, Sink,
};
use farlink_bundle::{BlockFlags, Bundle, BundleFlags, CreationTimestamp, EndpointId};
use farlink_congestion::{Overflow, StoreView};

/// Sequence numbers reserved at a time by a node without a clock.
const RESERVE: u64 = 10_000;
/// Requests waiting for a reservation.
const WAITING_MAX: usize = 10_000;

impl Agent {
    pub(crate) fn on_malformed<S: Sink<Output>>(
        &mut self,
        link: LinkId,
        token: OfferToken,
        error: Malformed,
        out: &mut S,
    ) {
        self.event(out, Event::Malformed { link: Some(link), offset: error.offset, reason: error.reason });
        out.push(Output::Verdict { token, result: Err(Refusal::NotAcceptable) });
    }

    pub(crate) fn on_received<S: Sink<Output>>(
        &mut self,
        now: Instant,
        link: LinkId,
        token: Option<OfferToken>,
        mut bundle: Box<Bundle>,
        size: u64,
        out: &mut S,
    ) {
        let fingerprint = bundle.id().fingerprint();
        if self.delivered.contains(fingerprint) {
            // It was delivered: the neighbour only missed the acknowledgment.
            self.verdict(token, Ok(()), out);
            return;
        }
        if let Some(held) = self.by_fingerprint.get(&fingerprint).and_then(|h| self.bundles.get_mut(h)) {
            if held.durable {
                self.verdict(token, Ok(()), out);
            } else {
                held.offers.extend(token);
            }
            return;
        }
        let from = self.neighbour(link, &bundle);
        if let Err(reason) = self.examine(now, &mut bundle, size) {
            let key = bundle_key(&mut self.names, &bundle);
            self.event(out, Event::Refused { link: Some(link), key: Some(key), reason });
            self.verdict(token, Err(reason), out);
            return;
        }
        let age_ms = bundle.age_ms();
        let remaining = self.remaining_lifetime(now, &bundle, age_ms);
        let view = self.view(now, &bundle, size, Some(from), remaining);
        if let Err(reason) = self.make_room(now, &view, out) {
            let key = bundle_key(&mut self.names, &bundle);
            self.event(out, Event::Refused { link: Some(link), key: Some(key), reason });
            self.verdict(token, Err(reason), out);
            return;
        }
        let handle = self.keep(now, *bundle, view, fingerprint, age_ms);
        if let Some(held) = self.bundles.get_mut(&handle) {
            held.offers.extend(token);
        }
        self.event_seen(handle, out);
        self.event(out, Event::Received { bundle: handle, link, from });
        self.report_reception(now, handle, out);
        self.put(now, handle, out);
        // RFC 9171 5.6 step 5: blocks this node does not know.
        if !self.process_unknown_blocks(now, handle, out) {
            return;
        }
        let hops = self.bundles.get(&handle).and_then(|h| h.bundle.hop_count());
        if hops.is_some_and(|h| h.count > u64::from(h.limit)) {
            self.delete(now, handle, DeleteReason::HopLimit, out);
            return;
        }
        self.steps.push_back(Step::Dispatch(handle));
    }

    /// The neighbour a bundle came from: the link's peer, or what the bundle says on a link nobody
    /// configured.
    fn neighbour(&mut self, link: LinkId, bundle: &Bundle) -> NodeId {
        match self.links.get(&link).map(|l| l.peer) {
            Some(peer) if peer != NodeId::NULL => peer,
            _ => bundle.previous_node().map_or(NodeId::NULL, |id| self.names.node(id)),
        }
    }

    /// Rules that let a bundle in at all.
    fn examine(&mut self, now: Instant, bundle: &mut Bundle, size: u64) -> Result<(), Refusal> {
        if !self.open || self.terminating {
            return Err(if self.terminating { Refusal::Terminating } else { Refusal::NoResources });
        }
        if size > self.settings.limits.bundle_bytes {
            return Err(Refusal::TooLarge);
        }
        if bundle.primary.destination.is_null() {
            return Err(Refusal::NotAcceptable);
        }
        if self.remaining_lifetime(now, bundle, bundle.age_ms()) == Duration::ZERO {
            return Err(Refusal::Expired);
        }
        Ok(())
    }

    fn process_unknown_blocks<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) -> bool {
        let Some(held) = self.bundles.get(&handle) else { return false };
        let mut discard: Vec<u64> = Vec::new();
        let (mut report, mut delete) = (false, false);
        for (block, flags) in held.bundle.unprocessable() {
            report |= flags.has(BlockFlags::REPORT);
            delete |= flags.has(BlockFlags::DELETE_BUNDLE);
            if flags.has(BlockFlags::DISCARD) {
                discard.push(block.number);
            }
        }
        if report {
            self.report_unsupported(now, handle, out);
        }
        if delete {
            self.delete(now, handle, DeleteReason::BlockUnsupported, out);
            return false;
        }
        if let Some(held) = self.bundles.get_mut(&handle) {
            for number in discard {
                held.bundle.remove_block(number);
            }
        }
        true
    }

    /// What policies see of a bundle.
    pub(crate) fn view(
        &mut self,
        now: Instant,
        bundle: &Bundle,
        size: u64,
        received_from: Option<NodeId>,
        remaining: Duration,
    ) -> BundleView {
        BundleView {
            bundle: BundleHandle(0),
            source: self.names.node(&bundle.primary.source),
            destination: self.names.node(&bundle.primary.destination),
            size,
            payload_size: bundle.payload.len(),
            priority: bundle.priority(),
            received: now,
            expires: now + remaining,
            hops: bundle.hop_count().map_or(0, |h| h.count),
            received_from,
            excluded: Vec::new(),
            may_fragment: bundle.may_fragment(),
            critical: bundle.qos().is_some_and(|q| q.flags & 0x02 != 0),
            copies: bundle.copies().unwrap_or(1),
        }
    }

    /// Admission: bounds, then the congestion control, which may make room.
    pub(crate) fn make_room<S: Sink<Output>>(
        &mut self,
        now: Instant,
        view: &BundleView,
        out: &mut S,
    ) -> Result<(), Refusal> {
        if self.bundles.len() as u64 >= self.settings.limits.bundles {
            return Err(Refusal::NoResources);
        }
        self.control.admit(now, view, &self.store_view())?;
        let capacity = self.settings.capacity_bytes;
        if view.size > capacity {
            return Err(Refusal::TooLarge);
        }
        let missing = (self.kept_bytes + view.size).saturating_sub(capacity);
        if missing == 0 {
            return Ok(());
        }
        let mut answers = Vec::new();
        let removable = |held: &Held| {
            matches!(held.place, Place::Waiting { .. } | Place::Queued { .. } | Place::ForDelivery) && held.durable
        };
        let mut stored = self.bundles.values().filter(|h| removable(h)).map(|h| h.view.clone());
        self.control.on_overflow(now, missing, &mut stored, &mut answers);
        for answer in answers {
            if let Overflow::Drop(bundle) = answer {
                if self.bundles.get(&bundle).is_some_and(removable) {
                    self.delete(now, bundle, DeleteReason::DepletedStorage, out);
                }
            }
        }
        if self.kept_bytes + view.size > capacity { Err(Refusal::NoResources) } else { Ok(()) }
    }

    pub(crate) fn store_view(&self) -> StoreView {
        StoreView { bytes: self.kept_bytes, capacity: self.settings.capacity_bytes, bundles: self.bundles.len() as u64 }
    }

    /// Gives a bundle its number and its lifetime's timer.
    pub(crate) fn keep(
        &mut self,
        now: Instant,
        bundle: Bundle,
        mut view: BundleView,
        fingerprint: u128,
        age_ms: Option<u64>,
    ) -> BundleHandle {
        let handle = BundleHandle(self.next_bundle);
        self.next_bundle += 1;
        view.bundle = handle;
        self.kept_bytes += view.size;
        self.resident_bytes += bundle.payload.resident_len();
        let expiry = Some(self.timers.arm(view.expires, crate::agent::Timer::Expire(handle)));
        self.by_fingerprint.insert(fingerprint, handle);
        let held = Held {
            bundle,
            view,
            fingerprint,
            place: Place::New,
            received: now,
            age_ms,
            expiry,
            durable: false,
            offers: Vec::new(),
            request: None,
            loaded: None,
            recovered: false,
            given: Vec::new(),
            failures: 0,
        };
        self.bundles.insert(handle, held);
        handle
    }

    /// Hands a bundle to the store.
    pub(crate) fn put<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        let utc = self.clock.utc_at(now);
        let Some(held) = self.bundles.get(&handle) else { return };
        let remaining_ms = held.view.expires.since(now).as_millis() as u64;
        let index = IndexEntry {
            priority: held.view.priority,
            expires: utc.map(|t| t.saturating_add_ms(remaining_ms)),
            stored_at: utc,
            age_ms: held.bundle.primary.lifetime_ms.saturating_sub(remaining_ms),
            quota: held.view.source.0,
            fingerprint: held.fingerprint,
            flags: 0,
        };
        out.push(Output::Put { bundle: handle, index, content: Box::new(held.bundle.clone()) });
    }

    pub(crate) fn verdict<S: Sink<Output>>(&self, token: Option<OfferToken>, result: Result<(), Refusal>, out: &mut S) {
        if let Some(token) = token {
            out.push(Output::Verdict { token, result });
        }
    }

    /// What the store says.
    pub(crate) fn on_store<S: Sink<Output>>(&mut self, now: Instant, output: store::Output, out: &mut S) {
        match output {
            store::Output::Stored { bundle, payload } => self.on_stored(bundle, payload, out),
            store::Output::Refused { bundle, reason } => self.on_store_refused(bundle, reason, out),
            store::Output::Loaded { bundle, result } => self.on_loaded(now, bundle, result, out),
            store::Output::Deleted { bundle } => self.on_deleted(bundle),
            store::Output::RecoveredDelivery(remembered) => self.delivered.insert(remembered.fingerprint),
            store::Output::Opened { counter, last_bundle } => self.on_opened(now, counter, last_bundle, out),
            store::Output::CounterSet { value } => {
                self.creation.reserved = value;
                while let Some((request, bundle)) = self.creation.waiting.pop_front() {
                    self.on_send(now, request, bundle, out);
                }
            }
            store::Output::Event(event) => self.event(out, event),
            // The stack decodes recovered bundles and calls `on_recovered`; it keeps spills and
            // disk operations to itself.
            store::Output::Recovered { .. } | store::Output::Spilled { .. } | store::Output::Disk(_) => {}
        }
    }

    fn on_stored<S: Sink<Output>>(
        &mut self,
        handle: BundleHandle,
        payload: Option<farlink_base::Payload>,
        out: &mut S,
    ) {
        let memory_full = self.resident_bytes > self.settings.limits.memory_bytes;
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        held.durable = true;
        let offers = core::mem::take(&mut held.offers);
        let request = held.request.take();
        if let Some(on_disk) = payload {
            if memory_full && !matches!(held.place, Place::Fragment | Place::Delivering { .. }) {
                self.resident_bytes -= held.bundle.payload.resident_len();
                held.bundle.payload = on_disk;
            }
        }
        let id = held.bundle.id();
        let (leaving, for_delivery) = (held.place == Place::Leaving, held.place == Place::ForDelivery);
        for token in offers {
            out.push(Output::Verdict { token, result: Ok(()) });
        }
        self.event(out, Event::Accepted { bundle: handle });
        if for_delivery {
            self.await_delivery(handle);
        }
        if let Some(request) = request {
            out.push(Output::App(AppOutput::SendResult { request, result: Ok(id) }));
        }
        if leaving {
            self.forget(handle);
        }
    }

    fn on_store_refused<S: Sink<Output>>(&mut self, handle: BundleHandle, reason: Refusal, out: &mut S) {
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        let offers = core::mem::take(&mut held.offers);
        let request = held.request.take();
        let leaving = held.place == Place::Leaving;
        // Pieces and joined bundles are made of what was accepted before: nobody can be told no,
        // so they stay in memory.
        let made_here = !leaving && offers.is_empty() && request.is_none();
        let for_delivery = held.place == Place::ForDelivery;
        held.durable |= made_here;
        let key = bundle_key(&mut self.names, &held.bundle);
        for token in offers {
            // A bundle that was forwarded or delivered meanwhile needs no store any more.
            out.push(Output::Verdict { token, result: if leaving { Ok(()) } else { Err(reason) } });
        }
        if let Some(request) = request {
            out.push(Output::App(AppOutput::SendResult { request, result: Err(reason) }));
        }
        self.event(out, Event::Refused { link: None, key: Some(key), reason });
        if made_here {
            if for_delivery {
                self.await_delivery(handle);
            }
        } else if leaving {
            self.forget(handle);
        } else {
            self.unlink(handle);
            self.event(out, Event::Deleted { bundle: handle, reason: DeleteReason::DepletedStorage });
            self.forget(handle);
        }
    }

    /// A bundle an earlier run kept, decoded by the stack; before `Opened`.
    pub fn on_recovered<S: Sink<Output>>(
        &mut self,
        now: Instant,
        handle: BundleHandle,
        index: &IndexEntry,
        bundle: Box<Bundle>,
        size: u64,
        out: &mut S,
    ) {
        // Residence counts through downtime when both ends of it were dated.
        let down_ms = match (index.stored_at, self.clock.utc_at(now)) {
            (Some(stored), Some(utc)) => utc.saturating_since_ms(stored),
            _ => 0,
        };
        let age_ms = index.age_ms.saturating_add(down_ms);
        let remaining = Duration::from_millis(bundle.primary.lifetime_ms.saturating_sub(age_ms));
        let from = bundle.previous_node().map(|id| self.names.node(id));
        let view = self.view(now, &bundle, size, from, remaining);
        self.next_bundle = handle.0;
        let block_age = bundle.age_ms().map(|_| age_ms);
        let kept = self.keep(now, *bundle, view, index.fingerprint, block_age);
        if let Some(held) = self.bundles.get_mut(&kept) {
            held.durable = true;
            held.recovered = true;
        }
        self.event_seen(kept, out);
        self.event(out, Event::Recovered { bundle: kept });
        self.steps.push_back(Step::Dispatch(kept));
    }

    fn on_opened<S: Sink<Output>>(&mut self, now: Instant, counter: u64, last_bundle: u64, out: &mut S) {
        self.open = true;
        self.next_bundle = self.next_bundle.max(last_bundle.saturating_add(1));
        self.creation.counter = counter;
        self.creation.reserved = counter;
        self.tell_links(now, out);
        for input in core::mem::take(&mut self.deferred) {
            self.on_app(now, input, out);
        }
    }

    /// RFC 9171 5.2: an application wants a bundle sent.
    pub(crate) fn on_send<S: Sink<Output>>(
        &mut self,
        now: Instant,
        request: RequestId,
        wanted: SendRequest,
        out: &mut S,
    ) {
        let source = self.local_endpoint(&wanted.source);
        let refusal = match &source {
            _ if self.terminating => Some(Refusal::Terminating),
            _ if wanted.destination.is_null() => Some(Refusal::NotAcceptable),
            None => Some(Refusal::Unknown),
            Some(_) => None,
        };
        let (Some(source), None) = (source, refusal) else {
            let reason = refusal.unwrap_or(Refusal::Unknown);
            self.event(out, Event::Refused { link: None, key: None, reason });
            out.push(Output::App(AppOutput::SendResult { request, result: Err(reason) }));
            return;
        };
        let Some(creation) = self.next_creation(now, out) else {
            if self.creation.waiting.len() < WAITING_MAX {
                self.creation.waiting.push_back((request, wanted));
            } else {
                out.push(Output::App(AppOutput::SendResult { request, result: Err(Refusal::NoResources) }));
            }
            return;
        };
        let bundle = self.build(source, wanted, creation);
        if let Err(reason) = self.create(now, bundle, Some(request), out) {
            self.event(out, Event::Refused { link: None, key: None, reason });
            out.push(Output::App(AppOutput::SendResult { request, result: Err(reason) }));
        }
    }

    fn build(&self, source: EndpointId, wanted: SendRequest, creation: CreationTimestamp) -> Bundle {
        let allowed = BundleFlags::REPORTS | BundleFlags::NO_FRAGMENT | BundleFlags::APP_ACK | BundleFlags::STATUS_TIME;
        let hop_limit = if wanted.hop_limit == 0 { self.settings.hop_limit } else { wanted.hop_limit };
        let mut builder = Bundle::new(source, wanted.destination, creation)
            .flags(wanted.flags & allowed)
            .report_to(wanted.report_to)
            .lifetime_ms(wanted.lifetime_ms)
            .crc(self.settings.crc)
            .payload(wanted.payload);
        if wanted.priority != Priority::Normal || !wanted.reliable {
            let flags = u64::from(!wanted.reliable);
            let qos = farlink_bundle::QualityOfService { flags, priority: wanted.priority, ordinal: 0, label: 0 };
            builder = builder.block(farlink_bundle::BlockData::QualityOfService(qos));
        }
        if creation.time == DtnTime::UNKNOWN {
            builder = builder.block(farlink_bundle::BlockData::Age(0));
        }
        if hop_limit > 0 {
            builder = builder.hop_limit(hop_limit);
        }
        builder.build()
    }

    /// Takes a bundle made here into the node.
    pub(crate) fn create<S: Sink<Output>>(
        &mut self,
        now: Instant,
        mut bundle: Bundle,
        request: Option<RequestId>,
        out: &mut S,
    ) -> Result<BundleHandle, Refusal> {
        let size = bundle.encoded_len();
        if size > self.settings.limits.bundle_bytes {
            return Err(Refusal::TooLarge);
        }
        // The payload's CRC is computed once, for the store and for every link.
        bundle.seal(&self.settings.accel);
        let remaining = Duration::from_millis(bundle.primary.lifetime_ms);
        let view = self.view(now, &bundle, size, None, remaining);
        self.make_room(now, &view, out)?;
        let fingerprint = bundle.id().fingerprint();
        let age_ms = bundle.age_ms();
        let handle = self.keep(now, bundle, view, fingerprint, age_ms);
        if let Some(held) = self.bundles.get_mut(&handle) {
            held.request = request;
        }
        self.event_seen(handle, out);
        self.event(out, Event::Created { bundle: handle });
        self.put(now, handle, out);
        self.steps.push_back(Step::Dispatch(handle));
        Ok(handle)
    }

    /// A creation timestamp nobody else has (RFC 9171 4.2.7); `None` while numbers are being
    /// reserved on disk.
    pub(crate) fn next_creation<S: Sink<Output>>(&mut self, now: Instant, out: &mut S) -> Option<CreationTimestamp> {
        if let Some(utc) = self.clock.utc_at(now) {
            // A clock that steps back must not repeat a timestamp.
            if utc.0 > self.creation.last_ms {
                self.creation.last_ms = utc.0;
                self.creation.sequence = 0;
            } else {
                self.creation.sequence += 1;
            }
            return Some(CreationTimestamp { time: DtnTime(self.creation.last_ms), sequence: self.creation.sequence });
        }
        if self.creation.counter + RESERVE / 2 >= self.creation.reserved {
            let value = self.creation.reserved.max(self.creation.counter) + RESERVE;
            out.push(Output::Store(store::Input::SetCounter { value }));
        }
        if self.creation.counter >= self.creation.reserved {
            return None;
        }
        self.creation.counter += 1;
        Some(CreationTimestamp { time: DtnTime::UNKNOWN, sequence: self.creation.counter })
    }

    /// How a delivered bundle is remembered.
    pub(crate) fn remembered(&self, now: Instant, held: &Held) -> Remembered {
        let until = self.clock.utc_at(now).unwrap_or(DtnTime(0));
        let remaining = held.view.expires.since(now).as_millis() as u64;
        Remembered { fingerprint: held.fingerprint, until: until.saturating_add_ms(remaining) }
    }
}
