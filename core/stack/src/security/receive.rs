//! Security operations of an arrived bundle (RFC 9172 5.1): decryption first, then hashes, and at last a check for
//! missing operations.

use super::{KeyRing, SecurityCounts, Wish, reason_of};
use alloc::vec::Vec;
use farlink_base::security::{PAYLOAD, PRIMARY, Role, Rule, Service};
use farlink_base::{AesGcm, DeleteReason};
use farlink_bundle::bpsec::{self, AES_GCM, CONFIDENTIALITY, INTEGRITY, Secret, Section, SecurityFault};
use farlink_bundle::{Bundle, CrcType};

/// Position of the node on the bundle's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// At a node between source and destination.
    Way,
    /// At a member of a group: operations stay, because other members may have to accept them.
    Group,
    /// At the bundle's end: the node accepts all operations that it has rules for.
    End,
}

/// Processing of the security operations of one arrived bundle.
pub(super) struct Reception<'a> {
    bundle: &'a mut Bundle,
    wishes: &'a [Wish<'a>],
    keys: &'a KeyRing,
    at: Place,
    crc: CrcType,
    aes_gcm: Option<AesGcm>,
    /// Operations that were verified, by the number of their target.
    held: Vec<(Service, u64)>,
    /// Targets that lost an operation.
    freed: Vec<u64>,
    /// Blocks that were removed.
    lost: Vec<u64>,
    /// Whether the bundle was changed.
    pub changed: bool,
    pub counts: SecurityCounts,
    /// Rule of the last operation that failed, and its fault; `None` as fault if the operation is missing.
    pub failure: Option<(&'a Rule, Option<SecurityFault>)>,
}

