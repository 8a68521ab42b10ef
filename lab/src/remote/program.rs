//! Whether a machine can run the program, from what its shell says and from the program's file.

use anyhow::{Context, Result, bail, ensure};
use std::net::IpAddr;
use std::path::Path;

/// Checks that the machine can run the program; returns its address.
pub fn check(greeting: &str, program: &[u8], path: &Path) -> Result<IpAddr> {
    let words: Vec<&str> = greeting.split_whitespace().collect();
    let [architecture, loaders, connection @ ..] = &words[..] else { bail!("its shell said `{greeting}`") };
    let (wanted, loader) = needs(program).with_context(|| format!("{} is no program", path.display()))?;
    ensure!(
        same_processor(&wanted, architecture),
        "its processors are {architecture}, and the program {} is for {wanted}\nhint: `cargo xtask static --target \
         {architecture}-unknown-linux-musl` builds one, `program` of [node.host] names it",
        path.display()
    );
    if let Some(loader) = loader {
        ensure!(
            loaders.split(',').any(|known| known.rsplit('/').next() == loader.rsplit('/').next()),
            "it has no {loader}, which the program {} needs\nhint: `cargo xtask static` builds a program that needs \
             nothing, `program` of [node.host] names it",
            path.display()
        );
    }
    // Address and port of both ends: of this machine, then of that.
    connection.get(2).and_then(|address| address.parse().ok()).context("its shell knows no SSH_CONNECTION")
}

fn same_processor(wanted: &str, machine: &str) -> bool {
    wanted == machine || (wanted == "aarch64" && machine == "arm64")
}

/// Processors for which a program of 64 bits is, and the loader that it names.
fn needs(program: &[u8]) -> Option<(String, Option<String>)> {
    let number = |at: usize, len: usize| -> Option<usize> {
        let bytes = program.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    program.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let processor = match number(18, 2)? {
        62 => "x86_64".to_string(),
        183 => "aarch64".to_string(),
        243 => "riscv64".to_string(),
        other => format!("processors of number {other}"),
    };
    let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut loader = None;
    for header in (0..count).map(|header| start.saturating_add(header * size)) {
        // A program header of type PT_INTERP.
        if number(header, 4)? == 3 {
            let (from, length) = (number(header + 8, 8)?, number(header + 32, 8)?);
            let name = program.get(from..from.checked_add(length)?)?;
            loader = Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_string());
        }
    }
    Some((processor, loader))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn program_must_fit_machine() {
        let own = fs::read("/proc/self/exe").unwrap();
        let (processor, loader) = needs(&own).unwrap();
        assert_eq!(processor, std::env::consts::ARCH);
        let path = Path::new("/x/farlink");
        let loaders = loader.clone().unwrap_or("-".into());
        let greeting = |processor: &str, loaders: &str| format!("{processor} {loaders} 10.0.0.1 5000 10.0.0.2 22");
        assert_eq!(check(&greeting(&processor, &loaders), &own, path).unwrap(), IpAddr::from([10, 0, 0, 2]));
        let why = |greeting: &str| check(greeting, &own, path).unwrap_err().to_string();
        assert!(why(&greeting("mips", &loaders)).contains("its processors are mips"), "{}", why("mips - "));
        assert!(why(&format!("{processor} {loaders}")).contains("SSH_CONNECTION"));
        if loader.is_some() {
            assert!(why(&greeting(&processor, "-")).contains("xtask static"));
        }
        assert!(needs(b"#!/bin/sh").is_none() && needs(&own[..40]).is_none());
    }
}
