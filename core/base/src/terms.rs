//! Settings of custody, of compressed reports, of tunnels and of links, in tables for node files, scenarios, references
//! and the testbed, like [`crate::node`]. The patterns of endpoints that they apply to are configured beside them.

use crate::node::{DURATION, FLAG, Plain, Range, choice, count};
use crate::{Duration, LayerParam, LinkCrc};

/// Defines a struct of settings with their defaults, and a table of its fields.
macro_rules! terms {
    (
        $(#[$doc:meta])*
        $name:ident, $(#[$table_doc:meta])* $rows:ident;
        $($field:ident: $type:ty = $default:expr, $range:expr, $help:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name {
            $(#[doc = $help] pub $field: $type,)*
        }
        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }
        $(#[$table_doc])*
        pub const $rows: &[LayerParam<$name>] = &[$({
            let Range(unit, min, max) = $range;
            LayerParam {
                name: stringify!($field),
                help: $help,
                unit,
                min,
                max,
                get: |terms| terms.$field.value().unwrap_or_default(),
                set: |terms, value| terms.$field = Plain::of(value),
            }
        }),*];
    };
}

/// Range of block types that a node may configure.
const BLOCK: Range = count(13, 191);
/// Range of administrative record types that a node may configure.
const RECORD: Range = count(2, 64_999);
/// Range of the number of bundles that one signal may cover.
const GATHERED: Range = count(1, 100_000);

terms! {
    /// Settings of custody signals.
    CustodyTerms, /// Rows of [`CustodyTerms`].
    CUSTODY_TERMS;
    timeout: Duration = Duration::from_secs(30), DURATION,
        "How long a signal is waited for, besides the way there and back; doubles with each repetition.";
    timeout_max: Duration = Duration::from_secs(3600), DURATION, "The longest that a timeout becomes as it doubles.";
    aggregate: bool = true, FLAG,
        "Whether bundles of version 6 carry numbers, so that one signal is about many (CCSDS 734.2-B-1).";
    signal_delay: Duration = Duration::from_secs(1), DURATION, "How long such signals gather.";
    signal_bundles: u64 = 1000, GATHERED, "Bundles after which one leaves at once.";
    transfer_block: u64 = 13, BLOCK, "Type of the custody block of version 7 (CCSDS 734.6-O-1; drafts had 15).";
    signal_record: u64 = 13, RECORD, "Type of the custody signals of version 7 (CCSDS 734.6-O-1; drafts had 15).";
}

terms! {
    /// Settings of compressed reports.
    ReportTerms, /// Rows of [`ReportTerms`].
    REPORT_TERMS;
    delay: Duration = Duration::from_secs(10), DURATION, "How long reports gather.";
    bundles: u64 = 1000, GATHERED, "Bundles after which they leave at once.";
    block: u64 = 14, BLOCK, "Type of the block (CCSDS 734.6-O-1; drafts had 16).";
    record: u64 = 14, RECORD, "Type of the signals.";
}

terms! {
    /// Settings of a link that do not depend on its layer.
    LinkTerms, /// Rows of [`LinkTerms`].
    LINK_TERMS;
    crc: LinkCrc = LinkCrc::Node, choice(LinkCrc::WORDS),
        "CRC on the blocks of bundles made here that leave over it, except on the primary block, which keeps its own; \"node\": the node's `crc`.";
    crc_forwarded: bool = false, FLAG,
        "Whether bundles from elsewhere get it, too; otherwise their blocks leave as they came.";
}

/// Words for the values of `times`: `false` (DTN milliseconds) and `true` (Unix seconds).
const TIMES: &[&str] = &["dtn", "unix"];

terms! {
    /// Settings of a tunnel.
    TunnelTerms, /// Rows of [`TunnelTerms`].
    TUNNEL_TERMS;
    custody: bool = false, FLAG, "Whether they are kept here until the far end says that it has them.";
    timeout: Duration = Duration::from_secs(60), DURATION,
        "How long that is waited for, from when a bundle has left this node: the way there and back, and more; doubles with each repetition.";
    timeout_max: Duration = Duration::from_secs(3600), DURATION, "The longest that becomes.";
    bundles: u64 = 1000, count(1, 1_000_000), "Most bundles on their way in that have not left this node.";
    signal_delay: Duration = Duration::from_secs(1), DURATION, "How long answers to the far end gather.";
    signal_bundles: u64 = 1000, GATHERED, "Bundles after which they leave at once.";
    record: u64 = 3, RECORD, "Type of the record that carries a bundle: 3 in drafts, 7 in ION.";
    signal_record: u64 = 4, RECORD, "Type of the signals about them: 4 in drafts, 8 in ION.";
    times: bool = false, choice(TIMES),
        "How the time is written at which a bundle goes again: DTN milliseconds as in drafts, or \"unix\" seconds as in ION.";
}
