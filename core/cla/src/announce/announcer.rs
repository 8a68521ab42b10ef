//! Schedules beacons and chooses which announced nodes to connect to.

use super::announced::{AnnouncedNode, AnnouncedNodes, AnnouncerKey, NodeState};
use super::attempts::Attempts;
use super::beacon::Beacon;
use super::{ATTEMPT, Around, Config, DiscoveredId, Input, LinkNow, Output};
use crate::registry::Introduction;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use farlink_base::{Duration, EndpointId, Instant, Rng, Sink, pattern_rank};

/// Interval between checks of the links and of the announced nodes without a link.
const LOOK: Duration = Duration::from_secs(1);
/// Delay from the first beacon of a new node to the next check, so that beacons of others can arrive first.
const SOON: Duration = Duration::from_millis(100);
/// Longest wait of the node with the greater node ID for the other to connect, so that two nodes which discover each
/// other make one connection, not two.
const POLITE: Duration = Duration::from_secs(2);

/// Numbers of datagrams received by the announcer; this node's own beacons, looped back, are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BeaconCounts {
    /// Beacons of accepted nodes that share a layer with this node.
    pub wanted: u64,
    /// Beacons of nodes that are not accepted, share no layer, or have a source address that names no host.
    pub unwanted: u64,
    /// Datagrams that are not beacons.
    pub unreadable: u64,
}

/// Sends beacons at intervals and tracks the nodes whose beacons arrive.
#[derive(Debug)]
pub struct Announcer {
    config: Config,
    own_name: String,
    heard: AnnouncedNodes,
    tried: Attempts,
    counts: BeaconCounts,
    rng: Rng,
    sequence: u32,
    next_id: u32,
    /// Time of the next beacon; `None` after [`Input::Leave`].
    speaks: Option<Instant>,
    looks: Option<Instant>,
}

impl Announcer {
    /// Creates an announcer whose first beacon leaves within half a second.
    pub fn new(config: Config, now: Instant) -> Announcer {
        let mut rng = Rng::stream(config.seed, 0);
        // A random start, so that nodes booted together do not send together.
        let soon = config.interval.min(Duration::from_millis(500)).mul_f64(rng.unit());
        Announcer {
            own_name: config.node_ids.first().map(ToString::to_string).unwrap_or_default(),
            heard: AnnouncedNodes::new(config.seed),
            tried: Attempts::default(),
            counts: BeaconCounts::default(),
            rng,
            sequence: 0,
            next_id: 0,
            speaks: Some(now + soon),
            looks: None,
            config,
        }
    }
    /// Configuration of the announcer.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// Announced nodes with their state, ordered by address and node ID.
    pub fn announced(&self) -> impl Iterator<Item = (&EndpointId, &AnnouncedNode)> {
        self.heard.iter().map(|(key, heard)| (&key.1, heard))
    }
    /// Numbers of datagrams received.
    pub fn counts(&self) -> BeaconCounts {
        self.counts
    }
    /// Time at which [`Input::Wake`] is due; `None` if nothing is scheduled.
    pub fn next_timeout(&self) -> Option<Instant> {
        Instant::earliest([self.speaks, self.looks])
    }

    /// Processes one input at `now` and pushes the outputs.
    pub fn handle(&mut self, now: Instant, input: Input<'_>, around: &impl Around, out: &mut impl Sink<Output>) {
        match input {
            Input::Wake => {
                if self.speaks.is_some_and(|at| at <= now) {
                    self.speak(self.config.interval, out);
                    // Vary the interval by 10 %, so that nodes that started together do not send at the same moment.
                    let jitter = 0.9 + 0.2 * self.rng.unit();
                    self.speaks = Some(now + self.config.interval.mul_f64(jitter));
                }
                if self.looks.is_some_and(|at| at <= now) {
                    self.look(now, around, out);
                }
            }
            Input::Heard { from, bytes } => self.on_beacon(now, (from, bytes), around, out),
            Input::Leave => {
                // A period of zero announces the departure.
                self.speaks = None;
                self.speak(Duration::ZERO, out);
            }
        }
    }

    fn speak(&mut self, period: Duration, out: &mut impl Sink<Output>) {
        let Some(node) = self.config.node_ids.first() else { return };
        let beacon = Beacon {
            node: node.clone(),
            sequence: Some(self.sequence),
            services: self.config.services.clone(),
            period: Some(period),
        };
        self.sequence = self.sequence.wrapping_add(1);
        out.push(Output::Announce(beacon.emit()));
    }

