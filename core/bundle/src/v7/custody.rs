//! Custody transfer and compressed reporting (CCSDS 734.6-O-1): the custody transfer extension block, the compressed
//! reporting extension block, and the common content of both signals: ranges of bundle numbers.
//!
//! Block and record types are the caller's configuration, since drafts differ.

use crate::cbor::{ARRAY, CborReader, UINT, put_head, put_uint};
use crate::eid_wire::EidCodec;
use crate::fields::read_block_start;
use crate::{AdministrativeRecord, CrcType, EndpointId, Profile};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Bytes, Malformed, Transfer};

/// CBOR major types used by compressed signals only.
const NEGATIVE: u8 = 1;
const MAP: u8 = 5;
/// Maximum number of run lengths in one sequence, and of sequences for one code. Each takes at least a byte, and this
/// node writes no record of that length.
const RUNS_MAX: u64 = 1 << 16;
/// Maximum number of event codes in one signal; checking for repeated codes takes quadratic time.
const KINDS_MAX: u64 = 256;

/// Type codes of the blocks and records on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CustodyCodes {
    /// Block type of the custody transfer extension block.
    pub transfer_block: u64,
    /// Block type of the compressed reporting extension block.
    pub reporting_block: u64,
    /// Record type of compressed custody signals.
    pub custody_record: u64,
    /// Record type of compressed reporting signals.
    pub reporting_record: u64,
}
impl Default for CustodyCodes {
    fn default() -> Self {
        CustodyCodes { transfer_block: 13, reporting_block: 14, custody_record: 13, reporting_record: 14 }
    }
}

/// Content of a custody transfer extension block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransferBlock {
    /// Number assigned by the custodian.
    pub number: u64,
    /// Counter that assigned the number; 0: a counter per destination.
    pub sequence: u64,
    /// Node that has custody.
    pub custodian: EndpointId,
}
impl TransferBlock {
    /// Decodes the data of a block; `None` if it is malformed.
    pub fn decode(data: &[u8]) -> Option<TransferBlock> {
        let mut reader = CborReader::new(data, 0, false);
        let read = reader.list_of(3, "", |reader| {
            let (number, sequence) = (reader.uint()?, reader.uint()?);
            Ok(TransferBlock { number, sequence, custodian: EndpointId::read(reader, Profile::Permissive)? })
        });
        read.ok().filter(|_| reader.is_at_end())
    }
    /// Encodes the data of the block.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        put_head(&mut out, ARRAY, 3);
        put_uint(&mut out, self.number);
        put_uint(&mut out, self.sequence);
        self.custodian.encode(&mut out);
        out
    }
}

/// Events that a compressed reporting extension block requests, as flags.
pub mod asks {
    /// Reception of the bundle.
    pub const RECEPTION: u64 = 1;
    /// Forwarding of the bundle.
    pub const FORWARDING: u64 = 2;
    /// Delivery of the bundle.
    pub const DELIVERY: u64 = 4;
    /// Deletion of the bundle.
    pub const DELETION: u64 = 8;
    /// Acceptance of custody.
    pub const ACCEPTED: u64 = 0x10;
    /// Refusal of custody.
    pub const REFUSED: u64 = 0x20;
}

/// Content of a compressed reporting extension block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReportingBlock {
    /// Number assigned by the bundle's source.
    pub number: u64,
    /// Counter that assigned the number; 0: a counter per destination.
    pub sequence: u64,
    /// Requested events ([`asks`]).
    pub asks: u64,
    /// Node that added the block, if not the bundle's source.
    pub source: Option<EndpointId>,
    /// Recipient of the reports, if not the bundle's report-to endpoint.
    pub report_to: Option<EndpointId>,
}
impl ReportingBlock {
    /// Decodes the data of a block; `None` if it is malformed.
    pub fn decode(data: &[u8]) -> Option<ReportingBlock> {
        let mut reader = CborReader::new(data, 0, false);
        let read = reader.list(|reader, items| {
            if !(1..=5).contains(&items) {
                return reader.error("a reporting block is an array of one to five items");
            }
            let mut block = ReportingBlock { number: reader.uint()?, ..ReportingBlock::default() };
            if items > 1 {
                block.sequence = reader.uint()?;
            }
            if items > 2 {
                block.asks = reader.uint()?;
            }
            if items > 3 {
                block.source = Some(EndpointId::read(reader, Profile::Permissive)?);
            }
            if items > 4 {
                block.report_to = Some(EndpointId::read(reader, Profile::Permissive)?);
            }
            Ok(block)
        });
        read.ok().filter(|_| reader.is_at_end())
    }
    /// Encodes the data of the block, without trailing defaults.
    pub fn encode(&self) -> Vec<u8> {
        let items = match self {
            ReportingBlock { report_to: Some(_), source: Some(_), .. } => 5,
            ReportingBlock { source: Some(_), .. } => 4,
            ReportingBlock { asks: 1.., .. } => 3,
            ReportingBlock { sequence: 1.., .. } => 2,
            _ => 1,
        };
        let mut out = Vec::with_capacity(32);
        put_head(&mut out, ARRAY, items);
        for number in [self.number, self.sequence, self.asks].into_iter().take(items as usize) {
            put_uint(&mut out, number);
        }
        for endpoint in [&self.source, &self.report_to].into_iter().take(items.saturating_sub(3) as usize).flatten() {
            endpoint.encode(&mut out);
        }
        out
    }
}

