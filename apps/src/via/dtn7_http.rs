//! HTTP interface of dtn7-rs: bundles are sent from the node ID, and fetched whole by polling.

use super::{ANSWER_MAX, AttachedPair, BundleReceiver, BundleSender, DeliveredPayload, MESSAGE_MAX, SenderTerms, cbor};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use ureq::Agent;

/// Answer of the daemon for an empty endpoint.
const NOTHING: &[u8] = b"Nothing to receive";
/// Pause after the first empty answer, doubled up to [`PAUSE_MOST`]: the receiver must not keep the node busy.
const PAUSE_LEAST: Duration = Duration::from_millis(1);
/// Longest pause between two polls, and so the longest delay of a delivery.
const PAUSE_MOST: Duration = Duration::from_millis(5);
/// Most requests under way at once, each on a thread and a connection of its own.
const REQUESTS_MAX: u64 = 32;

/// Client of the HTTP interface.
#[derive(Clone)]
pub struct Dtn7Web {
    agent: Agent,
    /// Address, without a slash at its end.
    base: String,
}

impl Dtn7Web {
    /// Client of the interface at `http://host:port`.
    pub fn new(at: &str) -> Result<Dtn7Web> {
        let base = at.trim_end_matches('/');
        let host = base.strip_prefix("http://").unwrap_or_default();
        let whole = host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
        ensure!(whole && !host.contains('/'), "`{at}` is not the address of an HTTP interface\nhint: {ADDRESS}");
        let config = Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
        let config = config.timeout_connect(Some(ANSWER_MAX)).timeout_recv_response(Some(ANSWER_MAX)).build();
        Ok(Dtn7Web { agent: Agent::new_with_config(config), base: base.into() })
    }
    /// Host and port.
    pub fn host(&self) -> &str {
        self.base.trim_start_matches("http://")
    }
    /// Body of the answer to a GET request.
    pub fn get(&self, path: &str) -> Result<Vec<u8>> {
        self.answer(path, self.agent.get(format!("{}{path}", self.base)).call())
    }
    fn post(&self, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        self.answer(path, self.agent.post(format!("{}{path}", self.base)).send(body))
    }
    fn answer(&self, path: &str, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Vec<u8>> {
        let failed = |why: ureq::Error| match why {
            ureq::Error::Io(why) => anyhow!("nothing answers at {}: {why}\nhint: {ADDRESS}", self.base),
            why => anyhow!("{} does not answer as expected: {why}\nhint: {ADDRESS}", self.base),
        };
        let mut answer = answer.map_err(failed)?;
        let body = answer.body_mut().with_config().limit(MESSAGE_MAX).read_to_vec().map_err(failed)?;
        let status = answer.status().as_u16();
        if status != 200 {
            let words: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            bail!("{} answers {status} to {path}: {words}", self.base);
        }
        Ok(body)
    }
    /// ID of the node.
    pub fn node_id(&self) -> Result<String> {
        let text = String::from_utf8(self.get("/status/nodeid")?).ok();
        let id = text.as_deref().map(str::trim).filter(|id| id.starts_with("ipn:") || id.starts_with("dtn:"));
        Ok(id.with_context(|| format!("{} names no node ID\nhint: {ADDRESS}", self.base))?.into())
    }
    /// Registers a service or endpoint ID and returns the endpoint ID.
    pub fn register(&self, service: &str) -> Result<String> {
        let endpoint = crate::client::endpoint_of(&self.node_id()?, service);
        self.get(&format!("/register?{endpoint}"))?;
        Ok(endpoint)
    }
}

/// Hint in every error about the address of the daemon.
const ADDRESS: &str = "--at names the HTTP interface of the daemon, e.g. http://127.0.0.1:3000";

/// Attaches a sender; bundles leave from the node ID, `terms.source` is ignored.
pub fn sender(at: &str, terms: &SenderTerms) -> Result<HttpSender> {
    let web = Dtn7Web::new(at)?;
    // A wrong address fails here, before the first bundle.
    web.node_id()?;
    let ((jobs, queue), (done, results)) = (channel(), channel());
    let queue = Arc::new(Mutex::new(queue));
    let window = terms.window.clamp(1, REQUESTS_MAX);
    for _ in 0..window {
        let (web, queue, done) = (web.clone(), Arc::clone(&queue), done.clone());
        std::thread::Builder::new().name("http".into()).spawn(move || requests(&web, &queue, &done))?;
    }
    let lifetime_ms = terms.lifetime.as_millis();
    Ok(HttpSender { jobs, results, lifetime_ms, window, under_way: 0 })
}

/// Attaches a receiver.
pub fn receiver(at: &str, service: &str) -> Result<HttpReceiver> {
    let web = Dtn7Web::new(at)?;
    let endpoint = web.register(service)?;
    Ok(HttpReceiver { web, endpoint, pause: PAUSE_LEAST })
}

/// Attaches a sender and a receiver at the node ID; `terms.source` is ignored.
pub fn pair(at: &str, terms: &SenderTerms) -> Result<AttachedPair> {
    let web = Dtn7Web::new(at)?;
    let endpoint = web.node_id()?;
    let receiver = HttpReceiver { web, endpoint: endpoint.clone(), pause: PAUSE_LEAST };
    Ok(AttachedPair { sender: Box::new(sender(at, terms)?), receiver: Box::new(receiver), endpoint })
}

/// A bundle to send: the request's path and the payload.
type HttpJob = (String, Vec<u8>);

/// Sends queued bundles one after another, until the [`HttpSender`] is dropped.
fn requests(web: &Dtn7Web, queue: &Mutex<Receiver<HttpJob>>, done: &Sender<Result<()>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((path, payload)) = job else { return };
        if done.send(web.post(&path, &payload).map(drop)).is_err() {
            return;
        }
    }
}

