//! Abstract security block: the common content of BIB and BCB (RFC 9172 3.6), a sequence of CBOR items.

use crate::cbor::{ARRAY, BYTES, ByteSink, CborReader, UINT, put_bytes, put_head, put_uint};
use crate::{EidCodec, EndpointId, MAX_EXTENSION_BLOCKS, Profile};
use alloc::vec::Vec;
use farlink_base::Malformed;

/// CBOR major type of negative integers.
const NEGATIVE: u8 = 1;
/// Context flag: parameters are present (RFC 9172 3.6).
const HAS_PARAMETERS: u64 = 1;
/// Maximum number of targets of one security block: no bundle has more blocks, even counting those that hops write, the
/// primary block and the payload block.
const TARGETS_MAX: u64 = MAX_EXTENSION_BLOCKS as u64 + 16;

/// Value of a parameter or result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecurityValue {
    /// An unsigned integer.
    Uint(u64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// Any other CBOR item, as encoded.
    Other(Vec<u8>),
}

/// Parameters or results, each with its number (RFC 9172 3.10).
pub type Pairs = Vec<(u64, SecurityValue)>;

/// Abstract security block: one service, one context, one source, and one operation per target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecurityBlock {
    /// Block numbers of the targets: at least one, each once.
    // 9172-3.4-1
    pub targets: Vec<u64>,
    /// Security context identifier.
    pub context: i64,
    /// Security source.
    pub source: EndpointId,
    /// Parameters of the security context.
    pub parameters: Pairs,
    /// Results per target, in the order of the targets.
    pub results: Vec<Pairs>,
}

impl SecurityBlock {
    /// Decodes the block-type-specific data of a security block. Memory use is a small multiple of the input length.
    ///
    /// # Errors
    /// The data violates RFC 9172 3.6; the error names the rule and the offset.
    // 9172-3.6-1, 9172-3.6-3, 9172-3.6-8, 9172-3.6-10, 9172-3.6-11, 9172-3.6-12, 9172-3.6-17, 9172-3.6-18
    // 9172-3.6-19
    pub fn decode(data: &[u8]) -> Result<SecurityBlock, Malformed> {
        let mut reader = CborReader::new(data, 0, false);
        let targets = read_targets(&mut reader)?;
        let context = read_context(&mut reader)?;
        let flags = reader.uint()?;
        let source = EndpointId::read(&mut reader, Profile::Permissive)?;
        // 9172-3.6-9, 9172-3.6-10, 9172-3.6-11
        let parameters = if flags & HAS_PARAMETERS != 0 { read_pairs(&mut reader)? } else { Pairs::new() };
        let at = reader.position();
        let results = reader.list(|reader, sets| {
            if sets != targets.len() as u64 {
                return reader.error_at(at, "a security block has as many sets of results as targets");
            }
            let mut results = Vec::with_capacity(targets.len());
            for _ in 0..sets {
                results.push(read_pairs(reader)?);
            }
            Ok(results)
        })?;
        reader.finish("bytes after the data of a security block")?;
        Ok(SecurityBlock { targets, context, source, parameters, results })
    }
    /// Encodes the block-type-specific data, every head in its shortest form.
    // 9172-3.6-1, 9172-3.6-2, 9172-3.6-3, 9172-3.6-4, 9172-3.6-7, 9172-3.6-8, 9172-3.6-9, 9172-3.6-10, 9172-3.6-11
    // 9172-3.6-12, 9172-3.6-17, 9172-3.6-18, 9172-3.6-19, 9173-1-1
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_head(&mut out, ARRAY, self.targets.len() as u64);
        // 9172-3.4-1
        self.targets.iter().for_each(|target| put_uint(&mut out, *target));
        match u64::try_from(self.context) {
            Ok(context) => put_uint(&mut out, context),
            Err(_) => put_head(&mut out, NEGATIVE, !self.context as u64),
        }
        // Reserved flags are written as zero.
        put_uint(&mut out, u64::from(!self.parameters.is_empty()));
        self.source.encode(&mut out);
        if !self.parameters.is_empty() {
            put_pairs(&self.parameters, &mut out);
        }
        put_head(&mut out, ARRAY, self.results.len() as u64);
        self.results.iter().for_each(|results| put_pairs(results, &mut out));
        out
    }
    /// First parameter with this number.
    pub fn parameter(&self, id: u64) -> Option<&SecurityValue> {
        find(&self.parameters, id)
    }
    /// First result with number `id` of a target.
    pub fn result(&self, target: u64, id: u64) -> Option<&SecurityValue> {
        let place = self.targets.iter().position(|known| *known == target)?;
        find(self.results.get(place)?, id)
    }
    /// Removes the operation on a target.
    // 9172-3.6-18, 9172-3.6-19
    pub fn remove(&mut self, target: u64) {
        if let Some(place) = self.targets.iter().position(|known| *known == target) {
            self.targets.remove(place);
            self.results.remove(place);
        }
    }
    /// Moves the operations on these targets to a new block with the same context, source and parameters.
    // 9172-3.9-4
    pub fn split(&mut self, targets: &[u64]) -> SecurityBlock {
        let SecurityBlock { context, source, parameters, .. } = self.clone();
        let all = core::mem::take(&mut self.targets).into_iter().zip(core::mem::take(&mut self.results));
        let (moved, left): (Vec<_>, Vec<_>) = all.partition(|(target, _)| targets.contains(target));
        (self.targets, self.results) = left.into_iter().unzip();
        let (targets, results) = moved.into_iter().unzip();
        SecurityBlock { targets, context, source, parameters, results }
    }
}

