//! Load inside the node, for benchmarks: a generator of bundles and a sink that counts them, so that
//! the engine and its sockets are measured and not an application's connection.

use farlink_base::{Bytes, DataRate, Duration, Instant, Payload, Priority};
use farlink_base::{EndpointId, Facts};
use farlink_bpa::app::SendRequest;

/// Deliveries the sink takes before answering the first.
pub const WINDOW: u32 = 4096;

/// What to generate or to count.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// Where bundles go; `None` generates nothing.
    pub destination: Option<EndpointId>,
    /// Payload bytes of each.
    pub size: u64,
    /// Bundles held by the node at once.
    pub window: u64,
    /// Payload rate; as fast as it goes when `None`.
    pub rate: Option<DataRate>,
    /// How long to generate.
    pub duration: Duration,
    /// Service at which bundles are counted; `None` counts none.
    pub sink: Option<u32>,
}

/// The running load.
#[derive(Debug)]
pub struct Load {
    settings: LoadSettings,
    payload: Payload,
    began: Option<Instant>,
    outstanding: u64,
    refused: Option<Instant>,
    handed: u64,
    /// Bundles sent.
    pub sent: u64,
    /// Bundles delivered.
    pub received: u64,
    /// Their payload bytes.
    pub received_bytes: u64,
    /// When the first and the last came.
    pub span: Option<(Instant, Instant)>,
    now: Instant,
}

impl Load {
    /// Prepares the load; every bundle carries the same bytes.
    pub fn new(settings: LoadSettings) -> Self {
        let bytes: Bytes = Payload::fill(1, settings.size.max(1)).to_bytes().unwrap_or_default();
        Load {
            settings,
            payload: Payload::from(bytes),
            began: None,
            outstanding: 0,
            refused: None,
            handed: 0,
            sent: 0,
            received: 0,
            received_bytes: 0,
            span: None,
            now: Instant::ZERO,
        }
    }
    /// Where the sink listens.
    pub fn sink_endpoint(&self, node_id: &EndpointId) -> Option<EndpointId> {
        self.settings.sink.map(|service| with_service(node_id, service))
    }
    /// Time starts.
    pub fn start(&mut self, now: Instant) {
        self.now = now;
    }
    /// The next bundle to send, if it is time and the node has room: fewer than `window` bundles in
    /// it.
    pub fn next(&mut self, now: Instant, in_node: u64, node_id: &EndpointId) -> Option<SendRequest> {
        self.now = now;
        let destination = self.settings.destination.clone()?;
        let began = *self.began.get_or_insert(now);
        let elapsed = now.since(began);
        let held = in_node + self.outstanding;
        let behind = self.settings.rate.is_none_or(|rate| self.handed * self.settings.size <= rate.volume_in(elapsed));
        if elapsed >= self.settings.duration || held >= self.settings.window || !behind || self.refused >= Some(now) {
            return None;
        }
        self.outstanding += 1;
        self.handed += 1;
        Some(SendRequest {
            source: with_service(node_id, 1),
            destination,
            report_to: EndpointId::Null,
            facts: Facts::default(),
            lifetime_ms: 3_600_000,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: self.payload.clone(),
        })
    }
    /// Whether the generator has no more to send.
    pub fn finished(&self) -> bool {
        self.settings.destination.is_none()
            || self.began.is_some_and(|began| self.now.since(began) >= self.settings.duration)
    }
    /// The node kept a bundle, or refused it (then the generator waits a millisecond).
    pub fn on_result(&mut self, kept: bool, now: Instant) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if kept {
            self.sent += 1;
        } else {
            self.refused = Some(now + Duration::from_millis(1));
        }
    }
    /// A bundle came.
    pub fn on_delivery(&mut self, bytes: u64, now: Instant) {
        self.received += 1;
        self.received_bytes += bytes;
        let first = self.span.map_or(now, |(first, _)| first);
        self.span = Some((first, now));
    }
    /// When the generator wants to be asked at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.settings.destination.as_ref()?;
        if self.finished() {
            return None;
        }
        let pace = self.settings.rate.map(|rate| {
            let due = rate.time_for(self.handed * self.settings.size);
            self.began.unwrap_or(self.now) + due
        });
        Some(pace.unwrap_or(self.now + Duration::from_millis(1)).max(self.now + Duration::from_micros(50)))
    }
    /// The result, as JSON fields.
    pub fn report(&self) -> serde_json::Value {
        let seconds = self.span.map_or(0.0, |(first, last)| last.since(first).as_secs_f64());
        let mean = self.received_bytes.checked_div(self.received).unwrap_or(0);
        let counted = self.received_bytes.saturating_sub(mean);
        let per_second = |n: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
        serde_json::json!({
            "sent": self.sent,
            "received": self.received,
            "received_bytes": self.received_bytes,
            "seconds": seconds,
            "goodput_bit_s": per_second(counted as f64 * 8.0),
            "bundles_s": per_second(self.received.saturating_sub(1) as f64),
        })
    }
}

/// An endpoint of a node.
pub fn with_service(node_id: &EndpointId, service: u32) -> EndpointId {
    node_id.at_service(service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_respects_window_rate_and_duration() {
        let node: EndpointId = "ipn:1.0".parse().unwrap();
        let settings = LoadSettings {
            destination: Some("ipn:2.9".parse().unwrap()),
            size: 1000,
            window: 3,
            rate: None,
            duration: Duration::from_secs(1),
            sink: None,
        };
        let mut load = Load::new(settings.clone());
        let start = Instant(5);
        assert_eq!(std::iter::from_fn(|| load.next(start, 0, &node)).count(), 3);
        load.on_result(true, start);
        assert!(load.next(start, 1, &node).is_none(), "what is in the node counts");
        assert!(load.next(start, 0, &node).is_some());
        assert!(load.next(start + Duration::from_secs(2), 0, &node).is_none() && load.finished());
        let mut paced = Load::new(LoadSettings { window: 1000, rate: Some(DataRate(80_000)), ..settings });
        let sent: usize = (0..=500)
            .map(|ms| std::iter::from_fn(|| paced.next(start + Duration::from_millis(ms), 0, &node)).count())
            .sum();
        assert_eq!(sent, 6, "10 a second for half a second, one at once");
    }
}
