//! Bundles inside bundles (draft-ietf-dtn-bibect): the state of inner and outer bundles, and gathered answers to
//! senders.
//!
//! To the rest of the agent a tunnel is a transmission over [`LinkId::TUNNEL`]:
//! [`RetentionConstraint::Send`](farlink_book::RetentionConstraint) holds the inner bundle until the outer one has
//! left, or, with custody, until the far end acknowledges it. The outer bundle is never written to disk, because its
//! payload is there already as the inner bundle.

mod incoming;
mod outgoing;
mod repeats;
mod signals_in;

use crate::app::DeliveryId;
use crate::edge::{Answer, Numbers};
use crate::settings::TunnelSettings;
use crate::state::ranges::Ranges;
use crate::tunnel::repeats::Repeats;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;
use farlink_base::layer::SendId;
use farlink_base::{EndpointId, Instant, NodeId, PeerId, Priority, Rng};
use farlink_book::{Handle, Held};

/// Most transmissions of one bundle to which a signal may refer: the latest ones.
const GIVEN_MAX: usize = 4;
/// Most groups of gathered answers; beyond that the one that has waited longest leaves at once.
const TOLD_MAX: usize = 1024;
/// Payload bytes on their way into one tunnel, all in memory, at which it takes no further bundle for now.
const BYTES_MAX: u64 = 64 << 20;

/// Greatest nesting depth: a bundle nested deeper enters no tunnel and is not extracted.
const DEPTH_MAX: usize = 4;

/// A received signal that is being applied.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ReceivedTunnelSignal {
    pub source: NodeId,
    pub rule: usize,
    pub answer: Answer,
    /// Ranges of transmission numbers, applied from the end of the list.
    pub runs: Vec<Numbers>,
}

/// A bundle on its way into a tunnel, or sent through a tunnel and not yet acknowledged.
#[derive(Debug)]
pub(crate) struct Inner {
    pub bundle: Handle,
    /// Index of the tunnel.
    pub rule: usize,
    /// The bundle's current transmission, if any.
    pub send: Option<SendId>,
    /// The outer bundle while it is held.
    pub outer: Option<Handle>,
    /// Whether the outer bundle of the current transmission was made.
    pub made: bool,
    /// Length of the bundle's payload.
    bytes: u64,
    /// Numbers of the bundle's latest transmissions, if signals are wanted.
    given: Vec<u64>,
}

/// An inner bundle that is being extracted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Opened {
    /// Index of the tunnel.
    pub rule: usize,
    /// Receiver of the answer.
    pub to: EndpointId,
    /// Number that the sender gave to the transmission; 0: no signal is wanted.
    pub number: u64,
}

/// Fields that answers about many transmissions share, so that one signal can carry them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TunnelSignalGroup {
    pub rule: usize,
    pub to: EndpointId,
    pub answer: Answer,
}
#[derive(Debug)]
struct TunnelAnswers {
    numbers: Ranges,
    count: u64,
    due: Instant,
}

/// Work that has become due.
#[derive(Debug, PartialEq)]
pub(crate) enum Due {
    /// No signal came about the bundle of this number: send it again.
    Repeat(u64),
    /// Send a gathered answer.
    Send(TunnelSignalGroup, Ranges),
}

/// Relation of a departed bundle to tunnels, and the entries that the caller must end.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// Nothing: no tunnel knows the bundle.
    Nothing,
    /// The bundle was the outer one of the bundle with this number.
    Outer(u64),
    /// The bundle was an inner one. Contains its outer bundle, if held, and its transmission, if the caller must end
    /// it.
    Inner(Option<Handle>, Option<SendId>),
}

/// One tunnel with its load.
#[derive(Debug)]
struct Tunnel {
    settings: TunnelSettings,
    /// Number of bundles on their way into the tunnel, and their payload bytes.
    bundles: u64,
    bytes: u64,
    /// Bundles that wait for room in the tunnel, the next one first.
    line: BTreeSet<(Reverse<Priority>, u64, Handle)>,
}

