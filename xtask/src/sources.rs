//! Rules checked on source text: attributes of core crates, places of `unsafe`, words that the agent must not use, and
//! test files that belong to a program.

use anyhow::{Context, Result};
use farlink_trials::sources::each_source;
use std::path::{Path, PathBuf};

/// Attributes at the top of every crate under core/, each in its permitted forms. The last one makes `std` paths
/// visible to clippy, so that `core/clippy.toml` can name them.
const OPENING: [&[&str]; 3] = [
    &["#![no_std]"],
    &["#![forbid(unsafe_code)]"],
    &[
        "#[cfg(clippy)] extern crate std;",
        "#[cfg(any(clippy, test))] extern crate std;",
        "#[cfg(any(test, clippy))] extern crate std;",
    ],
];

/// Attributes missing at the top of a core crate.
pub fn opening(root: &Path, folder: &str) -> Result<Vec<String>> {
    let path = root.join(folder).join("src/lib.rs");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(missing(&text).into_iter().map(|line| format!("{folder}/src/lib.rs does not say `{line}`")).collect())
}

fn missing(text: &str) -> Vec<&'static str> {
    // Attributes in comments do not count.
    let code: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
    let code = code.join(" ");
    let said = |forms: &&[&str]| forms.iter().any(|line| code.contains(line));
    OPENING.into_iter().filter(|forms| !said(forms)).map(|forms| forms[0]).collect()
}

/// Test files of a crate that no program includes: with one `main.rs` for all, a new file is easily forgotten.
pub fn unbuilt_tests(root: &Path, folder: &str) -> Result<Vec<String>> {
    let tests = root.join(folder).join("tests");
    // Without a `main.rs`, cargo finds each file by itself.
    let Ok(main) = std::fs::read_to_string(tests.join("main.rs")) else { return Ok(Vec::new()) };
    let manifest = std::fs::read_to_string(root.join(folder).join("Cargo.toml"))?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&tests)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".rs").filter(|stem| *stem != "main") else { continue };
        let is_built = main.lines().any(|line| line == format!("mod {stem};"))
            || manifest.contains(&format!("path = \"tests/{name}\""));
        if !is_built {
            found.push(format!("{folder}/tests/{name} is never run: add `mod {stem};` to main.rs beside it"));
        }
    }
    Ok(found)
}

/// Names that core/bundle defines for parts of a bundle on the wire and for the codec, and the name of the crate.
const WIRE_WORDS: [&str; 12] = [
    "AdministrativeRecord",
    "BlockData",
    "BlockFlags",
    "Bundle",
    "BundleBuilder",
    "BundleFlags",
    "CanonicalBlock",
    "ExtensionBlock",
    "HopCount",
    "Primary",
    "cbor",
    "farlink_bundle",
];

/// Places in core/bpa/src whose code names a wire format.
pub fn wire_words_in_bpa(root: &Path) -> Result<Vec<String>> {
    let why = "of the wire: the agent knows bundles by their BundleMeta, and reads and writes them through its Edge";
    words_in(root, "core/bpa/src", &WIRE_WORDS, why)
}

/// Places where a module of core/bpa/src/state, which owns one table of the agent, names the agent.
pub fn agent_in_owners(root: &Path) -> Result<Vec<String>> {
    let why = "in an owner, which remembers and decides nothing: what decides is a procedure";
    words_in(root, "core/bpa/src/state", &["Agent", "agent"], why)
}

/// Places in a folder whose code names one of these words.
fn words_in(root: &Path, folder: &str, unwanted: &[&str], why: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    each_source(&root.join(folder), &|_| true, &mut |path| {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path.strip_prefix(root).unwrap_or(path).display();
        for (line, number) in text.lines().zip(1..) {
            // A class of events has the same name as a type of the codec.
            let code = outside_texts(line).replace("EventClass::Bundle", "");
            let named = words(&code).filter(|word| unwanted.contains(word));
            found.extend(named.map(|word| format!("{shown}:{number} names `{word}` {why}")));
        }
        Ok(())
    })?;
    found.sort();
    Ok(found)
}

/// Places outside os/ where `unsafe` stands in code.
pub fn unsafe_outside_os(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let enter = |folder: &Path| {
        // Build outputs and hidden folders hold code of others.
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        !(name.starts_with('.') || name.starts_with("target") || folder == root.join("os"))
    };
    each_source(root, &enter, &mut |path| {
        found.extend(unsafe_in(path, root)?);
        Ok(())
    })?;
    found.sort();
    Ok(found)
}

fn unsafe_in(path: &PathBuf, root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let shown = path.strip_prefix(root).unwrap_or(path).display().to_string();
    let lines = text.lines().zip(1..).filter(|(line, _)| is_unsafe(line));
    let tell = |(_, number)| format!("{shown}:{number} is unsafe: system calls live in os/, behind a safe function");
    Ok(lines.map(tell).collect())
}

/// Whether a line of code opens something unsafe; comments, texts and lint names do not count.
fn is_unsafe(line: &str) -> bool {
    let outside = outside_texts(line);
    let mut words = words(&outside).peekable();
    while let Some(word) = words.next() {
        if word == "unsafe" {
            // An attribute such as `unsafe(no_mangle)`, or the keyword before an item.
            let opens = matches!(words.peek(), Some(&("fn" | "impl" | "trait" | "extern" | "no_mangle")));
            return opens || outside.contains("unsafe {") || outside.contains("unsafe{") || outside.ends_with("unsafe");
        }
    }
    false
}

