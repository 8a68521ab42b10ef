//! A node on Hardy's published crates, over TCPCLv4, driven over standard input and output:
//! `farlink-hardy-peer NODE LISTEN [--connect ADDRESS] [--tls CERTIFICATE KEY AUTHORITIES]`; the last is a folder.
//!
//! Frames, both ways: a letter, a length (4 bytes, big-endian) and that many bytes. Input: `S` sends a payload (an
//! endpoint, a zero byte, the payload). Output: `K` ready, `A` accepted, `E` failed with the reason, `D` a delivered
//! payload, `R` a delivery report. `xtask/src/interop/hardy.rs` starts it.

use hardy_bpa::bpa::{Bpa, BpaRegistration};
use hardy_bpa::services::{self, Application, ApplicationSink, SendOptions, StatusNotify};
use hardy_bpa::{Bytes, async_trait, node_ids::NodeIds};
use hardy_bpv7::bundle::Id;
use hardy_bpv7::eid::{Eid, NodeId, Service};
use hardy_bpv7::status_report::ReasonCode;
use hardy_echo_service::EchoService;
use hardy_tcpclv4::Cla;
use hardy_tcpclv4::config::{Config, TlsConfig};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Services of the application and of the echo.
const APPLICATION: u32 = 42;
const ECHO: u32 = 7;
const LIFETIME: Duration = Duration::from_secs(3_600);
/// Pause between attempts to connect to the neighbour.
const AGAIN: Duration = Duration::from_millis(200);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Writes one frame to standard output.
fn say(letter: u8, body: &[u8]) {
    let mut out = std::io::stdout().lock();
    let head = [&[letter][..], &(body.len() as u32).to_be_bytes()].concat();
    // An error means that the reader is gone.
    let _ = out.write_all(&head).and_then(|()| out.write_all(body)).and_then(|()| out.flush());
}

/// Reads the next frame from standard input; `None` at its end.
fn heard() -> Option<(u8, Vec<u8>)> {
    let mut input = std::io::stdin().lock();
    let mut head = [0; 5];
    input.read_exact(&mut head).ok()?;
    let [letter, length @ ..] = head;
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    input.read_exact(&mut body).ok()?;
    Some((letter, body))
}

#[derive(Default)]
struct Talker {
    sink: OnceLock<Box<dyn ApplicationSink>>,
}

impl Talker {
    async fn send(&self, frame: &[u8]) -> Result<(), Failure> {
        let end = frame.iter().position(|byte| *byte == 0).ok_or("no endpoint")?;
        let destination: Eid = std::str::from_utf8(&frame[..end])?.parse()?;
        let sink = self.sink.get().ok_or("not registered")?;
        let options = SendOptions { notify_delivery: true, ..Default::default() };
        sink.send(destination, Bytes::copy_from_slice(&frame[end + 1..]), LIFETIME, Some(options)).await?;
        Ok(())
    }
}

#[async_trait]
impl Application for Talker {
    async fn on_register(&self, _: &Eid, sink: Box<dyn ApplicationSink>) {
        let _ = self.sink.set(sink);
    }
    async fn on_unregister(&self) {}
    async fn on_receive(&self, _: Eid, _: time::OffsetDateTime, _: bool, payload: Bytes) -> services::Result<()> {
        say(b'D', &payload);
        Ok(())
    }
    async fn on_status_notify(
        &self,
        _: &Id,
        _: &Eid,
        kind: StatusNotify,
        _: ReasonCode,
        _: Option<time::OffsetDateTime>,
    ) {
        if kind == StatusNotify::Delivered {
            say(b'R', &[]);
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(node), Some(listen)) = (arguments.next(), arguments.next()) else {
        return Err("farlink-hardy-peer NODE LISTEN [--connect ADDRESS] [--tls CERTIFICATE KEY AUTHORITIES]".into());
    };
    let node = NodeId::try_from(node.parse::<Eid>()?)?;
    let mut config = Config { address: Some(listen.parse()?), ..Default::default() };
    let mut connect: Option<SocketAddr> = None;
    while let Some(option) = arguments.next() {
        let mut word = || arguments.next().ok_or(format!("{option} wants more"));
        if option == "--connect" {
            connect = Some(word()?.parse()?);
        } else {
            let mut file = || word().map(|path| Some(path.into()));
            let (cert_file, private_key_file, ca_certs) = (file()?, file()?, file()?);
            config.tls = Some(TlsConfig { cert_file, private_key_file, ca_certs, ..Default::default() });
            config.session_defaults.require_tls = true;
        }
    }
    let cla = Arc::new(Cla::new(&config)?);
    let bpa = Bpa::builder()
        .node_ids(NodeIds::try_from(&[node][..])?)
        .status_reports(true)
        .service(Arc::new(EchoService::new()), Service::Ipn(ECHO))
        .cla("tcp", cla.clone(), None)
        .build()
        .await?;
    bpa.start(false);
    let talker = Arc::new(Talker::default());
    bpa.register_application(Service::Ipn(APPLICATION), talker.clone()).await?;
    if let Some(address) = connect {
        while cla.connect(&address).await.is_err() {
            tokio::time::sleep(AGAIN).await;
        }
    }
    say(b'K', &[]);
    let (frames, mut commands) = tokio::sync::mpsc::channel(16);
    std::thread::spawn(move || {
        while let Some(frame) = heard() {
            if frames.blocking_send(frame).is_err() {
                break;
            }
        }
    });
    while let Some((_, frame)) = commands.recv().await {
        match talker.send(&frame).await {
            Ok(()) => say(b'A', &[]),
            Err(why) => say(b'E', why.to_string().as_bytes()),
        }
    }
    Ok(())
}
