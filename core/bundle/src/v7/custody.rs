//! Custody transfer and compressed reporting (CCSDS 734.6-O-1): the custody transfer extension block, the compressed
//! reporting extension block, and what both signals consist of: numbers of bundles, run by run.
//!
//! Block types and record types are the caller's: they are configured, since drafts had others.

use crate::cbor::{ARRAY, Reader, UINT, put_head, put_uint};
use crate::eid_wire::EidCodec;
use crate::fields::read_block_start;
use crate::{AdministrativeRecord, CrcType, EndpointId, Profile};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Bytes, Malformed, Transfer};

/// Major types of CBOR that nothing else in a bundle has.
const NEGATIVE: u8 = 1;
const MAP: u8 = 5;
/// Most lengths of one item, and most items of one signal: each takes a byte at least, and a record this long is none
/// of ours.
const RUNS_MAX: u64 = 1 << 16;
/// Most kinds of things that one signal says: each is looked for among those before it.
const KINDS_MAX: u64 = 256;

/// What the blocks and records are called on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CustodyCodes {
    /// Type of the custody transfer extension block.
    pub transfer_block: u64,
    /// Type of the compressed reporting extension block.
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

/// A custody transfer extension block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransferBlock {
    /// The custodian's number of the bundle.
    pub number: u64,
    /// Which of its counters gave it; 0: one that it has for the bundle's destination.
    pub sequence: u64,
    /// The custodian.
    pub custodian: EndpointId,
}
impl TransferBlock {
    /// Reads the data of a block; `None` where it is no such block.
    pub fn decode(data: &[u8]) -> Option<TransferBlock> {
        let mut reader = Reader::new(data, 0, false);
        let read = reader.list_of(3, "", |reader| {
            let (number, sequence) = (reader.uint()?, reader.uint()?);
            Ok(TransferBlock { number, sequence, custodian: EndpointId::read(reader, Profile::Permissive)? })
        });
        read.ok().filter(|_| reader.is_at_end())
    }
    /// The data of the block.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        put_head(&mut out, ARRAY, 3);
        put_uint(&mut out, self.number);
        put_uint(&mut out, self.sequence);
        self.custodian.encode(&mut out);
        out
    }
}

/// What a compressed reporting extension block asks to be told, as flags.
pub mod asks {
    /// Reception.
    pub const RECEPTION: u64 = 1;
    /// Forwarding.
    pub const FORWARDING: u64 = 2;
    /// Delivery.
    pub const DELIVERY: u64 = 4;
    /// Deletion.
    pub const DELETION: u64 = 8;
    /// That custody was accepted.
    pub const ACCEPTED: u64 = 0x10;
    /// That custody was refused.
    pub const REFUSED: u64 = 0x20;
}

/// A compressed reporting extension block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReportingBlock {
    /// The source's number of the bundle.
    pub number: u64,
    /// Which of its counters gave it; 0: one that it has for the bundle's destination.
    pub sequence: u64,
    /// What is to be told ([`asks`]).
    pub asks: u64,
    /// Who put the block there, where it was not the bundle's source.
    pub source: Option<EndpointId>,
    /// Who is to be told, where it is not the bundle's report-to.
    pub report_to: Option<EndpointId>,
}
impl ReportingBlock {
    /// Reads the data of a block; `None` where it is no such block.
    pub fn decode(data: &[u8]) -> Option<ReportingBlock> {
        let mut reader = Reader::new(data, 0, false);
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
    /// The data of the block: what says nothing at its end is left out.
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

/// Whose counter numbers are of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Counter {
    /// This one of whoever is told; never 0.
    Number(u64),
    /// The one it has for this destination.
    To(EndpointId),
}

/// Numbers one after the other: the first and the last. Never walk over them: one item may name them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first one.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// Numbers of one counter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sequence {
    /// Whose.
    pub counter: Counter,
    /// Which, lowest first and apart.
    pub runs: Vec<Run>,
    /// Who put the block there, where that is not whoever is told.
    pub source: Option<EndpointId>,
}
impl Sequence {
    fn read(reader: &mut Reader<'_>) -> Result<Sequence, Malformed> {
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
fn len_of(run: Run) -> u64 {
    run.last.saturating_sub(run.first).saturating_add(1)
}

/// A count, or how many are in, out, in...
fn read_runs(reader: &mut Reader<'_>, first: u64) -> Result<Vec<Run>, Malformed> {
    let run = |reader: &Reader<'_>, first: u64, len: u64| match len.checked_sub(1).and_then(|n| first.checked_add(n)) {
        Some(last) => Ok(Run { first, last }),
        None => reader.error("a run without numbers of its own, or beyond 64 bits"),
    };
    if reader.peek().is_some_and(|byte| byte >> 5 == UINT) {
        let len = reader.uint()?;
        return Ok(Vec::from([run(reader, first, len)?]));
    }
    reader.list(|reader, items| {
        if items % 2 == 0 || items > RUNS_MAX {
            return reader.error("lengths of runs and gaps begin and end with a run");
        }
        let mut runs: Vec<Run> = Vec::new();
        let mut next = Some(first);
        for at in 0..items {
            let len = reader.uint()?;
            let Some(from) = next else { return reader.error("a run beyond 64 bits") };
            if at % 2 == 0 {
                let run = run(reader, from, len)?;
                runs.push(run);
                next = run.last.checked_add(1);
            } else if len == 0 {
                return reader.error("a gap of nothing");
            } else {
                next = from.checked_add(len);
            }
        }
        Ok(runs)
    })
}

/// What a compressed signal says of bundles: in a custody signal 1 accepted and -1 refused, in a reporting signal 0 to
/// 5: received, forwarded, delivered, deleted, custody accepted, custody refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// What.
    pub what: i64,
    /// Of which.
    pub of: Vec<Sequence>,
}

