//! Container images: a folder with the files of the root, an OCI layout (OCI image specification 1.0), or an archive of
//! Podman or Docker.

use super::archive::{save, unpack, unpack_layer};
use anyhow::{Context, Result, anyhow, bail};
use farlink_os::disk;
use farlink_os::mounts::LAYERS_MAX;
use farlink_scenario::ContainerImage;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Maximum size of one JSON description in an image, in bytes.
const DESCRIPTION_MAX: u64 = 4 << 20;
/// Maximum depth of an image's lists that refer to each other.
const LISTS_MAX: usize = 8;

/// Image whose layers are unpacked in folders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// Folders of the layers, the lowest first.
    pub layers: Vec<PathBuf>,
    /// Environment variables for programs of the image, as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Digest of the image's description, or `files of` and the path of its folder.
    pub identity: String,
}

/// Opens an image; unpacks archives and layers below the folder `into`. Relative paths of images begin at `folder`.
///
/// # Errors
/// If there is no such image, it is for another processor architecture, or it cannot be read.
pub fn open(image: &ContainerImage, folder: &Path, into: &Path) -> Result<Image> {
    let path = match image {
        ContainerImage::Name(name) => save(name, into).map_err(|error| meant_path(name, folder).unwrap_or(error))?,
        ContainerImage::Path(path) => std::path::absolute(folder.join(path))?,
    };
    if path.is_file() {
        let layout = into.join("archive");
        unpack(&path, &layout)?;
        if !described(&layout) {
            let hint = "hint: an archive of `podman save` or `docker save`; that of an exported container must be unpacked first";
            bail!("{} holds no image\n{hint}", path.display());
        }
        let image = of_layout(&layout, into)?;
        // The layers were unpacked from here, so they exist twice now.
        fs::remove_dir_all(&layout)?;
        if matches!(path.parent(), Some(parent) if parent == into) {
            fs::remove_file(&path)?;
        }
        return Ok(image);
    }
    if described(&path) {
        return of_layout(&path, into);
    }
    let files = fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?.count();
    if files == 0 {
        bail!("the folder {} is empty\nhint: it holds the files of the root, or an OCI layout", path.display());
    }
    Ok(Image { identity: format!("files of {}", path.display()), layers: vec![path], environment: Vec::new() })
}

/// Error for the name of an image that was meant as a path.
fn meant_path(name: &str, folder: &Path) -> Option<anyhow::Error> {
    let path = folder.join(name);
    let found = path.exists();
    let archive = [".tar", ".tar.gz", ".tgz"].iter().any(|ending| name.ends_with(ending));
    (found || archive).then(|| {
        let beside = if found { format!("; {} is there", path.display()) } else { String::new() };
        anyhow!(
            "neither Podman nor Docker has an image of this name{beside}\n\
             hint: a path begins with `/`, `./` or `../`: write image = \"./{name}\""
        )
    })
}

/// Whether a folder is the layout of an image, not a root file system.
fn described(folder: &Path) -> bool {
    folder.join("index.json").is_file() && folder.join("blobs").is_dir() || folder.join("manifest.json").is_file()
}

#[derive(Deserialize)]
struct List {
    manifests: Vec<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    digest: String,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
}

#[derive(Deserialize)]
struct Manifest {
    config: Reference,
    layers: Vec<Reference>,
}

/// Entry of `manifest.json`, which `docker save` writes.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    config: String,
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct Description {
    #[serde(default)]
    architecture: String,
    config: Option<Start>,
}

#[derive(Deserialize)]
struct Start {
    #[serde(rename = "Env", default)]
    environment: Option<Vec<String>>,
}

