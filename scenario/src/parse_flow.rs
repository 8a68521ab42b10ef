//! `[[flow]]`, and links that share a bottleneck.

use crate::flow::{Flow, FlowTransport};
use crate::keys_flow::FLOW;
use crate::names::Names;
use crate::types::Scenario;
use farlink_base::DataVolume;
use farlink_config::Reader;
use farlink_link::Rate;
use std::collections::{BTreeMap, BTreeSet};

/// First port given to flows; ports of links are left out.
const FIRST_PORT: u16 = 20_000;
/// Most flows: each has a port of its own.
const MOST: usize = 10_000;
/// Payload bytes of a datagram: at least 8, for its sequence number; at most what UDP over IPv4 can carry.
const DATAGRAM: std::ops::RangeInclusive<u64> = 8..=65_507;

pub fn flows(top: &Reader<'_>, scenario: &Scenario, nodes: &Names) -> Vec<Flow> {
    let taken: BTreeSet<u16> = scenario.links.iter().map(|link| link.port).collect();
    let mut ports = (FIRST_PORT..=u16::MAX).filter(|port| !taken.contains(port));
    let (mut list, mut names) = (Vec::new(), Names::default());
    for (path, table) in top.tables("flow") {
        Reader::check_keys(top.errors, &path, table, &[&FLOW]);
        let reader = Reader::new(top.errors, &FLOW, vec![(path, table)]);
        let Some(mut flow) = flow(&reader, scenario, nodes) else { continue };
        if !names.add(&flow.name) {
            reader.fail("name", format!("a second flow called `{}`", flow.name), "give each its own `name`");
        }
        flow.port = ports.next().unwrap_or_default();
        list.push(flow);
    }
    if list.len() > MOST {
        top.fail("flow", format!("{} flows", list.len()), format!("at most {MOST} have ports of their own"));
    }
    list
}

fn flow(reader: &Reader<'_>, scenario: &Scenario, nodes: &Names) -> Option<Flow> {
    let (name, from, to) =
        (reader.name("name"), nodes.named(reader, "from", "node"), nodes.named(reader, "to", "node"));
    let transport = [FlowTransport::Tcp, FlowTransport::Udp][reader.choice("transport").unwrap_or(0)];
    let rate = reader.rate("rate");
    if transport == FlowTransport::Udp && rate.is_none() && !reader.given("rate") {
        reader.fail("rate", "UDP has no rate of its own", "write how fast it sends, e.g. `rate = \"2 Mbit/s\"`");
    }
    let datagram_bytes = reader.volume("datagram").map_or(1400, DataVolume::bytes);
    if !DATAGRAM.contains(&datagram_bytes) {
        let (least, most) = (DATAGRAM.start(), DATAGRAM.end());
        let found = format!("{datagram_bytes} B is not between {least} B and {most} B");
        reader.fail("datagram", found, "1400 B suits most links");
    }
    if transport == FlowTransport::Tcp && reader.given("datagram") {
        reader.fail("datagram", "TCP is a stream", "take it out, or write `transport = \"udp\"`");
    }
    let start = reader.duration("start").unwrap_or_default();
    let stop = reader.duration("stop").unwrap_or(scenario.duration).min(scenario.duration);
    if start >= stop && !scenario.duration.is_zero() {
        reader.fail(
            "stop",
            "a flow ends after it begins, within the run",
            "write a later `stop`, or an earlier `start`",
        );
    }
    let (from, to) = (from?, to?);
    if from == to {
        reader.fail("to", "a flow goes from one node to another", "name another node");
        return None;
    }
    let Some(path) = scenario.shortest_path(from, to) else {
        let found = format!("no links lead from `{}` to `{}`", nodes.at(from), nodes.at(to));
        reader.fail("to", found, "flows need [[link]]s all the way; links of radios carry none");
        return None;
    };
    let name = name.unwrap_or_else(|| format!("{}-to-{}-{}", nodes.at(from), nodes.at(to), transport.name()));
    Some(Flow { name, from, to, transport, rate, datagram_bytes, start, stop, port: 0, path })
}

