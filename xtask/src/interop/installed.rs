//! Implementations that no registry of ours has: the table says whether they are here, and where it is told how
//! to join them. Nothing of them is started.

use super::install;
use super::matrix::Row;

/// Name, a program of it, and the layers shared with us.
const KNOWN: [(&str, &str, &str); 4] = [
    ("ION", "ionstart", "LTP, STCP, UDPCL"),
    ("HDTN", "hdtn-one-process", "LTP, STCP, UDPCL, TCPCLv4"),
    ("µD3TN", "ud3tn", "MTCP"),
    ("dtn7-go", "dtn7-go", "MTCP"),
];

/// One row each.
pub fn trials() -> Vec<Row> {
    let row = |(name, program, layers): (&str, &str, &str)| {
        let why = match install::on_path(program) {
            Some(_) => format!("`{program}` is here; docs/how-to/interoperate.md joins it by hand"),
            None => format!("no `{program}` on this machine, and crates.io and PyPI do not have it"),
        };
        Row::left_out(name, layers, why)
    };
    KNOWN.map(row).into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_says_that_it_was_left_out_and_why() {
        for row in super::trials() {
            assert!(row.left_out && row.failed.is_none() && row.notes[0].contains('`'), "{}", row.peer);
        }
    }
}
