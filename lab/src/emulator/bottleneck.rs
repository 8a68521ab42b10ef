//! Bottlenecks: directions that share one transmitter. One worker runs all directions of a bottleneck, and passes their
//! frames to the model in the order in which the hosts sent them.

use super::direction::Direction;
use farlink_link::Transmitter;
use farlink_os::monotonic_ns;
use farlink_os::packet::FrameBatch;
use std::io;
use std::ops::Range;

// Rounds of receiving before the frames are passed to the model, so that a host that sends without end cannot delay the
// others.
const ROUNDS: usize = 16;

/// Transmitter that several directions of one worker share.
#[derive(Debug)]
pub struct Bottleneck {
    transmitter: Transmitter,
    /// Indexes of the sharing directions among the worker's.
    members: Vec<usize>,
    /// Received frames: time of sending, index of the direction, and range in `bytes`.
    frames: Vec<(u64, usize, Range<usize>)>,
    bytes: Vec<u8>,
}

impl Bottleneck {
    pub fn new(transmitter: Transmitter, members: Vec<usize>) -> Bottleneck {
        Bottleneck { transmitter, members, frames: Vec::new(), bytes: Vec::new() }
    }

    pub fn transmitter(&mut self) -> &mut Transmitter {
        &mut self.transmitter
    }

