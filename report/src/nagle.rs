//! Finder of Nagle's algorithm (RFC 896): a sender that holds small segments until all earlier data is acknowledged.
//!
//! Two facts show it. A share of the round trips is longer than the others by a delayed acknowledgment, 40 to 200 ms;
//! and on the wire, small segments leave their host just when an acknowledgment comes that carries nothing else.

use crate::format::Quantity;
use crate::manifest::RunWorld;
use crate::pcapng::{FrameSide, PcapngReader};
use crate::round_trip::RoundTrip;
use crate::run::RunReader;
use crate::segments::{ReadSegment, SegmentSeen};
use crate::statistics::percentile;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

// Least number of round trips; a run with fewer gets no verdict.
const ROUND_TRIPS_LEAST: usize = 20;
// Least share of the round trips in the second cluster. In the measurements of DTN-COMET it was a third.
const SHARE: f64 = 0.2;
// Least share of the round trips in the first cluster; fewer are taken for outliers. The limit does not apply if a
// capture shows held segments: an application that writes each message in two pieces has nearly all of its round trips
// delayed.
const FIRST_SHARE: f64 = 0.05;
// Distance of the clusters in s. Acknowledgments are delayed for 40 ms to 200 ms in Linux; a link's own delay may take
// from it or add to it.
const DISTANCE: std::ops::RangeInclusive<f64> = 0.010..=0.210;
// Least gap between the clusters, as a fraction of their distance: `VALLEY` plus `VALLEY_OF_FEW` over the square root
// of the number of round trips, because few values leave gaps by chance. Between the halves of a uniform, normal or
// exponential distribution the gap is less than a sixth.
const VALLEY: f64 = 0.25;
const VALLEY_OF_FEW: f64 = 2.0;
// Longest time from an acknowledgment to the small segment that it releases.
const RELEASE_NS: u64 = 2_000_000;
// A segment counts as held only if the acknowledgment that releases it came at least this long after the data.
const WAIT_NS: u64 = 10_000_000;
// The algorithm counts as found from this number of held segments, if they are at least this share of the small ones.
const HELD_LEAST: u64 = 5;
const HELD_SHARE: f64 = 0.1;
// Payload of a full segment where the capture lacks the beginning: 1500 bytes less headers and timestamps.
const FULL: u32 = 1448;
// Most ends of connections followed in a capture.
const VIEWS_MAX: usize = 4096;
// Most waits kept for the median.
const WAITS_MAX: usize = 10_000;

/// Two clusters of round-trip times.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RoundTripClusters {
    /// Fraction of the round trips in the second cluster, 0 to 1.
    pub share: f64,
    /// Median of the first cluster in seconds.
    pub first_s: f64,
    /// Median of the second cluster in seconds.
    pub second_s: f64,
}

impl RoundTripClusters {
    /// Finds two clusters at the distance that delayed acknowledgments cause, the second with more than a fifth of all.
    /// `None` where there are none, and for fewer than 20 round trips.
    pub fn find(seconds: &[f64]) -> Option<RoundTripClusters> {
        RoundTripClusters::find_above(seconds, FIRST_SHARE)
    }

    /// As [`Self::find`], with at least this share of the round trips in the first cluster.
    fn find_above(seconds: &[f64], first_share: f64) -> Option<RoundTripClusters> {
        let mut all: Vec<f64> = seconds.iter().copied().filter(|value| value.is_finite()).collect();
        if all.len() < ROUND_TRIPS_LEAST {
            return None;
        }
        all.sort_by(f64::total_cmp);
        // Losses cause round trips of seconds, which would outweigh all others.
        let near = all.partition_point(|value| *value <= all[all.len() / 20] + 2.0 * DISTANCE.end());
        let count = all.len() as f64;
        let least = (first_share * count).ceil().max(1.0) as usize;
        let splits = (least..near).filter_map(|at| {
            let (first, second) = all[..near].split_at(at);
            let (below, above) = (percentile(first, 0.95)?, percentile(second, 0.05)?);
            let clusters = RoundTripClusters::of(first, second, all.len())?;
            let valley = (above - below) / (clusters.second_s - clusters.first_s);
            clusters.is_delay().then_some((valley, (below + above) / 2.0))
        });
        let (valley, middle) = splits.max_by(|a, b| a.0.total_cmp(&b.0))?;
        // The best split may leave a few values on the wrong side of the valley.
        let (first, second) = all[..near].split_at(all[..near].partition_point(|value| *value <= middle));
        let found = RoundTripClusters::of(first, second, all.len())?;
        (found.is_delay() && valley >= VALLEY + VALLEY_OF_FEW / count.sqrt()).then_some(found)
    }

