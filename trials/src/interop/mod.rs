//! `cargo xtask interop`: exchanges bundles with independent implementations over every shared layer, as their users
//! run them. Each peer has a file; `trial.rs` holds the trials of all peers, `peer.rs` the interface of a peer. Peers
//! come from their registries, once, into `target/interop`.

mod aap2;
mod capture;
mod cbor;
mod dtn7;
mod dtn7_go;
mod enclosed;
mod found;
mod hardy;
mod hdtn;
mod hdtn_json;
mod install;
mod ion;
mod ion_custody;
mod ion_rc;
mod ion_secured;
mod load;
mod matrix;
mod node;
mod peer;
mod places;
mod process;
mod pyd3tn;
mod relay;
mod trial;
mod ud3tn;
mod wireshark;

use crate::harness::build;
use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use matrix::Row;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trial::Size;

/// The chore `cargo xtask interop`.
pub const CHORE: Chore = Chore {
    name: "interop",
    usage: "[--smoke] [--only PEER,...] [--bundles N]",
    help: "Bundles to and from other implementations over every layer shared: all must arrive.

  --only PEERS    some of aap2 (tools of µD3TN), pyd3tn, wireshark, dtn7, hardy, and of those that are installed
                  by hand: ion, ion-bpv6, ion-bpsec, ud3tn, dtn7-go, hdtn; with commas
  --bundles N     bundles in each direction over each layer, of 1 B to 1 MB (1000)
  --seconds N     the longest wait for the next bundle (30)
  --write         puts what was seen into docs/reference/interop.md; peers not tried now keep their rows
  --smoke         20 small bundles in each direction; only peers that pip installs or that are there

With each peer and layer: pings both ways, bundles of mixed sizes both ways with reports of their delivery,
one of 50 MB, and either side killed and started again in the middle. The first run installs and builds
the peers into target/interop, which takes minutes and the network; removing that folder forgets them.
FARLINK_BIN names a node to test instead of building one. FARLINK_PEERS names the folder of what is
installed by hand: folders of these names in it hold the programs; else the PATH.

Examples:
  cargo xtask interop --write
  cargo xtask interop --smoke
  FARLINK_BIN=target/release/farlink cargo xtask interop --only dtn7,hardy --bundles 100

Exit status 0: everything arrived; 1: something did not, or a peer could not be installed.",
    run,
};

/// Extent of the trials without `--smoke`.
const FULL: Size =
    Size { bundles: 1_000, across_restarts: 200, largest: 1_000_000, once: true, patience: Duration::from_secs(30) };
/// Extent of the trials with `--smoke`.
const SMOKE: Size =
    Size { bundles: 20, across_restarts: 0, largest: 10_000, once: false, patience: Duration::from_secs(30) };
const PEERS: [&str; 11] =
    ["aap2", "pyd3tn", "wireshark", "dtn7", "hardy", "ion", "ion-bpv6", "ion-bpsec", "ud3tn", "dtn7-go", "hdtn"];

/// Parsed arguments of the chore.
struct InteropRequest<'a> {
    peers: Vec<&'a str>,
    size: Size,
    smoke: bool,
    write: bool,
}

fn asked(words: &[String]) -> Result<InteropRequest<'_>> {
    let mut arguments = tools::Arguments::new(words);
    let (smoke, write) = (arguments.flag("--smoke"), arguments.flag("--write"));
    let size = if smoke { SMOKE } else { FULL };
    let bundles = arguments.number("--bundles", size.bundles as u64)?.clamp(1, 100_000) as usize;
    let patience = Duration::from_secs(arguments.number("--seconds", size.patience.as_secs())?);
    let peers: Vec<&str> = arguments.word("--only")?.map_or(PEERS.to_vec(), |only| only.split(',').collect());
    if let Some(word) = arguments.rest()?.first() {
        bail!("`{word}` is not an option of interop; see `cargo xtask interop --help`");
    }
    // Unknown names are refused before anything is installed or built.
    if let Some(peer) = peers.iter().find(|peer| !PEERS.contains(peer)) {
        bail!("`{peer}` is not a peer; hint: --only with some of {}", PEERS.join(","));
    }
    if smoke && write {
        bail!("the page shows whole runs; hint: --write without --smoke");
    }
    Ok(InteropRequest { peers, size: Size { bundles, patience, ..size }, smoke, write })
}

