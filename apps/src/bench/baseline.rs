//! Plain socket copies on loopback: what the machine does without a protocol.

use super::Options;
use anyhow::Context;
use bytes::BytesMut;
use farlink_base::layer::Medium;
use farlink_os::udp::{DatagramSocket, MESSAGE_MAX};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bytes of one write of the TCP copy.
const WRITE: usize = 128 << 10;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Baselines {
    /// Which copy.
    pub name: &'static str,
    /// Its rate.
    pub plain_bit_s: f64,
    /// The same datagrams with segmentation offload and coalescing.
    pub offload_bit_s: Option<f64>,
}

/// Measures the copies that belong to a layer, a second or two each.
///
/// # Errors
/// When sockets cannot be had.
pub fn measure(options: &Options) -> anyhow::Result<Baselines> {
    let time = Duration::from_secs_f64(options.seconds.clamp(0.2, 2.0));
    Ok(match options.medium {
        Medium::Streams => {
            Baselines { name: "plain TCP copy, 128 KiB writes", plain_bit_s: tcp(time)?, offload_bit_s: None }
        }
        Medium::Datagrams => Baselines {
            name: "plain UDP copy, one datagram per system call",
            plain_bit_s: udp_plain(options.mtu as usize, time)?,
            offload_bit_s: Some(udp_offload(options.mtu as usize, time)?),
        },
    })
}

fn tcp(time: Duration) -> anyhow::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut out = TcpStream::connect(listener.local_addr()?)?;
    let (mut input, _) = listener.accept()?;
    let reader = std::thread::spawn(move || -> std::io::Result<(u64, f64)> {
        let mut buffer = vec![0; 256 << 10];
        let mut total = input.read(&mut buffer)? as u64;
        let began = Instant::now();
        loop {
            match input.read(&mut buffer)? {
                0 => return Ok((total, began.elapsed().as_secs_f64())),
                n => total += n as u64,
            }
        }
    });
    let data = vec![7; WRITE];
    let began = Instant::now();
    while began.elapsed() < time {
        out.write_all(&data)?;
    }
    drop(out);
    let (bytes, seconds) = reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
    Ok(bytes as f64 * 8.0 / seconds)
}

/// Counts what a receiving closure takes while a sending closure runs.
fn udp(
    time: Duration,
    mut receive: impl FnMut() -> std::io::Result<usize> + Send + 'static,
    mut send: impl FnMut(),
) -> anyhow::Result<f64> {
    let (stop, total) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let reader = std::thread::spawn({
        let (stop, total) = (stop.clone(), total.clone());
        move || {
            while !stop.load(Relaxed) {
                match receive() {
                    Ok(n) => total.store(total.load(Relaxed) + n as u64, Relaxed),
                    Err(why) if why.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                    Err(_) => return,
                }
            }
        }
    });
    let began = Instant::now();
    while began.elapsed() < time {
        send();
    }
    let bytes = total.load(Relaxed);
    let seconds = began.elapsed().as_secs_f64();
    stop.store(true, Relaxed);
    reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))?;
    Ok(bytes as f64 * 8.0 / seconds)
}

fn udp_plain(mtu: usize, time: Duration) -> anyhow::Result<f64> {
    let input = UdpSocket::bind("127.0.0.1:0")?;
    input.set_read_timeout(Some(Duration::from_millis(20)))?;
    let out = UdpSocket::bind("127.0.0.1:0")?;
    out.connect(input.local_addr()?)?;
    let mut buffer = vec![0; 65_536];
    let data = vec![7; mtu];
    udp(
        time,
        move || input.recv(&mut buffer),
        || {
            for _ in 0..64 {
                let _ = out.send(&data);
            }
        },
    )
}

fn udp_offload(mtu: usize, time: Duration) -> anyhow::Result<f64> {
    let any: SocketAddr = "127.0.0.1:0".parse().context("loopback")?;
    let input = DatagramSocket::bind(&any, true, 64 << 20)?;
    let out = DatagramSocket::bind(&any, true, 64 << 20)?;
    let to = input.local_addr()?;
    let mut buffer = BytesMut::with_capacity(2 * 65_536);
    let data = vec![7; (MESSAGE_MAX / mtu).clamp(1, 64) * mtu];
    udp(
        time,
        move || {
            buffer.clear();
            buffer.reserve(65_536);
            input.receive(&mut buffer).map(|got| got.len)
        },
        || {
            let _ = out.send_train(&to, mtu, &[IoSlice::new(&data)]);
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_moves_bytes() {
        let time = Duration::from_millis(60);
        assert!(tcp(time).unwrap() > 1e6);
        assert!(udp_plain(1360, time).unwrap() > 1e5);
        assert!(udp_offload(1360, time).unwrap() > 1e5);
    }
}
