//! Serves the frames of one program at a socket, so that several applications can use a node that has only its standard
//! streams: `farlink app frames`.

use super::ATTENTION;
use super::frames::{read_frame, start, write_frame};
use super::queue::ByteQueue;
use anyhow::{Context, Result, anyhow, bail};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufReader, Read};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most applications connected at once.
const CLIENTS_MAX: usize = 256;
/// Longest time for which an application may read nothing while a frame for it waits. Less than [`super::ANSWER_MAX`],
/// for which others wait behind that frame.
const STALLED_MAX: Duration = Duration::from_secs(20);

/// The program and its applications.
struct FramesHost {
    /// Input of the program. Lock order: `input`, then `desk`. Writing to the program can block while the program waits
    /// for its own output to be read, and the thread that reads it needs `desk`.
    input: Mutex<ChildStdin>,
    desk: Mutex<FramesDesk>,
    /// Payloads for the application that listens.
    deliveries: ByteQueue<Vec<u8>>,
}

#[derive(Default)]
struct FramesDesk {
    clients: BTreeMap<u64, Arc<Mutex<UnixStream>>>,
    /// Applications whose bundles the program has not answered, in order.
    asked: VecDeque<u64>,
    /// Application that takes deliveries: the last that asked for them.
    listener: Option<u64>,
}

impl FramesDesk {
    fn disconnect(&mut self, client: u64) {
        self.clients.remove(&client);
        self.listener = self.listener.filter(|listener| *listener != client);
    }
}

/// Runs a program until it ends or `stop` is set; the socket appears when the program is ready.
///
/// # Errors
/// If the program cannot be started, breaks the protocol or ends, or the socket cannot be made.
pub fn serve(words: &[String], socket: &Path, stop: &AtomicBool) -> Result<()> {
    serve_patiently(words, socket, stop, STALLED_MAX)
}

fn serve_patiently(words: &[String], socket: &Path, stop: &AtomicBool, patience: Duration) -> Result<()> {
    // A socket of an earlier run would be taken for a node that is ready.
    let _ = std::fs::remove_file(socket);
    let mut child = start(words)?;
    let (input, output) = (child.stdin.take().context("no input")?, child.stdout.take().context("no output")?);
    let (input, deliveries) = (Mutex::new(input), ByteQueue::default());
    let host = Arc::new(FramesHost { input, desk: Mutex::default(), deliveries });
    let mut output = BufReader::new(output);
    let result = read_ready(&mut output).and_then(|()| {
        let ((ended, ends), reading, giving) = (channel(), Arc::clone(&host), Arc::clone(&host));
        std::thread::spawn(move || drop(ended.send(reading.read_program(&mut output))));
        std::thread::spawn(move || giving.deliver());
        let listener = UnixListener::bind(socket).map_err(|why| {
            anyhow!("{} cannot be made a socket: {why}\nhint: --at names a new file", socket.display())
        })?;
        listener.set_nonblocking(true)?;
        accept(&host, &listener, &ends, (stop, patience))
    });
    host.deliveries.end("the program ended");
    let _ = child.kill();
    let _ = child.wait();
    let _ = std::fs::remove_file(socket);
    result
}

fn read_ready(output: &mut impl Read) -> Result<()> {
    match read_frame(output).context("the program is not ready")? {
        (b'K', _) => Ok(()),
        (letter, _) => bail!("the program begins with a frame of kind {letter:#04x}, not `K`"),
    }
}

fn accept(
    host: &Arc<FramesHost>,
    listener: &UnixListener,
    ends: &Receiver<anyhow::Error>,
    (stop, patience): (&AtomicBool, Duration),
) -> Result<()> {
    let mut client = 0;
    while !stop.load(Ordering::Relaxed) {
        if let Ok(why) = ends.try_recv() {
            return Err(why);
        }
        let accepted = if host.lock().clients.len() < CLIENTS_MAX { listener.accept().ok() } else { None };
        let Some((stream, _)) = accepted else {
            std::thread::sleep(ATTENTION / 5);
            continue;
        };
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(patience))?;
        // The client may have disconnected already, which must not end the host.
        let Ok(reader) = stream.try_clone() else { continue };
        client += 1;
        host.lock().clients.insert(client, Arc::new(Mutex::new(stream)));
        let (host, client) = (Arc::clone(host), client);
        std::thread::spawn(move || host.serve_client(client, reader));
    }
    Ok(())
}

