//! Thread that runs directions of links: it sleeps until a frame arrives or is due.

use super::bottleneck::Bottleneck;
use super::direction::{Direction, DirectionSample};
use farlink_link::Transmitter;
use farlink_os::packet::FrameBatch;
use farlink_os::poll::Poller;
use farlink_os::{monotonic_ns, schedule};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

// Shorter waits are busy-waits, because sleeping would take longer.
const SPIN_NS: u64 = 3_000;
// Longest sleep, so that a stop is noticed in time.
const SLEEP_NS: u64 = 50_000_000;
/// Real-time priority: above ordinary programs, below the kernel's own threads.
pub const PRIORITY: i32 = 50;

/// Directions of one thread, and the times at which they must be called.
pub struct Worker {
    directions: Vec<Direction>,
    bottlenecks: Vec<Bottleneck>,
    /// Index of each direction's bottleneck in `bottlenecks`.
    bottleneck_of: Vec<Option<usize>>,
    poller: Poller,
    agenda: Agenda,
    /// Indexes of the directions at which frames wait.
    readable: VecDeque<usize>,
    is_readable: Vec<bool>,
}

impl Worker {
    /// Creates a worker for these directions; model time 0 is `start_ns` (monotonic).
    pub fn new(mut directions: Vec<Direction>, start_ns: u64, interval: Duration) -> io::Result<Worker> {
        let poller = Poller::new()?;
        let mut agenda = Agenda::of(directions.len());
        let count = directions.len().max(1) as u64;
        for (index, direction) in directions.iter_mut().enumerate() {
            // Spread over the interval, since taking all samples at once would make packets late.
            direction.begin(start_ns, start_ns + interval.as_nanos() as u64 * index as u64 / count);
            poller.add_reader(direction.from().fd(), index as u64)?;
            agenda.put(index, direction.wake_at());
        }
        let is_readable = vec![false; directions.len()];
        let (bottlenecks, bottleneck_of) = bottlenecks(&directions);
        Ok(Worker { directions, bottlenecks, bottleneck_of, poller, agenda, readable: VecDeque::new(), is_readable })
    }

    /// Runs until `stop`. Drops `starting` once it receives packets. Sends samples of each direction to `samples` every
    /// interval and at the end.
    pub fn run(
        mut self,
        starting: Sender<Infallible>,
        stop: &AtomicBool,
        samples: &Sender<DirectionSample>,
    ) -> io::Result<()> {
        let _ = schedule::set_timer_slack(1);
        let real_time = schedule::set_real_time(PRIORITY).is_ok();
        if !real_time {
            let _ = schedule::set_nice(-10);
        }
        let mut batch = FrameBatch::new();
        drop(starting);
        while !stop.load(Ordering::Relaxed) {
            self.wake_due(real_time, samples)?;
            self.receive(&mut batch)?;
            self.sleep()?;
        }
        let now = monotonic_ns();
        for (direction, place) in self.directions.iter_mut().zip(&self.bottleneck_of) {
            let shared = place.map(|place| self.bottlenecks[place].transmitter());
            let _ = samples.send(direction.sample(now, real_time, shared));
        }
        Ok(())
    }

    /// Calls the directions whose time has come, each at most once, so that frames are received between.
    fn wake_due(&mut self, real_time: bool, samples: &Sender<DirectionSample>) -> io::Result<()> {
        let now = monotonic_ns();
        for _ in 0..self.directions.len() {
            let Some(index) = self.agenda.take(now) else { return Ok(()) };
            let direction = &mut self.directions[index];
            let shared = self.bottleneck_of[index].map(|place| self.bottlenecks[place].transmitter());
            if let Some(sample) = direction.wake(now, real_time, shared)? {
                let _ = samples.send(sample);
            }
            self.agenda.put(index, direction.wake_at());
        }
        Ok(())
    }

