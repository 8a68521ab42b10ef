//! Keys of hosts and phases, which the testbed obeys.

use farlink_config::{Fallback, Key, Kind, Section, key, other};

use Fallback::{Absent, Is, Required};
use Kind::Choice;

const PROCESSORS: Kind = other("number of processors, or list of their numbers", "2");
const SHARE_OF_PROCESSORS: Kind = other("number of processors, also a fraction", "0.5");

/// Kinds of hosts.
const HOST_KINDS: &[&str] = &["namespace", "container", "interface", "ssh"];

/// Keys of `[node.host]`.
pub const HOST: Section = Section {
    name: "node.host",
    help: "The machine that a node has in the testbed, applications included: where it runs, and what it may use. Limits have no effect in simulations, whose notes name them.",
    keys: &[
        key(
            "kind",
            Choice(HOST_KINDS),
            Is("namespace"),
            "`namespace`: programs of this machine in namespaces of their own. `container`: programs of an OCI image, in the namespaces and control groups that they would have without it; started by `crun`. `interface`: a machine outside the testbed, behind a network interface of this one: a board, a virtual machine, a radio. The emulated link ends at that interface; nothing is started there, and the node must listen at the address of its end of the link (`farlink lab show`). Needs root. `ssh`: the node and its applications run in namespaces of another machine, to which `ssh` gets without a password; links to it pass the emulator here, through UDP.",
        ),
        key(
            "name",
            other("name of a network interface", "\"eth1\""),
            Absent,
            "Of `kind = \"interface\"`: the interface of this machine to which the outside machine is plugged. It must be up and have no address, so that only the emulator uses it.",
        ),
        key(
            "image",
            other("image of the container: path, or name at Podman or Docker", "\"./image.tar\""),
            Absent,
            "Of `kind = \"container\"`: a path that begins with `/`, `./` or `../`, relative to the scenario, of an OCI layout, of an archive that Podman or Docker saved, or of a folder with the files of the root; else the name of an image that Podman or Docker has here.",
        ),
        key(
            "at",
            other("destination of `ssh`", "\"user@machine\""),
            Absent,
            "Of `kind = \"ssh\"`: the machine, as `ssh` takes it, also as a name of its configuration or as `ssh://user@machine:port`. Hosts with the same machine share its programs and files.",
        ),
        key(
            "config",
            other("path of a configuration file of `ssh`", "\"ssh_config\""),
            Absent,
            "Of `kind = \"ssh\"`: the file with keys, ports and jumps (`ssh -F`), relative to the scenario; without it, that of the user.",
        ),
        key(
            "program",
            other("path of `farlink` for that machine", "\"farlink-aarch64\""),
            Absent,
            "Of `kind = \"ssh\"`: the program to bring there, relative to the scenario; `cargo xtask static` builds one for machines without a C library, or with other processors. Without it, the program that runs here.",
        ),
        key(
            "cpus",
            PROCESSORS,
            Absent,
            "Processors that the host's programs may use: so many, of which hosts get different ones where there are enough, or these, counted from 0.",
        ),
        key(
            "quota",
            SHARE_OF_PROCESSORS,
            Absent,
            "Most processor time in real time, all programs together: 0.5 is half a processor. Needs control groups. Its programs have no real-time priority, which the kernel does not limit.",
        ),
        key(
            "memory",
            Kind::Volume,
            Absent,
            "Most memory, all programs and what they read and write of files together; who needs more is killed. Needs control groups.",
        ),
    ],
};

/// Key of `[[node]]` for its host.
pub const NODE_KEYS: &[Key] =
    &[key("host", Kind::Table("node.host"), Absent, "The machine that the node has in the testbed.")];

/// Kinds of phases, in the order of [`crate::PhaseKind::ALL`].
pub const PHASE_KINDS: &[&str] = &["free", "baseline", "warm", "ping", "load", "unload", "retention"];

/// Keys of `[[phase]]`.
pub const PHASE: Section = Section {
    name: "phase",
    help: "A named span of the run: `[[phase]]` for each, in order of time. Samples carry its name, processor time, memory and bundles are told for each, and peaks of memory count from its start. At most 64.",
    keys: &[
        key("name", Kind::Name, Required, "Its name in tables and reports."),
        key(
            "kind",
            Choice(PHASE_KINDS),
            Is("free"),
            "What it is for. In the testbed `baseline` sends plain TCP and UDP through each link, one after the other; no traffic may start in it. `retention` measures how long relays, the nodes with several links, keep the bundles that pass in it, and first how long a relay takes that does no work. The other kinds are names for reports.",
        ),
        key(
            "start",
            Kind::Duration,
            Absent,
            "When it begins; without it, when the one before ends. It begins later where that takes longer.",
        ),
        key(
            "duration",
            Kind::Duration,
            Absent,
            "How long it takes at most; without it, until the next one or the end.",
        ),
        key(
            "until",
            Choice(&["sent", "delivered"]),
            Absent,
            "Ends it early: when all senders that began have sent all, or when all bundles created so far are delivered besides. Only in the testbed.",
        ),
    ],
};
