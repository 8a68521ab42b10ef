//! What a node does about the security of bundles (RFC 9172), as rules: plain data that node files and scenario files
//! say alike, and the engine obeys.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// A key: wiped when it is let go, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);
impl Secret {
    /// These bytes, wiped when the key is let go.
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(Zeroizing::new(bytes))
    }
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
    /// A number that tells keys apart and says nothing about them.
    pub fn fingerprint(&self) -> u64 {
        let hash = Sha256::new().chain_update(b"farlink key fingerprint").chain_update(self.bytes()).finalize();
        hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
impl From<Zeroizing<Vec<u8>>> for Secret {
    fn from(bytes: Zeroizing<Vec<u8>>) -> Secret {
        Secret(bytes)
    }
}
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key of {} B", self.0.len())
    }
}

/// What a node is for the operations of a rule (RFC 9172 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// It adds them, to bundles made here and to those that pass and lack them.
    Source,
    /// It checks them and leaves them.
    Verifier,
    /// It checks them and takes them out; enciphered blocks are deciphered.
    Acceptor,
}
impl Role {
    /// The words for them, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["source", "verifier", "acceptor"];
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Source, Role::Verifier, Role::Acceptor];
}

/// A security service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Service {
    /// Nobody changed the target (BIB-HMAC-SHA2).
    Integrity,
    /// Nobody reads the target, nor changed it (BCB-AES-GCM).
    Confidentiality,
}
impl Service {
    /// The words for them, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["integrity", "confidentiality"];
    /// All of them.
    pub const ALL: [Service; 2] = [Service::Integrity, Service::Confidentiality];
}

/// The primary block among [`Rule::targets`].
pub const PRIMARY: u64 = 0;
/// The payload block among them.
pub const PAYLOAD: u64 = 1;
/// Types of blocks that every hop may change, and that so keep no protection: previous node, age, hop count, labels.
pub const CHANGING: [u64; 4] = [6, 7, 10, 240];
/// Types of security blocks, which no rule names.
pub const SECURITY: [u64; 2] = [11, 12];

/// One rule. Of several for one service, one target and one side (source, or verifier and acceptor) the first that fits
/// a bundle holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What the node is.
    pub role: Role,
    /// Which service.
    pub service: Service,
    /// Pattern of the bundle's source.
    pub from: String,
    /// Pattern of its destination.
    pub to: String,
    /// Types of blocks; [`PRIMARY`] stands for the primary block.
    pub targets: Vec<u64>,
    /// Name of the key.
    pub key: String,
    /// As source: a key made for each block, which the named one wraps.
    pub wrap: bool,
    /// As source: bits of the hash, 256, 384 or 512.
    pub sha_bits: u16,
    /// As source, with `wrap`: bits of the cipher's keys, 128 or 256.
    pub aes_bits: u16,
    /// As source: what is covered besides the target (RFC 9173 3.3.3): 1 primary block, 2 the target's header, 4 that
    /// of the security block.
    pub scope: u8,
    /// As verifier or acceptor: bundles without the operation are deleted, other blocks left out.
    pub required: bool,
    /// As verifier or acceptor of integrity that is required: whether fragments pass, which cannot be checked before they
    /// are whole.
    pub fragments: bool,
}
