//! A link as the agent sees it: its contact windows, its queue by priority, its pace.

use crate::settings::LinkSettings;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::layer::LinkState;
use farlink_base::{BundleHandle, DataRate, Duration, Instant, LinkId, NodeId, Priority};

/// Place in a link's queue: most urgent first, then earliest contact, then first come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueueKey {
    priority: Reverse<Priority>,
    not_before: Instant,
    /// Which bundle.
    pub bundle: BundleHandle,
}
impl QueueKey {
    /// The place of a bundle.
    pub fn new(priority: Priority, not_before: Instant, bundle: BundleHandle) -> Self {
        QueueKey { priority: Reverse(priority), not_before, bundle }
    }
}

/// What is to be done with a queued bundle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueueEntry {
    /// To which neighbour.
    pub next_hop: NodeId,
    /// Copies handed over; `None` hands over the bundle itself.
    pub copy: Option<u32>,
    /// Encoded length.
    pub size: u64,
}

/// A window in which one side may transmit, on this process's clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    /// From.
    pub start: Instant,
    /// Up to.
    pub end: Instant,
    /// How fast.
    pub rate: DataRate,
    /// One-way light time.
    pub delay: Duration,
}

/// One link.
#[derive(Debug)]
pub struct Link {
    /// Its number.
    pub id: LinkId,
    /// Its name.
    pub name: String,
    /// The neighbour.
    pub peer: NodeId,
    /// Rate without a contact.
    pub rate: Option<DataRate>,
    /// One-way delay without a contact.
    pub one_way_delay: Duration,
    /// Bytes on the link per 1,000,000 bytes of bundle.
    pub wire_bytes_per_million: u64,
    /// Whether the medium works.
    pub carrier: bool,
    /// Whether an operator allows it.
    pub enabled: bool,
    /// Whether the contact plan rules it.
    pub planned: bool,
    /// Windows in which this node may transmit, in order of start.
    pub transmit: Vec<Window>,
    /// Windows in which the peer may transmit, in order of start.
    pub receive: Vec<Window>,
    /// Whether the layer takes a bundle.
    pub ready: bool,
    /// Bundles waiting for it.
    pub queue: BTreeMap<QueueKey, QueueEntry>,
    /// Bytes waiting for it.
    pub queued_bytes: u64,
    /// Bundles taken from the queue, being read from the store.
    pub loading: BTreeMap<BundleHandle, QueueEntry>,
    /// Bundles whose payload was read and that go next.
    pub loaded: VecDeque<(BundleHandle, QueueEntry)>,
    /// Bundles with the layer.
    pub in_flight: u64,
    /// When everything handed over will have left, at the link's rate.
    pub busy_until: Instant,
    /// Whether a timer will pump it when it is no longer busy.
    pub pace_armed: bool,
    /// What the layer was told last.
    pub told: Option<LinkState>,
    /// Whether `LinkUp` was said last.
    pub said_up: bool,
}

/// Work handed to a layer ahead of time: enough to keep it busy between two turns of the driver,
/// little enough that an urgent bundle does not wait behind it.
const AHEAD: Duration = Duration::from_millis(20);

impl Link {
    /// A configured link.
    pub fn new(settings: &LinkSettings, peer: NodeId) -> Self {
        Link {
            id: settings.link,
            name: settings.name.clone(),
            peer,
            rate: settings.rate,
            one_way_delay: settings.one_way_delay,
            wire_bytes_per_million: settings.wire_bytes_per_million.max(1_000_000),
            carrier: true,
            enabled: true,
            planned: false,
            transmit: Vec::new(),
            receive: Vec::new(),
            ready: false,
            queue: BTreeMap::new(),
            queued_bytes: 0,
            loading: BTreeMap::new(),
            loaded: VecDeque::new(),
            in_flight: 0,
            busy_until: Instant::ZERO,
            pace_armed: false,
            told: None,
            said_up: false,
        }
    }

    fn window(windows: &[Window], now: Instant) -> Option<&Window> {
        windows.iter().find(|w| w.start <= now && now < w.end)
    }

    /// The contact this node may transmit in now.
    pub fn contact(&self, now: Instant) -> Option<&Window> {
        Self::window(&self.transmit, now)
    }

    /// What the link can do now.
    pub fn state(&self, now: Instant) -> LinkState {
        if !self.carrier || !self.enabled {
            return LinkState::DOWN;
        }
        if !self.planned {
            return LinkState {
                transmit: true,
                receive: true,
                rate: self.rate,
                delay_out: self.one_way_delay,
                delay_in: self.one_way_delay,
            };
        }
        let out = self.contact(now);
        let back = Self::window(&self.receive, now);
        let delay = |window: Option<&Window>, all: &[Window]| {
            window.or_else(|| all.iter().rfind(|w| w.start <= now)).or(all.first()).map(|w| w.delay)
        };
        let delay_out = delay(out, &self.transmit).unwrap_or(self.one_way_delay);
        LinkState {
            transmit: out.is_some(),
            // A plan without return contacts describes a simplex link: nothing comes back in time
            // anyway, so timers follow the forward direction.
            receive: if self.receive.is_empty() { out.is_some() } else { back.is_some() },
            rate: out.map(|w| w.rate).or(self.rate),
            delay_out,
            delay_in: delay(back, &self.receive).unwrap_or(delay_out),
        }
    }