impl<'a> Reception<'a> {
    pub fn new(
        bundle: &'a mut Bundle,
        wishes: &'a [Wish<'a>],
        keys: &'a KeyRing,
        at: Place,
        crc: CrcType,
        aes_gcm: Option<AesGcm>,
    ) -> Reception<'a> {
        let counts = SecurityCounts::default();
        let (held, freed, lost) = (Vec::new(), Vec::new(), Vec::new());
        Reception { bundle, wishes, keys, at, crc, aes_gcm, held, freed, lost, changed: false, counts, failure: None }
    }

    /// Performs all steps in the order of RFC 9172 5.1.
    ///
    /// # Errors
    /// The reason why the bundle must be deleted.
    // 9172-3.9-1, 9172-5.1-1
    pub fn run(&mut self) -> Result<(), DeleteReason> {
        self.contradictions()?;
        self.decipher()?;
        self.verify()?;
        self.demand()?;
        self.restore();
        Ok(())
    }

    /// The readable security blocks of one type.
    // 9172-3.9-7
    fn sections(&self, kind: u64) -> Result<Vec<Section>, DeleteReason> {
        let hidden = if kind == INTEGRITY { self.enciphered()? } else { Vec::new() };
        let mut sections = Vec::new();
        for section in Section::all(self.bundle, kind) {
            match section {
                Ok(section) if !hidden.contains(&section.header.number) => sections.push(section),
                Err(header) if !hidden.contains(&header.number) => return Err(DeleteReason::BlockUnintelligible),
                _ => {}
            }
        }
        Ok(sections)
    }
    /// Numbers of the encrypted blocks of the bundle.
    fn enciphered(&self) -> Result<Vec<u64>, DeleteReason> {
        let bcbs = self.sections(CONFIDENTIALITY)?;
        let mut targets: Vec<u64> = bcbs.into_iter().flat_map(|section| section.block.targets).collect();
        targets.sort_unstable();
        let numbers = self.bundle.extensions.iter().map(|block| block.number).chain([PRIMARY, PAYLOAD]);
        Ok(numbers.filter(|number| targets.binary_search(number).is_ok()).collect())
    }
    /// Numbers of the security blocks among these that have a target missing from the bundle.
    // 9172-3.6-5
    fn astray(&self, sections: &[Section]) -> Vec<u64> {
        // RFC 9172 3.6 forbids such targets, and none of the block's operations is believed.
        let astray = |section: &&Section| section.block.targets.iter().any(|target| self.kind_of(*target).is_none());
        sections.iter().filter(astray).map(|section| section.header.number).collect()
    }
    /// The type of the block of this number; `None`: no such block.
    fn kind_of(&self, number: u64) -> Option<u64> {
        match number {
            PRIMARY | PAYLOAD => Some(number),
            _ => self.bundle.extensions.iter().find(|block| block.number == number).map(|block| block.kind),
        }
    }

    /// Rejects repeated operations and forbidden targets (RFC 9172 3.2, 3.7, 3.8).
    // 9172-1.4-1, 9172-3.2-1, 9172-3.2-3, 9172-3.7-1, 9172-3.8-3, 9172-3.8-4, 9172-3.9-9
    fn contradictions(&self) -> Result<(), DeleteReason> {
        for (kind, none) in
            [(INTEGRITY, &[INTEGRITY, CONFIDENTIALITY][..]), (CONFIDENTIALITY, &[PRIMARY, CONFIDENTIALITY])]
        {
            let sections = self.sections(kind)?.into_iter();
            let mut targets: Vec<u64> = sections.flat_map(|section| section.block.targets).collect();
            targets.sort_unstable();
            if targets.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(DeleteReason::ConflictingSecurity);
            }
            if targets.iter().any(|target| self.kind_of(*target).is_some_and(|kind| none.contains(&kind))) {
                return Err(DeleteReason::UnexpectedSecurity);
            }
        }
        Ok(())
    }

    /// The first rule for a service and a type of blocks; for an encrypted integrity block, which rules cannot name,
    /// the first rule of the service.
    fn wish(&self, service: Service, kind: u64) -> Option<Wish<'a>> {
        let fits = |wish: &&Wish<'_>| wish.is(service, kind) || (wish.rule.service == service && kind == INTEGRITY);
        self.wishes.iter().find(fits).copied()
    }
    fn role(&self, wish: &Wish<'_>) -> Role {
        match self.at {
            Place::End => Role::Acceptor,
            Place::Group => Role::Verifier,
            Place::Way => wish.rule.role,
        }
    }
    /// The keys to try for a block of this type.
    // 9173-4.3.3-2, 9173-4.8.2-3
    fn keys_for(&self, wish: &Wish<'_>, kind: u64) -> Vec<Secret> {
        if kind != INTEGRITY {
            return self.keys.get(&wish.rule.key).to_vec();
        }
        let rules = self.wishes.iter().map(|wish| wish.rule).filter(|rule| rule.service == Service::Confidentiality);
        let mut names: Vec<&str> = rules.map(|rule| rule.key.as_str()).collect();
        names.dedup();
        names.into_iter().flat_map(|name| self.keys.get(name).iter().cloned()).collect()
    }

    fn opens_hashes(&self, bcbs: &[Section]) -> bool {
        // Without the key, the targets of an encrypted hash are unknown. RFC 9172 3.9 encrypts a hash together with
        // its target, so the other targets of the cipher show whether the hash concerns this node.
        let targets = bcbs.iter().flat_map(|bcb| &bcb.block.targets);
        let mut kinds = targets.filter_map(|target| self.kind_of(*target)).filter(|kind| *kind != INTEGRITY).peekable();
        self.at == Place::End
            || kinds.peek().is_none()
            || kinds.any(|kind| self.wish(Service::Confidentiality, kind).is_some())
    }

    /// Whether this node accepts all encrypted targets of an encrypted hash. A decrypted hash of a block that stays
    /// encrypted would reveal something about that block's content, which RFC 9172 3.9 forbids.
    fn accepts_hash(&self, section: &Section, target: u64, keys: &[Secret], enciphered: &[u64]) -> bool {
        let accepts_any =
            |wish: &Wish<'_>| wish.rule.service == Service::Confidentiality && self.role(wish) == Role::Acceptor;
        if !self.wishes.iter().any(accepts_any) {
            return false;
        }
        // The targets of the hash can be read only in a decrypted copy.
        let mut copy = self.bundle.clone();
        if bpsec::open(&mut copy, &section.block, section.header, target, keys, self.aes_gcm.as_ref()).is_err() {
            return false;
        }
        let rule = |kind| self.wish(Service::Confidentiality, kind);
        let accepts = |number: &u64| {
            // A target that failed its check was removed.
            let Some(kind) = self.kind_of(*number) else { return true };
            rule(kind).is_some_and(|wish| self.role(&wish) == Role::Acceptor)
        };
        let mut hashes = Section::all(&copy, INTEGRITY).filter_map(Result::ok);
        let hash = hashes.find(|hash| hash.header.number == target);
        hash.is_none_or(|hash| hash.block.targets.iter().all(|number| !enciphered.contains(number) || accepts(number)))
    }

    /// Decrypts encrypted blocks, or, where this node only verifies, decrypts a copy of them (RFC 9172 5.1.1).
    // 9172-2.2-1, 9172-5.1.1-2, 9172-5.1.1-9, 9172-5.1.1-12
    fn decipher(&mut self) -> Result<(), DeleteReason> {
        let sections = self.sections(CONFIDENTIALITY)?;
        let (opens_hashes, astray) = (self.opens_hashes(&sections), self.astray(&sections));
        let enciphered = self.enciphered()?;
        for mut section in sections {
            for target in section.block.targets.clone() {
                let Some(kind) = self.kind_of(target).filter(|kind| *kind != INTEGRITY || opens_hashes) else {
                    continue;
                };
                let Some(wish) = self.wish(Service::Confidentiality, kind) else {
                    if self.at == Place::End && target == PAYLOAD {
                        return Err(DeleteReason::UnknownSecurity);
                    }
                    continue;
                };
                let keys = self.keys_for(&wish, kind);
                let (block, header) = (&section.block, section.header);
                let accepts = match kind == INTEGRITY && self.at == Place::Way {
                    true => self.accepts_hash(&section, target, &keys, &enciphered),
                    false => self.role(&wish) == Role::Acceptor,
                };
                // 9172-5.1.1-1, 9172-5.1.1-6
                let opened = if astray.contains(&header.number) {
                    Err(SecurityFault::Target)
                // An acceptor decrypts in place; a verifier checks a copy and forwards the block as it came.
                } else if accepts {
                    bpsec::open(self.bundle, block, header, target, &keys, self.aes_gcm.as_ref())
                } else {
                    bpsec::open(&mut self.bundle.clone(), block, header, target, &keys, self.aes_gcm.as_ref())
                };
                if let Err(fault) = opened {
                    self.fails(target, fault, wish.rule)?;
                    continue;
                }
                self.holds(Service::Confidentiality, target);
                if accepts {
                    section.remove(self.bundle, target);
                    self.freed.push(target);
                    self.changed = true;
                }
            }
        }
        // Hashes of removed blocks may have been encrypted when those blocks were removed; now they can be found.
        core::mem::take(&mut self.lost).into_iter().try_for_each(|target| self.untarget(target))
    }

    /// Checks hashes (RFC 9172 5.1.2). An encrypted hash, or one of an encrypted target, is skipped (3.9).
    // 9172-2.2-1, 9172-3.9-8, 9172-5.1.2-5, 9172-5.1.2-8, 9172-5.1.2-9
    fn verify(&mut self) -> Result<(), DeleteReason> {
        let hidden = self.enciphered()?;
        let mut last: Option<Section> = None;
        let sections = self.sections(INTEGRITY)?;
        let astray = self.astray(&sections);
        for mut section in sections {
            for target in section.block.targets.clone() {
                let wish = self.kind_of(target).and_then(|kind| self.wish_of_hash(kind));
                let Some(wish) = wish.filter(|_| !hidden.contains(&target)) else { continue };
                let keys = self.keys.get(&wish.rule.key);
                let checked = match astray.contains(&section.header.number) {
                    true => Err(SecurityFault::Target),
                    false => bpsec::check(self.bundle, &section.block, section.header, target, keys),
                };
                // 9173-3.3.2-2, 9173-3.8.2-3
                if let Err(fault) = checked {
                    self.fails(target, fault, wish.rule)?;
                    // `lose` removed the operation from the bundle; this copy must follow, as it is written back
                    // with the next target.
                    section.block.remove(target);
                    continue;
                }
                self.holds(Service::Integrity, target);
                // 9172-5.1.2-1
                if self.at == Place::End || self.role(&wish) != Role::Acceptor {
                    continue;
                }
                if target == PRIMARY {
                    last = Some(section.clone());
                } else {
                    section.remove(self.bundle, target);
                    self.freed.push(target);
                    self.changed = true;
                }
            }
        }
        // A primary block that loses its hash gets a CRC again. This changes the block, which other operations may
        // cover, so the hash stays as long as the bundle has any other operation.
        if let Some(number) = last.map(|section| section.header.number) {
            let mut left: Vec<Section> = self.sections(INTEGRITY)?;
            left.extend(self.sections(CONFIDENTIALITY)?);
            if let [only] = &mut left[..]
                && only.header.number == number
                && only.block.targets == [PRIMARY]
            {
                only.remove(self.bundle, PRIMARY);
                self.freed.push(PRIMARY);
                self.changed = true;
            }
        }
        Ok(())
    }
    fn wish_of_hash(&self, kind: u64) -> Option<Wish<'a>> {
        self.wishes.iter().find(|wish| wish.is(Service::Integrity, kind)).copied()
    }

    fn holds(&mut self, service: Service, target: u64) {
        self.counts.verified += 1;
        self.held.push((service, target));
    }
    // 9172-5.1.1-3, 9172-5.1.2-3, 9172-5.1.2-7
    fn fails(&mut self, target: u64, fault: SecurityFault, rule: &'a Rule) -> Result<(), DeleteReason> {
        self.counts.failed += 1;
        self.failure = Some((rule, Some(fault)));
        self.lose(target, reason_of(fault))
    }
    /// Removes a block and all operations on it. For the payload or the primary block, fails with `reason`: the whole
    /// bundle must be deleted.
    // 9172-5.1.1-8, 9172-5.1.1-9, 9172-5.1.1-10
    fn lose(&mut self, target: u64, reason: DeleteReason) -> Result<(), DeleteReason> {
        // Primary and payload block are mandatory, so losing one of them deletes the bundle.
        if matches!(target, PRIMARY | PAYLOAD) {
            return Err(reason);
        }
        self.bundle.remove_block(target);
        self.changed = true;
        self.lost.push(target);
        self.untarget(target)
    }
    /// Removes all readable operations on this block.
    fn untarget(&mut self, target: u64) -> Result<(), DeleteReason> {
        for kind in [CONFIDENTIALITY, INTEGRITY] {
            for mut section in self.sections(kind)? {
                if section.block.targets.contains(&target) {
                    section.remove(self.bundle, target);
                }
            }
        }
        Ok(())
    }

    /// Numbers of encrypted blocks that seem to have an encrypted hash.
    // 9172-3.9-7
    fn hidden_with_hash(&self) -> Result<Vec<u64>, DeleteReason> {
        // Without the key this is only a guess: a block of a known context that covers both these targets and an
        // integrity block fits the demand of RFC 9172 3.9. The node that decrypts them checks the hash.
        let known = self.sections(CONFIDENTIALITY)?.into_iter().filter(|bcb| bcb.block.context == AES_GCM);
        let hidden: Vec<u64> = known.flat_map(|bcb| bcb.block.targets).collect();
        let hashes = hidden.iter().any(|target| self.kind_of(*target) == Some(INTEGRITY));
        Ok(if hashes { hidden } else { Vec::new() })
    }
    /// Checks that required operations are present and hold.
    // 9172-5.1.1-7, 9172-5.1.2-6
    fn demand(&mut self) -> Result<(), DeleteReason> {
        // A decrypted block was authenticated by its cipher, so it needs no hash here. An encrypted hash is checked
        // by the node that decrypts it.
        let hidden = if self.at == Place::End { Vec::new() } else { self.hidden_with_hash()? };
        let wishes = self.wishes;
        for wish in wishes.iter().filter(|wish| wish.rule.required) {
            let service = wish.rule.service;
            for number in bpsec::numbers_of(self.bundle, wish.kind) {
                let holds = |service| self.held.contains(&(service, number));
                let other =
                    service == Service::Integrity && (holds(Service::Confidentiality) || hidden.contains(&number));
                if !holds(service) && !other {
                    self.counts.missing += 1;
                    self.failure = Some((wish.rule, None));
                    self.lose(number, DeleteReason::MissingSecurity)?;
                }
            }
        }
        Ok(())
    }

    /// Restores a CRC on targets that lost their last operation (RFC 9173 3.8.2).
    // 9173-3.8.2-9, 9173-4.8.2-11
    fn restore(&mut self) {
        // At the end nothing is forwarded, so no CRC is needed.
        if self.at == Place::End {
            return;
        }
        let mut left: Vec<u64> = Vec::new();
        for kind in [INTEGRITY, CONFIDENTIALITY] {
            let sections = self.sections(kind).unwrap_or_default();
            left.extend(sections.into_iter().flat_map(|section| section.block.targets));
        }
        for target in core::mem::take(&mut self.freed) {
            if !left.contains(&target) {
                // RFC 9171 4.3.1 demands a CRC on a primary block that no integrity block covers.
                let crc = if target == PRIMARY && self.crc == CrcType::None { CrcType::Crc32c } else { self.crc };
                bpsec::add_crc(self.bundle, target, crc);
            }
        }
    }
}