impl FramesHost {
    fn lock(&self) -> MutexGuard<'_, FramesDesk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Passes the frames of the program on; returns why they ended.
    fn read_program(&self, output: &mut impl Read) -> anyhow::Error {
        loop {
            let (letter, body) = match read_frame(output) {
                Ok(frame) => frame,
                Err(why) => return why.context("the program ended"),
            };
            match letter {
                b'A' | b'E' => {
                    let asked = self.lock().asked.pop_front();
                    self.write_to(asked, letter, &body);
                }
                b'D' => {
                    let length = body.len();
                    self.deliveries.push(body, length);
                }
                b'R' => {}
                _ => return anyhow!("the program writes a frame of the unknown kind {letter:#04x}"),
            }
        }
    }
    /// Passes payloads to the listening application; without one, waits until an application asks for deliveries.
    fn deliver(&self) {
        while let Ok(payload) = self.deliveries.pop(ATTENTION) {
            let Some(payload) = payload else { continue };
            while !self.deliveries.has_ended() {
                let listener = self.lock().listener;
                if self.write_to(listener, b'D', &payload) {
                    break;
                }
                std::thread::sleep(ATTENTION / 5);
            }
        }
    }
    /// Writes a frame to an application; returns false if it is not connected any more. One that has stopped reading is
    /// disconnected, since others wait behind this frame.
    fn write_to(&self, client: Option<u64>, letter: u8, body: &[u8]) -> bool {
        let Some(client) = client else { return false };
        let Some(stream) = self.lock().clients.get(&client).cloned() else { return false };
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        let Err(why) = write_frame(&mut *stream, letter, body) else { return true };
        if why.downcast_ref::<io::Error>().is_some_and(|why| why.kind() == io::ErrorKind::WouldBlock) {
            crate::tell(&format!(
                "application {client} is disconnected: it has stopped reading what the node sends it"
            ));
        }
        // A part of the frame may have left, so that nothing can follow it. This ends the client's thread, too.
        let _ = stream.shutdown(Shutdown::Both);
        self.lock().disconnect(client);
        false
    }
    fn serve_client(&self, client: u64, reader: UnixStream) {
        self.write_to(Some(client), b'K', &[]);
        let mut reader = BufReader::new(reader);
        while let Ok((letter, body)) = read_frame(&mut reader) {
            match letter {
                b'L' => self.lock().listener = Some(client),
                b'S' => {
                    let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
                    // Recorded under the lock of `input`, so that the order is that of the frames written, and before
                    // the program can answer.
                    self.lock().asked.push_back(client);
                    if write_frame(&mut *input, b'S', &body).is_err() {
                        break;
                    }
                }
                _ => break,
            }
        }
        self.lock().disconnect(client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::via::{AppInterface, SenderTerms, Via};
    use std::path::PathBuf;
    use std::thread::JoinHandle;
    use std::time::Instant;

    /// Node that delivers every payload sent, after it has accepted it; the endpoint `ipn:9.9` is refused.
    const LOOP: &str = r#"
import sys
def read(n):
    data = sys.stdin.buffer.read(n)
    if len(data) < n: sys.exit()
    return data
def say(letter, body):
    sys.stdout.buffer.write(letter + len(body).to_bytes(4, "big") + body)
    sys.stdout.buffer.flush()
say(b"K", b"")
while True:
    letter, length = read(1), int.from_bytes(read(4), "big")
    to, payload = read(length).split(b"\0", 1)
    if to == b"ipn:9.9":
        say(b"E", b"no such node")
    else:
        say(b"A", b"")
        say(b"D", payload)
"#;

    fn wait_for(socket: &Path) {
        let begun = Instant::now();
        while !socket.exists() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Serves [`LOOP`] at a socket in a folder until the flag is set.
    fn served(folder: &Path, patience: Duration) -> (PathBuf, Arc<AtomicBool>, JoinHandle<Result<()>>) {
        let (socket, stop) = (folder.join("node.sock"), Arc::new(AtomicBool::new(false)));
        let (at, stopped) = (socket.clone(), Arc::clone(&stop));
        let words = ["python3", "-c", LOOP].map(String::from);
        let host = std::thread::spawn(move || serve_patiently(&words, &at, &stopped, patience));
        wait_for(&socket);
        (socket, stop, host)
    }

    /// Connects once the socket, which exists a moment earlier, is listened at.
    fn connected(socket: &Path) -> UnixStream {
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => return stream,
                Err(why) => assert_eq!(why.kind(), std::io::ErrorKind::ConnectionRefused, "{why}"),
            }
        }
    }

    #[test]
    fn senders_and_receiver_share_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, stop, host) = served(folder.path(), STALLED_MAX);
        let interface = AppInterface { via: Via::Frames, at: socket.to_str().unwrap().into() };
        let terms = SenderTerms { source: None, lifetime: Duration::from_secs(60), window: 3 };
        let mut senders = [interface.sender(&terms).unwrap(), interface.sender(&terms).unwrap()];
        // Delivered before anybody listens: kept.
        for number in 0..20u8 {
            let sender = &mut senders[usize::from(number % 2)];
            sender.room().unwrap();
            sender.hand_over("ipn:2.1", vec![number; 10_000]).unwrap();
        }
        senders[0].hand_over("ipn:9.9", vec![1]).unwrap();
        assert!(format!("{:#}", senders[0].finish().unwrap_err()).contains("no such node"));
        senders[1].finish().unwrap();
        let mut receiver = interface.receiver("42").unwrap();
        let mut came: Vec<(u8, usize)> = (0..20)
            .map(|_| {
                let delivered = receiver.receive(Duration::from_secs(20)).unwrap().unwrap();
                (delivered.bytes[0], delivered.bytes.len())
            })
            .collect();
        // Only the bundles of one sender are in order.
        came.sort_unstable();
        assert_eq!(came, (0..20).map(|number| (number, 10_000)).collect::<Vec<_>>());
        stop.store(true, Ordering::Relaxed);
        host.join().unwrap().unwrap();
        assert!(!socket.exists());
    }

    #[test]
    fn stalled_application_does_not_block_others() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, stop, host) = served(folder.path(), Duration::from_millis(500));
        // Listens and sends, but reads neither answers nor deliveries.
        let mut stalled = connected(&socket);
        write_frame(&mut stalled, b'L', &[]).unwrap();
        let bundle = [&b"ipn:2.1\0"[..], &[1; 10_000]].concat();
        let sending = std::thread::spawn(move || while write_frame(&mut stalled, b'S', &bundle).is_ok() {});
        let interface = AppInterface { via: Via::Frames, at: socket.to_str().unwrap().into() };
        let terms = SenderTerms { source: None, lifetime: Duration::from_secs(60), window: 1 };
        let mut sender = interface.sender(&terms).unwrap();
        sender.hand_over("ipn:2.1", vec![7; 100]).unwrap();
        sender.finish().unwrap();
        sending.join().unwrap();
        // The next listener gets what comes after the stalled one is disconnected.
        let mut sender = interface.sender(&terms).unwrap();
        sender.hand_over("ipn:2.1", vec![8; 100]).unwrap();
        let mut receiver = interface.receiver("42").unwrap();
        while receiver.receive(Duration::from_secs(20)).unwrap().unwrap().bytes != [8; 100] {}
        sender.finish().unwrap();
        stop.store(true, Ordering::Relaxed);
        host.join().unwrap().unwrap();
    }

    #[test]
    fn failing_programs_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("node.sock");
        let stop = AtomicBool::new(false);
        for (script, expected) in [
            ("exit 3", "the program is not ready: the stream of frames ended"),
            (r"printf 'A\0\0\0\0'; sleep 60", "begins with a frame of kind 0x41"),
            (r"printf 'K\0\0\0\0'", "the program ended: the stream of frames ended"),
            (r"printf 'K\0\0\0\0z\0\0\0\0'; sleep 60", "a frame of the unknown kind 0x7a"),
        ] {
            let words = ["sh", "-c", script].map(String::from);
            let why = format!("{:#}", serve(&words, &socket, &stop).unwrap_err());
            assert!(why.contains(expected), "{why}");
        }
    }
}