    fn on_beacon(
        &mut self,
        now: Instant,
        (from, bytes): (SocketAddr, &[u8]),
        around: &impl Around,
        out: &mut impl Sink<Output>,
    ) {
        let Ok(beacon) = Beacon::parse(bytes) else {
            self.counts.unreadable += 1;
            return;
        };
        // Multicast loops our own beacons back.
        if self.config.node_ids.iter().any(|own| own.node() == beacon.node.node()) {
            return;
        }
        let way = self.way_to(&beacon, from).filter(|_| is_host(from.ip()) && self.is_wanted(&beacon.node));
        let Some((layer, address)) = way else {
            self.counts.unwanted += 1;
            return;
        };
        self.counts.wanted += 1;
        let key = (address.ip(), beacon.node.clone());
        let period = beacon.period.unwrap_or(self.config.interval);
        let leaves = period.is_zero();
        let Some(known) = self.heard.get_mut(&key) else {
            if !leaves {
                self.meet(now, key, layer, address, &beacon, period);
            }
            return;
        };
        (known.last, known.sequence, known.leaves) = (now, beacon.sequence, leaves);
        known.beacons += 1;
        if leaves {
            return self.leave(now, &key, around, out);
        }
        known.period = period;
        // A beacon does not change the address of a node with a link, because anyone can forge beacons.
        if known.link_id().is_none() {
            (known.layer, known.address) = (layer, address);
        }
    }

    /// Preferred layer that both nodes know, as index in [`Config::reach`], and the address at which the other node
    /// serves it; `None` if they share no usable layer.
    fn way_to(&self, beacon: &Beacon, from: SocketAddr) -> Option<(usize, SocketAddr)> {
        self.config.reach.iter().enumerate().find_map(|(place, layer)| {
            let service = beacon.services.iter().find(|service| service.layer == *layer)?;
            // LTP addresses its peer by engine number, which is the ipn node number; a node ID of another scheme has
            // none.
            if layer.introduction == Introduction::Engine && beacon.node.ipn_node().is_none() {
                return None;
            }
            let mut address = SocketAddr::new(from.ip().to_canonical(), service.port);
            // A link-local address is reachable only through the interface the beacon arrived on.
            if let (SocketAddr::V6(address), SocketAddr::V6(from)) = (&mut address, from) {
                address.set_scope_id(from.scope_id());
            }
            Some((place, address))
        })
    }
    fn is_wanted(&self, node: &EndpointId) -> bool {
        let text = node.to_string();
        self.config.accept.iter().any(|pattern| pattern_rank(pattern, node, &text).is_some())
    }

    /// Adds a node at its first beacon. Of two nodes that discover each other, the one with the lesser node ID,
    /// compared as text, connects at once; the other waits for that connection.
    fn meet(
        &mut self,
        now: Instant,
        key: AnnouncerKey,
        layer: usize,
        address: SocketAddr,
        beacon: &Beacon,
        period: Duration,
    ) {
        // Both nodes compare the same names, so exactly one of them waits.
        let polite = self.own_name > key.1.to_string();
        // The wait is bounded, because the other may receive no beacons, or never connect.
        let wait = if polite { self.config.interval.min(POLITE) } else { Duration::ZERO };
        let heard = AnnouncedNode {
            address,
            layer,
            first: now,
            last: now,
            period,
            sequence: beacon.sequence,
            beacons: 1,
            stands: NodeState::Waiting { until: now + wait },
            failed: 0,
            leaves: false,
        };
        if self.heard.insert(key, heard) {
            self.looks = Some(self.looks.map_or(now + SOON, |at| at.min(now + SOON)));
        }
    }

    /// Handles a beacon that announces departure.
    fn leave(&mut self, now: Instant, key: &AnnouncerKey, around: &impl Around, out: &mut impl Sink<Output>) {
        match self.heard.get_mut(key).map(|heard| (heard.stands, heard.address)) {
            // Anyone can forge this beacon, so a link with a live session stays. Dropping a link that is not up counts
            // as a failed attempt: otherwise alternating arrivals and departures would cause a connection attempt each
            // time.
            Some((NodeState::Linked { id, up: None, .. }, address)) if around.state(id) != LinkNow::Up => {
                out.push(Output::Lost { id, why: "it leaves" });
                self.tried.end(now, address, None);
            }
            Some((NodeState::Linked { .. }, _)) => return,
            _ => {}
        }
        self.heard.remove(key);
    }

