//! Features of the nodes of random networks: custody, tunnels, security, quotas, reports, traffic and faults.

use super::cables::Layers;
use super::draft::{Draft, Part, Sending, Shape, pick};
use farlink_base::Rng;

/// Keys for all nodes, besides those that every network has.
pub fn of_all(random: &mut Rng, shape: &Shape) -> String {
    let mut text = String::new();
    if shape.custody {
        text += "custody = \"ask\"\ncustody_timeout = \"5 s\"\ncustody_rules = { timeout_max = \"40 s\" }\n";
    }
    if random.chance(0.15) {
        text += "status_reports = true\n";
    }
    if random.chance(0.15) {
        text += "compressed_reports = { delay = \"5 s\", request = [\"*\"] }\n";
    }
    text + match random.below(8) {
        0 => "tcpclv4 = { reactive = \"2 kB\" }\ntcpclv3 = { reactive = \"2 kB\" }\n",
        1 => "tcpclv4 = { tls = \"require\" }\n",
        2 => "tcpclv4 = { segment_mru = \"8 kB\", keepalive = \"5 s\", idle = \"20 s\" }\n",
        _ => "",
    }
}

impl Draft {
    /// Draws security rules for all nodes, a tunnel and a quota.
    pub fn draw_rules(&mut self, random: &mut Rng, shape: &Shape) {
        if shape.secured {
            let services: &[&str] = match random.below(3) {
                0 => &["integrity"],
                1 => &["confidentiality"],
                _ => &["integrity", "confidentiality"],
            };
            for service in services {
                let wrap = if *service == "confidentiality" && random.chance(0.5) { "wrap = true\n" } else { "" };
                let rule = |role: &str, more: &str| {
                    format!(
                        "[[security]]\nrole = \"{role}\"\nservice = \"{service}\"\nkey = \"{service}-1\"\n\
                         from = \"*\"\nto = \"*\"\n{more}"
                    )
                };
                let text = rule("source", wrap) + &rule("verifier", "");
                self.rules.push(Part { text, nodes: Vec::new(), link: None });
            }
        }
        let plain = !shape.by_radio && shape.router == "sabr" && !shape.custody;
        if plain && shape.count > 2 && random.chance(0.15) {
            let (from, end) = two(random, shape.count);
            let custody = shape.layers == Layers::Unreliable || random.chance(0.5);
            let text = format!(
                "[[tunnel]]\nfrom = \"n{from}\"\nend = \"n{end}\"\nto = [\"ipn:{end}.*\"]\ncustody = {custody}\n\
                 timeout = \"10 s\"\n"
            );
            self.rules.push(Part { text, nodes: vec![from, end], link: None });
        }
        if random.chance(0.1) {
            let (at, of) = two(random, shape.count);
            let whom = pick(random, &["sources", "neighbours"]);
            let most = pick(random, &["bytes = \"500 kB\"", "bundles = 5"]);
            let text = format!("[[quota]]\nnodes = \"n{at}\"\n{whom} = [\"ipn:{of}.*\"]\n{most}\n");
            self.rules.push(Part { text, nodes: vec![at, of], link: None });
            self.drains &= shape.router == "sabr";
        }
    }

    /// Limits the number of hops in some networks, so that not every bundle arrives.
    pub fn draw_hops(&mut self, random: &mut Rng) {
        if random.chance(0.05) {
            let limit = format!("[node_defaults]\nhop_limit = {}\n", 1 + random.below(3));
            self.common = self.common.replacen("[node_defaults]\n", &limit, 1);
            self.drains = false;
        }
    }

