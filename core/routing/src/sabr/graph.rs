//! The index of a plan that makes a search fast: contacts sorted by transmitter, receiver, link and
//! start. Built once per plan.

use crate::ContactPlan;
use crate::contact_plan::nanoseconds;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{DataRate, NodeId};

/// A contact as the search sees it; times in nanoseconds of plan time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub start: u64,
    pub end: u64,
    /// Largest end of this and all earlier contacts of the group (they may overlap in odd plans).
    pub end_max: u64,
    pub rate: DataRate,
    pub delay: u64,
    /// Index in the plan.
    pub contact: u32,
}

/// The contacts of one link in one direction.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub to: u32,
    /// Smallest light time of the group.
    pub delay_min: u64,
    pub edges: Range<u32>,
}

/// A plan, indexed.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(super) nodes: Vec<NodeId>,
    /// Groups of node `i` are `first_group[i]..first_group[i + 1]`.
    first_group: Vec<u32>,
    groups: Vec<Group>,
    pub(super) edges: Vec<Edge>,
}

impl Graph {
    /// Indexes a plan. Contacts that can carry nothing are left out.
    pub fn new(plan: &ContactPlan) -> Self {
        let nodes = plan.nodes();
        let usable = |c: &&crate::Contact| c.end > c.start && c.rate.0 > 0 && c.from != c.to;
        let mut order: Vec<(u32, &crate::Contact)> = (0u32..).zip(&plan.contacts).filter(|(_, c)| usable(c)).collect();
        order.sort_by_key(|(index, c)| (c.from, c.to, c.link.as_deref(), c.start, c.end, *index));
        let place = |node: NodeId| nodes.binary_search(&node).unwrap_or(0) as u32;
        let (mut groups, mut edges) = (Vec::<Group>::new(), Vec::<Edge>::with_capacity(order.len()));
        let mut counts = alloc::vec![0u32; nodes.len() + 1];
        let mut last = None;
        for (contact, c) in order {
            let key = (c.from, c.to, c.link.as_deref());
            let (index, delay) = (edges.len() as u32, nanoseconds(c.one_way_delay));
            if last != Some(key) {
                last = Some(key);
                counts[place(c.from) as usize + 1] += 1;
                groups.push(Group { to: place(c.to), delay_min: delay, edges: index..index });
            }
            let Some(group) = groups.last_mut() else { continue };
            let begins = group.edges.is_empty();
            group.edges.end = index + 1;
            group.delay_min = group.delay_min.min(delay);
            let before = if begins { 0 } else { edges.last().map_or(0, |e| e.end_max) };
            let end_max = before.max(c.end.0);
            edges.push(Edge { start: c.start.0, end: c.end.0, end_max, rate: c.rate, delay, contact });
        }
        let mut total = 0;
        let first_group = counts
            .iter()
            .map(|count| {
                total += count;
                total
            })
            .collect();
        Graph { nodes, first_group, groups, edges }
    }
    /// Place of a node.
    pub(super) fn place(&self, node: NodeId) -> Option<u32> {
        self.nodes.binary_search(&node).ok().map(|place| place as u32)
    }
    /// Links leading away from a node.
    pub(super) fn groups(&self, place: u32) -> &[Group] {
        let place = place as usize;
        match (self.first_group.get(place), self.first_group.get(place + 1)) {
            (Some(first), Some(end)) => &self.groups[*first as usize..*end as usize],
            _ => &[],
        }
    }
    /// Contacts of a group that end after `time`, and perhaps some that do not.
    pub(super) fn edges_after(&self, group: &Group, time: u64) -> &[Edge] {
        let edges = &self.edges[group.edges.start as usize..group.edges.end as usize];
        &edges[edges.partition_point(|edge| edge.end_max <= time)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_are_found_by_transmitter_and_time() {
        let text = "contact 2 1 +0..+9 rate 1 B/s\ncontact 1 2 +50..+60 rate 1 B/s delay 5 s\n\
                    contact 1 2 +0..+100 rate 1 B/s delay 9 s\ncontact 1 2 link=b +0..+1 rate 1 B/s\n\
                    contact 1 3 +5..+5 rate 1 B/s";
        let plan = crate::contact_plan::parse(text).unwrap().plan;
        let graph = Graph::new(&plan);
        let one = graph.place(NodeId(1)).unwrap();
        let groups = graph.groups(one);
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].delay_min, 5_000_000_000);
        let after = graph.edges_after(&groups[0], 70_000_000_000);
        assert_eq!(after.iter().map(|e| e.contact).collect::<Vec<_>>(), [2, 1]);
        assert!(graph.edges_after(&groups[0], 100_000_000_000).is_empty());
        assert!(graph.groups(graph.place(NodeId(3)).unwrap()).is_empty());
        assert_eq!(graph.place(NodeId(9)), None);
    }
}