    /// Share and medians of two clusters, each sorted; `count` is the number of all round trips.
    fn of(first: &[f64], second: &[f64], count: usize) -> Option<RoundTripClusters> {
        let share = second.len() as f64 / count as f64;
        Some(RoundTripClusters { share, first_s: percentile(first, 0.5)?, second_s: percentile(second, 0.5)? })
    }

    /// Whether share and distance are those of delayed acknowledgments.
    fn is_delay(&self) -> bool {
        self.share > SHARE && DISTANCE.contains(&(self.second_s - self.first_s))
    }

    fn text(&self, round_trips: u64) -> String {
        let (share, count) = (Quantity::Share.text(self.share), Quantity::Count.text(round_trips as f64));
        let longer = Quantity::Seconds.text(self.second_s - self.first_s);
        format!("{share} of {count} round trips are {longer} longer than the others")
    }
}

/// Small segments of one end of a connection, and how many of them waited for an acknowledgment.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct HeldSegments {
    /// Name of the host that sent them.
    pub node: String,
    /// Segments sent for the first time that did not fill the maximum segment size.
    pub small: u64,
    /// Small segments that an acknowledgment released: it carried no data, came at least 10 ms after the small segment
    /// before, and at most 2 ms before this one.
    pub held: u64,
    /// Small segments that left while an earlier one was unacknowledged, which Nagle's algorithm never allows.
    pub overlapping: u64,
    /// Median time from data to the acknowledgment that released a held segment, in seconds.
    pub wait_s: Option<f64>,
}

impl HeldSegments {
    /// Counts the segments that one end of a connection sent and received, in order of time. `full` is the payload of
    /// a full segment.
    pub fn of(segments: &[SegmentSeen], full: u32) -> HeldSegments {
        let mut counter = HeldCounter::new(full);
        segments.iter().for_each(|segment| counter.take(segment));
        counter.finish("")
    }

    /// Whether the wire shows that Nagle's algorithm holds segments.
    pub fn is_found(&self) -> bool {
        self.held >= HELD_LEAST
            && self.held as f64 >= HELD_SHARE * self.small as f64
            // A few may overlap: the application may turn the algorithm off for moments.
            && self.overlapping * 10 <= self.held
    }

    fn text(&self) -> String {
        let count = |value: u64| Quantity::Count.text(value as f64);
        let wait =
            self.wait_s.map_or(String::new(), |wait| format!(", {} in the median", Quantity::Seconds.text(wait)));
        let (held, small) = (count(self.held), count(self.small));
        format!("{} held {held} of {small} small segments until an acknowledgment came{wait}", self.node)
    }
}

/// Follows one end of a connection.
#[derive(Clone, Debug)]
struct HeldCounter {
    /// Maximum segment size, where the connection was seen to begin.
    maximum: Option<u32>,
    /// Payload of a full segment.
    full: u32,
    found: HeldSegments,
    waits_ns: Vec<u64>,
    /// Sequence number after the last byte sent; `small_end`: after the last small segment, with the time at which it
    /// left.
    sent_end: Option<u32>,
    small_end: Option<(u32, u64)>,
    /// Whether the last small segment is unacknowledged.
    is_waiting: bool,
    /// Time of an acknowledgment without data that covered the last small segment at least [`WAIT_NS`] after it left,
    /// and that delay, ns. The next segment with new data clears the field.
    released: Option<(u64, u64)>,
}

impl HeldCounter {
    fn new(full: u32) -> HeldCounter {
        HeldCounter {
            maximum: None,
            full: full.max(1),
            found: HeldSegments::default(),
            waits_ns: Vec::new(),
            sent_end: None,
            small_end: None,
            is_waiting: false,
            released: None,
        }
    }

