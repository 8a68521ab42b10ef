//! Mutations of the comparison of bundles with equal identity.

use super::{Mutant, durable};

/// Tests that must notice.
const TESTS: &[&str] = &["-p farlink-bpa --test all content::", "-p farlink-stack --test relation"];

/// Mutations of this file.
pub const TABLE: &[Mutant] = &[
    durable(
        "an identity alone is a bundle that is held",
        "core/bpa/src/procedures/identity.rs",
        "        if !same_primary(a, b) {\n            return Some(false);\n        }\n        let sealed",
        "        if a.id == b.id {\n            return Some(true);\n        }\n        let sealed",
        TESTS,
    ),
    durable(
        "an identity alone is a bundle that was delivered",
        "core/bpa/src/procedures/identity.rs",
        "        if content == delivered.content && content != 0 || ",
        "        if content == delivered.content || content != 0 || ",
        TESTS,
    ),
    // Two bundles of one identity may differ in their payload: one of them is forged.
    durable(
        "payloads are not compared",
        "core/bpa/src/procedures/identity.rs",
        "        let sealed = a.facts.has(Facts::SEALED)",
        "        if !edge.guards(a) {\n            return Some(true);\n        }\n        let sealed = a.facts.has(Facts::SEALED)",
        TESTS,
    ),
    durable(
        "a stranger's bundle displaces one that somebody vouches for",
        "core/bpa/src/procedures/identity.rs",
        "                _ if strange => return Place::Forged,\n                (Some(false), true) if counts",
        "                (Some(false), _) if counts",
        TESTS,
    ),
    durable(
        "a stranger's bundle stays where one comes that somebody vouches for",
        "core/bpa/src/procedures/identity.rs",
        "(Some(false), true) if counts => self.displace(cx, here),",
        "(Some(false), true) if counts => return Place::Here(here),",
        TESTS,
    ),
    durable(
        "a stranger's fragments are joined with others",
        "core/bpa/src/state/fragments.rs",
        "self.contents(id, at.total, strange).find(|(_, joining)| agrees(joining))",
        "self.contents(id, at.total, strange && held.sends > 9).find(|(_, joining)| agrees(joining))",
        TESTS,
    ),
    durable(
        "what begins to arrive is not compared with what is here",
        "core/bpa/src/procedures/identity.rs",
        "return alike && self.same(&held.bundle, bundle, edge) == Some(true);",
        "return alike || held.sends < 9;",
        TESTS,
    ),
    durable(
        "what begins to arrive is not compared with what was delivered",
        "core/bpa/src/procedures/identity.rs",
        "None => delivered.content != 0 && self.content(bundle, edge) == delivered.content,",
        "None => true,",
        TESTS,
    ),
];