    /// Indexes of the directions that share the transmitter.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// Receives frames at all members and passes them to the model; returns whether there may be more.
    pub fn receive(&mut self, directions: &mut [Direction], batch: &mut FrameBatch) -> io::Result<bool> {
        self.frames.clear();
        self.bytes.clear();
        let (frames, bytes) = (&mut self.frames, &mut self.bytes);
        let (mut more, mut before) = (true, 0);
        for _ in 0..ROUNDS {
            more = false;
            before = monotonic_ns();
            for member in &self.members {
                more |= directions[*member].collect(batch, |frame, sent_ns| {
                    let start = bytes.len();
                    bytes.extend_from_slice(frame);
                    frames.push((sent_ns, *member, start..bytes.len()));
                })?;
            }
            if !more {
                break;
            }
        }
        // The sort is stable, which keeps frames of one host in order.
        frames.sort_by_key(|frame| frame.0);
        for (sent_ns, member, range) in frames.drain(..) {
            directions[member].take(sent_ns, &bytes[range], Some(&mut self.transmitter));
        }
        // Model time advances only after the frames were passed to the model: it cannot go back to the time at which a
        // frame was sent.
        if !more {
            self.members.iter().for_each(|member| directions[*member].all_taken(before));
        }
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cable::{CableEnd, CablePlace, make_host, plug};
    use crate::emulator::Emulator;
    use crate::emulator::carrier::DirectionState;
    use crate::emulator::direction::DirectionSetup;
    use crate::emulator::port::Port;
    use farlink_link::LinkSpec;
    use farlink_os::namespace::NetworkNamespace;
    use std::net::UdpSocket;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn spec() -> LinkSpec {
        LinkSpec::parse("delay=1 ms,rate=1 Mbit/s").unwrap()
    }

    /// Two hosts with two links between them, and the result of `with` for the links' ports; `None` if the kernel
    /// refuses.
    fn bench<T>(with: impl FnOnce(Vec<[Port; 2]>) -> io::Result<T>) -> Option<([NetworkNamespace; 2], T)> {
        let build = || -> io::Result<_> {
            let home = NetworkNamespace::current()?;
            NetworkNamespace::create()?.enter()?;
            let built = (|| {
                let hosts = [make_host()?, make_host()?];
                let plug_in = |link: usize| {
                    let end = |i: usize| CableEnd {
                        place: CablePlace::Host(&hosts[i]),
                        addresses: vec![(format!("10.0.{link}.{}", i + 1).parse().unwrap(), 24)],
                        congestion: None,
                    };
                    plug(&format!("link{link}"), [&end(0), &end(1)], 1500, [0; 2])
                };
                let ports = (0..2).map(plug_in).collect::<io::Result<Vec<_>>>()?;
                let made = with(ports)?;
                Ok((hosts, made))
            })();
            home.enter()?;
            built
        };
        build().inspect_err(|e| println!("skipped: the kernel refuses a host or an interface: {e}")).ok()
    }

    /// Emulator of two links that share a bottleneck.
    fn emulator(ports: Vec<[Port; 2]>) -> io::Result<Emulator> {
        let mut emulator = Emulator::new(Duration::from_millis(50))?;
        ports.into_iter().try_for_each(|ports| emulator.add(ports, &spec(), 1, false))?;
        emulator.share(&[0, 1])?;
        emulator.begin(None)?;
        Ok(emulator)
    }

    /// Forward directions of the links, which no worker runs.
    fn directions(ports: Vec<[Port; 2]>) -> io::Result<Vec<Direction>> {
        let direction = |(link, [from, to]): (usize, [Port; 2])| {
            let interval = Duration::from_secs(1);
            let spec = spec().forward;
            let setup = DirectionSetup { link, forward: true, spec, seed: 1, interval, exact: false, bottleneck: None };
            Direction::new(setup, Arc::new(from), Arc::new(to), Arc::new(DirectionState::new()))
        };
        ports.into_iter().enumerate().map(direction).collect()
    }

    /// Sends ten datagrams, each of which takes 10 ms to transmit, over the two links in turns. Returns the order in
    /// which they arrived, and the time until the last.
    fn alternate(hosts: &[NetworkNamespace; 2]) -> (Vec<u8>, Duration) {
        let receiver = hosts[1].within(|| UdpSocket::bind("0.0.0.0:4000")).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let sender = hosts[0].within(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        let begun = Instant::now();
        for number in 0..10u8 {
            // 1222 B of payload make 1250 B of IP.
            sender.send_to(&[number; 1222], format!("10.0.{}.2:4000", number % 2)).unwrap();
        }
        let mut order = Vec::new();
        let mut buffer = [0; 2000];
        while order.len() < 10 {
            match receiver.recv(&mut buffer) {
                Ok(_) => order.push(buffer[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => panic!("{order:?}: {error}"),
            }
        }
        (order, begun.elapsed())
    }

    #[test]
    fn shared_links_transmit_in_order_of_sending() {
        let Some((hosts, mut emulator)) = bench(emulator) else { return };
        let (order, took) = alternate(&hosts);
        assert_eq!(order, (0..10).collect::<Vec<u8>>());
        // Never faster than the rate; by how much slower depends on other load.
        assert!(took >= Duration::from_millis(100), "{took:?}");
        let samples = emulator.finish().unwrap();
        let delivered = |link| samples.iter().rev().find(|s| s.link == link && s.forward).unwrap().statistics.delivered;
        assert_eq!((delivered(0), delivered(1)), (5, 5));
    }

    #[test]
    fn members_have_memory_for_the_longest_queue() {
        let Some((hosts, mut directions)) = bench(directions) else { return };
        let queue = farlink_base::DataVolume(40 << 20);
        directions[0].share(0, queue).unwrap();
        directions[0].begin(0, u64::MAX);
        let mut transmitter = Transmitter::shared([directions[0].spec()]).unwrap();
        let sender = hosts[0].within(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        assert!(sender.send_to(&[1; 1222], "10.0.0.2:4000").is_ok());
        let mut sample = None;
        directions[0].collect(&mut FrameBatch::new(), |frame, at| sample = Some((frame.to_vec(), at))).unwrap();
        let (frame, at) = sample.unwrap();
        // 31 MB of frames: more than the 16 MiB of memory that a slow link has, less than the shared queue of 40 MiB.
        (0..25_000).for_each(|_| directions[0].take(at, &frame, Some(&mut transmitter)));
        let sample = directions[0].sample(at, false, Some(&mut transmitter));
        assert_eq!((sample.statistics.dropped_total(), sample.own_losses), (0, 0));
        assert!(sample.queued_bytes > 30_000_000);
    }

    #[test]
    fn late_reading_leaves_times_of_sending() {
        let Some((hosts, mut directions)) = bench(directions) else { return };
        let start = monotonic_ns();
        directions.iter_mut().for_each(|direction| direction.begin(start, u64::MAX));
        let specs: Vec<_> = directions.iter().map(|direction| direction.spec().clone()).collect();
        let mut bottleneck = Bottleneck::new(Transmitter::shared(&specs).unwrap(), vec![0, 1]);
        let sender = hosts[0].within(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        (0..2).for_each(|link| assert!(sender.send_to(&[1; 1222], format!("10.0.{link}.2:4000")).is_ok()));
        // The worker reads as late as if it had got no processor. By then both packets are due: 11 ms and 21 ms after
        // they were sent.
        std::thread::sleep(Duration::from_millis(50));
        bottleneck.receive(&mut directions, &mut FrameBatch::new()).unwrap();
        let due: Vec<u64> = directions.iter_mut().map(|direction| direction.next_due().unwrap() - start).collect();
        assert!(due[0] < 45_000_000 && due[1] < 45_000_000, "{due:?}");
    }
}
