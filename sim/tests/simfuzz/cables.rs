//! Links of random networks: layers, impairments and contacts.

use super::draft::{Draft, Part, Shape, pick};
use farlink_base::Rng;
use std::fmt::Write;

/// Kind of links in a network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Layers {
    /// Reliable layers, with packet loss.
    Plain,
    /// As `Plain`, with duplicates, reordering, corruption and bursts of loss.
    Rough,
    /// Layers without acknowledgments among the others.
    Unreliable,
}

impl Draft {
    /// Draws a tree that connects all nodes, and some more links.
    pub fn draw_links(&mut self, random: &mut Rng, shape: &Shape) {
        let count = shape.count;
        let mut pairs: Vec<(usize, usize)> =
            (2..=count).map(|n| (1 + random.below(n as u64 - 1) as usize, n)).collect();
        for _ in 0..random.below(count as u64) {
            let pair = (1 + random.below(count as u64) as usize, 1 + random.below(count as u64) as usize);
            if pair.0 < pair.1 && !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        for (a, b) in pairs {
            let name = format!("l{a}-{b}");
            let mut text = format!("[[link]]\nname = \"{name}\"\nbetween = [\"n{a}\", \"n{b}\"]\n");
            text += &kind(random, shape);
            if random.chance(0.5) {
                let mut at = random.below(60);
                while at + 5 < self.calm_s {
                    let end = (at + 5 + random.below(120)).min(self.calm_s - 1);
                    let _ = write!(text, "[[contact]]\nlink = \"{name}\"\nstart = \"{at} s\"\nend = \"{end} s\"\n");
                    at = end + 1 + random.below(90);
                }
                let (from, to) = (self.calm_s, self.calm_s + self.well_s);
                let _ = write!(text, "[[contact]]\nlink = \"{name}\"\nstart = \"{from} s\"\nend = \"{to} s\"\n");
            }
            self.links.push(Part { text, nodes: vec![a, b], link: Some(name) });
        }
    }
}

fn kind(random: &mut Rng, shape: &Shape) -> String {
    let layer = match shape.layers {
        Layers::Unreliable => pick(random, &["udpcl", "udpcl", "stcp", "mtcp", "ltp", "tcpclv4"]),
        _ => pick(random, &["ltp", "ltp", "tcpclv4", "tcpclv4", "tcpclv3"]),
    };
    let layer = if shape.message && layer == "tcpclv3" { "tcpclv4" } else { layer };
    let (far, lossy) = (layer == "ltp", matches!(layer, "ltp" | "udpcl"));
    let rate = pick(random, &["128 kbit/s", "1 Mbit/s", "1 Mbit/s", "20 Mbit/s"]);
    let delay = pick(random, &["1 ms", "50 ms", "300 ms", "1 s", "45 s"][..if far { 5 } else { 4 }]);
    let loss = pick(random, &["0", "0", "0.001", "0.02", "0.1"][..if lossy { 5 } else { 4 }]);
    let mut text = format!("layer = \"{layer}\"\nrate = \"{rate}\"\ndelay = \"{delay}\"\n");
    let rough = shape.layers != Layers::Plain;
    if rough && random.chance(0.3) {
        text += "burst = { to_bad = 0.002, to_good = 0.1 }\n";
    } else {
        let _ = writeln!(text, "loss = {loss}");
    }
    for (chance, line) in [
        (0.4, "duplicate = 0.01\n"),
        (0.4, "jitter = \"40 ms\"\njitter_reorders = true\n"),
        (0.3, "reorder = 0.02\nreorder_gap = \"200 ms\"\n"),
        (0.3, "corrupt = 0.005\n"),
    ] {
        text += if rough && random.chance(chance) { line } else { "" };
    }
    let own = match layer {
        "udpcl" if random.chance(0.5) => "udpcl = { version = 2 }\n",
        "ltp" if random.chance(0.3) => "ltp = { aggregate = \"20 kB\" }\n",
        "ltp" if rough && random.chance(0.4) => "ltp = { copies = 3, checkpoint_every = \"5 kB\" }\n",
        _ => "",
    };
    text + own
}
