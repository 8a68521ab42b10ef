//! The topology: nodes as boxes, links as lines with what they do to packets.

use super::svg::{Svg, text_width};
use crate::format::Quantity;
use crate::manifest::{DirectionFacts, LinkFacts, Topology};

/// Links and nodes beyond which only shapes are drawn.
const LABELLED: usize = 16;

/// Where nodes are, 0 to 1 along and across; as given, or in columns by distance from the first node.
fn positions(topology: &Topology) -> Vec<(f64, f64)> {
    if topology.nodes.iter().all(|n| n.position.is_some()) {
        return topology.nodes.iter().filter_map(|n| n.position).collect();
    }
    let index = |name: &str| topology.nodes.iter().position(|n| n.name == name);
    let mut depth: Vec<Option<usize>> = vec![None; topology.nodes.len()];
    let mut last = 0;
    // Each part of the network that is not joined to the others starts again at the left.
    for start in 0..depth.len() {
        if depth[start].is_some() {
            continue;
        }
        depth[start] = Some(0);
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            let name = &topology.nodes[node].name;
            for link in &topology.links {
                let other = if link.from == *name { &link.to } else { &link.from };
                if link.from != *name && link.to != *name {
                    continue;
                }
                if let Some(other) = index(other).filter(|o| depth[*o].is_none()) {
                    depth[other] = depth[node].map(|d| d + 1);
                    last = last.max(depth[other].unwrap_or(0));
                    queue.push_back(other);
                }
            }
        }
    }
    let column = |d: usize| depth.iter().filter(|x| **x == Some(d)).count();
    let mut used = vec![0; last + 1];
    depth
        .iter()
        .map(|d| {
            let d = d.unwrap_or(0);
            used[d] += 1;
            (d as f64 / last.max(1) as f64, used[d] as f64 / (column(d) + 1) as f64)
        })
        .collect()
}

fn facts(arrow: &str, direction: &DirectionFacts) -> String {
    let mut parts = vec![direction.rate_bit_s.map_or("no rate limit".into(), |r| Quantity::Rate.text(r))];
    parts.push(Quantity::Seconds.text(direction.delay_s));
    if direction.loss > 0.0 {
        parts.push(format!("{} loss", Quantity::Share.text(direction.loss)));
    }
    format!("{arrow} {}", parts.join(", "))
}

/// Everything about a link, shown when pointed at.
fn tip(link: &LinkFacts) -> String {
    let one = |from: &str, to: &str, d: &DirectionFacts| {
        let notes: Vec<&str> = d.notes.iter().map(String::as_str).collect();
        let notes = if notes.is_empty() { String::new() } else { format!(", {}", notes.join(", ")) };
        format!("{}{notes}", facts(&format!("{from} to {to}:"), d))
    };
    let (forward, reverse) = (one(&link.from, &link.to, &link.forward), one(&link.to, &link.from, &link.reverse));
    format!("{} ({})\n{forward}\n{reverse}", link.name, layer(&link.layer))
}

/// What people call a convergence layer.
pub fn layer(name: &str) -> &str {
    match name {
        "ltp" => "LTP",
        "tcpclv4" => "TCPCLv4",
        name => name,
    }
}

/// Draws the topology in this width: from left to right, or from top to bottom where it is narrow.
pub fn draw(topology: &Topology, end_s: f64, width: f64) -> String {
    let narrow = width < 600.0;
    let places = positions(topology);
    let across = |i: usize| places.iter().filter(|p| (p.0 - places[i].0).abs() < 0.02).count();
    let deepest = (0..places.len()).map(across).max().unwrap_or(1);
    let columns = {
        let mut xs: Vec<i64> = places.iter().map(|p| (p.0 * 50.0) as i64).collect();
        xs.sort_unstable();
        xs.dedup();
        xs.len()
    };
    let labelled = topology.nodes.len() <= LABELLED && topology.links.len() <= LABELLED;
    let box_width = topology.nodes.iter().map(|n| text_width(&n.name, 14.0)).fold(60.0, f64::max).min(130.0) + 20.0;
    // A chain on one level needs no room above and below.
    let tall = places.windows(2).any(|w| (w[0].1 - w[1].1).abs() > 0.02);
    let height = match (narrow, labelled) {
        (true, true) => (columns as f64 - 1.0).max(0.0) * 132.0 + 60.0,
        (false, true) => (deepest as f64 * 120.0).max(if tall { 170.0 } else { 128.0 }),
        (_, false) => (width * 0.6).min(520.0),
    };
    let mut svg = Svg::new(width, height, "Topology: nodes and links");
    let at = |i: usize| {
        let (x, y) = if narrow { (places[i].1, places[i].0) } else { places[i] };
        let margin = (box_width / 2.0 + 4.0, 30.0);
        // Down a narrow page a chain stands at the left: its labels need the room.
        let x = if narrow && deepest == 1 { 0.0 } else { x };
        (margin.0 + x * (width - 2.0 * margin.0), margin.1 + y * (height - 2.0 * margin.1))
    };
    let index = |name: &str| topology.nodes.iter().position(|n| n.name == name);
    for (number, link) in topology.links.iter().enumerate() {
        let (Some(from), Some(to)) = (index(&link.from), index(&link.to)) else { continue };
        let (start, end) = (at(from), at(to));
        let scheduled = topology.scheduled(link, end_s);
        // Links that join the same pair lie beside each other.
        let pair = |l: &LinkFacts| {
            (l.from.as_str().min(&l.to), l.from.as_str().max(&l.to)) == {
                (link.from.as_str().min(&link.to), link.from.as_str().max(&link.to))
            }
        };
        let beside = topology.links[..number].iter().filter(|l| pair(l)).count() as f64 * 14.0;
        let (start, end) = if narrow {
            ((start.0 + beside, start.1), (end.0 + beside, end.1))
        } else {
            ((start.0, start.1 + beside), (end.0, end.1 + beside))
        };
        svg.path(if scheduled { "edge scheduled" } else { "edge" }, &[start, end], false, &tip(link));
        if labelled && beside == 0.0 {
            label(&mut svg, link, start, end, box_width, narrow);
        }
    }
    for (i, node) in topology.nodes.iter().enumerate() {
        let (x, y) = at(i);
        let facts = [node.id.as_str(), &node.router, &node.store];
        let facts: Vec<&str> = facts.into_iter().filter(|f| !f.is_empty()).collect();
        let tip = format!("{} ({})", node.name, facts.join(", "));
        if labelled {
            svg.rect("node", (x - box_width / 2.0, y - 22.0), (box_width, 44.0), 8.0, &tip);
            svg.text("name", (x, y - 2.0), "middle", &node.name);
            svg.text("tick", (x, y + 14.0), "middle", &node.id);
        } else {
            svg.circle("node", (x, y), 5.0, &tip);
        }
    }
    svg.finish()
}

