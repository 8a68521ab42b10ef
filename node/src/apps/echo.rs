//! Echo service: one reply per bundle, with a new timestamp and the same payload.
//!
//! It serves ipn services 128 (draft-taylor-dtn-echo-service), 7 (Hardy) and 2047 (DTNME, HDTN), and dtn `/echo`. It
//! never answers the null endpoint or administrative records, and its rate is bounded, so that two echo services cannot
//! keep each other busy.

use farlink_base::{EndpointId, Facts};
use farlink_base::{Instant, Priority};
use farlink_bpa::app::{Delivery, RegistrationId, SendRequest};

/// Service numbers of ipn endpoints.
pub const SERVICES: [u32; 3] = [128, 7, 2047];
/// Most unanswered deliveries.
pub const WINDOW: u32 = 64;

/// Echo service of a node.
pub struct Echo {
    node_ids: Vec<EndpointId>,
    endpoints: Vec<(RegistrationId, EndpointId)>,
    rate: u64,
    tokens: u64,
    filled: Instant,
}

impl Echo {
    /// Creates a service that answers at most `rate` bundles a second.
    pub fn new(node_ids: &[EndpointId], rate: u64) -> Self {
        Echo { node_ids: node_ids.to_vec(), endpoints: Vec::new(), rate, tokens: rate, filled: Instant::ZERO }
    }
    /// Endpoints to register.
    pub fn endpoints(&self) -> Vec<EndpointId> {
        let of = |id: &EndpointId| match id {
            EndpointId::Ipn { node, .. } => {
                SERVICES.iter().map(|service| EndpointId::Ipn { node: *node, service: *service }).collect()
            }
            EndpointId::Dtn(_) => id.at_demux("echo").into_iter().collect(),
            _ => Vec::new(),
        };
        self.node_ids.iter().flat_map(of).collect()
    }
    /// Records the registration of an endpoint.
    pub fn registered(&mut self, registration: RegistrationId, endpoint: EndpointId) {
        self.endpoints.push((registration, endpoint));
    }
    /// Reply to a bundle; `None` for administrative records, bundles from the null endpoint, and bundles above the
    /// rate.
    pub fn reply(&mut self, registration: RegistrationId, bundle: Delivery, now: Instant) -> Option<SendRequest> {
        let (_, endpoint) = self.endpoints.iter().find(|(id, _)| *id == registration)?;
        let endpoint = endpoint.clone();
        if bundle.source == EndpointId::Null || bundle.facts.has(Facts::ADMIN) || !self.allowed(now) {
            return None;
        }
        Some(SendRequest {
            source: endpoint,
            destination: bundle.source,
            report_to: EndpointId::Null,
            facts: Facts::default(),
            lifetime_ms: bundle.lifetime_ms,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: bundle.payload,
        })
    }
    /// Takes a token from a bucket that holds one second's worth of replies; false if it is empty.
    fn allowed(&mut self, now: Instant) -> bool {
        let fresh = (u128::from(now.0 - self.filled.0.min(now.0)) * u128::from(self.rate) / 1_000_000_000) as u64;
        if fresh > 0 {
            self.tokens = self.tokens.saturating_add(fresh).min(self.rate);
            self.filled = now;
        }
        self.tokens = match self.tokens.checked_sub(1) {
            Some(left) => left,
            None => return false,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::CreationTimestamp;
    use farlink_base::Payload;

    fn ping(source: &str, facts: u32) -> Delivery {
        Delivery {
            source: source.parse().unwrap(),
            destination: "ipn:1.128".parse().unwrap(),
            creation: CreationTimestamp::default(),
            lifetime_ms: 5000,
            facts: Facts(facts),
            redelivered: false,
            payload: Payload::from(&b"ping"[..]),
        }
    }

    #[test]
    fn echo_skips_reports_and_limits_rate() {
        let mut echo = Echo::new(&["ipn:1.0".parse().unwrap(), "dtn://a/".parse().unwrap()], 10);
        let endpoints: Vec<_> = echo.endpoints().iter().map(ToString::to_string).collect();
        assert_eq!(endpoints, ["ipn:1.128", "ipn:1.7", "ipn:1.2047", "dtn://a/echo"]);
        let registration = RegistrationId(1);
        echo.registered(registration, "ipn:1.128".parse().unwrap());
        let now = Instant(1_000_000_000);
        let reply = echo.reply(registration, ping("ipn:2.9", 0), now).unwrap();
        assert_eq!((reply.source.to_string(), reply.destination.to_string()), ("ipn:1.128".into(), "ipn:2.9".into()));
        assert_eq!(reply.payload, Payload::from(&b"ping"[..]));
        assert!(echo.reply(registration, ping("dtn:none", 0), now).is_none());
        assert!(echo.reply(registration, ping("ipn:2.9", Facts::ADMIN), now).is_none());
        let answered = (0..100).filter(|_| echo.reply(registration, ping("ipn:2.9", 0), now).is_some()).count();
        assert_eq!(answered, 9);
        assert!(echo.reply(registration, ping("ipn:2.9", 0), Instant(1_100_000_001)).is_some());
    }
}
