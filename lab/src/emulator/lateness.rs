//! Measurements of delays, and of the machine's load.

use farlink_os::pressure::{self, MachineTime, Resource, StallTime};
use std::time::Duration;

/// Distribution of delays between due and actual time, with four buckets for each power of two, so that quantiles are
/// accurate to 25 %.
#[derive(Clone, Debug)]
pub struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    max_ns: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness { buckets: vec![0; 256], count: 0, max_ns: 0 }
    }
}

impl Lateness {
    /// Counts one frame.
    pub fn add(&mut self, late_ns: u64) {
        self.add_many(late_ns, 1);
    }

    /// Counts several frames with the same delay.
    pub fn add_many(&mut self, late_ns: u64, count: u64) {
        self.buckets[bucket(late_ns)] += count;
        self.count += count;
        self.max_ns = self.max_ns.max(late_ns);
    }

    /// Adds the counts of another distribution.
    pub fn merge(&mut self, other: &Lateness) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(a, b)| *a += b);
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of frames counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Largest delay.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// Quantile of the delay: `share` 0.5 is the median.
    pub fn quantile(&self, share: f64) -> Duration {
        self.ranked((self.count as f64 * share).ceil() as u64)
    }

    /// Delay that more than 1 % of frames exceed, with 95 % confidence: at least so many frames were later that chance
    /// alone would rarely give as many. Of thousands of frames this is close to the 99th percentile; of thirty it is
    /// the second largest, since a single late one proves nothing.
    pub fn evident_p99(&self) -> Duration {
        match self.count.checked_sub(evident(self.count)) {
            None => Duration::ZERO,
            Some(others) => self.ranked(others + 1),
        }
    }

    /// Delay of the frame with this rank, the smallest delay having rank 1.
    fn ranked(&self, wanted: u64) -> Duration {
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                // Bounded by the maximum, which the upper end of a bucket may exceed.
                return Duration::from_nanos(upper(index).min(self.max_ns));
            }
        }
        self.max()
    }
}

/// Smallest number of late frames of `count` that chance gives in at most 5 % of cases if 1 % of all frames are late.
fn evident(count: u64) -> u64 {
    const LATE: f64 = 0.01;
    const CHANCE: f64 = 0.05;
    let (n, mean) = (count as f64, count as f64 * LATE);
    if mean > 100.0 {
        // The normal distribution, with its quantile of 95 %, is then close to the binomial.
        return (mean + 1.645 * (mean * (1.0 - LATE)).sqrt() + 0.5).ceil() as u64;
    }
    let (mut late, mut fewer, mut exactly) = (0, 0.0, (1.0 - LATE).powf(n));
    while 1.0 - fewer > CHANCE && late <= count {
        fewer += exactly;
        exactly *= (n - late as f64) / (late as f64 + 1.0) * LATE / (1.0 - LATE);
        late += 1;
    }
    late
}