fn of_layout(layout: &Path, into: &Path) -> Result<Image> {
    let (description, layers) = if layout.join("index.json").is_file() {
        let manifest = manifest_of(layout)?;
        let layers = manifest.layers.iter().map(|layer| blob(layout, &layer.digest)).collect::<Result<Vec<_>>>()?;
        (blob(layout, &manifest.config.digest)?, layers)
    } else {
        let saved: Vec<SavedImage> = read(&layout.join("manifest.json"))?;
        let saved = only(saved)?;
        let layers = saved.layers.iter().map(|layer| within(layout, layer)).collect::<Result<Vec<_>>>()?;
        (within(layout, &saved.config)?, layers)
    };
    if layers.is_empty() || layers.len() > LAYERS_MAX {
        bail!("it has {} layers, where 1 to {LAYERS_MAX} are possible", layers.len());
    }
    let layers = layers.iter().map(|layer| plain_file(layout, layer)).collect::<Result<Vec<_>>>()?;
    let found: Description = read(&plain_file(layout, &description)?)?;
    if !found.architecture.is_empty() && found.architecture != architecture() {
        bail!("it is for `{}`, and this machine is `{}`", found.architecture, architecture());
    }
    let mut folders = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        let folder = into.join(format!("layer-{index}"));
        unpack_layer(layer, &folder)?;
        folders.push(folder);
    }
    let name = description.file_stem().unwrap_or_default().to_string_lossy();
    let environment = found.config.and_then(|start| start.environment).unwrap_or_default();
    Ok(Image { layers: folders, environment, identity: format!("sha256:{name}") })
}

/// Follows the lists of a layout to the manifest of the image for this machine.
fn manifest_of(layout: &Path) -> Result<Manifest> {
    let mut list = layout.join("index.json");
    for _ in 0..LISTS_MAX {
        let found: List = read(&list)?;
        let ours = |reference: &Reference| match &reference.platform {
            Some(platform) => platform.architecture == architecture(),
            None => true,
        };
        // An archive may list images for other machines without containing them.
        let there = found.manifests.iter().filter(|r| ours(r)).filter_map(|r| blob(layout, &r.digest).ok());
        list = only(there.filter(|path| path.is_file()).collect())?;
        if let Ok(manifest) = read::<Manifest>(&list) {
            return Ok(manifest);
        }
    }
    bail!("its lists refer to each other more than {LISTS_MAX} times")
}

