//! Objects that a policy written in Python receives: a node, its neighbours, a bundle, an event. Each is a snapshot of
//! one moment, which the policy may keep.

use crate::errors::mistake;
use farlink_base::{BundleMeta, EndpointId, Instant, NodeId, PeerId, Priority};
use farlink_book as book;
use farlink_book::{Handle, Held};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::sync::Arc;

/// Names of the scenario's nodes, by node number.
pub type Names = HashMap<NodeId, String>;

fn name_of(names: &Names, node: NodeId) -> String {
    names.get(&node).cloned().unwrap_or_else(|| node.to_string())
}

// Identifiers of peers and bundles are valid at one node only; at another they would mean other objects.
fn stranger(what: &str) -> PyErr {
    mistake(format!("a {what} as another node sees it\nhint: what one node's policy is shown is of use there alone"))
}

fn seconds(at: Option<Instant>) -> Option<f64> {
    // `Instant::MAX` means "never", which is None in Python.
    at.filter(|at| *at < Instant::MAX).map(Instant::as_secs_f64)
}

/// Neighbour, as it was at the moment of the question.
#[pyclass(frozen, get_all, module = "farlink")]
pub struct Peer {
    /// Name of the neighbour in the scenario.
    name: String,
    /// Node number of the neighbour.
    number: u64,
    /// Whether at least one link to the neighbour is up.
    is_up: bool,
    /// Number of links to the neighbour that are up.
    links: usize,
    /// End of the current contact by the contact plan, in seconds since the start; None without such a contact.
    until: Option<f64>,
    /// Start of the next contact by the contact plan, in seconds since the start; None without such a contact.
    next_up: Option<f64>,
    /// Rate of the fastest link to the neighbour, in bit/s; None if unknown.
    rate: Option<u64>,
    /// Free bytes of the neighbour's store, from its last hello; None before one.
    free: Option<u64>,
    /// Capacity of the neighbour's store in bytes, from its last hello; None before one.
    capacity: Option<u64>,
    /// Identifier of the neighbour at this node, which is never reused.
    id: u32,
    /// Number of the node that has this neighbour.
    of: u64,
}
impl Peer {
    /// Snapshot of a neighbour, as this node knows it.
    pub fn of(names: &Names, node: NodeId, peer: &book::Peer) -> Peer {
        Peer {
            of: node.0,
            name: name_of(names, peer.node),
            number: peer.node.0,
            is_up: peer.is_up(),
            links: peer.up.len(),
            until: seconds(peer.until),
            next_up: seconds(peer.next_up),
            rate: peer.rate.map(|rate| rate.0),
            free: peer.free,
            capacity: peer.capacity,
            id: peer.id.0,
        }
    }
    /// Identifier of the neighbour at this node.
    ///
    /// # Errors
    /// If the object is from the policy of another node.
    pub fn id_at(&self, node: NodeId) -> PyResult<PeerId> {
        if self.of == node.0 { Ok(PeerId(self.id)) } else { Err(stranger("peer")) }
    }
}
#[pymethods]
impl Peer {
    fn __repr__(&self) -> String {
        format!("Peer({:?}, number={}, is_up={})", self.name, self.number, if self.is_up { "True" } else { "False" })
    }
    fn __eq__(&self, other: &Peer) -> bool {
        // Neighbours without a node number are equal only if their identifiers at this node are.
        self.number == other.number && (self.number != 0 || self.id == other.id)
    }
    fn __hash__(&self) -> u64 {
        self.number
    }
}

/// Node whose policy is asked.
#[pyclass(frozen, module = "farlink")]
pub struct Node {
    /// Name of the node in the scenario.
    #[pyo3(get)]
    name: String,
    /// Node number of this node.
    #[pyo3(get)]
    number: u64,
    /// Time in seconds since the start of the run.
    #[pyo3(get)]
    now: f64,
    /// Capacity of the node's store, in bytes.
    #[pyo3(get)]
    capacity: u64,
    /// Bytes of all bundles in the node's store.
    #[pyo3(get)]
    stored: u64,
    /// Number of bundles in the node's store.
    #[pyo3(get)]
    count: usize,
    peers: Vec<Py<Peer>>,
}
impl Node {
    /// Snapshot of the node and of its reachable neighbours.
    ///
    /// # Errors
    /// If Python runs out of memory.
    pub fn of(py: Python<'_>, names: &Names, node: &book::Node<'_>) -> PyResult<Node> {
        // A neighbour whose node ID is not known yet cannot get a bundle.
        let known = node.peers.up().filter(|peer| !peer.names.is_empty());
        Ok(Node {
            name: name_of(names, node.me),
            number: node.me.0,
            now: node.now.as_secs_f64(),
            capacity: node.capacity,
            stored: node.book.bytes(),
            count: node.book.len(),
            // Created for every question: policies may keep a snapshot, which must not change.
            peers: known.map(|peer| Py::new(py, Peer::of(names, node.me, peer))).collect::<PyResult<_>>()?,
        })
    }
}
impl Node {
    /// Node ID of this node.
    pub fn id(&self) -> NodeId {
        NodeId(self.number)
    }
}
#[pymethods]
impl Node {
    /// Neighbours that are reachable now.
    #[getter]
    fn peers(&self, py: Python<'_>) -> Vec<Py<Peer>> {
        self.peers.iter().map(|peer| peer.clone_ref(py)).collect()
    }
    /// Free bytes of the node's store.
    #[getter]
    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.stored)
    }
    fn __repr__(&self) -> String {
        format!("Node({:?}, now={}, count={})", self.name, self.now, self.count)
    }
}

