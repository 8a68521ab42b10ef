//! Translation of compressed reports between the agent and version 7 (CCSDS 734.6-O-1).

use alloc::vec::Vec;
use farlink_base::{BundleMeta, EndpointId, Payload, ReportTerms, Transfer};
use farlink_bpa::{Asked, CompressedSettings, Item, Numbers};
use farlink_bundle::v7::CustodyCodes;
use farlink_bundle::v7::custody::{self, Counter, NumberRun, ReportingBlock, Sequence, SignalEntry};

/// Compressed reporting at one node.
#[derive(Clone, PartialEq, Debug)]
pub struct CompressedConfig {
    /// Behaviour of the agent: which events it reports, and to whom.
    pub settings: CompressedSettings,
    /// Block type of the compressed reporting extension block.
    pub block: u64,
    /// Record type of compressed reporting signals.
    pub record: u64,
}
impl CompressedConfig {
    /// Reporting settings from these terms, without recipients.
    pub fn of(terms: &ReportTerms) -> Self {
        CompressedConfig { settings: CompressedSettings::of(terms), block: terms.block, record: terms.record }
    }
}
impl Default for CompressedConfig {
    fn default() -> Self {
        let ReportTerms { block, record, .. } = ReportTerms::default();
        CompressedConfig { settings: CompressedSettings::default(), block, record }
    }
}

/// Type numbers of blocks and records that the node processes; 0 stands for kinds that it ignores.
pub(crate) fn codes(custody: Option<CustodyCodes>, compressed: Option<&CompressedConfig>) -> Option<CustodyCodes> {
    if custody.is_none() && compressed.is_none() {
        return None;
    }
    let (transfer_block, custody_record) = custody.map_or((0, 0), |codes| (codes.transfer_block, codes.custody_record));
    let (reporting_block, reporting_record) = compressed.map_or((0, 0), |told| (told.block, told.record));
    Some(CustodyCodes { transfer_block, reporting_block, custody_record, reporting_record })
}

/// Type and content of the reporting block of a bundle made here, with this number and these requests.
pub(crate) fn block((number, asks): (u64, u64), codes: &CustodyCodes) -> (u64, ReportingBlock) {
    let block = ReportingBlock { number, sequence: Transfer::COUNTER, asks, source: None, report_to: None };
    (codes.reporting_block, block)
}

/// The compressed reports that a bundle's block requests; `None` without a block, or if this node ignores it.
pub(crate) fn asked(bundle: &BundleMeta, codes: &CustodyCodes) -> Option<Asked> {
    if codes.reporting_block == 0 {
        return None;
    }
    let ReportingBlock { number, sequence, asks, source, report_to } =
        custody::reporting(bundle, codes.reporting_block)?;
    let source = source.unwrap_or_else(|| bundle.source.clone());
    let report_to = report_to.unwrap_or_else(|| bundle.report_to().clone());
    Some(Asked { number, sequence, asks, source, report_to })
}

/// Encodes a compressed reporting signal, naming only sources that are not among `known`. `None` if this node has no
/// record type for it.
pub(crate) fn signal(said: &[(Item, Numbers)], known: &[&EndpointId], codes: &CustodyCodes) -> Option<Payload> {
    if codes.reporting_record == 0 {
        return None;
    }
    let mut all: Vec<SignalEntry> = Vec::new();
    for (item, Numbers { first, last, .. }) in said {
        let what = item.fate as i64;
        let counter = match item.sequence {
            0 => Counter::To(item.destination.clone()),
            sequence => Counter::Number(sequence),
        };
        let source = Some(item.source.clone()).filter(|source| !known.contains(&source));
        let run = NumberRun { first: *first, last: *last };
        if all.last().is_none_or(|before| before.code != what) {
            all.push(SignalEntry { code: what, sequences: Vec::new() });
        }
        let Some(said) = all.last_mut() else { continue };
        match said.sequences.last_mut().filter(|before| before.counter == counter && before.source == source) {
            Some(same) => same.runs.push(run),
            None => said.sequences.push(Sequence { counter, runs: Vec::from([run]), source }),
        }
    }
    Some(Payload::from(custody::put_signal(codes.reporting_record, &all)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_bpa::Fate;
    use farlink_bundle::v7;

    #[test]
    fn compressed_report_matches_standard() {
        let codes = codes(None, Some(&CompressedConfig::default())).unwrap();
        let (me, to, other) = (EndpointId::ipn(3, 0), EndpointId::ipn(1, 0), EndpointId::ipn(1, 7));
        let item = |fate, sequence, source: &EndpointId| {
            let destination = if sequence == 0 { EndpointId::ipn(9, 1) } else { EndpointId::Null };
            Item { fate, sequence, destination, source: source.clone() }
        };
        let numbers = |first, last| Numbers { sequence: 0, destination: EndpointId::Null, first, last };
        let said = [
            (item(Fate::Received, 1, &to), numbers(5, 6)),
            (item(Fate::Received, 1, &to), numbers(9, 9)),
            (item(Fate::Received, 1, &other), numbers(2, u64::MAX - 1)),
            (item(Fate::CustodyRefused, 0, &to), numbers(0, 0)),
        ];
        let wire = signal(&said, &[&to, &me], &codes).unwrap().to_bytes().unwrap();
        let Ok(v7::ParsedRecord::Other { kind: 14, content }) = v7::record(&wire) else { panic!("{wire:x?}") };
        let run = |first, last| NumberRun { first, last };
        let sequence = |counter, runs: &[NumberRun], source| Sequence { counter, runs: runs.to_vec(), source };
        let number = || Counter::Number(1);
        let received = Vec::from([
            sequence(number(), &[run(5, 6), run(9, 9)], None),
            sequence(number(), &[run(2, u64::MAX - 1)], Some(other)),
        ]);
        let refused = Vec::from([sequence(Counter::To(EndpointId::ipn(9, 1)), &[run(0, 0)], None)]);
        let expected = [SignalEntry { code: 0, sequences: received }, SignalEntry { code: 5, sequences: refused }];
        assert_eq!(custody::read_signal(&content).unwrap(), expected);
    }

    #[test]
    fn unconfigured_codes_are_ignored() {
        assert_eq!(codes(None, None), None);
        let custody = codes(Some(CustodyCodes::default()), None).unwrap();
        assert_eq!((custody.transfer_block, custody.reporting_block, custody.reporting_record), (13, 0, 0));
        assert_eq!(signal(&[], &[], &custody), None);
        let reporting = codes(None, Some(&CompressedConfig::default())).unwrap();
        assert_eq!((reporting.transfer_block, reporting.custody_record, reporting.reporting_block), (0, 0, 14));
    }
}
