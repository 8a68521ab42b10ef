//! Operations that this node adds as a security source (RFC 9172 3.9): integrity before confidentiality, each in a
//! block of its own, so that no two operations share an IV, and no block must be split when a target is encrypted
//! later.

use super::{Security, SecurityCounts, Wish, nonces};
use alloc::vec::Vec;
use farlink_base::security::{PRIMARY, Rule, Service};
use farlink_bundle::bpsec::{
    self, Aes, CONFIDENTIALITY, CipherSuite, FLAGS, HashSuite, Header, INTEGRITY, Scope, Secret, Section, Sha,
};
use farlink_bundle::{Bundle, CrcType};

/// Maximum number of blocks that one key may encrypt directly (RFC 9173 4.8.1: at most 2^32).
// 9173-4.6-1
const USES_MAX: u64 = 1 << 32;

/// Reasons why operations cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// The payload is too long, or on disk.
    TooLong,
    /// No IV is left, or a key was used as often as it may be.
    WornOut,
    /// There is no key of this name that fits.
    NoKey,
    /// The addition would break an operation that the bundle has (RFC 9172 3.9).
    Conflict,
    /// The bundle cannot be read.
    Unreadable,
}
impl From<bpsec::SecurityFault> for Trouble {
    fn from(fault: bpsec::SecurityFault) -> Trouble {
        match fault {
            bpsec::SecurityFault::Key => Trouble::NoKey,
            bpsec::SecurityFault::NotInMemory => Trouble::TooLong,
            _ => Trouble::Unreadable,
        }
    }
}

/// One operation to be made.
struct SealPlan<'a> {
    rule: &'a Rule,
    target: u64,
}

fn present(bundle: &Bundle) -> Result<(Vec<Section>, Vec<Section>), Trouble> {
    // Where a security block cannot be read, its targets are unknown. An addition might then contradict it, so the
    // bundle gets none.
    let bcbs = Section::all(bundle, CONFIDENTIALITY).collect::<Result<Vec<_>, _>>().map_err(|_| Trouble::Unreadable)?;
    // An encrypted integrity block cannot be parsed, and its error means nothing.
    let hidden = |number| bcbs.iter().any(|bcb| bcb.block.targets.contains(&number));
    let bibs = Section::all(bundle, INTEGRITY).filter(|bib| match bib {
        Ok(bib) => !hidden(bib.header.number),
        Err(header) => !hidden(header.number),
    });
    let bibs = bibs.collect::<Result<Vec<_>, _>>().map_err(|_| Trouble::Unreadable)?;
    Ok((bibs, bcbs))
}

