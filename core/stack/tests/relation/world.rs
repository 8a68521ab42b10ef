//! The world of a history: stacks, their disks, and data under way between them. Only a step changes anything.
//!
//! Events that may lose an acknowledged bundle by right excuse all bundles sent so far: a crash of any node whose
//! store is in memory, and on a UDPCL link, which confirms nothing, a crash, a loss or a link that goes down.

use super::forgery::{Honest, LENGTH, STRANGE, forge};
use super::history::{Setup, Step};
use super::ledger::{Ledger, Sent, Violation};
use super::sim_disk::SimDisk;
use farlink_base::layer::{DatagramBatch, Destination, SendId, Ticket};
use farlink_base::store::{DiskDone, DiskOp};
use farlink_base::{
    BundleMeta, Bytes, Clock, CreationTimestamp, DataVolume, DtnTime, Duration, EndpointId, Facts, HopState, Instant,
    LayerId, LinkId, Payload, Priority, Refusal, Rng, hash128, socket,
};
use farlink_bpa::app::{AppInput, AppOutput, RegistrationId, RequestId, SendRequest};
use farlink_cla::udpcl;
use farlink_stack::{
    Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, MessageInput, MessageOutput, Output, Stack,
    StoreKind,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

const EPOCH: DtnTime = DtnTime(800_000_000_000);
const MESSAGES: LayerId = LayerId(0);
const DATAGRAMS: LayerId = LayerId(1);
const LIFETIME_MS: u64 = 24 * 3_600_000;
/// Longest time and most rounds until a world whose links are up has delivered everything.
const DRAIN: Duration = Duration::from_secs(2 * 3600);
const ROUNDS: usize = 3000;
/// Length of datagrams that carry just the first half of a payload, as the attacker's fragments do, by version.
const HALVES_6: u32 = 229;
const HALVES_7: u32 = 272;
/// Maximum length of a file of a store; short, because each step of a search computes a digest of all files.
const FILE_MAX: DataVolume = DataVolume(32 << 10);
/// Range of timers that a step of time can reach.
const WAIT: Duration = Duration::from_secs(3600);

/// A transmission under way.
#[derive(Debug)]
enum Packet {
    Message { id: SendId, bundle: Arc<BundleMeta>, hop: Box<HopState> },
    Datagrams(DatagramBatch),
}

/// World of a history. Its [`fmt::Debug`] must show everything that a later step depends on.
#[derive(Debug)]
pub struct World {
    setup: Setup,
    now: Instant,
    rng: Rng,
    runs: u64,
    nodes: Vec<Stack>,
    disks: Vec<SimDisk>,
    outstanding: Vec<Vec<DiskOp>>,
    up: Vec<bool>,
    packets: BTreeMap<(u8, u8), VecDeque<Packet>>,
    /// Verdicts on their way from receiver to sender.
    answers: BTreeMap<(u8, u8), VecDeque<(SendId, Result<(), Refusal>)>>,
    /// Sender of each ticket, and the sender's number of the transmission.
    tickets: BTreeMap<(u8, u64), (u8, SendId)>,
    /// The last ticket of each receiver.
    ticket: Vec<u64>,
    pub ledger: Ledger,
    broken: Option<Violation>,
}

fn address(node: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node + 1], 4556))
}
const STRANGER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 9, 9)), 4000);

fn honest_payload(bundle: u8) -> Bytes {
    Bytes::from(vec![b'A' + bundle; LENGTH])
}

impl World {
    pub fn new(setup: Setup) -> World {
        let nodes = setup.nodes as u8;
        let mut world = World {
            setup,
            now: Instant::ZERO,
            // One seed for all worlds: equal histories must lead to equal states.
            rng: Rng::stream(1, 26),
            runs: 0,
            nodes: Vec::new(),
            disks: vec![SimDisk::default(); setup.nodes],
            outstanding: vec![Vec::new(); setup.nodes],
            up: vec![true; setup.nodes - 1],
            packets: BTreeMap::new(),
            answers: BTreeMap::new(),
            tickets: BTreeMap::new(),
            ticket: vec![0; setup.nodes],
            ledger: Ledger::default(),
            broken: None,
        };
        for node in 0..nodes {
            let stack = world.stack(node);
            world.nodes.push(stack);
            world.begin(node);
        }
        world
    }

