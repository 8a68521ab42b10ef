//! `[[quota]]`: shares of the nodes' stores that sources or neighbours may fill.

use crate::keys;
use crate::names::Names;
use crate::types::Node;
use farlink_config::Reader;
use farlink_config::quota::quota;

/// Gives each node the quotas that name it, or that name no node, in the order of the file.
pub fn quotas(top: &Reader<'_>, names: &Names, nodes: &mut [Node]) {
    for (path, table) in top.tables("quota") {
        let reader = Reader::checked(top.errors, &keys::QUOTA, &path, table);
        let quota = quota(&reader);
        names.of_nodes(&reader).into_iter().for_each(|index| nodes[index].quotas.push(quota.clone()));
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;
    use farlink_base::DataVolume;

    fn parse(text: &str) -> Result<Scenario, String> {
        let node = |name: &str, n: u8| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{n}.0\"\n");
        let nodes = [("a", 1), ("b", 2), ("c", 3)].map(|(name, n)| node(name, n)).concat();
        Scenario::parse(&format!("name = \"x\"\nduration = \"1 s\"\n{text}{nodes}"))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn quotas_reach_named_nodes_in_order() {
        // A node named twice gets the quota once.
        let of_b = "[[quota]]\nnodes = [\"b\", \"b\"]\nsources = [\"ipn:1.*\"]\nbytes = \"1 MB\"\n";
        let of_all = "[[quota]]\nneighbours = \"*\"\nshare = 20\nbundles = 7\n";
        let scenario = parse(&[of_b, of_all].concat()).unwrap();
        let quotas = |node: usize| scenario.nodes[node].quotas.clone();
        assert_eq!((quotas(0).len(), quotas(1).len(), quotas(2)), (1, 2, quotas(0)));
        let [own, all] = &quotas(1)[..] else { panic!("two") };
        assert_eq!((own.bytes_of(DataVolume(10_000_000)), own.bundles), (1_000_000, None));
        assert_eq!((all.bytes_of(DataVolume(10_000_000)), all.bundles), (2_000_000, Some(7)));
        assert!(parse("").unwrap().nodes.iter().all(|node| node.quotas.is_empty()));
    }

    #[test]
    fn invalid_quotas_are_errors() {
        // Keys of one quota, and a part of the message they must cause.
        for (keys, said) in [
            ("sources = \"ipn:1.*\"", "quota[1].bytes"),
            ("share = 20", "a quota is about somebody"),
            ("sources = \"ipn:1\"\nbundles = 2", "matches no endpoint"),
            ("sources = []\nbundles = 2", "names nobody"),
            ("sources = \"*\"\nneighbours = \"*\"\nbundles = 2", "a bundle counts once"),
            ("sources = \"*\"\nbundles = 2\nnodes = \"d\"", "`d` is none of `a`, `b`, `c`"),
            ("sources = \"*\"\nbundles = 2\nnodes = []", "names no node"),
            ("sources = \"*\"\nshare = 101", "101 is not between 1 and 100"),
            ("sources = \"*\"\nbyte = \"1 MB\"", "did you mean `bytes`"),
        ] {
            let found = parse(&format!("[[quota]]\n{keys}\n")).unwrap_err();
            assert!(found.contains(said), "{keys}: {found}");
        }
    }
}
