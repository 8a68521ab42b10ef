//! Counters of a node, derived from its events, and durations of its owner's turns; rendered as Prometheus text.

use farlink_base::{DeleteReason, Duration, Event};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Defines [`Metrics`] from the name and help text of each counter.
macro_rules! counters {
    ($($field:ident: $help:literal,)*) => {
        /// Counters since the start.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $(#[doc = $help] pub $field: AtomicU64,)*
            /// Duration of the owner's turns, without waiting for sockets.
            pub turns: Histogram,
        }
        impl Metrics {
            /// Sums the counters of several shards.
            pub fn sum(all: &[Arc<Metrics>]) -> Metrics {
                let sum = Metrics::default();
                for one in all {
                    $(sum.$field.fetch_add(one.$field.load(Relaxed), Relaxed);)*
                    sum.turns.add(&one.turns);
                }
                sum
            }
            /// Prometheus text exposition of all counters.
            pub fn render(&self) -> String {
                let mut out = String::new();
                $(
                    let name = concat!("farlink_", stringify!($field), "_total");
                    let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} counter\n{name} {}", $help, self.$field.load(Relaxed));
                )*
                self.turns.render("farlink_turn_seconds", "Turns of the thread that owns the engine.", &mut out);
                out
            }
        }
    };
}

/// Upper bounds of a histogram's buckets, microseconds.
const BOUNDS_US: [u64; 12] = [10, 50, 100, 250, 500, 1000, 2000, 5000, 10_000, 50_000, 250_000, 1_000_000];

/// Histogram of durations.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    nanoseconds: AtomicU64,
    longest: AtomicU64,
}
impl Histogram {
    /// Counts one duration. Only one thread may call this.
    pub fn count(&self, took: Duration) {
        // One writer: a load and a store cost less than an atomic addition.
        let (us, ns) = (took.as_micros() as u64, took.as_nanos() as u64);
        let bucket = &self.buckets[BOUNDS_US.partition_point(|bound| *bound < us)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
        self.nanoseconds.store(self.nanoseconds.load(Relaxed).saturating_add(ns), Relaxed);
        self.longest.store(self.longest.load(Relaxed).max(ns), Relaxed);
    }
    fn add(&self, other: &Histogram) {
        for (sum, more) in self.buckets.iter().zip(&other.buckets) {
            sum.fetch_add(more.load(Relaxed), Relaxed);
        }
        self.nanoseconds.fetch_add(other.nanoseconds.load(Relaxed), Relaxed);
        self.longest.fetch_max(other.longest.load(Relaxed), Relaxed);
    }
    /// Longest duration, seconds.
    pub fn longest_s(&self) -> f64 {
        self.longest.load(Relaxed) as f64 / 1e9
    }
    fn render(&self, name: &str, help: &str, out: &mut String) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut sum = 0;
        let bounds = BOUNDS_US.iter().map(|us| (*us as f64 / 1e6).to_string()).chain(["+Inf".to_string()]);
        for (bucket, bound) in self.buckets.iter().zip(bounds) {
            sum += bucket.load(Relaxed);
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {sum}");
        }
        let seconds = self.nanoseconds.load(Relaxed) as f64 / 1e9;
        let _ = writeln!(out, "{name}_sum {seconds}\n{name}_count {sum}");
        let longest = name.replace("_seconds", "_longest_seconds");
        let _ = writeln!(out, "# HELP {longest} The longest of them since the start.\n# TYPE {longest} gauge");
        let _ = writeln!(out, "{longest} {}", self.longest_s());
    }
}

counters! {
    bundles_created: "Bundles created by applications of this node.",
    bundles_received: "Bundles that arrived over links.",
    bundles_recovered: "Bundles found in the store at start.",
    bundles_accepted: "Bundles kept and acknowledged.",
    bundles_refused: "Bundles and requests not taken.",
    bundles_forwarded: "Bundles a neighbour confirmed.",
    bundles_forward_failed: "Transmissions that failed and were routed again.",
    bundles_delivered: "Bundles applications took.",
    bundles_expired: "Bundles deleted because their lifetime ended.",
    bundles_deleted: "Bundles deleted for any other reason than being done with.",
    bundles_done: "Bundles delivered or forwarded and no longer kept.",
    bundles_fragmented: "Pieces cut from bundles.",
    bundles_reassembled: "Bundles joined from fragments.",
    custody_taken: "Bundles this node took custody of.",
    custody_released: "Bundles another node took over.",
    custody_repeated: "Bundles sent again because no node said that it took custody.",
    custody_signals_sent: "Custody signals sent.",
    custody_signals_ignored: "Custody signals from somebody who has no say in it.",
    compressed_reports: "Compressed reporting signals sent.",
    links_up: "Times a link came up.",
    links_down: "Times a link went down.",
    malformed: "Wire data thrown away because it did not parse.",
    ltp_sessions: "LTP sessions that ended in good order.",
    ltp_sessions_cancelled: "LTP sessions that were cancelled.",
    clock_steps: "Steps of the wall clock.",
    store_damage: "Damaged records found in the store.",
    store_failures: "Disk operations that failed.",
    stream_bytes_received: "Bytes read from streams.",
    stream_bytes_sent: "Bytes written to streams.",
    datagram_bytes_received: "Bytes received in datagrams.",
    datagram_bytes_sent: "Bytes sent in datagrams.",
    datagrams_dropped: "Datagrams the kernel or the network did not take.",
    security_made: "Security operations added to bundles.",
    security_verified: "Security operations checked and right.",
    security_failed: "Security operations checked and wrong, or not to be checked.",
    security_missing: "Security operations required and not there.",
}

