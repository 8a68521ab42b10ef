//! Nodes in containers in the testbed, end to end, from an image made here. Skipped without isolation or OCI runtime.

use crate::testbed::{self, FARLINK};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCENARIO: &str = r#"
name = "containers"
duration = "20 s"
[[node]]
name = "boxed"
id = "ipn:1.0"
store = "durable"
host = { kind = "container", image = "IMAGE" }
[[node]]
name = "plain"
id = "ipn:2.0"
[[link]]
name = "air"
between = ["boxed", "plain"]
layer = "tcpclv4"
delay = "5 ms"
rate = "50 Mbit/s"
[[traffic]]
name = "there"
from = "boxed"
to = "plain"
file = { size = "200 kB", bundle_size = "50 kB" }
[[traffic]]
name = "back"
from = "plain"
to = "boxed"
file = { size = "100 kB", bundle_size = "20 kB" }
"#;

/// Whether containers work here; prints the reason if not.
fn possible() -> bool {
    let findings = testbed::doctor();
    let check = findings["checks"].as_array().unwrap().iter().find(|check| check["name"] == "containers").unwrap();
    let possible = findings["lab"] == true && check["outcome"] == "yes";
    if !possible {
        println!("skipped: {}", check["found"]);
    }
    possible
}

fn folder(name: &str) -> PathBuf {
    testbed::empty_folder(&format!("containers-{name}"))
}

/// An archive like those of Podman and Docker, whose only layer has one file.
fn make_archive(folder: &Path) {
    let layout = folder.join("layout");
    let blobs = layout.join("blobs/sha256");
    for path in [&blobs, &folder.join("files/etc")] {
        fs::create_dir_all(path).unwrap();
    }
    fs::write(folder.join("files/etc/motd"), "an image without programs").unwrap();
    let tar = |archive: &Path, from: &Path| {
        assert!(Command::new("tar").arg("-cf").arg(archive).arg("-C").arg(from).arg(".").status().unwrap().success());
    };
    tar(&blobs.join("01"), &folder.join("files"));
    let digest = |digest: &str| json!({ "digest": format!("sha256:{digest}") });
    fs::write(blobs.join("02"), json!({ "config": {} }).to_string()).unwrap();
    fs::write(blobs.join("03"), json!({ "config": digest("02"), "layers": [digest("01")] }).to_string()).unwrap();
    fs::write(layout.join("index.json"), json!({ "manifests": [digest("03")] }).to_string()).unwrap();
    tar(&folder.join("image.tar"), &layout);
    fs::remove_dir_all(&layout).unwrap();
}

fn run(folder: &Path, scenario: &str) -> (bool, Value, String) {
    fs::write(folder.join("scenario.toml"), scenario).unwrap();
    let mut command = Command::new(FARLINK);
    command.current_dir(folder).args(["run", "scenario.toml", "--in", "lab", "--json", "--force", "--out", "run"]);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), serde_json::from_slice(&output.stdout).unwrap_or_default(), errors)
}

#[test]
fn container_and_namespace_exchange_bundles() {
    if !possible() {
        return;
    }
    let folder = folder("both");
    make_archive(&folder);
    let (succeeded, result, errors) = run(&folder, &SCENARIO.replace("IMAGE", "./image.tar"));
    assert!(succeeded, "{errors}");
    assert_eq!((result["created"].as_u64(), result["delivered"].as_u64()), (Some(9), Some(9)), "{result}");
    let manifest: Value = serde_json::from_slice(&fs::read(folder.join("run/manifest.json")).unwrap()).unwrap();
    let files = manifest["files"].as_array().unwrap();
    assert!(files.iter().all(|file| file["sent_checksum"] == file["received_checksum"]), "{manifest}");
    let notes = manifest["validity"]["notes"].to_string();
    assert!(notes.contains("Node boxed ran in a container of the image `./image.tar` (sha256:02)"), "{notes}");
    let roles = manifest["roles"].to_string();
    assert!(roles.contains("boxed") && roles.contains("plain"), "{roles}");
    assert!(folder.join("run/nodes/boxed/node.log").exists() && !folder.join("run/containers").exists());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn killed_container_node_starts_again() {
    if !possible() {
        return;
    }
    let folder = folder("restart");
    fs::create_dir_all(folder.join("root/etc")).unwrap();
    let restart = "[[fault]]\nkind = \"restart\"\nnode = \"boxed\"\nat = \"2 s\"\nlasts = \"1 s\"\n\
                   [[traffic]]\nname = \"later\"\nfrom = \"boxed\"\nto = \"plain\"\nstart = \"6 s\"\n\
                   bundles = { count = 3, size = \"1 kB\" }\n";
    let there = SCENARIO.find("[[traffic]]").unwrap()..SCENARIO.rfind("[[traffic]]").unwrap();
    let (succeeded, result, errors) =
        run(&folder, &SCENARIO.replace(&SCENARIO[there], restart).replace("IMAGE", "./root"));
    assert!(succeeded, "{errors}");
    assert_eq!(result["delivered"].as_u64(), Some(5 + 3), "{result}");
    assert!(folder.join("run/nodes/boxed/node-2.log").exists());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn unusable_image_is_explained() {
    if !possible() {
        return;
    }
    let folder = folder("unusable");
    for (image, said) in [("./nothing", "nothing"), ("localhost/farlink-no-such-image", "hint:")] {
        let (succeeded, _, errors) = run(&folder, &SCENARIO.replace("IMAGE", image));
        let names = format!("the container image `{image}` of node `boxed`");
        assert!(!succeeded && errors.contains(&names) && errors.contains(said), "{errors}");
        assert!(!folder.join("run/containers").exists());
    }
    fs::remove_dir_all(&folder).unwrap();
}
