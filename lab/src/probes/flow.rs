//! Reassembly of one direction of a TCP connection by sequence numbers.

use std::collections::BTreeMap;

/// Maximum bytes that wait for earlier ones; a TCP window is rarely larger.
const AHEAD_BYTES_MAX: usize = 64 << 20;
/// Maximum number of segments that wait.
const AHEAD_MAX: usize = 1 << 16;

/// Reassembly of the bytes of one direction. The first copy of each byte counts.
#[derive(Debug)]
pub struct TcpOrder {
    /// Sequence number of the first byte.
    begin: u32,
    /// Number of bytes passed on in order so far, which is the position of the next byte.
    next: u64,
    /// Segments behind a gap with their times, by position.
    ahead: BTreeMap<u64, (u64, Box<[u8]>)>,
    ahead_bytes: usize,
    /// Latest arrival time of a byte passed on. Bytes that arrived earlier behind a gap count from here, since no
    /// receiver could use them before.
    latest_ns: u64,
    /// Position behind the last byte, once a FIN was seen.
    end: Option<u64>,
}

/// Error of a direction that cannot be followed further, because too much waits for a missing segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooFarAhead;

impl TcpOrder {
    /// Creates the state for the bytes that follow a SYN with this sequence number.
    pub const fn new(syn: u32) -> Self {
        TcpOrder {
            begin: syn.wrapping_add(1),
            next: 0,
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
            latest_ns: 0,
            end: None,
        }
    }
    /// Whether this direction began with a SYN of this sequence number.
    pub const fn began_with(&self, syn: u32) -> bool {
        self.begin == syn.wrapping_add(1)
    }
    /// Whether the last byte before the FIN was passed on.
    pub fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    /// Adds a segment, and calls `each` with all bytes that are now in order and their times. `ends` is whether the
    /// segment carries a FIN.
    ///
    /// # Errors
    ///
    /// If too much waits for earlier bytes.
    pub fn take(
        &mut self,
        at_ns: u64,
        sequence: u32,
        payload: &[u8],
        ends: bool,
        each: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), TooFarAhead> {
        // Position nearest to the expected one: windows are far shorter than half of all sequence numbers.
        let expected = self.begin.wrapping_add(self.next as u32);
        let start = self.next as i64 + i64::from(sequence.wrapping_sub(expected) as i32);
        let end = start + payload.len() as i64;
        if ends && end >= 0 {
            self.end = Some(end as u64);
        }
        if end <= self.next as i64 || payload.is_empty() {
            return Ok(());
        }
        let skip = (self.next as i64 - start).max(0);
        let (start, payload) = ((start + skip) as u64, &payload[skip as usize..]);
        if start > self.next {
            return self.wait(at_ns, start, payload);
        }
        self.pass(at_ns, payload, each);
        while let Some(first) = self.ahead.first_entry().filter(|first| *first.key() <= self.next) {
            let (start, (at_ns, bytes)) = first.remove_entry();
            self.ahead_bytes -= bytes.len();
            let known = usize::try_from(self.next - start).unwrap_or(usize::MAX);
            if let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) {
                self.pass(at_ns, new, each);
            }
        }
        Ok(())
    }
    fn pass(&mut self, at_ns: u64, bytes: &[u8], each: &mut dyn FnMut(u64, &[u8])) {
        self.latest_ns = self.latest_ns.max(at_ns);
        self.next += bytes.len() as u64;
        each(self.latest_ns, bytes);
    }
    fn wait(&mut self, at_ns: u64, start: u64, payload: &[u8]) -> Result<(), TooFarAhead> {
        let known = self.ahead.get(&start).map_or(0, |(_, bytes)| bytes.len());
        // A longer copy replaces a waiting segment, whose bytes then count as later than they were.
        if known >= payload.len() {
            return Ok(());
        }
        if self.ahead.len() >= AHEAD_MAX || self.ahead_bytes + payload.len() > AHEAD_BYTES_MAX {
            return Err(TooFarAhead);
        }
        self.ahead_bytes = self.ahead_bytes + payload.len() - known;
        self.ahead.insert(start, (at_ns, payload.into()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Rng;

    #[test]
    fn segments_of_any_order_are_put_in_order() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let text: Vec<u8> = (0..5000u32).map(|at| (at * 7 % 251) as u8).collect();
            // Sequence numbers that wrap around on the way.
            let syn = u32::MAX - rng.below(6000) as u32;
            let mut segments: Vec<(usize, usize)> =
                text.chunks(300).enumerate().map(|(n, c)| (n * 300, c.len())).collect();
            for _ in 0..30 {
                let start = rng.below(4900) as usize;
                segments.push((start, 1 + rng.below(100.min(5000 - start as u64)) as usize));
            }
            for at in 1..segments.len() {
                segments.swap(at, at - rng.below(8.min(at as u64 + 1)) as usize);
            }
            let (mut order, mut got, mut latest) = (TcpOrder::new(syn), Vec::new(), 0);
            for (now, (start, len)) in (1..).zip(&segments) {
                let sequence = syn.wrapping_add(1 + *start as u32);
                let ends = start + len == text.len();
                let taken = order.take(now, sequence, &text[*start..start + len], ends, &mut |at, bytes| {
                    assert!(at >= latest && at <= now, "times never go back");
                    latest = at;
                    got.extend_from_slice(bytes);
                });
                assert_eq!(taken, Ok(()));
            }
            assert!(got == text && order.is_over() && order.ahead_bytes == 0 && order.ahead.is_empty());
        }
    }

    #[test]
    fn first_copy_of_a_byte_counts() {
        let (mut order, mut got) = (TcpOrder::new(99), Vec::new());
        let mut take = |at, sequence, payload: &[u8]| {
            order.take(at, sequence, payload, false, &mut |at, bytes| got.push((at, bytes.to_vec()))).unwrap();
        };
        take(5, 100, b"abc");
        take(6, 100, b"abcd");
        take(7, 106, b"gh");
        take(8, 100, b"abcd");
        take(9, 104, b"ef");
        assert_eq!(got, [(5, b"abc".to_vec()), (6, b"d".to_vec()), (9, b"ef".to_vec()), (9, b"gh".to_vec())]);
    }

    #[test]
    fn too_much_behind_a_gap_is_an_error() {
        let mut order = TcpOrder::new(0);
        let data = vec![1; 1 << 20];
        let mut taken = (0..65u32).map(|n| order.take(1, 2 + (n << 20), &data, false, &mut |_, _| panic!("a gap")));
        assert_eq!(taken.by_ref().take(64).collect::<Result<Vec<_>, _>>().map(|all| all.len()), Ok(64));
        assert_eq!(taken.next(), Some(Err(TooFarAhead)));
    }
}