    /// Receives some frames at each direction at which any wait.
    fn receive(&mut self, batch: &mut FrameBatch) -> io::Result<()> {
        for _ in 0..self.readable.len() {
            let Some(index) = self.readable.pop_front() else { break };
            let more = match self.bottleneck_of[index] {
                Some(place) => self.receive_shared(place, batch)?,
                None => {
                    let more = self.directions[index].receive(batch)?;
                    self.agenda.put(index, self.directions[index].wake_at());
                    more
                }
            };
            if more {
                self.readable.push_back(index);
            } else {
                self.is_readable[index] = false;
            }
        }
        Ok(())
    }

    /// Receives at all directions of a bottleneck; returns whether there may be more frames.
    fn receive_shared(&mut self, place: usize, batch: &mut FrameBatch) -> io::Result<bool> {
        let bottleneck = &mut self.bottlenecks[place];
        let more = bottleneck.receive(&mut self.directions, batch)?;
        for member in bottleneck.members() {
            self.agenda.put(*member, self.directions[*member].wake_at());
        }
        Ok(more)
    }

    /// Sleeps until a frame arrives or is due.
    fn sleep(&mut self) -> io::Result<()> {
        let now = monotonic_ns();
        let left = self.agenda.next().unwrap_or(u64::MAX).saturating_sub(now).min(SLEEP_NS);
        // Polls even without a wait, so that directions that always have frames do not starve the others.
        let left = if self.readable.is_empty() && left > SPIN_NS { left } else { 0 };
        let (readable, is_readable) = (&mut self.readable, &mut self.is_readable);
        self.poller.wait_precisely(Duration::from_nanos(left), |ready| {
            let index = ready.token as usize;
            if ready.readable && !std::mem::replace(&mut is_readable[index], true) {
                readable.push_back(index);
            }
        })
    }
}

/// Bottlenecks of these directions, and the index of each direction's bottleneck among them.
fn bottlenecks(directions: &[Direction]) -> (Vec<Bottleneck>, Vec<Option<usize>>) {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, direction) in directions.iter().enumerate() {
        if let Some(number) = direction.bottleneck() {
            members.entry(number).or_default().push(index);
        }
    }
    let (mut all, mut of) = (Vec::new(), vec![None; directions.len()]);
    for members in members.into_values() {
        let specs = members.iter().map(|member| directions[*member].spec());
        let Some(transmitter) = Transmitter::shared(specs) else { continue };
        members.iter().for_each(|member| of[*member] = Some(all.len()));
        all.push(Bottleneck::new(transmitter, members));
    }
    (all, of)
}

/// Queue of the times at which the directions are to be called.
#[derive(Debug)]
struct Agenda {
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// Time at which each direction is to be called, in monotonic ns; heap entries with another time are void.
    at: Vec<u64>,
}

impl Agenda {
    fn of(count: usize) -> Agenda {
        Agenda { heap: BinaryHeap::new(), at: vec![u64::MAX; count] }
    }

    /// Sets the time at which a direction is to be called.
    fn put(&mut self, index: usize, at: u64) {
        if self.at[index] != at {
            self.at[index] = at;
            self.heap.push(Reverse((at, index)));
        }
    }

    /// Time of the earliest entry that is not void.
    fn next(&mut self) -> Option<u64> {
        while let Some(Reverse((at, index))) = self.heap.peek() {
            if self.at[*index] == *at {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Removes and returns the direction with the earliest time, if that is not after `now`.
    fn take(&mut self, now: u64) -> Option<usize> {
        self.next().filter(|at| *at <= now)?;
        let Reverse((_, index)) = self.heap.pop()?;
        self.at[index] = u64::MAX;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agenda_follows_latest_times() {
        let mut agenda = Agenda::of(3);
        agenda.put(0, 30);
        agenda.put(1, 20);
        agenda.put(2, 40);
        agenda.put(2, 10);
        agenda.put(1, 50);
        assert_eq!((agenda.next(), agenda.take(9)), (Some(10), None));
        assert_eq!(agenda.take(30), Some(2));
        agenda.put(2, 10);
        assert_eq!((agenda.take(30), agenda.take(30), agenda.take(30)), (Some(2), Some(0), None));
        assert_eq!(agenda.take(60), Some(1));
        assert_eq!((agenda.next(), agenda.heap.len()), (None, 0));
    }
}