    fn take(&mut self, segment: &SegmentSeen) {
        if segment.is_sent { self.sent(segment) } else { self.received(segment) }
    }

    fn sent(&mut self, segment: &SegmentSeen) {
        let end = segment.sequence.wrapping_add(segment.payload);
        // Segments sent again follow other rules than those of this algorithm.
        if segment.payload == 0 || self.sent_end.is_some_and(|sent| !is_after(end, sent)) {
            return;
        }
        self.sent_end = Some(end);
        let released = self.released.take();
        if segment.payload.is_multiple_of(self.full) {
            return;
        }
        self.found.small += 1;
        // Linux holds a small segment only behind another small one (Minshall's variant), so a small segment behind
        // full ones, the end of a large write, proves nothing.
        if self.is_waiting {
            self.found.overlapping += 1;
        } else if let Some((_, waited)) = released.filter(|(at, _)| segment.time_ns.saturating_sub(*at) <= RELEASE_NS) {
            self.found.held += 1;
            if self.waits_ns.len() < WAITS_MAX {
                self.waits_ns.push(waited);
            }
        }
        self.small_end = Some((end, segment.time_ns));
        self.is_waiting = true;
    }

    fn received(&mut self, segment: &SegmentSeen) {
        let Some((small_end, sent_ns)) = self.small_end.filter(|_| self.is_waiting) else { return };
        if is_after(small_end, segment.acknowledgment) {
            return;
        }
        self.is_waiting = false;
        let waited = segment.time_ns.saturating_sub(sent_ns);
        // Only an acknowledgment without data counts: an application may respond to data at once, but it never sees an
        // acknowledgment.
        self.released = (segment.is_ack_only && waited >= WAIT_NS).then_some((segment.time_ns, waited));
    }

    fn finish(mut self, node: &str) -> HeldSegments {
        self.waits_ns.sort_unstable();
        let seconds: Vec<f64> = self.waits_ns.iter().map(|ns| *ns as f64 / 1e9).collect();
        HeldSegments { node: node.to_string(), wait_s: percentile(&seconds, 0.5), ..self.found }
    }
}

/// Whether a sequence number is behind another; numbers wrap around.
fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 > 0
}

/// One end of a connection in a capture: interface, its own address, that of the other end.
type View = (usize, SocketAddr, SocketAddr);

/// Counts the held segments of every end of every TCP connection in a capture of the testbed.
///
/// # Errors
/// When the capture is damaged.
pub fn held_in_capture(input: impl Read) -> Result<Vec<HeldSegments>> {
    let mut reader = PcapngReader::new(input)?;
    let mut views: BTreeMap<View, HeldCounter> = BTreeMap::new();
    let mut done: Vec<(usize, HeldCounter)> = Vec::new();
    while let Some(frame) = reader.frame()? {
        let is_sent = frame.side == FrameSide::Outbound;
        let (interface, time_ns) = (frame.interface, frame.time_ns);
        let Some(read) = ReadSegment::read(time_ns, is_sent, frame.bytes) else { continue };
        let view = if is_sent { (interface, read.from, read.to) } else { (interface, read.to, read.from) };
        // A port that is used again belongs to another connection, with other numbers.
        if read.opens.is_some()
            && views.get(&view).is_some_and(|counter| counter.sent_end.is_some())
            && let Some(before) = views.remove(&view).filter(|counter| counter.found.small > 0)
            && done.len() < VIEWS_MAX
        {
            done.push((interface, before));
        }
        if views.len() >= VIEWS_MAX && !views.contains_key(&view) {
            continue;
        }
        let counter = views.entry(view).or_insert_with(|| HeldCounter::new(FULL));
        if let Some(maximum) = read.opens {
            // The smaller of both ends' values counts; without the option it is 536 (RFC 9293 section 3.7.1).
            let maximum = maximum.map_or(536, u32::from);
            counter.maximum = Some(counter.maximum.map_or(maximum, |other| other.min(maximum)));
        }
        if let Some(maximum) = counter.maximum {
            counter.full = maximum.saturating_sub(read.options).max(1);
        }
        counter.take(&read.segment);
    }
    let left = views.into_iter().map(|((interface, ..), counter)| (interface, counter));
    let finish = |(interface, counter): (usize, HeldCounter)| counter.finish(reader.interface(interface));
    Ok(done.into_iter().chain(left).map(finish).collect())
}

