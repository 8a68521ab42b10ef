//! Load generator and sink inside the node, for benchmarks: they measure the engine and its sockets without an
//! application's connection.

use farlink_base::{Bytes, DataRate, Duration, Instant, Payload, Priority};
use farlink_base::{EndpointId, Facts};
use farlink_bpa::app::SendRequest;

/// Most unanswered deliveries of the sink.
pub const WINDOW: u32 = 4096;

/// Settings of the generator and the sink.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// Destination of the bundles; `None` generates none.
    pub destination: Option<EndpointId>,
    /// Payload bytes of each bundle.
    pub size: u64,
    /// Number of bundles in the node at which the generator pauses.
    pub window: u64,
    /// Payload rate; unlimited when `None`.
    pub rate: Option<DataRate>,
    /// Duration of the generator.
    pub duration: Duration,
    /// Service number of the sink; `None` for no sink.
    pub sink: Option<u32>,
}

/// Running generator and sink.
#[derive(Debug)]
pub struct Load {
    settings: LoadSettings,
    payload: Payload,
    began: Option<Instant>,
    outstanding: u64,
    refused: Option<Instant>,
    handed: u64,
    /// Number of bundles that the node accepted.
    pub sent: u64,
    /// Number of bundles delivered.
    pub received: u64,
    /// Payload bytes of delivered bundles.
    pub received_bytes: u64,
    /// Times of the first and last delivery.
    pub span: Option<(Instant, Instant)>,
    now: Instant,
}

impl Load {
    /// Prepares the load; every bundle has the same payload.
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
    /// Endpoint of the sink.
    pub fn sink_endpoint(&self, node_id: &EndpointId) -> Option<EndpointId> {
        self.settings.sink.map(|service| with_service(node_id, service))
    }
    /// Sets the current time at the start.
    pub fn start(&mut self, now: Instant) {
        self.now = now;
    }
    /// Next bundle, if its time has come and fewer than `window` bundles are in the node.
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
    /// Returns whether the generator has nothing left to send.
    pub fn finished(&self) -> bool {
        self.settings.destination.is_none()
            || self.began.is_some_and(|began| self.now.since(began) >= self.settings.duration)
    }
    /// Takes the node's decision; after a refusal the generator waits a millisecond.
    pub fn on_result(&mut self, kept: bool, now: Instant) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if kept {
            self.sent += 1;
        } else {
            self.refused = Some(now + Duration::from_millis(1));
        }
    }
    /// Counts a delivery.
    pub fn on_delivery(&mut self, bytes: u64, now: Instant) {
        self.received += 1;
        self.received_bytes += bytes;
        let first = self.span.map_or(now, |(first, _)| first);
        self.span = Some((first, now));
    }
    /// Time by which to call [`Load::next`] again; `None` once the generator has finished.
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
    /// Result as JSON. Rates leave out one delivery, since the measured time begins when the first one is complete.
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

/// Endpoint of a node with this service number.
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