    /// Whether the link from `link` to the next node is UDPCL, which loses bundles silently.
    fn is_narrow(&self, link: usize) -> bool {
        self.setup.narrow && link + 2 == self.setup.nodes
    }
    /// Links of a node: number of the link in the row, and the node it leads to.
    fn links(&self, node: u8) -> Vec<(usize, u8)> {
        let (before, nodes) = (usize::from(node), self.setup.nodes);
        let mut links = Vec::new();
        links.extend(before.checked_sub(1).map(|link| (link, node - 1)));
        links.extend((before + 1 < nodes).then_some((before, node + 1)));
        links
    }
    fn link_to(&self, node: u8, peer: u8) -> Option<LinkId> {
        self.links(node).iter().position(|(_, other)| *other == peer).map(|at| LinkId(at as u32))
    }

    fn stack(&mut self, node: u8) -> Stack {
        let own = u64::from(node) + 1;
        self.runs += 1;
        let mut config = Config::new(EndpointId::ipn(own, 0));
        let seed = 100 * self.runs + own;
        let datagrams = udpcl::Config { layer: DATAGRAMS, seed, ..udpcl::Config::default() };
        config.layers = vec![
            LayerConfig { name: "messages".into(), kind: LayerKind::Message },
            LayerConfig { name: "datagrams".into(), kind: LayerKind::Udpcl(datagrams) },
        ];
        let links = self.links(node);
        let link = |(place, (link, peer)): (usize, &(usize, u8))| {
            let span = match self.is_narrow(*link) {
                false => LinkParams::Message { wire_bytes_per_million: 1_000_000 },
                true => LinkParams::Udpcl(udpcl::LinkParams {
                    link: LinkId(place as u32),
                    datagram_bytes: if self.setup.version == 6 { HALVES_6 } else { HALVES_7 },
                    pace_bytes: 1 << 30,
                    ..udpcl::LinkParams::default()
                }),
            };
            LinkConfig {
                name: format!("to-{peer}"),
                peer: EndpointId::ipn(u64::from(*peer) + 1, 0),
                layer: usize::from(self.is_narrow(*link)),
                rate: None,
                one_way_delay: Duration::ZERO,
                terms: Default::default(),
                params: span,
            }
        };
        config.links = links.iter().enumerate().map(link).collect();
        let far = self.setup.nodes as u64;
        config.routes = (1..=far)
            .filter(|to| *to != own)
            .map(|to| (format!("ipn:{to}.*"), EndpointId::ipn(if to < own { own - 1 } else { own + 1 }, 0)))
            .collect();
        let kind = if self.setup.durable { StoreKind::Durable } else { StoreKind::Memory };
        config.keep_in(kind, DataVolume(64 << 20));
        config.store.file_max = FILE_MAX;
        config.router = "static".into();
        config.node.bundle_version = self.setup.version;
        config.seed = seed;
        Stack::new(config).expect("the configuration is right")
    }
    fn begin(&mut self, node: u8) {
        let utc = Some(self.utc());
        self.tell(node, Input::Clock(Clock { at: self.now, utc, error_ms: 0 }));
        // Recovery is no step of a history: it is completed at once.
        while !self.nodes[usize::from(node)].is_open() && self.commit(node) {}
        for (link, peer) in self.links(node) {
            if self.is_narrow(link) {
                let link = self.link_to(node, peer).expect("a neighbour");
                let located = socket::Input::Located { link, addresses: vec![address(peer)] };
                self.tell(node, Input::Socket(DATAGRAMS, located));
            }
            if !self.up[link] {
                let link = self.link_to(node, peer).expect("a neighbour");
                self.tell(node, Input::LinkDown { link });
            }
        }
        let endpoint = EndpointId::ipn(u64::from(node) + 1, 1);
        let register = AppInput::Register { registration: RegistrationId(1), endpoint, window: 100 };
        self.tell(node, Input::App(register));
    }
    fn utc(&self) -> DtnTime {
        EPOCH.saturating_add_ms(self.now.0 / 1_000_000)
    }

