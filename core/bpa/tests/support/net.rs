//! Several nodes, joined by wires with a delay and without losses.

use super::{Bundle, Node, Sent};
use farlink_base::layer::SendId;
use farlink_base::{Duration, Instant, Refusal};
use farlink_bpa::Output;
use std::collections::BTreeMap;

enum What {
    Arrive { link: u32, ticket: u64, bundle: Box<Bundle> },
    Verdict { id: SendId, result: Result<(), Refusal> },
}

/// Nodes and the wires between them.
pub struct Net {
    pub nodes: Vec<Node>,
    delay: Duration,
    now: Instant,
    wires: BTreeMap<(usize, u32), (usize, u32)>,
    between: BTreeMap<(Instant, u64), (usize, What)>,
    offers: BTreeMap<u64, (usize, SendId)>,
    seen: Vec<usize>,
    order: u64,
    /// Bundles that crossed a wire: sender, receiver, sequence number, hops.
    pub crossed: Vec<(usize, usize, u64, u8)>,
}

impl Net {
    /// Nodes without wires.
    pub fn new(nodes: Vec<Node>, delay: Duration) -> Net {
        let seen = nodes.iter().map(|node| node.said.len()).collect();
        let (wires, between, offers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Net { nodes, delay, now: Instant::ZERO, wires, between, offers, seen, order: 0, crossed: Vec::new() }
    }
    /// Joins two links by a wire.
    pub fn wire(&mut self, a: (usize, u32), b: (usize, u32)) {
        self.wires.insert(a, b);
        self.wires.insert(b, a);
    }
    fn later(&mut self, node: usize, what: What) {
        self.order += 1;
        self.between.insert((self.now + self.delay, self.order), (node, what));
    }
    fn collect(&mut self) {
        for node in 0..self.nodes.len() {
            while let Some(output) = self.nodes[node].said.get(self.seen[node]) {
                self.seen[node] += 1;
                match output {
                    Output::Send { link, id, bundle, hop, cut, .. } => {
                        let sent = Sent {
                            link: *link,
                            id: *id,
                            bundle: bundle.clone(),
                            hop: (**hop).clone(),
                            cut: cut.clone(),
                        };
                        self.cross(node, &sent);
                    }
                    Output::Verdict { token, result } => {
                        let result = *result;
                        if let Some((sender, id)) = self.offers.remove(&token.ticket.0) {
                            self.later(sender, What::Verdict { id, result });
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    fn cross(&mut self, from: usize, sent: &Sent) {
        let Some((to, link)) = self.wires.get(&(from, sent.link.0)).copied() else { return };
        let ticket = 1_000_000 + self.order;
        self.offers.insert(ticket, (from, sent.id));
        self.crossed.push((from, to, sent.bundle.sequence, sent.hop.hops));
        self.later(to, What::Arrive { link, ticket, bundle: Box::new(sent.arrives()) });
    }
    /// Runs the network for `duration`.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.collect();
            let wire = self.between.first_key_value().map(|((at, _), _)| *at);
            let nodes = self.nodes.iter().filter_map(|node| node.agent.next_timeout()).min();
            let Some(next) = wire.into_iter().chain(nodes).min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(next);
            for node in &mut self.nodes {
                node.now = self.now;
                node.settle();
            }
            while let Some(first) = self.between.first_entry().filter(|first| first.key().0 <= self.now) {
                let (node, what) = first.remove();
                match what {
                    What::Arrive { link, ticket, bundle } => self.nodes[node].receive_over(link, ticket, *bundle),
                    What::Verdict { id, result: Ok(()) } => self.nodes[node].confirm(id),
                    What::Verdict { id, result: Err(reason) } => self.nodes[node].fail(id, Some(reason)),
                }
            }
        }
        self.now = end;
        for node in &mut self.nodes {
            node.now = end;
        }
    }
}