/// Counter of a sequence of numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Counter {
    /// Numbered counter of the signal's recipient; never 0.
    Number(u64),
    /// The recipient's counter for this destination.
    To(EndpointId),
}

/// Range of consecutive numbers. Never iterate over one: a single range may cover all numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumberRun {
    /// First number of the range.
    pub first: u64,
    /// Last number of the range.
    pub last: u64,
}

/// Ranges of numbers of one counter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sequence {
    /// Counter of the numbers.
    pub counter: Counter,
    /// Ranges, lowest first and disjoint.
    pub runs: Vec<NumberRun>,
    /// Node that added the reporting block, if not the signal's recipient.
    pub source: Option<EndpointId>,
}
impl Sequence {
    fn read(reader: &mut CborReader<'_>) -> Result<Sequence, Malformed> {
        reader.list(|reader, items| {
            if items != 3 && items != 4 {
                return reader.error("a bundle sequence is an array of three or four items");
            }
            let counter = match reader.peek().map(|byte| byte >> 5) {
                Some(UINT) => Counter::Number(reader.uint()?),
                _ => Counter::To(EndpointId::read(reader, Profile::Permissive)?),
            };
            let first = reader.uint()?;
            let runs = read_runs(reader, first)?;
            let source = if items == 4 { Some(EndpointId::read(reader, Profile::Permissive)?) } else { None };
            Ok(Sequence { counter, runs, source })
        })
    }
    fn encode(&self, out: &mut Vec<u8>) {
        put_head(out, ARRAY, 3 + u64::from(self.source.is_some()));
        match &self.counter {
            Counter::Number(number) => put_uint(out, *number),
            Counter::To(destination) => destination.encode(out),
        }
        let runs = &self.runs[..];
        put_uint(out, runs.first().map_or(0, |run| run.first));
        if let [run] = runs {
            put_uint(out, len_of(*run));
        } else {
            put_head(out, ARRAY, (2 * runs.len() as u64).saturating_sub(1));
            for (at, run) in runs.iter().enumerate() {
                if let Some(before) = at.checked_sub(1).and_then(|before| runs.get(before)) {
                    put_uint(out, run.first.saturating_sub(before.last).saturating_sub(1));
                }
                put_uint(out, len_of(*run));
            }
        }
        if let Some(source) = &self.source {
            source.encode(out);
        }
    }
}
fn len_of(run: NumberRun) -> u64 {
    run.last.saturating_sub(run.first).saturating_add(1)
}

/// Reads the lengths of ranges: one count, or an array of alternating run and gap lengths.
fn read_runs(reader: &mut CborReader<'_>, first: u64) -> Result<Vec<NumberRun>, Malformed> {
    let run =
        |reader: &CborReader<'_>, first: u64, len: u64| match len.checked_sub(1).and_then(|n| first.checked_add(n)) {
            Some(last) => Ok(NumberRun { first, last }),
            None => reader.error("a range that is empty or goes beyond 64 bits"),
        };
    if reader.peek().is_some_and(|byte| byte >> 5 == UINT) {
        let len = reader.uint()?;
        return Ok(Vec::from([run(reader, first, len)?]));
    }
    reader.list(|reader, items| {
        // Ranges and gaps alternate, beginning and ending with a range.
        if items % 2 == 0 || items > RUNS_MAX {
            return reader.error("lengths of ranges and gaps begin and end with a range");
        }
        let mut runs: Vec<NumberRun> = Vec::new();
        let mut next = Some(first);
        for at in 0..items {
            let len = reader.uint()?;
            let Some(from) = next else { return reader.error("a range beyond 64 bits") };
            if at % 2 == 0 {
                let run = run(reader, from, len)?;
                runs.push(run);
                next = run.last.checked_add(1);
            } else if len == 0 {
                return reader.error("an empty gap between ranges");
            } else {
                next = from.checked_add(len);
            }
        }
        Ok(runs)
    })
}

