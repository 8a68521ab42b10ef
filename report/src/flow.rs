//! Assignment of bundles to the traffic flows of the scenario.

use crate::column::Text;
use crate::manifest::TrafficFacts;

/// An endpoint: node, and service number or hash of its demux.
type FlowEndpoint<'a> = (&'a Text, u64);

/// Index of the scenario's traffic flows by endpoints.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    flows: Vec<TrafficFlow>,
}

#[derive(Clone, Debug)]
struct TrafficFlow {
    name: Text,
    from: Text,
    to: Text,
    service: u64,
    sender_service: u64,
    /// Traffic among groups: number of consecutive sender services from `sender_service` on. Any node may send from
    /// them.
    senders: Option<u64>,
}

impl Flows {
    /// Builds the index from the manifest's traffic.
    pub fn of(traffic: &[TrafficFacts]) -> Flows {
        let flow = |t: &TrafficFacts| TrafficFlow {
            name: t.name.as_str().into(),
            from: t.from.as_str().into(),
            to: t.to.as_str().into(),
            service: t.service,
            sender_service: t.sender_service,
            senders: t.senders,
        };
        Flows { flows: traffic.iter().map(flow).collect() }
    }
    /// Finds the traffic flow of a bundle with these endpoints, or of the ping that the bundle answers. `None` if no
    /// flow matches.
    pub fn find(&self, source: FlowEndpoint<'_>, destination: FlowEndpoint<'_>) -> Option<Text> {
        // Flows among groups name groups, not nodes, so only the sender's service identifies them.
        let between = |f: &&TrafficFlow, a: FlowEndpoint<'_>, b: FlowEndpoint<'_>| {
            f.service == b.1
                && match f.senders {
                    Some(senders) => (f.sender_service..f.sender_service.saturating_add(senders)).contains(&a.1),
                    None => f.from == *a.0 && f.to == *b.0,
                }
        };
        let pick = |a: FlowEndpoint<'_>, b: FlowEndpoint<'_>| {
            let all = || self.flows.iter().filter(|f| between(f, a, b));
            // Several pings may share one echo service; the sender's service tells them apart where
            // the sender could choose it.
            all().find(|f| f.sender_service == a.1).or_else(|| all().next())
        };
        // A ping reply travels from the destination of the request back to its source.
        let answered = || pick(destination, source);
        pick(source, destination).or_else(answered).map(|f| f.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_and_ping_replies_match_traffic() {
        let traffic = |name: &str, to: &str, service, sender_service| TrafficFacts {
            name: name.into(),
            from: "a".into(),
            to: to.into(),
            service,
            sender_service,
            senders: None,
            offered: None,
        };
        let flows = Flows::of(&[
            traffic("file", "b", 1000, 10_000),
            traffic("voice", "b", 1001, 10_001),
            traffic("ping", "b", 128, 10_002),
            traffic("slow ping", "b", 128, 10_003),
        ]);
        let (a, b) = (Text::from("a"), Text::from("b"));
        let find = |from, to| flows.find(from, to).map(|name| name.to_string());
        assert_eq!(find((&a, 10_000), (&b, 1000)).as_deref(), Some("file"));
        assert_eq!(find((&a, 77), (&b, 1001)).as_deref(), Some("voice"), "the receiver's service is enough");
        assert_eq!(find((&a, 10_003), (&b, 128)).as_deref(), Some("slow ping"));
        assert_eq!(find((&b, 128), (&a, 10_003)).as_deref(), Some("slow ping"), "the answer, too");
        assert_eq!(find((&a, 5), (&b, 128)).as_deref(), Some("ping"));
        assert_eq!(find((&a, 1), (&b, 5)), None);
        assert_eq!(find((&b, 7), (&a, 1000)), None);
    }

    #[test]
    fn group_traffic_matches_by_sender_service() {
        let facts = |name: &str, sender_service, senders| TrafficFacts {
            name: name.into(),
            from: "walker".into(),
            to: "walker".into(),
            service: 1000,
            sender_service,
            senders,
            offered: None,
        };
        let flows = Flows::of(&[facts("chat", 10_000, Some(3)), facts("news", 10_003, Some(2))]);
        let (a, b) = (Text::from("walker1"), Text::from("walker2"));
        let find = |service| flows.find((&a, service), (&b, 1000)).map(|name| name.to_string());
        let found: Vec<_> = (9_999..10_006).map(find).collect();
        let names = [None, Some("chat"), Some("chat"), Some("chat"), Some("news"), Some("news"), None];
        assert_eq!(found, names.map(|name| name.map(String::from)));
    }
}
