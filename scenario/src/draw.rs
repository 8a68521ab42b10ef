//! Random traffic among groups, which every world must draw alike.

use crate::motion::GroupTraffic;
use crate::types::{Pace, Scenario, SizeRange, Traffic, TrafficKind};
use farlink_base::{DataVolume, Duration, Rng};

/// Number of the random stream for traffic, distinct from those of all other purposes of a run.
const TRAFFIC: u64 = 17;

impl Scenario {
    /// Replaces the seed and draws the bundles among groups again.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
        self.traffic.retain(|traffic| traffic.drawn.is_none());
        for (index, traffic) in self.group_traffic.iter().enumerate() {
            // One stream for each entry: a change to one entry leaves the draws of others as they are.
            let random = Rng::stream(seed, TRAFFIC << 32 | index as u64);
            let drawn = draw(self, index, traffic, random);
            self.traffic.extend(drawn);
        }
    }
}

fn draw(scenario: &Scenario, index: usize, traffic: &GroupTraffic, mut random: Rng) -> Vec<Traffic> {
    let mut all = Vec::new();
    let mut at = traffic.start;
    for number in 1..=traffic.count {
        if at >= scenario.duration {
            break;
        }
        // The order of draws is part of the result: ends, size, gap.
        let mut one = |nodes: &std::ops::Range<usize>| nodes.start + random.below(nodes.len() as u64) as usize;
        let (mut from, mut to) = (one(&traffic.from), one(&traffic.to));
        // Draw until the receiver is not the sender; at least one of both ends has another node to choose.
        while to == from {
            if traffic.to.len() > 1 {
                to = one(&traffic.to);
            } else {
                from = one(&traffic.from);
            }
        }
        let SizeRange { min, max } = traffic.size;
        let size = DataVolume(min.0 + random.below((max.0 - min.0).saturating_add(1)));
        let [least, most] = traffic.interval;
        // Uniform between the bounds, as in the ONE simulator's message generator.
        let gap = least + (most - least) * random.unit();
        let sender = &scenario.nodes[from];
        all.push(Traffic {
            name: format!("{}-{number}", traffic.name),
            from,
            to,
            service: traffic.service,
            kind: TrafficKind::Bundles { count: 1, size: SizeRange { min: size, max: size }, pace: Pace::Flat },
            start: at,
            lifetime: traffic.lifetime.unwrap_or(sender.lifetime),
            priority: traffic.priority.unwrap_or(sender.priority),
            window: 0,
            reports: traffic.reports,
            lost: traffic.lost,
            drawn: Some(index),
        });
        at += Duration::from_nanos((gap * 1e9).round() as u64);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Facts;

    #[test]
    fn lone_receiver_in_sending_group_never_sends() {
        let node = |n: u8| format!("[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\n");
        let text = format!("name = \"s\"\nduration = \"100 s\"\n{}", (1..5).map(node).collect::<String>());
        let scenario = Scenario::parse(&text).unwrap();
        let traffic = |from, to| GroupTraffic {
            name: "t".into(),
            from,
            to,
            service: 1000,
            count: 50,
            size: SizeRange { min: DataVolume(1), max: DataVolume(9) },
            interval: [1.0, 1.0],
            start: Duration::ZERO,
            lifetime: None,
            priority: None,
            reports: Facts::default(),
            lost: false,
        };
        for (from, to) in [(0..4, 1..2), (1..2, 0..4), (0..4, 0..4)] {
            let all = draw(&scenario, 0, &traffic(from.clone(), to.clone()), Rng::new(7));
            assert_eq!(all.len(), 50);
            assert!(all.iter().all(|t| t.from != t.to && from.contains(&t.from) && to.contains(&t.to)));
        }
    }
}
