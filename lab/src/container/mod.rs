//! Containers: images become layers of a root file system, and a host's programs become configurations of an OCI
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
use farlink_scenario::{ContainerImage, HostKind, Scenario, TrafficKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Folder of a run for unpacked images, and for what the supervisor mounts.
pub const FOLDER: &str = "containers";

/// A file or folder of this machine that programs in a container find under the same path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bind {
    /// Its path, here and there.
    pub path: PathBuf,
    /// Whether they may change it.
    pub writable: bool,
}

/// The container of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ContainerSetup {
    /// Folders of its root file system, each over the one before.
    pub layers: Vec<PathBuf>,
    /// Variables of the image, as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Parts of this machine that it has, too.
    pub binds: Vec<Bind>,
    /// Libraries for the program `farlink`, should the image have none.
    pub libraries: Libraries,
    /// Empty folder for mounts, the same for all containers.
    pub mounts: PathBuf,
}

/// Containers of a scenario's nodes, with a sentence about each; images are unpacked below the folder of the run.
///
/// # Errors
/// When there is no runtime, or an image cannot be read.
pub fn prepare(scenario: &Scenario, run: &Path, program: &Path) -> Result<Vec<Option<(ContainerSetup, String)>>> {
    let images = |node: &farlink_scenario::Node| match &node.host.kind {
        HostKind::Namespace => None,
        HostKind::Container(image) => Some(image.clone()),
    };
    let wanted: Vec<Option<ContainerImage>> = scenario.nodes.iter().map(images).collect();
    if wanted.iter().all(Option::is_none) {
        return Ok(vec![None; wanted.len()]);
    }
    let runtime = Runtime::find()?;
    let libraries = Libraries::of(program);
    let top = run.join(FOLDER);
    let mounts = top.join("mounts");
    fs::create_dir_all(&mounts).with_context(|| format!("cannot create {}", mounts.display()))?;
    // Images hold programs with the rights of root, which nobody else shall start.
    fs::set_permissions(&top, fs::Permissions::from_mode(0o700))?;
    let nodes = run.join("nodes");
    fs::create_dir_all(nodes.join(COMMON))?;
    let mut opened: BTreeMap<String, Image> = BTreeMap::new();
    let mut containers = Vec::new();
    for (index, (node, image)) in scenario.nodes.iter().zip(wanted).enumerate() {
        let Some(image) = image else {
            containers.push(None);
            continue;
        };
        let name = image.to_string();
        if !opened.contains_key(&name) {
            let into = top.join(format!("image-{}", opened.len()));
            let found = open(&image, &scenario.folder, &into)
                .with_context(|| format!("the container image `{name}` of node `{}`", node.name))?;
            opened.insert(name.clone(), found);
        }
        let image = &opened[&name];
        let bind = |path: PathBuf, writable: bool| Bind { path, writable };
        let mut binds = vec![
            bind(nodes.join(&node.name), true),
            bind(nodes.join(COMMON), false),
            bind(run.join("files"), true),
            bind(program.to_path_buf(), false),
        ];
        for traffic in scenario.traffic.iter().filter(|traffic| traffic.from == index) {
            if let TrafficKind::File { path: Some(path), .. } = &traffic.kind {
                binds.push(bind(std::path::absolute(scenario.folder.join(path))?, false));
            }
        }
        let note = format!(
            "Node {} ran in a container of the image `{name}` ({}), started by {runtime}.",
            node.name, image.identity
        );
        let setup = ContainerSetup {
            layers: image.layers.clone(),
            environment: image.environment.clone(),
            binds,
            libraries: libraries.clone(),
            mounts: mounts.clone(),
        };
        containers.push(Some((setup, note)));
    }
    Ok(containers)
}
