//! Pages whose shell blocks are run word for word. Skipped with the reason if the kernel does not permit isolation.

use crate::testbed::{FARLINK, empty_folder, possible};
use std::path::Path;
use std::process::Command;

/// Blocks of a page without a language, which are commands.
fn shell_blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut parts = page.split("\n```");
    parts.next();
    // The fences split the page: a part inside a block, whose first line is its language, then a part of text, and so
    // on.
    while let (Some(block), _) = (parts.next(), parts.next()) {
        if let Some(commands) = block.strip_prefix('\n') {
            blocks.push(commands.to_string());
        }
    }
    blocks
}

/// Runs all shell blocks of a page in one shell, in an empty folder; returns what they printed, a text for each block.
fn run_page(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let blocks = shell_blocks(&std::fs::read_to_string(&path).unwrap());
    let folder = empty_folder("page");
    let programs = Path::new(FARLINK).parent().unwrap().display().to_string();
    let search = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let printed = blocks.iter().map(|block| {
        let mut shell = Command::new("bash");
        let output = shell.args(["-eu", "-c", block]).current_dir(&folder).env("PATH", &search).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(output.status.success(), "{page}:\n{block}\nprinted:\n{text}");
        text
    });
    let printed = printed.collect();
    std::fs::remove_dir_all(&folder).unwrap();
    printed
}

#[test]
fn shell_blocks_are_those_without_language() {
    let page = "# A\n\n```\nls\n```\n\ntext\n```toml\nkey = 1\n```\n```\npwd\nls\n```\n";
    assert_eq!(shell_blocks(page), ["ls", "pwd\nls"]);
}

#[test]
fn guide_to_implementations_ends_with_goodput() {
    if !possible() {
        return;
    }
    let printed = run_page("how-to/add-an-implementation.md");
    let [_, shown, checked, measured] = &printed[..] else { panic!("{} blocks", printed.len()) };
    assert!(shown.contains("--node 2") && shown.contains("--listen 0.0.0.0:4556"), "{shown}");
    assert!(checked.contains("tcpclv4, ping") && !checked.contains("FAILED"), "{checked}");
    assert!(measured.contains("goodput"), "{measured}");
}
