//! Application interfaces of DTN implementations behind two traits: the client library of `farlink app`.
//!
//! Each file holds the client of one interface. All payloads carry a [`stamp::Stamp`], so that bundles are counted and
//! timed alike whatever delivers them. Read [`BundleSender`] and [`BundleReceiver`] first, then [`send`] and
//! [`receive`], which use them.

mod aap2;
mod cbor;
mod dtn7_go;
mod dtn7_http;
mod dtn7_ws;
pub mod echo;
pub mod event;
pub mod file;
mod frames;
pub mod frames_host;
mod lines;
mod msgpack;
pub mod ping;
pub mod programs;
mod queue;
mod ranges;
pub mod ready;
pub mod receive;
pub mod send;
pub mod stamp;
mod websocket;

use anyhow::{Result, bail};
use std::time::Duration;

/// Longest payload or message accepted from an implementation, bytes.
const MESSAGE_MAX: u64 = 256 << 20;
/// Interval at which a wait checks the stop flag.
const ATTENTION: Duration = Duration::from_millis(50);
/// Longest wait for the answer of an implementation.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Kind of an application interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// AAP2 of µD3TN and of Farlink, over a socket.
    Aap2,
    /// HTTP interface of dtn7-rs.
    Dtn7Http,
    /// WebSocket interface of dtn7-rs.
    Dtn7Ws,
    /// Unix socket of dtn7-go.
    Dtn7Go,
    /// Frames over the standard streams of a program, or a socket.
    Frames,
    /// Programs of the implementation itself.
    Programs,
}

impl Via {
    /// Names of the interfaces on the command line; `farlink` and `aap2` mean the same.
    pub const WORDS: [&str; 7] = ["farlink", "aap2", "dtn7-http", "dtn7-ws", "dtn7-go", "frames", "programs"];

    /// Kind named by a word of [`Via::WORDS`].
    pub fn parse(word: &str) -> Option<Via> {
        Some(match word {
            "farlink" | "aap2" => Via::Aap2,
            "dtn7-http" => Via::Dtn7Http,
            "dtn7-ws" => Via::Dtn7Ws,
            "dtn7-go" => Via::Dtn7Go,
            "frames" => Via::Frames,
            "programs" => Via::Programs,
            _ => return None,
        })
    }
}

/// Sender of bundles at a node.
pub trait BundleSender: Send {
    /// Waits until another bundle may be handed over.
    ///
    /// # Errors
    /// If the node refused an earlier bundle, or is gone.
    fn room(&mut self) -> Result<()>;
    /// Hands a bundle over; it may be accepted later.
    ///
    /// # Errors
    /// If the node refuses it, or is gone.
    fn hand_over(&mut self, to: &str, payload: Vec<u8>) -> Result<()>;
    /// Waits until every bundle handed over is accepted.
    ///
    /// # Errors
    /// If the node refused a bundle, or is gone.
    fn finish(&mut self) -> Result<()>;
}

/// Payload delivered to an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredPayload {
    /// `CLOCK_MONOTONIC` at delivery, ns.
    pub at_ns: u64,
    /// Source endpoint ID, where the interface names it.
    pub source: Option<String>,
    /// The payload; empty where the interface only counts.
    pub bytes: Vec<u8>,
}

impl DeliveredPayload {
    /// Payload delivered now.
    fn now(source: Option<String>, bytes: Vec<u8>) -> DeliveredPayload {
        DeliveredPayload { at_ns: farlink_os::monotonic_ns(), source, bytes }
    }
}

/// Receiver of bundles at a node.
pub trait BundleReceiver: Send {
    /// Next payload, or `None` if none arrives within `wait`.
    ///
    /// # Errors
    /// If the node is gone, or delivers something that is no bundle.
    fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>>;
}

/// Sender and receiver of one endpoint.
pub struct AttachedPair {
    /// Sender from the endpoint.
    pub sender: Box<dyn BundleSender>,
    /// Receiver at the endpoint.
    pub receiver: Box<dyn BundleReceiver>,
    /// Endpoint ID that answers reach.
    pub endpoint: String,
}

/// Parameters of senders.
#[derive(Clone, Debug)]
pub struct SenderTerms {
    /// Service or endpoint ID to send from; `None`: chosen by the interface.
    pub source: Option<String>,
    /// Lifetime of the bundles.
    pub lifetime: Duration,
    /// Most bundles handed over and not yet accepted, where the interface confirms them.
    pub window: u64,
}

/// Application interface of a node.
#[derive(Clone, Debug)]
pub struct AppInterface {
    /// Kind of the interface.
    pub via: Via,
    /// Address of the interface: the path of a socket, a network address, or the file that lists the programs.
    pub at: String,
}