/// Splits integrity blocks of which some, but not all, targets will be encrypted (RFC 9172 3.9).
// 9172-3.9-3
fn split(bundle: &mut Bundle, bibs: &mut Vec<Section>, ciphers: &[SealPlan<'_>]) -> Result<(), Trouble> {
    let mut moved = Vec::new();
    for bib in bibs.iter_mut() {
        let hides = |target: &u64| ciphers.iter().any(|plan| plan.target == *target);
        let hidden: Vec<u64> = bib.block.targets.iter().copied().filter(hides).collect();
        if !hidden.is_empty() && hidden.len() < bib.block.targets.len() {
            moved.push(bib.split(bundle, &hidden).map_err(|_| Trouble::Conflict)?);
        }
    }
    bibs.append(&mut moved);
    Ok(())
}

impl Security {
    /// Adds the missing operations that rules ask for; returns whether there were any.
    // 9172-1.4-1, 9172-3.2-1, 9172-3.2-2, 9172-3.2-3, 9172-3.9-1, 9172-3.9-10, 9172-3.9-11
    pub(super) fn add(&mut self, bundle: &mut Bundle, wishes: &[Wish<'_>]) -> Result<bool, Trouble> {
        let (mut bibs, bcbs) = present(bundle)?;
        let secured = bundle.extensions.iter().any(|block| matches!(block.kind, INTEGRITY | CONFIDENTIALITY));
        let has = |sections: &[Section], target| sections.iter().any(|section| section.block.targets.contains(&target));
        let (mut hashes, mut ciphers) = (Vec::new(), Vec::new());
        for wish in wishes {
            for target in bpsec::numbers_of(bundle, wish.kind) {
                let plan = SealPlan { rule: wish.rule, target };
                // Encrypted data gets no hash, and data that this node encrypts needs none: the cipher
                // authenticates, too (RFC 9172 3.9).
                let enciphered = has(&bcbs, target);
                // 9172-3.9-12
                let hashed = has(&bibs, target) || wishes.iter().any(|w| w.is(Service::Confidentiality, wish.kind));
                match wish.rule.service {
                    // 9172-3.9-6
                    Service::Integrity if !enciphered && !hashed => hashes.push(plan),
                    Service::Confidentiality if !enciphered && target != PRIMARY => ciphers.push(plan),
                    _ => {}
                }
            }
        }
        if hashes.is_empty() && ciphers.is_empty() {
            return Ok(false);
        }
        // Dropping the CRC changes the primary block, and so breaks operations that cover it.
        let primary = hashes.iter().any(|plan| plan.target == PRIMARY) && bundle.primary.crc != CrcType::None;
        if primary && secured {
            return Err(Trouble::Conflict);
        }
        split(bundle, &mut bibs, &ciphers)?;
        // 9173-3.8.1-3, 9173-4.8.1-2
        for plan in hashes.iter().chain(&ciphers) {
            bpsec::drop_crc(bundle, plan.target);
        }
        for plan in &hashes {
            // 9173-3.8.1-11
            self.sign(bundle, plan)?;
        }
        // The hash of an encrypted block is encrypted, too, and only once (RFC 9172 3.9).
        let mut with: Vec<u64> = Vec::new();
        // 9172-3.8-5, 9172-3.9-2, 9172-3.9-5, 9172-3.11.2-2
        for plan in &ciphers {
            // 9173-4.8.1-18
            self.seal(bundle, plan)?;
            for bib in bibs.iter().filter(|bib| bib.block.targets.contains(&plan.target)) {
                let number = bib.header.number;
                if !with.contains(&number) {
                    with.push(number);
                    bpsec::drop_crc(bundle, number);
                    self.seal(bundle, &SealPlan { rule: plan.rule, target: number })?;
                }
            }
        }
        Ok(true)
    }

    fn sign(&mut self, bundle: &mut Bundle, plan: &SealPlan<'_>) -> Result<(), Trouble> {
        let sha = match plan.rule.sha_bits {
            256 => Sha::Sha256,
            512 => Sha::Sha512,
            _ => Sha::Sha384,
        };
        // The newest generation signs; older ones only verify.
        let named = self.keys.get(&plan.rule.key).first().cloned().ok_or(Trouble::NoKey)?;
        let (key, wrapped) = if plan.rule.wrap {
            let iv = self.nonces.next().ok_or(Trouble::WornOut)?;
            self.fresh(&named, &iv, sha.len())?
        } else {
            (named, None)
        };
        let header = Header { kind: INTEGRITY, number: bundle.free_block_number(), flags: FLAGS };
        let suite = HashSuite { sha, scope: Scope(u16::from(plan.rule.scope)), wrapped };
        let source = self.node_ids.first().cloned().unwrap_or_default();
        let block = bpsec::sign(bundle, &[plan.target], header, &source, &suite, key.bytes())?;
        Section { header, block }.insert(bundle);
        self.count(SecurityCounts { made: 1, ..Default::default() });
        Ok(())
    }

    // 9173-4.3.1-3, 9173-4.6-2, 9173-4.6-3, 9173-4.8.1-5
    fn seal(&mut self, bundle: &mut Bundle, plan: &SealPlan<'_>) -> Result<(), Trouble> {
        let named = self.keys.get(&plan.rule.key).first().cloned().ok_or(Trouble::NoKey)?;
        let iv = self.nonces.next().ok_or(Trouble::WornOut)?;
        let (aes, (key, wrapped)) = if plan.rule.wrap {
            let aes = if plan.rule.aes_bits == 128 { Aes::A128 } else { Aes::A256 };
            (aes, self.fresh(&named, &iv, aes.key_len())?)
        } else {
            // Uses are counted by fingerprint, so that a key under two names, or read again, keeps its count.
            let uses = self.used.entry(named.fingerprint()).or_insert(0);
            if *uses >= USES_MAX {
                return Err(Trouble::WornOut);
            }
            *uses += 1;
            (Aes::for_key(named.bytes().len()).ok_or(Trouble::NoKey)?, (named, None))
        };
        let header = Header { kind: CONFIDENTIALITY, number: bundle.free_block_number(), flags: FLAGS };
        let suite = CipherSuite { aes, scope: Scope(u16::from(plan.rule.scope)), iv, wrapped };
        let source = self.node_ids.first().cloned().unwrap_or_default();
        let block = bpsec::seal(bundle, plan.target, header, &source, &suite, key.bytes(), self.aes_gcm.as_ref())?;
        Section { header, block }.insert(bundle);
        self.count(SecurityCounts { made: 1, ..Default::default() });
        Ok(())
    }

    /// Makes a key for one block; returns it also wrapped by the named key.
    // 9173-3.8.1-2, 9173-4.8.1-3
    fn fresh(&self, named: &Secret, iv: &[u8; 12], len: usize) -> Result<(Secret, Option<Vec<u8>>), Trouble> {
        let mut seed = [0; 32];
        let bytes = self.seed.bytes();
        seed[..bytes.len().min(32)].copy_from_slice(&bytes[..bytes.len().min(32)]);
        let key = bpsec::fresh_key(&seed, nonces::number(iv), len);
        // The acceptor has the named key only; the key of this block travels wrapped in it.
        let wrapped = bpsec::wrap_key(named.bytes(), &key)?;
        Ok((key, Some(wrapped)))
    }
    #[cfg(test)]
    pub(super) fn wear_out(&mut self, key: &str) {
        if let Some(key) = self.keys.get(key).first() {
            self.used.insert(key.fingerprint(), USES_MAX);
        }
    }
}
