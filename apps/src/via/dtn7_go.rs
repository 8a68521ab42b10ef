//! Application socket of dtn7-go: MessagePack in frames, a connection for each request. Bundles are fetched by polling.

use super::msgpack::{PackReader, PackWriter};
use super::{ANSWER_MAX, BundleReceiver, BundleSender, DeliveredPayload, MESSAGE_MAX, SenderTerms};
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

/// Pause after the first empty answer, doubled up to [`PAUSE_MOST`].
const PAUSE_LEAST: Duration = Duration::from_millis(1);
/// Longest pause between two polls, and so the longest delay of a delivery.
const PAUSE_MOST: Duration = Duration::from_millis(5);
/// Types of requests (`MessageType` in dtn7-go's unix_agent/messages.go).
const REGISTER: u8 = 2;
const CREATE: u8 = 4;
const GET_ALL: u8 = 9;

/// Sender of one bundle at a time.
pub struct Dtn7GoSender {
    at: String,
    source: String,
    lifetime: String,
}

/// Receiver that polls for new bundles.
pub struct Dtn7GoReceiver {
    at: String,
    endpoint: String,
    waiting: VecDeque<DeliveredPayload>,
    pause: Duration,
}

/// Attaches a sender at an endpoint ID.
pub fn sender(at: &str, terms: &SenderTerms) -> Result<Dtn7GoSender> {
    let source = super::whole_endpoint(terms)?;
    register(at, &source)?;
    Ok(Dtn7GoSender { at: at.into(), source, lifetime: format!("{}ms", terms.lifetime.as_millis()) })
}

/// Attaches a receiver at an endpoint ID.
pub fn receiver(at: &str, endpoint: &str) -> Result<Dtn7GoReceiver> {
    let whole = endpoint.contains(':');
    ensure!(whole, "`{endpoint}` is not an endpoint ID\nhint: --service takes the whole ID here, e.g. dtn://peer/in");
    register(at, endpoint)?;
    Ok(Dtn7GoReceiver { at: at.into(), endpoint: endpoint.into(), waiting: VecDeque::new(), pause: PAUSE_LEAST })
}

fn register(at: &str, endpoint: &str) -> Result<()> {
    let request = PackWriter::default().map(2).text("Type").number(REGISTER).text("EndpointID").text(endpoint);
    match ask(at, &request.out).and_then(|answer| read(&answer)) {
        // The daemon keeps registrations: "ID has already been registered" by an earlier application is no error.
        Err(why) if format!("{why:#}").contains("already") => Ok(()),
        other => other.map(drop),
    }
}

/// Connects to a socket, whose name is abstract if it begins with `@`, as Go writes it.
fn connect(at: &str) -> std::io::Result<UnixStream> {
    match at.strip_prefix('@') {
        Some(name) => UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?),
        None => UnixStream::connect(at),
    }
}

/// Sends a request and returns the answer.
fn ask(at: &str, request: &[u8]) -> Result<Vec<u8>> {
    let hint = "hint: --at names the socket in [Agents.UNIX] of the daemon's configuration";
    let mut socket = connect(at).map_err(|why| anyhow::anyhow!("nothing answers at {at}: {why}\n{hint}"))?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    socket.write_all(&[&(request.len() as u64).to_be_bytes()[..], request].concat())?;
    let mut length = [0; 8];
    socket.read_exact(&mut length).with_context(|| format!("{at} does not answer"))?;
    let length = u64::from_be_bytes(length);
    ensure!(length <= MESSAGE_MAX, "{at} answers with {length} bytes: more than {MESSAGE_MAX}");
    let mut answer = Vec::new();
    // Grows with the bytes that arrive, whatever the length claims.
    socket.take(length).read_to_end(&mut answer)?;
    ensure!(answer.len() as u64 == length, "{at} closes the connection within an answer");
    Ok(answer)
}

/// Bundles in an answer.
fn read(answer: &[u8]) -> Result<Vec<DeliveredPayload>> {
    let (success, error, bundles) = parse(answer).context("the daemon answers with something that makes no sense")?;
    if !success {
        bail!("the daemon refuses: {error}");
    }
    Ok(bundles)
}

fn parse(answer: &[u8]) -> Option<(bool, String, Vec<DeliveredPayload>)> {
    let mut reader = PackReader::new(answer);
    let (mut success, mut error, mut bundles) = (false, String::new(), Vec::new());
    for _ in 0..reader.map()? {
        match reader.text()? {
            "Success" => success = reader.flag()?,
            "Error" => error = reader.text()?.chars().take(200).collect(),
            "Bundles" => {
                for _ in 0..reader.list()? {
                    bundles.push(bundle(&mut reader)?);
                }
            }
            _ => reader.skip()?,
        }
    }
    Some((success, error, bundles))
}

fn bundle(reader: &mut PackReader<'_>) -> Option<DeliveredPayload> {
    let (mut source, mut payload) = (None, None);
    for _ in 0..reader.map()? {
        match reader.text()? {
            "SourceID" => source = Some(reader.text()?.to_string()),
            "Payload" => payload = Some(reader.bytes()?.to_vec()),
            _ => reader.skip()?,
        }
    }
    Some(DeliveredPayload::now(Some(source?), payload?))
}

