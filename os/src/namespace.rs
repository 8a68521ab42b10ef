//! Namespaces: isolated hosts without a container engine, a daemon or names that could be left behind.

use crate::{check, context};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Set of namespaces to create.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// User and group IDs; gives all capabilities inside, also to ordinary users.
    pub user: bool,
    /// Network interfaces, addresses and sockets.
    pub network: bool,
    /// Mounted file systems.
    pub mount: bool,
    /// Process IDs of later children.
    pub process: bool,
    /// System V and POSIX message queues and shared memory.
    pub ipc: bool,
    /// Host and domain name.
    pub host_name: bool,
}

impl Namespaces {
    fn flags(self) -> libc::c_int {
        [
            (self.user, libc::CLONE_NEWUSER),
            (self.network, libc::CLONE_NEWNET),
            (self.mount, libc::CLONE_NEWNS),
            (self.process, libc::CLONE_NEWPID),
            (self.ipc, libc::CLONE_NEWIPC),
            (self.host_name, libc::CLONE_NEWUTS),
        ]
        .into_iter()
        .filter_map(|(wanted, flag)| wanted.then_some(flag))
        .fold(0, |all, flag| all | flag)
    }
}

/// Moves the calling thread into new namespaces. User and mount namespaces require a single-threaded process (`EINVAL`
/// otherwise).
pub fn unshare(namespaces: Namespaces) -> io::Result<()> {
    // SAFETY: unshare takes no pointers; none of these flags stops file descriptors from being
    // shared between threads, so no other code's view of its descriptors changes.
    check(unsafe { libc::unshare(namespaces.flags()) })
        .map(drop)
        .map_err(|e| context(e, &format!("new namespaces ({namespaces:?})")))
}

/// Maps the caller's outer user and group to root inside the user namespace it has just created.
pub fn map_self_to_root(uid: u32, gid: u32) -> io::Result<()> {
    // Without this the kernel refuses an unprivileged gid_map (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny").map_err(|e| context(e, "/proc/self/setgroups"))?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1\n")).map_err(|e| context(e, "/proc/self/uid_map"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1\n")).map_err(|e| context(e, "/proc/self/gid_map"))
}

/// Effective user and group IDs of the caller.
pub fn user_and_group() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// An unnamed network namespace, held open by a descriptor; it vanishes with the last holder.
#[derive(Debug)]
pub struct NetworkNamespace {
    fd: OwnedFd,
}

impl NetworkNamespace {
    /// Namespace of the calling thread.
    pub fn current() -> io::Result<Self> {
        let file = fs::File::open("/proc/thread-self/ns/net")
            .or_else(|_| fs::File::open("/proc/self/ns/net"))
            .map_err(|e| context(e, "/proc/thread-self/ns/net"))?;
        Ok(NetworkNamespace { fd: file.into() })
    }

    /// Creates a namespace; the calling thread stays in its own.
    pub fn create() -> io::Result<Self> {
        let home = NetworkNamespace::current()?;
        unshare(Namespaces { network: true, ..Namespaces::default() })?;
        let made = NetworkNamespace::current();
        home.enter()?;
        made
    }

    /// Moves the calling thread into the namespace.
    pub fn enter(&self) -> io::Result<()> {
        enter_network(self.fd.as_fd())
    }

    /// Runs `work` inside the namespace and returns to the previous one.
    pub fn within<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let home = NetworkNamespace::current()?;
        self.enter()?;
        let result = work();
        home.enter()?;
        result
    }
}

impl AsFd for NetworkNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Moves the calling thread into the network namespace of a descriptor. Safe between fork and exec.
pub(crate) fn enter_network(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: setns takes no pointers; the descriptor is open for the length of the call.
    check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Creates a namespace of System V and POSIX message queues and shared memory, held open by the descriptor; the calling
/// thread stays in its own.
pub fn create_ipc() -> io::Result<OwnedFd> {
    let open = || fs::File::open("/proc/thread-self/ns/ipc").map(OwnedFd::from);
    let home = open().map_err(|e| context(e, "/proc/thread-self/ns/ipc"))?;
    unshare(Namespaces { ipc: true, ..Namespaces::default() })?;
    let made = open();
    enter_ipc(home.as_fd())?;
    made
}

/// Moves the calling thread into the namespace of a descriptor. Safe between fork and exec.
pub(crate) fn enter_ipc(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: setns takes no pointers; the descriptor is open for the length of the call.
    check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWIPC) }).map(drop)
}