/// A line without comments and string literals.
fn outside_texts(line: &str) -> String {
    let code = line.split("//").next().unwrap_or("");
    let mut outside = String::new();
    let mut in_text = false;
    let mut escaped = false;
    for c in code.chars() {
        match c {
            '"' if !escaped => in_text = !in_text,
            _ if !in_text => outside.push(c),
            _ => {}
        }
        // Two backslashes are one character, which escapes nothing.
        escaped = c == '\\' && !escaped;
    }
    outside
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_in_comments_is_ignored() {
        let code = ["let x = unsafe { f() };", "unsafe fn f() {}", "unsafe impl Send for X {}", "#[unsafe(no_mangle)]"];
        for line in code {
            assert!(is_unsafe(line), "{line}");
        }
        let talk = ["// unsafe { }", "#![forbid(unsafe_code)]", "let s = \"unsafe { }\";", "let not_unsafe = 1;"];
        for line in talk {
            assert!(!is_unsafe(line), "{line}");
        }
    }

    #[test]
    fn core_crate_needs_its_attributes() {
        assert!(missing("//! x\n#![no_std]\n#![forbid(unsafe_code)]\n#[cfg(clippy)]\nextern crate std;\n").is_empty());
        assert!(missing("#![no_std] #![forbid(unsafe_code)]\n#[cfg(any(clippy, test))]\nextern crate std;").is_empty());
        assert_eq!(missing("// #![no_std]\n#![forbid(unsafe_code)]\n"), [OPENING[0][0], OPENING[2][0]]);
    }

    #[test]
    fn unbuilt_test_file_is_found() {
        let root = tempfile::tempdir().unwrap();
        let crate_of = root.path().join("a");
        std::fs::create_dir_all(crate_of.join("tests")).unwrap();
        std::fs::write(crate_of.join("Cargo.toml"), "[[test]]\npath = \"tests/alone.rs\"\n").unwrap();
        for (name, text) in [("main", "mod first;\n"), ("first", ""), ("alone", "")] {
            std::fs::write(crate_of.join(format!("tests/{name}.rs")), text).unwrap();
        }
        assert!(unbuilt_tests(root.path(), "a").unwrap().is_empty());
        std::fs::write(crate_of.join("tests/second.rs"), "").unwrap();
        assert!(unbuilt_tests(root.path(), "a").unwrap()[0].starts_with("a/tests/second.rs is never run"));
    }

    #[test]
    fn wire_words_in_comments_are_ignored() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("core/bpa/src/deep");
        std::fs::create_dir_all(&folder).unwrap();
        let plant = |line: &str| {
            std::fs::write(folder.join("a.rs"), format!("//! A Bundle.\n{line}\n")).unwrap();
            wire_words_in_bpa(root.path()).unwrap()
        };
        for (line, word) in [
            ("fn f(p: &Primary) {}", "Primary"),
            ("let Bundle { payload, .. } = bundle;", "Bundle"),
            ("use farlink_bundle::v7;", "farlink_bundle"),
            ("if let BlockData::Age(age) = data {}", "BlockData"),
            ("let block = CanonicalBlock::default();", "CanonicalBlock"),
            ("blocks: Vec<ExtensionBlock>,", "ExtensionBlock"),
            ("cbor::head(&mut out, 7, 31);", "cbor"),
        ] {
            let found = plant(line);
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            let place = format!("core/bpa/src/deep/a.rs:2 names `{word}`");
            assert!(found[0].starts_with(&place) && found[0].contains("through its Edge"), "{found:?}");
        }
        for line in ["// cbor", "let s = \"Primary\";", "let meta: BundleMeta = x;", "out.wants(EventClass::Bundle)"] {
            assert_eq!(plant(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn owner_naming_agent_is_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("core/bpa/src/state");
        std::fs::create_dir_all(&folder).unwrap();
        let text = "//! No [`Agent`](crate::Agent).\nuse crate::agent::Agent;\nlet agents = \"agent\";\n";
        std::fs::write(folder.join("a.rs"), text).unwrap();
        let found = agent_in_owners(root.path()).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|place| place.starts_with("core/bpa/src/state/a.rs:2 names `")), "{found:?}");
    }

    #[test]
    fn wire_words_match_the_codec() {
        let mut code = String::new();
        each_source(&crate::tools::root().join("core/bundle/src"), &|_| true, &mut |path| {
            code.push_str(&std::fs::read_to_string(path)?);
            Ok(())
        })
        .unwrap();
        let defined: Vec<&str> = code
            .lines()
            .filter_map(|line| {
                let rest = line.trim().strip_prefix("pub ")?;
                let rest = ["struct ", "enum ", "mod "].iter().find_map(|kind| rest.strip_prefix(kind))?;
                words(rest).next()
            })
            .collect();
        // Two words are not defined in core/bundle: the standard's word for any block, which is reserved, and the
        // crate's name.
        let others = ["CanonicalBlock", "farlink_bundle"];
        for word in WIRE_WORDS.iter().filter(|word| !others.contains(word)) {
            assert!(defined.contains(word), "{word} has another name now: put that into the list");
        }
    }

    #[test]
    fn unsafe_outside_os_is_found() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["os/src", "node/src", "target/x"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
            std::fs::write(root.path().join(folder).join("a.rs"), "\nunsafe { f() }\n").unwrap();
        }
        let found = unsafe_outside_os(root.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("node/src/a.rs:2 "), "{found:?}");
    }
}