    /// Whether bundles may leave over it now.
    pub fn is_up(&self, now: Instant) -> bool {
        self.carrier && self.enabled && (!self.planned || self.contact(now).is_some())
    }

    /// The next moment its contact windows change.
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let edges = self.transmit.iter().chain(&self.receive).flat_map(|w| [w.start, w.end]);
        edges.filter(|t| *t > now && *t < Instant::MAX).min()
    }

    /// Bytes on the link for a bundle of this size.
    pub fn wire_bytes(&self, size: u64) -> u64 {
        u64::try_from(u128::from(size) * u128::from(self.wire_bytes_per_million) / 1_000_000).unwrap_or(u64::MAX)
    }

    /// When the next bundle may be handed over: now, or once the layer has little left to do.
    pub fn may_send_at(&self) -> Instant {
        Instant(self.busy_until.0.saturating_sub(AHEAD.as_nanos() as u64))
    }

    /// Accounts for a bundle handed over.
    pub fn charge(&mut self, now: Instant, size: u64) {
        let rate = self.contact(now).map(|w| w.rate).or(if self.planned { None } else { self.rate });
        if let Some(rate) = rate {
            self.busy_until = self.busy_until.max(now) + rate.time_for(self.wire_bytes(size));
        }
    }

    /// Bytes of one more bundle that still fit into the contact; `None`: no end in sight.
    pub fn room_in_contact(&self, now: Instant) -> Option<u64> {
        let window = self.contact(now)?;
        if window.end == Instant::MAX {
            return None;
        }
        let wire = window.rate.volume_in(window.end.since(self.busy_until.max(now)));
        Some(u64::try_from(u128::from(wire) * 1_000_000 / u128::from(self.wire_bytes_per_million)).unwrap_or(u64::MAX))
    }

    /// Puts a bundle into the queue.
    pub fn enqueue(&mut self, key: QueueKey, entry: QueueEntry) {
        if self.queue.insert(key, entry).is_none() {
            self.queued_bytes += entry.size;
        }
    }

    /// Takes a bundle out of the queue.
    pub fn dequeue(&mut self, key: &QueueKey) -> Option<QueueEntry> {
        let entry = self.queue.remove(key)?;
        self.queued_bytes -= entry.size;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_bundle::EndpointId;

    fn link() -> Link {
        let settings = LinkSettings {
            link: LinkId(0),
            name: "ka".into(),
            peer: EndpointId::Null,
            rate: None,
            one_way_delay: Duration::from_millis(5),
            wire_bytes_per_million: 1_100_000,
        };
        Link::new(&settings, NodeId::ipn(2))
    }
    fn window(start_s: u64, end_s: u64) -> Window {
        let (start, end) = (Instant(start_s * 1_000_000_000), Instant(end_s * 1_000_000_000));
        Window { start, end, rate: DataRate(8_800), delay: Duration::from_secs(1) }
    }

    #[test]
    fn a_planned_link_is_up_exactly_in_its_contacts() {
        let mut l = link();
        assert!(l.is_up(Instant::ZERO) && l.state(Instant::ZERO).rate.is_none());
        l.planned = true;
        l.transmit = Vec::from([window(10, 20), window(30, 40)]);
        for (s, up) in [(0, false), (10, true), (19, true), (20, false), (30, true), (40, false)] {
            assert_eq!(l.is_up(Instant(s * 1_000_000_000)), up, "at {s} s");
        }
        assert_eq!(l.next_change(Instant(10_000_000_000)), Some(Instant(20_000_000_000)));
        l.carrier = false;
        assert_eq!(l.state(Instant(10_000_000_000)), LinkState::DOWN);
    }

    #[test]
    fn room_shrinks_by_what_was_handed_over() {
        let mut l = link();
        l.planned = true;
        l.transmit = Vec::from([window(0, 10)]);
        // 8,800 bit/s for 10 s is 11,000 bytes on the link, 10,000 bytes of bundle.
        assert_eq!(l.room_in_contact(Instant::ZERO), Some(10_000));
        l.charge(Instant::ZERO, 4_000);
        assert_eq!(l.room_in_contact(Instant::ZERO), Some(6_000));
        assert_eq!(l.may_send_at(), Instant(3_980_000_000));
    }

    #[test]
    fn the_queue_is_by_priority_then_contact_then_arrival() {
        let mut l = link();
        let entry = QueueEntry { next_hop: NodeId::ipn(2), copy: None, size: 10 };
        for (priority, at, bundle) in [
            (Priority::Normal, 5, 1),
            (Priority::Bulk, 0, 2),
            (Priority::Expedited, 9, 3),
            (Priority::Normal, 5, 0),
            (Priority::Normal, 1, 4),
        ] {
            l.enqueue(QueueKey::new(priority, Instant(at), BundleHandle(bundle)), entry);
        }
        let order: Vec<u64> = l.queue.keys().map(|k| k.bundle.0).collect();
        assert_eq!(order, [3, 4, 0, 1, 2]);
        assert_eq!(l.queued_bytes, 50);
    }
}
