//! Bundle retention time measured on the wire: for each bundle that a relay forwards, the time from its last byte
//! handed over to the relay's host until its first and its last byte leave there.
//!
//! The relay is neither asked nor changed, so that any implementation is measured alike. A thread reads copies of the
//! frames ([`RetentionProbe`]); the layers' passive readers find the bundles in them. Missed frames are counted. TLS
//! hides bundles.

mod conversations;
mod report;

pub use report::{BundleRetention, RelayRetention, RetentionReport};

use super::watcher::{FramePoint, WatchQueue, WatchedFrame, Watcher, watch_queue};
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
}
impl RetentionSetup {
    /// Setup for a scenario: every node with several links is a relay.
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
        RetentionSetup { layers: links().filter_map(layer).collect(), relays }
    }
}

/// Reader of watched links, in a thread of its own.
#[derive(Debug)]
pub struct RetentionProbe {
    thread: JoinHandle<RetentionReport>,
}

impl RetentionProbe {
    /// Starts the thread. Returns a watcher for each direction to be observed, by link and whether it is the forward
    /// one. Connections that began before they were watched stay unread.
    pub fn start(setup: RetentionSetup) -> io::Result<(RetentionProbe, BTreeMap<(usize, bool), Watcher>)> {
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
        let reading = move || RetentionReading::new(setup).read(&queue);
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

/// State of the reading thread.
struct RetentionReading {
    setup: RetentionSetup,
    accel: Accel,
    /// Conversations by the place where they are seen: link, direction, point.
    places: BTreeMap<(usize, bool, FramePoint), Conversations>,
    /// Findings by relay, in the order of the setup.
    relays: Vec<RelaySeen>,
}

impl RetentionReading {
    fn new(setup: RetentionSetup) -> RetentionReading {
        let relays = setup.relays.iter().map(|relay| RelaySeen::new(relay.name.clone())).collect();
        RetentionReading { setup, accel: Accel::default(), places: BTreeMap::new(), relays }
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
    fn frame(&mut self, frame: &WatchedFrame) {
        // A frame in the forward direction is handed over to the relay at that end, and leaves the one at the other.
        let to_relay =
            |forward_leads: bool| forward_leads == (frame.forward == (frame.point == FramePoint::HandedOver));
        let relay = self.setup.relays.iter().position(|relay| {
            relay.links.iter().any(|(link, forward_leads)| *link == frame.link && to_relay(*forward_leads))
        });
        let Some(seen) = relay.and_then(|index| self.relays.get_mut(index)) else { return };
        let Some(layer) = self.setup.layers.get(&frame.link) else { return };
        let place = (frame.link, frame.forward, frame.point);
        let conversations = self.places.entry(place).or_insert_with(Conversations::new);
        conversations.frame(frame.at_ns, &frame.bytes, *layer, &mut |reading| {
            seen.reading(frame.point, &reading, &self.accel);
        });
    }
    fn report(self, missed: u64, missed_at_ns: Vec<u64>) -> RetentionReport {
        let unread = self.places.values().map(Conversations::unread).sum();
        let relays = self.relays.into_iter().map(RelaySeen::finish).collect();
        RetentionReport { relays, missed, missed_at_ns, unread }
    }
}

#[cfg(test)]
mod tests;
