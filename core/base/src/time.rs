//! Two clocks that are never mixed: [`Instant`] orders events inside one process and is never stored; [`DtnTime`] is
//! the wall clock of RFC 9171, used on disk and on the wire.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// Point on the process's monotonic clock, in nanoseconds since an origin chosen by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// Origin chosen by the driver.
    pub const ZERO: Instant = Instant(0);
    /// Instant after every event; stands for "never".
    pub const MAX: Instant = Instant(u64::MAX);

    /// Instant `nanoseconds` after the origin.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Instant(nanoseconds)
    }
    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Seconds since the origin, for people and tables.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Earliest of the given instants; `None` if all are `None`.
    pub fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
        // `MAX` in place of `None` makes the comparison free of branches, which would be mispredicted here.
        let least = times.into_iter().fold(Instant::MAX, |least, at| least.min(at.unwrap_or(Instant::MAX)));
        if least < Instant::MAX { Some(least) } else { times.into_iter().flatten().next() }
    }
    /// Time since `earlier`; zero if `earlier` is in the future.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
    /// Instant `duration` later, at most [`Instant::MAX`].
    pub fn saturating_add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}
impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, duration: Duration) -> Instant {
        self.saturating_add(duration)
    }
}
impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}
impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{:.6}s", self.as_secs_f64())
    }
}

/// DTN time: milliseconds since 2000-01-01T00:00:00Z without leap seconds; 0 is "unknown" (RFC 9171 4.2.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DtnTime(pub u64);

impl DtnTime {
    /// Unix time of the DTN epoch, in seconds.
    pub const UNIX_EPOCH_OFFSET_S: u64 = 946_684_800;
    /// Time of a node without a clock (RFC 9171 4.2.6).
    pub const UNKNOWN: DtnTime = DtnTime(0);

    /// Milliseconds since 2000-01-01T00:00:00Z.
    pub const fn as_millis(self) -> u64 {
        self.0
    }
    /// DTN time of a Unix time in milliseconds; times before 2000 become 0 (unknown).
    pub const fn from_unix_ms(unix_ms: u64) -> Self {
        DtnTime(unix_ms.saturating_sub(Self::UNIX_EPOCH_OFFSET_S * 1000))
    }
    /// Unix time in milliseconds.
    pub const fn as_unix_ms(self) -> u64 {
        self.0.saturating_add(Self::UNIX_EPOCH_OFFSET_S * 1000)
    }
    /// Time `ms` milliseconds later, saturating.
    pub const fn saturating_add_ms(self, ms: u64) -> Self {
        DtnTime(self.0.saturating_add(ms))
    }
    /// Milliseconds since `earlier`; 0 if `earlier` is later.
    pub const fn saturating_since_ms(self, earlier: DtnTime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
    /// Parses `2026-11-20T09:00:00[.mmm]Z` or ION's `2026/11/20-09:00:00`; `None` for anything else, and for years
    /// before 2000.
    pub fn parse_utc(text: &str) -> Option<DtnTime> {
        let b = text.as_bytes();
        let (separator, middle) = if b.get(4) == Some(&b'/') { (b'/', b'-') } else { (b'-', b'T') };
        // Both formats have the same length and the same places for separators.
        if b.len() < 19 || b[4] != separator || b[7] != separator || b[10] != middle {
            return None;
        }
        if b[13] != b':' || b[16] != b':' {
            return None;
        }
        let number = |range: core::ops::Range<usize>| -> Option<u64> {
            let part = b.get(range)?;
            part.iter().all(u8::is_ascii_digit).then(|| part.iter().fold(0u64, |n, d| n * 10 + u64::from(d - b'0')))
        };
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        if !(2000..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        // Second 60 is a leap second, which DTN time counts with the next minute.
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let mut ms = 0;
        let rest = match &b[19..] {
            [b'.', fraction @ ..] => {
                let digits = fraction.iter().take_while(|c| c.is_ascii_digit()).count();
                if digits == 0 {
                    return None;
                }
                // Three digits give the milliseconds; fewer are padded, further ones are cut off.
                let read = fraction[..digits].iter().map(|digit| u64::from(digit - b'0'));
                ms = read.chain([0, 0]).take(3).fold(0, |ms, digit| ms * 10 + digit);
                &fraction[digits..]
            }
            rest => rest,
        };
        match (separator, rest) {
            (b'-', [b'Z']) | (b'/', []) => {}
            _ => return None,
        }
        let date = (year as i64, month as i64, day as i64);
        let since_1970 = days_from_civil(date.0, date.1, date.2);
        // February 30 would count as March 1 or 2.
        if civil_from_days(since_1970) != date {
            return None;
        }
        let days = since_1970 - days_from_civil(2000, 1, 1);
        // The year is at least 2000: the difference of days is not negative.
        let seconds = days as u64 * 86_400 + hour * 3600 + minute * 60 + second;
        Some(DtnTime(seconds * 1000 + ms))
    }
}
impl fmt::Display for DtnTime {
    /// `2026-11-20T09:00:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, seconds) = (self.0 % 1000, self.0 / 1000);
        // Times up to u64::MAX ms occur on the wire: the arithmetic of the calendar must not overflow.
        let (day, in_day) = ((seconds / 86_400).min(3_000_000_000), seconds % 86_400);
        let (year, month, date) = civil_from_days(day as i64 + days_from_civil(2000, 1, 1));
        write!(
            f,
            "{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.{ms:03}Z",
            in_day / 3600,
            in_day / 60 % 60,
            in_day % 60
        )
    }
}
impl fmt::Debug for DtnTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Days from 1970-01-01 to a proleptic Gregorian date, computed in years that begin in March, so that the leap day is
/// the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    // (153 m + 2) / 5 is the number of days before month m of a year that begins in March.
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Mapping of [`Instant`] to wall time. The driver passes one at start and on every change. A step of the clock never
/// makes many bundles expire, because their time in the node is counted on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Instant of the reading.
    pub at: Instant,
    /// Wall time at `at`; `None` if the node does not trust its clock.
    pub utc: Option<DtnTime>,
    /// Bound on the error of `utc`, in milliseconds.
    pub error_ms: u64,
}

