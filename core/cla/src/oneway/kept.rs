//! Copies of received bundles, kept until the node accepts them. These protocols cannot refuse a bundle, so one that
//! the node has no room for is offered again later.

use farlink_base::{Duration, Instant, Payload};

/// Longest copy of one bundle, bytes; far longer than the blocks before a payload (64 KiB at most), so that the node
/// can judge every bundle by its copy.
pub(super) const BUNDLE_MAX: u64 = 1 << 20;
/// Shortest and longest wait before refused bundles are offered again; each wait is twice the last.
const REST_MIN: Duration = Duration::from_millis(250);
const REST_MAX: Duration = Duration::from_secs(16);

/// Memory of one entity for copies, shared by all streams; peers without a configured link may use half of it.
#[derive(Debug)]
pub(super) struct CopyMemory {
    used: u64,
    dynamic_used: u64,
    most: u64,
}
impl CopyMemory {
    pub const fn new(most: u64) -> Self {
        CopyMemory { used: 0, dynamic_used: 0, most }
    }
    /// Whether a copy of one more bundle fits, on any link.
    pub const fn has_some(&self) -> bool {
        // Compare with half of the memory, because peers without a configured link may use no more.
        self.used + BUNDLE_MAX <= self.most / 2
    }
    pub const fn used(&self) -> u64 {
        self.used
    }
    fn take(&mut self, bytes: u64, dynamic: bool) -> bool {
        let within = |used: u64, most: u64| bytes <= most.saturating_sub(used);
        let fits = within(self.used, self.most) && (!dynamic || within(self.dynamic_used, self.most / 2));
        if fits {
            self.used += bytes;
            self.dynamic_used += if dynamic { bytes } else { 0 };
        }
        fits
    }
    fn give_back(&mut self, bytes: u64, dynamic: bool) {
        self.used = self.used.saturating_sub(bytes);
        self.dynamic_used = self.dynamic_used.saturating_sub(if dynamic { bytes } else { 0 });
    }
}

/// Copy of the bytes of a bundle received so far; dropped entirely as soon as they do not fit.
#[derive(Debug)]
pub(super) struct BundleCopy {
    kept: Option<Payload>,
    dynamic: bool,
}
impl BundleCopy {
    /// Creates an empty copy; `dynamic` if the sender has no configured link.
    pub fn new(dynamic: bool) -> Self {
        BundleCopy { kept: Some(Payload::new()), dynamic }
    }
    /// Appends the next bytes; drops the copy if it becomes too long or the memory is used up.
    pub fn add(&mut self, part: &Payload, room: &mut CopyMemory) {
        let Some(kept) = &mut self.kept else { return };
        if kept.len() + part.len() <= BUNDLE_MAX && room.take(part.len(), self.dynamic) {
            kept.append(part.clone());
        } else {
            self.forget(room);
        }
    }
    /// All bytes received so far; `None` if the copy was dropped.
    pub const fn whole(&self) -> Option<&Payload> {
        self.kept.as_ref()
    }
    /// Drops the copy and frees its memory.
    pub fn forget(&mut self, room: &mut CopyMemory) {
        if let Some(kept) = self.kept.take() {
            room.give_back(kept.len(), self.dynamic);
        }
    }
    /// Copies the bytes out of read buffers that the driver shares.
    pub fn unshare(&mut self) {
        self.kept = self.kept.take().map(|kept| kept.own());
    }
}

/// Wait before refused bundles are offered again.
#[derive(Debug)]
pub(super) struct RetryWait {
    /// Time of the next offer; `None` if nothing waits.
    pub until: Option<Instant>,
    next: Duration,
}
impl RetryWait {
    pub const fn new() -> Self {
        RetryWait { until: None, next: REST_MIN }
    }
    /// Starts the wait after a refusal. Refusals during a wait do not extend it.
    pub fn begin(&mut self, now: Instant) {
        if self.until.is_none() {
            self.until = Some(now + self.next);
            self.next = (self.next * 2).min(REST_MAX);
        }
    }
    /// Resets the backoff: a refused bundle was accepted, so there is room again.
    pub fn reset(&mut self) {
        self.next = REST_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_one_bound() {
        let mut room = CopyMemory::new(BUNDLE_MAX + 100);
        let (mut long, mut short, mut late) = (BundleCopy::new(false), BundleCopy::new(false), BundleCopy::new(false));
        for _ in 0..16 {
            long.add(&Payload::fill(1, BUNDLE_MAX / 16), &mut room);
        }
        short.add(&Payload::from(&b"abc"[..]), &mut room);
        late.add(&Payload::fill(1, 98), &mut room);
        assert_eq!(room.used(), BUNDLE_MAX + 3);
        assert_eq!(late.whole(), None, "no room left");
        long.add(&Payload::fill(1, 1), &mut room);
        assert_eq!((long.whole(), room.used()), (None, 3), "longer than BUNDLE_MAX");
        late.add(&Payload::fill(1, 1), &mut room);
        assert_eq!((late.whole(), room.used()), (None, 3), "a copy has no gaps");
        short.unshare();
        assert_eq!(short.whole(), Some(&Payload::from(&b"abc"[..])));
        short.forget(&mut room);
        short.forget(&mut room);
        assert_eq!(room.used(), 0);
    }

    #[test]
    fn dynamic_streams_leave_half_to_neighbours() {
        let mut room = CopyMemory::new(100);
        let (mut dynamic, mut other, mut neighbour) =
            (BundleCopy::new(true), BundleCopy::new(true), BundleCopy::new(false));
        dynamic.add(&Payload::fill(1, 50), &mut room);
        other.add(&Payload::fill(1, 1), &mut room);
        neighbour.add(&Payload::fill(1, 50), &mut room);
        assert_eq!((other.whole(), room.used()), (None, 100));
        dynamic.forget(&mut room);
        other = BundleCopy::new(true);
        other.add(&Payload::fill(1, 50), &mut room);
        assert!(other.whole().is_some() && neighbour.whole().is_some());
    }

    #[test]
    fn rests_double_to_their_limit() {
        let mut rest = RetryWait::new();
        let mut waits = alloc::vec::Vec::new();
        for n in 0..9u64 {
            let now = Instant(n * 100_000_000_000);
            rest.begin(now);
            let until = rest.until.take().unwrap_or(now);
            waits.push(until.since(now).as_millis());
        }
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 16_000, 16_000, 16_000]);
        rest.begin(Instant::ZERO);
        let first = rest.until;
        rest.begin(Instant(1));
        assert_eq!(rest.until, first, "a refusal does not extend the wait");
        rest.until = None;
        rest.reset();
        rest.begin(Instant::ZERO);
        assert_eq!(rest.until, Some(Instant::ZERO + REST_MIN));
    }
}
