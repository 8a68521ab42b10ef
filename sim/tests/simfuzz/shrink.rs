//! Search for a smaller network that fails alike.

use super::draft::{Draft, Part};

impl Draft {
    fn without_node(&self, node: usize) -> Draft {
        // A part that names a missing node or link would make the scenario invalid instead of smaller.
        let mut less = self.clone();
        less.nodes[node - 1].clear();
        let links = self.links.iter().filter(|part| part.nodes.contains(&node));
        let gone: Vec<_> = links.filter_map(|part| part.link.clone()).collect();
        for parts in [&mut less.links, &mut less.rules, &mut less.traffic, &mut less.faults] {
            parts.retain(|part| {
                !part.nodes.contains(&node) && !part.link.as_ref().is_some_and(|link| gone.contains(link))
            });
        }
        less
    }
    fn without_link(&self, index: usize) -> Draft {
        // A fault of a missing link would make the scenario invalid instead of smaller.
        let mut less = self.clone();
        let gone = less.links.remove(index).link;
        less.faults.retain(|part| part.link.is_none() || part.link != gone);
        less
    }

    fn is_joined(&self) -> bool {
        // Bundles need to arrive only if the remaining nodes are connected.
        let there: Vec<usize> = (1..=self.nodes.len()).filter(|node| !self.nodes[node - 1].is_empty()).collect();
        let mut reached: Vec<usize> = there.iter().take(1).copied().collect();
        loop {
            let before = reached.len();
            for link in &self.links {
                let (one, other) = (link.nodes[0], link.nodes[1]);
                if reached.contains(&one) != reached.contains(&other) {
                    reached.push(if reached.contains(&one) { other } else { one });
                }
            }
            if reached.len() == before {
                return before == there.len();
            }
        }
    }

    /// The smallest network that still fails, by removing halves and single parts.
    pub fn shrunk(self, fails: impl Fn(&Draft) -> bool) -> Draft {
        let mut best = self;
        // In a disconnected network undelivered bundles are no failure, so shrinking must not disconnect it.
        let by_links = best.drains && !best.links.is_empty();
        let fails = |draft: &Draft| (!by_links || draft.is_joined()) && fails(draft);
        loop {
            let before = best.text().len();
            best = halved(best, |draft| &mut draft.faults, &fails);
            best = halved(best, |draft| &mut draft.traffic, &fails);
            best = halved(best, |draft| &mut draft.rules, &fails);
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

fn halved(mut best: Draft, list: impl Fn(&mut Draft) -> &mut Vec<Part>, fails: &impl Fn(&Draft) -> bool) -> Draft {
    // Delta debugging: remove halves, then quarters, down to single parts.
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
