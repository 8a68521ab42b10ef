//! Bundle retention time measured on the wire: for each bundle that a relay forwards, the time from its last byte
//! handed over to the relay's host until its first and its last byte leave there.
//!
//! The relay is neither asked nor changed, so that any implementation is measured alike. A thread reads copies of the
//! frames ([`RetentionProbe`]); the layers' passive readers find the bundles in them. Missed frames are counted. TLS
//! hides bundles.

mod conversations;
mod part;
mod report;

pub use part::{RelayCounters, RetentionPart, RetentionSubject};
pub use report::{BundleRetention, RelayRetention, RetentionReport};

use super::watcher::{FramePoint, WatchQueue, WatchedFrame, Watcher, watch_queue};
use super::zero_work;
use conversations::Conversations;
use farlink_base::Accel;
use farlink_scenario::{Link, Node, Scenario};
use report::RelaySeen;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::TryRecvError;
use std::thread::JoinHandle;
use std::time::Duration;

/// Wait for further frames when none is there. Waking the reader would cost the emulator a system call a frame.
const IDLE: Duration = Duration::from_micros(500);

/// Convergence layer of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchedLayer {
    /// TCPCL, version 3 or 4.
    Tcpcl,
    /// Simple TCP convergence layer.
    Stcp,
    /// Minimal TCP convergence layer.
    Mtcp,
    /// UDP convergence layer, version 1 or 2.
    Udpcl,
    /// Licklider transmission protocol.
    Ltp,
}
impl WatchedLayer {
    /// Layer of this name in a scenario; `None` for others.
    pub fn named(name: &str) -> Option<WatchedLayer> {
        Some(match name {
            "tcpclv4" | "tcpclv3" => WatchedLayer::Tcpcl,
            "stcp" => WatchedLayer::Stcp,
            "mtcp" => WatchedLayer::Mtcp,
            "udpcl" => WatchedLayer::Udpcl,
            "ltp" => WatchedLayer::Ltp,
            _ => return None,
        })
    }
}

/// Relay whose retention is measured.
#[derive(Clone, Debug)]
pub struct WatchedRelay {
    /// Name in the report.
    pub name: String,
    /// Links that end there: their number, and whether the forward direction leads to it.
    pub links: Vec<(usize, bool)>,
}

/// Conversations and relays to be watched.
#[derive(Clone, Debug, Default)]
pub struct RetentionSetup {
    /// Layer of each link, and the port on which its ends listen for it.
    pub layers: BTreeMap<usize, (WatchedLayer, u16)>,
    /// Relays, each with its links.
    pub relays: Vec<WatchedRelay>,
    /// Port of zero-work relays in the same hosts, which speak STCP over TCP and UDPCL over UDP.
    pub zero_work: Option<u16>,
}
impl RetentionSetup {
    /// Setup for a scenario: every node with several links is a relay, and has a zero-work relay beside it.
    pub fn of(scenario: &Scenario) -> RetentionSetup {
        let links = || scenario.links.iter().enumerate();
        let layer =
            |(index, link): (usize, &Link)| Some((index, (WatchedLayer::named(link.layer.kind.name)?, link.port)));
        let relay = |(index, node): (usize, &Node)| {
            let ends = links().filter(|(_, link)| link.between.contains(&index));
            let links: Vec<_> = ends.map(|(number, link)| (number, link.between[1] == index)).collect();
            (links.len() > 1).then(|| WatchedRelay { name: node.name.clone(), links })
        };
        let relays = scenario.nodes.iter().enumerate().filter_map(relay).collect();
        RetentionSetup { layers: links().filter_map(layer).collect(), relays, zero_work: Some(zero_work::PORT) }
    }

    /// Ports watched on a link. That of its layer comes first, should two be equal.
    fn ports(&self, link: usize) -> Vec<WatchedPort> {
        let own = self.layers.get(&link).map(|(layer, port)| (*layer, *port, RetentionSubject::Relay));
        let zero_work = self.zero_work.iter().flat_map(|port| {
            [
                (WatchedLayer::Stcp, *port, RetentionSubject::ZeroWorkStreams),
                (WatchedLayer::Udpcl, *port, RetentionSubject::ZeroWorkDatagrams),
            ]
        });
        let port = |(layer, port, subject)| WatchedPort { layer, port, subject };
        own.into_iter().chain(zero_work).map(port).collect()
    }
}

/// Port of a layer, and the relay that uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WatchedPort {
    layer: WatchedLayer,
    port: u16,
    subject: RetentionSubject,
}

/// Watcher of each direction, by link and whether it is the forward one.
pub type DirectionWatchers = BTreeMap<(usize, bool), Watcher>;

/// Reader of watched links, in a thread of its own.
#[derive(Debug)]
pub struct RetentionProbe {
    thread: JoinHandle<RetentionReport>,
}

