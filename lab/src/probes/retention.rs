//! Bundle retention times, measured on the wire: for each bundle that a relay forwards, the time from the hand-over of
//! its last byte to the relay's host until its first and its last byte leave there.
//!
//! The relay is neither queried nor changed, so that all implementations are measured alike. A thread
//! ([`RetentionProbe`]) reads copies of the frames; the passive readers of the convergence layers find the bundles in
//! them. Missed frames are counted. Bundles in TLS sessions are not found.

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

/// Pause of the reader if no frame waits. Waking it would cost the emulator a system call per frame.
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
    /// Layer with this name in a scenario; `None` if the probe cannot read it.
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

/// Relay whose retention times are measured.
#[derive(Clone, Debug)]
pub struct WatchedRelay {
    /// Name of the relay in the report.
    pub name: String,
    /// Links of the relay: index, and whether the forward direction leads to the relay.
    pub links: Vec<(usize, bool)>,
}

/// Convergence layers and relays to watch.
#[derive(Clone, Debug, Default)]
pub struct RetentionSetup {
    /// Convergence layer of each link by index, and the port on which the link's ends listen for it.
    pub layers: BTreeMap<usize, (WatchedLayer, u16)>,
    /// Relays to measure, each with its links.
    pub relays: Vec<WatchedRelay>,
    /// Port of zero-work relays in the same hosts, which speak STCP over TCP and UDPCL over UDP; `None` without them.
    pub zero_work: Option<u16>,
}
impl RetentionSetup {
    /// Setup for a scenario: every node with several links is a relay, and has zero-work relays on its host.
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

    /// Ports watched on a link. The first match counts, so the port of the link's layer comes first.
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

/// Port of a layer, and the kind of relay that uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WatchedPort {
    layer: WatchedLayer,
    port: u16,
    subject: RetentionSubject,
}

/// Watcher of each direction, by the link's index and whether the direction is forward.
pub type DirectionWatchers = BTreeMap<(usize, bool), Watcher>;

/// Reader of watched links, which runs in a thread of its own.
#[derive(Debug)]
pub struct RetentionProbe {
    thread: JoinHandle<RetentionReport>,
}

impl RetentionProbe {
    /// Starts the thread. Returns a watcher for each direction, which the caller must add to the emulator. Connections
    /// that began before they were watched stay unread.
    pub fn start(setup: RetentionSetup) -> io::Result<(RetentionProbe, DirectionWatchers)> {
        let mut queue = watch_queue();
        let links = setup.relays.iter().flat_map(|relay| relay.links.iter().map(|(link, _)| *link));
        let directions = links.flat_map(|link| [(link, true), (link, false)]);
        let watchers = directions.filter_map(|(link, forward)| {
            let watcher = queue.watcher(link, forward)?;
            Some(((link, forward), watcher))
        });
        let watchers = watchers.collect();
        // Only the watchers keep the queue open now, so that the thread ends once they are dropped.
        queue.close();
        let reading = RetentionReading::new(&setup);
        let reading = move || reading.read(&queue);
        let thread = std::thread::Builder::new().name("retention".into()).spawn(reading)?;
        Ok((RetentionProbe { thread }, watchers))
    }
    /// Waits until all frames are read, and returns the findings. All watchers must be dropped before, which happens
    /// when the emulator is dropped.
    ///
    /// # Errors
    ///
    /// If the thread panicked.
    pub fn finish(self) -> io::Result<RetentionReport> {
        self.thread.join().map_err(|_| io::Error::other("the reader of watched links panicked"))
    }
}

/// Place where frames are seen: link, whether its direction is forward, and point.
type FramePlace = (usize, bool, FramePoint);

/// State of the reading thread.
struct RetentionReading {
    accel: Accel,
    /// Ports watched on each link.
    ports: BTreeMap<usize, Vec<WatchedPort>>,
    /// Relay by link and end: true for the end to which the forward direction leads.
    relay_at: BTreeMap<(usize, bool), usize>,
    places: BTreeMap<FramePlace, Conversations>,
    /// Findings by relay, in the order of the setup, and by [`RetentionSubject`].
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
    /// Relay whose host the frames seen at a place enter or leave, if any.
    fn relay(&self, (link, forward, point): FramePlace) -> Option<usize> {
        // Frames of the forward direction leave the host at the near end, and are handed over at the far one (true).
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
