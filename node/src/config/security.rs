//! Settings of `[security]`: rules, and the keys that they name.

use super::{NodeConfig, SecurityFiles, keys};
use farlink_base::security::{Role, Rule, Service};
use farlink_config::security::{refuse_second_service, rule, shadows};
use farlink_config::{Errors, Reader};
use farlink_stack::{KeyRing, Secret, SecurityConfig};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Longest file of keys, bytes.
const FILE_MAX: u64 = 1 << 20;
/// Bounds of a key's length, bytes.
const KEY_MIN: usize = 16;
const KEY_MAX: usize = 128;

/// Reads the rules and paths; `store` is the folder of a durable store.
pub fn read(top: &Reader<'_>, folder: &Path, store: Option<&Path>) -> Option<(SecurityConfig, SecurityFiles)> {
    if top.get("security").is_some_and(|value| value.get_ref().is_array()) {
        let hint = "write `[security]` with its `keys`, and `[[security.rule]]` for each rule";
        top.fail("security", "is one table, with rules in it", hint);
        return None;
    }
    let table = top.table("security", &keys::SECURITY)?;
    let starts = table.text("starts").map(|file| folder.join(file)).or(store.map(|dir| dir.join("security.starts")));
    if starts.is_none() {
        let what = "missing: without a durable store, nothing counts the starts of this node, and IVs would come twice";
        table.fail("starts", what, "add starts = \"security.starts\"");
    }
    let rules: Vec<Rule> = rules(&table).into_iter().map(|(rule, _)| rule).collect();
    if rules.is_empty() && !table.given("rule") {
        table.warn("rule", "there is none: nothing is secured", "add `[[security.rule]]` for each thing to be done");
    }
    let told = SecurityConfig {
        rules,
        keys: KeyRing::default(),
        start: 0,
        seed: [0; 32],
        aes_gcm: Some(crate::cipher::AES_GCM),
    };
    let keys = table.text("keys").map(|file| folder.join(file)).unwrap_or_default();
    Some((told, SecurityFiles { keys, starts: starts.unwrap_or_default() }))
}

/// Readable rules, each with its reader.
fn rules<'a>(table: &Reader<'a>) -> Vec<(Rule, Reader<'a>)> {
    let tables = table.tables("rule").into_iter();
    let readers = tables.map(|(path, rule)| Reader::checked(table.errors, &keys::RULE, &path, rule));
    let rules: Vec<_> = readers.filter_map(|reader| Some((rule(&reader)?, reader))).collect();
    shadows(&rules);
    rules
}

/// Reads the file of keys; reports rules without a usable key, and keys that serve both security contexts.
pub fn keys(top: &Reader<'_>, config: &mut NodeConfig) {
    let (Some(told), Some(files)) = (&mut config.stack.security, &config.security) else { return };
    let Some(value) = top.get("security").and_then(|value| value.get_ref().as_table()) else { return };
    let table = Reader::new(top.errors, &keys::SECURITY, vec![("security".into(), value)]);
    if files.keys.as_os_str().is_empty() {
        // A missing path was reported already.
        return;
    }
    match key_file(&files.keys) {
        Ok(keys) => told.keys = KeyRing::new(keys.into_iter().map(|key| (key.name, key.secret))),
        Err(why) => {
            let hint =
                "write `[[key]]` with `name` and `secret` in it; `head -c 32 /dev/urandom | xxd -p -c 64` makes one";
            return table.fail("keys", format!("{} {why}", files.keys.display()), hint);
        }
    }
    if let Some((what, hint)) = open_to_others(&files.keys) {
        table.warn("keys", what, hint);
    }
    // Mistakes of the rules were reported when they were read.
    let quiet = Errors::new(None, "");
    let mut uses = Vec::new();
    for (path, of_rule) in table.tables("rule") {
        let reader = Reader::new(&quiet, &keys::RULE, vec![(path.clone(), of_rule)]);
        if let Some(rule) = rule(&reader) {
            let reader = Reader::new(top.errors, &keys::RULE, vec![(path.clone(), of_rule)]);
            fits(&reader, &rule, &told.keys);
            one_service(&reader, &rule, (&told.keys, &path), &mut uses);
        }
    }
}

