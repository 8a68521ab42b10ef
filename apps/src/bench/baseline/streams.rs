//! Baselines of copies over TCP, TLS and Unix sockets.

use super::{Copied, joined};
use farlink_os::process::thread_cpu;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Copies over TCP for `time`, `buffer` bytes at once.
pub(super) fn tcp(buffer: usize, time: Duration) -> anyhow::Result<Copied> {
    let (out, input) = pair()?;
    copy("TCP copy", out, input, buffer, time)
}

/// Copies through a Unix socket for `time`, `buffer` bytes at once.
///
/// # Errors
/// If sockets cannot be opened.
pub fn unix(buffer: usize, time: Duration) -> anyhow::Result<Copied> {
    let (out, input) = UnixStream::pair()?;
    copy("Unix socket copy", out, input, buffer, time)
}

/// Copies over TLS 1.3. `files` are a certificate for `localhost`, its key, and the authority that issued it.
pub(super) fn tls(files: &[PathBuf; 3], buffer: usize, time: Duration) -> anyhow::Result<Copied> {
    let [certificate, key, authority] = files;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let versions = &[&rustls::version::TLS13];
    let client = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions)?;
    let client = client.with_root_certificates(roots).with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions)?;
    let chain = vec![CertificateDer::from_pem_file(certificate)?];
    let mut server = server.with_no_client_auth().with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    // The writer never reads: an unread session ticket would turn its close into a reset and lose bytes in flight.
    server.send_tls13_tickets = 0;
    let client = ClientConnection::new(Arc::new(client), "localhost".try_into()?)?;
    let server = ServerConnection::new(Arc::new(server))?;
    let (out, input) = pair()?;
    copy("rustls copy", StreamOwned::new(client, out), StreamOwned::new(server, input), buffer, time)
}

fn copy(
    name: &str,
    mut out: impl Write,
    input: impl Read + Send + 'static,
    buffer: usize,
    time: Duration,
) -> anyhow::Result<Copied> {
    let reader = std::thread::spawn(move || read_all(input, buffer));
    let before = thread_cpu();
    write_for(&mut out, buffer, time)?;
    let writing = thread_cpu() - before;
    drop(out);
    let (bytes, seconds, reading) = joined(reader)?;
    Ok(Copied::new(format!("{name}, {} KiB a call", buffer >> 10), bytes, seconds, writing + reading))
}

/// Copies over two TCP connections in series: the upper bound for a relay that copies (no splice or zero-copy). With
/// `seal`, the copying thread encrypts each buffer with AES-256-GCM.
///
/// # Errors
/// If sockets cannot be opened.
pub fn two_hops(buffer: usize, seal: bool, time: Duration) -> anyhow::Result<Copied> {
    let (mut out, mut arriving) = pair()?;
    let (mut leaving, input) = pair()?;
    let failed = || std::io::Error::other("AES-GCM failed");
    let copier = std::thread::spawn(move || -> std::io::Result<Duration> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).map_err(|_| failed())?);
        let mut bytes = vec![0; buffer];
        for count in 0_u64.. {
            // One tag per full buffer: short reads would need more tags than there are payloads.
            let n = if seal { read_full(&mut arriving, &mut bytes)? } else { arriving.read(&mut bytes)? };
            if n == 0 {
                break;
            }
            if seal {
                let mut nonce = [0; 12];
                nonce[..8].copy_from_slice(&count.to_be_bytes());
                let nonce = Nonce::assume_unique_for_key(nonce);
                let sealed = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut bytes[..n]);
                let tag = sealed.map_err(|_| failed())?;
                // The tag is not sent, but must be computed.
                let _ = std::hint::black_box(tag);
            }
            leaving.write_all(&bytes[..n])?;
        }
        Ok(thread_cpu())
    });
    let reader = std::thread::spawn(move || read_all(input, buffer.max(64 << 10)));
    write_for(&mut out, buffer.max(64 << 10), time)?;
    drop(out);
    let cpu = joined(copier)?;
    let (bytes, seconds, _) = joined(reader)?;
    let and = if seal { " that enciphers (AES-256-GCM)" } else { "" };
    Ok(Copied::new(format!("copy by a thread between two{and}, {} KiB a call", buffer >> 10), bytes, seconds, cpu))
}

/// Writes `buffer` bytes at once for `time`.
fn write_for(out: &mut impl Write, buffer: usize, time: Duration) -> std::io::Result<()> {
    let data = vec![7; buffer];
    let began = Instant::now();
    while began.elapsed() < time {
        out.write_all(&data)?;
    }
    out.flush()
}

/// Reads to the end; returns the number of bytes, the seconds since the first byte, and the processor time of this
/// thread.
fn read_all(mut input: impl Read, buffer: usize) -> std::io::Result<(u64, f64, Duration)> {
    let mut bytes = vec![0; buffer];
    let (mut total, mut began) = (0, None);
    loop {
        match input.read(&mut bytes) {
            Ok(n) if n > 0 => total += n as u64,
            // The writer closes a TLS session without close_notify.
            Ok(_) => break,
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => break,
            Err(why) => return Err(why),
        }
        // The time until the first byte is connection setup.
        began.get_or_insert_with(Instant::now);
    }
    Ok((total, began.map_or(f64::NAN, |began| began.elapsed().as_secs_f64()), thread_cpu()))
}

/// Reads until the buffer is full or the stream ends; returns the number of bytes.
pub(super) fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

/// Opens a TCP connection over loopback; returns both ends.
pub(super) fn pair() -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let there = TcpStream::connect(listener.local_addr()?)?;
    let (here, _) = listener.accept()?;
    there.set_nodelay(true)?;
    here.set_nodelay(true)?;
    Ok((there, here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_has_measured_cost() {
        let time = Duration::from_millis(60);
        for copied in [
            tcp(64 << 10, time).unwrap(),
            unix(64 << 10, time).unwrap(),
            two_hops(64 << 10, false, time).unwrap(),
            two_hops(1000, true, time).unwrap(),
        ] {
            assert!(copied.bit_s > 1e6 && copied.cpu_s_per_gb > 0.0, "{copied:?}");
        }
    }
}
