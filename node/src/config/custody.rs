//! Custody settings: sources, bundles, duration.

use super::keys;
use farlink_base::DataVolume;
use farlink_config::Reader;
use farlink_config::custody::patterns;
use farlink_stack::{CustodyConfig, CustodySettings};

/// Reads `[custody]`, if present. By default, bundles in custody may fill half of the store.
pub fn custody(top: &Reader<'_>, capacity: DataVolume, durable: bool, copies: bool) -> Option<CustodyConfig> {
    let table = top.table("custody", &keys::CUSTODY)?;
    if copies {
        let hint = "use a router that gives a bundle to one neighbour, as `sabr` or `static`, or take [custody] out";
        top.fail("custody", "cannot be had with copies: of copies there is no single custodian", hint);
    }
    let request = patterns(&table, "request").unwrap_or_default();
    if !request.is_empty() && !durable {
        table.fail("request", "custody is only of what is kept through a restart", "give the store a `dir`");
    }
    let rules = farlink_config::custody::custody(&table);
    if rules.terms.timeout.is_zero() {
        table.fail("timeout", "every bundle would be sent again at once", "give e.g. \"30 s\"");
    }
    let mut config = CustodyConfig::of(&rules.terms);
    let bytes = rules.capacity.map_or(capacity.bytes() / 2, DataVolume::bytes);
    config.settings = CustodySettings { from: rules.from, to: rules.to, request, bytes, ..config.settings };
    Some(config)
}

/// Returns whether this router or congestion control copies bundles.
pub fn copies(router: &str, control: &str) -> bool {
    let router = farlink_routing::make_router(router, &[], &[], 0);
    let control = farlink_congestion::make_control(control, &[], 0);
    router.is_ok_and(|router| router.copies()) || control.is_ok_and(|control| control.wishes())
}

#[cfg(test)]
mod tests {
    use crate::config::NodeConfig;
    use std::path::Path;

    fn parse(text: &str) -> Result<NodeConfig, String> {
        let text = format!("node_ids = \"ipn:1.0\"\n{text}");
        NodeConfig::parse(&text, Path::new("n.toml"))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn custody_needs_its_table() {
        assert!(parse("").unwrap().stack.custody.is_none());
        let custody = parse("[store]\ndir = \"s\"\ncapacity = \"1 MB\"\n[custody]\n").unwrap().stack.custody.unwrap();
        let settings = &custody.settings;
        assert_eq!(
            (&settings.from[..], &settings.to[..], settings.request.len()),
            (&["*".into()][..], &["*".into()][..], 0)
        );
        assert_eq!((settings.bytes, custody.aggregate, custody.codes), (500_000, true, Default::default()));
        assert_eq!(settings.timeout, farlink_stack::CustodySettings::default().timeout, "as the stack's own");
    }

    #[test]
    fn impossible_custody_names_line() {
        let copies = parse("[router]\nname = \"epidemic\"\n[custody]\n").unwrap_err();
        assert!(copies.contains("custody: cannot be had with copies"), "{copies}");
        let memory = parse("[custody]\nrequest = [\"ipn:9.*\"]\n").unwrap_err();
        assert!(memory.contains("n.toml:3: custody.request: custody is only of what is kept"), "{memory}");
        let pattern = parse("[custody]\nto = [\"ipn:9\"]\n").unwrap_err();
        assert!(pattern.contains("n.toml:3: custody.to: `ipn:9` matches no endpoint"), "{pattern}");
        let never = parse("[custody]\ntimeout = \"0 s\"\n").unwrap_err();
        assert!(never.contains("sent again at once"), "{never}");
    }
}
