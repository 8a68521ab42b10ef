//! What arrived is kept until the node has taken it: a sender cannot be told that its bundle was not, so it is offered
//! again when there is room.

use farlink_base::{Duration, Instant, Payload};

/// Most bytes kept of one bundle: its beginning is enough for the node to judge it.
pub(super) const BUNDLE_MAX: u64 = 1 << 20;
/// How long what was refused rests at first, and at most; the rests between double.
const REST_MIN: Duration = Duration::from_millis(250);
const REST_MAX: Duration = Duration::from_secs(16);

/// Memory of one entity for what is kept, of all streams together; strangers have half of it.
#[derive(Debug)]
pub(super) struct CopyMemory {
    used: u64,
    strangers: u64,
    most: u64,
}
impl CopyMemory {
    pub const fn new(most: u64) -> Self {
        CopyMemory { used: 0, strangers: 0, most }
    }
    /// Whether one more bundle can be kept, whoever sends it.
    pub const fn has_some(&self) -> bool {
        self.used + BUNDLE_MAX <= self.most / 2
    }
    /// Bytes in use.
    pub const fn used(&self) -> u64 {
        self.used
    }
    fn take(&mut self, bytes: u64, stranger: bool) -> bool {
        let within = |used: u64, most: u64| bytes <= most.saturating_sub(used);
        let fits = within(self.used, self.most) && (!stranger || within(self.strangers, self.most / 2));
        if fits {
            self.used += bytes;
            self.strangers += if stranger { bytes } else { 0 };
        }
        fits
    }
    fn give_back(&mut self, bytes: u64, stranger: bool) {
        self.used = self.used.saturating_sub(bytes);
        self.strangers = self.strangers.saturating_sub(if stranger { bytes } else { 0 });
    }
}

/// The first bytes of a bundle, or all; nothing from the moment on that they do not fit any more.
#[derive(Debug)]
pub(super) struct BundleCopy {
    kept: Option<Payload>,
    stranger: bool,
}
impl BundleCopy {
    /// Of a bundle of which nothing has come; whether it comes from a stranger.
    pub fn new(stranger: bool) -> Self {
        BundleCopy { kept: Some(Payload::new()), stranger }
    }
    /// The next bytes.
    pub fn add(&mut self, part: &Payload, room: &mut CopyMemory) {
        let Some(kept) = &mut self.kept else { return };
        if kept.len() + part.len() <= BUNDLE_MAX && room.take(part.len(), self.stranger) {
            kept.append(part.clone());
        } else {
            self.forget(room);
        }
    }
    /// All that came, unless it did not fit.
    pub const fn whole(&self) -> Option<&Payload> {
        self.kept.as_ref()
    }
    /// Gives its memory back.
    pub fn forget(&mut self, room: &mut CopyMemory) {
        if let Some(kept) = self.kept.take() {
            room.give_back(kept.len(), self.stranger);
        }
    }
    /// Lets go of the buffers it shares with others.
    pub fn unshare(&mut self) {
        self.kept = self.kept.take().map(|kept| kept.own());
    }
}

/// When what was refused is offered again.
#[derive(Debug)]
pub(super) struct RetryWait {
    /// Then; `None`: nothing rests.
    pub until: Option<Instant>,
    next: Duration,
}
impl RetryWait {
    pub const fn new() -> Self {
        RetryWait { until: None, next: REST_MIN }
    }
    /// Something was refused. What is refused during a rest waits for its end.
    pub fn begin(&mut self, now: Instant) {
        if self.until.is_none() {
            self.until = Some(now + self.next);
            self.next = (self.next * 2).min(REST_MAX);
        }
    }
    /// What had been refused was taken: there is room again.
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
        assert_eq!(late.whole(), None, "there is no room for it");
        long.add(&Payload::fill(1, 1), &mut room);
        assert_eq!((long.whole(), room.used()), (None, 3), "it is too long to be kept");
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
        let (mut stranger, mut other, mut neighbour) =
            (BundleCopy::new(true), BundleCopy::new(true), BundleCopy::new(false));
        stranger.add(&Payload::fill(1, 50), &mut room);
        other.add(&Payload::fill(1, 1), &mut room);
        neighbour.add(&Payload::fill(1, 50), &mut room);
        assert_eq!((other.whole(), room.used()), (None, 100));
        stranger.forget(&mut room);
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
        assert_eq!(rest.until, first, "what comes during a rest does not make it longer");
        rest.until = None;
        rest.reset();
        rest.begin(Instant::ZERO);
        assert_eq!(rest.until, Some(Instant::ZERO + REST_MIN));
    }
}
