//! Security of bundles of version 7 (RFC 9172) by rules: operations are added to bundles made here, and to passing
//! bundles that lack them, and checked on arrival. A payload for applications here is checked and decrypted only as it
//! is handed out. So it stays encrypted in the store, and reassembled bundles and payloads on disk are no special
//! cases.
//!
//! A node without rules has none of this. Ciphers, hashes and blocks are in [`farlink_bundle::bpsec`]; read
//! `receive.rs` and `add.rs` for the order of steps that RFC 9172 demands.

mod add;
mod codec;
mod keys;
mod nonces;
mod receive;
#[cfg(test)]
mod tests;

use crate::config::Config;
use add::Trouble;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
pub use codec::Secured;
use core::cell::{Cell, RefCell};
use core::fmt;
use farlink_base::security::{PAYLOAD, Role, Rule, Service};
use farlink_base::{Accel, AesGcm, BundleMeta, Bytes, DeleteReason, EndpointId, Facts, Payload, Refusal, pattern_rank};
pub use farlink_bundle::bpsec::Secret;
use farlink_bundle::{Bundle, CrcType, Profile, bpsec, decode_parts, v7};
pub use keys::KeyRing;
use nonces::Nonces;
use receive::{Place, Reception};

/// Rules, keys and parameters for the security of bundles.
#[derive(Clone)]
pub struct SecurityConfig {
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// The keys that the rules name.
    pub keys: KeyRing,
    /// Number of earlier starts of the node with any of these keys. IVs are made from it, so no two runs may have the
    /// same.
    pub start: u32,
    /// Seed of the keys for single blocks; it must be secret, and different in each run.
    pub seed: [u8; 32],
    /// This machine's implementation of AES-GCM, if it is faster than the portable one.
    pub aes_gcm: Option<AesGcm>,
}
impl fmt::Debug for SecurityConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SecurityConfig { rules, keys, start: _, seed: _, aes_gcm: _ } = self;
        f.debug_struct("SecurityConfig").field("rules", rules).field("keys", keys).finish()
    }
}
/// Operations performed for the security of bundles since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SecurityCounts {
    /// Operations added by this node.
    pub made: u64,
    /// Operations checked and found right.
    pub verified: u64,
    /// Operations that failed their check, or could not be checked for want of a key or of a known context.
    pub failed: u64,
    /// Required operations that were absent.
    pub missing: u64,
}
impl SecurityCounts {
    fn add(&mut self, more: SecurityCounts) {
        self.made += more.made;
        self.verified += more.verified;
        self.failed += more.failed;
        self.missing += more.missing;
    }
}

/// Bundle that failed a rule, with the facts that an operator needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecurityAlarm {
    /// Source of the bundle.
    pub source: EndpointId,
    /// Destination of the bundle.
    pub destination: EndpointId,
    /// Service of the rule.
    pub service: Service,
    /// Name of the rule's key.
    pub key: String,
    /// Fault of the operation; `None` if it is missing.
    pub fault: Option<bpsec::SecurityFault>,
}

/// Security of a node: rules, keys and counters, as [`SecurityConfig`] sets them.
// 9171-8-1, 9171-8-2
#[derive(Debug)]
pub struct Security {
    node_ids: Vec<EndpointId>,
    rules: Arc<[Rule]>,
    keys: KeyRing,
    nonces: Nonces,
    seed: Secret,
    bytes_max: u64,
    /// Number of blocks encrypted by each key directly, by its fingerprint.
    used: BTreeMap<u64, u64>,
    counts: Cell<SecurityCounts>,
    /// Last failure that the driver has not taken.
    alarm: RefCell<Option<Box<SecurityAlarm>>>,
    /// CRC type given to blocks that lose their last security operation here.
    crc: CrcType,
    accel: Accel,
    aes_gcm: Option<AesGcm>,
}

/// One type of blocks for which a rule asks for an operation.
#[derive(Clone, Copy, Debug)]
struct Wish<'a> {
    rule: &'a Rule,
    kind: u64,
}
impl Wish<'_> {
    fn is(&self, service: Service, kind: u64) -> bool {
        (self.rule.service, self.kind) == (service, kind)
    }
}

