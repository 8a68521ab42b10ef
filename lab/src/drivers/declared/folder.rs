//! Folders of drivers: those that come with this program, and those that users write.

use super::check::check;
use super::file::{self, DRIVER_FILE, DriverFile, DriverMistake};
use anyhow::{Context, Result, anyhow, bail};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Environment variable with folders that hold a folder for each driver, separated by `:`.
pub const FOLDERS: &str = "FARLINK_DRIVERS";
/// Folder beside a scenario that may hold drivers.
const BESIDE: &str = "drivers";
/// Largest file of a driver.
const FILE_MAX: u64 = 4 << 20;

macro_rules! built_in {
    ($($name:literal: [$($file:literal),*];)*) => {
        /// Drivers that come with this program: names, and their files with contents.
        const BUILT_IN: &[(&str, &[(&str, &str)])] = &[$((
            $name,
            &[$(($file, include_str!(concat!("../../../drivers/", $name, "/", $file)))),*],
        )),*];
    };
}

built_in! {
    "dtn7-rs": ["driver.toml"];
    "ion": ["driver.toml", "node.rc.j2"];
    "toy": ["driver.toml", "toy.py"];
}

/// Files of a driver, read and checked.
#[derive(Clone, Debug)]
pub struct DriverFolder {
    /// Where it was found, for messages.
    pub place: String,
    pub(super) file: DriverFile,
    files: BTreeMap<String, Cow<'static, str>>,
}

impl DriverFolder {
    /// Finds a driver: beside the scenario, in a folder of [`FOLDERS`], or among those of this program.
    ///
    /// # Errors
    /// An unknown name, and mistakes of the driver's files.
    pub fn find(name: &str, scenario_folder: &Path) -> Result<DriverFolder> {
        let list = std::env::var_os(FOLDERS).unwrap_or_default();
        let folders = [scenario_folder.join(BESIDE)].into_iter().chain(std::env::split_paths(&list));
        let mut own = folders.map(|folder| folder.join(name)).filter(|folder| folder.join(DRIVER_FILE).is_file());
        if let Some(folder) = own.next() {
            return DriverFolder::read(&folder);
        }
        let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
        let Some((_, files)) = built_in else {
            let known: Vec<&str> = names().collect();
            bail!(
                "no driver of `{name}`\nhint: this program has {}; `{BESIDE}/{name}/{DRIVER_FILE}` beside the scenario \
                 describes another",
                known.join(", ")
            );
        };
        let files = files.iter().map(|(name, text)| (name.to_string(), Cow::Borrowed(*text))).collect();
        DriverFolder::new(name, format!("built-in driver {name}"), files)
    }

    /// Reads the driver in a folder.
    ///
    /// # Errors
    /// Files that cannot be read, and their mistakes.
    pub fn read(folder: &Path) -> Result<DriverFolder> {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let read = |path: PathBuf| -> Result<(String, Cow<'static, str>)> {
            let length = fs::metadata(&path).map(|facts| facts.len());
            let length = length.with_context(|| format!("cannot read {}", path.display()))?;
            if length > FILE_MAX {
                bail!("{} has {length} bytes, at most {FILE_MAX} are read", path.display());
            }
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            Ok((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), Cow::Owned(text)))
        };
        let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_file());
        // An editor's backup copy or a picture is no part of the driver.
        let files: BTreeMap<_, _> = paths.filter_map(|path| read(path).ok()).collect();
        DriverFolder::new(&name, folder.display().to_string(), files)
    }

    fn new(name: &str, place: String, files: BTreeMap<String, Cow<'static, str>>) -> Result<DriverFolder> {
        let text = files.get(DRIVER_FILE).with_context(|| format!("no {DRIVER_FILE} in {place}"))?;
        let listed = |mistakes: Vec<DriverMistake>| {
            let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            anyhow!("{place}: {}", lines.join("\n"))
        };
        let file = file::read(text, name).map_err(listed)?;
        check(text, &file, &|name| files.get(name).map(AsRef::as_ref)).map_err(listed)?;
        Ok(DriverFolder { place, file, files })
    }

    /// Layers and programs in a line, and a line for each parameter.
    pub fn summary(&self) -> String {
        let file = &self.file;
        let list = |names: Vec<&str>| names.join(", ");
        let layers = list(file.layer.get_ref().keys().map(String::as_str).collect());
        let mut text = format!("BPv{:?} over {layers}", file.bundles.get_ref()).replace(['[', ']'], "");
        if !file.programs.need.is_empty() {
            text += &format!("; programs {}", list(file.programs.need.iter().map(String::as_str).collect()));
        }
        for (name, parameter) in &file.parameter {
            let parameter = parameter.get_ref();
            text += &format!("\n  {name} = {}  {}", parameter.default, parameter.help);
        }
        text
    }

    /// Whether the implementation has this convergence layer.
    pub fn has_layer(&self, layer: &str) -> bool {
        self.file.layer.get_ref().contains_key(layer)
    }

    /// Largest bundle that the implementation receives over a layer, if its driver names one.
    pub fn takes(&self, layer: &str) -> Option<&str> {
        self.file.layer.get_ref().get(layer)?.get_ref().takes.as_deref()
    }

    /// Whether each bundle over a layer is one datagram, which may be lost.
    pub fn may_lose(&self, layer: &str) -> bool {
        self.file.layer.get_ref().get(layer).is_some_and(|entry| entry.get_ref().datagrams)
    }

    /// Whether its nodes may have IDs of the scheme `ipn`.
    pub fn has_ipn(&self) -> bool {
        self.file.ids != file::IdScheme::Dtn
    }

    /// Whether its nodes answer pings.
    pub fn answers_pings(&self) -> bool {
        self.file.app.echo.is_some()
    }

    /// Whether its nodes can be killed and go on from their disk.
    pub fn restarts(&self) -> bool {
        self.file.start.durable && !self.file.start.forks
    }

    /// Whether its driver says how its programs print their version.
    pub fn prints_version(&self) -> bool {
        self.file.programs.version.is_some()
    }

    /// Text of a file of the folder.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn read_text(&self, name: &str) -> Result<&str> {
        self.files.get(name).map(AsRef::as_ref).with_context(|| format!("no file {name} in {}", self.place))
    }
}

/// Names of the drivers that come with this program.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}