/// All tunnels of one node.
#[derive(Debug)]
pub(crate) struct Tunnels {
    tunnels: Vec<Tunnel>,
    inner: BTreeMap<u64, Inner>,
    /// By the outer bundle's number: number of the inner bundle, index of the tunnel, payload bytes of the inner
    /// bundle, size of the outer one.
    outer: BTreeMap<u64, (u64, usize, u64, u64)>,
    /// Total size of the outer bundles.
    bytes: u64,
    /// Number of the bundle of each remembered transmission.
    given: BTreeMap<u64, u64>,
    first: u64,
    next: u64,
    repeats: Repeats,
    gathered: BTreeMap<TunnelSignalGroup, TunnelAnswers>,
    by_due: BTreeSet<(Instant, TunnelSignalGroup)>,
    opened: BTreeMap<DeliveryId, Opened>,
    /// Numbers of records from far ends that carry neither a bundle nor a signal.
    plain: BTreeSet<u64>,
}

impl Tunnels {
    /// Tunnels with these settings. Transmission numbers begin at random, so that a forged signal matches none; they
    /// begin below 2^31, since ION stores 32 bits.
    pub fn new(settings: Vec<TunnelSettings>, rng: &mut Rng) -> Self {
        let first = (rng.next_u64() >> 33).max(1);
        let tunnel = |settings| Tunnel { settings, bundles: 0, bytes: 0, line: BTreeSet::new() };
        Tunnels {
            tunnels: settings.into_iter().map(tunnel).collect(),
            inner: BTreeMap::new(),
            outer: BTreeMap::new(),
            bytes: 0,
            given: BTreeMap::new(),
            first,
            next: first,
            repeats: Repeats::default(),
            gathered: BTreeMap::new(),
            by_due: BTreeSet::new(),
            opened: BTreeMap::new(),
            plain: BTreeSet::new(),
        }
    }
    fn settings(&self, rule: usize) -> Option<&TunnelSettings> {
        self.tunnels.get(rule).map(|tunnel| &tunnel.settings)
    }
    fn all(&self) -> impl Iterator<Item = (usize, &TunnelSettings)> {
        self.tunnels.iter().map(|tunnel| &tunnel.settings).enumerate()
    }
    /// Index of the tunnel with this far end.
    fn with_end(&self, node: NodeId) -> Option<usize> {
        self.all().find(|(_, tunnel)| tunnel.end.node() == node).map(|(rule, _)| rule)
    }
    /// Whether a bundle carries another one into a tunnel.
    fn is_outer(&self, number: u64) -> bool {
        self.outer.contains_key(&number)
    }
    /// Number of outer bundles, and their total size.
    pub fn around(&self) -> (u64, u64) {
        (self.outer.len() as u64, self.bytes)
    }
    fn get(&self, number: u64) -> Option<&Inner> {
        self.inner.get(&number)
    }
    fn get_mut(&mut self, number: u64) -> Option<&mut Inner> {
        self.inner.get_mut(&number)
    }
    /// Whether a tunnel takes no more bundles for now; if so, this bundle joins the line for it.
    fn is_full(&mut self, rule: usize, held: &Held) -> bool {
        let Some(tunnel) = self.tunnels.get_mut(rule) else { return false };
        // At least one bundle may enter, even if the setting is 0.
        let under_way = tunnel.bundles >= tunnel.settings.bundles.max(1) || tunnel.bytes >= BYTES_MAX;
        if under_way {
            tunnel.line.insert((Reverse(held.bundle.priority), held.number, held.handle()));
        }
        under_way
    }
    /// Notes a bundle that enters a tunnel.
    fn enter(&mut self, held: &Held, rule: usize, send: SendId) {
        let bytes = held.bundle.payload.len();
        if let Some(tunnel) = self.tunnels.get_mut(rule) {
            tunnel.bundles += 1;
            tunnel.bytes = tunnel.bytes.saturating_add(bytes);
        }
        let (bundle, given) = (held.handle(), Vec::new());
        let entry = Inner { bundle, rule, send: None, outer: None, made: false, bytes, given };
        let inner = self.inner.entry(held.number).or_insert(entry);
        (inner.rule, inner.send, inner.outer, inner.made) = (rule, Some(send), None, false);
    }
    /// Assigns a number to the next transmission of a bundle.
    fn give(&mut self, number: u64) -> u64 {
        let given = self.next;
        self.next += 1;
        if let Some(inner) = self.inner.get_mut(&number) {
            // Only the latest transmissions are remembered; a late signal about an older one has no effect.
            if inner.given.len() >= GIVEN_MAX {
                self.given.remove(&inner.given.remove(0));
            }
            inner.given.push(given);
            self.given.insert(given, number);
        }
        given
    }
    /// Records the outer bundle made for the inner bundle `number`.
    fn wrapped(&mut self, number: u64, outer: &Held) {
        let Some(inner) = self.inner.get_mut(&number) else { return };
        (inner.outer, inner.made) = (Some(outer.handle()), true);
        let size = outer.size();
        self.bytes += size;
        self.outer.insert(outer.number, (number, inner.rule, inner.bytes, size));
    }
    /// Forgets earlier transmissions of a bundle that came back over another path: answers about them no longer prove
    /// that another node has it.
    fn came_back(&mut self, number: u64) {
        let Some(inner) = self.inner.get_mut(&number) else { return };
        // The bundle's list of numbers and the table by number must agree.
        for given in inner.given.drain(..) {
            self.given.remove(&given);
        }
    }
    /// Ends a bundle's transmission. A bundle whose outer one was made leaves the tunnel's load only when the outer
    /// bundle departs.
    fn leave(&mut self, number: u64) {
        self.repeats.stop(number);
        let Some(inner) = self.inner.get_mut(&number) else { return };
        // Without an outer bundle nothing else would subtract the bundle from the tunnel's load.
        if inner.send.take().is_some() && !inner.made {
            let (rule, bytes) = (inner.rule, inner.bytes);
            self.out(rule, bytes);
        } else {
            inner.made = false;
        }
    }
    /// Subtracts a bundle from a tunnel's load.
    fn out(&mut self, rule: usize, bytes: u64) {
        if let Some(tunnel) = self.tunnels.get_mut(rule) {
            tunnel.bundles = tunnel.bundles.saturating_sub(1);
            tunnel.bytes = tunnel.bytes.saturating_sub(bytes);
        }
    }
    /// Far end of the tunnel that a bundle waits for.
    fn in_line(&self, held: &Held) -> Option<&EndpointId> {
        let place = (Reverse(held.bundle.priority), held.number, held.handle());
        self.tunnels.iter().find(|tunnel| tunnel.line.contains(&place)).map(|tunnel| &tunnel.settings.end)
    }
    /// Next waiting bundle of a tunnel with room.
    fn next_in_line(&mut self) -> Option<Handle> {
        let free = |tunnel: &&mut Tunnel| tunnel.bundles < tunnel.settings.bundles.max(1) && tunnel.bytes < BYTES_MAX;
        let tunnel = self.tunnels.iter_mut().filter(|tunnel| !tunnel.line.is_empty()).find(free)?;
        tunnel.line.pop_first().map(|(_, _, bundle)| bundle)
    }
    /// Removes a bundle that is no longer held.
    fn forget(&mut self, held: &Held) -> End {
        let number = held.number;
        self.plain.remove(&number);
        if let Some((inside, rule, bytes, size)) = self.outer.remove(&number) {
            self.bytes -= size;
            self.out(rule, bytes);
            // The inner bundle may have a newer outer bundle by now; then this end means nothing for it.
            let its = |inner: &&mut Inner| inner.outer == Some(held.handle());
            let Some(inner) = self.inner.get_mut(&inside).filter(its) else { return End::Nothing };
            inner.outer = None;
            return End::Outer(inside);
        }
        for tunnel in &mut self.tunnels {
            tunnel.line.remove(&(Reverse(held.bundle.priority), number, held.handle()));
        }
        let Some(inner) = self.inner.remove(&number) else { return End::Nothing };
        self.repeats.stop(number);
        for given in &inner.given {
            self.given.remove(given);
        }
        if inner.send.is_some() && !inner.made {
            self.out(inner.rule, inner.bytes);
        }
        End::Inner(inner.outer, inner.send.filter(|_| inner.made))
    }

