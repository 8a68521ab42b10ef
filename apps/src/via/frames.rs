//! Frames over the standard streams of a program, or over a socket: a letter, a length (4 bytes, big-endian), and that
//! many bytes.
//!
//! To the node: `S` sends a payload (endpoint ID, zero byte, payload); over a socket `L` asks for deliveries. From the
//! node: `K` ready, `A` a bundle was accepted, `E` it was not, with the reason, `D` a delivered payload, `R` a delivery
//! report.

use super::queue::ByteQueue;
use super::{ANSWER_MAX, AttachedPair, BundleReceiver, BundleSender, DeliveredPayload, MESSAGE_MAX, SenderTerms};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// File that names the program to start.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FramesFile {
    run: Vec<String>,
}

/// Attaches a sender.
pub fn sender(at: &str, terms: &SenderTerms) -> Result<FrameSender> {
    let link = FrameLink::open(at)?;
    // Drops deliveries: nobody takes them here, and a full queue would block the reader.
    link.payloads.end("not received here");
    Ok(FrameSender { link, window: terms.window.max(1), unanswered: 0 })
}

/// Attaches a receiver.
pub fn receiver(at: &str) -> Result<FrameReceiver> {
    let link = FrameLink::open(at)?;
    link.listen()?;
    Ok(FrameReceiver { link })
}

/// Attaches a sender and a receiver to one program or socket, whose endpoint is `endpoint`.
pub fn pair(at: &str, terms: &SenderTerms, endpoint: String) -> Result<AttachedPair> {
    let link = FrameLink::open(at)?;
    link.listen()?;
    let sender = FrameSender { link: Arc::clone(&link), window: terms.window.max(1), unanswered: 0 };
    Ok(AttachedPair { sender: Box::new(sender), receiver: Box::new(FrameReceiver { link }), endpoint })
}

/// Streams of a node, read by a thread.
struct FrameLink {
    writer: Mutex<Box<dyn Write + Send>>,
    /// Whether the link is a socket, which others may share.
    shared: bool,
    answers: ByteQueue<Result<(), String>>,
    payloads: ByteQueue<(u64, Vec<u8>)>,
    /// Program that was started for this link.
    child: Option<Mutex<Child>>,
}