/// Bundle that the node holds or is offered.
#[pyclass(frozen, module = "farlink")]
pub struct Bundle {
    meta: Arc<BundleMeta>,
    names: Arc<Names>,
    handle: Handle,
    /// Node that holds the bundle.
    node: NodeId,
    from: PeerId,
    /// Number of the bundle at this node, in order of arrival.
    #[pyo3(get)]
    arrival: u64,
    /// Encoded length of the bundle, in bytes.
    #[pyo3(get)]
    size: u64,
    /// Seconds since the bundle was created.
    #[pyo3(get)]
    age: f64,
    /// Seconds of the bundle's lifetime that are left.
    #[pyo3(get)]
    remaining: f64,
    /// Number of hops that the bundle has taken so far.
    #[pyo3(get)]
    hops: u8,
    /// Label that the policy attached to the bundle.
    #[pyo3(get)]
    label: u32,
    /// True if a policy may discard the bundle.
    #[pyo3(get)]
    removable: bool,
}
impl Bundle {
    /// Takes a snapshot of a bundle that the node holds.
    pub fn of(names: &Arc<Names>, node: &book::Node<'_>, held: &Held) -> Bundle {
        Bundle {
            meta: held.bundle.clone(),
            names: names.clone(),
            handle: held.handle(),
            node: node.me,
            from: held.from,
            arrival: held.number,
            size: held.size(),
            age: held.age_ms(node.now) as f64 / 1000.0,
            remaining: held.remaining(node.now).as_secs_f64(),
            hops: held.hops,
            label: node.label(held),
            removable: held.is_removable(),
        }
    }
    /// Handle of the bundle at this node.
    ///
    /// # Errors
    /// If the object is from the policy of another node.
    pub fn handle_at(&self, node: NodeId) -> PyResult<Handle> {
        if self.node == node { Ok(self.handle) } else { Err(stranger("bundle")) }
    }
    /// Identity of the bundle, the same at every node.
    pub fn identity(&self) -> u128 {
        self.meta.id
    }
    fn name(&self, endpoint: &EndpointId) -> String {
        name_of(&self.names, endpoint.node())
    }
}
#[pymethods]
impl Bundle {
    /// Identity of the bundle, the same at every node.
    #[getter]
    fn id(&self) -> u128 {
        self.meta.id
    }
    /// Name of the source node in the scenario.
    #[getter]
    fn source(&self) -> String {
        self.name(&self.meta.source)
    }
    /// Name of the destination node in the scenario.
    #[getter]
    fn destination(&self) -> String {
        self.name(&self.meta.destination)
    }
    /// Number of the source node.
    #[getter]
    fn source_number(&self) -> u64 {
        self.meta.source.node().0
    }
    /// Number of the destination node.
    #[getter]
    fn destination_number(&self) -> u64 {
        self.meta.destination.node().0
    }
    /// Endpoint ID of the destination.
    #[getter]
    fn destination_id(&self) -> String {
        self.meta.destination.to_string()
    }
    /// Class of service: bulk, normal or expedited.
    #[getter]
    fn priority(&self) -> &'static str {
        match self.meta.priority {
            Priority::Bulk => "bulk",
            Priority::Normal => "normal",
            Priority::Expedited => "expedited",
        }
    }
    /// Lifetime of the bundle, in seconds.
    #[getter]
    fn lifetime(&self) -> f64 {
        self.meta.lifetime_ms as f64 / 1000.0
    }
    /// Whether the bundle came from this neighbour.
    fn came_from(&self, peer: &Peer) -> bool {
        peer.of == self.node.0 && self.from == PeerId(peer.id)
    }
    /// Whether the bundle was created at this node.
    #[getter]
    fn made_here(&self) -> bool {
        self.from == PeerId::NONE
    }
    fn __repr__(&self) -> String {
        format!("Bundle({:?} to {:?}, size={}, label={})", self.source(), self.destination(), self.size, self.label)
    }
}

