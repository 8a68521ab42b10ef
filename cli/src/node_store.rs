//! `farlink node store`: checks, exports and imports the store of a stopped node.

use crate::CliError;
use farlink_node::store::offline::{Contents, Offline};
use farlink_node::store::{owner, transfer};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Subcommands of `farlink node store`.
#[derive(clap::Subcommand)]
pub enum Args {
    /// Show the contents of a store and its damage, without changing it; exit 1 if it is damaged.
    #[command(after_help = "Examples:\n  farlink node store check store\n  farlink node store check store --json")]
    Check {
        /// Folder of the store, as `[store] dir` names it.
        dir: PathBuf,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Write every intact bundle of a store, damaged or not, to a new folder, without changing the store.
    #[command(after_help = "The folder gets one NUMBER.bundle per bundle, encoded as on the wire, and index.jsonl: \
        the store's data on each bundle, the deliveries it remembers, its counter and node IDs.\n\n\
        To return to an older version of the program: export with the newer one, import with the older.\n\n\
        Examples:\n  farlink node store export store saved\n  farlink bundle decode saved/00000000000000000001.bundle")]
    Export {
        /// Folder of the store, as `[store] dir` names it.
        dir: PathBuf,
        /// Folder to create.
        to: PathBuf,
    },
    /// Create a store from an export: bundles, remembered deliveries, counter and node IDs.
    #[command(after_help = "Examples:\n  mv store store.old\n  farlink node store import saved store")]
    Import {
        /// Folder of the export.
        from: PathBuf,
        /// Folder of the new store.
        dir: PathBuf,
    },
}

pub fn run(args: Args) -> Result<(), CliError> {
    match args {
        Args::Check { dir, json } => check(&dir, json),
        Args::Export { dir, to } => {
            let moved = transfer::export(&dir, &to)?;
            eprintln!("{} bundles and {} deliveries exported to {}", moved.bundles, moved.deliveries, to.display());
            if !moved.damage.is_empty() || !moved.left_out.is_empty() {
                eprintln!(
                    "warning: the store is damaged in {} places; {} bundles without their payload were left out",
                    moved.damage.len(),
                    moved.left_out.len()
                );
            }
            Ok(())
        }
        Args::Import { from, dir } => {
            let moved = transfer::import(&from, &dir)?;
            eprintln!("{} bundles and {} deliveries imported into {}", moved.bundles, moved.deliveries, dir.display());
            Ok(())
        }
    }
}

fn check(dir: &Path, as_json: bool) -> Result<(), CliError> {
    is_store(dir)?;
    // A node with several shards has a store per shard.
    let mut places = 0;
    let mut all = Vec::new();
    for (shard, dir) in transfer::shards(dir)? {
        let (mut store, found) = Offline::read(&dir)?;
        let mut broken = Vec::new();
        for bundle in &found.bundles {
            // Reading a payload verifies its checksums, also where the index is intact.
            if !store.payload(bundle, |_| Ok(()))? {
                broken.push(bundle.bundle);
            }
        }
        places += found.damage.len() + broken.len();
        let owner = owner(&dir).unwrap_or_default();
        if as_json {
            all.push(document(shard, &dir, &owner, &found, &broken));
        } else {
            print(&dir, &owner, &found, &broken);
        }
    }
    if as_json {
        println!("{}", json!({ "reads_up_to_format": farlink_node::store::FORMAT, "shards": all }));
    }
    // Exit 1 also with --json: scripts need not parse the document.
    match places {
        0 => Ok(()),
        _ => Err(CliError::Run(anyhow::anyhow!(
            "{}\nhint: `farlink node store export` saves every intact bundle",
            crate::values::counted(places as u64, "damaged place")
        ))),
    }
}

/// Refuses what is no folder, or an empty one.
fn is_store(dir: &Path) -> Result<(), CliError> {
    let bad = |why: &dyn std::fmt::Display| {
        CliError::Input(format!("{}: {why}\nhint: name the folder of a store, as `[store] dir` does", dir.display()))
    };
    match std::fs::read_dir(dir).map_err(|why| bad(&why))?.next() {
        None => Err(bad(&"is empty: there is no store")),
        Some(_) => Ok(()),
    }
}
fn document(shard: u8, dir: &Path, owner: &[String], found: &Contents, broken: &[u64]) -> serde_json::Value {
    let file = |(number, bytes, format): &(u32, u64, Option<u32>)| json!({ "number": number, "bytes": bytes, "format": format });
    let damage = |damage: &farlink_node::store::offline::Damage| json!({ "file": damage.file, "offset": damage.offset, "bytes": damage.len });
    json!({
        "shard": shard,
        "dir": dir,
        "node_ids": owner,
        "files": found.files.iter().map(file).collect::<Vec<_>>(),
        "bundles": found.bundles.len(),
        "payload_bytes": found.bundles.iter().map(|bundle| bundle.payload_len()).sum::<u64>(),
        "deliveries": found.deliveries.len(),
        "counter": found.counter,
        "last_bundle": found.last_bundle,
        "damage": found.damage.iter().map(damage).collect::<Vec<_>>(),
        "damaged_bundles": broken,
    })
}
fn print(dir: &Path, owner: &[String], found: &Contents, broken: &[u64]) {
    let bytes: u64 = found.files.iter().map(|(_, bytes, _)| bytes).sum();
    let mut formats: Vec<u32> = found.files.iter().filter_map(|(.., format)| *format).collect();
    // Files of several versions of the program may lie side by side.
    formats.sort_unstable();
    formats.dedup();
    let formats: Vec<String> = formats.iter().map(ToString::to_string).collect();
    // In a damaged store, the record of the node's IDs or the format numbers of the files may be unreadable.
    let or = |text: String, none: &str| if text.is_empty() { none.to_string() } else { text };
    println!("store          {}", dir.display());
    println!("of node        {}", or(owner.join(" "), "unknown"));
    println!("format         {}", or(formats.join(", "), "-"));
    println!("files          {} ({bytes} B)", found.files.len());
    println!("bundles        {}", found.bundles.len());
    println!("deliveries     {}", found.deliveries.len());
    println!("damage         {}", found.damage.len() + broken.len());
    for damage in &found.damage {
        println!("  {} from {}: {} B", damage.file.display(), damage.offset, damage.len);
    }
    for bundle in broken {
        println!("  payload of bundle {bundle}");
    }
}
