//! Whether a machine can run the program, from what its shell says and from the program's file.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::Path;

/// Checks that the machine can run the program; returns its address, without a port.
pub fn check(greeting: &str, program: &[u8], path: &Path) -> Result<SocketAddr> {
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
    let [own, _, there, ..] = connection else { bail!("its shell knows no SSH_CONNECTION") };
    let interfaces = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    address(own, there, &interfaces)
        .with_context(|| format!("its address `{there}` cannot be reached from this machine's `{own}`"))
}

/// Address of the machine. A link-local one has the name of an interface there, which means nothing here; the interface
/// here is that with the address of this end, by the kernel's list.
fn address(own: &str, there: &str, interfaces: &str) -> Option<SocketAddr> {
    let plain = |text: &str| text.split('%').next()?.parse::<IpAddr>().ok();
    let IpAddr::V6(address) = plain(there)? else { return Some(SocketAddr::new(plain(there)?, 0)) };
    let IpAddr::V6(own) = plain(own)? else { return None };
    let scope = if address.is_unicast_link_local() { interface_of(own, interfaces)? } else { 0 };
    Some(SocketAddrV6::new(address, 0, 0, scope).into())
}

/// Number of the interface with an address: the list has both in hexadecimal.
fn interface_of(own: Ipv6Addr, interfaces: &str) -> Option<u32> {
    interfaces.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let address = u128::from_str_radix(words.next()?, 16).ok()?;
        (address == own.to_bits()).then_some(())?;
        u32::from_str_radix(words.next()?, 16).ok()
    })
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
        assert_eq!(check(&greeting(&processor, &loaders), &own, path).unwrap().ip(), IpAddr::from([10, 0, 0, 2]));
        let why = |greeting: &str| check(greeting, &own, path).unwrap_err().to_string();
        assert!(why(&greeting("mips", &loaders)).contains("its processors are mips"), "{}", why("mips - "));
        assert!(why(&format!("{processor} {loaders}")).contains("SSH_CONNECTION"));
        if loader.is_some() {
            assert!(why(&greeting(&processor, "-")).contains("xtask static"));
        }
        assert!(needs(b"#!/bin/sh").is_none() && needs(&own[..40]).is_none());
    }

    #[test]
    fn link_local_address_gets_interface_here() {
        let interfaces = "00000000000000000000000000000001 01 80 10 80       lo\n\
                          fe800000000000000000000000000001 1f 40 20 80     eth0\n";
        let at = |own: &str, there: &str| address(own, there, interfaces).map(|found| found.to_string());
        assert_eq!(at("fe80::1%lan", "fe80::2%eth7").as_deref(), Some("[fe80::2%31]:0"));
        assert_eq!(at("fe80::3%lan", "fe80::2%eth7"), None);
        assert_eq!(at("2001:db8::1", "2001:db8::2").as_deref(), Some("[2001:db8::2]:0"));
        assert_eq!(at("192.0.2.1", "192.0.2.2").as_deref(), Some("192.0.2.2:0"));
        assert_eq!(at("UNKNOWN", "UNKNOWN"), None);
    }
}
