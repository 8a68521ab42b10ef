//! Rules of bundle security (BPSec), shared by node files and scenarios.

use crate::input::{Input, choose};
use crate::keys::{Fallback, Key, Kind, key, other};
use crate::reader::Reader;
use farlink_base::security::{CHANGING, PAYLOAD, PRIMARY, Role, Rule, SECURITY, Service};
use farlink_base::{EndpointId, pattern_covers};

use Fallback::{Absent, Is, Required};

/// Data that the integrity scope may cover besides the target, in the order of its bits (RFC 9173 section 3.3.3).
const SCOPE: &[&str] = &["primary", "target", "security"];
/// Treatments of fragments that cannot be verified.
const FRAGMENTS: &[&str] = &["refuse", "pass"];
const HASHES: &[&str] = &["256", "384", "512"];
const CIPHERS: &[&str] = &["128", "256"];
const TARGETS: Kind = other("list of \"payload\", \"primary\" and numbers of types", "[\"payload\"]");
const PATTERN: Kind = other("pattern of endpoint IDs", "\"ipn:1.*\"");

/// Keys of a security rule.
pub const RULE: &[Key] = &[
    key(
        "role",
        Kind::Choice(Role::WORDS),
        Required,
        "\"source\" adds security operations, to bundles created here and to forwarded ones without them; \"verifier\" verifies them; \"acceptor\" verifies and removes them. At a bundle's destination every verifier is an acceptor.",
    ),
    key(
        "service",
        Kind::Choice(Service::WORDS),
        Required,
        "\"integrity\" (BIB-HMAC-SHA2), or \"confidentiality\" (BCB-AES-GCM), which includes integrity.",
    ),
    key("from", PATTERN, Is("*"), "Sources of the bundles: `ipn:1.*`, `dtn://node/` or `*`."),
    key("to", PATTERN, Is("*"), "Destinations of the bundles."),
    key(
        "targets",
        TARGETS,
        Absent,
        "Blocks to protect: \"payload\", \"primary\", or block type numbers; default: the payload.",
    ),
    key("key", Kind::Text, Required, "Name of a key."),
    key(
        "wrap",
        Kind::Flag,
        Is("false"),
        "As source: use a new key for each block, which this key wraps (16, 24 or 32 bytes) and the block carries.",
    ),
    key("hash", Kind::Choice(HASHES), Is("384"), "As source of integrity: length of the SHA-2 hash in bits."),
    key(
        "cipher",
        Kind::Choice(CIPHERS),
        Is("256"),
        "As source of confidentiality with `wrap`: length of the new AES key in bits; without `wrap`, the length of the key counts.",
    ),
    key(
        "scope",
        Kind::Choices(SCOPE),
        Absent,
        "As source: data covered besides the target: the \"primary\" block, the headers of the \"target\" and \"security\" blocks; default: all three.",
    ),
    key(
        "required",
        Kind::Flag,
        Is("true"),
        "As verifier or acceptor: bundles without the operation are deleted; if the target is neither payload nor primary block, only that block is removed.",
    ),
    key(
        "fragments",
        Kind::Choice(FRAGMENTS),
        Is("refuse"),
        "As verifier or acceptor of required integrity: treatment of forwarded fragments, which cannot be verified before reassembly. \"pass\" leaves verification to their destination.",
    ),
];

/// Reads one rule, and reports contradictions; `None` if a value is missing or cannot be read, which is reported.
pub fn rule(reader: &Reader<'_>) -> Option<Rule> {
    let role = Role::ALL[reader.choice("role")?];
    let service = Service::ALL[reader.choice("service")?];
    // Without the key, the payload is the target; the text of a default cannot express a list.
    let targets = match reader.given("targets") {
        true => reader.custom("targets", targets)?,
        false => vec![PAYLOAD],
    };
    // 9173-3.3.3-3, 9173-4.3.4-3
    let scope = match reader.given("scope") {
        true => reader.choices("scope")?.into_iter().fold(0, |bits, place| bits | 1 << place),
        // All three bits: the default of RFC 9173.
        false => 7,
    };
    let rule = Rule {
        role,
        service,
        from: pattern(reader, "from")?,
        to: pattern(reader, "to")?,
        targets,
        key: reader.text("key")?,
        wrap: reader.flag("wrap")?,
        sha_bits: HASHES[reader.choice("hash")?].parse().unwrap_or(384),
        aes_bits: CIPHERS[reader.choice("cipher")?].parse().unwrap_or(256),
        scope,
        required: reader.flag("required")?,
        fragments: FRAGMENTS[reader.choice("fragments")?] == "pass",
    };
    contradictions(reader, &rule);
    Some(rule)
}

