//! Mutations that whole networks show, each of what must hold in every simulation (`sim/tests/simfuzz/watch.rs`): found by
//! `cargo xtask simfuzz --planted`, besides by tests of their own crates.

use super::{Mutant, plain};

/// The table.
pub const TABLE: &[Mutant] = &[
    plain(
        "what was delivered is not known again",
        "core/bpa/src/receive.rs",
        "&& self.remembered.was_delivered(bundle.original_id())",
        "&& self.remembered.was_delivered(bundle.original_id() / 2)",
        &["-p farlink-bpa"],
    ),
    plain(
        "each node lets bundles live ten minutes longer",
        "core/bpa/src/keep.rs",
        "let expires = now + self.lifetime_here(self.remaining_lifetime(now, &bundle, hop.age_ms));",
        "let expires = now\n            + Duration::from_secs(600)\n            + self.lifetime_here(self.remaining_lifetime(now, &bundle, hop.age_ms));",
        &["-p farlink-bpa"],
    ),
    plain(
        "time counts twice",
        "core/bpa/src/lifetime.rs",
        "Duration::from_millis(bundle.lifetime_ms.saturating_sub(age))",
        "Duration::from_millis(bundle.lifetime_ms.saturating_sub(age).saturating_sub(age))",
        &["-p farlink-bpa"],
    ),
    plain(
        "who failed three times is given up",
        "core/bpa/src/dispatch.rs",
        "if held.is_tired() {",
        "if held.is_tired() || held.failures > 3 {",
        &["-p farlink-bpa"],
    ),
    plain(
        "pieces are cut beside their place",
        "core/bundle/src/v7/render.rs",
        "Some(range) => meta.payload.slice(range.start, range.end - range.start),",
        "Some(range) => meta.payload.slice(range.start.saturating_sub(8), range.end - range.start),",
        &["-p farlink-bundle", "-p farlink-bpa"],
    ),
    plain(
        "a node has no bound",
        "core/bpa/src/evict.rs",
        "let missing = self.taken().saturating_add(new.size()).saturating_sub(capacity);",
        "let missing = self.taken().saturating_add(new.size()).saturating_sub(capacity.saturating_mul(2));",
        &["-p farlink-bpa"],
    ),
    plain(
        "a quota counts one in two",
        "core/bpa/src/quotas.rs",
        "|| held >= *bundles {",
        "|| held / 2 >= *bundles {",
        &["-p farlink-bpa"],
    ),
    plain(
        "one bundle in eight stays in the store",
        "core/bpa/src/depart.rs",
        "        if has_record {\n            out.push(Output::Store(store::Input::Delete",
        "        if has_record && name.0 % 8 != 0 {\n            out.push(Output::Store(store::Input::Delete",
        &["-p farlink-bpa"],
    ),
    plain(
        "one bundle in eight stays when it has left",
        "core/bpa/src/outcome.rs",
        "        if done {\n            let why = if moved",
        "        if done && self.number(bundle).0 % 8 != 0 {\n            let why = if moved",
        &["-p farlink-bpa"],
    ),
    plain(
        "edges of contacts that are far off are not waited for",
        "core/bpa/src/contacts.rs",
        "link.edge_timer = next.map(",
        "link.edge_timer = next.filter(|at| *at < now + Duration::from_secs(90)).map(",
        &["-p farlink-bpa"],
    ),
    plain(
        "nobody waits after a refusal",
        "core/bpa/src/waits.rs",
        "Duration::from_secs(1 << failures.saturating_sub(1).min(6))",
        "Duration::from_nanos(1 << failures.saturating_sub(1).min(6))",
        &["-p farlink-bpa"],
    ),
    plain(
        "waits depend on where a node lies in memory",
        "core/bpa/src/dispatch.rs",
        "            self.waits.until(&mut self.book, bundle, until.max(Instant(now.0 + 1)));",
        "            let place = core::ptr::from_ref(self).cast::<u8>() as u64 % (1 << 40);\n            self.waits.until(&mut self.book, bundle, until.max(Instant(now.0 + 1)) + core::time::Duration::from_nanos(place >> 12));",
        &["-p farlink-bpa"],
    ),
];
