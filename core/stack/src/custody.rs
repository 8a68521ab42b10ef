//! Translation of custody signals between the agent and both versions of the bundle protocol.

use alloc::vec::Vec;
use farlink_base::{BundleMeta, Bytes, CustodyTerms, DtnTime, EndpointId, Facts, HopState, Malformed, Transfer};
use farlink_bpa::{About, Answer, CustodySettings, Numbers, Record, Signal};
use farlink_bundle::v7::custody::{self, Counter, NumberRun, Sequence, SignalEntry};
use farlink_bundle::{v6, v7};

/// Maximum length of a custody record that is read, bytes: a run of numbers takes two bytes there and many more in
/// memory.
pub(crate) const RECORD_MAX: usize = 64 << 10;

/// Custody at one node.
#[derive(Clone, PartialEq, Debug)]
pub struct CustodyConfig {
    /// Behaviour of the agent as a custodian.
    pub settings: CustodySettings,
    /// Type numbers of blocks and records in version 7 (CCSDS 734.6-O-1).
    pub codes: v7::CustodyCodes,
    /// Whether bundles of version 6 carry numbers, so that one signal can be about many (CCSDS 734.2-B-1).
    pub aggregate: bool,
}
impl CustodyConfig {
    /// Custody settings from these terms; the neighbours and bundles that they apply to are left empty.
    pub fn of(terms: &CustodyTerms) -> Self {
        let (transfer_block, custody_record) = (terms.transfer_block, terms.signal_record);
        let codes = v7::CustodyCodes { transfer_block, custody_record, ..v7::CustodyCodes::default() };
        CustodyConfig { settings: CustodySettings::of(terms), codes, aggregate: terms.aggregate }
    }
}
impl Default for CustodyConfig {
    fn default() -> Self {
        CustodyConfig { settings: CustodySettings::default(), codes: v7::CustodyCodes::default(), aggregate: true }
    }
}

/// Status flag and reason code of each answer in a custody signal (RFC 5050 6.1.2).
pub(crate) const REASONS: [(Answer, (bool, u8)); 8] = [
    (Answer::Taken, (true, 0)),
    (Answer::Refused, (false, 0)),
    (Answer::Redundant, (false, 3)),
    (Answer::Depleted, (false, 4)),
    (Answer::Unintelligible, (false, 5)),
    (Answer::NoRoute, (false, 6)),
    (Answer::NoContact, (false, 7)),
    (Answer::BadBlock, (false, 8)),
];
pub(crate) fn answer_of(succeeded: bool, reason: u8) -> Answer {
    if succeeded {
        return Answer::Taken;
    }
    let known = REASONS.iter().find(|(_, code)| *code == (false, reason));
    // An unknown reason is a refusal: a code of unknown meaning must not release custody.
    known.map_or(Answer::Refused, |(answer, _)| *answer)
}

/// A signal of version 6: about one bundle, or about many by their numbers.
pub(crate) fn v6_signal(signal: &Signal, at: Option<DtnTime>) -> Bytes {
    let (succeeded, reason) =
        REASONS.iter().find(|(answer, _)| *answer == signal.answer).map_or((false, 0), |(_, c)| *c);
    match &signal.about {
        About::One(subject) => {
            let (subject, time) = (subject.clone(), at.unwrap_or(DtnTime::UNKNOWN));
            v6::CustodySignal { succeeded, reason, time, subject }.encode()
        }
        About::Numbers(numbers) => {
            let fills = numbers.iter().map(|run| v6::CustodyFill { first: run.first, last: run.last }).collect();
            v6::AggregateSignal { succeeded, reason, fills }.encode()
        }
    }
}

