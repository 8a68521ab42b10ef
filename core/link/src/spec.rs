//! Specification of a link as plain data. Times count from the driver's origin of time.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{ConfigError, DataRate, DataVolume, Duration, Instant, format_duration};

/// Transmission rate.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Rate {
    /// Unlimited rate: transmission takes no time, and nothing queues.
    #[default]
    Unlimited,
    /// Constant rate.
    Constant(DataRate),
    /// Rates, each from a time on; before the first time the rate is 0.
    Steps(Vec<(Duration, DataRate)>),
}

/// One-way propagation delay.
#[derive(Clone, PartialEq, Debug)]
pub enum Delay {
    /// Constant delay.
    Constant(Duration),
    /// Linear interpolation between points (time, delay); before the first and after the last point, their values hold.
    Table(Vec<(Duration, Duration)>),
}
impl Default for Delay {
    fn default() -> Self {
        Delay::Constant(Duration::ZERO)
    }
}

/// Distribution of the jitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JitterShape {
    /// Uniform over the range.
    Uniform,
    /// Normal around the middle of the range, which is six standard deviations wide; values outside are moved to its
    /// ends.
    Normal,
}

/// Random delay in addition to the one-way delay, which stays the minimum (the speed of light).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Jitter {
    /// Maximum of the extra delay.
    pub most: Duration,
    /// Distribution within `0..=most`.
    pub shape: JitterShape,
    /// Whether jitter may reorder packets. Otherwise a packet waits behind its predecessor.
    pub reorders: bool,
}

/// Random loss of whole packets. Lost packets use their share of the rate.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Independent loss of each packet with this probability.
    Bernoulli(f64),
    /// Loss in bursts (Gilbert 1960, Elliott 1963): the direction is in a good or in a bad state, and may change it
    /// before each packet. A bad period lasts `1/r` packets on average, and `p/(p+r)` of the time is bad.
    GilbertElliott {
        /// Probability per packet to enter the bad state.
        p: f64,
        /// Probability per packet to leave the bad state.
        r: f64,
        /// Loss probability in the bad state (1-h in the literature).
        bad: f64,
        /// Loss probability in the good state (1-k in the literature).
        good: f64,
    },
}

/// Random detours: a packet that takes one arrives behind packets sent up to `gap` after it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reorder {
    /// Probability per packet of a detour.
    pub probability: f64,
    /// Extra delay of a detour.
    pub gap: Duration,
}

/// Distribution of random durations around their mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Constant, equal to the mean.
    Fixed,
    /// Exponential distribution.
    Exponential,
}

/// Random outages: alternating up and down periods, starting with up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outages {
    /// Mean duration of up periods.
    pub up: Duration,
    /// Mean duration of down periods.
    pub down: Duration,
    /// Distribution of both durations.
    pub spread: Spread,
}

/// Contact window: an interval in which the link may transmit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ContactWindow {
    /// First instant of the window.
    pub start: Instant,
    /// First instant after the window.
    pub end: Instant,
    /// Rate during the window; `None`: the direction's own rate.
    pub rate: Option<DataRate>,
    /// One-way delay during the window; `None`: the direction's own delay.
    pub delay: Option<Duration>,
}
impl ContactWindow {
    /// Creates a window with the direction's own rate and delay.
    pub fn new(start: Instant, end: Instant) -> ContactWindow {
        ContactWindow { start, end, rate: None, delay: None }
    }
}

/// Specification of one direction. The default is a perfect wire: unlimited rate, no delay, no impairments.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DirectionSpec {
    /// Transmission rate.
    pub rate: Rate,
    /// One-way propagation delay.
    pub delay: Delay,
    /// Random extra delay of packets.
    pub jitter: Option<Jitter>,
    /// Random loss of packets.
    pub loss: Loss,
    /// Probability that a bit is wrong. One wrong bit loses the packet, so long packets are lost more often.
    pub bit_error_rate: f64,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Random detours of packets.
    pub reorder: Option<Reorder>,
    /// Probability that a packet arrives with a flipped bit that the link did not detect.
    pub corrupt: f64,
    /// Queue limit; `None`: derived from rate and delay ([`DirectionSpec::queue_bytes`]).
    pub queue: Option<DataVolume>,
    /// Overhead per packet beyond its IP length, bytes: frame headers, coding, sync markers.
    pub overhead: u32,
    /// Contact windows, in order and disjoint; `None`: the link is always up.
    pub windows: Option<Vec<ContactWindow>>,
    /// Random outages inside the windows.
    pub outages: Option<Outages>,
}

impl DirectionSpec {
    /// Creates a link of this rate and one-way delay, without impairments.
    pub fn new(rate: DataRate, delay: Duration) -> DirectionSpec {
        DirectionSpec { rate: Rate::Constant(rate), delay: Delay::Constant(delay), ..DirectionSpec::default() }
    }

    /// Queue limit, bytes: as given; otherwise the data of a round trip at the highest rate, where the round trip
    /// counts as 100 ms at least and 1 s at most (no modem buffers the 40 minutes of a round trip to Mars). A derived
    /// limit is at least 256 KiB, which are four of the largest offloaded packets. No limit at an unlimited rate.
    pub fn queue_bytes(&self) -> u64 {
        if let Some(queue) = self.queue {
            return queue.bytes();
        }
        let own = match &self.rate {
            Rate::Unlimited => return u64::MAX,
            Rate::Constant(rate) => rate.0,
            Rate::Steps(steps) => steps.iter().map(|(_, rate)| rate.0).max().unwrap_or(0),
        };
        let windows = self.windows.iter().flatten().filter_map(|w| w.rate).map(|rate| rate.0);
        let rate = DataRate(windows.max().unwrap_or(0).max(own));
        // The reverse direction is assumed to have the same delay.
        let round_trip = self.longest_delay() * 2;
        let time = round_trip.clamp(Duration::from_millis(100), Duration::from_secs(1));
        rate.volume_in(time).max(256 * 1024)
    }

