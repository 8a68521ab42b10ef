//! One link of the agent: its neighbour, its contacts, and the pace at which it takes bundles.

use crate::settings::LinkSettings;
use alloc::boxed::Box;
use alloc::vec::Vec;
use farlink_base::layer::LinkState;
use farlink_base::{DataRate, Duration, Instant, LinkId, LinkTerms, PeerId, TimerKey};
use farlink_routing::contact_plan::PlanClock;
use farlink_routing::{GroupId, PlanIndex};

/// Interval on the monotonic clock in which this node may transmit, or in which it receives (the neighbour's contact,
/// shifted by the light time).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    /// Start of the window.
    pub start: Instant,
    /// End of the window, exclusive.
    pub end: Instant,
    /// Data rate during the window.
    pub rate: DataRate,
    /// One-way light time during the window.
    pub delay: Duration,
}

/// The contact plan placed on this node's clock.
#[derive(Clone, Copy)]
pub struct Placed<'a> {
    /// The plan, shared by all nodes of the process.
    pub index: &'a PlanIndex,
    /// Clock of the plan; `None` while the plan is in wall time and the node has no trusted clock.
    pub clock: Option<PlanClock>,
}

/// Progress through a group of contacts: those before `next` are over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    group: GroupId,
    next: u32,
    /// Whether the neighbour transmits in these contacts; this node receives one light time later.
    incoming: bool,
}

impl Cursor {
    /// Starts at the first contact.
    pub fn new(group: GroupId, incoming: bool) -> Self {
        Cursor { group, next: 0, incoming }
    }
    /// Contacts from `next` on, as windows at this node: those in which the neighbour transmits are shifted by the
    /// light time.
    fn windows<'a>(&self, plan: Placed<'a>) -> impl Iterator<Item = Window> + use<'a> {
        let incoming = self.incoming;
        let contacts = plan.index.contacts(self.group).get(self.next as usize..).unwrap_or(&[]);
        plan.clock.into_iter().flat_map(move |clock| {
            contacts.iter().map(move |edge| {
                let delay = Duration::from_nanos(edge.delay);
                let shift = if incoming { delay } else { Duration::ZERO };
                let at = |ns| clock.instant(farlink_routing::PlanTime(ns)).saturating_add(shift);
                Window { start: at(edge.start), end: at(edge.end), rate: edge.rate, delay }
            })
        })
    }
    /// Skips contacts that are over.
    fn pass(&mut self, plan: Placed<'_>, now: Instant) {
        while self.windows(plan).next().is_some_and(|window| window.end <= now) {
            self.next += 1;
        }
    }
    /// Contact in progress, if any.
    fn open(&self, plan: Placed<'_>, now: Instant) -> Option<Window> {
        self.windows(plan).take_while(|w| w.start <= now).find(|w| now < w.end)
    }
    /// Next contact to begin, if any.
    fn coming(&self, plan: Placed<'_>, now: Instant) -> Option<Window> {
        self.windows(plan).find(|w| w.start > now)
    }
    /// Next time at which a contact begins or ends.
    fn edge(&self, plan: Placed<'_>, now: Instant) -> Option<Instant> {
        // Contacts of one group may overlap, so the earliest end of all open ones counts.
        let end = self.windows(plan).take_while(|w| w.start <= now).map(|w| w.end).filter(|end| *end > now).min();
        let start = self.coming(plan, now).map(|w| w.start);
        end.into_iter().chain(start).min().filter(|at| *at < Instant::MAX)
    }
    /// Light time of the contact in progress, else of the last contact before, else of the first.
    fn delay(&self, plan: Placed<'_>, now: Instant) -> Option<Duration> {
        let contacts = plan.index.contacts(self.group);
        let last = (self.next as usize).checked_sub(1).and_then(|i| contacts.get(i));
        let open = self.open(plan, now).map(|w| w.delay);
        open.or_else(|| last.or(contacts.first()).map(|edge| Duration::from_nanos(edge.delay)))
    }
}