impl Clock {
    /// Clock of a node without trusted wall time.
    pub const UNTRUSTED: Clock = Clock { at: Instant::ZERO, utc: None, error_ms: u64::MAX };

    /// Wall time at `now`; `None` without a trusted clock.
    pub fn utc_at(&self, now: Instant) -> Option<DtnTime> {
        let utc = self.utc?;
        Some(if now >= self.at {
            utc.saturating_add_ms((now.0 - self.at.0) / 1_000_000)
        } else {
            DtnTime(utc.0.saturating_sub((self.at.0 - now.0) / 1_000_000))
        })
    }
    /// Instant at which the wall time is `utc`, not before the origin; `None` without a trusted clock.
    pub fn instant_at(&self, utc: DtnTime) -> Option<Instant> {
        let reference = self.utc?;
        Some(if utc >= reference {
            Instant(self.at.0.saturating_add((utc.0 - reference.0).saturating_mul(1_000_000)))
        } else {
            Instant(self.at.0.saturating_sub((reference.0 - utc.0).saturating_mul(1_000_000)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn utc_text_round_trips_both_dialects() {
        let t = DtnTime::parse_utc("2026-11-20T09:00:00Z").unwrap();
        assert_eq!(t.to_string(), "2026-11-20T09:00:00.000Z");
        assert_eq!(DtnTime::parse_utc("2026/11/20-09:00:00"), Some(t));
        assert_eq!(DtnTime::parse_utc("2000-01-01T00:00:00Z"), Some(DtnTime(0)));
        assert_eq!(DtnTime::parse_utc("2024-02-29T23:59:59.5Z").unwrap().to_string(), "2024-02-29T23:59:59.500Z");
        for bad in ["2026-11-20", "2026-13-20T09:00:00Z", "2026-11-20T09:00:00", "2026-11-20T09:00:00.Z", "x", ""] {
            assert_eq!(DtnTime::parse_utc(bad), None, "{bad}");
        }
        for impossible in
            ["2026-02-29T00:00:00Z", "2024-02-30T00:00:00Z", "2026/04/31-00:00:00", "2100-02-29T00:00:00Z"]
        {
            assert_eq!(DtnTime::parse_utc(impossible), None, "{impossible}");
        }
    }

    #[test]
    fn extreme_dtn_times_print() {
        let _ = DtnTime(u64::MAX).to_string();
        assert_eq!(DtnTime(u64::MAX).saturating_add_ms(5), DtnTime(u64::MAX));
    }

    #[test]
    fn clock_maps_both_ways() {
        let clock = Clock { at: Instant(5_000_000_000), utc: Some(DtnTime(1_000_000)), error_ms: 1 };
        assert_eq!(clock.utc_at(Instant(7_000_000_000)), Some(DtnTime(1_002_000)));
        assert_eq!(clock.utc_at(Instant(4_000_000_000)), Some(DtnTime(999_000)));
        assert_eq!(clock.instant_at(DtnTime(1_002_000)), Some(Instant(7_000_000_000)));
        assert_eq!(Clock::UNTRUSTED.utc_at(Instant(1)), None);
    }
}
