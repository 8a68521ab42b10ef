//! Types of blocks and records that a file may choose: each type has one meaning.

use farlink_config::Reader;
use farlink_stack::Config;

/// Chosen type: key, path of its table, number.
type Chosen = (&'static str, String, u64);

/// Reports types chosen twice.
pub fn distinct(top: &Reader<'_>, stack: &Config) {
    let (mut blocks, mut records): (Vec<Chosen>, Vec<Chosen>) = (Vec::new(), Vec::new());
    if let Some(custody) = &stack.custody {
        blocks.push(("transfer_block", "custody".into(), custody.codes.transfer_block));
        records.push(("signal_record", "custody".into(), custody.codes.custody_record));
    }
    if let Some(told) = &stack.compressed {
        blocks.push(("block", "compressed_reports".into(), told.block));
        records.push(("record", "compressed_reports".into(), told.record));
    }
    for (index, tunnel) in stack.tunnels.iter().enumerate() {
        let path = || format!("tunnel[{}]", index + 1);
        // Records of different tunnels are distinguished by their source.
        let own = [("record", path(), tunnel.codes.bundle), ("signal_record", path(), tunnel.codes.signal)];
        own.iter().for_each(|one| apart(top, &records, one, "record"));
    }
    for (what, all) in [("block", &blocks), ("record", &records)] {
        for (index, one) in all.iter().enumerate() {
            apart(top, &all[..index], one, what);
        }
    }
}

/// Reports a type that is already among the others.
fn apart(top: &Reader<'_>, others: &[Chosen], (key, path, number): &Chosen, what: &str) {
    if let Some((other, of, _)) = others.iter().find(|(.., taken)| taken == number) {
        let said = format!("{number} is the type of the {what} that `{of}.{other}` names, too");
        let hint = "give each a type of its own; without a word, they have those of CCSDS 734.6-O-1 and the drafts";
        top.errors.at(&format!("{path}.{key}"), top.errors.beginning(path), said, hint);
    }
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
