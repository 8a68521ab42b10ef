//! A node on Hardy's published crates, over TCPCLv4: `farlink-hardy-peer NODE LISTEN [--connect ADDRESS]...
//! [--route NODE NEIGHBOUR]... [--aap2 SOCKET] [--tls CERTIFICATE KEY AUTHORITIES]`; the last is a folder.
//!
//! With `--aap2`, applications attach at a socket ([`aap2`]); `lab/drivers/hardy` starts it so. Without, it has one
//! application, driven over standard input and output by frames: a letter, a length (4 bytes, big-endian) and that many
//! bytes. Input: `S` sends a payload (an endpoint, a zero byte, the payload). Output: `K` ready, `A` accepted, `E`
//! failed with the reason, `D` a delivered payload, `R` a delivery report. `trials/src/interop/hardy.rs` starts it so.

mod aap2;
mod neighbours;

use hardy_bpa::bpa::{Bpa, BpaRegistration};
use hardy_bpa::routing::{RouteAction, StaticRoutingAgent};
use hardy_bpa::services::{self, Application, ApplicationSink, SendOptions, StatusNotify};
use hardy_bpa::{Bytes, async_trait, node_ids::NodeIds};
use hardy_bpv7::bundle::Id;
use hardy_bpv7::eid::{Eid, NodeId, Service};
use hardy_bpv7::status_report::ReasonCode;
use hardy_echo_service::EchoService;
use hardy_tcpclv4::Cla;
use hardy_tcpclv4::config::{Config, TlsConfig};
use neighbours::Neighbours;
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Services of the application and of the echo.
const APPLICATION: u32 = 42;
const ECHO: u32 = 7;
const LIFETIME: Duration = Duration::from_secs(3_600);
/// Priority of the routes of `--route`; there are no others to the same nodes.
const PRIORITY: u32 = 100;
const USAGE: &str = "farlink-hardy-peer --version | NODE LISTEN [--connect ADDRESS]... [--route NODE NEIGHBOUR]... \
    [--aap2 SOCKET] [--tls CERTIFICATE KEY AUTHORITIES]";

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
    let node = arguments.next().ok_or(USAGE)?;
    if node == "--version" {
        // That of the crate with the convergence layer.
        let version =
            include_str!("../Cargo.toml").split("hardy-tcpclv4 = \"=").nth(1).and_then(|rest| rest.split('"').next());
        println!("hardy {}", version.ok_or("no version")?);
        return Ok(());
    }
    let node: Eid = node.parse()?;
    let mut config = Config { address: Some(arguments.next().ok_or(USAGE)?.parse()?), ..Default::default() };
    let (mut connect, mut routes, mut socket) = (Vec::new(), Vec::new(), None);
    while let Some(option) = arguments.next() {
        let mut word = || arguments.next().ok_or(format!("{option} wants more\n{USAGE}"));
        match option.as_str() {
            "--connect" => connect.push(word()?.parse()?),
            "--route" => {
                let to = format!("ipn:{}.*", word()?).parse()?;
                routes.push((to, RouteAction::Via(format!("ipn:{}.0", word()?).parse()?), PRIORITY));
            }
            "--aap2" => socket = Some(word()?),
            "--tls" => {
                let mut file = || word().map(|path| Some(path.into()));
                let (cert_file, private_key_file, ca_certs) = (file()?, file()?, file()?);
                config.tls = Some(TlsConfig { cert_file, private_key_file, ca_certs, ..Default::default() });
                config.session_defaults.require_tls = true;
            }
            _ => return Err(format!("unknown option {option}\n{USAGE}").into()),
        }
    }
    let cla = Arc::new(Cla::new(&config)?);
    let neighbours = Arc::new(Neighbours::new(cla, &connect));
    let bpa = Bpa::builder()
        .node_ids(NodeIds::try_from(&[NodeId::try_from(node.clone())?][..])?)
        .status_reports(true)
        .service(Arc::new(EchoService::new()), Service::Ipn(ECHO))
        .cla("tcp", neighbours.clone(), None)
        .routing_agent("routes", Arc::new(StaticRoutingAgent::new(&routes)))
        .build()
        .await?;
    bpa.start(false);
    if let Some(socket) = socket {
        neighbours.connect();
        return aap2::serve(Arc::new(bpa), &node, &socket).await;
    }
    let talker = Arc::new(Talker::default());
    bpa.register_application(Service::Ipn(APPLICATION), talker.clone()).await?;
    neighbours.connect();
    neighbours.connected().await;
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