/// Entry of a compressed signal: an event and the bundles it happened to. In a custody signal the code is 1 for
/// accepted and -1 for refused; in a reporting signal 0 to 5: received, forwarded, delivered, deleted, custody
/// accepted, custody refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignalEntry {
    /// Event code; its meaning depends on the signal.
    pub code: i64,
    /// Numbers of the bundles concerned.
    pub sequences: Vec<Sequence>,
}

/// Code of accepted custody.
pub const ACCEPTED: i64 = 1;
/// Code of refused custody.
pub const REFUSED: i64 = -1;

/// Encodes a compressed signal as a record of this type.
pub fn put_signal(kind: u64, said: &[SignalEntry]) -> Bytes {
    let mut out = Vec::with_capacity(32);
    put_head(&mut out, MAP, said.len() as u64);
    for SignalEntry { code: what, sequences: of } in said {
        match u64::try_from(*what) {
            Ok(code) => put_uint(&mut out, code),
            Err(_) => put_head(&mut out, NEGATIVE, what.unsigned_abs().saturating_sub(1)),
        }
        put_head(&mut out, ARRAY, of.len() as u64);
        of.iter().for_each(|sequence| sequence.encode(&mut out));
    }
    AdministrativeRecord::Unknown { kind, content: Bytes::from(out) }.encode()
}

/// Decodes the content of a compressed signal.
///
/// # Errors
/// The signal is malformed; the error names the rule and the offset.
pub fn read_signal(content: &[u8]) -> Result<Vec<SignalEntry>, Malformed> {
    let mut reader = CborReader::new(content, 0, false);
    let (major, codes) = reader.head()?;
    if major != MAP {
        return reader.error_at(0, "a compressed signal is a map");
    }
    if codes > KINDS_MAX {
        return reader.error_at(0, "a compressed signal with too many codes");
    }
    let mut said: Vec<SignalEntry> = Vec::new();
    for _ in 0..codes {
        let at = reader.position();
        let (major, code) = reader.head()?;
        let code = i64::try_from(code).ok();
        let what = match (major, code) {
            (UINT, Some(code)) => code,
            (NEGATIVE, Some(code)) => -1 - code,
            _ => return reader.error_at(at, "the code of a compressed signal is an integer"),
        };
        // A map with two equal keys is invalid (RFC 8949 5.6).
        if said.iter().any(|before| before.code == what) {
            return reader.error_at(at, "a compressed signal with a repeated code");
        }
        let of = reader.list(|reader, items| {
            if items > RUNS_MAX {
                return reader.error("a compressed signal about too many counters");
            }
            let mut of = Vec::new();
            for _ in 0..items {
                of.push(Sequence::read(reader)?);
            }
            Ok(of)
        })?;
        said.push(SignalEntry { code: what, sequences: of });
    }
    reader.finish("bytes after a compressed signal")?;
    Ok(said)
}

/// Custodian and number in the first custody transfer block, whose block type is `block`. `None` without a valid one,
/// and for fragments, administrative and anonymous bundles.
pub fn transfer(bundle: &BundleMeta, block: u64) -> Option<(EndpointId, Transfer)> {
    let TransferBlock { number, sequence, custodian } = TransferBlock::decode(first_block(bundle, block)?)?;
    Some((custodian, Transfer { number, sequence, block }))
}
/// Content of the first compressed reporting block, whose block type is `block`. `None` without a valid one, and for
/// fragments, administrative and anonymous bundles.
pub fn reporting(bundle: &BundleMeta, block: u64) -> Option<ReportingBlock> {
    ReportingBlock::decode(first_block(bundle, block)?)
}
/// Data of the first block of type `block` before the payload. `None` without one, and for fragments, administrative
/// and anonymous bundles.
fn first_block(bundle: &BundleMeta, block: u64) -> Option<&[u8]> {
    if bundle.fragment().is_some() || bundle.is_anonymous() || bundle.is_administrative() {
        return None;
    }
    let mut reader = CborReader::new(&bundle.head, 0, false);
    reader.take(1).ok()?;
    reader.item().ok()?;
    loop {
        let fields = read_block_start(&mut reader, Profile::Permissive).ok()?;
        if fields.number == 1 {
            return None;
        }
        let data = reader.bytes().ok()?;
        if fields.crc != CrcType::None {
            reader.bytes().ok()?;
        }
        reader.array_end(fields.open).ok()?;
        if fields.kind == block {
            return Some(data);
        }
    }
}
