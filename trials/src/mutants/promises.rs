//! Mutations of promises and trust: custody, tunnels, partial arrivals, shares.

use super::{Mutant, durable, plain};

/// Mutations of this file.
pub const TABLE: &[Mutant] = &[
    durable(
        "a tunnel's custody ends as it leaves",
        "core/bpa/src/tunnel/outgoing.rs",
        "held.filter(|held| self.wants_signal(rule, held))",
        "held.filter(|held| held.failures > 250 && self.wants_signal(rule, held))",
        &["-p farlink-bpa --test all tunnel::"],
    ),
    durable(
        "a far end may name numbers that were never given",
        "core/bpa/src/tunnel/signals_in.rs",
        "if signal.runs.is_empty() || !signal.runs.iter().all(|run| tunnels.gave(run.first, run.last)) {",
        "if signal.runs.is_empty() {",
        &["-p farlink-bpa --test all tunnel::"],
    ),
    durable(
        "what came back is released by old signals",
        "core/bpa/src/tunnel/outgoing.rs",
        "            tunnels.came_back(number);\n",
        "            let _ = (tunnels, number);\n",
        &["-p farlink-bpa --test all tunnel_ends::"],
    ),
    durable(
        "custody ends of what nobody was given",
        "core/bpa/src/custody/signals_in.rs",
        "if !entry.handed || (!itself",
        "if (!itself",
        &["-p farlink-bpa --test all custody::"],
    ),
    durable(
        "anybody who brings a bundle in custody may let it go",
        "core/bpa/src/custody/signals_out.rs",
        "entry.is_some_and(|entry| !entry.handed || entry.before.as_ref() == Some(other))",
        "entry.is_some_and(|entry| !entry.handed || entry.before.as_ref() != Some(other) || true)",
        &["-p farlink-bpa --test all custody::"],
    ),
    // A custodian keeps its bundles until another one takes custody (RFC 5050 section 5.10).
    durable(
        "custody is forgotten in a restart",
        "core/bpa/src/custody/signals_out.rs",
        "if taken { KEPT_CUSTODY } else { 0 }",
        "if taken && false { KEPT_CUSTODY } else { 0 }",
        &["-p farlink-bpa --test all custody::"],
    ),
    // XFER_ACK for a part would promise more than the store keeps.
    durable(
        "pieces are promised before they are durable",
        "core/bpa/src/procedures/pieces.rs",
        "            self.pending_commits.begin(&mut self.book, piece, Some(debt));\n",
        "            self.pending_commits.begin(&mut self.book, piece, None);\n            self.pay(piece, Some(debt), Ok(()), cx.out);\n",
        &["-p farlink-bpa --test all arriving::"],
    ),
    durable(
        "a piece of what is arriving is said to be kept",
        "core/bpa/src/procedures/receive.rs",
        "self.is_durable(held) && !self.fragments.is_arriving(held.handle())",
        "self.is_durable(held)",
        &["-p farlink-bpa --test all arriving::"],
    ),
    plain(
        "pieces of what is damaged stay",
        "core/bpa/src/procedures/pieces.rs",
        "            if !stay {\n",
        "            if !stay && piece.slot == u32::MAX {\n",
        &["-p farlink-bpa --test all arriving::"],
    ),
    plain(
        "names that become surer count to nobody",
        "core/bpa/src/neighbours/contacts.rs",
        "            fair_share.quotas.rename(peer, name);\n",
        "            let _ = (fair_share, name);\n",
        &["-p farlink-bpa --test all quotas::"],
    ),
    plain(
        "what is arriving counts to no share",
        "core/bpa/src/procedures/evict.rs",
        "        let counts = self.bounds.fair_share.counts(&new, limits);\n",
        "        let counts = self.bounds.fair_share.counts(&new, limits) && new.size() == 0;\n",
        &["-p farlink-bpa --test all fair_share::"],
    ),
    plain(
        "room that a signal gives in a tunnel is nobody's",
        "core/bpa/src/tunnel/outgoing.rs",
        "self.unwrap(cx, number, outer);\n        self.work.push(Step::Line);\n        if let",
        "self.unwrap(cx, number, outer);\n        if let",
        &["-p farlink-bpa --test all tunnel_ends::"],
    ),
    plain(
        "signals about signals are wanted",
        "core/bpa/src/tunnel/outgoing.rs",
        "settings.custody && !(told &&",
        "settings.custody && !(told && false &&",
        &["-p farlink-bpa --test all tunnel_ends::"],
    ),
    durable(
        "the last byte of a transfer that broke counts as kept",
        "core/bpa/src/procedures/outcome.rs",
        ".min((range.end - range.start).saturating_sub(1));",
        ".min(range.end - range.start);",
        &["-p farlink-bpa --test all arriving::"],
    ),
    plain(
        "who carried the one around it is no stranger",
        "core/bpa/src/tunnel/incoming.rs",
        "held.flags.has(Flags::STRANGE) || !configured)",
        "held.flags.has(Flags::STRANGE))",
        &["-p farlink-bpa --test all tunnel::"],
    ),
    plain(
        "what is refused inside is not tried again",
        "core/bpa/src/tunnel/incoming.rs",
        "filter(|_| later)",
        "filter(|_| later && false)",
        &["-p farlink-bpa --test all tunnel::"],
    ),
    // The bound of gathered reports would fill up for good.
    plain(
        "compressed totals grow",
        "core/bpa/src/reports/compressed.rs",
        "self.total = self.total.saturating_sub(gathered.bundles);",
        "self.total = self.total.saturating_sub(0);",
        &["-p farlink-bpa --lib"],
    ),
    durable(
        "a signal that a restart found is believed",
        "core/bpa/src/custody/signals_in.rs",
        "![Flags::SEEN_BEFORE, Flags::VIRTUAL, Flags::STRANGE]",
        "![Flags::VIRTUAL, Flags::STRANGE]",
        &["-p farlink-bpa --test all custody::"],
    ),
    plain(
        "the room kept free is for anybody",
        "core/bpa/src/procedures/evict.rs",
        "let reserved = if privileged { 0 } else",
        "let reserved = if privileged || new.size() > 0 { 0 } else",
        &["-p farlink-bpa --test all fair_share::"],
    ),
    plain(
        "a copy that fails last ends the wait for a signal",
        "core/bpa/src/procedures/outcome.rs",
        "            self.retry_copy(now, &sending);\n            self.await_signal(now, bundle, sending.link, sending.peer);\n",
        "            self.retry_copy(now, &sending);\n",
        &["-p farlink-bpa --test all custody::"],
    ),
    // Custody outranks any policy.
    plain(
        "a policy gives up what is in custody",
        "core/bpa/src/procedures/dispatch.rs",
        "} else if held.has(RetentionConstraint::Route) && !held.has(RetentionConstraint::Custody) {",
        "} else if held.has(RetentionConstraint::Route) {",
        &["-p farlink-bpa --test all custody::"],
    ),
    plain(
        "runs are looked at as often as they are named",
        "core/bpa/src/custody/signals_in.rs",
        "Subject::Runs(named.all().map(|(first, end)| (first, end - 1)).collect())",
        "Subject::Runs(numbers.iter().map(|run| (run.first, run.last)).collect())",
        &["-p farlink-bpa --test all custody::"],
    ),
];