/// Custody was accepted.
pub const ACCEPTED: i64 = 1;
/// Custody was refused.
pub const REFUSED: i64 = -1;

/// The content of a compressed signal as a record of this type.
pub fn put_signal(kind: u64, said: &[Said]) -> Bytes {
    let mut out = Vec::with_capacity(32);
    put_head(&mut out, MAP, said.len() as u64);
    for Said { what, of } in said {
        match u64::try_from(*what) {
            Ok(code) => put_uint(&mut out, code),
            Err(_) => put_head(&mut out, NEGATIVE, what.unsigned_abs().saturating_sub(1)),
        }
        put_head(&mut out, ARRAY, of.len() as u64);
        of.iter().for_each(|sequence| sequence.encode(&mut out));
    }
    AdministrativeRecord::Unknown { kind, content: Bytes::from(out) }.encode()
}

/// Reads the content of a compressed signal.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read_signal(content: &[u8]) -> Result<Vec<Said>, Malformed> {
    let mut reader = Reader::new(content, 0, false);
    let (major, codes) = reader.head()?;
    if major != MAP {
        return reader.error_at(0, "a compressed signal is a map");
    }
    if codes > KINDS_MAX {
        return reader.error_at(0, "a compressed signal that says too many things");
    }
    let mut said: Vec<Said> = Vec::new();
    for _ in 0..codes {
        let at = reader.position();
        let (major, code) = reader.head()?;
        let code = i64::try_from(code).ok();
        let what = match (major, code) {
            (UINT, Some(code)) => code,
            (NEGATIVE, Some(code)) => -1 - code,
            _ => return reader.error_at(at, "what a compressed signal says is a number"),
        };
        if said.iter().any(|before| before.what == what) {
            return reader.error_at(at, "a compressed signal says the same twice");
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
        said.push(Said { what, of });
    }
    reader.finish("bytes after a compressed signal")?;
    Ok(said)
}

/// The custody transfer block of a bundle that is no fragment, and may not become one: the first of this type.
pub fn transfer(bundle: &BundleMeta, block: u64) -> Option<(EndpointId, Transfer)> {
    let TransferBlock { number, sequence, custodian } = TransferBlock::decode(first_block(bundle, block)?)?;
    Some((custodian, Transfer { number, sequence, block }))
}
/// The compressed reporting block of a bundle that is no fragment: the first of this type.
pub fn reporting(bundle: &BundleMeta, block: u64) -> Option<ReportingBlock> {
    ReportingBlock::decode(first_block(bundle, block)?)
}
/// The data of the first block of a type before the payload. Fragments, records and what has no source have none.
fn first_block(bundle: &BundleMeta, block: u64) -> Option<&[u8]> {
    if bundle.fragment().is_some() || bundle.is_anonymous() || bundle.is_administrative() {
        return None;
    }
    let mut reader = Reader::new(&bundle.head, 0, false);
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
