//! Block types and record types that a file may choose: each number may have only one meaning at a node.

use crate::errors::Errors;

/// Chosen type: its key, the path of its table, and its number.
pub type Chosen = (&'static str, String, u64);

/// Reports types that one node uses for two purposes. Records of different tunnels differ in their source, so the types
/// of a tunnel are compared with each other and with those of other records, but not with those of other tunnels.
pub fn report_clashes(errors: &Errors<'_>, blocks: &[Chosen], records: &[Chosen], tunnels: &[[Chosen; 2]]) {
    let report = |others: &[Chosen], (key, path, number): &Chosen, what: &str| {
        let Some((other, of, _)) = others.iter().find(|(.., taken)| taken == number) else { return };
        let said = format!("{number} is the type of the {what} that `{of}.{other}` names, too");
        let hint = "give each a type of its own; by default they have those of CCSDS 734.6-O-1 and the drafts";
        errors.at(&format!("{path}.{key}"), errors.beginning(path), said, hint);
    };
    for tunnel in tunnels {
        tunnel.iter().for_each(|one| report(records, one, "record"));
        report(&tunnel[..1], &tunnel[1], "record");
    }
    for (what, all) in [("block", blocks), ("record", records)] {
        (0..all.len()).for_each(|index| report(&all[..index], &all[index], what));
    }
}