impl Metrics {
    /// Counts one event. Only the owner of the stack calls this, so plain loads and stores suffice.
    pub fn count(&self, event: &Event) {
        let counter = match event {
            Event::Created { .. } => &self.bundles_created,
            Event::Received { .. } => &self.bundles_received,
            Event::Recovered { .. } => &self.bundles_recovered,
            Event::Accepted { .. } => &self.bundles_accepted,
            Event::Refused { .. } => &self.bundles_refused,
            Event::Forwarded { .. } => &self.bundles_forwarded,
            Event::ForwardFailed { .. } => &self.bundles_forward_failed,
            Event::Delivered { .. } => &self.bundles_delivered,
            Event::Deleted { reason: DeleteReason::Done, .. } => &self.bundles_done,
            Event::Deleted { reason: DeleteReason::Expired, .. } => &self.bundles_expired,
            Event::Deleted { .. } => &self.bundles_deleted,
            Event::Fragmented { .. } => &self.bundles_fragmented,
            Event::Reassembled { .. } => &self.bundles_reassembled,
            Event::CustodyTaken { .. } => &self.custody_taken,
            Event::CustodyReleased { .. } => &self.custody_released,
            Event::CustodyRepeated { .. } => &self.custody_repeated,
            Event::CustodySignalled { .. } => &self.custody_signals_sent,
            Event::CustodySignalIgnored { .. } => &self.custody_signals_ignored,
            Event::ReportsCompressed { .. } => &self.compressed_reports,
            Event::LinkUp { .. } => &self.links_up,
            Event::LinkDown { .. } => &self.links_down,
            Event::Malformed { .. } => &self.malformed,
            Event::LtpSessionEnd { cancelled: false, .. } => &self.ltp_sessions,
            Event::LtpSessionEnd { cancelled: true, .. } => &self.ltp_sessions_cancelled,
            Event::ClockStepped { .. } => &self.clock_steps,
            Event::StoreDamage { .. } => &self.store_damage,
            Event::StoreFailed { .. } => &self.store_failures,
            _ => return,
        };
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::BundleHandle;

    #[test]
    fn events_render_as_prometheus_text() {
        let metrics = Metrics::default();
        for _ in 0..3 {
            metrics.count(&Event::Created { bundle: BundleHandle(1) });
        }
        metrics.count(&Event::Deleted { bundle: BundleHandle(1), reason: DeleteReason::Expired });
        let text = metrics.render();
        assert!(text.contains("# TYPE farlink_bundles_created_total counter\nfarlink_bundles_created_total 3\n"));
        assert!(text.contains("\nfarlink_bundles_expired_total 1\n"));
        assert!(text.contains("\nfarlink_bundles_deleted_total 0\n"));
    }

    #[test]
    fn counters_of_shards_are_summed() {
        let all = [Arc::new(Metrics::default()), Arc::new(Metrics::default())];
        for (metrics, times) in all.iter().zip([2, 3]) {
            (0..times).for_each(|_| metrics.count(&Event::Created { bundle: BundleHandle(1) }));
            metrics.turns.count(Duration::from_millis(times));
        }
        let text = Metrics::sum(&all).render();
        for line in
            ["farlink_bundles_created_total 5", "farlink_turn_seconds_count 2", "farlink_turn_longest_seconds 0.003"]
        {
            assert!(text.contains(&format!("\n{line}\n")), "{line} is not in {text}");
        }
    }

    #[test]
    fn turn_durations_fill_histogram() {
        let metrics = Metrics::default();
        for us in [3, 10, 11, 4_999, 5_001, 2_000_000] {
            metrics.turns.count(Duration::from_micros(us));
        }
        let text = metrics.render();
        for line in [
            "farlink_turn_seconds_bucket{le=\"0.00001\"} 2",
            "farlink_turn_seconds_bucket{le=\"0.005\"} 4",
            "farlink_turn_seconds_bucket{le=\"+Inf\"} 6",
            "farlink_turn_seconds_count 6",
            "farlink_turn_longest_seconds 2",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} is not in {text}");
        }
    }
}
