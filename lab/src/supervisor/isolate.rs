//! Isolation: entering new namespaces, as root or as an ordinary user, and becoming PID 1.

use super::protocol::{Reply, say};
use super::serve;
use farlink_os::namespace::{self, Namespaces};
use farlink_os::process::{self, Fork};
use std::io;

const ISOLATED: Namespaces =
    Namespaces { user: false, network: true, mount: true, process: true, ipc: true, host_name: true };

/// Isolates this process and returns the exit status. The first of two processes only waits; the second is PID 1 and
/// serves requests.
pub fn become_supervisor() -> io::Result<u8> {
    process::die_with_parent()?;
    let user_namespace = leave()?;
    // The kernel clears the parent-death signal on entering a user namespace.
    process::die_with_parent()?;
    match process::fork()? {
        Fork::Parent(child) => {
            say(&Reply::Ready { process: child, user_namespace });
            let code = process::wait_for(child)?;
            Ok(u8::try_from(code).unwrap_or(1))
        }
        Fork::Child => {
            process::die_with_parent()?;
            // Without a /proc of the new namespace, resources cannot be reported.
            let own_proc = namespace::mount_private_proc().is_ok();
            serve::serve(own_proc).map(|()| 0)
        }
    }
}

/// Enters new namespaces; returns whether this took a user namespace.
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
