//! TCP Hybla for kernels without it: a BPF object (struct_ops) that `bpftool` registers and removes. It applies to the
//! whole kernel and stays until it is removed, so it is not part of a run.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the congestion control in scenarios and, as a module, in the kernel.
const KERNELS: &str = "hybla";
/// Name under which our Hybla is registered; it differs from the kernel's, whose module may be loaded later.
pub const OURS: &str = "fl_hybla";
/// BPF object, compiled from `lab/bpf/hybla.bpf.c`, whose head has the commands.
const OBJECT: &[u8] = include_bytes!("../bpf/hybla.bpf.o");
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// Type information of the kernel (BTF), without which no BPF object can be adapted to it.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Congestion controls that the kernel lists now; empty if `/proc` hides the list.
pub fn available() -> Vec<String> {
    let list = fs::read_to_string(AVAILABLE).unwrap_or_default();
    list.split_whitespace().map(str::to_string).collect()
}

/// Name of the congestion control `control` in a kernel with the `available` ones: `hybla` becomes [`OURS`] if only
/// that is there.
pub fn name_in_kernel<'a>(control: &'a str, available: &[String]) -> &'a str {
    let has = |name: &str| available.iter().any(|known| known == name);
    if control == KERNELS && !has(KERNELS) && has(OURS) { OURS } else { control }
}

/// Describes the congestion control of a host, for people.
pub fn described(name: &str) -> String {
    if name == OURS {
        return format!("{OURS} (Hybla as a BPF object, registered by `farlink doctor --install hybla`)");
    }
    format!("{name} (of the kernel)")
}

/// Registers our Hybla, unless it or the kernel's is available; returns a sentence about the outcome.
///
/// # Errors
/// If this user or this kernel does not permit it, or a program is missing; each message has a hint.
pub fn install() -> Result<String> {
    let known = available();
    if known.iter().any(|name| name == OURS) {
        return Ok(format!("Hybla is registered already, as `{OURS}`."));
    }
    if known.iter().any(|name| name == KERNELS) {
        return Ok("The kernel has its own Hybla (tcp_hybla), which runs use: nothing was installed.".into());
    }
    if !Path::new(TYPES).exists() {
        bail!(
            "this kernel does not describe its types ({TYPES} is missing)\n\
             hint: it needs CONFIG_DEBUG_INFO_BTF, or its own module: `modprobe tcp_hybla`"
        );
    }
    let folder = std::env::temp_dir().join(format!("farlink-hybla-{}", std::process::id()));
    create_own(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let file = folder.join("hybla.bpf.o");
    let registered = fs::write(&file, OBJECT)
        .with_context(|| format!("cannot write {}", file.display()))
        .and_then(|()| bpftool(&["struct_ops", "register", &file.display().to_string()]));
    let _ = fs::remove_dir_all(&folder);
    registered?;
    // The exit status is no proof: see `bpftool` below.
    if !available().iter().any(|name| name == OURS) {
        bail!(
            "`bpftool` succeeded, and the kernel lists no `{OURS}`\nhint: `bpftool struct_ops list` shows its objects"
        );
    }
    Ok(format!("Hybla is registered as `{OURS}`, for the whole machine, until it is removed or started anew."))
}

/// Creates a folder that only this user may access. An existing folder is refused: in `/tmp` it may belong to another
/// user, who could exchange the object before root loads it, or redirect the write by a symbolic link.
fn create_own(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(folder)
}

/// Removes our Hybla; connections that use it keep it. Returns a sentence about the outcome.
///
/// # Errors
/// As for [`install`].
pub fn remove() -> Result<String> {
    if !available().iter().any(|name| name == OURS) {
        return Ok(format!("No `{OURS}` is registered: nothing was removed."));
    }
    bpftool(&["struct_ops", "unregister", "name", OURS])?;
    Ok(format!("`{OURS}` was removed."))
}

/// Runs `bpftool`, which is often not on the path of ordinary users.
fn bpftool(arguments: &[&str]) -> Result<()> {
    let places = ["/usr/sbin/bpftool", "/sbin/bpftool", "/usr/local/sbin/bpftool"].map(PathBuf::from);
    let found = places.into_iter().find(|path| path.exists()).unwrap_or_else(|| "bpftool".into());
    let output = match Command::new(&found).args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "the program `bpftool` is missing\n\
             hint: it comes with the kernel's tools: `apt install bpftool`, `dnf install bpftool`"
        ),
        Err(error) => return Err(error).with_context(|| format!("starting {}", found.display())),
    };
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_string()).join(" ");
    // Version 7.1 exits with 0 even if nothing was registered, so the text is searched for errors.
    if output.status.success() && !text.contains("Error") && !text.contains("can't") {
        return Ok(());
    }
    let refused = text.contains("not permitted") || text.contains("ermission denied");
    let hint = if refused {
        "it needs root, or CAP_BPF and CAP_NET_ADMIN; containers need them from outside"
    } else {
        "a kernel with BPF struct_ops is needed (Linux 5.6; CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT, CONFIG_DEBUG_INFO_BTF)"
    };
    bail!("`bpftool {}` failed: {text}\nhint: {hint}", arguments.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_hybla_comes_before_ours() {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(name_in_kernel("hybla", &list(&["reno", "hybla", OURS])), "hybla");
        assert_eq!(name_in_kernel("hybla", &list(&["reno", OURS])), OURS);
        assert_eq!(name_in_kernel("hybla", &list(&["reno"])), "hybla");
        assert_eq!(name_in_kernel("reno", &list(&[OURS])), "reno");
    }

    #[test]
    fn folder_of_a_stranger_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(create_own(folder.path()).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
        let own = folder.path().join("own");
        create_own(&own).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(own).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn object_is_made_of_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/hybla.bpf.c");
        fs::copy(source, folder.path().join("hybla.bpf.c")).unwrap();
        let run = |program: &str, arguments: &[&str]| {
            Command::new(program)
                .args(arguments)
                .current_dir(folder.path())
                .status()
                .is_ok_and(|status| status.success())
        };
        let flags = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-fdebug-compilation-dir=.", "-c", "hybla.bpf.c"];
        let made = run("clang-14", &[&flags[..], &["-o", "hybla.bpf.o"]].concat());
        if !made || !run("llvm-strip-14", &["-g", "hybla.bpf.o"]) {
            println!("skipped: no clang-14 or llvm-strip-14");
            return;
        }
        assert!(fs::read(folder.path().join("hybla.bpf.o")).unwrap() == OBJECT, "make it again: the head says how");
    }

    #[test]
    fn object_is_registered_and_removed() {
        let before = available();
        // Another test, or the user, may have it registered.
        if before.iter().any(|name| name == OURS || name == KERNELS) {
            println!("skipped: Hybla is there");
            return;
        }
        match install() {
            Ok(told) => assert!(told.contains(OURS), "{told}"),
            Err(error) => {
                let told = error.to_string();
                assert!(told.contains("hint: "), "{told}");
                println!("skipped: {told}");
                return;
            }
        }
        assert!(available().iter().any(|name| name == OURS));
        assert!(install().unwrap().contains("already"));
        remove().unwrap();
        assert_eq!(available(), before);
    }
}
