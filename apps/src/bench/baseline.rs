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
    let (out, input) = pair()?;
    let reader = std::thread::spawn(move || read_all(input));
    write_for(out, time)?;
    let (bytes, seconds) = reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
    Ok(bytes as f64 * 8.0 / seconds)
}

/// Writes for so long, and closes.
fn write_for(mut out: TcpStream, time: Duration) -> std::io::Result<()> {
    let data = vec![7; WRITE];
    let began = Instant::now();
    while began.elapsed() < time {
        out.write_all(&data)?;
    }
    Ok(())
}

/// Reads to the end: bytes, and seconds since the first came.
fn read_all(mut input: TcpStream) -> std::io::Result<(u64, f64)> {
    let mut buffer = vec![0; 256 << 10];
    let mut total = input.read(&mut buffer)? as u64;
    let began = Instant::now();
    loop {
        match input.read(&mut buffer)? {
            0 => return Ok((total, began.elapsed().as_secs_f64())),
            n => total += n as u64,
        }
    }
}

/// A copy through a thread between two others.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// Its rate.
    pub bit_s: f64,
    /// Processor time of the one that copies, s for each GB.
    pub cpu_s_per_gb: f64,
}

/// Writer, copier and reader, joined by TCP: what a node between two others cannot do better without tricks.
///
/// # Errors
/// When sockets cannot be had.
pub fn two_hops(time: Duration) -> anyhow::Result<Copied> {
    let (out, mut arriving) = pair()?;
    let (mut leaving, input) = pair()?;
    let copier = std::thread::spawn(move || -> std::io::Result<f64> {
        let mut buffer = vec![0; 256 << 10];
        loop {
            match arriving.read(&mut buffer)? {
                0 => return Ok(thread_cpu_s()),
                n => leaving.write_all(&buffer[..n])?,
            }
        }
    });
    let reader = std::thread::spawn(move || read_all(input));
    write_for(out, time)?;
    let cpu_s = copier.join().map_err(|_| anyhow::anyhow!("the copier panicked"))??;
    let (bytes, seconds) = reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
    Ok(Copied { bit_s: bytes as f64 * 8.0 / seconds, cpu_s_per_gb: cpu_s * 1e9 / bytes as f64 })
}

/// Processor time of the calling thread, s.
fn thread_cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Both ends of a connection over loopback.
fn pair() -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let there = TcpStream::connect(listener.local_addr()?)?;
    let (here, _) = listener.accept()?;
    there.set_nodelay(true)?;
    here.set_nodelay(true)?;
    Ok((there, here))
}

/// Times of so many messages of this length that go to and fro over two connections, one behind the other, ns: four
/// threads are woken for each, as few as an application, two nodes and an echo can do with. `pause` passes between two.
///
/// # Errors
/// When sockets cannot be had.
pub fn chain(size: u64, count: u64, pause: Duration) -> anyhow::Result<Vec<u64>> {
    let size = usize::try_from(size.max(1))?;
    let (mut client, mut near) = pair()?;
    let (mut far, mut echo) = pair()?;
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut buffer = vec![0; size];
        loop {
            near.read_exact(&mut buffer)?;
            far.write_all(&buffer)?;
            far.read_exact(&mut buffer)?;
            near.write_all(&buffer)?;
        }
    });
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut buffer = vec![0; size];
        loop {
            echo.read_exact(&mut buffer)?;
            echo.write_all(&buffer)?;
        }
    });
    let mut buffer = vec![7; size];
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        client.write_all(&buffer)?;
        client.read_exact(&mut buffer)?;
        times.push(u64::try_from(began.elapsed().as_nanos())?);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    Ok(times)
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
        let copied = two_hops(time).unwrap();
        assert!(copied.bit_s > 1e6 && copied.cpu_s_per_gb > 0.0, "{copied:?}");
        let times = chain(1000, 20, Duration::ZERO).unwrap();
        assert!(times.len() == 20 && times.iter().all(|ns| *ns > 0));
    }
}
