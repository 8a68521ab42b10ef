//! TCP of a host as the scenario has it: the kernel's settings in the host's network namespace.

use super::protocol::HostTcp;
use std::fs;
use std::io;

const SETTINGS: &str = "/proc/sys/net/ipv4";
/// Linux counts its own bookkeeping in its buffers: about as much as the payload of full packets.
const BOOKKEEPING: u64 = 2;

/// Whether the kernel has the congestion control; it is set for each cable of the host.
pub fn check(tcp: &HostTcp) -> io::Result<()> {
    let known = fs::read_to_string(format!("{SETTINGS}/tcp_available_congestion_control")).unwrap_or_default();
    let known: Vec<&str> = known.split_whitespace().collect();
    match &tcp.congestion {
        // A kernel that does not list them says so when the cable is plugged.
        Some(control) if !known.is_empty() && !known.contains(&control.as_str()) => Err(missing(control, &known)),
        _ => Ok(()),
    }
}

/// Sets the TCP of the network namespace that the calling thread is in, but for the congestion control: a
/// namespace may not have any by default, only a route may.
pub fn set_up(tcp: &HostTcp) -> io::Result<()> {
    // Least, at first, most (tcp(7)); the kernel's own steps up to the most.
    let buffer = |first: u64, most: u64| format!("4096 {} {most}", first.min(most));
    set("tcp_wmem", &buffer(16 << 10, tcp.send_buffer.saturating_mul(BOOKKEEPING)))?;
    set("tcp_rmem", &buffer(128 << 10, tcp.receive_buffer.saturating_mul(BOOKKEEPING)))?;
    for (name, value) in [("tcp_sack", "1"), ("tcp_window_scaling", "1"), ("tcp_timestamps", "1")] {
        set(name, value)?;
    }
    // What an earlier connection learnt of the path is not part of a scenario. Absent in older namespaces.
    let _ = set("tcp_no_metrics_save", "1");
    Ok(())
}

fn set(name: &str, value: &str) -> io::Result<()> {
    let path = format!("{SETTINGS}/{name}");
    fs::write(&path, value).map_err(|e| farlink_os::context(e, &format!("setting {path} to `{value}`")))
}

/// Says which controls there are, and how to get the one asked for.
fn missing(control: &str, known: &[&str]) -> io::Error {
    io::Error::other(format!(
        "this kernel has no TCP congestion control `{control}`, only {}; hint: `modprobe tcp_{control}` as root, or \
         another `congestion` in `tcp` of [[node]]",
        known.join(", ")
    ))
}
