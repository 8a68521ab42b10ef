//! Overheads and light-time margins of routing profiles.

use farlink_base::Duration;

use crate::contact_plan::nanoseconds;

/// Rules for overheads and margins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// No overhead or margin: the plan is exact.
    #[default]
    Exact,
    /// CCSDS 734.3-B-1 with the usual convergence-layer overhead, max(3 %, 100 B).
    Sabr,
    /// ION: overhead max(1/16, 36 B), and a light-time margin for motion at 450,000 mph.
    Ion,
}

impl Profile {
    /// Profile by name.
    pub fn from_name(name: &str) -> Option<Profile> {
        Some(match name {
            "exact" => Profile::Exact,
            "sabr" => Profile::Sabr,
            "ion" => Profile::Ion,
            _ => return None,
        })
    }
    /// Profile by the number used as a router parameter.
    pub fn from_number(number: f64) -> Profile {
        if number >= 1.5 {
            Profile::Ion
        } else if number >= 0.5 {
            Profile::Sabr
        } else {
            Profile::Exact
        }
    }
    /// Bytes that a bundle of this size takes on a link (estimated volume consumption).
    pub fn volume(self, size: u64) -> u64 {
        size.saturating_add(match self {
            Profile::Exact => 0,
            Profile::Sabr => (u128::from(size) * 3 / 100).max(100) as u64,
            Profile::Ion => (size / 16).max(36),
        })
    }
    /// Time from sending to receiving a byte, ns, including the margin.
    pub fn delay_ns(self, one_way: Duration) -> u64 {
        let delay = nanoseconds(one_way);
        let margin = match self {
            // 450,000 miles per hour are 125 miles per second, of the 186,282 of light.
            Profile::Ion => (u128::from(delay) * 125 / 186_282) as u64,
            Profile::Exact | Profile::Sabr => 0,
        };
        delay.saturating_add(margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_and_margin_follow_the_profiles() {
        assert_eq!(Profile::Exact.volume(1000), 1000);
        assert_eq!((Profile::Sabr.volume(1000), Profile::Sabr.volume(10_000)), (1100, 10_300));
        assert_eq!((Profile::Ion.volume(100), Profile::Ion.volume(16_000)), (136, 17_000));
        // A size at the limit must not overflow when its overhead is added.
        assert_eq!(Profile::Ion.volume(u64::MAX), u64::MAX);
        let far = Duration::from_secs(1200);
        assert_eq!(Profile::Exact.delay_ns(far), 1_200_000_000_000);
        assert_eq!(Profile::Ion.delay_ns(far), 1_200_000_000_000 + 805_230_779);
        assert_eq!(Profile::from_number(2.0), Profile::Ion);
        assert_eq!(Profile::from_name("sabr"), Some(Profile::Sabr));
    }
}