impl RetentionProbe {
    /// Starts the thread. Returns a watcher for each direction to be observed, by link and whether it is the forward
    /// one. Connections that began before they were watched stay unread.
    pub fn start(setup: RetentionSetup) -> io::Result<(RetentionProbe, DirectionWatchers)> {
        let mut queue = watch_queue();
        let links = setup.relays.iter().flat_map(|relay| relay.links.iter().map(|(link, _)| *link));
        let directions = links.flat_map(|link| [(link, true), (link, false)]);
        let watchers = directions.filter_map(|(link, forward)| {
            let watcher = queue.watcher(link, forward)?;
            Some(((link, forward), watcher))
        });
        let watchers = watchers.collect();
        // Only the watchers hold the queue open now, so that the thread ends with them.
        queue.close();
        let reading = RetentionReading::new(&setup);
        let reading = move || reading.read(&queue);
        let thread = std::thread::Builder::new().name("retention".into()).spawn(reading)?;
        Ok((RetentionProbe { thread }, watchers))
    }
    /// Waits until all frames are read, and returns the findings. All watchers must be dropped before, as the emulator
    /// does when it finishes.
    ///
    /// # Errors
    ///
    /// The thread panicked.
    pub fn finish(self) -> io::Result<RetentionReport> {
        self.thread.join().map_err(|_| io::Error::other("the reader of watched links panicked"))
    }
}

/// Place where frames are seen: link, direction, point.
type FramePlace = (usize, bool, FramePoint);

/// State of the reading thread.
struct RetentionReading {
    accel: Accel,
    /// Ports watched on each link.
    ports: BTreeMap<usize, Vec<WatchedPort>>,
    /// Relay at the end of a link to which its forward direction leads, or at the other end.
    relay_at: BTreeMap<(usize, bool), usize>,
    places: BTreeMap<FramePlace, Conversations>,
    /// Findings by relay, in the order of the setup, and by subject.
    relays: Vec<[RelaySeen; 3]>,
}

impl RetentionReading {
    fn new(setup: &RetentionSetup) -> RetentionReading {
        let ends = |(index, relay): (usize, &WatchedRelay)| {
            relay.links.iter().map(move |end| (*end, index)).collect::<Vec<_>>()
        };
        let relay_at: BTreeMap<_, _> = setup.relays.iter().enumerate().flat_map(ends).collect();
        let seen = |relay: &WatchedRelay| [(); 3].map(|()| RelaySeen::new(relay.name.clone()));
        RetentionReading {
            accel: Accel::default(),
            ports: relay_at.keys().map(|(link, _)| (*link, setup.ports(*link))).collect(),
            relays: setup.relays.iter().map(seen).collect(),
            relay_at,
            places: BTreeMap::new(),
        }
    }
    fn read(mut self, queue: &WatchQueue) -> RetentionReport {
        loop {
            match queue.take() {
                Ok(frame) => self.frame(&frame),
                Err(TryRecvError::Empty) => std::thread::sleep(IDLE),
                Err(TryRecvError::Disconnected) => break,
            }
        }
        let (missed, missed_at_ns) = queue.missed();
        self.report(missed, missed_at_ns)
    }
    /// Relay to which frames are handed over at a place, or which they leave there.
    fn relay(&self, (link, forward, point): FramePlace) -> Option<usize> {
        // A frame in the forward direction is handed over to the relay at that end, and leaves the one at the other.
        self.relay_at.get(&(link, forward == (point == FramePoint::HandedOver))).copied()
    }
    fn frame(&mut self, frame: &WatchedFrame) {
        let place = (frame.link, frame.forward, frame.point);
        let Some(relay) = self.relay(place) else { return };
        let (Some(seen), Some(ports)) = (self.relays.get_mut(relay), self.ports.get(&frame.link)) else { return };
        let conversations = self.places.entry(place).or_insert_with(Conversations::new);
        conversations.frame(frame.at_ns, &frame.bytes, ports, &mut |subject, reading| {
            seen[subject as usize].reading((frame.point, frame.link), &reading, &self.accel);
        });
    }
    fn report(mut self, missed: u64, missed_at_ns: Vec<u64>) -> RetentionReport {
        let mut unread = 0;
        for (place, conversations) in std::mem::take(&mut self.places) {
            let (own, relay) = (conversations.unread(), self.relay(place));
            unread += own;
            if let Some(seen) = relay.and_then(|relay| self.relays.get_mut(relay)) {
                seen[RetentionSubject::Relay as usize].unread(own);
            }
        }
        let (mut relays, mut zero_work) = (Vec::new(), Vec::new());
        for [relay, streams, datagrams] in self.relays {
            relays.push(relay.finish());
            zero_work.push([streams.finish(), datagrams.finish()]);
        }
        RetentionReport { relays, zero_work, missed, missed_at_ns, unread }
    }
}

#[cfg(test)]
mod tests;