    /// Schedules the time at which a bundle is sent again unless a signal comes.
    fn repeat_at(&mut self, number: u64, at: Instant) {
        self.repeats.at(number, at);
    }
    /// Time of a bundle's repetition.
    fn due_of(&self, number: u64) -> Option<Instant> {
        self.repeats.due(number)
    }
    /// Time to wait for a signal after this many failures.
    fn patience(&self, rule: usize, failures: u8) -> Duration {
        let Some(settings) = self.settings(rule) else { return Duration::MAX };
        // 20 doublings are a millionfold timeout; the cap keeps the shift within 32 bits.
        let doubled = settings.timeout.saturating_mul(1 << u32::from(failures.min(20)));
        doubled.min(settings.timeout_max.max(settings.timeout))
    }
    /// Whether all these numbers were assigned.
    fn gave(&self, first: u64, last: u64) -> bool {
        self.first <= first && first <= last && last < self.next
    }
    /// First remembered transmission in this range of numbers, and the number of its bundle.
    fn first_given(&self, first: u64, last: u64) -> Option<(u64, u64)> {
        self.given.range(first..=last.max(first)).next().map(|(given, number)| (*given, *number))
    }

    /// Notes an inner bundle that is being extracted.
    fn open(&mut self, delivery: DeliveryId, opened: Opened) {
        self.opened.insert(delivery, opened);
    }
    /// Index of the tunnel that a bundle being extracted came through.
    fn place_of(&self, delivery: DeliveryId) -> Option<usize> {
        self.opened.get(&delivery).map(|opened| opened.rule)
    }
    /// Far end of the tunnel that a previous node stands for.
    fn far_end(&self, from: PeerId) -> Option<&EndpointId> {
        // `PeerId::tunnel` counts down from the largest number, away from those of neighbours.
        let place = usize::try_from(u32::MAX - from.0).ok()?;
        self.tunnels.get(place).map(|tunnel| &tunnel.settings.end)
    }
    /// Ends an extraction, successful or not; returns its state.
    fn close(&mut self, delivery: DeliveryId) -> Option<Opened> {
        self.opened.remove(&delivery)
    }
    /// Whether a record of a far end was found to carry neither a bundle nor a signal.
    fn is_plain(&self, number: u64) -> bool {
        self.plain.contains(&number)
    }
    /// Notes that a record carries neither a bundle nor a signal.
    fn note_plain(&mut self, number: u64) {
        self.plain.insert(number);
    }

