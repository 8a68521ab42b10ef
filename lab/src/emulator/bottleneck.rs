//! Directions that share one transmitter: one worker runs them, and takes their frames in the order in which the hosts
//! sent them.

use super::direction::Direction;
use farlink_link::Transmitter;
use farlink_os::packet::FrameBatch;
use std::io;
use std::ops::Range;

// Rounds of receiving before the frames are taken: a host that sends without end must not keep the others from it.
const ROUNDS: usize = 16;

/// A bottleneck of some directions of one worker.
#[derive(Debug)]
pub struct Bottleneck {
    transmitter: Transmitter,
    /// Places of its directions at the worker.
    members: Vec<usize>,
    /// Received frames: time of sending, direction, and place of the bytes.
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

    /// Its directions.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// Receives at all its directions, and takes what they got; returns whether there may be more.
    pub fn receive(&mut self, directions: &mut [Direction], batch: &mut FrameBatch) -> io::Result<bool> {
        self.frames.clear();
        self.bytes.clear();
        let (frames, bytes) = (&mut self.frames, &mut self.bytes);
        let mut more = true;
        for _ in 0..ROUNDS {
            more = false;
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
        // Frames of one host stay in order: the sort is stable.
        frames.sort_by_key(|frame| frame.0);
        for (sent_ns, member, range) in frames.drain(..) {
            directions[member].take(sent_ns, &bytes[range], Some(&mut self.transmitter));
        }
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use crate::cable::{CableEnd, make_host, plug};
    use crate::emulator::Emulator;
    use farlink_link::LinkSpec;
    use farlink_os::namespace::NetworkNamespace;
    use std::io;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    /// Two hosts with two links between them; `None` if the kernel refuses.
    fn bench(shared: bool) -> Option<([NetworkNamespace; 2], Emulator)> {
        let build = || -> io::Result<_> {
            let home = NetworkNamespace::current()?;
            NetworkNamespace::create()?.enter()?;
            let built = (|| {
                let hosts = [make_host()?, make_host()?];
                let mut emulator = Emulator::new(Duration::from_millis(50))?;
                let spec = LinkSpec::parse("delay=1 ms,rate=1 Mbit/s").map_err(|e| io::Error::other(e.to_string()))?;
                for link in 0..2 {
                    let end = |i: usize| CableEnd {
                        host: &hosts[i],
                        addresses: vec![(format!("10.0.{link}.{}", i + 1).parse().unwrap(), 24)],
                        congestion: None,
                    };
                    let ports = plug(&format!("link{link}"), [&end(0), &end(1)], 1500, [0; 2])?;
                    emulator.add(ports, &spec, 1, false)?;
                }
                if shared {
                    emulator.share(&[0, 1]);
                }
                emulator.begin(None)?;
                Ok((hosts, emulator))
            })();
            home.enter()?;
            built
        };
        build().inspect_err(|e| println!("skipped: the kernel refuses a host or an interface: {e}")).ok()
    }

    /// Sends ten datagrams of 10 ms, over both links in turns; returns their order of arrival, and the time they took.
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
        let Some((hosts, mut emulator)) = bench(true) else { return };
        let (order, took) = alternate(&hosts);
        assert_eq!(order, (0..10).collect::<Vec<u8>>());
        // Never faster than the rate; by how much slower depends on other load.
        assert!(took >= Duration::from_millis(100), "{took:?}");
        let samples = emulator.finish().unwrap();
        let delivered = |link| samples.iter().rev().find(|s| s.link == link && s.forward).unwrap().statistics.delivered;
        assert_eq!((delivered(0), delivered(1)), (5, 5));
    }
}