/// Operations that the rules ask for on a bundle: to add (`as_source`), or to check.
fn wishes<'a>(rules: &'a [Rule], own: &[EndpointId], meta: &BundleMeta, as_source: bool) -> Vec<Wish<'a>> {
    // A rule for one of the node's IDs covers each of its names.
    let named = |eid: EndpointId| (eid.to_string(), eid);
    // Patterns match text; the text of each name is made once for all rules.
    let mut to = Vec::from([named(meta.destination.clone())]);
    to.extend(meta.destination.canonical(own).filter(|name| *name != meta.destination).map(named));
    let from = meta.source.to_string();
    let fits = |rule: &&Rule| {
        (rule.role == Role::Source) == as_source
            && pattern_rank(&rule.from, &meta.source, &from).is_some()
            && to.iter().any(|(text, eid)| pattern_rank(&rule.to, eid, text).is_some())
    };
    let mut all: Vec<Wish<'a>> = Vec::new();
    for rule in rules.iter().filter(fits) {
        for kind in &rule.targets {
            // The first rule that fits decides, as in the documentation of rules.
            if !all.iter().any(|wish| wish.is(rule.service, *kind)) {
                all.push(Wish { rule, kind: *kind });
            }
        }
    }
    all
}

impl Security {
    /// Creates the security of this configuration, with the names and the CRC type of the node.
    pub(crate) fn new(told: &SecurityConfig, node: &Config) -> Security {
        let own = node.node_ids.first().cloned().unwrap_or_default();
        Security {
            node_ids: node.node_ids.clone(),
            rules: told.rules.as_slice().into(),
            keys: told.keys.clone(),
            nonces: Nonces::new(&own, told.start),
            seed: Secret::new(told.seed.to_vec()),
            bytes_max: node.node.security.longest.bytes(),
            used: BTreeMap::new(),
            counts: Cell::default(),
            alarm: RefCell::default(),
            crc: node.node.agent.crc,
            accel: node.accel,
            aes_gcm: told.aes_gcm,
        }
    }
    /// Operations performed so far.
    pub fn counts(&self) -> SecurityCounts {
        self.counts.get()
    }
    /// Takes the last failure since the last call.
    pub fn take_alarm(&self) -> Option<Box<SecurityAlarm>> {
        self.alarm.take()
    }
    fn alarm(&self, meta: &BundleMeta, failure: Option<(&Rule, Option<bpsec::SecurityFault>)>) {
        if let Some((rule, fault)) = failure {
            let (source, destination) = (meta.source.clone(), meta.destination.clone());
            let (service, key) = (rule.service, rule.key.clone());
            self.alarm.replace(Some(Box::new(SecurityAlarm { source, destination, service, key, fault })));
        }
    }
    /// Replaces rules and keys; the number of uses of each key stays.
    pub fn set(&mut self, rules: Vec<Rule>, keys: KeyRing) {
        (self.rules, self.keys) = (rules.into(), keys);
    }
    fn count(&self, more: SecurityCounts) {
        let mut counts = self.counts.get();
        counts.add(more);
        self.counts.set(counts);
    }

