//! The agent's door to wire formats. The stack stands behind it with its codecs; the agent itself
//! knows no version of the bundle protocol.

use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{
    BundleId, BundleMeta, Bytes, CreationTimestamp, DeleteReason, DtnTime, EndpointId, Facts, HopState, Malformed,
    Payload, Priority, Refusal,
};

/// A bundle to be made.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Version of the bundle protocol.
    pub version: u8,
    /// Source.
    pub source: EndpointId,
    /// Destination.
    pub destination: EndpointId,
    /// Where reports go; null for nowhere.
    pub report_to: EndpointId,
    /// What it is and asks for.
    pub facts: Facts,
    /// Lifetime, ms.
    pub lifetime_ms: u64,
    /// Class of service.
    pub priority: Priority,
    /// Most hops; 0 for no limit.
    pub hop_limit: u8,
    /// Number and flags of its compressed reporting block.
    pub compressed: Option<(u64, u64)>,
}

/// What a status report asserts (RFC 9171 6.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The node received the bundle.
    Received,
    /// The node forwarded it.
    Forwarded,
    /// The node delivered it.
    Delivered,
    /// The node deleted it.
    Deleted,
}

/// What a custodian is told about a bundle it handed over (RFC 5050 6.1.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Answer {
    /// Custody was taken, or the bundle delivered.
    Taken,
    /// Whoever says so had custody of it before.
    Redundant,
    /// There is no room for it.
    Depleted,
    /// Its destination cannot be understood.
    Unintelligible,
    /// There is no way to its destination.
    NoRoute,
    /// There is no contact in time.
    NoContact,
    /// A block of it cannot be understood.
    BadBlock,
    /// Custody was refused, and nobody says why.
    Refused,
}
impl Answer {
    /// Whether another node has custody now.
    pub const fn releases(self) -> bool {
        matches!(self, Answer::Taken | Answer::Redundant)
    }
}

/// A custodian's numbers of bundles, one after the other. Never walk over them: one signal may name them all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// Which of its counters gave them; 0: the one for `destination`.
    pub sequence: u64,
    /// Null where the counter is for all bundles.
    pub destination: EndpointId,
    /// The first one.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// Which bundles a custody signal is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum About {
    /// This one, or this piece of one.
    One(BundleId),
    /// Those the custodian numbered so.
    Numbers(Vec<Numbers>),
}

/// A custody signal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signal {
    /// What it says.
    pub answer: Answer,
    /// Of which bundles.
    pub about: About,
}

/// An administrative record as far as the agent cares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// A neighbour's hello.
    Hello(Bytes),
    /// What became of custody.
    Custody(Vec<Signal>),
    /// Something for whoever registered at its destination: a status report, an unknown record.
    Other,
    /// Nothing that can be read.
    Unreadable,
}

/// What is told of bundles in short, by the numbers of a record (CCSDS 734.6-O-1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fate {
    /// The node received them.
    Received,
    /// It forwarded them.
    Forwarded,
    /// It delivered them.
    Delivered,
    /// It deleted them.
    Deleted,
    /// It took custody of them.
    CustodyTaken,
    /// It did not.
    CustodyRefused,
}
impl Fate {
    /// The flag of a block that asks to be told so.
    pub const fn flag(self) -> u64 {
        1 << self as u64
    }
}

/// What a compressed reporting block asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The number of the bundle.
    pub number: u64,
    /// Which counter of `source` gave it; 0: the one for the bundle's destination.
    pub sequence: u64,
    /// Flags of what is to be told.
    pub asks: u64,
    /// Who gave the number.
    pub source: EndpointId,
    /// Who is to be told.
    pub report_to: EndpointId,
}

/// Of bundles of which counter what is told.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Item {
    /// What.
    pub fate: Fate,
    /// Which counter; 0: the one for `destination`.
    pub sequence: u64,
    /// Null where the counter is for all bundles.
    pub destination: EndpointId,
    /// Whose.
    pub source: EndpointId,
}