fn find(pairs: &Pairs, id: u64) -> Option<&SecurityValue> {
    pairs.iter().find(|(known, _)| *known == id).map(|(_, value)| value)
}

// 9172-3.6-3, 9172-3.6-4, 9172-3.6-5, 9172-3.6-6
fn read_targets(reader: &mut CborReader<'_>) -> Result<Vec<u64>, Malformed> {
    let at = reader.position();
    reader.list(|reader, count| {
        if count == 0 || count > TARGETS_MAX {
            return reader.error_at(at, "a security block has a target, and no more than a bundle has blocks");
        }
        // No capacity is reserved for `count`: a peer may state a large one and send few items.
        let mut targets = Vec::new();
        for _ in 0..count {
            let at = reader.position();
            let target = reader.uint()?;
            if targets.contains(&target) {
                return reader.error_at(at, "a security block that names a target twice");
            }
            targets.push(target);
        }
        Ok(targets)
    })
}

// 9172-3.6-7
fn read_context(reader: &mut CborReader<'_>) -> Result<i64, Malformed> {
    let at = reader.position();
    let (major, value) = reader.head()?;
    match (major, i64::try_from(value)) {
        (UINT, Ok(value)) => Ok(value),
        // CBOR encodes the negative integer -1 - n as n (RFC 8949 3.1), which is the bitwise complement.
        (NEGATIVE, Ok(value)) => Ok(!value),
        _ => reader.error_at(at, "a security context is an integer of 64 bits"),
    }
}

// 9172-3.6-13, 9172-3.6-14, 9172-3.6-15, 9172-3.6-20
fn read_pairs(reader: &mut CborReader<'_>) -> Result<Pairs, Malformed> {
    reader.list(|reader, count| {
        let mut pairs = Pairs::new();
        for _ in 0..count {
            let what = "a parameter or result is an array of two items";
            pairs.push(reader.list_of(2, what, |reader| Ok((reader.uint()?, read_value(reader)?)))?);
        }
        Ok(pairs)
    })
}

// 9173-3.3.3-4, 9173-4.3.4-4
fn read_value(reader: &mut CborReader<'_>) -> Result<SecurityValue, Malformed> {
    match reader.peek() {
        Some(first) if first >> 5 == UINT => reader.uint().map(SecurityValue::Uint),
        Some(first) if first >> 5 == BYTES && first & 0x1f != 31 => Ok(SecurityValue::Bytes(reader.bytes()?.to_vec())),
        _ => Ok(SecurityValue::Other(reader.item()?.to_vec())),
    }
}

