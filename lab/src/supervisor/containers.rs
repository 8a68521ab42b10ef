//! Containers of hosts: their root file systems, and the start of programs in them by the OCI runtime.
//!
//! The runtime ends once the program runs. The program then is a child of PID 1, like any other. Everything that the
//! runtime writes lies in mounts of the supervisor's own mount namespace, which vanish with it.

use super::protocol::{HostSetup, SignalName, SpawnSetup};
use crate::container::{Bind, ContainerSetup, Inside, Runtime, configuration};
use farlink_os::cgroup::Hierarchies;
use farlink_os::context;
use farlink_os::process::EndedChild;
use farlink_os::{mounts, namespace};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum number of ended unknown processes that are remembered while the runtime starts programs.
const STRAYS_MAX: usize = 4096;

/// Search path of programs if the image has none, as in container engines.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Containers of a run's hosts.
#[derive(Debug, Default)]
pub struct Containers {
    runtime: Option<Runtime>,
    hosts: BTreeMap<usize, Container>,
    /// Programs that are being started, by the process ID of their runtime.
    starting: BTreeMap<u32, Starting>,
    /// Unknown processes that ended during starts, by ID. One may be a started program that ended before its ID was
    /// known.
    strays: BTreeMap<u32, EndedChild>,
    started: u64,
    hidden_mount: Option<CString>,
}

#[derive(Debug)]
struct Container {
    name: String,
    setup: ContainerSetup,
    /// Folder with the container's root and its shared memory.
    place: PathBuf,
    ipc: OwnedFd,
    libraries: Vec<Bind>,
}

#[derive(Debug)]
struct Starting {
    setup: SpawnSetup,
    process_file: PathBuf,
    /// Signal to send as soon as the program runs.
    signal: Option<SignalName>,
}

/// Result of starting a program, known when the runtime ends.
#[derive(Debug)]
pub enum Start {
    /// The program runs.
    Runs {
        /// Request by which the program was started.
        setup: Box<SpawnSetup>,
        /// Process ID of the program.
        process: u32,
        /// Signal that arrived before the program ran.
        signal: Option<SignalName>,
    },
    /// The program has ended already, or could not be started; the runtime has printed the reason.
    Ended {
        /// Number given to the program.
        id: u32,
        /// Exit of the program, or of the runtime if that failed.
        ended: EndedChild,
    },
}

impl Containers {
    /// Creates the root file systems of all hosts that are containers.
    ///
    /// # Errors
    /// If there is no runtime, or the kernel refuses a mount.
    pub fn new(hosts: &[HostSetup], hierarchies: &Hierarchies) -> io::Result<Containers> {
        let wanted =
            || hosts.iter().enumerate().filter_map(|(index, host)| Some((index, host, host.container.as_ref()?)));
        let Some((_, _, first)) = wanted().next() else { return Ok(Containers::default()) };
        let runtime = Runtime::find().map_err(io::Error::other)?;
        mounts::mount_memory(&first.mounts)?;
        let mut containers = Containers { runtime: Some(runtime), ..Containers::default() };
        // crun up to 1.8 starts nothing if version 2 is mounted beside version 1, so version 2 is hidden from it.
        let beside = hierarchies.unified.as_ref().filter(|_| !hierarchies.version_1.is_empty());
        let beside = beside.map(|(hierarchy, _)| CString::new(hierarchy.mount.as_os_str().as_bytes()));
        containers.hidden_mount = beside.transpose()?;
        for (index, host, setup) in wanted() {
            let made = Container::new(&host.name, setup, &first.mounts.join(index.to_string()));
            let made = made.map_err(|e| context(e, &format!("the container of host `{}`", host.name)))?;
            containers.hosts.insert(index, made);
        }
        Ok(containers)
    }

    /// Whether a host is a container.
    pub fn has(&self, host: usize) -> bool {
        self.hosts.contains_key(&host)
    }