    /// Adds a transmission's number to the gathered answer of `group`, which is sent after the tunnel's `signal_delay`
    /// or once it has `signal_bundles` numbers.
    fn gather(&mut self, now: Instant, group: TunnelSignalGroup, number: u64) {
        let Some(settings) = self.settings(group.rule) else { return };
        let (due, most) = (now + settings.signal_delay, settings.signal_bundles);
        let gathered = self.gathered.entry(group.clone()).or_insert_with(|| {
            self.by_due.insert((due, group.clone()));
            TunnelAnswers { numbers: Ranges::default(), count: 0, due }
        });
        gathered.numbers.insert(number..number.saturating_add(1));
        gathered.count += 1;
        // The number of groups is bounded, and a signal with enough numbers need not wait for its time.
        if gathered.count >= most || self.gathered.len() > TOLD_MAX {
            self.hurry(now, if self.gathered.len() > TOLD_MAX { None } else { Some(group) });
        }
    }
    /// Makes this answer due at once, or, with `None`, the one that has waited longest.
    fn hurry(&mut self, now: Instant, group: Option<TunnelSignalGroup>) {
        let Some(group) = group.or_else(|| self.by_due.first().map(|(_, group)| group.clone())) else { return };
        let Some(gathered) = self.gathered.get_mut(&group) else { return };
        let before = core::mem::replace(&mut gathered.due, now);
        self.by_due.remove(&(before, group.clone()));
        self.by_due.insert((now, group));
    }

