//! `[[tunnel]]`: bundles that travel inside other bundles.

use crate::keys;
use crate::names::Names;
use crate::types::{Node, Tunnel};
use farlink_base::EndpointId;
use farlink_config::tunnel::tunnel;
use farlink_config::{Reader, choose};

/// Gives each node the tunnels that begin or end there: at most one to each other node.
pub fn tunnels(top: &Reader<'_>, names: &Names, nodes: &mut [Node]) {
    for (path, table) in top.tables("tunnel") {
        let reader = Reader::checked(top.errors, &keys::TUNNEL, &path, table);
        let words = || names.list().collect::<Vec<_>>();
        let place = |name: &str| names.place(name).map_or_else(|| choose(name, &words()), Ok);
        let of = |key: &str| reader.custom(key, |input| place(input.text()?));
        let to = reader.custom("to", |input| {
            let texts = input.texts()?;
            match texts.iter().find(|text| !EndpointId::is_pattern(text)) {
                Some(text) => Err(format!("`{text}` matches no endpoint: write `ipn:5.*`, `dtn://node/` or `*`")),
                None => Ok(texts),
            }
        });
        let terms = tunnel(&reader);
        let (Some(from), Some(end), Some(to)) = (of("from"), of("end"), to) else { continue };
        if from == end {
            reader.fail("end", "another node than `from`", "a tunnel leads from one node to another");
            continue;
        }
        // An implied end has no destinations, and does not count as a second tunnel.
        if nodes[from].tunnels.iter().any(|tunnel| tunnel.end == end && !tunnel.to.is_empty()) {
            reader.fail("end", "one tunnel from a node to another", "join the two: `to` is a list");
        }
        put(&mut nodes[from], Tunnel { end, to, terms });
        put(&mut nodes[end], Tunnel { end: from, to: Vec::new(), terms });
    }
}

fn put(node: &mut Node, tunnel: Tunnel) {
    // A table describes the tunnel from one end and implies its other end, which only unpacks bundles. A table that
    // describes the tunnel from that other end replaces the implied one, whichever comes first in the file.
    match node.tunnels.iter_mut().find(|there| there.end == tunnel.end) {
        None => node.tunnels.push(tunnel),
        Some(there) if there.to.is_empty() => *there = tunnel,
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    fn parse(tunnels: &str) -> Result<Scenario, String> {
        let node = |name: &str, n: u8| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{n}.0\"\n");
        let nodes = [("a", 1), ("b", 2), ("c", 3)].map(|(name, n)| node(name, n)).concat();
        Scenario::parse(&format!("name = \"x\"\nduration = \"1 s\"\n{nodes}{tunnels}"))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }
    const THERE: &str = "[[tunnel]]\nfrom = \"a\"\nend = \"c\"\nto = [\"ipn:9.*\"]\ncustody = true\n";
    const BACK: &str = "[[tunnel]]\nfrom = \"c\"\nend = \"a\"\nto = [\"ipn:8.*\"]\n";

    #[test]
    fn both_ends_have_the_tunnel() {
        for text in [[THERE, BACK].concat(), [BACK, THERE].concat()] {
            let scenario = parse(&text).unwrap();
            let tunnels = |node: usize| scenario.nodes[node].tunnels.clone();
            assert_eq!((tunnels(0).len(), tunnels(1).len(), tunnels(2).len()), (1, 0, 1));
            assert_eq!(
                (tunnels(0)[0].end, &tunnels(0)[0].to[0][..], tunnels(0)[0].terms.custody),
                (2, "ipn:9.*", true)
            );
            assert_eq!(
                (tunnels(2)[0].end, &tunnels(2)[0].to[0][..], tunnels(2)[0].terms.custody),
                (0, "ipn:8.*", false)
            );
        }
        // The far end of a tunnel with one table only unpacks bundles.
        assert!(parse(THERE).unwrap().nodes[2].tunnels[0].to.is_empty(), "nothing goes in there");
    }

    #[test]
    fn invalid_tunnels_are_errors() {
        // One mistake each: an unknown end, a tunnel to itself, a pattern that matches nothing, no time, a second
        // tunnel.
        let with = |text: &str| parse(&format!("[[tunnel]]\n{text}\n")).unwrap_err();
        assert!(with("from = \"a\"\nend = \"d\"\nto = [\"*\"]").contains("tunnel[1].end"));
        assert!(with("from = \"a\"\nend = \"a\"\nto = [\"*\"]").contains("another node"));
        assert!(with("from = \"a\"\nend = \"c\"\nto = [\"ipn:9\"]").contains("matches no endpoint"));
        assert!(with("from = \"a\"\nend = \"c\"\nto = [\"*\"]\ntimeout = \"0 s\"").contains("at least 1 ms"));
        assert!(parse(&[THERE, THERE].concat()).unwrap_err().contains("one tunnel from a node"));
    }
}
