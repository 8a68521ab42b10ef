//! Random networks with random faults, as text: what a seed stands for, and the smaller ones that shrinking tries.
//!
//! Until `calm_s` contacts come and go and faults strike; from then on every link is up until the end, so that what
//! was kept must arrive where the router sees to that.

use farlink_base::Rng;
use std::fmt::Write;

/// How long everything is well at the end, in seconds.
const CALM_S: u64 = 3600;

/// One network, in parts that can be left out.
#[derive(Clone, Debug)]
pub struct Draft {
    pub seed: u64,
    pub calm_s: u64,
    /// Whether what was kept has to arrive.
    pub drains: bool,
    /// Lines before the first table, and tables that are not left out.
    pub top: String,
    pub common: String,
    pub nodes: Vec<String>,
    pub links: Vec<Part>,
    pub traffic: Vec<Part>,
    pub faults: Vec<Part>,
}

/// Some tables, and the nodes and links without which they mean nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub text: String,
    pub nodes: Vec<usize>,
    pub link: Option<String>,
}

impl Draft {
    /// The scenario as a file.
    pub fn text(&self) -> String {
        let drains = if self.drains { "; all that is kept arrives" } else { "" };
        let mut text = format!(
            "name = \"simfuzz-{}\"\ndescription = \"random{drains}\"\nseed = {}\nduration = \"{} s\"\n{}{}",
            self.seed,
            self.seed,
            self.calm_s + CALM_S,
            self.top,
            self.common
        );
        self.nodes.iter().for_each(|node| text += node);
        for part in [&self.links, &self.traffic, &self.faults].into_iter().flatten() {
            text += &part.text;
        }
        text
    }
    /// The network of a seed.
    pub fn of(seed: u64) -> Draft {
        let mut random = Rng::stream(seed, 0x51f0_0221);
        let calm_s = 100 + random.below(1000);
        let by_radio = random.chance(0.12);
        let message = by_radio || random.chance(0.25);
        let most = if random.chance(0.3) { 11 } else { 4 };
        let count = 2 + random.below(most) as usize;
        let router = if by_radio {
            ["epidemic", "epidemic", "spray-and-wait", "prophet", "maxprop"][random.below(5) as usize]
        } else {
            ["sabr", "sabr", "sabr", "sabr", "epidemic", "epidemic", "prophet", "maxprop"][random.below(8) as usize]
        };
        let small = random.chance(0.2);
        let drops = random.chance(0.15);
        let drains = !by_radio && !small && !drops && matches!(router, "sabr" | "epidemic");
        let mut draft = Draft {
            seed,
            calm_s,
            drains,
            top: format!(
                "stop_when_delivered = {}\nfidelity = \"{}\"\n",
                random.chance(0.5),
                if message { "message" } else { "full" }
            ),
            common: String::new(),
            nodes: Vec::new(),
            links: Vec::new(),
            traffic: Vec::new(),
            faults: Vec::new(),
        };
        let capacity = if small { "400 kB" } else { "200 MB" };
        draft.common = format!(
            "[node_defaults]\nrouter = \"{router}\"\ncontrol = \"{}\"\nstore_capacity = \"{capacity}\"\n\
             [measure]\ninterval = \"10 s\"\n",
            if drops { "drop-oldest" } else { "none" }
        );
        if by_radio {
            draft.common += "[[mobility]]\nname = \"m\"\nmodel = \"random_waypoint\"\narea = \"500 m\"\n\
                             speed = [\"1 m/s\", \"9 m/s\"]\n[[radio]]\nname = \"r\"\nrange = \"150 m\"\n\
                             rate = \"1 Mbit/s\"\n";
        }
        let durable = [0.0, 0.6, 1.0, 1.0][random.below(4) as usize];
        for n in 1..=count {
            let store = if random.chance(durable) { "durable" } else { "memory" };
            let version = if random.chance(0.15) { "bundle_version = 6\n" } else { "" };
            let moves = if by_radio { "mobility = \"m\"\nradio = \"r\"\n" } else { "" };
            draft
                .nodes
                .push(format!("[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\nstore = \"{store}\"\n{version}{moves}"));
        }
        if !by_radio {
            draft.draw_links(&mut random, count, message);
        }
        draft.draw_traffic(&mut random, count, small);
        draft.draw_faults(&mut random, count, by_radio);
        draft
    }