/// Event at a node.
#[pyclass(frozen, module = "farlink")]
pub struct PolicyEvent {
    /// Kind of the event: up, down, link_up, link_down, heard, kept, handed, sent, failed, gone or wake.
    #[pyo3(get)]
    kind: &'static str,
    /// Reason for which a bundle is gone: delivered, forwarded, migrated, acked, overflow, displaced or deleted.
    #[pyo3(get)]
    why: Option<&'static str>,
    /// Label with which the bundle arrived, or that travelled with its copy.
    #[pyo3(get)]
    label: Option<u32>,
    /// True if a copy stays at this node.
    #[pyo3(get)]
    keep: Option<bool>,
    bytes: Option<Vec<u8>>,
    peer: Option<Py<Peer>>,
    bundle: Option<Py<Bundle>>,
}
impl PolicyEvent {
    /// Converts an event of the engine for Python.
    ///
    /// # Errors
    /// If Python runs out of memory.
    pub fn of(py: Python<'_>, names: &Arc<Names>, node: &book::Node<'_>, news: &book::PolicyEvent<'_>) -> PyResult<PolicyEvent> {
        use book::PolicyEvent as N;
        let seen = |id: PeerId| node.peers.get(id).map(|peer| Py::new(py, Peer::of(names, node.me, peer))).transpose();
        // The peer or bundle of an event may be gone already: Python then gets None.
        let held = |handle: Handle| node.get(handle).map(|held| Py::new(py, Bundle::of(names, node, held))).transpose();
        let plain = |kind| PolicyEvent { kind, why: None, label: None, keep: None, bytes: None, peer: None, bundle: None };
        let copied = |kind, bundle, to, gave, keep| {
            Ok(PolicyEvent { label: Some(gave), keep: Some(keep), peer: seen(to)?, bundle: held(bundle)?, ..plain(kind) })
        };
        match *news {
            N::Up { peer } => Ok(PolicyEvent { peer: seen(peer)?, ..plain("up") }),
            N::Down { peer } => Ok(PolicyEvent { peer: seen(peer)?, ..plain("down") }),
            N::LinkUp { peer, .. } => Ok(PolicyEvent { peer: seen(peer)?, ..plain("link_up") }),
            N::LinkDown { peer, .. } => Ok(PolicyEvent { peer: seen(peer)?, ..plain("link_down") }),
            N::Heard { from, bytes } => Ok(PolicyEvent { peer: seen(from)?, bytes: Some(bytes.to_vec()), ..plain("heard") }),
            N::Kept { bundle, wire } => Ok(PolicyEvent { bundle: held(bundle)?, label: wire, ..plain("kept") }),
            N::Handed { bundle, to, gave, keep } => copied("handed", bundle, to, gave, keep),
            N::Sent { bundle, to, gave, keep } => copied("sent", bundle, to, gave, keep),
            N::Failed { bundle, to, gave, keep } => copied("failed", bundle, to, gave, keep),
            N::Gone { bundle, why } => Ok(PolicyEvent { bundle: held(bundle)?, why: Some(word(why)), ..plain("gone") }),
            N::Wake => Ok(plain("wake")),
        }
    }
}
#[pymethods]
impl PolicyEvent {
    /// Neighbour that the event concerns, if any.
    #[getter]
    fn peer(&self, py: Python<'_>) -> Option<Py<Peer>> {
        self.peer.as_ref().map(|peer| peer.clone_ref(py))
    }
    /// Bundle that the event concerns, if any.
    #[getter]
    fn bundle(&self, py: Python<'_>) -> Option<Py<Bundle>> {
        self.bundle.as_ref().map(|bundle| bundle.clone_ref(py))
    }
    /// Message that the same policy at a neighbour sent, if the event is one.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.bytes.as_ref().map(|bytes| PyBytes::new(py, bytes))
    }
    fn __repr__(&self) -> String {
        format!("PolicyEvent({:?})", self.kind)
    }
}

fn word(why: book::Why) -> &'static str {
    match why {
        book::Why::Delivered => "delivered",
        book::Why::Forwarded => "forwarded",
        book::Why::Migrated(_) => "migrated",
        book::Why::Acked => "acked",
        book::Why::Overflow => "overflow",
        book::Why::Deleted(_) => "deleted",
        book::Why::Displaced => "displaced",
    }
}
