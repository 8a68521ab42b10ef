//! Simulated machine: a stack, its disk and its alarm clock.

use crate::disk::Disk;
use crate::sim_event::{Address, Queue, SimEvent};
use farlink_base::socket;
use farlink_base::store::Usage;
use farlink_base::{BundleHandle, ConfigError, EventClass, Instant, LayerId, LinkId, Sink, TimerKey};
use farlink_bpa::app::{BundleStatus, SendRequest};
use farlink_stack::{Input, LinkConfig, Output, Stack};

/// Node of the scenario: its stack, disk, alarm and links.
pub(crate) struct SimulatedNode {
    stack: Stack,
    pub disk: Disk,
    /// Links of the node by number.
    links: Vec<NodeLink>,
    /// Numbers of removed links, free for reuse.
    free: Vec<LinkId>,
    alarm: Option<TimerKey>,
    /// Number of restarts; inputs meant for an earlier life are dropped.
    pub life: u32,
    /// Whether the node is down.
    pub stopped: bool,
}

/// Link at one of its two nodes.
pub(crate) struct NodeLink {
    /// Index of the link in the scenario.
    pub cable: usize,
    /// End of the link: 0 for its first node, 1 for its second.
    pub end: usize,
    /// Convergence layer at this node.
    pub layer: LayerId,
    /// Address of the opposite end.
    pub peer: Address,
    /// Whether the link uses sockets.
    pub sockets: bool,
}

/// Collector of a stack's outputs, which asks the stack only for events of the wanted classes.
pub(crate) struct Said<'a> {
    pub outputs: &'a mut Vec<Output>,
    pub wanted: Wanted,
}
impl Sink<Output> for Said<'_> {
    fn push(&mut self, output: Output) {
        self.outputs.push(output);
    }
    fn wants(&self, class: EventClass) -> bool {
        self.wanted[class as usize]
    }
}

/// Wanted classes of events, by index.
pub(crate) type Wanted = [bool; 4];

/// Collects the wanted classes from a predicate.
pub(crate) fn wanted(wants: impl Fn(EventClass) -> bool) -> Wanted {
    let mut wanted = Wanted::default();
    for class in [EventClass::Bundle, EventClass::Link, EventClass::Segment, EventClass::Node] {
        wanted[class as usize] = wants(class);
    }
    wanted
}

impl SimulatedNode {
    pub fn new(stack: Stack, links: Vec<NodeLink>) -> SimulatedNode {
        SimulatedNode { stack, disk: Disk::default(), links, free: Vec::new(), alarm: None, life: 0, stopped: false }
    }

    /// Kills the node: only its disk remains.
    pub fn stop(&mut self, now: Instant, queue: &mut Queue) {
        if let Some(alarm) = self.alarm.take() {
            queue.cancel(alarm);
        }
        self.disk.forget(now);
        self.stopped = true;
    }
    /// Restarts the node with a new stack that has received nothing yet.
    pub fn start(&mut self, fresh: SimulatedNode) {
        let SimulatedNode { stack, links, .. } = fresh;
        (self.stack, self.links) = (stack, links);
        // The restarted stack has no radio links, so all their numbers are new.
        self.free.clear();
        self.life += 1;
        self.stopped = false;
    }

    /// Passes an input to the stack, which may produce outputs.
    pub fn handle(&mut self, now: Instant, input: Input, said: &mut Said<'_>) {
        self.stack.handle(now, input, said);
    }

    /// Adds a link.
    ///
    /// # Errors
    /// Fails if the node already has the link.
    pub fn add_link(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        said: &mut Said<'_>,
    ) -> Result<(), ConfigError> {
        self.stack.add_link(now, link, config, said)
    }
    /// Adds a link of a radio contact.
    ///
    /// # Errors
    /// Fails if the node already has the link.
    pub fn meet(
        &mut self,
        now: Instant,
        link: LinkId,
        (config, free_hellos): (&LinkConfig, bool),
        said: &mut Said<'_>,
    ) -> Result<(), ConfigError> {
        self.stack.add_met_link(now, link, config, free_hellos, said)
    }
    /// Removes a link.
    pub fn remove_link(&mut self, now: Instant, link: LinkId, said: &mut Said<'_>) {
        self.stack.remove_link(now, link, said);
    }

