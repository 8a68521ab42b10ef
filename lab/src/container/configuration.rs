//! Configuration of one program in a container (OCI runtime specification 1.0, config.json).

use super::Bind;
use serde_json::{Value, json};
use std::path::Path;

/// Capabilities of programs, as far as the supervisor itself has them: those that container engines grant, and those
/// over the host's own network, priorities and locked memory. No capability reaches out of the container.
const CAPABILITIES: [&str; 15] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_IPC_LOCK",
    "CAP_KILL",
    "CAP_NET_ADMIN",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
    "CAP_SYS_NICE",
];

/// Parts of `/proc` and `/sys` that reveal or change this machine's state; hidden or read-only, as in container
/// engines.
const HIDDEN: [&str; 6] =
    ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/sched_debug", "/proc/timer_list", "/sys/firmware"];
const PROTECTED: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Program to start in a container, with its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Inside<'a> {
    /// Root file system.
    pub root: &'a Path,
    /// Folder of the host's shared memory.
    pub shared_memory: &'a Path,
    /// Name of the host.
    pub host_name: &'a str,
    /// Program and arguments.
    pub command: &'a [String],
    /// Whole environment of the program, as `NAME=VALUE`.
    pub environment: &'a [String],
    /// Working directory.
    pub directory: &'a Path,
    /// Files and folders of this machine that the program sees.
    pub binds: &'a [Bind],
}

/// Contents of `config.json`. It creates mount and host-name namespaces only; those of network, processes and IPC are
/// inherited from the runtime.
pub fn configuration(inside: &Inside<'_>) -> Value {
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"] }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "strictatime", "mode=755", "size=65536k"] }),
        json!({ "destination": "/dev/pts", "type": "devpts", "source": "devpts",
                "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"] }),
        json!({ "destination": "/dev/shm", "type": "bind", "source": inside.shared_memory, "options": ["bind", "rw"] }),
        // Includes the control groups, from which programs read their bounds.
        json!({ "destination": "/sys", "type": "bind", "source": "/sys", "options": ["rbind", "rro"] }),
    ];
    mounts.extend(inside.binds.iter().map(|Bind { path, writable }| {
        let access = if *writable { "rw" } else { "ro" };
        json!({ "destination": path, "type": "bind", "source": path, "options": ["rbind", access] })
    }));
    json!({
        "ociVersion": "1.0.2",
        "hostname": inside.host_name,
        "root": { "path": inside.root, "readonly": false },
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": inside.command,
            "env": inside.environment,
            "cwd": inside.directory,
            "noNewPrivileges": true,
            "capabilities": { "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES },
        },
        "mounts": mounts,
        "linux": {
            "namespaces": [{ "type": "mount" }, { "type": "uts" }],
            "maskedPaths": HIDDEN,
            "readonlyPaths": PROTECTED,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_keeps_namespaces_and_paths() {
        let binds = [
            Bind { path: "/runs/x/nodes/a".into(), writable: true },
            Bind { path: "/usr/bin/farlink".into(), writable: false },
        ];
        let command = ["/usr/bin/farlink".to_string(), "node".to_string()];
        let inside = Inside {
            root: Path::new("/runs/x/root"),
            shared_memory: Path::new("/runs/x/shm"),
            host_name: "a",
            command: &command,
            environment: &["PATH=/bin".to_string()],
            directory: Path::new("/runs/x/nodes/a"),
            binds: &binds,
        };
        let found = configuration(&inside);
        assert_eq!(found["process"]["args"], json!(command));
        assert_eq!(found["process"]["cwd"], "/runs/x/nodes/a");
        let kinds: Vec<&str> =
            found["linux"]["namespaces"].as_array().unwrap().iter().filter_map(|n| n["type"].as_str()).collect();
        assert_eq!(kinds, ["mount", "uts"], "network, processes and messages are the supervisor's");
        let mounts = found["mounts"].as_array().unwrap();
        let bound = |path: &str| mounts.iter().find(|m| m["destination"] == path && m["source"] == path).unwrap();
        assert_eq!(bound("/runs/x/nodes/a")["options"][1], "rw");
        assert_eq!(bound("/usr/bin/farlink")["options"][1], "ro");
        assert!(!found.to_string().contains("SYS_ADMIN"));
    }
}
