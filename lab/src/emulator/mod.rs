//! Link emulator: real packets of real hosts pass through the link model that the simulator uses.
//!
//! The emulator knows no bundles. Each direction of a link receives frames at one [`Port`] and hands them over at the
//! other; a few threads run all directions. [`Emulator`] starts the threads, controls carriers and collects samples.

mod bottleneck;
pub mod capture;
mod carrier;
mod direction;
mod frame;
pub mod frame_queue;
mod lateness;
mod observer;
mod outside;
mod pending;
mod port;
mod train;
pub mod tunnel;
mod worker;

pub use direction::{DirectionSample, DirectionSetup};
pub use lateness::{Lateness, MachineWatch};
pub use observer::FrameObserver;
pub use outside::{OutsideMachine, OutsidePort, hardware_address};
pub use port::Port;

use carrier::DirectionState;
use direction::Direction;
pub(crate) use direction::{highest_rate, shortest_delay};
use farlink_base::DataVolume;
use farlink_link::{LinkSpec, direction_seed};
use farlink_os::monotonic_ns;
use farlink_os::netlink::Netlink;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use worker::Worker;

/// Bytes of a frame in addition to the IP packet: virtio-net and Ethernet headers.
pub(crate) const FRAME_OVERHEAD: usize = farlink_os::packet::VNET_HEADER + 14;

// Maximum number of threads: the hosts need processors, too.
const WORKERS: usize = 4;

/// Emulator of all links of a run.
pub struct Emulator {
    stop: Arc<AtomicBool>,
    interval: Duration,
    netlink: Netlink,
    /// Directions that are not running yet.
    waiting: Vec<Direction>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    sender: Sender<DirectionSample>,
    samples: Receiver<DirectionSample>,
    cables: Vec<Cable>,
    bottlenecks: usize,
}

// Maximum size of a receive ring, in bytes. Hosts that fill all processors stop the emulator for up to 70 ms; at 15
// Gbit/s rings of 32 MiB lost frames then, rings of 64 MiB did not.
const RING: usize = 64 << 20;
// Smallest ring worth having: 4 ms at 15 Gbit/s.
const RING_LEAST: usize = 8 << 20;
// All rings together take at most this fraction of the available memory: an eighth.
const RING_PART: u64 = 8;
// Minimum rate (bit/s) and delay of a direction with a ring: a slower one has few frames, and with a shorter delay
// frames would wait too long in the block that the kernel is still filling.
const RING_RATE: u64 = 100_000_000;
const RING_DELAY: Duration = Duration::from_millis(1);

/// Sizes of the receive rings at both ports of each link, in bytes; 0 for no ring, as for slow links and short delays.
/// The kernel allocates rings at once, so many links get smaller rings, and very many links get none.
pub fn rings(links: &[LinkSpec]) -> Vec<[usize; 2]> {
    let fast = |spec: &farlink_link::DirectionSpec| {
        highest_rate(spec).is_none_or(|rate| rate >= RING_RATE) && shortest_delay(spec) >= RING_DELAY
    };
    let fast: Vec<[bool; 2]> = links.iter().map(|link| [fast(&link.forward), fast(&link.reverse)]).collect();
    let count = fast.iter().flatten().filter(|fast| **fast).count().max(1);
    let share = usize::try_from(farlink_os::memory::available() / RING_PART).unwrap_or(usize::MAX) / count;
    let bytes = if share < RING_LEAST { 0 } else { share.min(RING) };
    fast.into_iter().map(|ends| ends.map(|fast| if fast { bytes } else { 0 })).collect()
}

/// Both ends of a link, and the state of its carrier.
struct Cable {
    ports: [Arc<Port>; 2],
    directions: [Arc<DirectionState>; 2],
    carrier: bool,
}

impl Emulator {
    /// Creates an emulator without links; it samples each direction every `interval`. Call it in the network namespace
    /// of the ports.
    pub fn new(interval: Duration) -> io::Result<Self> {
        let (sender, samples) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (waiting, threads, cables, netlink) = (Vec::new(), Vec::new(), Vec::new(), Netlink::open()?);
        Ok(Emulator { stop, interval, netlink, waiting, threads, sender, samples, cables, bottlenecks: 0 })
    }

    /// Joins two ports by a link; `forward` leads from the first to the second. With equal seeds, equal packets meet
    /// equal fates. With `exact`, each wire packet is handed over alone at its exact due time. The link carries nothing
    /// before [`Emulator::begin`].
    pub fn add(&mut self, ports: [Port; 2], spec: &LinkSpec, seed: u64, exact: bool) -> io::Result<()> {
        let link = self.cables.len();
        let ports = ports.map(Arc::new);
        let directions = [(); 2].map(|()| Arc::new(DirectionState::new()));
        let exact = exact || ports.iter().any(|port| port.takes_single_packets());
        for (index, spec) in [&spec.forward, &spec.reverse].into_iter().enumerate() {
            let setup = DirectionSetup {
                link,
                forward: index == 0,
                spec: spec.clone(),
                seed: direction_seed(seed, link, index == 0),
                interval: self.interval,
                exact,
                bottleneck: None,
            };
            let (from, to) = (Arc::clone(&ports[index]), Arc::clone(&ports[1 - index]));
            self.waiting.push(Direction::new(setup, from, to, Arc::clone(&directions[index]))?);
        }
        self.cables.push(Cable { ports, directions, carrier: true });
        Ok(())
    }

