//! Index of a contact plan, built once for all nodes of a process: contacts are grouped by transmitter, receiver and
//! link, and ordered by start within each group. A node keeps only its bookings and its position in each of its own
//! groups.

use crate::contact_plan::{Contact, ContactPlan, PlanClock, PlanTime, nanoseconds};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{DataRate, LinkId, NodeId};

/// Number of a group: the contacts of one link in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u32);

/// A contact in the index; times in nanoseconds of plan time.
#[derive(Clone, Copy, Debug)]
pub struct PlacedContact {
    /// Start of transmission.
    pub start: u64,
    /// End of transmission.
    pub end: u64,
    /// Latest end of this and all earlier contacts of the group (they may overlap in odd plans).
    pub end_max: u64,
    /// Transmission rate.
    pub rate: DataRate,
    /// One-way light time.
    pub delay: u64,
    /// Index of the contact in the plan.
    pub contact: u32,
}

/// Common properties of a group's contacts.
#[derive(Clone, Debug)]
pub(crate) struct ContactGroup {
    /// Index of the receiver among the nodes.
    pub to: u32,
    from: NodeId,
    edges: Range<u32>,
}

/// A contact in its transmitter's order of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing {
    /// Start of transmission.
    pub start: u64,
    /// Index of the receiver among the nodes.
    pub to: u32,
    group: u32,
    edge: u32,
}
impl Passing {
    /// Group of the contact.
    pub(crate) fn group(&self) -> GroupId {
        GroupId(self.group)
    }
}

/// Lane: contacts of one transmitter in order of start, none more than twice as long as another, so that running
/// contacts are found without examining all past ones.
#[derive(Clone, Debug)]
pub(crate) struct ContactLane {
    /// Shortest light time, ns.
    pub delay_min: u64,
    longest: u64,
    passing: Range<u32>,
}

/// A plan placed on a node's clock, with the node's links for its contacts.
#[derive(Clone, Copy)]
pub struct PlacedPlan<'a> {
    /// Index of the plan.
    pub index: &'a Arc<PlanIndex>,
    /// Clock of the plan; `None` if the plan is in wall time and this node has no trusted clock.
    pub clock: Option<PlanClock>,
    /// Link of each group in which this node transmits, ordered by group.
    pub links: &'a [(GroupId, LinkId)],
}

/// A contact plan and its index.
#[derive(Clone, Debug, Default)]
pub struct PlanIndex {
    plan: ContactPlan,
    pub(crate) nodes: Vec<NodeId>,
    /// Groups of node `i` are `first_group[i]..first_group[i + 1]`.
    first_group: Vec<u32>,
    groups: Vec<ContactGroup>,
    /// Groups ordered by receiver.
    towards: Vec<(NodeId, GroupId)>,
    edges: Vec<PlacedContact>,
    /// Group of each contact of the plan; `u32::MAX` for contacts that can carry nothing.
    group_of: Vec<u32>,
    /// Lanes of node `i` are `first_lane[i]..first_lane[i + 1]`.
    first_lane: Vec<u32>,
    lanes: Vec<ContactLane>,
    passing: Vec<Passing>,
}

impl PlanIndex {
    /// Indexes a plan. Contacts that can carry nothing are left out.
    pub fn new(plan: ContactPlan) -> Self {
        let nodes = plan.nodes();
        // Contacts without duration, rate or distinct ends carry nothing.
        let usable = |c: &&Contact| c.end > c.start && c.rate.0 > 0 && c.from != c.to;
        let mut order: Vec<(u32, &Contact)> = (0u32..).zip(&plan.contacts).filter(|(_, c)| usable(c)).collect();
        // Groups are contiguous in this order.
        order.sort_by_key(|(index, c)| (c.from, c.to, c.link.as_deref(), c.start, c.end, *index));
        let place = |node: NodeId| nodes.binary_search(&node).unwrap_or(0) as u32;
        let (mut groups, mut edges) = (Vec::<ContactGroup>::new(), Vec::<PlacedContact>::with_capacity(order.len()));
        let mut first_group = alloc::vec![0u32; nodes.len() + 1];
        let mut group_of = alloc::vec![u32::MAX; plan.contacts.len()];
        let mut last = None;
        for (contact, c) in order {
            let key = (c.from, c.to, c.link.as_deref());
            let (index, delay) = (edges.len() as u32, nanoseconds(c.one_way_delay));
            if last != Some(key) {
                last = Some(key);
                first_group[place(c.from) as usize + 1] += 1;
                groups.push(ContactGroup { to: place(c.to), from: c.from, edges: index..index });
            }
            group_of[contact as usize] = groups.len() as u32 - 1;
            let Some(group) = groups.last_mut() else { continue };
            let begins = group.edges.is_empty();
            group.edges.end = index + 1;
            // `end_max` restarts with each group.
            let before = if begins { 0 } else { edges.last().map_or(0, |e| e.end_max) };
            let end_max = before.max(c.end.0);
            edges.push(PlacedContact { start: c.start.0, end: c.end.0, end_max, rate: c.rate, delay, contact });
        }
        add_up(&mut first_group);
        let mut towards: Vec<(NodeId, GroupId)> =
            (0..).zip(&groups).map(|(id, g)| (nodes[g.to as usize], GroupId(id))).collect();
        towards.sort();
        let (first_lane, lanes, passing) = lanes(&first_group, &groups, &edges);
        PlanIndex { nodes, first_group, groups, towards, edges, group_of, first_lane, lanes, passing, plan }
    }
    /// The indexed plan.
    pub fn plan(&self) -> &ContactPlan {
        &self.plan
    }
    /// A contact by its index in the plan.
    pub fn contact(&self, contact: u32) -> Option<&Contact> {
        self.plan.contacts.get(contact as usize)
    }
    /// Group of a contact; `None` if it can carry nothing.
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
    /// Name of a group's link; `None` for the only one between two nodes.
    pub fn link_name(&self, group: GroupId) -> Option<&str> {
        let first = self.contacts(group).first()?;
        self.contact(first.contact)?.link.as_deref()
    }
    /// Contacts of a group in order of start.
    pub fn contacts(&self, group: GroupId) -> &[PlacedContact] {
        self.groups.get(group.0 as usize).map_or(&[], |g| self.edges_of(g))
    }
    fn edges_of(&self, group: &ContactGroup) -> &[PlacedContact] {
        &self.edges[group.edges.start as usize..group.edges.end as usize]
    }
    fn range(&self, place: u32) -> Range<u32> {
        let place = place as usize;
        match (self.first_group.get(place), self.first_group.get(place + 1)) {
            (Some(first), Some(end)) => *first..*end,
            _ => 0..0,
        }
    }
    /// Index of a node.
    pub(crate) fn place(&self, node: NodeId) -> Option<u32> {
        self.nodes.binary_search(&node).ok().map(|place| place as u32)
    }
    /// Lanes of the node with this index.
    pub(crate) fn lanes(&self, place: u32) -> Range<u32> {
        let place = place as usize;
        match (self.first_lane.get(place), self.first_lane.get(place + 1)) {
            (Some(first), Some(end)) => *first..*end,
            _ => 0..0,
        }
    }
    /// A lane with its contacts.
    pub(crate) fn lane(&self, lane: u32) -> (&ContactLane, &[Passing]) {
        let lane = &self.lanes[lane as usize];
        (lane, &self.passing[lane.passing.start as usize..lane.passing.end as usize])
    }
    /// Index of the first contact of a lane that may end after `time`.
    pub(crate) fn begin(&self, lane: u32, time: u64) -> u32 {
        let (lane, passing) = self.lane(lane);
        // No contact of the lane is longer than `longest`, so all before this one are over.
        passing.partition_point(|contact| contact.start.saturating_add(lane.longest) <= time) as u32
    }
    /// Times and rate of a contact in a lane.
    pub(crate) fn edge(&self, passing: &Passing) -> &PlacedContact {
        &self.edges[passing.edge as usize]
    }
    /// Index of the first contact of a group that ends after `time`.
    pub fn first_after(&self, group: GroupId, time: PlanTime) -> usize {
        // `end_max` never falls within a group, unlike `end`.
        self.contacts(group).partition_point(|edge| edge.end_max <= time.0)
    }
}

