//! TCPCLv4 of Hardy, connected again to neighbours whose session ended: by itself it connects only for a bundle to a
//! neighbour that it knows, and it forgets one without a session.

use hardy_bpa::cla::{self, ClaAddress, ClaAddressType, ForwardBundleResult, Sink};
use hardy_bpa::{Bytes, async_trait};
use hardy_bpv7::eid::NodeId;
use hardy_tcpclv4::Cla;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Pause between attempts to connect.
const AGAIN: Duration = Duration::from_millis(200);

/// Whether there is a session with each neighbour to connect to.
type Sessions = Arc<HashMap<SocketAddr, watch::Sender<bool>>>;

pub struct Neighbours {
    cla: Arc<Cla>,
    sessions: Sessions,
}

impl Neighbours {
    pub fn new(cla: Arc<Cla>, addresses: &[SocketAddr]) -> Neighbours {
        let sessions = addresses.iter().map(|address| (*address, watch::Sender::new(false))).collect();
        Neighbours { cla, sessions: Arc::new(sessions) }
    }

    /// Starts to connect to all of them, and to connect again whenever a session ends.
    pub fn connect(&self) {
        for (address, session) in self.sessions.iter() {
            let (cla, address, mut session) = (self.cla.clone(), *address, session.subscribe());
            tokio::spawn(async move {
                // The wait ends with an error when the node does.
                while session.wait_for(|up| !up).await.is_ok() {
                    // A session that was opened is noted a moment later.
                    if cla.connect(&address).await.is_ok() {
                        let _ = tokio::time::timeout(AGAIN, session.wait_for(|up| *up)).await;
                    } else {
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            });
        }
    }

    /// Waits until there is a session with each.
    pub async fn connected(&self) {
        for session in self.sessions.values() {
            let _ = session.subscribe().wait_for(|up| *up).await;
        }
    }
}

#[async_trait]
impl cla::Cla for Neighbours {
    async fn on_register(&self, sink: Box<dyn Sink>, nodes: &[NodeId]) {
        self.cla.on_register(Box::new(Watched { sink, sessions: self.sessions.clone() }), nodes).await;
    }
    async fn on_unregister(&self) {
        self.cla.on_unregister().await;
    }
    fn address_type(&self) -> Option<ClaAddressType> {
        self.cla.address_type()
    }
    fn queue_count(&self) -> u32 {
        self.cla.queue_count()
    }
    async fn forward(&self, queue: Option<u32>, to: &ClaAddress, bundle: Bytes) -> cla::Result<ForwardBundleResult> {
        self.cla.forward(queue, to, bundle).await
    }
}

/// Sink that notes which neighbours come and go.
struct Watched {
    sink: Box<dyn Sink>,
    sessions: Sessions,
}

impl Watched {
    fn note(&self, address: &ClaAddress, up: bool) {
        if let ClaAddress::Tcp(address) = address
            && let Some(session) = self.sessions.get(address)
        {
            session.send_replace(up);
        }
    }
}

#[async_trait]
impl Sink for Watched {
    async fn unregister(&self) {
        self.sink.unregister().await;
    }
    async fn dispatch(&self, bundle: Bytes, node: Option<&NodeId>, address: Option<&ClaAddress>) -> cla::Result<()> {
        self.sink.dispatch(bundle, node, address).await
    }
    async fn add_peer(&self, address: ClaAddress, nodes: &[NodeId]) -> cla::Result<bool> {
        self.note(&address, true);
        self.sink.add_peer(address, nodes).await
    }
    async fn remove_peer(&self, address: &ClaAddress) -> cla::Result<bool> {
        self.note(address, false);
        self.sink.remove_peer(address).await
    }
}
