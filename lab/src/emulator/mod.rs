//! The link emulator: real packets of real hosts pass through the link model that the simulator uses.
//!
//! It knows no bundles. A thread for each direction receives frames at one [`Port`] and hands them over at the other;
//! [`Emulator`] starts the threads, controls carriers and collects samples.

mod direction;
mod frame;
mod lateness;
mod pending;
mod port;

pub use direction::{DirectionSample, DirectionSetup};
pub use lateness::{Lateness, MachineWatch, Signs, Who};
pub use port::Port;

use direction::{Direction, DirectionState};
use farlink_link::{LinkSpec, direction_seed};
use farlink_os::monotonic_ns;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a frame in addition to the IP packet: virtio-net and Ethernet headers.
pub(crate) const FRAME_OVERHEAD: usize = farlink_os::tap::VNET_HEADER + 14;

/// The emulator of all links of a run.
pub struct Emulator {
    stop: Arc<AtomicBool>,
    interval: Duration,
    /// Directions that are not running yet, with their thread names.
    waiting: Vec<(String, Direction)>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    sender: Sender<DirectionSample>,
    samples: Receiver<DirectionSample>,
    cables: Vec<Cable>,
}

/// A link whose carrier is raised and lowered.
struct Cable {
    ports: [Arc<Port>; 2],
    directions: [Arc<DirectionState>; 2],
    carrier: bool,
}

impl Emulator {
    /// Creates an emulator without links, which yields a sample of each direction every `interval`.
    pub fn new(interval: Duration) -> Self {
        let (sender, samples) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        Emulator { stop, interval, waiting: Vec::new(), threads: Vec::new(), sender, samples, cables: Vec::new() }
    }

    /// Joins two ports by a link; `forward` leads from the first to the second. Equal seeds decide equally about equal
    /// packets. Nothing is carried before [`Emulator::begin`].
    pub fn add(&mut self, ports: [Port; 2], spec: &LinkSpec, seed: u64) -> io::Result<()> {
        let link = self.cables.len();
        let ports = ports.map(Arc::new);
        let directions = [(); 2].map(|()| Arc::new(DirectionState::new()));
        for (index, spec) in [&spec.forward, &spec.reverse].into_iter().enumerate() {
            let setup = DirectionSetup {
                link,
                forward: index == 0,
                spec: spec.clone(),
                seed: direction_seed(seed, link, index == 0),
                interval: self.interval,
            };
            let (from, to) = (Arc::clone(&ports[index]), Arc::clone(&ports[1 - index]));
            let direction = Direction::new(setup, from, to, Arc::clone(&directions[index]))?;
            self.waiting.push((format!("link{link}{}", if index == 0 { "f" } else { "r" }), direction));
        }
        self.cables.push(Cable { ports, directions, carrier: true });
        Ok(())
    }

    /// Starts all directions; returns the monotonic nanoseconds at which their time begins: `start_ns`, or now. All
    /// directions receive packets when this returns.
    pub fn begin(&mut self, start_ns: Option<u64>) -> io::Result<u64> {
        let (starting, all_run) = channel();
        let start_ns = start_ns.unwrap_or_else(monotonic_ns);
        for (name, direction) in self.waiting.drain(..) {
            let (stop, sender) = (Arc::clone(&self.stop), self.sender.clone());
            let starting = starting.clone();
            let run = move || direction.run(start_ns, starting, &stop, &sender);
            self.threads.push(std::thread::Builder::new().name(name).spawn(run)?);
        }
        drop(starting);
        // The polling thread raises the carriers, which must be up when a link opens.
        let _ = farlink_os::schedule::set_real_time(direction::PRIORITY);
        // The channel disconnects when the last direction has started.
        let _ = all_run.recv();
        Ok(start_ns)
    }

    /// Collects samples, waiting for the first at most this long, and updates the carriers. Fails if a direction has
    /// stopped.
    pub fn poll(&mut self, wait: Duration) -> io::Result<Vec<DirectionSample>> {
        let mut samples: Vec<DirectionSample> = self.samples.recv_timeout(wait).into_iter().collect();
        samples.extend(self.samples.try_iter());
        // Carriers follow the link at the pace of polling, which the notice time covers.
        self.cables.iter_mut().for_each(Cable::update_carrier);
        if self.threads.iter().any(JoinHandle::is_finished) {
            self.finish()?;
            return Err(io::Error::other("a direction of a link stopped by itself"));
        }
        Ok(samples)
    }

    /// Stops all links and returns the last samples.
    pub fn finish(&mut self) -> io::Result<Vec<DirectionSample>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a direction's thread panicked")));
            result = result.and(ended);
        }
        result?;
        Ok(self.samples.try_iter().collect())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Cable {
    /// Lowers the carrier when both directions are down and nothing is in flight, and raises it before either opens.
    fn update_carrier(&mut self) {
        let up = self.directions.iter().any(|d| d.up.load(Ordering::Acquire));
        let now = monotonic_ns();
        let drained = self.directions.iter().all(|d| d.drained_ns.load(Ordering::Relaxed) <= now);
        let carrier = up || !drained;
        if carrier != self.carrier {
            for port in &self.ports {
                let _ = port.set_carrier(carrier);
            }
            if carrier {
                let there = monotonic_ns();
                self.directions.iter().for_each(|direction| direction.carrier_up(there));
            }
            self.carrier = carrier;
        }
    }
}
