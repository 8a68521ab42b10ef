//! The topology: nodes as boxes, links as lines with rate, delay and loss.

use super::svg::{Svg, escape, text_width};
use crate::format::Quantity;
use crate::manifest::{DirectionFacts, LinkFacts, Topology};
use std::fmt::Write;

// Most links, and most nodes, that are labelled; beyond, only shapes are drawn.
const LABELLED: usize = 16;

/// Positions of nodes, 0 to 1 along and across: as given if every node has one, else in columns by hop distance from
/// the first node.
fn positions(topology: &Topology) -> Vec<(f64, f64)> {
    if topology.nodes.iter().all(|n| n.position.is_some()) {
        return topology.nodes.iter().filter_map(|n| n.position).collect();
    }
    let index = |name: &str| topology.nodes.iter().position(|n| n.name == name);
    let mut depth: Vec<Option<usize>> = vec![None; topology.nodes.len()];
    let mut last = 0;
    // Each component of the network starts again at the left.
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
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); last + 1];
    for (node, depth) in depth.iter().enumerate() {
        columns[depth.unwrap_or(0)].push(node);
    }
    let mut places = vec![(0.0, 0.0); depth.len()];
    for (d, column) in columns.iter_mut().enumerate() {
        // Nodes are sorted by the mean position of their neighbours in the previous column, so that
        // few links cross.
        let beside = |node: usize| {
            let name = &topology.nodes[node].name;
            let others = topology.links.iter().filter_map(|link| match (link.from == *name, link.to == *name) {
                (true, _) => index(&link.to),
                (_, true) => index(&link.from),
                _ => None,
            });
            let before: Vec<f64> =
                others.filter(|o| depth[*o].map(|o| o + 1) == Some(d)).map(|o| places[o].1).collect();
            before.iter().sum::<f64>() / before.len().max(1) as f64
        };
        let mut order: Vec<(f64, usize)> = column.iter().map(|node| (beside(*node), *node)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (rank, (_, node)) in order.iter().enumerate() {
            places[*node] = (d as f64 / last.max(1) as f64, (rank as f64 + 0.5) / order.len() as f64);
        }
    }
    places
}

/// Properties of a link in one direction, with rate and delay from the contact plan where all its contacts agree.
fn planned(topology: &Topology, link: &LinkFacts, from: &str) -> DirectionFacts {
    let mut facts = if from == link.from { link.forward.clone() } else { link.reverse.clone() };
    let mut mine = topology.contacts.iter().filter(|c| c.link == link.name && c.from == from);
    let Some(first) = mine.next() else { return facts };
    // A single value would be wrong for some of the contacts.
    if mine.clone().any(|c| c.rate_bit_s != first.rate_bit_s || c.delay_s != first.delay_s) {
        facts.notes.push("rate or delay changes from contact to contact".into());
        return facts;
    }
    facts.rate_bit_s = first.rate_bit_s.or(facts.rate_bit_s);
    facts.delay_s = first.delay_s.unwrap_or(facts.delay_s);
    facts
}

/// Describes when a link is up.
fn windows(topology: &Topology, link: &LinkFacts, end_s: f64) -> String {
    if !topology.scheduled(link, end_s) {
        let notes = link.forward.notes.iter().chain(&link.reverse.notes);
        let outages = notes.clone().any(|note| note.starts_with("random outages"));
        return if outages { "but for random outages" } else { "always" }.into();
    }
    let times = topology.up_times(end_s);
    let one = |from: &str| {
        let mine = || topology.contacts.iter().filter(|c| c.link == link.name && c.from == from && c.start_s < end_s);
        let count = mine().count();
        let seconds = |s: f64| Quantity::Seconds.text(s);
        let first = mine().map(|c| c.start_s).fold(f64::INFINITY, f64::min);
        match count {
            0 => "never".into(),
            1 => format!("{} from {} on", seconds(times.up_s(&link.name, from)), seconds(first)),
            _ => format!(
                "{} in {count} contacts, the first at {}",
                seconds(times.up_s(&link.name, from)),
                seconds(first)
            ),
        }
    };
    let (forward, reverse) = (one(&link.from), one(&link.to));
    if forward == reverse { forward } else { format!("{forward}; reverse {reverse}") }
}