    /// Makes these links share one transmitter in each direction. Their ports must have no receive rings, whose frames
    /// would arrive too late to be sorted by time of sending. Call it before [`Emulator::begin`].
    pub fn share(&mut self, links: &[usize]) -> io::Result<()> {
        for (forward, number) in [(true, self.bottlenecks), (false, self.bottlenecks + 1)] {
            let places = links.iter().map(|link| link * 2 + usize::from(!forward));
            let queue = places.clone().map(|place| self.waiting[place].spec().queue_bytes()).max().unwrap_or(0);
            for place in places {
                self.waiting[place].share(number, DataVolume(queue))?;
            }
        }
        self.bottlenecks += 2;
        Ok(())
    }

    /// Adds an observer of the frames of one direction. Call it before [`Emulator::begin`].
    pub fn observe(&mut self, link: usize, forward: bool, observer: Box<dyn FrameObserver>) {
        // `add` pushes the forward direction of each link first, then the reverse one.
        if let Some(direction) = self.waiting.get_mut(link * 2 + usize::from(!forward)) {
            direction.observe(observer);
        }
    }

    /// Starts all directions; returns model time 0 in monotonic nanoseconds: `start_ns`, or now if `None`. All
    /// directions receive packets when this returns.
    pub fn begin(&mut self, start_ns: Option<u64>) -> io::Result<u64> {
        let (starting, all_run) = channel();
        let start_ns = start_ns.unwrap_or_else(monotonic_ns);
        let workers = farlink_os::schedule::processors().clamp(1, WORKERS);
        // Directions with consecutive indexes belong to one link; the remainder gives them to different workers.
        let mut shares: Vec<Vec<Direction>> = (0..workers).map(|_| Vec::new()).collect();
        for (index, direction) in self.waiting.drain(..).enumerate() {
            // Directions that share a bottleneck need the same worker, which sorts their frames by time of sending.
            shares[direction.bottleneck().unwrap_or(index) % workers].push(direction);
        }
        for (index, share) in shares.into_iter().filter(|share| !share.is_empty()).enumerate() {
            let worker = Worker::new(share, start_ns, self.interval)?;
            let (stop, sender) = (Arc::clone(&self.stop), self.sender.clone());
            let starting = starting.clone();
            let run = move || worker.run(starting, &stop, &sender);
            self.threads.push(std::thread::Builder::new().name(format!("links{index}")).spawn(run)?);
        }
        drop(starting);
        // This thread, which calls `poll`, raises the carriers; they must be up when a link opens.
        let _ = farlink_os::schedule::set_real_time(worker::PRIORITY);
        // The channel disconnects when the last worker has started.
        let _ = all_run.recv();
        Ok(start_ns)
    }

    /// Collects samples, waiting at most `wait` for the first, and updates the carriers. Fails if the thread of a
    /// direction has stopped.
    pub fn poll(&mut self, wait: Duration) -> io::Result<Vec<DirectionSample>> {
        let mut samples: Vec<DirectionSample> = self.samples.recv_timeout(wait).into_iter().collect();
        samples.extend(self.samples.try_iter());
        // A carrier changes at the next call only; the notice before a link opens covers that delay.
        self.cables.iter_mut().for_each(|cable| cable.update_carrier(&mut self.netlink));
        if self.threads.iter().any(JoinHandle::is_finished) {
            self.finish()?;
            return Err(io::Error::other("a thread of the links stopped by itself"));
        }
        Ok(samples)
    }

    /// Stops all links and returns the last samples.
    pub fn finish(&mut self) -> io::Result<Vec<DirectionSample>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the links panicked")));
            result = result.and(ended);
        }
        result?;
        let mut samples: Vec<DirectionSample> = self.samples.try_iter().collect();
        // Frames that the kernel dropped after a hand-over are counted at the end only: each query takes a system call.
        for (link, cable) in self.cables.iter().enumerate() {
            for (port, forward) in cable.ports.iter().zip([false, true]) {
                let refused = port.refused(&mut self.netlink);
                let mut last = samples.iter_mut().rev();
                if let Some(sample) = last.find(|sample| sample.link == link && sample.forward == forward) {
                    sample.own_losses += refused;
                }
            }
        }
        Ok(samples)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Cable {
    /// Lowers the carrier when both directions are down and nothing is in flight, and raises it shortly before either
    /// opens.
    fn update_carrier(&mut self, netlink: &mut Netlink) {
        let up = self.directions.iter().any(|d| d.up.load(Ordering::Acquire));
        let idle_ns = self.directions.iter().map(|d| d.idle_ns()).max().unwrap_or(0);
        let carrier = up || idle_ns > monotonic_ns();
        if carrier != self.carrier {
            for port in &self.ports {
                let _ = port.set_carrier(carrier, netlink);
            }
            let there = monotonic_ns();
            if carrier {
                self.directions.iter().for_each(|direction| direction.carrier_up(there));
            } else {
                self.directions.iter().for_each(|direction| direction.carrier_down(there, idle_ns));
            }
            self.carrier = carrier;
        }
    }
}