fn only<T>(mut images: Vec<T>) -> Result<T> {
    match images.len() {
        1 => images.pop().context("it was there"),
        0 => bail!("it holds no image for this machine, which is `{}`", architecture()),
        many => bail!("it holds {many} images\nhint: save each for itself"),
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let mut text = Vec::new();
    // Regular files only: reading a pipe could block forever.
    let file = disk::open_regular(OpenOptions::new().read(true), path);
    let file = file.with_context(|| format!("cannot read {}", path.display()))?;
    file.take(DESCRIPTION_MAX).read_to_end(&mut text)?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no description of an image", path.display()))
}

/// Resolves the links in a path, which Docker makes between layers. Fails if the path leads out of the layout, or not
/// to a plain file.
fn plain_file(layout: &Path, path: &Path) -> Result<PathBuf> {
    let resolve = |path: &Path| fs::canonicalize(path).with_context(|| format!("cannot read {}", path.display()));
    let file = resolve(path)?;
    if !file.starts_with(resolve(layout)?) {
        bail!("{} leads out of the image", path.display());
    }
    if !file.is_file() {
        bail!("{} is not a plain file", path.display());
    }
    Ok(file)
}

/// Path of the file with a digest, such as `sha256:aa01`.
fn blob(layout: &Path, digest: &str) -> Result<PathBuf> {
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match digest.split_once(':') {
        Some((kind, hex)) if plain(kind) && plain(hex) => Ok(layout.join("blobs").join(kind).join(hex)),
        _ => bail!("`{}` is no digest", digest.escape_default()),
    }
}

/// Path of a file in a layout. Fails if `path` is empty, absolute, or has `..`.
fn within(layout: &Path, path: &str) -> Result<PathBuf> {
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !plain {
        bail!("`{}` leads out of the image", path.escape_default());
    }
    Ok(layout.join(path))
}

/// Name of this machine's processor architecture in images.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::process::Command;

    const HEX: [&str; 4] = ["aa01", "aa02", "aa03", "aa04"];

    fn tar(archive: &Path, folder: &Path) {
        let made = Command::new("tar").arg("-cf").arg(archive).arg("-C").arg(folder).arg(".").status().unwrap();
        assert!(made.success());
    }

    /// Creates a layout with one layer of one file; returns the temporary folder and the layout in it.
    fn layout(machine: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (layout, files) = (folder.path().join("layout"), folder.path().join("files"));
        let blobs = layout.join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        fs::create_dir_all(files.join("etc")).unwrap();
        fs::write(files.join("etc/name"), "of the image").unwrap();
        tar(&blobs.join(HEX[0]), &files);
        let digest = |n: usize| json!({ "digest": format!("sha256:{}", HEX[n]) });
        let write = |path: PathBuf, value: serde_json::Value| fs::write(path, value.to_string()).unwrap();
        write(blobs.join(HEX[1]), json!({ "architecture": machine, "config": { "Env": ["A=b"] } }));
        write(blobs.join(HEX[2]), json!({ "config": digest(1), "layers": [digest(0)] }));
        let absent = json!({ "digest": "sha256:aa09", "platform": { "architecture": architecture() } });
        let foreign = json!({ "digest": "sha256:aa01", "platform": { "architecture": "pdp11" } });
        write(blobs.join(HEX[3]), json!({ "manifests": [foreign, absent, digest(2)] }));
        write(layout.join("index.json"), json!({ "manifests": [digest(3)] }));
        (folder, layout)
    }

    fn open_path(path: &Path, into: &Path) -> Result<Image> {
        open(&ContainerImage::Path(path.into()), Path::new("/"), into)
    }

    fn check(image: &Image) {
        assert_eq!((image.environment.as_slice(), image.identity.as_str()), (&["A=b".to_string()][..], "sha256:aa02"));
        assert_eq!(fs::read_to_string(image.layers[0].join("etc/name")).unwrap(), "of the image");
    }

    #[test]
    fn layout_and_archive_are_equal() {
        let (folder, layout) = layout(architecture());
        check(&open_path(&layout, &folder.path().join("a")).unwrap());
        let archive = folder.path().join("image.tar");
        tar(&archive, &layout);
        let into = folder.path().join("b");
        check(&open_path(&archive, &into).unwrap());
        assert!(!into.join("archive").exists() && archive.exists());
    }

    #[test]
    fn image_saved_by_docker_is_read() {
        let (folder, layout) = layout(architecture());
        fs::remove_file(layout.join("index.json")).unwrap();
        let saved = |layer: &str| {
            let text = json!([{ "Config": "blobs/sha256/aa02", "Layers": [layer] }]).to_string();
            fs::write(layout.join("manifest.json"), text).unwrap();
        };
        saved("blobs/sha256/aa01");
        check(&open_path(&layout, &folder.path().join("a")).unwrap());
        saved("../../etc/shadow");
        let error = open_path(&layout, &folder.path().join("b")).unwrap_err().to_string();
        assert!(error.contains("leads out"), "{error}");
    }

    #[test]
    fn path_without_dot_gets_hint() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("into");
        let error = |name: &str| {
            let image = ContainerImage::Name(name.into());
            open(&image, folder.path(), &into).unwrap_err().to_string()
        };
        assert!(error("farlink-none.tar").contains("hint: a path begins with"));
        fs::create_dir(folder.path().join("farlink-none")).unwrap();
        let said = error("farlink-none");
        assert!(said.contains("is there") && said.contains("write image = \"./farlink-none\""), "{said}");
        assert!(!error("farlink-other").contains("write image"));
    }

    #[test]
    fn folder_of_files_is_used_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let empty = open_path(folder.path(), Path::new("/nowhere")).unwrap_err().to_string();
        assert!(empty.contains("is empty"), "{empty}");
        fs::create_dir(folder.path().join("bin")).unwrap();
        let image = open_path(folder.path(), Path::new("/nowhere")).unwrap();
        assert_eq!(image.layers, [folder.path()]);
    }

    #[test]
    fn unusable_images_are_errors() {
        let (folder, layout) = layout("pdp11");
        let error = open_path(&layout, &folder.path().join("a")).unwrap_err().to_string();
        assert!(error.contains("it is for `pdp11`"), "{error}");
        let missing = open_path(Path::new("/no/such"), folder.path()).unwrap_err().to_string();
        assert!(missing.contains("/no/such"), "{missing}");
        let archive = folder.path().join("files.tar");
        tar(&archive, &folder.path().join("files"));
        let error = open_path(&archive, &folder.path().join("b")).unwrap_err().to_string();
        assert!(error.contains("holds no image") && error.contains("hint:"), "{error}");
        for digest in ["", "sha256", "sha256:", "sha256:../x", ":aa"] {
            assert!(blob(&layout, digest).is_err(), "{digest}");
        }
    }
}
