//! Node of the real world: sockets, disk, clock, applications and a control API around one stack.
//!
//! It contains no protocol and decides nothing about bundles: it moves bytes and time in and out of
//! [`farlink_stack::Stack`]. Read [`config`] (a node's settings) and [`node::Node`] (the thread that owns the stack)
//! first.

mod api;
pub mod apps;
pub mod budget;
mod buffers;
mod cipher;
pub mod clock;
pub mod config;
mod datagrams;
mod discovery;
pub mod disk;
pub mod events;
mod faults;
pub mod lists;
mod log;
pub mod metrics;
pub mod node;
#[cfg(test)]
mod one_way_tests;
mod plan;
mod resolve;
pub mod run;
mod security;
mod shards;
pub mod store;
mod streams;
pub mod tls;

/// Hint for a socket that cannot be opened, as the end of a message.
fn hint(why: &std::io::Error) -> &'static str {
    match why.kind() {
        std::io::ErrorKind::AddrInUse => {
            "\nhint: another node or program uses it: stop that one, or choose another port or path"
        }
        std::io::ErrorKind::AddrNotAvailable => {
            "\nhint: this machine has no such address; 0.0.0.0 stands for all it has"
        }
        std::io::ErrorKind::NotFound => "\nhint: its folder does not exist: make it, or choose another path",
        std::io::ErrorKind::AlreadyExists => "\nhint: it is left as it is; choose another path for the socket",
        std::io::ErrorKind::PermissionDenied => "\nhint: ports below 1024 and the folders of others need more rights",
        _ => "",
    }
}

/// Error for a path that cannot be written, with a hint unless the cause has one.
fn unwritable(what: &str, place: &str, why: &std::io::Error) -> anyhow::Error {
    let (kind, why) = (why.kind(), why.to_string());
    let hint = match kind {
        _ if why.contains("hint: ") => "",
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "\nhint: free space on its disk, or give a path on another"
        }
        _ => "\nhint: give a path that this user may write to",
    };
    anyhow::anyhow!("{what} {place}: {why}{hint}")
}

/// Hardware-accelerated functions; the portable ones if a comparison of both finds a difference.
pub fn accel() -> farlink_base::Accel {
    let mut accel = farlink_base::Accel { crc32c: crc32c::crc32c_append, ..Default::default() };
    if let Some(sums) = farlink_os::carryless::sums() {
        accel.carryless_sums = sums;
    }
    if accel.agrees_with_portable() { accel } else { farlink_base::Accel::default() }
}