    /// Time at which the next answer or repetition is due.
    pub fn next(&self) -> Option<Instant> {
        Instant::earliest([self.repeats.next(), self.by_due.first().map(|(at, _)| *at)])
    }
    pub fn pop(&mut self, now: Instant) -> Option<Due> {
        // Answers go first: they release bundles at the far end.
        if self.by_due.first().is_some_and(|(at, _)| *at <= now) {
            let (_, group) = self.by_due.pop_first()?;
            let numbers = self.gathered.remove(&group).map(|gathered| gathered.numbers).unwrap_or_default();
            return Some(Due::Send(group, numbers));
        }
        self.repeats.pop(now).map(Due::Repeat)
    }

    /// Checks the tables against each other.
    ///
    /// # Panics
    /// If the tables do not agree.
    #[cfg(feature = "audit")]
    pub fn audit(&self, book: &farlink_book::Book) {
        let held = |bundle: Handle, number: u64| book.get(bundle).is_some_and(|held| held.number == number);
        for (number, inner) in &self.inner {
            assert!(held(inner.bundle, *number), "bundle {number} in a tunnel is held");
            assert!(inner.outer.is_none_or(|outer| book.get(outer).is_some()), "what is around {number} is held");
            assert!(inner.given.len() <= GIVEN_MAX && inner.given.iter().all(|given| self.given.contains_key(given)));
        }
        let left = |inner: &Inner| inner.send.is_some() && inner.made && inner.outer.is_none();
        let awaited = |number: &u64| self.inner.get(number).is_some_and(left);
        assert!(self.repeats.numbers().all(|number| awaited(&number)), "a signal is waited for about what has left");
        let bytes: u64 = self.outer.values().map(|(_, _, _, size)| size).sum();
        assert_eq!(self.bytes, bytes, "bytes around others");
        assert!(self.given.values().all(|number| self.inner.contains_key(number)), "transmissions of held bundles");
        assert_eq!(self.by_due.len(), self.gathered.len(), "everything gathered is told once");
        for (rule, tunnel) in self.tunnels.iter().enumerate() {
            let unmade = self.inner.values().filter(|inner| inner.rule == rule && inner.send.is_some() && !inner.made);
            let outer = self.outer.values().filter(|outer| outer.1 == rule).map(|outer| outer.2);
            let bytes: Vec<u64> = unmade.map(|inner| inner.bytes).chain(outer).collect();
            let expected = (bytes.len() as u64, bytes.iter().sum::<u64>());
            assert_eq!((tunnel.bundles, tunnel.bytes), expected, "on their way into tunnel {rule}");
            assert!(tunnel.line.iter().all(|(_, number, bundle)| held(*bundle, *number)), "who waits is held");
        }
    }
}

/// Numbers of transmissions as ranges.
pub(crate) fn runs_of(numbers: &Ranges) -> Vec<Numbers> {
    let run = |(first, end): (u64, u64)| Numbers { sequence: 0, destination: EndpointId::Null, first, last: end - 1 };
    numbers.all().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departed_plain_record_is_forgotten() {
        let (book, handles) = crate::testing::book_with(&[Priority::Normal]);
        let held = book.get(handles[0]).unwrap();
        let mut tunnels = Tunnels::new(Vec::new(), &mut Rng::new(1));
        tunnels.note_plain(held.number);
        assert!(tunnels.is_plain(held.number));
        assert_eq!(tunnels.forget(held), End::Nothing);
        assert!(!tunnels.is_plain(held.number));
    }
}