// 9172-3.7-1, 9172-3.8-3, 9172-3.8-4, 9172-3.9-9
fn contradictions(reader: &Reader<'_>, rule: &Rule) {
    let source = rule.role == Role::Source;
    let changing = rule.targets.iter().find(|target| CHANGING.contains(target));
    if let Some(target) = changing.filter(|_| source) {
        let what = format!("blocks of type {target} change at every hop and cannot be protected end to end");
        reader.fail("targets", what, "protect \"payload\", \"primary\" or other types");
    }
    if rule.targets.iter().any(|target| SECURITY.contains(target)) {
        let what = "security blocks are no targets: a BCB on a block also encrypts its BIB";
        reader.fail("targets", what, "name what they protect");
    }
    if rule.service == Service::Confidentiality && rule.targets.contains(&PRIMARY) {
        reader.fail("targets", "a primary block cannot be encrypted (RFC 9172 3.8)", "take \"primary\" out");
    }
    if rule.targets.is_empty() {
        reader.fail("targets", "protects nothing", "name \"payload\"");
    }
    // Only warnings: a key without effect for this role and service weakens nothing.
    let without_use: &[(&str, bool)] = &[
        ("wrap", !source),
        ("hash", !source || rule.service != Service::Integrity),
        ("cipher", !source || rule.service != Service::Confidentiality || !rule.wrap),
        ("scope", !source),
        ("required", source),
        ("fragments", source || rule.service != Service::Integrity || !rule.required),
    ];
    for (name, _) in without_use.iter().filter(|(name, unused)| *unused && reader.given_here(name)) {
        reader.warn(name, "does nothing in this rule", "take it out");
    }
}

/// Reports that a rule's key serves another security context in the rule at path `first`, where the key has the name
/// `other` (RFC 9173 section 6.2).
pub fn refuse_second_service(reader: &Reader<'_>, rule: &Rule, other: &str, first: &str) {
    let other = if other == rule.key { String::new() } else { format!(", the same as `{other}`,") };
    let (key, service) = (&rule.key, Service::WORDS[rule.service as usize]);
    let what = format!(
        "`{key}`{other} is for {service} here and for another service in {first}, and a key serves one security context (RFC 9173 6.2)"
    );
    reader.fail("key", what, "give each service a key of its own");
}

