//! `farlink node store`: the store of a stopped node, read, taken out and put back.

use crate::CliError;
use farlink_node::store::offline::{Contents, Offline};
use farlink_node::store::{owner, transfer};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What to do with a store.
#[derive(clap::Subcommand)]
pub enum Args {
    /// Say what a store holds and what of it is damaged; changes nothing. Exit 1 where something is.
    #[command(after_help = "Examples:\n  farlink node store check store\n  farlink node store check store --json")]
    Check {
        /// The folder that `[store] dir` names.
        dir: PathBuf,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Write every intact bundle of a store as files into a new folder, also of a damaged one; changes nothing in the store.
    #[command(
        after_help = "The folder gets one NUMBER.bundle for each bundle, as it goes over a wire, and index.jsonl: \
        what the store knew of each, the deliveries it remembers, its counter and node IDs.\n\n\
        To go back to an older version of the program: export with the newer one, import with the older.\n\n\
        Examples:\n  farlink node store export store saved\n  farlink bundle decode saved/00000000000000000001.bundle"
    )]
    Export {
        /// The folder that `[store] dir` names.
        dir: PathBuf,
        /// The folder to make.
        to: PathBuf,
    },
    /// Make a store of what was exported: bundles, deliveries remembered, the counter and the node IDs.
    #[command(after_help = "Examples:\n  mv store store.old\n  farlink node store import saved store")]
    Import {
        /// The folder that was exported.
        from: PathBuf,
        /// The folder of the new store.
        dir: PathBuf,
    },
}

/// Runs the subcommand.
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
    let mut places = 0;
    let mut all = Vec::new();
    for (shard, dir) in transfer::shards(dir) {
        let (mut store, found) = Offline::read(&dir)?;
        let mut broken = Vec::new();
        for bundle in &found.bundles {
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
    match places {
        0 => Ok(()),
        _ => Err(CliError::Run(anyhow::anyhow!(
            "{places} damaged places\nhint: farlink node store export saves what is intact"
        ))),
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
    formats.sort_unstable();
    formats.dedup();
    let formats: Vec<String> = formats.iter().map(ToString::to_string).collect();
    let or = |text: String, none: &str| if text.is_empty() { none.to_string() } else { text };
    println!("store          {}", dir.display());
    println!("of node        {}", or(owner.join(" "), "not said"));
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
