//! What operators let some sources and some neighbours fill of the store: so that a full node refuses those who filled it, and
//! goes on taking from others.
//!
//! Bundles are counted by source and by giver, and each quota is the sum of those it is about: other quotas are in force
//! without a walk over what is held.

use crate::agent::Agent;
use crate::app::QuotaStatus;
use crate::dispatch::matches_any;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{EndpointId, NodeId, PeerId, Refusal};
use farlink_book::{Held, Identity, Peer};

/// What some sources, or bundles of some neighbours, may fill together. One of the two: a bundle counts once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Patterns of the node IDs of sources.
    pub sources: Vec<String>,
    /// Patterns of the node IDs of neighbours; heeded where there are none of sources.
    pub neighbours: Vec<String>,
    /// Most bytes.
    pub bytes: u64,
    /// Most bundles.
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

/// How much there is, of a source, of a neighbour, or towards a quota.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Sum {
    bundles: u64,
    bytes: u64,
}
impl Sum {
    fn come(&mut self, bytes: u64) {
        self.bundles += 1;
        self.bytes += bytes;
    }
    fn go(&mut self, bytes: u64) {
        self.bundles = self.bundles.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// One source, or one neighbour.
#[derive(Debug)]
struct Party {
    name: EndpointId,
    sum: Sum,
    /// The quotas that are about it.
    of: Vec<u16>,
}

/// One quota.
#[derive(Debug)]
struct Account {
    quota: Quota,
    sum: Sum,
    refused: u64,
}

/// All quotas.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    accounts: Vec<Account>,
    sources: BTreeMap<NodeId, Party>,
    neighbours: BTreeMap<PeerId, Party>,
    /// Whether bundles are counted: from the first quotas on.
    counting: bool,
}

/// Which quotas are about a node, as a source or as a neighbour.
fn about(accounts: &[Account], name: &EndpointId, source: bool) -> Vec<u16> {
    let fits = |account: &Account| account.quota.is_about(name, source);
    accounts.iter().enumerate().filter(|(_, account)| fits(account)).map(|(at, _)| at as u16).collect()
}

impl Quotas {
    pub const fn new() -> Self {
        Quotas { accounts: Vec::new(), sources: BTreeMap::new(), neighbours: BTreeMap::new(), counting: false }
    }
    /// Whether bundles are counted.
    pub fn counts(&self) -> bool {
        self.counting
    }
    /// Other quotas from now on. What each refused is forgotten. True: what is held is to be counted, by
    /// [`Quotas::come`].
    pub fn set(&mut self, quotas: Vec<Quota>) -> bool {
        self.accounts = quotas
            .into_iter()
            .take(usize::from(u16::MAX))
            .map(|quota| Account { quota, sum: Sum::default(), refused: 0 })
            .collect();
        let Quotas { accounts, sources, neighbours, .. } = self;
        let parties = sources.values_mut().map(|party| (party, true));
        for (party, source) in parties.chain(neighbours.values_mut().map(|party| (party, false))) {
            party.of = about(accounts, &party.name, source);
            for at in &party.of {
                let sum = &mut accounts[usize::from(*at)].sum;
                sum.bundles += party.sum.bundles;
                sum.bytes += party.sum.bytes;
            }
        }
        let begins = !self.counting && !self.accounts.is_empty();
        self.counting |= begins;
        begins
    }
    /// A neighbour is called so from now on: what it gave counts to the quotas of that name.
    pub fn rename(&mut self, neighbour: PeerId, name: EndpointId) {
        let Quotas { accounts, neighbours, .. } = self;
        let Some(party) = neighbours.get_mut(&neighbour).filter(|party| party.name != name) else { return };
        let of = about(accounts, &name, false);
        for at in core::mem::replace(&mut party.of, of) {
            let sum = &mut accounts[usize::from(at)].sum;
            sum.bundles = sum.bundles.saturating_sub(party.sum.bundles);
            sum.bytes = sum.bytes.saturating_sub(party.sum.bytes);
        }
        for at in &party.of {
            let sum = &mut accounts[usize::from(*at)].sum;
            sum.bundles += party.sum.bundles;
            sum.bytes += party.sum.bytes;
        }
        party.name = name;
    }
    fn parties(&mut self, held: &Held, giver: &EndpointId) -> Vec<u16> {
        let Quotas { accounts, sources, neighbours, .. } = self;
        let source = &held.bundle.source;
        let of = |name: EndpointId, source: bool| {
            let of = about(accounts, &name, source);
            Party { name, sum: Sum::default(), of }
        };
        let party = sources.entry(source.node()).or_insert_with(|| of(source.node_id(), true));
        party.sum.come(held.size());
        let mut all = party.of.clone();
        if held.from != PeerId::NONE {
            let party = neighbours.entry(held.from).or_insert_with(|| of(giver.clone(), false));
            party.sum.come(held.size());
            all.extend(&party.of);
        }
        all
    }
    /// A bundle is held from now on.
    pub fn come(&mut self, held: &Held, giver: &EndpointId) {
        if !self.counting {
            return;
        }
        for at in self.parties(held, giver) {
            self.accounts[usize::from(at)].sum.come(held.size());
        }
    }
    /// A bundle leaves.
    pub fn go(&mut self, held: &Held) {
        if !self.counting {
            return;
        }
        let Quotas { accounts, sources, neighbours, .. } = self;
        let mut all: Vec<u16> = Vec::new();
        let source = held.bundle.source.node();
        if let Some(party) = sources.get_mut(&source) {
            party.sum.go(held.size());
            all.extend(&party.of);
            if party.sum.bundles == 0 {
                sources.remove(&source);
            }
        }
        if let Some(party) = neighbours.get_mut(&held.from) {
            party.sum.go(held.size());
            all.extend(&party.of);
            if party.sum.bundles == 0 {
                neighbours.remove(&held.from);
            }
        }
        all.into_iter().for_each(|at| accounts[usize::from(at)].sum.go(held.size()));
    }
    /// Whether a newcomer finds room in every quota that is about it; of the first where it does not, that is counted.
    ///
    /// # Errors
    /// There is none now, or never will be.
    pub fn admit(&mut self, new: &Held, giver: &EndpointId) -> Result<(), Refusal> {
        if self.accounts.is_empty() {
            return Ok(());
        }
        let source = new.bundle.source.node_id();
        let of_giver = new.from != PeerId::NONE;
        for account in &mut self.accounts {
            let quota = &account.quota;
            if !(quota.is_about(&source, true) || of_giver && quota.is_about(giver, false)) {
                continue;
            }
            let Quota { bytes, bundles, .. } = quota;
            let (size, Sum { bundles: held, bytes: filled }) = (new.size(), account.sum);
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
    /// Tables as these were before anything was counted.
    #[cfg(feature = "audit")]
    pub fn as_before(&self) -> Quotas {
        Quotas { counting: self.counting, ..Quotas::default() }
    }
    /// Checks the sums of all parties, and of the quotas that are about them, against other tables.
    ///
    /// # Panics
    /// When something does not agree.
    #[cfg(feature = "audit")]
    pub fn audit(&self, again: &Quotas) {
        fn sums<K: Copy>(parties: &BTreeMap<K, Party>) -> Vec<(K, Sum)> {
            parties.iter().map(|(key, party)| (*key, party.sum)).collect()
        }
        assert_eq!(sums(&self.sources), sums(&again.sources), "bundles and bytes by source, for quotas");
        assert_eq!(sums(&self.neighbours), sums(&again.neighbours), "bundles and bytes by neighbour, for quotas");
        for (at, account) in self.accounts.iter().enumerate() {
            let parties = self.sources.values().chain(self.neighbours.values());
            let about = parties.filter(|party| party.of.contains(&(at as u16)));
            let all = about.fold((0, 0), |(n, bytes), of| (n + of.sum.bundles, bytes + of.sum.bytes));
            assert_eq!((account.sum.bundles, account.sum.bytes), all, "quota {at}");
        }
    }
    /// Whether every quota that is about a newcomer has room for it beside so many bundles and bytes more.
    pub fn has_room(&self, new: &Held, giver: impl FnOnce() -> EndpointId, (bundles, bytes): (u64, u64)) -> bool {
        if self.accounts.is_empty() {
            return true;
        }
        let (source, giver, of_giver) = (new.bundle.source.node_id(), giver(), new.from != PeerId::NONE);
        self.accounts.iter().all(|Account { quota, sum, .. }| {
            let about = quota.is_about(&source, true) || of_giver && quota.is_about(&giver, false);
            let filled = sum.bytes.saturating_add(bytes).saturating_add(new.size());
            !about || filled <= quota.bytes && sum.bundles.saturating_add(bundles) < quota.bundles
        })
    }
    /// How full each is, for operators.
    pub fn status(&self) -> Vec<QuotaStatus> {
        let row = |account: &Account| QuotaStatus {
            sources: account.quota.sources.clone(),
            neighbours: account.quota.neighbours.clone(),
            bundles: account.sum.bundles,
            bytes: account.sum.bytes,
            bundles_max: Some(account.quota.bundles).filter(|most| *most < u64::MAX),
            bytes_max: Some(account.quota.bytes).filter(|most| *most < u64::MAX),
            refused: account.refused,
        };
        self.accounts.iter().map(row).collect()
    }
}

impl Agent {
    /// A neighbour's name becomes known, or surer: what it gave counts by it.
    pub(crate) fn learn(&mut self, peer: PeerId, name: EndpointId, identity: Identity) {
        self.neighbours.learn(peer, name, identity);
        let name = self.neighbours.peers().get(peer).map(Peer::endpoint);
        if let Some((shares, name)) = self.shares.made().zip(name) {
            shares.quotas.rename(peer, name);
        }
    }
}