impl AppInterface {
    /// Checks the address as far as that is possible before a node runs.
    ///
    /// # Errors
    /// If a network address is malformed, or the file of programs cannot be read or used.
    pub fn check(&self) -> Result<()> {
        match self.via {
            Via::Dtn7Http | Via::Dtn7Ws => dtn7_http::Dtn7Web::new(&self.at).map(drop),
            Via::Programs => programs::Programs::read(&self.at).map(drop),
            Via::Aap2 | Via::Dtn7Go | Via::Frames => Ok(()),
        }
    }
    /// Attaches a sender.
    ///
    /// # Errors
    /// If nothing answers there, or refuses the source.
    pub fn sender(&self, terms: &SenderTerms) -> Result<Box<dyn BundleSender>> {
        Ok(match self.via {
            Via::Aap2 => Box::new(aap2::sender(&self.at, terms)?),
            Via::Dtn7Http => Box::new(dtn7_http::sender(&self.at, terms)?),
            Via::Dtn7Ws => Box::new(dtn7_ws::sender(&self.at, terms)?),
            Via::Dtn7Go => Box::new(dtn7_go::sender(&self.at, terms)?),
            Via::Frames => Box::new(frames::sender(&self.at, terms)?),
            Via::Programs => programs::Programs::read(&self.at)?.sender(terms)?,
        })
    }
    /// Attaches a receiver at a service or endpoint ID.
    ///
    /// # Errors
    /// If nothing answers there, or refuses the endpoint.
    pub fn receiver(&self, service: &str) -> Result<Box<dyn BundleReceiver>> {
        Ok(match self.via {
            Via::Aap2 => Box::new(aap2::receiver(&self.at, service)?),
            Via::Dtn7Http => Box::new(dtn7_http::receiver(&self.at, service)?),
            Via::Dtn7Ws => Box::new(dtn7_ws::receiver(&self.at, service)?),
            Via::Dtn7Go => Box::new(dtn7_go::receiver(&self.at, service)?),
            Via::Frames => Box::new(frames::receiver(&self.at)?),
            Via::Programs => programs::Programs::read(&self.at)?.receiver(service)?,
        })
    }
    /// Attaches a receiver at a service, and a sender for its answers.
    ///
    /// # Errors
    /// If nothing answers there, or refuses the endpoint.
    pub fn service(&self, service: &str, terms: &SenderTerms) -> Result<AttachedPair> {
        if self.via == Via::Frames {
            // A program with frames has one endpoint, at which it both sends and receives.
            return self.pair(terms);
        }
        let receiver = self.receiver(service)?;
        Ok(AttachedPair { sender: self.sender(terms)?, receiver, endpoint: service.into() })
    }
    /// Attaches a sender and a receiver of its answers. dtn7-rs over HTTP sends from the node ID only, and ignores the
    /// source.
    ///
    /// # Errors
    /// If nothing answers there, or refuses the endpoint, or the interface needs an endpoint ID and none is given.
    pub fn pair(&self, terms: &SenderTerms) -> Result<AttachedPair> {
        match self.via {
            Via::Aap2 => aap2::pair(&self.at, terms),
            Via::Dtn7Http => dtn7_http::pair(&self.at, terms),
            Via::Dtn7Ws => dtn7_ws::pair(&self.at, terms),
            Via::Dtn7Go => {
                let endpoint = whole_endpoint(terms)?;
                let receiver = Box::new(dtn7_go::receiver(&self.at, &endpoint)?);
                Ok(AttachedPair { sender: Box::new(dtn7_go::sender(&self.at, terms)?), receiver, endpoint })
            }
            Via::Frames => frames::pair(&self.at, terms, whole_endpoint(terms)?),
            Via::Programs => {
                let (programs, endpoint) = (programs::Programs::read(&self.at)?, whole_endpoint(terms)?);
                let receiver = programs.receiver(&endpoint)?;
                Ok(AttachedPair { sender: programs.sender(terms)?, receiver, endpoint })
            }
        }
    }
}

/// Source endpoint ID, for interfaces that give no node ID with which a bare service could be completed.
fn whole_endpoint(terms: &SenderTerms) -> Result<String> {
    match &terms.source {
        Some(source) if source.contains(':') => Ok(source.clone()),
        Some(source) => {
            bail!("`{source}` is not an endpoint ID, which this interface needs\nhint: write ipn:NODE.SERVICE")
        }
        None => bail!("this interface needs the endpoint ID to send from\nhint: name it with --source, e.g. ipn:1.65"),
    }
}
