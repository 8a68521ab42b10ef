//! Memory budget of a node: each table and buffer has a share of it.
//!
//! As allocated memory approaches the budget, bundles copy their bytes out of shared read buffers, and bundles of
//! unknown neighbours are refused; later, all bundles are refused.

use crate::buffers::PIECE;
use crate::config::NodeConfig;
use crate::streams::{Bounds, QUEUE_BOUND};
use farlink_base::layer::Medium;
use farlink_base::{DataVolume, Duration, Instant, NodeSettings, exact_volume};
use farlink_os::{allocator, memory};
use farlink_stack::{Input, Limits, Pressure, SHORT_HEAD_BYTES, StoreKind};
use std::collections::VecDeque;

pub use farlink_base::node::MEMORY_MIN as LEAST;
/// Memory of one bundle beside its payload: entries of the book and the store's index, and a short head.
const BUNDLE_BYTES: u64 = 512 + SHORT_HEAD_BYTES;
/// Divisor of the budget: the quotient bounds the table of bundles and, separately, the bytes of long heads.
const TABLE_PART: u64 = 8;
/// Divisor of the budget: the quotient bounds bundles with incomplete heads on a node of several shards.
const HEADS_PART: u64 = 32;
/// Memory of one remembered bundle identity, in the agent and the store's index.
const REMEMBERED_BYTES: u64 = 432;
/// Memory of one unconfigured neighbour, including its session.
const STRANGER_BYTES: u64 = 16 << 10;
/// Memory of one fragment awaiting reassembly, beside its bundle.
const FRAGMENT_BYTES: u64 = 256;
/// Memory of one registration.
const REGISTRATION_BYTES: u64 = 1024;
/// Most spare read buffers.
const READ_BUFFERS_MAX: u64 = 64;
/// Lower bound of the limit on bytes that a layer queues on one stream: a fast link sends this much between two turns.
const STREAM_QUEUE_LEAST: u64 = 64 << 10;
/// Most bytes read in a turn from all streams.
const STREAM_READ_MAX: u64 = 8 << 20;
/// Interval between checks of the free pages that the allocator keeps.
const LOOK: Duration = Duration::from_millis(20);
/// Interval at which the stack is reminded of scarce memory.
const AGAIN: Duration = Duration::from_secs(1);

/// One share of the budget.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Table or buffer that the share is for.
    pub name: &'static str,
    /// Bound in bytes.
    pub limit: u64,
    /// Bytes in use, if counted separately.
    pub used: Option<u64>,
}

/// The memory of a node.
#[derive(Debug)]
pub struct Budget {
    /// Budget of all shards of the process.
    total: u64,
    /// Budget of this shard.
    part: u64,
    limits: Limits,
    layers: u64,
    level: Pressure,
    said: Instant,
    looked: Instant,
}

/// Memory for all shards of a node, bytes.
fn whole(config: &NodeConfig) -> u64 {
    config.stack.node.memory.map_or_else(|| (memory::available() / 2).max(LEAST), DataVolume::bytes)
}
/// Bytes for bundles with incomplete heads on a node of several shards: one pool for all shards, in addition to each
/// shard's bound of arriving bytes.
pub(crate) fn heads(config: &NodeConfig) -> u64 {
    whole(config) / HEADS_PART
}

/// Limits a bound to the number of entries of `each` bytes that its share holds, at least one. If this lowers a bound
/// other than `default`, adds a message to `said`.
fn lower(key: &str, bound: &mut u64, share: u64, each: u64, default: u64, said: &mut Vec<String>) {
    let most = (share / each).max(1);
    if *bound > most {
        if *bound != default {
            said.push(format!("{key} is {most}, its share of the memory budget, not {bound}"));
        }
        *bound = most;
    }
}