    /// Checks all links, then starts new attempts.
    fn look(&mut self, now: Instant, around: &impl Around, out: &mut impl Sink<Output>) {
        for key in self.heard.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.look_after(now, &key, around, out);
        }
        self.reach(now, around, out);
        // Without announced nodes the timer stops.
        self.looks = (!self.heard.is_empty()).then_some(now + LOOK);
    }

    fn look_after(&mut self, now: Instant, key: &AnnouncerKey, around: &impl Around, out: &mut impl Sink<Output>) {
        let reach = &self.config.reach;
        let Some(heard) = self.heard.get_mut(key) else { return };
        let (address, leaves) = (heard.address, heard.leaves);
        if let NodeState::Linked { id, since, up } = heard.stands {
            let link = around.state(id);
            if link == LinkNow::Up && up.is_none() {
                heard.stands = NodeState::Linked { id, since, up: Some(now) };
            }
            if link == LinkNow::Down && (up.is_some() || now >= since + ATTEMPT) {
                out.push(Output::Lost {
                    id,
                    why: if up.is_some() { "its session ended" } else { "it does not answer" },
                });
                // A session that lasted clears the backoff of its address, so that it is connected to again at once.
                self.tried.end(now, address, up.map(|up| now.since(up)));
                heard.failed += u32::from(up.is_none());
                if leaves {
                    return self.heard.remove(key);
                }
                let until = self.tried.until(address);
                return self.heard.stand(key, NodeState::Waiting { until });
            }
        }
        let silent = reach.get(heard.layer).is_none_or(|layer| heard.silent_at(layer) <= now);
        if silent {
            if let NodeState::Linked { id, up, .. } = heard.stands {
                out.push(Output::Lost { id, why: "it announces itself no more" });
                if up.is_none() {
                    self.tried.end(now, address, None);
                }
            }
            self.heard.remove(key);
        }
    }

    /// Starts attempts to connect to nodes whose wait is over, one per address, within the limits on links and
    /// attempts. First come nodes on hosts with the fewest failed ports; among these, nodes with the fewest failures,
    /// then those with at least two beacons, then those known longest.
    fn reach(&mut self, now: Instant, around: &impl Around, out: &mut impl Sink<Output>) {
        if self.heard.linked() >= self.config.neighbours_max || self.tried.full_until(now).is_some() {
            return;
        }
        let tried = &self.tried;
        let due = |heard: &AnnouncedNode| match heard.stands {
            NodeState::Waiting { until } => until.max(tried.until(heard.address)) <= now,
            NodeState::Linked { .. } => false,
        };
        let all = self.heard.iter().filter(|(_, heard)| due(heard));
        let rank = |key: &AnnouncerKey, heard: &AnnouncedNode| {
            (tried.of_host(key.0), heard.failed, heard.beacons < 2, heard.first)
        };
        let mut all: Vec<_> = all.map(|(key, heard)| (rank(key, heard), key.clone())).collect();
        all.sort();
        let taken = self.heard.iter().filter(|(_, heard)| heard.link_id().is_some());
        let mut taken: BTreeSet<SocketAddr> = taken.map(|(_, heard)| heard.address).collect();
        for (_, key) in all {
            if self.heard.linked() >= self.config.neighbours_max || self.tried.full_until(now).is_some() {
                return;
            }
            let Some(heard) = self.heard.get_mut(&key) else { continue };
            let (layer, address) = (heard.layer, heard.address);
            // Only one link per address: further node IDs claimed there must wait.
            if taken.contains(&address) || around.is_known(&key.1, layer, address) {
                continue;
            }
            taken.insert(address);
            let id = DiscoveredId(self.next_id);
            self.next_id = self.next_id.wrapping_add(1);
            self.tried.begin(now);
            self.heard.stand(&key, NodeState::Linked { id, since: now, up: None });
            out.push(Output::Discovered { id, node: key.1, layer, address });
        }
    }
}

/// Whether an address names one host. A datagram may carry an unspecified source address, and connecting to that would
/// reach this node's own host (RFC 1122 3.2.1.3; RFC 4291 2.5.2).
fn is_host(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}
