//! Safe wrappers of Linux system calls that the standard library lacks: batched datagrams, readiness, namespaces,
//! virtual interfaces, packet sockets, scheduling, memory, files and accounting. It contains no protocol and no policy,
//! knows nothing of bundles, and is the only crate with `unsafe`; every unsafe block has its reason. Read [`namespace`]
//! and [`packet`] first, on which the testbed is built.

#![warn(clippy::undocumented_unsafe_blocks)]

pub mod account;
pub mod allocator;
pub mod carryless;
pub mod cgroup;
mod direct;
pub mod disk;
pub mod members;
pub mod memory;
pub mod mounts;
pub mod multicast;
pub mod namespace;
pub mod netlink;
pub mod packet;
pub mod poll;
pub mod pressure;
pub mod process;
pub mod schedule;
pub mod sock_diag;
pub mod stream;
pub mod udp;

use std::io;

/// Converts the result -1 of a system call to the error in `errno`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Adds the failed operation to an error, keeping its kind, so that e.g. "permission denied" stays recognizable.
pub fn context(error: io::Error, doing: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{doing}: {error}"))
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the same clock for all processes and namespaces of this machine.
pub fn monotonic_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64)
}

/// Nanoseconds of Unix time (`CLOCK_REALTIME`).
pub fn realtime_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64)
}

/// Fills a buffer with random bytes of the kernel, without a file: `/dev` may be empty.
pub fn random(mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(filled) => bytes = &mut bytes[filled..],
            // Early in the boot of a machine the call waits, and signals end the wait.
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(context(e.into(), "random bytes")),
        }
    }
    Ok(())
}

/// Reads once from a descriptor, unbuffered; returns 0 at the end.
pub fn read(fd: std::os::fd::BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(fd, buffer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_fill_the_buffer() {
        // Longer than the kernel fills in one call, so that the loop is tested: a part that it skips would stay zero.
        let mut all = vec![0; 1 << 20];
        random(&mut all).unwrap();
        assert!(all.chunks(64).all(|part| part.iter().any(|byte| *byte != 0)));
        random(&mut []).unwrap();
    }
}