// 9172-3.6-13, 9172-3.6-14, 9172-3.6-15, 9172-3.6-16, 9172-3.6-20, 9172-3.6-21, 9173-1-1
fn put_pairs(pairs: &Pairs, out: &mut Vec<u8>) {
    put_head(out, ARRAY, pairs.len() as u64);
    for (id, value) in pairs {
        put_head(out, ARRAY, 2);
        put_uint(out, *id);
        match value {
            SecurityValue::Uint(number) => put_uint(out, *number),
            SecurityValue::Bytes(bytes) => put_bytes(out, bytes),
            SecurityValue::Other(item) => out.put(item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SecurityBlock {
        SecurityBlock {
            targets: Vec::from([0, 2, 300]),
            context: -7,
            source: EndpointId::ipn(2, 1),
            parameters: Vec::from([(1, SecurityValue::Uint(7)), (9, SecurityValue::Other(Vec::from([0xf5])))]),
            results: Vec::from([Vec::from([(1, SecurityValue::Bytes(Vec::from([1, 2])))]), Pairs::new(), Pairs::new()]),
        }
    }

    /// Keeps 9172-3.4-1, 9172-3.6-1, 9172-3.6-3, 9172-3.6-4, 9172-3.6-7, 9172-3.6-8, 9172-3.6-10, 9172-3.6-11.
    /// Keeps 9172-3.6-12, 9172-3.6-13, 9172-3.6-14, 9172-3.6-15, 9172-3.6-17, 9172-3.6-18, 9172-3.6-20.
    /// Keeps 9173-3.3.3-4, 9173-4.3.4-4.
    #[test]
    fn security_block_round_trips() {
        let targets = [0x83, 0, 2, 0x19, 1, 0x2c];
        let (context_flags_source, parameters) = ([0x26, 1, 0x82, 2, 0x82, 2, 1], [0x82, 0x82, 1, 7, 0x82, 9, 0xf5]);
        let results = [0x83, 0x81, 0x82, 1, 0x42, 1, 2, 0x80, 0x80];
        assert_eq!(sample().encode(), [&targets[..], &context_flags_source, &parameters, &results].concat());
        for context in [i64::MIN, -7, -1, 0, 1, 2, i64::MAX] {
            let block = SecurityBlock { context, ..sample() };
            assert_eq!(SecurityBlock::decode(&block.encode()), Ok(block));
        }
        let plain = SecurityBlock { parameters: Pairs::new(), ..sample() };
        assert_eq!(SecurityBlock::decode(&plain.encode()), Ok(plain));
        // Unknown scope flags stay unchanged, whatever operations are removed.
        for flags in [0, 1, 7, 8, 0x8000, 0xffff, u64::MAX] {
            let parameters = Vec::from([(3, SecurityValue::Uint(flags)), (4, SecurityValue::Uint(flags))]);
            let mut block = SecurityBlock::decode(&SecurityBlock { parameters, ..sample() }.encode()).unwrap();
            let split = block.split(&[2]);
            block.remove(300);
            for part in [&block, &split] {
                let parameters = SecurityBlock::decode(&part.encode()).unwrap().parameters;
                assert_eq!(parameters, [(3, SecurityValue::Uint(flags)), (4, SecurityValue::Uint(flags))]);
            }
        }
    }

    #[test]
    fn truncated_or_longer_security_block_is_refused() {
        let whole = sample().encode();
        (0..whole.len()).for_each(|end| assert!(SecurityBlock::decode(&whole[..end]).is_err(), "{end}"));
        assert!(SecurityBlock::decode(&[&whole[..], &[0]].concat()).is_err());
    }

    /// Keeps 9172-3.6-5, 9172-3.6-6, 9172-3.6-19.
    #[test]
    fn false_lengths_and_repeated_targets_are_refused() {
        let err = |bytes: &[u8]| SecurityBlock::decode(bytes).unwrap_err().reason;
        assert!(err(&[0x80, 1, 0, 0x82, 1, 0, 0x80]).contains("has a target"), "RFC 9172 3.6: at least one");
        assert!(err(&[0x82, 1, 1, 1, 0, 0x82, 1, 0, 0x80]).contains("twice"));
        assert!(err(&[0x81, 1, 1, 0, 0x82, 1, 0, 0x82, 0x80, 0x80]).contains("as many sets"));
        // An array that claims 2^64 - 1 items.
        let bomb = [0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert!(err(&bomb).contains("no more than"));
        let pairs = [&[0x81, 1, 1, 1, 0x82, 1, 0][..], &bomb].concat();
        assert!(err(&pairs).contains("array of definite"), "what is not there is not waited for");
        assert!(SecurityBlock::decode(&[0x81, 1, 0x1b, 255, 255, 255, 255, 255, 255, 255, 255, 0]).is_err());
    }

    /// Keeps 9172-3.6-9.
    #[test]
    fn reserved_security_flags_are_ignored() {
        let plain = SecurityBlock { parameters: Pairs::new(), ..sample() };
        for (block, flags) in [(plain, 0), (sample(), 1)] {
            let written = block.encode();
            // The flags follow the targets [0, 2, 300] and the context -7, encoded as 0x26.
            let at = written.iter().position(|byte| *byte == 0x26).unwrap() + 1;
            assert_eq!(written[at], flags);
            let mut other = written.clone();
            other[at] = flags | 0x16;
            let read = SecurityBlock::decode(&other).unwrap();
            assert_eq!((read.encode(), read), (written, block));
        }
    }
}
