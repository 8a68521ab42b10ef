//! Smaller networks than one that fails, that fail so too.

use super::draft::{Draft, Part};

impl Draft {
    /// The same without a node, and what means nothing without it.
    fn without_node(&self, node: usize) -> Draft {
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
    /// The same without a link, and its faults.
    fn without_link(&self, index: usize) -> Draft {
        let mut less = self.clone();
        let gone = less.links.remove(index).link;
        less.faults.retain(|part| part.link.is_none() || part.link != gone);
        less
    }

    /// Whether nodes that are there have a way to each other by links: else nothing needs to arrive.
    fn is_joined(&self) -> bool {
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

    /// The smallest that still fails, as far as leaving out halves and single parts leads.
    pub fn shrunk(self, fails: impl Fn(&Draft) -> bool) -> Draft {
        let mut best = self;
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
