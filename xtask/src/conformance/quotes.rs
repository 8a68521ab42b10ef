//! Checks quotes against the standards' texts, which are not kept in the repository.

use super::table;
use anyhow::{Context, Result, bail};
use std::path::Path;

/// Looks up each quote in the texts of `folder`; standards without a text there are skipped and named.
///
/// # Errors
/// Quotes that do not occur in their text.
pub fn check(root: &Path, folder: &Path) -> Result<()> {
    let (mut found, mut wrong) = (0, Vec::new());
    for table in table::read_all(&root.join("docs/conformance"))? {
        let path = folder.join(format!("rfc{}.txt", table.rfc));
        if !path.exists() {
            println!("RFC {}: no {}, {} quotes not looked up", table.rfc, path.display(), table.rules.len());
            continue;
        }
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = plain(&String::from_utf8_lossy(&bytes));
        for (rule, quote) in table.rules.iter().filter_map(|rule| Some((rule, rule.quote.as_ref()?))) {
            if text.contains(&plain(quote)) {
                found += 1;
            } else {
                wrong.push(format!("{}: not in the text: {quote}", rule.id));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    println!("{found} quotes occur in the texts");
    Ok(())
}

/// Text without page breaks and line ends.
fn plain(text: &str) -> String {
    let is_text = |line: &&str| !(is_footer(line) || is_header(line));
    let words: Vec<&str> = text.lines().filter(is_text).flat_map(str::split_whitespace).collect();
    // The RFC editor breaks lines after hyphens.
    words.join(" ").replace("- ", "-")
}
fn is_footer(line: &str) -> bool {
    line.trim_end().ends_with(']') && line.contains("[Page ")
}
/// Whether a line is a page's header: the standard, its title, and a year at the end.
fn is_header(line: &str) -> bool {
    let year = line.trim_end().rsplit(' ').next().unwrap_or_default();
    line.starts_with("RFC ") && year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quote_spans_lines_and_pages() {
        let text = "   each block of a multi-\n   part bundle\n\n\nA. Author        [Page 3]\n\x0c\n\
            RFC 9999             Bundles            May 2031\n\n   MUST be whole.\n";
        assert_eq!(plain(text), "each block of a multi-part bundle MUST be whole.");
        assert!(!is_header("RFC 9171 says so in 2022, and others") && !is_footer("a list [1]"));
    }

    #[test]
    fn missing_quote_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let tables = folder.path().join("docs/conformance");
        std::fs::create_dir_all(&tables).unwrap();
        let rule = "{ id = \"9999-1-1\", level = \"MUST\", quote = \"MUST be whole\", says = \"Whole.\" }";
        std::fs::write(tables.join("rfc9999.toml"), format!("title = \"t\"\nrules = [{rule}]")).unwrap();
        check(folder.path(), folder.path()).expect("no text, nothing to look up");
        std::fs::write(folder.path().join("rfc9999.txt"), "A bundle MUST\n be whole.").unwrap();
        check(folder.path(), folder.path()).unwrap();
        std::fs::write(folder.path().join("rfc9999.txt"), "A bundle MUST be.").unwrap();
        assert!(check(folder.path(), folder.path()).unwrap_err().to_string().contains("9999-1-1: not in the text"));
    }
}
