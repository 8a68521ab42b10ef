//! A contact plan, indexed once for all nodes of a process: contacts grouped by transmitter,
//! receiver and link, each group in order of start. A node keeps only what it booked, and how far
//! it is in each of its own groups.

use crate::contact_plan::{Contact, ContactPlan, PlanClock, PlanTime, nanoseconds};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{DataRate, LinkId, NodeId};

/// The contacts of one link in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u32);

/// A contact in the index; times in nanoseconds of plan time.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// First moment of transmission.
    pub start: u64,
    /// Last moment of transmission.
    pub end: u64,
    /// Largest end of this and all earlier contacts of the group (they may overlap in odd plans).
    pub end_max: u64,
    /// Transmission rate.
    pub rate: DataRate,
    /// One-way light time.
    pub delay: u64,
    /// Place in the plan.
    pub contact: u32,
}

/// What is common to the contacts of a group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Place of the receiver among the nodes.
    pub to: u32,
    from: NodeId,
    /// Smallest light time of the group.
    pub delay_min: u64,
    edges: Range<u32>,
}

/// A plan placed on one node's clock, and the links of that node its contacts are for.
#[derive(Clone, Copy)]
pub struct PlacedPlan<'a> {
    /// The plan.
    pub index: &'a Arc<PlanIndex>,
    /// `None` while the plan is in wall time and the node has no clock it trusts.
    pub clock: Option<PlanClock>,
    /// Link of each group this node transmits in, by group.
    pub links: &'a [(GroupId, LinkId)],
}

/// A plan, indexed.
#[derive(Clone, Debug, Default)]
pub struct PlanIndex {
    plan: ContactPlan,
    pub(crate) nodes: Vec<NodeId>,
    /// Groups of node `i` are `first_group[i]..first_group[i + 1]`.
    first_group: Vec<u32>,
    groups: Vec<Group>,
    /// Groups by receiver.
    towards: Vec<(NodeId, GroupId)>,
    edges: Vec<Edge>,
    /// Group of each contact of the plan; `u32::MAX` for those that can carry nothing.
    group_of: Vec<u32>,
}