/// Reads the custody signal in a record of version 6; `None`: the record is of another kind.
pub(crate) fn v6_record(record: &v6::ParsedRecord) -> Option<Record> {
    let signal = match record {
        v6::ParsedRecord::Custody(signal) => {
            Signal { answer: answer_of(signal.succeeded, signal.reason), about: About::One(signal.subject.clone()) }
        }
        v6::ParsedRecord::Aggregate(signal) => {
            let number = |fill: &v6::CustodyFill| Numbers {
                sequence: Transfer::COUNTER,
                destination: EndpointId::Null,
                first: fill.first,
                last: fill.last,
            };
            let numbers = signal.fills.iter().map(number).collect();
            Signal { answer: answer_of(signal.succeeded, signal.reason), about: About::Numbers(numbers) }
        }
        _ => return None,
    };
    Some(Record::Custody(Vec::from([signal])))
}
/// Whether a record of version 6 is a custody record too long to be read.
pub(crate) fn v6_too_long(payload: &[u8]) -> bool {
    payload.len() > RECORD_MAX && payload.first().is_some_and(|first| matches!(first >> 4, 2 | 4))
}

/// Encodes a signal of version 7. `None` if the signal names its bundle by identity, as version 7 has numbers only, or
/// if no record type is configured.
pub(crate) fn v7_signal(signal: &Signal, codes: &v7::CustodyCodes) -> Option<Bytes> {
    let About::Numbers(numbers) = &signal.about else { return None };
    if codes.custody_record == 0 {
        return None;
    }
    let mut of: Vec<Sequence> = Vec::new();
    for Numbers { sequence, destination, first, last } in numbers {
        let counter = match sequence {
            0 => Counter::To(destination.clone()),
            sequence => Counter::Number(*sequence),
        };
        let run = NumberRun { first: *first, last: *last };
        // Consecutive runs of one counter are joined in one sequence. The order of runs is kept.
        match of.last_mut().filter(|before| before.counter == counter) {
            Some(same) => same.runs.push(run),
            None => of.push(Sequence { counter, runs: Vec::from([run]), source: None }),
        }
    }
    let what = if signal.answer.releases() { custody::ACCEPTED } else { custody::REFUSED };
    Some(custody::put_signal(codes.custody_record, &[SignalEntry { code: what, sequences: of }]))
}

/// Reads the content of a compressed custody signal.
pub(crate) fn v7_record(content: &[u8]) -> Result<Record, Malformed> {
    let said = custody::read_signal(content)?;
    let answer = |what| match what {
        custody::ACCEPTED => Some(Answer::Taken),
        custody::REFUSED => Some(Answer::Refused),
        _ => None,
    };
    let numbers = |sequence: Sequence| {
        let (counter, destination) = match sequence.counter {
            Counter::Number(number) => (number, EndpointId::Null),
            Counter::To(destination) => (0, destination),
        };
        let run = move |run: NumberRun| Numbers {
            sequence: counter,
            destination: destination.clone(),
            first: run.first,
            last: run.last,
        };
        sequence.runs.into_iter().map(run)
    };
    let signal = |said: SignalEntry| {
        // A sequence with a source counts that node's numbers, not those of the node that receives the signal.
        let of = said.sequences.into_iter().filter(|sequence| sequence.source.is_none());
        let about = About::Numbers(of.flat_map(numbers).collect());
        Some(Signal { answer: answer(said.code)?, about })
    };
    Ok(Record::Custody(said.into_iter().filter_map(signal).collect()))
}

