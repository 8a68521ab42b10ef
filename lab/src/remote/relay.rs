//! Relay on a machine reached by SSH: passes frames between the interfaces of the hosts there and the emulator of the
//! machine that runs the testbed, and answers questions for the clocks.

use crate::emulator::Port;
use crate::emulator::tunnel::{self, LossCounter, TunnelHead, TunnelKind};
use farlink_os::packet::FrameBatch;
use farlink_os::poll::Poller;
use farlink_os::{monotonic_ns, realtime_ns, schedule};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Real-time priority, that of the emulator.
const PRIORITY: i32 = 50;
/// Longest sleep, so that the request to end is noticed in time.
const SLEEP: Duration = Duration::from_millis(20);
/// Token of the poller for the socket; lower ones are of ports.
const SOCKET: u64 = u64::MAX >> 1;
const DATAGRAM_MAX: usize = 65_536;
/// Most datagrams between two looks at the ports.
const BATCH: usize = 64;

/// End of a link at a host of this machine.
struct RelayEnd {
    port: Port,
    /// Address of the emulator's socket, known from its first probe.
    peer: Option<SocketAddr>,
    sent: u32,
    losses: LossCounter,
    /// Frames that the host had no room for.
    refused: u64,
}

/// Passes frames until `ended`; returns how many frames to each tunnel's host were lost, by number of the tunnel.
pub fn run(
    ports: Vec<(u16, Port)>,
    socket: UdpSocket,
    token: u64,
    ended: &AtomicBool,
    ready: impl FnOnce(),
) -> io::Result<Vec<(u16, u64)>> {
    let socket = tunnel::prepared(socket)?;
    let _ = schedule::set_timer_slack(1);
    let _ = schedule::set_real_time(PRIORITY);
    let mut poller = Poller::new()?;
    poller.add_reader(&socket, SOCKET)?;
    for (number, port) in &ports {
        poller.add_reader(port.fd(), u64::from(*number))?;
    }
    let end = |port: Port| RelayEnd { port, peer: None, sent: 0, losses: LossCounter::default(), refused: 0 };
    let ends = ports.into_iter().map(|(number, port)| (number, end(port))).collect();
    let mut relay = Relay { socket, token, ends, out: Vec::new(), datagram: vec![0; DATAGRAM_MAX] };
    let mut batch = FrameBatch::new();
    ready();
    // Tokens at which more may wait: the poller reports only changes.
    let mut readable = BTreeSet::new();
    while !ended.load(Ordering::Relaxed) {
        let sleep = if readable.is_empty() { SLEEP } else { Duration::ZERO };
        poller.wait(Some(sleep), |ready| {
            readable.insert(ready.token);
        })?;
        for token in std::mem::take(&mut readable) {
            let more = match u16::try_from(token) {
                Ok(number) => relay.outward(number, &mut batch)?,
                Err(_) => relay.inward()?,
            };
            if more {
                readable.insert(token);
            }
        }
    }
    Ok(relay.ends.into_iter().map(|(number, end)| (number, end.losses.lost() + end.refused)).collect())
}

struct Relay {
    socket: UdpSocket,
    token: u64,
    ends: BTreeMap<u16, RelayEnd>,
    out: Vec<u8>,
    datagram: Vec<u8>,
}

impl Relay {
    /// Passes some waiting frames of a host on; returns whether more may wait.
    fn outward(&mut self, number: u16, batch: &mut FrameBatch) -> io::Result<bool> {
        let Some(end) = self.ends.get_mut(&number) else { return Ok(false) };
        let (socket, out, token) = (&self.socket, &mut self.out, self.token);
        let (sent, peer) = (&mut end.sent, end.peer);
        let received = end.port.intake().receive(&end.port, batch, |frame, _| {
            let Some(peer) = peer else { return };
            let head = TunnelHead { token, tunnel: number, kind: TunnelKind::Frame, number: *sent };
            out.clear();
            out.extend_from_slice(&head.bytes());
            out.extend_from_slice(frame);
            // A frame that the network refuses is a loss, which the emulator counts by the numbers.
            let _ = socket.send_to(out, peer);
            *sent = sent.wrapping_add(1);
        })?;
        Ok(received.more)
    }

    /// Hands some arrived frames to their hosts, and answers probes; returns whether more may wait.
    fn inward(&mut self) -> io::Result<bool> {
        for _ in 0..BATCH {
            let (length, from) = match self.socket.recv_from(&mut self.datagram) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // The emulator's socket is closed, a message of a router, or a signal.
                Err(_) => continue,
            };
            let datagram = &self.datagram[..length];
            let Some((head, content)) = TunnelHead::read(datagram, self.token) else { continue };
            let end = self.ends.get_mut(&head.tunnel);
            match (head.kind, end) {
                (TunnelKind::Frame, Some(end)) => {
                    if end.losses.note(head.number) && !matches!(end.port.send(&[&[IoSlice::new(content)]]), Ok(1)) {
                        end.refused += 1;
                    }
                }
                (TunnelKind::Probe, end) => {
                    let head = TunnelHead { kind: TunnelKind::Answer, ..head };
                    self.out.clear();
                    self.out.extend_from_slice(&head.bytes());
                    self.out.extend_from_slice(content);
                    self.out.extend_from_slice(&monotonic_ns().to_be_bytes());
                    self.out.extend_from_slice(&realtime_ns().to_be_bytes());
                    let _ = self.socket.send_to(&self.out, from);
                    if let Some(end) = end {
                        end.peer = Some(from);
                    }
                }
                _ => {}
            }
        }
        Ok(true)
    }
}