fn run(arguments: &[String]) -> Result<()> {
    let asked = asked(arguments)?;
    let cache = install::cache()?;
    // Peers are installed first, so that a missing one fails before long trials.
    let found: Vec<(&str, Result<PathBuf>)> =
        asked.peers.iter().map(|peer| (*peer, find(peer, &cache, asked.smoke))).collect();
    let binary = std::path::absolute(build()?)?;
    let dir = std::env::temp_dir().join(format!("farlink-interop-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    println!("interop: {} in {}", binary.display(), dir.display());
    let mut rows = Vec::new();
    for (peer, place) in found {
        let tried = match (peer, place) {
            (_, Err(why)) if asked.smoke => Ok(vec![Row::left_out(peer, "-", format!("{why:#}"))]),
            ("wireshark", Err(why)) => Ok(vec![Row::left_out(peer, "-", format!("{why:#}"))]),
            (_, Err(why)) => Err(why),
            ("aap2", Ok(place)) => aap2::trials(&dir, &binary, &place, asked.size),
            ("pyd3tn", Ok(place)) => pyd3tn::trials(&dir, &binary, &place, asked.size),
            ("wireshark", Ok(place)) => wireshark::trials(&dir, &binary, &place, asked.size),
            ("dtn7", Ok(place)) => dtn7::trials(&dir, &binary, &place, asked.size),
            ("ion", Ok(_)) => ion::trials(&dir, &binary, asked.size),
            ("ion-bpv6", Ok(_)) => ion::trials_of_version_6(&dir, &binary, asked.size),
            ("ion-bpsec", Ok(_)) => ion::trials_secured(&dir, &binary, asked.size),
            ("ud3tn", Ok(_)) => ud3tn::trials(&dir, &binary, asked.size),
            ("dtn7-go", Ok(_)) => dtn7_go::trials(&dir, &binary, asked.size),
            ("hdtn", Ok(_)) => hdtn::trials(&dir, &binary, asked.size),
            (_, Ok(place)) => hardy::trials(&dir, &binary, &place, asked.size),
        };
        // An error fails one peer, not the run.
        rows.extend(tried.unwrap_or_else(|why| {
            vec![Row { failed: Some(format!("{why:#}")), left_out: false, ..Row::left_out(peer, "-", "") }]
        }));
    }
    print!("\n{}", matrix::table(&rows));
    if asked.write {
        matrix::write(&rows)?;
    }
    let failed = rows.iter().filter(|row| row.failed.is_some()).count();
    if failed > 0 {
        bail!("{failed} of {} failed; configurations and logs are in {}", rows.len(), dir.display());
    }
    fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Folder of a peer's programs, installed now if necessary; a smoke run installs only peers that take seconds.
fn find(peer: &str, cache: &Path, smoke: bool) -> Result<PathBuf> {
    let there = |place: Option<PathBuf>| {
        place.ok_or_else(|| anyhow::anyhow!("not built here; `cargo xtask interop --only {peer}` does it, in minutes"))
    };
    match peer {
        "aap2" | "pyd3tn" => install::ud3tn_utils(cache),
        "wireshark" => install::on_path("tshark").context("no `tshark` here; apt-get install tshark"),
        "dtn7" if smoke => there(install::dtn7_there(cache)),
        "dtn7" => install::dtn7(cache),
        // An earlier build is brought up to date, in seconds.
        "hardy" if smoke => there(install::hardy_there(cache)).and_then(|_| install::hardy(cache)),
        "hardy" => install::hardy(cache),
        // The other peers are installed by hand; their trials search for the programs.
        _ => Ok(PathBuf::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        run(&words).unwrap_err().to_string()
    }

    #[test]
    fn unknown_arguments_are_refused_first() {
        assert!(refused(&["--only", "dtn8"]).contains("`dtn8` is not a peer"));
        assert!(refused(&["--only", "dtn7,"]).contains("is not a peer"));
        assert!(refused(&["--fast", "1"]).contains("--fast"));
        assert!(refused(&["all"]).contains("`all` is not an option"));
        assert!(refused(&["--smoke", "--write"]).contains("whole runs"));
    }

    #[test]
    fn run_sizes_match_the_page() {
        let smoke = ["--smoke".to_string()];
        let smoke = asked(&smoke).unwrap();
        assert!(smoke.size.bundles <= 20 && !smoke.size.once && smoke.size.across_restarts == 0);
        let whole = asked(&[]).unwrap();
        assert_eq!((whole.size.bundles, whole.size.largest, whole.peers.len()), (1_000, 1_000_000, PEERS.len()));
        let few = ["--bundles", "0", "--only", "hardy,dtn7"].map(String::from);
        let few = asked(&few).unwrap();
        assert_eq!((few.size.bundles, few.peers), (1, vec!["hardy", "dtn7"]));
    }
}