/// Copies the custodian and the number from the custody transfer block of a bundle of version 7 to its hop state.
pub(crate) fn v7_note(meta: &mut BundleMeta, hop: &mut HopState, codes: &v7::CustodyCodes) {
    // Type 0 stands for a block that the node ignores (see `reporting::codes`).
    if codes.transfer_block == 0 {
        return;
    }
    if let Some((custodian, transfer)) = custody::transfer(meta, codes.transfer_block) {
        // A fragment would carry the number of the whole bundle, so the bundle must not be fragmented.
        meta.facts.0 |= Facts::CUSTODY | Facts::NO_FRAGMENT;
        (hop.custodian, hop.transfer) = (custodian, Some(transfer.into()));
    }
}
/// Copy of the hop state whose custody transfer block has the configured type number; `None` if the agent gave the
/// bundle no custody number, or without `codes`.
pub(crate) fn v7_hop(hop: &HopState, codes: Option<&v7::CustodyCodes>) -> Option<HopState> {
    let (transfer, codes) = (hop.transfer.as_deref().copied()?, codes?);
    let transfer = Transfer { block: codes.transfer_block, ..transfer };
    Some(HopState { transfer: Some(transfer.into()), ..hop.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{BundleId, CreationTimestamp};

    const ANSWERS: [Answer; 8] = [
        Answer::Taken,
        Answer::Redundant,
        Answer::Depleted,
        Answer::Unintelligible,
        Answer::NoRoute,
        Answer::NoContact,
        Answer::BadBlock,
        Answer::Refused,
    ];
    fn run(sequence: u64, first: u64, last: u64) -> Numbers {
        Numbers { sequence, destination: EndpointId::Null, first, last }
    }

    #[test]
    fn v6_signals_round_trip() {
        let creation = CreationTimestamp { time: DtnTime(800_000_000_000), sequence: 4 };
        let id = |fragment| BundleId { source: EndpointId::ipn(1, 5), creation, fragment };
        let about = [
            About::One(id(None)),
            About::One(id(Some((3, 9)))),
            About::Numbers(Vec::from([run(1, 0, 0), run(1, 4, 90), run(1, 1 << 40, u64::MAX)])),
        ];
        for answer in ANSWERS {
            for about in about.clone() {
                let signal = Signal { answer, about };
                let wire = v6_signal(&signal, Some(DtnTime(900_000_000_000)));
                assert_eq!(v6_record(&v6::record(&wire).unwrap()), Some(Record::Custody(Vec::from([signal]))));
            }
        }
        let reserved = v6::AggregateSignal { succeeded: false, reason: 99, fills: Vec::new() };
        let Some(Record::Custody(said)) = v6_record(&v6::ParsedRecord::Aggregate(reserved)) else { panic!("a signal") };
        assert_eq!(said[0].answer, Answer::Refused, "a reason nobody knows releases nothing");
    }

    #[test]
    fn v7_signal_groups_numbers_by_counter() {
        let codes = v7::CustodyCodes { custody_record: 15, ..v7::CustodyCodes::default() };
        let to = Numbers { destination: EndpointId::ipn(9, 1), ..run(0, 7, 7) };
        let numbers = Vec::from([to, run(1, 2, 3), run(1, 5, 9), run(4, 0, u64::MAX - 1)]);
        for answer in ANSWERS {
            let signal = Signal { answer, about: About::Numbers(numbers.clone()) };
            let wire = v7_signal(&signal, &codes).unwrap();
            let Ok(v7::ParsedRecord::Other { kind: 15, content }) = v7::record(&wire) else { panic!("{wire:x?}") };
            let heard = if answer.releases() { Answer::Taken } else { Answer::Refused };
            let said = Signal { answer: heard, about: About::Numbers(numbers.clone()) };
            assert_eq!(v7_record(&content), Ok(Record::Custody(Vec::from([said]))));
        }
        let numbered = run(1, 3, 3);
        let of = [None, Some(EndpointId::ipn(7, 0))].map(|source| Sequence {
            counter: Counter::Number(1),
            runs: Vec::from([NumberRun { first: 3, last: 3 }]),
            source,
        });
        let wire = custody::put_signal(15, &[SignalEntry { code: custody::ACCEPTED, sequences: of.to_vec() }]);
        let Ok(v7::ParsedRecord::Other { content, .. }) = v7::record(&wire) else { panic!("{wire:x?}") };
        let Ok(Record::Custody(said)) = v7_record(&content) else { panic!("{content:x?}") };
        assert_eq!(said[0].about, About::Numbers(Vec::from([numbered])), "another node's is not ours");
        let creation = CreationTimestamp::default();
        let one = About::One(BundleId { source: EndpointId::ipn(1, 5), creation, fragment: None });
        assert_eq!(v7_signal(&Signal { answer: Answer::Taken, about: one }, &codes), None);
    }
}
