//! Applications over AAP2 of µD3TN, at a socket: connections that send, and one connection for each endpoint that
//! receives. A bundle counts as delivered once it is on its way to the receiver; its answers are not awaited.

use crate::{Failure, LIFETIME};
use bytes::{Buf, BytesMut};
use hardy_bpa::bpa::{Bpa, BpaRegistration};
use hardy_bpa::services::{self, Application, ApplicationSink, StatusNotify};
use hardy_bpa::{Bytes, async_trait};
use hardy_bpv7::bundle::Id;
use hardy_bpv7::eid::{Eid, Service};
use hardy_bpv7::status_report::ReasonCode;
use prost::Message;
use proto::{AapBody, AapMessage, AapResponse, AapStatus, BundleAdu};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{Mutex, mpsc};

/// Messages of Farlink's own server and client. Its crate would bring the versions of Farlink into this lock file.
#[allow(dead_code)]
#[path = "../../../../aap2/src/proto.rs"]
mod proto;

/// Longest payload of an application.
const PAYLOAD_MAX: u64 = 256 << 20;
/// Deliveries that wait for a receiver to read.
const QUEUE: usize = 64;

type Delivery = (Eid, Bytes);

/// Endpoint in use; without a receiver, bundles wait in Hardy's store for one.
struct Endpoint {
    sink: OnceLock<Box<dyn ApplicationSink>>,
    receiver: Option<mpsc::Sender<Delivery>>,
}

#[async_trait]
impl Application for Endpoint {
    async fn on_register(&self, _: &Eid, sink: Box<dyn ApplicationSink>) {
        let _ = self.sink.set(sink);
    }
    async fn on_unregister(&self) {}
    async fn on_receive(&self, from: Eid, _: time::OffsetDateTime, _: bool, payload: Bytes) -> services::Result<()> {
        let receiver = self.receiver.as_ref().ok_or(services::Error::Disconnected)?;
        receiver.send((from, payload)).await.map_err(|_| services::Error::Disconnected)
    }
    async fn on_status_notify(&self, _: &Id, _: &Eid, _: StatusNotify, _: ReasonCode, _: Option<time::OffsetDateTime>) {
    }
}

struct Applications {
    bpa: Arc<Bpa>,
    endpoints: Mutex<HashMap<Service, Arc<Endpoint>>>,
}

impl Applications {
    /// Registers an endpoint. A sender uses an existing registration; a receiver replaces it, since Hardy delivers
    /// waiting bundles only at a registration.
    async fn register(&self, service: Service, receiver: Option<mpsc::Sender<Delivery>>) -> services::Result<()> {
        let mut endpoints = self.endpoints.lock().await;
        if let Some(known) = endpoints.get(&service) {
            if receiver.is_none() {
                return Ok(());
            }
            if let Some(sink) = known.sink.get() {
                sink.unregister().await;
            }
        }
        let endpoint = Arc::new(Endpoint { sink: OnceLock::new(), receiver });
        // First, as it delivers while it registers, and the application may answer at once.
        endpoints.insert(service.clone(), endpoint.clone());
        self.bpa.register_application(service, endpoint).await.map(drop)
    }

    async fn send(&self, service: &Service, adu: &BundleAdu, payload: Vec<u8>) -> Result<(), AapStatus> {
        let to: Eid = adu.dst_eid.parse().map_err(|_| AapStatus::InvalidRequest)?;
        let endpoint = self.endpoints.lock().await.get(service).cloned();
        let sink = endpoint.as_ref().and_then(|endpoint| endpoint.sink.get()).ok_or(AapStatus::NotFound)?;
        let lifetime = if adu.lifetime_ms == 0 { LIFETIME } else { Duration::from_millis(adu.lifetime_ms) };
        let sent = sink.send(to, payload.into(), lifetime, None).await;
        sent.map(drop).inspect_err(|why| eprintln!("not sent to {}: {why}", adu.dst_eid)).map_err(|_| AapStatus::Error)
    }
}

