//! Baseline of round trips through a chain of sockets.

use super::joined;
use super::streams::pair;
use farlink_os::process::thread_cpu;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Measures round trips of `count` messages of `size` bytes over two connections in series. Returns the times in ns,
/// and the processor time of the two threads, each of which takes the place of a node. A message wakes a thread four
/// times, as often as a ping through two nodes must. `pause` separates the messages. With a folder, both threads write
/// and sync each message before its delivery, as durable nodes do.
///
/// # Errors
/// If sockets or files cannot be opened.
pub fn chain(size: u64, count: u64, pause: Duration, folder: Option<&Path>) -> anyhow::Result<(Vec<u64>, Duration)> {
    let size = usize::try_from(size.max(1))?;
    let (mut client, near) = pair()?;
    let (far, echo) = pair()?;
    let file = |name: &str| folder.map(|folder| File::create(folder.join(name))).transpose();
    let (near_file, echo_file) = (file("chain-near")?, file("chain-echo")?);
    let near = std::thread::spawn(move || pass(near, far, size, near_file));
    let echo = std::thread::spawn(move || answer(echo, size, echo_file));
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
    drop(client);
    Ok((times, joined(near)? + joined(echo)?))
}

fn pass(mut near: TcpStream, mut far: TcpStream, size: usize, mut file: Option<File>) -> io::Result<Duration> {
    let mut buffer = vec![0; size];
    while more(near.read_exact(&mut buffer))? {
        far.write_all(&buffer)?;
        far.read_exact(&mut buffer)?;
        keep(&mut file, &buffer)?;
        near.write_all(&buffer)?;
    }
    Ok(thread_cpu())
}
fn answer(mut echo: TcpStream, size: usize, mut file: Option<File>) -> io::Result<Duration> {
    let mut buffer = vec![0; size];
    while more(echo.read_exact(&mut buffer))? {
        keep(&mut file, &buffer)?;
        echo.write_all(&buffer)?;
    }
    Ok(thread_cpu())
}
/// Whether a message was read, as opposed to the end of the stream.
fn more(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Err(why) if why.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}
/// Overwrites the file from its beginning, so that no block needs to be allocated.
fn keep(file: &mut Option<File>, bytes: &[u8]) -> io::Result<()> {
    let Some(file) = file else { return Ok(()) };
    file.rewind()?;
    file.write_all(bytes)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        for folder in [None, Some(folder.path())] {
            let (times, cpu) = chain(1000, 20, Duration::ZERO, folder).unwrap();
            assert!(times.len() == 20 && times.iter().all(|ns| *ns > 0) && !cpu.is_zero());
        }
    }
}
