//! Last error of each link, in words that name both nodes.

use farlink_base::{Event, Instant, LinkId, NodeId};
use std::collections::HashMap;

/// Most characters of an error that is kept.
const KEPT: usize = 400;
/// Most node IDs of a certificate that a message names.
const CERTIFIED_SHOWN: usize = 4;

/// End of an LTP session whose peer did not answer (RFC 5326 section 3.2.4).
const LTP_SILENCE: &str = "cancelled here: RLEXC (retransmission limit)";

/// Names of the links, and their last errors.
#[derive(Default, Debug)]
pub struct LinkFaults {
    /// Name and peer of each link.
    links: HashMap<LinkId, (String, String)>,
    /// Key that authenticates a link, and its file, in words.
    keys: HashMap<LinkId, String>,
    last: HashMap<LinkId, (Instant, String)>,
}

impl LinkFaults {
    /// Sets the name of a link, of the node that it leads to, and of the key that authenticates it.
    pub fn name(&mut self, link: LinkId, name: &str, peer: &str, key: Option<String>) {
        self.forget(link);
        self.links.insert(link, (name.into(), peer.into()));
        self.keys.extend(key.map(|key| (link, key)));
    }
    /// Notes that a link over LTP works.
    pub fn recovered(&mut self, link: LinkId) {
        self.last.remove(&link);
    }
    /// Notes an error of LTP, and returns the end of its log line if it can be a matter of keys.
    pub fn ltp(&mut self, link: LinkId, reason: &str, at: Instant) -> Option<Box<str>> {
        let key = self.keys.get(&link);
        let (what, hint) = match (reason, key) {
            (_, Some(key)) if reason.contains("whose authentication is wrong") => (
                format!(": it does not fit {key}"),
                "both ends need the same secret: compare the files of `keys`; `farlink node reload` reads a corrected one",
            ),
            (_, Some(key)) if reason.contains("without the authentication") => (
                format!(": expected was one by {key}"),
                "does the peer's link name the same `key`, and has its file of `keys` it? If so, somebody forges its address",
            ),
            (_, Some(_)) if reason.contains("authenticat") => {
                (String::new(), "write the same `authentication` on both sides")
            }
            (LTP_SILENCE, Some(key)) => (
                format!(": the peer did not answer; this node's segments are authenticated by {key}"),
                "does the peer run, at this address, and with the same key? Its log says what it discards",
            ),
            (LTP_SILENCE, None) => (": the peer did not answer".into(), ""),
            _ => return None,
        };
        self.note(Some(link), at, &format!("{reason}{what}"));
        (!hint.is_empty()).then(|| format!("{}{what}\nhint: {hint}", self.of(Some(link))).into())
    }
    /// Forgets a link that ended.
    pub fn forget(&mut self, link: LinkId) {
        self.links.remove(&link);
        self.keys.remove(&link);
        self.last.remove(&link);
    }
    /// Link and its peer as ` on link b to ipn:2.0`; empty for an unconfigured link.
    pub fn of(&self, link: Option<LinkId>) -> String {
        let link = link.and_then(|link| self.links.get(&link));
        link.map_or_else(String::new, |(name, peer)| format!(" on link {name} to {peer}"))
    }
    /// Keeps the last error of a configured link.
    pub fn note(&mut self, link: Option<LinkId>, at: Instant, what: &str) {
        if let Some(link) = link.filter(|link| self.links.contains_key(link)) {
            // Hints are for the log: a list has one line for each link.
            let what = what.split("\nhint: ").next().unwrap_or(what).chars().take(KEPT).collect();
            self.last.insert(link, (at, what));
        }
    }
    /// Names of the links that had an error, with the last one and its time.
    pub fn all(&self) -> impl Iterator<Item = (&str, Instant, &str)> {
        self.last.iter().filter_map(|(link, (at, what))| Some((&*self.links.get(link)?.0, *at, &**what)))
    }
}

/// Facts about the peer of a refused session, as far as the driver knows them.
#[derive(Clone, Copy, Debug)]
pub struct RefusedPeer<'a> {
    /// Node that the peer says it is.
    pub claims: Option<NodeId>,
    /// Node IDs in the peer's certificate; `None` without TLS.
    pub certified: Option<&'a [String]>,
    /// Certificate that this node shows, with the node IDs in it; empty without one.
    pub shown: &'a str,
}

/// Hint for the reason why a session was refused; `None` for a reason that an operator can do nothing about.
fn hint_of(reason: &str) -> Option<&'static str> {
    let hint = if reason.contains("certificate proves another node ID") {
        "each node needs a certificate with its own node ID: `farlink node certs` makes them"
    } else if reason.contains("certificate names another host") {
        "its certificate needs its node ID, or the host of `address`: `farlink node certs` makes one"
    } else if reason.contains("cannot do TLS") {
        "give the peer a certificate in its [layer], or write tls = \"allow\" here"
    } else if reason.contains(REFUSED_HERE) {
        "the peer's log has the reason; it may require TLS, another certificate or another node ID"
    } else if reason.contains("before it began") {
        "the peer's log has the reason; one that requires TLS ends sessions of nodes without"
    } else if reason.contains("not the node this link leads to") {
        "correct `peer` or `address` of the link"
    } else if reason.contains("claimed from another address") || reason.contains("with another address") {
        "`address` of its link must be where it comes from, or give both nodes certificates: TLS proves node IDs"
    } else {
        return None;
    };
    Some(hint)
}
/// Reason of a peer that does not trust this node.
const REFUSED_HERE: &str = "refused this node: its TLS";

