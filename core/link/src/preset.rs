//! Link presets, with the source of every number. Forward means towards the spacecraft.

use crate::spec::{Delay, DirectionSpec, LinkSpec, Loss, Rate};
use farlink_base::{DataRate, Duration};

/// Names of all presets, each with a description.
pub const PRESETS: [(&str, &str); 5] = [
    ("mars-relay", "Mars orbiter to Earth, X band: 6 Mbit/s down, 2 kbit/s up, 12.5 min one way"),
    ("geo", "one geostationary hop: 10 Mbit/s both ways, 300 ms one way"),
    ("leo-optical", "laser link in low Earth orbit: 2.5 Gbit/s both ways, 10 ms one way"),
    ("lunar-relay", "Moon to Earth, Ka band: 100 Mbit/s down, 10 Mbit/s up, 1.3 s one way"),
    ("iss-ku", "space station over TDRS, Ku band: 300 Mbit/s down, 25 Mbit/s up, 300 ms one way"),
];

const KILOBIT: u64 = 1000;
const MEGABIT: u64 = 1_000_000;

/// Ethernet overhead per IP packet, bytes: preamble, header, check sequence and gap.
const ETHERNET: u32 = 38;
/// CCSDS AOS overhead per IP packet, bytes, roughly: 8 for the header of the encapsulation packet (CCSDS 133.1), 16 for
/// its share of the transfer frame's header, trailer and sync marker (CCSDS 732.0, 131.0).
const CCSDS_AOS: u32 = 24;

impl LinkSpec {
    /// Preset of this name; `None` for an unknown name.
    ///
    /// - `mars-relay`: Mars Reconnaissance Orbiter: X-band downlink up to 6 Mbit/s, command uplink
    ///   up to 2 kbit/s (Taylor, Lee, Shambayati: *Mars Reconnaissance Orbiter
    ///   Telecommunications*, DESCANSO 12, JPL 2006). Light time 3 to 22 min; 750 s is the mean
    ///   Earth-Mars distance of 1.5 au.
    /// - `geo`: 600 ms round trip and 10 Mbit/s, the condition of the Virtual Testbed Toolkit study
    ///   (two times 35,786 km is 239 ms each way; the rest is modems and the ground). Quasi
    ///   error-free is a packet error ratio of 1e-7 (ETSI EN 302 307-1, DVB-S2).
    /// - `leo-optical`: 2.5 Gbit/s of the Space Development Agency's *Optical Communications
    ///   Terminal Standard*; 10 ms is 3,000 km. Pointing jitter comes as bursts: 0.1 % of the time
    ///   bad, ten packets at a time (an assumption; replace it with measurements of the terminal).
    /// - `lunar-relay`: Lunar Reconnaissance Orbiter's 100 Mbit/s in Ka band (NASA); uplink 10
    ///   Mbit/s as on Orion's optical terminal O2O (NASA). 384,400 km is 1.28 s.
    /// - `iss-ku`: Ku band over TDRSS: 300 Mbit/s return (600 since 2019), 25 Mbit/s forward
    ///   (NASA, *ISS Researcher's Guide*); 600 ms round trip through two geostationary hops'
    ///   ground path, as NASA's SDIL emulates it. The return takes coded frames with a bit error
    ///   ratio of 1e-9 after decoding (an assumption of this preset).
    pub fn preset(name: &str) -> Option<LinkSpec> {
        let link = |forward, reverse, delay_ms, overhead| {
            let direction = |rate| DirectionSpec {
                rate: Rate::Constant(DataRate(rate)),
                delay: Delay::Constant(Duration::from_millis(delay_ms)),
                overhead,
                ..DirectionSpec::default()
            };
            LinkSpec { forward: direction(forward), reverse: direction(reverse) }
        };
        Some(match name {
            "mars-relay" => link(2 * KILOBIT, 6 * MEGABIT, 750_000, CCSDS_AOS),
            "geo" => {
                let mut spec = link(10 * MEGABIT, 10 * MEGABIT, 300, CCSDS_AOS);
                spec.forward.loss = Loss::Bernoulli(1e-7);
                spec.reverse.loss = Loss::Bernoulli(1e-7);
                spec
            }
            "leo-optical" => {
                let mut spec = link(2500 * MEGABIT, 2500 * MEGABIT, 10, ETHERNET);
                let fades = Loss::GilbertElliott { p: 1e-4, r: 0.1, bad: 1.0, good: 0.0 };
                spec.forward.loss = fades;
                spec.reverse.loss = fades;
                spec
            }
            "lunar-relay" => link(10 * MEGABIT, 100 * MEGABIT, 1300, CCSDS_AOS),
            "iss-ku" => {
                let mut spec = link(25 * MEGABIT, 300 * MEGABIT, 300, CCSDS_AOS);
                spec.reverse.bit_error_rate = 1e-9;
                spec
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkDirection;
    use farlink_base::Instant;

    #[test]
    fn every_preset_carries_a_packet() {
        for (name, _) in PRESETS {
            let spec = LinkSpec::preset(name).unwrap();
            spec.check("").unwrap();
            for direction in [spec.forward, spec.reverse] {
                let delay = direction.longest_delay();
                let mut link = LinkDirection::new(direction, 1);
                // 1,360 B of payload with IPv4 and UDP headers.
                let arrival = link.transmit(Instant(0), 1388).deliveries().next().unwrap().at;
                assert!(arrival - Instant(0) > delay && arrival - Instant(0) < delay + Duration::from_secs(10));
            }
        }
        assert_eq!(LinkSpec::preset("tin-cans"), None);
    }
}