/// Sender with a thread for each request of the window.
pub struct HttpSender {
    jobs: Sender<HttpJob>,
    results: Receiver<Result<()>>,
    lifetime_ms: u128,
    window: u64,
    under_way: u64,
}

impl HttpSender {
    /// Waits until at most this many requests are under way.
    fn wait_for(&mut self, most: u64) -> Result<()> {
        while self.under_way > most {
            self.results.recv().context("the requests ended")??;
            self.under_way -= 1;
        }
        Ok(())
    }
}

impl BundleSender for HttpSender {
    fn room(&mut self) -> Result<()> {
        self.wait_for(self.window - 1)
    }
    fn hand_over(&mut self, to: &str, payload: Vec<u8>) -> Result<()> {
        let path = format!("/send?dst={}&lifetime={}ms", escaped(to), self.lifetime_ms);
        self.jobs.send((path, payload)).ok().context("the requests ended")?;
        self.under_way += 1;
        Ok(())
    }
    fn finish(&mut self) -> Result<()> {
        self.wait_for(0)
    }
}

/// Receiver that polls for the next bundle.
pub struct HttpReceiver {
    web: Dtn7Web,
    endpoint: String,
    pause: Duration,
}

impl BundleReceiver for HttpReceiver {
    fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>> {
        let until = Instant::now() + wait;
        loop {
            let bundle = self.web.get(&format!("/endpoint?{}", self.endpoint))?;
            if bundle != NOTHING {
                self.pause = PAUSE_LEAST;
                let payload = cbor::payload(&bundle).context("the daemon delivers something that is no bundle")?;
                return Ok(Some(DeliveredPayload::now(cbor::source(&bundle), payload.to_vec())));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(self.pause.min(left));
            self.pause = (self.pause * 2).min(PAUSE_MOST);
        }
    }
}

/// Text for a query, in which all but letters, digits and `-._~` are escaped.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::via::cbor::tests::bundle;
    use std::collections::VecDeque;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Bundles at the endpoint of a [`daemon`], and the paths asked for.
    #[derive(Default)]
    pub struct DaemonState {
        pub bundles: Mutex<VecDeque<Vec<u8>>>,
        pub paths: Mutex<Vec<String>>,
    }