impl BundleSender for Dtn7GoSender {
    fn room(&mut self) -> Result<()> {
        Ok(())
    }
    fn hand_over(&mut self, to: &str, payload: Vec<u8>) -> Result<()> {
        let request = PackWriter::default().map(2).text("Type").number(CREATE).text("Args").map(5);
        let request = request.text("source").text(&self.source).text("destination").text(to);
        let request = request.text("creation_timestamp_now").flag(true).text("lifetime").text(&self.lifetime);
        let request = request.text("payload_block").bytes(&payload);
        read(&ask(&self.at, &request.out)?).map(drop)
    }
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

impl BundleReceiver for Dtn7GoReceiver {
    fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>> {
        let until = Instant::now() + wait;
        loop {
            if let Some(delivered) = self.waiting.pop_front() {
                return Ok(Some(delivered));
            }
            let request = PackWriter::default().map(4).text("Type").number(GET_ALL).text("Mailbox");
            let request = request.text(&self.endpoint).text("New").flag(true).text("Remove").flag(true);
            self.waiting.extend(read(&ask(&self.at, &request.out)?)?);
            let left = until.saturating_duration_since(Instant::now());
            if !self.waiting.is_empty() {
                self.pause = PAUSE_LEAST;
            } else if left.is_zero() {
                return Ok(None);
            } else {
                std::thread::sleep(self.pause.min(left));
                self.pause = (self.pause * 2).min(PAUSE_MOST);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn answer(success: bool, error: &str) -> PackWriter {
        PackWriter::default().map(3).text("Type").number(1).text("Success").flag(success).text("Error").text(error)
    }

    /// Daemon that gives these answers in turn; returns its socket, the requests, and the folder.
    fn daemon(answers: Vec<Vec<u8>>) -> (String, std::thread::JoinHandle<Vec<Vec<u8>>>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dtnd.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let requests = std::thread::spawn(move || {
            let serve = |answer: Vec<u8>| {
                let (mut socket, _) = listener.accept().unwrap();
                let mut length = [0; 8];
                socket.read_exact(&mut length).unwrap();
                let mut request = vec![0; u64::from_be_bytes(length) as usize];
                socket.read_exact(&mut request).unwrap();
                let _ = socket.write_all(&[&(answer.len() as u64).to_be_bytes()[..], &answer].concat());
                request
            };
            answers.into_iter().map(serve).collect()
        });
        (path.to_str().unwrap().into(), requests, folder)
    }

    fn contains(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn bundles_are_created_and_fetched() {
        let bundles = PackWriter::default().map(2).text("Success").flag(true).text("Bundles");
        let mut two = bundles.out;
        two.push(0x92);
        for payload in [&b"one"[..], b""] {
            let bundle = PackWriter::default().map(3).text("BundleID").text("x").text("SourceID").text("dtn://a/in");
            two.extend(bundle.text("Payload").bytes(payload).out);
        }
        let registered = answer(false, "ID has already been registered: dtn://peer/in").out;
        let answers = vec![registered.clone(), answer(true, "").out, registered, answer(true, "").out, two];
        let (at, requests, _folder) = daemon(answers);
        let lifetime = Duration::from_secs(60);
        let terms = SenderTerms { source: Some("dtn://peer/in".into()), lifetime, window: 1 };
        sender(&at, &terms).unwrap().hand_over("dtn://a/in", b"payload".to_vec()).unwrap();
        let mut receiver = receiver(&at, "dtn://peer/in").unwrap();
        for expected in [&b"one"[..], b""] {
            let delivered = receiver.receive(Duration::from_secs(20)).unwrap().unwrap();
            assert_eq!((delivered.bytes.as_slice(), delivered.source.as_deref()), (expected, Some("dtn://a/in")));
        }
        let requests = requests.join().unwrap();
        assert!(contains(&requests[1], b"payload_block\xc4\x07payload") && contains(&requests[1], b"60000ms"));
        assert!(contains(&requests[3], b"Mailbox\xd9\x0ddtn://peer/in"));
    }

    #[test]
    fn abstract_name_begins_with_at() {
        let name = format!("farlink-dtn7-go-{}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        connect(&format!("@{name}")).unwrap();
        listener.accept().unwrap();
        assert!(connect(&name).is_err());
    }

    #[test]
    fn refusals_and_nonsense_are_errors() {
        let (at, _requests, _folder) = daemon(vec![answer(false, "no such endpoint").out, vec![0xc1], vec![]]);
        for expected in ["the daemon refuses: no such endpoint", "makes no sense", "makes no sense"] {
            let why = receiver(&at, "dtn://peer/in").err().unwrap().to_string();
            assert!(why.contains(expected), "{why}");
        }
        let why = receiver("/no/such.sock", "dtn://peer/in").err().unwrap().to_string();
        assert!(why.contains("nothing answers at /no/such.sock") && why.contains("hint: "), "{why}");
        assert!(receiver(&at, "in").err().unwrap().to_string().contains("hint: "));
    }
}