fn add_up(counts: &mut [u32]) {
    for i in 1..counts.len() {
        counts[i] += counts[i - 1];
    }
}

/// Builds the lanes: the first lane of each node, the lanes, and their contacts.
fn lanes(
    first_group: &[u32],
    groups: &[ContactGroup],
    edges: &[PlacedContact],
) -> (Vec<u32>, Vec<ContactLane>, Vec<Passing>) {
    let (mut first_lane, mut lanes, mut passing) =
        (alloc::vec![0u32; first_group.len()], Vec::<ContactLane>::new(), Vec::new());
    // Contacts whose lengths have the same binary logarithm share a lane.
    let mut own: Vec<(u32, Passing)> = Vec::new();
    for node in 1..first_group.len() {
        own.clear();
        for group in first_group[node - 1]..first_group[node] {
            let ContactGroup { to, edges: range, .. } = &groups[group as usize];
            own.extend(range.clone().map(|edge| {
                let PlacedContact { start, end, .. } = edges[edge as usize];
                ((end - start).ilog2(), Passing { start, to: *to, group, edge })
            }));
        }
        own.sort_unstable_by_key(|(class, p)| (*class, p.start, p.edge));
        let mut last = None;
        for (class, contact) in own.drain(..) {
            let (place, PlacedContact { start, end, delay, .. }) = (passing.len() as u32, edges[contact.edge as usize]);
            passing.push(contact);
            if last != Some(class) {
                last = Some(class);
                first_lane[node] += 1;
                lanes.push(ContactLane { delay_min: delay, longest: 0, passing: place..place });
            }
            let Some(lane) = lanes.last_mut() else { continue };
            lane.passing.end = place + 1;
            lane.delay_min = lane.delay_min.min(delay);
            // `begin` relies on the longest contact of the lane.
            lane.longest = lane.longest.max(end - start);
        }
    }
    add_up(&mut first_lane);
    (first_lane, lanes, passing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_found_by_transmitter_and_time() {
        let text = "contact 2 1 +0..+9 rate 1 B/s\ncontact 1 2 +50..+60 rate 1 B/s delay 5 s\n\
                    contact 1 2 +0..+100 rate 1 B/s delay 9 s\ncontact 1 2 link=b +0..+1 rate 1 B/s\n\
                    contact 1 3 +5..+5 rate 1 B/s";
        let plan = crate::contact_plan::parse(text).unwrap().plan;
        let graph = PlanIndex::new(plan);
        let one = graph.place(NodeId(1)).unwrap();
        let after = |seconds: u64| -> Vec<u32> {
            let begin = |lane| graph.lane(lane).1[graph.begin(lane, seconds * 1_000_000_000) as usize..].iter();
            graph.lanes(one).flat_map(begin).map(|passing| graph.edge(passing).contact).collect()
        };
        assert_eq!(after(0), [3, 1, 2], "short ones first, each length in order of start");
        assert_eq!((after(70), after(100)), (alloc::vec![2], alloc::vec![]));
        assert!(graph.lanes(graph.place(NodeId(3)).unwrap()).is_empty());
        assert_eq!(graph.place(NodeId(9)), None);
        // Contact 4 has no duration, so it is in no group.
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
