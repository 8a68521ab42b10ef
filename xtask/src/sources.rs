//! Laws that are read off the sources: how core crates open, and where `unsafe` may stand.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// How every crate under core/ begins, each law in the forms it may take. The last one makes clippy
/// see `std` paths, so that `core/clippy.toml` can name them.
const OPENING: [&[&str]; 3] = [
    &["#![no_std]"],
    &["#![forbid(unsafe_code)]"],
    &[
        "#[cfg(clippy)] extern crate std;",
        "#[cfg(any(clippy, test))] extern crate std;",
        "#[cfg(any(test, clippy))] extern crate std;",
    ],
];

/// What is missing at the top of a core crate.
pub fn opening(root: &Path, folder: &str) -> Result<Vec<String>> {
    let path = root.join(folder).join("src/lib.rs");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(missing(&text).into_iter().map(|line| format!("{folder}/src/lib.rs does not say `{line}`")).collect())
}

fn missing(text: &str) -> Vec<&'static str> {
    let code: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
    let code = code.join(" ");
    let said = |forms: &&[&str]| forms.iter().any(|line| code.contains(line));
    OPENING.into_iter().filter(|forms| !said(forms)).map(|forms| forms[0]).collect()
}

/// Places outside os/ where `unsafe` stands in code.
pub fn unsafe_outside_os(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() {
                let skipped = name.starts_with('.') || name.starts_with("target") || path == root.join("os");
                if !skipped {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                found.extend(unsafe_in(&path, root)?);
            }
        }
    }
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
        escaped = c == '\\' && !escaped;
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = outside.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        if word == "unsafe" {
            let opens = matches!(words.peek(), Some(&("fn" | "impl" | "trait" | "extern" | "no_mangle")));
            return opens || outside.contains("unsafe {") || outside.contains("unsafe{") || outside.ends_with("unsafe");
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_is_seen_and_talk_about_it_is_not() {
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
    fn a_core_crate_must_open_as_the_law_says() {
        assert!(missing("//! x\n#![no_std]\n#![forbid(unsafe_code)]\n#[cfg(clippy)]\nextern crate std;\n").is_empty());
        assert!(missing("#![no_std] #![forbid(unsafe_code)]\n#[cfg(any(clippy, test))]\nextern crate std;").is_empty());
        assert_eq!(missing("// #![no_std]\n#![forbid(unsafe_code)]\n"), [OPENING[0][0], OPENING[2][0]]);
    }

    #[test]
    fn unsafe_is_found_anywhere_but_in_os() {
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