    pub fn draw_traffic(&mut self, random: &mut Rng, shape: &Shape) {
        for n in 0..1 + random.below(6) as usize {
            let (from, to) = two(random, shape.count);
            let start_s = random.below(self.calm_s);
            let count = 1 + random.below(60);
            let sizes = ["1 kB", "30 kB", "30 kB", "300 kB"];
            let most = if shape.small { "30 kB" } else { pick(random, &sizes) };
            // Custody excludes fragments, and a long bundle always loses a packet.
            let most = if shape.custody && shape.layers == Layers::Unreliable { "1 kB" } else { most };
            let interval_ms = [0, 200, 3000, 15_000][random.below(4) as usize];
            let lifetime = if random.chance(0.2) { 2 + random.below(400) } else { 200_000 };
            let reports = match random.below(6) {
                0 => "reports = [\"reception\", \"forwarding\", \"delivery\", \"deletion\"]\n",
                1 => "reports = [\"delivery\"]\n",
                _ => "",
            };
            let priority = pick(random, &["", "", "", "priority = \"bulk\"\n", "priority = \"expedited\"\n"]);
            // Retrying at a full node ten times a second is slow and reveals nothing new.
            let lost = shape.small || shape.lost || !self.rules.is_empty();
            let refused = if lost { "refused = \"lost\"\n" } else { "" };
            let sending = Sending { node: from, start_s, interval_ms, count };
            let lines = format!("lifetime = \"{lifetime} s\"\n{reports}{priority}{refused}");
            let text = sending.text(n, to, most, &lines);
            self.traffic.push(Part { text, nodes: vec![from, to], link: None });
            self.sending.push(sending);
        }
    }
    /// Draws bulk bundles followed by a few urgent ones, in some networks.
    pub fn draw_urgent(&mut self, random: &mut Rng, shape: &Shape) {
        if !random.chance(0.2) {
            return;
        }
        let at = random.below(self.sending.len() as u64) as usize;
        let (Sending { node, start_s, .. }, to) = (self.sending[at], self.traffic[at].nodes[1]);
        let most = if shape.custody && shape.layers == Layers::Unreliable { "1 kB" } else { "20 kB" };
        let refused = if shape.small || shape.lost || !self.rules.is_empty() { "refused = \"lost\"\n" } else { "" };
        for (late_s, count, priority, most) in [(0, 30, "bulk", most), (1, 5, "expedited", "1 kB")] {
            let sending = Sending { node, start_s: start_s + late_s, interval_ms: 0, count };
            let lines = format!("lifetime = \"200000 s\"\npriority = \"{priority}\"\n{refused}");
            let text = sending.text(self.traffic.len(), to, most, &lines);
            self.traffic.push(Part { text, nodes: vec![node, to], link: None });
        }
    }
    /// Draws short bundles between two nodes, which all nodes copy.
    pub fn draw_messages(&mut self, random: &mut Rng, shape: &Shape, n: usize, bundles: u64) {
        let (from, to) = two(random, shape.count);
        let start_s = random.below(self.calm_s / 2);
        let lifetime = if random.chance(0.2) { 60 + random.below(400) } else { 200_000 };
        let sending = Sending { node: from, start_s, interval_ms: 300, count: bundles };
        let text = sending.text(n, to, "2 kB", &format!("lifetime = \"{lifetime} s\"\nrefused = \"lost\"\n"));
        self.traffic.push(Part { text, nodes: vec![from, to], link: None });
    }

    /// Draws faults, and sometimes lies.
    pub fn draw_faults(&mut self, random: &mut Rng, shape: &Shape, count: u64) {
        for _ in 0..count {
            let node = 1 + random.below(shape.count as u64) as usize;
            let at_ms = 1 + random.below(self.calm_s * 1000 - 1);
            let left_ms = self.calm_s * 1000 - at_ms;
            let longest_ms = [50, 3000, 60_000][random.below(3) as usize];
            let lasts_ms = (1 + random.below(longest_ms)).min(left_ms);
            let at = format!("at = \"{at_ms} ms\"\n");
            let lasts = format!("{at}lasts = \"{lasts_ms} ms\"\n");
            let mut part = Part { text: "[[fault]]\n".into(), nodes: vec![node], link: None };
            match random.below(10) {
                0..5 if !shape.knows_all() => {
                    part.text += &format!("kind = \"restart\"\nnode = \"n{node}\"\n{lasts}");
                }
                0..9 if shape.by_radio => {
                    let other = 1 + (node + random.below(shape.count as u64 - 1) as usize) % shape.count;
                    part.nodes.push(other);
                    part.text += &format!("kind = \"link_down\"\nbetween = [\"n{node}\", \"n{other}\"]\n{lasts}");
                }
                0..9 => {
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
        if shape.message && random.chance(0.25) {
            self.draw_lies(random, shape);
        }
    }
    /// Draws kills within a millisecond of a bundle's arrival from an application, while the disk is busy.
    pub fn draw_kills(&mut self, random: &mut Rng) {
        for _ in 0..random.below(16) {
            let sending = self.sending[random.below(self.sending.len() as u64) as usize];
            let (node, at_ms) = (sending.node, sending.moment_ms(random.below(sending.count)));
            if at_ms + 10 >= self.calm_s * 1000 {
                continue;
            }
            let (at_us, lasts_ms) = (at_ms * 1000 + random.below(400), 1 + random.below(9));
            let text = format!(
                "[[fault]]\nkind = \"restart\"\nnode = \"n{node}\"\nat = \"{at_us} us\"\nlasts = \"{lasts_ms} ms\"\n"
            );
            self.faults.push(Part { text, nodes: vec![node], link: None });
        }
    }
    fn draw_lies(&mut self, random: &mut Rng, shape: &Shape) {
        for _ in 0..1 + random.below(3) {
            let node = 1 + random.below(shape.count as u64) as usize;
            let at = random.below(self.calm_s);
            let says = pick(random, &["met", "arrived", "has"]);
            let text = format!("[[fault]]\nkind = \"lie\"\nnode = \"n{node}\"\nat = \"{at} s\"\nsays = \"{says}\"\n");
            self.faults.push(Part { text, nodes: vec![node], link: None });
        }
        self.drains &= shape.router == "sabr";
    }
}

fn two(random: &mut Rng, count: usize) -> (usize, usize) {
    // The second is drawn as a distance, so that both differ.
    let one = 1 + random.below(count as u64) as usize;
    (one, 1 + (one + random.below(count as u64 - 1) as usize) % count)
}
