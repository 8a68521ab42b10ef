//! Random impairments of packets. Each kind draws from its own generator, once per transmitted packet, so that packet
//! `n` meets the same fate whatever the settings of other kinds are.

use crate::spec::{DirectionSpec, Jitter, JitterShape, Loss};
use farlink_base::Rng;

/// Random generators of one direction; each has its own [`Rng::stream`] number.
#[derive(Clone, Debug)]
pub(crate) struct Impairments {
    loss: Rng,
    bad_state: bool,
    bit_error: Rng,
    jitter: Rng,
    duplicate: Rng,
    reorder: Rng,
    corrupt: Rng,
}

impl Impairments {
    /// Stream number of the outage process; the numbers of the impairments follow.
    pub const OUTAGES: u64 = 0;

    pub fn new(seed: u64) -> Impairments {
        let stream = |n| Rng::stream(seed, n);
        Impairments {
            loss: stream(1),
            bad_state: false,
            bit_error: stream(2),
            jitter: stream(3),
            duplicate: stream(4),
            reorder: stream(5),
            corrupt: stream(6),
        }
    }

    pub fn lost(&mut self, loss: &Loss) -> bool {
        match *loss {
            Loss::None => false,
            Loss::Bernoulli(probability) => self.loss.chance(probability),
            Loss::GilbertElliott { p, r, bad, good } => {
                let flip = if self.bad_state { r } else { p };
                // The state changes before the loss is drawn. Both draws come from one generator, two for each packet.
                self.bad_state ^= self.loss.chance(flip);
                self.loss.chance(if self.bad_state { bad } else { good })
            }
        }
    }

    /// Draws whether any bit of the packet is wrong; the probability is 1 - (1 - rate)^bits.
    pub fn bit_error(&mut self, rate: f64, bytes: u64) -> bool {
        // `expm1` and `log1p` keep the precision that 1 - (1 - 1e-12)^n would lose.
        rate > 0.0 && self.bit_error.chance(-libm::expm1(bytes as f64 * 8.0 * libm::log1p(-rate)))
    }

    /// Draws the extra delay of a packet, ns.
    pub fn jitter(&mut self, jitter: &Option<Jitter>) -> u64 {
        let Some(jitter) = jitter else { return 0 };
        let share = match jitter.shape {
            JitterShape::Uniform => self.jitter.unit(),
            // The range is three standard deviations to either side.
            JitterShape::Normal => (0.5 + self.normal() / 6.0).clamp(0.0, 1.0),
        };
        (share * jitter.most.as_nanos() as f64) as u64
    }

    /// Draws from the standard normal distribution (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.jitter.unit(), self.jitter.unit());
        libm::sqrt(-2.0 * libm::log(u)) * libm::cos(2.0 * core::f64::consts::PI * v)
    }

    /// Draws the extra delay of a detour, ns; `None` if the packet takes no detour.
    pub fn detour(&mut self, spec: &DirectionSpec) -> Option<u64> {
        let reorder = spec.reorder?;
        self.reorder.chance(reorder.probability).then_some(reorder.gap.as_nanos() as u64)
    }

    pub fn duplicated(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.duplicate.chance(probability)
    }

    pub fn corrupted(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.corrupt.chance(probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Duration;

    #[test]
    fn bursts_follow_gilbert_and_elliott() {
        let loss = Loss::GilbertElliott { p: 0.01, r: 0.1, bad: 1.0, good: 0.0 };
        let mut impairments = Impairments::new(5);
        let (mut lost, mut bursts, mut before) = (0u32, 0u32, false);
        // About 3,600 bursts, enough for the tolerances below.
        const N: u32 = 400_000;
        for _ in 0..N {
            let now = impairments.lost(&loss);
            lost += u32::from(now);
            bursts += u32::from(now && !before);
            before = now;
        }
        let (rate, burst) = (f64::from(lost) / f64::from(N), f64::from(lost) / f64::from(bursts));
        assert!((rate - 0.0909).abs() < 0.004, "p/(p+r) = 9.09 %: {rate}");
        assert!((burst - 10.0).abs() < 0.4, "1/r = 10 packets: {burst}");
    }

    #[test]
    fn bit_errors_hit_long_packets_more() {
        let mut impairments = Impairments::new(5);
        // Expected probability for n bytes: 1 - (1 - 1e-5)^(8 n).
        for (bytes, want) in [(100, 0.00797), (1400, 0.1060), (9000, 0.5132)] {
            let hits = (0..100_000).filter(|_| impairments.bit_error(1e-5, bytes)).count();
            assert!((hits as f64 / 1e5 - want).abs() < 0.006, "{bytes} B: {hits}");
        }
        assert!(impairments.bit_error(1.0, 1));
    }

    #[test]
    fn jitter_is_bounded_and_centred() {
        for shape in [JitterShape::Uniform, JitterShape::Normal] {
            let mut impairments = Impairments::new(5);
            let jitter = Some(Jitter { most: Duration::from_nanos(1000), shape, reorders: false });
            let mean = (0..20_000).map(|_| impairments.jitter(&jitter)).inspect(|j| assert!(*j <= 1000)).sum::<u64>();
            assert!((mean as f64 / 2e4 - 500.0).abs() < 10.0, "{shape:?} {mean}");
        }
    }

    #[test]
    fn impairment_generators_are_independent() {
        let mut plain = Impairments::new(9);
        let mut busy = Impairments::new(9);
        let loss = Loss::Bernoulli(0.3);
        let jitter = Some(Jitter { most: Duration::from_millis(1), shape: JitterShape::Normal, reorders: false });
        for _ in 0..1000 {
            busy.jitter(&jitter);
            busy.duplicated(0.5);
            assert_eq!(plain.lost(&loss), busy.lost(&loss));
        }
    }
}
