//! Terms of tunnels, shared by node files and scenarios.

use crate::custody::terms;
use crate::reader::Reader;
use farlink_base::{Duration, TUNNEL_TERMS, TunnelTerms};

/// Reads the terms of a tunnel, and reports contradictions.
pub fn tunnel(reader: &Reader<'_>) -> TunnelTerms {
    let terms = terms(reader, TUNNEL_TERMS);
    if terms.timeout < Duration::from_millis(1) {
        let why = "a timeout of at least 1 ms: every bundle would be sent again at once";
        reader.fail("timeout", why, "give e.g. \"60 s\"");
    }
    if terms.record == terms.signal_record {
        reader.fail("signal_record", "is the type of the record that carries bundles", "drafts have 3 and 4");
    }
    terms
}