/// Checks that the key of a rule exists and has a length for its algorithm.
// 9173-4.5-1, 9173-4.8.1-3
fn fits(reader: &Reader<'_>, rule: &Rule, ring: &KeyRing) {
    let generations = ring.get(&rule.key);
    if generations.is_empty() {
        let names: Vec<&str> = ring.names().collect();
        let hint = match names.is_empty() {
            true => "add it to the file of keys".to_string(),
            false => format!("there are {}", names.join(", ")),
        };
        return reader.fail("key", format!("there is no key `{}`", rule.key), hint);
    }
    let wanted: &[usize] = match (rule.role, rule.service, rule.wrap) {
        (Role::Source, _, true) => &[16, 24, 32],
        (Role::Source, Service::Confidentiality, false) => &[16, 32],
        _ => return,
    };
    for key in generations.iter().filter(|key| !wanted.contains(&key.bytes().len())) {
        let what = format!("`{}` has {} bytes, and AES takes {}", rule.key, key.bytes().len(), or(wanted));
        reader.fail("key", what, "give a key of 32 bytes: 64 hexadecimal digits");
    }
}

/// Alternatives as text: `16, 24 or 32`.
fn or(lengths: &[usize]) -> String {
    let (last, rest) = lengths.split_last().map_or((String::new(), &[][..]), |(last, rest)| (last.to_string(), rest));
    let rest: Vec<String> = rest.iter().map(ToString::to_string).collect();
    format!("{} or {last}", rest.join(", "))
}

/// Reports a key that serves both security contexts (RFC 9173 section 6.2), even under different names.
///
/// `uses` has the key's name, the service and the path of each earlier rule.
// 9173-6.2-1, 9173-6.2-2, 9173-6.2-3
fn one_service(
    reader: &Reader<'_>,
    rule: &Rule,
    (ring, path): (&KeyRing, &str),
    uses: &mut Vec<(String, Service, String)>,
) {
    let same = |name: &str| {
        name == rule.key || ring.get(name).iter().any(|one| ring.get(&rule.key).iter().any(|other| one == other))
    };
    match uses.iter().find(|(name, service, _)| *service != rule.service && same(name)) {
        Some((name, _, first)) => refuse_second_service(reader, rule, name, first),
        None => uses.push((rule.key.clone(), rule.service, path.to_string())),
    }
}

/// One key in a file of keys.
pub struct NamedKey {
    /// Name used by rules and links; several keys of one name are its generations.
    pub name: String,
    /// Identifier of this generation, chosen by its owners; may be empty.
    pub id: String,
    /// Bytes of the key.
    pub secret: Secret,
}

/// Warning and hint for a file of keys that others can read; `None` if they cannot.
pub fn open_to_others(file: &Path) -> Option<(String, String)> {
    let open = std::fs::metadata(file).is_ok_and(|found| found.mode() & 0o077 != 0);
    let what = || format!("{} can be read by others than its owner", file.display());
    open.then(|| (what(), format!("chmod 600 {}", file.display())))
}