impl FrameLink {
    fn open(at: &str) -> Result<Arc<FrameLink>> {
        let is_socket = std::fs::metadata(at).is_ok_and(|file| file.file_type().is_socket());
        let is_address = !at.contains('/') && at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let unreached =
            || format!("nothing serves frames at {at}\nhint: `farlink app frames` serves those of a program");
        if is_socket {
            let socket = UnixStream::connect(at).with_context(unreached)?;
            return FrameLink::start(socket.try_clone()?, Box::new(socket), true, None);
        }
        if is_address {
            let socket = TcpStream::connect(at).with_context(unreached)?;
            socket.set_nodelay(true)?;
            return FrameLink::start(socket.try_clone()?, Box::new(socket), true, None);
        }
        let hint = "hint: --at names a socket, or a file with {\"run\": [\"PROGRAM\", \"ARGUMENT\", ...]}";
        let text = std::fs::read_to_string(at).map_err(|why| anyhow::anyhow!("{at}: {why}\n{hint}"))?;
        let file: FramesFile = serde_json::from_str(&text).map_err(|why| anyhow::anyhow!("{at}: {why}\n{hint}"))?;
        let mut child = start(&file.run).with_context(|| format!("{at}: cannot start the program"))?;
        let streams = (child.stdout.take().context("no output")?, child.stdin.take().context("no input")?);
        FrameLink::start(streams.0, Box::new(streams.1), false, Some(Mutex::new(child)))
    }
    fn start(
        reader: impl Read + Send + 'static,
        writer: Box<dyn Write + Send>,
        shared: bool,
        child: Option<Mutex<Child>>,
    ) -> Result<Arc<FrameLink>> {
        let (answers, payloads) = (ByteQueue::default(), ByteQueue::default());
        let link = Arc::new(FrameLink { writer: Mutex::new(writer), shared, answers, payloads, child });
        // The thread holds the link only weakly, so that dropping the last other reference ends the program.
        let weak = Arc::downgrade(&link);
        std::thread::Builder::new().name("frames".into()).spawn(move || {
            let mut reader = BufReader::new(reader);
            let why = loop {
                match read_frame(&mut reader) {
                    Err(why) => break format!("{why:#}"),
                    Ok((letter, body)) => {
                        let Some(link) = weak.upgrade() else { return };
                        if let Err(why) = link.take(letter, body) {
                            break format!("{why:#}");
                        }
                    }
                }
            };
            if let Some(link) = weak.upgrade() {
                link.answers.end(why.clone());
                link.payloads.end(why);
            }
        })?;
        // The first frame is `K`.
        link.answer().context("the program is not ready")?;
        Ok(link)
    }
    fn take(&self, letter: u8, body: Vec<u8>) -> Result<()> {
        let length = body.len();
        match letter {
            b'K' | b'A' => drop(self.answers.push(Ok(()), length)),
            b'E' => drop(self.answers.push(Err(String::from_utf8_lossy(&body).chars().take(200).collect()), length)),
            b'D' => drop(self.payloads.push((farlink_os::monotonic_ns(), body), length)),
            b'R' => {}
            // The streams are out of step.
            _ => bail!("a frame of the unknown kind {letter:#04x}"),
        }
        Ok(())
    }
    fn listen(&self) -> Result<()> {
        // A program started for this link alone delivers unasked, and does not know the frame `L`.
        if self.shared { self.write(b'L', &[]) } else { Ok(()) }
    }
    fn write(&self, letter: u8, body: &[u8]) -> Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        write_frame(&mut *writer, letter, body).context("the node closed its stream")
    }
    fn answer(&self) -> Result<()> {
        match self.answers.pop(ANSWER_MAX)? {
            Some(answer) => answer.map_err(anyhow::Error::msg),
            None => bail!("no answer within {} s", ANSWER_MAX.as_secs()),
        }
    }
}
impl Drop for FrameLink {
    fn drop(&mut self) {
        if let Some(child) = &self.child {
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a program with frames at its standard streams.
pub(super) fn start(words: &[String]) -> Result<Child> {
    let (program, arguments) = words.split_first().context("no program is named")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    farlink_os::process::start_in(&mut command, None, None);
    super::lines::spawn(&mut command, program)
}

/// Reads a frame.
///
/// # Errors
/// At the end of the stream, also within a frame, or if the frame is too long.
pub(super) fn read_frame(reader: &mut impl Read) -> Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    reader.read_exact(&mut head).context("the stream of frames ended")?;
    let [letter, length @ ..] = head;
    let length = u64::from(u32::from_be_bytes(length));
    ensure!(length <= MESSAGE_MAX, "a frame of {length} bytes: more than {MESSAGE_MAX}");
    let mut body = Vec::new();
    // Grows with the bytes that arrive, whatever the length claims.
    reader.take(length).read_to_end(&mut body)?;
    ensure!(body.len() as u64 == length, "the stream of frames ended within a frame");
    Ok((letter, body))
}

/// Writes a frame.
pub(super) fn write_frame(writer: &mut impl Write, letter: u8, body: &[u8]) -> Result<()> {
    let length = u32::try_from(body.len()).context("a payload of more than 4 GiB")?;
    writer.write_all(&[&[letter][..], &length.to_be_bytes(), body].concat())?;
    Ok(writer.flush()?)
}

/// Sender over frames.
pub struct FrameSender {
    link: Arc<FrameLink>,
    window: u64,
    unanswered: u64,
}

impl FrameSender {
    fn wait_for(&mut self, most: u64) -> Result<()> {
        while self.unanswered > most {
            self.link.answer().context("the node refuses a bundle")?;
            self.unanswered -= 1;
        }
        Ok(())
    }
}

impl BundleSender for FrameSender {
    fn room(&mut self) -> Result<()> {
        self.wait_for(self.window - 1)
    }
    fn hand_over(&mut self, to: &str, payload: Vec<u8>) -> Result<()> {
        self.link.write(b'S', &[to.as_bytes(), &[0], &payload].concat())?;
        self.unanswered += 1;
        Ok(())
    }
    fn finish(&mut self) -> Result<()> {
        self.wait_for(0)
    }
}

/// Receiver over frames.
pub struct FrameReceiver {
    link: Arc<FrameLink>,
}

impl BundleReceiver for FrameReceiver {
    fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>> {
        let payload = self.link.payloads.pop(wait)?;
        Ok(payload.map(|(at_ns, bytes)| DeliveredPayload { at_ns, source: None, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(script: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.json");
        std::fs::write(&path, serde_json::json!({ "run": ["sh", "-c", script] }).to_string()).unwrap();
        let at = path.to_str().unwrap().to_string();
        (folder, at)
    }

    fn terms() -> SenderTerms {
        SenderTerms { source: None, lifetime: Duration::from_secs(60), window: 2 }
    }

    #[test]
    fn truncated_frames_are_refused() {
        assert_eq!(read_frame(&mut &b"D\0\0\0\x02hi"[..]).unwrap(), (b'D', b"hi".to_vec()));
        for bytes in [&b""[..], b"D\0\0", b"D\0\0\0\x02h", b"D\xff\xff\xff\xffhi"] {
            assert!(read_frame(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
        let mut random = farlink_base::Rng::new(4);
        for _ in 0..20_000 {
            let noise: Vec<u8> = (0..random.below(20)).map(|_| random.next_u64() as u8).collect();
            let _ = read_frame(&mut &noise[..]);
        }
    }

    #[test]
    fn program_answers_and_delivers() {
        // Ready, a delivery, a report, one acceptance, one refusal; then it waits for both frames.
        let (_folder, at) = file(
            r"printf 'K\0\0\0\0D\0\0\0\002hiR\0\0\0\0A\0\0\0\0E\0\0\0\002no'; head -c 26 | tail -c 13 >&2; sleep 60",
        );
        let AttachedPair { mut sender, mut receiver, endpoint } = pair(&at, &terms(), "ipn:20.42".into()).unwrap();
        assert_eq!(endpoint, "ipn:20.42");
        assert_eq!(receiver.receive(Duration::from_secs(20)).unwrap().unwrap().bytes, b"hi");
        for _ in 0..2 {
            sender.room().unwrap();
            sender.hand_over("ipn:1.7", b"x".to_vec()).unwrap();
        }
        assert_eq!(format!("{:#}", sender.finish().unwrap_err()), "the node refuses a bundle: no");
        assert_eq!(receiver.receive(Duration::ZERO).unwrap(), None);
    }

    #[test]
    fn end_of_the_program_is_told() {
        let (_folder, at) = file(r"printf 'K\0\0\0\0'");
        let why = receiver(&at).unwrap().receive(Duration::from_secs(20)).unwrap_err().to_string();
        assert!(why.contains("the stream of frames ended"), "{why}");
        let (_folder, at) = file(r"printf 'x\0\0\0\0'");
        let why = format!("{:#}", receiver(&at).err().unwrap());
        assert!(why.contains("not ready") && why.contains("unknown kind 0x78"), "{why}");
    }

    #[test]
    fn wrong_files_carry_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.json");
        for text in ["", "{\"run\": \"sh\"}", "{\"start\": [\"sh\"]}"] {
            std::fs::write(&path, text).unwrap();
            let why = receiver(path.to_str().unwrap()).err().unwrap().to_string();
            assert!(why.contains("node.json: ") && why.contains("hint: --at names a socket"), "{why}");
        }
        std::fs::write(&path, "{\"run\": [\"/no/such/program\"]}").unwrap();
        let why = format!("{:#}", receiver(path.to_str().unwrap()).err().unwrap());
        assert!(why.contains("cannot start the program") && why.contains("/no/such/program"), "{why}");
        let why = format!("{:#}", receiver("127.0.0.1:1").err().unwrap());
        assert!(why.contains("nothing serves frames at 127.0.0.1:1") && why.contains("hint: "), "{why}");
    }
}
