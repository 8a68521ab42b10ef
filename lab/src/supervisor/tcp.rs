//! TCP settings of a host, written to `/proc/sys` in its network namespace.

use super::protocol::HostTcp;
use std::fs;
use std::io;

const SETTINGS: &str = "/proc/sys/net/ipv4";
// Factor between buffer and payload: Linux counts its bookkeeping, about as much as the payload of full packets.
const BOOKKEEPING: u64 = 2;

/// Checks that the kernel has the congestion control, which is set for each cable later.
pub fn check(tcp: &HostTcp) -> io::Result<()> {
    let known = fs::read_to_string(format!("{SETTINGS}/tcp_available_congestion_control")).unwrap_or_default();
    let known: Vec<&str> = known.split_whitespace().collect();
    match &tcp.congestion {
        // If the list is hidden, plugging the cable reports a missing control.
        Some(control) if !known.is_empty() && !known.contains(&control.as_str()) => Err(missing(control, &known)),
        _ => Ok(()),
    }
}

/// Writes the TCP settings of the calling thread's network namespace, except for the congestion control: a namespace
/// may not offer it as the default, while a route can set any.
pub fn set_up(tcp: &HostTcp) -> io::Result<()> {
    // Minimum, initial and maximum size (tcp(7)); the kernel adapts between initial and maximum.
    let buffer = |first: u64, most: u64| format!("4096 {} {most}", first.min(most));
    set("tcp_wmem", &buffer(16 << 10, tcp.send_buffer.saturating_mul(BOOKKEEPING)))?;
    set("tcp_rmem", &buffer(128 << 10, tcp.receive_buffer.saturating_mul(BOOKKEEPING)))?;
    let flags = [("tcp_sack", tcp.sack), ("tcp_window_scaling", tcp.window_scaling), ("tcp_timestamps", true)];
    flags.into_iter().try_for_each(|(name, on)| set(name, if on { "1" } else { "0" }))?;
    // Path metrics cached from earlier connections would make runs differ. Namespaces of older kernels lack the
    // setting.
    let _ = set("tcp_no_metrics_save", "1");
    Ok(())
}

fn set(name: &str, value: &str) -> io::Result<()> {
    let path = format!("{SETTINGS}/{name}");
    fs::write(&path, value).map_err(|e| farlink_os::context(e, &format!("setting {path} to `{value}`")))
}

/// Error that lists the available controls and a way to get the requested one.
fn missing(control: &str, known: &[&str]) -> io::Error {
    let install = if control == "hybla" { ", `farlink doctor --install hybla`" } else { "" };
    io::Error::other(format!(
        "this kernel has no TCP congestion control `{control}`, only {}; hint: `modprobe tcp_{control}` as root{install}, \
         or another `congestion` in `tcp` of [[node]]",
        known.join(", ")
    ))
}