    /// Allocates the number of a radio link for an end of a cable.
    pub fn number(&mut self, cable: usize, end: usize) -> LinkId {
        // Radio bundles are routed by link number; the address is unused.
        let peer = ([0u8; 4], 0).into();
        let link = NodeLink { cable, end, layer: LayerId(0), peer, sockets: false };
        let id = self.free.pop().unwrap_or(LinkId(self.links.len() as u32));
        match self.links.get_mut(id.0 as usize) {
            Some(place) => *place = link,
            None => self.links.push(link),
        }
        id
    }
    /// Frees the number of a radio link.
    pub fn forget(&mut self, link: LinkId) {
        self.free.push(link);
    }

    /// Clears the alarm after it fired.
    pub fn woke(&mut self) {
        self.alarm = None;
    }

    /// Inputs that give the stack the addresses of its peers over sockets, for one link or for all, as a driver does
    /// after resolving their names.
    pub fn places(&self, of: Option<LinkId>) -> Vec<Input> {
        let located = |(index, link): (usize, &NodeLink)| {
            let (id, addresses) = (LinkId(index as u32), Vec::from([link.peer]));
            let told = link.sockets && of.is_none_or(|of| of == id);
            told.then(|| Input::Socket(link.layer, socket::Input::Located { link: id, addresses }))
        };
        self.links.iter().enumerate().filter_map(located).collect()
    }

    /// Sets the alarm to the stack's next deadline.
    pub fn set_alarm(&mut self, index: usize, queue: &mut Queue) {
        let wanted = self.stack.next_timeout();
        if self.alarm.map(|key| key.deadline()) == wanted {
            return;
        }
        if let Some(old) = self.alarm.take() {
            queue.cancel(old);
        }
        self.alarm = wanted.filter(|at| *at < Instant::MAX).map(|at| queue.arm(at, SimEvent::Wake(index)));
    }

    /// Cables of the node: link number, cable, and end.
    pub fn cables(&self) -> impl Iterator<Item = (LinkId, usize, usize)> + '_ {
        self.links.iter().enumerate().map(|(index, link)| (LinkId(index as u32), link.cable, link.end))
    }
    /// Cable and end of a link.
    pub fn link(&self, link: LinkId) -> (usize, usize) {
        let link = &self.links[link.0 as usize];
        (link.cable, link.end)
    }
    /// Cable and end that lead to an address.
    pub fn link_towards(&self, address: Address) -> Option<(usize, usize)> {
        let link = self.links.iter().find(|link| link.peer.ip() == address.ip())?;
        Some((link.cable, link.end))
    }
    /// Layer of a link.
    pub fn layer_of(&self, link: LinkId) -> LayerId {
        self.links[link.0 as usize].layer
    }
    /// Free bytes for new bundles; `None` if space is not the only admission criterion.
    pub fn room(&self) -> Option<u64> {
        self.stack.room()
    }
    /// Smallest free space that the requested bundle needs; `None` if space is not the only criterion.
    pub fn needs(&mut self, now: Instant, wanted: SendRequest) -> Option<u64> {
        self.stack.needs(now, wanted)
    }
    /// First bundles that the node holds, with their retention constraints.
    pub fn bundles(&self, now: Instant, limit: usize) -> Vec<BundleStatus> {
        self.stack.bundles(now, BundleHandle(0), limit)
    }
    /// Usage of the store; empty while the node is down.
    pub fn usage(&self) -> Usage {
        if self.stopped { Usage::default() } else { self.stack.store_usage() }
    }
}
