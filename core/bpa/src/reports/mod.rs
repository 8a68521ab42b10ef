//! Reports about bundles: status reports (RFC 9171 5.1, 6.1), and compressed reports, each about many bundles (CCSDS
//! 734.6-O-1).

mod compressed;
mod compressed_out;
mod status_reports;

use crate::settings::CompressedSettings;
use alloc::boxed::Box;
use alloc::vec::Vec;
use compressed::{Compressed, ReportItem};
use core::time::Duration;
use farlink_base::{EndpointId, Instant};

/// Interval of the rate limit.
const SECOND: Duration = Duration::from_secs(1);

/// Rate limit of all reports, and the events gathered for compressed reports.
#[derive(Debug)]
pub(crate) struct Reports {
    per_second: u32,
    second: Instant,
    made: u32,
    compressed: Option<Box<Compressed>>,
}

impl Reports {
    /// Limits reports to `per_second`, compressed ones included. `compressed`: settings of compressed reports, if they
    /// are configured.
    pub fn new(per_second: u32, compressed: Option<CompressedSettings>) -> Self {
        let compressed = compressed.map(|settings| Box::new(Compressed::new(settings)));
        Reports { per_second, second: Instant::ZERO, made: 0, compressed }
    }
    /// Whether compressed reports are configured.
    pub fn compresses(&self) -> bool {
        self.compressed.is_some()
    }
    /// Time at which the next compressed report is due and the rate limit permits it.
    pub fn next(&self) -> Option<Instant> {
        let due = self.compressed.as_ref()?.next()?;
        let permitted = if self.made < self.per_second { Instant::ZERO } else { self.second + SECOND };
        Some(due.max(permitted)).filter(|_| self.per_second > 0)
    }
    /// Takes a receiver whose reports are due, with their lines and the number of bundles they are about. Reports
    /// beyond the rate limit stay gathered.
    pub fn pop(&mut self, now: Instant) -> Option<(EndpointId, Vec<ReportItem>, u64)> {
        self.next().filter(|at| *at <= now)?;
        let _permitted = self.allow(now);
        self.compressed.as_mut()?.pop(now)
    }
    /// Counts one report; false if it is beyond the rate limit.
    fn allow(&mut self, now: Instant) -> bool {
        if now.since(self.second) >= SECOND {
            (self.second, self.made) = (now, 0);
        }
        self.made = self.made.saturating_add(1);
        self.made <= self.per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::{Fate, Item};

    fn gather(reports: &mut Reports, now: Instant, to: u64) {
        let item = Item { fate: Fate::Received, sequence: 1, destination: EndpointId::Null, source: EndpointId::Null };
        reports.compressed.as_mut().unwrap().gather(now, EndpointId::ipn(to, 0), item, 1);
    }

    #[test]
    fn reports_beyond_limit_stay_gathered() {
        let settings = CompressedSettings { bundles: 1, ..CompressedSettings::default() };
        let mut reports = Reports::new(1, Some(settings));
        let (now, later) = (Instant(5_000_000_000), Instant(6_000_000_000));
        [1, 2].iter().for_each(|to| gather(&mut reports, now, *to));
        assert_eq!(reports.pop(now).map(|(to, ..)| to), Some(EndpointId::ipn(1, 0)));
        assert_eq!((reports.pop(now), reports.next()), (None, Some(later)));
        assert_eq!(reports.pop(later).map(|(to, ..)| to), Some(EndpointId::ipn(2, 0)));
        assert_eq!(reports.next(), None);
    }

    #[test]
    fn late_receiver_keeps_its_turn() {
        let settings = CompressedSettings { bundles: 1, ..CompressedSettings::default() };
        let mut reports = Reports::new(1, Some(settings));
        let at = |ms: u64| Instant(5_000_000_000 + ms * 1_000_000);
        gather(&mut reports, at(0), 9);
        assert!(reports.pop(at(0)).is_some());
        gather(&mut reports, at(1), 1);
        gather(&mut reports, at(2), 2);
        gather(&mut reports, at(3), 1);
        assert_eq!(reports.pop(at(1000)).map(|(to, ..)| to), Some(EndpointId::ipn(1, 0)), "waited longest");
    }

    #[test]
    fn busy_receiver_is_not_starved() {
        let settings = CompressedSettings { bundles: 1, ..CompressedSettings::default() };
        let mut reports = Reports::new(1, Some(settings));
        let mut popped = [0; 4];
        for ms in 0..600_000u64 {
            let now = Instant(5_000_000_000 + ms * 1_000_000);
            if ms % 100 == 0 {
                gather(&mut reports, now, 1);
            }
            if ms % 1500 == 17 {
                gather(&mut reports, now, 2);
            }
            if ms % 1500 == 767 {
                gather(&mut reports, now, 3);
            }
            while let Some((to, ..)) = reports.pop(now) {
                popped[(1..4).position(|n| to == EndpointId::ipn(n as u64, 0)).unwrap() + 1] += 1;
            }
        }
        assert!(popped[1] > 100, "{popped:?}");
    }
}
