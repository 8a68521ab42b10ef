//! Combines the answers of all shards: contents are summed, and state that all shards share is taken from one.

use super::{Api, Problem, gone};
use crate::budget::Share;
use crate::clock;
use crate::node::{Handle, Node};
use farlink_base::store::Usage;
use farlink_bpa::SHARD_NUMBERS;
use farlink_bpa::app::Status;
use farlink_stack::{Pressure, SecurityCounts};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

impl Api {
    /// Shards in order, starting with the owner of a bundle.
    pub(super) fn shards_from(&self, bundle: u64) -> impl Iterator<Item = &Handle> {
        std::iter::once(&self.node).chain(&self.others).skip((bundle / SHARD_NUMBERS) as usize)
    }
    /// Asks each shard the same question, in order.
    pub(super) async fn each<T: Send + 'static>(
        &self,
        question: impl Fn(&mut Node) -> T + Clone + Send + 'static,
    ) -> Result<Vec<T>, Problem> {
        let mut answers = Vec::with_capacity(1 + self.others.len());
        for shard in std::iter::once(&self.node).chain(&self.others) {
            answers.push(shard.ask(question.clone()).await.ok_or_else(gone)?);
        }
        Ok(answers)
    }
}

/// State of a shard or of the whole node.
#[derive(Default)]
pub(super) struct Snapshot {
    pub status: Status,
    /// Capacity of the store, of which bundles may take the part that `status` has.
    pub capacity: u64,
    pub memory: Memory,
    pub security: Option<SecurityCounts>,
    pub store: Usage,
    /// Number of shards included.
    pub shards: u64,
    /// Last error of links, with its age in s.
    pub faults: HashMap<String, (f64, String)>,
    /// For each link of `status`, whether its layer belongs to this shard.
    own: Vec<bool>,
}
impl Snapshot {
    pub fn of(node: &mut Node) -> Snapshot {
        let (now, status) = (clock::now(), node.stack.status(clock::now()));
        let fault = |(name, at, what): (&str, farlink_base::Instant, &str)| {
            (name.to_string(), (now.since(at).as_secs_f64(), what.to_string()))
        };
        // Once a session is there, the error is history.
        let up: HashSet<&str> = status.links.iter().filter(|one| one.state == "up").map(|one| &*one.name).collect();
        let over = |name: &str| up.contains(name) && node.is_proven_when_up(name);
        let faults = node.last_errors().filter(|(name, ..)| !over(name)).map(fault).collect();
        let own = status.links.iter().map(|link| node.owns_link(&link.name)).collect();
        let (security, store) = (node.security(), node.stack.store_usage());
        let capacity = node.capacity();
        Snapshot { status, capacity, memory: Memory::of(node), security, store, shards: 1, faults, own }
    }
}

/// Memory budget, use and pressure.
#[derive(Default)]
pub(super) struct Memory {
    budget: u64,
    in_use: Option<u64>,
    level: Pressure,
    shares: Vec<Share>,
}
impl Memory {
    fn of(node: &Node) -> Memory {
        let (budget, shares) = node.memory();
        Memory { budget: budget.total(), in_use: budget.in_use(), level: budget.level(), shares }
    }
    pub fn to_json(&self) -> Value {
        let share = |share: &Share| json!({ "name": share.name, "limit": share.limit, "used": share.used });
        json!({
            "budget": self.budget,
            "in_use": self.in_use,
            "resident": farlink_os::memory::resident(),
            "pressure": format!("{:?}", self.level).to_lowercase(),
            "shares": self.shares.iter().map(share).collect::<Vec<_>>(),
        })
    }
}

/// Combines the snapshots of all shards; state that all shards share is taken from the first.
pub(super) fn whole(shards: Vec<Snapshot>) -> Snapshot {
    let mut shards = shards.into_iter();
    let Some(mut all) = shards.next() else { return Snapshot::default() };
    for shard in shards {
        add(&mut all, shard);
    }
    all
}
fn add(all: &mut Snapshot, shard: Snapshot) {
    let (sum, more) = (&mut all.status, shard.status);
    sum.bundles += more.bundles;
    sum.bytes += more.bytes;
    sum.capacity += more.capacity;
    all.capacity += shard.capacity;
    sum.strangers = (sum.strangers.0 + more.strangers.0, sum.strangers.1 + more.strangers.1);
    for (quota, part) in sum.quotas.iter_mut().zip(more.quotas) {
        quota.bundles += part.bundles;
        quota.bytes += part.bytes;
        quota.strangers = (quota.strangers.0 + part.strangers.0, quota.strangers.1 + part.strangers.1);
        quota.refused += part.refused;
        quota.bundles_max = quota.bundles_max.zip(part.bundles_max).map(|(a, b)| a.saturating_add(b));
        quota.bytes_max = quota.bytes_max.zip(part.bytes_max).map(|(a, b)| a.saturating_add(b));
    }
    for (link, own) in more.links.into_iter().zip(shard.own) {
        match sum.links.iter_mut().find(|there| there.name == link.name) {
            Some(there) => {
                there.queued += link.queued;
                there.in_flight += link.in_flight;
                if own {
                    // The shard that owns the layer has the true state of the link.
                    (there.up, there.state, there.peer) = (link.up, link.state, link.peer);
                }
            }
            None => sum.links.push(link),
        }
    }
    // Only the owner of a link's layer meets errors of it.
    all.faults.extend(shard.faults);
    for (share, part) in all.memory.shares.iter_mut().zip(shard.memory.shares) {
        share.limit = share.limit.saturating_add(part.limit);
        share.used = share.used.zip(part.used).map(|(a, b)| a + b);
    }
    all.memory.level = all.memory.level.max(shard.memory.level);
    if let Some(more) = shard.security {
        let sum = all.security.get_or_insert_default();
        sum.made += more.made;
        sum.verified += more.verified;
        sum.failed += more.failed;
        sum.missing += more.missing;
    }
    let (sum, more) = (&mut all.store, shard.store);
    sum.file_bytes += more.file_bytes;
    sum.commits = (sum.commits.0 + more.commits.0, sum.commits.1 + more.commits.1);
    sum.written_over += more.written_over;
    all.shards += 1;
}