/// Checks that links of one bottleneck agree about its transmitters.
pub fn check_shares(top: &Reader<'_>, scenario: &Scenario) {
    let mut shares: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, link) in scenario.links.iter().enumerate() {
        link.shares.iter().for_each(|share| shares.entry(share).or_default().push(index));
    }
    for (share, links) in shares {
        let (first, rest) = links.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
        let one = &scenario.links[first];
        if rest.is_empty() {
            let hint = "give another link the same word, or take it out";
            top.fail("link", format!("link `{}` shares `{share}` with no other link", one.name), hint);
        }
        if [&one.forward, &one.reverse].into_iter().any(|direction| direction.rate == Rate::Unlimited) {
            let hint = "a bottleneck needs a `rate` in both directions";
            top.fail("link", format!("link `{}` shares `{share}` and has no rate", one.name), hint);
        }
        for other in rest.iter().map(|link| &scenario.links[*link]) {
            let same = |a: &farlink_link::DirectionSpec, b: &farlink_link::DirectionSpec| {
                a.rate == b.rate && a.queue == b.queue
            };
            if !(same(&one.forward, &other.forward) && same(&one.reverse, &other.reverse)) {
                let found =
                    format!("links `{}` and `{}` share `{share}` and differ in rate or queue", one.name, other.name);
                top.fail("link", found, "give both the same `rate` and `queue`, e.g. in [link_defaults]");
            }
        }
        let own_rate = scenario.contacts.iter().find(|contact| contact.rate.is_some() && links.contains(&contact.link));
        if let Some(contact) = own_rate {
            let name = &scenario.links[contact.link].name;
            let found = format!("a contact of link `{name}`, which shares `{share}`, has a rate of its own");
            top.fail("contact", found, "take the contact's `rate` out: all links of a bottleneck have its rate");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\n\
        name = \"b\"\nid = \"ipn:2.0\"\n[[node]]\nname = \"c\"\nid = \"ipn:3.0\"\n[link_defaults]\nlayer = \"ltp\"\n\
        rate = \"1 Mbit/s\"\n[[link]]\nname = \"ab\"\nbetween = [\"a\", \"b\"]\n";

    fn parse(text: &str) -> Result<Scenario, String> {
        Scenario::parse(&format!("{BASE}{text}"))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }
    #[track_caller]
    fn refused(text: &str, part: &str) {
        let why = parse(text).unwrap_err();
        assert!(why.contains(part) && why.contains("hint: "), "{why}");
    }
    const TO_C: &str = "[[link]]\nname = \"bc\"\nbetween = [\"b\", \"c\"]\n";

    #[test]
    fn flow_takes_defaults_and_a_free_port() {
        let text = "port = 20000\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n[[flow]]\nfrom = \"b\"\nto = \"a\"\n\
            transport = \"udp\"\nrate = \"2 Mbit/s\"\nstart = \"1 s\"\nstop = \"5 s\"\n";
        let scenario = parse(text).unwrap();
        let [tcp, udp] = &scenario.flows[..] else { panic!("{:?}", scenario.flows) };
        assert_eq!((&tcp.name[..], tcp.port, tcp.rate), ("a-to-b-tcp", 20_001, None));
        assert_eq!((tcp.start.as_secs(), tcp.stop.as_secs()), (0, 9));
        assert_eq!((udp.port, udp.datagram_bytes, udp.stop.as_secs()), (20_002, 1400, 5));
        assert!(!udp.path[0].forward);
    }

    #[test]
    fn mistakes_of_flows_are_named() {
        let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
        refused("[[flow]]\nfrom = \"a\"\nto = \"a\"\n", "from one node to another");
        refused("[[flow]]\nfrom = \"a\"\nto = \"c\"\n", "no links lead from `a` to `c`");
        refused(&format!("{flow}transport = \"udp\"\n"), "UDP has no rate");
        refused(&format!("{flow}transport = \"udp\"\nrate = \"1 Mbit/s\"\ndatagram = \"4 B\"\n"), "4 B is not between");
        refused(&format!("{flow}datagram = \"100 B\"\n"), "TCP is a stream");
        refused(&format!("{flow}start = \"9 s\"\n"), "ends after it begins");
        refused(&format!("{flow}{flow}"), "a second flow called");
    }

    #[test]
    fn links_of_a_bottleneck_agree_on_its_rate() {
        let both = |more: &str| format!("shares = \"up\"\n{TO_C}shares = \"up\"\n{more}");
        assert_eq!(parse(&both("")).unwrap().links[1].shares.as_deref(), Some("up"));
        refused("shares = \"up\"\n", "with no other link");
        refused("shares = \"<b>\"\n", "1 to 64 letters");
        refused(&both("rate = \"2 Mbit/s\"\n"), "differ in rate or queue");
        refused(&both("queue = \"9 kB\"\n"), "differ in rate or queue");
        refused(&format!("rate = \"unlimited\"\n{}rate = \"unlimited\"\n", both("")), "has no rate");
        let contact = "[[contact]]\nlink = \"bc\"\nstart = \"0 s\"\nend = \"5 s\"\n";
        assert!(parse(&both(contact)).is_ok());
        refused(&both(&format!("{contact}rate = \"3 Mbit/s\"\n")), "a rate of its own");
    }

    #[test]
    fn captures_have_names_not_paths() {
        let capture = |text: &str| parse(text).map(|scenario| scenario.links[0].capture.clone());
        assert_eq!(capture("capture = true\n").unwrap().as_deref(), Some("ab"));
        assert_eq!(capture("capture = \"wire.pcapng\"\n").unwrap().as_deref(), Some("wire"));
        assert_eq!(capture("capture = false\n").unwrap(), None);
        refused("capture = \"../wire\"\n", "is not made of letters");
        refused("capture = 3\n", "expected true or the name of a file");
        refused(&format!("capture = true\n{TO_C}capture = \"ab\"\n"), "a second capture");
    }

    #[test]
    fn captures_are_bounded_in_number() {
        let captured = |number| format!("[[link]]\nname = \"l{number}\"\nbetween = [\"b\", \"c\"]\ncapture = true\n");
        let many = |count: usize| (0..count).map(captured).collect::<String>();
        assert!(parse(&many(256)).is_ok());
        refused(&many(257), "more than 256 captures");
    }
}
