//! Operators' bounds on the store's use by some sources or neighbours: the node refuses further bundles of those that
//! have used up their quota, and goes on accepting bundles of others.
//!
//! Bundles are summed by source and by previous node, and each quota is the sum over the parties it applies to, so new
//! quotas take effect without a walk over held bundles.
//!
//! Bundles that no link vouches for ([`Flags::STRANGE`]) may name any source or neighbour. Each quota bounds them
//! separately, so that they take no room from the parties they name.

use crate::app::QuotaStatus;
use crate::patterns::matches_any;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{EndpointId, NodeId, PeerId, Refusal};
use farlink_book::{Flags, Held};

/// Bound on the bundles of some sources together, or of those from some neighbours together. A quota applies either to
/// sources or to neighbours, so that it counts each bundle once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Patterns of the node IDs of sources.
    pub sources: Vec<String>,
    /// Patterns of the node IDs of neighbours; ignored if there are patterns of sources.
    pub neighbours: Vec<String>,
    /// Most bytes held.
    pub bytes: u64,
    /// Most bundles held.
    pub bundles: u64,
}

impl Quota {
    fn is_about(&self, name: &EndpointId, source: bool) -> bool {
        match self.sources.is_empty() {
            false => source && matches_any(&self.sources, name),
            true => !source && matches_any(&self.neighbours, name),
        }
    }
}