impl Budget {
    /// Assigns shares to all tables and buffers: each bound becomes the smaller of its setting and its share. Returns
    /// the budget and a message for every setting that was lowered.
    pub fn apply(config: &mut NodeConfig) -> (Budget, Vec<String>) {
        let whole = whole(config);
        let shards = config.stack.shards.as_ref().map_or(1, |shards| u64::from(shards.count));
        let total = whole / shards.max(1);
        let mut said = Vec::new();
        let usual = NodeSettings::default();
        let default = usual.limits;
        let in_memory = config.stack.store.kind == StoreKind::Memory;
        let limits = &mut config.stack.node.limits;
        let mut bytes = |key: &str, bound: &mut u64, share: u64, default: u64| {
            if *bound > share {
                // Only values from the file are worth a message; defaults shrink silently.
                if *bound != default {
                    let (share, given) = (exact_volume(share), exact_volume(*bound));
                    said.push(format!("{key} is {share}, its share of the memory budget, not {given}"));
                }
                *bound = share;
            }
        };
        // Shares are fixed fractions: `sum_of_shares_stays_within_budget` checks that they leave room for the rest.
        bytes("limits.memory_bytes", &mut limits.memory_bytes, total / 8, default.memory_bytes);
        // With several shards, incomplete heads have a common pool that is taken from here.
        let arriving = if shards > 1 { total / 8 - total / HEADS_PART } else { total / 8 };
        bytes("limits.arriving_bytes", &mut limits.arriving_bytes, arriving, default.arriving_bytes);
        bytes("limits.head_bytes", &mut limits.head_bytes, total / TABLE_PART, default.head_bytes);
        // Longer payloads are spilled to disk as they arrive; without spilling, a bundle must fit in the arriving
        // bytes.
        let spill_from = &mut config.stack.node.store.spill_from.0;
        *spill_from = (*spill_from).min(limits.arriving_bytes / 4);
        if in_memory || *spill_from == 0 {
            limits.bundle_bytes = limits.bundle_bytes.min(limits.arriving_bytes);
        }
        if in_memory {
            let capacity = &mut config.stack.node.store.capacity.0;
            bytes("store.capacity", capacity, total / 4, usual.store.capacity.bytes());
            // A store in memory is part of this budget, so the bounds within it follow its capacity.
            limits.stranger_bytes = limits.stranger_bytes.min(*capacity / 2);
            limits.reserved_bytes = limits.reserved_bytes.min(*capacity / 16);
        }
        let rows = || config.stack.layers.iter().filter_map(|layer| layer.kind.info());
        let streamed = rows().filter(|info| info.medium == Medium::Streams).count() as u64;
        let holders = rows().filter(|info| !info.held.is_empty()).count() as u64;
        for layer in &mut config.stack.layers {
            let Some(info) = layer.kind.info() else { continue };
            // All layers that hold received data share one sixteenth.
            let (defaults, share) = (info.settings(), total / 16 / holders.max(1));
            for name in info.held {
                let (Some(mut bound), Some(row)) =
                    (layer.kind.value(name), defaults.iter().find(|row| row.name == *name))
                else {
                    continue;
                };
                bytes(&format!("layer.{}.{name}", layer.name), &mut bound, share, row.default);
                layer.kind.lower(name, bound);
            }
        }
        for (at, layer) in config.stack.layers.iter_mut().enumerate() {
            let Some(info) = layer.kind.info().filter(|info| info.sessions) else { continue };
            let defaults = info.settings();
            let default = defaults.iter().find(|row| row.name == SESSIONS).map_or(0, |row| row.default);
            let Some(mut sessions) = layer.kind.value(SESSIONS) else { continue };
            // The share holds at least two sessions for each configured neighbour, so that as many unknown ones may
            // connect beside them. Links without an address count, too.
            let configured = config.stack.links.iter().filter(|link| link.layer == at).count() as u64;
            let share = (total / 16 / streamed.max(1)).max(2 * configured * STRANGER_BYTES);
            lower(
                &format!("layer.{}.{SESSIONS}", layer.name),
                &mut sessions,
                share,
                STRANGER_BYTES,
                default,
                &mut said,
            );
            layer.kind.lower(SESSIONS, sessions);
        }
        lower("limits.bundles", &mut limits.bundles, total / TABLE_PART, BUNDLE_BYTES, default.bundles, &mut said);
        let mut count = |key: &str, bound: &mut usize, share: u64, each: u64, default: usize| {
            let mut wide = *bound as u64;
            lower(key, &mut wide, share, each, default as u64, &mut said);
            *bound = wide as usize;
        };
        count("limits.remembered", &mut limits.remembered, total / 32, REMEMBERED_BYTES, default.remembered);
        count("limits.fragments", &mut limits.fragments, total / 128, FRAGMENT_BYTES, default.fragments);
        count("limits.dynamic_links", &mut limits.dynamic_links, total / 16, STRANGER_BYTES, default.dynamic_links);
        count(
            "limits.registrations",
            &mut limits.registrations,
            total / 128,
            REGISTRATION_BYTES,
            default.registrations,
        );
        let limits = *limits;
        (
            Budget {
                total: whole,
                part: total,
                limits,
                layers: if holders > 0 { total / 16 } else { 0 },
                level: Pressure::None,
                said: Instant::ZERO,
                looked: Instant::ZERO,
            },
            said,
        )
    }
    /// Measures allocated memory and reports a change of pressure. Returns true if free pages went back to the kernel;
    /// other threads should then return theirs.
    pub fn look(&mut self, now: Instant, inputs: &mut VecDeque<Input>) -> bool {
        let Some(in_use) = allocator::in_use() else { return false };
        let given_back = self.give_back(now, in_use);
        let level = self.level_at(in_use);
        // The stack frees memory step by step, so lasting pressure is reported repeatedly.
        if level == self.level && (level == Pressure::None || now < self.said + AGAIN) {
            return given_back;
        }
        if level != self.level {
            let (in_use, total) = (DataVolume(in_use), DataVolume(self.total));
            match level {
                Pressure::None => tracing::info!("memory is no longer scarce"),
                Pressure::High => tracing::warn!("memory is scarce: {in_use} of {total}; strangers are refused"),
                Pressure::Full => tracing::warn!("memory is full: {in_use} of {total}; everybody is refused"),
            }
        }
        (self.level, self.said) = (level, now);
        inputs.push_back(Input::Pressure(level));
        given_back
    }
    /// Returns free pages to the kernel if they take more than a sixteenth of the budget and the whole process takes
    /// more than ten sixteenths.
    fn give_back(&mut self, now: Instant, in_use: u64) -> bool {
        // Reading `/proc` costs system calls: not in every turn.
        if now < self.looked + LOOK {
            return false;
        }
        self.looked = now;
        let (resident, anonymous) = memory::resident_and_anonymous();
        let many = resident > self.total / 16 * 10 && anonymous.saturating_sub(in_use) > self.total / 16;
        if many {
            allocator::give_back();
        }
        many
    }
    /// Pressure at this use of memory.
    fn level_at(&self, in_use: u64) -> Pressure {
        // High from 9/16 of the budget, full from 11/16; a level ends 1/16 lower, so that it does not flap. The rest is
        // for the allocator, the kernel and the current turn.
        let from = |level: Pressure, sixteenths: u64| {
            let sixteenths = sixteenths - u64::from(self.level >= level);
            in_use >= self.total / 16 * sixteenths
        };
        if from(Pressure::Full, 11) {
            Pressure::Full
        } else if from(Pressure::High, 9) {
            Pressure::High
        } else {
            Pressure::None
        }
    }
    /// Message for an opened store with so many bundles or long heads that memory allows no more; else `None`.
    pub fn overfull(&self, bundles: u64, heads: u64) -> Option<String> {
        let limits = &self.limits;
        let what = if bundles >= limits.bundles {
            let most = limits.bundles;
            format!("{bundles} bundles, this memory is for {most}: nothing is taken until some have left")
        } else if heads >= limits.head_bytes {
            let (heads, most) = (exact_volume(heads), exact_volume(limits.head_bytes));
            format!("{heads} of long heads, this memory is for {most}: no more of them is taken until some have left")
        } else {
            return None;
        };
        // One bundle more than now, so that the node accepts again.
        let needed = ((bundles + 1) * BUNDLE_BYTES).max(heads) * TABLE_PART;
        let hint = if needed > self.part {
            format!("`[limits] memory` of at least {} MiB would hold them", needed.div_ceil(1 << 20))
        } else {
            "raise `bundles` and `head_bytes` of [limits]".into()
        };
        Some(format!("the store holds {what}\nhint: {hint}"))
    }
    /// Current memory pressure.
    pub fn level(&self) -> Pressure {
        self.level
    }
    /// Bound of the bytes of bundles arriving from applications.
    pub fn applications(&self) -> u64 {
        self.part / 8
    }
    /// Number of spare read buffers.
    pub fn read_buffers(&self) -> usize {
        (self.part / 64 / PIECE as u64).clamp(1, READ_BUFFERS_MAX) as usize
    }
    /// Bounds of streams: bytes that a layer may queue on one, and bytes read from all in one turn.
    pub fn streams(&self) -> Bounds {
        Bounds {
            queue: (self.part / 256).clamp(STREAM_QUEUE_LEAST, QUEUE_BOUND),
            read: (self.part / 32).min(STREAM_READ_MAX) as usize,
        }
    }
    /// Budget of the whole process, bytes.
    pub fn total(&self) -> u64 {
        self.total
    }
    /// Bytes allocated now, if the process counts them.
    pub fn in_use(&self) -> Option<u64> {
        allocator::in_use()
    }
    /// Bound and use of each share: payloads of held and arriving bundles, number of bundles, long heads, read buffers
    /// and others.
    pub fn shares(
        &self,
        (held, arriving): (u64, u64),
        capacity: Option<u64>,
        (bundles, heads): (u64, u64),
        pieces: usize,
    ) -> Vec<Share> {
        let limits = &self.limits;
        let share = |name, limit, used| Share { name, limit, used };
        vec![
            share("payloads", capacity.unwrap_or(limits.memory_bytes), Some(held)),
            share("arriving bundles", limits.arriving_bytes, Some(arriving)),
            share("arriving LTP blocks", self.layers, None),
            share("LTP blocks in flight", self.layers, None),
            share("bundles of applications", self.applications(), None),
            share("table of bundles", limits.bundles * BUNDLE_BYTES, Some(bundles * BUNDLE_BYTES)),
            share("block heads", limits.head_bytes, Some(heads)),
            share("remembered identities", limits.remembered as u64 * REMEMBERED_BYTES, None),
            share("read buffers", (self.read_buffers() * PIECE) as u64, Some((pieces * PIECE) as u64)),
            share("fragments", limits.fragments as u64 * FRAGMENT_BYTES, None),
            share("neighbours not configured", limits.dynamic_links as u64 * STRANGER_BYTES, None),
            share("registrations", limits.registrations as u64 * REGISTRATION_BYTES, None),
        ]
    }
}

