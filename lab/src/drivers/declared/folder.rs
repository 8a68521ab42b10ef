//! Folders of drivers: those that come with this program, and those that users write.

use super::check::check;
use super::file::{self, DRIVER_FILE, DriverFile, DriverMistake};
use anyhow::{Context, Result, anyhow, bail};
use farlink_base::DataVolume;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
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
    "dtn7-go": ["driver.toml", "announce.py"];
    "dtn7-rs": ["driver.toml"];
    "dtnme": ["driver.toml", "node.cfg.j2", "ready.py", "start.sh"];
    "hardy": ["driver.toml"];
    "hdtn": ["driver.toml", "app.py", "contacts.json.j2", "hdtn.json.j2"];
    "ion": ["driver.toml", "node.rc.j2", "receive.py"];
    "toy": ["driver.toml", "toy.py"];
    "ud3tn": ["driver.toml", "contacts.py"];
}

/// Limits of bundles over a layer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LayerLimits {
    /// Largest bundle that the implementation receives.
    pub takes: Option<DataVolume>,
    /// Largest bundle that it sends.
    pub gives: Option<DataVolume>,
    /// Largest bundle that passes while no other is in transit.
    pub once: Option<DataVolume>,
}

/// Files of a driver, read and checked.
#[derive(Clone, Debug)]
pub struct DriverFolder {
    /// Path of the folder, or name of the built-in driver, for messages.
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
        if let Some(folder) = find_folder(name, scenario_folder, &list) {
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
        let text = |file: &str| files.iter().find(|(name, _)| *name == file).map(|(_, text)| Cow::Borrowed(*text));
        let place = format!("built-in driver {name}");
        let driver = text(DRIVER_FILE).with_context(|| format!("no {DRIVER_FILE} in {place}"))?;
        DriverFolder::new(name, place, driver, &text)
    }

    /// Reads the driver in a folder.
    ///
    /// # Errors
    /// Files that cannot be read, and their mistakes.
    pub fn read(folder: &Path) -> Result<DriverFolder> {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let text = read_file(&folder.join(DRIVER_FILE))?;
        let beside = |file: &str| {
            // Only files directly in the folder: a name may contain no path.
            let plain = Path::new(file).file_name().is_some_and(|name| name == file);
            plain.then(|| read_file(&folder.join(file)).ok()).flatten().map(Cow::Owned)
        };
        DriverFolder::new(&name, folder.display().to_string(), Cow::Owned(text), &beside)
    }

    /// Checks a driver file and the files that it names, whose texts `beside` returns. Other files of the folder are
    /// not read.
    fn new(
        name: &str,
        place: String,
        text: Cow<'static, str>,
        beside: &dyn Fn(&str) -> Option<Cow<'static, str>>,
    ) -> Result<DriverFolder> {
        let listed = |mistakes: Vec<DriverMistake>| {
            let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            anyhow!("{place}: {}", lines.join("\n"))
        };
        let file = file::read(&text, name).map_err(listed)?;
        let named = file.files.iter().flat_map(|entry| [&entry.template, &entry.copy]).flatten();
        let mut files: BTreeMap<String, Cow<'static, str>> =
            named.filter_map(|name| Some((name.get_ref().clone(), beside(name.get_ref())?))).collect();
        check(&text, &file, &|name| files.get(name).map(AsRef::as_ref)).map_err(listed)?;
        files.insert(DRIVER_FILE.into(), text);
        Ok(DriverFolder { place, file, files })
    }

    /// Description for users: one line with versions of the Bundle Protocol, layers and programs, then a line for each
    /// parameter.
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

    /// Limits of bundles over a layer, as the driver file states them; `None` for limits that it does not state.
    pub fn limits(&self, layer: &str) -> LayerLimits {
        let entry = self.file.layer.get_ref().get(layer).map(toml::Spanned::get_ref);
        // Volumes were checked when the file was read.
        let volume = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
        entry.map_or_else(LayerLimits::default, |entry| LayerLimits {
            takes: volume(&entry.takes),
            gives: volume(&entry.gives),
            once: volume(&entry.once),
        })
    }

    /// Whether each bundle over a layer is one datagram, which may be lost.
    pub fn may_lose(&self, layer: &str) -> bool {
        self.file.layer.get_ref().get(layer).is_some_and(|entry| entry.get_ref().datagrams)
    }

    /// Whether its nodes make bundles of this version of the Bundle Protocol.
    pub fn has_version(&self, version: u8) -> bool {
        self.file.bundles.get_ref().contains(&version)
    }

    /// Whether its nodes may have IDs of the scheme `ipn`.
    pub fn has_ipn(&self) -> bool {
        self.file.ids != file::IdScheme::Dtn
    }

    /// Whether its nodes may have IDs of the scheme `dtn`.
    pub fn has_dtn(&self) -> bool {
        self.file.ids != file::IdScheme::Ipn
    }

    /// Whether its nodes can read blocks with a CRC.
    pub fn reads_crc(&self) -> bool {
        self.file.reads_crc
    }

    /// Service at which its nodes answer pings; `None` if they answer none.
    pub fn echo(&self) -> Option<u32> {
        self.file.app.echo
    }

    /// Whether nodes can be killed, and still have their bundles when they are started again.
    pub fn restarts(&self) -> bool {
        self.file.start.durable && !self.file.start.forks
    }

    /// Whether the driver file has a command that prints the version of the programs.
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

/// First folder of a driver beside the scenario, or in one of the folders of a list.
fn find_folder(name: &str, scenario_folder: &Path, list: &OsStr) -> Option<PathBuf> {
    // An unset variable names no folder, rather than the current one.
    let listed = std::env::split_paths(list).filter(|folder| !folder.as_os_str().is_empty());
    let folders = [scenario_folder.join(BESIDE)].into_iter().chain(listed);
    folders.map(|folder| folder.join(name)).find(|folder| folder.join(DRIVER_FILE).is_file())
}

fn read_file(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let facts = fs::metadata(path).with_context(cannot)?;
    if !facts.is_file() || facts.len() > FILE_MAX {
        bail!("{} is no file of at most {FILE_MAX} bytes", path.display());
    }
    fs::read_to_string(path).with_context(cannot)
}

/// Names of the drivers that come with this program.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_list_names_no_folder() {
        assert_eq!(find_folder("src", Path::new("/nowhere"), OsStr::new("")), None);
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("x")).unwrap();
        fs::write(dir.path().join("x").join(DRIVER_FILE), "").unwrap();
        let list = std::env::join_paths([Path::new("/nowhere"), dir.path()]).unwrap();
        assert_eq!(find_folder("x", Path::new("/nowhere"), &list), Some(dir.path().join("x")));
    }

    #[test]
    fn only_named_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let toy = dir.path().join("toy");
        fs::create_dir(&toy).unwrap();
        let built_in = DriverFolder::find("toy", Path::new("/nowhere")).unwrap();
        for name in [DRIVER_FILE, "toy.py"] {
            fs::write(toy.join(name), built_in.read_text(name).unwrap()).unwrap();
        }
        fs::write(toy.join("notes"), "x").unwrap();
        let read = DriverFolder::read(&toy).unwrap();
        assert_eq!(read.read_text("toy.py").unwrap(), built_in.read_text("toy.py").unwrap());
        assert!(read.read_text("notes").is_err());
        fs::write(toy.join(DRIVER_FILE), [0xff]).unwrap();
        let why = format!("{:#}", DriverFolder::read(&toy).unwrap_err());
        assert!(why.contains("driver.toml: ") && why.contains("UTF-8"), "{why}");
    }
}