    fn tell(&mut self, node: u8, input: Input) {
        let mut out = Vec::new();
        let now = self.now;
        let stack = &mut self.nodes[usize::from(node)];
        stack.handle(now, input, &mut out);
        // Finish the follow-up work of an input before the next one.
        let mut turns = 0;
        // The bound of 100 turns keeps an endless wake-up from hanging the search; `drain` reports it as `Endless`.
        while self.nodes[usize::from(node)].next_timeout().is_some_and(|at| at <= now) && turns < 100 {
            self.nodes[usize::from(node)].handle(now, Input::Wake, &mut out);
            turns += 1;
        }
        for output in out {
            self.follow(node, output);
        }
    }
    fn follow(&mut self, node: u8, output: Output) {
        match output {
            Output::Message(MessageOutput::Send { link, id, bundle, hop, .. }) => {
                let (_, peer) = self.links(node)[link.0 as usize];
                self.packets.entry((node, peer)).or_default().push_back(Packet::Message { id, bundle, hop });
            }
            Output::Message(MessageOutput::Cancel { link, id }) => {
                let (_, peer) = self.links(node)[link.0 as usize];
                let waiting = self.packets.entry((node, peer)).or_default();
                let before = waiting.len();
                // A transmission that has already crossed is answered by its verdict.
                waiting.retain(|packet| !matches!(packet, Packet::Message { id: other, .. } if *other == id));
                if waiting.len() < before {
                    self.tell(node, Input::Message(MessageInput::Done { id, result: Err(None) }));
                }
            }
            Output::Message(MessageOutput::Verdict { ticket, result }) => {
                if let Some((sender, id)) = self.tickets.remove(&(node, ticket.0)) {
                    self.answers.entry((node, sender)).or_default().push_back((id, result));
                }
            }
            Output::Socket(_, socket::Output::Datagrams { to: Destination::Link(link), train }) => {
                let (_, peer) = self.links(node)[link.0 as usize];
                self.packets.entry((node, peer)).or_default().push_back(Packet::Datagrams(train));
            }
            Output::Disk(op) => self.outstanding[usize::from(node)].push(op),
            Output::App(AppOutput::SendResult { request, result }) => {
                if let (Some(sent), Ok(id)) = (&mut self.ledger.sent[request.0 as usize], result) {
                    // The expected timestamp was a guess, as the node chooses the sequence number.
                    sent.honest.creation = id.creation;
                    (sent.id, sent.acknowledged) = (Some(id), true);
                }
            }
            Output::App(AppOutput::Deliver { registration, delivery, bundle }) => {
                let payload = bundle.payload.to_bytes().expect("it is short");
                let checked = self.ledger.delivered(node.into(), &bundle, &payload);
                // The first broken promise counts; later ones may follow from it.
                self.broken = self.broken.take().or(checked.err());
                self.tell(node, Input::App(AppInput::DeliveryDone { registration, delivery, taken: true }));
            }
            _ => {}
        }
    }

