//! Reports about bundles: status reports (RFC 9171 5.1, 6.1), and many in one (CCSDS 734.6-O-1).

mod compressed;
mod compressed_out;
mod status_reports;

use crate::settings::CompressedSettings;
use alloc::boxed::Box;
use alloc::vec::Vec;
use compressed::{Compressed, ReportItem};
use core::time::Duration;
use farlink_base::{EndpointId, Instant};

/// Rate limit of reports, and those gathered for compression.
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
    /// Time at which the next compressed report is due.
    pub fn next(&self) -> Option<Instant> {
        self.compressed.as_ref()?.next()
    }
    /// Takes a receiver whose reports are due, with their lines and the number of bundles they are about.
    pub fn pop(&mut self, now: Instant) -> Option<(EndpointId, Vec<ReportItem>, u64)> {
        self.compressed.as_mut()?.pop(now)
    }
    fn allow(&mut self, now: Instant) -> bool {
        if now.since(self.second) >= Duration::from_secs(1) {
            (self.second, self.made) = (now, 0);
        }
        self.made = self.made.saturating_add(1);
        self.made <= self.per_second
    }
}
