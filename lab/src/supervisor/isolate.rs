//! Isolation: enters new namespaces, as root or as an ordinary user, and becomes PID 1.

use super::protocol::{Reply, say};
use super::serve;
use farlink_os::cgroup::{self, GroupName, Hierarchies};
use farlink_os::namespace::{self, Namespaces};
use farlink_os::process::{self, Fork};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

const ISOLATED: Namespaces =
    Namespaces { user: false, network: true, mount: true, process: true, ipc: true, host_name: true };

/// Folders of the machine that hosts on it see: devices, control groups, and what programs load that are not static.
const SHARED: [&str; 5] = ["dev", "sys", "lib", "lib64", "usr"];

/// What a supervisor needs on a machine whose links an emulator elsewhere runs.
#[derive(Debug)]
pub struct There {
    /// Number of the relay's socket, which was left open.
    pub socket: i32,
    /// Folder that becomes the root of all hosts.
    pub root: PathBuf,
}

/// Isolates this process, serves requests, and returns the exit status. This process only waits for its child, which is
/// PID 1 and serves. A third process, outside of all namespaces, removes the control groups when both are gone. `there`
/// is given on a machine whose links an emulator elsewhere runs.
pub fn become_supervisor(there: Option<There>) -> io::Result<u8> {
    process::die_with_parent()?;
    let relay = there.as_ref().map(|there| process::inherited(there.socket)).transpose()?.map(UdpSocket::from);
    // The name of the control groups contains the ID of this process outside of the new namespaces, so it is taken
    // before entering them.
    let (groups, hierarchies) = (GroupName::of_self()?, Hierarchies::detect());
    let swept = cgroup::sweep(&hierarchies);
    let (cleaner, alive) = start_cleaner(&hierarchies, groups)?;
    let machine = namespace::NetworkNamespace::current()?;
    let user_namespace = leave()?;
    // From a user namespace the kernel lets nobody back into a namespace outside of it.
    let machine = (!user_namespace).then_some(machine);
    // The kernel clears the parent-death signal on entering a user namespace.
    process::die_with_parent()?;
    match process::fork()? {
        Fork::Parent(child) => {
            let swept = [
                swept.removed.iter().map(GroupName::to_string).collect(),
                swept.left.iter().map(|path| path.display().to_string()).collect(),
            ];
            say(&Reply::Ready { process: child, user_namespace, groups: groups.to_string(), swept });
            let code = process::wait_for(child)?;
            drop(alive);
            process::wait_for(cleaner)?;
            Ok(u8::try_from(code).unwrap_or(1))
        }
        Fork::Child => {
            process::die_with_parent()?;
            if let Some(there) = &there {
                namespace::enter_root(&there.root, &SHARED)?;
            }
            // Without a /proc of the new namespace, resources cannot be reported.
            let own_proc = namespace::mount_private_proc().is_ok();
            serve::serve(own_proc, groups, hierarchies, machine, relay).map(|()| 0)
        }
    }
}

/// Starts the process that removes the control groups once all copies of the returned descriptor are closed. Control
/// groups, unlike everything else here, outlive a `kill -9` of the supervisor.
fn start_cleaner(hierarchies: &Hierarchies, groups: GroupName) -> io::Result<(u32, OwnedFd)> {
    let (end, alive) = process::pipe()?;
    if let Fork::Parent(cleaner) = process::fork()? {
        return Ok((cleaner, alive));
    }
    drop(alive);
    let done = process::detach().and_then(|()| farlink_os::read(end.as_fd(), &mut [0]));
    let left = cgroup::remove(hierarchies, groups);
    std::process::exit(i32::from(done.is_err() || !left.is_empty()));
}

/// Enters new namespaces; returns whether this needed a user namespace.
fn leave() -> io::Result<bool> {
    match namespace::unshare(ISOLATED) {
        Ok(()) => return Ok(false),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
        Err(e) => return Err(e),
    }
    let (user, group) = namespace::user_and_group();
    namespace::unshare(Namespaces { user: true, ..ISOLATED }).map_err(|e| {
        farlink_os::context(e, "isolation needs root or a user namespace (`farlink doctor` says how to get one)")
    })?;
    namespace::map_self_to_root(user, group)?;
    Ok(true)
}
