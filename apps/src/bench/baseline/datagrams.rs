//! Baseline of copies over UDP, with segmentation and receive offload as in a node.

use super::{Copied, joined};
use anyhow::Context;
use bytes::BytesMut;
use farlink_os::process::thread_cpu;
use farlink_os::udp::{DatagramSocket, MESSAGE_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time after which unconfirmed datagrams count as lost.
const LOST: Duration = Duration::from_millis(5);

/// Copies datagrams of this length for `time`, with at most `window` bytes in flight. With `relay`, a thread forwards
/// them, and only its processor time counts.
pub(super) fn copy(length: usize, window: u64, relay: bool, time: Duration) -> anyhow::Result<Copied> {
    let any: SocketAddr = "127.0.0.1:0".parse().context("loopback")?;
    let bind = || DatagramSocket::bind(&any, true, 64 << 20);
    let (out, between, input) = (bind()?, bind()?, bind()?);
    let (back, end) = (out.local_addr()?, input.local_addr()?);
    let to = if relay { between.local_addr()? } else { end };
    let (stop, total) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let relaying = std::thread::spawn({
        let stop = stop.clone();
        move || {
            each(&between, &stop, |stride, bytes| {
                let _ = between.send_batch(&end, stride, &[IoSlice::new(bytes)]);
            })
        }
    });
    let reader = std::thread::spawn({
        let (stop, total) = (stop.clone(), total.clone());
        move || {
            let mut told = 0;
            each(&input, &stop, |_, bytes| {
                let all = total.fetch_add(bytes.len() as u64, Relaxed) + bytes.len() as u64;
                // Opens the sender's window, as LTP's reports do.
                if all - told >= window / 4 {
                    told = all;
                    // One byte suffices: the sender reads the total from shared memory.
                    let _ = input.send_batch(&back, 1, &[IoSlice::new(&[1])]);
                }
            })
        }
    });
    // As many datagrams as one system call sends with segmentation offload: 64 at most.
    let data = vec![7; (MESSAGE_MAX / length).clamp(1, 64) * length];
    let (began, before) = (Instant::now(), thread_cpu());
    let (mut sent, mut lost, mut buffer) = (0_u64, 0_u64, BytesMut::new());
    while began.elapsed() < time {
        let under_way = sent.saturating_sub(total.load(Relaxed) + lost);
        if under_way >= window {
            match wait(&out, LOST)? {
                true => {
                    buffer.clear();
                    buffer.reserve(65_536);
                    let _ = out.receive(&mut buffer);
                }
                // Nothing was confirmed for a while, so the missing bytes were dropped.
                false => lost = sent - total.load(Relaxed).min(sent),
            }
            continue;
        }
        sent += out.send_batch(&to, length, &[IoSlice::new(&data)]).0 as u64;
    }
    let (bytes, seconds) = (total.load(Relaxed), began.elapsed().as_secs_f64());
    let sending = thread_cpu() - before;
    stop.store(true, Relaxed);
    let (relaying, reading) = (joined(relaying)?, joined(reader)?);
    let (who, cpu) = if relay { (" by a thread between two", relaying) } else { ("", sending + reading) };
    Ok(Copied::new(format!("copy of {length} B datagrams{who}, with offload"), bytes, seconds, cpu))
}

/// Handles each message until `stop` is set; returns the processor time of this thread.
fn each(socket: &DatagramSocket, stop: &AtomicBool, mut handle: impl FnMut(usize, &[u8])) -> std::io::Result<Duration> {
    let mut buffer = BytesMut::with_capacity(2 * 65_536);
    while !stop.load(Relaxed) {
        buffer.clear();
        buffer.reserve(65_536);
        match socket.receive(&mut buffer) {
            Ok(got) => handle(got.stride, &buffer),
            Err(why) if why.kind() == ErrorKind::WouldBlock => {
                wait(socket, Duration::from_millis(20))?;
            }
            Err(why) => return Err(why),
        }
    }
    Ok(thread_cpu())
}

/// Whether the socket becomes readable within this time.
fn wait(socket: &DatagramSocket, time: Duration) -> std::io::Result<bool> {
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    Ok(poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&time))? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_arrive_directly_and_relayed() {
        for relay in [false, true] {
            let copied = copy(1360, 1 << 20, relay, Duration::from_millis(100)).unwrap();
            assert!(copied.bit_s > 1e5 && copied.cpu_s_per_gb > 0.0, "{copied:?}");
        }
    }
}
