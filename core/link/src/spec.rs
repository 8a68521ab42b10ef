//! What one direction of a link is like. Plain data; times count from the driver's origin.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{ConfigError, DataRate, DataVolume, Duration, Instant, format_duration};

/// How fast packets leave.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Rate {
    /// At once: no serialization time and no queue.
    #[default]
    Unlimited,
    /// Always this rate.
    Constant(DataRate),
    /// From each time on, this rate; rate 0 before the first.
    Steps(Vec<(Duration, DataRate)>),
}

/// How long a packet travels.
#[derive(Clone, PartialEq, Debug)]
pub enum Delay {
    /// Always as long.
    Constant(Duration),
    /// Straight lines between these points; the first and last value hold outside.
    Table(Vec<(Duration, Duration)>),
}
impl Default for Delay {
    fn default() -> Self {
        Delay::Constant(Duration::ZERO)
    }
}

/// Shape of the jitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JitterShape {
    /// Every value equally likely.
    Uniform,
    /// Normal around the middle, six standard deviations wide, cut at both ends.
    Normal,
}

/// Random delay on top of the one-way delay, which stays the least: light is not outrun.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Jitter {
    /// Largest extra delay.
    pub most: Duration,
    /// Its distribution in `0..=most`.
    pub shape: JitterShape,
    /// Whether a packet may overtake another because of it; otherwise it waits behind.
    pub reorders: bool,
}

/// Random loss of whole packets, after they used their share of the rate.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each packet alone, with this probability.
    Bernoulli(f64),
    /// Two states (Gilbert 1960, Elliott 1963), stepped once per packet. Mean burst `1/r` packets,
    /// share of bad time `p/(p+r)`.
    GilbertElliott {
        /// Probability to turn bad, per packet.
        p: f64,
        /// Probability to turn good, per packet.
        r: f64,
        /// Loss while bad (1-h in the literature).
        bad: f64,
        /// Loss while good (1-k in the literature).
        good: f64,
    },
}

/// Some packets take a detour and arrive behind those sent within `gap` after them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reorder {
    /// Which share of packets.
    pub probability: f64,
    /// How much later they arrive.
    pub gap: Duration,
}

/// How random durations are spread around their mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Always the mean.
    Fixed,
    /// Exponential.
    Exponential,
}

/// Random outages: up and down periods in turn, beginning with up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outages {
    /// Mean time up.
    pub up: Duration,
    /// Mean time down.
    pub down: Duration,
    /// Their distribution.
    pub spread: Spread,
}

/// A time in which the link may transmit: a contact.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    /// First instant.
    pub start: Instant,
    /// First instant after it.
    pub end: Instant,
    /// Rate while it lasts, in place of the direction's own.
    pub rate: Option<DataRate>,
    /// One-way delay while it lasts, in place of the direction's own.
    pub delay: Option<Duration>,
}
impl Window {
    /// A window with the direction's own rate and delay.
    pub fn new(start: Instant, end: Instant) -> Window {
        Window { start, end, rate: None, delay: None }
    }
}

/// One direction of a link. The default is a perfect wire.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DirectionSpec {
    /// How fast packets leave.
    pub rate: Rate,
    /// How long they travel.
    pub delay: Delay,
    /// Random extra delay.
    pub jitter: Option<Jitter>,
    /// Random loss.
    pub loss: Loss,
    /// Probability of each bit to be wrong; one wrong bit loses the packet, so that long packets
    /// are lost more often.
    pub bit_error_rate: f64,
    /// Probability of a packet to arrive twice.
    pub duplicate: f64,
    /// Packets that take a detour.
    pub reorder: Option<Reorder>,
    /// Probability of a packet to arrive with a flipped bit that the link did not notice.
    pub corrupt: f64,
    /// Bytes that may wait for transmission; sized from rate and delay when not given.
    pub queue: Option<DataVolume>,
    /// Bytes every packet costs beyond its IP length: frame headers, coding, sync markers.
    pub overhead: u32,
    /// When it may transmit; always, when not given.
    pub windows: Option<Vec<Window>>,
    /// Random outages inside the windows.
    pub outages: Option<Outages>,
}

impl DirectionSpec {
    /// A clean link of this rate and one-way delay.
    pub fn new(rate: DataRate, delay: Duration) -> DirectionSpec {
        DirectionSpec { rate: Rate::Constant(rate), delay: Delay::Constant(delay), ..DirectionSpec::default() }
    }

    /// Bytes that may wait for transmission: as given, or a round trip at the highest rate, but
    /// no less than 100 ms and no more than 1 s of it (a modem buffers neither nothing nor the
    /// 40 minutes of a round trip to Mars), and at least 256 KiB, four of the largest offloaded
    /// packets.
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
        let round_trip = self.longest_delay() * 2;
        let time = round_trip.clamp(Duration::from_millis(100), Duration::from_secs(1));
        rate.volume_in(time).max(256 * 1024)
    }

    /// The longest one-way delay that can occur, without jitter and detours.
    pub fn longest_delay(&self) -> Duration {
        let own = match &self.delay {
            Delay::Constant(delay) => *delay,
            Delay::Table(points) => points.iter().map(|(_, delay)| *delay).max().unwrap_or_default(),
        };
        let windows = self.windows.iter().flatten().filter_map(|w| w.delay).max().unwrap_or_default();
        // Longer than 10 years is a mistake that `check` reports; here it must not overflow.
        own.max(windows).min(Duration::from_secs(315_360_000))
    }

    /// Checks what the types cannot: probabilities, order of tables, windows that overlap.
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

/// Both directions of a link.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkSpec {
    /// From the first end to the second: towards the spacecraft in the presets.
    pub forward: DirectionSpec,
    /// From the second end to the first.
    pub reverse: DirectionSpec,
}

impl LinkSpec {
    /// The same both ways.
    pub fn symmetric(direction: DirectionSpec) -> LinkSpec {
        LinkSpec { forward: direction.clone(), reverse: direction }
    }
    /// Checks both directions.
    pub fn check(&self, path: &str) -> Result<(), ConfigError> {
        self.forward.check(&format!("{path}forward."))?;
        self.reverse.check(&format!("{path}reverse."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_queue_follows_rate_and_delay_within_reason() {
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
        let window = |a, b| Window::new(Instant(a), Instant(b));
        for windows in [[window(5, 5), window(6, 7)], [window(0, 5), window(4, 7)], [window(6, 7), window(0, 5)]] {
            let spec = DirectionSpec { windows: Some(windows.into()), ..DirectionSpec::default() };
            assert!(spec.check("").is_err(), "{windows:?}");
        }
        assert!(LinkSpec::default().check("").is_ok());
    }
}