/// Serves applications at a socket, which appears once they may attach.
pub async fn serve(bpa: Arc<Bpa>, node: &Eid, path: &str) -> Result<(), Failure> {
    // One that an earlier node left behind.
    let _ = std::fs::remove_file(path);
    let listener = tokio::net::UnixListener::bind(path)?;
    let applications = Arc::new(Applications { bpa, endpoints: Mutex::default() });
    let greeting = proto::greeting(&node.to_string());
    loop {
        let (stream, _) = listener.accept().await?;
        let (applications, greeting) = (applications.clone(), greeting.clone());
        tokio::spawn(async move {
            if let Err(why) = attend(&applications, stream, &greeting).await {
                eprintln!("application: {why}");
            }
        });
    }
}

/// Serves one connection until it ends.
async fn attend(applications: &Arc<Applications>, mut stream: UnixStream, greeting: &[u8]) -> Result<(), Failure> {
    stream.write_all(greeting).await?;
    let (input, mut output) = stream.into_split();
    let mut input = Input { stream: input, bytes: BytesMut::new() };
    let Some(AapBody::Config(config)) = input.message().await? else { return Ok(()) };
    let (sender, mut deliveries) = mpsc::channel(QUEUE);
    let service = config.endpoint_id.parse::<Eid>().ok().and_then(|endpoint| endpoint.service());
    let Some(service) = service else {
        output.write_all(&answer(AapStatus::InvalidRequest)).await?;
        return Ok(());
    };
    if config.is_subscriber {
        output.write_all(&answer(AapStatus::Success)).await?;
        // Beside the deliveries: what waited is delivered before the registration ends.
        let applications = applications.clone();
        let registered = tokio::spawn(async move { applications.register(service, Some(sender)).await });
        let gone = async move {
            let mut answers = vec![0; 4096];
            while input.stream.read(&mut answers).await.is_ok_and(|read| read > 0) {}
        };
        tokio::pin!(gone);
        loop {
            let (from, payload) = tokio::select! {
                delivery = deliveries.recv() => match delivery {
                    Some(delivery) => delivery,
                    // Another receiver took its place, or it was refused.
                    None => return Ok(registered.await??),
                },
                () = &mut gone => return Ok(()),
            };
            let payload_length = payload.len() as u64;
            let adu = BundleAdu { src_eid: from.to_string(), payload_length, ..Default::default() };
            let mut out = BytesMut::new();
            proto::frame(&AapMessage::new(AapBody::Adu(adu)), &mut out);
            out.extend_from_slice(&payload);
            output.write_all(&out).await?;
        }
    }
    applications.register(service.clone(), None).await?;
    output.write_all(&answer(AapStatus::Success)).await?;
    while let Some(message) = input.message().await? {
        let status = match message {
            AapBody::Adu(adu) => {
                let payload = input.payload(adu.payload_length).await?;
                applications.send(&service, &adu, payload).await.err().unwrap_or(AapStatus::Success)
            }
            AapBody::Keepalive(_) => AapStatus::Ack,
            _ => AapStatus::InvalidRequest,
        };
        output.write_all(&answer(status)).await?;
    }
    Ok(())
}

fn answer(status: AapStatus) -> BytesMut {
    let mut out = BytesMut::new();
    proto::frame(&AapResponse::new(status), &mut out);
    out
}

/// Bytes of an application.
struct Input {
    stream: OwnedReadHalf,
    bytes: BytesMut,
}

impl Input {
    /// Next message; `None` at the end.
    async fn message(&mut self) -> Result<Option<AapBody>, Failure> {
        loop {
            if let Some(message) = proto::deframe(&mut self.bytes)? {
                return Ok(AapMessage::decode(message)?.body);
            }
            if self.stream.read_buf(&mut self.bytes).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Payload of this length, which follows a message.
    async fn payload(&mut self, length: u64) -> Result<Vec<u8>, Failure> {
        if length > PAYLOAD_MAX {
            return Err(format!("a payload of {length} B: more than {PAYLOAD_MAX}").into());
        }
        let here = self.bytes.len().min(length as usize);
        let mut payload = self.bytes[..here].to_vec();
        self.bytes.advance(here);
        (&mut self.stream).take(length - here as u64).read_to_end(&mut payload).await?;
        if (payload.len() as u64) < length { Err("it ended within a payload".into()) } else { Ok(payload) }
    }
}
