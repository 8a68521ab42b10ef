//! Mutations of the agent.

use super::{Mutant, durable, plain};

/// Mutations of this file.
pub const TABLE: &[Mutant] = &[
    // An acknowledgment before the commit is a promise that a crash breaks.
    durable(
        "accept before the store",
        "core/bpa/src/procedures/keep.rs",
        "self.pending_commits.begin(&mut self.book, handle, debt);\n            self.put(cx, handle);",
        "self.pay(handle, debt, Ok(()), cx.out);\n            self.pending_commits.begin(&mut self.book, handle, None);\n            self.put(cx, handle);",
        &["-p farlink-bpa"],
    ),
    // The sender would drop its copy while the first one may still be lost.
    durable(
        "a duplicate is acknowledged before the first is kept",
        "core/bpa/src/procedures/receive.rs",
        "let promised = if !self.is_kept(held) {\n            Err(Refusal::NoResources)\n        } else if anew {",
        "let promised = if anew || !self.is_kept(held) {",
        &["-p farlink-bpa"],
    ),
    // The sender would drop its only copy.
    durable(
        "what the store refused is acknowledged",
        "core/bpa/src/procedures/keep.rs",
        "self.pay(handle, owed.debts, Err(reason), cx.out);",
        "self.pay(handle, owed.debts, Ok(()), cx.out);\n        let _ = reason;",
        &["-p farlink-bpa"],
    ),
    durable(
        "a bundle that begins again is a duplicate before it is kept",
        "core/bpa/src/procedures/receive.rs",
        "Some(held) if same && self.is_kept(held) && !self.comes_anew",
        "Some(held) if same && !self.comes_anew",
        &["-p farlink-bpa"],
    ),
    // Bundles from dtn:none with one timestamp would be duplicates of one another (RFC 9171 section 4.2.3).
    durable(
        "anonymous bundles have an identity",
        "core/book/src/identities.rs",
        "        if slots[slot].bundle.is_anonymous() {\n            return;\n        }\n",
        "",
        &["-p farlink-bpa"],
    ),
    durable(
        "what returns in flight is a duplicate",
        "core/bpa/src/procedures/receive.rs",
        "        leaving && is_on_new_way",
        "        leaving && !held.has(RetentionConstraint::Send) && is_on_new_way",
        &["-p farlink-bpa"],
    ),
    // Only a refusal as a duplicate proves that the neighbour has the bundle.
    durable(
        "a refused bundle was confirmed",
        "core/bpa/src/procedures/outcome.rs",
        "if refused == Some(Refusal::Duplicate) && !sending.keep {",
        "if refused.is_some() && !sending.keep {",
        &["-p farlink-bpa"],
    ),
    // The bundle would stay in the book without any further attempt.
    durable(
        "what failed does not go again",
        "core/bpa/src/procedures/outcome.rs",
        "        self.book.hold(sending.bundle, RetentionConstraint::Route);\n    }\n\n    /// Offers",
        "    }\n\n    /// Offers",
        &["-p farlink-bpa"],
    ),
    // After a restart the same bundle would be delivered again.
    durable(
        "a delivery is not remembered",
        "core/bpa/src/procedures/depart.rs",
        "store::Input::Delete { bundle: name, remember }",
        "store::Input::Delete { bundle: name, remember: None }",
        &["-p farlink-bpa"],
    ),
    durable(
        "the delivery of a whole is not remembered",
        "core/bpa/src/procedures/depart.rs",
        "let mut remember = remember.filter(|_| !has_record);",
        "let mut remember = remember.filter(|_| has_record && false);",
        &["-p farlink-bpa"],
    ),
    durable(
        "what was delivered before a restart comes again",
        "core/bpa/src/procedures/identity.rs",
        "let delivered = self.is_for_members(bundle).then(|| self.remembered.delivered(bundle.original_id())).flatten();\n        let differs",
        "let delivered: Option<crate::state::remembered::Delivered> = None;\n        let differs",
        &["-p farlink-bpa"],
    ),
    // A wrong clock would expire every stored bundle.
    durable(
        "any downtime is believed",
        "core/bpa/src/state/wall_clock.rs",
        "self.utc_at(now).map_or(0, |utc| utc.saturating_since_ms(stored_at))",
        "self.clock.utc_at(now).map_or(0, |utc| utc.saturating_since_ms(stored_at))",
        &["-p farlink-bpa"],
    ),
    durable(
        "any clock is believed",
        "core/bpa/src/state/wall_clock.rs",
        "if self.off_ms(now).is_some() { None } else",
        "if self.off_ms(now).is_some() && now == Instant::MAX { None } else",
        &["-p farlink-bpa"],
    ),
    plain(
        "redeliveries are not marked",
        "core/bpa/src/procedures/keep.rs",
        "Flags(Flags::DURABLE | Flags::SEEN_BEFORE | ",
        "Flags(Flags::DURABLE | ",
        &["-p farlink-bpa"],
    ),
    // A bundle beyond its hop limit is deleted (RFC 9171 section 4.4.3).
    plain(
        "the hop limit is one more",
        "core/bpa/src/procedures/receive.rs",
        "held.hops > meta.hop_limit)",
        "held.hops > meta.hop_limit.saturating_add(1))",
        &["-p farlink-bpa"],
    ),
    // Block processing control flag "delete bundle" (RFC 9171 section 4.2.4).
    plain(
        "unknown blocks do not delete",
        "core/bpa/src/procedures/receive.rs",
        "if duties.has(Duties::DELETE) {",
        "if duties.has(Duties::DELETE) && too_far {",
        &["-p farlink-bpa"],
    ),
    plain(
        "any size is taken",
        "core/bpa/src/procedures/evict.rs",
        "if new.size() > capacity.min(self.settings.limits.bundle_bytes) || !fits {",
        "if new.size() > capacity || !fits {",
        &["-p farlink-bpa"],
    ),
    // A lifetime that ends now has ended.
    plain(
        "what expired is taken",
        "core/bpa/src/procedures/receive.rs",
        "if new.expires <= now {",
        "if new.expires < now {",
        &["-p farlink-bpa"],
    ),
    plain(
        "fragments have no bound",
        "core/bpa/src/procedures/receive.rs",
        "self.fragments.are_full(new)",
        "self.fragments.are_full(new) && new.size() == 0",
        &["-p farlink-bpa"],
    ),
    plain(
        "strangers' fragments count to whom they name",
        "core/bpa/src/state/fragments.rs",
        "    (!strange).then_some(source)\n",
        "    let _ = strange;\n    Some(source)\n",
        &["-p farlink-bpa"],
    ),
    // A fragment beyond the total length could corrupt the reassembled bundle.
    plain(
        "a fragment may be past the end",
        "core/bpa/src/state/fragments.rs",
        "range.end > at.total || joining",
        "joining",
        &["-p farlink-bpa"],
    ),
    // The bound of waiting fragments would fill up for good.
    plain(
        "joined fragments still count",
        "core/bpa/src/state/fragments.rs",
        "        self.waiting -= joining.parts.len();\n",
        "",
        &["-p farlink-bpa"],
    ),
    plain(
        "a clock that steps back repeats timestamps",
        "core/bpa/src/state/creation.rs",
        "if utc.0 > self.last.0 {",
        "if utc.0 != self.last.0 {",
        &["-p farlink-bpa"],
    ),
    durable(
        "a clock set back repeats timestamps of earlier runs",
        "core/bpa/src/state/creation.rs",
        "if utc.0 > self.last.0 { (utc.0, self.first) }",
        "if utc.0 > self.last.0 { (utc.0, 0) }",
        &["-p farlink-bpa"],
    ),
    // After a crash the same creation timestamps would be used again.
    plain(
        "numbers are used before they are reserved",
        "core/bpa/src/state/creation.rs",
        "if self.counter >= self.reserved {",
        "if self.counter > self.reserved + RESERVE {",
        &["-p farlink-bpa"],
    ),
    // Flag "must not be fragmented" (RFC 9171 section 4.2.3).
    plain(
        "what must not be cut is cut for a narrow link",
        "core/bpa/src/procedures/mtu.rs",
        "if want.keep || !meta.may_fragment() ||",
        "if want.keep ||",
        &["-p farlink-bpa"],
    ),
    plain(
        "what this hop adds does not count on a narrow link",
        "core/bpa/src/procedures/mtu.rs",
        "want.labels.map(|split| split.theirs)",
        "[0; 2]",
        &["-p farlink-stack"],
    ),
];
