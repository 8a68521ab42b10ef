//! Age of an encoded bundle that waits in a layer until its first byte leaves.

use crate::payload::Payload;
use crate::time::Instant;

/// Function that rewrites the age in the first bytes of an encoded bundle. Arguments: the bytes, the age they hold, the
/// new age, both in ms. Returns `None` if they hold no age.
pub type Restamp = fn(&Payload, u64, u64) -> Option<Payload>;

/// Deadline by which a waiting bundle must leave, and the data to write its age then (RFC 9171 5.4 step 4).
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// Instant at which the bundle had the age that its bytes hold.
    pub written: Instant,
    /// Age in the bundle's bytes, ms.
    pub age_ms: u64,
    /// End of the bundle's lifetime; it does not leave from then on.
    pub expires: Instant,
    /// Function that writes the age; `None`: the bytes stay as they are.
    pub restamp: Option<Restamp>,
}

impl Leaving {
    /// Value for a bundle that never expires and leaves unchanged, however long it waited.
    pub const AS_IT_IS: Leaving = Leaving { written: Instant::ZERO, age_ms: 0, expires: Instant::MAX, restamp: None };

    /// Whether the lifetime has ended, so that the bundle must not leave.
    pub fn is_over(&self, now: Instant) -> bool {
        self.expires <= now
    }
    /// Writes the age at `now` into the first bytes of the bundle. Returns the number of bytes by which they grew: a
    /// larger age may take more bytes, never fewer.
    pub fn stamp(&mut self, now: Instant, first: &mut Payload) -> u64 {
        let waited = now.since(self.written).as_millis() as u64;
        // Less than a millisecond has passed since the age was written, so the bytes are still right.
        let Some(restamp) = self.restamp.filter(|_| waited > 0) else { return 0 };
        let age_ms = self.age_ms.saturating_add(waited);
        let Some(stamped) = restamp(first, self.age_ms, age_ms) else {
            // Bytes without an age block never get one later, so they are not searched again.
            self.restamp = None;
            return 0;
        };
        let grown = stamped.len().saturating_sub(first.len());
        *first = stamped;
        // The fraction of a millisecond that was not written is kept, so that many stamps lose nothing.
        (self.age_ms, self.written) = (age_ms, self.written + core::time::Duration::from_millis(waited));
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    /// Restamps a bundle that consists of its age in hexadecimal digits.
    fn restamp(bundle: &Payload, was: u64, is: u64) -> Option<Payload> {
        let digits = alloc::format!("{was:x}");
        (bundle.to_bytes()? == digits.as_bytes()).then(|| Payload::from(alloc::format!("{is:x}").into_bytes()))
    }

    #[test]
    fn stamp_carries_over_partial_milliseconds() {
        let (mut first, start) = (Payload::from(&b"f"[..]), Instant(5));
        let mut leaving = Leaving { written: start, age_ms: 15, expires: Instant(u64::MAX), restamp: Some(restamp) };
        let step = Duration::from_micros(900);
        // 0.9 ms: no whole millisecond yet.
        assert_eq!((leaving.stamp(start + step, &mut first), first.to_bytes().unwrap()), (0, "f".into()));
        // 1.8 ms: one whole millisecond, and one more hexadecimal digit.
        assert_eq!((leaving.stamp(start + step * 2, &mut first), first.to_bytes().unwrap()), (1, "10".into()));
        // 9 ms in all: the remainders of earlier stamps were kept.
        assert_eq!((leaving.stamp(start + step * 10, &mut first), first.to_bytes().unwrap()), (0, "18".into()));
        first = Payload::from(&b"no age"[..]);
        assert_eq!((leaving.stamp(start + step * 99, &mut first), leaving.restamp), (0, None));
    }

    #[test]
    fn expiry_instant_is_exclusive() {
        let leaving = Leaving { expires: Instant(7), ..Leaving::AS_IT_IS };
        assert!(!leaving.is_over(Instant(6)) && leaving.is_over(Instant(7)));
        assert!(!Leaving::AS_IT_IS.is_over(Instant(1 << 62)));
    }
}