    /// Daemon whose endpoint delivers, as bundles, the payloads sent; returns its address.
    pub fn daemon() -> (String, Arc<DaemonState>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(DaemonState::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (socket, state) = (socket.unwrap(), Arc::clone(&shared));
                std::thread::spawn(move || serve(socket, &state));
            }
        });
        (address, state)
    }

    fn serve(mut socket: TcpStream, state: &DaemonState) -> Option<()> {
        let mut reader = BufReader::new(socket.try_clone().ok()?);
        loop {
            let (mut line, mut length) = (String::new(), 0);
            reader.read_line(&mut line).ok()?;
            let path = line.split(' ').nth(1)?.to_string();
            while line.trim_end() != "" {
                line.clear();
                reader.read_line(&mut line).ok()?;
                if let Some((_, value)) = line.to_lowercase().split_once("content-length:") {
                    length = value.trim().parse().ok()?;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let (status, answer) = answer(&path, &body, state);
            state.paths.lock().unwrap().push(path);
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", answer.len());
            socket.write_all(&[head.as_bytes(), &answer].concat()).ok()?;
        }
    }

    fn answer(path: &str, body: &[u8], state: &DaemonState) -> (&'static str, Vec<u8>) {
        match path.split('?').next().unwrap_or_default() {
            "/status/nodeid" => ("200 OK", b"ipn:2.0".to_vec()),
            "/register" => ("200 OK", b"Registered".to_vec()),
            "/send" if path.contains("ipn%3A9") => ("400 Bad Request", b"no such node".to_vec()),
            "/send" => {
                state.bundles.lock().unwrap().push_back(bundle(body));
                ("200 OK", b"Sent".to_vec())
            }
            _ => ("200 OK", state.bundles.lock().unwrap().pop_front().unwrap_or(NOTHING.to_vec())),
        }
    }

    fn terms(window: u64) -> SenderTerms {
        SenderTerms { source: None, lifetime: Duration::from_millis(90_500), window }
    }

    #[test]
    fn payloads_survive_the_round_trip() {
        let (at, state) = daemon();
        let (mut sender, mut receiver) = (sender(&at, &terms(4)).unwrap(), receiver(&at, "42").unwrap());
        let sizes = [1, 1000, 60_000, 1_000_000];
        for size in sizes {
            sender.room().unwrap();
            sender.hand_over("dtn://b/in", vec![size as u8; size]).unwrap();
        }
        sender.finish().unwrap();
        let mut came: Vec<usize> = sizes
            .map(|_| {
                let delivered = receiver.receive(Duration::from_secs(20)).unwrap().unwrap();
                assert_eq!(delivered.source.as_deref(), Some("ipn:2.1"));
                assert!(delivered.bytes.iter().all(|byte| *byte == delivered.bytes.len() as u8));
                delivered.bytes.len()
            })
            .to_vec();
        came.sort_unstable();
        assert_eq!(came, sizes);
        assert_eq!(receiver.receive(Duration::from_millis(1)).unwrap(), None);
        let paths = state.paths.lock().unwrap().join(" ");
        assert!(paths.contains("/register?ipn:2.42 ") && paths.contains("/endpoint?ipn:2.42 "), "{paths}");
        assert!(paths.contains("/send?dst=dtn%3A%2F%2Fb%2Fin&lifetime=90500ms"), "{paths}");
    }

    #[test]
    fn refusals_name_status_and_words() {
        let (at, _) = daemon();
        let mut sender = sender(&at, &terms(2)).unwrap();
        sender.hand_over("ipn:9.1", vec![1]).unwrap();
        let why = sender.finish().unwrap_err().to_string();
        assert!(why.contains("answers 400 to /send?dst=ipn%3A9.1") && why.contains("no such node"), "{why}");
    }

    #[test]
    fn wrong_addresses_carry_a_hint() {
        for at in ["127.0.0.1:3000", "http://127.0.0.1", "http://:3000", "http://a:3000/x", "http://a:99999", ""] {
            let why = Dtn7Web::new(at).err().map(|why| why.to_string()).unwrap_or_default();
            assert!(why.contains(&format!("`{at}` is not the address")) && why.contains("hint: "), "{why}");
        }
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let why = receiver(&format!("http://{closed}"), "42").err().unwrap().to_string();
        assert!(why.contains("nothing answers at http://127.0.0.1:") && why.contains("hint: "), "{why}");
    }

    #[test]
    fn random_answers_never_panic() {
        let mut random = farlink_base::Rng::new(9);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let _ = socket.read(&mut [0; 1000]);
                let mut noise: Vec<u8> = (0..random.below(200)).map(|_| random.next_u64() as u8).collect();
                if random.chance(0.7) {
                    // A claim of more than is sent, or than memory holds.
                    let length = if random.chance(0.5) { noise.len() as u64 } else { u64::MAX / 2 };
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                    noise = [head.as_bytes(), &noise].concat();
                }
                let _ = socket.write_all(&noise);
            }
        });
        for _ in 0..300 {
            let mut receiver =
                HttpReceiver { web: Dtn7Web::new(&at).unwrap(), endpoint: "x".into(), pause: PAUSE_LEAST };
            assert!(receiver.receive(Duration::ZERO).is_err());
        }
    }
}