/// Judgement about Nagle's algorithm in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NagleVerdict {
    /// Both the round trips and a capture show the algorithm.
    Found,
    /// Only one of the two shows the algorithm: the round trips or a capture.
    Suspected,
    /// Neither the round trips nor a capture shows the algorithm.
    Absent,
}

/// Facts about Nagle's algorithm in a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct NagleReport {
    /// Number of round trips.
    pub round_trips: u64,
    /// Clusters of the round trips, if there are two.
    pub clusters: Option<RoundTripClusters>,
    /// Whether a capture of a link was read.
    pub is_captured: bool,
    /// Capture that could not be read, with the reason.
    pub unreadable: Option<String>,
    /// Connection end that held the most segments, if [`HeldSegments::is_found`] for any.
    pub held: Option<HeldSegments>,
}

impl NagleReport {
    /// Looks for both facts in a run; `None` for a simulation, whose TCP leaves the algorithm out, and for a run with
    /// fewer than 20 answered pings.
    pub fn read(run: &RunReader, round_trips: &[RoundTrip]) -> Option<NagleReport> {
        if run.manifest().world == RunWorld::Sim || round_trips.len() < ROUND_TRIPS_LEAST {
            return None;
        }
        let seconds: Vec<f64> = round_trips.iter().map(|trip| trip.seconds).collect();
        let mut report = NagleReport { round_trips: seconds.len() as u64, ..NagleReport::default() };
        let entries = std::fs::read_dir(run.folder().join("captures")).into_iter().flatten().flatten();
        let mut captures: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        captures.retain(|path| path.extension().is_some_and(|extension| extension == "pcapng"));
        captures.sort();
        for path in captures {
            report.capture(&path);
        }
        let first_share = if report.held.is_some() { 0.0 } else { FIRST_SHARE };
        report.clusters = RoundTripClusters::find_above(&seconds, first_share);
        Some(report)
    }

    /// Adds the facts of a capture; one that cannot be read is only noted in `unreadable`.
    fn capture(&mut self, path: &Path) {
        let open = || Ok(BufReader::with_capacity(1 << 20, File::open(path)?));
        match open().and_then(held_in_capture) {
            Ok(all) => {
                let found = all.into_iter().filter(HeldSegments::is_found);
                self.held = self.held.take().into_iter().chain(found).max_by_key(|held| held.held);
                self.is_captured = true;
            }
            Err(why) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                self.unreadable = Some(format!("{name}: {why:#}"));
            }
        }
    }

    /// Judgement by the number of facts.
    pub fn verdict(&self) -> NagleVerdict {
        match (self.clusters, &self.held) {
            (Some(_), Some(_)) => NagleVerdict::Found,
            (None, None) => NagleVerdict::Absent,
            _ => NagleVerdict::Suspected,
        }
    }

    /// Sentence with the facts; `None` if no fact shows the algorithm.
    pub fn finding(&self) -> Option<String> {
        let clusters = self.clusters.map(|clusters| clusters.text(self.round_trips));
        Some(match (clusters, &self.held) {
            (Some(clusters), Some(held)) => {
                format!("Nagle's algorithm delays round trips: {clusters}, and {}.", held.text())
            }
            (Some(clusters), None) => {
                let wire = match (&self.unreadable, self.is_captured) {
                    (Some(why), _) => {
                        format!("a capture could not be read, {}", why.lines().next().unwrap_or_default())
                    }
                    (None, true) => "the captures show no small segments held until an acknowledgment".into(),
                    (None, false) => {
                        "no link was captured, which would show segments held until an acknowledgment".into()
                    }
                };
                format!("Nagle's algorithm is suspected: {clusters}; {wire}.")
            }
            (None, Some(held)) => {
                format!("Nagle's algorithm is suspected: {}; no round trips stand apart.", held.text())
            }
            (None, None) => return None,
        })
    }
}

#[cfg(test)]
mod tests;
