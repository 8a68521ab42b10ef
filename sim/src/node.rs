//! One simulated machine: a stack, its disk and its alarm clock.

use crate::disk::Disk;
use crate::sim_event::{Address, Queue, SimEvent};
use farlink_base::socket;
use farlink_base::store::Usage;
use farlink_base::{BundleHandle, ConfigError, EventClass, Instant, LayerId, LinkId, Sink, TimerKey};
use farlink_bpa::app::{BundleStatus, SendRequest};
use farlink_stack::{Input, LinkConfig, Output, Stack};

/// A node of the scenario.
pub(crate) struct SimulatedNode {
    stack: Stack,
    pub disk: Disk,
    /// Per link of the node: which cable, which end of it, its layer, and the peer's address.
    links: Vec<NodeLink>,
    /// Numbers of links that are no more, to be given anew.
    free: Vec<LinkId>,
    alarm: Option<TimerKey>,
    /// How often it was started again: what was meant for one life reaches no other.
    pub life: u32,
    /// Whether it hears and says nothing now.
    pub stopped: bool,
}

/// One link of a node.
pub(crate) struct NodeLink {
    /// Index of the link in the scenario.
    pub cable: usize,
    /// 0 for the link's first node, 1 for its second.
    pub end: usize,
    /// The convergence layer at this node.
    pub layer: LayerId,
    /// The address of the other end.
    pub peer: Address,
    /// Whether sockets carry it.
    pub sockets: bool,
}

/// What a stack says, collected; of events those that somebody wants.
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

/// Which classes of events somebody wants.
pub(crate) type Wanted = [bool; 4];

/// As whoever asks for each says.
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

    /// It is killed: nothing is left but its disk.
    pub fn stop(&mut self, now: Instant, queue: &mut Queue) {
        if let Some(alarm) = self.alarm.take() {
            queue.cancel(alarm);
        }
        self.disk.forget(now);
        self.stopped = true;
    }
    /// It starts again, as this new node that has heard nothing yet.
    pub fn start(&mut self, fresh: SimulatedNode) {
        let SimulatedNode { stack, links, .. } = fresh;
        (self.stack, self.links) = (stack, links);
        self.free.clear();
        self.life += 1;
        self.stopped = false;
    }

    /// Tells the stack something; what it says is to be carried out.
    pub fn handle(&mut self, now: Instant, input: Input, said: &mut Said<'_>) {
        self.stack.handle(now, input, said);
    }

    /// The node gets a link.
    ///
    /// # Errors
    /// When it has such a link.
    pub fn add_link(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        said: &mut Said<'_>,
    ) -> Result<(), ConfigError> {
        self.stack.add_link(now, link, config, said)
    }
    /// The node gets a link by a radio.
    ///
    /// # Errors
    /// When it has such a link.
    pub fn meet(
        &mut self,
        now: Instant,
        link: LinkId,
        (config, free_hellos): (&LinkConfig, bool),
        said: &mut Said<'_>,
    ) -> Result<(), ConfigError> {
        self.stack.add_met_link(now, link, config, free_hellos, said)
    }
    /// The node loses a link.
    pub fn remove_link(&mut self, now: Instant, link: LinkId, said: &mut Said<'_>) {
        self.stack.remove_link(now, link, said);
    }

    /// The number of a link of a radio: this end of this cable.
    pub fn number(&mut self, cable: usize, end: usize) -> LinkId {
        // Its bundles find their way by its number alone.
        let peer = ([0u8; 4], 0).into();
        let link = NodeLink { cable, end, layer: LayerId(0), peer, sockets: false };
        let id = self.free.pop().unwrap_or(LinkId(self.links.len() as u32));
        match self.links.get_mut(id.0 as usize) {
            Some(place) => *place = link,
            None => self.links.push(link),
        }
        id
    }
    /// A link of a radio is no more.
    pub fn forget(&mut self, link: LinkId) {
        self.free.push(link);
    }

    /// The alarm rang.
    pub fn woke(&mut self) {
        self.alarm = None;
    }

    /// Where the peers of links over sockets are, as a driver that has resolved their names says it.
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

    /// The cables at this node: its number for the link, cable, and which end of it.
    pub fn cables(&self) -> impl Iterator<Item = (LinkId, usize, usize)> + '_ {
        self.links.iter().enumerate().map(|(index, link)| (LinkId(index as u32), link.cable, link.end))
    }
    /// Which cable a link is, and which end of it this node holds.
    pub fn link(&self, link: LinkId) -> (usize, usize) {
        let link = &self.links[link.0 as usize];
        (link.cable, link.end)
    }
    /// The cable and end over which an address is reached.
    pub fn link_towards(&self, address: Address) -> Option<(usize, usize)> {
        let link = self.links.iter().find(|link| link.peer.ip() == address.ip())?;
        Some((link.cable, link.end))
    }
    /// The layer of a link.
    pub fn layer_of(&self, link: LinkId) -> LayerId {
        self.links[link.0 as usize].layer
    }
    /// Bytes that a newcomer may have, where nothing else decides whether it may in.
    pub fn room(&self) -> Option<u64> {
        self.stack.room()
    }
    /// Bytes of room that a bundle made of this request needs at least, where it is room that decides.
    pub fn needs(&mut self, now: Instant, wanted: SendRequest) -> Option<u64> {
        self.stack.needs(now, wanted)
    }
    /// The first bundles it holds, and why each is still here.
    pub fn bundles(&self, now: Instant, limit: usize) -> Vec<BundleStatus> {
        self.stack.bundles(now, BundleHandle(0), limit)
    }
    /// Fill of the store; nobody can ask a node that is down.
    pub fn usage(&self) -> Usage {
        if self.stopped { Usage::default() } else { self.stack.store_usage() }
    }
}