    /// A tree that joins all nodes, and some links more.
    fn draw_links(&mut self, random: &mut Rng, count: usize, message: bool) {
        let mut pairs: Vec<(usize, usize)> =
            (2..=count).map(|n| (1 + random.below(n as u64 - 1) as usize, n)).collect();
        for _ in 0..random.below(count as u64) {
            let pair = (1 + random.below(count as u64) as usize, 1 + random.below(count as u64) as usize);
            if pair.0 < pair.1 && !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        for (a, b) in pairs {
            let layer = ["ltp", "ltp", "tcpclv4", "tcpclv4", "tcpclv3"][random.below(5) as usize];
            let layer = if message && layer == "tcpclv3" { "tcpclv4" } else { layer };
            let rate = ["128 kbit/s", "1 Mbit/s", "1 Mbit/s", "20 Mbit/s"][random.below(4) as usize];
            let far = if layer == "ltp" { 5 } else { 4 };
            let delay = ["1 ms", "50 ms", "300 ms", "1 s", "45 s"][random.below(far) as usize];
            let loss = ["0", "0", "0.001", "0.02", "0.1"][random.below(if layer == "ltp" { 5 } else { 4 }) as usize];
            let name = format!("l{a}-{b}");
            let mut text = format!(
                "[[link]]\nname = \"{name}\"\nbetween = [\"n{a}\", \"n{b}\"]\nlayer = \"{layer}\"\nrate = \"{rate}\"\n\
                 delay = \"{delay}\"\nloss = {loss}\n"
            );
            if random.chance(0.5) {
                let mut at = random.below(60);
                while at + 5 < self.calm_s {
                    let end = (at + 5 + random.below(120)).min(self.calm_s - 1);
                    let _ = write!(text, "[[contact]]\nlink = \"{name}\"\nstart = \"{at} s\"\nend = \"{end} s\"\n");
                    at = end + 1 + random.below(90);
                }
                let (from, to) = (self.calm_s, self.calm_s + CALM_S);
                let _ = write!(text, "[[contact]]\nlink = \"{name}\"\nstart = \"{from} s\"\nend = \"{to} s\"\n");
            }
            self.links.push(Part { text, nodes: vec![a, b], link: Some(name) });
        }
    }

    fn draw_traffic(&mut self, random: &mut Rng, count: usize, small: bool) {
        for n in 0..1 + random.below(6) {
            let from = 1 + random.below(count as u64) as usize;
            let to = 1 + (from + random.below(count as u64 - 1) as usize) % count;
            let start = random.below(self.calm_s);
            let bundles = 1 + random.below(60);
            let most = if small { "30 kB" } else { ["1 kB", "30 kB", "30 kB", "300 kB"][random.below(4) as usize] };
            let pace = ["", ", interval = \"200 ms\"", ", interval = \"3 s\"", ", interval = \"15 s\""];
            let pace = pace[random.below(4) as usize];
            let lifetime = if random.chance(0.2) { 2 + random.below(400) } else { 200_000 };
            // Whoever offers to a full node ten times a second keeps the machine busy, and shows nothing new.
            let refused = if small { "refused = \"lost\"\n" } else { "" };
            let text = format!(
                "[[traffic]]\nname = \"t{n}\"\nfrom = \"n{from}\"\nto = \"n{to}\"\nstart = \"{start} s\"\n\
                 lifetime = \"{lifetime} s\"\n{refused}bundles = {{ count = {bundles}, size = [\"1 B\", \"{most}\"]{pace} }}\n"
            );
            self.traffic.push(Part { text, nodes: vec![from, to], link: None });
        }
    }

    fn draw_faults(&mut self, random: &mut Rng, count: usize, by_radio: bool) {
        for _ in 0..random.below(80) {
            let node = 1 + random.below(count as u64) as usize;
            let at_ms = 1 + random.below(self.calm_s * 1000 - 1);
            let left_ms = self.calm_s * 1000 - at_ms;
            let longest_ms = [50, 3000, 60_000][random.below(3) as usize];
            let lasts_ms = (1 + random.below(longest_ms)).min(left_ms);
            let at = format!("at = \"{at_ms} ms\"\n");
            let lasts = format!("{at}lasts = \"{lasts_ms} ms\"\n");
            let mut part = Part { text: "[[fault]]\n".into(), nodes: vec![node], link: None };
            match random.below(10) {
                0..5 => part.text += &format!("kind = \"restart\"\nnode = \"n{node}\"\n{lasts}"),
                5..9 if by_radio => {
                    let other = 1 + (node + random.below(count as u64 - 1) as usize) % count;
                    part.nodes.push(other);
                    part.text += &format!("kind = \"link_down\"\nbetween = [\"n{node}\", \"n{other}\"]\n{lasts}");
                }
                5..9 => {
                    let link = &self.links[random.below(self.links.len() as u64) as usize];
                    part = Part { nodes: link.nodes.clone(), link: link.link.clone(), ..part };
                    part.text +=
                        &format!("kind = \"link_down\"\nlink = \"{}\"\n{lasts}", part.link.clone().unwrap_or_default());
                }
                _ if random.chance(0.5) => {
                    let jump = random.below(4000) as i64 - 2000;
                    part.text += &format!("kind = \"clock\"\nnode = \"n{node}\"\n{at}jump = \"{jump} ms\"\n");
                }
                _ => {
                    let ppm = random.below(400) as i64 - 200;
                    part.text += &format!("kind = \"clock\"\nnode = \"n{node}\"\n{at}drift_ppm = {ppm}\n");
                }
            }
            self.faults.push(part);
        }
    }

    /// The same without a node, and what means nothing without it.
    fn without_node(&self, node: usize) -> Draft {
        let mut less = self.clone();
        less.nodes[node - 1].clear();
        let links = self.links.iter().filter(|part| part.nodes.contains(&node));
        let gone: Vec<_> = links.filter_map(|part| part.link.clone()).collect();
        for parts in [&mut less.links, &mut less.traffic, &mut less.faults] {
            parts.retain(|part| {
                !part.nodes.contains(&node) && !part.link.as_ref().is_some_and(|link| gone.contains(link))
            });
        }
        less
    }
    /// The same without a link, and its faults.
    fn without_link(&self, index: usize) -> Draft {
        let mut less = self.clone();
        let gone = less.links.remove(index).link;
        less.faults.retain(|part| part.link.is_none() || part.link != gone);
        less
    }

    /// The smallest that still fails, as far as leaving out halves and single parts leads.
    pub fn shrunk(self, fails: impl Fn(&Draft) -> bool) -> Draft {
        let mut best = self;
        loop {
            let before = best.text().len();
            best = halved(best, |draft| &mut draft.faults, &fails);
            best = halved(best, |draft| &mut draft.traffic, &fails);
            for node in (1..=best.nodes.len()).rev() {
                if !best.nodes[node - 1].is_empty() {
                    best = Some(best.without_node(node)).filter(&fails).unwrap_or(best);
                }
            }
            for link in (0..best.links.len()).rev() {
                best = Some(best.without_link(link)).filter(&fails).unwrap_or(best);
            }
            if best.text().len() == before {
                return best;
            }
        }
    }
}

/// Leaves out what can be left out of a list: halves first, then quarters, down to one by one.
fn halved(mut best: Draft, list: impl Fn(&mut Draft) -> &mut Vec<Part>, fails: &impl Fn(&Draft) -> bool) -> Draft {
    let mut size = list(&mut best).len().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        while from < list(&mut best).len() {
            let mut less = best.clone();
            let parts = list(&mut less);
            let to = (from + size).min(parts.len());
            parts.drain(from..to);
            if fails(&less) { best = less } else { from = to }
        }
        size /= 2;
    }
    best
}