// Most links in the table; a line below it counts the others.
const ROWS: usize = 60;

/// Writes the table of links, which holds the details the figure has no room for.
pub fn table(out: &mut String, topology: &Topology, end_s: f64) {
    // Open where the figure cannot show the properties of links; closed where it repeats the figure
    // or the table is long.
    let places = positions(topology);
    let open = topology.links.len() <= LABELLED && places.windows(2).any(|w| w[0].1 != w[1].1);
    out.push_str(if open { "<details open>" } else { "<details>" });
    out.push_str("<summary>Every link</summary><div class=\"scroll\"><table><thead><tr>");
    out.push_str("<th>link</th><th>layer</th><th>forward</th><th>reverse</th><th>up</th></tr></thead><tbody>");
    for link in topology.links.iter().take(ROWS) {
        let ends = format!("{}: {} ↔ {}", link.name, link.from, link.to);
        let one = |from: &str| facts("", &planned(topology, link, from)).trim().to_string();
        let cells = [layer(&link.layer).to_string(), one(&link.from), one(&link.to), windows(topology, link, end_s)];
        let _ = write!(out, "<tr><th>{}</th>", escape(&ends));
        for cell in cells {
            let _ = write!(out, "<td>{}</td>", escape(&cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    if let Some(more) = topology.links.len().checked_sub(ROWS).filter(|more| *more > 0) {
        let _ = write!(out, "<p class=\"caption\">{more} more links are not listed.</p>");
    }
    out.push_str("</details>");
}

/// Shortens a name to the room available.
fn fit(name: &str, size: f64, room: f64) -> String {
    if text_width(name, size) <= room {
        return name.to_string();
    }
    let letters = ((room / text_width("n", size)) as usize).saturating_sub(1).max(1);
    name.chars().take(letters).chain(['…']).collect()
}

fn facts(arrow: &str, direction: &DirectionFacts) -> String {
    let mut parts = vec![direction.rate_bit_s.map_or("no rate limit".into(), |r| Quantity::Rate.text(r))];
    parts.push(Quantity::Seconds.text(direction.delay_s));
    if direction.loss > 0.0 {
        parts.push(format!("{} loss", Quantity::Share.text(direction.loss)));
    }
    format!("{arrow} {}", parts.join(", "))
}

/// Hover text with everything known about a link.
fn tip(topology: &Topology, link: &LinkFacts, end_s: f64) -> String {
    let one = |from: &str, to: &str, d: &DirectionFacts| {
        let notes: Vec<&str> = d.notes.iter().map(String::as_str).collect();
        let notes = if notes.is_empty() { String::new() } else { format!(", {}", notes.join(", ")) };
        format!("{}{notes}", facts(&format!("{from} to {to}:"), d))
    };
    let forward = one(&link.from, &link.to, &planned(topology, link, &link.from));
    let reverse = one(&link.to, &link.from, &planned(topology, link, &link.to));
    let up = windows(topology, link, end_s);
    format!("{} ({})\n{forward}\n{reverse}\nup: {up}", link.name, layer(&link.layer))
}

/// Common spelling of a convergence layer's name.
pub fn layer(name: &str) -> &str {
    match name {
        "ltp" => "LTP",
        "tcpclv4" => "TCPCLv4",
        "tcpclv3" => "TCPCLv3",
        "stcp" => "STCP",
        "mtcp" => "MTCP",
        "udpcl" => "UDPCL",
        name => name,
    }
}

/// Draws the topology: from left to right, or from top to bottom if the width is narrow.
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
    let widest = topology.nodes.iter().map(|n| text_width(&n.name, 14.0)).fold(60.0, f64::max).min(130.0) + 20.0;
    // In a narrow page the nodes of one level stand side by side; otherwise those of one path do.
    let beside = if narrow { deepest } else { columns };
    let box_width = widest.min(width / beside as f64 - 6.0);
    // A chain needs no room above and below its line.
    let tall = places.windows(2).any(|w| (w[0].1 - w[1].1).abs() > 0.02);
    let height = match (narrow, labelled) {
        (true, true) => (columns as f64 - 1.0).max(0.0) * 132.0 + 60.0,
        (false, true) => (deepest as f64 * 120.0).max(if tall { 170.0 } else { 128.0 }),
        (true, false) => columns as f64 * 44.0 + 40.0,
        (false, false) => (deepest as f64 * 34.0 + 60.0).max(200.0),
    };
    let mut svg = Svg::new(width, height, "Topology: nodes and links");
    let at = |i: usize| {
        let (x, y) = if narrow { (places[i].1, places[i].0) } else { places[i] };
        let margin = if labelled { (box_width / 2.0 + 4.0, 30.0) } else { (26.0, 22.0) };
        // A chain in a narrow page stands at the left, because its labels need the room.
        let x = if narrow && deepest == 1 { 0.0 } else { x };
        (margin.0 + x * (width - 2.0 * margin.0), margin.1 + y * (height - 2.0 * margin.1))
    };
    let chain = !tall;
    let mut names = Vec::new();
    let index = |name: &str| topology.nodes.iter().position(|n| n.name == name);
    for (number, link) in topology.links.iter().enumerate() {
        let (Some(from), Some(to)) = (index(&link.from), index(&link.to)) else { continue };
        let (start, end) = (at(from), at(to));
        let scheduled = topology.scheduled(link, end_s);
        // Parallel links of the same pair are drawn side by side.
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
        svg.path(if scheduled { "edge scheduled" } else { "edge" }, &[start, end], false, &tip(topology, link, end_s));
        if labelled && beside == 0.0 && chain {
            let facts = [planned(topology, link, &link.from), planned(topology, link, &link.to)];
            label(&mut svg, link, &facts, (start, end), box_width, narrow);
        } else if labelled && beside == 0.0 {
            // Slanted lines have room only for properties that hold in both directions; the table
            // has the rest.
            let middle = ((start.0 + end.0) / 2.0, (start.1 + end.1) / 2.0 + 4.0);
            names.push((middle, "label halo", link.name.clone()));
            let both = planned(topology, link, &link.from);
            if !narrow && both == planned(topology, link, &link.to) {
                names.push(((middle.0, middle.1 + 16.0), "tick halo", facts("", &both).trim().to_string()));
            }
        }
    }
    for (at, class, text) in names {
        svg.text(class, at, "middle", &text);
    }
    for (i, node) in topology.nodes.iter().enumerate() {
        let (x, y) = at(i);
        let facts = [node.id.as_str(), &node.router, &node.store];
        let facts: Vec<&str> = facts.into_iter().filter(|f| !f.is_empty()).collect();
        let tip = format!("{} ({})", node.name, facts.join(", "));
        if labelled {
            svg.rect("node", (x - box_width / 2.0, y - 22.0), (box_width, 44.0), 8.0, &tip);
            svg.text("name", (x, y - 2.0), "middle", &fit(&node.name, 14.0, box_width - 8.0));
            svg.text("tick", (x, y + 14.0), "middle", &fit(&node.id, 12.0, box_width - 8.0));
        } else {
            svg.circle("node", (x, y), 6.0, &tip);
            let room = (width / beside as f64 - 2.0).clamp(20.0, 80.0);
            svg.text("tick halo", (x, y + 19.0), "middle", &fit(&node.name, 12.0, room));
        }
    }
    svg.finish()
}

type LinePoint = (f64, f64);

/// Draws name and properties of a link in a chain, forward and reverse, at the middle of its line.
fn label(
    svg: &mut Svg,
    link: &LinkFacts,
    directions: &[DirectionFacts; 2],
    (start, end): (LinePoint, LinePoint),
    box_width: f64,
    narrow: bool,
) {
    let name = format!("{} · {}", link.name, layer(&link.layer));
    let middle = ((start.0 + end.0) / 2.0, (start.1 + end.1) / 2.0);
    let arrows = if narrow {
        if end.1 >= start.1 { ("↓", "↑") } else { ("↑", "↓") }
    } else if end.0 >= start.0 {
        ("→", "←")
    } else {
        ("←", "→")
    };
    let lines = [facts(arrows.0, &directions[0]), facts(arrows.1, &directions[1])];
    if narrow {
        let x = middle.0 + 12.0;
        svg.text("label halo", (x, middle.1 - 12.0), "start", &name);
        svg.text("tick halo", (x, middle.1 + 5.0), "start", &lines[0]);
        svg.text("tick halo", (x, middle.1 + 21.0), "start", &lines[1]);
    } else {
        let room = (end.0 - start.0).abs() - box_width - 8.0;
        svg.text("label halo", (middle.0, middle.1 - 12.0), "middle", &name);
        // Where the line is too short, the properties of one direction take two lines.
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

/// Splits a line after the first comma.
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
    fn chain_is_in_order_island_apart() {
        let mut topology = chain(&["a", "b", "c"]);
        assert_eq!(positions(&topology), [(0.0, 0.5), (0.5, 0.5), (1.0, 0.5)]);
        topology.links.pop();
        assert_eq!(positions(&topology)[2].0, 0.0, "not connected to the others");
    }

    #[test]
    fn layout_avoids_crossings_and_names_nodes() {
        let join = |count: usize, pairs: &[(usize, usize)]| {
            let names: Vec<String> = (0..count).map(|i| format!("n{i}")).collect();
            let mut topology = chain(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let link = topology.links[0].clone();
            let named = |(a, b): &(usize, usize)| LinkFacts {
                name: format!("l{a}-{b}"),
                from: names[*a].clone(),
                to: names[*b].clone(),
                ..link.clone()
            };
            topology.links = pairs.iter().map(named).collect();
            topology
        };
        let diamond = positions(&join(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]));
        assert_eq!(diamond, [(0.0, 0.5), (0.5, 0.25), (0.5, 0.75), (1.0, 0.5)]);
        // The order in the file would make links cross: the ring is 0-1-3-5-4-2-0.
        let ring = join(6, &[(0, 1), (0, 2), (1, 4), (2, 3), (4, 5), (3, 5)]);
        let places = positions(&ring);
        assert_eq!((places[4].1, places[3].1), (places[1].1, places[2].1), "each beside its neighbour");
        let svg = draw(&ring, 10.0, 1040.0);
        assert!(svg.contains(">l1-4</text>") && svg.contains("up: always"), "{svg}");
        let star = join(40, &(1..40).map(|i| (0, i)).collect::<Vec<_>>());
        // More nodes than are labelled: node names only.
        let svg = draw(&star, 10.0, 1040.0);
        assert!(svg.contains(">n39</text>") && !svg.contains(">l0-39</text>"), "{svg}");
    }

    #[test]
    fn link_table_follows_contact_plan() {
        let mut topology = chain(&["a", "b"]);
        let contact = |from: &str, to: &str, start_s: f64, end_s: f64| crate::manifest::ContactFacts {
            link: "l".into(),
            from: from.into(),
            to: to.into(),
            start_s,
            end_s,
            rate_bit_s: Some(2e6),
            delay_s: Some(1.3),
        };
        topology.contacts =
            vec![contact("a", "b", 5.0, 9.0), contact("a", "b", 12.0, 18.0), contact("b", "a", 5.0, 9.0)];
        let mut out = String::new();
        table(&mut out, &topology, 15.0);
        assert!(out.contains("<td>2 Mbit/s, 1.3 s, 0.1 % loss</td><td>2 Mbit/s, 1.3 s</td>"), "{out}");
        assert!(out.contains("<td>7 s in 2 contacts, the first at 5 s; reverse 4 s from 5 s on</td>"), "{out}");
        assert_eq!((fit("probe", 14.0, 200.0), fit("a-long-name", 14.0, 40.0)), ("probe".into(), "a-lo…".into()));
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