/// Number of bundles that a ready link takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// Any number of bundles, at the link's pace.
    Many,
    /// One bundle; then none until the layer takes the next.
    One,
    /// One bundle in each of its turns, which alternate with those of its radio's other links.
    Turns,
    /// Like `Turns`, and the link has reported waiting bundles since its last turn.
    Called,
    /// Like `Turns`, with hellos that take no bundle and no turn.
    FreeTurns,
    /// Like `FreeTurns`, and the link has reported waiting bundles since its last turn.
    FreeCalled,
}
impl Takes {
    pub fn turns(self) -> bool {
        !matches!(self, Takes::Many | Takes::One)
    }
    /// Whether hellos to the neighbour take no bundle and no turn.
    pub(super) fn has_free_hellos(self) -> bool {
        matches!(self, Takes::FreeTurns | Takes::FreeCalled)
    }
    /// Whether the link may report waiting bundles: once between two turns.
    pub fn may_call(self) -> bool {
        matches!(self, Takes::Turns | Takes::FreeTurns)
    }
    /// State after the link reported waiting bundles (`true`) or had its turn (`false`).
    pub fn called(self, called: bool) -> Takes {
        match (self.has_free_hellos(), called) {
            (false, false) => Takes::Turns,
            (false, true) => Takes::Called,
            (true, false) => Takes::FreeTurns,
            (true, true) => Takes::FreeCalled,
        }
    }
}

/// Value of [`Link`]'s MTU for unbounded links; also that of links with an MTU of 4 GiB - 1 or more, whose bundles are
/// not fragmented either.
const ANY: u32 = u32::MAX;

/// One link of the agent.
#[derive(Debug)]
pub struct Link {
    /// Number of the link.
    pub id: LinkId,
    /// Name of the link.
    pub name: Box<str>,
    /// Neighbour at the other end.
    pub peer: PeerId,
    /// Rate that applies without a contact; `None`: unknown.
    pub rate: Option<DataRate>,
    /// One-way delay that applies without a contact.
    pub one_way_delay: Duration,
    /// Settings of the link that do not depend on its layer.
    pub terms: LinkTerms,
    /// Bytes on the link per 1,000,000 bytes of bundle.
    pub wire_bytes_per_million: u32,
    /// MTU, for encoded bundles, bytes; [`ANY`]: unbounded.
    largest: u32,
    /// Whether the medium works.
    pub carrier: bool,
    /// Whether the link is enabled; operators may disable it.
    pub enabled: bool,
    /// Whether the layer has a session with the neighbour; `None` for layers without sessions.
    pub session: Option<bool>,
    /// Groups of contacts assigned to this link; empty: the contact plan does not restrict it.
    pub contacts: Vec<Cursor>,
    /// Whether the layer can take a bundle.
    pub ready: bool,
    /// Number of bundles that the layer takes when it is ready.
    pub takes: Takes,
    /// Bundles handed to the layer whose transmission it has not yet reported as confirmed or failed.
    pub in_flight: u64,
    /// Time at which all bytes handed over will have left, at the link's rate.
    pub busy_until: Instant,
    /// Whether a timer is armed that hands over more bundles once the backlog is short enough.
    pub pace_armed: bool,
    /// Timer of the next begin or end of a contact.
    pub edge_timer: Option<TimerKey>,
    /// State last reported to the layer.
    pub told: Option<LinkState>,
    /// Whether the link was up when policies were last notified.
    pub said_up: bool,
    /// Whether the neighbour counts as reachable over the link; set by `Neighbours::note`.
    pub said_met: bool,
}