    /// Does one step; an impossible one does nothing.
    ///
    /// # Errors
    /// A promise that it broke.
    pub fn step(&mut self, step: Step) -> Result<(), Violation> {
        match step {
            Step::Send { bundle } => self.send(bundle),
            Step::Forge { bundle, alteration, node } if usize::from(node) < self.setup.nodes => {
                let honest = self.honest(bundle);
                // A whole forgery counts as both of its halves, because it may be fragmented on the way.
                let cut = alteration.cut().unwrap_or(0..LENGTH as u64);
                let byte = if alteration.is_true() { honest.payload[0] } else { STRANGE };
                for start in [0, LENGTH as u64 / 2].into_iter().filter(|start| cut.contains(start)) {
                    self.ledger.pieces.insert((start, byte));
                }
                let data = forge(&honest, alteration, self.setup.version);
                let train = DatagramBatch { stride: data.len() as u32, data: Payload::from(data) };
                self.tell(node, Input::Socket(DATAGRAMS, socket::Input::Datagrams { from: STRANGER, train }));
            }
            Step::Cross { from, to } => self.cross(from, to),
            Step::Lose { from, to } => self.lose(from, to),
            Step::Answer { from, to } => {
                if let Some((id, result)) = self.answers.get_mut(&(from, to)).and_then(VecDeque::pop_front) {
                    self.tell(to, Input::Message(MessageInput::Done { id, result: result.map_err(Some) }));
                }
            }
            Step::Commit { node } if usize::from(node) < self.setup.nodes => while self.commit(node) {},
            Step::Part { node } if usize::from(node) < self.setup.nodes => {
                let outstanding = &mut self.outstanding[usize::from(node)];
                if !outstanding.is_empty() {
                    let first = outstanding.remove(0);
                    self.perform(node, first);
                }
            }
            Step::Crash { node } if usize::from(node) < self.setup.nodes => self.crash(node),
            Step::Down { link } => self.carrier(link.into(), false),
            Step::Up { link } => self.carrier(link.into(), true),
            Step::Wait => {
                self.wait(WAIT);
            }
            _ => {}
        }
        self.broken.take().map_or(Ok(()), Err)
    }
    /// Whether a step can happen, and would change something.
    pub fn can(&self, step: Step) -> bool {
        let waits = |node: u8| !self.outstanding[usize::from(node)].is_empty();
        match step {
            Step::Send { bundle } => self.ledger.sent[usize::from(bundle)].is_none(),
            Step::Forge { .. } | Step::Crash { .. } => true,
            Step::Cross { from, to } | Step::Lose { from, to } => {
                self.packets.get(&(from, to)).is_some_and(|packets| !packets.is_empty())
            }
            Step::Answer { from, to } => self.answers.get(&(from, to)).is_some_and(|answers| !answers.is_empty()),
            Step::Commit { node } | Step::Part { node } => waits(node),
            Step::Down { link } => self.up[usize::from(link)],
            Step::Up { link } => !self.up[usize::from(link)],
            Step::Wait => self.next_within(WAIT).is_some(),
        }
    }
    /// Digest of this world: worlds with the same digest go on in the same way. `text` is a buffer.
    pub fn digest(&self, text: &mut String) -> u128 {
        use std::fmt::Write;
        text.clear();
        write!(text, "{self:?}").expect("a string takes it");
        hash128(&[text.as_bytes()])
    }
    /// Outcome: deliveries, acknowledgments, and bundles held.
    pub fn outcome(&self) -> String {
        let sent = self.ledger.sent.iter().flatten();
        let sent: Vec<_> = sent.map(|sent| (sent.acknowledged, sent.excused, sent.delivered)).collect();
        let held: Vec<u64> = self.nodes.iter().map(|node| node.held()).collect();
        format!("{sent:?} {held:?}")
    }
    /// The honest bundle of this number, as it was sent or is expected to be.
    fn honest(&self, bundle: u8) -> Honest {
        if let Some(sent) = &self.ledger.sent[usize::from(bundle)] {
            return sent.honest.clone();
        }
        let far = self.setup.nodes as u64;
        let (from, to) = if bundle.is_multiple_of(2) { (1, far) } else { (far, 1) };
        let (source, time) = (EndpointId::ipn(from, 1), self.utc());
        // Bundles of one source in one millisecond have consecutive sequence numbers.
        let made = self.ledger.sent.iter().flatten().filter(|sent| sent.honest.source == source);
        let sequence = made.filter(|sent| sent.honest.creation.time == time).count() as u64;
        let creation = CreationTimestamp { time, sequence };
        let destination = EndpointId::ipn(to, 1);
        // The bundle was not sent yet, so the attacker cannot know its payload.
        let payload = Bytes::from(vec![STRANGE; LENGTH]);
        Honest { source, destination, creation, lifetime_ms: LIFETIME_MS, payload }
    }
    fn send(&mut self, bundle: u8) {
        if self.ledger.sent[usize::from(bundle)].is_some() {
            return;
        }
        let honest = Honest { payload: honest_payload(bundle), ..self.honest(bundle) };
        let node = if bundle.is_multiple_of(2) { 0 } else { self.setup.nodes as u8 - 1 };
        let wanted = SendRequest {
            source: honest.source.clone(),
            destination: honest.destination.clone(),
            report_to: EndpointId::Null,
            facts: Facts::default(),
            lifetime_ms: LIFETIME_MS,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: Payload::from(honest.payload.clone()),
        };
        let sent = Sent { honest, id: None, acknowledged: false, excused: false, delivered: 0 };
        self.ledger.sent[usize::from(bundle)] = Some(sent);
        self.tell(node, Input::App(AppInput::Send { request: RequestId(bundle.into()), bundle: wanted }));
    }
    fn cross(&mut self, from: u8, to: u8) {
        let Some(packet) = self.packets.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { return };
        match packet {
            Packet::Message { id, bundle, hop } => {
                let last = &mut self.ticket[usize::from(to)];
                *last += 1;
                let (ticket, link) = (*last, self.link_to(to, from).expect("a neighbour"));
                self.tickets.insert((to, ticket), (from, id));
                // The head comes first, and its verdict may come at once.
                let begun = Input::Message(MessageInput::Begun {
                    link,
                    ticket: Ticket(ticket),
                    bundle: bundle.clone(),
                    hop: hop.clone(),
                });
                self.tell(to, begun);
                if self.tickets.contains_key(&(to, ticket)) {
                    self.tell(to, Input::Message(MessageInput::Arrived { link, ticket: Ticket(ticket), bundle, hop }));
                }
            }
            Packet::Datagrams(train) => {
                let data = Payload::from(train.data.to_bytes().expect("it is in memory"));
                let train = DatagramBatch { stride: train.stride, data };
                let input = socket::Input::Datagrams { from: address(from), train };
                self.tell(to, Input::Socket(DATAGRAMS, input));
            }
        }
    }
    fn lose(&mut self, from: u8, to: u8) {
        match self.packets.get_mut(&(from, to)).and_then(VecDeque::pop_front) {
            Some(Packet::Message { id, .. }) => {
                self.tell(from, Input::Message(MessageInput::Done { id, result: Err(None) }))
            }
            Some(Packet::Datagrams(_)) => self.ledger.excuse(),
            None => {}
        }
    }
    /// Performs all operations requested from the disk so far; false if nothing was requested.
    fn commit(&mut self, node: u8) -> bool {
        let at = usize::from(node);
        let operations = std::mem::take(&mut self.outstanding[at]);
        let any = !operations.is_empty();
        for operation in operations {
            self.perform(node, operation);
        }
        any
    }
    fn perform(&mut self, node: u8, DiskOp { id, action }: DiskOp) {
        let result = self.disks[usize::from(node)].perform(action, &mut self.rng);
        self.tell(node, Input::DiskDone(DiskDone { id, result }));
    }
    fn crash(&mut self, node: u8) {
        let at = usize::from(node);
        if !self.setup.durable || self.setup.narrow {
            self.ledger.excuse();
        }
        let outstanding = std::mem::take(&mut self.outstanding[at]);
        self.disks[at] = match self.setup.power {
            true => self.disks[at].power_cut(&outstanding, &mut self.rng),
            false => self.disks[at].killed(),
        };
        // Unacknowledged bundles carry no promise.
        let own = EndpointId::ipn(u64::from(node) + 1, 1);
        for sent in self.ledger.sent.iter_mut().flatten().filter(|sent| sent.honest.source == own) {
            sent.excused |= !sent.acknowledged;
        }
        let links = self.links(node);
        for (link, peer) in &links {
            self.packets.remove(&(node, *peer));
            self.answers.remove(&(*peer, node));
            self.tickets.retain(|_, (sender, _)| *sender != node);
            if self.up[*link] {
                self.interrupt(*peer, node);
            }
        }
        self.tickets.retain(|(receiver, _), _| *receiver != node);
        // A restart takes longer than the resolution of a creation timestamp, for a node that keeps no counter.
        self.now += Duration::from_secs(1);
        self.nodes[at] = self.stack(node);
        self.begin(node);
        for (link, peer) in links {
            if self.up[link] {
                let link = self.link_to(peer, node).expect("a neighbour");
                self.tell(peer, Input::LinkUp { link });
            }
        }
    }
    /// Ends a node's session with a neighbour: transmissions to it fail, as far as the node knows.
    fn interrupt(&mut self, node: u8, peer: u8) {
        let mut failed: Vec<SendId> = Vec::new();
        for packet in self.packets.remove(&(node, peer)).into_iter().flatten() {
            if let Packet::Message { id, .. } = packet {
                failed.push(id);
            }
        }
        failed.extend(self.answers.remove(&(peer, node)).into_iter().flatten().map(|(id, _)| id));
        let open = |((receiver, _), (sender, _)): (&(u8, u64), &(u8, SendId))| (*receiver, *sender) == (peer, node);
        failed.extend(self.tickets.iter().filter(|(key, value)| open((*key, *value))).map(|(_, (_, id))| *id));
        self.tickets.retain(|key, value| !open((key, value)));
        let link = self.link_to(node, peer).expect("a neighbour");
        self.tell(node, Input::LinkDown { link });
        for id in failed {
            self.tell(node, Input::Message(MessageInput::Done { id, result: Err(None) }));
        }
    }
    fn carrier(&mut self, link: usize, up: bool) {
        if link + 1 >= self.setup.nodes || self.up[link] == up {
            return;
        }
        self.up[link] = up;
        let (one, other) = (link as u8, link as u8 + 1);
        if up {
            for (node, peer) in [(one, other), (other, one)] {
                let link = self.link_to(node, peer).expect("a neighbour");
                self.tell(node, Input::LinkUp { link });
            }
            return;
        }
        if self.is_narrow(link) {
            self.ledger.excuse();
        }
        self.interrupt(one, other);
        self.interrupt(other, one);
    }
    fn next_within(&self, within: Duration) -> Option<Instant> {
        self.nodes.iter().filter_map(Stack::next_timeout).min().filter(|at| *at <= self.now + within)
    }
    /// Advances to the next timer within this time; returns false if no timer is set.
    fn wait(&mut self, within: Duration) -> bool {
        let Some(next) = self.next_within(within) else { return false };
        self.now = self.now.max(next);
        for node in 0..self.setup.nodes as u8 {
            if self.nodes[usize::from(node)].next_timeout().is_some_and(|at| at <= self.now) {
                self.tell(node, Input::Wake);
            }
        }
        true
    }

