//! Containers: turns images into layers of a root file system, and a host's programs into configurations for an OCI
//! runtime. Namespaces, control groups and processes stay the supervisor's; the runtime only gives a program its root.

mod archive;
mod configuration;
mod image;
mod libraries;
mod runtime;

pub use configuration::{Inside, configuration};
pub use image::{Image, open};
pub use libraries::Libraries;
pub use runtime::{Runtime, program};

use crate::driver::COMMON;
use anyhow::{Context, Result};
use farlink_scenario::{HostKind, Scenario, TrafficKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Name of the folder of a run that holds unpacked images and the supervisor's mounts.
pub const FOLDER: &str = "containers";

/// File or folder of this machine that programs in a container see at the same path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bind {
    /// Path on this machine and in the container.
    pub path: PathBuf,
    /// Whether programs in the container may change it.
    pub writable: bool,
}

/// Container of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ContainerSetup {
    /// Folders of the layers of the root file system, the lowest first.
    pub layers: Vec<PathBuf>,
    /// Environment variables of the image, as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Files and folders of this machine that programs in the container see.
    pub binds: Vec<Bind>,
    /// Libraries for the program `farlink`, in case the image lacks them.
    pub libraries: Libraries,
    /// Empty folder for mounts, the same for all containers.
    pub mounts: PathBuf,
}

/// Containers of a scenario's nodes, each with a sentence about it; `None` for nodes without a container. Unpacks
/// images below the folder of the run.
///
/// # Errors
/// If there is no runtime, or an image cannot be read.
pub fn prepare(scenario: &Scenario, run: &Path, program: &Path) -> Result<Vec<Option<(ContainerSetup, String)>>> {
    let kinds = || scenario.nodes.iter().map(|node| &node.host.kind);
    if !kinds().any(|kind| matches!(kind, HostKind::Container(_))) {
        return Ok(vec![None; scenario.nodes.len()]);
    }
    let runtime = Runtime::find()?;
    let libraries = Libraries::of(program);
    let top = run.join(FOLDER);
    let mounts = top.join("mounts");
    for folder in [&mounts, &run.join("nodes").join(COMMON)] {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    // Images hold programs that run as root, which no other user may start.
    fs::set_permissions(&top, fs::Permissions::from_mode(0o700))?;
    let mut opened: BTreeMap<String, Image> = BTreeMap::new();
    let mut containers = Vec::new();
    for (index, kind) in kinds().enumerate() {
        let HostKind::Container(image) = kind else {
            containers.push(None);
            continue;
        };
        let (name, node) = (image.to_string(), &scenario.nodes[index].name);
        if !opened.contains_key(&name) {
            let into = top.join(format!("image-{}", opened.len()));
            let found = open(image, &scenario.folder, &into)
                .with_context(|| format!("the container image `{name}` of node `{node}`"))?;
            opened.insert(name.clone(), found);
        }
        let image = &opened[&name];
        let identity = &image.identity;
        let note = format!("Node {node} ran in a container of the image `{name}` ({identity}), started by {runtime}.");
        let setup = ContainerSetup {
            layers: image.layers.clone(),
            environment: image.environment.clone(),
            binds: binds(scenario, index, run, program)?,
            libraries: libraries.clone(),
            mounts: mounts.clone(),
        };
        containers.push(Some((setup, note)));
    }
    Ok(containers)
}

/// Files and folders of this machine that programs of a node need.
fn binds(scenario: &Scenario, node: usize, run: &Path, program: &Path) -> Result<Vec<Bind>> {
    let bind = |path: PathBuf, writable: bool| Bind { path, writable };
    let nodes = run.join("nodes");
    let mut binds = vec![
        bind(nodes.join(&scenario.nodes[node].name), true),
        bind(nodes.join(COMMON), false),
        bind(run.join("files"), true),
        bind(program.to_path_buf(), false),
    ];
    for traffic in scenario.traffic.iter().filter(|traffic| traffic.from == node) {
        if let TrafficKind::File { path: Some(path), .. } = &traffic.kind {
            binds.push(bind(std::path::absolute(scenario.folder.join(path))?, false));
        }
    }
    Ok(binds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(host: &str, folder: &Path) -> Scenario {
        let text = format!(
            "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n{host}\n[[node]]\nname = \"b\"\n\
             id = \"ipn:2.0\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n\
             [[traffic]]\nfrom = \"a\"\nto = \"b\"\nfile = {{ path = \"picture\" }}\n"
        );
        Scenario::parse_in(&text, folder).unwrap()
    }

    #[test]
    fn node_has_its_folder_and_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("picture"), "p").unwrap();
        let scenario = scenario("", folder.path());
        let binds = binds(&scenario, 0, Path::new("/run"), Path::new("/bin/farlink")).unwrap();
        let has = |path: &str, writable: bool| binds.contains(&Bind { path: path.into(), writable });
        assert!(has("/run/nodes/a", true) && has("/run/files", true) && has("/bin/farlink", false), "{binds:?}");
        assert!(has(&folder.path().join("picture").display().to_string(), false), "{binds:?}");
        assert!(binds.iter().all(|bind| bind.path != Path::new("/run/nodes/b")), "nothing of another node");
    }

    #[test]
    fn only_container_nodes_are_prepared() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let program = std::env::current_exe().unwrap();
        fs::write(folder.path().join("picture"), "p").unwrap();
        let none = prepare(&scenario("", folder.path()), &run, &program).unwrap();
        assert!(none.iter().all(Option::is_none) && !run.exists());
        fs::create_dir_all(folder.path().join("root/etc")).unwrap();
        let boxed = scenario("host = { kind = \"container\", image = \"./root\" }", folder.path());
        match prepare(&boxed, &run, &program) {
            Ok(found) => {
                let (setup, note) = found[0].as_ref().unwrap();
                assert_eq!(setup.layers, [folder.path().join("./root")]);
                assert!(
                    note.contains("Node a ran in a container of the image `./root`") && found[1].is_none(),
                    "{note}"
                );
                assert_eq!(fs::metadata(run.join(FOLDER)).unwrap().permissions().mode() & 0o777, 0o700);
            }
            Err(error) => assert!(format!("{error:#}").contains("crun"), "{error:#}"),
        }
    }
}