fn bucket(ns: u64) -> usize {
    // Below 4 ns a quarter of a power of two is less than a nanosecond, so each value has its bucket.
    if ns < 4 {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros();
    // The two bits after the leading one choose among the four buckets of a power of two.
    (power as usize) * 4 - 4 + ((ns >> (power - 2)) & 3) as usize
}

fn upper(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (power, part) = ((bucket as u32 + 4) / 4, (bucket as u64) % 4);
    let step = 1u64 << (power - 2);
    (1u64 << power).saturating_add((part + 1).saturating_mul(step)).saturating_sub(1)
}

/// Measures the machine's load since its creation.
#[derive(Clone, Copy, Debug)]
pub struct MachineWatch {
    since_ns: u64,
    pressure: Option<StallTime>,
    memory: Option<StallTime>,
    io: Option<StallTime>,
    time: Option<MachineTime>,
}

impl MachineWatch {
    /// Starts measuring now.
    pub fn start() -> Self {
        MachineWatch {
            since_ns: farlink_os::monotonic_ns(),
            pressure: pressure::pressure(Resource::Cpu),
            memory: pressure::pressure(Resource::Memory),
            io: pressure::pressure(Resource::Io),
            time: pressure::machine_time(),
        }
    }

    /// Fraction of the time since the start in which some task waited for a processor, and fraction of processor time
    /// that the hypervisor stole; `None` if the kernel does not report it.
    pub fn shares(&self) -> (Option<f64>, Option<f64>) {
        let waited = self.waited(self.pressure, Resource::Cpu);
        let stolen = self.time.zip(pressure::machine_time()).map(|(a, b)| {
            let stolen = b.stolen.saturating_sub(a.stolen);
            // Both counters sum over all processors, so the fraction does not depend on their number.
            let total = stolen + b.busy.saturating_sub(a.busy) + b.idle.saturating_sub(a.idle);
            stolen.as_secs_f64() / total.as_secs_f64().max(1e-3)
        });
        (waited, stolen)
    }

    /// Fraction of processor time since the start that was spent busy; `None` if the kernel does not report it.
    pub fn busy(&self) -> Option<f64> {
        let (a, b) = self.time.zip(pressure::machine_time())?;
        let busy = b.busy.saturating_sub(a.busy);
        let total = busy + b.idle.saturating_sub(a.idle) + b.stolen.saturating_sub(a.stolen);
        Some(busy.as_secs_f64() / total.as_secs_f64().max(1e-3))
    }

    /// Fractions of the time since the start in which some task waited for memory, and for disks; `None` if the kernel
    /// does not report it.
    pub fn memory_and_io(&self) -> (Option<f64>, Option<f64>) {
        (self.waited(self.memory, Resource::Memory), self.waited(self.io, Resource::Io))
    }

    fn waited(&self, before: Option<StallTime>, resource: Resource) -> Option<f64> {
        let elapsed = Duration::from_nanos(farlink_os::monotonic_ns() - self.since_ns).as_secs_f64().max(1e-3);
        let some = pressure::pressure(resource)?.some.saturating_sub(before?.some);
        Some((some.as_secs_f64() / elapsed).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_times_in_order() {
        let mut last = 0;
        for ns in (0..2000).chain((11..63).map(|p| (1u64 << p) + 5)) {
            let b = bucket(ns);
            assert!(b >= last && b < 256, "{ns}: {b}");
            assert!(upper(b) >= ns && (b == 0 || upper(b - 1) < ns), "{ns} {b} {}", upper(b));
            last = b;
        }
    }

    #[test]
    fn quantiles_are_close_and_merge() {
        let (mut a, mut b) = (Lateness::default(), Lateness::default());
        (1..=500).for_each(|i| a.add(i * 1000));
        (501..=1000).for_each(|i| b.add(i * 1000));
        a.merge(&b);
        let p50 = a.quantile(0.5).as_nanos() as f64;
        assert!((500e3..=625e3).contains(&p50), "{p50}");
        assert_eq!(a.quantile(1.0), Duration::from_millis(1));
        assert_eq!(a.max(), Duration::from_millis(1));
        assert_eq!(Lateness::default().quantile(0.99), Duration::ZERO);
    }

    #[test]
    fn one_late_frame_of_thirty_proves_nothing() {
        // Binomial distribution of probability 0.01: P(X >= 2) is 0.036 for 30 trials, P(X >= 5) 0.018 for 150.
        assert_eq!([0, 1, 6, 30, 150].map(evident), [1, 1, 2, 2, 5]);
        assert_eq!(evident(1_000_000), 10_165, "1.645 deviations more than 1 %");
        let mut few = Lateness::default();
        few.add_many(100_000, 29);
        few.add(50_000_000);
        assert!(few.quantile(0.99) >= Duration::from_millis(50) && few.evident_p99() < Duration::from_millis(1));
        few.add(50_000_000);
        assert_eq!(few.evident_p99(), Duration::from_millis(50));
        let mut many = Lateness::default();
        many.add_many(100_000, 9_800);
        many.add_many(50_000_000, 200);
        assert_eq!(many.evident_p99(), Duration::from_millis(50));
        assert_eq!(Lateness::default().evident_p99(), Duration::ZERO);
    }

    #[test]
    fn machine_load_fractions_are_valid() {
        let watch = MachineWatch::start();
        let (waited, stolen) = watch.shares();
        assert!(waited.is_none_or(|w| (0.0..=1.0).contains(&w)));
        assert!(stolen.is_none_or(|s| (0.0..=1.0).contains(&s)));
        assert!(watch.busy().is_none_or(|b| (0.0..=1.0).contains(&b)));
    }
}
