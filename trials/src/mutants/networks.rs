//! Mutations that show in whole networks, one for each invariant of `sim/tests/simfuzz/watch.rs`. `cargo xtask simfuzz
//! --planted` must find them, besides the tests of their own crates.

use super::{Mutant, plain};

/// Mutations of this file.
pub const TABLE: &[Mutant] = &[
    // Invariant: no bundle is delivered twice.
    plain(
        "what was delivered is not known again",
        "core/bpa/src/procedures/identity.rs",
        "        let Some(delivered) = self.remembered.delivered(bundle.original_id()) else",
        "        let Some(delivered) = self.remembered.delivered(bundle.original_id() / 2) else",
        &["-p farlink-bpa"],
    ),
    // Invariant: custody is conserved.
    plain(
        "custody holds nothing",
        "core/bpa/src/custody/mod.rs",
        "        book.hold(entry.bundle, RetentionConstraint::Custody);",
        "        let _ = book;",
        &["-p farlink-bpa --test all custody::"],
    ),
    // Invariant: no bundle is delivered after its lifetime.
    plain(
        "bundles live ten minutes longer",
        "core/bpa/src/procedures/lifetime.rs",
        "            0 => lifetime,",
        "            0 => lifetime + Duration::from_secs(600),",
        &["-p farlink-bpa"],
    ),
    // Invariant: no bundle expires before its lifetime ends.
    plain(
        "bundles live half as long",
        "core/bpa/src/procedures/lifetime.rs",
        "            0 => lifetime,",
        "            0 => lifetime / 2,",
        &["-p farlink-bpa"],
    ),
    // Invariant: a bundle is dropped only for a permitted reason.
    plain(
        "who failed three times is given up",
        "core/bpa/src/procedures/dispatch.rs",
        "if held.is_tired() {",
        "if held.is_tired() || held.failures > 3 {",
        &["-p farlink-bpa"],
    ),
    // Invariant: payloads arrive unchanged.
    plain(
        "pieces are cut beside their place",
        "core/stack/src/reads.rs",
        "Some(range) => self.bundle.payload.slice(range.start, range.end - range.start),",
        "Some(range) => self.bundle.payload.slice(range.start.saturating_sub(8), range.end - range.start),",
        &["-p farlink-stack"],
    ),
    // Invariant: a store stays within its capacity.
    plain(
        "a node has no bound",
        "core/bpa/src/procedures/evict.rs",
        "let missing = self.taken().saturating_add(new.size()).saturating_sub(capacity);",
        "let missing = self.taken().saturating_add(new.size()).saturating_sub(capacity.saturating_mul(2));",
        &["-p farlink-bpa"],
    ),
    // Invariant: no quota is exceeded.
    plain(
        "a quota counts one in two",
        "core/bpa/src/state/quotas.rs",
        "|| held >= *bundles {",
        "|| held / 2 >= *bundles {",
        &["-p farlink-bpa"],
    ),
    // Invariant: the store holds exactly the bundles of the book.
    plain(
        "one bundle in eight stays in the store",
        "core/bpa/src/procedures/depart.rs",
        "        if has_record {\n            cx.out.push(Output::Store(store::Input::Delete",
        "        if has_record && name.0 % 8 != 0 {\n            cx.out.push(Output::Store(store::Input::Delete",
        &["-p farlink-bpa"],
    ),
    // Invariant: bundles that arrived are released.
    plain(
        "one bundle in eight stays when it has left",
        "core/bpa/src/procedures/outcome.rs",
        "        if done {\n            let why = if moved",
        "        if done && self.number(bundle).0 % 8 != 0 {\n            let why = if moved",
        &["-p farlink-bpa"],
    ),
    // Invariant: networks drain once contacts return.
    plain(
        "who was not reached is hardly called again",
        "core/cla/src/tcpcl_v4/layer.rs",
        "self.timers.arm(now + wait, SessionTimer::Connect(link_id))",
        "self.timers.arm(now + wait * 100_000, SessionTimer::Connect(link_id))",
        &["-p farlink-cla"],
    ),
    // Invariant: a run ends.
    plain(
        "nobody waits after a refusal",
        "core/bpa/src/state/waits.rs",
        "Duration::from_secs(1 << failures.saturating_sub(1).min(6))",
        "Duration::from_nanos(1 << failures.saturating_sub(1).min(6))",
        &["-p farlink-bpa"],
    ),
    // Invariant: expedited bundles leave first.
    plain(
        "urgent bundles wait like others",
        "core/bpa/src/state/queues.rs",
        "ListKey { priority: Reverse(held.bundle.priority), not_before",
        "ListKey { priority: Reverse(Priority::Normal), not_before",
        &["-p farlink-bpa"],
    ),
    // Invariant: the hop limit holds (RFC 9171 section 4.4.3).
    plain(
        "hops are not counted",
        "core/bpa/src/procedures/forward.rs",
        "hops: held.hops.saturating_add(1),",
        "hops: held.hops,",
        &["-p farlink-bpa"],
    ),
    // Invariant: downtime counts to the lifetime.
    plain(
        "lifetimes stand still while a node is down",
        "core/bpa/src/state/wall_clock.rs",
        "|utc| utc.saturating_since_ms(stored_at))",
        "|utc| utc.saturating_since_ms(stored_at) / 1_000_000_000)",
        &["-p farlink-bpa"],
    ),
    // Invariant: the same seed gives the same run, also in another process.
    plain(
        "timers depend on where a link lies in memory",
        "core/bpa/src/neighbours/contacts.rs",
        "link.edge_timer = next.map(|at| self.work.arm(at, Timer::Edge(id)));",
        "let place = core::ptr::from_ref::<crate::neighbours::link::Link>(link).cast::<u8>() as u64 >> 12;\n            link.edge_timer =\n                next.map(|at| self.work.arm(at + Duration::from_nanos(place % 1024), Timer::Edge(id)));",
        &["-p farlink-bpa"],
    ),
];