/// Hides a mount under an empty tmpfs, in a new mount namespace of the calling process. Safe between fork and exec.
pub(crate) fn hide_mount(at: &std::ffi::CStr) -> io::Result<()> {
    // SAFETY: unshare takes no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    // A mount that came from another user's namespace may be covered, but not taken away.
    // SAFETY: the texts end with NUL and live for the call; data may be null.
    check(unsafe { libc::mount(c"tmpfs".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null()) }).map(drop)
}

/// Makes all mounts private, then mounts a `/proc` for this process ID namespace. Fails in containers that mask parts
/// of `/proc`.
pub fn mount_private_proc() -> io::Result<()> {
    mount_call(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    mount_call(c"proc", c"/proc", Some(c"proc"), libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
}

/// Makes `root` the root of the calling process, which needs a mount namespace of its own: an empty `/proc` to mount
/// on, and those of the `shared` folders of the present root that exist.
pub fn enter_root(root: &Path, shared: &[&str]) -> io::Result<()> {
    mount_call(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
    let bind = |from: &Path, to: &Path| mount_call(&text(from)?, &text(to)?, None, libc::MS_BIND | libc::MS_REC);
    fs::create_dir_all(root.join("proc"))?;
    // The root must be a mount, so that its mounts can be private.
    bind(root, root)?;
    for name in shared {
        let (from, to) = (Path::new("/").join(name), root.join(name));
        match fs::symlink_metadata(&from) {
            Ok(found) if found.is_symlink() => std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?,
            Ok(found) if found.is_dir() => {
                fs::create_dir_all(&to)?;
                bind(&from, &to)?;
            }
            _ => {}
        }
    }
    std::os::unix::fs::chroot(root).map_err(|e| context(e, "changing the root"))?;
    std::env::set_current_dir("/")
}

fn mount_call(
    source: &std::ffi::CStr,
    target: &std::ffi::CStr,
    kind: Option<&std::ffi::CStr>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let kind = kind.map_or(std::ptr::null(), |k| k.as_ptr());
    // SAFETY: source, target and kind are NUL-terminated and live for the call; kind and data may
    // be null for these flags.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, std::ptr::null()) })
        .map(drop)
        .map_err(|e| context(e, &format!("mounting on {}", target.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_match_requested_namespaces() {
        assert_eq!(Namespaces::default().flags(), 0);
        let both = Namespaces { network: true, process: true, ..Default::default() };
        assert_eq!(both.flags(), libc::CLONE_NEWNET | libc::CLONE_NEWPID);
    }

    #[test]
    fn creator_stays_in_its_ipc_namespace() {
        let own = || fs::read_link("/proc/thread-self/ns/ipc").unwrap();
        let home = own();
        match create_ipc() {
            Ok(made) => {
                let number = fs::read_link(format!("/proc/self/fd/{}", made.as_raw_fd())).unwrap();
                assert!(own() == home && number != home, "{number:?}");
            }
            Err(e) => println!("skipped: the kernel refuses a namespace: {e}"),
        }
    }

    #[test]
    fn new_namespace_is_empty() {
        let home = fs::read_link("/proc/thread-self/ns/net").unwrap();
        let made = match NetworkNamespace::create() {
            Ok(made) => made,
            Err(e) => return println!("skipped: the kernel refuses a network namespace: {e}"),
        };
        assert_eq!(fs::read_link("/proc/thread-self/ns/net").unwrap(), home);
        let inside = made.within(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        assert!(inside.contains("lo:"), "{inside}");
        assert!(!inside.contains("eth"), "{inside}");
        assert_eq!(fs::read_link("/proc/thread-self/ns/net").unwrap(), home);
    }
}