    /// Longest one-way delay, without jitter and detours; at most 10 years.
    pub fn longest_delay(&self) -> Duration {
        let own = match &self.delay {
            Delay::Constant(delay) => *delay,
            Delay::Table(points) => points.iter().map(|(_, delay)| *delay).max().unwrap_or_default(),
        };
        let windows = self.windows.iter().flatten().filter_map(|w| w.delay).max().unwrap_or_default();
        // Limited to 10 years, so that a larger value in a file cannot overflow when a caller adds or doubles it.
        own.max(windows).min(Duration::from_secs(315_360_000))
    }

    /// Checks the rules that types cannot express: probabilities, order of tables, overlapping windows. `path` precedes
    /// the key in an error.
    pub fn check(&self, path: &str) -> Result<(), ConfigError> {
        let error = |key: &str, expected: String, hint: &str| {
            Err(ConfigError { path: format!("{path}{key}"), expected, hint: hint.into() })
        };
        let mut probabilities = Vec::from([
            ("bit_error_rate", self.bit_error_rate),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
            ("reorder", self.reorder.map_or(0.0, |r| r.probability)),
        ]);
        match self.loss {
            Loss::None => {}
            Loss::Bernoulli(p) => probabilities.push(("loss", p)),
            Loss::GilbertElliott { p, r, bad, good } => probabilities.extend([p, r, bad, good].map(|v| ("loss", v))),
        }
        for (key, value) in probabilities {
            // NaN is in no range, so it is refused here, too.
            if !(0.0..=1.0).contains(&value) {
                return error(key, format!("a probability, not {value}"), "write \"1 %\" or a number from 0 to 1");
            }
        }
        if let Rate::Steps(steps) = &self.rate
            && (steps.is_empty() || !steps.is_sorted_by(|a, b| a.0 < b.0))
        {
            return error("rate", "steps in order of time".into(), "sort the steps; each time may occur once");
        }
        if let Delay::Table(points) = &self.delay
            && (points.is_empty() || !points.is_sorted_by(|a, b| a.0 < b.0))
        {
            return error("delay", "points in order of time".into(), "sort the points; each time may occur once");
        }
        if let Some(outages) = self.outages
            && (outages.up.is_zero() || outages.down.is_zero())
        {
            return error("outages", "times above 0 s".into(), "leave the key out for a link without outages");
        }
        let windows = self.windows.as_deref().unwrap_or_default();
        if let Some(w) = windows.iter().find(|w| w.start >= w.end) {
            let [start, end] = [w.start, w.end].map(|time| format_duration(time - Instant::ZERO));
            let hint = "write the earlier time first, e.g. \"2 s .. 5 s\"";
            return error("windows", format!("a start before its end, not `{start} .. {end}`"), hint);
        }
        if !windows.is_sorted_by(|a, b| a.end <= b.start) {
            return error(
                "windows",
                "windows in order that do not overlap".into(),
                "sort them, and join those that overlap",
            );
        }
        Ok(())
    }
}

/// Specification of both directions of a link.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkSpec {
    /// Direction from the first end to the second; in the presets, towards the spacecraft.
    pub forward: DirectionSpec,
    /// Direction from the second end to the first.
    pub reverse: DirectionSpec,
}

impl LinkSpec {
    /// Creates a link with equal directions.
    pub fn symmetric(direction: DirectionSpec) -> LinkSpec {
        LinkSpec { forward: direction.clone(), reverse: direction }
    }
    /// Checks both directions. An error names the key, with `path` before it.
    pub fn check(&self, path: &str) -> Result<(), ConfigError> {
        self.forward.check(&format!("{path}forward."))?;
        self.reverse.check(&format!("{path}reverse."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_queue_follows_bandwidth_delay() {
        let queue = |rate, delay_ms| DirectionSpec::new(DataRate(rate), Duration::from_millis(delay_ms)).queue_bytes();
        assert_eq!(queue(100_000_000, 300), 7_500_000, "a round trip at the rate");
        assert_eq!(queue(100_000_000, 600_000), 12_500_000, "no more than a second");
        assert_eq!(queue(100_000_000, 0), 1_250_000, "no less than 100 ms");
        assert_eq!(queue(9600, 300), 262_144, "no less than four offloaded packets");
        assert_eq!(DirectionSpec::default().queue_bytes(), u64::MAX);
    }

    #[test]
    fn mistakes_are_named_with_their_key() {
        let bad = DirectionSpec { loss: Loss::Bernoulli(1.5), ..DirectionSpec::default() };
        assert_eq!(bad.check("link.mars.").unwrap_err().path, "link.mars.loss");
        let twice = Delay::Table(Vec::from([(Duration::ZERO, Duration::ZERO); 2]));
        assert!(DirectionSpec { delay: twice, ..DirectionSpec::default() }.check("").is_err());
        let window = |a, b| ContactWindow::new(Instant(a), Instant(b));
        for windows in [[window(5, 5), window(6, 7)], [window(0, 5), window(4, 7)], [window(6, 7), window(0, 5)]] {
            let spec = DirectionSpec { windows: Some(windows.into()), ..DirectionSpec::default() };
            assert!(spec.check("").is_err(), "{windows:?}");
        }
        assert!(LinkSpec::default().check("").is_ok());
    }
}