/// Name of the setting of stream layers that bounds their sessions.
const SESSIONS: &str = "sessions";

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(text: &str) -> NodeConfig {
        NodeConfig::parse(&format!("node_ids = \"ipn:1.0\"\n{text}"), Path::new("node.toml")).unwrap()
    }

    #[test]
    fn sum_of_shares_stays_within_budget() {
        for memory in ["64 MiB", "256 MiB", "1 GiB", "100 GiB"] {
            for (store, file) in
                [("memory", "[store]\nkind = \"memory\"\ncapacity = \"1 TB\"\n"), ("disk", "[store]\ndir = \"s\"\n")]
            {
                let two = "[layer.a]\nkind = \"ltp\"\n[layer.b]\nkind = \"ltp\"\n";
                let mut config = config(&format!("{file}[limits]\nmemory = \"{memory}\"\n{two}"));
                let (budget, _) = Budget::apply(&mut config);
                let capacity = (store == "memory").then_some(config.stack.node.store.capacity.bytes());
                let shares = budget.shares((0, 0), capacity, (0, 0), 0);
                let sum: u64 = shares.iter().map(|share| share.limit).sum();
                // The remainder bounds applications, sessions and the control API.
                let most = if store == "memory" { 16 } else { 14 };
                assert!(sum * 16 <= budget.total() * most, "{memory} {store}: {shares:?}");
                let ltp = &config.stack.layers[1].kind;
                let held = ["memory", "in_flight"].map(|name| ltp.value(name).expect(name));
                assert!(held.iter().all(|bytes| *bytes <= budget.total() / 32), "{held:?}");
            }
        }
    }

    #[test]
    fn configured_bounds_are_lowered_to_shares() {
        let mut lowered = config("[limits]\nmemory = \"256 MiB\"\nbundles = 5000000\narriving_bytes = \"64 MiB\"\n");
        let (_, said) = Budget::apply(&mut lowered);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("limits.arriving_bytes is 32 MiB") && said[0].contains("not 64 MiB"), "{}", said[0]);
        assert!(said[1].contains("limits.bundles is 43690"), "{}", said[1]);
        assert_eq!(lowered.stack.node.limits.bundles, 43690);
        let mut small = config("[limits]\nmemory = \"256 MiB\"\nbundles = 500\n");
        assert!(
            Budget::apply(&mut small).1.is_empty() && small.stack.node.limits.bundles == 500,
            "a default is no news"
        );
    }

    #[test]
    fn sessions_share_budget_among_stream_layers() {
        let layers =
            "[layer.a]\nkind = \"tcpclv4\"\nsessions = 5000\n[layer.b]\nkind = \"stcp\"\n[layer.c]\nkind = \"ltp\"\n";
        for (memory, most, rest) in [("64 MiB", 128, 128), ("512 MiB", 1024, 1000)] {
            let mut config = config(&format!("[limits]\nmemory = \"{memory}\"\n{layers}"));
            let (_, said) = Budget::apply(&mut config);
            assert_eq!(said, [format!("layer.a.sessions is {most}, its share of the memory budget, not 5000")]);
            let sessions = config
                .stack
                .layers
                .iter()
                .filter(|layer| layer.kind.info().is_some_and(|info| info.sessions))
                .filter_map(|layer| layer.kind.value(SESSIONS));
            assert_eq!(sessions.collect::<Vec<_>>(), [most, rest]);
        }
    }

    #[test]
    fn shares_below_a_settings_range_are_applied() {
        // 70 layers share 4 MiB (a sixteenth of 64 MiB): each gets less than 64 KiB, the minimum that a file may set.
        let layers = (0..70).map(|n| format!("[layer.l{n}]\nkind = \"ltp\"\n")).collect::<String>();
        let mut config = config(&format!("[limits]\nmemory = \"64 MiB\"\n{layers}"));
        Budget::apply(&mut config);
        for layer in &config.stack.layers {
            assert_eq!(["memory", "in_flight"].map(|name| layer.kind.value(name)), [Some((4 << 20) / 70); 2]);
        }
    }

    #[test]
    fn configured_neighbours_keep_their_sessions() {
        let links = (2..=201).map(|node| format!("[link.n{node}]\nlayer = \"t\"\npeer = \"ipn:{node}.0\"\n"));
        let layers = "[layer.t]\nkind = \"tcpclv4\"\n[layer.s]\nkind = \"stcp\"\n";
        let mut config = config(&format!("[limits]\nmemory = \"64 MiB\"\n{layers}{}", links.collect::<String>()));
        Budget::apply(&mut config);
        assert_eq!(config.stack.layers[0].kind.value(SESSIONS), Some(400), "200 configured, as many strangers");
    }

    #[test]
    fn overfull_store_names_memory_needed() {
        let (budget, _) = Budget::apply(&mut config("[limits]\nmemory = \"64 MiB\"\n"));
        assert_eq!(budget.overfull(10_921, 8_388_607), None);
        let said = budget.overfull(300_000, 0).unwrap();
        assert_eq!(
            said,
            "the store holds 300000 bundles, this memory is for 10922: nothing is taken until some have left\n\
             hint: `[limits] memory` of at least 1758 MiB would hold them"
        );
        let (enough, _) = Budget::apply(&mut config("[limits]\nmemory = \"1758 MiB\"\n"));
        assert_eq!(enough.overfull(300_000, 0), None);
        let said = budget.overfull(500, 16 << 20).unwrap();
        assert!(said.contains("16 MiB of long heads, this memory is for 8 MiB") && said.contains("128 MiB"), "{said}");
        let (few, _) = Budget::apply(&mut config("[limits]\nmemory = \"1 GiB\"\nbundles = 10\n"));
        assert!(few.overfull(20, 0).unwrap().ends_with("hint: raise `bundles` and `head_bytes` of [limits]"));
    }

    #[test]
    fn pressure_levels_have_hysteresis() {
        let (mut budget, _) = Budget::apply(&mut config("[limits]\nmemory = \"160 MiB\"\n"));
        let mut see = |mib: u64| {
            budget.level = budget.level_at(mib << 20);
            budget.level
        };
        use Pressure::{Full, High, None};
        let seen: Vec<_> = [80, 90, 85, 79, 85, 110, 105, 99, 79].into_iter().map(&mut see).collect();
        assert_eq!(seen, [None, High, High, None, None, Full, Full, High, None]);
    }
}