/// What the records of a tunnel are called on the wire; only the edge looks at it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TunnelCodes {
    /// Type of the record that carries a bundle.
    pub bundle: u64,
    /// Type of signals about those.
    pub signal: u64,
    /// Whether times are seconds of Unix, as in ION, and not DTN milliseconds.
    pub unix: bool,
}
impl Default for TunnelCodes {
    fn default() -> Self {
        TunnelCodes { bundle: 3, signal: 4, unix: false }
    }
}

/// What a record from the far end of a tunnel carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Carried {
    /// It is another record.
    Nothing,
    /// A bundle, and the sender's number of this transmission; 0: it wants no signal.
    Inside(u64, Payload),
    /// What became of transmissions, by runs of their numbers.
    Signal(Answer, Vec<Numbers>),
}

/// Makes, joins, measures and reads bundles, whatever their version.
pub trait Edge {
    /// A new bundle. What the version forbids is adjusted.
    ///
    /// # Errors
    /// When the version cannot say it.
    fn make(&mut self, draft: Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal>;
    /// A bundle made here with the security blocks it is to have. Once for each: those of an estimate get none.
    ///
    /// # Errors
    /// When they cannot be made.
    fn protect(&mut self, made: BundleMeta) -> Result<BundleMeta, Refusal> {
        Ok(made)
    }
    /// Whether the payload is only to be handed out by [`Output::Open`](crate::Output::Open): its security is checked
    /// then, and what is enciphered deciphered.
    fn guards(&self, _bundle: &BundleMeta) -> bool {
        false
    }
    /// The whole that `first`, its first fragment, is a piece of.
    ///
    /// # Errors
    /// When that cannot be.
    fn whole(&mut self, first: &BundleMeta, payload: Payload) -> Result<BundleMeta, Refusal>;
    /// Encoded length of what leaves: the bundle, or a piece of its payload.
    fn size(&self, bundle: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64;
    /// Payload of a status report about a bundle.
    fn status_report(&self, about: &BundleMeta, status: Status, reason: DeleteReason, at: Option<DtnTime>) -> Payload;
    /// Payload of a custody signal in this version of the bundle protocol; `None`: it cannot say it.
    fn custody_signal(&self, version: u8, signal: &Signal, at: Option<DtnTime>) -> Option<Payload>;
    /// What the compressed reporting block of a bundle asks for; `None`: it has none.
    fn asked(&self, _bundle: &BundleMeta) -> Option<Asked> {
        None
    }
    /// Payload of a compressed reporting signal; a source among `known` need not be named. `None`: there is none here.
    fn compressed_report(&self, _said: &[(Item, Numbers)], _known: &[&EndpointId]) -> Option<Payload> {
        None
    }
    /// Payload of the bundle around this one, which is encoded: with the number of the transmission, 0 for none, and when
    /// it is repeated without a signal.
    fn carry(&self, codes: TunnelCodes, number: u64, due: Option<DtnTime>, bundle: Payload) -> Payload;
    /// Payload of a signal about transmissions through a tunnel.
    fn tunnel_signal(&self, codes: TunnelCodes, answer: Answer, runs: &[Numbers]) -> Payload;
    /// What a record from the far end of a tunnel carries; `payload` is its payload, in clear and in memory.
    ///
    /// # Errors
    /// What is wrong with it: also where more than so many bundles are around one another.
    fn carried(
        &self,
        outer: &BundleMeta,
        payload: &Payload,
        codes: TunnelCodes,
        depth_max: usize,
    ) -> Result<Carried, Malformed>;
    /// How many bundles are around one another in this one, itself counted where it is around another; up to `most`.
    fn depth(&self, bundle: &BundleMeta, codes: TunnelCodes, most: usize) -> usize;
    /// Digest of the payload by this node's key, of the deciphered one where this node can read it; 0: it is neither in
    /// memory nor was it made before.
    fn digest(&mut self, bundle: &BundleMeta) -> u64;
    /// What the key of digests is made of, before the first bundle is taken.
    fn set_secret(&mut self, _secret: u64) {}
    /// Payload of a hello.
    fn hello(&self, content: &[u8]) -> Payload;
    /// Reads the administrative record a bundle carries.
    fn record(&self, bundle: &BundleMeta) -> Record;
}

/// Appends a big-endian number.
pub(crate) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}
