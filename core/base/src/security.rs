//! Security rules of a node (RFC 9172): plain data shared by node files, scenario files and the engine.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Secret key. It is wiped from memory when dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);
impl Secret {
    /// Wraps key bytes.
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(Zeroizing::new(bytes))
    }
    /// Bytes of the key, in clear.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
    /// Fingerprint that distinguishes keys without revealing them.
    pub fn fingerprint(&self) -> u64 {
        // With this prefix the fingerprint equals no other hash of the key.
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

/// Role of a node for the security operations that a rule covers (RFC 9172 1.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Adds operations to bundles created here, and to passing bundles that lack them.
    Source,
    /// Checks operations and leaves them in the bundle.
    Verifier,
    /// Checks operations and removes them; decrypts encrypted blocks.
    Acceptor,
}
impl Role {
    /// Names in configuration files, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["source", "verifier", "acceptor"];
    /// All variants, in order.
    pub const ALL: [Role; 3] = [Role::Source, Role::Verifier, Role::Acceptor];
}

/// Security service of a rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Service {
    /// Integrity of the target (BIB-HMAC-SHA2).
    Integrity,
    /// Confidentiality and integrity of the target (BCB-AES-GCM).
    Confidentiality,
}
impl Service {
    /// Names in configuration files, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["integrity", "confidentiality"];
    /// All variants, in order.
    pub const ALL: [Service; 2] = [Service::Integrity, Service::Confidentiality];
}

/// Code of the primary block in [`Rule::targets`].
pub const PRIMARY: u64 = 0;
/// Code of the payload block in [`Rule::targets`].
pub const PAYLOAD: u64 = 1;
/// Types of blocks that every node may change and that therefore cannot be protected: previous node, age, hop count,
/// labels.
pub const CHANGING: [u64; 4] = [6, 7, 10, 240];
/// Types of security blocks (BIB, BCB), which no rule may target.
pub const SECURITY: [u64; 2] = [11, 12];

/// Security rule. Of several rules for the same service and target, the first that matches a bundle applies; rules of
/// sources count apart from those of verifiers and acceptors.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    pub role: Role,
    pub service: Service,
    /// Pattern that the bundle's source must match.
    pub from: String,
    /// Pattern that the bundle's destination must match.
    pub to: String,
    /// Types of target blocks; [`PRIMARY`] stands for the primary block.
    pub targets: Vec<u64>,
    /// Name of the key in the node's key ring.
    pub key: String,
    /// For sources: whether each block gets a fresh key, wrapped with the named key.
    pub wrap: bool,
    /// For sources: bits of the hash, 256, 384 or 512.
    pub sha_bits: u16,
    /// For sources with `wrap`: bits of the cipher's keys, 128 or 256.
    pub aes_bits: u16,
    /// For sources: scope flags (RFC 9173 3.3.3), the sum of 1 for the primary block, 2 for the target's header and 4
    /// for the security block's header.
    pub scope: u8,
    /// For verifiers and acceptors: whether the operation must be there. Without it a bundle is deleted if the target
    /// is the payload or primary block; any other target is dropped.
    pub required: bool,
    /// For verifiers and acceptors of required integrity: whether fragments pass, which cannot be checked before
    /// reassembly.
    pub fragments: bool,
}
