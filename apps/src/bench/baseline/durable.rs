//! Baseline of copies that sync their bytes to disk.

use super::streams::{pair, read_full};
use super::{Copied, joined};
use anyhow::Context;
use farlink_os::process::thread_cpu;
use rustix::fs::syncfs;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Size in bytes of the file that is overwritten in a loop. Its blocks are allocated before the measurement, as a node
/// allocates those of its store.
const FILE: usize = 64 << 20;
/// Number of buffers that pass between the socket's thread and the disk thread, so that both can work at once.
const UNDER_WAY: usize = 4;

/// Thread that writes buffers to a file and syncs after each.
struct SyncedFile {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<io::Result<Duration>>,
}
impl SyncedFile {
    fn start(file: &Path, group: usize) -> io::Result<SyncedFile> {
        let mut file = File::create(file)?;
        // Allocates all blocks before the measurement.
        file.write_all(&vec![0; FILE])?;
        file.sync_all()?;
        let (full, to_write) = sync_channel::<Vec<u8>>(UNDER_WAY);
        let (back, empty) = sync_channel(UNDER_WAY);
        for _ in 0..UNDER_WAY {
            let _ = back.send(vec![7; group]);
        }
        let thread = std::thread::spawn(move || {
            let before = thread_cpu();
            for (n, group) in to_write.iter().enumerate() {
                if n % (FILE / group.len()) == 0 {
                    file.rewind()?;
                }
                file.write_all(&group)?;
                file.sync_data()?;
                let _ = back.send(group);
            }
            Ok(thread_cpu() - before)
        });
        Ok(SyncedFile { full, empty, thread })
    }
    fn empty(&self) -> io::Result<Vec<u8>> {
        self.empty.recv().map_err(io::Error::other)
    }
    fn keep(&self, group: Vec<u8>) -> io::Result<()> {
        self.full.send(group).map_err(io::Error::other)
    }
    /// Waits until everything is synced; returns the thread's processor time.
    fn finish(self) -> io::Result<Duration> {
        // Closing the channel ends the thread.
        drop(self.full);
        self.thread.join().map_err(|_| io::Error::other("the disk thread panicked"))?
    }
}

/// Copies over TCP for `time`, with a disk thread at either end that writes `group` bytes at once to a file and syncs
/// them, since both nodes store each bundle.
pub(super) fn copy(folder: &Path, group: usize, time: Duration) -> anyhow::Result<Copied> {
    let (mut out, mut input) = pair()?;
    let files = [folder.join("copy-sent"), folder.join("copy-received")];
    let [sent, received] = [SyncedFile::start(&files[0], group)?, SyncedFile::start(&files[1], group)?];
    let began = Instant::now();
    let reader = std::thread::spawn(move || -> io::Result<(u64, Duration)> {
        let mut bytes = 0;
        loop {
            let mut buffer = received.empty()?;
            if read_full(&mut input, &mut buffer)? < group {
                let cpu = thread_cpu();
                return Ok((bytes, cpu + received.finish()?));
            }
            bytes += group as u64;
            received.keep(buffer)?;
        }
    });
    let before = thread_cpu();
    while began.elapsed() < time {
        let buffer = sent.empty()?;
        out.write_all(&buffer)?;
        sent.keep(buffer)?;
    }
    let writing = thread_cpu() - before;
    drop(out);
    let (bytes, reading) = joined(reader)?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu = writing + sent.finish()? + reading;
    for file in files {
        std::fs::remove_file(file)?;
    }
    Ok(Copied::new(format!("TCP copy, at both ends written and synced by {} KiB", group >> 10), bytes, seconds, cpu))
}

/// Receives `count` payloads of `size` bytes over a Unix socket into files, and syncs them in groups of `at_once`.
///
/// # Errors
/// If a file cannot be written.
pub fn files(folder: &Path, size: u64, count: u64, at_once: u32) -> anyhow::Result<Copied> {
    std::fs::create_dir(folder).with_context(|| folder.display().to_string())?;
    let (mut out, mut input) = UnixStream::pair()?;
    let data = vec![7; usize::try_from(size)?];
    let mut buffer = data.clone();
    let began = Instant::now();
    let writer = std::thread::spawn(move || {
        (0..count).try_for_each(|_| out.write_all(&data))?;
        Ok(thread_cpu())
    });
    let before = thread_cpu();
    let place = File::open(folder)?;
    for n in 1..=count {
        input.read_exact(&mut buffer)?;
        File::create_new(folder.join(n.to_string()))?.write_all(&buffer)?;
        if n % u64::from(at_once.max(1)) == 0 || n == count {
            syncfs(&place)?;
        }
    }
    let (reading, seconds) = (thread_cpu() - before, began.elapsed().as_secs_f64());
    let name = format!("Unix socket copy into files, synced by {at_once}");
    let copied = Copied::new(name, size * count, seconds, joined(writer)? + reading);
    std::fs::remove_dir_all(folder)?;
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_copies_leave_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let durable = copy(folder.path(), 64 << 10, Duration::from_millis(60)).unwrap();
        let files = files(&folder.path().join("files"), 1000, 30, 16).unwrap();
        for copied in [durable, files] {
            assert!(copied.bit_s > 1e3 && copied.cpu_s_per_gb > 0.0, "{copied:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
