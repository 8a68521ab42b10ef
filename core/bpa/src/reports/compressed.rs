//! Compressed reporting (CCSDS 734.6-O-1): events of bundles with a compressed reporting block are reported by the
//! bundles' numbers, many in one signal. Reports are gathered until their time has come or there are enough.
//!
//! Numbers of bundles made here start from the time of the first request, or at random without a clock, so that a
//! restart reuses none.

use crate::edge::{Item, Numbers};
use crate::settings::CompressedSettings;
use crate::state::ranges::Ranges;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{EndpointId, Instant};

/// Most receivers with gathered reports; beyond that the one that has waited longest gets its reports at once.
const RECEIVERS_MAX: usize = 1024;
/// Most reports gathered for all receivers together; beyond that, too, the one that has waited longest gets its reports
/// at once.
const TOTAL_MAX: u64 = 1 << 16;
/// Approximate length of one signal, bytes; also the bound on the length of all names gathered for one receiver.
const BYTES_MAX: u64 = 32 << 10;
/// Most bytes of a range of numbers in a signal. The other fields of its line take at most [`ITEM_BYTES`], without
/// names.
const RUN_BYTES: u64 = 18;
const ITEM_BYTES: u64 = 40;

#[derive(Debug)]
struct PendingReports {
    items: BTreeMap<Item, Ranges>,
    bundles: u64,
    names: u64,
    due: Instant,
}

/// Gathered reports of all receivers.
#[derive(Debug)]
pub(super) struct Compressed {
    pub settings: CompressedSettings,
    gathered: BTreeMap<EndpointId, PendingReports>,
    by_due: BTreeSet<(Instant, EndpointId)>,
    /// Number of reports gathered for all receivers.
    total: u64,
    /// Number of the next bundle made here that requests compressed reports.
    pub(super) next: Option<u64>,
}

impl Compressed {
    pub fn new(settings: CompressedSettings) -> Self {
        Compressed { settings, gathered: BTreeMap::new(), by_due: BTreeSet::new(), total: 0, next: None }
    }
    /// Adds the event of one bundle to a receiver's gathered reports. The event is dropped if too many reports wait for
    /// the rate limit.
    pub(super) fn gather(&mut self, now: Instant, to: EndpointId, item: Item, number: u64) {
        let full = match self.gathered.get(&to) {
            Some(gathered) => gathered.names >= BYTES_MAX && !gathered.items.contains_key(&item),
            None => self.gathered.len() > RECEIVERS_MAX,
        };
        if full || self.total > TOTAL_MAX {
            return;
        }
        let due = now + self.settings.delay;
        let gathered = self.gathered.entry(to.clone()).or_insert_with(|| {
            self.by_due.insert((due, to.clone()));
            PendingReports { items: BTreeMap::new(), bundles: 0, names: 0, due }
        });
        // Names are chosen by the senders of bundles, so their length counts, too.
        let names = item.destination.name_bytes() + item.source.name_bytes();
        let ranges = gathered.items.entry(item).or_insert_with(|| {
            gathered.names += names;
            Ranges::default()
        });
        ranges.insert(number..number.saturating_add(1));
        gathered.bundles += 1;
        self.total += 1;
        if gathered.bundles >= self.settings.bundles || gathered.names >= BYTES_MAX {
            self.hurry(now, &to);
        } else if self.gathered.len() > RECEIVERS_MAX || self.total > TOTAL_MAX {
            if let Some((_, first)) = self.by_due.first().cloned() {
                self.hurry(now, &first);
            }
        }
    }
    fn hurry(&mut self, now: Instant, to: &EndpointId) {
        let Some(gathered) = self.gathered.get_mut(to) else { return };
        let due = gathered.due.min(now);
        let before = core::mem::replace(&mut gathered.due, due);
        self.by_due.remove(&(before, to.clone()));
        self.by_due.insert((due, to.clone()));
    }
    /// Time at which the next signal is due.
    pub fn next(&self) -> Option<Instant> {
        self.by_due.first().map(|(at, _)| *at)
    }
    /// Takes a receiver whose reports are due, with their lines and the number of bundles they are about.
    pub fn pop(&mut self, now: Instant) -> Option<(EndpointId, Vec<ReportItem>, u64)> {
        let (_, to) = self.by_due.first().filter(|(at, _)| *at <= now)?.clone();
        self.by_due.pop_first();
        let gathered = self.gathered.remove(&to)?;
        self.total = self.total.saturating_sub(gathered.bundles);
        Some((to, gathered.items.into_iter().collect(), gathered.bundles))
    }
}
/// One line of a report, with the numbers of all bundles it is about.
pub(super) type ReportItem = (Item, Ranges);