    /// Lets all data under way arrive, with all links up, and checks the promises.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn drain(&mut self) -> Result<(), Violation> {
        for link in 0..self.setup.nodes - 1 {
            self.carrier(link, true);
        }
        let end = self.now + DRAIN;
        for _ in 0..ROUNDS {
            if let Some(broken) = self.broken.take() {
                return Err(broken);
            }
            let mut moved = false;
            for node in 0..self.setup.nodes as u8 {
                // Disks first: a verdict on a durable store waits for its commit.
                moved |= self.commit(node);
            }
            for from in 0..self.setup.nodes as u8 {
                for (_, to) in self.links(from) {
                    let waits = |queue: Option<usize>| queue.is_some_and(|len| len > 0);
                    while waits(self.packets.get(&(from, to)).map(VecDeque::len)) {
                        (moved, _) = (true, self.cross(from, to));
                    }
                    while waits(self.answers.get(&(from, to)).map(VecDeque::len)) {
                        moved = true;
                        self.step(Step::Answer { from, to })?;
                    }
                }
            }
            if moved {
                continue;
            }
            // Time passes only if nothing else can move, so that timers do not hide a lost answer.
            let Some(bundle) = self.ledger.outstanding() else { return Ok(()) };
            if self.now >= end || !self.wait(WAIT) {
                let still_held = self.nodes.iter().map(|node| node.held() as usize).sum();
                return Err(Violation::Lost { bundle, still_held });
            }
        }
        match self.ledger.outstanding() {
            None => Ok(()),
            Some(_) => Err(Violation::Endless),
        }
    }
}