/// Reports each rule that no bundle reaches, because earlier rules match first.
pub fn shadows(rules: &[(Rule, Reader<'_>)]) {
    for (place, (rule, reader)) in rules.iter().enumerate() {
        if is_shadowed(rule, rules[..place].iter().map(|(earlier, _)| earlier)) {
            shadowed(reader);
        }
    }
}
/// Reports that no bundle reaches this rule.
pub fn shadowed(reader: &Reader<'_>) {
    let what = "no bundle comes to this rule: rules before it take them all";
    reader.fail("from", what, "put it before them, or take it out");
}
/// Whether earlier rules match every bundle that the rule matches.
pub fn is_shadowed<'a>(rule: &Rule, earlier: impl Iterator<Item = &'a Rule> + Clone) -> bool {
    let taken = |target: &u64| {
        earlier.clone().any(|earlier| {
            earlier.service == rule.service
                // Verifiers and acceptors compete for the same blocks; sources add blocks of their own.
                && (earlier.role == Role::Source) == (rule.role == Role::Source)
                && earlier.targets.contains(target)
                && pattern_covers(&earlier.from, &rule.from)
                && pattern_covers(&earlier.to, &rule.to)
        })
    };
    // A rule without targets has been reported already.
    !rule.targets.is_empty() && rule.targets.iter().all(taken)
}

fn pattern(reader: &Reader<'_>, name: &str) -> Option<String> {
    reader.custom(name, |input| {
        let text = input.text()?;
        let fits = EndpointId::is_pattern(text);
        if fits { Ok(text.to_string()) } else { Err(format!("`{text}` matches no endpoint")) }
    })
}

fn targets(input: Input<'_, '_>) -> Result<Vec<u64>, String> {
    let one = |input: Input<'_, '_>| match input.text() {
        Ok(word) => choose(word, &["primary", "payload"]).map(|place| place as u64),
        Err(_) => input.integer_in(2, u64::MAX).and_then(|kind| match kind {
            0 | 1 => Err(format!("{kind} is no type of an extension block: they count from 2")),
            kind => Ok(kind),
        }),
    };
    let mut targets = Vec::new();
    for item in input.items()? {
        let target = one(Input::Given(item.get_ref()))?;
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::Errors;
    use crate::keys::Section;

    const TOP: Section = Section { name: "top", help: "", keys: &[key("rule", Kind::Tables("rule"), Absent, "")] };
    const OF_RULE: Section = Section { name: "rule", help: "", keys: RULE };

    fn read(text: &str) -> (Vec<Rule>, Vec<String>) {
        let errors = Errors::new(Some("f.toml"), text);
        let root = errors.parse().unwrap();
        let top = Reader::checked(&errors, &TOP, "", root.get_ref());
        let readers =
            top.tables("rule").into_iter().map(|(path, table)| Reader::checked(&errors, &OF_RULE, &path, table));
        let rules: Vec<_> = readers.filter_map(|reader| Some((rule(&reader)?, reader))).collect();
        shadows(&rules);
        let rules = rules.into_iter().map(|(rule, _)| rule).collect();
        drop(root);
        let (mistakes, warnings) = errors.into_findings();
        (rules, mistakes.iter().chain(&warnings).map(ToString::to_string).collect())
    }
    fn of(more: &str) -> String {
        format!("[[rule]]\nrole = \"source\"\nservice = \"integrity\"\nkey = \"k\"\n{more}\n")
    }

    /// Keeps 9173-3.3.3-3, 9173-4.3.4-3.
    #[test]
    fn security_rule_requires_its_keys() {
        let (rules, said) = read(&of(""));
        let rule = &rules[0];
        assert_eq!((said.len(), rules.len(), rule.role, &*rule.from, rule.sha_bits), (0, 1, Role::Source, "*", 384));
        assert_eq!((rule.scope, rule.required, &rule.targets[..]), (7, true, &[PAYLOAD][..]));
        let (rules, said) =
            read(&of("targets = [\"primary\", 193, 193]\nscope = [\"primary\", \"security\"]\nhash = \"512\""));
        assert_eq!(
            (said.len(), &rules[0].targets[..], rules[0].scope, rules[0].sha_bits),
            (0, &[PRIMARY, 193][..], 5, 512)
        );
        assert_eq!(read("[[rule]]\n").1.len(), 1, "one thing after the other");
    }

    /// Keeps 9172-3.7-1, 9172-3.8-3, 9172-3.8-4, 9172-3.9-9.
    #[test]
    fn contradictory_rules_are_reported() {
        for (more, part) in [
            ("targets = [7]", "blocks of type 7 change at every hop"),
            ("targets = [12]", "security blocks are no targets"),
            ("targets = []", "protects nothing"),
            ("targets = [\"paylod\"]", "did you mean `payload`"),
            ("targets = [1]", "count from 2"),
            ("from = \"ipn:5\"", "matches no endpoint"),
            ("required = false", "does nothing in this rule"),
            ("cipher = \"128\"", "does nothing in this rule"),
        ] {
            let (_, said) = read(&of(more));
            assert!(said.len() == 1 && said[0].contains(part), "{more}: {said:?}");
        }
        let (_, said) = read(&of("targets = [\"primary\"]").replace("integrity", "confidentiality"));
        assert!(said[0].contains("RFC 9172 3.8"), "{said:?}");
    }

    #[test]
    fn unreachable_security_rule_is_refused() {
        let two = |first: &str, second: &str| read(&format!("{}{}", of(first), of(second))).1;
        let said = two("from = \"ipn:1.*\"", "from = \"ipn:1.7\"");
        assert!(
            said.len() == 1 && said[0].contains("f.toml:10: rule[2].from: no bundle comes to this rule"),
            "{said:?}"
        );
        assert_eq!(two("from = \"ipn:1.7\"", "from = \"ipn:1.*\""), Vec::<String>::new());
        assert_eq!(two("", "targets = [\"primary\"]"), Vec::<String>::new());
        assert_eq!(two("", "targets = [\"payload\"]").len(), 1);
    }
}