/// Reads a file of keys, the newest generations last. Errors show no key.
pub fn key_file(file: &Path) -> Result<Vec<NamedKey>, String> {
    let length = std::fs::metadata(file).map_err(|why| format!("cannot be read: {why}"))?.len();
    if length > FILE_MAX {
        return Err(format!("has {length} bytes, and no file of keys is that long"));
    }
    let text = farlink_config::read_text(file)?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<NamedKey>, String> {
    let errors = Errors::new(None, text);
    let Some(root) = errors.parse() else { return Err("is not TOML".into()) };
    let top = Reader::checked(&errors, &keys::KEY_FILE, "", root.get_ref());
    let mut all = Vec::new();
    for (path, table) in top.tables("key") {
        let reader = Reader::checked(&errors, &keys::SECRET, &path, table);
        let secret = reader.custom("secret", |input| secret(input.text().map_err(|_| "expected text".to_string())?));
        let id = reader.text("id").unwrap_or_default();
        if let (Some(name), Some(secret)) = (reader.text("name"), secret) {
            all.push(NamedKey { name, id, secret });
        }
    }
    let generations = |name: &str| all.iter().filter(|key| key.name == name).count();
    if let Some(NamedKey { name, .. }) = all.iter().find(|key| generations(&key.name) > KeyRing::GENERATIONS_MAX) {
        errors.push(name.as_str(), format!("has more than {} generations", KeyRing::GENERATIONS_MAX), "");
    }
    drop(root);
    match errors.into_list().first() {
        None => Ok(all),
        Some(why) => Err(format!("has a mistake: {}: {}", why.path, why.expected)),
    }
}

/// Parses a key of hexadecimal digits.
// 9173-3.8.1-2
fn secret(text: &str) -> Result<Secret, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    match bytes {
        Some(bytes) if rest.is_empty() && (KEY_MIN..=KEY_MAX).contains(&bytes.len()) => Ok(Secret::new(bytes)),
        _ => Err(format!("expected {} to {} hexadecimal digits, two for each byte", 2 * KEY_MIN, 2 * KEY_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const KEYS: &str = "[[key]]\nname = \"moon\"\nid = \"1\"\nsecret = \"00112233445566778899aabbccddeeff\"\n";
    const RULE: &str = "[[security.rule]]\nrole = \"source\"\nservice = \"confidentiality\"\nkey = \"moon\"\n";

    /// Messages for a node file with these rules and this file of keys.
    fn said(rules: &str, keys: &str, mode: u32) -> (Option<NodeConfig>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.toml");
        std::fs::write(folder.path().join("k"), keys).unwrap();
        std::fs::set_permissions(folder.path().join("k"), std::fs::Permissions::from_mode(mode)).unwrap();
        let text = format!("node_ids = \"ipn:1.0\"\n[security]\nkeys = \"k\"\nstarts = \"s\"\n{rules}");
        std::fs::write(&file, text).unwrap();
        let found = NodeConfig::look(&file);
        let said = found.mistakes.iter().chain(&found.warnings).map(ToString::to_string).collect();
        (found.config, said)
    }

    #[test]
    fn keys_are_read_and_never_shown() {
        let (config, told) = said(RULE, KEYS, 0o600);
        assert_eq!(told, Vec::<String>::new());
        let config = config.unwrap();
        let security = config.stack.security.clone().unwrap();
        assert_eq!((security.rules.len(), security.keys.get("moon").len()), (1, 1));
        assert_eq!(security.keys.get("moon")[0].bytes()[..3], [0, 0x11, 0x22]);
        let shown = format!("{config:?}");
        assert!(!shown.contains("112233") && !shown.contains("17, 34") && shown.contains("moon"), "{shown}");
    }

    /// Keeps 9173-4.5-1, 9173-4.8.1-3.
    #[test]
    fn unusable_security_keys_are_reported() {
        let (_, told) = said(&RULE.replace("moon", "sun"), KEYS, 0o600);
        assert!(
            told.len() == 1
                && told[0].contains("n.toml")
                    | told[0]
                        .contains("node.toml:8: security.rule[1].key: there is no key `sun`\nhint: there are moon"),
            "{told:?}"
        );
        let (config, told) = said(RULE, KEYS, 0o644);
        assert!(config.is_some() && told.len() == 1 && told[0].contains("others than its owner"), "{told:?}");
        let long = KEYS.replace("ccddeeff", "ccddeeff0011223344556677");
        let told = said(RULE, &long, 0o600).1;
        assert!(told[0].contains("has 24 bytes, and AES takes 16 or 32"), "{told:?}");
        assert!(said(&format!("{RULE}wrap = true\n"), &long, 0o600).1.is_empty());
    }

    /// Keeps 9173-3.8.1-2.
    #[test]
    fn key_file_error_omits_contents() {
        for (keys, part) in [
            ("", "key"),
            ("[[key]", "TOML"),
            ("[[key]]\nname = \"a\"\nsecret = \"xyzzy\"\n", "hexadecimal digits"),
            ("[[key]]\nname = \"a\"\nsecret = 5551\n", "expected text"),
            ("[[key]]\nname = \"a\"\nsecret = \"0011\"\n", "32 to 256"),
            ("[[key]]\nsecret = \"00112233445566778899aabbccddeeff\"\n", "name"),
        ] {
            let (config, told) = said(RULE, keys, 0o600);
            assert!(config.is_none() || keys.is_empty(), "{keys}");
            assert!(told[0].contains(part), "{keys}: {told:?}");
            for secret in ["xyzzy", "5551", "0011"] {
                assert!(!told.join("").contains(secret), "{told:?}");
            }
        }
        let many = (0..9).map(|_| KEYS).collect::<String>();
        assert!(said(RULE, &many, 0o600).1[0].contains("more than 8 generations"));
    }

    /// Keeps 9173-6.2-1, 9173-6.2-2, 9173-6.2-3.
    #[test]
    fn key_shared_by_both_services_is_refused() {
        let acceptor = RULE.replace("confidentiality", "integrity").replace("source", "acceptor");
        assert!(said(&acceptor, KEYS, 0o600).1.is_empty());
        let more = format!("{acceptor}from = \"ipn:5.*\"\n");
        for (rules, places) in [
            (format!("{RULE}{acceptor}"), ["security.rule[2].key: `moon` is for integrity", "in security.rule[1]"]),
            (
                format!("{acceptor}{RULE}"),
                ["security.rule[2].key: `moon` is for confidentiality", "in security.rule[1]"],
            ),
            (
                format!("{more}{more}{RULE}").replacen("ipn:5", "ipn:6", 1),
                ["security.rule[3].key", "in security.rule[1]"],
            ),
        ] {
            let (config, told) = said(&rules, KEYS, 0o600);
            assert!(config.is_none() && told.len() == 1, "{told:?}");
            assert!(places.iter().all(|place| told[0].contains(place)) && told[0].contains("RFC 9173 6.2"), "{told:?}");
        }
        let twice = format!("{KEYS}{}", KEYS.replace("moon", "sun"));
        let told = said(&format!("{RULE}{}", acceptor.replace("moon", "sun")), &twice, 0o600).1;
        assert!(told.len() == 1 && told[0].contains("`sun`, the same as `moon`, is for integrity"), "{told:?}");
        let own = twice.replace("name = \"sun\"\nid = \"1\"\nsecret = \"00", "name = \"sun\"\nsecret = \"01");
        assert!(said(&format!("{RULE}{}", acceptor.replace("moon", "sun")), &own, 0o600).1.is_empty());
    }

    #[test]
    fn scenario_keys_and_idle_rules_are_reported() {
        let parse = |text: &str| {
            let found = crate::config::build::look(&format!("node_ids = \"ipn:1.0\"\n{text}"), Path::new("n.toml"));
            found.mistakes.iter().chain(&found.warnings).map(ToString::to_string).collect::<Vec<_>>()
        };
        let told = parse("[[security]]\nrole = \"source\"\n");
        assert!(told.len() == 1 && told[0].contains("n.toml:2: security: is one table"), "{told:?}");
        assert!(told[0].contains("[[security.rule]]"), "{told:?}");
        let told = parse("[security]\nstarts = \"s\"\n");
        assert!(told.len() == 2 && told[0].contains("security.keys: missing"), "once: {told:?}");
        assert!(told[1].contains("nothing is secured"), "{told:?}");
        let twice = said(&RULE.repeat(2), KEYS, 0o600).1;
        assert!(twice[0].contains(":9: security.rule[2].from: no bundle comes"), "with its line: {twice:?}");
    }

    #[test]
    fn volatile_store_needs_start_counter() {
        let text = |more: &str| format!("node_ids = \"ipn:1.0\"\n{more}[security]\nkeys = \"k\"\n{RULE}");
        let told = NodeConfig::parse(&text(""), Path::new("n.toml")).unwrap_err();
        assert!(told[0].to_string().contains("security.starts: missing"), "{told:?}");
        let config = NodeConfig::parse(&text("[store]\ndir = \"d\"\n"), Path::new("n.toml")).unwrap();
        assert_eq!(config.security.unwrap().starts, Path::new("d/security.starts"));
    }
}