    /// Prepares the start of a program. Returns the runtime's command, the IPC namespace in which to run it, and the
    /// mount that must be hidden from it, if any.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn command(
        &mut self,
        setup: &SpawnSetup,
        marks: &[(&'static str, String)],
    ) -> io::Result<(Command, OwnedFd, Option<CString>)> {
        let missing = || io::Error::other("no such container");
        let container = self.hosts.get(&setup.host).ok_or_else(missing)?;
        self.started += 1;
        let bundle = container.setup.mounts.join(format!("program-{}", self.started));
        fs::create_dir(&bundle)?;
        let text = serde_json::to_vec(&container.configuration(setup, marks))?;
        fs::write(bundle.join("config.json"), text)?;
        let mut command = Command::new(&self.runtime.as_ref().ok_or_else(missing)?.path);
        command.arg("--root").arg(container.setup.mounts.join("runtime"));
        // Control groups are disabled: the program inherits those of the runtime, which are those of the program's
        // role.
        command.args(["--cgroup-manager", "disabled", "run", "--detach", "--no-new-keyring", "--pid-file"]);
        command.arg(process_file(&bundle)).arg("--bundle").arg(&bundle).arg(format!("farlink-{}", self.started));
        let ipc = container.ipc.as_fd().try_clone_to_owned()?;
        Ok((command, ipc, self.hidden_mount.clone()))
    }

    /// Records the process ID of the runtime that starts the program prepared by the last [`Containers::command`].
    pub fn starts(&mut self, runtime: u32, setup: SpawnSetup) {
        let Some(container) = self.hosts.get(&setup.host) else { return };
        let process_file = process_file(&container.setup.mounts.join(format!("program-{}", self.started)));
        self.starting.insert(runtime, Starting { setup, process_file, signal: None });
    }

    /// Keeps a signal for a program that does not run yet; returns whether such a program is being started.
    pub fn keep_signal(&mut self, id: u32, signal: SignalName) -> bool {
        let Some(starting) = self.starting.values_mut().find(|starting| starting.setup.id == id) else { return false };
        // A later signal must not replace a kill.
        if starting.signal != Some(SignalName::Kill) {
            starting.signal = Some(signal);
        }
        true
    }

    /// Records the end of a runtime, or of an unknown process. Returns the result of the start if it was a runtime.
    pub fn ended(&mut self, ended: EndedChild) -> Option<Start> {
        let Some(starting) = self.starting.remove(&ended.process) else {
            if !self.starting.is_empty() && self.strays.len() < STRAYS_MAX {
                self.strays.insert(ended.process, ended);
            }
            return None;
        };
        let text = fs::read_to_string(&starting.process_file).unwrap_or_default();
        let process = text.trim().parse::<u32>().ok().filter(|_| ended.code == Some(0));
        let done = process.and_then(|process| self.strays.remove(&process));
        if self.starting.is_empty() {
            self.strays.clear();
        }
        let id = starting.setup.id;
        Some(match (process, done) {
            (_, Some(ended)) => Start::Ended { id, ended },
            (Some(process), None) => Start::Runs { setup: Box::new(starting.setup), process, signal: starting.signal },
            (None, None) => Start::Ended { id, ended },
        })
    }
}

fn process_file(bundle: &Path) -> PathBuf {
    bundle.join("process")
}

/// Creates the folders on which the runtime mounts file systems. Replaces links in their places, since runtimes may
/// follow these out of the root (crun 1.8 would create the device files there).
fn make_mount_points(root: &Path) -> io::Result<()> {
    for name in ["dev", "proc", "sys"] {
        let place = root.join(name);
        if fs::symlink_metadata(&place).is_ok_and(|found| !found.is_dir()) {
            fs::remove_file(&place)?;
        }
        fs::create_dir_all(&place)?;
    }
    Ok(())
}

impl Container {
    fn new(name: &str, setup: &ContainerSetup, place: &Path) -> io::Result<Container> {
        let [root, upper, work, shared_memory] =
            ["root", "changes", "work", "shared-memory"].map(|folder| place.join(folder));
        for folder in [&root, &upper, &work, &shared_memory] {
            fs::create_dir_all(folder)?;
        }
        // The usual mode of /dev/shm.
        fs::set_permissions(&shared_memory, fs::Permissions::from_mode(0o1777))?;
        mounts::mount_overlay(&setup.layers, &upper, &work, &root)?;
        make_mount_points(&root)?;
        let libraries = setup.libraries.needed_in(&root);
        let ipc = namespace::create_ipc()?;
        Ok(Container { name: name.into(), setup: setup.clone(), place: place.into(), ipc, libraries })
    }