/// Splits the lines of a report into as many signals as needed.
pub(super) fn signals(items: &[ReportItem]) -> Vec<Vec<(Item, Numbers)>> {
    let (mut all, mut bytes) = (Vec::from([Vec::new()]), 0);
    for (item, ranges) in items {
        let names = item.destination.name_bytes() + item.source.name_bytes();
        bytes += ITEM_BYTES + names;
        for (first, end) in ranges.all() {
            bytes += RUN_BYTES;
            if bytes > BYTES_MAX {
                all.push(Vec::new());
                bytes = ITEM_BYTES + names + RUN_BYTES;
            }
            let (sequence, destination) = (item.sequence, item.destination.clone());
            let numbers = Numbers { sequence, destination, first, last: end - 1 };
            if let Some(signal) = all.last_mut() {
                signal.push((item.clone(), numbers));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::Fate;
    use core::time::Duration;

    fn item(fate: Fate, source: u64) -> Item {
        Item { fate, sequence: 1, destination: EndpointId::Null, source: EndpointId::ipn(source, 1) }
    }
    fn compressed(bundles: u64) -> Compressed {
        let settings = CompressedSettings { bundles, delay: Duration::from_secs(5), ..CompressedSettings::default() };
        Compressed::new(settings)
    }
    const LATER: Instant = Instant(5_000_000_000);

    #[test]
    fn items_gather_until_due_or_full() {
        // Repeated and adjacent numbers merge into ranges.
        let to = EndpointId::ipn(9, 0);
        let mut few = compressed(1000);
        for number in [3, 1, 2, 2, 7] {
            few.gather(Instant::ZERO, to.clone(), item(Fate::Received, 1), number);
        }
        few.gather(Instant::ZERO, to.clone(), item(Fate::Delivered, 1), u64::MAX);
        assert_eq!((few.next(), few.pop(Instant::ZERO)), (Some(LATER), None));
        let (whom, items, bundles) = few.pop(LATER).unwrap();
        assert_eq!((whom, items.len(), bundles), (to.clone(), 2, 6));
        assert_eq!(items[0].1.all().collect::<Vec<_>>(), [(1, 4), (7, 8)]);
        assert_eq!((few.next(), few.total), (None, 0));
        let mut many = compressed(3);
        (0..3).for_each(|number| many.gather(Instant::ZERO, to.clone(), item(Fate::Received, 1), number));
        assert_eq!(many.pop(Instant::ZERO).map(|(.., bundles)| bundles), Some(3), "at once");
    }

    #[test]
    fn gathered_items_are_bounded() {
        // Senders of bundles choose the receivers, the sources and the numbers.
        let mut all = compressed(u64::MAX);
        let mut told = 0;
        for n in 0..200_000 {
            all.gather(Instant::ZERO, EndpointId::ipn(n % 3000, 0), item(Fate::Received, n), n * 2);
            while let Some((.., bundles)) = all.pop(Instant::ZERO) {
                told += bundles;
            }
            assert!(all.gathered.len() <= RECEIVERS_MAX && all.total <= TOTAL_MAX, "{} of {}", all.total, n);
        }
        while let Some((.., bundles)) = all.pop(LATER) {
            told += bundles;
        }
        assert_eq!((told, all.by_due.len(), all.total), (200_000, 0, 0), "and nothing is forgotten");
    }

    #[test]
    fn unsent_items_are_bounded() {
        // The rate limit lets nothing leave.
        let mut all = compressed(100);
        for n in 0..100_000 {
            let name = EndpointId::dtn(&"x".repeat(900), &alloc::format!("{n}"));
            let item = Item { source: name, ..item(Fate::Received, 1) };
            all.gather(Instant::ZERO, EndpointId::ipn(n % 5000 / (1 + n % 7), 0), item, n * 2);
        }
        assert!(all.gathered.len() <= RECEIVERS_MAX + 1 && all.total <= TOTAL_MAX + 1, "{}", all.total);
        assert!(all.gathered.values().all(|gathered| gathered.names <= BYTES_MAX + 2000));
    }

    #[test]
    fn signal_is_short_and_unrepeated() {
        // Even numbers only: no two of them merge, which is the worst case for the length.
        let mut ranges = Ranges::default();
        (0..10_000).for_each(|n| ranges.insert(2 * n..2 * n + 1));
        let name = EndpointId::dtn(&"x".repeat(500), "in");
        let long = Item { source: name, ..item(Fate::Deleted, 1) };
        let items = [(item(Fate::Received, 1), ranges.clone()), (long, ranges)];
        let signals = signals(&items);
        assert!(signals.len() > 10 && signals.iter().all(|signal| signal.len() as u64 * RUN_BYTES <= BYTES_MAX));
        let count: usize = signals.iter().map(Vec::len).sum();
        assert_eq!(count, 20_000, "{} signals", signals.len());
    }
}