/// Turns an error of a stream that is a refusal, not a defect of the data, into the event of a refused session.
pub fn as_refusal(event: Event) -> Event {
    match event {
        Event::Malformed { link, reason, .. } if hint_of(reason).is_some() => {
            Event::SessionRefused { link, peer: None, reason }
        }
        event => event,
    }
}

/// Completes the reason why a session was refused with what was found, and a hint; `None` for a reason that an operator
/// can do nothing about.
pub fn explain(reason: &str, peer: RefusedPeer<'_>) -> Option<String> {
    let mut hint = hint_of(reason)?;
    let claims = peer.claims.map(|node| format!("it says it is {}", farlink_events::node_name(node)));
    let certified = peer.certified.map(|ids| match ids.is_empty() {
        true => "its certificate names no node".to_string(),
        false => format!("its certificate is of {}", listed(ids)),
    });
    let shown = reason.contains(REFUSED_HERE).then(|| match peer.shown {
        "" => {
            hint = "if the peer requires TLS, write tls = \"require\" and a certificate into the [layer] here, or \
                    tls = \"allow\" into the peer's; the peer's log has the reason";
            "this node does no TLS: its [layer] has tls = \"forbid\"".to_string()
        }
        shown => format!("this node shows {shown}"),
    });
    let found: Vec<String> = claims.into_iter().chain(certified).chain(shown).collect();
    let found = if found.is_empty() { String::new() } else { format!(": {}", found.join(", ")) };
    Some(format!("{found}\nhint: {hint}"))
}

/// Node IDs of a certificate, which may name as many as its authority signed.
fn listed(ids: &[String]) -> String {
    let (shown, rest) = ids.split_at(ids.len().min(CERTIFIED_SHOWN));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    format!("{}{more}", shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_error_belongs_to_configured_link() {
        let (mut faults, at) = (LinkFaults::default(), Instant(5));
        let all = |faults: &LinkFaults| -> Vec<String> {
            faults.all().map(|(name, at, what)| format!("{name} {} {what}", at.0)).collect()
        };
        faults.note(Some(LinkId(1)), at, "nobody's");
        faults.name(LinkId(1), "moon", "ipn:2.0", None);
        assert_eq!(all(&faults), Vec::<String>::new());
        faults.note(Some(LinkId(1)), at, "connection refused\nhint: start it");
        assert_eq!(all(&faults), ["moon 5 connection refused"]);
        assert_eq!((faults.of(Some(LinkId(1))), faults.of(None)), (" on link moon to ipn:2.0".into(), String::new()));
        faults.forget(LinkId(1));
        assert_eq!(all(&faults), Vec::<String>::new());
    }

    #[test]
    fn ltp_errors_name_key_and_end() {
        let (mut faults, link) = (LinkFaults::default(), LinkId(1));
        let wrong = "LTP segment whose authentication is wrong";
        assert_eq!(faults.ltp(link, wrong, Instant(1)), None, "of no configured link");
        faults.name(link, "moon", "ipn:2.0", Some("key `links` of node.keys".into()));
        let said = faults.ltp(link, wrong, Instant(1)).unwrap();
        assert!(
            said.starts_with(" on link moon to ipn:2.0: it does not fit key `links` of node.keys\nhint: "),
            "{said}"
        );
        assert!(faults.ltp(link, LTP_SILENCE, Instant(2)).unwrap().contains(": the peer did not answer; "));
        assert_eq!(faults.ltp(link, "LTP segment cut short", Instant(3)), None);
        assert_eq!(faults.all().map(|(_, at, _)| at.0).collect::<Vec<_>>(), [2]);
        faults.recovered(link);
        assert_eq!(faults.all().count(), 0);
    }

    #[test]
    fn refusal_names_expected_and_found() {
        let ids = ["ipn:3.0".to_string()];
        let peer = RefusedPeer { claims: Some(NodeId(2)), certified: Some(&ids), shown: "certs/a.pem, of ipn:1.0" };
        let text = explain("the peer's certificate proves another node ID than it claims", peer).unwrap();
        assert!(text.starts_with(": it says it is ipn:2.0, its certificate is of ipn:3.0\nhint: "), "{text}");
        let text = explain("the peer refused this node: its TLS, certificate or node ID", peer).unwrap();
        assert!(text.contains("this node shows certs/a.pem, of ipn:1.0"), "{text}");
        assert_eq!(explain("a message of unknown type", peer), None);
        let many: Vec<String> = (1..1000).map(|node| format!("ipn:{node}.0")).collect();
        let text = explain("not the node this link leads to", RefusedPeer { certified: Some(&many), ..peer }).unwrap();
        assert!(text.contains("of ipn:1.0 ipn:2.0 ipn:3.0 ipn:4.0 and 995 more\n"), "{text}");
    }
}