impl Link {
    /// MTU, for encoded bundles, bytes; `None`: unbounded.
    pub fn largest(&self) -> Option<u64> {
        (self.largest != ANY).then_some(self.largest.into())
    }
    /// A link with a carrier and enabled; its layer has not reported that it is ready.
    pub fn new(settings: &LinkSettings, peer: PeerId) -> Self {
        Link {
            id: settings.link,
            name: settings.name.as_str().into(),
            peer,
            rate: settings.rate,
            one_way_delay: settings.one_way_delay,
            terms: settings.terms,
            // Below 1,000,000 the wire would carry fewer bytes than the bundle has.
            wire_bytes_per_million: u32::try_from(settings.wire_bytes_per_million).unwrap_or(u32::MAX).max(1_000_000),
            largest: settings.largest.map_or(ANY, |most| u32::try_from(most.bytes()).unwrap_or(ANY)),
            carrier: true,
            enabled: true,
            session: settings.sessions.then_some(false),
            contacts: Vec::new(),
            ready: false,
            takes: Takes::Many,
            in_flight: 0,
            busy_until: Instant::ZERO,
            pace_armed: false,
            edge_timer: None,
            told: None,
            said_up: false,
            said_met: false,
        }
    }
    /// Whether the contact plan restricts the link.
    pub fn is_planned(&self) -> bool {
        !self.contacts.is_empty()
    }
    fn of(&self, incoming: bool) -> impl Iterator<Item = &Cursor> {
        self.contacts.iter().filter(move |cursor| cursor.incoming == incoming)
    }
    /// Contact in progress in which this node may transmit, if any.
    pub fn contact(&self, plan: Option<Placed<'_>>, now: Instant) -> Option<Window> {
        let plan = plan?;
        self.of(false).find_map(|cursor| cursor.open(plan, now))
    }
    /// Next contact to begin in which this node may transmit, if any.
    pub fn next_contact(&self, plan: Option<Placed<'_>>, now: Instant) -> Option<Window> {
        let plan = plan?;
        self.of(false).filter_map(|cursor| cursor.coming(plan, now)).min_by_key(|w| w.start)
    }
    /// Current state of the link, for its layer.
    pub fn state(&self, plan: Option<Placed<'_>>, now: Instant) -> LinkState {
        if !self.carrier || !self.enabled {
            return LinkState::DOWN;
        }
        // A link without contacts in the plan is permanent, with its configured rate and delay.
        let Some(placed) = plan.filter(|_| self.is_planned()) else {
            return LinkState {
                transmit: true,
                receive: true,
                rate: self.rate,
                delay_out: self.one_way_delay,
                delay_in: self.one_way_delay,
            };
        };
        let out = self.contact(plan, now);
        let delay = |incoming| self.of(incoming).find_map(|cursor| cursor.delay(placed, now));
        let delay_out = delay(false).unwrap_or(self.one_way_delay);
        let back = self.of(true).any(|cursor| cursor.open(placed, now).is_some());
        LinkState {
            transmit: out.is_some(),
            // A plan without return contacts describes a simplex link: no answer comes back in time, so timers follow
            // the forward direction.
            receive: if self.of(true).next().is_none() { out.is_some() } else { back },
            rate: out.map(|w| w.rate).or(self.rate),
            delay_out,
            delay_in: delay(true).unwrap_or(delay_out),
        }
    }
    /// Whether the link has a carrier, is enabled, and has a contact in progress if the plan restricts it. Sessions do
    /// not matter here.
    pub fn is_up(&self, plan: Option<Placed<'_>>, now: Instant) -> bool {
        self.carrier && self.enabled && (!self.is_planned() || self.contact(plan, now).is_some())
    }
    /// Skips contacts that are over and returns the next time at which a contact begins or ends.
    pub(super) fn next_change(&mut self, plan: Option<Placed<'_>>, now: Instant) -> Option<Instant> {
        let plan = plan?;
        self.contacts.iter_mut().for_each(|cursor| cursor.pass(plan, now));
        self.contacts.iter().filter_map(|cursor| cursor.edge(plan, now)).min()
    }
    /// Bytes that the layer puts on the link for a bundle of this size.
    fn wire_bytes(&self, size: u64) -> u64 {
        // 128 bits, because the product of size and ratio may exceed 64.
        u64::try_from(u128::from(size) * u128::from(self.wire_bytes_per_million) / 1_000_000).unwrap_or(u64::MAX)
    }
    /// Time at which the next bundle may be handed over: once the layer's backlog is at most `ahead`.
    pub fn may_send_at(&self, ahead: Duration) -> Instant {
        Instant(self.busy_until.0.saturating_sub(u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX)))
    }
    /// Lengthens the backlog (`busy_until`) by a bundle that the layer gets now, if the link's rate is known.
    pub fn charge(&mut self, plan: Option<Placed<'_>>, now: Instant, size: u64) {
        let rate = match self.contact(plan, now) {
            Some(window) => Some(window.rate),
            // Outside its contacts a planned link has no rate.
            None if self.is_planned() => None,
            None => self.rate,
        };
        if let Some(rate) = rate {
            self.busy_until = self.busy_until.max(now) + rate.time_for(self.wire_bytes(size));
        }
    }
    /// Size, in bytes, of the longest bundle that still fits the contact in progress behind the backlog; `None` without
    /// a contact or without a planned end.
    pub fn room_in_contact(&self, plan: Option<Placed<'_>>, now: Instant) -> Option<u64> {
        let window = self.contact(plan, now)?;
        if window.end == Instant::MAX {
            return None;
        }
        // Bytes already handed over occupy the contact up to `busy_until`.
        let wire = window.rate.volume_in(window.end.since(self.busy_until.max(now)));
        Some(u64::try_from(u128::from(wire) * 1_000_000 / u128::from(self.wire_bytes_per_million)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{EndpointId, NodeId};

    fn link() -> Link {
        let settings = LinkSettings {
            link: LinkId(0),
            name: "ka".into(),
            peer: EndpointId::Null,
            rate: None,
            one_way_delay: Duration::from_millis(5),
            terms: LinkTerms::default(),
            wire_bytes_per_million: 1_100_000,
            sessions: false,
            largest: None,
        };
        Link::new(&settings, PeerId(1))
    }
    fn plan(text: &str) -> PlanIndex {
        PlanIndex::new(farlink_routing::contact_plan::parse(text).unwrap().plan)
    }
    fn placed(index: &PlanIndex) -> Option<Placed<'_>> {
        Some(Placed { index, clock: Some(PlanClock::starting(Instant::ZERO)) })
    }
    fn planned(index: &PlanIndex) -> Link {
        let (me, peer) = (NodeId::ipn(1), NodeId::ipn(2));
        let mut l = link();
        l.contacts.extend(index.groups_from(me).map(|group| Cursor::new(group, false)));
        l.contacts.extend(index.groups_from(peer).map(|group| Cursor::new(group, true)));
        l
    }
    fn s(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn planned_link_follows_its_contacts() {
        let l = link();
        assert!(l.is_up(None, Instant::ZERO) && l.state(None, Instant::ZERO).rate.is_none());
        // Between the two contacts the link must be down: the windows are [10, 20) s and [30, 40) s.
        let index =
            plan("contact 1 2 +10..+20 rate 8800 bit/s delay 1 s\ncontact 1 2 +30..+40 rate 8800 bit/s delay 1 s");
        let (mut l, plan) = (planned(&index), placed(&index));
        for (at, up) in [(0, false), (10, true), (19, true), (20, false), (30, true), (40, false)] {
            assert_eq!(l.is_up(plan, s(at)), up, "at {at} s");
        }
        assert_eq!(l.next_change(plan, s(10)), Some(s(20)));
        assert_eq!(l.next_contact(plan, s(10)).map(|w| w.start), Some(s(30)));
        assert_eq!(l.next_change(plan, s(20)), Some(s(30)));
        assert_eq!(l.contacts[0].next, 1, "what is over is not looked at again");
        assert_eq!(l.next_change(plan, s(40)), None);
        l.carrier = false;
        assert_eq!(l.state(plan, s(10)), LinkState::DOWN);
        assert!(!l.is_up(Some(Placed { index: &index, clock: None }), s(30)), "no clock, no contact");
    }

    #[test]
    fn reception_starts_one_owlt_later() {
        // Both contacts begin at 0 s, but reception lags by 4 s.
        let index = plan("contact 1 2 +0..+10 rate 1 kB/s delay 4 s\ncontact 2 1 +0..+10 rate 1 kB/s delay 4 s");
        let (mut l, plan) = (planned(&index), placed(&index));
        let receive = |l: &Link, at| l.state(plan, s(at)).receive;
        assert!(!receive(&l, 3) && receive(&l, 4) && receive(&l, 13) && !receive(&l, 14));
        assert_eq!(l.next_change(plan, s(0)), Some(s(4)));
        assert_eq!(l.next_change(plan, s(10)), Some(s(14)));
        assert_eq!(l.state(plan, s(20)).delay_in, Duration::from_secs(4), "known also between contacts");
    }

    #[test]
    fn room_shrinks_by_sent_bytes() {
        let index = plan("contact 1 2 +0..+10 rate 8800 bit/s");
        let (mut l, plan) = (planned(&index), placed(&index));
        // 8,800 bit/s for 10 s is 11,000 bytes on the link, 10,000 bytes of bundle.
        assert_eq!(l.room_in_contact(plan, Instant::ZERO), Some(10_000));
        l.charge(plan, Instant::ZERO, 4_000);
        assert_eq!(l.room_in_contact(plan, Instant::ZERO), Some(6_000));
        assert_eq!(l.may_send_at(farlink_base::AgentSettings::default().hand_over_ahead), Instant(3_980_000_000));
        assert_eq!(l.may_send_at(Duration::from_millis(100)), Instant(3_900_000_000));
        assert_eq!(l.may_send_at(Duration::MAX), Instant::ZERO);
    }
}