impl PlanIndex {
    /// Indexes a plan. Contacts that can carry nothing are left out.
    pub fn new(plan: ContactPlan) -> Self {
        let nodes = plan.nodes();
        let usable = |c: &&Contact| c.end > c.start && c.rate.0 > 0 && c.from != c.to;
        let mut order: Vec<(u32, &Contact)> = (0u32..).zip(&plan.contacts).filter(|(_, c)| usable(c)).collect();
        order.sort_by_key(|(index, c)| (c.from, c.to, c.link.as_deref(), c.start, c.end, *index));
        let place = |node: NodeId| nodes.binary_search(&node).unwrap_or(0) as u32;
        let (mut groups, mut edges) = (Vec::<Group>::new(), Vec::<Edge>::with_capacity(order.len()));
        let mut first_group = alloc::vec![0u32; nodes.len() + 1];
        let mut group_of = alloc::vec![u32::MAX; plan.contacts.len()];
        let mut last = None;
        for (contact, c) in order {
            let key = (c.from, c.to, c.link.as_deref());
            let (index, delay) = (edges.len() as u32, nanoseconds(c.one_way_delay));
            if last != Some(key) {
                last = Some(key);
                first_group[place(c.from) as usize + 1] += 1;
                groups.push(Group { to: place(c.to), from: c.from, delay_min: delay, edges: index..index });
            }
            group_of[contact as usize] = groups.len() as u32 - 1;
            let Some(group) = groups.last_mut() else { continue };
            let begins = group.edges.is_empty();
            group.edges.end = index + 1;
            group.delay_min = group.delay_min.min(delay);
            let before = if begins { 0 } else { edges.last().map_or(0, |e| e.end_max) };
            let end_max = before.max(c.end.0);
            edges.push(Edge { start: c.start.0, end: c.end.0, end_max, rate: c.rate, delay, contact });
        }
        for i in 1..first_group.len() {
            first_group[i] += first_group[i - 1];
        }
        let mut towards: Vec<(NodeId, GroupId)> =
            (0..).zip(&groups).map(|(id, g)| (nodes[g.to as usize], GroupId(id))).collect();
        towards.sort();
        PlanIndex { nodes, first_group, groups, towards, edges, group_of, plan }
    }
    /// The plan.
    pub fn plan(&self) -> &ContactPlan {
        &self.plan
    }
    /// A contact by its place in the plan.
    pub fn contact(&self, contact: u32) -> Option<&Contact> {
        self.plan.contacts.get(contact as usize)
    }
    /// The group of a contact.
    pub fn group_of(&self, contact: u32) -> Option<GroupId> {
        self.group_of.get(contact as usize).filter(|g| **g != u32::MAX).map(|g| GroupId(*g))
    }
    /// Groups in which this node transmits.
    pub fn groups_from(&self, node: NodeId) -> impl Iterator<Item = GroupId> + use<> {
        let range = self.place(node).map_or(0..0, |place| self.range(place));
        range.map(GroupId)
    }
    /// Groups in which this node receives.
    pub fn groups_to(&self, node: NodeId) -> impl Iterator<Item = GroupId> + '_ {
        let first = self.towards.partition_point(|(to, _)| *to < node);
        self.towards[first..].iter().take_while(move |(to, _)| *to == node).map(|(_, group)| *group)
    }
    /// Transmitter and receiver of a group.
    pub fn ends(&self, group: GroupId) -> (NodeId, NodeId) {
        self.groups.get(group.0 as usize).map_or((NodeId::NULL, NodeId::NULL), |g| (g.from, self.nodes[g.to as usize]))
    }
    /// The link a group names; `None`: the only one between the two.
    pub fn link_name(&self, group: GroupId) -> Option<&str> {
        let first = self.contacts(group).first()?;
        self.contact(first.contact)?.link.as_deref()
    }
    /// Contacts of a group in order of start.
    pub fn contacts(&self, group: GroupId) -> &[Edge] {
        self.groups.get(group.0 as usize).map_or(&[], |g| self.edges_of(g))
    }
    fn edges_of(&self, group: &Group) -> &[Edge] {
        &self.edges[group.edges.start as usize..group.edges.end as usize]
    }
    fn range(&self, place: u32) -> Range<u32> {
        let place = place as usize;
        match (self.first_group.get(place), self.first_group.get(place + 1)) {
            (Some(first), Some(end)) => *first..*end,
            _ => 0..0,
        }
    }
    /// Place of a node.
    pub(crate) fn place(&self, node: NodeId) -> Option<u32> {
        self.nodes.binary_search(&node).ok().map(|place| place as u32)
    }
    /// Links leading away from a node.
    pub(crate) fn groups(&self, place: u32) -> impl Iterator<Item = (GroupId, &Group)> {
        let range = self.range(place);
        range.clone().map(GroupId).zip(&self.groups[range.start as usize..range.end as usize])
    }
    /// Contacts of a group that end after `time`, and perhaps some that do not.
    pub(crate) fn edges_after(&self, group: &Group, time: u64) -> &[Edge] {
        let edges = self.edges_of(group);
        &edges[edges.partition_point(|edge| edge.end_max <= time)..]
    }
    /// First contact of a group that ends after `time`.
    pub fn first_after(&self, group: GroupId, time: PlanTime) -> usize {
        self.contacts(group).partition_point(|edge| edge.end_max <= time.0)
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
        let graph = PlanIndex::new(plan);
        let one = graph.place(NodeId(1)).unwrap();
        let groups: Vec<&Group> = graph.groups(one).map(|(_, group)| group).collect();
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].delay_min, 5_000_000_000);
        let after = graph.edges_after(groups[0], 70_000_000_000);
        assert_eq!(after.iter().map(|e| e.contact).collect::<Vec<_>>(), [2, 1]);
        assert!(graph.edges_after(groups[0], 100_000_000_000).is_empty());
        assert!(graph.groups(graph.place(NodeId(3)).unwrap()).next().is_none());
        assert_eq!(graph.place(NodeId(9)), None);
        let from_one: Vec<GroupId> = graph.groups_from(NodeId(1)).collect();
        assert_eq!(from_one.iter().map(|g| graph.link_name(*g)).collect::<Vec<_>>(), [None, Some("b")]);
        assert_eq!(graph.ends(from_one[0]), (NodeId(1), NodeId(2)));
        let to_one: Vec<GroupId> = graph.groups_to(NodeId(1)).collect();
        assert_eq!(to_one.iter().map(|g| graph.ends(*g)).collect::<Vec<_>>(), [(NodeId(2), NodeId(1))]);
        assert_eq!(graph.group_of(1), graph.group_of(2));
        assert_eq!((graph.group_of(4), graph.groups_from(NodeId(9)).count()), (None, 0));
        assert_eq!(graph.first_after(from_one[0], PlanTime(60_000_000_000)), 0, "the first lasts to 100 s");
    }
}