/// Number and bytes of the bundles of a source, from a neighbour, or under a quota.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct QuotaSum {
    bundles: u64,
    bytes: u64,
}
impl QuotaSum {
    fn come(&mut self, bytes: u64) {
        self.bundles += 1;
        self.bytes += bytes;
    }
    fn go(&mut self, bytes: u64) {
        self.bundles = self.bundles.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Sums of vouched bundles and of all others, counted apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Sums([QuotaSum; 2]);
impl Sums {
    fn of(&self, held: &Held) -> &QuotaSum {
        &self.0[usize::from(held.flags.has(Flags::STRANGE))]
    }
    fn of_mut(&mut self, held: &Held) -> &mut QuotaSum {
        &mut self.0[usize::from(held.flags.has(Flags::STRANGE))]
    }
    fn add(&mut self, other: &Sums) {
        for (sum, other) in self.0.iter_mut().zip(&other.0) {
            sum.bundles += other.bundles;
            sum.bytes += other.bytes;
        }
    }
    fn subtract(&mut self, other: &Sums) {
        for (sum, other) in self.0.iter_mut().zip(&other.0) {
            sum.bundles = sum.bundles.saturating_sub(other.bundles);
            sum.bytes = sum.bytes.saturating_sub(other.bytes);
        }
    }
    fn is_empty(&self) -> bool {
        self.0.iter().all(|sum| sum.bundles == 0)
    }
    fn total(&self) -> QuotaSum {
        let [vouched, strange] = self.0;
        QuotaSum { bundles: vouched.bundles + strange.bundles, bytes: vouched.bytes + strange.bytes }
    }
}

/// One source or one neighbour.
#[derive(Debug)]
struct Party {
    name: EndpointId,
    sums: Sums,
    /// Indexes of the quotas that apply to the party.
    of: Vec<u16>,
}

/// One quota with its sums.
#[derive(Debug)]
struct QuotaAccount {
    quota: Quota,
    sums: Sums,
    refused: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Quotas {
    accounts: Vec<QuotaAccount>,
    sources: BTreeMap<NodeId, Party>,
    neighbours: BTreeMap<PeerId, Party>,
    /// Whether bundles are counted: from the first time quotas are set.
    counting: bool,
}

/// Indexes of the quotas that apply to a node, as a source or as a neighbour.
fn about(accounts: &[QuotaAccount], name: &EndpointId, source: bool) -> Vec<u16> {
    let fits = |account: &QuotaAccount| account.quota.is_about(name, source);
    accounts.iter().enumerate().filter(|(_, account)| fits(account)).map(|(at, _)| at as u16).collect()
}

impl Quotas {
    pub const fn new() -> Self {
        Quotas { accounts: Vec::new(), sources: BTreeMap::new(), neighbours: BTreeMap::new(), counting: false }
    }
    pub fn counts(&self) -> bool {
        self.counting
    }
    /// Replaces all quotas; their counts of refusals start at zero. Returns true if counting begins, so that the caller
    /// must count held bundles with [`Quotas::come`].
    pub fn set(&mut self, quotas: Vec<Quota>) -> bool {
        self.accounts = quotas
            .into_iter()
            // Parties refer to quotas by 16-bit indexes.
            .take(usize::from(u16::MAX))
            .map(|quota| QuotaAccount { quota, sums: Sums::default(), refused: 0 })
            .collect();
        let Quotas { accounts, sources, neighbours, .. } = self;
        let parties = sources.values_mut().map(|party| (party, true));
        for (party, source) in parties.chain(neighbours.values_mut().map(|party| (party, false))) {
            party.of = about(accounts, &party.name, source);
            for at in &party.of {
                accounts[usize::from(*at)].sums.add(&party.sums);
            }
        }
        // Counting starts with the first quotas, so that other nodes pay nothing for it.
        let begins = !self.counting && !self.accounts.is_empty();
        self.counting |= begins;
        begins
    }
    /// Renames a neighbour: its bundles now count under the quotas of the new name.
    pub fn rename(&mut self, neighbour: PeerId, name: EndpointId) {
        let Quotas { accounts, neighbours, .. } = self;
        let Some(party) = neighbours.get_mut(&neighbour).filter(|party| party.name != name) else { return };
        let of = about(accounts, &name, false);
        for at in core::mem::replace(&mut party.of, of) {
            accounts[usize::from(at)].sums.subtract(&party.sums);
        }
        for at in &party.of {
            accounts[usize::from(*at)].sums.add(&party.sums);
        }
        party.name = name;
    }
    fn parties(&mut self, held: &Held, previous_node: &EndpointId) -> Vec<u16> {
        let Quotas { accounts, sources, neighbours, .. } = self;
        let source = &held.bundle.source;
        let of = |name: EndpointId, source: bool| {
            let of = about(accounts, &name, source);
            Party { name, sums: Sums::default(), of }
        };
        let party = sources.entry(source.node()).or_insert_with(|| of(source.node_id(), true));
        party.sums.of_mut(held).come(held.size());
        let mut all = party.of.clone();
        // Bundles made here have no previous node.
        if held.from != PeerId::NONE {
            let party = neighbours.entry(held.from).or_insert_with(|| of(previous_node.clone(), false));
            party.sums.of_mut(held).come(held.size());
            all.extend(&party.of);
        }
        all
    }
    /// Counts a bundle that is now held.
    pub fn come(&mut self, held: &Held, previous_node: &EndpointId) {
        if !self.counting {
            return;
        }
        for at in self.parties(held, previous_node) {
            self.accounts[usize::from(at)].sums.of_mut(held).come(held.size());
        }
    }
    /// Uncounts a bundle that departs.
    pub fn go(&mut self, held: &Held) {
        if !self.counting {
            return;
        }
        let Quotas { accounts, sources, neighbours, .. } = self;
        let mut all: Vec<u16> = Vec::new();
        let source = held.bundle.source.node();
        // Parties without bundles are removed, so that the tables stay as small as the book.
        if let Some(party) = sources.get_mut(&source) {
            party.sums.of_mut(held).go(held.size());
            all.extend(&party.of);
            if party.sums.is_empty() {
                sources.remove(&source);
            }
        }
        if let Some(party) = neighbours.get_mut(&held.from) {
            party.sums.of_mut(held).go(held.size());
            all.extend(&party.of);
            if party.sums.is_empty() {
                neighbours.remove(&held.from);
            }
        }
        all.into_iter().for_each(|at| accounts[usize::from(at)].sums.of_mut(held).go(held.size()));
    }
    /// Checks that a new bundle fits every quota that applies. The first quota that has no room counts the refusal.
    ///
    /// # Errors
    /// `NoResources` if a quota has no room now, `TooLarge` if it never will.
    pub fn admit(&mut self, new: &Held, previous_node: &EndpointId) -> Result<(), Refusal> {
        if self.accounts.is_empty() {
            return Ok(());
        }
        let source = new.bundle.source.node_id();
        let of_previous = new.from != PeerId::NONE;
        for account in &mut self.accounts {
            let quota = &account.quota;
            if !(quota.is_about(&source, true) || of_previous && quota.is_about(previous_node, false)) {
                continue;
            }
            let Quota { bytes, bundles, .. } = quota;
            let (size, QuotaSum { bundles: held, bytes: filled }) = (new.size(), *account.sums.of(new));
            // Such a bundle never fits, so the sender need not try again.
            if size > *bytes || *bundles == 0 {
                account.refused += 1;
                return Err(Refusal::TooLarge);
            }
            if filled.saturating_add(size) > *bytes || held >= *bundles {
                account.refused += 1;
                return Err(Refusal::NoResources);
            }
        }
        Ok(())
    }
    /// Empty tables that count like these, but have no quotas.
    #[cfg(feature = "audit")]
    pub(super) fn as_before(&self) -> Quotas {
        Quotas { counting: self.counting, ..Quotas::default() }
    }
    /// Checks the sums of all parties and quotas against a fresh count.
    ///
    /// # Panics
    /// If they do not agree.
    #[cfg(feature = "audit")]
    pub fn audit(&self, again: &Quotas) {
        fn sums<K: Copy>(parties: &BTreeMap<K, Party>) -> Vec<(K, Sums)> {
            parties.iter().map(|(key, party)| (*key, party.sums)).collect()
        }
        assert_eq!(sums(&self.sources), sums(&again.sources), "bundles and bytes by source, for quotas");
        assert_eq!(sums(&self.neighbours), sums(&again.neighbours), "bundles and bytes by neighbour, for quotas");
        for (at, account) in self.accounts.iter().enumerate() {
            let parties = self.sources.values().chain(self.neighbours.values());
            let about = parties.filter(|party| party.of.contains(&(at as u16)));
            let mut all = Sums::default();
            about.for_each(|party| all.add(&party.sums));
            assert_eq!(account.sums, all, "quota {at}");
        }
    }
    /// Whether every quota that applies has room for a new bundle if this many bundles and bytes are counted in
    /// addition.
    pub fn has_room(
        &self,
        new: &Held,
        previous_node: impl FnOnce() -> EndpointId,
        (bundles, bytes): (u64, u64),
    ) -> bool {
        if self.accounts.is_empty() {
            return true;
        }
        let (source, previous_node, of_previous) =
            (new.bundle.source.node_id(), previous_node(), new.from != PeerId::NONE);
        self.accounts.iter().all(|QuotaAccount { quota, sums, .. }| {
            let sum = sums.of(new);
            let about = quota.is_about(&source, true) || of_previous && quota.is_about(&previous_node, false);
            let filled = sum.bytes.saturating_add(bytes).saturating_add(new.size());
            !about || filled <= quota.bytes && sum.bundles.saturating_add(bundles) < quota.bundles
        })
    }
    /// State of each quota, for operators.
    pub fn status(&self) -> Vec<QuotaStatus> {
        let row = |account: &QuotaAccount| QuotaStatus {
            sources: account.quota.sources.clone(),
            neighbours: account.quota.neighbours.clone(),
            bundles: account.sums.total().bundles,
            bytes: account.sums.total().bytes,
            strangers: (account.sums.0[1].bundles, account.sums.0[1].bytes),
            bundles_max: Some(account.quota.bundles).filter(|most| *most < u64::MAX),
            bytes_max: Some(account.quota.bytes).filter(|most| *most < u64::MAX),
            refused: account.refused,
        };
        self.accounts.iter().map(row).collect()
    }
}