fn label(svg: &mut Svg, link: &LinkFacts, start: (f64, f64), end: (f64, f64), box_width: f64, narrow: bool) {
    let name = format!("{} · {}", link.name, layer(&link.layer));
    let middle = ((start.0 + end.0) / 2.0, (start.1 + end.1) / 2.0);
    let arrows = if narrow {
        if end.1 >= start.1 { ("↓", "↑") } else { ("↑", "↓") }
    } else if end.0 >= start.0 {
        ("→", "←")
    } else {
        ("←", "→")
    };
    let lines = [facts(arrows.0, &link.forward), facts(arrows.1, &link.reverse)];
    if narrow {
        let x = middle.0 + 12.0;
        svg.text("label halo", (x, middle.1 - 12.0), "start", &name);
        svg.text("tick halo", (x, middle.1 + 5.0), "start", &lines[0]);
        svg.text("tick halo", (x, middle.1 + 21.0), "start", &lines[1]);
    } else {
        let room = (end.0 - start.0).abs() - box_width - 8.0;
        svg.text("label halo", (middle.0, middle.1 - 12.0), "middle", &name);
        // Where the line is too short the facts of one direction take two lines.
        let fits = lines.iter().all(|l| text_width(l, 12.0) <= room.max(120.0));
        let mut y = middle.1 + 20.0;
        for line in lines {
            let parts: Vec<String> = if fits { vec![line] } else { split(&line) };
            for part in parts {
                svg.text("tick halo", (middle.0, y), "middle", &part);
                y += 15.0;
            }
        }
    }
}

/// Cut behind the first comma.
fn split(line: &str) -> Vec<String> {
    match line.split_once(", ") {
        Some((first, rest)) => vec![format!("{first},"), rest.to_string()],
        None => vec![line.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::NodeFacts;

    fn chain(names: &[&str]) -> Topology {
        let node = |name: &&str| NodeFacts {
            name: name.to_string(),
            id: "ipn:1.0".into(),
            number: 1,
            store: String::new(),
            store_capacity_bytes: 0,
            router: String::new(),
            position: None,
        };
        let link = |w: &[&str]| LinkFacts {
            name: "l".into(),
            from: w[0].into(),
            to: w[1].into(),
            layer: "ltp".into(),
            forward: DirectionFacts { rate_bit_s: Some(1e8), delay_s: 0.6, loss: 0.001, notes: vec![] },
            reverse: DirectionFacts::default(),
        };
        Topology {
            nodes: names.iter().map(node).collect(),
            links: names.windows(2).map(link).collect(),
            contacts: vec![],
            traffic: vec![],
        }
    }

    #[test]
    fn a_chain_is_laid_out_in_order_and_an_island_beside_it() {
        let mut topology = chain(&["a", "b", "c"]);
        assert_eq!(positions(&topology), [(0.0, 0.5), (0.5, 0.5), (1.0, 0.5)]);
        topology.links.pop();
        assert_eq!(positions(&topology)[2].0, 0.0, "not joined to the others");
    }

    #[test]
    fn every_width_and_size_draws() {
        for count in [1, 2, 40] {
            let names: Vec<String> = (0..count).map(|i| format!("<n{i}>")).collect();
            let topology = chain(&names.iter().map(String::as_str).collect::<Vec<_>>());
            for width in [358.0, 1040.0] {
                let svg = draw(&topology, 10.0, width);
                assert!(!svg.contains("<n") && !svg.contains("NaN"), "{svg}");
            }
        }
        assert!(draw(&chain(&["a", "b"]), 10.0, 1040.0).contains("→ 100 Mbit/s, 600 ms, 0.1 % loss"));
        assert!(draw(&Topology::default(), 10.0, 358.0).contains("svg"));
    }
}