    /// Whether the bundle may be for an application here: its destination is of this node, or a group.
    fn is_for_us(&self, meta: &BundleMeta) -> bool {
        !meta.destination.is_singleton() || self.is_singly_for_us(meta)
    }
    fn is_singly_for_us(&self, meta: &BundleMeta) -> bool {
        meta.destination.is_singleton() && self.node_ids.contains(&meta.destination.node_id())
    }
    /// Marks a bundle as readable if this node can decrypt its payload.
    fn unseal(&self, meta: &mut BundleMeta) {
        if meta.facts.has(Facts::SEALED) && self.is_for_us(meta) {
            let wishes = wishes(&self.rules, &self.node_ids, meta, false);
            let opens = |wish: &Wish<'_>| {
                wish.is(Service::Confidentiality, PAYLOAD) && !self.keys.get(&wish.rule.key).is_empty()
            };
            if wishes.iter().any(opens) {
                meta.facts.0 &= !Facts::SEALED;
            }
        }
    }

    /// Decodes all blocks of a bundle, with this payload.
    fn unpack(meta: &BundleMeta, payload: Payload, accel: &Accel) -> Result<Bundle, DeleteReason> {
        let head = Bytes::copy_from_slice(&meta.head);
        let read = decode_parts(&head, payload, &v7::tail(meta), Profile::Permissive, accel);
        read.map_err(|_| DeleteReason::BlockUnintelligible)
    }
    /// Encodes a bundle after its blocks changed.
    fn pack(&self, bundle: &Bundle, was: &BundleMeta) -> Result<BundleMeta, DeleteReason> {
        let rope = bundle.encode(&self.accel).into_payload();
        let read = v7::read(&rope, Profile::Permissive, &self.accel);
        let (mut meta, _) = read.map_err(|_| DeleteReason::BlockUnintelligible)?;
        // Blocks that the codec removed on the first read stay removed, and its findings from then still hold.
        meta.duties = was.duties;
        meta.facts.0 |= was.facts.0 & (Facts::CUSTODY | Facts::NO_FRAGMENT);
        self.unseal(&mut meta);
        Ok(meta)
    }

    /// Adds the operations that a bundle made here must have (RFC 9172 5).
    ///
    /// # Errors
    /// The payload is too long or on disk, a key is missing or worn out, or the rules contradict each other.
    pub(crate) fn protect(&mut self, made: BundleMeta) -> Result<BundleMeta, Refusal> {
        let rules = self.rules.clone();
        match self.add_to(&made, &wishes(&rules, &self.node_ids, &made, true)) {
            Ok(None) => Ok(made),
            Ok(Some(protected)) => Ok(protected),
            Err(Trouble::TooLong) => Err(Refusal::TooLarge),
            Err(Trouble::WornOut) => Err(Refusal::NoResources),
            Err(Trouble::NoKey | Trouble::Conflict | Trouble::Unreadable) => Err(Refusal::NotAcceptable),
        }
    }
    /// Whether the rules demand operations on a bundle made here.
    pub(crate) fn is_source_of(&self, made: &BundleMeta) -> bool {
        !wishes(&self.rules, &self.node_ids, made, true).is_empty()
    }
    /// Adds the operations that are missing; `None` if none are.
    fn add_to(&mut self, meta: &BundleMeta, wishes: &[Wish<'_>]) -> Result<Option<BundleMeta>, Trouble> {
        // RFC 9172 5.2: no security block is added to a fragment.
        // 9172-5.2-2
        if wishes.is_empty() || meta.fragment().is_some() {
            return Ok(None);
        }
        // 9173-3.8.1-11, 9173-4.8.1-18
        if meta.payload.is_stored() || meta.payload.len() > self.bytes_max {
            return Err(Trouble::TooLong);
        }
        let bundle = Self::unpack(meta, meta.payload.clone(), &self.accel);
        let mut bundle = bundle.map_err(|_| Trouble::Unreadable)?;
        if !self.add(&mut bundle, wishes)? {
            return Ok(None);
        }
        self.pack(&bundle, meta).map(Some).map_err(|_| Trouble::Unreadable)
    }

    /// Checks to make on an arrived bundle, and operations to add to it.
    fn wanted<'a>(&self, rules: &'a [Rule], meta: &BundleMeta) -> (Vec<Wish<'a>>, Vec<Wish<'a>>) {
        let adds = match self.is_singly_for_us(meta) {
            true => Vec::new(),
            false => wishes(rules, &self.node_ids, meta, true),
        };
        (wishes(rules, &self.node_ids, meta, false), adds)
    }
    /// Marks a fragment for deletion if the rules do not let it pass. Whole bundles, and bundles for this node, stay as
    /// they are.
    // 9172-5.1.1-7, 9172-5.1.2-6, 9172-5.2-2
    fn recall(&self, meta: BundleMeta) -> BundleMeta {
        // A BCB of the payload is in every fragment (RFC 9172 3.8), and nothing can be added to a fragment (5.2): one
        // without that BCB is deleted where confidentiality is demanded (5.1.1). Where integrity is required, a
        // fragment passes only if the rule allows it, as it cannot be checked.
        if meta.fragment().is_none() || self.is_singly_for_us(&meta) {
            return meta;
        }
        let (checks, adds) = self.wanted(&self.rules, &meta);
        // A rule with `fragments` lets fragments pass unchecked, for verifiers between source and destination.
        let refuses = |wish: &Wish<'_>| wish.rule.service == Service::Integrity && !wish.rule.fragments;
        if checks.iter().any(|wish| wish.rule.required && refuses(wish)) {
            return self.lacking(meta);
        }
        // An encrypted fragment may pass: its payload is protected, and only the whole can be checked.
        if bpsec::has_cipher(&meta.head, PAYLOAD) {
            return meta;
        }
        let mut demands = checks.iter().filter(|wish| wish.rule.required).chain(&adds);
        if demands.any(|wish| wish.is(Service::Confidentiality, PAYLOAD)) {
            return self.lacking(meta);
        }
        meta
    }
    /// Marks a bundle of a version without security blocks for deletion if the rules demand any.
    // 9172-5.1.1-7, 9172-5.1.2-6
    pub(crate) fn foreign(&self, meta: BundleMeta) -> BundleMeta {
        // Sending in another version must be no way around the rules.
        if self.forbids(&meta) { self.lacking(meta) } else { meta }
    }
    /// Whether the rules demand security of this bundle, so that without it the bundle may neither pass nor be handed
    /// out.
    pub(crate) fn forbids(&self, meta: &BundleMeta) -> bool {
        let (checks, adds) = self.wanted(&self.rules, meta);
        !adds.is_empty() || checks.iter().any(|wish| wish.rule.required)
    }
    fn lacking(&self, meta: BundleMeta) -> BundleMeta {
        self.count(SecurityCounts { missing: 1, ..Default::default() });
        insecure(meta, DeleteReason::MissingSecurity)
    }

    /// Checks an arrived bundle and, if it is for others, adds and removes operations as rules ask for.
    ///
    /// # Errors
    /// The bundle must be checked or changed and is not in memory, or cannot be protected for now.
    pub(crate) fn arrive(&mut self, mut meta: BundleMeta) -> Result<BundleMeta, (Box<BundleMeta>, Refusal)> {
        self.unseal(&mut meta);
        let rules = self.rules.clone();
        self.judge(meta, &rules)
    }
    fn judge(&mut self, meta: BundleMeta, rules: &[Rule]) -> Result<BundleMeta, (Box<BundleMeta>, Refusal)> {
        let here = self.is_singly_for_us(&meta);
        let (checks, adds) = self.wanted(rules, &meta);
        let checks = if must_look(&meta, &checks) { checks } else { Vec::new() };
        if meta.fragment().is_some() {
            return Ok(self.recall(meta));
        }
        // A payload on disk for this node is checked when it is handed out, as are fragments after reassembly.
        // 9172-5.2-1
        if (checks.is_empty() && adds.is_empty()) || (here && meta.payload.is_stored()) {
            return Ok(meta);
        }
        if meta.payload.is_stored() || meta.payload.len() > self.bytes_max {
            return Err((Box::new(meta), Refusal::TooLarge));
        }
        let checked = if checks.is_empty() { Ok(None) } else { self.check(&meta, &checks, here) };
        let meta = match checked {
            Err(reason) => return Ok(insecure(meta, reason)),
            // At its destination the bundle is kept as it came, because it is checked again and decrypted when it is
            // handed out.
            Ok(Some(changed)) if !here => changed,
            Ok(_) => meta,
        };
        match self.add_to(&meta, &adds) {
            Ok(None) => Ok(meta),
            Ok(Some(protected)) => Ok(protected),
            Err(Trouble::Conflict) => Ok(insecure(meta, DeleteReason::ConflictingSecurity)),
            Err(Trouble::Unreadable) => Ok(insecure(meta, DeleteReason::BlockUnintelligible)),
            Err(Trouble::TooLong) => Err((Box::new(meta), Refusal::TooLarge)),
            // A key may come or be renewed: the sender keeps the bundle and tries again.
            Err(Trouble::NoKey | Trouble::WornOut) => Err((Box::new(meta), Refusal::NoResources)),
        }
    }
    /// Checks a bundle, which is for this node if `end`; returns a passing bundle without its removed blocks, if any
    /// were.
    fn check(&self, meta: &BundleMeta, wishes: &[Wish<'_>], end: bool) -> Result<Option<BundleMeta>, DeleteReason> {
        let mut bundle = Self::unpack(meta, meta.payload.clone(), &self.accel)?;
        let at = match end {
            true => Place::End,
            false if meta.destination.is_singleton() => Place::Way,
            false => Place::Group,
        };
        let mut reception = Reception::new(&mut bundle, wishes, &self.keys, at, self.crc, self.aes_gcm);
        let result = reception.run();
        let (changed, mut counts, failure) = (reception.changed, reception.counts, reception.failure);
        if end && result.is_ok() {
            // The bundle is checked and counted again when it is handed out.
            counts.verified = 0;
        }
        self.count(counts);
        self.alarm(meta, failure);
        result?;
        if changed && !end { self.pack(&bundle, meta).map(Some) } else { Ok(None) }
    }

    /// Whether an application may get the payload only through [`Security::open`].
    pub(crate) fn guards(&self, meta: &BundleMeta) -> bool {
        self.is_for_us(meta) && (!wishes(&self.rules, &self.node_ids, meta, false).is_empty())
    }
    /// The payload for an application here (RFC 9172 5.1.1): checked and in clear.
    ///
    /// # Errors
    /// The reason why the payload must not be handed out.
    // 9172-5.1.1-2
    pub(crate) fn open(&self, meta: &BundleMeta, payload: Payload) -> Result<Payload, DeleteReason> {
        self.opened(meta, payload, true)
    }
    /// The same for this node's own use, such as a digest: neither counted nor told, as the delivery will be.
    pub(crate) fn look(&self, meta: &BundleMeta, payload: Payload) -> Result<Payload, DeleteReason> {
        self.opened(meta, payload, false)
    }
    fn opened(&self, meta: &BundleMeta, payload: Payload, counted: bool) -> Result<Payload, DeleteReason> {
        let wishes = wishes(&self.rules, &self.node_ids, meta, false);
        if !must_look(meta, &wishes) {
            return Ok(payload);
        }
        if payload.is_stored() || payload.len() > self.bytes_max {
            // The payload cannot be checked in parts, and must not be handed out unchecked.
            return Err(DeleteReason::DepletedStorage);
        }
        let mut bundle = Self::unpack(meta, payload, &self.accel)?;
        let mut reception = Reception::new(&mut bundle, &wishes, &self.keys, Place::End, self.crc, self.aes_gcm);
        let result = reception.run();
        if counted {
            self.count(reception.counts);
            self.alarm(meta, reception.failure);
        }
        result.map(|()| bundle.payload)
    }
}

/// Whether there is an operation to check, or one that may be missing.
fn must_look(meta: &BundleMeta, wishes: &[Wish<'_>]) -> bool {
    wishes.iter().any(|wish| wish.rule.required) || (!wishes.is_empty() && bpsec::is_secured(&meta.head))
}

/// Marks the bundle for deletion for this reason.
fn insecure(meta: BundleMeta, reason: DeleteReason) -> BundleMeta {
    BundleMeta { duties: meta.duties.with_security(reason), ..meta }
}

/// The reason that status reports give for a fault.
fn reason_of(fault: bpsec::SecurityFault) -> DeleteReason {
    use bpsec::SecurityFault as F;
    match fault {
        F::Context | F::Key => DeleteReason::UnknownSecurity,
        F::Malformed => DeleteReason::BlockUnintelligible,
        F::Target | F::Parameters | F::Mismatch | F::NotInMemory => DeleteReason::FailedSecurity,
    }
}
