//! An encoded bundle that waits in a layer: what of it depends on the moment at which its first byte leaves.

use crate::payload::Payload;
use crate::time::Instant;

/// Writes another age into the first bytes of an encoded bundle: the bytes, the age in them and the new one, both in ms.
/// `None`: they say nothing of an age.
pub type Restamp = fn(&Payload, u64, u64) -> Option<Payload>;

/// Until when a bundle may leave, and how it ages until then (RFC 9171 5.4 step 4).
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// The moment at which it was `age_ms` old, which is what its bytes say.
    pub written: Instant,
    /// Its age then, ms.
    pub age_ms: u64,
    /// When its lifetime ends.
    pub expires: Instant,
    /// What writes an age into its bytes; `None`: they stay as they are.
    pub restamp: Option<Restamp>,
}

impl Leaving {
    /// A bundle that leaves as it is, however long it waited.
    pub const AS_IT_IS: Leaving = Leaving { written: Instant::ZERO, age_ms: 0, expires: Instant::MAX, restamp: None };

    /// Whether it must not leave any more.
    pub fn is_over(&self, now: Instant) -> bool {
        self.expires <= now
    }
    /// Writes into the first bytes of the bundle how old it is at `now`. Says by how many bytes it has grown: an age that
    /// grows may take more of them, and never less.
    pub fn stamp(&mut self, now: Instant, first: &mut Payload) -> u64 {
        let waited = now.since(self.written).as_millis() as u64;
        let Some(restamp) = self.restamp.filter(|_| waited > 0) else { return 0 };
        let age_ms = self.age_ms.saturating_add(waited);
        let Some(stamped) = restamp(first, self.age_ms, age_ms) else {
            self.restamp = None;
            return 0;
        };
        let grown = stamped.len().saturating_sub(first.len());
        *first = stamped;
        // The part of a millisecond that is not written yet is not lost.
        (self.age_ms, self.written) = (age_ms, self.written + core::time::Duration::from_millis(waited));
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    /// The age in hexadecimal digits.
    fn restamp(bundle: &Payload, was: u64, is: u64) -> Option<Payload> {
        let digits = alloc::format!("{was:x}");
        (bundle.to_bytes()? == digits.as_bytes()).then(|| Payload::from(alloc::format!("{is:x}").into_bytes()))
    }

    #[test]
    fn what_waits_is_written_anew_by_whole_milliseconds_and_none_is_lost() {
        let (mut first, start) = (Payload::from(&b"f"[..]), Instant(5));
        let mut leaving = Leaving { written: start, age_ms: 15, expires: Instant(u64::MAX), restamp: Some(restamp) };
        let step = Duration::from_micros(900);
        assert_eq!((leaving.stamp(start + step, &mut first), first.to_bytes().unwrap()), (0, "f".into()));
        assert_eq!((leaving.stamp(start + step * 2, &mut first), first.to_bytes().unwrap()), (1, "10".into()));
        assert_eq!((leaving.stamp(start + step * 10, &mut first), first.to_bytes().unwrap()), (0, "18".into()));
        first = Payload::from(&b"no age"[..]);
        assert_eq!((leaving.stamp(start + step * 99, &mut first), leaving.restamp), (0, None));
    }

    #[test]
    fn a_lifetime_ends_with_its_last_moment() {
        let leaving = Leaving { expires: Instant(7), ..Leaving::AS_IT_IS };
        assert!(!leaving.is_over(Instant(6)) && leaving.is_over(Instant(7)));
        assert!(!Leaving::AS_IT_IS.is_over(Instant(1 << 62)));
    }
}