    fn configuration(&self, setup: &SpawnSetup, marks: &[(&'static str, String)]) -> serde_json::Value {
        let variable = |(name, value): (&str, &String)| format!("{name}={value}");
        let own = setup.environment.iter().map(|(name, value)| variable((name, value)));
        let marks = marks.iter().map(|(name, value)| variable((name, value)));
        let image = &self.setup.environment;
        let path = image.iter().all(|entry| !entry.starts_with("PATH=")).then(|| PATH.to_string());
        let environment: Vec<String> = image.iter().cloned().chain(path).chain(own).chain(marks).collect();
        let binds: Vec<Bind> = self.libraries.iter().chain(&self.setup.binds).cloned().collect();
        configuration(&Inside {
            root: &self.place.join("root"),
            shared_memory: &self.place.join("shared-memory"),
            host_name: &self.name,
            command: &setup.command,
            environment: &environment,
            directory: &setup.directory,
            binds: &binds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::Role;
    use std::time::Duration;

    fn end(process: u32, code: i32) -> EndedChild {
        let (cpu_user, cpu_system, resident_peak) = (Duration::ZERO, Duration::ZERO, 0);
        EndedChild { process, code: Some(code), signal: None, cpu_user, cpu_system, resident_peak }
    }

    /// State in which the runtime, process 100, starts a program that becomes process 200.
    fn starting(folder: &Path) -> Containers {
        let setup = SpawnSetup {
            id: 7,
            host: 0,
            role: Role::Implementation,
            command: Vec::new(),
            environment: BTreeMap::new(),
            directory: PathBuf::new(),
            stdout: None,
            stderr: None,
            real_time: None,
        };
        fs::write(process_file(folder), "200").unwrap();
        let mut containers = Containers::default();
        let starting = Starting { setup, process_file: process_file(folder), signal: None };
        containers.starting.insert(100, starting);
        containers
    }

    #[test]
    fn links_at_mount_points_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(root.join("sys/kept")).unwrap();
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("dev")).unwrap();
        fs::write(root.join("proc"), "").unwrap();
        make_mount_points(&root).unwrap();
        assert!(["dev", "proc", "sys/kept"].iter().all(|name| fs::symlink_metadata(root.join(name)).unwrap().is_dir()));
        assert!(outside.is_dir());
    }

    #[test]
    fn program_runs_when_runtime_ends() {
        let folder = tempfile::tempdir().unwrap();
        let mut containers = starting(folder.path());
        assert!(containers.keep_signal(7, SignalName::Kill) && containers.keep_signal(7, SignalName::Terminate));
        assert!(!containers.keep_signal(8, SignalName::Kill));
        assert!(containers.ended(end(300, 0)).is_none());
        let Some(Start::Runs { process, signal, .. }) = containers.ended(end(100, 0)) else { panic!() };
        assert_eq!((process, signal), (200, Some(SignalName::Kill)));
        assert!(containers.strays.is_empty() && containers.ended(end(200, 0)).is_none());
    }

    #[test]
    fn program_may_end_before_runtime() {
        let folder = tempfile::tempdir().unwrap();
        let mut containers = starting(folder.path());
        assert!(containers.ended(end(200, 3)).is_none());
        let Some(Start::Ended { id, ended }) = containers.ended(end(100, 0)) else { panic!() };
        assert_eq!((id, ended.process, ended.code), (7, 200, Some(3)));
    }

    #[test]
    fn failure_of_runtime_ends_program() {
        let folder = tempfile::tempdir().unwrap();
        let Some(Start::Ended { id, ended }) = starting(folder.path()).ended(end(100, 1)) else { panic!() };
        assert_eq!((id, ended.process, ended.code), (7, 100, Some(1)));
    }
}
