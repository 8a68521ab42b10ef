//! Types of blocks and records that a node file chooses: each type has one meaning.

use farlink_config::Reader;
use farlink_config::codes::{Chosen, report_clashes};
use farlink_stack::Config;

/// Reports types chosen twice.
pub fn distinct(top: &Reader<'_>, stack: &Config) {
    let (mut blocks, mut records): (Vec<Chosen>, Vec<Chosen>) = (Vec::new(), Vec::new());
    if let Some(custody) = &stack.custody {
        blocks.push(("transfer_block", "custody".into(), custody.codes.transfer_block));
        records.push(("signal_record", "custody".into(), custody.codes.custody_record));
    }
    if let Some(reports) = &stack.compressed {
        blocks.push(("block", "compressed_reports".into(), reports.block));
        records.push(("record", "compressed_reports".into(), reports.record));
    }
    let tunnel = |(index, codes): (usize, farlink_stack::TunnelCodes)| {
        let path = || format!("tunnel[{}]", index + 1);
        [("record", path(), codes.bundle), ("signal_record", path(), codes.signal)]
    };
    let tunnels: Vec<_> = stack.tunnels.iter().map(|tunnel| tunnel.codes).enumerate().map(tunnel).collect();
    report_clashes(top.errors, &blocks, &records, &tunnels);
}

#[cfg(test)]
mod tests {
    use crate::config::NodeConfig;
    use std::path::Path;

    #[test]
    fn a_type_is_of_one_thing() {
        let said = |text: &str| {
            let text = format!("node_ids = \"ipn:1.0\"\n[store]\ndir = \"s\"\n{text}");
            let found = NodeConfig::parse(&text, Path::new("n.toml"));
            found.err().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let tables = "[custody]\n[compressed_reports]\n[[tunnel]]\nend = \"ipn:2.0\"\n[[tunnel]]\nend = \"ipn:3.0\"\n";
        assert_eq!(said(tables), Vec::<String>::new());
        for (text, wanted) in [
            (
                "[custody]\ntransfer_block = 14\n[compressed_reports]\n",
                "n.toml:6: compressed_reports.block: 14 is the type",
            ),
            ("[custody]\n[compressed_reports]\nrecord = 13\n", "`custody.signal_record` names, too"),
            ("[custody]\n[[tunnel]]\nend = \"ipn:2.0\"\nrecord = 13\n", "n.toml:5: tunnel[1].record: 13 is the type"),
            ("[compressed_reports]\n[[tunnel]]\nend = \"ipn:2.0\"\nsignal_record = 14\n", "tunnel[1].signal_record"),
        ] {
            let found = said(text);
            assert!(found.len() == 1 && found[0].contains(wanted), "{text}: {found:?}");
        }
    }
}
